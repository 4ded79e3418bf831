# SPDX-License-Identifier: Apache-2.0 OR MIT
# Completions that lie: each is counted, costs its packet or its ring, and the interface works again.
. ./ktap.sh
. ./core.subr
. ./stock.subr
. ./net.subr

suite_setup() {
	net_pair
	# One pair of rings: it is known where a packet comes in.
	ethtool -L "$(net_dev)" combined 1
	within 60 ping -c 1 -W 1 $there
}

# cq_of rq|sq: the CQ of the only queue of a kind. The queue that a closed interface's tables lead to was made first.
cq_of() { host card 0 dump "$1" | sed -n 's/.* CQ \(0x[0-9a-f]*\).*/\1/p' | tail -1; }

# lie rq|sq OFFSET BITS COUNTER [STATISTIC]: the next completion is spoilt; what counts it, and where `ip -s link` has it.
# Says how often the interface was made anew.
lie() {
	lie_before=$(net_stat "$4") lie_statistic=$(net_count "${5:-rx_packets}")
	log_mark "$4 $3"
	objects=$(stock_census)
	host card 0 inject spoil-cqe "cqn=$(cq_of "$1")" "at=$2" "bits=$3"
	# Whatever packet it is, the next one comes through.
	ping -c 1 -W 1 $there || :
	within 20 counted "$4" $((lie_before + 1))
	[ -z "${5:-}" ] || [ "$(net_count "$5")" -gt "$lie_statistic" ] || fail "$5 did not count"
	within 20 net_carrier
	within 20 ping -c 1 -W 1 $there
	is "$(net_stat "$4")" $((lie_before + 1)) "$4"
	is "$(stock_census)" "$objects" "objects on the card"
	anew=$(log_count "$4 $3" 'made anew')
}
counted() { [ "$(net_stat "$1")" -ge "$2" ]; }

# Offsets are those of struct mlx5_cqe64: byte_cnt 44; wqe_counter, signature and op_own in the dword at 60.

test_length_beyond_the_buffer() {
	lie rq 44 0x01000000 rx_length_errors rx_length_errors
	is "$anew" 0 "new rings"
}

test_length_of_two_gigabytes() {
	lie rq 44 0x80000000 rx_length_errors rx_errors
	is "$anew" 0 "new rings"
}

test_receive_of_another_wqe() {
	lie rq 60 0x7f000000 rx_bad_cqe rx_errors
	is "$anew" 1 "new rings"
}

test_receive_of_no_kind() {
	lie rq 60 0x90 rx_bad_cqe rx_errors
	is "$anew" 1 "new rings"
}

test_receive_with_an_error() {
	lie rq 60 0xc0 rx_wqe_err rx_errors
	is "$anew" 1 "new rings"
}

test_send_of_another_wqe() {
	lie sq 60 0x7f000000 tx_bad_cqe tx_errors
	is "$anew" 1 "new rings"
}

test_send_of_no_kind() {
	lie sq 60 0x90 tx_bad_cqe tx_errors
	is "$anew" 1 "new rings"
}

test_send_with_an_error() {
	lie sq 60 0xd0 tx_cqe_err tx_errors
	is "$anew" 1 "new rings"
}

# The card gives up the CQ of a ring: nothing comes from it any more, only the error event tells.
test_completions_given_up() {
	for ring in rq sq; do
		log_mark "given up $ring"
		objects=$(stock_census)
		host card 0 inject cq-context "cqn=$(cq_of $ring)"
		within 20 made_anew "given up $ring"
		within 20 net_carrier
		within 20 ping -c 1 -W 1 $there
		is "$(log_count "given up $ring" 'made anew')" 1 "new rings for $ring"
		is "$(stock_census)" "$objects" "objects on the card"
	done
}
made_anew() { [ "$(log_count "$1" 'made anew')" -ge 1 ]; }

# A lie a packet for a while: no loop, no flood of lines, and an end.
test_many_lies() {
	log_mark many
	for round in $(seq 8); do
		host card 0 inject spoil-cqe "cqn=$(cq_of rq)" at=60 bits=0x90
		ping -c 1 -W 1 $there || :
	done
	within 30 net_carrier
	within 20 ping -c 3 -i 0.1 -W 1 $there
	[ "$(log_count many 'made anew')" -le 16 ] || fail "$(log_count many 'made anew') lines"
}

# The card refuses what opening needs: the interface stays closed, nothing stays on the card, the next time it works.
test_opening_that_fails() {
	ip link set "$(net_dev)" down
	# CREATE_CQ, CREATE_SQ, CREATE_RQ, MODIFY_RQT, SET_FLOW_TABLE_ENTRY: no resources.
	refuses 0x400 0x904 0x908 0x917 0x936
	# The first time, what stays is made: CREATE_RQT, CREATE_TIR, CREATE_FLOW_TABLE, CREATE_FLOW_GROUP.
	net_unload
	net_load
	refuses 0x916 0x900 0x930 0x933
	net_up $here
	within 20 ping -c 1 -W 1 $there
}

# refuses OPCODE...: opening fails with each, and takes back what it made.
refuses() {
	objects=$(stock_census)
	for opcode; do
		host card 0 inject fail-command "opcode=$opcode" status=15
		! ip link set "$(net_dev)" up || fail "it opened without $opcode"
		is "$(stock_census)" "$objects" "objects on the card after $opcode"
	done
}

test_no_complaints() {
	unlike "$(dmesg)" 'WARNING|BUG|Call Trace|NETDEV WATCHDOG' "kernel log"
	is "$(there_do net_complaints)" "" "kernel log there"
}

ktap_main "$@"
