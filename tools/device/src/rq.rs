// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ethernet receive queues.

use mlx5_hw::{
    field,
    field::{bytes_of, Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    refuse,
    table::{Kind, Object},
    wq::{State, Wq, NO_PD},
};

const CONTEXT: usize = bytes_of::<ifc::rqc>();

/// One of them. TIRs and RQTs hold it; it holds its CQ, its PD and its counter set.
#[derive(Debug)]
pub struct Rq {
    /// WQEs: data segments, 16 bytes each.
    pub wq: Wq,
    /// CQ of its completions.
    pub cqn: u32,
    /// Counts frames for which no WQE was posted; 0 for none.
    pub counter_set: u32,
    /// VLAN stripping is off.
    pub keep_vlan: bool,
    /// WQEs complete as flushed in the error state (else they never do).
    pub flush_in_error: bool,
    /// User index for completions.
    pub user_index: u32,
    /// State.
    pub state: State,
    /// WQEs consumed, free running.
    pub consumer: u16,
    context: [u8; CONTEXT],
}

impl Object for Rq {
    const KIND: Kind = Kind::Rq;

    fn footprint(&self) -> u64 {
        self.wq.footprint()
    }
}

impl Rq {
    /// One line for a dump.
    pub fn describe(&self, rqn: u32) -> String {
        format!(
            "RQ {rqn:#x}: {:?} entries {} ci {:#x} CQ {:#x}",
            self.state,
            self.wq.entries(),
            self.consumer,
            self.cqn
        )
    }
}

fn check_counter_set(hca: &Hca, set: u32) -> Result<(), Refused> {
    match set {
        0 => Ok(()),
        set => hca.q_counters.find(set).map(drop),
    }
}

/// CREATE_RQ.
pub struct CreateRq;

impl Command for CreateRq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_RQ;
    type In = ifc::create_rq_in;
    type Out = ifc::create_rq_out;

    fn footprint(input: Ref<'_, Self::In>) -> u64 {
        Wq::footprint_of(input.sub(span!(create_rq_in, ctx.wq)))
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let rqc = input.sub(span!(create_rq_in, ctx));
        for (name, asked) in [
            ("rlky", rqc.flag(field!(rqc, rlky))),
            ("delay_drop_en", rqc.flag(field!(rqc, delay_drop_en))),
            ("hairpin", rqc.flag(field!(rqc, hairpin))),
            ("mem_rq_type", rqc.flag(field!(rqc, mem_rq_type))),
            ("scatter_fcs", rqc.flag(field!(rqc, scatter_fcs))),
        ] {
            if asked {
                refuse!(BadParam, 1, "RQ with {name}");
            }
        }
        let state = rqc.get32(field!(rqc, state));
        if state != raw::MLX5_RQC_STATE_RST {
            refuse!(BadParam, 2, "new RQ in state {state}");
        }
        let format = rqc.get32(field!(rqc, ts_format));
        if format > raw::MLX5_TIMESTAMP_FORMAT_DEFAULT {
            refuse!(BadParam, 3, "RQ with timestamp format {format}");
        }
        let cqn = rqc.get32(field!(rqc, cqn));
        hca.cqs.find(cqn)?;
        let counter_set = rqc.get32(field!(rqc, counter_set_id));
        check_counter_set(hca, counter_set)?;
        let context = rqc.sub(span!(rqc, wq));
        let stride = context.get(field!(wq, log_wq_stride));
        let range = hca.caps.get(field!(cmd_hca_cap, log_min_stride_sz_rq))
            ..=hca.caps.get(field!(cmd_hca_cap, log_max_stride_sz_rq));
        if stride < 4 || !range.contains(&stride) {
            refuse!(BadParam, 4, "RQ with WQEs of 2^{stride} bytes");
        }
        let wq = Wq::parse(hca, context, input.raw(span!(create_rq_in, ctx.wq.pas)))?;
        let pd = wq.pd;
        let mut context = [0; CONTEXT];
        context.copy_from_slice(input.raw(span!(create_rq_in, ctx)));
        let rqn = hca.rqs.insert(Rq {
            wq,
            cqn,
            counter_set,
            keep_vlan: rqc.flag(field!(rqc, vsd)),
            flush_in_error: rqc.flag(field!(rqc, flush_in_error_en)),
            user_index: rqc.get32(field!(rqc, user_index)),
            state: State::Reset,
            consumer: 0,
            context,
        })?;
        hca.cqs.hold(cqn)?;
        if pd != NO_PD {
            hca.pds.hold(pd)?;
        }
        if counter_set != 0 {
            hca.q_counters.hold(counter_set)?;
        }
        output.set(field!(create_rq_out, rqn), rqn.into());
        Ok(())
    }
}

/// Bits of `modify_bitmask`.
mod change {
    pub(super) const VSD: u64 = 1 << 1;
    pub(super) const COUNTER_SET: u64 = 1 << 3;
}

/// MODIFY_RQ.
pub struct ModifyRq;

impl Command for ModifyRq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_RQ;
    type In = ifc::modify_rq_in;
    type Out = ifc::modify_rq_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let rqn = input.get32(field!(modify_rq_in, rqn));
        let rqc = input.sub(span!(modify_rq_in, ctx));
        let rq = hca.rqs.find(rqn)?;
        let state = rq.state.transition(
            &format!("RQ {rqn:#x}"),
            input.get32(field!(modify_rq_in, rq_state)),
            rqc.get32(field!(rqc, state)),
        )?;
        let mask = input.get(field!(modify_rq_in, modify_bitmask));
        if mask & !(change::VSD | change::COUNTER_SET) != 0 {
            refuse!(BadParam, 1, "RQ modification of fields {mask:#x}");
        }
        let old_set = rq.counter_set;
        let mut new_set = old_set;
        if mask & change::COUNTER_SET != 0 {
            new_set = rqc.get32(field!(rqc, counter_set_id));
            check_counter_set(hca, new_set)?;
        }
        if new_set != old_set {
            if new_set != 0 {
                hca.q_counters.hold(new_set)?;
            }
            hca.q_counters.release(old_set);
        }
        let rq = hca.rqs.find_mut(rqn)?;
        rq.counter_set = new_set;
        if mask & change::VSD != 0 {
            rq.keep_vlan = rqc.flag(field!(rqc, vsd));
        }
        rq.state = state;
        match state {
            State::Reset => rq.consumer = 0,
            State::Ready => {}
            State::Error => crate::eth::receive::flush(hca, rqn),
        }
        Ok(())
    }
}

/// DESTROY_RQ.
pub struct DestroyRq;

impl Command for DestroyRq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DESTROY_RQ;
    type In = ifc::destroy_rq_in;
    type Out = ifc::destroy_rq_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let rq = hca.rqs.remove(input.get32(field!(destroy_rq_in, rqn)))?;
        hca.cqs.release(rq.cqn);
        if rq.wq.pd != NO_PD {
            hca.pds.release(rq.wq.pd);
        }
        hca.q_counters.release(rq.counter_set);
        Ok(())
    }
}

/// QUERY_RQ.
pub struct QueryRq;

impl Command for QueryRq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_RQ;
    type In = ifc::query_rq_in;
    type Out = ifc::query_rq_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let rq = hca.rqs.find(input.get32(field!(query_rq_in, rqn)))?;
        output
            .raw(span!(query_rq_out, rq_context))
            .copy_from_slice(&rq.context);
        output.with(span!(query_rq_out, rq_context), |rqc| {
            rqc.set(field!(rqc, state), rq.state.code())
                .set_flag(field!(rqc, vsd), rq.keep_vlan)
                .set(field!(rqc, counter_set_id), rq.counter_set.into())
                .set(field!(rqc, wq.hw_counter), rq.consumer.into());
        });
        Ok(())
    }
}
