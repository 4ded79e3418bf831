// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CREATE_MKEY, QUERY_MKEY, DESTROY_MKEY.

use super::{footprint, Mkey, MAX_OCTOWORDS};
use crate::{
    cmd::{Command, Refused}, //
    hca::Hca,
    refuse,
};
use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

/// CREATE_MKEY.
pub struct CreateMkey;

impl Command for CreateMkey {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_MKEY;
    type In = ifc::create_mkey_in;
    type Out = ifc::create_mkey_out;

    fn footprint(input: Ref<'_, Self::In>) -> u64 {
        let octowords = field!(
            create_mkey_in,
            memory_key_mkey_entry.translations_octword_size
        );
        footprint(input.get32(octowords).min(MAX_OCTOWORDS))
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        if input.flag(field!(create_mkey_in, mkey_umem_valid)) {
            refuse!(BadParam, 1, "user memory objects are not offered");
        }
        if input.flag(field!(create_mkey_in, data_direct)) {
            refuse!(BadParam, 2, "data direct is not offered");
        }
        let given = input.get(field!(create_mkey_in, translations_octword_actual_size));
        let list = input.raw(span!(create_mkey_in, klm_pas_mtt));
        // CAST: 32 bits, times 16.
        let Some(xlt) = list.get(..given as usize * 16) else {
            refuse!(
                BadParam,
                3,
                "{given} octowords of translations announced, {} bytes given",
                list.len()
            );
        };
        let pg_access = input.flag(field!(create_mkey_in, pg_access));
        let mkc = input.sub(span!(create_mkey_in, memory_key_mkey_entry));
        let mut mkey = match Mkey::new(mkc, xlt, pg_access) {
            Ok(mkey) => mkey,
            Err(why) => refuse!(BadParam, 4, "key context: {why}"),
        };
        let pd = mkey.pd;
        mkey.holds_pd = hca.pds.get(pd).is_some();
        // A key in free state gets its PD with the work request that enables it.
        let nobody = mkey.free && pd == 0;
        if !mkey.holds_pd && !nobody {
            hca.pds.find(pd)?;
        }
        let holds_pd = mkey.holds_pd;
        let index = hca.mkeys.insert(mkey)?;
        if holds_pd {
            hca.pds.hold(pd)?;
        }
        output.set(field!(create_mkey_out, mkey_index), index.into());
        Ok(())
    }
}

/// DESTROY_MKEY.
pub struct DestroyMkey;

impl Command for DestroyMkey {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DESTROY_MKEY;
    type In = ifc::destroy_mkey_in;
    type Out = ifc::destroy_mkey_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let mkey = hca
            .mkeys
            .remove(input.get32(field!(destroy_mkey_in, mkey_index)))?;
        if mkey.holds_pd {
            hca.pds.release(mkey.pd);
        }
        Ok(())
    }
}

/// QUERY_MKEY. Translations are not returned.
pub struct QueryMkey;

impl Command for QueryMkey {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_MKEY;
    type In = ifc::query_mkey_in;
    type Out = ifc::query_mkey_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        if input.flag(field!(query_mkey_in, pg_access)) {
            refuse!(BadParam, 1, "translations are not shown");
        }
        let mkey = hca
            .mkeys
            .find(input.get32(field!(query_mkey_in, mkey_index)))?;
        output.with(span!(query_mkey_out, memory_key_mkey_entry), |mkc| {
            mkey.store(mkc);
        });
        Ok(())
    }
}
