# SPDX-License-Identifier: Apache-2.0 OR MIT
# Pingpongs and perftest between two machines on one cable, with the driver that VERBS_DRIVER names at both ends.
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
perf() { perf_by 18515 "-d \$(stock_ibdev) -x \$(stock_gid_index $there)" "-d $(stock_ibdev) -x $(stock_gid_index $here)" "$@"; }

# perf_managed PROGRAM OPTIONS...: connected by rdma_cm, which finds its device by the address.
perf_managed() { perf_by cm "" "" "$@"; }

# perf_by PORT SERVER CLIENT PROGRAM OPTIONS...: where the server listens and what finds the device at each end.
perf_by() {
	port=$1 server=$2 client=$3 program=$4
	shift 4
	wire_serve "$program $server -F $*" "$port"
	# shellcheck disable=SC2086
	measure "$program" $client -F "$@" $there
}

# measure PROGRAM OPTIONS...: the client; its verdict counts, and that of the server. $figures has the lines of its table.
measure() {
	text=$(timeout 100 "$@" 2>&1) || {
		note "the server says: $(there_do "cat /tmp/server")"
		fail "$*: $text"
	}
	wire_verdict || fail "the server of $*"
	figures=$(echo "$text" | grep -E '^ *[0-9]+ +[0-9]+ ') || fail "$*: no figures in: $text"
	echo "$figures"
}

# raw PROGRAM OPTIONS...: frames of its own over QPs for raw packets. Both ends get their frames by a flow rule: for their address,
# and for addresses and ports of IP if there are such. They do not talk before: the server is ready when it shows its table.
raw() {
	program=$1
	shift
	mine=$(cat "/sys/class/net/$(stock_netdev)/address") theirs=$(there_do "cat /sys/class/net/\$(stock_netdev)/address")
	there_do "rm -f /tmp/verdict /tmp/server; (timeout 100 stdbuf -oL $program --server -d \$(stock_ibdev) -B $theirs -E $mine -F $* >/tmp/server 2>&1; echo \$? >/tmp/verdict) >/dev/null 2>&1 & within 60 grep -qs '#bytes' /tmp/server"
	measure "$program" --client -d "$(stock_ibdev)" -B "$mine" -E "$theirs" -F "$@"
}

# sizes PROGRAM: an odd one, and one of many packets.
sizes() { for size in 4095 65536; do perf "$1" -n 100 -s $size; done; }

# managed: both machines have the connection manager.
managed() {
	modprobe rdma_ucm
	there_do "modprobe rdma_ucm"
}

test_rc_pingpong() { across ibv_rc_pingpong -n 200 -e -c; across ibv_rc_pingpong -n 50 -c -s 70001; }
test_uc_pingpong() { across ibv_uc_pingpong -n 200 -e; }
test_ud_pingpong() { across ibv_ud_pingpong -n 200 -e; }
test_srq_pingpong() { across ibv_srq_pingpong -n 200 -e; }
test_xsrq_pingpong() { across ibv_xsrq_pingpong -n 200 -e; }
test_write_bw() { sizes ib_write_bw; }
test_read_bw() { sizes ib_read_bw; }
test_send_bw() { sizes ib_send_bw; }

# READs of 8 MiB are in verbs-loopback.sh: their answers come without a window, and what a cable on a slow machine does not hold
# of them is lost.
test_largest_messages() { perf ib_send_bw -n 5 -s 8388608; perf ib_read_bw -o 2 -n 5 -s 1048576; }
test_latency_of_odd_sizes() { for program in ib_write_lat ib_read_lat ib_send_lat; do perf $program -n 20 -s 70001; done; }

# Each power of two from 2 B to 8 MiB.
test_all_sizes() {
	perf ib_write_bw -a -n 5
	is "$(echo "$figures" | awk '{ printf "%d ", $1 }')" "$(awk 'BEGIN { for (n = 1; n <= 23; n++) printf "%d ", 2 ^ n }')" "sizes"
}

# Options that do not exclude each other share a call: it is starting and ending that takes the time.
test_both_ways_at_once() { perf ib_write_bw -b -n 50 -s 65536; perf ib_send_bw -b -n 50 -s 4096; perf ib_read_bw -b -n 50 -s 4096; }
test_many_qps() { perf ib_write_bw -q 16 -n 20 -s 8192; perf ib_write_bw -q 16 -b -I 64 -n 20 -s 64; perf ib_write_bw -c UC -q 16 -b -n 20 -s 8192; }
test_many_qps_with_events() {
	perf ib_send_bw -q 16 -b -e -I 64 -n 20 -s 64
	perf ib_read_bw -q 16 -b -e -n 20 -s 4096
	perf ib_atomic_bw -q 16 -b -e -n 20
	perf ib_send_bw -c UC -q 16 -b -e -n 20 -s 1024
	perf ib_send_bw -c UD -q 16 -b -e -n 20 -s 1024
}
test_events() {
	perf ib_send_bw -e -n 100 -s 4096
	perf ib_read_bw -e -n 100 -s 4096
}
test_latency_with_events() {
	perf ib_send_lat -e -I 64 -n 50 -s 64
	perf ib_read_lat -e -n 50 -s 4097
	perf ib_atomic_lat -e -A CMP_AND_SWAP -n 50
	perf ib_send_lat -c UC -e -I 64 -n 50 -s 64
	perf ib_send_lat -c UD -e -I 64 -n 50 -s 64
}
test_inline() { perf ib_send_bw -I 64 -n 100 -s 64; perf ib_write_bw -I 200 -n 100 -s 200; perf ib_write_lat -I 64 -n 50 -s 63; perf ib_write_lat -c UC -I 64 -n 50 -s 64; }
test_immediate() { perf ib_write_bw --write_with_imm -n 100 -s 4096; }
test_atomic_bw() { perf ib_atomic_bw -A FETCH_AND_ADD -n 100; perf ib_atomic_bw -A CMP_AND_SWAP -n 100; }
test_write_lat() { perf ib_write_lat -n 100 -s 2; }
test_read_lat() { perf ib_read_lat -n 100 -s 2; }
test_send_lat() { perf ib_send_lat -n 100 -s 2; }
test_atomic_lat() { perf ib_atomic_lat -n 100; }
test_other_services() { perf ib_send_bw -c UC -n 100 -s 8192; perf ib_write_bw -c UC -n 100 -s 8192; perf ib_send_bw -c UD -n 100 -s 1024; }
test_latency_of_other_services() { perf ib_send_lat -c UC -n 100 -s 64; perf ib_write_lat -c UC -n 100 -s 64; perf ib_send_lat -c UD -n 100 -s 64; }
test_xrc_service() { perf ib_send_bw -c XRC -n 100 -s 4096; perf ib_write_bw -c XRC -n 100 -s 4096; }
test_shared_receive_queue() { perf ib_send_bw -r 128 --use-srq -n 100 -s 4096; }
test_raw_packets() { raw raw_ethernet_bw -n 50 -s 1000; }
test_raw_latency() { raw raw_ethernet_lat -J $there -j $here -K 7001 -k 7000 -n 50 -s 100; }
test_connected_by_rdma_cm() { managed; perf_managed ib_write_bw -R -n 100 -s 4096; perf_managed ib_send_lat -R -n 50 -s 64; }

test_rping() {
	managed
	wire_serve "timeout 100 rping -s -a $there -v -V -C 20 -S 1000" cm
	timeout 60 rping -c -a $there -v -V -C 20 -S 1000
	wire_verdict || fail "the server of rping"
}

# joined: mckey in the peer has joined the group and attached its QP.
joined() { there_do "grep -q joined /tmp/server"; }

# Datagrams to a group: only a QP that is attached to it gets them. The receiver fails unless all come.
test_multicast() {
	managed
	there_do "rm -f /tmp/verdict; (timeout 100 stdbuf -oL mckey -m 239.1.2.3 -b $there -C 20 -S 500 >/tmp/server 2>&1; echo \$? >/tmp/verdict) >/dev/null 2>&1 &"
	within 60 joined || fail "the receiver does not join: $(there_do "cat /tmp/server")"
	timeout 100 mckey -m 239.1.2.3 -b $here -s -C 20 -S 500
	wire_verdict
}

# What is lost on the cable is sent again, and both ends count it: a gap there, its NAK here.
test_lossy_cable_is_counted() {
	gaps=$(there_do counter out_of_sequence) again=$(counter packet_seq_err)
	host card 0 cable loss=0.02 seed=5
	perf ib_write_bw -n 40 -s 65536
	host card 0 cable
	there_do "counted out_of_sequence $gaps"
	counted packet_seq_err "$again"
}

# Part of an answer is lost, and the rest of it says so.
test_lost_answers_are_counted() {
	implied=$(counter implied_nak_seq_err)
	host guest 1 card 0 cable loss=0.02 seed=5
	perf ib_read_bw -n 40 -s 65536
	host guest 1 card 0 cable
	counted implied_nak_seq_err "$implied"
}

# Half of what leaves is marked on the cable.
test_congestion_is_notified() { wire_congested perf ib_write_bw -n 8 -s 65536; }

# Notifications for a QP that is not there.
test_notification_for_nobody() {
	ignored=$(counter rp_cnp_ignored) handled=$(counter rp_cnp_handled)
	there_do "python3 verbs-cnp.py \$(stock_netdev) $there $here $(cat "/sys/class/net/$(stock_netdev)/address") 0xfffff0 3"
	within 60 ignored_notifications $((ignored + 3)) || fail "$(counter rp_cnp_ignored) were ignored, $ignored before"
	is "$(counter rp_cnp_handled)" "$handled" "notifications handled"
}
ignored_notifications() { [ "$(counter rp_cnp_ignored)" = "$1" ]; }

# cc NAME [VALUE]: a parameter of congestion control, by the driver's debugfs; with VALUE it is set.
cc() {
	[ $# = 1 ] || echo "$2" >"$cc/$1"
	cat "$cc/$1"
}

# Each is set by itself, and the priority of notifications with its mode.
test_congestion_parameters() {
	[ "$VERBS_DRIVER" = mlx5_ib ] || skip "rmlx5 leaves them as the firmware has them"
	cc=/sys/kernel/debug/mlx5/$(stock_pci)/cc_params
	is "$(cc rp_time_reset) $(cc rp_ai_rate) $(cc rp_gd) $(cc np_cnp_dscp) $(cc np_min_time_between_cnps)" "300 5 11 48 4" "defaults"
	is "$(cc rp_ai_rate 9)" 9 "additive increase"
	is "$(cc rp_hai_rate) $(cc rp_min_rate)" "50 1" "its neighbours"
	is "$(cc np_cnp_prio_mode 1)" 1 "priority of marked packets"
	is "$(cc np_cnp_prio 5)" 5 "priority of its own"
	is "$(cc np_cnp_prio_mode) $(cc np_cnp_dscp)" "0 48" "mode and code point"
	is "$(cc rp_ai_rate 5) $(cc np_cnp_prio 6)" "5 6" "as before"
}

test_no_complaints() {
	is "$(verbs_complaints)" "" "kernel log here"
	is "$(there_do verbs_complaints)" "" "kernel log there"
}

ktap_main "$@"
