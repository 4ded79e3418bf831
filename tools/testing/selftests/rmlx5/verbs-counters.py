# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Makes what the port counts happen, and compares the counters: one cause after the other, on two QPs of this device.

usage: verbs-counters.py DEVICE GID-INDEX [CAUSE...]

Fails unless each completion has the status, and each counter grows by the number, that the InfiniBand specification and the
maker's list of counters give for it. Where they leave that open it need only grow (SOME), or may (ANY).
"""

import sys
import time

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
import pyverbs.enums as e

import verbs_rc

device, index, *wanted = sys.argv[1:]
SOME, ANY = "at least 1", "any number"
ALL = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC
# An acknowledgement is waited for three times, 4 ms or a few times that; a receive is asked for three times, each 10 us later.
IMPATIENT = {"timeout": 10, "retry_cnt": 2, "rnr_retry": 2, "min_rnr_timer": 1}

context = Context(name=device)
gid = context.query_gid(1, int(index))
pd = PD(context)
mr = MR(pd, 4096, ALL)


class Pair:
    """A QP that asks and one that answers; they are gone afterwards. `asks`, `answers`: attributes of each; without
    `connected` the other one is not there for packets."""

    def __init__(self, connected=True, asks=(), answers=()):
        self.cqs = [CQ(context, 32), CQ(context, 32)]
        cap = QPCap(max_send_wr=8, max_recv_wr=8, max_send_sge=1, max_recv_sge=1)
        self.qps = [QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap, sq_sig_all=1)) for cq in self.cqs]
        sides = [(0, 1, asks)] + [(1, 0, answers)] * connected
        for mine, other, attributes in sides:
            verbs_rc.connect(self.qps[mine], gid, int(index), ALL, self.qps[other].qp_num, **{**IMPATIENT, **dict(attributes)})

    def ask(self, opcode=e.IBV_WR_SEND, key=None):
        wr = SendWR(opcode=opcode, num_sge=1, sg=[SGE(mr.buf, 8, mr.lkey)])
        key = mr.rkey if key is None else key
        if opcode in (e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ):
            wr.set_wr_rdma(key, mr.buf + 2048)
        elif opcode != e.IBV_WR_SEND:
            wr.set_wr_atomic(key, mr.buf + 2048, 1, 2)
        self.qps[0].post_send(wr)

    def expect(self, length=8):
        self.qps[1].post_recv(RecvWR(num_sge=1, sg=[SGE(mr.buf + 1024, length, mr.lkey)]))

    def outcome(self, side, *statuses):
        """Completions have come, with these statuses in this order."""
        done = []

        def all_there():
            done.extend(wc.status for wc in self.cqs[side].poll(16)[1])
            return len(done) >= len(statuses)

        verbs_rc.until(lambda: f"side {side}: completions {done} of {len(statuses)}", all_there)
        if done != list(statuses):
            sys.exit(f"side {side}: completions {done}, not {list(statuses)}")

    def close(self):
        for each in (*self.qps, *self.cqs):
            each.close()


def requests():
    """Three WRITEs, two READs, four atomics."""
    pair = Pair()
    kinds = [e.IBV_WR_RDMA_WRITE] * 3 + [e.IBV_WR_RDMA_READ] * 2
    kinds += [e.IBV_WR_ATOMIC_FETCH_AND_ADD, e.IBV_WR_ATOMIC_CMP_AND_SWP] * 2
    for kind in kinds:
        pair.ask(kind)
        pair.outcome(0, e.IBV_WC_SUCCESS)
    return pair, {"rx_write_requests": 3, "rx_read_requests": 2, "rx_atomic_requests": 4}


def no_receive():
    """A SEND that finds none, and is sent again twice."""
    pair = Pair()
    pair.ask()
    pair.outcome(0, e.IBV_WC_RNR_RETRY_EXC_ERR)
    return pair, {"out_of_buffer": 3, "rnr_nak_retry_err": 2, "req_rnr_retries_exceeded": 1, "req_cqe_error": 1}


def nobody():
    """A SEND to a QP in RESET, sent three times in all."""
    pair = Pair(connected=False)
    pair.ask()
    pair.outcome(0, e.IBV_WC_RETRY_EXC_ERR)
    return pair, {"local_ack_timeout_err": 3, "req_transport_retries_exceeded": 1, "req_cqe_error": 1}


def too_long():
    """A SEND of 8 bytes for a receive of 4; another SEND, and two more receives."""
    pair = Pair()
    for _ in range(3):
        pair.expect(4)
    pair.ask()
    pair.ask()
    pair.outcome(0, e.IBV_WC_REM_INV_REQ_ERR, e.IBV_WC_WR_FLUSH_ERR)
    pair.outcome(1, e.IBV_WC_LOC_LEN_ERR, e.IBV_WC_WR_FLUSH_ERR, e.IBV_WC_WR_FLUSH_ERR)
    return pair, {
        "resp_local_length_error": 1, "req_remote_invalid_request": 1, "resp_cqe_error": 3, "resp_cqe_flush_error": 2,
        "req_cqe_error": 2, "req_cqe_flush_error": 1,
    }


def bad_key():
    """A WRITE with a key that nobody gave."""
    pair = Pair()
    pair.ask(e.IBV_WR_RDMA_WRITE, mr.rkey ^ 0x5500)
    pair.outcome(0, e.IBV_WC_REM_ACCESS_ERR)
    return pair, {"resp_remote_access_errors": 1, "req_remote_access_errors": 1, "req_cqe_error": 1, "rx_write_requests": ANY}


def seen_before():
    """A WRITE whose number the other end has behind it: not executed but answered, with a number that was not asked for."""
    pair = Pair(answers={"rq_psn": 100})
    pair.ask(e.IBV_WR_RDMA_WRITE)
    pair.outcome(0, e.IBV_WC_RETRY_EXC_ERR)
    return pair, {"duplicate_request": 3, "local_ack_timeout_err": 3, "req_transport_retries_exceeded": 1, "req_cqe_error": 1}


def gap():
    """A WRITE whose number the other end does not expect yet: asked for once more, in vain."""
    pair = Pair(asks={"sq_psn": 100})
    pair.ask(e.IBV_WR_RDMA_WRITE)
    pair.outcome(0, e.IBV_WC_RETRY_EXC_ERR)
    return pair, {
        "out_of_sequence": SOME, "packet_seq_err": ANY, "local_ack_timeout_err": SOME, "req_transport_retries_exceeded": 1,
        "req_cqe_error": 1,
    }


CAUSES = [requests, no_receive, nobody, too_long, bad_key, seen_before, gap]
NAMES = [
    "rx_write_requests", "rx_read_requests", "rx_atomic_requests", "out_of_buffer", "out_of_sequence", "duplicate_request",
    "rnr_nak_retry_err", "packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err", "resp_local_length_error",
    "resp_cqe_error", "req_cqe_error", "req_remote_invalid_request", "req_remote_access_errors", "resp_remote_access_errors",
    "resp_cqe_flush_error", "req_cqe_flush_error", "req_transport_retries_exceeded", "req_rnr_retries_exceeded",
]

for cause in CAUSES:
    if wanted and cause.__name__ not in wanted:
        continue
    # The kernel asks the card at most every 10 ms.
    time.sleep(0.02)
    before = {name: verbs_rc.counter(device, name) for name in NAMES}
    pair, expected = cause()
    pair.close()
    time.sleep(0.02)
    grown = {name: verbs_rc.counter(device, name) - before[name] for name in NAMES}
    print(cause.__name__, {name: number for name, number in grown.items() if number})
    for name, number in grown.items():
        right = expected.get(name, 0)
        if number == 0 if right == SOME else right not in (number, ANY):
            sys.exit(f"{cause.__name__}: {name} grew by {number}, not {right}")
