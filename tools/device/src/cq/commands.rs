// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CREATE_CQ, DESTROY_CQ, QUERY_CQ, MODIFY_CQ.

use super::{
    footprint, //
    Cq,
    Health,
    Moderation,
    ResizeError,
    Shape,
};
use crate::{
    buffer::Buffer,
    cmd::{Command, Refused}, //
    hca::Hca,
    refuse,
};
use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw,
    ring::Ring,
    span,
};

/// Entry sizes. Source: `CQE_STRIDE_*` in include/linux/mlx5/cq.h.
const STRIDE_64: u32 = 0;
const STRIDE_128: u32 = 1;
const STRIDE_128_PAD: u32 = 2;

const OPMOD_MODERATION: u16 = 0;
const OPMOD_RESIZE: u16 = 1;

const MASK_PERIOD: u32 = raw::MLX5_CQ_MODIFY_PERIOD;
const MASK_COUNT: u32 = raw::MLX5_CQ_MODIFY_COUNT;
const MASK_PERIOD_MODE: u32 = raw::MLX5_CQ_MODIFY_PERIOD_MODE;
const MASK_RESIZE: u32 = raw::MLX5_MODIFY_CQ_MASK_LOG_SIZE
    | raw::MLX5_MODIFY_CQ_MASK_PG_OFFSET
    | raw::MLX5_MODIFY_CQ_MASK_PG_SIZE;

/// Geometry of the ring that a context describes.
struct Geometry {
    ring: Ring,
    wide: bool,
    bytes: u64,
}

fn geometry(hca: &Hca, cqc: Ref<'_, ifc::cqc>) -> Result<Geometry, Refused> {
    let log = cqc.get32(field!(cqc, log_cq_size));
    let most = hca.caps.get(field!(cmd_hca_cap, log_max_cq_sz));
    if u64::from(log) > most {
        refuse!(BadParam, 0x10, "CQ of 2^{log} entries, at most 2^{most}");
    }
    let wide = match cqc.get32(field!(cqc, cqe_sz)) {
        STRIDE_64 => false,
        STRIDE_128 | STRIDE_128_PAD => true,
        code => refuse!(BadParam, 0x11, "entry size code {code}"),
    };
    // CAST: at most 31.
    let Some(ring) = Ring::new(log as u8) else {
        refuse!(BadParam, 0x10, "CQ of 2^{log} entries");
    };
    let bytes = (if wide { 128 } else { 64 }) << log;
    Ok(Geometry { ring, wide, bytes })
}

fn buffer(pas: &[u8], cqc: Ref<'_, ifc::cqc>, bytes: u64) -> Result<Buffer, Refused> {
    Buffer::parse(
        pas,
        cqc.get32(field!(cqc, log_page_size)),
        cqc.get32(field!(cqc, page_offset)),
        bytes,
    )
}

fn moderation(cqc: Ref<'_, ifc::cqc>) -> Moderation {
    // CAST: 12, 16 and 2 bits.
    Moderation {
        period: cqc.get32(field!(cqc, cq_period)) as u16,
        count: cqc.get32(field!(cqc, cq_max_count)) as u16,
        from_cqe: cqc.get32(field!(cqc, cq_period_mode)) == 1,
    }
}

/// CREATE_CQ.
pub struct CreateCq;

impl Command for CreateCq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_CQ;
    type In = ifc::create_cq_in;
    type Out = ifc::create_cq_out;

    fn footprint(input: Ref<'_, Self::In>) -> u64 {
        let log = input.get(field!(create_cq_in, cq_context.log_cq_size));
        let wide = input.get32(field!(create_cq_in, cq_context.cqe_sz)) != STRIDE_64;
        footprint((if wide { 128u64 } else { 64 }) << log)
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let cqc = input.sub(span!(create_cq_in, cq_context));
        if input.flag(field!(create_cq_in, cq_umem_valid)) || cqc.flag(field!(cqc, dbr_umem_valid))
        {
            refuse!(BadParam, 1, "user memory objects are not offered");
        }
        if cqc.flag(field!(cqc, apu_cq)) {
            refuse!(BadParam, 2, "the card has no APU");
        }
        if cqc.flag(field!(cqc, cqe_comp_en)) {
            refuse!(BadParam, 3, "compressed CQEs are not offered");
        }
        if cqc.get32(field!(cqc, cq_period_mode)) > 1 {
            refuse!(BadParam, 4, "period mode 2 is reserved");
        }
        let shape = geometry(hca, cqc)?;
        let record = cqc.get(field!(cqc, dbr_addr));
        if record % 8 != 0 {
            refuse!(BadParam, 5, "doorbell record at {record:#x} is not aligned");
        }
        let eqn = cqc.get32(field!(cqc, c_eqn_or_apu_element));
        hca.eqs.find(eqn)?;
        let uar = cqc.get32(field!(cqc, uar_page));
        hca.uars.find(uar)?;
        let buffer = buffer(input.raw(span!(create_cq_in, pas)), cqc, shape.bytes)?;
        let cq = Cq::new(Shape {
            eqn,
            uar,
            wide: shape.wide,
            collapsed: cqc.flag(field!(cqc, cc)),
            overrun_ignore: cqc.flag(field!(cqc, oi)),
            moderation: moderation(cqc),
            ring: shape.ring,
            buffer,
            record,
        });
        let cqn = hca.cqs.insert(cq)?;
        hca.eqs.hold(eqn)?;
        hca.uars.hold(uar)?;
        output.set(field!(create_cq_out, cqn), cqn.into());
        Ok(())
    }
}

/// DESTROY_CQ.
pub struct DestroyCq;

impl Command for DestroyCq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DESTROY_CQ;
    type In = ifc::destroy_cq_in;
    type Out = ifc::destroy_cq_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let cq = hca.cqs.remove(input.get32(field!(destroy_cq_in, cqn)))?;
        hca.eqs.release(cq.eqn);
        hca.uars.release(cq.uar);
        Ok(())
    }
}

/// QUERY_CQ.
pub struct QueryCq;

impl Command for QueryCq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_CQ;
    type In = ifc::query_cq_in;
    type Out = ifc::query_cq_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let cqn = input.get32(field!(query_cq_in, cqn));
        let cq = hca.cqs.find_mut(cqn)?;
        let moderation = cq.notify.moderation();
        // A record that cannot be read leaves the last known index.
        let _ = cq.refresh(&mut hca.env);
        let status = match cq.health {
            Health::Good => 0,
            // Source: `MLX5_CQC_STATUS_*` in mlx5_ifc.h.
            Health::Overrun => 0x9,
            Health::Broken => 0xa,
        };
        output.with(span!(query_cq_out, cq_context), |cqc| {
            cqc.set(field!(cqc, status), status)
                .set(field!(cqc, cqe_sz), u64::from(cq.wide))
                .set_flag(field!(cqc, cc), cq.collapsed)
                .set_flag(field!(cqc, oi), cq.overrun_ignore)
                .set(field!(cqc, cq_period_mode), u64::from(moderation.from_cqe))
                .set(field!(cqc, st), cq.notify.state_code().into())
                .set(field!(cqc, log_cq_size), cq.ring().log().into())
                .set(field!(cqc, uar_page), cq.uar.into())
                .set(field!(cqc, cq_period), moderation.period.into())
                .set(field!(cqc, cq_max_count), moderation.count.into())
                .set(field!(cqc, c_eqn_or_apu_element), cq.eqn.into())
                .set(
                    field!(cqc, last_notified_index),
                    cq.notify.reported().into(),
                )
                .set(
                    field!(cqc, last_solicit_index),
                    cq.notify.solicited().into(),
                )
                .set(field!(cqc, consumer_counter), cq.consumer().into())
                .set(field!(cqc, producer_counter), cq.producer().into())
                .set(field!(cqc, dbr_addr), cq.record());
        });
        Ok(())
    }
}

/// MODIFY_CQ: moderation (op_mod 0) or resize (op_mod 1).
pub struct ModifyCq;

impl Command for ModifyCq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_CQ;
    type In = ifc::modify_cq_in;
    type Out = ifc::modify_cq_out;

    fn op_mod(op_mod: u16) -> bool {
        matches!(op_mod, OPMOD_MODERATION | OPMOD_RESIZE)
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let cqn = input.get32(field!(modify_cq_in, cqn));
        hca.cqs.find(cqn)?;
        // CAST: 16 bits.
        if input.get32(field!(modify_cq_in, op_mod)) as u16 == OPMOD_RESIZE {
            return resize(hca, cqn, input);
        }
        let select = input.get32(field!(
            modify_cq_in,
            modify_field_select_resize_field_select
                .modify_field_select
                .modify_field_select
        ));
        if select & !(MASK_PERIOD | MASK_COUNT | MASK_PERIOD_MODE) != 0 {
            refuse!(BadParam, 1, "fields {select:#x} cannot be modified");
        }
        let cqc = input.sub(span!(modify_cq_in, cq_context));
        if select & MASK_PERIOD_MODE != 0 {
            if !hca.caps.has(field!(cmd_hca_cap, cq_period_mode_modify)) {
                refuse!(BadParam, 6, "the period mode cannot be modified");
            }
            if cqc.get32(field!(cqc, cq_period_mode)) > 1 {
                refuse!(BadParam, 7, "period mode 2 is reserved");
            }
        }
        let new = moderation(cqc);
        let now = hca.env.now();
        let cq = hca.cqs.find_mut(cqn)?;
        let mut moderation = cq.notify.moderation();
        if select & MASK_PERIOD != 0 {
            moderation.period = new.period;
        }
        if select & MASK_COUNT != 0 {
            moderation.count = new.count;
        }
        if select & MASK_PERIOD_MODE != 0 {
            moderation.from_cqe = new.from_cqe;
        }
        let event = cq.notify.moderate(moderation, now);
        hca.after_cq(cqn, event);
        Ok(())
    }
}

fn resize(hca: &mut Hca, cqn: u32, input: Ref<'_, ifc::modify_cq_in>) -> Result<(), Refused> {
    let select = input.get32(field!(
        modify_cq_in,
        modify_field_select_resize_field_select
            .resize_field_select
            .resize_field_select
    ));
    if select != MASK_RESIZE || input.flag(field!(modify_cq_in, cq_umem_valid)) {
        refuse!(BadParam, 2, "resize with fields {select:#x}");
    }
    let cqc = input.sub(span!(modify_cq_in, cq_context));
    let shape = geometry(hca, cqc)?;
    let buffer = buffer(input.raw(span!(modify_cq_in, pas)), cqc, shape.bytes)?;
    let cq = hca.cqs.find_mut(cqn)?;
    if cq.health != Health::Good {
        refuse!(BadResState, 3, "CQ {cqn:#x} has failed");
    }
    match cq.resize(&mut hca.env, shape.ring, buffer, shape.wide) {
        Ok(()) => Ok(()),
        Err(ResizeError::TooSmall(outstanding)) => refuse!(
            BadOutstandingCqes,
            4,
            "CQ {cqn:#x}: {outstanding} CQEs are not consumed, the new size is {}",
            shape.ring.entries()
        ),
        Err(ResizeError::Dma(error)) => refuse!(BadResState, 5, "CQ {cqn:#x}: {error}"),
    }
}
