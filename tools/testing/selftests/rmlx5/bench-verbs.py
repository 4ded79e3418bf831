# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Calls each verb many times between two marks of the bench.

usage: bench-verbs.py DEVICE GID-INDEX NAME START END...

NAME is that of the columns, START and END are bounds of the driver's text.
"""

import sys

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
import pyverbs.enums as e

from bench_marks import Bench, memory
import bench_objects
from bench_qps import Qps, new_qp

device, gid_index = sys.argv[1], int(sys.argv[2])
bench = Bench(sys.argv[3], sys.argv[4:])

bench.both("context", lambda _: Context(name=device), 16)
context = Context(name=device)
bench_objects.rows(bench, device, context, gid_index)

pd, cq = PD(context), CQ(context, 1024)
bench.mark("memory", "begin")
of_cq, of_qp = memory(lambda: CQ(context, 15)), memory(lambda: new_qp(pd, cq, 4))
of_mr = memory(lambda: MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE))
bench.mark("memory", "end", f"kernel_bytes_a_CQ={of_cq}", f"kernel_bytes_a_QP={of_qp}", f"kernel_bytes_a_MR={of_mr}")

Qps(bench, context, pd, gid_index).rows(device)
