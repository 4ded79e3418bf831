# SPDX-License-Identifier: Apache-2.0 OR MIT
# The kernel's own tests of network drivers (tools/testing/selftests/drivers/net of its source), as they are. Two cards on
# one cable in one machine; the second one's interface is in a name space, as these tests want it.
. ./ktap.sh
. ./core.subr
. ./net.subr

tests=/job/files/kernel/tools/testing/selftests/drivers/net

# Interface of the second card, wherever it is.
far_device=$PCI/devices/$(for far in "$PCI"/devices/*; do
	[ "$(cat "$far/vendor")" != 0x15b3 ] || basename "$far"
done | sed -n 2p)

suite_setup() {
	core_setup
	net_load
	within 20 test -n "$(ls "$far_device/net")"
	far=$(ls "$far_device/net")
	ip netns add far
	ip link set "$far" netns far
	ip -n far link set lo up
	ip -n far link set "$far" up
	ip -n far addr add 192.0.2.2/24 dev "$far"
	ip -n far -6 addr add 2001:db8::2/64 dev "$far" nodad
	net_up 192.0.2.1
	within 60 ping -c 1 -W 1 192.0.2.2
}

# kernel_test FILE [CASE...]: no case fails but these, and one passes. What a driver lacks is told.
kernel_test() {
	kernel_file=$1
	shift
	(cd "$tests" && NETIF=$(net_dev) LOCAL_V4=192.0.2.1 LOCAL_V6=2001:db8::1 REMOTE_V4=192.0.2.2 REMOTE_V6=2001:db8::2 \
		REMOTE_TYPE=netns REMOTE_ARGS=far "./$kernel_file") >/tmp/kernel_test 2>&1 || :
	cat /tmp/kernel_test
	net_up 192.0.2.1
	kernel_bad=$(sed -n 's/^not ok [0-9]* \([a-z_.0-9]*\).*/\1/p' /tmp/kernel_test)
	for kernel_case; do kernel_bad=$(echo "$kernel_bad" | grep -vx "$kernel_case" || :); done
	is "$kernel_bad" "" "what failed"
	[ "$(grep -c '^ok [0-9]' /tmp/kernel_test)" -gt "$(grep -c '^ok .*# SKIP' /tmp/kernel_test)" ] || fail "nothing passed"
}

test_stats() { kernel_test stats.py; }

# XDP has helpers of its own, which have to be built.
test_queues() { kernel_test queues.py queues.check_xsk; }
test_irq() { kernel_test hw/irq.py irq.check_reconfig_xdp; }

# Its streams want iperf3, and it says "not ok" to what it skips.
test_ring_reconfig() { kernel_test ring_reconfig.py; }

test_tso() { kernel_test hw/tso.py; }

# Contexts of RSS are for rules that only mlx5e has (`ethtool -N`).
test_rss_api() {
	case $NET_DRIVER in
	rmlx5) kernel_test hw/rss_api.py rss_api.test_rxfh_nl_set_indir_ctx rss_api.test_rxfh_indir_ctx_ntf rss_api.test_rss_ctx_add rss_api.test_rss_ctx_ntf ;;
	*) kernel_test hw/rss_api.py ;;
	esac
}

test_no_complaints() { is "$(net_complaints)" "" "kernel log"; }

ktap_main "$@"
