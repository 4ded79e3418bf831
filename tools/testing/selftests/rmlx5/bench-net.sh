# SPDX-License-Identifier: Apache-2.0 OR MIT
# What the network interface costs, with rmlx5 and with the stock mlx5e, on the same card: opening and closing it, memory
# of a channel, and packets sent and received. The peer has the stock driver both times. Run by `make bench`; prints
# nothing to judge.
set -e
. ./ktap.sh
. ./bench.subr
. ./core.subr
. ./net.subr

# begin JOB, end JOB AMOUNT...
begin() { host mark "$NET_DRIVER/$1/begin" $bounds; }
end() {
	job=$1
	shift
	host mark "$NET_DRIVER/$job/end" $bounds "$@"
}

# used CHANNELS: KiB of memory in use with so many channels.
used() {
	ethtool -L "$(net_dev)" combined "$1" 2>/dev/null || :
	within 20 net_carrier
	# Memory that the stack still had comes back.
	sleep 2
	net_memory
}

# still COUNTER: its value once no packets come any more.
still() {
	still_last=-1
	until [ "$(net_count "$1")" = "$still_last" ]; do
		still_last=$(net_count "$1")
		sleep 0.5
	done
	echo "$still_last"
}

measure() {
	net_up $here
	within 60 ping -c 1 -W 1 $there
	bounds_of "$NET_DRIVER"

	ip link set "$(net_dev)" down
	begin net-up
	ip link set "$(net_dev)" up
	within 20 net_carrier
	end net-up
	sleep 1
	begin net-down
	ip link set "$(net_dev)" down
	end net-down
	net_up $here

	# The first round frees what nobody needs any more. Of the others the mean, upwards and downwards, so that what grows
	# all the time does not count.
	used 2 >/dev/null
	one=$(used 1) sum=0
	for round in 1 2 3 4; do
		two=$(used 2)
		sum=$((sum + two - one))
		one=$(used 1)
		sum=$((sum + two - one))
	done
	channel=$((sum / 8))
	begin net-channel
	end net-channel memory_of_a_channel_KiB="$channel"

	within 60 ping -c 1 -W 1 $there
	# Loaded, and all paths walked once.
	traffic tcp $there 100000
	mine=$(cat "$DEV/net/$(net_dev)/address")
	theirs=$(there_do "cat \$DEV/net/\$(net_dev)/address")

	net_generate "$(net_dev)" "$theirs" 100
	before=$(still tx_packets)
	begin net-tx
	net_generate "$(net_dev)" "$theirs" 10000
	after=$(still tx_packets)
	end net-tx packets=$((after - before))

	before=$(still rx_packets)
	begin net-rx
	there_do "net_generate \$(net_dev) $mine 10000"
	after=$(still rx_packets)
	end net-rx packets=$((after - before))

	before=$(still tx_packets)
	begin net-tso
	traffic push $there 4000000
	after=$(still tx_packets)
	end net-tso packets=$((after - before)) bytes=4000000

	before=$(still rx_packets)
	begin net-gro
	traffic pull $there 4000000
	after=$(still rx_packets)
	end net-gro packets=$((after - before)) bytes=4000000

	echo "$NET_DRIVER measured"
}

echo 0 >/proc/sys/kernel/kptr_restrict
(
	NET_DRIVER=mlx5_core
	there_do "net_up $there"
)
NET_DRIVER=mlx5_core there_do "python3 ./net-traffic.py serve >/tmp/serve.log 2>&1 &"

NET_DRIVER=rmlx5
measure
rmmod rmlx5
NET_DRIVER=mlx5_core
measure
