// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The send engine: WQEs of Ethernet SQs become frames.

use mlx5_hw::{field, status::Syndrome};

use super::{
    completion,
    frame::{Headers, ETH_LEN, MIN_LEN},
    lso, offload, port,
    wqe::{parse, Control, Operation, Piece, WqeError, SEGMENT},
};
use crate::{
    hca::Hca,
    mkey::{Fault, Memory, Need, Reach},
    push::Pushed,
    sched::Work,
    sq::Sq,
    violation::{EthernetViolation, Failure as Verdict, Violation},
    vport::FCS_LEN,
    wq::{Record, State},
};

/// WQEs one SQ may use up before others have their turn.
const TURN: u32 = 32;

/// A doorbell named this SQ; `pushed` is the WQE that came with it.
pub fn doorbell(hca: &mut Hca, uar: u32, sqn: u32, pushed: Option<Pushed>) {
    match hca.sqs.get_mut(sqn) {
        Some(sq) if sq.uar == uar => {
            // Only the next one: nothing older can be overtaken.
            sq.pushed = pushed.filter(|pushed| pushed.index() == sq.consumer);
            hca.sched.push(Work::Sq(sqn));
        }
        Some(sq) => {
            let own = sq.uar;
            tracing::warn!("SQ {sqn:#x}: doorbell through UAR {uar:#x}, its own is {own:#x}");
            hca.env.counters.stray_accesses += 1;
        }
        None => {}
    }
}

/// The scheduler gives this SQ its turn.
pub fn run_sq(hca: &mut Hca, sqn: u32) {
    let Some(mut sq) = hca.sqs.check_out(sqn) else {
        return;
    };
    let more = turn(hca, sqn, &mut sq);
    hca.sqs.check_in(sqn, sq);
    if more {
        hca.sched.push(Work::Sq(sqn));
    }
}

/// Works off posted WQEs; whether there are more.
fn turn(hca: &mut Hca, sqn: u32, sq: &mut Sq) -> bool {
    if sq.state == State::Reset {
        return false;
    }
    let posted = match sq.wq.posted(&mut hca.env, Record::Send) {
        Ok(posted) => posted,
        Err(error) => {
            tracing::error!("SQ {sqn:#x}: doorbell record: {error}");
            sq.state = State::Error;
            return false;
        }
    };
    for _ in 0..TURN {
        let left = posted.wrapping_sub(sq.consumer);
        if left == 0 {
            return false;
        }
        if u32::from(left) > sq.wq.entries() {
            if sq.state == State::Ready {
                tracing::error!(
                    "SQ {sqn:#x}: {left} blocks posted, the queue has {}",
                    sq.wq.entries()
                );
                sq.state = State::Error;
            }
            return false;
        }
        if !step(hca, sqn, sq, left) {
            return false;
        }
    }
    posted != sq.consumer
}

/// One WQE; false when the queue cannot go on.
fn step(hca: &mut Hca, sqn: u32, sq: &mut Sq, left: u16) -> bool {
    let index = sq.consumer;
    let pushed = sq.pushed.take();
    let mut segment = [0; SEGMENT];
    if let Some(pushed) = &pushed {
        hca.env.counters.blueflame_taken += 1;
        pushed.copy_to(&mut segment);
    } else if let Err(error) = sq.wq.read(&mut hca.env, index, &mut segment) {
        tracing::error!("SQ {sqn:#x}: WQE {index:#x}: {error}");
        sq.state = State::Error;
        return false;
    }
    let control = Control::parse(&segment);
    sq.consumer = index.wrapping_add(control.blocks().min(left));
    let report = completion::Send {
        sqn,
        user_index: sq.user_index,
        opcode: control.opcode,
        index,
        solicited: control.solicited,
    };
    if sq.state == State::Error {
        if sq.flush_in_error {
            completion::send_error(hca, sq.cqn, &report, Syndrome::Flushed);
        }
        return true;
    }
    match execute(hca, sqn, sq, &control, left, index, pushed) {
        Ok(()) => {
            if control.signaled {
                return completion::send_done(hca, sq.cqn, &report);
            }
            true
        }
        Err(failure) => {
            let verdict = failure.verdict();
            tracing::warn!(
                "SQ {sqn:#x}: WQE {index:#x}: {}: {failure}",
                verdict.syndrome.text()
            );
            sq.state = State::Error;
            completion::send_error(hca, sq.cqn, &report, verdict)
        }
    }
}

/// Why a WQE failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Wqe(#[from] WqeError),
    #[error("index {0:#x} in the control segment")]
    Index(u16),
    #[error("sends, but the SQ has no TIS")]
    NoTis,
    #[error("{0} bytes of headers inlined, the card needs {ETH_LEN}")]
    Inline(usize),
    #[error("{0} bytes to send")]
    Length(u64),
    #[error("WQE cannot be read: {0}")]
    Fetch(#[from] crate::host::DmaError),
    #[error(transparent)]
    Lso(#[from] lso::LsoError),
    #[error("data segment: {0}")]
    Gather(#[from] Fault),
}

impl Failure {
    /// What the completion says.
    fn verdict(&self) -> Verdict {
        use EthernetViolation as E;
        match self {
            Self::Wqe(WqeError::Size(_)) => Violation::Size.into(),
            Self::Wqe(WqeError::Number(_)) => Violation::Number.into(),
            Self::Wqe(WqeError::Opcode(_)) => Violation::Opcode.into(),
            Self::Wqe(WqeError::InlineData(_)) => Violation::InlineLength.into(),
            Self::Wqe(WqeError::Ethernet) => E::NoSegment.into(),
            Self::Wqe(WqeError::InlineHeader(_)) => E::HeaderLength.into(),
            Self::Wqe(WqeError::Unsupported(_)) => E::Unsupported.into(),
            Self::Index(_) => Violation::Index.into(),
            Self::NoTis => E::NoTis.into(),
            Self::Inline(_) => E::HeaderMissing.into(),
            Self::Length(_) => Violation::MessageLength.into(),
            Self::Fetch(_) => Violation::Unreadable.into(),
            Self::Lso(lso::LsoError::Headers { .. }) => E::LsoHeaders.into(),
            Self::Lso(lso::LsoError::Mss { .. }) => E::LsoSegment.into(),
            Self::Lso(lso::LsoError::Empty) => E::LsoEmpty.into(),
            Self::Gather(fault) => fault.violation().into(),
        }
    }
}

fn execute(
    hca: &mut Hca,
    sqn: u32,
    sq: &Sq,
    control: &Control,
    left: u16,
    index: u16,
    pushed: Option<Pushed>,
) -> Result<(), Failure> {
    let max = hca.caps.get(field!(cmd_hca_cap, max_wqe_sz_sq)) / SEGMENT as u64;
    if control.segments == 0
        || u64::from(control.segments) > max
        || control.blocks() > left
        || u32::from(control.blocks()) > sq.wq.entries()
    {
        return Err(WqeError::Size(control.segments).into());
    }
    if control.number != sqn {
        return Err(WqeError::Number(control.number).into());
    }
    if control.index != index {
        return Err(Failure::Index(control.index));
    }
    let mut wqe = vec![0; usize::from(control.segments) * SEGMENT];
    match pushed {
        Some(pushed) => pushed.copy_to(&mut wqe),
        None => sq.wq.read(&mut hca.env, index, &mut wqe)?,
    }
    let Operation::Send {
        checksums,
        mss,
        inlined,
        pieces,
    } = parse(control, &wqe)?
    else {
        return Ok(());
    };
    let domain = sq
        .tisn
        .and_then(|tisn| hca.tises.get(tisn))
        .map(|tis| tis.domain)
        .ok_or(Failure::NoTis)?;
    let payload = gather(hca, sqn, sq, &pieces)?;
    if needs_inline(hca) && inlined.len() < ETH_LEN {
        return Err(Failure::Inline(inlined.len()));
    }
    match mss {
        None => {
            let mut frame = inlined.to_vec();
            frame.extend_from_slice(&payload);
            if let Some(headers) = Headers::parse(&frame) {
                offload::fill(&mut frame, &headers, checksums);
            }
            let seen = match needs_inline(hca) {
                true => inlined.len(),
                false => usize::MAX,
            };
            emit(hca, domain, frame, seen);
        }
        Some(mss) => {
            let mut frames = Vec::new();
            lso::cut(inlined, &payload, mss, checksums, |frame| {
                frames.push(frame.to_vec());
            })?;
            port::count(hca, "lso_wqes");
            for frame in frames {
                // Whoever cuts has all headers inlined.
                emit(hca, domain, frame, usize::MAX);
            }
        }
    }
    Ok(())
}

/// Whether the card wants the Ethernet header inlined (`MLX5_CAP_INLINE_MODE_L2`).
fn needs_inline(hca: &Hca) -> bool {
    hca.caps.get(field!(
        per_protocol_networking_offload_caps,
        wqe_inline_mode
    )) == 0
}

/// Collects the pieces behind the inlined headers.
fn gather(hca: &mut Hca, sqn: u32, sq: &Sq, pieces: &[Piece<'_>]) -> Result<Vec<u8>, Failure> {
    let max = hca
        .caps
        .pow(field!(per_protocol_networking_offload_caps, max_lso_cap))
        .max(1 << 16);
    let total = pieces.iter().fold(0u64, |sum, piece| {
        sum + match piece {
            Piece::Memory { len, .. } => u64::from(*len),
            Piece::Inline(bytes) => bytes.len() as u64,
        }
    });
    if total > max {
        return Err(Failure::Length(total));
    }
    // CAST: at most `max`.
    let mut payload = vec![0; total as usize];
    let mut rest = payload.as_mut_slice();
    for piece in pieces {
        let len = match piece {
            // CAST: at most `max`.
            Piece::Memory { len, .. } => *len as usize,
            Piece::Inline(bytes) => bytes.len(),
        };
        let (room, behind) = rest.split_at_mut(len);
        rest = behind;
        match *piece {
            Piece::Inline(bytes) => room.copy_from_slice(bytes),
            Piece::Memory { key, addr, .. } => {
                let reach = Reach {
                    key,
                    pd: sq.wq.pd,
                    qpn: sqn,
                    reserved: false,
                    need: Need::LocalRead,
                };
                let mut memory = Memory {
                    env: &mut hca.env,
                    keys: &hca.mkeys,
                };
                memory.read(reach, addr, room)?;
            }
        }
    }
    Ok(payload)
}

/// Puts a finished frame out, padded to the shortest length the wire has. `seen` as for [`port::leave`].
fn emit(hca: &mut Hca, domain: u32, mut frame: Vec<u8>, seen: usize) {
    let mtu = usize::from(port::mtu(hca));
    if frame.len() < ETH_LEN || frame.len() + FCS_LEN > mtu {
        tracing::debug!("frame of {} bytes not sent, MTU is {mtu}", frame.len());
        hca.eth.transmit_errors += 1;
        port::count(hca, "tx_bad_length");
        return;
    }
    if frame.len() < MIN_LEN {
        frame.resize(MIN_LEN, 0);
    }
    port::transmit(hca, frame, Some(domain), seen);
}
