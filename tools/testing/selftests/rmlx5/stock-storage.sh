# SPDX-License-Identifier: Apache-2.0 OR MIT
# NVMe over RDMA on the stock drivers: the peer exports a RAM disk, this guest writes, reads and compares.
. ./ktap.sh
. ./stock.subr
. ./wire.subr
. ./storage.subr

suite_setup() {
	wire_up
	there_do ". ./storage.subr; storage_export $there"
}

# connected: the disk of the peer is here, whatever ran before.
connected() { storage_disk >/dev/null || storage_connect $there; }

test_connect() {
	storage_connect $there
	like "$(klog)" 'nvme nvme[0-9]+: mapped [0-9/]+ default/read/poll queues|creating 2 I/O queues' "queues"
	is "$(cat "/sys/block/$(basename "$(storage_disk)")/size")" 65536 "sectors"
}

test_large_blocks() { connected; storage_round 8 1M; }

test_small_blocks() { connected; storage_round 1 4k; }

test_odd_blocks() { connected; storage_round 2 61440; }

# The target sees the same bytes: what was written went through the wire and not into a cache.
test_the_target_holds_it() {
	connected
	storage_round 2 128k
	is "$(there_do "head -c 2M /dev/ram0 | sha256sum")" "$(sha256sum </tmp/pattern)" "disk of the target"
}

test_many_at_once() {
	connected
	disk=$(storage_disk)
	for part in 0 1 2 3 4 5 6 7; do
		head -c 1M /dev/urandom >/tmp/part$part
		dd if=/tmp/part$part of="$disk" bs=16k seek=$((part * 64)) oflag=direct conv=notrunc 2>/dev/null &
	done
	wait
	for part in 0 1 2 3 4 5 6 7; do
		dd if="$disk" bs=64k skip=$((part * 16)) count=16 iflag=direct 2>/dev/null | cmp - /tmp/part$part || fail "part $part differs"
	done
}

# The link is away for a while: the host's driver reconnects and the data is still there.
test_disconnect_and_reconnect() {
	connected
	storage_round 1 64k
	storage_disconnect
	within 10 sh -c '! ls /dev/nvme*n1 2>/dev/null | grep -q .'
	storage_connect $there
	dd if="$(storage_disk)" bs=1M count=1 iflag=direct 2>/dev/null | cmp - /tmp/pattern
	storage_disconnect
}

# Host and target on the same card: the connection loops back inside it.
test_loopback() {
	storage_export $here
	storage_connect $here
	storage_round 4 256k
	storage_disconnect
	within 20 sh -c '! ls /dev/nvme*n1 2>/dev/null | grep -q .'
	storage_unexport
}

test_no_complaints() { wire_no_complaints; }

ktap_main "$@"
