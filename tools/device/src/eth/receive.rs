// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receive engine: frames go through the filter of the vport and the flow tables to a TIR, and
//! from there into a WQE of an RQ.

use mlx5_hw::{raw, wire, wire::get};

use super::{
    completion,
    frame::{ethertype, is_multicast, Headers, TAG_LEN},
    offload, port,
    rss::Hash,
};
use crate::{
    flow::{key::Key, tree::Hit},
    hca::Hca,
    mkey::{Fault, Memory, Need, Reach},
    rq::Rq,
    tir::{Dispatch, Tir},
    violation::{Failure as Verdict, Violation},
    wq::{Record, State},
};

/// Length of a data segment, in bytes.
const SEGMENT: usize = 16;

/// Ends the list of data segments of a WQE: `MLX5_TERMINATE_SCATTER_LIST_LKEY`.
const TERMINATE: u64 = 0x100;

/// A frame from the wire or looped back that is not for RoCE. `from` is the transport domain of
/// the SQ that sent it, when it was one of this card.
pub fn receive(hca: &mut Hca, frame: &[u8], from: Option<u32>) {
    let Some(headers) = Headers::parse(frame) else {
        return drop_frame(hca, "rx_malformed");
    };
    if !port::accepts(hca, &headers.dmac) {
        return drop_frame(hca, "rx_filtered");
    }
    let walk = hca.flow.walk(&Key::new(&headers));
    for id in &walk.counters {
        if let Some(counter) = hca.flow_counters.get_mut(*id) {
            counter.traffic.add(frame.len());
        }
    }
    if walk.hits.is_empty() {
        if walk.dropped {
            return drop_frame(hca, "rx_steering_drop");
        }
        hca.vnic.steering_discards += 1;
        return drop_frame(hca, "rx_steering_miss");
    }
    for hit in walk.hits {
        let Some(tir) = hca.tirs.get(hit.tirn) else {
            continue;
        };
        if is_own_echo(tir, from, &headers) {
            port::count(hca, "rx_self_loopback_blocked");
            continue;
        }
        dispatch(hca, frame, &headers, hit);
    }
}

fn drop_frame(hca: &mut Hca, why: &'static str) {
    hca.env.counters.frames_dropped += 1;
    port::count(hca, why);
}

/// Whether a frame comes from the transport domain of the TIR, which does not want it back.
fn is_own_echo(tir: &Tir, from: Option<u32>, headers: &Headers) -> bool {
    let allowed = match is_multicast(&headers.dmac) {
        true => tir.loopback.multicast,
        false => tir.loopback.unicast,
    };
    from == Some(tir.domain) && !allowed
}

fn dispatch(hca: &mut Hca, frame: &[u8], headers: &Headers, hit: Hit) {
    let Some(tir) = hca.tirs.get(hit.tirn) else {
        return;
    };
    let hash = tir.selector.hash(headers);
    let rqn = match tir.dispatch {
        Dispatch::Direct(rqn) => Some(rqn),
        Dispatch::Indirect(rqtn) => hca
            .rqts
            .get(rqtn)
            .and_then(|rqt| rqt.pick(|log| hash.entry(log))),
    };
    let Some(rqn) = rqn else {
        return drop_frame(hca, "rx_no_queue");
    };
    let Some(mut rq) = hca.rqs.check_out(rqn) else {
        return drop_frame(hca, "rx_no_queue");
    };
    let packet = Packet {
        frame,
        headers,
        hash,
        tag: hit.tag,
    };
    store(hca, rqn, &mut rq, &packet);
    hca.rqs.check_in(rqn, rq);
}

/// A frame on its way into a queue.
struct Packet<'a> {
    frame: &'a [u8],
    headers: &'a Headers,
    hash: Hash,
    tag: u32,
}

/// WQEs that are posted and not consumed; `None` when the queue cannot say, which ends it.
fn posted(hca: &mut Hca, rqn: u32, rq: &mut Rq) -> Option<u16> {
    let posted = match rq.wq.posted(&mut hca.env, Record::Receive) {
        Ok(posted) => posted.wrapping_sub(rq.consumer),
        Err(error) => {
            tracing::error!("RQ {rqn:#x}: doorbell record: {error}");
            rq.state = State::Error;
            return None;
        }
    };
    if u32::from(posted) > rq.wq.entries() {
        let entries = rq.wq.entries();
        tracing::error!("RQ {rqn:#x}: {posted} WQEs posted, the queue has {entries}");
        rq.state = State::Error;
        return None;
    }
    Some(posted)
}

fn store(hca: &mut Hca, rqn: u32, rq: &mut Rq, packet: &Packet<'_>) {
    if rq.state != State::Ready {
        return drop_frame(hca, "rx_queue_not_ready");
    }
    match posted(hca, rqn, rq) {
        None => return drop_frame(hca, "rx_queue_not_ready"),
        Some(0) => {
            port::count_out_of_buffer(hca, rq.counter_set);
            return drop_frame(hca, "rx_out_of_buffer");
        }
        Some(_) => {}
    }
    let index = rq.consumer;
    rq.consumer = index.wrapping_add(1);
    let mut report = completion::Receive {
        rqn,
        user_index: rq.user_index,
        index,
        byte_count: 0,
        tag: packet.tag,
        hash: packet.hash,
        verdict: offload::check(packet.frame, packet.headers),
        headers: packet.headers,
        stripped: None,
    };
    let stripped;
    let mut bytes = packet.frame;
    if let (false, Some(tag)) = (rq.keep_vlan, packet.headers.tags[0]) {
        // The completion has no room for the TPID, so only customer tags go.
        if tag.tpid == ethertype::CVLAN {
            let (addresses, rest) = bytes.split_at(bytes.len().min(12));
            let behind = rest.get(TAG_LEN..).unwrap_or_default();
            stripped = [addresses, behind].concat();
            bytes = &stripped;
            report.stripped = Some(tag.tci);
        }
    }
    // CAST: frames are shorter than 64 KiB.
    report.byte_count = bytes.len() as u32;
    match scatter(hca, rqn, rq, index, bytes) {
        Ok(()) => {
            if !completion::receive_done(hca, rq.cqn, &report) {
                rq.state = State::Error;
            }
        }
        Err(failure) => {
            let verdict = failure.verdict();
            tracing::warn!(
                "RQ {rqn:#x}: WQE {index:#x}: {}: {failure}",
                verdict.syndrome.text()
            );
            drop_frame(hca, "rx_wqe_errors");
            rq.state = State::Error;
            completion::receive_error(hca, rq.cqn, &report, verdict);
            flush_queue(hca, rqn, rq);
        }
    }
}

/// Why a WQE cannot take a frame.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("WQE cannot be read: {0}")]
    Fetch(#[from] crate::host::DmaError),
    #[error("frame of {frame} bytes, the WQE has room for {room}")]
    Length { frame: usize, room: usize },
    #[error("data segment: {0}")]
    Scatter(#[from] Fault),
}

impl Failure {
    /// What the completion says.
    fn verdict(&self) -> Verdict {
        match self {
            Self::Fetch(_) => Violation::Unreadable,
            Self::Length { .. } => Violation::ReceiveLength,
            Self::Scatter(fault) => fault.violation(),
        }
        .into()
    }
}

/// Writes a frame to the data segments of a WQE.
fn scatter(hca: &mut Hca, rqn: u32, rq: &Rq, index: u16, bytes: &[u8]) -> Result<(), Failure> {
    let mut wqe = vec![0; 1 << rq.wq.log_stride];
    rq.wq.read(&mut hca.env, index, &mut wqe)?;
    let mut rest = bytes;
    for segment in wqe.chunks_exact(SEGMENT) {
        let field = |member| get(segment, member).unwrap_or(0);
        let key = field(wire!(mlx5_wqe_data_seg, lkey));
        let room = field(wire!(mlx5_wqe_data_seg, byte_count)) & !u64::from(raw::MLX5_INLINE_SEG);
        if rest.is_empty() || key == TERMINATE && room == 0 {
            break;
        }
        // CAST: 31 bits.
        let (now, later) = rest.split_at(rest.len().min(room as usize));
        let reach = Reach {
            // CAST: a dword.
            key: key as u32,
            pd: rq.wq.pd,
            qpn: rqn,
            reserved: false,
            need: Need::LocalWrite,
        };
        let mut memory = Memory {
            env: &mut hca.env,
            keys: &hca.mkeys,
        };
        memory.write(reach, field(wire!(mlx5_wqe_data_seg, addr)), now)?;
        rest = later;
    }
    if !rest.is_empty() {
        return Err(Failure::Length {
            frame: bytes.len(),
            room: bytes.len() - rest.len(),
        });
    }
    Ok(())
}

/// An RQ has gone to the error state: its WQEs complete as flushed.
pub fn flush(hca: &mut Hca, rqn: u32) {
    if let Some(mut rq) = hca.rqs.check_out(rqn) {
        flush_queue(hca, rqn, &mut rq);
        hca.rqs.check_in(rqn, rq);
    }
}

fn flush_queue(hca: &mut Hca, rqn: u32, rq: &mut Rq) {
    if !rq.flush_in_error {
        return;
    }
    // At most as many as the queue has entries.
    for _ in 0..posted(hca, rqn, rq).unwrap_or(0) {
        let index = rq.consumer;
        rq.consumer = index.wrapping_add(1);
        if !completion::receive_flushed(hca, rq.cqn, rqn, rq.user_index, index) {
            return;
        }
    }
}
