# SPDX-License-Identifier: Apache-2.0 OR MIT
# The files of the RDMA device are there when user space is told of it: a udev rule may read them at once.
. ./ktap.sh
. ./core.subr
. ./channel.subr

T=/sys/kernel/tracing
KNOBS="num_qps irq_affinity_list cq_size max_cqe max_qp max_qp_wr max_sge max_msg_size max_dma_size"

# The order in the kernel, which no race can hide: each file is made before the event is composed. (The core calls the
# uevent code early, too, but suppressed; only for the real event it asks the device class for its variables.)
test_files_come_before_the_event() {
	[ -w /sys/kernel/debug ] && [ -d $T ] || skip "no tracing"
	unload
	modprobe ib_uverbs
	[ -d $T/events ] || mount -t tracefs nodev $T
	echo >$T/trace
	cat >$T/kprobe_events <<-END
		p:rmlx5_uevent/file sysfs_add_file_mode_ns name=+0(+0(%si)):string
		p:rmlx5_uevent/event ib_core:ib_device_uevent
	END
	echo 1 >$T/events/rmlx5_uevent/enable
	echo 1 >$T/tracing_on
	load
	echo 0 >$T/events/rmlx5_uevent/enable
	# Names and events in their order, from the first knob to the event.
	order=$(sed -n 's/.*: file: .*name="\(.*\)"$/\1/p;s/.*: event: .*/EVENT/p' $T/trace)
	echo >$T/kprobe_events
	like "$order" '^EVENT$' "what was traced"
	before=$(printf '%s\n' "$order" | sed '/^EVENT$/q')
	for knob in $KNOBS; do
		[ "$(printf '%s\n' "$order" | grep -cx "$knob")" = 1 ] || fail "$knob is not made once"
		printf '%s\n' "$before" | grep -qx "$knob" || fail "$knob is made after the event"
	done
}

# The same as a program sees it: it reads every file as soon as it hears of the device.
test_a_listener_reads_them_at_once() {
	ktap_has python3 || skip "no python3"
	unload
	modprobe ib_uverbs
	rm -f /tmp/uevent.*
	python3 - >/tmp/uevent.out 2>&1 <<-'END' &
		import os, socket, sys
		heard = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)
		heard.bind((0, 1))
		heard.settimeout(50)
		open("/tmp/uevent.ready", "w").close()
		knobs = ["num_qps", "irq_affinity_list"] + ["resource/" + name for name in (
		    "cq_size", "max_cqe", "max_qp", "max_qp_wr", "max_sge", "max_msg_size", "max_dma_size")]
		while True:
		    words = heard.recv(16384).decode(errors="replace").split("\0")
		    if not words[0].startswith("add@") or "SUBSYSTEM=infiniband" not in words:
		        continue
		    device = "/sys" + words[0][4:]
		    for knob in knobs:
		        print(knob, open(os.path.join(device, knob)).read().strip(), flush=True)
		    print("heard of", os.path.basename(device), flush=True)
		    sys.exit(0)
	END
	listener=$!
	within 20 test -e /tmp/uevent.ready
	load
	wait $listener || fail "the listener: $(cat /tmp/uevent.out)"
	cat /tmp/uevent.out
	like "$(cat /tmp/uevent.out)" "heard of $(ibdev)" "the listener"
	is "$(wc -l </tmp/uevent.out)" 10 "lines of the listener"
}

ktap_main "$@"
