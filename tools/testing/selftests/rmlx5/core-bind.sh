# SPDX-License-Identifier: Apache-2.0 OR MIT
# Binding and letting go, by every way a person may choose.
. ./ktap.sh
. ./core.subr

suite_setup() { core_setup; }
suite_teardown() { unload; }

test_by_id_table() {
	fresh && alive
}

test_unbind_and_bind() {
	fresh
	for _ in 1 2 3 4 5; do
		echo "$BDF" >$PCI/drivers/rmlx5/unbind
		[ -z "$(driver)" ] || fail "still bound"
		[ ! -e "$DEV/rmlx5" ] || fail "files left after unbind"
		echo "$BDF" >$PCI/drivers/rmlx5/bind
		alive
	done
}

test_by_override() {
	fresh
	echo "$BDF" >$PCI/drivers/rmlx5/unbind
	echo rmlx5 >"$DEV/driver_override"
	code=0
	echo "$BDF" >$PCI/drivers/rmlx5/bind || code=$?
	echo >"$DEV/driver_override"
	expect bind 0 $code
	alive
}

# A device of another vendor is refused without being touched: ENODEV and one line.
test_foreign_refused() {
	fresh
	for other in "$PCI"/devices/*; do
		[ ! -e "$other/driver" ] && [ "$(cat "$other/vendor")" != 0x15b3 ] && break
		other=
	done
	[ -n "$other" ] || skip "no free device of another vendor"
	name=$(basename "$other")
	log_mark foreign
	echo rmlx5 >"$other/driver_override"
	code=0
	echo "$name" >$PCI/drivers/rmlx5/bind 2>/dev/null || code=$?
	echo >"$other/driver_override"
	[ $code -ne 0 ] || fail "bound to $name"
	expect lines 1 "$(log_count foreign "rmlx5 $name")"
}

test_files() {
	fresh
	for name in link mps mrrs state health resets; do
		[ -n "$(attr $name)" ] || fail "$name is empty"
		expect "mode of $name" 444 "$(stat -c %a "$DEV/rmlx5/$name")"
	done
	expect resets 0 "$(attr resets)"
}

# After unload nothing of the driver is left, and it says so itself.
test_unload_is_clean() {
	fresh
	log_mark clean
	unload
	[ ! -e $DBG ] || fail "debugfs left"
	[ -z "$(vectors)" ] || fail "interrupts left"
	expect leaks 0 "$(log_count clean leak:)"
}

ktap_main "$@"
