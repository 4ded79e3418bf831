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

# booted: iPXE is through its script.
booted() { within 100 boot_says 'boot: (done|failed)' || fail "iPXE says: $(boot_console | tail -40)"; }

# Tools read the card through configuration space; the driver is bound meanwhile and notices nothing.
test_mstflint_reads_the_card() {
	text=$(mstflint -d "$(stock_pci)" query full 2>&1) || fail "mstflint: $text"
	note "$text"
	like "$text" '^FW Version: +22\.36\.1010$' "firmware"
	like "$text" '^PSID: +MT_0000000359$' "board"
	like "$(mstdevices_info)" 'ConnectX6DX\(rev:0\) +0000:01:00\.0' "mstdevices_info"
	is "$(mstmcra "$(stock_pci)" 0xf0014)" 0x00000212 "register of the chip"
	like "$(mstvpd "$(stock_pci)")" 'SN: +CX020000000001' "mstvpd"
}

# mstreg has a table of the fields of each register; the values are those of other interfaces.
test_mstreg_decodes_a_register() {
	text=$(mstreg -d "$(stock_pci)" --reg_name MGIR --get 2>&1) || fail "mstreg: $text"
	for field in 'device_id +\| 0x0000101d' 'hw_dev_id +\| 0x00000212' 'extended_major +\| 0x00000016' 'extended_minor +\| 0x00000024' \
		'extended_sub_minor +\| 0x000003f2' 'manufacturing_base_mac_31_0 +\| 0x00000001' 'psid\[12\] +\| 0x00000039'; do
		like "$text" "^$field" "MGIR"
	done
}

# An image can neither be read back nor replaced, and who tries is told.
test_mstflint_cannot_change_the_card() {
	! text=$(mstflint -d "$(stock_pci)" ri /tmp/image 2>&1) || fail "an image was read: $text"
	note "$text"
	! text=$(mstconfig -d "$(stock_pci)" query 2>&1) || fail "settings were read: $text"
	like "$text" 'not supported' "mstconfig"
	unlike "$(klog)" 'mlx5.*(error|fail|health)' "the driver meanwhile"
}

test_ipxe_opens_the_card() {
	booted
	text=$(boot_console)
	unlike "$text" 'boot: failed' "iPXE"
	like "$text" 'net0: 02:00:00:00:01:01 using .* on .*\[open\]' "the card as iPXE shows it"
	like "$text" 'Link:up' "link"
}

test_ipxe_fetched_a_file() {
	booted
	like "$(boot_console)" "payload : $size bytes" "the file there"
	like "$(cat /tmp/http)" 'GET /payload.* 200' "the server here"
}

test_ipxe_moved_it_through_the_card() {
	booted
	text=$(host guest 1 card 0 counters)
	number() { printf '%s\n' "$text" | sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}\$/\1/p" | head -1; }
	[ "$(number bytes_received)" -gt $size ] || fail "the card received $(number bytes_received) bytes"
	[ "$(number frames_sent)" -gt 20 ] || fail "the card sent $(number frames_sent) frames"
	# No command was used: this is the interface that boot programs have.
	is "$(number command_doorbells)" 0 "commands"
}

test_ipxe_closed_the_card() {
	booted
	like "$(boot_console)" 'net0: .*\[closed\]' "the card as iPXE shows it"
}

ktap_main "$@"
