# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests by pyverbs share: an RC QP that is connected."""

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.qp import QPAttr
import pyverbs.enums as e


def connect(qp, gid, index, access, number=None, reads=1, psn=0):
    """Brings `qp` to RTS: to QP `number`, or itself, at `gid` from GID `index`. `reads` at a time each way, PSNs from `psn`.

    Path MTU 1024; an acknowledgement is waited for 67 ms, 7 times; a receive for ever, asked for after 0.64 ms.
    """
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = access
    qp.to_init(attr)
    attr.path_mtu = e.IBV_MTU_1024
    attr.dest_qp_num = qp.qp_num if number is None else number
    attr.max_dest_rd_atomic = attr.max_rd_atomic = reads
    attr.min_rnr_timer, attr.rnr_retry = 12, 7
    attr.timeout, attr.retry_cnt = 14, 7
    attr.rq_psn = attr.sq_psn = psn
    route = GlobalRoute(dgid=gid, sgid_index=index, hop_limit=64)
    attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
    qp.to_rts(attr)
