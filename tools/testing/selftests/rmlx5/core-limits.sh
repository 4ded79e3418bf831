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

ktap_main "$@"
