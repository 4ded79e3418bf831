#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# MPS and MRRS: raised by the rules, shown, and put back.
. "$(dirname "$0")/core.lib"

# size_of BDF OFFSET-IN-DEVCTL: MPS is bits 7:5 (shift 5), MRRS bits 14:12 (shift 12).
devctl_size() {
	word=$((0x$(setpci -s "$1" CAP_EXP+8.w)))
	echo $((128 << (word >> $2 & 7)))
}

mrrs_raised() {
	fresh || return
	expect "MRRS in sysfs" 4096 "$(attr mrrs)" &&
		expect "MRRS in the card" 4096 "$(devctl_size "$BDF" 12)"
}

mps_rule() {
	fresh || return
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

bridge_untouched() {
	above=$(bridge) || skip "card is on a root bus" || return
	unload || return
	before=$(devctl_size "$above" 5)
	load || return
	expect "MPS of $above" "$before" "$(devctl_size "$above" 5)"
}

restored() {
	unload || return
	mps=$(devctl_size "$BDF" 5)
	mrrs=$(devctl_size "$BDF" 12)
	[ "$mrrs" -ne 4096 ] || skip "MRRS is 4096 from the start" || return
	load || return
	unload || return
	expect MPS "$mps" "$(devctl_size "$BDF" 5)" &&
		expect MRRS "$mrrs" "$(devctl_size "$BDF" 12)"
}

kept_over_reset() {
	fresh || return
	mps=$(attr mps)
	echo 1 >"$DEV/reset" || return
	expect MRRS 4096 "$(devctl_size "$BDF" 12)" && expect MPS "$mps" "$(attr mps)"
}

report_line() {
	log_mark report
	fresh || return
	expect lines 1 "$(log_since report | grep -c "rmlx5 $BDF: link .*MPS .*MRRS ")"
}

command -v setpci >/dev/null || { echo "1..0 # SKIP no setpci"; exit 4; }
run mrrs_raised mrrs_raised \
	mps_rule mps_rule \
	bridge_untouched bridge_untouched \
	restored restored \
	kept_over_reset kept_over_reset \
	report_line report_line
