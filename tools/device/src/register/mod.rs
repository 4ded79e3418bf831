// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ACCESS_REG: the registers of port and host interface. One register a type.

pub mod absent;
pub mod component;
pub mod host;
pub mod mcam;
pub mod mgir;
pub mod mqis;
pub mod paos;
pub mod pfcc;
pub mod pmtu;
pub mod ppcnt;
pub mod ptys;
pub mod qcam;
pub mod qetcr;
pub mod qpdpm;
pub mod qpts;
pub mod qtct;

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Needs, Refused},
    hca::Hca,
    layout::Layout,
    refuse,
};

/// The one port of the card, as registers count.
const PORT: u64 = 1;

/// A register as ACCESS_REG sees it. `input` and `output` have its length; the output starts as a
/// copy of the input (index fields are echoed).
pub struct Register {
    /// Number, `MLX5_REG_*` in include/linux/mlx5/driver.h.
    pub id: u16,
    /// Name for messages.
    pub name: &'static str,
    /// Length in bytes; of the fixed part, if there is a tail.
    pub len: usize,
    /// Longest tail behind the fixed part, in bytes: how much of it an access has is its own choice.
    pub tail: usize,
    /// Layout, where the interface has one: reserved bits are checked against it.
    pub layout: Option<&'static Layout>,
    /// Reads it.
    pub read: fn(&mut Hca, &[u8], &mut [u8]) -> Result<(), Refused>,
    /// Writes it; `None` for a register that can only be read.
    pub write: Option<fn(&mut Hca, &[u8]) -> Result<(), Refused>>,
}

/// Every register.
const ALL: &[&Register] = &[
    &component::MCC,
    &component::MCDA,
    &component::MCQI,
    &component::MCQS,
    &host::HOST_ENDIANNESS,
    &host::NODE_DESC,
    &mcam::MCAM,
    &mgir::MGIR,
    &mqis::MQIS,
    &paos::PAOS,
    &pfcc::PFCC,
    &pmtu::PMTU,
    &ppcnt::PPCNT,
    &ptys::PTYS,
    &qcam::QCAM,
    &qetcr::QETCR,
    &qpdpm::QPDPM,
    &qpts::QPTS,
    &qtct::QTCT,
];

/// Numbers of all registers.
fn numbers() -> impl Iterator<Item = u16> {
    ALL.iter().map(|register| register.id)
}

fn find(id: u64) -> Option<&'static Register> {
    ALL.iter()
        .copied()
        .find(|register| u64::from(register.id) == id)
}

/// Refuses ports that are not there.
fn own_port(port: u64) -> Result<(), Refused> {
    if port != PORT {
        refuse!(BadParam, 0x7020, "port {port} is not there");
    }
    Ok(())
}

/// A view that cannot fail: `len` of the register has been checked against its layout.
fn view<L>(bytes: &[u8]) -> Result<Ref<'_, L>, Refused> {
    Ref::new(bytes).ok_or_else(short)
}

fn view_mut<L>(bytes: &mut [u8]) -> Result<Mut<'_, L>, Refused> {
    Mut::new(bytes).ok_or_else(short)
}

fn short() -> Refused {
    Refused::new(
        mlx5_hw::status::Status::Internal,
        0x7021,
        "register shorter than its layout",
    )
}

/// Name and fields of the register in an input of ACCESS_REG. Which register an output belongs to
/// stands in its input, so outputs are not described.
pub fn describe(bytes: &[u8], input: bool) -> String {
    const ID: usize = 0xa;
    const DATA: usize = 0x10;
    if !input {
        return String::new();
    }
    let data = bytes.get(DATA..).unwrap_or_default();
    let id = match bytes.get(ID..ID + 2) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    };
    let way = if bytes.get(7) == Some(&1) {
        "read"
    } else {
        "write"
    };
    match find(id.into()) {
        None => format!("{way} register={id:#x}"),
        Some(register) => {
            let words = register
                .layout
                .map_or_else(String::new, |layout| layout.decode(data));
            format!("{way} {} {words}", register.name)
                .trim_end()
                .to_owned()
        }
    }
}

/// ACCESS_REG.
pub struct AccessReg;

impl Command for AccessReg {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ACCESS_REG;
    type In = ifc::access_register_in;
    type Out = ifc::access_register_out;
    const NEEDS: Needs = Needs::Enabled;

    fn op_mod(op_mod: u16) -> bool {
        op_mod < 2
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let id = input.get(field!(access_register_in, register_id));
        let argument = input.get(field!(access_register_in, argument));
        if argument != 0 {
            refuse!(BadParam, 2, "register {id:#x}: argument {argument:#x}");
        }
        let data = input.raw(span!(access_register_in, register_data));
        let place = output.raw(span!(access_register_out, register_data));
        let reads = input.flag(field!(access_register_in, op_mod));
        access(hca, id, reads, data, place)
    }
}

/// Whether a register has this number.
pub fn exists(id: u64) -> bool {
    find(id).is_some()
}

/// Reads or writes the register `id`: `data` is what came with the access, `place` takes its content.
///
/// # Errors
/// Unknown registers, wrong lengths, reserved bits, and what the register itself refuses; nothing has changed then.
pub fn access(
    hca: &mut Hca,
    id: u64,
    reads: bool,
    data: &[u8],
    place: &mut [u8],
) -> Result<(), Refused> {
    let Some(register) = find(id) else {
        refuse!(BadParam, 1, "register {id:#x} is not known");
    };
    if !(register.len..=register.len + register.tail).contains(&data.len()) {
        refuse!(
            BadInputLen,
            3,
            "{} has {:#x} bytes, not {:#x}",
            register.name,
            register.len,
            data.len()
        );
    }
    if let Some(layout) = register.layout {
        let mask = layout.reserved_mask(register.len);
        if let Some(at) = crate::layout::first_set(data, &mask) {
            refuse!(
                BadParam,
                4,
                "{}: reserved bits in byte {at:#x}",
                register.name
            );
        }
    }
    let Some(place) = place.get_mut(..data.len()) else {
        refuse!(
            BadOutputLen,
            5,
            "{} has {:#x} bytes",
            register.name,
            data.len()
        );
    };
    if reads {
        place.copy_from_slice(data);
        return (register.read)(hca, data, place);
    }
    let Some(write) = register.write else {
        refuse!(BadParam, 6, "{} can only be read", register.name);
    };
    write(hca, data)?;
    place.copy_from_slice(data);
    Ok(())
}
