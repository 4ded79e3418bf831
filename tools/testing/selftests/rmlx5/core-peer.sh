# SPDX-License-Identifier: Apache-2.0 OR MIT
# Two machines: each takes the other's endpoint lines, then both send to each other. What breaks comes back without
# new lines.
. ./ktap.sh
. ./core.subr
. ./channel.subr

# What the other machine needs, as one line each: its shell keeps nothing between commands.
LIB='cd /job/tests && . ./ktap.sh && . ./core.subr && . ./channel.subr'
there() { peer "$LIB && $*"; }

exchange() {
	here=$(cat "$FILES/endpoint") && lines=$(there 'cat $FILES/endpoint') || return
	echo "$lines" >"$FILES/peer" || fail "peer refused"
	there "echo '$(echo "$here" | tr '\n' '@')' | tr '@' '\n' >\$FILES/peer" || fail "the peer refused"
}

together() { fresh && there fresh && exchange; }

suite_state() {
	cat "$FILES/channels"
	there 'cat $FILES/channels'
}

# on_both OPTIONS: a run at each end. finish_both SECONDS: both passed, and nobody gave up.
on_both() { start "$*" && there "start $*"; }
stop_both() {
	echo stop >"$FILES/selftest"
	there 'echo stop >$FILES/selftest'
}
finish_both() {
	finish "$1" || return
	there "finish $1" || fail "the peer's run: $(there 'cat $FILES/selftest $FILES/channels')"
	expect "given up" "0 0" "$(steps given_up | sum) $(there 'steps given_up | sum')"
	expect waiting "0 0" "$(steps waiting | sum) $(there 'steps waiting | sum')"
}

# all_up: every channel of both ends is connected, in the same life as its other end.
all_up() {
	[ "$(steps state | sort -u)" = RTS ] && [ "$(there 'steps state | sort -u')" = RTS ] &&
		[ "$(steps epoch)" = "$(there 'steps epoch')" ]
}

# grows SECONDS: every channel of this end does operations again.
slowest() { each ops | sort -n | head -n 1; }
grows() {
	each ops >/tmp/ops
	within "$1" eval '[ "$(each ops | paste - /tmp/ops | awk "\$1 <= \$2" | wc -l)" = 0 ]'
}

test_connect() {
	together
	start rounds=8 sizes=8,200,4096,65536 && there start rounds=8 sizes=8,200,4096
	# The peer starts later, so all it sends falls into the run here; what went there before its start is not in its run.
	finish 120 && there finish 120 && complete 8 32 24
}

# Garbage and too few lines change nothing.
test_bad_lines() {
	fresh || return
	for text in garbage '{}' '{"channel":0}'; do
		( echo "$text" >"$FILES/peer" ) 2>/dev/null && fail "'$text' was accepted"
	done
	head -n 1 "$FILES/endpoint" >/tmp/one
	( cat /tmp/one >"$FILES/peer" ) 2>/dev/null && fail "one line for eight channels was accepted"
	start rounds=1 && finish 60
}

# A WRITE with a bad key at one end: both ends come back without new lines, READ and WRITE are posted again.
test_bad_key() {
	together
	log_mark key
	there start rounds=16 sizes=64,4096
	start rounds=4 sizes=64,4096 breaks=1
	finish_both 120
	[ "$(total recovered)" -ge 8 ] || fail "recovered $(total recovered)"
	for op in WRITE READ; do
		[ "$(each $op | sort -n | head -n 1)" -ge 8 ] || fail "$op was lost"
	done
	log_since key | grep -q 'in ERROR: .*remote access error' || fail "no line about it"
	within 20 all_up
	expect lives 1 "$(steps epoch | sort -u)"
	echo "slowest recovery: $(steps max | sort -n | tail -n 1) us, indeterminate $(total indeterminate)"
}

# Both ends break the connection, again and again, also at the same moment.
test_both_ends_at_once() {
	together
	on_both duration=300 sizes=64,4096 breaks=4
	for n in 0 1 2 3 4 5 6 7; do
		there "echo error $n >\$FILES/selftest"
		echo "error $n" >"$FILES/selftest"
	done
	within 90 eval '[ "$(steps broken | sort -n | head -n 1)" -ge 5 ]'
	within 60 all_up
	grows 30
	stop_both
	finish_both 120
}

# The cable is pulled for longer than all retries take: one line and a count a channel; the peer comes back with it.
test_pulled_cable() {
	together
	on_both duration=300 sizes=64
	grows 30
	log_mark pulled
	host card 0 link down
	until_is 90 8 log_count pulled 'the peer does not answer'
	expect lost 8 "$(steps lost | sum)"
	expect waiting 8 "$(steps waiting | sum)"
	host card 0 link up
	within 60 all_up
	grows 60
	expect "lines about the peer's return" 8 "$(log_count pulled 'the peer is back')"
	expect "lines about its loss" 8 "$(log_count pulled 'the peer does not answer')"
	stop_both
	finish_both 120
}

# FLR of the peer's card, then of this one, under traffic.
test_reset_of_either_card() {
	together
	on_both duration=300 sizes=64,4096
	grows 30
	there 'echo 1 >$DEV/reset' || fail "the peer's reset failed"
	within 60 all_up
	grows 60
	echo 1 >"$DEV/reset" || fail "reset failed"
	until_is 30 up attr state
	within 60 all_up
	grows 60
	stop_both
	finish_both 120
}

# Both cards at once: neither end knows anything of the other's new QPs but where to ask. The interfaces are up: their
# rings are made after the channels, while the channels' tasks look at a device that is not up yet.
# After a first reset, one after the other, a card has numbered what it made in a reset (channels before QP 1), and will again.
test_reset_of_both_cards() {
	together
	echo 1 >"$DEV/reset" || fail "reset failed"
	within 60 all_up
	there 'echo 1 >$DEV/reset'
	within 60 all_up
	interface up
	there interface up
	on_both duration=300 sizes=64,4096
	grows 30
	before="$(control qpn) $(there control qpn)"
	there 'echo 1 >$DEV/reset' &
	echo 1 >"$DEV/reset" || fail "reset failed"
	wait
	until_is 30 up attr state
	expect "numbers of the control QPs" "$before" "$(control qpn) $(there control qpn)"
	within 60 all_up
	grows 60
	stop_both
	finish_both 120
	interface down
	there interface down
}

# A fatal PCIe error of the peer's card.
test_fatal_error_of_the_peer() {
	together
	on_both duration=300 sizes=64,4096
	grows 30
	host guest 1 hmp pcie_aer_inject_error rp0 DLP
	within 60 eval '[ "$(there attr resets)" = 1 ] && [ "$(there attr state)" = up ]'
	within 60 all_up
	grows 60
	stop_both
	finish_both 120
}

# The control QP breaks, and comes back with the same number; and then it is needed.
test_control_qp_recovers() {
	together
	on_both duration=300 sizes=64
	qpn=$(control qpn)
	log_mark control
	host card 0 inject qp-context "qpn=$qpn"
	until_is 20 1 control recovered
	expect state RTS "$(control state)"
	expect qpn "$qpn" "$(control qpn)"
	expect lines 1 "$(log_count control 'control QP .* in ERROR')"
	echo "error 5" >"$FILES/selftest"
	within 30 eval '[ "$(steps recovered | sum)" -ge 1 ]'
	within 20 all_up
	stop_both
	finish_both 60
}

# Letters get lost like everything else.
test_lossy_cable() {
	together
	host card 0 cable loss=0.1 duplicate=0.1 reorder=0.1 seed=7
	host guest 1 card 0 cable loss=0.1 duplicate=0.1 reorder=0.1 seed=8
	on_both rounds=4 sizes=64,4096 breaks=2
	finish_both 180
	host card 0 cable
	host guest 1 card 0 cable
	within 60 all_up
	echo "recovered $(total recovered), letters $(grep '^control' "$FILES/channels")"
}

# Letters of a machine whose lines nobody wrote here change nothing.
test_stranger() {
	fresh && there fresh
	start duration=300 sizes=64
	here=$(cat "$FILES/endpoint")
	there "echo '$(echo "$here" | tr '\n' '@')' | tr '@' '\n' >\$FILES/peer"
	there 'for n in 0 1 2 3 4 5 6 7; do echo "error $n" >$FILES/selftest; done'
	within 60 eval '[ "$(steps ignored | sort -n | head -n 1)" -ge 3 ]'
	expect "lives, broken" "1 0" "$(steps epoch | sort -u) $(steps broken | sum)"
	echo stop >"$FILES/selftest"
	finish 60
}

# The driver there goes away and comes back: it knows nothing any more, so new lines are needed; the run goes on.
test_lost_driver() {
	together
	there unload
	log_mark lost
	start rounds=2 sizes=64
	until_is 90 8 log_count lost 'the peer does not answer'
	log_since lost | grep -q 'transport retries exceeded' || fail "no line about retries"
	there fresh && exchange && finish 120
	within 20 all_up
}

# Both drivers go while the channels are connected and one of them asks: neither card keeps an object, nothing leaks.
test_nothing_is_left() {
	together
	start duration=300 sizes=64
	host card 0 link down
	within 60 eval '[ "$(steps waiting | sum)" -ge 1 ]'
	log_mark left
	unload
	there unload
	host card 0 link up
	expect leaks 0 "$(log_count left 'leak')"
	# Pages apart: the firmware may keep what it got.
	for card in "card 0" "guest 1 card 0"; do
		left=$(host $card census | tr -d ' ",' | sed -n 's/^\([A-Za-z]*\):\([0-9]*\)$/\1=\2/p' | grep -v '=0$' || :)
		expect "objects of $card" "" "$left"
	done
}

ktap_main "$@"
