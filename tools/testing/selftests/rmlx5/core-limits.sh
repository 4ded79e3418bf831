# SPDX-License-Identifier: Apache-2.0 OR MIT
# A card with few of everything: what it says can be reached, what it has not is refused.
. ./ktap.sh
. ./core.subr
. ./channel.subr

# More QPs than the HCA has: ENOMEM, the old set goes on, nothing is left over.
test_no_more_qps() {
	fresh || return
	limit=$(cat "$(IB)/resource/max_qp")
	[ "$limit" -lt 256 ] || skip "this card has $limit QPs"
	echo 4 >"$(IB)/num_qps" && start rounds=2 sizes=64 && finish 60 || return
	objects=$(objects)
	refused $((limit + 2)) "$(IB)/num_qps" "Cannot allocate memory" "num_qps: $((limit + 2)) is not possible" || return
	expect objects "$objects" "$(objects)" || return
	start rounds=2 sizes=64 && finish 60 && complete 4 2
}

# A CQ deeper than the HCA allows.
test_too_deep() {
	fresh || return
	limit=$(($(cat "$(IB)/resource/max_cqe") + 1))
	refused $((limit + 1)) "$(IB)/resource/cq_size" "Invalid argument" "between 256 and $limit"
}

# A user takes all there is: what the driver has goes on, and what the user had is there again afterwards.
test_user_takes_all() {
	fresh || return
	echo 4 >"$(IB)/num_qps"
	netdev=$(ls "$DEV/net")
	ip link set "$netdev" up
	objects=$(objects)
	mkfifo /tmp/hold
	python3 verbs_limits.py objects "$(ibdev)" </tmp/hold >/tmp/held 2>&1 &
	holder=$!
	exec 9>/tmp/hold
	within 120 grep -Eq 'held|Error' /tmp/held || fail "it does not end: $(cat /tmp/held)"
	cat /tmp/held
	start rounds=2 sizes=64 && finish 60 && complete 4 2
	refused 6 "$(IB)/num_qps" "Cannot allocate memory" "num_qps: 6 is not possible"
	exec 9>&-
	wait $holder || fail "limits"
	expect objects "$objects" "$(objects)"
	# As many as before can be made again, and the interface gives back and takes what it needs.
	ip link set "$netdev" down
	ip link set "$netdev" up
	within 60 grep -q 1 "/sys/class/net/$netdev/carrier"
	echo 6 >"$(IB)/num_qps" && start rounds=2 sizes=64 && finish 60 && complete 6 2
	alive
}

ktap_main "$@"
