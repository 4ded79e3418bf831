# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests by pyverbs share: work queues, and QPs that spread packets over them."""

from pyverbs.qp import QPEx, QPInitAttrEx
from pyverbs.wq import WQ, RwqIndTable, RwqIndTableInitAttr, RxHashConf, WQAttr, WQInitAttr
import pyverbs.enums as e

# IBV_RX_HASH_*
V4, V6, TCP, UDP = 1, 4, 16, 64
KEY = list(range(40))


def new(context, pd, cq, **attributes):
    """A WQ of 8 receives."""
    return WQ(context, WQInitAttr(**{"wq_context": None, "wq_pd": pd, "wq_cq": cq, "wq_type": e.IBV_WQT_RQ, "max_wr": 8,
                                     "max_sge": 1, "comp_mask": 0, "create_flags": 0, **attributes}))


def ready(wq):
    wq.modify(WQAttr(attr_mask=e.IBV_WQ_ATTR_STATE, wq_state=e.IBV_WQS_RDY))
    return wq


def table(context, wqs):
    """An indirection table of 2 WQs."""
    return RwqIndTable(context, RwqIndTableInitAttr(1, wqs))


def hashing(context, pd, table, fields=V4, function=e.IBV_RX_HASH_FUNC_TOEPLITZ, key=KEY):
    """A QP that spreads packets over the WQs of `table`."""
    mask = (e.IBV_QP_INIT_ATTR_CREATE_FLAGS | e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_RX_HASH | e.IBV_QP_INIT_ATTR_IND_TABLE)
    conf = RxHashConf(rx_hash_function=function, rx_hash_key_len=len(key), rx_hash_key=key, rx_hash_fields_mask=fields)
    return QPEx(context, QPInitAttrEx(qp_type=e.IBV_QPT_RAW_PACKET, comp_mask=mask, pd=pd, hash_conf=conf, ind_table=table))
