# SPDX-License-Identifier: Apache-2.0 OR MIT
# The ground itself: the stock kernel is up, its tools are there, the test bench answers.
. ./ktap.sh

test_stock_kernel() {
	like "$(uname -r)" '^7\.3\.[0-9]+\+deb13-amd64$' "kernel release"
	is "$(cat /proc/sys/kernel/tainted)" 0 "taint"
}

test_rust_in_kernel() {
	grep -q ' rust_helper_' /proc/kallsyms || fail "the kernel has no Rust helpers"
}

test_stock_drivers_present() {
	modinfo mlx5_core >/dev/null
	modinfo mlx5_ib >/dev/null
	modprobe ib_uverbs
}

test_tools_present() {
	for tool in ibv_devices ibv_devinfo ibv_rc_pingpong ib_write_bw rping rdma ethtool lspci numactl python3 tcpdump; do
		command -v $tool >/dev/null || fail "$tool is missing"
	done
	python3 -c 'import pyverbs.device'
}

test_memory_and_cpus() {
	is "$(nproc)" 2 "number of CPUs"
	[ "$(awk '/MemTotal/ { print $2 }' /proc/meminfo)" -gt 800000 ] || fail "less memory than asked for"
}

test_host_answers() {
	is "$(host ping)" "" "answer to ping"
	like "$(host hmp info status)" 'VM status: running' "answer of the monitor"
	like "$(host qmp '{"execute":"query-kvm"}')" '"present"' "answer of the machine protocol"
	! host nonsense 2>/dev/null || fail "a nonsense request was accepted"
}

ktap_main "$@"
