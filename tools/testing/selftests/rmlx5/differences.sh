# SPDX-License-Identifier: Apache-2.0 OR MIT
# The commands of rmlx5 and of the stock drivers for the same job, side by side. Each difference has its reason in
# Documentation/driver/differences.md; one without a reason fails, and so does a reason whose difference is gone.
. ./ktap.sh
. ./core.subr
. ./channel.subr
. ./stock.subr

KTAP_TIMEOUT=${KTAP_TIMEOUT:-300}
address=192.0.2.1

# Nothing binds by itself, and mlx5_core gets its children only where a job needs them.
suite_setup() {
	core_setup
	modprobe ib_uverbs
	modprobe mlx5_core
	quiet
	insmod "$RMLX5_KO"
}
suite_teardown() { :; }

quiet() {
	echo 0 >/sys/bus/pci/drivers_autoprobe
	echo 0 >/sys/bus/auxiliary/drivers_autoprobe
	[ ! -e "$DEV/driver" ] || echo "$BDF" >"$DEV/driver/unbind"
}

# The driver core's name of a driver.
directory() { [ "$1" = rmlx5 ] && echo $PCI/drivers/rmlx5 || echo $PCI/drivers/mlx5_core; }

bind() { echo "$BDF" >"$(directory "$1")/bind"; }
unbind() { echo "$BDF" >"$(directory "$1")/unbind"; }

# record DRIVER JOB COMMAND...
record() {
	record_name=$1/$2
	shift 2
	host trace begin
	"$@"
	# The last command may still be on its way to the trace.
	sleep 0.5
	host trace end "$record_name"
}

# explained JOB
explained() {
	explained_rows=$(host differences "$1")
	[ -z "$explained_rows" ] || { echo "$explained_rows"; fail "differences of $1 without a reason, or reasons without a difference"; }
}

recoveries() { dmesg | awk '/AER: device recovery successful/ { n++ } END { print n + 0 }'; }

fatal() {
	fatal_before=$(recoveries)
	host card 0 aer uncorrectable=0x40000
	host hmp pcie_aer_inject_error card0 MALF_TLP
	until_is 60 $((fatal_before + 1)) recoveries
}

test_bind_unbind() {
	quiet
	for driver in rmlx5 mlx5; do
		record $driver bind bind $driver
		# Background work of the stock driver is done by then.
		sleep 2
		record $driver unbind unbind $driver
	done
	explained bind
	explained unbind
}

test_aer_cycle() {
	quiet
	for driver in rmlx5 mlx5; do
		bind $driver
		sleep 2
		record $driver "AER cycle" fatal
		sleep 2
		unbind $driver
	done
	explained "AER cycle"
}

# One RC connection within the card: a pair of channels of rmlx5, and both ends of ibv_rc_pingpong.
test_rc_pingpong() {
	quiet
	bind rmlx5
	record rmlx5 "RC pingpong" one_pair
	unbind rmlx5

	echo 1 >/sys/bus/auxiliary/drivers_autoprobe
	modprobe mlx5_ib
	bind mlx5
	stock_up $address
	within 10 stock_gid_index $address
	# Addresses and multicast groups of the new interface are settled.
	sleep 3
	record mlx5 "RC pingpong" stock_pingpong rc $address
	unbind mlx5
	explained "RC pingpong"
}

one_pair() {
	echo 2 >"$(IB)/num_qps"
	start rounds=20 sizes=1024 mode=irq
	finish 60
}

ktap_main "$@"
