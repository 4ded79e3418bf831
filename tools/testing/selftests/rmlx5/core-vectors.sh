# SPDX-License-Identifier: Apache-2.0 OR MIT
# Interrupt vectors: as many as there are, what they are called, where they go.
. ./ktap.sh
. ./core.subr

suite_setup() { core_setup; }
suite_teardown() { unload; }

CPUS=$(nproc)

names() { vectors | sed 's/^[0-9]* rmlx5-\([a-z0-9]*\)@.*/\1/' | sort | tr '\n' ' ' | sed 's/ $//'; }

# layout LIMIT NAMES: the vectors have these names, commands complete by event, none was lost.
layout() {
	unload
	load max_vectors="$1"
	expect "names with limit $1" "$2" "$(names)"
	[ "$(stat_of eq.cmd.events)" -gt 0 ] || fail "no command completed by event"
	expect "lost interrupts" 0 "$(stat_of commands.lost_interrupts)"
	expect "stray events" 0 "$(stat_of eq.cmd.stray)"
	echo 1 >"$DEV/reset"
	alive && expect "names after a reset" "$2" "$(names)"
}

comp_names() { i=0; while [ $i -lt "$1" ]; do echo "comp$i"; i=$((i + 1)); done; }
sorted() { printf '%s\n' "$@" | sort | tr '\n' ' ' | sed 's/ $//'; }

test_all_vectors() {
	# One completion vector per CPU, as long as the card has them.
	# shellcheck disable=SC2046
	layout 64 "$(sorted async cmd $(comp_names "$CPUS"))"
}
test_three_vectors() { layout 3 "$(sorted async cmd comp0)"; }
test_two_vectors() { layout 2 "$(sorted ctrl comp0)"; }
test_one_vector() { layout 1 all; }

test_knob() {
	unload
	load comp_vectors=1
	expect names "$(sorted async cmd comp0)" "$(names)"
}

test_spread() {
	[ "$CPUS" -gt 1 ] || skip "one CPU"
	fresh
	seen=$(vectors | grep comp | while read -r irq _; do cat "/proc/irq/$irq/smp_affinity_list"; done |
		sort -u | wc -l)
	expect "CPUs that completion vectors are on" "$CPUS" "$seen"
}

# A person moves a vector: it stays there, with number and name, across resets of every kind.
test_affinity_survives_reset() {
	[ "$CPUS" -gt 1 ] || skip "one CPU"
	fresh
	before=$(vectors)
	irq=$(vectors | sed -n 's/ .*comp0@.*//p')
	old=$(cat "/proc/irq/$irq/smp_affinity_list")
	new=$(((old + 1) % CPUS))
	echo $new >"/proc/irq/$irq/smp_affinity_list"
	for _ in 1 2 3; do
		echo 1 >"$DEV/reset"
		alive
	done
	expect vectors "$before" "$(vectors)" &&
		expect affinity $new "$(cat "/proc/irq/$irq/smp_affinity_list")" &&
		expect resets 3 "$(attr resets)"
}

# Two-node guest: the first completion vectors are on the node of the card.
test_numa() {
	node=$(cat "$DEV/numa_node")
	nodes=$(find /sys/devices/system/node -maxdepth 1 -name 'node[0-9]*' | wc -l)
	[ "$nodes" -gt 1 ] && [ "$node" -ge 0 ] || skip "one node"
	fresh
	near=$(find "/sys/devices/system/node/node$node" -maxdepth 1 -name 'cpu[0-9]*' | wc -l)
	i=0
	while [ $i -lt "$near" ]; do
		irq=$(vectors | sed -n "s/ .*comp$i@.*//p")
		cpu=$(cat "/proc/irq/$irq/smp_affinity_list")
		[ -e "/sys/devices/system/node/node$node/cpu$cpu" ] ||
			fail "comp$i is on CPU $cpu, not on node $node"
		i=$((i + 1))
	done
}

ktap_main "$@"
