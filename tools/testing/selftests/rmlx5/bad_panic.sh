# SPDX-License-Identifier: Apache-2.0 OR MIT
# Test of the test bench: the guest panics in a case.
. ./ktap.sh

test_good() { :; }

test_panics() {
	echo c >/proc/sysrq-trigger
}

ktap_main "$@"
