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
	# What the driver makes once, when it is first needed, is there from now on.
	works
	python3 verbs_limits.py once "$(stock_ibdev)"
	card_and_driver >/tmp/objects
}
suite_teardown() { :; }

# What is alive on the card, and what the driver thinks is. Buffers are also those of long commands, which stay; that none
# is lost is seen when the module goes.
card_and_driver() {
	verbs_objects
	grep '^objects' "$DBG/$BDF/stats" | grep -v 'objects.\(page\|buffer\)'
}

# card_counter NAME: a counter of the card, or how often it had a command (refused ones stand below); card_commands: all commands.
card_counter() { host card 0 counters | sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}\$/\1/p" | head -1; }
card_commands() { host card 0 counters | sed -n '/"commands": {/,/}/s/.*: \([0-9]*\),\{0,1\}$/\1/p' | awk '{ n += $1 } END { print n }'; }

# as_before: nothing is left of what the case made.
as_before() (
	left=$(card_and_driver | diff /tmp/objects - || :)
	[ -z "$left" ] || fail "left over: $left"
)

# The driver's own QPs work, and nothing has been broken beside them.
works() {
	alive
	works_before=$(cat "$(IB)/num_qps")
	echo 2 >"$(IB)/num_qps"
	start rounds=2 sizes=64
	finish 60
	complete 2 2
	echo "$works_before" >"$(IB)/num_qps"
}

# wrong COLUMN: each verdict on requests with one thing wrong; the table has what is right.
wrong() {
	for wrong_part in verbs_wrong verbs_shapes verbs_pages verbs_matcher; do
		python3 $wrong_part.py "$(stock_ibdev)" || { echo "$wrong_part ended early"; break; }
	done >"/tmp/wrong.$1" 2>&1
	awk -v column="$1" '!/^#/ && NF { print $1, column == "rmlx5" && $3 ~ /^[^#]/ ? $3 : $2 }' verbs-wrong.table >/tmp/right
	diff /tmp/right "/tmp/wrong.$1" || fail "verdicts (>) differ from those of verbs-wrong.table (<) for $1"
}

# storm COUNT: processes that use the device; calm kills them. What they said is in /tmp/storm.
storm() {
	rm -f /tmp/stop
	mkfifo /tmp/stop
	python3 verbs_storm.py storm "$(stock_ibdev)" $here "$1" </tmp/stop >/tmp/storm 2>&1 &
	storm_pid=$!
	exec 9>/tmp/stop
	within 200 grep -Eq 'running|failed' /tmp/storm || fail "they do not run: $(cat /tmp/storm)"
	unlike "$(cat /tmp/storm)" failed "what they said"
}
calm() {
	exec 9>&-
	wait $storm_pid || fail "a process complains: $(cat /tmp/storm)"
}

test_limits() {
	python3 verbs_limits.py kernel "$(stock_ibdev)" $here || fail "limits"
	as_before
}

test_limits_of_the_library() {
	python3 verbs_limits.py library "$(stock_ibdev)" >/tmp/limits.rmlx5 || fail "it ended early: $(cat /tmp/limits.rmlx5)"
	cat /tmp/limits.rmlx5
	as_before
}

# The card counts doorbells of pages that nobody has.
test_wrong() {
	strays=$(card_counter stray_accesses)
	[ -n "$strays" ] || fail "the card does not count stray accesses"
	wrong rmlx5
	is "$(card_counter stray_accesses)" "$strays" "stray accesses"
	as_before
}

# The library asks for doorbell pages one by one: an opening takes one, for CQs.
test_one_page_an_opening() {
	gets=$(card_counter ALLOC_UAR)
	gives=$(card_counter DEALLOC_UAR)
	commands=$(card_commands)
	ibv_devinfo -d "$(stock_ibdev)" >/dev/null
	note "$(($(card_commands) - commands)) commands"
	is "$(card_counter ALLOC_UAR)" "$((gets + 1))" "pages from the card"
	is "$(card_counter DEALLOC_UAR)" "$((${gives:-0} + 1))" "pages given back"
}

# SEED=N makes other calls.
test_random() {
	python3 verbs_random.py "$(stock_ibdev)" "${SEED:-1}" "${CALLS:-150}" || fail "seed ${SEED:-1}"
	as_before
	works
}

test_fork_in_mid_traffic() {
	python3 verbs_storm.py fork "$(stock_ibdev)" $here || fail "fork"
	as_before
}

test_64_processes_killed() {
	storm 64
	calm
	as_before
	works
}

# Slots of the command queue for anything but pages; with a QP 1 that a first reset has made, the next changes nothing.
SLOTS=31
all_sleep() { [ "$(grep -hc '^State:.D' /proc/$1/task/*/status | awk '{ n += $1 } END { print n }')" -ge "$2" ]; }

# The card keeps all slots, and more requests wait for one. A reset ends all of them, and none reaches the card that comes
# back: what it makes and destroys would be somebody else's.
test_reset_while_requests_wait() {
	echo 1 >"$DEV/reset"
	within 60 stock_active
	verbs_objects >/tmp/waiting
	made=$(card_counter ALLOC_PD)
	echo 1 >"$DEV/reset"
	within 60 stock_active
	own=$(($(card_counter ALLOC_PD) - made))
	made=$(card_counter ALLOC_PD)
	host card 0 inject swallow-command opcode=0x800 count=$SLOTS >/dev/null
	python3 verbs-waiters.py "$(stock_ibdev)" $((SLOTS + 17)) >/tmp/waiters 2>&1 &
	waiters=$!
	within 60 all_sleep $waiters $((SLOTS + 17)) || fail "they do not wait: $(cat /tmp/waiters)"
	echo 1 >"$DEV/reset"
	wait $waiters || fail "the program ended early: $(cat /tmp/waiters)"
	is "$(cat /tmp/waiters)" "$((SLOTS + 17)) EIO" "how requests ended"
	within 60 stock_active
	# What is swallowed is not counted.
	is "$(($(card_counter ALLOC_PD) - made))" "$own" "domains made behind the reset"
	left=$(verbs_objects | diff /tmp/waiting - || :)
	[ -z "$left" ] || fail "left over: $left"
}

test_unbind_under_traffic() {
	storm 12
	echo "$BDF" >"$DEV/driver/unbind"
	is "$(stock_ibdev)" "" "RDMA devices after unbind"
	calm
	echo "$BDF" >"$PCI/drivers/rmlx5/bind"
	verbs_up $here
	works
	python3 verbs_limits.py once "$(stock_ibdev)"
	within 60 as_before
}

# The same limits and requests on the stock driver, which is the judge.
test_stock() {
	unload
	unlike "$(dmesg)" 'leak:' "kernel log"
	VERBS_DRIVER=mlx5_ib
	verbs_up $here
	bad=
	python3 verbs_limits.py library "$(stock_ibdev)" >/tmp/limits.stock || fail "it ended early: $(cat /tmp/limits.stock)"
	diff /tmp/limits.rmlx5 /tmp/limits.stock || bad="limits (<) are not those of the stock driver (>)"
	(wrong mlx5_ib) || bad="$bad verdicts"
	[ -z "$bad" ] || fail "$bad"
}

ktap_main "$@"
