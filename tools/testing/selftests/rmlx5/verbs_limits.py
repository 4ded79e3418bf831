# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The limits of an RDMA device.

usage: verbs_limits.py library DEVICE    through libibverbs at n-1, n and n+1; prints "NAME VERDICT", one a line
       verbs_limits.py kernel DEVICE ADDRESS    by hand (ADDRESS is that of the port): errno, and the line in the kernel log that names value and limit
       verbs_limits.py once DEVICE    makes what lets the driver make something of its own
       verbs_limits.py objects DEVICE    as many of each kind as there are, for a card with few; "held" is printed when all
                                         are taken at once, and they go when standard input ends
"""
import ctypes
import errno
import os
import re
import sys
import time

import uverbs
import verbs_uar
from uverbs import PAGE, map_memory, name_of

mode, device = sys.argv[1:3]
RC, UC, UD = 2, 3, 4
KINDS = {"rc": RC, "uc": UC, "ud": UD}
# Of the profile `small`.
XRCDS = 8


class Caps(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("send_wr", "recv_wr", "send_sge", "recv_sge", "inline")]


class QpInit(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("send_cq", ctypes.c_void_p), ("recv_cq", ctypes.c_void_p), ("srq", ctypes.c_void_p),
                ("cap", Caps), ("kind", ctypes.c_int), ("sig_all", ctypes.c_int)]


class SrqInit(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("max_wr", ctypes.c_uint32), ("max_sge", ctypes.c_uint32), ("limit", ctypes.c_uint32)]


class Library:
    """libibverbs on the device."""

    def __init__(self, name):
        self.lib = ctypes.CDLL("libibverbs.so.1", use_errno=True)
        for function in ("get_device_list", "open_device", "alloc_pd", "create_cq", "create_qp", "create_srq"):
            getattr(self.lib, f"ibv_{function}").restype = ctypes.c_void_p
        self.lib.ibv_get_device_name.restype = ctypes.c_char_p
        devices = ctypes.cast(self.lib.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
        index = 0
        while self.lib.ibv_get_device_name(ctypes.c_void_p(devices[index])) != name.encode():
            index += 1
        self.context = ctypes.c_void_p(self.lib.ibv_open_device(ctypes.c_void_p(devices[index])))
        self.pd = ctypes.c_void_p(self.lib.ibv_alloc_pd(self.context))
        self.cq = ctypes.c_void_p(self.lib.ibv_create_cq(self.context, 16, None, None, 0))

    def verdict(self, what, *arguments):
        """Makes an object and destroys it: errno."""
        ctypes.set_errno(0)
        made = getattr(self.lib, f"ibv_create_{what}")(*arguments)
        if not made:
            return ctypes.get_errno() or -1
        return getattr(self.lib, f"ibv_destroy_{what}")(ctypes.c_void_p(made))

    def qp(self, kind, **values):
        caps = Caps(**{"send_wr": 1, "recv_wr": 1, "send_sge": 1, "recv_sge": 1, **values})
        init = QpInit(None, self.cq, self.cq, None, caps, kind, 0)
        return self.verdict("qp", self.pd, ctypes.byref(init))

    def srq(self, max_wr=1, max_sge=1):
        return self.verdict("srq", self.pd, ctypes.byref(SrqInit(None, max_wr, max_sge, 0)))


def around(name, limit, attempt):
    for step in -1, 0, 1:
        print(f"{name}{step:+d}", name_of(attempt(limit + step)), flush=True)


def library():
    file = uverbs.Session(device)
    limits = file.call("query_device")
    file.close()
    for name in ("max_qp_wr", "max_sge", "max_cqe", "max_srq_wr", "max_srq_sge"):
        print(name, limits[name])
    lib = Library(device)
    for kind, number in KINDS.items():
        around(f"{kind}.send_wr", limits["max_qp_wr"], lambda n: lib.qp(number, send_wr=n))
        around(f"{kind}.recv_wr", limits["max_qp_wr"], lambda n: lib.qp(number, recv_wr=n))
        around(f"{kind}.send_sge", limits["max_sge"], lambda n: lib.qp(number, send_sge=n))
        around(f"{kind}.recv_sge", limits["max_sge"], lambda n: lib.qp(number, recv_sge=n))
        fits, not_any_more = 0, 1 << 11
        while fits + 1 < not_any_more:
            middle = (fits + not_any_more) // 2
            if lib.qp(number, inline=middle):
                not_any_more = middle
            else:
                fits = middle
        print(f"{kind}.inline", fits)
        around(f"{kind}.inline", fits, lambda n: lib.qp(number, inline=n))
    # By hand: the library writes to each of the four million entries.
    file = uverbs.Session(device)
    queue = uverbs.map_again_and_again((limits["max_cqe"] + 1) * 64)

    def cqe(entries):
        code, answer = file.attempt("create_cq", **file.cq_values(cqe=entries, buf=queue))
        return code or file.attempt("destroy_cq", cq=answer["cq"])[0]

    around("cqe", limits["max_cqe"], cqe)
    file.close()
    around("srq.max_wr", limits["max_srq_wr"], lambda n: lib.srq(max_wr=n))
    around("srq.max_sge", limits["max_srq_sge"], lambda n: lib.srq(max_sge=n))


class Log:
    """Lines of the kernel since the last look."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self):
        lines = []
        while True:
            try:
                lines.append(os.read(self.fd, 8192).decode(errors="replace").split(";", 1)[-1].split("\n")[0])
            except BlockingIOError:
                return lines
            except BrokenPipeError:
                continue


class Judge:
    """Holds errno and lines against what is right. The driver writes ten lines in five seconds, so it waits after eight."""

    def __init__(self):
        self.log, self.count, self.bad = Log(), 0, 0

    def pause(self):
        time.sleep(5.1)
        self.count = 0

    def refused(self, name, code, wanted, line):
        lines = self.log.lines()
        found = [said for said in lines if re.search(line, said)]
        ok = code == wanted and len(found) == 1
        self.bad += not ok
        print("ok" if ok else "BAD", name, name_of(code), found[:1] or [f"no line like {line!r} in", *lines], flush=True)
        self.count += 1
        if self.count == 8:
            self.pause()

    def done(self, name, code):
        self.bad += code != 0
        print("BAD" if code else "ok", name, name_of(code), flush=True)


def most_pages(session, pd, judge):
    """Regions of scattered pages: the list of 64-bit addresses has to fit a command of 2 MiB, behind 272 bytes."""
    most = ((2 << 20) - 272) // 16 * 2
    start = uverbs.map_again_and_again((most + 1) * PAGE)
    for pages in most - 1, most:
        code, answer = session.attempt("reg_mr", **session.mr_values(pd, start=start, length=pages * PAGE))
        judge.done(f"mr of {pages} pages", code)
        if not code:
            session.call("dereg_mr", mr=answer["mr"])
    code, _ = session.attempt("reg_mr", **session.mr_values(pd, start=start, length=(most + 1) * PAGE))
    judge.refused(f"mr of {most + 1} pages", code, errno.ENOMEM, rf"MR: {most + 1} pages of 4096 bytes, the limit is {most}$")


def kernel():
    session, judge = uverbs.Session(device), Judge()
    limits = session.call("query_device")
    pd, cq = session.pd(), session.cq()
    room = map_memory(8 << 20)
    # Blocks of a send queue: the attribute counts sends of four. Receives are as many.
    wr, sge = 4 * limits["max_qp_wr"], limits["max_sge"]

    def qp(name, line, **values):
        code, _ = session.attempt("create_qp", **session.qp_values(pd, cq, buf=room, **values))
        judge.refused(name, code, errno.EINVAL, line)

    def good(name, what, destroy, handle, values):
        code, answer = session.attempt(what, **values)
        judge.done(name, code)
        if not code:
            session.call(destroy, **{handle: answer[handle]})

    for count in wr - 1, wr:
        for side, queue in ("send_wr", "sends"), ("recv_wr", "receives"):
            values = session.qp_values(pd, cq, buf=room, **{side: count, queue: 1 << (count - 1).bit_length()})
            good(f"{side} {count}", "create_qp", "destroy_qp", "qp", values)
    for shift in 4, 9:
        good(f"receives of {1 << shift} bytes", "create_qp", "destroy_qp", "qp", session.qp_values(pd, cq, buf=room, shift=shift))
    judge.log.lines()
    qp("send_wr", rf"QP: {wr + 1} sends, the limit is {wr}$", send_wr=wr + 1)
    qp("recv_wr", rf"QP: {wr + 1} receives, the limit is {wr}$", recv_wr=wr + 1)
    qp("send_sge", rf"QP: {sge + 1000} entries of a send, the limit is \d+$", send_sge=sge + 1000)
    qp("recv_sge", rf"QP: {sge + 1000} entries of a receive, the limit is \d+$", recv_sge=sge + 1000)
    qp("send blocks", rf"QP: {2 * wr} send blocks are no power of two up to {wr}$", sends=2 * wr)
    qp("receives", rf"QP: {2 * wr} receives are no power of two up to {wr}$", receives=2 * wr)
    qp("receive size", r"QP: receives of 1 << 10 bytes, the limit is 512$", shift=10)
    most = limits["max_cqe"]
    code, _ = session.attempt("create_cq", **session.cq_values(cqe=most + 1, buf=room))
    judge.refused("cqe", code, errno.EINVAL, rf"CQ: {most + 1} entries, the limit is {most}$")
    code, _ = session.attempt("resize_cq", cq=cq, cqe=most + 1, buf=room, cqe_size=64)
    judge.refused("resize", code, errno.EINVAL, rf"CQ: {most + 1} entries, the limit is {most}$")
    code, _ = session.attempt("modify_cq", cq=cq, mask=1, count=1, period=4096)
    judge.refused("moderation", code, errno.EINVAL, r"moderation of 4096 us, the limit is 4095$")
    wr, sge = limits["max_srq_wr"], limits["max_srq_sge"]
    for count in wr - 1, wr:
        good(f"srq {count}", "create_srq", "destroy_srq", "srq", session.srq_values(pd, max_wr=count, buf=room))
    for count in sge - 1, sge:
        good(f"srq sge {count}", "create_srq", "destroy_srq", "srq", session.srq_values(pd, max_sge=count, buf=room))
    for name, values in ("srq wr", {"max_wr": wr + 1}), ("srq sge", {"max_sge": sge + 1}):
        code, _ = session.attempt("create_srq", **session.srq_values(pd, buf=room, **values))
        wanted = {"max_wr": 15, "max_sge": 1, **values}
        line = rf"SRQ: {wanted['max_wr']} receives of {wanted['max_sge']} entries, the limits are {wr} and {sge}$"
        judge.refused(name, code, errno.EINVAL, line)
    srq = session.srq(pd)
    code, _ = session.attempt("modify_srq", srq=srq, mask=2, limit=16)
    judge.refused("srq limit", code, errno.EINVAL, r"SRQ 0x[0-9a-f]+: limit 16 of 15 receives$")
    # QPs in a multicast group, and reads at a time.
    most = limits["max_qp_rd_atom"]
    qp = session.qp(pd, cq)
    session.call("modify_qp", qp=qp, mask=1 | 8 | 16 | 32, state=1, port=1)
    # RTR with PSN, path, MTU, number of the other end, timer and reads as responder.
    steps = {"mask": 1 | 128 | 256 | 4096 | 32768 | 1 << 17 | 1 << 20, "state": 2, "mtu": 3, "global": 1, "dport": 1, "hop_limit": 64}
    address = sys.argv[3]
    steps.update(dgid=uverbs.gid_of(address), sgid_index=uverbs.gid_index(device, address))
    code, _ = session.attempt("modify_qp", qp=qp, dest_rd_atomic=most + 1, **steps)
    judge.refused("reads as responder", code, errno.EINVAL, rf"reads as responder {most + 1}, the limit is {most}$")
    most_pages(session, pd, judge)
    session.call("destroy_qp", qp=qp)
    session.close()
    sys.exit(judge.bad != 0)


def alive(kind):
    """How many objects of a kind the driver has."""
    pci = os.path.basename(os.readlink(f"/sys/class/infiniband/{device}/device"))
    for line in open(f"/sys/kernel/debug/rmlx5/{pci}/stats"):
        name, *values = line.split()
        if name == f"objects.{kind}":
            return int(values[-1])
    return 0


def objects():
    judge = Judge()
    session = uverbs.Session(device)
    limits = session.call("query_device")
    pd, cq = session.pd(), session.cq()
    room = map_memory(1 << 20)

    def fill(name, kind, limit, make, line):
        """Makes objects until there are no more."""
        before, made, code = alive(kind), 0, 0
        judge.log.lines()
        while not code and made <= limit:
            code = make()
            made += not code
        if before + made != limit:
            judge.bad += 1
            print("BAD", name, f"{made} beside the {before} that there were, not {limit} together")
        judge.refused(f"{name} {made}", code, errno.ENOMEM, line)

    def attempt(what, values):
        return session.attempt(what, **values)[0]

    for name, kind, limit, make in [
        ("QP", "qp", limits["max_qp"], lambda: attempt("create_qp", session.qp_values(pd, cq, buf=room, kind=UD))),
        ("CQ", "cq", limits["max_cq"], lambda: attempt("create_cq", session.cq_values(buf=room))),
        ("MR or MW", "mkey", limits["max_mr"], lambda: attempt("reg_mr", session.mr_values(pd, start=room))),
        ("SRQ", "srq", limits["max_srq"], lambda: attempt("create_srq", session.srq_values(pd, buf=room))),
        ("PD", "pd", limits["max_pd"], lambda: attempt("alloc_pd", {})),
    ]:
        fill(name, kind, limit, make, rf"{name}: all {limit} of the card are in use$")
    # Nothing but the line says how many domains there are.
    fill("XRCD", "xrcd", XRCDS, lambda: attempt("open_xrcd", {"fd": 0xFFFFFFFF, "oflags": os.O_CREAT}), rf"XRCD: all {XRCDS} of the card are in use$")
    # Multicast: of each QP in one group, and one QP in each group.
    qps = [number for number in range(1 << 12) if not session.attempt("query_qp", qp=number, mask=1)[0]]
    most = limits["max_mcast_qp_attach"]
    line = rf"multicast: all {limits['max_mcast_grp']} groups of the card, or {most} QPs of one, are in use$"
    if len(qps) > most:
        for place, qp in enumerate(qps[: most + 1]):
            code = attempt("attach_mcast", {"qp": qp, "gid": b"\xff\x0e" + bytes(14)})
            if place < most:
                judge.done(f"QP {place} of a group", code)
        judge.refused("QPs in a group", code, errno.ENOMEM, line)
    code, groups = 0, 1
    while not code and groups <= limits["max_mcast_grp"]:
        code = attempt("attach_mcast", {"qp": qps[0], "gid": b"\xff\x0e" + bytes(12) + groups.to_bytes(2, "big")})
        groups += not code
    judge.refused(f"groups {groups}", code, errno.ENOMEM, line)
    # Contexts: of the largest kind, until there are no doorbell pages.
    files, code = [], 0
    while not code and len(files) < 256:
        file = uverbs.File(device)
        files.append(file)
        code, answer = file.attempt("get_context", registers=64, low=4)
        if not code:
            os.set_inheritable(answer["async_fd"], False)
    line = r"UAR: all that BAR0 of \d+ pages has are in use$"
    judge.refused(f"contexts {len(files)}", code, errno.ENOMEM, line)
    # The last pages of all, one by one.
    code, pages = 0, 0
    while not code and pages < 64:
        code, _ = verbs_uar.ask(session)
        pages += not code
    judge.refused(f"pages {pages}", code, errno.ENOMEM, line)
    print("held", flush=True)
    sys.stdin.read()
    sys.exit(judge.bad != 0)


def once():
    """A key that is changed in place, and a QP of an extended reliable connection."""
    session = uverbs.Session(device)
    pd, cq = session.pd(), session.cq()
    session.call("rereg_mr", mr=session.mr(pd), flags=4, access=3)
    session.qp(pd, cq, kind=9, receives=0, recv_wr=0, shift=0)
    session.close()


{"library": library, "kernel": kernel, "objects": objects, "once": once}[mode]()
