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
	options="-e -n 200"
	[ "$1" != rc ] || options="$options -c"
	wire_serve "ibv_$1_pingpong -d \$(stock_ibdev) -g \$(stock_gid_index $there) $options"
	"ibv_$1_pingpong" -d "$(stock_ibdev)" -g "$(stock_gid_index $here)" $options $there || {
		note "the server says: $(there_do "cat /tmp/server; ss -tan 'sport = :18515'")"
		fail "the client failed"
	}
	wire_verdict || fail "the server failed"
}

test_rc_pingpong_across() { pingpong_across rc; }

test_ud_pingpong_across() { pingpong_across ud; }

test_frames_went_over_the_cable() {
	sent=$(host card 0 counters | sed -n 's/^ *"tx_frames": \([0-9]*\),\{0,1\}$/\1/p')
	[ "$sent" -gt 400 ] || fail "only $sent frames left the card"
}

test_pulled_cable_takes_the_carrier() {
	host card 0 link down
	within 10 sh -c "! grep -q 1 /sys/class/net/$(stock_netdev)/carrier"
	there_do "within 10 sh -c \"! grep -q 1 /sys/class/net/\$(stock_netdev)/carrier\""
	host card 0 link up
	within 10 stock_carrier
	within 20 ping -c 1 -W 1 $there
}

test_no_complaints() { wire_no_complaints; }

ktap_main "$@"
