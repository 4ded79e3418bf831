// SPDX-License-Identifier: GPL-2.0
//! ACCESS_REG: registers of the port, by their layouts.
//!
//! A register is read whole and written whole; which of its fields a write changes, the register says.

use core::marker::PhantomData;

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::{
        bytes_of,
        Mut,
        Ref, //
    },
    ifc,
    raw,
    span, //
};

use crate::cmd::{
    Cmd,
    Command, //
};

struct Access<L, F> {
    id: u32,
    write: bool,
    fill: F,
    layout: PhantomData<L>,
}

impl<L, F: Fn(&mut Mut<'_, L>)> Command for Access<L, F> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ACCESS_REG;
    type In = ifc::access_register_in;
    type Out = ifc::access_register_out;
    type Output = Result<KVec<u8>>;

    fn op_mod(&self) -> u16 {
        // CAST: 0 or 1.
        (match self.write {
            true => raw::MLX5_ACCESS_REGISTER_IN_OP_MOD_WRITE,
            false => raw::MLX5_ACCESS_REGISTER_IN_OP_MOD_READ,
        }) as u16
    }

    fn in_tail(&self) -> usize {
        bytes_of::<L>()
    }

    fn out_tail(&self) -> usize {
        bytes_of::<L>()
    }

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.set(field!(access_register_in, register_id), self.id.into());
        let data = input.raw(span!(access_register_in, register_data));
        let mut register = Mut::<L>::new(data).ok_or(EINVAL)?;
        (self.fill)(&mut register);
        match register.overflowed() {
            true => Err(EINVAL),
            false => Ok(()),
        }
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<Result<KVec<u8>>> {
        let data = output.raw(span!(access_register_out, register_data));
        let data = data.get(..bytes_of::<L>())?;
        let mut bytes = KVec::new();
        Some(
            bytes
                .extend_from_slice(data, GFP_KERNEL)
                .map(|()| bytes)
                .map_err(Error::from),
        )
    }
}

/// What a register said.
pub(crate) struct Content<L> {
    bytes: KVec<u8>,
    layout: PhantomData<L>,
}

impl<L> Content<L> {
    /// Its fields.
    pub(crate) fn fields(&self) -> Result<Ref<'_, L>> {
        Ref::new(&self.bytes).ok_or(EPROTO)
    }
}

fn access<L>(
    cmd: &Cmd,
    id: u32,
    write: bool,
    fill: impl Fn(&mut Mut<'_, L>),
) -> Result<Content<L>> {
    let access = Access {
        id,
        write,
        fill,
        layout: PhantomData,
    };
    Ok(Content {
        bytes: cmd.exec(&access)??,
        layout: PhantomData,
    })
}

/// Reads register `id`; `which` fills in what selects its content. Sleeps.
pub(crate) fn read<L>(cmd: &Cmd, id: u32, which: impl Fn(&mut Mut<'_, L>)) -> Result<Content<L>> {
    access(cmd, id, false, which)
}

/// Writes register `id`. Sleeps.
pub(crate) fn write<L>(cmd: &Cmd, id: u32, fill: impl Fn(&mut Mut<'_, L>)) -> Result {
    access(cmd, id, true, fill).map(|_| ())
}
