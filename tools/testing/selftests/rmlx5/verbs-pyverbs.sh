# SPDX-License-Identifier: Apache-2.0 OR MIT
# rdma-core's own tests, and card_clock in their manner, one process a module. The verdict of each test is that of pyverbs-stock.table; on rmlx5 a line of
# pyverbs-rmlx5.table, which gives a reason, takes its place.
. ./ktap.sh
. ./core.subr
. ./stock.subr
. ./wire.subr
. ./verbs.subr

requests=/run/verbs.requests
answers=/run/verbs.answers

suite_setup() {
	core_setup
	verbs_up $here
	modprobe rdma_ucm
	ip addr replace 2001:db8::1/64 dev "$(stock_netdev)" nodad
	# The raw packets of the tests go to this group; the card hears groups that the port has joined.
	ip maddr add 01:50:56:19:20:a7 dev "$(stock_netdev)"
	# Two tests want pages of 2 MiB.
	echo 8 >/proc/sys/vm/nr_hugepages
	mkfifo $requests $answers
	python3 verbs_module.py /usr/share/pyverbs-tests "$(stock_ibdev)" $requests $answers >/tmp/server 2>&1 &
}

# module NAME [CLASS.test ...]: runs tests.test_NAME, or those tests of it, and compares.
module() {
	module_name=$1
	shift
	rm -f /tmp/now /tmp/said
	limit=${KTAP_TIMEOUT:-200}
	# The first request waits for the server, too.
	timeout $limit sh -c "echo $module_name $((limit - 100)) /tmp/now /tmp/said $* >$requests; cat $answers" >/tmp/code || fail "no answer: $(cat /tmp/server)"
	code=$(cat /tmp/code)
	[ -s /tmp/now ] || fail "no test ran (exit code $code): $(cat /tmp/said)"
	cat /tmp/now >>/job/out/pyverbs.table
	note "$(cut -f3 /tmp/now | sort | uniq -c | tr '\n' ' ')"
	cut -f1-3 /tmp/now | sort >/tmp/have
	case $VERBS_DRIVER in
	rmlx5) tables="pyverbs-rmlx5.table pyverbs-stock.table" ;;
	*) tables=pyverbs-stock.table ;;
	esac
	# shellcheck disable=SC2086
	cat $tables | grep -v '^#' | awk -F'\t' -v module="$module_name" -v OFS='\t' \
		'$1 == module && !seen[$2]++ { print $1, $2, $3 }' | sort >/tmp/want
	if ! cmp -s /tmp/have /tmp/want || [ "$code" != 0 ]; then
		cat /tmp/said
		diff /tmp/want /tmp/have || :
		fail "the verdicts of test_$module_name are not those of the tables (exit code $code)"
	fi
}

test_addr() { module addr; }
test_atomic() { module atomic; }
test_card_clock() { module card_clock; }
test_cq() { module cq; }
test_cq_events() { module cq_events; }
test_cqex() { module cqex; }
test_device() { module device; }
test_flow() { module flow; }
test_fork() { module fork; }
test_mr() { module mr; }
test_mlx5_cq() { module mlx5_cq; }
# Of its forty tests these two apply; the others want DEVX or tables that the card does not have, and skip.
test_mlx5_dr() { module mlx5_dr Mlx5DrDumpTest.test_domain_dump Mlx5DrTest.test_root_tbl_qp_rule; }
test_mlx5_flow() { module mlx5_flow; }
test_mlx5_huge_page() { module mlx5_huge_page; }
test_mlx5_query_port() { module mlx5_query_port; }
test_mlx5_raw_wqe() { module mlx5_raw_wqe; }
test_mlx5_timestamp() { module mlx5_timestamp; }
test_odp() { module odp; }
test_parent_domain() { module parent_domain; }
test_pd() { module pd; }
test_qp() { module qp; }
test_qpex() { module qpex; }
test_rdmacm() {
	modprobe rdma_ucm
	module rdmacm
}
test_relaxed_ordering() { module relaxed_ordering; }
test_rss_traffic() { module rss_traffic; }
test_shared_pd() { module shared_pd; }
test_srq() { module srq; }
test_tag_matching() { module tag_matching; }

# One test asks for a CQ that is too small for what is in it; the card refuses that, and the driver says so.
test_no_complaints() {
	case $VERBS_DRIVER in
	rmlx5) said=$(verbs_complaints | grep -v 'MODIFY_CQ .*more CQEs than the new CQ holds' || :) ;;
	*) said=$(dmesg | grep -E 'WARNING|BUG|Call Trace|cqe dump' || :) ;;
	esac
	is "$said" "" "kernel log"
}

ktap_main "$@"
