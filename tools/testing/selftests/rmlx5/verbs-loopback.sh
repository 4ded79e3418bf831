# SPDX-License-Identifier: Apache-2.0 OR MIT
# Verbs programs that nobody here wrote, both ends on one card.
. ./ktap.sh
. ./core.subr
. ./stock.subr
. ./wire.subr
. ./verbs.subr

suite_setup() {
	core_setup
	verbs_up $here
	verbs_objects >/tmp/objects
}

test_devinfo() {
	text=$(ibv_devinfo -v -d "$(stock_ibdev)")
	for want in 'state:.*PORT_ACTIVE' 'link_layer:.*Ethernet' 'max_srq:.*[1-9]' 'GID\[.*RoCE v2'; do
		like "$text" "$want" ibv_devinfo
	done
}

test_rc_pingpong() { loop ibv_rc_pingpong -n 100; }
test_rc_pingpong_events_and_compared() { loop ibv_rc_pingpong -n 100 -e -c; }
test_rc_pingpong_sizes() { for size in 1 63 4097 65537 1000000; do loop ibv_rc_pingpong -n 20 -c -s $size; done; }
test_rc_pingpong_mtus() { for mtu in 256 512 1024; do loop ibv_rc_pingpong -n 20 -c -s 9000 -m $mtu; done; }
test_uc_pingpong() { loop ibv_uc_pingpong -n 100 -e; }
test_ud_pingpong() { loop ibv_ud_pingpong -n 100 -e; loop ibv_ud_pingpong -n 50 -s 1000; }
test_srq_pingpong() { loop ibv_srq_pingpong -n 100 -e; loop ibv_srq_pingpong -n 100 -q 4; }

# The event after 16 completions or 20 us; beyond 12 bits of microseconds it is EINVAL.
test_moderation() {
	text=$(ibv_devinfo -v -d "$(stock_ibdev)")
	like "$text" 'max_cq_count:[[:space:]]*65535' "ibv_devinfo"
	like "$text" 'max_cq_period:[[:space:]]*4095' "ibv_devinfo"
	is "$(python3 verbs-moderate.py "$(stock_ibdev)" 16 20)" 0 "16 completions or 20 us"
	is "$(python3 verbs-moderate.py "$(stock_ibdev)" 65535 4095)" 0 "the limits"
	is "$(python3 verbs-moderate.py "$(stock_ibdev)" 16 4096)" 22 "a period beyond the limit"
}

# A GID index where nothing is.
test_wrong_gid_index() {
	for index in 100 250; do
		! timeout 20 ibv_rc_pingpong -d "$(stock_ibdev)" -g $index || fail "index $index works"
	done
}

# endless: both ends of a connection, without end; stop_endless kills them.
endless() {
	endless_options="-d $(stock_ibdev) -g $(stock_gid_index $here) -n 100000000"
	# shellcheck disable=SC2086
	ibv_rc_pingpong $endless_options >/dev/null 2>&1 &
	endless_server=$!
	within 20 stock_listening
	# shellcheck disable=SC2086
	ibv_rc_pingpong $endless_options 127.0.0.1 >/dev/null 2>&1 &
	endless_client=$!
	sleep 1
}
stop_endless() {
	kill -9 $endless_server $endless_client 2>/dev/null || :
	wait $endless_server $endless_client || :
}

test_killed_in_mid_traffic() {
	for round in 1 2 3; do
		endless
		stop_endless
	done
}

# A reset ends the programs, not the device: new ones work at once.
test_reset_under_traffic() {
	[ "$VERBS_DRIVER" = rmlx5 ] || skip "the stock driver takes its RDMA device away"
	endless
	echo 1 >"$DEV/reset"
	expect state up "$(attr state)"
	stop_endless
	within 20 stock_active
	within 10 stock_gid_index $here
	loop ibv_rc_pingpong -n 50 -c -e
}

# Nothing is left on the card when the programs are gone.
test_nothing_left() {
	[ "$VERBS_DRIVER" = rmlx5 ] || skip "the stock driver keeps keys for later"
	is "$(verbs_objects)" "$(cat /tmp/objects)" "objects on the card"
}

test_no_complaints() { is "$(verbs_complaints)" "" "kernel log"; }

# The last case: the device goes while programs use it.
test_unbind_under_traffic() {
	endless
	driver=$(driver)
	echo "$BDF" >"$DEV/driver/unbind"
	stop_endless
	is "$(stock_ibdev)" "" "RDMA devices after unbind"
	echo "$BDF" >"/sys/bus/pci/drivers/$driver/bind"
	verbs_up $here
	loop ibv_rc_pingpong -n 50 -c
	[ "$VERBS_DRIVER" != rmlx5 ] || { unload; unlike "$(dmesg)" 'leak:' "kernel log"; }
}

ktap_main "$@"
