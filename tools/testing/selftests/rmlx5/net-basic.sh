# SPDX-License-Identifier: Apache-2.0 OR MIT
# The network interface of two machines on one cable.
. ./ktap.sh
. ./core.subr
. ./stock.subr
. ./net.subr

suite_setup() {
	net_pair
	within 60 ping -c 1 -W 1 $there
	there_do "python3 ./net-traffic.py serve >/tmp/serve.log 2>&1 &"
	within 60 traffic udp $there 64 1
}

test_ping_sizes() {
	for size in 0 1 17 18 19 56 242 255 256 257 1000 1472; do
		ping -c 2 -i 0.05 -W 2 -s $size $there || fail "size $size"
	done
	ping -6 -c 2 -i 0.05 -W 2 2001:db8::2
}

test_ping_fragmented() {
	for size in 1473 4000 9000 20000; do
		ping -c 2 -i 0.05 -W 2 -s $size $there || fail "size $size"
	done
}

# As fast as answers come; none may be missing.
test_ping_flood() {
	for size in 56 1472 9000; do
		like "$(ping -f -q -c $((600 - size / 18)) -s $size -W 10 $there)" ' 0% packet loss' "size $size"
	done
}

test_tcp() {
	traffic tcp $there 2000000
	traffic tcp 2001:db8::2 1000000
}

# 100 MB in all, half of them each way, all compared.
test_bulk() {
	begin=$(now_ms)
	traffic tcp $there "${BULK:-50000000}"
	note "$((2 * ${BULK:-50000000} / ($(now_ms) - begin))) kB/s"
}

# Who lost it?
lost() {
	for counter in /sys/class/net/$(net_dev)/statistics/*; do
		echo "here ${counter##*/} $(cat "$counter"), there $(there_do "cat /sys/class/net/\$(net_dev)/statistics/${counter##*/}")"
	done
	grep -h '^Ip:\|^Udp:' /proc/net/snmp
	there_do "grep -h '^Ip:\|^Udp:' /proc/net/snmp"
	fail "datagrams of $1 bytes"
}

test_udp() {
	for size in 4 18 22 256 1000 1472 9000; do
		traffic udp $there $size 40 || lost "$size"
	done
	traffic udp 2001:db8::2 1400 40 || lost "1400 over IPv6"
}

test_what_ethtool_says() {
	like "$(ethtool "$(net_dev)")" 'Speed: 100000Mb/s' speed
	like "$(ethtool "$(net_dev)")" 'Link detected: yes' link
	like "$(ethtool -i "$(net_dev)")" "^driver: $NET_DRIVER" driver
	like "$(ethtool -i "$(net_dev)")" "^bus-info: $BDF" bus
	like "$(ethtool -i "$(net_dev)")" '^firmware-version: [0-9]+[.][0-9]+[.][0-9]+' firmware
	[ "$(ethtool -S "$(net_dev)" | grep -c ': [0-9]')" -gt 20 ] || fail "few counters"
	for option in -g -l -c -k -x; do ethtool $option "$(net_dev)"; done
}

# Commands that the card has had.
commands() {
	host card 0 counters | sed -n '/"commands": {/,/}/s/.*: \([0-9]*\),\{0,1\}$/\1/p' | awk '{ n += $1 } END { print n }'
}

interrupt_lines() { grep -c mlx5 /proc/interrupts; }
# Memory in use, KiB, when what is on its way back has come: a pool of pages looks once a second.
used_memory() {
	memory_least=$(net_memory)
	for try in $(seq 20); do
		sleep 1
		memory_now=$(net_memory)
		[ "$memory_now" -lt $((memory_least - 64)) ] || break
		memory_least=$memory_now
	done
	echo "$memory_least"
}

cycles() {
	for round in $(seq "$1"); do
		ip link set "$(net_dev)" down
		ip link set "$(net_dev)" up
	done
	within 20 net_carrier
}

# Opened and closed often, it leaves nothing behind, on the card or in memory, and the last time costs what the first did.
# What is lost is lost in each quarter: caches of the kernel that grow do so in one and not in the next.
test_cycles() {
	cycles 2
	objects=$(stock_census)
	lines=$(interrupt_lines)
	quarter=$((${CYCLES:-100} / 4))
	first='' lost='' all=''
	for part in 1 2 3 4; do
		before=$(commands)
		cycles $quarter
		last=$(($(commands) - before))
		first=${first:-$last}
		used=$(used_memory)
		if [ "$part" -gt 1 ]; then
			gone=$((used - before_used)) all="$all $gone"
			[ "${lost:-$gone}" -lt "$gone" ] || lost=$gone
		fi
		before_used=$used
	done
	note "commands of $quarter cycles: $first, in the end $last; memory lost in quarters:$all KiB"
	is "$(stock_census)" "$objects" "objects and pages on the card"
	is "$(interrupt_lines)" "$lines" "interrupts"
	[ "$last" -le $((first + first / 10)) ] || fail "more commands than in the beginning"
	# A page a cycle is 4, a ring 2048.
	[ "$lost" -lt $((256 + quarter * 12)) ] || fail "memory gets less:$all KiB"
	ip -6 addr replace 2001:db8::1/64 dev "$(net_dev)" nodad
	within 20 ping -c 1 -W 1 $there
}

# Nothing counts as on its way on a closed interface, in the middle of traffic: the core's watchdog would wait for it.
test_down_and_up() {
	for round in 1 2 3; do
		ping -q -f -c 2000 -s 1400 -W 1 $there >/dev/null 2>&1 &
		sleep 0.5
		ip link set "$(net_dev)" down
		is "$(cat "$DEV/net/$(net_dev)"/queues/tx-*/byte_queue_limits/inflight | sort -u)" 0 "bytes in flight"
		kill $! 2>/dev/null || :
		ip link set "$(net_dev)" up
		within 20 net_carrier
		within 20 ping -c 1 -W 1 $there
	done
}

test_link_flap() {
	host card 0 link down
	within 10 net_no_carrier
	there_do "within 10 net_no_carrier"
	host card 0 link up
	within 10 net_carrier
	within 20 ping -c 1 -W 1 $there
}

test_function_reset() {
	[ "$NET_DRIVER" = rmlx5 ] || skip "the stock driver does not live through a function reset while the interface is up"
	echo 1 >"$DEV/reset"
	within 20 net_carrier
	within 20 ping -c 1 -W 1 $there
	traffic tcp $there 200000
}

# The interface stays, with its addresses; TCP sends again what was lost.
test_resets_under_traffic() {
	[ "$NET_DRIVER" = rmlx5 ] || skip "the stock driver does not live through a function reset while the interface is up"
	(traffic tcp $there 3000000 2>&1; echo $? >/tmp/verdict) >/tmp/traffic.log &
	sleep 2
	echo 1 >"$DEV/reset"
	within 30 net_carrier
	sleep 1
	inject "$BDF" 0x10 0
	sleep 2
	within 30 net_carrier
	wait
	is "$(cat /tmp/verdict)" 0 "traffic meanwhile ($(cat /tmp/traffic.log))"
	within 20 ping -c 1 -W 1 $there
}

test_no_complaints() {
	# Resets have lines here that are no complaints.
	is "$(dmesg | grep -E 'hw csum failure|NETDEV WATCHDOG|made anew|makes no progress' || :)" "" "kernel log here"
	is "$(there_do net_complaints)" "" "kernel log there"
	for counter in rx_errors tx_errors; do
		is "$(net_count $counter)" 0 $counter
	done
}

# The driver goes while the interface is up and busy.
test_unload_under_traffic() {
	traffic tcp $there 3000000 >/dev/null 2>&1 &
	client=$!
	sleep 2
	net_unload
	kill $client 2>/dev/null || :
	unlike "$(klog)" 'leak:|unregister_netdevice' "kernel log"
	net_up $here
	within 20 ping -c 1 -W 1 $there
}

ktap_main "$@"
