# SPDX-License-Identifier: Apache-2.0 OR MIT
# User space that means no good, and the limits that it meets: requests made by hand. Where verdicts can be compared, the
# last case has the same ones from the stock driver.
. ./ktap.sh
. ./core.subr
. ./channel.subr
. ./stock.subr
. ./wire.subr
. ./verbs.subr

suite_setup() {
	core_setup
	verbs_up $here
	card_and_driver >/tmp/objects
}
suite_teardown() { :; }

# What is alive on the card, and what the driver thinks is. Buffers are also those of long commands, which stay; that none
# is lost is seen when the module goes.
card_and_driver() {
	verbs_objects
	grep '^objects' "$DBG/$BDF/stats" | grep -v 'objects.\(page\|buffer\)'
}

# as_before: nothing is left of what the case made.
as_before() (
	left=$(card_and_driver | diff /tmp/objects - || :)
	[ -z "$left" ] || fail "left over: $left"
)

test_limits() {
	python3 verbs_limits.py kernel "$(stock_ibdev)" $here || fail "limits"
	as_before
}

test_limits_of_the_library() {
	python3 verbs_limits.py library "$(stock_ibdev)" >/tmp/limits.rmlx5 || fail "it ended early: $(cat /tmp/limits.rmlx5)"
	cat /tmp/limits.rmlx5
	as_before
}

# The same on the stock driver, which is the judge.
test_stock() {
	unload
	unlike "$(dmesg)" 'leak:' "kernel log"
	VERBS_DRIVER=mlx5_ib
	verbs_up $here
	python3 verbs_limits.py library "$(stock_ibdev)" >/tmp/limits.stock || fail "it ended early: $(cat /tmp/limits.stock)"
	diff /tmp/limits.rmlx5 /tmp/limits.stock || fail "limits (<) are not those of the stock driver (>)"
}

ktap_main "$@"
