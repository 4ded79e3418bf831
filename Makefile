# SPDX-License-Identifier: GPL-2.0
# The verbs of rmlx5. Everything is built in a Debian root that `make prepare` keeps in the XDG cache.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run prepare tools modules kernel-tests install test bench fuzz shell check clean

RMLX5_T0 := $(shell date +%s)
export RMLX5_T0

layouts := build/hw/mlx5_hw_bindings.rs
in-root := scripts/in-root
vm := $(in-root) build/target/debug/vm $(if $(KVM),--kvm) $(if $(V),--verbose)

help: ## list the verbs
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

prepare: ## Debian root, prepared kernel, generated layouts (cached)
	@scripts/root build
	@scripts/kernel build
	@scripts/layouts $(layouts)

tools: prepare
	@scripts/host-tools

modules: prepare ## build/rmlx5.ko; KDIR=tree for another kernel
	@scripts/modules $(KDIR)

kernel-tests: prepare
	@scripts/kernel-tests

install: ## build/rmlx5.ko to /lib/modules, not loaded by itself; DESTDIR=
	@scripts/install $(DESTDIR)

run: tools modules ## the main job: driver, emulated card, verified RDMA traffic, recovery, a summary
	@$(vm) --results build/run show --module --vcpus 4 --timeout 600 run.sh

test: tools modules kernel-tests ## all tests; T=suite or T='suite/case*' a part, T=list shows, V=1 consoles, STRICT=1 no second tries, KVM=1
	@$(vm) test $(if $(STRICT),--strict) "$(T)"

bench: tools modules ## what a bind, packets and verbs cost with rmlx5 and the stock driver, and data on the card and on rdma_rxe; B=bind, data, net or verbs
	@$(vm) bench $(B)

fuzz: prepare ## random input for cxemu, with executions and seed; T=target SECONDS=60 SEED=
	@cd tools && ../$(in-root) cargo run --quiet --release --locked --target-dir ../build/target -p fuzz -- $(T) \
		--seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED)) --artifacts ../build

shell: tools ## a shell in a guest with a card; ARGS='--module --profile small --no-card'
	@$(vm) shell $(ARGS)

check: prepare ## formats, lints, layers, licences, ABI files; C=name one of them
	@scripts/check $(C)

clean: ## remove what was built here (the cache stays)
	@rm -rf build
