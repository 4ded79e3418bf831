# SPDX-License-Identifier: Apache-2.0 OR MIT
# The module may go at any moment, and leaves nothing behind.
. ./ktap.sh
. ./core.subr

suite_setup() { core_setup; }
suite_teardown() { unload; }

# rmmod while something else happens: whatever the order, both end, and a fresh load works.
race() {
	n=0
	while [ $n -lt 10 ]; do
		fresh
		log_mark "race$1$n"
		"$1" &
		# Different moments: 0 to 90 ms.
		sleep "0.0$n"
		rmmod rmlx5 || note "rmmod refused in round $n"
		wait
		unload
		expect "leaks in round $n" 0 "$(log_count "race$1$n" leak:)"
		n=$((n + 1))
	done
	fresh && alive
}

do_reset() { echo 1 >"$DEV/reset" || true; } 2>/dev/null
do_unbind() { echo "$BDF" >$PCI/drivers/rmlx5/unbind || true; } 2>/dev/null
do_read() {
	i=0
	while [ $i -lt 50 ]; do
		cat "$DEV"/rmlx5/* "$DBG/$BDF/stats" >/dev/null 2>&1 || true
		i=$((i + 1))
	done
}

test_during_reset() { race do_reset; }
test_during_unbind() { race do_unbind; }
test_during_reads() { race do_read; }

test_at_once() {
	n=0
	while [ $n -lt 5 ]; do
		unload && load && unload
		n=$((n + 1))
	done
}

free_kib() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	# Pages on the lists that each CPU keeps are free, but not in MemFree.
	lists=$(awk '/^ +count: / { n += $2 } END { print n * 4 }' /proc/zoneinfo)
	echo $(($(awk '/^MemFree:/ { print $2 }' /proc/meminfo) + lists))
}
irqs() { grep -c . /proc/interrupts; }

# 100 times: no interrupt, no object, and over the last 80 rounds no slope of memory.
test_hundred() {
	unload
	log_mark hundred
	irqs=$(irqs)
	n=0
	while [ $n -lt 100 ]; do
		[ $n -ne 20 ] || first=$(free_kib)
		load
		unload
		expect "interrupts after round $n" "$irqs" "$(irqs)"
		n=$((n + 1))
	done
	last=$(free_kib)
	expect leaks 0 "$(log_count hundred leak:)"
	lost=$((first - last))
	note "memory free: $first KiB after 20 rounds, $last KiB after 100"
	# Noise of the allocators is far below a page per round.
	[ $lost -lt 320 ] || fail "$lost KiB lost in 80 rounds"
}

ktap_main "$@"
