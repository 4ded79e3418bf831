# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Random calls by several threads on one uverbs file, and random doorbells.

usage: verbs_random.py DEVICE SEED CALLS

The same seed makes the same choices of each thread; how they mix, and so which handles there are to choose from, is the
scheduler's. Prints how many calls of each kind succeeded and which errnos there were. It fails when memory stays pinned;
what else may be wrong afterwards, whoever calls it sees.
"""
import collections
import os
import random
import sys
import threading

import uverbs
from uverbs import PAGE, R, SHARED, W, hole, map_memory, name_of

device, seed, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
session = uverbs.Session(device)
readable = map_memory(16 * PAGE, R)
room = map_memory(1 << 20)
gone = hole(64)
pool = collections.defaultdict(list)
doorbells = []
for index in range(8):
    doorbells.append(map_memory(PAGE, W, SHARED, session.fd, index * PAGE))
MAKES = {
    "alloc_pd": "pd", "create_cq": "cq", "create_cq_ex": "cq", "create_qp": "qp", "create_qp_ex": "qp", "create_srq": "srq",
    "reg_mr": "mr", "create_ah": "ah", "alloc_mw": "mw", "open_xrcd": "xrcd", "create_xsrq": "srq",
}
ENDS = {
    "dealloc_pd": "pd", "destroy_cq": "cq", "destroy_qp": "qp", "destroy_srq": "srq", "dereg_mr": "mr", "destroy_ah": "ah",
    "dealloc_mw": "mw", "close_xrcd": "xrcd",
}
HANDLES = {
    "pd": "pd", "cq": "cq", "send_cq": "cq", "recv_cq": "cq", "srq": "srq", "qp": "qp", "mr": "mr", "ah": "ah", "mw": "mw", "xrcd": "xrcd",
}
NAMES = [name for name in uverbs.COMMANDS if name not in ("get_context", "create_comp_channel")]
# Some good ones to begin with.
for _ in range(2):
    pool["pd"].append(session.pd())
    pool["cq"].append(session.cq(buf=room))
    pool["srq"].append(session.srq(pool["pd"][0], buf=room))
    pool["xrcd"].append(session.call("open_xrcd", fd=0xFFFFFFFF, oflags=os.O_CREAT)["xrcd"])
    pool["mw"].append(session.call("alloc_mw", pd=pool["pd"][0], kind=2)["mw"])
    pool["mr"].append(session.mr(pool["pd"][0], start=room))
for kind in 2, 3, 4:
    pool["qp"].append(session.qp(pool["pd"][0], pool["cq"][0], kind=kind, buf=room))
# What is made and what changes it, more often than the rest.
WEIGHTS = [4 if name in MAKES or name.startswith("modify") else 2 if name in ENDS else 1 for name in NAMES]


class Caller(threading.Thread):
    def __init__(self, number):
        super().__init__()
        self.random = random.Random(f"{seed}.{number}")
        self.counts = collections.Counter()

    def handle(self, kind):
        some = pool[kind][-32:]
        if some and self.random.random() < 0.9:
            return self.random.choice(some)
        return self.random.choice((0, 1, 2, 1000, 0x7FFFFFFF, 0xFFFFFFFF))

    def number(self, most):
        return self.random.choice((
            0, 1, 2, 3, 7, 8, 15, 16, 31, 63, 64, 255, 256, 4095, 4096, 32768, 65535, most >> 1, most - 1, most,
            self.random.randint(0, most), 1 << self.random.randint(0, most.bit_length() - 1), room, readable, gone, room + 64,
        )) & most

    def values(self, name):
        """Good values, as far as there are such, and then up to two others."""
        values = {}
        if name in ("create_cq", "create_cq_ex"):
            values = session.cq_values(buf=room + PAGE * self.random.randrange(64))
        elif name in ("create_qp", "create_qp_ex"):
            values = session.qp_values(0, 0, buf=room + 64 * self.random.randrange(64), kind=self.random.choice((2, 3, 4)))
        elif name in ("create_srq", "create_xsrq"):
            values = session.srq_values(0, buf=room)
            if name == "create_xsrq":
                values["kind"] = 1
        elif name == "alloc_mw":
            values = {"kind": self.random.choice((1, 2))}
        elif name == "open_xrcd":
            values = {"fd": 0xFFFFFFFF, "oflags": os.O_CREAT}
        elif name == "reg_mr":
            start = room + PAGE * self.random.randrange(64)
            values = {"start": start, "virt": start, "length": self.random.randrange(1, 64 * PAGE), "access": self.random.choice((0, 1, 7, 15))}
        elif name == "rereg_mr":
            values = {"flags": self.random.randrange(8), "start": room, "virt": room, "length": 8 * PAGE, "access": 1}
        elif name == "create_ah":
            values = {"global": 1, "port": 1, "dgid": self.random.randbytes(16)}
        elif name == "resize_cq":
            values = {"cqe": self.random.choice((7, 15, 31, 63)), "buf": room, "cqe_size": 64}
        elif name.startswith("modify_qp"):
            values = self.step()
        elif name.endswith("mcast"):
            values = {"gid": b"\xff\x0e" + bytes(13) + bytes([self.random.randrange(4)])}
        elif name == "modify_cq":
            values = {"mask": 1, "count": self.random.randrange(64), "period": self.random.randrange(64)}
        elif name == "modify_srq":
            values = {"mask": 2, "limit": self.random.randrange(17)}
        command = uverbs.COMMANDS[name]
        for member in command.body.names:
            if member in HANDLES:
                values[member] = self.handle(HANDLES[member])
        if name.startswith("create_qp"):
            values["recv_cq"] = values["send_cq"]
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            layout = self.random.choice((command.body, command.private))
            if layout.names:
                member = self.random.choice(layout.names)
                most = layout.most(member)
                if most and layout.formats[member] != "i" and member != "response":
                    values[member] = self.number(most)
        return values

    def step(self):
        mask, state = self.random.choice((
            (1 | 8 | 16 | 32, 1), (1 | 16 | 32 | 64, 1), (1 | 128 | 256 | 4096 | 32768 | 1 << 17 | 1 << 20, 2), (1, 2),
            (1 | 512 | 1024 | 2048 | 8192 | 1 << 16, 3), (1 | 1 << 16, 3), (1, 6), (1, 0), (self.random.getrandbits(21), self.random.randrange(8)),
        ))
        return {
            "mask": mask, "state": state, "port": 1, "mtu": self.random.randrange(1, 6), "global": 1, "dport": 1, "hop_limit": 1,
            "dgid": bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 1]), "dest_qpn": self.random.getrandbits(9), "timeout": 14, "retries": 7,
            "rnr_retry": 7, "rd_atomic": 1, "dest_rd_atomic": 1,
        }

    def command(self):
        name = self.random.choices(NAMES, WEIGHTS)[0]
        values = self.values(name)
        command = uverbs.COMMANDS[name]
        body, private = command.request(values)
        way = self.random.random()
        at = words = room_for = None
        unit = 8 if command.extended else 4
        if way < 0.04:
            private = private[: self.random.randrange(len(private) + 1) // unit * unit]
        elif way < 0.08:
            private += self.random.choice((bytes(unit * 2), self.random.randbytes(unit * 4)))
        elif way < 0.11:
            body = body[: self.random.randrange(len(body) + 1) // unit * unit]
        elif way < 0.13:
            words = self.random.randrange(1 << 16)
        elif way < 0.17:
            at = self.random.choice((gone, readable, 0, 0xFFFF888000000000))
        elif way < 0.20:
            room_for = self.random.randrange(0, 16) * unit
        code, data = session.send(command, body, private, room=room_for, at=at, words=words)
        self.counts[name, code] += 1
        if not code and name in MAKES and at is None and room_for is None:
            pool[MAKES[name]].append(command.answer.unpack(data)[MAKES[name]])
            if len(pool[MAKES[name]]) > 40 and name != "alloc_pd":
                # Not more than a few dozen of each: the next calls make others.
                self.end(MAKES[name])

    def end(self, kind):
        name = next(name for name, what in ENDS.items() if what == kind)
        try:
            handle = pool[kind].pop(self.random.randrange(len(pool[kind])))
        except (IndexError, ValueError):
            return
        self.counts[name, session.attempt(name, **{kind: handle})[0]] += 1

    def method(self):
        attributes = []
        for _ in range(self.random.randrange(7)):
            length = self.random.choice((0, 1, 2, 4, 8, 16, 32, 64, 512, 4096))
            data = self.random.choice((
                room + self.random.randrange(1 << 18), room, gone, readable, self.handle("cq"), self.handle("mr"), self.handle("qp"),
                0, 0xFFFFFFFF, 1 << 63,
            ))
            number = self.random.choice((self.random.randrange(14), 0x1000, 0x1001, self.random.getrandbits(16)))
            attributes.append((number, length, self.random.choice((0, 1, 1, 1, 2, 0xFFFF)), self.random.choice((0, 0, 0, 1)), data))
        code = session.ioctl(
            self.random.choice((*range(21), 0x1000, self.random.getrandbits(16))),
            self.random.choice((*range(9), 0x1000, self.random.getrandbits(16))), attributes,
        )
        self.counts["ioctl", code] += 1

    def mapping(self):
        length = PAGE * self.random.choice((1, 1, 1, 2, 16))
        try:
            at = map_memory(
                length, self.random.choice((R, W, R | W, 7, 0)),
                self.random.choice((SHARED, uverbs.PRIVATE)), session.fd, PAGE * self.random.choice((0, 1, 7, 8, 0x300, 0x301, self.random.getrandbits(20))),
            )
            uverbs.unmap(at, length)
            self.counts["mmap", 0] += 1
        except OSError as error:
            self.counts["mmap", error.errno] += 1

    def doorbell(self):
        """Rings for whom it likes: CQs, event queues, send queues, BlueFlame."""
        place = self.random.choice((0x20, 0x40, 0x48, 0x800, 0x900, 0xA00, 0xB00, self.random.randrange(512) * 8))
        number = self.random.choice((self.random.getrandbits(9), self.random.getrandbits(24)))
        value = self.random.choice((number << 8, number, self.random.getrandbits(64))).to_bytes(8, "big")
        uverbs.ctypes.memmove(self.random.choice(doorbells) + place, value, 8)
        uverbs.ctypes.memmove(room + 64 * self.random.randrange(256), self.random.randbytes(64), 64)
        uverbs.ctypes.memmove(session.record(), self.random.randbytes(8), 8)
        self.counts["doorbell", 0] += 1

    def run(self):
        for _ in range(calls):
            self.random.choices((self.command, self.method, self.mapping, self.doorbell), (80, 10, 5, 5))[0]()


print(f"seed {seed}")
callers = [Caller(number) for number in range(3)]
for caller in callers:
    caller.start()
for caller in callers:
    caller.join()
table = collections.defaultdict(list)
total = collections.Counter()
for caller in callers:
    total.update(caller.counts)
for (name, code), count in sorted(total.items()):
    table[name].append(f"{name_of(code)}={count}")
for name, words in table.items():
    print(name, *words)
# The file is closed with everything on it.
os.close(session.fd)
for at in doorbells:
    uverbs.unmap(at, PAGE)
print("pinned", uverbs.pinned())
sys.exit(uverbs.pinned() != 0)
