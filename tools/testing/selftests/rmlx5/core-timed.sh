# SPDX-License-Identifier: Apache-2.0 OR MIT
# The callbacks of the PCI core keep their bounds in guest time, with traffic under way, and sleep only where they may.
# On a machine whose time is its instructions (TIMED) the bounds are exact.
. ./ktap.sh
. ./core.subr
. ./channel.subr

T=/sys/kernel/tracing

# traffic: endless, on one pair.
traffic() {
	fresh && echo 2 >"$(IB)/num_qps" && start duration=3600 sizes=64,4096 || return
	within 20 moved 0
}
moved() { [ "$(total ops)" -gt "$1" ]; }

# on_again RESETS: back after so many resets, the same traffic goes on, and what it moved was right.
on_again() {
	until_is 30 "$1" attr resets && until_is 10 up attr state && alive || return
	before=$(total ops)
	within 20 moved "$before" || return
	echo stop >"$FILES/selftest" && finish 30
}

test_fatal_at_the_device() {
	traffic && inject "$BDF" 0x10 0 && on_again 1 || return
	bounded error_detected $BOUND_DETECTED && bounded slot_reset $BOUND_RESET && bounded resume $BOUND_RESUME
}

test_fatal_at_the_port() {
	above=$(bridge) || skip "card is on a root bus"
	traffic && inject "$above" 0x10 0 && on_again 1 || return
	bounded error_detected $BOUND_DETECTED && bounded slot_reset $BOUND_RESET && bounded resume $BOUND_RESUME
}

test_nonfatal() {
	traffic && inject "$BDF" 0x4000 0 && until_is 10 1 stat_of aer.nonfatal && on_again 0 || return
	bounded error_detected $BOUND_DETECTED
}

test_function_reset() {
	grep -q flr "$DEV/reset_method" || skip "no FLR"
	traffic && echo flr >"$DEV/reset_method" && echo 1 >"$DEV/reset" && on_again 1 || return
	bounded reset_prepare $BOUND_DETECTED && bounded reset_done $BOUND_RESET
}

# A knob that asks for much memory keeps no callback waiting: the depth is either changed or refused as "try again".
test_error_while_a_knob_seeks_memory() {
	traffic || return
	knob=$(IB)/resource/cq_size
	(echo 2097152 >"$knob") 2>/tmp/knob &
	writer=$!
	sleep 0.05
	kill -0 $writer 2>/dev/null || fail "the write took no time" || return
	inject "$BDF" 0x10 0 && on_again 1 || return
	wait $writer && want=2097152 || want=1024
	expect "depth" $want "$(cat "$knob")" || return
	[ $want != 1024 ] || grep -q 'Resource temporarily unavailable' /tmp/knob || fail "$(cat /tmp/knob)" || return
	bounded error_detected $BOUND_DETECTED && bounded slot_reset $BOUND_RESET && bounded resume $BOUND_RESUME
}

# watch: every sleep of the kernel goes to the trace buffer, with its stack.
watch() {
	[ -d $T/events ] || mount -t tracefs nodev $T
	echo 0 >$T/tracing_on
	echo >$T/trace
	cat >$T/kprobe_events <<-END
		p:rmlx5_sleep/usleep usleep_range_state us=%di:u64
		p:rmlx5_sleep/msleep msleep us=%di:u32
		p:rmlx5_sleep/wait schedule_timeout us=%di:s64
	END
	for event in usleep msleep wait; do
		echo stacktrace >$T/events/rmlx5_sleep/$event/trigger
		echo 1 >$T/events/rmlx5_sleep/$event/enable
	done
	echo 1 >$T/tracing_on
}

# slept: one line a sleep under a callback, "CALLBACK KIND ARGUMENT". The stack says which callback.
slept() {
	echo 0 >$T/tracing_on
	awk '
		function flush() { if (kind && callback) print callback, kind, value; kind = callback = "" }
		/: (usleep|msleep|wait): \(/ {
			flush()
			kind = $0; sub(/.*: /, "", kind)
			match($0, /: (usleep|msleep|wait): /); kind = substr($0, RSTART + 2, RLENGTH - 4)
			value = $0; sub(/.*us=/, "", value)
		}
		# Frames of the PCI core, or of the driver where the compiler has inlined those.
		/=> report_(frozen|normal)_detected|=> _R.*[0-9]error_detected/ { callback = "error_detected" }
		/=> report_slot_reset|=> _R.*[0-9]slot_reset/ { callback = "slot_reset" }
		/=> report_resume/ { callback = "resume" }
		/=> _R.*[0-9]reset_prepare/ { callback = "reset_prepare" }
		/=> _R.*[0-9]reset_done/ { callback = "reset_done" }
		END { flush() }' $T/trace
	for event in usleep msleep wait; do
		echo 0 >$T/events/rmlx5_sleep/$event/enable
		echo '!stacktrace' >$T/events/rmlx5_sleep/$event/trigger
	done
	echo >$T/kprobe_events
}

# honest LINES CALLBACK...: those that must wait for nobody do not sleep for a time, the others for a few looks at the
# card, besides waiting for its answers.
honest() {
	lines=$1
	shift
	printf '%s\n' "$lines" | sort | uniq -c | sed 's/^/slept: /'
	# No limit: a lock or a work item.
	bad=$(printf '%s\n' "$lines" | grep -E '^(error_detected|reset_prepare) ' | grep -v ' wait 9223372036854775807$' || :)
	expect "sleeps of a callback that must not" "" "$bad" || return
	bad=$(printf '%s\n' "$lines" | grep ' msleep ' || :)
	expect "coarse sleeps" "" "$bad" || return
	for callback in "$@"; do
		sum=$(printf '%s\n' "$lines" | awk -v at="$callback" '$1 == at && $2 == "usleep" { n += $3 } END { print n + 0 }')
		[ "$sum" -le 100000 ] || fail "$callback slept $sum us" || return
		# The trace works: a callback that talks to the card waits for answers.
		printf '%s\n' "$lines" | grep -q "^$callback " || fail "nothing seen of $callback" || return
	done
}

test_no_hidden_sleep_on_an_error() {
	[ -w /sys/kernel/debug ] && [ -d $T ] || skip "no tracing"
	traffic && watch && inject "$BDF" 0x10 0 && until_is 30 1 attr resets || return
	lines=$(slept)
	on_again 1 && honest "$lines" slot_reset resume
}

test_no_hidden_sleep_at_a_reset() {
	[ -w /sys/kernel/debug ] && [ -d $T ] || skip "no tracing"
	grep -q flr "$DEV/reset_method" || skip "no FLR"
	traffic && echo flr >"$DEV/reset_method" && watch && echo 1 >"$DEV/reset" || return
	lines=$(slept)
	on_again 1 && honest "$lines" reset_done
}

ktap_main "$@"
