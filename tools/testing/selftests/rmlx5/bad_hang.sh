# SPDX-License-Identifier: Apache-2.0 OR MIT
# Test of the test bench: the script stops and its own limit does not help.
. ./ktap.sh

test_hangs() {
	# The watchdog of the case and everything else in the guest stand still.
	kill -STOP $PPID
	sleep 1000
}

ktap_main "$@"
