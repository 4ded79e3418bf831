# SPDX-License-Identifier: Apache-2.0 OR MIT
# Errors and resets: the device comes back, in bounded time, with everything it had.
. ./ktap.sh
. ./core.subr

suite_setup() { core_setup; }
suite_teardown() { unload; }

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
	n=0
	while [ $n -lt 50 ]; do
		n=$((n + 1))
		inject "$BDF" 0x10 0
		back $n
		# QP 1 has a domain of its own from the first reset on; what the RDMA core holds of the first life is void.
		[ $n != 1 ] || objects=$(grep ^objects "$DBG/$BDF/stats")
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

# A card that does not come back does not reach memory: the configuration that is restored behind the reset is that of a
# card in use.
test_failed_reset_leaves_no_master() {
	remember
	# CREATE_EQ is 0x301.
	host card 0 inject fail-command status=8 opcode=0x301 count=1 >/dev/null
	inject "$BDF" 0x10 0
	until_is 30 dead attr state || fail "state is $(attr state)"
	expect master false "$(host card 0 bus | sed -n 's/.*"bus_master": *\([a-z]*\).*/\1/p')"
	echo "$BDF" >"$DEV/driver/unbind"
	echo "$BDF" >$PCI/drivers/rmlx5/bind
	alive
	expect master true "$(host card 0 bus | sed -n 's/.*"bus_master": *\([a-z]*\).*/\1/p')"
}

# The status registers are clean afterwards, so that nobody is blamed for an old error.
test_status_cleared() {
	remember
	inject "$BDF" 0x10 0
	back 1
	expect "uncorrectable status" 00000000 "$(setpci -s "$BDF" ECAP_AER+4.l)"
}

ktap_main "$@"
