# SPDX-License-Identifier: Apache-2.0 OR MIT
# Verbs programs that nobody here wrote, both ends on one card.
. ./ktap.sh
. ./core.subr
. ./stock.subr
. ./wire.subr
. ./verbs.subr
. ./programs.subr
. ./storage.subr

suite_setup() {
	core_setup
	verbs_up $here
	verbs_objects >/tmp/objects
	kernel_cqs >/tmp/kernel_cqs
}

# CQs of the kernel. The core keeps those that it lends to NVMe and others as long as there is the RDMA device.
kernel_cqs() { rdma resource show cq | grep -vc ' pid ' || :; }

test_devinfo() {
	text=$(ibv_devinfo -v -d "$(stock_ibdev)")
	for want in 'state:.*PORT_ACTIVE' 'link_layer:.*Ethernet' 'max_srq:.*[1-9]' 'GID\[.*RoCE v2'; do
		like "$text" "$want" ibv_devinfo
	done
}

test_rc_pingpong() { loop ibv_rc_pingpong -n 100; }
test_rc_pingpong_events_and_compared() { loop ibv_rc_pingpong -n 100 -e -c; }
test_rc_pingpong_sizes() { for size in 1 63 4097 65537 1000000; do loop ibv_rc_pingpong -n 20 -c -s $size; done; }
test_rc_pingpong_mtus() { for mtu in 256 512 1024; do loop ibv_rc_pingpong -n 20 -c -s 9000 -m $mtu; done; }
test_uc_pingpong() { loop ibv_uc_pingpong -n 100 -e; loop ibv_uc_pingpong -n 20 -s 4097; }
test_ud_pingpong() { loop ibv_ud_pingpong -n 100 -e; loop ibv_ud_pingpong -n 50 -s 1000; }
test_srq_pingpong() { loop ibv_srq_pingpong -n 100 -e; loop ibv_srq_pingpong -n 100 -q 4 -s 4097; }
test_xsrq_pingpong() { loop ibv_xsrq_pingpong -n 100 -e; loop ibv_xsrq_pingpong -n 50 -s 65537; }

test_largest_reads() { for program in ib_read_bw ib_read_lat; do perf_here $program -n 5 -s 8388608; done; }

# The event after 16 completions or 20 us; beyond 12 bits of microseconds it is EINVAL.
test_moderation() {
	text=$(ibv_devinfo -v -d "$(stock_ibdev)")
	like "$text" 'max_cq_count:[[:space:]]*65535' "ibv_devinfo"
	like "$text" 'max_cq_period:[[:space:]]*4095' "ibv_devinfo"
	is "$(python3 verbs-moderate.py "$(stock_ibdev)" 16 20)" 0 "16 completions or 20 us"
	is "$(python3 verbs-moderate.py "$(stock_ibdev)" 65535 4095)" 0 "the limits"
	is "$(python3 verbs-moderate.py "$(stock_ibdev)" 16 4096)" 22 "a period beyond the limit"
}

# Each event is about the CQ that has the completion, among hundreds that come and go.
test_many_cqs() { python3 verbs-events.py "$(stock_ibdev)" "$(stock_gid_index $here)"; }

# Nothing stays pinned in a context whose queues are gone.
test_pins() {
	set -- $(python3 verbs-pins.py "$(stock_ibdev)")
	is "$1 $4" "0 0" "pinned before and after, in kB,"
	[ "$2" -gt "$3" ] && [ "$3" -gt 0 ] || fail "pinned: $2 kB with three queues, $3 with one"
}

# A send that finds no receive waits for one, and each answer that says so is counted.
test_receiver_not_ready() { python3 verbs-rnr.py "$(stock_ibdev)" "$(stock_gid_index $here)"; }

# Memory of another device is refused in words.
test_dmabuf_is_refused() {
	[ "$VERBS_DRIVER" = rmlx5 ] || skip "the stock driver registers it"
	is "$(python3 verbs-dmabuf.py "$(stock_ibdev)")" 95 "errno of a dmabuf"
	is "$(klog | grep -c 'rmlx5 .*: MR: memory of another device (a dmabuf) is not supported')" 1 "lines in the kernel log"
}

# What raw packets, flow rules and work queues do not do, by errno: 12 ENOMEM, 22 EINVAL, 95 EOPNOTSUPP. The stock driver
# has work queues that take from an SRQ or strip tags, and other words for a rule of the wrong kind.
test_raw_refusals() {
	case $VERBS_DRIVER in
	rmlx5) set -- 95 95 95 95 ;;
	*) set -- 22 22 0 0 ;;
	esac
	is "$(python3 verbs-raw.py "$(stock_ibdev)" refusals | tr '\n' ' ')" \
		"rule 0 priority 12 everything 0 hash 0 port 22 flags 22 trap 95 egress 95 default $1 kind 95 datagrams 22 inner $2 version 22 versions 22 ttl 95 mask 22 protocol 22 ports 0 srq $3 strip $4 state 22 fields 22 both 22 nothing 22 function 95 key 22 modified 95 queried 95 drained 22 again 0 " \
		"errnos"
	like "$(setpriv --bounding-set -net_raw python3 verbs-raw.py "$(stock_ibdev)" make 2>&1 || :)" 'Errno: 1,' "without the right"
}

# Rules that say the same share frames; those that come first take them; the interface gets what nobody takes.
test_raw_frames() {
	ip maddr add 01:50:56:19:20:a7 dev "$(stock_netdev)"
	got=$(python3 verbs-raw.py "$(stock_ibdev)" frames "$(stock_netdev)")
	ip maddr del 01:50:56:19:20:a7 dev "$(stock_netdev)"
	is "$(echo "$got" | tr '\n' ';')" "1 interface;2 first second;3 first;4 second;5 first;6 first;7 interface;" "frames"
}

# The same by matchers, whose masks and values are laid out as on the card: 17 is EEXIST.
test_raw_matched() {
	ip maddr add 01:50:56:19:20:a7 dev "$(stock_netdev)"
	got=$(python3 verbs-raw.py "$(stock_ibdev)" matched "$(stock_netdev)")
	ip maddr del 01:50:56:19:20:a7 dev "$(stock_netdev)"
	is "$(echo "$got" | tr '\n' ';')" \
		"1 first;2 interface;3 first second;tag 17;drop 17;4 first;5 interface;6;7 second;tag 0x123;8 interface;" "frames"
}

# A GID index where nothing is, and one beyond the table.
test_wrong_gid_index() {
	for index in 100 250; do
		timeout 60 ibv_rc_pingpong -d "$(stock_ibdev)" -g $index >/tmp/wrong 2>&1 &
		wrong_pid=$!
		within 20 stock_listening
		! timeout 60 ibv_rc_pingpong -d "$(stock_ibdev)" -g $index 127.0.0.1 >>/tmp/wrong 2>&1 || fail "index $index works"
		! wait $wrong_pid || fail "index $index works"
		like "$(cat /tmp/wrong)" 'Failed to modify QP to RTR' "index $index"
	done
	! timeout 60 ibv_rc_pingpong -d "$(stock_ibdev)" -g 300 >/tmp/wrong 2>&1 || fail "index 300 works"
	like "$(cat /tmp/wrong)" "can't read sgid of index 300" "index 300"
}

test_killed_in_mid_traffic() {
	for round in 1 2 3; do
		endless
		stop_endless
	done
	hold_raw
	drop_raw
}

# Connections by the kernel's connection manager, which talks over QP 1: by event and by polling, and datagrams.
test_connection_manager() {
	modprobe rdma_ucm
	cm_loop rping -s -a $here -C 20 -V -- rping -c -a $here -C 20 -V
	cm_loop udaddy -- udaddy -s $here
}

# A disk over RDMA, host and target on this card: registrations, invalidations, reads, writes, sends with invalidate.
test_storage() {
	storage_export $here
	storage_connect $here
	storage_round 2 1M
	storage_round 1 4k
	storage_disconnect
	within 20 sh -c '! ls /dev/nvme*n1 2>/dev/null | grep -q .'
	storage_unexport
}

test_async_events() {
	modprobe ib_uverbs
	python3 verbs-async.py "$(stock_ibdev)"
	within 60 stock_carrier
	within 60 stock_active
	within 60 stock_gid_index $here
}

# The last one is a CQ that is full, which rmlx5 counts.
test_events_of_traffic() {
	[ "$VERBS_DRIVER" != rmlx5 ] || overruns=$(counter cq_overrun)
	python3 verbs-traffic-events.py "$(stock_ibdev)" "$(stock_gid_index $here)"
	[ "$VERBS_DRIVER" != rmlx5 ] || counted cq_overrun $overruns
}

# Every counter has a name that says what it counts, and a number.
test_statistics() {
	text=$(rdma statistic show link "$(stock_ibdev)/1")
	for name in rx_write_requests rx_read_requests rx_atomic_requests out_of_buffer out_of_sequence duplicate_request \
		rnr_nak_retry_err packet_seq_err implied_nak_seq_err local_ack_timeout_err resp_local_length_error resp_cqe_error \
		req_cqe_error req_remote_invalid_request req_remote_access_errors resp_remote_access_errors resp_cqe_flush_error \
		req_cqe_flush_error req_transport_retries_exceeded req_rnr_retries_exceeded \
		rp_cnp_ignored rp_cnp_handled np_ecn_marked_roce_packets np_cnp_sent; do
		like "$text" " $name [0-9]+( |\$)" "rdma statistic"
	done
	[ "$VERBS_DRIVER" = rmlx5 ] || return 0
	for name in cq_overrun qp_recovered dma_mapping_error; do
		like "$text" " $name $(cat "/sys/class/infiniband/$(stock_ibdev)/hw_counters/$name")( |\$)" "rdma statistic"
	done
}

# Each counter of the card that one card can move by itself, by a cause that says by how much; the others are in verbs-pair.sh.
test_counters() { python3 verbs-counters.py "$(stock_ibdev)" "$(stock_gid_index $here)"; }

both_send() { [ "$(rdma resource show qp | grep -c "state RTS .*ibv_rc_pingpon")" = 2 ]; }

# "Why does ibv_poll_cq find nothing while the QP sends?": depth of the CQ, what is unread, what is outstanding.
test_resources() {
	endless
	within 60 both_send
	rdma -dd resource show cq >/tmp/cqs
	rdma -dd resource show qp >/tmp/qps
	rdma -dd resource show mr >/tmp/mrs
	rdma resource show pd >/tmp/pds
	stop_endless
	like "$(cat /tmp/cqs)" 'cqe [0-9]+ .*comm .*ibv_rc_pingpon' "CQs"
	like "$(cat /tmp/qps)" 'type RC .*state RTS .*comm .*ibv_rc_pingpon' "QPs"
	like "$(cat /tmp/mrs)" 'mrlen 4096 .*comm .*ibv_rc_pingpon' "MRs"
	like "$(cat /tmp/pds)" 'comm .*ibv_rc_pingpon' "PDs"
	[ "$VERBS_DRIVER" = rmlx5 ] || return 0
	like "$(cat /tmp/cqs)" 'drv_vector [0-9]+ .*drv_produced [0-9]+ .*drv_consumed [0-9]+ .*drv_unread [0-9]+ .*drv_status ok' "details of CQs"
	like "$(cat /tmp/qps)" 'drv_send_blocks 1?[0-9]+ .*drv_receives 512 .*drv_send_blocks_outstanding [0-9]+ .*drv_receives_outstanding [1-9][0-9]*' "details of QPs"
	like "$(cat /tmp/mrs)" 'drv_pages 1 .*drv_page_size 4096' "details of MRs"
	# QP 1 is among them, whose receives are posted and rarely used.
	like "$(sed -n '/type GSI /{n;p}' /tmp/qps)" 'drv_receives_outstanding [1-9]' "details of QP 1"
	for queue in send_blocks receives; do
		sed -n "s/.* drv_$queue \([0-9]*\) .*drv_${queue}_outstanding \([0-9]*\).*/\1 \2/p" /tmp/qps | awk '$2 > $1' >/tmp/beyond
		is "$(cat /tmp/beyond)" "" "$queue that are outstanding beyond the size of the queue"
	done
}

# The RDMA device moves to a name space of the network, with its files, is in use there only, and comes back when that is gone.
test_name_spaces() {
	spaced=$(stock_ibdev) spaced_net=$(stock_netdev)
	rdma system set netns exclusive
	ip netns add blue
	rdma dev set "$spaced" netns blue
	ip link set "$spaced_net" netns blue
	is "$(stock_ibdev)" "" "RDMA devices here"
	# Fills in the variables of its own process.
	cat >/tmp/blue.sh <<-SCRIPT
		cd /job/tests
		VERBS_DRIVER=$VERBS_DRIVER
		. ./ktap.sh; . ./core.subr; . ./stock.subr; . ./wire.subr; . ./verbs.subr
		set -e
		ip link set lo up
		ip link set $spaced_net up
		ip addr replace $here/24 dev $spaced_net
		within 20 stock_active
		within 20 stock_gid_index $here
		[ "\$VERBS_DRIVER" != rmlx5 ] || cat /sys/class/infiniband/$spaced/num_qps /sys/class/infiniband/$spaced/resource/cq_size
		loop ibv_rc_pingpong -n 50 -c
	SCRIPT
	ip netns exec blue sh /tmp/blue.sh
	ip netns del blue
	within 20 here_again
	within 20 rdma system set netns shared
	within 20 test -d "/sys/class/net/$spaced_net"
	verbs_up $here
	loop ibv_rc_pingpong -n 50 -c
}

here_again() { [ "$(stock_ibdev)" = "$spaced" ]; }

# What a control group may have of the device, and no more.
test_control_groups() {
	mkdir -p /tmp/groups
	mount -t cgroup2 none /tmp/groups
	echo +rdma >/tmp/groups/cgroup.subtree_control
	mkdir /tmp/groups/few
	echo "$(stock_ibdev) hca_handle=1 hca_object=3" >/tmp/groups/few/rdma.max
	# A doorbell page, a domain and a key, so no CQ.
	! few ibv_rc_pingpong -d "$(stock_ibdev)" -g "$(stock_gid_index $here)" >/tmp/few 2>&1 || fail "four objects of three"
	like "$(cat /tmp/few)" "Couldn't create CQ" "what the program says"
	like "$(cat /tmp/groups/few/rdma.current)" "^$(stock_ibdev) hca_handle=0 hca_object=0" "in use afterwards"
	echo "$(stock_ibdev) hca_handle=1 hca_object=5" >/tmp/groups/few/rdma.max
	few timeout 60 ibv_rc_pingpong -d "$(stock_ibdev)" -g "$(stock_gid_index $here)" -n 50 >/tmp/few 2>&1 &
	few_pid=$!
	within 20 stock_listening || fail "with a fifth, the QP: $(cat /tmp/few)"
	timeout 60 ibv_rc_pingpong -d "$(stock_ibdev)" -g "$(stock_gid_index $here)" -n 50 127.0.0.1
	wait $few_pid || fail "with five objects: $(cat /tmp/few)"
	rmdir /tmp/groups/few
	umount /tmp/groups
}
few() { sh -c 'echo $$ >/tmp/groups/few/cgroup.procs; exec "$@"' few "$@"; }

# A disk is in use when the card is reset: what waits for a completion gets it, and the disk can be taken away.
test_reset_with_storage() {
	[ "$VERBS_DRIVER" = rmlx5 ] || skip "the stock driver takes its RDMA device away"
	storage_export $here
	storage_connect $here
	(dd if=/dev/zero of="$(storage_disk)" bs=64k count=400 oflag=direct 2>/dev/null || :) &
	writer=$!
	echo 1 >"$DEV/reset"
	expect state up "$(attr state)"
	storage_disconnect
	wait $writer
	within 60 sh -c '! ls /dev/nvme*n1 2>/dev/null | grep -q .'
	storage_unexport
	within 20 stock_active
	within 10 stock_gid_index $here
	# QP 1 is back, and with it the connection manager.
	cm_loop rping -s -a $here -C 20 -V -- rping -c -a $here -C 20 -V
}

# sectors that the disk has written, and whether those are so many.
storage_written() { awk '{ print $7 }' "/sys/block/$(basename "$(storage_disk)")/stat"; }
wrote() { [ "$(storage_written)" -gt "$1" ]; }

# What NVMe has of the core beyond a connection, CQs and a domain, is the RDMA device's and comes back with the card: a disk
# that is in use goes on after a reset by itself, and nothing is lost.
test_storage_goes_on_after_reset() {
	[ "$VERBS_DRIVER" = rmlx5 ] || skip "the stock driver takes its RDMA device away"
	storage_export $here
	storage_connect $here reconnect_delay=1,nr_io_queues=1
	storage_round 1 64k
	before=$(storage_written)
	storage_round 4 16k &
	writer=$!
	within 60 wrote $((before + 1024))
	echo 1 >"$DEV/reset"
	expect state up "$(attr state)"
	wait $writer || fail "the disk in use"
	storage_round 1 64k
	storage_disconnect
	within 60 sh -c '! ls /dev/nvme*n1 2>/dev/null | grep -q .'
	storage_connect $here
	storage_round 1 64k
	storage_disconnect
	within 60 sh -c '! ls /dev/nvme*n1 2>/dev/null | grep -q .'
	storage_unexport
	unlike "$(klog)" 'do(es)? not come back' "kernel log"
}

# A reset ends the programs, not the device: new ones work at once. What was counted is not forgotten, and counted on.
test_reset_under_traffic() {
	[ "$VERBS_DRIVER" = rmlx5 ] || skip "the stock driver takes its RDMA device away"
	python3 verbs-counters.py "$(stock_ibdev)" "$(stock_gid_index $here)" requests
	writes=$(counter rx_write_requests)
	hold_raw
	hold_pages
	watch_device
	# The last one: it takes all the time of the machine.
	endless
	echo 1 >"$DEV/reset"
	expect state up "$(attr state)"
	void_pages
	device_went
	stop_endless
	drop_raw
	within 20 stock_active
	within 10 stock_gid_index $here
	loop ibv_rc_pingpong -n 50 -c -e
	is "$(counter rx_write_requests)" "$writes" "WRITEs counted before the reset"
	python3 verbs-counters.py "$(stock_ibdev)" "$(stock_gid_index $here)" requests
	counted rx_write_requests $((writes + 2))
}

# Nothing is left on the card when the programs are gone.
test_nothing_left() {
	[ "$VERBS_DRIVER" = rmlx5 ] || skip "the stock driver keeps keys for later"
	lent=$(($(kernel_cqs) - $(cat /tmp/kernel_cqs)))
	is "$(rdma resource show cq | grep -c ' pid ' || :)" 0 "CQs of programs"
	is "$(verbs_objects | grep -v '^CQ=')" "$(grep -v '^CQ=' /tmp/objects)" "objects on the card"
	is "$(verbs_objects | sed -n 's/^CQ=//p')" "$(($(sed -n 's/^CQ=//p' /tmp/objects) + lent))" "CQs on the card"
}

# The stock driver asks the card for what some of the refused rules say. A CQ overran on purpose (syndrome 1).
test_no_complaints() { is "$(verbs_complaints | grep -vE 'mlx5_core .*(SET_FLOW_TABLE_ENTRY|CREATE_FLOW_GROUP|CQ error .* syndrome 0x1$)' || :)" "" "kernel log"; }

# The last case: the device goes while programs use it.
test_unbind_under_traffic() {
	hold_raw
	watch_device
	endless
	driver=$(driver)
	echo "$BDF" >"$DEV/driver/unbind"
	device_went
	stop_endless
	drop_raw
	is "$(stock_ibdev)" "" "RDMA devices after unbind"
	echo "$BDF" >"/sys/bus/pci/drivers/$driver/bind"
	verbs_up $here
	loop ibv_rc_pingpong -n 50 -c
	[ "$VERBS_DRIVER" != rmlx5 ] || { unload; unlike "$(dmesg)" 'leak:' "kernel log"; }
}

ktap_main "$@"
