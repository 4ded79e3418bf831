# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Events of a few of many CQs, while others come and go.

usage: verbs-events.py DEVICE GID-INDEX

Fails unless each event names the CQ that has the completion: with all CQs, without those around it, and with new ones in
their place.
"""

import sys

from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
import pyverbs.enums as e

import verbs_rc

# More than the 256 numbers that the driver keeps together.
MANY, EVERY = 280, 40

context = Context(name=sys.argv[1])
index = int(sys.argv[2])
gid = context.query_gid(1, index)
vectors = context.num_comp_vectors
pd, channel = PD(context), CompChannel(context)
mr = MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)


def new_cq(at):
    return CQ(context, 1, None, channel, at % vectors)


def new_qp(cq):
    """Connected to itself."""
    cap = QPCap(max_send_wr=1, max_recv_wr=1, max_send_sge=1, max_recv_sge=1)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap, sq_sig_all=1))
    verbs_rc.connect(qp, gid, index, e.IBV_ACCESS_REMOTE_WRITE)
    return qp


def events(what):
    for at, qp in qps.items():
        cq = cqs[at]
        verbs_rc.write_by_event(qp, mr, cq, channel, f"{what}: CQ {at}")


cqs = [new_cq(at) for at in range(MANY)]
qps = {at: new_qp(cqs[at]) for at in range(0, MANY, EVERY)}
events("all CQs")
others = [at for at in range(MANY) if at not in qps]
for at in others:
    cqs[at].close()
events("the others gone")
for at in others[:: EVERY // 3]:
    cqs[at] = new_cq(at)
events("new ones")
print(f"{3 * len(qps)} events on {vectors} vectors")
