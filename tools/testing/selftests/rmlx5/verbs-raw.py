# SPDX-License-Identifier: Apache-2.0 OR MIT
"""QPs for raw packets, flow rules and work queues: what is refused, who gets a frame, what is left.

usage: verbs-raw.py DEVICE refusals             prints a name and an errno a line
       verbs-raw.py DEVICE frames INTERFACE     prints who got which frame
       verbs-raw.py DEVICE matched INTERFACE    the same for rules by matchers
       verbs-raw.py DEVICE hold                 makes one of everything, prints a line, and waits for its end
       verbs-raw.py DEVICE make                 makes a QP for raw packets
"""

import signal
import socket
import sys
import time

from pyverbs.cq import CQ, CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.device import Context
from pyverbs.flow import Flow, FlowAttr
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.providers.mlx5.dr_action import DrActionDrop, DrActionQp, DrActionTag
from pyverbs.providers.mlx5.dr_domain import DrDomain
from pyverbs.providers.mlx5.dr_matcher import DrMatcher
from pyverbs.providers.mlx5.dr_rule import DrRule
from pyverbs.providers.mlx5.dr_table import DrTable
from pyverbs.providers.mlx5.mlx5dv_flow import Mlx5FlowMatchParameters
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.spec import EthSpec, Ipv4ExtSpec, Ipv6Spec, TcpUdpSpec
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wq import WQAttr
from pyverbs.wr import SGE, RecvWR, SendWR
import pyverbs.enums as e
import pyverbs.providers.mlx5.mlx5_enums as dve

import verbs_wq
from verbs_wq import KEY, TCP, UDP, V4, V6

GROUP = "01:50:56:19:20:a7"
# Free for experiments.
ETHERTYPE = 0x88B5
SOURCE, OTHER = bytes.fromhex("248a07a528c8"), bytes.fromhex("248a07a528c9")
LENGTH = 60


class Side:
    """A context with a QP for raw packets that is ready."""

    # Tag of the last completion of a side that sees them.
    tag = 0

    def __init__(self, device, srq=False, tagged=False):
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.cq = CQEX(self.context, CqInitAttrEx(cqe=16, wc_flags=e.IBV_WC_EX_WITH_FLOW_TAG)) if tagged else CQ(self.context, 16)
        self.mr = MR(self.pd, 2048, e.IBV_ACCESS_LOCAL_WRITE)
        self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=8))) if srq else None
        self.qp = QP(self.pd, self.attributes(e.IBV_QPT_RAW_PACKET), QPAttr(port_num=1))

    def attributes(self, kind):
        return QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, srq=self.srq, cap=QPCap(max_send_wr=8, max_recv_wr=8))

    def rule(self, specs, qp=None, **attributes):
        attr = FlowAttr(num_of_specs=len(specs), **{"port": 1, **attributes})
        attr.specs.extend(specs)
        return Flow(qp or self.qp, attr)

    def receive(self):
        self.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(self.mr.buf, 2048, self.mr.lkey)]))

    def send(self, mark, source=SOURCE):
        frame = bytes.fromhex(GROUP.replace(":", "")) + source + ETHERTYPE.to_bytes(2, "big") + bytes([mark])
        self.mr.write(frame.ljust(LENGTH, b"\0"), LENGTH)
        self.qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(self.mr.buf, LENGTH, self.mr.lkey)]))
        self.completion()

    def poll(self):
        if isinstance(self.cq, CQEX):
            return self.poll_tagged()
        count, done = self.cq.poll()
        if count and done[0].status != e.IBV_WC_SUCCESS:
            raise SystemExit(f"a completion with status {done[0].status}")
        return count

    def poll_tagged(self):
        if self.cq.start_poll(PollCqAttr()):
            return 0
        if self.cq.status != e.IBV_WC_SUCCESS:
            raise SystemExit(f"a completion with status {self.cq.status}")
        self.tag = self.cq.read_flow_tag()
        self.cq.end_poll()
        return 1

    def completion(self):
        end = time.monotonic() + 60
        while not self.poll():
            if time.monotonic() > end:
                raise SystemExit("no completion")

    def wq(self, **attributes):
        return verbs_wq.new(self.context, self.pd, self.cq, **attributes)

    def hashing(self, table, **how):
        return verbs_wq.hashing(self.context, self.pd, table, **how)

    def table(self):
        return verbs_wq.table(self.context, [verbs_wq.ready(self.wq()) for _ in range(2)])


def refusals(device):
    side = Side(device)
    table = side.table()
    hashing = side.hashing(table)
    datagrams = QP(side.pd, side.attributes(e.IBV_QPT_UD))
    group = EthSpec(dst_mac=GROUP)
    v4 = Ipv4ExtSpec(dst_ip="2.2.2.2")

    def moved(*states):
        for state in states:
            side.qp.modify(QPAttr(qp_state=state, port_num=1), e.IBV_QP_STATE | (e.IBV_QP_PORT if state == e.IBV_QPS_INIT else 0))

    def state(expected):
        attr, _ = side.qp.query(e.IBV_QP_STATE)
        if attr.qp_state != expected:
            raise SystemExit(f"the QP is in state {attr.qp_state}, not {expected}")

    cases = [
        ("rule", lambda: side.rule([group], priority=15)),
        ("priority", lambda: side.rule([group], priority=16)),
        ("everything", lambda: side.rule([])),
        ("hash", lambda: side.rule([group], qp=hashing)),
        ("port", lambda: side.rule([group], port=2)),
        ("flags", lambda: side.rule([group], flags=1)),
        ("trap", lambda: side.rule([group], flags=2)),
        ("egress", lambda: side.rule([group], flags=4)),
        ("default", lambda: side.rule([], flow_type=1)),
        ("kind", lambda: side.rule([], flow_type=9)),
        ("datagrams", lambda: side.rule([group], qp=datagrams)),
        ("inner", lambda: side.rule([EthSpec(is_inner=1, dst_mac=GROUP)])),
        ("version", lambda: side.rule([EthSpec(ether_type=0x86DD), v4])),
        ("versions", lambda: side.rule([EthSpec(ether_type=0x0800), Ipv6Spec(src_ip="a0a1::1", dst_ip="b0b1::1")])),
        ("ttl", lambda: side.rule([Ipv4ExtSpec(dst_ip="2.2.2.2", ttl=1)])),
        ("mask", lambda: side.rule([EthSpec(dst_mac=GROUP, dst_mac_mask="01:00:00:00:00:00")])),
        ("protocol", lambda: side.rule([Ipv4ExtSpec(proto=6), TcpUdpSpec(e.IBV_FLOW_SPEC_UDP, dst_port=7)])),
        ("ports", lambda: side.rule([v4, TcpUdpSpec(e.IBV_FLOW_SPEC_UDP, dst_port=7)])),
        ("srq", lambda: Side(device, srq=True)),
        ("strip", lambda: side.wq(create_flags=e.IBV_WQ_FLAGS_CVLAN_STRIPPING, comp_mask=e.IBV_WQ_INIT_ATTR_FLAGS)),
        ("state", lambda: side.wq().modify(WQAttr(attr_mask=e.IBV_WQ_ATTR_STATE | e.IBV_WQ_ATTR_CURR_STATE,
                                                  wq_state=e.IBV_WQS_RDY, curr_wq_state=e.IBV_WQS_ERR))),
        ("fields", lambda: side.hashing(table, fields=V4 | V6)),
        ("both", lambda: side.hashing(table, fields=V4 | TCP | UDP)),
        ("nothing", lambda: side.hashing(table, fields=0)),
        ("function", lambda: side.hashing(table, function=2)),
        ("key", lambda: side.hashing(table, key=KEY[1:])),
        ("modified", lambda: hashing.modify(QPAttr(qp_state=e.IBV_QPS_INIT), e.IBV_QP_STATE)),
        ("queried", lambda: hashing.query(e.IBV_QP_STATE)),
        ("drained", lambda: moved(e.IBV_QPS_SQD)),
        ("again", lambda: (moved(e.IBV_QPS_ERR), state(e.IBV_QPS_ERR), moved(e.IBV_QPS_RESET), state(e.IBV_QPS_RESET),
                           moved(e.IBV_QPS_INIT, e.IBV_QPS_RTR, e.IBV_QPS_RTS), state(e.IBV_QPS_RTS))),
    ]
    for name, case in cases:
        try:
            made = case()
            if hasattr(made, "close"):
                made.close()
            print(name, 0)
        except PyverbsRDMAError as error:
            # Some of pyverbs' own are negative.
            print(name, abs(error.error_code))


class Ground:
    """Two sides that wait for frames, one that sends them, and the interface."""

    def __init__(self, device, interface):
        self.listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
        self.listener.bind((interface, ETHERTYPE))
        self.sender, self.first, self.second = Side(device), Side(device), Side(device, tagged=True)
        self.sides = (self.first, self.second)
        for side in self.sides:
            for _ in range(8):
                side.receive()

    def heard(self, mark, timeout):
        self.listener.settimeout(timeout)
        try:
            while self.listener.recv(2048)[14] != mark:
                pass
            return True
        except TimeoutError:
            return False

    def round(self, mark, receivers, interface_too, source=SOURCE):
        """Sends a frame and prints who gets it, as often as they do."""
        self.sender.send(mark, source)
        for side in receivers:
            side.completion()
        # Whoever gets it too has it by now, or soon.
        names = ["interface"] if self.heard(mark, 60 if interface_too else 0.5) else []
        for name, side in zip(("first", "second"), self.sides):
            names += [name] * ((side in receivers) + side.poll())
        print(mark, *names)


def frames(device, interface):
    ground = Ground(device, interface)
    first, second, sides, round = ground.first, ground.second, ground.sides, ground.round

    group = EthSpec(dst_mac=GROUP)
    kind = EthSpec(ether_type=ETHERTYPE)
    round(1, (), True)
    mine = first.rule([group])
    others = second.rule([group])
    round(2, sides, False)
    others.close()
    round(3, (first,), False)
    # Rules that are not for groups only come first, by priority.
    later = second.rule([kind], priority=3)
    round(4, (second,), False)
    earlier = first.rule([kind], priority=2)
    round(5, (first,), False)
    earlier.close()
    later.close()
    round(6, (first,), False)
    mine.close()
    round(7, (), True)


class Matchers:
    """Rules of a side by matchers of source addresses; libmlx5 makes them of matchers when tables are the first of all."""

    def __init__(self, side):
        self.side = side
        self.table = DrTable(DrDomain(side.context, dve.MLX5DV_DR_DOMAIN_TYPE_NIC_RX), 0)
        self.matchers = {}

    def rule(self, source, priority=0, tag=None, drop=False):
        if priority not in self.matchers:
            mask = Mlx5FlowMatchParameters(8, b"\xff" * 6 + bytes(2))
            self.matchers[priority] = DrMatcher(self.table, priority, 1, mask)
        actions = [DrActionDrop() if drop else DrActionQp(self.side.qp)]
        if tag is not None:
            actions.append(DrActionTag(tag))
        return DrRule(self.matchers[priority], Mlx5FlowMatchParameters(8, source + bytes(2)), actions), actions

    def refused(self, name, **values):
        try:
            self.rule(**values)
            print(name, 0)
        except PyverbsRDMAError as error:
            print(name, abs(error.error_code))


def end(rule):
    """A rule, then what it was made of."""
    for part in rule[0], *rule[1]:
        part.close()


def matched(device, interface):
    ground = Ground(device, interface)
    round, sides = ground.round, ground.sides
    first, second = (Matchers(side) for side in sides)
    one = first.rule(SOURCE)
    round(1, sides[:1], False)
    round(2, (), True, OTHER)
    # Each once, whoever has said it how often.
    again, others = first.rule(SOURCE), second.rule(SOURCE)
    round(3, sides, False)
    second.refused("tag", source=SOURCE, tag=7)
    second.refused("drop", source=SOURCE, drop=True)
    end(others)
    end(one)
    round(4, sides[:1], False)
    end(again)
    round(5, (), True)
    # Lower priorities are asked first.
    nobody, later = first.rule(SOURCE, priority=2, drop=True), second.rule(SOURCE, priority=3, tag=0x123)
    round(6, (), False)
    end(nobody)
    round(7, sides[1:], False)
    print("tag", hex(ground.second.tag))
    end(later)
    round(8, (), True)


def hold(device):
    side = Side(device)
    matchers = Matchers(side)
    # Not of the frames that others send.
    matched = matchers.rule(bytes(6)), matchers.rule(OTHER, drop=True)
    rules = [side.rule([EthSpec(dst_mac=GROUP)]), side.rule([EthSpec(dst_mac=GROUP)], qp=side.hashing(side.table()))]
    print(len(rules) + len(matched), "rules", flush=True)
    signal.pause()


def main():
    device, what, *rest = sys.argv[1:]
    {"refusals": refusals, "frames": frames, "matched": matched, "hold": hold, "make": Side}[what](device, *rest)


main()
