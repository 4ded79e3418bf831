# SPDX-License-Identifier: Apache-2.0 OR MIT
# A card that asks for pages while it works: it gets them, gives them back, and both sides agree on every one.
. ./ktap.sh
. ./core.subr
. ./channel.subr

census() { host card 0 census | sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p"; }

# The card's number of pages is the driver's; a request may still be under way.
agree() { [ "$(census pages_given)" = "$(stat_of pages.given)" ]; }
# calm: no request for a second, and then they agree.
calm() {
	within 20 agree
	calm_gave=$(stat_of pages.gave) calm_took=$(stat_of pages.took)
	sleep 1
	expect "pages given meanwhile" "$calm_gave" "$(stat_of pages.gave)" || return
	expect "pages taken meanwhile" "$calm_took" "$(stat_of pages.took)" || return
	agree || fail "card $(census pages_given), driver $(stat_of pages.given)"
	# The sum of what went both ways is what is there.
	expect "balance" "$(stat_of pages.given)" $(($(stat_of pages.gave) - $(stat_of pages.took)))
}

test_asks_and_gives_back() {
	fresh && calm || return
	start_pages=$(stat_of pages.given)
	echo 128 >"$(IB)/num_qps" && calm || return
	grown=$(stat_of pages.given)
	took=$(stat_of pages.took)
	echo "$start_pages pages after bring-up, $grown with 128 channels"
	[ "$grown" -gt "$start_pages" ] || fail "the card did not ask"
	echo 2 >"$(IB)/num_qps" && calm || return
	shrunk=$(stat_of pages.given)
	echo "$shrunk with 2 channels"
	[ "$shrunk" -lt "$grown" ] && [ "$(stat_of pages.took)" -gt "$took" ] || fail "the card kept all of them"
	expect refused 0 "$(stat_of pages.refused)" && expect strangers 0 "$(stat_of pages.strangers)"
}

# Up and down while data moves; nothing is lost and nothing grows.
test_under_traffic() {
	fresh && echo 2 >"$(IB)/num_qps" && start duration=3600 sizes=64,4096 || return
	high=
	for round in 1 2 3 4; do
		echo 64 >"$(IB)/num_qps" && within 20 agree || return
		echo 2 >"$(IB)/num_qps" && within 20 agree || return
		high="$high $(stat_of pages.given)"
	done
	echo "pages after each round:$high"
	echo stop >"$FILES/selftest" && finish 60 && calm || return
	[ "$(total ops)" -gt 0 ] && expect faults 0 "$(total faults)" || return
	first=$(echo "$high" | cut -d' ' -f3)
	last=$(echo "$high" | cut -d' ' -f5)
	[ "$last" -le $((first + 8)) ] || fail "pages grow from round to round:$high"
}

# After a reset the card has forgotten what it had; the pages serve again, and none is counted twice.
test_after_a_reset() {
	fresh && echo 64 >"$(IB)/num_qps" && calm || return
	echo 1 >"$DEV/reset" && until_is 20 up attr state && within 20 agree || return
	start rounds=2 sizes=64 && finish 60 && within 20 agree || return
	echo 2 >"$(IB)/num_qps" && within 20 agree
}

test_all_back_at_the_end() {
	fresh && echo 128 >"$(IB)/num_qps" && start rounds=1 sizes=64 && finish 60 || return
	log_mark gone
	unload || return
	expect "pages in the card" 0 "$(census pages_given)" && expect "pages it needs" 0 "$(census pages_used)" || return
	! log_since gone | grep -i 'leak\|left' || fail "something is left"
}

ktap_main "$@"
