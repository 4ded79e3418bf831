// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ALLOC, DEALLOC and QUERY_FLOW_COUNTER. Source of the use: core/fs_counters.c.

use crate::{
    cmd::{Command, Refused},
    flow::counter::FlowCounter,
    hca::Hca,
    refuse,
    table::Object,
    vport::Traffic,
};
use mlx5_hw::{
    field,
    field::{bytes_of, Mut, Ref},
    ifc, raw, span,
};

/// A query of several counters begins at a multiple of this (`mlx5_fc_stats_query_all_counters`
/// aligns so).
const ALIGNMENT: u32 = 4;

/// ALLOC_FLOW_COUNTER.
pub struct AllocFlowCounter;

impl Command for AllocFlowCounter {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ALLOC_FLOW_COUNTER;
    type In = ifc::alloc_flow_counter_in;
    type Out = ifc::alloc_flow_counter_out;

    fn footprint(_input: Ref<'_, Self::In>) -> u64 {
        FlowCounter::default().footprint()
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let bulk = input.get(field!(alloc_flow_counter_in, flow_counter_bulk));
        if bulk & !hca.caps.get(field!(cmd_hca_cap, flow_counter_bulk_alloc)) != 0 {
            refuse!(BadParam, 1, "bulk of flow counters {bulk:#x}");
        }
        if input.flag(field!(alloc_flow_counter_in, flow_counter_bulk_log_size)) {
            refuse!(BadParam, 2, "bulk of flow counters by size");
        }
        let id = hca.flow_counters.insert(FlowCounter::default())?;
        output.set(field!(alloc_flow_counter_out, flow_counter_id), id.into());
        Ok(())
    }
}

/// DEALLOC_FLOW_COUNTER.
pub struct DeallocFlowCounter;

impl Command for DeallocFlowCounter {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DEALLOC_FLOW_COUNTER;
    type In = ifc::dealloc_flow_counter_in;
    type Out = ifc::dealloc_flow_counter_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let id = input.get32(field!(dealloc_flow_counter_in, flow_counter_id));
        hca.flow_counters.remove(id)?;
        Ok(())
    }
}

/// QUERY_FLOW_COUNTER: one counter, or a range in which numbers without counter read as zero.
pub struct QueryFlowCounter;

impl Command for QueryFlowCounter {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_FLOW_COUNTER;
    type In = ifc::query_flow_counter_in;
    type Out = ifc::query_flow_counter_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let first = input.get32(field!(query_flow_counter_in, flow_counter_id));
        let count = input.get32(field!(query_flow_counter_in, num_of_counters));
        if count == 0 {
            hca.flow_counters.find(first)?;
        } else {
            let most = hca.caps.pow(field!(cmd_hca_cap, log_max_flow_counter_bulk));
            if u64::from(count) > most || first % ALIGNMENT != 0 {
                refuse!(
                    BadParam,
                    1,
                    "{count} flow counters from {first:#x}: at most {most}, from a multiple of 4"
                );
            }
        }
        let count = count.max(1);
        let room = output.raw(span!(query_flow_counter_out, flow_statistics));
        let step = bytes_of::<ifc::traffic_counter>();
        // CAST: 16 bits.
        if room.len() < count as usize * step {
            refuse!(
                BadOutputLen,
                2,
                "{count} flow counters, room for {} bytes",
                room.len()
            );
        }
        let clear = input.flag(field!(query_flow_counter_in, clear));
        for (id, place) in (first..first.saturating_add(count)).zip(room.chunks_exact_mut(step)) {
            let Some(counter) = hca.flow_counters.get_mut(id) else {
                continue;
            };
            let Traffic { packets, octets } = counter.traffic;
            if let Some(mut place) = Mut::<ifc::traffic_counter>::new(place) {
                place
                    .set(field!(traffic_counter, packets), packets)
                    .set(field!(traffic_counter, octets), octets);
            }
            if clear {
                counter.traffic = Traffic::default();
            }
        }
        Ok(())
    }
}
