# SPDX-License-Identifier: Apache-2.0 OR MIT
# A machine that can map 8 MiB for its devices (swiotlb=4096,force): rings take it all, packets cannot be mapped, and
# with smaller rings they can. Memory of users never can.
. ./ktap.sh
. ./core.subr
. ./net.subr

suite_setup() {
	core_setup
	net_load
}

net_ib() { first_of "$DEV/infiniband"; }
tight() { grep -q swiotlb= /proc/cmdline || skip "this kernel maps as much as it likes"; }

# frames COUNT: raw frames to everybody.
frames() {
	python3 - "$(net_dev)" "$1" <<'PYTHON'
import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((sys.argv[1], 0))
frame = b"\xff" * 6 + out.getsockname()[4] + b"\x88\xb5" + bytes(8000)
for _ in range(int(sys.argv[2])):
    out.send(frame)
PYTHON
}

test_packets_that_cannot_be_mapped() {
	tight
	# Three pages for each of 1024 WQEs: 12 MiB are wanted. One ring, so that it gets some of them.
	ethtool -L "$(net_dev)" combined 1
	ip link set "$(net_dev)" mtu 9000
	ip link set "$(net_dev)" up
	within 20 net_carrier
	before=$(net_stat tx_dma_mapping_error)
	frames 200
	errors=$(net_stat tx_dma_mapping_error)
	[ "$errors" -gt "$before" ] || fail "everything was mapped"
	# Each is a dropped packet, and has been from the beginning.
	[ "$(net_count tx_dropped)" -ge "$errors" ] || fail "$errors errors, $(net_count tx_dropped) packets dropped"
	like "$(rdma statistic show link "$(net_ib)/1")" ' dma_mapping_error [1-9]' "rdma statistic"
	within 10 users_errors 0 || fail "the RDMA device has counted others than the interface"
	# A queue whose packets are dropped does not stand still.
	is "$(net_stat tx_timeouts)" 0 "time-outs"
	unlike "$(klog)" 'NETDEV WATCHDOG|WARNING|BUG' "kernel log"
}

test_smaller_rings_leave_room() {
	tight
	ethtool -G "$(net_dev)" rx 64 tx 64
	within 20 net_carrier
	errors=$(net_stat tx_dma_mapping_error) sent=$(net_count tx_packets)
	frames 200
	is "$(net_stat tx_dma_mapping_error)" "$errors" "mapping errors"
	[ "$(net_count tx_packets)" -ge $((sent + 200)) ] || fail "$(net_count tx_packets) packets after $sent"
}

# users_errors COUNT: so many of the errors that the RDMA device counts are none of the interface, which may have more at any time.
users_errors() { [ $(($(cat "$DEV/infiniband/$(net_ib)/hw_counters/dma_mapping_error") - $(net_stat tx_dma_mapping_error))) = "$1" ]; }

# Users and the card share memory as it is, so it cannot be bounced (DMA_ATTR_REQUIRE_COHERENT in drivers/infiniband/core/umem.c)
# and here not mapped at all: a region and the buffer of a CQ are EIO, each is counted, and nothing stays pinned.
test_memory_of_users_that_cannot_be_mapped() {
	tight
	modprobe ib_uverbs
	within 10 users_errors 0
	is "$(python3 - "$(net_ib)" <<'PYTHON'
import sys, uverbs
session = uverbs.Session(sys.argv[1])
pd = session.pd()
region = session.attempt("reg_mr", **session.mr_values(pd))[0]
cq = session.attempt("create_cq", **session.cq_values())[0]
print(uverbs.name_of(region), uverbs.name_of(cq), uverbs.pinned())
PYTHON
	)" "EIO EIO 0" "a region, a CQ, and pages pinned then"
	within 10 users_errors 2 || fail "two are not counted"
}

# What is in the rings goes back: the pool is empty of ours again.
test_nothing_stays_mapped() {
	tight
	[ -r /sys/kernel/debug/swiotlb/io_tlb_used ] || skip "the kernel does not tell"
	ip link set "$(net_dev)" down
	used=$(cat /sys/kernel/debug/swiotlb/io_tlb_used)
	for round in 1 2 3 4 5; do
		ip link set "$(net_dev)" up
		frames 50
		ip link set "$(net_dev)" down
	done
	within 10 mapped_at_most "$used"
}
mapped_at_most() { [ "$(cat /sys/kernel/debug/swiotlb/io_tlb_used)" -le "$1" ]; }

ktap_main "$@"
