# SPDX-License-Identifier: Apache-2.0 OR MIT
# QPs that went to ERROR come back by themselves, as often as need be; and so do channels after a
# reset of the card.
. ./ktap.sh
. ./channel.lib

# A WRITE with a key that does not exist breaks the connection; both ends come back.
test_bad_key() {
	fresh || return
	log_mark key
	start rounds=4 sizes=64,4096 breaks=1 && finish 60 || return
	[ "$(total recovered)" -ge 8 ] || fail "recovered $(total recovered)" || return
	expect "given up" 0 "$(total given_up)" || return
	log_since key | grep -q 'in ERROR: .*remote access error' || fail "no line about it" || return
	# READ and WRITE are posted again, nothing of them is lost.
	for op in WRITE READ; do
		[ "$(each $op | sort -n | head -n 1)" -ge 8 ] || fail "$op was lost" || return
	done
	echo "# slowest recovery: $(steps max | sort -n | tail -n 1) us, indeterminate $(total indeterminate)"
}

# A thousand in a row on one pair: no object more than before, epochs and counters agree.
test_thousand() {
	fresh && echo 2 >"$(IB)/num_qps" || return
	start rounds=1 sizes=64 && finish 60 || return
	objects=$(grep ^objects "$FILES/stats")
	start rounds=1 sizes=64 breaks=1000 && finish 580 || return
	epochs=$(steps epoch | sort -u)
	[ "$(echo "$epochs" | wc -l)" = 1 ] || fail "ends disagree: $epochs" || return
	[ "$epochs" -ge 1000 ] || fail "only $epochs lives" || return
	expect faults 0 "$(total faults)" && expect "given up" 0 "$(total given_up)" || return
	expect objects "$objects" "$(grep ^objects "$FILES/stats")" || return
	# And it still works.
	start rounds=4 && finish 60 && complete 2 16
}

# One line a second and channel, not a thousand.
test_few_lines() {
	lines=$(dmesg | grep -c 'in ERROR:')
	[ "$lines" -lt 100 ] || fail "$lines lines"
}

# FLR under traffic: the run goes on afterwards and is verified to the end.
test_reset_under_traffic() {
	fresh && start duration=20 sizes=64,4096 && sleep 1 || return
	before=$(total ops)
	echo 1 >"$DEV/reset" || fail "reset failed" || return
	until_is 30 up attr state || return
	sleep 1
	[ "$(total ops)" -gt "$before" ] || fail "no traffic after the reset" || return
	echo stop >"$FILES/selftest"
	finish 60 && expect faults 0 "$(total faults)"
}

ktap_main "$@"
