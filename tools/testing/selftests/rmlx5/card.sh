# SPDX-License-Identifier: Apache-2.0 OR MIT
# The emulated card as the PCI core sees it, without any driver.
. ./ktap.sh

test_lspci() {
	text=$(lspci -nnvvv -d 15b3:)
	note "$text"
	like "$text" '15b3:101d' "ids"
	like "$text" 'MSI-X: .*Count=64' "vectors"
	like "$text" 'Advanced Error Reporting' "AER"
	like "$text" 'FLReset\+' "function level reset"
}

test_config_space_answers() {
	device=$(lspci -Dn -d 15b3: | cut -d' ' -f1)
	is "$(setpci -s "$device" 0.w)" 15b3 "vendor"
	setpci -s "$device" COMMAND=0000
	is "$(setpci -s "$device" COMMAND)" 0000 "command register"
}

test_bench_reaches_the_card() {
	host card 0 help >/dev/null
	like "$(host hmp info pci)" '15b3:101d' "QEMU's view"
}

ktap_main "$@"
