# SPDX-License-Identifier: Apache-2.0 OR MIT
# The usual tools show the card.
. ./ktap.sh
. ./core.subr
. ./channel.subr

have() { command -v "$1" >/dev/null || skip "no $1"; }

test_rdma_link() {
	have rdma && fresh || return
	rdma link show "$(ibdev)/1" | grep -q 'state DOWN' || fail "$(rdma link)"
}

test_ibv_devices() {
	have ibv_devices && fresh || return
	ibv_devices | grep -q "$(ibdev)" || fail "$(ibv_devices)"
}

test_ibv_devinfo() {
	have ibv_devinfo && fresh || return
	text=$(ibv_devinfo -v -d "$(ibdev)") || fail "ibv_devinfo failed" || return
	for line in 'transport:.*InfiniBand' 'vendor_id:.*0x02c9' 'state:.*PORT_DOWN' 'link_layer:.*Ethernet'; do
		echo "$text" | grep -q "$line" || { echo "$text" | sed 's/^/# /'; fail "no '$line'"; return 1; }
	done
	for name in max_qp:max_qp max_qp_wr:max_qp_wr max_cqe:max_cqe; do
		tool=$(echo "$text" | awk -v name="${name%%:*}:" '$1 == name { print $2 }')
		expect "$name" "$(cat "$(IB)/resource/${name##*:}")" "$tool" || return
	done
}

# Speed and width are the port's, as the stock driver reports them of the same card (stock.sh).
test_rate() {
	fresh || return
	expect rate "100 Gb/sec (2X HDR)" "$(cat "$(IB)/ports/1/rate")" || return
	expect max_dma_size "$(cat "$(IB)/resource/max_msg_size")" "$(cat "$(IB)/resource/max_dma_size")"
}

# The name is free again after unload, also while somebody looks at the files.
test_again() {
	fresh && first=$(ibdev) || return
	exec 3<"$(IB)/num_qps"
	fresh || return
	exec 3<&-
	expect name "$first" "$(ibdev)"
}

ktap_main "$@"
