# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Calls each verb many times between two marks of the bench.

usage: bench-verbs.py DEVICE GID-INDEX NAME START END...

A mark is a request to the test bench, as `host mark` of ktap.sh makes it. NAME is that of the columns, START and END are
bounds of the driver's text.
"""

import sys

from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, SendWR
import pyverbs.enums as e

import verbs_rc

device, gid_index, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
bounds = sys.argv[4:]
# Objects of a row, and of a row about memory.
COUNT, MANY = 64, 512
# QPs that there are while completions are counted, each with a CQ of its own.
CROWDS = 1, 64, 1024, 4096
COMPLETIONS = 256
PORT = "/dev/virtio-ports/rmlx5.host"


def mark(job, edge, *amounts):
    with open(PORT, "r+b", buffering=0) as port:
        port.write(" ".join(["mark", f"{name}/verbs-{job}/{edge}", *bounds, *amounts]).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            answer += port.read(4096)
    if answer.splitlines()[-1] != b"ok":
        sys.exit(f"mark {job}: {answer.decode()}")


def measure(job, call, objects):
    """Calls once without marks: what is made only once is not counted."""
    objects = list(objects)
    results = [call(objects.pop(0))]
    mark(job, "begin")
    results += [call(one) for one in objects]
    mark(job, "end", f"calls={len(objects)}")
    return results


def both(job, make, count=COUNT):
    made = measure(f"{job}-create", lambda _: make(), range(count + 1))
    measure(f"{job}-destroy", lambda one: one.close(), made)


def kernel_memory():
    """Bytes that are in use and neither a cache's nor a program's; pinned memory is a program's."""
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as caches:
        caches.write("3")
    with open("/proc/meminfo", encoding="ascii") as lines:
        meminfo = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    managed = free = 0
    with open("/proc/zoneinfo", encoding="ascii") as lines:
        for words in map(str.split, lines):
            managed += int(words[1]) if words[0] == "managed" else 0
            # Of the zone, and of each of its CPUs.
            free += int(words[1]) if words[0] in ("nr_free_pages", "count:") else 0
    others = sum(meminfo[one] for one in ("Cached", "Buffers", "AnonPages", "PageTables", "KernelStack"))
    return (managed - free) * 4096 - others * 1024


def memory(make):
    """Bytes of the kernel for an object."""
    first = [make() for _ in range(COUNT)]
    before = kernel_memory()
    made = [make() for _ in range(MANY)]
    bytes_each = (kernel_memory() - before) // MANY
    for one in made + first:
        one.close()
    return max(bytes_each, 0)


def new_qp(cq, requests=128):
    cap = QPCap(max_send_wr=requests, max_recv_wr=requests, max_send_sge=1, max_recv_sge=1)
    return QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap))


def connect(qp):
    """To itself."""
    verbs_rc.connect(qp, gid, gid_index, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)


def complete(member):
    """A write, whose completion is waited for by its event."""
    cq, qp = member
    cq.req_notify()
    write = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(mr.buf, 8, mr.lkey)], send_flags=e.IBV_SEND_SIGNALED)
    write.set_wr_rdma(mr.rkey, mr.buf + 64)
    qp.post_send(write)
    channel.get_cq_event(cq)
    cq.ack_events(1)
    count, done = cq.poll(1)
    if count != 1 or done[0].status != e.IBV_WC_SUCCESS:
        sys.exit(f"{count} completions: {done}")


def poll(member):
    """A write, whose completion is polled for."""
    cq, qp = member
    write = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(mr.buf, 8, mr.lkey)], send_flags=e.IBV_SEND_SIGNALED)
    write.set_wr_rdma(mr.rkey, mr.buf + 64)
    qp.post_send(write)
    while not cq.poll(1)[0]:
        pass


def new_member():
    cq = CQ(context, 15, None, channel, 0)
    qp = new_qp(cq, 4)
    connect(qp)
    return cq, qp


both("context", lambda: Context(name=device), 16)
context = Context(name=device)
gid = context.query_gid(1, gid_index)
route = GlobalRoute(dgid=gid, sgid_index=gid_index, hop_limit=64)
pd = PD(context)
shared = CQ(context, 1024)
both("pd", lambda: PD(context))
both("cq", lambda: CQ(context, 255))
both("mr-4k", lambda: MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE))
both("mr-1m", lambda: MR(pd, 1 << 20, e.IBV_ACCESS_LOCAL_WRITE))
both("srq", lambda: SRQ(pd, SrqInitAttr(SrqAttr(max_wr=63, max_sge=1))))
both("ah", lambda: AH(pd, attr=AHAttr(gr=route, is_global=1, port_num=1)))
qps = measure("qp-create", lambda _: new_qp(shared), range(COUNT + 1))
measure("qp-to-rts", connect, qps)
measure("qp-query", lambda qp: qp.query(e.IBV_QP_STATE), qps)
measure("qp-destroy", lambda qp: qp.close(), qps)
measure("query-device", lambda _: context.query_device(), range(COUNT + 1))
measure("query-port", lambda _: context.query_port(1), range(COUNT + 1))

mark("memory", "begin")
of_cq, of_qp = memory(lambda: CQ(context, 15)), memory(lambda: new_qp(shared, 4))
of_mr = memory(lambda: MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE))
mark("memory", "end", f"kernel_bytes_a_CQ={of_cq}", f"kernel_bytes_a_QP={of_qp}", f"kernel_bytes_a_MR={of_mr}")

mr = MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
channel = CompChannel(context)
members = []
for crowd in CROWDS:
    members += [new_member() for _ in range(crowd - len(members))]
    # From all over the crowd; the first one before the marks.
    turns = [members[turn * 61 % crowd] for turn in range(COMPLETIONS + 1)]
    measure(f"completion-of-{crowd:04}", complete, turns)
measure("post-and-poll", poll, turns)
