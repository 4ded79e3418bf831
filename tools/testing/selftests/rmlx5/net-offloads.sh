# SPDX-License-Identifier: Apache-2.0 OR MIT
# The network interface with its offloads on and off, other lengths, rings, channels and addresses, under traffic.
. ./ktap.sh
. ./core.subr
. ./net.subr

suite_setup() {
	net_pair
	there_do "python3 ./net-traffic.py serve >/tmp/serve.log 2>&1 &"
	within 30 traffic udp $there 64 1
}

# A feature on both machines.
both() {
	net_feature "$1" "$2"
	there_do "net_feature $1 $2"
}

mtu_both() {
	ip link set "$(net_dev)" mtu "$1"
	there_do "ip link set \$(net_dev) mtu $1"
	within 10 net_carrier
	there_do "within 10 net_carrier"
}

# TCP both ways, and datagrams of all lengths; every byte compared.
all_traffic() {
	traffic tcp $there "${1:-400000}"
	traffic tcp 2001:db8::2 200000
	traffic udp $there 1200 16
	traffic udp $there 5000 16
}

test_offloads_off() {
	for feature in tso tx rx sg rxhash; do
		both $feature off
	done
	all_traffic
}

test_offloads_one_by_one() {
	for feature in rx tx sg tso rxhash; do
		both $feature on
		traffic tcp $there 200000
		traffic tcp 2001:db8::2 100000
	done
	traffic udp $there 1200 16
}

# Long packets really are cut by the card, and short ones are not counted as cut.
test_tso_is_used() {
	before=$(net_stat tx_tso_packets)
	traffic tcp $there 1000000
	[ "$(net_stat tx_tso_packets)" -gt $((before + 10)) ] || fail "$(($(net_stat tx_tso_packets) - before)) packets were cut"
	[ $(($(net_stat rx_csum_unnecessary) + $(net_stat rx_csum_complete))) -gt 0 ] || fail "the card said nothing of checksums"
}

test_vlan() {
	for strip in on off; do
		both rxvlan $strip
		for insert in on off; do
			both txvlan $insert
			there_do "ip link add link \$(net_dev) name v7 type vlan id 7; ip addr add 192.0.7.2/24 dev v7; ip link set v7 up"
			ip link add link "$(net_dev)" name v7 type vlan id 7
			ip addr add 192.0.7.1/24 dev v7
			ip link set v7 up
			within 20 ping -c 1 -W 1 192.0.7.2
			traffic tcp 192.0.7.2 200000
			traffic udp 192.0.7.2 1400 16
			ip link del v7
			there_do "ip link del v7"
		done
	done
	both rxvlan on
	both txvlan on
}

test_mtu() {
	most=$(ip -d link show "$(net_dev)" | sed -n 's/.* maxmtu \([0-9]*\).*/\1/p')
	[ "$most" -ge 9000 ] || fail "the largest MTU is $most"
	for mtu in 68 576 1280 4000 9000 "$most"; do
		mtu_both $mtu
		within 20 ping -c 1 -W 1 $there
		ping -c 2 -i 0.05 -W 2 -s $((mtu - 28)) -M do $there || fail "MTU $mtu"
	done
	traffic tcp $there 400000
	! ip link set "$(net_dev)" mtu 67 2>/dev/null || fail "MTU 67 was taken"
	! ip link set "$(net_dev)" mtu $((most + 1)) 2>/dev/null || fail "MTU $((most + 1)) was taken"
	mtu_both 1500
	# IPv6 left the interface while the MTU was below 1280.
	ip -6 addr replace 2001:db8::1/64 dev "$(net_dev)" nodad
	there_do "ip -6 addr replace 2001:db8::2/64 dev \$(net_dev) nodad"
	within 20 ping -6 -c 1 -W 1 2001:db8::2
}

test_mtu_under_traffic() {
	(traffic tcp $there 3000000 2>&1; echo $? >/tmp/verdict) >/tmp/traffic.log &
	for mtu in 9000 1280 4000 1500; do
		mtu_both $mtu
		sleep 0.5
	done
	wait
	is "$(cat /tmp/verdict)" 0 "traffic meanwhile ($(cat /tmp/traffic.log))"
}

test_channels_and_rings_under_traffic() {
	(traffic tcp $there 3000000 2>&1; echo $? >/tmp/verdict) >/tmp/traffic.log &
	for count in 1 2; do
		ethtool -L "$(net_dev)" combined $count
		like "$(ethtool -l "$(net_dev)")" "Combined:[[:space:]]*$count" channels
		ethtool -G "$(net_dev)" rx $((count * 128)) tx $((count * 128))
		like "$(ethtool -g "$(net_dev)" | sed -n '/Current/,$p')" "RX:[[:space:]]*$((count * 128))" rings
		# A card without moderation says so.
		ethtool -C "$(net_dev)" rx-usecs $count tx-usecs $count 2>/tmp/moderation || grep -q 'not supported' /tmp/moderation
		within 10 net_carrier
	done
	wait
	is "$(cat /tmp/verdict)" 0 "traffic meanwhile ($(cat /tmp/traffic.log))"
	! ethtool -L "$(net_dev)" combined 3 2>/dev/null || fail "3 channels were taken"
}

# What comes out of the wire has good checksums, seen by tcpdump on both machines. GRO makes packets that have none.
test_captured_checksums() {
	both gro off
	rm -f /tmp/tcpdump.log
	there_do "rm -f /tmp/tcpdump.log"
	timeout 100 tcpdump -p -n -Q in -s 0 -i "$(net_dev)" -w /tmp/captured.pcap >/tmp/tcpdump.log 2>&1 &
	here_pid=$!
	there_do "timeout 100 tcpdump -p -n -Q in -s 0 -i \$(net_dev) -w /tmp/captured.pcap >/tmp/tcpdump.log 2>&1 & echo \$! >/tmp/tcpdump.pid"
	within 20 grep -q listening /tmp/tcpdump.log
	there_do "within 20 grep -q listening /tmp/tcpdump.log"
	traffic tcp $there 200000
	traffic tcp 2001:db8::2 200000
	traffic udp $there 1200 16
	traffic udp 2001:db8::2 1200 16
	sleep 1
	kill $here_pid
	wait $here_pid || :
	there_do "kill \$(cat /tmp/tcpdump.pid)"
	both gro on
	for verdict in "here $(net_captured)" "there $(there_do "sleep 1; net_captured")"; do
		note "$verdict"
		like "$verdict" ' [0-9]{3,} good, 0 bad$' "checksums $verdict"
	done
}

test_spread() {
	[ "$(ethtool -l "$(net_dev)" | sed -n 's/^Combined:[[:space:]]*//p' | tail -1)" = 2 ] || skip "one channel"
	ethtool -X "$(net_dev)" weight 0 1
	like "$(ethtool -x "$(net_dev)")" '^ *0: *1 +1 +1' "the table"
	before=$(net_stat rx0_packets)
	traffic tcp $there 400000 4
	# What is not IP, ARP that is, goes to ring 0.
	[ "$(net_stat rx0_packets)" -lt $((before + 10)) ] || fail "ring 0 still gets packets"
	ethtool -X "$(net_dev)" default
	traffic tcp $there 200000 4
}

test_address() {
	old=$(cat "$DEV/net/$(net_dev)/address")
	ip link set "$(net_dev)" address 02:00:00:00:77:01
	ip neigh flush dev "$(net_dev)"
	there_do "ip neigh flush dev \$(net_dev)"
	within 20 ping -c 1 -W 1 $there
	ip link set "$(net_dev)" address "$old"
	ip neigh flush dev "$(net_dev)"
	there_do "ip neigh flush dev \$(net_dev)"
	within 20 ping -c 1 -W 1 $there
	! ip link set "$(net_dev)" address 01:00:00:00:77:01 2>/dev/null || fail "a group address was taken"
}

# A frame for somebody else is seen by who wants everything only; one for a group by its members only.
test_filters() {
	mac=02:00:00:00:66:66
	there_do "ip neigh replace 192.0.2.66 lladdr $mac dev \$(net_dev) nud permanent"
	seen "ip link set promisc off" 192.0.2.66 0
	seen "ip link set promisc on" 192.0.2.66 3
	ip link set "$(net_dev)" promisc off
	there_do "ip neigh del 192.0.2.66 dev \$(net_dev)"
	there_do "ip route replace 239.9.9.9/32 dev \$(net_dev)"
	seen "ip maddress del 01:00:5e:09:09:09" 239.9.9.9 0
	seen "ip maddress add 01:00:5e:09:09:09" 239.9.9.9 3
	ip maddress del 01:00:5e:09:09:09 dev "$(net_dev)"
	seen "ip link set allmulticast on" 239.9.9.9 3
	ip link set "$(net_dev)" allmulticast off
}

# A frame of a VLAN that nobody here is in stops at the card, unless that is not wanted.
test_vlan_filter() {
	mac=$(cat "$DEV/net/$(net_dev)/address")
	there_do "ip link add link \$(net_dev) name v9 type vlan id 9; ip addr add 192.0.9.2/24 dev v9; ip link set v9 up
		ip neigh replace 192.0.9.1 lladdr $mac dev v9 nud permanent"
	like "$(ethtool -k "$(net_dev)")" '^rx-vlan-filter: on$' "to begin with"
	seen : 192.0.9.1 0
	ip link add link "$(net_dev)" name v9 type vlan id 9
	ip link set v9 up
	seen : 192.0.9.1 3
	ip link del v9
	seen "ip link set promisc on" 192.0.9.1 3
	ip link set "$(net_dev)" promisc off
	net_feature rx-vlan-filter off
	seen : 192.0.9.1 3
	net_feature rx-vlan-filter on
	seen : 192.0.9.1 0
	there_do "ip link del v9"
}

# seen SETTING ADDRESS COUNT: with the setting, so many of three packets to the address arrive. The stock driver brings some
# settings to the card some time after the command that makes them.
seen() {
	case $1 in
	"ip link set"*) ip link set "$(net_dev)" ${1#ip link set } ;;
	*) $1 dev "$(net_dev)" 2>/dev/null || : ;;
	esac
	for seen_round in 1 2 3 4 5 6 7 8 9 10; do
		[ "$(arrive "$2" "$3")" != "$3" ] || return 0
		sleep 1
	done
	fail "of three packets to $2 after '$1' never came $3"
}

# arrive ADDRESS COUNT: how many of three packets to the address arrive; so many are expected.
arrive() {
	# What the last one said is not this one.
	rm -f /tmp/tcpdump.log
	timeout 60 tcpdump -p -n --immediate-mode -i "$(net_dev)" -c 3 -w /tmp/seen.pcap "dst host $1" >/tmp/tcpdump.log 2>&1 &
	arrive_pid=$!
	within 20 grep -qs listening /tmp/tcpdump.log
	there_do "ping -c 3 -i 0.1 -W 1 $1 >/dev/null || :" >/dev/null
	# What is not expected had a second to come; what is has more, on a slow machine.
	arrive_wait=1
	[ "$2" = 0 ] || arrive_wait=5
	timeout $arrive_wait tail --pid=$arrive_pid -f /dev/null || :
	kill $arrive_pid 2>/dev/null || :
	wait $arrive_pid 2>/dev/null || :
	tcpdump -n -r /tmp/seen.pcap 2>/dev/null | wc -l
}

only_too_long() { [ "$(net_stat rx_oversize_pkts_phy)" = "$(net_count rx_errors)" ]; }

test_no_complaints() {
	is "$(net_complaints)" "" "kernel log here"
	is "$(there_do net_complaints)" "" "kernel log there"
	is "$(net_count tx_errors)" 0 tx_errors
	# The peer's frames may be too long for a while when the MTU changes under traffic.
	within 20 only_too_long || fail "rx_errors: $(net_count rx_errors), of them too long: $(net_stat rx_oversize_pkts_phy)"
}

ktap_main "$@"
