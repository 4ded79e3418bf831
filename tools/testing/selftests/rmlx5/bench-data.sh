# SPDX-License-Identifier: Apache-2.0 OR MIT
# What moving data costs on the emulated card under its stock driver, and with the kernel's software RoCE in the same
# guest: both ends in one guest, perftest. Run by `make bench`; prints nothing to judge.
set -e
. ./ktap.sh
. ./stock.subr

address=192.0.2.1
soft=198.51.100.1

# measure WHO JOB TOOL SIZE COUNT UNIT=AMOUNT...: device and index are those of WHO.
measure() {
	who=$1 job=$2 tool=$3
	options="-d $device -x $index -s $4 -n $5 -F -p $port"
	shift 5
	# Loaded, and all paths walked once.
	both >/dev/null
	host mark "$who/$job/begin"
	both
	host mark "$who/$job/end" "$@" $latency
	port=$((port + 1))
}

both() {
	latency=
	$tool $options >/tmp/server 2>&1 &
	server=$!
	within 30 stock_listening $port
	timeout 300 $tool $options 127.0.0.1 >/tmp/client 2>&1 || { cat /tmp/client >&2; exit 1; }
	wait $server || { cat /tmp/server >&2; exit 1; }
	case $tool in
	# bytes, iterations, t_min, t_max, t_typical in microseconds with two decimals
	*_lat*) latency="typical_latency_ns=$(awk '$1 ~ /^[0-9]+$/ && NF >= 6 { printf "%d", $5 * 1000 }' /tmp/client)" ;;
	esac
}

jobs() {
	measure "$1" write-64k ib_write_bw 65536 1000 bytes=$((1000 * 65536))
	measure "$1" read-64k ib_read_bw 65536 1000 bytes=$((1000 * 65536))
	measure "$1" write-8b ib_write_bw 8 10000 messages=10000
	measure "$1" send-latency ib_send_lat 8 200
}

port=18600
modprobe mlx5_ib
stock_up $address
within 10 stock_gid_index $address
device=$(stock_ibdev) index=$(stock_gid_index $address)
jobs cxemu
echo "cxemu measured"

modprobe -r mlx5_ib
modprobe rdma_rxe
ip link add soft0 type dummy
ip link set soft0 up
ip addr add $soft/24 dev soft0
rdma link add rxe0 type rxe netdev soft0
within 10 stock_gid_index $soft rxe0
device=rxe0 index=$(stock_gid_index $soft rxe0)
jobs rdma_rxe
echo "rdma_rxe measured"
