# SPDX-License-Identifier: Apache-2.0 OR MIT
# Programs that are no driver of Linux on the card: iPXE in the other machine brings its card up before any kernel and
# fetches a file from here (boot.ipxe says what it does); mstflint reads the card of this one.
. ./ktap.sh
. ./stock.subr

here=192.0.2.1
size=300000

suite_setup() {
	stock_up $here
	mkdir -p /tmp/www
	head -c $size /dev/urandom >/tmp/www/payload
	(cd /tmp/www && exec python3 -m http.server 80 >/tmp/http 2>&1) &
}

boot_console() { host guest 1 console; }
boot_says() { boot_console | grep -Eq "$1"; }

test_ipxe_opens_the_card() {
	within 100 boot_says 'boot: (done|failed)' || fail "iPXE says: $(boot_console | tail -40)"
	text=$(boot_console)
	unlike "$text" 'boot: failed' "iPXE"
	like "$text" 'net0: 02:00:00:00:01:01 using .* on .*\[open\]' "the card as iPXE shows it"
	like "$text" 'Link:up' "link"
}

test_ipxe_fetched_a_file() {
	like "$(boot_console)" "payload : $size bytes" "the file there"
	like "$(cat /tmp/http)" 'GET /payload.* 200' "the server here"
}

test_ipxe_moved_it_through_the_card() {
	text=$(host guest 1 card 0 counters)
	number() { printf '%s\n' "$text" | sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}\$/\1/p" | head -1; }
	[ "$(number bytes_received)" -gt $size ] || fail "the card received $(number bytes_received) bytes"
	[ "$(number frames_sent)" -gt 20 ] || fail "the card sent $(number frames_sent) frames"
	# No command was used: this is the interface that boot programs have.
	is "$(number command_doorbells)" 0 "commands"
}

test_ipxe_closed_the_card() {
	like "$(boot_console)" 'net0: .*\[closed\]' "the card as iPXE shows it"
}

ktap_main "$@"
