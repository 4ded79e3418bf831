#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Binding and letting go, by every way a person may choose.
. "$(dirname "$0")/core.lib"

by_id_table() {
	fresh && alive
}

unbind_and_bind() {
	fresh || return
	for _ in 1 2 3 4 5; do
		echo "$BDF" >$PCI/drivers/rmlx5/unbind
		[ -z "$(driver)" ] || fail "still bound" || return
		[ ! -e "$DEV/rmlx5" ] || fail "files left after unbind" || return
		echo "$BDF" >$PCI/drivers/rmlx5/bind || return
		alive || return
	done
}

by_override() {
	fresh || return
	echo "$BDF" >$PCI/drivers/rmlx5/unbind
	echo rmlx5 >"$DEV/driver_override"
	echo "$BDF" >$PCI/drivers/rmlx5/bind
	code=$?
	echo >"$DEV/driver_override"
	expect "bind" 0 $code && alive
}

# A device of another vendor is refused without being touched: ENODEV and one line.
foreign_refused() {
	fresh || return
	for other in "$PCI"/devices/*; do
		[ ! -e "$other/driver" ] && [ "$(cat "$other/vendor")" != 0x15b3 ] && break
		other=
	done
	[ -n "$other" ] || skip "no free device of another vendor" || return
	name=$(basename "$other")
	log_mark foreign
	echo rmlx5 >"$other/driver_override"
	echo "$name" >$PCI/drivers/rmlx5/bind 2>/dev/null
	code=$?
	echo >"$other/driver_override"
	[ $code -ne 0 ] || fail "bound to $name" || return
	expect lines 1 "$(log_since foreign | grep -c "rmlx5 $name")"
}

files() {
	fresh || return
	for name in link mps mrrs state health resets; do
		[ -n "$(attr $name)" ] || fail "$name is empty" || return
		expect "mode of $name" 444 "$(stat -c %a "$DEV/rmlx5/$name")" || return
	done
	expect resets 0 "$(attr resets)"
}

# After unload nothing of the driver is left, and it says so itself.
unload_is_clean() {
	fresh || return
	log_mark clean
	unload || return
	[ ! -e $DBG ] || fail "debugfs left" || return
	[ -z "$(vectors)" ] || fail "interrupts left" || return
	leaks=$(log_since clean | grep -c leak:)
	expect leaks 0 "$leaks"
}

run by_id_table by_id_table \
	unbind_and_bind unbind_and_bind \
	by_override by_override \
	foreign_refused foreign_refused \
	files files \
	unload_is_clean unload_is_clean
