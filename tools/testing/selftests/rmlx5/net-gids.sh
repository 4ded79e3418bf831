# SPDX-License-Identifier: Apache-2.0 OR MIT
# The port of the RDMA device and its GIDs follow the network interface, for both drivers.
. ./ktap.sh
. ./core.subr
. ./stock.subr
. ./net.subr

suite_setup() {
	core_setup
	net_load
	[ "$NET_DRIVER" = rmlx5 ] || modprobe mlx5_ib
	within 30 stock_bound
}

port() { echo "/sys/class/infiniband/$(stock_ibdev)/ports/1"; }
port_down() { grep -q DOWN "$(port)/state"; }

# gid_index GID-REGEX [NETDEV]: index of the first RoCE v2 GID that matches, in the notation of sysfs.
gid_index() {
	for gid_at in $(grep -l -- "$1" "$(port)"/gids/* | sed 's|.*/||' | sort -n); do
		grep -qs v2 "$(port)/gid_attrs/types/$gid_at" || continue
		[ -z "${2:-}" ] || [ "$(cat "$(port)/gid_attrs/ndevs/$gid_at")" = "$2" ] || continue
		echo "$gid_at"
		return
	done
	return 1
}
# ipv4_gid ADDRESS: what to look for.
ipv4_gid() { printf ':ffff:%02x%02x:%02x%02x' $(echo "$1" | tr . ' '); }
no_gid() { ! gid_index "$@"; }

# What the card has at an index: address, MAC, version, tag.
card_gid() { host card 0 dump roce-address "$1" | sed 's/^[^:]*: //'; }
card_gids() { host card 0 dump roce-address 2>/dev/null | sort; }
mac() { cat "/sys/class/net/$(net_dev)/address"; }

test_the_interface_is_known() {
	like "$(rdma link)" "link $(stock_ibdev)/1 state DOWN .*netdev $(net_dev)" "rdma link"
	# Before anybody sets an address there is the one made of the MAC.
	index=$(gid_index '^fe80:' "$(net_dev)") || fail "no GID: $(cat "$(port)"/gids/* | sort | uniq -c)"
	like "$(card_gid "$index")" "^fe80::.* MAC $(mac) v2$" "GID $index in the card"
}

test_state_follows_the_link() {
	stdbuf -oL ibv_asyncwatch -d "$(stock_ibdev)" >/tmp/events 2>&1 &
	watcher=$!
	within 20 grep -q 'async event' /tmp/events
	ip link set "$(net_dev)" up
	within 20 stock_active
	like "$(rdma link)" "link $(stock_ibdev)/1 state ACTIVE physical_state LINK_UP netdev $(net_dev)" "rdma link"
	within 10 grep -q PORT_ACTIVE /tmp/events
	host card 0 link down
	within 10 port_down
	within 10 grep -q PORT_ERR /tmp/events
	host card 0 link up
	within 10 stock_active
	ip link set "$(net_dev)" down
	within 10 port_down
	ip link set "$(net_dev)" up
	within 10 stock_active
	kill $watcher
}

test_active_mtu() {
	# Below 1280 the interface would lose IPv6.
	for pair in 1500:1024 2200:2048 9000:4096 4191:2048 4192:4096 1500:1024; do
		ip link set "$(net_dev)" mtu "${pair%:*}"
		like "$(ibv_devinfo -d "$(stock_ibdev)")" "active_mtu:[[:space:]]*${pair#*:} " "MTU ${pair%:*}"
	done
	within 10 stock_active
}

test_ipv4() {
	ip addr add $here/24 dev "$(net_dev)"
	within 10 gid_index "$(ipv4_gid $here)"
	index=$(gid_index "$(ipv4_gid $here)")
	is "$(card_gid "$index")" "::ffff:$here MAC $(mac) v2" "GID $index in the card"
	like "$(ibv_devinfo -v -d "$(stock_ibdev)")" "GID\[ *$index\]:[[:space:]]*::ffff:$here, RoCE v2" "ibv_devinfo"
	ip addr del $here/24 dev "$(net_dev)"
	within 10 no_gid "$(ipv4_gid $here)"
	is "$(host card 0 dump roce-address | grep "$here" || :)" "" "the card after it went"
}

test_ipv6() {
	ip -6 addr add 2001:db8::1/64 dev "$(net_dev)" nodad
	within 10 gid_index '^2001:0db8:'
	index=$(gid_index '^2001:0db8:')
	is "$(card_gid "$index")" "2001:db8::1 MAC $(mac) v2" "GID $index in the card"
	ip -6 addr del 2001:db8::1/64 dev "$(net_dev)"
	within 10 no_gid '^2001:0db8:'
	is "$(host card 0 dump roce-address | grep 2001: || :)" "" "the card after it went"
}

test_vlan() {
	modprobe 8021q
	ip link add link "$(net_dev)" name v7 type vlan id 7
	ip link set v7 up
	ip addr add 198.51.100.1/24 dev v7
	within 10 gid_index ':ffff:c633:6401' v7
	index=$(gid_index ':ffff:c633:6401' v7)
	is "$(card_gid "$index")" "::ffff:198.51.100.1 MAC $(mac) v2 VLAN 7" "GID $index in the card"
	ip link del v7
	within 10 no_gid ':ffff:c633:6401'
	is "$(host card 0 dump roce-address | grep VLAN || :)" "" "the card after it went"
}

test_address_of_the_card_changes() {
	old=$(mac)
	ip link set "$(net_dev)" address 02:00:00:00:00:77
	within 10 gid_index '^fe80:.*:00ff:fe00:0077'
	index=$(gid_index '^fe80:.*:00ff:fe00:0077')
	like "$(card_gid "$index")" 'MAC 02:00:00:00:00:77 v2' "GID $index in the card"
	ip link set "$(net_dev)" address "$old"
	within 10 no_gid '^fe80:.*:00ff:fe00:0077'
}

# The table is as long as the card's, but for what a driver keeps for itself.
test_many() {
	for number in $(seq 20 35); do ip addr add "198.18.0.$number/24" dev "$(net_dev)"; done
	within 20 gid_index ':ffff:c612:0023'
	count=$(host card 0 dump roce-address | grep -c '198.18.0.* v2$')
	is "$count" 16 "addresses of version 2 in the card"
	ip addr flush to 198.18.0.0/24 dev "$(net_dev)"
	within 20 no_gid ':ffff:c612:'
	within 20 card_forgot 198.18.0.
}
card_forgot() { ! host card 0 dump roce-address | grep -q "$1"; }

# A reset makes the card forget; the core tells of an address once only.
test_resets() {
	ip link set "$(net_dev)" up
	within 20 stock_active
	ip addr replace $here/24 dev "$(net_dev)"
	ip -6 addr replace 2001:db8::1/64 dev "$(net_dev)" nodad
	within 10 gid_index "$(ipv4_gid $here)"
	within 10 gid_index '^2001:0db8:'
	sleep 1
	before=$(card_gids)
	like "$before" "$here" "the card before"
	if [ "$NET_DRIVER" = rmlx5 ]; then
		echo 1 >"$DEV/reset"
		within 20 stock_active
		is "$(card_gids)" "$before" "the card after a function reset"
	fi
	inject "$BDF" 0x10 0
	if [ "$NET_DRIVER" != rmlx5 ]; then
		# The stock driver makes a new interface.
		sleep 2
		within 40 stock_bound
		ip link set "$(net_dev)" up
		ip addr replace $here/24 dev "$(net_dev)"
		ip -6 addr replace 2001:db8::1/64 dev "$(net_dev)" nodad
		within 10 gid_index '^2001:0db8:'
	fi
	within 40 stock_active
	within 10 gid_index "$(ipv4_gid $here)"
	like "$(card_gids)" "$here" "the card after AER"
	like "$(card_gids)" "2001:db8::1" "the card after AER"
	[ "$NET_DRIVER" != rmlx5 ] || is "$(card_gids)" "$before" "the card after AER"
	rmmod aer_inject
}

# Channels have an address of their own, which is none of the table's.
test_channels_beside_gids() {
	[ "$NET_DRIVER" = rmlx5 ] || skip "rmlx5 has them"
	before=$(card_gids)
	last=$(ls "$(port)/gids" | sort -n | tail -1)
	echo "rounds=2" >"$DBG/$BDF/selftest"
	within 60 grep -q '^result: pass' "$DBG/$BDF/selftest"
	is "$(card_gids | wc -l)" $(($(echo "$before" | wc -l) + 1)) "addresses in the card"
	like "$(card_gid $((last + 1)))" '^fe80::' "the driver's own"
	is "$(card_gids | grep -v " $((last + 1)):")" "$before" "the others"
}

# kinds VERSION: how many GIDs there are of it, and addresses in the card.
kinds() {
	echo "$(cat "$(port)"/gid_attrs/types/* 2>/dev/null | grep -c "$1") $(card_gids | grep -c " $2\( \|\$\)")"
}

# The card takes addresses of both versions. GIDs of version 1 are there when they are asked for, and always on the stock driver.
test_versions() {
	ip addr replace $here/24 dev "$(net_dev)"
	within 10 gid_index "$(ipv4_gid $here)"
	if [ "$NET_DRIVER" = rmlx5 ]; then
		is "$(kinds 'IB/RoCE v1' v1)" "0 0" "GIDs of version 1 and addresses of it that the card has, unasked"
		unload
		load roce_v1=1
		within 30 stock_bound
		ip addr replace $here/24 dev "$(net_dev)"
		within 10 gid_index "$(ipv4_gid $here)"
	fi
	within 10 as_many_of_both || fail "of version 1: $(kinds 'IB/RoCE v1' v1); of version 2: $(kinds 'RoCE v2' v2)"
	like "$(ibv_devinfo -v -d "$(stock_ibdev)")" 'GID\[.*RoCE v1' ibv_devinfo
}
as_many_of_both() {
	first=$(kinds 'IB/RoCE v1' v1)
	[ "${first%% *}" -gt 1 ] && [ "$first" = "$(kinds 'RoCE v2' v2)" ]
}

# Whoever goes first: nothing hangs, nothing is left.
test_unload() {
	[ "$NET_DRIVER" = rmlx5 ] || skip "the stock driver has other modules on it"
	unload
	is "$(host card 0 dump | grep 'RoCE address' || :)" "" "the card"
	unlike "$(klog)" 'unregister_netdevice|leak|WARNING|BUG' "kernel log"
	load
	within 30 stock_bound
	within 10 gid_index '^fe80:'
}

ktap_main "$@"
