# SPDX-License-Identifier: Apache-2.0 OR MIT
# What a bind and an unbind cost, with rmlx5 and with the stock mlx5_core alone, on the same card; and what it takes until
# there is a port that carries traffic, with all of both drivers. Run by `make bench`: takes marks through the host channel,
# prints nothing to judge.
set -e
. ./ktap.sh
. ./bench.subr
. ./core.subr
. ./stock.subr
. ./net.subr

mark() { host mark "$1" $bounds; }

# measure DRIVER DEVICE: the second round counts, the first one pays for what is made only once.
measure() {
	bounds_of "$1"
	directory=/sys/bus/pci/drivers/$1
	echo "$2" >"$directory/bind"
	echo "$2" >"$directory/unbind"
	mark "$1/bind/begin"
	echo "$2" >"$directory/bind"
	mark "$1/bind/end"
	# An idle second is not part of the unbind.
	sleep 1
	mark "$1/unbind/begin"
	echo "$2" >"$directory/unbind"
	mark "$1/unbind/end"
}

# ready DRIVER MODULE...: from a function that is bound to no driver to an active port with the GID of an address, and the
# memory that it takes. Nothing looks at the state of the port meanwhile, which would be a command.
ready() {
	ready_driver=$1
	shift
	bounds_of "$@"
	# Twice: the first round pays for what is made only once.
	for round in 1 2; do
		# Memory that is freed later comes back.
		sleep 2
		before=$(net_memory)
		[ $round = 1 ] || host mark "$ready_driver/port-ready/begin" $bounds
		echo "$device" >"/sys/bus/pci/drivers/$ready_driver/bind"
		within 60 stock_bound
		ip link set "$(stock_netdev)" up
		ip addr replace "$here/24" dev "$(stock_netdev)"
		within 60 stock_carrier
		within 60 stock_gid_index $here
		[ $round = 1 ] || host mark "$ready_driver/port-ready/end" $bounds
		stock_active || { echo "the port is not active"; exit 1; }
		sleep 2
		after=$(net_memory)
		echo "$device" >"/sys/bus/pci/drivers/$ready_driver/unbind"
	done
	host mark "$ready_driver/port-ready-memory/begin"
	host mark "$ready_driver/port-ready-memory/end" memory_of_a_ready_port_KiB=$((after - before))
}

device=$(basename "$(dirname "$(grep -l 0x15b3 /sys/bus/pci/devices/*/vendor | head -1)")")
echo 0 >/proc/sys/kernel/kptr_restrict
# Nothing binds by itself; the stock driver's children (mlx5e, mlx5_ib) never do.
echo 0 >/sys/bus/pci/drivers_autoprobe
echo "device $device"

modprobe ib_uverbs
insmod /job/files/rmlx5.ko
# The driver core's name of the driver is the module's.
driver=$(ls /sys/bus/pci/drivers | grep -x rmlx5)
measure "$driver" "$device"
ready "$driver" rmlx5
rmmod rmlx5

modprobe mlx5_core
echo 0 >/sys/bus/auxiliary/drivers_autoprobe
measure mlx5_core "$device"
echo 1 >/sys/bus/auxiliary/drivers_autoprobe
modprobe mlx5_ib
ready mlx5_core mlx5_core mlx5_ib
rmmod mlx5_ib mlx5_core
echo "measured"
