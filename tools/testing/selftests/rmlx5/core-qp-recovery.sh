# SPDX-License-Identifier: Apache-2.0 OR MIT
# QPs that went to ERROR come back by themselves, as often as need be; and so do channels after a
# reset of the card.
. ./ktap.sh
. ./core.subr
. ./channel.subr

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

# A QP in ERROR for no reason of its own (2ERR from outside): flushed, and back.
test_forced_error() {
	fresh && start duration=30 sizes=64 && sleep 1 || return
	for n in 0 3 6; do
		echo "error $n" >"$FILES/selftest" || return
	done
	sleep 1
	echo stop >"$FILES/selftest"
	finish 60 || return
	[ "$(total recovered)" -ge 3 ] || fail "recovered $(total recovered)"
	expect states RTS "$(steps state | sort -u)"
}

# The card finds a QP context broken: "QP Catastrophic Error".
test_context_fault() {
	fresh && start duration=30 sizes=64 && sleep 1 || return
	log_mark fault
	qpn=$(steps qpn | head -n 1)
	host card 0 inject qp-context "qpn=$qpn" || return
	sleep 2
	echo stop >"$FILES/selftest"
	finish 60 || return
	log_since fault | grep -q 'in ERROR: QP Catastrophic Error' || fail "no line about it"
	expect catastrophic 1 "$(steps catastrophic | sum)" && expect states RTS "$(steps state | sort -u)"
}

# A CQ whose reader does not say how far it got overruns: said once, and the channel goes on with a
# new CQ and a new QP.
test_cq_overrun() {
	fresh && echo 256 >"$(IB)/resource/cq_size" && start duration=60 sizes=64 && sleep 1 || return
	log_mark overrun
	cqn=$(steps cqn | head -n 1)
	echo "overrun 0" >"$FILES/selftest" || return
	until_is 20 1 sh -c "sed -n 's/^channel 0 .* overruns=\([0-9]*\).*/\1/p' $FILES/channels" || return
	sleep 1
	echo stop >"$FILES/selftest"
	finish 60 || return
	expect "counted" 1 "$(cat "$(IB)/ports/1/hw_counters/cq_overrun")" || return
	[ "$(cat "$(IB)/ports/1/hw_counters/qp_recovered")" -ge 1 ] || fail "no QP was counted as recovered" || return
	expect "lines about it" 1 "$(log_since overrun | grep -c 'CQ Overrun')" &&
		expect overruns 1 "$(steps overruns | sum)" && expect states RTS "$(steps state | sort -u)" || return
	[ "$cqn" != "$(steps cqn | head -n 1)" ] || fail "the old CQ is still in use"
}

# Lines of a peer that does not exist: a run waits for it, and the way back to pairs is open. Nothing of the run is lost.
test_pairs_after_a_lost_peer() {
	fresh || return
	sed 's/"qpn":[0-9]*/"qpn":16777215/;s/"control_qpn":[0-9]*/"control_qpn":16777214/' "$FILES/endpoint" >/tmp/nobody
	cat /tmp/nobody >"$FILES/peer" && start rounds=2 sizes=64 || return
	( echo loopback >"$FILES/peer" ) 2>/dev/null && fail "connections in force were changed under a run"
	until_is 90 8 eval 'steps waiting | sum' || return
	expect state running "$(state)" || return
	echo loopback >"$FILES/peer" || fail "there is no way back" || return
	finish 60 && complete 8 2 && expect waiting 0 "$(steps waiting | sum)"
}

# A thousand in a row on one pair: no object more than before, epochs and counters agree.
test_thousand() {
	fresh && echo 2 >"$(IB)/num_qps" || return
	start rounds=1 sizes=64 && finish 60 || return
	objects=$(objects)
	lives=0
	while [ "$lives" -lt 1000 ]; do
		start rounds=1 sizes=64 breaks=125 && finish 200 || return
		expect faults 0 "$(total faults)" || return
		lives=$(steps epoch | sort -u)
		[ "$(echo "$lives" | wc -l)" = 1 ] || fail "ends disagree: $lives" || return
	done
	echo "$lives lives, slowest recovery $(steps max | sort -n | tail -n 1) us"
	expect faults 0 "$(total faults)" && expect "given up" 0 "$(total given_up)" || return
	expect objects "$objects" "$(objects)" || return
	# And it still works.
	start rounds=4 && finish 60 && complete 2 16
}

# One line a second and channel, not a thousand. A new driver begins anew.
test_few_lines() {
	fresh && echo 2 >"$(IB)/num_qps" || return
	start rounds=1 sizes=64 breaks=60 && finish 100 || return
	dmesg | tr -d '[]' | awk '
		/rmlx5 .*: firmware / { split("", last) }
		/in ERROR:/ {
			channel = $5
			n++
			if (channel in last && $1 - last[channel] < 0.95) { print "too soon: " $0; bad = 1 }
			last[channel] = $1
		}
		END { print n + 0 " lines"; exit bad || !n }' || fail "too many lines, or none"
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
