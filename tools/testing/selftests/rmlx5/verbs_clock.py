# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The clock of the card as processes map it, and the query of a port by libmlx5's method.

Layouts: struct mlx5_init_seg, struct ib_uverbs_clock_info, struct mlx5_ib_uapi_query_port.
"""
import ctypes
import errno
import struct
import time

import uverbs
from uverbs import PAGE, PRIVATE, R, SHARED, W, X, map_memory, say

CLOCK, INFO = 5 * 256 * PAGE, 7 * 256 * PAGE
BILLION = 10**9


class Clock:
    """The clock and the page that makes nanoseconds of it; OSError without them."""

    def __init__(self, session):
        self.clock = map_memory(PAGE, R, SHARED, session.fd, CLOCK)
        self.info = map_memory(PAGE, R, SHARED, session.fd, INFO)
        self.offset = session.context["core_clock"]

    def word(self, at):
        """A big endian word of the card's page."""
        return int.from_bytes(ctypes.c_uint32.from_address(self.clock + at).value.to_bytes(4, "little"), "big")

    def cycles(self):
        while True:
            high, low, again = (self.word(self.offset + at) for at in (0, 4, 0))
            if high == again:
                return high << 32 | low

    def page(self):
        """sign, nsec, cycles, frac, mult, shift, mask, period of one and the same moment; TimeoutError."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            page = struct.unpack("=I4xQQQIIQQ", ctypes.string_at(self.info, 56))
            if page[0] % 2 == 0 and page[0] == ctypes.c_uint32.from_address(self.info).value:
                return page
        raise TimeoutError("the page is never at rest")

    def nanoseconds(self, cycles):
        _, nsec, then, frac, mult, shift, mask, _ = self.page()
        passed = cycles - then & mask
        # Programs multiply in 64 bits.
        if min(passed, mask + 1 - passed) * mult >= 1 << 64:
            raise OverflowError(f"the page was written last {passed} cycles ago")
        if passed > mask // 2:
            return nsec - ((mask + 1 - passed) * mult - frac >> shift)
        return nsec + (passed * mult + frac >> shift)

    def is_right(self):
        """It runs, at the speed of time, and shows the wall clock's. "" or what is wrong.

        Each reading has the machine's clock on either side of it, so it does not matter how long anything takes. Two clocks
        of a machine that is emulated may differ by something, not by half.
        """
        outer, wall = time.monotonic_ns(), time.time_ns()
        first, inner = self.nanoseconds(self.cycles()), time.monotonic_ns()
        time.sleep(0.5)
        inner = time.monotonic_ns() - inner
        second = self.nanoseconds(self.cycles())
        outer = time.monotonic_ns() - outer
        if abs(first - wall) > 60 * BILLION + outer:
            return f"the clock is {(first - wall) / BILLION} s ahead"
        if not inner / 2 < second - first < outer * 2:
            return f"{second - first} ns have passed, not {inner} to {outer}"
        return ""

    def close(self):
        uverbs.unmap(self.clock, PAGE)
        uverbs.unmap(self.info, PAGE)


def mappings(session):
    """Mappings of both pages."""
    for name, index, length, prot, flags in [
        ("good", 0, PAGE, R, SHARED), ("two_pages", 0, 2 * PAGE, R, SHARED), ("private", 0, PAGE, R, PRIVATE), ("nothing", 0, PAGE, 0, SHARED),
        ("writable", 0, PAGE, R | W, SHARED), ("executable", 0, PAGE, R | X, SHARED), ("private_writable", 0, PAGE, W, PRIVATE),
        ("next", 1, PAGE, R, SHARED), ("last", 255, PAGE, R, SHARED),
    ]:
        for what, offset in ("clock", CLOCK), ("info", INFO):
            code, at = session.map(offset + index * PAGE, length, prot, flags)
            say(f"map_{what}.{name}", code)
            if not code:
                uverbs.unmap(at, length)
    for what, offset in ("clock", CLOCK), ("info", INFO):
        code, at = session.map(offset, prot=R)
        for name, prot in ("writable", R | W), ("executable", R | X):
            result = uverbs.libc.mprotect(ctypes.c_void_p(at), PAGE, prot) if at else -1
            say(f"map_{what}.later_{name}", ctypes.get_errno() if result else 0)
        if at:
            uverbs.unmap(at, PAGE)
    try:
        clock = Clock(session)
        wrong = clock.is_right()
        clock.close()
    except OSError as error:
        wrong = str(error)
    say("clock.is_right" + (f" ({wrong})" if wrong else ""), 0)


def ports(session, device, gone):
    """QUERY_PORT."""
    room = ctypes.create_string_buffer(128)
    at = ctypes.addressof(room)
    for name, length, port, room_for, where in [
        ("1", 4, 1, 40, at), ("0", 4, 0, 40, at), ("2", 4, 2, 40, at), ("256", 4, 256, 40, at), ("4294967295", 4, 0xFFFFFFFF, 40, at),
        ("short", 2, 1, 40, at), ("long", 8, 1, 40, at), ("long_beyond", 8, 1 << 32 | 1, 40, at), ("answer_short", 4, 1, 39, at),
        ("answer_long", 4, 1, 64, at), ("unmapped", 4, 1, 40, gone), ("kernel", 4, 1, 40, 0xFFFF888000000000), ("port_unmapped", 16, gone, 40, at),
    ]:
        ctypes.memset(at, 0xFF, 128)
        code = session.ioctl(0, 0x1000, [(0x1000, length, 1, 0, port), (0x1001, room_for, 1, 0, where)])
        say(f"query_mlx5_port.{name}", code)
        if not code:
            # Nothing is said of a port behind which there is no switch of the host's.
            right = room.raw == bytes(room_for) + b"\xff" * (128 - room_for)
            say(f"query_mlx5_port.{name}_is_right", 0 if right else errno.EBADMSG)
    say("query_mlx5_port.without_port", session.ioctl(0, 0x1000, [(0x1001, 40, 1, 0, at)]))
    say("query_mlx5_port.without_room", session.ioctl(0, 0x1000, [(0x1000, 4, 1, 0, 1)]))
    say("query_mlx5_port.nothing", session.ioctl(0, 0x1000, []))
    say("query_mlx5_port.unknown", session.ioctl(0, 0x1000, [(0x1000, 4, 1, 0, 1), (0x1001, 40, 1, 0, at), (0x1002, 4, 1, 0, 1)]))
    before = uverbs.File(device)
    say("query_mlx5_port.before_context", before.ioctl(0, 0x1000, [(0x1000, 4, 1, 0, 1), (0x1001, 40, 1, 0, at)]))
    before.close()
