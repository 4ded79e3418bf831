# SPDX-License-Identifier: Apache-2.0 OR MIT
# The write combining test of the stock driver (core/wc.c) and libmlx5's BlueFlame on the card. COMBINING says whether
# writes reach the card of this part combined.
. ./ktap.sh
. ./stock.subr

address=192.0.2.1
complaint='Write combining is not supported'

counter() { host card 0 counters | sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p"; }

suite_setup() {
	stock_up $address
	within 10 stock_gid_index $address
}

# The first user context makes mlx5_core test.
test_the_driver_finds_out() {
	ibv_devinfo >/dev/null
	like "$(host card 0 trace 10000)" 'CREATE_SQ ' "the queue of the test"
	if [ -n "${COMBINING:-}" ]; then
		unlike "$(klog)" "$complaint" "kernel log"
		[ "$(counter blueflame_taken)" -gt 0 ] || fail "the card took nothing from the register"
	else
		like "$(klog)" "$complaint" "kernel log"
		is "$(counter blueflame_taken)" 0 "WQEs taken from the register"
	fi
}

# libmlx5 writes the WQE to the register if the kernel says that it works; received bytes are compared.
test_traffic_of_a_program() {
	before=$(counter blueflame_taken)
	stock_pingpong rc $address
	taken=$(($(counter blueflame_taken) - before))
	echo "$taken WQEs taken from the register"
	if [ -n "${COMBINING:-}" ]; then
		[ "$taken" -ge 100 ] || fail "BlueFlame is not used"
	else
		is "$taken" 0 "WQEs taken from the register"
	fi
}

ktap_main "$@"
