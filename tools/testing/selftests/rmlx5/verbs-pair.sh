# SPDX-License-Identifier: Apache-2.0 OR MIT
# Pingpongs and perftest between two machines on one cable.
. ./ktap.sh
. ./core.subr
. ./stock.subr
. ./wire.subr
. ./verbs.subr

suite_setup() {
	core_setup
	there_do "verbs_up $there"
	verbs_up $here
	within 60 ping -c 1 -W 1 $there
}

# across PROGRAM OPTIONS...: the server in the peer; its verdict counts like ours.
across() {
	program=$1
	shift
	wire_serve "$program -d \$(stock_ibdev) -g \$(stock_gid_index $there) $*"
	timeout 100 "$program" -d "$(stock_ibdev)" -g "$(stock_gid_index $here)" "$@" $there || {
		note "the server says: $(there_do "cat /tmp/server")"
		fail "$program failed"
	}
	wire_verdict || fail "the server of $program"
}

# perf PROGRAM OPTIONS...: it fails on a completion with an error and on lost ones.
perf() {
	program=$1
	shift
	wire_serve "$program -d \$(stock_ibdev) -x \$(stock_gid_index $there) -F $*"
	text=$(timeout 100 "$program" -d "$(stock_ibdev)" -x "$(stock_gid_index $here)" -F "$@" $there 2>&1) || {
		note "the server says: $(there_do "cat /tmp/server")"
		fail "$program $*: $text"
	}
	wire_verdict || fail "the server of $program $*"
	echo "$text" | grep -E '^ *[0-9]+ +[0-9]+ ' || fail "$program $*: no figures in: $text"
}

test_rc_pingpong() { across ibv_rc_pingpong -n 200 -e -c; across ibv_rc_pingpong -n 50 -c -s 70001; }
test_uc_pingpong() { across ibv_uc_pingpong -n 200 -e; }
test_ud_pingpong() { across ibv_ud_pingpong -n 200 -e; }
test_srq_pingpong() { across ibv_srq_pingpong -n 200 -e; }
test_xsrq_pingpong() { across ibv_xsrq_pingpong -n 200 -e; }
test_write_bw() { perf ib_write_bw -n 100 -s 4095; perf ib_write_bw -n 50 -s 65536; }
test_read_bw() { perf ib_read_bw -n 100 -s 4095; perf ib_read_bw -n 50 -s 65536; }
test_send_bw() { perf ib_send_bw -n 100 -s 4095; perf ib_send_bw -e -n 100 -s 4096; }
test_big_messages() { perf ib_write_bw -n 5 -s 8388608; }
test_both_ways_at_once() { perf ib_write_bw -b -n 50 -s 65536; perf ib_send_bw -b -n 50 -s 4096; perf ib_read_bw -b -n 50 -s 4096; }
test_many_qps() { perf ib_write_bw -q 16 -n 20 -s 8192; }
test_inline() { perf ib_send_bw -I 64 -n 100 -s 64; perf ib_write_bw -I 200 -n 100 -s 200; }
test_immediate() { perf ib_write_bw --write_with_imm -n 100 -s 4096; }
test_atomic_bw() { perf ib_atomic_bw -A FETCH_AND_ADD -n 100; perf ib_atomic_bw -A CMP_AND_SWAP -n 100; }
test_latencies() { for kind in write read send; do perf ib_${kind}_lat -n 100 -s 2; done; perf ib_atomic_lat -n 100; }
test_other_services() { perf ib_send_bw -c UC -n 100 -s 8192; perf ib_write_bw -c UC -n 100 -s 8192; perf ib_send_bw -c UD -n 100 -s 1024; }
test_xrc_service() { perf ib_send_bw -c XRC -n 100 -s 4096; perf ib_write_bw -c XRC -n 100 -s 4096; }
test_shared_receive_queue() { perf ib_send_bw -r 128 --use-srq -n 100 -s 4096; }

test_rping() {
	modprobe rdma_ucm
	there_do "modprobe rdma_ucm"
	wire_serve "timeout 100 rping -s -a $there -C 20 -V" cm
	timeout 60 rping -c -a $there -C 20 -V
	wire_verdict
}

# joined: mckey in the peer has joined the group and attached its QP.
joined() { there_do "grep -q joined /tmp/server"; }

# Datagrams to a group: only a QP that is attached to it gets them. The receiver fails unless all come.
test_multicast() {
	modprobe rdma_ucm
	there_do "modprobe rdma_ucm"
	there_do "rm -f /tmp/verdict; (timeout 100 stdbuf -oL mckey -m 239.1.2.3 -b $there -C 20 -S 500 >/tmp/server 2>&1; echo \$? >/tmp/verdict) >/dev/null 2>&1 &"
	within 60 joined || fail "the receiver does not join: $(there_do "cat /tmp/server")"
	timeout 100 mckey -m 239.1.2.3 -b $here -s -C 20 -S 500
	wire_verdict
}

# What is lost on the cable is sent again, and both ends count it: a gap there, a NAK or a timeout here.
test_lossy_cable_is_counted() {
	gaps=$(there_do counter out_of_sequence)
	again=$(($(counter packet_seq_err) + $(counter local_ack_timeout_err)))
	host card 0 cable loss=0.02 seed=5
	perf ib_write_bw -n 40 -s 65536
	host card 0 cable
	there_do "counted out_of_sequence $gaps"
	sleep 0.1
	[ $(($(counter packet_seq_err) + $(counter local_ack_timeout_err))) -gt $again ] || fail "nothing was sent again"
}

test_no_complaints() {
	is "$(verbs_complaints)" "" "kernel log here"
	is "$(there_do verbs_complaints)" "" "kernel log there"
}

ktap_main "$@"
