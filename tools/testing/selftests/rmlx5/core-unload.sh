#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# The module may go at any moment, and leaves nothing behind.
. "$(dirname "$0")/core.lib"

# rmmod while something else happens: whatever the order, both end, and a fresh load works.
race() {
	n=0
	while [ $n -lt 10 ]; do
		fresh || return
		log_mark "race$1$n"
		"$1" &
		# Different moments: 0 to 90 ms.
		sleep "0.0$n"
		rmmod rmlx5
		wait
		unload || return
		expect "leaks in round $n" 0 "$(log_since "race$1$n" | grep -c leak:)" || return
		n=$((n + 1))
	done
	fresh && alive
}

do_reset() { echo 1 >"$DEV/reset" 2>/dev/null; }
do_unbind() { echo "$BDF" >$PCI/drivers/rmlx5/unbind 2>/dev/null; }
do_read() {
	i=0
	while [ $i -lt 50 ]; do
		cat "$DEV"/rmlx5/* "$DBG/$BDF/stats" >/dev/null 2>&1
		i=$((i + 1))
	done
}

during_reset() { race do_reset; }
during_unbind() { race do_unbind; }
during_reads() { race do_read; }

at_once() {
	n=0
	while [ $n -lt 5 ]; do
		unload && load && unload || return
		n=$((n + 1))
	done
}

free_kib() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	awk '/^MemAvailable:/ { print $2 }' /proc/meminfo
}
irqs() { grep -c . /proc/interrupts; }

# 100 times: no interrupt, no object, and over the last 80 rounds no slope of memory.
hundred() {
	unload || return
	log_mark hundred
	irqs=$(irqs)
	n=0
	while [ $n -lt 100 ]; do
		[ $n -ne 20 ] || first=$(free_kib)
		load || return
		unload || return
		expect "interrupts after round $n" "$irqs" "$(irqs)" || return
		n=$((n + 1))
	done
	last=$(free_kib)
	expect leaks 0 "$(log_since hundred | grep -c leak:)" || return
	lost=$((first - last))
	echo "# memory available: $first KiB after 20 rounds, $last KiB after 100"
	# Noise of the allocators is far below a page per round.
	[ $lost -lt 320 ] || fail "$lost KiB lost in 80 rounds"
}

run at_once at_once \
	during_reads during_reads \
	during_reset during_reset \
	during_unbind during_unbind \
	hundred hundred
