# SPDX-License-Identifier: Apache-2.0 OR MIT
# What each verb costs, with rmlx5 and with the stock mlx5_ib, on the same card and by the same library; completions by event
# and by polling; memory; and reads of a disk over RDMA, where the driver itself posts and polls. Run by `make bench`; prints
# nothing to judge.
set -e
. ./ktap.sh
. ./bench.subr
. ./core.subr
. ./stock.subr
. ./wire.subr
. ./verbs.subr
. ./storage.subr

# reads COUNT: of 4 KiB each, past the page cache.
reads() { dd if="$(storage_disk)" of=/dev/null bs=4k count="$1" iflag=direct 2>/dev/null; }

# measure NAME MODULE...: NAME is that of the columns.
measure() {
	bench_name=$1
	shift
	verbs_up $here
	bounds_of "$@"
	# shellcheck disable=SC2086
	python3 ./bench-verbs.py "$(stock_ibdev)" "$(stock_gid_index $here)" "$bench_name" $bounds

	storage_export $here
	storage_connect $here
	reads 50
	# shellcheck disable=SC2086
	host mark "$bench_name/verbs-disk-read/begin" $bounds
	reads 500
	# shellcheck disable=SC2086
	host mark "$bench_name/verbs-disk-read/end" $bounds calls=500
	storage_disconnect
	storage_unexport
	modprobe -r nvme-rdma
	echo "$bench_name measured"
}

echo 0 >/proc/sys/kernel/kptr_restrict
VERBS_DRIVER=rmlx5
measure rmlx5 rmlx5
rmmod rmlx5
VERBS_DRIVER=mlx5_ib
measure mlx5_core mlx5_ib mlx5_core
