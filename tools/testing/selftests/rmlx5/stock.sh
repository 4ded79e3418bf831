# SPDX-License-Identifier: Apache-2.0 OR MIT
# The stock mlx5 drivers judge the card: one guest, one card.
. ./ktap.sh
. ./stock.subr

address=192.0.2.1

# driven: what a case after the probe needs, whatever ran before it.
driven() {
	stock_up $address
	within 10 stock_gid_index $address
}

test_card_on_the_bus() {
	text=$(lspci -vv -s "$(stock_pci)")
	like "$text" 'Ethernet controller: Mellanox.*ConnectX-6 Dx' "name"
	like "$text" 'Region 0: Memory at .*\(64-bit, prefetchable\).*\[size=32M\]' "register window"
	like "$text" 'Express \(v2\) Endpoint' "express capability"
	like "$text" 'MaxPayload 512 bytes' "payload supported"
	like "$text" 'FLReset\+' "function level reset"
	like "$text" 'LnkCap:.*Speed 16GT/s, Width x16, ASPM not supported' "link capability"
	like "$text" 'MSI-X: Enable- Count=64' "vectors"
	like "$text" 'UESvrt:.*DLP\+ SDES\+' "severities"
	like "$text" 'Vital Product Data' "product data"
}

test_payload_and_read_request_take_writes() {
	dev=$(stock_pci)
	old=$(setpci -s "$dev" CAP_EXP+8.w)
	setpci -s "$dev" CAP_EXP+8.w=5050:70e0
	like "$(lspci -vv -s "$dev")" 'MaxPayload 512 bytes, MaxReadReq 4096 bytes' "device control"
	like "$(host card 0 bus)" '"max_read_request": 4096' "the card's view"
	setpci -s "$dev" CAP_EXP+8.w="$old"
}

test_probe_without_a_complaint() {
	stock_up $address
	like "$(klog)" 'mlx5_core .*firmware version: 22\.' "firmware line"
	is "$(stock_complaints)" "" "complaints of the drivers"
}

test_carrier_and_speed() {
	driven
	like "$(ethtool "$(stock_netdev)")" 'Speed: 100000Mb/s' "speed"
	is "$(cat "/sys/class/infiniband/$(stock_ibdev)/ports/1/rate")" "100 Gb/sec (2X HDR)" "rate"
	like "$(ethtool -i "$(stock_netdev)")" 'driver: mlx5_core' "driver"
}

test_roce_v2_gids() {
	driven
	types=$(cat "/sys/class/infiniband/$(stock_ibdev)/ports/1/gid_attrs/types/"* 2>/dev/null || :)
	like "$types" 'RoCE v2' "types of the GIDs"
}

test_ibv_devinfo() {
	driven
	text=$(ibv_devinfo -v)
	for line in 'fw_ver:[[:space:]]*22\.36\.1010' 'vendor_id:[[:space:]]*0x02c9' 'vendor_part_id:[[:space:]]*4125' \
		'state:[[:space:]]*PORT_ACTIVE' 'link_layer:[[:space:]]*Ethernet' 'max_mtu:[[:space:]]*4096' \
		'max_qp:[[:space:]]*131072' 'board_id:[[:space:]]*MT_0000000359'; do
		like "$text" "$line" "ibv_devinfo"
	done
}

test_rc_pingpong() { driven; stock_pingpong rc $address; }

test_ud_pingpong() { driven; stock_pingpong ud $address; }

test_traffic_left_no_complaint() {
	is "$(dmesg | grep -E 'WARNING|BUG|Call Trace|cqe dump|mlx5.*(fail|error)' || :)" "" "kernel log"
}

test_unbind_returns_everything() {
	driven
	dev=$(stock_pci)
	echo "$dev" >/sys/bus/pci/drivers/mlx5_core/unbind
	[ ! -e "/sys/bus/pci/devices/$dev/driver" ]
	is "$(stock_census)" "" "what is left in the card"
	is "$(stock_complaints)" "" "complaints of the drivers"
	echo "$dev" >/sys/bus/pci/drivers/mlx5_core/bind
	stock_up $address
}

test_unbind_and_bind_five_times() {
	driven
	dev=$(stock_pci)
	for round in 1 2 3 4 5; do
		echo "$dev" >/sys/bus/pci/drivers/mlx5_core/unbind
		is "$(stock_census)" "" "what is left in the card in round $round"
		echo "$dev" >/sys/bus/pci/drivers/mlx5_core/bind
		within 30 stock_bound
	done
	stock_up $address
	within 10 stock_gid_index $address
	stock_pingpong rc $address
	is "$(stock_complaints)" "" "complaints of the drivers"
}

ktap_main "$@"
