# SPDX-License-Identifier: Apache-2.0 OR MIT
# MPS and MRRS: raised by the rules, shown, and put back.
. ./ktap.sh
. ./core.subr

suite_setup() { core_setup; }
suite_teardown() { unload; }

# size_of BDF OFFSET-IN-DEVCTL: MPS is bits 7:5 (shift 5), MRRS bits 14:12 (shift 12).
devctl_size() {
	word=$((0x$(setpci -s "$1" CAP_EXP+8.w)))
	echo $((128 << (word >> $2 & 7)))
}

test_mrrs_raised() {
	fresh
	expect "MRRS in sysfs" 4096 "$(attr mrrs)" &&
		expect "MRRS in the card" 4096 "$(devctl_size "$BDF" 12)"
}

test_mps_rule() {
	fresh
	own=$((128 << (0x$(setpci -s "$BDF" CAP_EXP+4.l) & 7)))
	if above=$(bridge); then
		path=$(devctl_size "$above" 5)
	else
		path=$own
	fi
	want=$((path < own ? path : own))
	expect "MPS in sysfs" $want "$(attr mps)" &&
		expect "MPS in the card" $want "$(devctl_size "$BDF" 5)"
}

test_bridge_untouched() {
	above=$(bridge) || skip "card is on a root bus"
	unload
	before=$(devctl_size "$above" 5)
	load
	expect "MPS of $above" "$before" "$(devctl_size "$above" 5)"
}

test_restored() {
	unload
	mps=$(devctl_size "$BDF" 5)
	mrrs=$(devctl_size "$BDF" 12)
	[ "$mrrs" -ne 4096 ] || skip "MRRS is 4096 from the start"
	load
	unload
	expect MPS "$mps" "$(devctl_size "$BDF" 5)" &&
		expect MRRS "$mrrs" "$(devctl_size "$BDF" 12)"
}

test_kept_over_reset() {
	fresh
	mps=$(attr mps)
	echo 1 >"$DEV/reset"
	expect MRRS 4096 "$(devctl_size "$BDF" 12)" && expect MPS "$mps" "$(attr mps)"
}

test_report_line() {
	log_mark report
	fresh
	expect lines 1 "$(log_count report "rmlx5 $BDF: link .*MPS .*MRRS ")"
}

ktap_main "$@"
