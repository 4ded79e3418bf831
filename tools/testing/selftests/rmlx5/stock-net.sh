# SPDX-License-Identifier: Apache-2.0 OR MIT
# The netdev of the stock driver, two guests and one cable: TCP, sizes, VLANs, offloads, channels, MTU changes.
. ./ktap.sh
. ./stock.subr
. ./wire.subr

suite_setup() {
	wire_up
	within 20 ping -c 1 -W 1 $there
}

# set_mtu MTU: on both ends.
set_mtu() {
	ip link set "$(stock_netdev)" mtu "$1"
	there_do "ip link set \$(stock_netdev) mtu $1"
	within 20 stock_carrier
	within 20 ping -c 1 -W 1 $there
}

# stat NAME: a counter of ethtool -S.
stat() { ethtool -S "$(stock_netdev)" | sed -n "s/^ *$1: //p"; }
there_stat() { there_do "ethtool -S \$(stock_netdev) | sed -n 's/^ *$1: //p'"; }

test_tcp_10_megabytes_both_ways() { tcp_both_ways 10; }

test_ping_of_all_sizes() {
	set_mtu 9000
	for size in 0 1 2 3 7 8 15 16 17 18 46 47 63 64 65 100 127 128 255 256 511 512 1000 1024 1471 1472 1473 1500 2047 2048 3000 \
		4095 4096 4097 5000 6000 7000 8000 8191 8192 8193 8900 8971 8972 8973 9000; do
		# ping compares what comes back, from 16 bytes on.
		text=$(ping -c 1 -W 5 -s $size $there) || fail "size $size: $text"
		unlike "$text" 'wrong data|truncated|DUP' "size $size"
	done
	# The largest that fits into one frame goes unfragmented, one more does not.
	ping -c 1 -W 5 -M 'do' -s 8972 $there
	! ping -c 1 -W 1 -M 'do' -s 8973 $there || fail "a packet above the MTU passed"
}

test_tcp_with_jumbo_frames() {
	set_mtu 9000
	before=$(stat tx_packets_phy)
	tcp_both_ways 10
	frames=$(($(stat tx_packets_phy) - before))
	# 10 MiB and the acknowledgements of as much: 1500 byte frames would be above 7000.
	[ $frames -lt 6000 ] || fail "$frames frames left: jumbo frames were not used"
	set_mtu 1500
}

test_vlan() {
	dev=$(stock_netdev)
	modprobe 8021q
	there_do "modprobe 8021q; dev=\$(stock_netdev); ip link add link \$dev name v7 type vlan id 7; ip addr add 198.51.100.2/24 dev v7; ip link set v7 up"
	ip link add link "$dev" name v7 type vlan id 7
	ip addr add 198.51.100.1/24 dev v7
	ip link set v7 up
	for offload in on off; do
		ethtool -K "$dev" rxvlan $offload txvlan $offload
		within 20 ping -c 1 -W 1 198.51.100.2
		ping -c 5 -i 0.05 -W 2 -s 1472 198.51.100.2
		ping -c 2 -i 0.05 -W 2 -s 3000 198.51.100.2
	done
	tcpdump -i "$dev" -c 4 -nn -e vlan 7 and icmp >/tmp/vlan 2>/dev/null &
	sniffer=$!
	sleep 2
	ping -c 5 -i 0.2 -W 2 198.51.100.2
	wait $sniffer
	like "$(cat /tmp/vlan)" 'vlan 7, .*ICMP echo' "frames on the wire"
	# Of another VLAN nothing comes in.
	there_do "ip link set v7 down; ip link add link \$(stock_netdev) name v8 type vlan id 8; ip addr add 198.51.100.2/24 dev v8; ip link set v8 up"
	! ping -c 1 -W 1 198.51.100.2 || fail "VLAN 7 reached VLAN 8"
	there_do "ip link del v8; ip link del v7"
	ip link del v7
	ethtool -K "$dev" rxvlan on txvlan on
}

# Each frame is in one class of size and has one priority; a frame may come between two groups of counters.
sums_agree() {
	ethtool -S "$(stock_netdev)" | awk '
		$1 ~ /^rx_[0-9]+_(to_[0-9]+_)?bytes_phy:$/ { sizes += $2 }
		$1 ~ /^tx_prio[0-7]_packets:$/ { priorities += $2 }
		$1 == "rx_packets_phy:" { rx = $2 }
		$1 == "tx_packets_phy:" { tx = $2 }
		END { exit !(rx > 0 && sizes == rx && priorities == tx) }'
}

# snapshot NAME: all counters of both ends at a moment when nothing is under way.
snapshot() { within 60 calm "$1"; }

calm() {
	calm_before=$(stat tx_packets_phy)/$(stat rx_packets_phy)
	ethtool -S "$(stock_netdev)" >"/tmp/$1.here"
	there_do "ethtool -S \$(stock_netdev)" >"/tmp/$1.there"
	echo "netdev: $(cat "/sys/class/net/$(stock_netdev)/statistics/tx_packets")" >>"/tmp/$1.here"
	[ "$(stat tx_packets_phy)/$(stat rx_packets_phy)" = "$calm_before" ]
}

# moved END COUNTER: how far it went from snapshot `before` to snapshot `after`.
moved() {
	old=$(sed -n "s/^ *$2: //p" "/tmp/before.$1") new=$(sed -n "s/^ *$2: //p" "/tmp/after.$1")
	echo $((new - old))
}

# What one end sent, the other received, and each level of counters agrees with the others.
test_counters_add_up() {
	dev=$(stock_netdev)
	# IPv6 speaks unasked.
	echo 1 >"/proc/sys/net/ipv6/conf/$dev/disable_ipv6"
	there_do "echo 1 >/proc/sys/net/ipv6/conf/\$(stock_netdev)/disable_ipv6"
	snapshot before
	ping -f -c 100 -W 5 $there
	tcp_both_ways 1
	snapshot after
	sent=$(moved here tx_packets_phy)
	vport=$(($(moved here tx_vport_unicast_packets) + $(moved here tx_vport_multicast_packets) + $(moved here tx_vport_broadcast_packets)))
	[ "$sent" -ge 100 ] || fail "only $sent packets left"
	is "$(moved there rx_packets_phy)" "$sent" "packets that arrived"
	is "$(moved there rx_bytes_phy)" "$(moved here tx_bytes_phy)" "bytes that arrived"
	is "$(moved there tx_packets_phy)" "$(moved here rx_packets_phy)" "packets that came back"
	is "$vport" "$sent" "packets of the vport"
	is "$(moved here tx_packets)" "$sent" "packets of the rings"
	is "$(moved here netdev)" "$sent" "packets of the netdev"
	within 10 sums_agree
	errors='(rx_crc_errors_phy|rx_discards_phy|rx_wqe_err|tx_cqe_err|rx_oversize_pkts_phy|rx_symbol_err_phy|tx_errors_phy|rx_out_of_buffer)'
	is "$(ethtool -S "$dev" | grep -E "^ *$errors: [1-9]" || :)" "" "errors"
	[ "$(stat rx_csum_complete)" -gt 0 ] || fail "the card verified no checksum"
	[ "$(stat tx_tso_packets)" -gt 0 ] || fail "nothing was sent in one large piece"
}

test_offloads_on_and_off() {
	dev=$(stock_netdev)
	for feature in tso tx rx gro gso sg rxhash; do
		ethtool -K "$dev" $feature off || fail "$feature cannot be switched off"
		tcp_both_ways 1
	done
	ethtool -K "$dev" rx on tx on sg on tso on gso on gro on rxhash on
	like "$(ethtool -k "$dev")" '^tcp-segmentation-offload: on' "large sends"
	like "$(ethtool -k "$dev")" '^rx-checksumming: on' "receive checksums"
	tcp_both_ways 1
}

test_channels() {
	dev=$(stock_netdev)
	like "$(ethtool -l "$dev" | sed -n '/Current/,$p')" "Combined:[[:space:]]*$(nproc)" "channels"
	for count in 1 2 1 2; do
		ethtool -L "$dev" combined $count
		within 20 stock_carrier
		within 20 ping -c 1 -W 1 $there
		tcp_both_ways 1
	done
	# With two channels RSS spreads flows: both rings receive.
	before0=$(stat rx0_packets) before1=$(stat rx1_packets)
	there_do "python3 udp.py $there $here 32"
	sleep 1
	[ "$(stat rx0_packets)" -gt "$before0" ] && [ "$(stat rx1_packets)" -gt "$before1" ] || fail "one ring received nothing"
}

test_ring_sizes() {
	dev=$(stock_netdev)
	for size in 64 256 1024; do
		ethtool -G "$dev" rx $size tx $size
		within 20 stock_carrier
		within 20 ping -c 1 -W 1 $there
		ping -f -c 100 -W 5 $there
	done
}

tcp_connected() { [ -n "$(ss -Htn state established dport = :7001)" ]; }

test_mtu_changes_under_traffic() {
	dev=$(stock_netdev)
	there_do "ip link set \$(stock_netdev) mtu 9000"
	(set +e; (tcp_both_ways 10) >/tmp/transfer 2>&1; echo $? >/tmp/transfer.code) &
	transfer=$!
	# The segments of both ends have to fit the smaller MTU here: nobody tells the peer when it shrinks.
	within 60 tcp_connected
	for mtu in 9000 1500 4000 1280 9000 2000 1500; do
		ip link set "$dev" mtu $mtu
		sleep 0.5
	done
	wait $transfer
	is "$(cat /tmp/transfer.code)" 0 "transfer meanwhile: $(cat /tmp/transfer)"
	set_mtu 1500
}

test_promiscuous_and_multicast() {
	dev=$(stock_netdev)
	# A group that the peer joins is heard, the frames of another are not.
	there_do "ip maddr add 01:00:5e:00:00:63 dev \$(stock_netdev); sleep 0.5"
	before=$(there_stat rx_vport_multicast_packets)
	raw_frames 01005e000063 20
	within 10 heard rx_vport_multicast_packets $((before + 20))
	# Unicast to an address that is not the card's: only promiscuous ears hear it.
	before=$(there_stat rx_packets)
	raw_frames 020000000077 20
	sleep 1
	after=$(there_stat rx_packets)
	[ $((after - before)) -lt 10 ] || fail "$((after - before)) frames to a foreign address came in"
	there_do "ip link set \$(stock_netdev) promisc on; sleep 0.5"
	before=$(there_stat rx_packets)
	raw_frames 020000000077 20
	within 10 heard rx_packets $((before + 20))
	there_do "ip link set \$(stock_netdev) promisc off; ip maddr del 01:00:5e:00:00:63 dev \$(stock_netdev)"
}

heard() { [ "$(there_stat "$1")" -ge "$2" ]; }

# raw_frames MAC COUNT: frames of a private EtherType.
raw_frames() {
	python3 - "$(stock_netdev)" "$1" "$2" <<'PYTHON'
import socket, sys
device, mac, count = sys.argv[1], bytes.fromhex(sys.argv[2]), int(sys.argv[3])
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((device, 0))
own = out.getsockname()[4]
for number in range(count):
    out.send(mac + own + b"\x88\xb5" + bytes([number]) * 100)
PYTHON
}

test_no_complaints() { wire_no_complaints; }

ktap_main "$@"
