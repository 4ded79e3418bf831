# SPDX-License-Identifier: Apache-2.0 OR MIT
# A virtual function is refused, also when a person insists: ENODEV, one line, and the card is not touched.
. ./ktap.sh
. ./core.subr

suite_teardown() { unload; }

# The first device of the vendor; its id is in no table of this driver.
virtual() { lspci -Dn -d 15b3: | awk 'NR == 1 { print $1 }'; }
insert() {
	[ -d /sys/module/rmlx5 ] && return 0
	modprobe ib_uverbs
	if [ -n "$RMLX5_KO" ]; then insmod "$RMLX5_KO"; else modprobe rmlx5; fi
}

test_not_in_the_table() {
	insert
	vf=$(virtual)
	[ -n "$vf" ] || skip "no card"
	[ ! -e "$PCI/devices/$vf/driver" ] || fail "bound to $(cat "$PCI/devices/$vf/device")"
}

test_refused_by_override() {
	insert
	vf=$(virtual)
	before=$(host card 0 counters)
	log_mark virtual
	echo rmlx5 >"$PCI/devices/$vf/driver_override"
	text=$( { env echo "$vf" >$PCI/drivers/rmlx5/bind; } 2>&1 ) && fail "bound to $vf"
	echo >"$PCI/devices/$vf/driver_override"
	echo "$text"
	like "$text" 'No such device' "what bind says"
	log_since virtual
	expect lines 1 "$(log_count virtual "$vf")"
	expect reasons 1 "$(log_count virtual "rmlx5 $vf: virtual functions .0x101e. are not supported")"
	[ ! -e "$PCI/devices/$vf/driver" ] || fail "bound all the same"
	expect "counters of the card" "$before" "$(host card 0 counters)"
}

ktap_main "$@"
