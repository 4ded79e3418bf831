# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Many processes at once on one RDMA device: half of them write to themselves through it, half make and destroy objects.

usage: verbs_storm.py storm DEVICE ADDRESS COUNT    prints "running" when each has done something, and kills all of them
                                                    when standard input ends
       verbs_storm.py fork DEVICE ADDRESS           a process forks in mid-traffic; its child scribbles over its copy of
                                                    everything and uses the file, too; the data must stay right

ADDRESS is the IPv4 address of the port.
"""
import ctypes
import errno
import os
import signal
import struct
import sys
import time

import uverbs
from uverbs import PAGE, SHARED, W, map_memory

mode, device, address = sys.argv[1:4]
GID = uverbs.gid_of(address)
LENGTH = 1024
# Doorbell registers of a context: few, each pair is a command.
REGISTERS = 4, 2


class Traffic:
    """A QP that is connected to itself, with WQEs, doorbells and CQEs made and read by hand.

    Source of the layouts: struct mlx5_wqe_ctrl_seg, mlx5_wqe_raddr_seg, mlx5_wqe_data_seg, mlx5_cqe64.
    """

    def __init__(self, index):
        self.session = session = uverbs.Session(device, *REGISTERS)
        pd = session.pd()
        values = session.cq_values(cqe=15)
        cq = session.call("create_cq", **values)["cq"]
        self.cqes, self.cq_record = values["buf"], values["db"]
        for place in range(16):
            ctypes.memset(self.cqes + 64 * place + 63, 0xF0, 1)
        values = session.qp_values(pd, cq, send_cq=cq)
        made = session.call("create_qp", **values)
        self.qpn, self.record = made["qpn"], values["db"]
        self.sends = values["buf"] + (16 << 4)
        place = made["register"]
        size = session.context["bf_size"]
        self.register = map_memory(PAGE, W, SHARED, session.fd, place // 4 * PAGE) + 0x800 + place % 4 * size
        self.memory = map_memory(2 * PAGE)
        mr = session.call("reg_mr", **session.mr_values(pd, start=self.memory, length=2 * PAGE, access=7))
        self.lkey, self.rkey = mr["lkey"], mr["rkey"]
        qp = made["qp"]
        session.call("modify_qp", qp=qp, mask=1 | 8 | 16 | 32, state=1, port=1, access=7)
        path = {"dgid": GID, "sgid_index": index, "hop_limit": 64, "global": 1, "dport": 1}
        session.call(
            "modify_qp", qp=qp, mask=1 | 128 | 256 | 4096 | 32768 | 1 << 17 | 1 << 20, state=2, mtu=3, dest_qpn=self.qpn,
            dest_rd_atomic=1, rnr_timer=12, **path,
        )
        session.call("modify_qp", qp=qp, mask=1 | 512 | 1024 | 2048 | 8192 | 1 << 16, state=3, timeout=14, retries=7, rnr_retry=7, rd_atomic=1)
        self.count = 0

    def post(self, data):
        """Writes `data` from the first page to the second, through the device."""
        ctypes.memmove(self.memory, data, len(data))
        wqe = struct.pack(">IIBxxBI", (self.count & 0xFFFF) << 8 | 0x08, self.qpn << 8 | 3, 0, 0x08, 0)
        wqe += struct.pack(">QII", self.memory + PAGE, self.rkey, 0)
        wqe += struct.pack(">IIQ", len(data), self.lkey, self.memory)
        ctypes.memmove(self.sends + self.count % 16 * 64, wqe, len(wqe))
        self.count += 1
        ctypes.memmove(self.record + 4, struct.pack(">I", self.count & 0xFFFF), 4)
        # One write of eight bytes.
        ctypes.c_uint64.from_address(self.register).value = int.from_bytes(wqe[:8], "little")

    def done(self):
        """Whether the last write has completed; SystemExit when it failed."""
        at = self.cqes + 64 * ((self.count - 1) % 16) + 63
        word = ctypes.string_at(at, 1)[0]
        if word >> 4 == 0xF or word & 1 != (self.count - 1) // 16 & 1:
            return False
        ctypes.memmove(self.cq_record, struct.pack(">I", self.count & 0xFFFFFF), 4)
        if word >> 4 != 0:
            if self.session.attempt("alloc_pd")[0]:
                # The device is gone, and its keys before its QPs: nothing comes any more.
                signal.pause()
            raise SystemExit(f"completion with opcode {word >> 4:#x} {ctypes.string_at(at - 63, 64).hex()}")
        return True

    def write(self, data, seconds=None):
        """A write, and the data that came. Without `seconds` it waits without end."""
        self.post(data)
        end = None if seconds is None else time.monotonic() + seconds
        while not self.done():
            if end and time.monotonic() > end:
                raise SystemExit("no completion")
            time.sleep(0.01)
        return ctypes.string_at(self.memory + PAGE, len(data))


def meet(told, go):
    """Says that this process is ready, and waits for the others."""
    os.write(told, b"+")
    os.read(go, 1)


def traffic(index, told, go):
    lane = Traffic(index)
    number = 0
    meet(told, go)
    while True:
        data = (struct.pack("=Q", number) * (LENGTH // 8))[:LENGTH]
        # Some are always under way.
        for _ in range(7):
            lane.post(data)
        if lane.write(data) != data:
            os.write(told, b"!")
        number += 1
        if number == 1:
            os.write(told, b"+")


def objects(told, go):
    first = True
    meet(told, go)
    while True:
        session = None
        try:
            session = uverbs.Session(device, *REGISTERS)
            pd = session.pd()
            cq = session.cq()
            srq = session.srq(pd)
            for kind in 2, 3, 4:
                session.qp(pd, cq, kind=kind)
            session.mr(pd)
            session.call("destroy_srq", srq=srq)
            if first:
                os.write(told, b"+")
            first = False
            time.sleep(0.5)
        except (uverbs.Refused, OSError, IndexError) as error:
            # The device may go at any time.
            if getattr(error, "code", None) not in (None, errno.EIO, errno.ENODEV):
                raise
            time.sleep(0.05)
        finally:
            # The rest goes with the file.
            if session:
                session.close()


def storm(count):
    index = uverbs.gid_index(device, address)
    read, told = os.pipe()
    wait, go = os.pipe()
    children = []
    for number in range(count):
        child = os.fork()
        if not child:
            os.close(read)
            os.close(go)
            os.close(0)
            try:
                traffic(index, told, wait) if number % 2 else objects(told, wait)
            except BaseException as error:
                os.write(2, f"{number}: {error!r}\n".encode())
                os.write(told, b"!")
            os._exit(1)
        children.append(child)
    os.close(told)
    said = b""
    # Each has what it needs, then each has been through a round beside all others.
    for round in 1, 2:
        while len(said) < round * count and b"!" not in said:
            said += os.read(read, 1) or b"!"
        if round == 1:
            os.close(go)
    print("failed" if b"!" in said else "running", flush=True)
    sys.stdin.read()
    for child in children:
        os.kill(child, signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)
    # What they said meanwhile.
    while more := os.read(read, 4096):
        said += more
    sys.exit(b"!" in said)


def fork():
    lane = Traffic(uverbs.gid_index(device, address))
    for round in range(6):
        data = bytes([round]) * LENGTH
        if lane.write(data, 60) != data:
            raise SystemExit(f"round {round}: other data")
        if round % 3:
            continue
        child = os.fork()
        if not child:
            # Its copies of queues, records and data are its own.
            for at, length in (lane.memory, 2 * PAGE), (lane.cqes, 1024), (lane.sends, 1024), (lane.session.records, PAGE):
                ctypes.memset(at, 0xFF, length)
            # Objects of the same file, in the memory of the child.
            session = lane.session
            _, private = uverbs.COMMANDS["create_cq"].request(session.cq_values())
            code = session.ioctl_cq(private)
            # write() is for who opened the file.
            if not code and session.attempt("alloc_pd")[0] != errno.EACCES:
                code = 255
            os._exit(code)
        data = b"while there is a child" * 40
        if lane.write(data, 60) != data:
            raise SystemExit(f"round {round}: other data while there is a child")
        _, status = os.waitpid(child, 0)
        if status:
            raise SystemExit(f"round {round}: the child ended with {status:#x}")
    lane.session.close()
    print("ok")


if mode == "fork":
    fork()
storm(int(sys.argv[4])) if mode == "storm" else None
