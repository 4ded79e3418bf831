# SPDX-License-Identifier: Apache-2.0 OR MIT
# Errors and resets: the device comes back, in bounded time, with everything it had.
. ./ktap.sh
. ./core.subr

suite_setup() { core_setup; }
suite_teardown() { unload; }

# Upper bounds of the callbacks in microseconds of guest time. Without exact virtual time they are
# printed and fail only at ten times the bound.
BOUND_DETECTED=100000
BOUND_RESET=2000000
BOUND_RESUME=2000000

# inject BDF UNCORRECTABLE CORRECTABLE: one error through aer_inject (struct aer_error_inj).
inject() {
	modprobe aer_inject 2>/dev/null || true
	[ -c /dev/aer_inject ] || skip "no aer_inject"
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

bounded() {
	time=$(stat_of "callback.$1.max_us")
	note "$1 took at most $time us, bound $2 us"
	[ "$time" -gt 0 ] || fail "$1 did not run"
	[ "$time" -le $(($2 * 10)) ] || fail "$1 took $time us"
}

# back RESETS: the device is up again after so many resets, with its vectors and pages.
back() {
	until_is 30 "$1" attr resets && until_is 10 up attr state && alive
	expect vectors "$vectors_before" "$(vectors)"
	expect pages "$pages_before" "$(stat_of pages.given)"
}

remember() {
	fresh
	vectors_before=$(vectors)
	pages_before=$(stat_of pages.given)
}

test_correctable() {
	remember
	inject "$BDF" 0 0x1
	sleep 1
	alive && expect resets 0 "$(attr resets)"
}

test_nonfatal() {
	remember
	inject "$BDF" 0x4000 0
	until_is 10 1 stat_of aer.nonfatal
	alive && expect resets 0 "$(attr resets)" && bounded error_detected $BOUND_DETECTED
}

test_fatal() {
	remember
	inject "$BDF" 0x10 0
	back 1 && bounded error_detected $BOUND_DETECTED &&
		bounded slot_reset $BOUND_RESET && bounded resume $BOUND_RESUME
}

test_fatal_at_root_port() {
	above=$(bridge) || skip "card is on a root bus"
	remember
	inject "$above" 0x10 0
	back 1
}

test_fifty_fatal() {
	remember
	objects=$(grep ^objects "$DBG/$BDF/stats")
	n=0
	while [ $n -lt 50 ]; do
		n=$((n + 1))
		inject "$BDF" 0x10 0
		back $n
	done
	expect objects "$objects" "$(grep ^objects "$DBG/$BDF/stats")"
}

test_function_reset() {
	remember
	n=0
	for method in $(cat "$DEV/reset_method"); do
		echo "$method" >"$DEV/reset_method"
		n=$((n + 1))
		echo 1 >"$DEV/reset" || fail "reset by $method failed"
		back $n
		note "$method works"
	done
	echo default >"$DEV/reset_method"
	bounded reset_prepare $BOUND_DETECTED && bounded reset_done $BOUND_RESET
}

# The status registers are clean afterwards, so that nobody is blamed for an old error.
test_status_cleared() {
	remember
	inject "$BDF" 0x10 0
	back 1
	expect "uncorrectable status" 00000000 "$(setpci -s "$BDF" ECAP_AER+4.l)"
}

ktap_main "$@"
