# SPDX-License-Identifier: Apache-2.0 OR MIT
# The whole life of the driver on a kernel that is told to look hard: freed memory is poisoned and its use reported,
# borders of objects are guarded, and everything the driver maps for the card goes through bounce buffers, so that a
# missing sync or a wrong address shows. The bench fails what the kernel reports.
. ./ktap.sh
. ./core.subr
. ./channel.subr

# The kernel does what this part is for.
test_the_kernel_looks() {
	for word in slab_debug=FZPU page_poison=1 kfence.sample_interval=10 swiotlb=force; do
		grep -q "$word" /proc/cmdline || skip "this kernel was booted without $word"
	done
	[ "$(cat /sys/kernel/slab/kmalloc-64/poison)" = 1 ] || fail "slabs are not poisoned"
	like "$(dmesg)" 'kfence: initialized' "kernel log"
	like "$(dmesg)" 'software IO TLB' "kernel log"
}

# What a scatter entry may map is the DMA layer's limit here, far below the card's.
test_limit_of_the_dma_layer() {
	fresh || return
	limit=$(cat "$(IB)/resource/max_dma_size")
	echo "max_dma_size $limit"
	grep -q swiotlb=force /proc/cmdline || skip "no bounce buffers"
	[ "$limit" -le 262144 ] && [ "$limit" -ge 4096 ] || fail "max_dma_size is $limit"
}

test_traffic_and_knobs() {
	fresh && start duration=3600 sizes=64,4096 || return
	echo 16 >"$(IB)/num_qps" && echo 4096 >"$(IB)/resource/cq_size" && echo 4 >"$(IB)/num_qps" || return
	cat "$FILES/stats" "$FILES/channels" "$FILES/endpoint" >/dev/null
	echo stop >"$FILES/selftest" && finish 60 || return
	start rounds=20 sizes=64 breaks=5 && finish 120 || return
	[ "$(total recovered)" -ge 20 ] || fail "$(total recovered) recoveries"
}

test_resets() {
	fresh && start duration=3600 sizes=64 || return
	inject "$BDF" 0x10 0 && until_is 30 1 attr resets && until_is 10 up attr state || return
	echo 1 >"$DEV/reset" && until_is 10 up attr state || return
	echo stop >"$FILES/selftest" && finish 60 && alive
}

test_loads_and_unloads() {
	for round in 1 2 3; do
		fresh && start duration=3600 sizes=64 && unload || return
	done
	[ -z "$(dmesg | grep -E 'BUG|KFENCE|Poison|Redzone|Padding overwritten')" ] || fail "the kernel found something"
}

ktap_main "$@"
