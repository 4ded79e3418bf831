# SPDX-License-Identifier: Apache-2.0 OR MIT
# Verified traffic on the channels: in interrupt and in polling mode, with and without moderation.
. ./ktap.sh
. ./core.subr
. ./channel.subr

# Nothing is made before somebody uses it.
# QP 1 is the RDMA core's; channels are made when somebody wants them.
test_lean() {
	fresh || return
	expect "QPs at bind" 1 "$(stat_of objects.qp)" && expect channels "" "$(steps qpn)"
}

# The machine of this part has an IOMMU that translates what the card says.
test_behind_an_iommu() {
	[ -e "$DEV/iommu_group" ] || skip "this machine has none"
	expect "kind of domain" DMA "$(cat "$DEV/iommu_group/type")"
}

test_irq_mode() {
	fresh && start rounds=8 sizes=1,8,200,4096,65536 mode=irq && finish 120 || return
	complete 8 40 || return
	interrupts=$(total interrupts)
	[ "$interrupts" -gt 0 ] || fail "no interrupt" || return
	# Bytes verified by READ, by the receiver of both SENDs, and 8 for each FETCH_ADD.
	written=$((8 * (1 + 8 + 200 + 4096 + 65536)))
	sent=$((8 * (1 + 8 + 200 + 4096 + 4096)))
	expect verified $((8 * (written + 2 * sent + 40 * 8))) "$(total verified)"
}

test_poll_mode() {
	fresh && start rounds=4 sizes=8,4096 mode=poll && finish 120 || return
	complete 8 8 || return
	# The CQs are not armed; one event of the time before may be on its way.
	[ "$(total interrupts)" -le 8 ] || fail "$(total interrupts) interrupts while polling"
}

# All vectors serve, in turn.
test_vectors_in_turn() {
	fresh && start rounds=1 sizes=64 && finish 60 || return
	vectors=$(vectors | grep -c comp)
	n=0
	for vector in $(each vector); do
		expect "vector of channel $n" $((n % vectors)) "$vector" || return
		n=$((n + 1))
	done
}

# The card is told, the report shows what it saves here (under TCG completions come in bursts anyway), and a
# completion that is held back is not lost: the last ones of a run come by the period alone.
test_moderation() {
	fresh && echo 2 >"$(IB)/num_qps" && start rounds=30 sizes=4096 && finish 120 || return
	echo "completions per interrupt: $(total completions_per_interrupt) without moderation"
	start rounds=30 sizes=4096 moderation=4000,60000 && finish 120 && complete 2 30 || return
	echo "completions per interrupt: $(total completions_per_interrupt) with moderation"
	[ "$(total interrupts)" -gt 0 ] || fail "no interrupt"
	like "$(host card 0 trace 400)" 'MODIFY_CQ .*cq_period=0xfa0' "the card's commands"
}

test_reports_latency() {
	fresh && start rounds=2 sizes=64 && finish 60 || return
	for name in min median p99; do
		for value in $(each $name); do
			case $value in [0-9]*.[0-9]) ;; *) fail "$name=$value"; return 1 ;; esac
		done
	done
}

# A run goes on in the background, refuses a second one, and can be ended.
test_one_at_a_time() {
	fresh && start duration=60 sizes=64 || return
	expect state running "$(state)" || return
	( echo rounds=1 >"$FILES/selftest" ) 2>/dev/null && fail "a second run was accepted" && return 1
	echo stop >"$FILES/selftest" || return
	finish 30
}

test_duration() {
	fresh && start duration=2 sizes=64 && finish 60 || return
	elapsed=$(sed -n 's/^state: .*elapsed_ms=//p' "$FILES/selftest")
	[ "$elapsed" -ge 2000 ] || fail "ended after $elapsed ms"
}

test_bad_options() {
	fresh || return
	for text in rounds=0 sizes=65537 mode=event duration=x bogus=1 rounds; do
		( echo "$text" >"$FILES/selftest" ) 2>/dev/null && fail "'$text' was accepted" && return 1
	done
	expect state idle "$(state)"
}

# The module goes away in the middle of a run, and nothing is left.
test_unload_under_traffic() {
	fresh && start duration=60 && sleep 1 || return
	log_mark gone
	unload || return
	! log_since gone | grep -i 'leak\|left' || fail "something is left"
}

ktap_main "$@"
