// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multicast groups: which QPs get the datagrams of a group.

use super::{count, datagram, with_qp};
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
use roce::{Headers, Service};
use std::collections::HashMap;

/// Members by group address.
pub(super) type Groups = HashMap<[u8; 16], Vec<u32>>;

impl super::Transport {
    /// Whether a group has members.
    pub(super) fn has_group(&self, gid: &[u8; 16]) -> bool {
        self.groups.contains_key(gid)
    }
}

/// A datagram for a group arrives; `from` is a QP that does not want its own.
pub(super) fn arrive(hca: &mut Hca, headers: &Headers, payload: &[u8], from: Option<u32>) {
    if headers.bth.opcode.service != Service::Ud {
        return count(hca, "wrong_service");
    }
    let Some(members) = hca.transport.groups.get(&headers.ip.dst_gid()).cloned() else {
        return count(hca, "no_group");
    };
    for qpn in members.into_iter().filter(|qpn| Some(*qpn) != from) {
        let outcome = with_qp(hca, qpn, |hca, qp| {
            if qp.can_receive() && qp.kind.is_datagram() {
                datagram::receive(hca, qp, headers, payload)
            } else {
                Err("qp_not_ready")
            }
        });
        if let Some(Err(why)) = outcome {
            count(hca, why);
        }
    }
}

fn gid<L, M>(input: Ref<'_, L>, at: field::Span<L, M>) -> [u8; 16] {
    let mut gid = [0; 16];
    gid.copy_from_slice(input.raw(at));
    gid
}

/// ATTACH_TO_MCG.
pub struct AttachToMcg;

impl Command for AttachToMcg {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ATTACH_TO_MCG;
    type In = ifc::attach_to_mcg_in;
    type Out = ifc::attach_to_mcg_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let qpn = input.get32(field!(attach_to_mcg_in, qpn));
        let gid = gid(input, span!(attach_to_mcg_in, multicast_gid));
        let qp = hca.qps.find(qpn)?;
        if !qp.kind.is_datagram() {
            refuse!(BadParam, 1, "QP {qpn:#x} is {:?}", qp.kind);
        }
        let most_groups = hca.caps.pow(field!(cmd_hca_cap, log_max_mcg));
        let most_members = hca.caps.get(field!(cmd_hca_cap, max_qp_mcg));
        let groups = &hca.transport.groups;
        match groups.get(&gid) {
            None if groups.len() as u64 >= most_groups => {
                refuse!(Limit, 2, "no more than {most_groups} groups");
            }
            Some(members) if members.contains(&qpn) => {
                refuse!(BadParam, 3, "QP {qpn:#x} is in the group");
            }
            Some(members) if members.len() as u64 >= most_members => {
                refuse!(Limit, 4, "no more than {most_members} QPs in a group");
            }
            _ => {}
        }
        hca.qps.hold(qpn)?;
        hca.transport.groups.entry(gid).or_default().push(qpn);
        Ok(())
    }
}

/// DETACH_FROM_MCG.
pub struct DetachFromMcg;

impl Command for DetachFromMcg {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DETACH_FROM_MCG;
    type In = ifc::detach_from_mcg_in;
    type Out = ifc::detach_from_mcg_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let qpn = input.get32(field!(detach_from_mcg_in, qpn));
        let gid = gid(input, span!(detach_from_mcg_in, multicast_gid));
        let members = hca.transport.groups.get_mut(&gid);
        let found = members.and_then(|members| {
            let at = members.iter().position(|member| *member == qpn)?;
            members.swap_remove(at);
            Some(members.is_empty())
        });
        match found {
            None => refuse!(BadRes, 1, "QP {qpn:#x} is not in the group"),
            Some(true) => {
                hca.transport.groups.remove(&gid);
            }
            Some(false) => {}
        }
        hca.qps.release(qpn);
        Ok(())
    }
}
