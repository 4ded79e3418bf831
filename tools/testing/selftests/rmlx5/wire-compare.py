# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Compares every byte that an RC connection moves: one end asks (SEND, WRITE, READ), the other only answers.

usage: wire-compare.py DEVICE GID-INDEX listen PORT
       wire-compare.py DEVICE GID-INDEX ADDRESS PORT ROUNDS

The ends tell each other their addresses by TCP. The end that listens takes messages and has the memory that is written and
read; at the end it says the SHA-256 of all messages. In each round there are several requests under way, of random bytes
and of lengths that are no multiple of anything.
"""
import hashlib
import json
import os
import socket
import sys
import time

from pyverbs.addr import GID
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
import pyverbs.enums as e

import verbs_rc

device, index, address, port = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
LENGTHS = 1, 1021, 4096, 6007
SLOT = 8192
LIMIT = 60
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ

context = Context(name=device)
pd = PD(context)
cq = CQ(context, 64)
# What goes out, or comes as messages; what is written or read.
mr = MR(pd, 2 * SLOT * len(LENGTHS), ACCESS)
cap = QPCap(max_send_wr=16, max_recv_wr=16, max_send_sge=1, max_recv_sge=1)
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap, sq_sig_all=1))


def slot(half, number):
    return (half * len(LENGTHS) + number) * SLOT


def connect(stream):
    """Tells the other end who this is, hears who that is, and brings the QP to RTS."""
    mine = {"qpn": qp.qp_num, "gid": str(context.query_gid(1, index)), "rkey": mr.rkey, "addr": mr.buf}
    stream.write(json.dumps(mine) + "\n")
    stream.flush()
    other = json.loads(stream.readline())
    verbs_rc.connect(qp, GID(other["gid"]), index, ACCESS, other["qpn"], reads=4, psn=0xfffff0)
    return other


def completions(count):
    done = []
    end = time.monotonic() + LIMIT
    while len(done) < count:
        done.extend(cq.poll(count - len(done))[1])
        if time.monotonic() > end:
            sys.exit(f"{len(done)} completions of {count} after {LIMIT} s")
    failed = [wc.status for wc in done if wc.status != e.IBV_WC_SUCCESS]
    if failed:
        sys.exit(f"completions failed: {failed}")
    return sorted(done, key=lambda wc: wc.wr_id)


def post(opcode, half, number, other=None):
    """One request of the length that the number stands for."""
    length = LENGTHS[number]
    wr = SendWR(wr_id=number, opcode=opcode, num_sge=1, sg=[SGE(mr.buf + slot(half, number), length, mr.lkey)],
                send_flags=e.IBV_SEND_SIGNALED)
    if other:
        wr.set_wr_rdma(other["rkey"], other["addr"] + slot(1, number))
    qp.post_send(wr)


def listen(stream):
    digest = hashlib.sha256()
    connect(stream)
    for _ in range(int(stream.readline())):
        for number in range(len(LENGTHS)):
            qp.post_recv(RecvWR(wr_id=number, num_sge=1, sg=[SGE(mr.buf + slot(0, number), SLOT, mr.lkey)]))
        stream.write("posted\n")
        stream.flush()
        for wc in completions(len(LENGTHS)):
            digest.update(mr.read(wc.byte_len, slot(0, wc.wr_id)))
    # The other end still reads this memory.
    if stream.readline() != "done\n":
        sys.exit("the other end has ended")
    stream.write(digest.hexdigest() + "\n")
    stream.flush()


def ask(stream, rounds):
    digest = hashlib.sha256()
    other = connect(stream)
    stream.write(f"{rounds}\n")
    stream.flush()
    for turn in range(rounds):
        data = [os.urandom(length) for length in LENGTHS]
        for number, part in enumerate(data):
            mr.write(part, len(part), slot(0, number))
            digest.update(part)
        if stream.readline() != "posted\n":
            sys.exit(f"round {turn}: the other end has ended")
        for number in range(len(LENGTHS)):
            post(e.IBV_WR_RDMA_WRITE, 0, number, other)
        for number in range(len(LENGTHS)):
            post(e.IBV_WR_SEND, 0, number)
        completions(2 * len(LENGTHS))
        for number in range(len(LENGTHS)):
            post(e.IBV_WR_RDMA_READ, 1, number, other)
        completions(len(LENGTHS))
        for number, part in enumerate(data):
            if mr.read(len(part), slot(1, number)) != part:
                sys.exit(f"round {turn}: what was written and read back is not the same, {len(part)} bytes")
    stream.write("done\n")
    stream.flush()
    if stream.readline().strip() != digest.hexdigest():
        sys.exit("the messages are not those that were sent")
    print(f"{rounds} rounds, {rounds * sum(LENGTHS)} bytes by SEND, WRITE and READ each")


socket.setdefaulttimeout(LIMIT)
if address == "listen":
    connection, _ = socket.create_server(("", port)).accept()
else:
    connection = socket.create_connection((address, port))
connection.settimeout(LIMIT)
with connection.makefile("rw") as lines:
    if address == "listen":
        listen(lines)
    else:
        ask(lines, int(sys.argv[5]))
