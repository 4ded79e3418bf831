# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Asynchronous events that traffic causes: each has the type, and names the object, that it is about.

usage: verbs-traffic-events.py DEVICE GID-INDEX

To libibverbs an event names the address of its own object, which this program does not see: the first event of each QP is
that it is connected, and later ones must name the same.
"""
import errno
import os
import select
import struct
import sys
import time
import traceback

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
import pyverbs.enums as e

import verbs_rc

device, index = sys.argv[1], int(sys.argv[2])
LIMIT = 60
ALL = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_ATOMIC


def leave(code):
    """The library would wait for events that it has not read itself, so the kernel takes everything down."""
    sys.stdout.flush()
    os._exit(code)


def fail(why):
    print(why)
    leave(1)


def broken(*what):
    traceback.print_exception(*what)
    leave(1)


sys.excepthook = broken


def event_files():
    for fd in os.listdir("/proc/self/fd"):
        try:
            if "infinibandevent" in os.readlink(f"/proc/self/fd/{fd}"):
                yield int(fd)
        except OSError:
            # The one of the listing itself.
            continue


context = Context(name=device)
(events,) = event_files()
gid = context.query_gid(1, index)
pd = PD(context)
mr = MR(pd, 4096, ALL)
named = set()


def expect(what, kind, element=None):
    """The next event of an object is of this kind and about this one, or about one that had none yet; it is returned."""
    end = time.monotonic() + LIMIT
    while True:
        if not select.select([events], [], [], max(0, end - time.monotonic()))[0]:
            fail(f"{what}: no event")
        got, seen = struct.unpack("=QII", os.read(events, 16))[:2]
        # The port may have something to say at any time.
        if seen not in (e.IBV_EVENT_GID_CHANGE, e.IBV_EVENT_PORT_ACTIVE):
            break
    if seen != kind or (got in named if element is None else got != element):
        fail(f"{what}: type {seen} of {got:#x}, not {kind} of {element or 'another'}; known: {named}")
    named.add(got)
    print(f"{what}: type {kind} of {got:#x}")
    return got


def make_qp(cq, srq=None):
    cap = QPCap(max_send_wr=16, max_recv_wr=0 if srq else 8, max_send_sge=1, max_recv_sge=0 if srq else 1)
    return QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap, srq=srq, sq_sig_all=1))


def post(qp, opcode, key=None, at=2048):
    wr = SendWR(opcode=opcode, num_sge=1, sg=[SGE(mr.buf, 8, mr.lkey)])
    key = mr.rkey if key is None else key
    if opcode == e.IBV_WR_RDMA_WRITE:
        wr.set_wr_rdma(key, mr.buf + at)
    elif opcode == e.IBV_WR_ATOMIC_FETCH_AND_ADD:
        wr.set_wr_atomic(key, mr.buf + at, 1, 0)
    qp.post_send(wr)


class Pair:
    """One QP sends; the other one stays in RTR, so the first packet establishes it."""

    def __init__(self, srq=None):
        self.cqs = [CQ(context, 32), CQ(context, 32)]
        self.asks, self.answers = make_qp(self.cqs[0]), make_qp(self.cqs[1], srq)
        self.answers.to_rtr(verbs_rc.attributes(self.answers, gid, index, ALL, self.asks.qp_num))
        verbs_rc.connect(self.asks, gid, index, ALL, self.answers.qp_num)
        post(self.asks, e.IBV_WR_RDMA_WRITE)
        self.outcome(e.IBV_WC_SUCCESS)
        self.element = expect("the first packet", e.IBV_EVENT_COMM_EST)

    def outcome(self, status):
        end = time.monotonic() + LIMIT
        while True:
            count, done = self.cqs[0].poll(1)
            if count:
                break
            if time.monotonic() > end:
                fail("no completion")
        if done[0].status != status:
            fail(f"completion with status {done[0].status}, not {status}")


pairs = []
for what, opcode, key, at, status, kind in [
    ("a WRITE with a key that nobody gave", e.IBV_WR_RDMA_WRITE, mr.rkey ^ 0x5500, 2048, e.IBV_WC_REM_ACCESS_ERR, e.IBV_EVENT_QP_ACCESS_ERR),
    ("an atomic at an odd address", e.IBV_WR_ATOMIC_FETCH_AND_ADD, None, 2049, e.IBV_WC_REM_INV_REQ_ERR, e.IBV_EVENT_QP_REQ_ERR),
]:
    # Kept, so that no address is used again.
    pairs.append(Pair())
    post(pairs[-1].asks, opcode, key, at)
    pairs[-1].outcome(status)
    expect(what, kind, pairs[-1].element)

srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=8)))
for _ in range(4):
    srq.post_recv(RecvWR(num_sge=1, sg=[SGE(mr.buf + 1024, 64, mr.lkey)]))
srq.modify(SrqAttr(srq_limit=3), e.IBV_SRQ_LIMIT)
shared = Pair(srq)
for _ in range(2):
    post(shared.asks, e.IBV_WR_SEND)
    shared.outcome(e.IBV_WC_SUCCESS)
expect("an SRQ with fewer receives than its limit", e.IBV_EVENT_SRQ_LIMIT_REACHED)
shared.answers.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
expect("a QP in error that takes no more from its SRQ", e.IBV_EVENT_QP_LAST_WQE_REACHED, shared.element)

# So it is never drained.
try:
    shared.asks.modify(QPAttr(qp_state=e.IBV_QPS_SQD), e.IBV_QP_STATE)
    fail("a QP goes to SQD")
except PyverbsRDMAError as error:
    if error.error_code != errno.EINVAL:
        raise

# It has room for fewer completions than the QP has for requests, and nobody reads them.
small = CQ(context, 1)
full = make_qp(small)
verbs_rc.connect(full, gid, index, ALL)
for _ in range(8):
    post(full, e.IBV_WR_RDMA_WRITE)
expect("a CQ that is full", e.IBV_EVENT_CQ_ERR)
leave(0)
