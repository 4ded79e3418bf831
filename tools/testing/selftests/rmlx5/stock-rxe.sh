# SPDX-License-Identifier: Apache-2.0 OR MIT
# What goes over the wire, judged by software that nobody of this project wrote: here the stock mlx5_ib driver on the
# emulated card, at the other end of the cable the kernel's soft-RoCE, rdma_rxe. It gets its frames through a second
# card that serves as a plain network card (mlx5_core alone: RoCE stays off, so the card leaves RoCE packets to it).
. ./ktap.sh
. ./stock.subr

here=192.0.2.1
there=192.0.2.2

# there_do COMMAND...: in the peer, with the helpers at hand; `stock_ibdev` is rxe0 there.
there_do() { peer "cd /job/tests; . ./ktap.sh; . ./stock.subr; . ./rxe.subr; set -e; $*"; }

suite_setup() {
	there_do "rxe_up $there"
	stock_up $here
	within 10 stock_gid_index $here
	modprobe -a rdma_ucm
	within 20 ping -c 1 -W 1 $there
}

# across SERVER CLIENT PROGRAM OPTIONS...: the program with server and client at the ends `here` and `there`. Each end
# has its own verdict, and both count.
across() {
	across_server=$1
	shift
	# One line: the bench takes one line as one request.
	across_there="$* -d rxe0 $across_gid \$(stock_gid_index $there)"
	across_here="$* -d $(stock_ibdev) $across_gid $(stock_gid_index $here)"
	if [ "$across_server" = there ]; then
		there_do "rxe_serve $across_there"
		timeout 40 $across_here $there || across_fail "the client here failed"
		there_do "rxe_served"
	else
		. ./rxe.subr
		rxe_serve $across_here
		there_do "timeout 40 $across_there $here" || across_fail "the client there failed"
		rxe_served
	fi
}

across_fail() {
	note "server: $(if [ "$across_server" = there ]; then there_do 'cat /tmp/served'; else cat /tmp/served; fi)"
	note "card: $(host card 0 counters | grep -iE 'nak|retr|timeout|drop|bad|sequence|error' | tr -d '\n')"
	note "rxe: $(there_do 'cd /sys/class/infiniband/rxe0/ports/1/hw_counters; grep -v "^0$" * | tr "\n" " "; echo')"
	fail "$1"
}

# How often rdma_rxe has begun to send again.
retries() { there_do cat /sys/class/infiniband/rxe0/ports/1/hw_counters/completer_retry_err; }

# A pingpong has rdma_rxe as a requester with a timeout of 67 ms. When that runs out on a slow guest, rdma_rxe may stand still
# for ever (Documentation/emulator/rdma.md): its own counter tells, and then, only then, there is another try.
pingpong() {
	across_gid=-g
	for pingpong_try in 1 2 3; do
		pingpong_before=$(retries)
		! (across "$1" "ibv_$2_pingpong" -e -n 200 $3) || return 0
		[ "$(retries)" -gt "$pingpong_before" ] || fail "and rdma_rxe has sent nothing again"
		if [ "$1" = there ]; then
			there_do "within 60 test -e /tmp/verdict"
		else
			within 60 test -e /tmp/verdict
		fi
	done
	fail "three times"
}
perf() {
	across_gid=-x
	perf_server=$1
	perf_program=$2
	shift 2
	across "$perf_server" "$perf_program" -F "$@"
}

# loss P: frames that leave either card get lost; nothing: none does.
loss() {
	host card 0 cable ${1:+loss=$1 seed=1}
	host guest 1 card 0 cable ${1:+loss=$1 seed=2}
}

# mtu BYTES: of both interfaces.
mtu() {
	ip link set "$(stock_netdev)" mtu "$1"
	there_do "ip link set \$(stock_netdev) mtu $1"
	within 20 stock_carrier
	there_do "within 20 stock_carrier"
	within 20 ping -c 1 -W 1 $there
}

test_rc_pingpong() { pingpong there rc -c; }
test_uc_pingpong() { pingpong there uc; }
test_ud_pingpong() { pingpong there ud; }
test_rc_pingpong_from_rxe() { pingpong here rc -c; }
test_uc_pingpong_from_rxe() { pingpong here uc; }
test_ud_pingpong_from_rxe() { pingpong here ud; }

test_srq_pingpong() { pingpong there srq; }
# A length that is no multiple of four has pad bytes, which the ICRC covers.
test_odd_lengths() {
	for bytes in 1 1023 4099; do
		pingpong there rc "-c -s $bytes"
		pingpong here rc "-c -s $bytes"
	done
}

test_write_bw() { perf there ib_write_bw -s 65536 -n 200; }
# -u: rdma_rxe with several requests under way must not take a slow guest for a lost packet (two seconds; the same page).
test_write_bw_from_rxe() { perf here ib_write_bw -u 19 -s 65536 -n 200; }
test_write_imm_bw() { perf there ib_write_bw --write_with_imm -s 4096 -n 200; }
test_write_bw_of_many() { perf there ib_write_bw -q 8 -s 16384 -n 50; }
# -o: rdma_rxe offers 128 READs at a time, a card takes 16, and perftest asks for what the other end offers.
test_read_bw() { perf there ib_read_bw -o 4 -s 65536 -n 200; }
test_read_bw_from_rxe() { perf here ib_read_bw -o 4 -s 65536 -n 200; }
test_send_bw() { perf there ib_send_bw -s 65536 -n 200; }
test_send_bw_from_rxe() { perf here ib_send_bw -u 19 -s 65536 -n 200; }
test_atomic_bw() {
	perf there ib_atomic_bw -A FETCH_AND_ADD -o 4 -n 200
	perf there ib_atomic_bw -A CMP_AND_SWAP -o 4 -n 200
}
test_atomic_bw_from_rxe() { perf here ib_atomic_bw -A FETCH_AND_ADD -o 4 -n 200; }

test_rping() {
	there_do "rm -f /tmp/served /tmp/verdict; (timeout 60 rping -s -a $there -v -V -C 20 >/tmp/served 2>&1; echo \$? >/tmp/verdict) >/dev/null 2>&1 &"
	sleep 2
	timeout 60 rping -c -a $there -V -C 20 || { note "server: $(there_do 'cat /tmp/served')"; fail "rping failed"; }
}

# Retransmission: of requests here, of answers there, and of READ requests there. rdma_rxe sends nothing else here, because
# it does not survive the loss of an acknowledgement (Documentation/emulator/rdma.md). Every byte of the first is compared.
test_lossy_cable() {
	loss 0.02
	there_do "rxe_serve python3 wire-compare.py rxe0 \$(stock_gid_index $there) listen 18515"
	across_server=there
	timeout 60 python3 wire-compare.py "$(stock_ibdev)" "$(stock_gid_index $here)" $there 18515 10 || across_fail "the client here failed"
	there_do "rxe_served"
	perf there ib_send_bw -s 65536 -n 50
	perf there ib_write_bw -s 65536 -n 50
	perf there ib_atomic_bw -A FETCH_AND_ADD -o 4 -n 100
	perf here ib_read_bw -u 16 -o 4 -s 65536 -n 50
	loss
}

test_large_mtu() {
	loss
	mtu 4500
	like "$(there_do 'ibv_devinfo -d rxe0')" 'active_mtu:.*4096' "rxe"
	pingpong there rc "-c -m 4096 -s 10000"
	pingpong here rc "-c -m 4096 -s 10000"
	perf there ib_write_bw -m 4096 -s 65536 -n 100
	perf here ib_read_bw -m 4096 -o 4 -s 65536 -n 100
	mtu 1500
}

# packets: how many rdma_rxe has sent or received, whichever is less.
packets() { there_do 'cd /sys/class/infiniband/rxe0/ports/1/hw_counters; cat sent_pkts rcvd_pkts' | sort -n | head -n 1; }

test_frames_go_over_the_cable() {
	before=$(packets)
	pingpong there rc -c
	counted=$(($(packets) - before))
	[ "$counted" -ge 800 ] || fail "200 messages of four packets each way, and rdma_rxe counted only $counted"
}

test_no_complaints() {
	is "$(dmesg | grep -E 'WARNING|BUG|Call Trace|cqe dump|mlx5.*(fail|error)' || :)" "" "kernel log here"
	is "$(peer "dmesg | grep -E 'WARNING|BUG|Call Trace|rxe.*(err|bad)|mlx5.*(fail|error)' || :")" "" "kernel log there"
}

ktap_main "$@"
