# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A QP that is connected to itself sends before a receive is posted.

usage: verbs-rnr.py DEVICE GID-INDEX

Fails unless rnr_nak_retry_err grows while nothing is posted, nothing completes meanwhile, and the message arrives as soon as
there is a receive.
"""

import sys

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
import pyverbs.enums as e

import verbs_rc

device, index = sys.argv[1], int(sys.argv[2])
TEXT = b"a message that has to wait"


def naks():
    return verbs_rc.counter(device, "rnr_nak_retry_err")


def main():
    context = Context(name=device)
    pd = PD(context)
    cq = CQ(context, 10)
    mr = MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)
    cap = QPCap(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap, sq_sig_all=1))
    verbs_rc.connect(qp, context.query_gid(1, index), index, e.IBV_ACCESS_LOCAL_WRITE)

    before = naks()
    mr.write(TEXT, len(TEXT))
    qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(mr.buf, len(TEXT), mr.lkey)]))
    verbs_rc.until(lambda: "no RNR NAK is counted", lambda: naks() > before)
    if cq.poll(1)[0]:
        sys.exit("a completion before a receive was posted")
    qp.post_recv(RecvWR(num_sge=1, sg=[SGE(mr.buf + 2048, 1024, mr.lkey)]))
    done = []

    def both():
        done.extend(cq.poll(2)[1])
        return len(done) == 2

    verbs_rc.until(lambda: f"{len(done)} completions of 2", both)
    failed = [wc.status for wc in done if wc.status != e.IBV_WC_SUCCESS]
    if failed:
        sys.exit(f"completions failed: {failed}")
    if mr.read(len(TEXT), 2048) != TEXT:
        sys.exit("another message came")
    print(f"{naks() - before} RNR NAKs")


main()
