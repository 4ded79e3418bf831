# SPDX-License-Identifier: Apache-2.0 OR MIT
# The module on a machine without a card: it goes in and out and leaves nothing.
. ./ktap.sh

module=/job/files/rmlx5.ko

test_load_and_unload() {
	modprobe ib_uverbs
	insmod $module
	grep -q '^rmlx5 ' /proc/modules || fail "not loaded"
	rmmod rmlx5
	! grep -q '^rmlx5 ' /proc/modules || fail "still loaded"
	unlike "$(klog)" 'rmlx5.*(left|leak)' "kernel log"
}

test_again_and_again() {
	modprobe ib_uverbs
	for cycle in 1 2 3 4 5 6 7 8 9 10; do
		insmod $module
		rmmod rmlx5
	done
}

test_only_out_of_tree_taint() {
	# Out of tree (bit 12) and unsigned (bit 13), nothing else.
	is "$(cat /proc/sys/kernel/tainted)" 12288 "taint"
}

ktap_main "$@"
