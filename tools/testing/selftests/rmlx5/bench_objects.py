# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What verbs cost that are about neither QPs nor completions: a row of the bench each."""

import os

from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr, SrqInitAttrEx
from pyverbs.xrcd import XRCD, XRCDInitAttr
import pyverbs.enums as e

import uverbs
import verbs_wq

LOCAL = e.IBV_ACCESS_LOCAL_WRITE


def rows(bench, device, context, gid_index):
    pd, cq = PD(context), CQ(context, 1024)
    bench.both("pd", lambda _: PD(context))
    queries(bench, context, gid_index)
    cqs(bench, device, context)
    regions(bench, context, pd)
    bench.both("mw-type1", lambda _: MW(pd, e.IBV_MW_TYPE_1))
    bench.both("mw-type2", lambda _: MW(pd, e.IBV_MW_TYPE_2))
    srqs(bench, context, pd, cq)
    route = GlobalRoute(dgid=context.query_gid(1, gid_index), sgid_index=gid_index, hop_limit=64)
    bench.both("ah", lambda _: AH(pd, attr=AHAttr(gr=route, is_global=1, port_num=1)))
    wqs(bench, context, pd, cq)


def queries(bench, context, gid_index):
    bench.measure("query-device", lambda _: context.query_device_ex())
    bench.measure("query-port", lambda _: context.query_port(1))
    bench.measure("query-gid", lambda _: context.query_gid(1, gid_index))
    bench.measure("query-pkey", lambda _: context.query_pkey(1, 0))


def cqs(bench, device, context):
    made = bench.create("cq", lambda _: CQ(context, 255))
    bench.measure("cq-resize", lambda one: one.resize(511), made)
    bench.destroy("cq", made)
    # No function of the library moderates.
    session = uverbs.Session(device)
    cq = session.cq()
    bench.measure("cq-moderate", lambda count: session.call("modify_cq", cq=cq, mask=1, count=count + 1, period=16))
    session.close()


def regions(bench, context, pd):
    others, memory = PD(context), uverbs.map_memory(4096)
    made = bench.create("mr-4k", lambda _: MR(pd, 4096, LOCAL))
    access = LOCAL | e.IBV_ACCESS_REMOTE_WRITE
    bench.measure("mr-4k-rereg-access", lambda one: one.rereg(e.IBV_REREG_MR_CHANGE_ACCESS, access=access), made)
    bench.measure("mr-4k-rereg-pd", lambda one: one.rereg(e.IBV_REREG_MR_CHANGE_PD, pd=others), made)
    move = e.IBV_REREG_MR_CHANGE_TRANSLATION
    bench.measure("mr-4k-rereg-address", lambda one: one.rereg(move, addr=memory, length=4096), made)
    for one in made:
        one.close()
    bench.destroy("mr-4k", [MR(pd, 4096, LOCAL) for _ in made])
    bench.both("mr-1m", lambda _: MR(pd, 1 << 20, LOCAL))


def srqs(bench, context, pd, cq):
    made = bench.create("srq", lambda _: SRQ(pd, SrqInitAttr(SrqAttr(max_wr=63, max_sge=1))))
    bench.measure("srq-limit", lambda one: one.modify(SrqAttr(srq_limit=8), e.IBV_SRQ_LIMIT), made)
    bench.measure("srq-query", lambda one: one.query(), made)
    bench.destroy("srq", made)
    oflags = e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS
    bench.both("xrcd", lambda _: XRCD(context, XRCDInitAttr(oflags, os.O_CREAT, -1)))
    xrcd = XRCD(context, XRCDInitAttr(oflags, os.O_CREAT, -1))

    def extended(_):
        attr = SrqInitAttrEx(max_wr=63)
        attr.srq_type, attr.pd, attr.xrcd, attr.cq = e.IBV_SRQT_XRC, pd, xrcd, cq
        attr.comp_mask = (e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD | e.IBV_SRQ_INIT_ATTR_CQ | e.IBV_SRQ_INIT_ATTR_XRCD)
        return SRQ(context, attr)

    bench.both("xrc-srq", extended)
    xrcd.close()


def wqs(bench, context, pd, cq):
    made = bench.create("wq", lambda _: verbs_wq.new(context, pd, cq))
    bench.measure("wq-to-ready", verbs_wq.ready, made)
    bench.both("wq-table", lambda _: verbs_wq.table(context, made[:2]))
    table = verbs_wq.table(context, made[:2])
    bench.both("hashing-qp", lambda _: verbs_wq.hashing(context, pd, table))
    table.close()
    bench.destroy("wq", made)
