# SPDX-License-Identifier: Apache-2.0 OR MIT
# Test of the test bench: the kernel warns while the script is content.
. ./ktap.sh

test_warns() {
	# "Show backtrace of all CPUs" prints a Call Trace, as a WARN does.
	echo l >/proc/sysrq-trigger
	sleep 1
}

ktap_main "$@"
