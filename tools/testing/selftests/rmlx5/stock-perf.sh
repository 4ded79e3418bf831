# SPDX-License-Identifier: Apache-2.0 OR MIT
# perftest and the pingpong programs on the stock drivers, two guests and one cable.
. ./ktap.sh
. ./stock.subr
. ./wire.subr

suite_setup() { wire_up; }

# perf PROGRAM OPTIONS...: the program between the two guests; it fails on a completion with an error and on lost ones.
perf() {
	program=$1
	shift
	options="-F $*"
	wire_serve "$program -d \$(stock_ibdev) -x \$(stock_gid_index $there) $options"
	text=$(timeout 100 "$program" -d "$(stock_ibdev)" -x "$(stock_gid_index $here)" $options $there 2>&1) || {
		note "the server says: $(there_do "cat /tmp/server")"
		fail "$program $*: $text"
	}
	wire_verdict || fail "the server of $program $*"
	echo "$text" | grep -E '^ *[0-9]+ +[0-9]+ ' || fail "$program $*: no figures in: $text"
}

# bw KIND OPTIONS: an odd size, and many packets.
bw() {
	kind=$1
	shift
	for size in 4095 65536; do perf "ib_${kind}_bw" -n 100 -s $size "$@"; done
}

test_write_bw() { bw write; }
test_read_bw() { bw read; }
test_send_bw() { bw send; }
test_both_ways_at_once() { perf ib_write_bw -b -n 100 -s 65536; perf ib_send_bw -b -n 100 -s 4096; perf ib_read_bw -b -n 100 -s 4096; }
test_many_qps() { perf ib_write_bw -q 8 -n 40 -s 8192; }
test_events() {
	perf ib_send_bw -e -n 100 -s 4096
	perf ib_send_lat -e -n 100 -s 64
}
test_inline() { perf ib_send_bw -I 64 -n 100 -s 64; perf ib_write_bw -I 200 -n 100 -s 200; }
test_immediate() { perf ib_write_bw --write_with_imm -n 100 -s 4096; }
test_atomic_bw() { perf ib_atomic_bw -A FETCH_AND_ADD -n 100; perf ib_atomic_bw -A CMP_AND_SWAP -n 100; }
test_write_lat() { perf ib_write_lat -n 100 -s 2; }
test_read_lat() { perf ib_read_lat -n 100 -s 2; }
test_send_lat() { perf ib_send_lat -n 100 -s 2; }
test_atomic_lat() { perf ib_atomic_lat -n 100; }
test_other_services() { perf ib_send_bw -c UC -n 100 -s 8192; perf ib_write_bw -c UC -n 100 -s 8192; perf ib_send_bw -c UD -n 100 -s 1024; }
test_xrc_service() { perf ib_send_bw -c XRC -n 100 -s 4096; perf ib_write_bw -c XRC -n 100 -s 4096; }
test_shared_receive_queue() { perf ib_send_bw -r 128 --use-srq -n 100 -s 4096; }
test_connected_by_rdma_cm() { modprobe rdma_ucm; peer modprobe rdma_ucm; perf_cm ib_write_bw -R -n 100 -s 4096; perf_cm ib_send_lat -R -n 50 -s 64; }

# rdma_cm finds its device by the address.
perf_cm() {
	program=$1
	shift
	wire_serve "$program -F $*" cm
	text=$(timeout 100 "$program" -F "$@" $there 2>&1) || {
		note "the server says: $(there_do "cat /tmp/server")"
		fail "$program $*: $text"
	}
	wire_verdict || fail "the server of $program $*"
}

# pingpong KIND OPTIONS: completions by events.
pingpong() {
	program=ibv_$1_pingpong
	shift
	options="-n 200 $*"
	wire_serve "$program -d \$(stock_ibdev) -g \$(stock_gid_index $there) $options"
	timeout 100 "$program" -d "$(stock_ibdev)" -g "$(stock_gid_index $here)" $options $there || {
		note "the server says: $(there_do "cat /tmp/server")"
		fail "$program failed"
	}
	wire_verdict || fail "the server of $program"
}

test_rc_pingpong() { pingpong rc -e; }
test_uc_pingpong() { pingpong uc -e; }
test_srq_pingpong() { pingpong srq -e; }
test_xsrq_pingpong() { pingpong xsrq -e; }

# The program takes address arguments of its own.
test_rping() {
	modprobe rdma_ucm
	peer modprobe rdma_ucm
	wire_serve "rping -s -a $there -v -V -C 20 -S 1000" cm
	timeout 100 rping -c -a $there -v -V -C 20 -S 1000
	wire_verdict || fail "the server of rping"
}

test_no_complaints() { wire_no_complaints; }

ktap_main "$@"
