# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Doorbell pages that a process asks for one by one, and contexts and domains that it asks about again.

usage: verbs_pages.py DEVICE            requests with one thing wrong; prints "NAME VERDICT", as verbs_wrong.py does
       verbs_pages.py DEVICE reset      prints "ready", waits for a line, and checks that what it had is void: the card has
                                        been reset meanwhile
"""
import ctypes
import errno
import os
import sys
import time

import uverbs
import verbs_clock
from uverbs import PAGE, R, W, name_of, say
from verbs_memory import gone
from verbs_uar import BLUE_FLAME, BY_PAGE, UNCACHED, ask, end

device = sys.argv[1]
KERNEL = 0xFFFF888000000000


def open_context(name, **values):
    """The verdict on a context with such values, by a file of its own."""
    file = uverbs.File(device)
    code, answer = file.attempt("get_context", **{"registers": 16, "low": 4, "cqe_version": 1, "lib_caps": BY_PAGE, **values})
    say(f"get_context_by_page.{name}", code)
    if not code:
        os.close(answer["async_fd"])
    file.close()


def contexts(session, old):
    open_context("no_registers", registers=0)
    open_context("too_many_registers", registers=514)
    open_context("all_exclusive", low=16)
    open_context("huge", registers=0xFFFFFFFF)
    open_context("unknown_caps", lib_caps=(1 << 64) - 1)
    say("get_context_by_page.has_no_registers", session.context["registers"] and errno.EEXIST)
    # Nothing is rung without a page.
    _, page = ask(session)
    pd, cq = session.pd(), session.cq(cq_flags=2, uar=page["index"])
    say("by_page.create_cq", session.attempt("create_cq", **session.cq_values())[0])
    say("by_page.create_qp", session.attempt("create_qp", **session.qp_values(pd, cq))[0])
    say("by_page.mmap_first", session.map(0)[0])
    # What is said of a context the second time: its length, and how many registers there are.
    room = ctypes.create_string_buffer(256)
    at = ctypes.addressof(room)
    for name, which, length, where in [
        ("good", session, 72, at), ("of_registers", old, 72, at), ("long", session, 128, at), ("short", session, 71, at),
        ("empty", session, 0, at), ("unmapped", session, 72, gone), ("kernel", session, 72, KERNEL),
    ]:
        ctypes.memset(at, 0xFF, 256)
        code = which.ioctl(0, 4, [(0, 4, 1, 0, at + 248), (1, 8, 1, 0, at + 240), (0x1000, length, 1, 0, where)])
        say(f"query_context.{name}", code)
        if not code:
            told = uverbs.COMMANDS["get_context"].private_answer.unpack(room.raw)
            first = which.context
            same = all(told[key] == first[key] for key in told)
            rest = room.raw[length:240] == b"\xff" * (240 - length) and not any(room.raw[72:length])
            say(f"query_context.{name}_is_right", 0 if same and rest else errno.EBADMSG)
    say("query_context.without_room", session.ioctl(0, 4, [(0, 4, 1, 0, at), (1, 8, 1, 0, at)]))
    # The number of a domain.
    code, made = session.attempt("alloc_pd")
    for name, handle, length, where in [
        ("good", made["pd"], 4, at), ("unknown", 0xFFFFFFFF, 4, at), ("cq_as_pd", cq, 4, at), ("short", pd, 2, at), ("long", pd, 8, at),
        ("unmapped", pd, 4, gone), ("kernel", pd, 4, KERNEL),
    ]:
        code = session.ioctl(1, 0x1000, [(0x1000, 0, 1, 0, handle), (0x1001, length, 1, 0, where)])
        say(f"query_pd.{name}", code)
        if not code and length == 4:
            say(f"query_pd.{name}_is_right", 0 if int.from_bytes(room.raw[:4], "little") == made["pdn"] else errno.EBADMSG)
    say("query_pd.nothing", session.ioctl(1, 0x1000, []))
    say("query_pd.of_another_file", old.ioctl(1, 0x1000, [(0x1000, 0, 1, 0, made["pd"]), (0x1001, 4, 1, 0, at)]))
    for what, handle in ("dealloc_pd", {"pd": made["pd"]}), ("destroy_cq", {"cq": cq}), ("dealloc_pd", {"pd": pd}):
        session.call(what, **handle)
    end(session, page)


def asking(session):
    for name, values in [
        ("uncached", {}), ("blue_flame", {"kind": BLUE_FLAME}), ("type_2", {"kind": 2}), ("type_4294967295", {"kind": 0xFFFFFFFF}),
        ("type_huge", {"kind": 1 << 32 | UNCACHED}), ("type_short", {"kind_length": 4}), ("offset_unmapped", {"offset": gone}),
        ("offset_kernel", {"offset": KERNEL}), ("length_unmapped", {"length": gone}), ("index_unmapped", {"index": gone}),
        ("index_short", {"index_length": 2}), ("offset_long", {"offset_length": 16}),
    ]:
        code, page = ask(session, **values)
        say(f"page.{name}", code)
        if not code:
            end(session, page)
    for missing in range(5):
        say(f"page.without_{missing}", ask(session, missing=missing)[0])
    say("end_page.unknown", end(session, {"handle": 0xFFFFFFFF}))
    pd = session.pd()
    say("end_page.pd_as_page", end(session, {"handle": pd}))
    _, page = ask(session)
    say("end_page.page_as_pd", session.attempt("dealloc_pd", pd=page["handle"])[0])
    say("end_page.good", end(session, page))
    say("end_page.twice", end(session, page))
    session.call("dealloc_pd", pd=pd)


def mapping(session, other):
    _, page = ask(session)
    _, foreign = ask(other)
    # Offsets begin anew in each file.
    same = foreign
    if foreign["offset"] == page["offset"]:
        _, foreign = ask(other)
        end(other, same)
    offset = page["offset"]
    for name, values in [
        ("good", {}), ("two_pages", {"length": 2 * PAGE}), ("private", {"flags": uverbs.PRIVATE}), ("executable", {"prot": R | W | uverbs.X}),
        ("readable", {"prot": R}), ("next", {"offset": offset + PAGE}), ("before", {"offset": offset - PAGE}),
        ("foreign", {"offset": foreign["offset"]}), ("not_32_bits", {"offset": offset | 1 << 52}),
    ]:
        code, at = session.map(**{"offset": offset, **values})
        say(f"map_page.{name}", code)
        if not code:
            uverbs.unmap(at, values.get("length", PAGE))
    # What is mapped stays the process's, and a child's, but nobody maps it again. It can be rung: the card says when nobody has
    # the page any more.
    _, at = session.map(offset)
    bell = ctypes.c_uint64.from_address(at + 0x800)
    done = hold_in_child(bell)
    say("map_page.object_goes", end(session, page))
    say("map_page.after_the_object", session.map(offset)[0])
    bell.value = 0
    uverbs.unmap(at, PAGE)
    done()
    say("map_page.after_all", session.map(offset)[0])
    end(other, foreign)


def hold_in_child(bell):
    """A child with all that is mapped now. The result makes it ring, and ends it."""
    go, stop = os.pipe()
    child = os.fork()
    if not child:
        os.close(stop)
        os.read(go, 1)
        bell.value = 0
        os._exit(0)
    os.close(go)

    def done():
        os.close(stop)
        say("map_page.in_a_child", os.waitpid(child, 0)[1])

    return done


def users(session, other):
    pd = session.pd()
    _, page = ask(session)
    _, foreign = ask(other)
    by_page = lambda page: {"cq_flags": 2, "uar": page["index"]}
    rung_by = lambda page: {"flags": 1 << 10, "register": page["index"]}
    code, made = session.attempt("create_cq", **session.cq_values(**by_page(page)))
    say("page_of.cq", code)
    cq = made["cq"]
    code, made = session.attempt("create_qp", **session.qp_values(pd, cq, **rung_by(page)))
    say("page_of.qp", code)
    for what, values in ("cq", session.cq_values(**by_page(foreign))), ("qp", session.qp_values(pd, cq, **rung_by(foreign))):
        code, answer = session.attempt(f"create_{what}", **values)
        say(f"page_of.{what}_foreign", code)
        if not code:
            session.call(f"destroy_{what}", **{what: answer[what]})
    # The card does not take a page back that they have. Nothing is left on it afterwards.
    say("page_of.object_goes", end(session, page))
    say("page_of.qp_goes", session.attempt("destroy_qp", qp=made["qp"])[0])
    say("page_of.cq_goes", session.attempt("destroy_cq", cq=cq)[0])
    code, made = session.attempt("create_cq", **session.cq_values(**by_page(page)))
    say("page_of.cq_after_all", code)
    if not code:
        session.call("destroy_cq", cq=made["cq"])
    end(other, foreign)
    session.call("dealloc_pd", pd=pd)


def reset(session):
    pd = session.pd()
    _, page = ask(session)
    _, at = session.map(page["offset"], prot=R | W)
    word = ctypes.c_uint64.from_address(at + 0x20)
    word.value = 0x0123456789ABCDEF
    if word.value == 0x0123456789ABCDEF:
        sys.exit("a doorbell page keeps what is written")
    clock = verbs_clock.Clock(session)
    then = clock.page()
    print("ready", flush=True)
    sys.stdin.readline()
    # It is memory of nobody then: what is written stays.
    deadline = time.monotonic() + 60
    while word.value != 0x0123456789ABCDEF:
        if time.monotonic() > deadline:
            sys.exit("the page is still the card's")
        word.value = 0x0123456789ABCDEF
        time.sleep(0.1)
    # So has the clock gone, but not the page that tells of it: it tells of the next generation.
    while clock.cycles():
        if time.monotonic() > deadline:
            sys.exit("the clock is still the card's")
    now = clock.page()
    if now[0] <= then[0] or now[1] <= then[1]:
        sys.exit(f"sign and nanoseconds of the clock: {then[:2]}, and then {now[:2]}")
    room = ctypes.create_string_buffer(128)
    where = ctypes.addressof(room)
    for what, code in [
        ("another page", ask(session)[0]),
        ("clock", session.map(verbs_clock.CLOCK, prot=R)[0]),
        ("page of the clock", session.map(verbs_clock.INFO, prot=R)[0]),
        ("port", session.ioctl(0, 0x1000, [(0x1000, 4, 1, 0, 1), (0x1001, 40, 1, 0, where)])),
        ("mapping", session.map(page["offset"])[0]),
        ("context", session.ioctl(0, 4, [(0, 4, 1, 0, where + 100), (1, 8, 1, 0, where + 104), (0x1000, 72, 1, 0, where)])),
        ("domain", session.ioctl(1, 0x1000, [(0x1000, 0, 1, 0, pd), (0x1001, 4, 1, 0, where)])),
    ]:
        if code != errno.EIO:
            sys.exit(f"{what}: {name_of(code)} instead of EIO")
    if end(session, page):
        sys.exit("the page does not go")
    session.close()
    fresh = uverbs.Session(device, lib_caps=BY_PAGE)
    code, page = ask(fresh)
    if code or fresh.map(page["offset"])[0]:
        sys.exit(f"a new context has no page: {name_of(code)}")
    wrong = verbs_clock.Clock(fresh).is_right()
    if wrong:
        sys.exit(f"after the reset: {wrong}")
    fresh.close()


session = uverbs.Session(device, lib_caps=BY_PAGE)
if sys.argv[2:] == ["reset"]:
    reset(session)
else:
    other = uverbs.Session(device, lib_caps=BY_PAGE)
    old = uverbs.Session(device)
    contexts(session, old)
    asking(session)
    mapping(session, other)
    users(session, other)
    verbs_clock.mappings(session)
    verbs_clock.ports(session, device, gone)
    say("pages.pinned_at_the_end", uverbs.pinned())
