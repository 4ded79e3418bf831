// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Between the engines and the wire: which frames leave, which come back, which come in.

use super::frame::{is_multicast, Mac};
use crate::{
    hca::{is_roce, Hca},
    sched::Work,
};

/// Sends a frame (destination MAC to the last byte before the FCS). `from` is the transport domain
/// of the SQ that sends it; `None` for the RDMA engine.
///
/// A frame to an address of this vport comes back and does not leave; one to a group does both;
/// all others leave. TIRs of the same transport domain do not see what comes back unless they ask
/// for it (see [`crate::tir::SelfLoopback`]). `seen` as for [`leave`].
pub fn transmit(hca: &mut Hca, frame: Vec<u8>, from: Option<u32>, seen: usize) {
    let Some(dmac) = frame.first_chunk::<6>() else {
        return;
    };
    let group = is_multicast(dmac);
    let own = hca.owns_mac(dmac);
    if !own {
        if hca.vport.link_up() {
            let roce = is_roce(&frame);
            leave(hca, &frame, roce, seen);
        } else {
            count(hca, "tx_no_link");
        }
    }
    if own || group {
        hca.env.counters.frames_looped += 1;
        hca.vport.looped.packets += 1;
        hca.vport.looped.octets += frame.len() as u64;
        hca.sched.push(Work::Frame { frame, from });
    }
}

/// Puts a frame on the cable. Its priority follows from the first `seen` bytes: of an SQ's frame the port looks at what the
/// WQE has inlined (why `mlx5e_params_calc_trust_tx_min_inline_mode` in core/en_dcbnl.c inlines the IP header for
/// a port that trusts the DSCP).
pub fn leave(hca: &mut Hca, frame: &[u8], roce: bool, seen: usize) {
    let head = frame.get(..seen.min(frame.len())).unwrap_or_default();
    let priority = hca.priorities.of(head);
    hca.vport.sent.count(frame, roce, priority);
    hca.priorities.leaves(priority, frame.len());
    hca.env.send(frame);
}

/// Whether the vport takes frames with this destination: its own addresses, the groups in its list
/// (broadcast is one of them: mlx5e puts it there, `mlx5e_fill_addr_array` in core/en_fs.c), or
/// whatever the promiscuous flags say.
pub fn accepts(hca: &Hca, dmac: &Mac) -> bool {
    let vport = &hca.vport;
    if vport.promisc_all {
        return true;
    }
    match is_multicast(dmac) {
        true => vport.promisc_mc || vport.mc_list.contains(dmac),
        false => vport.promisc_uc || hca.owns_mac(dmac),
    }
}

/// Longest frame, in bytes with header and FCS.
pub fn mtu(hca: &Hca) -> u16 {
    hca.vport.port_mtu
}

/// Counts an event of the Ethernet engine by name.
pub fn count(hca: &mut Hca, name: &'static str) {
    *hca.env.counters.ethernet.entry(name).or_default() += 1;
}

/// Counts a frame for which an RQ had no WQE, on the vport and on the counter set of the RQ.
pub fn count_out_of_buffer(hca: &mut Hca, counter_set: u32) {
    hca.eth.out_of_buffer += 1;
    if let Some(set) = hca.q_counters.get_mut(counter_set) {
        set.out_of_buffer = set.out_of_buffer.wrapping_add(1);
    }
}
