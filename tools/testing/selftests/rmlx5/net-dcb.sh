# SPDX-License-Identifier: Apache-2.0 OR MIT
# Data centre bridging as `dcb` of iproute2 sets and shows it, and what it does on the card: two machines, for both drivers.
. ./ktap.sh
. ./core.subr
. ./stock.subr
. ./net.subr

tagged=192.0.3

suite_setup() {
	net_pair
	within 60 ping -c 1 -W 1 $there
}

# show WHAT NAME: one line of `dcb`, without its name.
show() { dcb -s -N "$1" show dev "$(net_dev)" "$2" | sed -n "s/ *\$//; s/^$2 //p"; }

# What the card says of priorities: trust, classes, groups, shares, rates, and frames sent in each class.
card_says() { host card 0 dump | sed -n "s/^priorities: .*$1 \([^ ]*\).*/\1/p"; }

# field N: of a list with commas, from 0.
field() { cut -d, -f$(($1 + 1)); }

passes() { ping -c 1 -W 1 $there; }

# counted HOW MANY, NAME, WHERE (here, there_do): waits until a counter of `ethtool -S` is so far.
counted() { [ "$("$3" "net_stat $2")" -ge "$1" ]; }
here_do() { eval "$*"; }

# marked PRIORITY OPTIONS...: packets of this kind have this priority at both ends, none of them another one.
marked() {
	marked_priority=$1
	shift
	marked_out=$(net_stat "tx_prio${marked_priority}_packets")
	marked_in=$(there_do "net_stat rx_prio${marked_priority}_packets")
	ping -q -c 20 -i 0.01 -W 5 "$@"
	within 20 counted $((marked_out + 20)) "tx_prio${marked_priority}_packets" here_do
	within 20 counted $((marked_in + 20)) "rx_prio${marked_priority}_packets" there_do
}

test_pfc() {
	like "$(dcb pfc show dev "$(net_dev)")" 'pfc-cap 8' "priorities that can pause"
	is "$(show pfc prio-pfc)" "0:off 1:off 2:off 3:off 4:off 5:off 6:off 7:off" "to begin with"
	dcb pfc set dev "$(net_dev)" prio-pfc 3:on 5:on
	is "$(show pfc prio-pfc)" "0:off 1:off 2:off 3:on 4:off 5:on 6:off 7:off" "two priorities"
	like "$(host card 0 dump)" '^vport: .* pfc rx 28 tx 28$' "the card"
	# The link may go down and up for it.
	within 60 passes
}

# Pauses that come are counted by priority, and the kernel does not see them.
test_pfc_pauses() {
	is "$(indications 3) $(indications 5) $(indications 4)" "0 0 0" "before"
	before=$(net_count rx_packets)
	there_do "python3 ./net-pause.py \$(net_dev) 0x08 4; python3 ./net-pause.py \$(net_dev) 0x28 2"
	within 20 indicated 3 6
	is "$(indications 3) $(indications 5) $(indications 4)" "6 2 0" "after"
	is "$(show pfc requests)" "0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0" "pauses sent"
	[ $(($(net_count rx_packets) - before)) -lt 6 ] || fail "the kernel got the pauses"
	dcb pfc set dev "$(net_dev)" prio-pfc all:off
	is "$(show pfc prio-pfc)" "0:off 1:off 2:off 3:off 4:off 5:off 6:off 7:off" "off again"
	within 60 passes
}
indications() {
	# The driver may keep counters for a while; this makes it look.
	ethtool -S "$(net_dev)" >/dev/null
	show pfc indications | tr ' ' '\n' | sed -n "s/^$1://p"
}
indicated() { [ "$(indications "$1")" = "$2" ]; }

test_ets() {
	like "$(dcb ets show dev "$(net_dev)")" 'ets-cap 8' "classes"
	is "$(show ets prio-tc)" "0:1 1:0 2:2 3:3 4:4 5:5 6:6 7:7" "priorities to begin with"
	dcb ets set dev "$(net_dev)" tc-tsa all:strict 0:ets 1:ets 2:ets tc-bw all:0 0:20 1:30 2:50 \
		prio-tc 0:0 1:1 2:2 3:6 4:4 5:5 6:3 7:7
	is "$(show ets tc-tsa)" "0:ets 1:ets 2:ets 3:strict 4:strict 5:strict 6:strict 7:strict" "algorithms"
	is "$(show ets tc-bw)" "0:20 1:30 2:50 3:0 4:0 5:0 6:0 7:0" "shares"
	is "$(show ets prio-tc)" "0:0 1:1 2:2 3:6 4:4 5:5 6:3 7:7" "classes of priorities"
	is "$(card_says groups)" "0,0,0,1,2,3,4,5" "groups on the card"
	is "$(card_says shares)" "20,30,50,100,100,100,100,100" "shares on the card"
	is "$(card_says classes)" "0,1,2,6,4,5,3,7" "classes on the card"
	within 20 passes
}

# A class that shares nothing gets what the others leave.
test_ets_without_a_share() {
	dcb ets set dev "$(net_dev)" tc-tsa all:strict 0:ets 1:ets 2:ets tc-bw all:0 0:0 1:40 2:60
	is "$(show ets tc-bw)" "0:0 1:40 2:60 3:0 4:0 5:0 6:0 7:0" "shares"
	is "$(card_says groups)" "0,1,1,2,3,4,5,6" "groups on the card"
	is "$(card_says shares)" "100,40,60,100,100,100,100,100" "shares on the card"
}

test_ets_refuses() {
	groups=$(card_says groups) shares=$(card_says shares)
	for shares_of in "0:20 1:30 2:49" "0:20 1:30 2:51" "0:0 1:0 2:0"; do
		! dcb ets set dev "$(net_dev)" tc-tsa all:strict 0:ets 1:ets 2:ets tc-bw all:0 $shares_of || fail "shares $shares_of were accepted"
	done
	! dcb ets set dev "$(net_dev)" tc-tsa 0:cbs || fail "a credit based shaper was accepted"
	is "$(card_says groups) $(card_says shares)" "$groups $shares" "the card"
}

# The kernel counts kbit/s where `dcb` counts bytes a second, so 40 Mbit/s here are 5 Gbit/s there.
test_rate_limits() {
	dcb maxrate set dev "$(net_dev)" tc-maxrate all:0 2:40mbit 4:800mbit
	is "$(card_says rates)" "0x0,0x0,50x3,0x0,100x4,0x0,0x0,0x0" "the card"
	is "$(show maxrate tc-maxrate)" "0:0bit 1:0bit 2:40Mbit 3:0bit 4:800Mbit 5:0bit 6:0bit 7:0bit" "rates"
	! dcb maxrate set dev "$(net_dev)" tc-maxrate 2:3gbit || fail "375 Gbit/s were accepted"
	dcb maxrate set dev "$(net_dev)" tc-maxrate all:0
	is "$(card_says rates)" "0x0,0x0,0x0,0x0,0x0,0x0,0x0,0x0" "the card without rates"
}

# Without more the port believes the tag.
test_tags() {
	for side in "here_do $tagged.1" "there_do $tagged.2"; do
		${side% *} "ip link add link \$(net_dev) name tag5 type vlan id 5 egress-qos-map 0:5 1:5 2:5 3:5 4:5 5:5 6:5 7:5; ip addr add ${side#* }/24 dev tag5; ip link set tag5 up"
	done
	is "$(card_says trust)" pcp "trust"
	within 20 ping -c 1 -W 1 $tagged.2
	sent=$(card_says sent | field 5)
	marked 5 $tagged.2
	[ "$(card_says sent | field 5)" -ge $((sent + 20)) ] || fail "class 5 did not see them"
	# A DSCP says nothing.
	marked 0 -Q 0x28 $there
	marked 5 -Q 0x28 $tagged.2
}

# The first entry makes the port believe the DSCP, the last one that goes takes it back.
test_dscp() {
	dcb ets set dev "$(net_dev)" prio-tc 3:6
	for side in here_do there_do; do $side "dcb app add dev \$(net_dev) dscp-prio 10:3"; done
	is "$(show app dscp-prio)" "10:3" "entries"
	is "$(card_says trust)" dscp "trust"
	within 20 passes
	sent=$(card_says sent | field 6)
	marked 3 -Q 0x28 $there
	[ "$(card_says sent | field 6)" -ge $((sent + 20)) ] || fail "class 6 did not see them"
	marked 3 -Q 0x28 2001:db8::2
	# The tag of 5 is not believed any more.
	marked 3 -Q 0x28 $tagged.2
	# The card's own map has the precedence for the rest.
	marked 5 -Q 0xb8 $there
	# A DSCP has one priority: the new one takes the place of the old.
	for side in here_do there_do; do $side "dcb app add dev \$(net_dev) dscp-prio 10:4"; done
	is "$(show app dscp-prio)" "10:4" "entries"
	within 20 passes
	marked 4 -Q 0x28 $there
	! dcb app add dev "$(net_dev)" ethtype-prio 0x88f7:4 || fail "an entry for an EtherType was accepted"
	for side in here_do there_do; do $side "dcb app del dev \$(net_dev) dscp-prio 10:4"; done
	is "$(show app dscp-prio)" "" "entries"
	is "$(card_says trust)" pcp "trust"
	within 20 passes
	marked 0 -Q 0x28 $there
	marked 5 -Q 0x28 $tagged.2
}

# A reset makes the card forget; what a person has set is there again.
test_settings_after_a_reset() {
	[ "$NET_DRIVER" = rmlx5 ] || skip "the stock driver does not see a function reset"
	dcb ets set dev "$(net_dev)" tc-tsa all:strict 0:ets 1:ets tc-bw all:0 0:30 1:70 prio-tc 2:7
	dcb maxrate set dev "$(net_dev)" tc-maxrate 2:40mbit
	dcb pfc set dev "$(net_dev)" prio-pfc 3:on
	dcb app add dev "$(net_dev)" dscp-prio 10:4
	settings >/tmp/settings
	echo 1 >"$DEV/reset"
	within 60 passes
	is "$(settings)" "$(cat /tmp/settings)" "what the card and \`dcb\` say"
	like "$(cat /tmp/settings)" '^trust dscp$' "a setting of them"
	dcb app del dev "$(net_dev)" dscp-prio 10:4
	dcb pfc set dev "$(net_dev)" prio-pfc all:off
	dcb maxrate set dev "$(net_dev)" tc-maxrate all:0
	within 60 passes
}
settings() {
	for name in trust classes groups shares rates; do echo "$name $(card_says $name)"; done
	host card 0 dump | sed -n 's/^vport: .* \(pfc rx .*\)/\1/p'
	show ets prio-tc
	show pfc prio-pfc
	show app dscp-prio
}

test_no_complaints() {
	is "$(net_complaints)" "" "kernel log here"
	is "$(there_do net_complaints)" "" "kernel log there"
}

ktap_main "$@"
