# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The clock of the card as processes map it, and the query of a port by libmlx5's method.

Layouts: struct mlx5_init_seg, struct ib_uverbs_clock_info, struct mlx5_ib_uapi_query_port.
"""
import ctypes
import errno
import struct
import time

import uverbs
from uverbs import PAGE, PRIVATE, R, SHARED, W, X, map_memory, name_of

CLOCK, INFO = 5 * 256 * PAGE, 7 * 256 * PAGE
BILLION = 10**9


def say(name, code):
    print(name, name_of(code))


def map_page(session, offset, length=PAGE, prot=R, flags=SHARED):
    """Errno and address of a mapping."""
    try:
        return 0, map_memory(length, prot, flags, session.fd, offset)
    except OSError as error:
        return error.errno, None


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
        if passed > mask // 2:
            return nsec - ((mask + 1 - passed) * mult - frac >> shift)
        return nsec + (passed * mult + frac >> shift)

    def is_right(self):
        """It runs, at the speed of time (roughly: the machine may be slow), and shows the wall clock's. "" or what is wrong."""
        wall, start, first = time.time_ns(), time.monotonic_ns(), self.nanoseconds(self.cycles())
        time.sleep(0.5)
        second, took = self.nanoseconds(self.cycles()), time.monotonic_ns() - start
        if abs(first - wall) > 60 * BILLION:
            return f"the clock is {(first - wall) / BILLION} s ahead"
        if not took / 2 < second - first < took * 2:
            return f"{second - first} ns have passed, not {took}"
        return ""

    def close(self):
        uverbs.unmap(self.clock, PAGE)
        uverbs.unmap(self.info, PAGE)


def mappings(session):
    """Mappings of both pages."""
    for name, values in [
        ("good", {}), ("two_pages", {"length": 2 * PAGE}), ("private", {"flags": PRIVATE}), ("nothing", {"prot": 0}),
        ("writable", {"prot": R | W}), ("executable", {"prot": R | X}), ("private_writable", {"prot": W, "flags": PRIVATE}),
        ("next", {"add": PAGE}), ("last", {"add": 255 * PAGE}),
    ]:
        for what, offset in ("clock", CLOCK), ("info", INFO):
            code, at = map_page(session, offset + values.get("add", 0), **{key: values[key] for key in values if key != "add"})
            say(f"map_{what}.{name}", code)
            if not code:
                uverbs.unmap(at, values.get("length", PAGE))
    for what, offset in ("clock", CLOCK), ("info", INFO):
        code, at = map_page(session, offset)
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
