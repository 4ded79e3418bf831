#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Errors and resets: the device comes back, in bounded time, with everything it had.
. "$(dirname "$0")/core.lib"

# Upper bounds of the callbacks in microseconds of guest time. Without exact virtual time they are
# printed and fail only at ten times the bound.
BOUND_DETECTED=100000
BOUND_RESET=2000000
BOUND_RESUME=2000000

# inject BDF UNCORRECTABLE CORRECTABLE: one error through aer_inject (struct aer_error_inj).
inject() {
	modprobe aer_inject 2>/dev/null
	[ -c /dev/aer_inject ] || skip "no aer_inject" || return
	inject_domain=$((0x${1%%:*}))
	inject_rest=${1#*:}
	inject_bus=$((0x${inject_rest%%:*}))
	inject_rest=${inject_rest#*:}
	inject_slot=$((0x${inject_rest%%.*}))
	inject_fn=${inject_rest#*.}
	{
		bytes 1 $inject_bus $inject_slot "$inject_fn" 0
		bytes 4 "$2" "$3" 0 0 0 0 $inject_domain
	} >/tmp/aer.$$
	# The device wants the structure in one write.
	dd if=/tmp/aer.$$ of=/dev/aer_inject bs=32 count=1 2>/dev/null || fail "aer_inject refused"
}

# bytes SIZE VALUE...: little endian binary.
bytes() {
	bytes_size=$1
	shift
	for bytes_value in "$@"; do
		bytes_at=0
		while [ $bytes_at -lt "$bytes_size" ]; do
			# shellcheck disable=SC2059
			printf "\\$(printf %03o $((bytes_value >> (8 * bytes_at) & 255)))"
			bytes_at=$((bytes_at + 1))
		done
	done
}

within() {
	time=$(stat_of "callback.$1.max_us")
	echo "# $1 took at most $time us, bound $2 us"
	[ "$time" -gt 0 ] || fail "$1 did not run" || return
	[ "$time" -le $(($2 * 10)) ] || fail "$1 took $time us"
}

# back RESETS: the device is up again after so many resets, with its vectors and pages.
back() {
	until_is 30 "$1" attr resets && until_is 10 up attr state && alive || return
	expect vectors "$vectors_before" "$(vectors)" || return
	expect pages "$pages_before" "$(stat_of pages.given)"
}

remember() {
	fresh || return
	vectors_before=$(vectors)
	pages_before=$(stat_of pages.given)
}

correctable() {
	remember || return
	inject "$BDF" 0 0x1 || return
	sleep 1
	alive && expect resets 0 "$(attr resets)"
}

nonfatal() {
	remember || return
	inject "$BDF" 0x4000 0 || return
	until_is 10 1 stat_of aer.nonfatal || return
	alive && expect resets 0 "$(attr resets)" && within error_detected $BOUND_DETECTED
}

fatal() {
	remember || return
	inject "$BDF" 0x10 0 || return
	back 1 && within error_detected $BOUND_DETECTED &&
		within slot_reset $BOUND_RESET && within resume $BOUND_RESUME
}

fatal_at_root_port() {
	above=$(bridge) || skip "card is on a root bus" || return
	remember || return
	inject "$above" 0x10 0 || return
	back 1
}

fifty_fatal() {
	remember || return
	objects=$(grep ^objects "$DBG/$BDF/stats")
	n=0
	while [ $n -lt 50 ]; do
		n=$((n + 1))
		inject "$BDF" 0x10 0 || return
		back $n || return
	done
	expect objects "$objects" "$(grep ^objects "$DBG/$BDF/stats")"
}

function_reset() {
	remember || return
	n=0
	for method in $(cat "$DEV/reset_method"); do
		echo "$method" >"$DEV/reset_method" || return
		n=$((n + 1))
		echo 1 >"$DEV/reset" || fail "reset by $method failed" || return
		back $n || return
		echo "# $method works"
	done
	echo default >"$DEV/reset_method"
	within reset_prepare $BOUND_DETECTED && within reset_done $BOUND_RESET
}

# The status registers are clean afterwards, so that nobody is blamed for an old error.
status_cleared() {
	command -v setpci >/dev/null || skip "no setpci" || return
	remember || return
	inject "$BDF" 0x10 0 || return
	back 1 || return
	expect "uncorrectable status" 00000000 "$(setpci -s "$BDF" ECAP_AER+4.l)"
}

run correctable correctable \
	nonfatal nonfatal \
	fatal fatal \
	fatal_at_root_port fatal_at_root_port \
	fifty_fatal fifty_fatal \
	function_reset function_reset \
	status_cleared status_cleared
