# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What verbs cost that are about QPs, completions and events: a row of the bench each."""

import os

from pyverbs.cq import CQ, CompChannel
from pyverbs.flow import Flow, FlowAttr
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.spec import EthSpec
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
from pyverbs.xrcd import XRCD, XRCDInitAttr
import pyverbs.enums as e

from bench_marks import COUNT
import uverbs
import verbs_rc

# QPs that there are while completions are counted, each with a CQ of its own.
CROWDS = 1, 64, 1024, 4096
COMPLETIONS = 256
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
# Any key of datagrams.
QKEY = 0x11111111
# User and kernel agree on it: datagrams.
UD = 4


def new_qp(pd, cq, requests=128, kind=e.IBV_QPT_RC, rcq=None, srq=None):
    cap = QPCap(max_send_wr=requests, max_recv_wr=0 if srq else requests, max_send_sge=1, max_recv_sge=0 if srq else 1)
    return QP(pd, QPInitAttr(qp_type=kind, scq=cq, rcq=rcq or cq, srq=srq, cap=cap))


class Qps:
    """QPs that are connected to themselves, by a GID of the interface."""

    def __init__(self, bench, context, pd, gid_index):
        self.bench, self.context, self.pd, self.gid_index = bench, context, pd, gid_index
        self.gid = context.query_gid(1, gid_index)
        self.cq = CQ(context, 1024)
        self.mr = MR(pd, 4096, ACCESS | e.IBV_ACCESS_MW_BIND)

    def attributes(self, qp):
        return verbs_rc.attributes(qp, self.gid, self.gid_index, ACCESS)

    def connected(self, *how, **more):
        qp = new_qp(self.pd, *how, **more)
        qp.to_rts(self.attributes(qp))
        return qp

    def rows(self, device):
        self.connections()
        self.datagrams(device)
        self.packets()
        self.extended()
        self.windows()
        self.events()
        self.completions()

    def connections(self):
        bench = self.bench

        def state(qp, new):
            qp.modify(QPAttr(qp_state=new), e.IBV_QP_STATE)

        def timer(qp):
            attr = QPAttr(qp_state=e.IBV_QPS_RTS)
            attr.min_rnr_timer = 10
            qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_MIN_RNR_TIMER)

        made = bench.create("qp", lambda _: new_qp(self.pd, self.cq))
        bench.measure("qp-to-init", lambda qp: qp.to_init(self.attributes(qp)), made)
        bench.measure("qp-to-rtr", lambda qp: qp.to_rtr(self.attributes(qp)), made)
        bench.measure("qp-to-rts", lambda qp: qp.to_rts(self.attributes(qp)), made)
        bench.measure("qp-in-rts", timer, made)
        bench.measure("qp-query", lambda qp: qp.query(e.IBV_QP_STATE), made)
        bench.measure("qp-to-error", lambda qp: state(qp, e.IBV_QPS_ERR), made)
        bench.measure("qp-to-reset", lambda qp: state(qp, e.IBV_QPS_RESET), made)
        # As programs do it.
        for qp in made:
            qp.to_rts(self.attributes(qp))
        bench.destroy("qp", made)

    def datagrams(self, device):
        attr = QPAttr(port_num=1)
        attr.qkey = QKEY
        made = self.bench.create("ud-qp", lambda _: new_qp(self.pd, self.cq, kind=e.IBV_QPT_UD))
        self.bench.measure("ud-qp-reset-to-rts", lambda qp: qp.to_rts(attr), made)
        self.bench.destroy("ud-qp", made)
        # Nothing of pyverbs joins a group.
        session = uverbs.Session(device)
        qp = session.qp(session.pd(), session.cq(), kind=UD)
        groups = [bytes.fromhex("ff0e") + bytes(12) + number.to_bytes(2, "big") for number in range(1, COUNT + 2)]
        self.bench.measure("multicast-attach", lambda gid: session.call("attach_mcast", qp=qp, gid=gid), groups)
        self.bench.measure("multicast-detach", lambda gid: session.call("detach_mcast", qp=qp, gid=gid), groups)
        session.close()

    def packets(self):
        made = self.bench.create("raw-qp", lambda _: new_qp(self.pd, self.cq, kind=e.IBV_QPT_RAW_PACKET))
        self.bench.measure("raw-qp-reset-to-rts", lambda qp: qp.to_rts(QPAttr(port_num=1)), made)
        self.bench.measure("raw-qp-query", lambda qp: qp.query(e.IBV_QP_STATE), made)
        qp = made.pop()

        def rule(number):
            attr = FlowAttr(num_of_specs=1, port=1)
            attr.specs.append(EthSpec(dst_mac=f"01:50:56:19:21:{number:02x}"))
            return Flow(qp, attr)

        # What the first rule needs stays.
        first = rule(0xFF)
        self.bench.both("flow", rule)
        first.close()
        self.bench.destroy("raw-qp", made + [qp])

    def extended(self):
        oflags = e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS
        xrcd = XRCD(self.context, XRCDInitAttr(oflags, os.O_CREAT, -1))
        target = QPInitAttrEx(qp_type=e.IBV_QPT_XRC_RECV, comp_mask=e.IBV_QP_INIT_ATTR_XRCD, xrcd=xrcd)
        self.bench.both("xrc-target", lambda _: QPEx(self.context, target))
        cap = QPCap(max_send_wr=128, max_recv_wr=0, max_recv_sge=0)
        initiator = QPInitAttrEx(qp_type=e.IBV_QPT_XRC_SEND, comp_mask=e.IBV_QP_INIT_ATTR_PD, pd=self.pd, scq=self.cq, cap=cap)
        self.bench.both("xrc-initiator", lambda _: QPEx(self.context, initiator))
        xrcd.close()

    def polled(self, post):
        post()
        while True:
            count, done = self.cq.poll(1)
            if count:
                break
        if done[0].status != e.IBV_WC_SUCCESS:
            raise SystemExit(f"a completion with status {done[0].status}")

    def windows(self):
        qp, window = self.connected(self.cq, 4), MW(self.pd, e.IBV_MW_TYPE_1)
        request = MWBind(MWBindInfo(self.mr, self.mr.buf, 64, e.IBV_ACCESS_REMOTE_WRITE), e.IBV_SEND_SIGNALED)
        self.bench.measure("mw-bind-and-poll", lambda _: self.polled(lambda: qp.bind_mw(window, request)))
        window.close()
        qp.close()

    def events(self):
        """Asynchronous ones: a send takes a receive of an SRQ, which then has fewer than it was told to have."""
        entry = [SGE(self.mr.buf, 8, self.mr.lkey)]
        send = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=entry, send_flags=e.IBV_SEND_SIGNALED)
        # Completions of the receives, which nobody waits for.
        receives = CQ(self.context, COUNT + 1)

        def armed():
            srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=7, max_sge=1)))
            for _ in range(2):
                srq.post_recv(RecvWR(num_sge=1, sg=entry))
            qp = self.connected(self.cq, 4, rcq=receives, srq=srq)
            srq.modify(SrqAttr(srq_limit=2), e.IBV_SRQ_LIMIT)
            return srq, qp

        def event(pair):
            self.polled(lambda: pair[1].post_send(send))
            # A port may have something to say too.
            while (one := self.context.get_async_event()).event_type != e.IBV_EVENT_SRQ_LIMIT_REACHED:
                one.ack()
            one.ack()

        pairs = [armed() for _ in range(COUNT + 1)]
        self.bench.measure("srq-limit-event", event, pairs)
        for srq, qp in pairs:
            qp.close()
            srq.close()
        receives.close()

    def completions(self):
        channel, members = CompChannel(self.context), []

        def member():
            cq = CQ(self.context, 15, None, channel, 0)
            return cq, self.connected(cq, 4)

        for crowd in CROWDS:
            members += [member() for _ in range(crowd - len(members))]
            # From all over the crowd; the first one before the marks.
            turns = [members[turn * 61 % crowd] for turn in range(COMPLETIONS + 1)]
            event = lambda one: verbs_rc.write_by_event(one[1], self.mr, one[0], channel)
            self.bench.measure(f"completion-of-{crowd:04}", event, turns)
        qp = self.connected(self.cq, 4)
        write = lambda _: self.polled(lambda: verbs_rc.write(qp, self.mr))
        self.bench.measure("post-and-poll", write, range(COMPLETIONS + 1))
