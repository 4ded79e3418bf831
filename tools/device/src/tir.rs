// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TIR: transport interface receive. Where steering ends: one RQ, or a hash over a table of them.

use mlx5_hw::{
    field,
    field::{bytes_of, Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Refused},
    eth::{
        frame::Version,
        rss::{select, Function, Selector, KEY_LEN},
    },
    hca::Hca,
    refuse,
    table::{Kind, Object},
};

const CONTEXT: usize = bytes_of::<ifc::tirc>();

/// Where frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// This RQ.
    Direct(u32),
    /// An entry of this RQT, by hash.
    Indirect(u32),
}

/// Which frames of SQs of its own transport domain it takes (`self_lb_block`; the modify bit is
/// called `self_lb_en`, and that is what the bits mean: mlx5e sets them for its loopback test and
/// for IPoIB, see `mlx5e_test_loopback_setup` in core/en_selftest.c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelfLoopback {
    /// Those with a unicast destination.
    pub unicast: bool,
    /// Those with a group destination.
    pub multicast: bool,
}

/// One of them. Flow table entries hold it; it holds its RQ or RQT and its transport domain.
#[derive(Debug)]
pub struct Tir {
    /// Where frames go.
    pub dispatch: Dispatch,
    /// Transport domain.
    pub domain: u32,
    /// The hash.
    pub selector: Selector,
    /// Frames of its own transport domain.
    pub loopback: SelfLoopback,
    context: [u8; CONTEXT],
}

impl Tir {
    /// One line for a dump.
    pub fn describe(&self, tirn: u32) -> String {
        format!(
            "TIR {tirn:#x}: {:x?} domain {:#x} hash {:?} fields {:#x} loopback {:?}",
            self.dispatch,
            self.domain,
            self.selector.function.name(),
            self.selector.fields,
            self.loopback
        )
    }
}

const FOOTPRINT: u64 = 256;

impl Object for Tir {
    const KIND: Kind = Kind::Tir;

    fn footprint(&self) -> u64 {
        FOOTPRINT
    }
}

fn selector(tirc: Ref<'_, ifc::tirc>) -> Result<Selector, Refused> {
    let mut key = [0; KEY_LEN];
    key.copy_from_slice(tirc.raw(span!(tirc, rx_hash_toeplitz_key)));
    let code = tirc.get32(field!(tirc, rx_hash_fn));
    let function = match code {
        raw::MLX5_RX_HASH_FN_NONE => Function::None,
        raw::MLX5_RX_HASH_FN_INVERTED_XOR8 => Function::InvertedXor8,
        raw::MLX5_RX_HASH_FN_TOEPLITZ => Function::Toeplitz {
            key,
            symmetric: tirc.flag(field!(tirc, rx_hash_symmetric)),
        },
        _ => refuse!(BadParam, 0x7130, "hash function {code}"),
    };
    let fields = tirc.get32(field!(tirc, rx_hash_field_selector_outer.selected_fields));
    if fields & !select::ALL != 0 {
        refuse!(BadParam, 0x7131, "hash over fields {fields:#x}");
    }
    if tirc.flag(field!(tirc, rx_hash_field_selector_inner.selected_fields)) {
        refuse!(BadParam, 0x7132, "hash over inner headers");
    }
    Ok(Selector {
        function,
        version: match tirc.flag(field!(tirc, rx_hash_field_selector_outer.l3_prot_type)) {
            false => Version::V4,
            true => Version::V6,
        },
        udp: tirc.flag(field!(tirc, rx_hash_field_selector_outer.l4_prot_type)),
        fields,
    })
}

fn loopback(tirc: Ref<'_, ifc::tirc>) -> SelfLoopback {
    let bits = tirc.get32(field!(tirc, self_lb_block));
    SelfLoopback {
        unicast: bits & raw::MLX5_TIRC_SELF_LB_BLOCK_BLOCK_UNICAST != 0,
        multicast: bits & raw::MLX5_TIRC_SELF_LB_BLOCK_BLOCK_MULTICAST != 0,
    }
}

fn check_merge(tirc: Ref<'_, ifc::tirc>) -> Result<(), Refused> {
    if tirc.flag(field!(tirc, packet_merge_mask)) {
        refuse!(BadParam, 0x7133, "TIR with packet merge (LRO)");
    }
    Ok(())
}

fn dispatch(hca: &Hca, tirc: Ref<'_, ifc::tirc>) -> Result<Dispatch, Refused> {
    let kind = tirc.get32(field!(tirc, disp_type));
    match kind {
        raw::MLX5_TIRC_DISP_TYPE_DIRECT => {
            let rqn = tirc.get32(field!(tirc, inline_rqn));
            hca.rqs.find(rqn)?;
            Ok(Dispatch::Direct(rqn))
        }
        raw::MLX5_TIRC_DISP_TYPE_INDIRECT => {
            let rqtn = tirc.get32(field!(tirc, indirect_table));
            hca.rqts.find(rqtn)?;
            Ok(Dispatch::Indirect(rqtn))
        }
        _ => refuse!(BadParam, 3, "TIR of dispatch type {kind}"),
    }
}

/// CREATE_TIR.
pub struct CreateTir;

impl Command for CreateTir {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_TIR;
    type In = ifc::create_tir_in;
    type Out = ifc::create_tir_out;

    fn footprint(_input: Ref<'_, Self::In>) -> u64 {
        FOOTPRINT
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let tirc = input.sub(span!(create_tir_in, ctx));
        if tirc.flag(field!(tirc, tls_en)) {
            refuse!(BadParam, 1, "TIR with TLS offload");
        }
        if tirc.flag(field!(tirc, tunneled_offload_en)) {
            refuse!(BadParam, 2, "TIR with tunnel offloads");
        }
        check_merge(tirc)?;
        let selector = selector(tirc)?;
        let domain = tirc.get32(field!(tirc, transport_domain));
        hca.transport_domains.find(domain)?;
        let dispatch = dispatch(hca, tirc)?;
        let mut context = [0; CONTEXT];
        context.copy_from_slice(input.raw(span!(create_tir_in, ctx)));
        let tirn = hca.tirs.insert(Tir {
            dispatch,
            domain,
            selector,
            loopback: loopback(tirc),
            context,
        })?;
        match dispatch {
            Dispatch::Direct(rqn) => hca.rqs.hold(rqn)?,
            Dispatch::Indirect(rqtn) => hca.rqts.hold(rqtn)?,
        }
        hca.transport_domains.hold(domain)?;
        output.set(field!(create_tir_out, tirn), tirn.into());
        Ok(())
    }
}

/// MODIFY_TIR.
pub struct ModifyTir;

impl Command for ModifyTir {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_TIR;
    type In = ifc::modify_tir_in;
    type Out = ifc::modify_tir_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let tirn = input.get32(field!(modify_tir_in, tirn));
        let lb_modifiable = hca.caps.has(field!(
            per_protocol_networking_offload_caps,
            self_lb_en_modifiable
        ));
        let tir = hca.tirs.find_mut(tirn)?;
        let tirc = input.sub(span!(modify_tir_in, ctx));
        let change_hash = input.flag(field!(modify_tir_in, bitmask.hash));
        let change_loopback = input.flag(field!(modify_tir_in, bitmask.self_lb_en));
        if change_loopback && !lb_modifiable {
            refuse!(BadParam, 1, "self loopback of a TIR cannot be changed");
        }
        if input.flag(field!(modify_tir_in, bitmask.packet_merge)) {
            check_merge(tirc)?;
        }
        let new = match change_hash {
            true => selector(tirc)?,
            false => tir.selector,
        };
        tir.selector = new;
        let Some(mut stored) = Mut::<ifc::tirc>::new(&mut tir.context) else {
            return Ok(());
        };
        if change_hash {
            for field in [
                field!(tirc, rx_hash_fn),
                field!(tirc, rx_hash_symmetric),
                field!(tirc, rx_hash_field_selector_outer.l3_prot_type),
                field!(tirc, rx_hash_field_selector_outer.l4_prot_type),
                field!(tirc, rx_hash_field_selector_outer.selected_fields),
            ] {
                stored.set(field, tirc.get(field));
            }
            stored
                .raw(span!(tirc, rx_hash_toeplitz_key))
                .copy_from_slice(tirc.raw(span!(tirc, rx_hash_toeplitz_key)));
        }
        if change_loopback {
            stored.set(
                field!(tirc, self_lb_block),
                tirc.get(field!(tirc, self_lb_block)),
            );
            tir.loopback = loopback(tirc);
        }
        Ok(())
    }
}

/// DESTROY_TIR.
pub struct DestroyTir;

impl Command for DestroyTir {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DESTROY_TIR;
    type In = ifc::destroy_tir_in;
    type Out = ifc::destroy_tir_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let tir = hca.tirs.remove(input.get32(field!(destroy_tir_in, tirn)))?;
        match tir.dispatch {
            Dispatch::Direct(rqn) => hca.rqs.release(rqn),
            Dispatch::Indirect(rqtn) => hca.rqts.release(rqtn),
        }
        hca.transport_domains.release(tir.domain);
        Ok(())
    }
}

/// QUERY_TIR.
pub struct QueryTir;

impl Command for QueryTir {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_TIR;
    type In = ifc::query_tir_in;
    type Out = ifc::query_tir_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let tir = hca.tirs.find(input.get32(field!(query_tir_in, tirn)))?;
        output
            .raw(span!(query_tir_out, tir_context))
            .copy_from_slice(&tir.context);
        Ok(())
    }
}
