// SPDX-License-Identifier: GPL-2.0
//! Transport interface receive: where steering ends.
//!
//! Source: core/en/tir.c, core/en/rss.c.

use kernel::prelude::*;
use kernel_ext::net::ethtool::HashFields;
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw,
    span, //
};

use super::hash::KEY_LEN;
use crate::{
    cmd::Command,
    home::Home,
    plain_command, //
};

/// Kinds of packets that have a TIR of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    TcpV4,
    TcpV6,
    UdpV4,
    UdpV6,
    V4,
    V6,
    Other,
}

impl Traffic {
    /// All kinds; those that are part of another come before it.
    pub(super) const ALL: [Self; 7] = [
        Self::TcpV4,
        Self::TcpV6,
        Self::UdpV4,
        Self::UdpV6,
        Self::V4,
        Self::V6,
        Self::Other,
    ];

    /// EtherType to match, if any.
    pub(super) const fn ethertype(self) -> Option<u16> {
        match self {
            Self::TcpV4 | Self::UdpV4 | Self::V4 => Some(0x0800),
            Self::TcpV6 | Self::UdpV6 | Self::V6 => Some(0x86dd),
            Self::Other => None,
        }
    }

    /// IP protocol to match, if any.
    pub(super) const fn protocol(self) -> Option<u8> {
        match self {
            Self::TcpV4 | Self::TcpV6 => Some(6),
            Self::UdpV4 | Self::UdpV6 => Some(17),
            Self::V4 | Self::V6 | Self::Other => None,
        }
    }
}

/// What of a packet a hash is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hashed {
    /// IPv6, not IPv4.
    pub(crate) v6: bool,
    /// UDP, not TCP.
    pub(crate) udp: bool,
    /// Addresses and ports.
    pub(crate) fields: HashFields,
}

impl Hashed {
    /// `MLX5_HASH_FIELD_SEL_*`.
    fn selected(&self) -> u32 {
        [
            (self.fields.source, raw::MLX5_HASH_FIELD_SEL_SRC_IP),
            (self.fields.destination, raw::MLX5_HASH_FIELD_SEL_DST_IP),
            (self.fields.source_port, raw::MLX5_HASH_FIELD_SEL_L4_SPORT),
            (
                self.fields.destination_port,
                raw::MLX5_HASH_FIELD_SEL_L4_DPORT,
            ),
        ]
        .into_iter()
        .fold(0, |all, (on, bit)| if on { all | bit } else { all })
    }
}

/// Where a TIR sends its packets.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    /// One RQ.
    Queue(u32),
    /// The entry of an RQT that has one only.
    First(u32),
    /// An entry of an RQT, by Toeplitz hash.
    Hash {
        rqt: u32,
        key: &'a [u8; KEY_LEN],
        hashed: Hashed,
    },
}

struct CreateTir<'a> {
    domain: u32,
    target: Target<'a>,
}

impl Command for CreateTir<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_TIR;
    type In = ifc::create_tir_in;
    type Out = ifc::create_tir_out;
    type Output = u32;

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        input.with(span!(create_tir_in, ctx), |tirc| {
            let way = match self.target {
                Target::Queue(_) => raw::MLX5_TIRC_DISP_TYPE_DIRECT,
                _ => raw::MLX5_TIRC_DISP_TYPE_INDIRECT,
            };
            tirc.set(field!(tirc, transport_domain), self.domain.into())
                .set(field!(tirc, disp_type), way.into());
            match self.target {
                Target::Queue(number) => {
                    tirc.set(field!(tirc, inline_rqn), number.into());
                }
                // Nothing is hashed; a function there must be (`mlx5e_tir_builder_build_direct`).
                Target::First(rqt) => {
                    tirc.set(field!(tirc, indirect_table), rqt.into()).set(
                        field!(tirc, rx_hash_fn),
                        raw::MLX5_RX_HASH_FN_INVERTED_XOR8.into(),
                    );
                }
                Target::Hash { rqt, key, hashed } => {
                    tirc.set(field!(tirc, indirect_table), rqt.into())
                        .set(
                            field!(tirc, rx_hash_fn),
                            raw::MLX5_RX_HASH_FN_TOEPLITZ.into(),
                        )
                        .set_flag(
                            field!(tirc, rx_hash_field_selector_outer.l3_prot_type),
                            hashed.v6,
                        )
                        .set_flag(
                            field!(tirc, rx_hash_field_selector_outer.l4_prot_type),
                            hashed.udp,
                        )
                        .set(
                            field!(tirc, rx_hash_field_selector_outer.selected_fields),
                            hashed.selected().into(),
                        );
                    tirc.raw(span!(tirc, rx_hash_toeplitz_key))
                        .copy_from_slice(key);
                }
            }
        });
        Ok(())
    }

    fn parse(&self, output: Ref<'_, Self::Out>) -> Option<u32> {
        Some(output.get32(field!(create_tir_out, tirn)))
    }
}

/// MODIFY_TIR: which frames of its own transport domain it takes.
struct LoopBack {
    number: u32,
    on: bool,
}

impl Command for LoopBack {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_TIR;
    type In = ifc::modify_tir_in;
    type Out = ifc::modify_tir_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        // The bits take frames, whatever their name says (`mlx5e_modify_tirs_lb` in core/en_common.c).
        let kinds = match self.on {
            true => raw::MLX5_TIRC_SELF_LB_BLOCK_BLOCK_UNICAST,
            false => 0,
        };
        input
            .set(field!(modify_tir_in, tirn), self.number.into())
            .set_flag(field!(modify_tir_in, bitmask.self_lb_en), true)
            .set(field!(modify_tir_in, ctx.self_lb_block), kinds.into());
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

plain_command! {
    /// DESTROY_TIR.
    DestroyTir, MLX5_CMD_OP_DESTROY_TIR, destroy_tir_in, destroy_tir_out, number: u32 => tirn
}

/// A TIR. It must go before its target.
pub(crate) struct Tir {
    number: u32,
    home: Home,
}

impl Tir {
    /// Makes a TIR of a transport domain. Sleeps.
    pub(crate) fn new(home: &Home, domain: u32, target: Target<'_>) -> Result<Self> {
        Ok(Self {
            number: home.cmd().exec(&CreateTir { domain, target })?,
            home: home.clone(),
        })
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Whether it takes frames that SQs of its own transport domain send to a station. Sleeps.
    pub(super) fn loop_back(&self, on: bool) -> Result {
        let number = self.number;
        Ok(self.home.cmd().exec(&LoopBack { number, on })?)
    }
}

impl Drop for Tir {
    fn drop(&mut self) {
        self.home.end(&DestroyTir {
            number: self.number,
        });
    }
}
