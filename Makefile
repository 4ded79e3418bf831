# SPDX-License-Identifier: GPL-2.0
# The verbs of rmlx5. Everything is built in a Debian root that `make prepare` keeps in the XDG cache.

.PHONY: help prepare
.DEFAULT_GOAL := help
.NOTPARALLEL:

RMLX5_T0 := $(shell date +%s)
export RMLX5_T0

hw := build/hw/mlx5_hw_bindings.rs
in-root := scripts/in-root

help: ## list the verbs
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

prepare: ## Debian root, prepared kernel, generated layouts (cached)
	@scripts/root build
	@scripts/kernel build
	@scripts/layouts $(hw)
