# SPDX-License-Identifier: Apache-2.0 OR MIT
# What a bind and an unbind cost, with rmlx5 and with the stock mlx5_core alone, on the same card. Run by `make bench`:
# takes marks through the host channel, prints nothing to judge.
set -e
. ./ktap.sh

# text MODULE: bounds of the text of a loaded module, hexadecimal.
text() {
	awk -v tag="[$1]" '$NF == tag && $2 ~ /[tT]/ { print $1 }' /proc/kallsyms | sort |
		sed -n '1p;$p' | tr '\n' ' '
}

mark() { host mark "$1" $bounds; }

# measure DRIVER DEVICE: the second round counts, the first one pays for what is made only once.
measure() {
	bounds=$(text "$1")
	[ -n "$bounds" ] || { echo "no text of $1 in kallsyms"; exit 1; }
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
rmmod rmlx5

modprobe mlx5_core
echo 0 >/sys/bus/auxiliary/drivers_autoprobe
measure mlx5_core "$device"
rmmod mlx5_core
echo "measured"
