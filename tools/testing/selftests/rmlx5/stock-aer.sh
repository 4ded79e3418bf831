# SPDX-License-Identifier: Apache-2.0 OR MIT
# Error recovery of the stock drivers on the card: AER at the device and at its port, with traffic afterwards.
. ./ktap.sh
. ./core.subr
. ./stock.subr

address=192.0.2.1

suite_setup() {
	stock_up $address
	within 10 stock_gid_index $address
}

# The messages of one recovery, in order; the last one says that the device works again.
recovered() { klog | grep -q 'AER: device recovery successful'; }

# Recovery makes a new netdev: it has to be set up again, and then traffic must flow.
traffic_again() {
	within 40 recovered
	stock_up $address
	within 10 stock_gid_index $address
	stock_pingpong rc $address
	unlike "$(klog)" 'WARNING|BUG|Call Trace|can.t recover|recovery failed' "kernel log"
}

correctable_total() { sed -n 's/^TOTAL_ERR_COR //p' "/sys/bus/pci/devices/$(stock_pci)/aer_dev_correctable"; }
correctable_above() { [ "$(correctable_total)" -gt "$1" ]; }

test_nonfatal_at_the_device() {
	host card 0 aer uncorrectable=0x4000
	host hmp pcie_aer_inject_error card0 COMP_TIME
	traffic_again
}

test_fatal_at_the_device() {
	resets=$(bus_resets)
	host card 0 aer uncorrectable=0x40000
	host hmp pcie_aer_inject_error card0 MALF_TLP
	traffic_again
	is "$(bus_resets)" $((resets + 1)) "bus resets of the card"
}

test_fatal_at_the_port() {
	resets=$(bus_resets)
	host hmp pcie_aer_inject_error rp0 DLP
	traffic_again
	is "$(bus_resets)" $((resets + 1)) "bus resets of the card"
}

test_correctable_is_counted_only() {
	before=$(correctable_total)
	# Not to be missing here, whatever inject() makes of that.
	modprobe aer_inject
	# Bad TLP, by the kernel's own injection: QEMU's monitor accepts correctable errors too, but no message reaches the port.
	inject "$(stock_pci)" 0 0x40
	within 10 correctable_above "$before"
	# While it is loaded it answers for the AER registers in place of the card.
	rmmod aer_inject
	unlike "$(klog)" 'err_detected' "kernel log"
	stock_pingpong rc $address
}

bus_resets() { host card 0 counters | sed -n 's/^ *"bus": \([0-9]*\),\{0,1\}$/\1/p'; }

ktap_main "$@"
