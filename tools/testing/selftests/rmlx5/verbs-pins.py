# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Memory that a context pins: none before its first queue, and none after its last one while it stays open.

A doorbell record shares its page with others; the library gives the page back with the last of them, and another page may
come to its address.

usage: verbs-pins.py DEVICE    prints kilobytes pinned before, with two CQs and a QP, with one CQ, after
"""

import sys

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
import pyverbs.enums as e


def pinned():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmPin:"))


def main():
    context = Context(name=sys.argv[1])
    before = pinned()
    pd = PD(context)
    first, second = CQ(context, 10), CQ(context, 10)
    attributes = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=first, rcq=first, cap=QPCap(max_send_wr=4, max_recv_wr=4))
    qp = QP(pd, attributes)
    most = pinned()
    qp.close()
    second.close()
    one = pinned()
    first.close()
    after = pinned()
    pd.close()
    print(before, most, one, after)


main()
