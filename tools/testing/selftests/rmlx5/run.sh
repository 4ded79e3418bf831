# SPDX-License-Identifier: Apache-2.0 OR MIT
# What `make run` shows: the driver on a card, from insmod to rmmod. Words for a person, exit code for a program.
. ./ktap.sh

module=${RMLX5_KO:-/job/files/rmlx5.ko}
KTAP_CASE=run
bad=0

say() { printf '%s\n' "$*"; }
row() { printf '  %-30s %s\n' "$1" "$2"; }
trouble() {
	bad=1
	say "  TROUBLE: $*"
}

bdf=$(lspci -Dn -d 15b3: | awk 'NR == 1 { print $1 }')
[ -n "$bdf" ] || { say "there is no card of vendor 15b3"; exit 1; }
dev=/sys/bus/pci/devices/$bdf
dbg=/sys/kernel/debug/rmlx5/$bdf

is_state() { [ "$(cat "$dev/rmlx5/state" 2>/dev/null)" = "$1" ]; }
is_done() { grep -q '^state: done' "$dbg/selftest"; }
field() { sed -n "s/.*[ :]$1=\([^ ]*\).*/\1/p"; }
total() { grep '^total:' "$dbg/selftest" | field "$1"; }

# selftest OPTIONS: runs it to the end, shows a row a channel.
selftest() {
	echo "$*" >"$dbg/selftest" || { trouble "the self-test does not start"; return 1; }
	within 120 is_done >/dev/null || { trouble "the self-test does not end"; return 1; }
	grep '^channel ' "$dbg/selftest" | while read -r line; do
		get() { printf '%s\n' "$line" | field "$1"; }
		row "channel $(printf '%s\n' "$line" | cut -d' ' -f2), vector $(get vector)" \
			"$(get ops) operations, $(get bytes) bytes, $(get verified) verified, $(get faults) wrong; $(get median) us median, $(get completions_per_interrupt) completions/interrupt"
	done
	row "all channels" "$(total bytes) bytes moved, $(total verified) verified, $(total faults) wrong"
	grep -q '^result: pass' "$dbg/selftest" || trouble "the self-test says: $(grep '^result' "$dbg/selftest")"
}

say "kernel $(uname -r), $(nproc) CPUs"
say "card $(lspci -s "$bdf" -nn | cut -d' ' -f2-)"
say ""
say "insmod rmlx5.ko"
modprobe -a ib_core ib_uverbs
begin=$(now_ms)
insmod "$module" || { dmesg | tail -n 15; exit 1; }
within 60 is_state up || { trouble "state is $(cat "$dev/rmlx5/state" 2>&1)"; dmesg | tail -n 25; exit 1; }
row "up after" "$(($(now_ms) - begin)) ms (guest time)"
row "link" "$(cat "$dev/rmlx5/link")"
row "payload (MPS)" "$(cat "$dev/rmlx5/mps") bytes"
row "read request (MRRS)" "$(cat "$dev/rmlx5/mrrs") bytes"
row "health" "$(cat "$dev/rmlx5/health")"
for entry in $(sed -n 's/^ *\([0-9]*\):.* \(rmlx5-[^ ]*\)$/\1=\2/p' /proc/interrupts); do
	row "${entry#*=}" "interrupt ${entry%%=*}, CPU $(cat "/proc/irq/${entry%%=*}/effective_affinity_list" 2>/dev/null)"
done
ib=$(ls "$dev/infiniband" 2>/dev/null | head -n 1)
[ -z "$ib" ] || row "RDMA device" "$ib: $(rdma link show "$ib/1" 2>/dev/null | sed 's/^link [^ ]* //') (expected: it has no GIDs yet)"

say ""
say "RDMA traffic in loopback: WRITE, READ, SEND, SEND with immediate, FETCH_ADD"
say "  (bytes: what a channel's own operations moved; verified: what it compared, that is what it read back and what it"
say "  received from the other end)"
selftest "rounds=16"

say ""
say "QP recovery: each end of each connection broken once by a bad key"
before=$(total recovered)
selftest "rounds=8 sizes=64,4096 breaks=1"
recovered=$(($(total recovered) - ${before:-0}))
row "recovered" "$recovered times, slowest $(grep -o 'recovery_us last=[0-9]* max=[0-9]*' "$dbg/channels" | sed 's/.*max=//' | sort -n | tail -n 1) us"
[ "$recovered" -gt 0 ] || trouble "no QP recovered"

say ""
say "AER: a fatal PCIe error at the root port, then traffic again"
resets=$(cat "$dev/rmlx5/resets")
came_back() { [ "$(cat "$dev/rmlx5/resets")" -gt "$resets" ] && is_state up; }
begin=$(now_ms)
if host hmp pcie_aer_inject_error rp0 DLP >/dev/null && within 60 came_back; then
	row "up again after" "$(($(now_ms) - begin)) ms (guest time)"
	row "callbacks" "$(awk '/^callback\..*max_us/ && $2 > 0 { printf "%s %s us  ", substr($1, 10), $2 }' "$dbg/stats" | sed 's/\.max_us//g')"
	selftest "rounds=8"
else
	trouble "the card did not come back: state $(cat "$dev/rmlx5/state")"
	dmesg | tail -n 25
fi

say ""
say "rmmod rmlx5"
rmmod rmlx5 || trouble "rmmod failed"
left=$(dmesg | grep -E 'rmlx5.*(left|leak)')
[ -z "$left" ] || trouble "$left"
# The card's own view: every page that was lent to it is back, no object lives on.
if census=$(host card 0 census 2>/dev/null); then
	pages=$(printf '%s\n' "$census" | tr -d ' ",' | sed -n 's/^pages_given://p')
	row "firmware pages not back" "$pages"
	[ "$pages" = 0 ] || trouble "the card keeps $pages pages"
fi
[ $bad = 0 ] && say "" && say "all well"
exit $bad
