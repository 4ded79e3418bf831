# SPDX-License-Identifier: Apache-2.0 OR MIT
# Two machines: each takes the other's endpoint lines, then both send to each other.
. ./ktap.sh
. ./core.subr
. ./channel.subr

# What the other machine needs, as one line each: its shell keeps nothing between commands.
LIB='cd /job/tests && . ./ktap.sh && . ./core.subr && . ./channel.subr'

exchange() {
	here=$(cat "$FILES/endpoint") && there=$(peer "$LIB && cat \$FILES/endpoint") || return
	echo "$there" >"$FILES/peer" || fail "peer refused"
	peer "$LIB && echo '$(echo "$here" | tr '\n' '@')' | tr '@' '\n' >\$FILES/peer" || fail "the peer refused"
}

test_connect() {
	fresh && peer "$LIB && fresh" && exchange || return
	start rounds=8 sizes=8,200,4096,65536 && peer "$LIB && start rounds=8 sizes=8,200,4096" || return
	# The peer starts later, so all it sends falls into the run here; what went there before its start is not in its run.
	finish 120 && peer "$LIB && finish 120" && complete 8 32 24
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

# The peer goes away: retries run out, the channels say so, and come back with new lines.
test_lost_peer() {
	fresh && peer "$LIB && fresh" && exchange || return
	peer "$LIB && unload" || return
	log_mark lost
	start rounds=2 sizes=64 || return
	until_is 90 8 log_count lost "waits for the peer's new endpoint" || return
	log_since lost | grep -q 'transport retries exceeded' || fail "no line about retries"
	peer "$LIB && fresh" && exchange && finish 120
}

ktap_main "$@"
