# SPDX-License-Identifier: GPL-2.0
# Shared by the scripts of this directory; source it, do not run it.
#
# Sets: top (the source tree), cache (outside the tree, shared by clones).

# The kernel series; the release within it is whatever the archive offers.
series=${RMLX5_SERIES:-7.3}
suite=trixie
mirror=${MIRROR:-http://deb.debian.org/debian}

# chroot, mount and friends: Debian keeps sbin out of an ordinary user's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${RMLX5_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rmlx5}

# Progress: one short line, with the seconds since make started the first script.
: "${RMLX5_T0:=$(date +%s)}"
export RMLX5_T0
say() { printf '[%3ds] %s\n' $(($(date +%s) - RMLX5_T0)) "$*" >&2; }

# The end of every failure: one sentence that says what to do.
die() {
	printf '\nrmlx5: %s\n' "$*" >&2
	exit 1
}

# explain LOG WHAT: the last lines of LOG and the sentence that fits what went wrong.
explain() {
	printf -- '---- last lines of %s\n' "$1" >&2
	tail -n "${EXPLAIN_LINES:-12}" "$1" >&2 || true
	printf -- '----\n' >&2
	if grep -q 'No space left on device\|not enough free space\|Disk quota exceeded' "$1"; then
		die "$2: the disk is full; free some space in $cache (or set XDG_CACHE_HOME to a larger disk) and repeat the command."
	elif grep -qi 'could not resolve\|temporary failure resolving\|could not connect\|connection timed out\|connection refused\|network is unreachable\|failed to fetch\|could not handshake\|proxy authentication\|certificate verif\|unable to connect\|spurious network error\|failed to download\|invalid response from proxy\|failed to download' "$1"; then
		die "$2: the network did not answer; check that $mirror and https://crates.io can be reached (http_proxy, https_proxy and the host's CA bundle are passed on) and repeat the command."
	fi
	die "$2: failed; the whole log is $1 (repeat the command after fixing the cause, or remove $cache to start afresh)."
}

# need_space DIR MEGABYTES WHAT
need_space() {
	local free
	free=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
	[ "$free" -ge "$2" ] || die "$3 needs $2 MB but $1 has $free MB free; free some space or set XDG_CACHE_HOME to a larger disk, and repeat the command."
}

# lock NAME: one builder at a time, also among clones; held until the script ends.
lock() {
	mkdir -p "$cache" 2>/dev/null || die "cannot create $cache; make it writable or set XDG_CACHE_HOME to a directory that is."
	exec {lock_fd}>"$cache/$1.lock" || die "cannot write $cache; make it writable or set XDG_CACHE_HOME to a directory that is."
	if ! flock -n "$lock_fd"; then
		say "waiting: another make is building the $1 in $cache"
		flock "$lock_fd"
	fi
}

# discard DIR: removes a directory that may hold files of mapped users.
discard() {
	[ -e "$1" ] || return 0
	if [ "$(id -u)" = 0 ]; then
		rm -rf --one-file-system "$1"
	else
		unshare -r --map-auto rm -rf --one-file-system "$1"
	fi
}

# fingerprint DIR SUBDIR...: changes when a file is lost, added, cut or resized.
fingerprint() (
	cd "$1" && shift
	find "$@" -xdev -type f -printf '%p %s\n' 2>/dev/null | LC_ALL=C sort | sha256sum | cut -c1-16
)
