# SPDX-License-Identifier: Apache-2.0 OR MIT
# The files that field guides tell people to write, while traffic runs.
. ./ktap.sh
. ./core.subr
. ./channel.subr

test_present() {
	fresh || return
	for file in num_qps irq_affinity_list resource/cq_size resource/max_cqe resource/max_qp \
		resource/max_qp_wr resource/max_sge resource/max_msg_size resource/max_dma_size; do
		[ -r "$(IB)/$file" ] || fail "no $file" || return
	done
	expect num_qps 8 "$(cat "$(IB)/num_qps")" && expect cq_size 1024 "$(cat "$(IB)/resource/cq_size")"
}

test_irq_list() {
	fresh || return
	expect irq_affinity_list "$(vectors | sed -n 's/^\([0-9]*\) .*comp.*/\1/p' | tr '\n' , | sed 's/,$//')" \
		"$(cat "$(IB)/irq_affinity_list")"
}

# The worked example, as it is written in the guide.
test_worked_example() {
	fresh && start duration=120 sizes=64,4096 || return
	sleep 2
	[ "$(ibdev)" = mlx5_0 ] || skip "the RDMA device is called $(ibdev)" || return
	echo 16 > /sys/class/infiniband/mlx5_0/num_qps || return
	echo 4096 > /sys/class/infiniband/mlx5_0/resource/cq_size || return
	for N in $(seq 1 "$(tr , '\n' < /sys/class/infiniband/mlx5_0/irq_affinity_list | wc -l)"); do
		irq=$(cut -d, -f"$N" /sys/class/infiniband/mlx5_0/irq_affinity_list)
		mask=$(printf %x $((1 << ((N - 1) % $(nproc)))))
		echo "$mask" > "/proc/irq/$irq/smp_affinity" || return
		expect "affinity of $irq" $((0x$mask)) $((0x$(cat "/proc/irq/$irq/smp_affinity"))) || return
	done
	sleep 2
	echo stop >"$FILES/selftest" || return
	finish 60 || return
	expect channels 16 "$(total channels)" && expect depth 4096 "$(steps depth | sort -u)" &&
		expect indeterminate 0 "$(total indeterminate)" && expect faults 0 "$(total faults)" || return
	# The new channels worked too.
	[ "$(each ops | sort -n | head -n 1)" -gt 0 ] || fail "a channel did nothing"
}

# Fewer channels: what they have under way is finished and stays in the account.
test_shrink() {
	fresh && start duration=120 sizes=64 || return
	sleep 1
	echo 2 >"$(IB)/num_qps" || return
	sleep 1
	echo 8 >"$(IB)/num_qps" || return
	sleep 1
	echo stop >"$FILES/selftest"
	finish 60 || return
	expect retired 6 "$(sed -n 's/^retired \([0-9]*\) .*/\1/p' "$FILES/selftest")" &&
		expect indeterminate 0 "$(total indeterminate)"
}

# Up and down, many times, under traffic.
test_resize_often() {
	fresh && start duration=300 sizes=64 || return
	for depth in 256 4096 512 2048 256 1024 8192 300; do
		echo $depth >"$(IB)/resource/cq_size" || return
	done
	# Rounded up to a power of two.
	expect cq_size 512 "$(cat "$(IB)/resource/cq_size")" || return
	sleep 1
	echo stop >"$FILES/selftest"
	finish 60 && expect depth 512 "$(steps depth | sort -u)" && expect malformed 0 "$(each malformed | sort -u)"
}

test_bad_values() {
	fresh || return
	refused 0 "$(IB)/num_qps" "Invalid argument" "num_qps: 0 is not between 1 and 256" &&
		refused 257 "$(IB)/num_qps" "Invalid argument" "num_qps: 257 is not between 1 and 256" &&
		refused 7 "$(IB)/num_qps" "Invalid argument" "num_qps: 7 is odd" &&
		refused -1 "$(IB)/num_qps" "Invalid argument" "num_qps: not a number" &&
		refused x "$(IB)/num_qps" "Invalid argument" "num_qps: not a number" &&
		refused 255 "$(IB)/resource/cq_size" "Invalid argument" "cq_size: 255 is not between 256 and" &&
		refused 4294967295 "$(IB)/resource/cq_size" "Invalid argument" "cq_size: 4294967295 is not between" &&
		refused 4294967296 "$(IB)/resource/cq_size" "Invalid argument" "cq_size: not a number"
}

test_parameters() {
	unload && load num_qps=4 cq_size=2000 || return
	expect num_qps 4 "$(cat "$(IB)/num_qps")" && expect cq_size 2048 "$(cat "$(IB)/resource/cq_size")" || return
	start rounds=1 && finish 60 && expect channels 4 "$(total channels)" || return
	expect depth 2048 "$(steps depth | sort -u)"
}

ktap_main "$@"
