# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A context whose device goes: its program is told by IBV_EVENT_DEVICE_FATAL, and can only close.

usage: verbs-fatal.py DEVICE        prints "ready", and fails unless the event comes and verbs are EIO afterwards
"""
import errno
import os
import select
import struct
import sys
import time

import pyverbs.enums as e

import uverbs

LIMIT = 120
session = uverbs.Session(sys.argv[1])
pd = session.pd()
qp = session.qp(pd, session.cq())
print("ready", flush=True)

end = time.monotonic() + LIMIT
kind = None
while kind != e.IBV_EVENT_DEVICE_FATAL:
    if not select.select([session.context["async_fd"]], [], [], max(0, end - time.monotonic()))[0]:
        sys.exit(f"no event in {LIMIT} s; the last one was {kind}")
    element, kind = struct.unpack("=QII", os.read(session.context["async_fd"], 16))[:2]
    # The port has its say, too.
    if kind != e.IBV_EVENT_DEVICE_FATAL and kind < e.IBV_EVENT_PORT_ACTIVE:
        sys.exit(f"an event of type {kind} of {element:#x}")
for what, values in [("alloc_pd", {}), ("reg_mr", session.mr_values(pd)), ("query_qp", {"qp": qp, "mask": 1})]:
    code = session.attempt(what, **values)[0]
    if code != errno.EIO:
        sys.exit(f"{what}: {uverbs.name_of(code)} instead of EIO")
session.close()
