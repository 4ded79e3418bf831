# SPDX-License-Identifier: Apache-2.0 OR MIT
# Two guests with the stock drivers, two cards, one cable.
. ./ktap.sh
. ./stock.subr
. ./wire.subr

suite_setup() { wire_up; }

test_ping() {
	within 20 ping -c 1 -W 1 $there
	ping -c 20 -i 0.05 -W 2 $there
	ping -c 5 -i 0.05 -W 2 -s 1400 $there
}

# The server runs in the peer; its verdict counts like ours.
pingpong_across() {
	wire_serve "ibv_rc_pingpong -d \$(stock_ibdev) -g \$(stock_gid_index $there) -e -n 200 -c"
	ibv_rc_pingpong -d "$(stock_ibdev)" -g "$(stock_gid_index $here)" -e -n 200 -c $there || {
		note "the server says: $(there_do "cat /tmp/server; ss -tan 'sport = :18515'")"
		fail "the client failed"
	}
	wire_verdict || fail "the server failed"
}

test_frames_go_over_the_cable() {
	before=$(frames_sent)
	pingpong_across
	sent=$(($(frames_sent) - before))
	# 200 messages of four packets each way.
	[ "$sent" -ge 800 ] || fail "only $sent frames left the card"
}

frames_sent() { host card 0 counters | sed -n 's/^ *"tx_frames": \([0-9]*\),\{0,1\}$/\1/p'; }

test_pulled_cable_takes_the_carrier() {
	host card 0 link down
	within 10 sh -c "! grep -q 1 /sys/class/net/$(stock_netdev)/carrier"
	there_do "within 10 sh -c \"! grep -q 1 /sys/class/net/\$(stock_netdev)/carrier\""
	host card 0 link up
	within 10 stock_carrier
	within 20 ping -c 1 -W 1 $there
}

# wire_again: address and GID are set again after the netdev came back, and traffic flows.
wire_again() {
	stock_up $here
	within 20 stock_gid_index $here
	within 20 ping -c 1 -W 1 $there
	stock_pingpong rc $here
}

# A syndrome in the health buffer that asks for a reset: the driver's health worker recovers the card by itself.
test_health_syndrome_recovers() {
	resets=$(software_resets)
	host card 0 inject health syndrome=0x1 reset_request=true
	within 60 recovered
	is "$(software_resets)" $((resets + 1)) "software resets of the card"
	like "$(klog)" 'mlx5_core .*synd 0x1: firmware internal error' "what the driver read"
	like "$(devlink health show "pci/$(stock_pci)" reporter fw_fatal)" 'state healthy error 1 recover 1' "devlink's book"
	wire_again
}

recovered() { klog | grep -q 'mlx5_core .*health recovery succeeded'; }
software_resets() { host card 0 counters | sed -n 's/^ *"software": \([0-9]*\),\{0,1\}$/\1/p'; }

# Each round cuts pings of the other end, every tenth one a stream of RDMA too; nothing may stay behind in the card.
test_unbind_and_bind_20_times_under_traffic() {
	dev=$(stock_pci)
	stock_up $here
	# ping ends when the host it asks is unreachable for a while.
	there_do "timeout 900 sh -c 'while :; do ping -i 0.02 $here; sleep 0.1; done' >/dev/null 2>&1 & echo \$! >/tmp/pings"
	for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		[ $((round % 10)) != 1 ] || stream_starts
		within 20 pings_come
		echo "$dev" >/sys/bus/pci/drivers/mlx5_core/unbind
		is "$(stock_census)" "" "what is left in the card in round $round"
		echo "$dev" >/sys/bus/pci/drivers/mlx5_core/bind
		within 30 stock_bound
		ip link set "$(stock_netdev)" up
		ip addr replace $here/24 dev "$(stock_netdev)"
	done
	wait
	there_do "kill \$(cat /tmp/pings)"
	wire_again
}

# pings_come: those of the other end arrive.
pings_come() { [ "$(cat "/sys/class/net/$(stock_netdev)/statistics/rx_packets")" -gt 10 ]; }

# stream_starts: an RDMA write from the card to itself, longer than the driver stays; the unbinding ends it.
stream_starts() {
	within 20 stock_active
	within 20 stock_gid_index $here
	stream="timeout 100 ib_write_bw -d $(stock_ibdev) -x $(stock_gid_index $here) -F -D 60 -s 4096"
	$stream >/dev/null 2>&1 &
	within 20 stock_listening
	$stream 127.0.0.1 >/dev/null 2>&1 &
	within 20 streaming
}

streaming() { rdma resource show qp | grep -q 'type RC state RTS'; }

# The driver reports the syndrome as an error; nothing else may be wrong.
test_no_complaints() {
	bad='WARNING|BUG|Call Trace|cqe dump|mlx5.*(fail|leak)'
	is "$(dmesg | grep -E "$bad" || :)" "" "kernel log here"
	is "$(peer "dmesg | grep -E '$bad' || :")" "" "kernel log there"
}

ktap_main "$@"
