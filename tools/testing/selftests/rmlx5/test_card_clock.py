# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Time stamps of completions against the clock of the card: rdma-core's own tests take any number for a time."""

from pyverbs.enums import IBV_QPT_RAW_PACKET as RAW, IBV_QPT_RC as RC
from pyverbs.enums import IBV_WC_EX_WITH_COMPLETION_TIMESTAMP as CYCLES
from pyverbs.enums import IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK as WALL
from pyverbs.providers.mlx5.mlx5dv import Mlx5Context
from tests import test_mlx5_timestamp as theirs
from tests.base import RCResources, RDMATestCase
from tests.test_flow import FlowRes

# Nanoseconds that two conversions may round differently.
ROUNDING = 2


class CardClockTest(RDMATestCase):
    poll_cq_ex_ts = staticmethod(theirs.TimeStampTest.poll_cq_ex_ts)

    def stamped(self, resources, qp_type, kind):
        """The clock before a message, the stamps of both its completions, the clock afterwards."""
        self.qp_type, self.send_ts, self.recv_ts = qp_type, kind, kind
        self.create_players(theirs.timestamp_res_cls(resources), qp_type=qp_type, send_ts=kind, recv_ts=kind)
        if qp_type == RAW:
            self.flow = self.server.create_flow([self.server.create_eth_spec()])
        before = self.client.ctx.query_rt_values_ex()[1]
        theirs.TimeStampTest.ts_traffic(self)
        after = self.client.ctx.query_rt_values_ex()[1]
        self.assertLess(before, after)
        return before, (self.client.timestamp, self.server.timestamp), after

    def check_cycles(self, resources, qp_type):
        before, stamps, after = self.stamped(resources, qp_type, CYCLES)
        for stamp in stamps:
            self.assertLess(before, stamp)
            self.assertLess(stamp, after)

    def check_wall(self, resources, qp_type):
        before, stamps, after = self.stamped(resources, qp_type, WALL)
        before, after = (Mlx5Context.device_timestamp_to_ns(self.client.ctx, clock) for clock in (before, after))
        for stamp in stamps:
            self.assertLess(before - ROUNDING, stamp)
            self.assertLess(stamp, after + ROUNDING)

    def test_cycles_rc(self):
        self.check_cycles(RCResources, RC)

    def test_cycles_raw(self):
        self.check_cycles(FlowRes, RAW)

    def test_wall_clock_rc(self):
        self.check_wall(RCResources, RC)

    def test_wall_clock_raw(self):
        self.check_wall(FlowRes, RAW)
