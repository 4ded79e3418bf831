# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Asynchronous events of a context: each has the type, and names the object or the port, that it is about.

usage: verbs-async.py DEVICE

Reads the file of events itself (struct ib_uverbs_async_event_desc in include/uapi/rdma/ib_user_verbs.h): `element` is the
`user_handle` that an object was made with, or the number of a port.
"""
import os
import select
import struct
import subprocess
import sys
import time

import pyverbs.enums as e

import uverbs

LIMIT = 60
# Bits of ibv_qp_attr_mask: state, access flags, partition key, port.
STATE, ACCESS, PKEY, PORT = 1 << 0, 1 << 3, 1 << 4, 1 << 5
# States of a QP.
INIT, ERROR = 1, 6

session = uverbs.Session(sys.argv[1])
pd = session.pd()
cq = session.cq()


def card(words):
    subprocess.run(["sh", "-c", f". ./ktap.sh; host card 0 {words}"], check=True, stdout=subprocess.DEVNULL)


def expect(what, element, kind):
    """The event comes, and none before it that names the element with another type."""
    end = time.monotonic() + LIMIT
    seen = []
    while select.select([session.context["async_fd"]], [], [], max(0, end - time.monotonic()))[0]:
        seen.append(struct.unpack("=QII", os.read(session.context["async_fd"], 16))[:2])
        if seen[-1] == (element, kind):
            print(f"{what}: type {kind} of {element:#x}")
            return
        # A port has several things to say, about its GIDs too.
        if seen[-1][0] == element and kind < e.IBV_EVENT_PORT_ACTIVE:
            break
    sys.exit(f"{what}: wanted {(element, kind)}, got {seen}")


def ready_qp(handle, **values):
    code, qp = session.attempt("create_qp", **session.qp_values(pd, cq, user_handle=handle, **values))
    if code:
        sys.exit(f"QP: {uverbs.name_of(code)}")
    code, _ = session.attempt("modify_qp", qp=qp["qp"], mask=STATE | ACCESS | PKEY | PORT, state=INIT, port=1)
    if code:
        sys.exit(f"QP to INIT: {uverbs.name_of(code)}")
    return qp


other = ready_qp(0x1111)
broken = ready_qp(0x1234567890)
card(f"inject qp-context qpn={broken['qpn']}")
expect("a QP whose context is spoilt", 0x1234567890, e.IBV_EVENT_QP_FATAL)

srq = session.srq(pd, user_handle=0x55)
last = ready_qp(0x777, srq=srq, is_srq=1, recv_wr=0, recv_sge=0, receives=0, shift=0)
session.attempt("modify_qp", qp=last["qp"], mask=STATE, state=ERROR)
expect("a QP in error that takes no more from its SRQ", 0x777, e.IBV_EVENT_QP_LAST_WQE_REACHED)

# The interface gets an address and loses it.
interface = os.listdir(f"/sys/class/infiniband/{sys.argv[1]}/device/net")[0]
for word in ("add", "del"):
    subprocess.run(["ip", "addr", word, "198.51.100.7/32", "dev", interface], check=True)
    expect(f"GID by ip addr {word}", 1, e.IBV_EVENT_GID_CHANGE)

card("link down")
expect("the cable is out", 1, e.IBV_EVENT_PORT_ERR)
card("link up")
expect("the cable is in", 1, e.IBV_EVENT_PORT_ACTIVE)
