# SPDX-License-Identifier: Apache-2.0 OR MIT
# What ethtool and devlink set and show, and what it does: two machines, for both drivers.
. ./ktap.sh
. ./core.subr
. ./stock.subr
. ./net.subr

suite_setup() {
	net_pair
	within 60 ping -c 1 -W 1 $there
}

coalesce() { ethtool -c "$(net_dev)" | sed -n "s/^$1:[[:space:]]*//p"; }
# Commands that change moderation, from the beginning.
modified() { host card 0 counters | sed -n 's/^ *"MODIFY_CQ": \([0-9]*\),\{0,1\}$/\1/p' | grep . || echo 0; }

# frames COUNT [MAC]: raw frames of 100 bytes go out, to everybody unless told otherwise.
frames() {
	python3 - "$(net_dev)" "$1" "${2:-ffffffffffff}" <<'PYTHON'
import socket, sys
device, count, mac = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((device, 0))
frame = mac + out.getsockname()[4] + b"\x88\xb5" + bytes(86)
for _ in range(count):
    out.send(frame)
PYTHON
}

test_largest_mtu() {
	like "$(ip -d link show "$(net_dev)")" 'minmtu 68 maxmtu 9978' "bounds"
	there_do "ip link set \$(net_dev) mtu 9978"
	ip link set "$(net_dev)" mtu 9978
	within 20 ping -c 1 -W 1 $there
	ping -c 2 -i 0.1 -W 5 -M 'do' -s 9950 $there
	! ip link set "$(net_dev)" mtu 9979 || fail "9979 was accepted"
	there_do "ip link set \$(net_dev) mtu 1500"
	ip link set "$(net_dev)" mtu 1500
	within 20 ping -c 1 -W 1 $there
}

# Frames longer than the peer's MTU end at its port, are counted there as errors of length, and stop nothing.
test_too_long() {
	ip link set "$(net_dev)" mtu 4000
	ip neigh replace $there lladdr "$(there_do "cat /sys/class/net/\$(net_dev)/address")" dev "$(net_dev)" nud permanent
	within 20 ping -c 1 -W 1 $there
	long_before=$(there_do "net_stat rx_oversize_pkts_phy")
	errors_before=$(there_do "net_count rx_length_errors")
	! ping -c 20 -i 0.01 -W 1 -M 'do' -s 3000 $there || fail "3000 bytes were answered"
	is "$(there_do "net_stat rx_oversize_pkts_phy")" $((long_before + 20)) "frames the port dropped"
	within 60 there_long $((errors_before + 20))
	ping -c 20 -i 0.01 -W 5 -M 'do' -s 1472 $there
	ip link set "$(net_dev)" mtu 1500
	ip neigh del $there dev "$(net_dev)"
	within 20 ping -c 1 -W 1 $there
}
there_long() { [ "$(there_do "net_count rx_length_errors; net_count rx_errors" | sort -u)" = "$1" ]; }

test_pause() {
	for pair in on:off off:on on:on off:off; do
		# What is so already is refused by ethtool.
		ethtool -A "$(net_dev)" rx "${pair%:*}" tx "${pair#*:}" || [ "$pair" = off:off ]
		text=$(ethtool -a "$(net_dev)")
		like "$text" "^RX:[[:space:]]*${pair%:*}" "rx of $pair"
		like "$text" "^TX:[[:space:]]*${pair#*:}" "tx of $pair"
		like "$(host card 0 dump)" "^vport: .* pause rx ${pair%:*} tx ${pair#*:}" "the card"
	done
	! ethtool -A "$(net_dev)" autoneg on rx on tx on || fail "pauses were negotiated"
}

# A reset makes the card forget.
test_pause_after_a_reset() {
	[ "$NET_DRIVER" = rmlx5 ] || skip "the stock driver does not see a function reset"
	ethtool -A "$(net_dev)" rx on tx on
	echo 1 >"$DEV/reset"
	within 20 net_carrier
	like "$(host card 0 dump)" '^vport: .* pause rx on tx on' "the card"
	ethtool -A "$(net_dev)" rx off tx off
	within 20 ping -c 1 -W 1 $there
}

test_self_test() {
	text=$(ethtool -t "$(net_dev)" online) || fail "$text"
	like "$text" 'result is PASS' verdict
	for name in Link Speed Health Loopback; do like "$text" "^$name Test[[:space:]]*0" "$name"; done
	host card 0 link down
	within 10 net_no_carrier
	text=$(ethtool -t "$(net_dev)" online || :)
	like "$text" 'result is FAIL' "verdict without a link"
	like "$text" '^Link Test[[:space:]]*1' "Link without a link"
	like "$text" '^Health Test[[:space:]]*0' "Health without a link"
	like "$text" '^Loopback Test[[:space:]]*[1-9]' "Loopback without a link"
	host card 0 link up
	within 10 net_carrier
	within 20 ping -c 1 -W 1 $there
}

# Moderation follows the traffic, unless a person has set it.
test_adaptive_moderation() {
	like "$(coalesce 'Adaptive RX')" '^on  TX: on' "to begin with"
	before=$(modified)
	# A decision is taken every 64 events of a queue; each packet by itself is one.
	ping -q -i 0.002 -c 300 -W 2 $there
	[ "$(modified)" -gt "$before" ] || fail "nothing was adapted: $(host card 0 counters | grep -A3 MODIFY_CQ)"
	ethtool -C "$(net_dev)" adaptive-rx off adaptive-tx off rx-usecs 20 rx-frames 40 tx-usecs 30 tx-frames 50
	like "$(coalesce 'Adaptive RX')" '^off  TX: off' "switched off"
	is "$(coalesce rx-usecs) $(coalesce rx-frames) $(coalesce tx-usecs) $(coalesce tx-frames)" "20 40 30 50" "numbers"
	within 20 ping -c 1 -W 1 $there
	before=$(modified)
	ping -q -i 0.002 -c 200 -W 2 $there
	is "$(modified)" "$before" "changes of moderation while it is off"
	ethtool -C "$(net_dev)" adaptive-rx on adaptive-tx on
	within 20 ping -c 1 -W 1 $there
}

# The card holds its events back while more comes than the ring has room for.
test_out_of_buffer() {
	there_do "ethtool -G \$(net_dev) rx 64; ethtool -C \$(net_dev) adaptive-rx off rx-usecs 4000 rx-frames 60000"
	within 20 ping -c 1 -W 1 $there
	for round in 1 2 3 4 5; do
		frames 1000
		lost=$(there_do "net_stat rx_out_of_buffer")
		[ "$lost" -eq 0 ] || break
	done
	[ "$lost" -gt 0 ] || fail "nothing was lost"
	within 10 there_missed "$lost"
	there_do "ethtool -G \$(net_dev) rx 1024; ethtool -C \$(net_dev) adaptive-rx on"
	# Rings of another length do not start to count again.
	[ "$(there_do "net_stat rx_out_of_buffer")" -ge "$lost" ] || fail "the counter went back"
	within 20 ping -c 1 -W 1 $there
}
there_missed() { [ "$(there_do "net_count rx_missed_errors")" -ge "$1" ]; }

# The card cuts UDP; every byte is compared.
test_udp_segmentation() {
	like "$(ethtool -k "$(net_dev)")" '^tx-udp-segmentation: on' "feature"
	cut_before=$(net_stat tx_tso_packets)
	for to in $there 2001:db8::2; do
		there_do "timeout 60 python3 ./net-cut.py take 5 >/tmp/cut 2>&1 & within 20 sh -c 'ss -Hlun sport = :7009 | grep -q .'"
		python3 ./net-cut.py give $to
		there_do "within 20 grep -q . /tmp/cut; cat /tmp/cut" >/tmp/cut
		is "$(cat /tmp/cut)" "5 good" "what came from $to"
	done
	[ "$(net_stat tx_tso_packets)" -gt "$cut_before" ] || fail "the card did not cut"
	net_feature tx-udp-segmentation off
	like "$(ethtool -k "$(net_dev)")" '^tx-udp-segmentation: off' "feature"
	net_feature tx-udp-segmentation on
}

test_devlink_port() {
	like "$(devlink port show)" "type eth netdev $(net_dev) flavour physical port 0" "devlink"
}

test_no_complaints() {
	is "$(net_complaints)" "" "kernel log here"
	is "$(there_do net_complaints)" "" "kernel log there"
}

ktap_main "$@"
