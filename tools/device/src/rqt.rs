// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RQT: a table of receive queues over which a hash spreads frames.

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    refuse,
    table::{Kind, Object},
};

/// One of them. Indirect TIRs hold it; it holds its RQs.
#[derive(Debug)]
pub struct Rqt {
    /// Entries it may grow to.
    max: u32,
    /// RQ numbers; a power of two of them.
    rqns: Vec<u32>,
}

/// Length of one entry in the commands (`rq_num`), in bytes.
const ENTRY: usize = 4;

impl Rqt {
    /// The RQ for a hash: `index` picks the entry from log2 of the number of entries.
    pub fn pick(&self, index: impl FnOnce(u32) -> usize) -> Option<u32> {
        self.rqns.get(index(self.rqns.len().ilog2())).copied()
    }

    /// One line for a dump.
    pub fn describe(&self, rqtn: u32) -> String {
        format!("RQT {rqtn:#x}: max {} RQs {:x?}", self.max, self.rqns)
    }
}

impl Object for Rqt {
    const KIND: Kind = Kind::Rqt;

    fn footprint(&self) -> u64 {
        footprint(self.max)
    }
}

fn footprint(entries: u32) -> u64 {
    64 + 4 * u64::from(entries)
}

/// The RQ numbers behind a context: `list` is what follows its fixed part.
fn parse(hca: &Hca, rqtc: Ref<'_, ifc::rqtc>, list: &[u8], max: u32) -> Result<Vec<u32>, Refused> {
    if rqtc.flag(field!(rqtc, rq_vhca_id_format)) {
        refuse!(BadParam, 0x7120, "RQT with vhca ids");
    }
    let size = rqtc.get32(field!(rqtc, rqt_actual_size));
    if !size.is_power_of_two() || size > max {
        refuse!(BadParam, 0x7121, "RQT of {size} entries, at most {max}");
    }
    // CAST: 16 bits.
    if list.len() != size as usize * ENTRY {
        refuse!(
            BadInputLen,
            0x7122,
            "RQT of {size} entries, {} bytes given",
            list.len()
        );
    }
    let mut rqns = Vec::new();
    for raw in list.chunks_exact(ENTRY) {
        let rqn = raw.iter().fold(0, |all, byte| all << 8 | u32::from(*byte));
        hca.rqs.find(rqn)?;
        rqns.push(rqn);
    }
    Ok(rqns)
}

fn hold(hca: &mut Hca, rqns: &[u32]) -> Result<(), Refused> {
    rqns.iter().try_for_each(|rqn| hca.rqs.hold(*rqn))
}

fn release(hca: &mut Hca, rqns: &[u32]) {
    for rqn in rqns {
        hca.rqs.release(*rqn);
    }
}

fn list<L>(input: Ref<'_, L>) -> &[u8] {
    input
        .bytes()
        .get(mlx5_hw::field::bytes_of::<L>()..)
        .unwrap_or_default()
}

/// CREATE_RQT.
pub struct CreateRqt;

impl Command for CreateRqt {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_RQT;
    type In = ifc::create_rqt_in;
    type Out = ifc::create_rqt_out;

    fn footprint(input: Ref<'_, Self::In>) -> u64 {
        footprint(input.get32(field!(create_rqt_in, rqt_context.rqt_max_size)))
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let rqtc = input.sub(span!(create_rqt_in, rqt_context));
        if rqtc.flag(field!(rqtc, list_q_type)) {
            refuse!(BadParam, 1, "RQT of something else than RQs");
        }
        let max = rqtc.get32(field!(rqtc, rqt_max_size));
        if u64::from(max) > hca.caps.pow(field!(cmd_hca_cap, log_max_rqt_size)) {
            refuse!(BadParam, 2, "RQT of at most {max} entries");
        }
        let rqns = parse(hca, rqtc, list(input), max)?;
        let rqtn = hca.rqts.insert(Rqt {
            max,
            rqns: rqns.clone(),
        })?;
        hold(hca, &rqns)?;
        output.set(field!(create_rqt_out, rqtn), rqtn.into());
        Ok(())
    }
}

/// MODIFY_RQT.
pub struct ModifyRqt;

impl Command for ModifyRqt {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_RQT;
    type In = ifc::modify_rqt_in;
    type Out = ifc::modify_rqt_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let rqtn = input.get32(field!(modify_rqt_in, rqtn));
        let max = hca.rqts.find(rqtn)?.max;
        if !input.flag(field!(modify_rqt_in, bitmask.rqn_list)) {
            return Ok(());
        }
        let rqtc = input.sub(span!(modify_rqt_in, ctx));
        let rqns = parse(hca, rqtc, list(input), max)?;
        hold(hca, &rqns)?;
        let old = std::mem::replace(&mut hca.rqts.find_mut(rqtn)?.rqns, rqns);
        release(hca, &old);
        Ok(())
    }
}

/// DESTROY_RQT.
pub struct DestroyRqt;

impl Command for DestroyRqt {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DESTROY_RQT;
    type In = ifc::destroy_rqt_in;
    type Out = ifc::destroy_rqt_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let rqt = hca.rqts.remove(input.get32(field!(destroy_rqt_in, rqtn)))?;
        release(hca, &rqt.rqns);
        Ok(())
    }
}

/// QUERY_RQT.
pub struct QueryRqt;

impl Command for QueryRqt {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_RQT;
    type In = ifc::query_rqt_in;
    type Out = ifc::query_rqt_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let rqt = hca.rqts.find(input.get32(field!(query_rqt_in, rqtn)))?;
        let actual = rqt.rqns.len() as u64;
        output
            .set(
                field!(query_rqt_out, rqt_context.rqt_max_size),
                rqt.max.into(),
            )
            .set(field!(query_rqt_out, rqt_context.rqt_actual_size), actual);
        Ok(())
    }
}
