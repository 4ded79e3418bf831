# SPDX-License-Identifier: Apache-2.0 OR MIT
# BlueFlame: found out once, used where it works, and traffic is the same without. COMBINING says whether writes reach
# the card of this part combined.
. ./ktap.sh
. ./core.subr
. ./channel.subr
. ./stock.subr
. ./wire.subr
. ./verbs.subr

here=192.0.2.1

# counter NAME: what the card has counted.
counter() { host card 0 counters | sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p"; }

# traffic: a run with single posts, all of it verified.
traffic() { start rounds=4 sizes=64,65536 && finish 120 && complete 8 8; }

line='BlueFlame: '
if [ -n "${COMBINING:-}" ]; then
	answer=works
else
	answer=torn
fi

# used BEFORE: WQEs went through registers, and the card took them from there, exactly where that works.
used() {
	pushed=$(steps blueflame | sum)
	taken=$(($(counter blueflame_taken) - $1))
	echo "$(steps doorbells | sum) plain doorbells, $pushed with the WQE, $taken of them taken by the card"
	if [ "$answer" = works ]; then
		[ "$pushed" -gt 0 ] && [ "$taken" -gt 0 ] || fail "BlueFlame is not used"
	else
		expect pushed 0 "$pushed" && expect taken 0 "$taken"
	fi
}

test_found_out_at_first_use() {
	log_mark first
	fresh || return
	expect "at bind" unknown "$(stat_of blueflame)" || return
	before=$(counter blueflame_taken)
	traffic || return
	expect "after use" $answer "$(stat_of blueflame)" || return
	log_since first | grep "$line"
	expect "lines" 1 "$(log_count first "$line")" || return
	used "$before"
}

# The test's own objects are gone; a second run does not test again.
test_once() {
	fresh && traffic || return
	log_mark once
	queues=$(host card 0 trace 10000 | grep -c CREATE_SQ)
	traffic || return
	expect "lines" 0 "$(log_count once "$line")" || return
	expect "test queues" "$queues" "$(host card 0 trace 10000 | grep -c CREATE_SQ)" || return
	like "$(host card 0 census)" '"SQ": 0' "census"
}

test_after_a_reset() {
	fresh && traffic || return
	log_mark reset
	echo 1 >"$DEV/reset" && until_is 20 up attr state || return
	before=$(counter blueflame_taken)
	traffic || return
	expect "lines" 0 "$(log_count reset "$line")" && used "$before"
}

test_switched_off() {
	before=$(counter blueflame_taken)
	unload && load blue_flame=0 && traffic || return
	expect answer off "$(stat_of blueflame)" || return
	expect pushed 0 "$(steps blueflame | sum)" && expect taken "$before" "$(counter blueflame_taken)"
}

# Broken connections do not mix up what is in a register.
test_recovery() {
	fresh && start rounds=8 sizes=64 breaks=3 && finish 120 || return
	[ "$(total recovered)" -ge 24 ] || fail "$(total recovered) recoveries"
	expect faults 0 "$(total faults)"
}

# A program that sends inline: libmlx5 writes the whole WQE to its own register, and two bytes fit a line.
test_of_programs() {
	fresh && verbs_up $here || return
	before=$(counter blueflame_taken)
	options="-d $(stock_ibdev) -x $(stock_gid_index $here) -s 2 -I 32 -n 100"
	# shellcheck disable=SC2086
	ib_send_lat $options >/tmp/server 2>&1 &
	within 20 stock_listening || return
	# shellcheck disable=SC2086
	timeout 60 ib_send_lat $options 127.0.0.1 || fail "the client failed; the server says: $(cat /tmp/server)"
	wait $! || fail "the server failed: $(cat /tmp/server)"
	taken=$(($(counter blueflame_taken) - before))
	echo "of 200 requests the card took $taken from registers"
	if [ "$answer" = works ]; then
		# The rest was torn by a busy host.
		[ $taken -ge 20 ] || fail "BlueFlame is not used"
	else
		expect taken 0 $taken
	fi
}

ktap_main "$@"
