# SPDX-License-Identifier: Apache-2.0 OR MIT
# Helpers of the test scripts; source it first, call ktap_main last:
#
#	. ./ktap.sh
#	suite_setup() { ...; }          # optional, once before the first case
#	suite_teardown() { ...; }       # optional, once after the last one
#	suite_state() { ...; }          # optional, after a case that failed: shows what there is to see
#	test_NAME() { ...; }            # a case; "test_NAME()" begins a line
#	ktap_main "$@"
#
# A case runs in a process of its own with `set -e`: the first command that fails, fails it. Its output becomes comments.
# KTAP_CASES selects cases, KTAP_TIMEOUT is the limit for one (seconds, 60). The same scripts run on a real test host
# as root: there is no host channel then (cases that need it are skipped) and PEER=NAME reaches the peer by ssh.

KSFT_SKIP=4

# note WORDS...: a remark in the output of the case.
note() { echo "$*"; }

# fail WORDS...: ends the case.
fail() {
	echo "$*"
	exit 1
}

# skip WORDS...: ends the case; says what is missing.
skip() {
	echo "SKIP: $*"
	exit $KSFT_SKIP
}

# is VALUE EXPECTED WHAT
is() { [ "$1" = "$2" ] || fail "$3 is '$1', expected '$2'"; }

# like TEXT REGEX WHAT: extended regular expression, one line suffices.
like() { printf '%s\n' "$1" | grep -Eq -- "$2" || fail "$3: nothing matches '$2' in: $1"; }

# unlike TEXT REGEX WHAT
unlike() { ! printf '%s\n' "$1" | grep -Eq -- "$2" || fail "$3: something matches '$2' in: $1"; }

# line_of FILE: its first line is $ktap_line, empty when it cannot be read. A process costs a guest under TCG some 20 ms, and
# much here asks often: what a shell can do by itself, it does.
line_of() {
	ktap_line=
	{ read -r ktap_line <"$1"; } 2>/dev/null || :
}

# first_of DIRECTORY: the name of the first thing in it, nothing when there is none.
first_of() {
	for ktap_first in "$1"/*; do
		[ ! -e "$ktap_first" ] || echo "${ktap_first##*/}"
		return 0
	done
}

# ktap_uptime: $ktap_now is guest time in whole seconds since boot, $ktap_hundredths the rest.
ktap_uptime() {
	line_of /proc/uptime
	ktap_now=${ktap_line%%.*}
	ktap_hundredths=${ktap_line#*.}
	ktap_hundredths=${ktap_hundredths%% *}
}

# within SECONDS COMMAND...: repeats it until it succeeds.
within() {
	within_limit=$1
	shift
	ktap_uptime
	within_end=$((ktap_now + within_limit))
	until "$@"; do
		ktap_uptime
		[ "$ktap_now" -lt "$within_end" ] || { echo "not within $within_limit s: $*"; return 1; }
		sleep 0.1
	done
}

# now_ms: guest time in milliseconds since boot.
now_ms() {
	ktap_uptime
	# 08 would be octal.
	echo $((ktap_now * 1000 + (1$ktap_hundredths - 100) * 10))
}

# klog: kernel messages since the case began.
klog() { dmesg | sed "1,/rmlx5-test: begin $KTAP_CASE\$/d"; }

ktap_port=/dev/virtio-ports/rmlx5.host

# host REQUEST...: asks the test bench (tools/vm/src/service.rs): hmp, qmp, card, guest. Prints the answer.
host() {
	[ -e $ktap_port ] || skip "no test bench to ask: $*"
	ktap_ask "$@"
}

# peer COMMAND...: runs a shell command on the other machine; its output and exit code are ours.
peer() {
	if [ -n "${PEER:-}" ]; then
		ssh -o BatchMode=yes "$PEER" "$*"
	elif [ -n "${KTAP_PEER:-}" ]; then
		ktap_ask peer "$@"
	else
		skip "no peer"
	fi
}

# One request at a time: the port has one reader. What somebody who was killed has not read comes before our tag.
ktap_ask() (
	exec 7>/run/rmlx5-host.lock
	flock 7
	exec 8<>$ktap_port
	IFS= read -r tag </proc/sys/kernel/random/uuid
	printf '@%s %s\n' "$tag" "$*" >&8
	while IFS= read -r line <&8; do
		[ "$line" != "@$tag" ] || break
	done
	while IFS= read -r line <&8; do
		case $line in
		" "*) printf '%s\n' "${line# }" ;;
		ok) exit 0 ;;
		"exit "*) exit "${line#exit }" ;;
		*)
			echo "host: $* -> $line" >&2
			exit 1
			;;
		esac
	done
	echo "host: no answer to: $*" >&2
	exit 1
)

ktap_has() { command -v "$1" >/dev/null 2>&1; }

ktap_mark() { [ ! -w /dev/kmsg ] || echo "rmlx5-test: $*" >/dev/kmsg; }

ktap_main() {
	if [ "${1:-}" = --case ]; then
		KTAP_CASE=$2
		set -e
		"test_$2"
		exit 0
	fi
	ktap_cases=$(sed -n 's/^test_\([a-zA-Z0-9_]*\)().*/\1/p' "$0")
	# Nothing named runs everything; the order is the script's.
	ktap_run=
	for ktap_case in $ktap_cases; do
		case " ${KTAP_CASES:-$ktap_case} " in *" $ktap_case "*) ktap_run="$ktap_run $ktap_case" ;; esac
	done
	set -- $ktap_run
	echo "KTAP version 1"
	echo "1..$#"
	ktap_out=$(mktemp)
	ktap_number=0 ktap_failed=0 ktap_ready=1
	if ktap_has suite_setup; then
		(set -e; suite_setup) >"$ktap_out" 2>&1 </dev/null
		[ $? = 0 ] || ktap_ready=
		sed 's/^/# /' "$ktap_out"
	fi
	for ktap_case; do
		ktap_number=$((ktap_number + 1))
		echo "# begin $ktap_case"
		ktap_mark "begin $ktap_case"
		if [ -n "$ktap_ready" ]; then
			timeout -k 5 "${KTAP_TIMEOUT:-60}" sh "$0" --case "$ktap_case" >"$ktap_out" 2>&1 </dev/null
			ktap_code=$?
		else
			echo "suite_setup failed" >"$ktap_out"
			ktap_code=1
		fi
		ktap_mark "end $ktap_case"
		[ ! -s "$ktap_out" ] || sed 's/^/# /' "$ktap_out"
		case $ktap_code in
		0) echo "ok $ktap_number $ktap_case" ;;
		$KSFT_SKIP) echo "ok $ktap_number $ktap_case # SKIP $(sed -n 's/^SKIP: //p' "$ktap_out" | tail -1)" ;;
		*)
			ktap_failed=1
			case $ktap_code in 124 | 137) echo "# timeout after ${KTAP_TIMEOUT:-60} s" ;; esac
			! ktap_has suite_state || (suite_state) </dev/null 2>&1 | sed 's/^/# state: /'
			echo "not ok $ktap_number $ktap_case"
			;;
		esac
	done
	! ktap_has suite_teardown || (suite_teardown) >"$ktap_out" 2>&1 </dev/null || sed 's/^/# teardown: /' "$ktap_out"
	rm -f "$ktap_out"
	[ $# -gt 0 ] && [ $ktap_failed = 0 ]
}
