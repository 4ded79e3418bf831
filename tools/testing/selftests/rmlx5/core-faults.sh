# SPDX-License-Identifier: Apache-2.0 OR MIT
# A card that misbehaves: lost interrupts, lost answers, firmware errors, events nobody asked for.
. ./ktap.sh
. ./core.subr

suite_setup() { core_setup; }
suite_teardown() { unload; }

inject() { host card 0 inject "$@" >/dev/null; }

# Makes the driver talk to the firmware: the channels are provisioned anew.
commands() {
	for commands_knob in "$DEV"/infiniband/*/num_qps; do
		commands_now=$(cat "$commands_knob")
		echo $((commands_now == 4 ? 6 : 4)) >"$commands_knob"
		return
	done
	fail "no num_qps"
}

test_lost_interrupt_is_not_a_timeout() {
	fresh
	# Vector 1 is the command EQ's.
	inject swallow-interrupt vector=1 count=1
	commands
	[ "$(stat_of commands.lost_interrupts)" -gt 0 ] || fail "the interrupt was not lost"
	alive && expect resets 0 "$(attr resets)"
}

test_unexpected_completions_are_ignored() {
	fresh
	before=$(stat_of commands.spurious)
	inject spurious-command-event slots=0xffffffff
	commands
	until_is 5 "$((before + 32))" stat_of commands.spurious
	inject duplicate-command-event
	commands
	alive && expect resets 0 "$(attr resets)"
}

test_firmware_error_resets_the_function() {
	fresh
	inject health syndrome=1 reset_request=true
	until_is 20 1 attr resets
	# The word follows with the next look at the firmware.
	until_is 5 good attr health
	alive
	commands
}

test_no_answer_resets_the_function() {
	unload
	load command_timeout=2
	log_mark silent
	inject swallow-command count=1
	! commands || fail "a command without an answer succeeded"
	until_is 20 1 attr resets
	until_is 5 good attr health
	expect lines 1 "$(log_count silent 'Command Timeout')"
	expect timeouts 1 "$(stat_of commands.timeouts)"
	commands
}

# A recovery that cannot work ends in "dead", in bounded time, and binding anew helps.
test_failed_recovery_is_final() {
	fresh
	log_mark dead
	# CREATE_EQ is 0x301.
	inject fail-command status=8 opcode=0x301 count=1
	echo 1 >"$DEV/reset" || true
	expect state dead "$(attr state)"
	expect lines 1 "$(log_count dead 'recovery failed')"
	echo "$BDF" >$PCI/drivers/rmlx5/unbind
	echo "$BDF" >$PCI/drivers/rmlx5/bind
	alive
}

test_refused_command_at_bind() {
	unload
	log_mark refused
	# QUERY_HCA_CAP is 0x100.
	inject fail-command status=1 opcode=0x100 count=1
	insmod "$RMLX5_KO"
	expect driver "" "$(driver)"
	expect lines 1 "$(log_count refused 'command failed: QUERY_HCA_CAP')"
	unload
	expect leaks 0 "$(log_count refused leak:)"
	load
}

ktap_main "$@"
