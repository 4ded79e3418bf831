# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests by pyverbs share: an RC QP that is connected, and small writes of it; counters, and waiting for them."""

import sys
import time

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.qp import QPAttr
from pyverbs.wr import SGE, SendWR
import pyverbs.enums as e


# Seconds, however slow the machine.
LIMIT = 60


def counter(device, name):
    """What a counter of the port of RDMA device `device` says."""
    with open(f"/sys/class/infiniband/{device}/ports/1/hw_counters/{name}") as file:
        return int(file.read())


def until(what, condition):
    """Waits; ends the program with what `what` says when it takes too long."""
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what()} after {LIMIT} s")
        time.sleep(0.01)


def attributes(qp, gid, index, access, number=None, reads=1, psn=0, **others):
    """What `qp` needs on its way to RTS: to QP `number`, or itself, at `gid` from GID `index`. `reads` at a time each way,
    PSNs from `psn`.

    Path MTU 1024; an acknowledgement is waited for 67 ms, 7 times; a receive for ever, asked for after 0.64 ms. `others`:
    attributes that shall be different.
    """
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = access
    attr.path_mtu = e.IBV_MTU_1024
    attr.dest_qp_num = qp.qp_num if number is None else number
    attr.max_dest_rd_atomic = attr.max_rd_atomic = reads
    attr.min_rnr_timer, attr.rnr_retry = 12, 7
    attr.timeout, attr.retry_cnt = 14, 7
    attr.rq_psn = attr.sq_psn = psn
    route = GlobalRoute(dgid=gid, sgid_index=index, hop_limit=64)
    attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
    for name, value in others.items():
        setattr(attr, name, value)
    return attr


def connect(qp, *how, **more):
    """Brings `qp` to RTS; arguments as for attributes()."""
    qp.to_rts(attributes(qp, *how, **more))


def completion(cq, what="a request"):
    """Takes one good completion that is there; SystemExit when there is none, or another."""
    count, done = cq.poll(1)
    if count != 1 or done[0].status != e.IBV_WC_SUCCESS:
        raise SystemExit(f"{what}: {count} completions: {done}")


def write(qp, mr):
    """Posts a signaled write of 8 bytes within `mr`."""
    request = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(mr.buf, 8, mr.lkey)], send_flags=e.IBV_SEND_SIGNALED)
    request.set_wr_rdma(mr.rkey, mr.buf + 64)
    qp.post_send(request)


def write_by_event(qp, mr, cq, channel, what="a write"):
    """A write whose completion is waited for by its event, which must be of `cq`."""
    cq.req_notify()
    write(qp, mr)
    # An exception when it is another's.
    channel.get_cq_event(cq)
    cq.ack_events(1)
    completion(cq, what)
