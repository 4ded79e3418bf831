// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface without firmware pages ("no DRAM NIC"), which boot programs use: one receive ring, one send ring and one
//! CQ, set up and rung through registers of a segment behind the vendor gateway. No commands, no keys, no events.
//!
//! Where the segment is: `nic_interface_supported`, `nic_interface` and `no_dram_nic_offset` of `mlx5_ifc_initial_seg_bits`.
//! The kernel does not use it; its registers are those that iPXE's driver reads and writes
//! (drivers/infiniband/mlx_nodnic/src/mlx_device.c and mlx_port.c, drivers/infiniband/flexboot_nodnic.c). WQEs and CQEs
//! are the ordinary ones.
//!
//! | offset in the segment | what |
//! |---|---|
//! | 0x00 | revision, hardware format, filters offered, ports |
//! | 0x04, 0x08 | longest ring, key of all memory |
//! | 0x10, 0x14 | GUID |
//! | 0x100 | port: type, state |
//! | 0x104 | port: network, DMA, promiscuous flags, address filters in use |
//! | 0x108, 0x10c | port: MAC |
//! | 0x110 + 8n | port: address filter n |
//! | 0x168, 0x16c | CQ: address, log2 of its entries |
//! | 0x180, 0x1c0 | send and receive ring: address and log2 of bytes, doorbell, number |

use mlx5_hw::{raw, status::Syndrome};

use crate::{
    cq::{Completion, Cqe},
    eth::{
        frame::{is_multicast, ETH_LEN, MIN_LEN},
        port,
        wqe::{parse, Control, Operation, Piece, BLOCK, SEGMENT},
    },
    hca::Hca,
};

/// Where the segment starts in the initialization segment's address space.
pub const START: u32 = 0x300;
/// Its length in bytes.
const LEN: u32 = 0x280;

/// Words that software may write; all others keep what the card says.
const WRITABLE: [(u32, u32); 6] = [
    (FLAGS, FLAGS + 4),
    (FILTERS, FILTERS + 8 * FILTER_COUNT),
    (CQ, CQ + 8),
    (EQ, EQ + 8),
    (SEND, SEND + 0xc),
    (RECEIVE, RECEIVE + 0xc),
];

const PORT: u32 = 0x100;
const FLAGS: u32 = PORT + 0x04;
const MAC: u32 = PORT + 0x08;
const FILTERS: u32 = PORT + 0x10;
const FILTER_COUNT: u32 = 5;
const CQ: u32 = PORT + 0x68;
const EQ: u32 = PORT + 0x70;
const SEND: u32 = PORT + 0x80;
const RECEIVE: u32 = PORT + 0xc0;
/// In a ring: the doorbell, and the number that completions carry.
const DOORBELL: u32 = 0x08;
const NUMBER: u32 = 0x0c;

const REVISION: u32 = 1 << 24;
const FORMAT_CONNECTX4: u32 = 1 << 16;
const OFFERS_MAC_FILTERS: u32 = 1 << 15;
const OFFERS_PROMISCUOUS: u32 = 1 << 14;
const OFFERS_PROMISCUOUS_MULTICAST: u32 = 1 << 13;
/// log2 of the longest ring in bytes.
const LOG_MAX_RING: u32 = 14;
const LOG_UAR_PAGE: u32 = 12;

const TYPE_ETHERNET: u32 = 1 << 4;
const STATE_DOWN: u32 = 0;
const STATE_ACTIVE: u32 = 3;

const NETWORK: u32 = 1 << 31;
const DMA: u32 = 1 << 30;
const PROMISCUOUS: u32 = 1 << 29;
const PROMISCUOUS_MULTICAST: u32 = 1 << 28;

/// Numbers of the two rings, and the key that stands for all of host memory.
const SEND_NUMBER: u32 = 0x48;
const RECEIVE_NUMBER: u32 = 0x49;
const KEY: u32 = 0x400;

/// log2 of the CQ's entries: both rings of 64 fit, so it cannot overrun.
const LOG_CQ: u32 = 7;
/// Receive requests: one data segment.
const RECEIVE_WQE: u64 = 16;

/// State of the interface. All of it is gone after a reset.
#[derive(Debug)]
pub struct Nodnic {
    /// A driver has chosen this interface.
    pub active: bool,
    /// The segment as software wrote it.
    words: Box<[u32; LEN as usize / 4]>,
    /// Next request of the send ring; runs freely.
    sent: u16,
    /// Next request of the receive ring; runs freely.
    received: u16,
    /// Next entry of the CQ; runs freely.
    completed: u32,
}

impl Default for Nodnic {
    fn default() -> Self {
        let mut new = Self {
            active: false,
            words: Box::new([0; LEN as usize / 4]),
            sent: 0,
            received: 0,
            completed: 0,
        };
        new.put(CQ + 4, LOG_CQ);
        new
    }
}

impl Nodnic {
    fn word(&self, at: u32) -> u32 {
        self.words.get(at as usize / 4).copied().unwrap_or(0)
    }

    fn put(&mut self, at: u32, value: u32) {
        if let Some(word) = self.words.get_mut(at as usize / 4) {
            *word = value;
        }
    }

    /// Address of a ring or queue: the low bits of the second word are a size.
    fn address(&self, at: u32) -> u64 {
        u64::from(self.word(at)) << 32 | u64::from(self.word(at + 4) & !0xfff)
    }

    fn log(&self, at: u32) -> u32 {
        self.word(at + 4) & 0x3f
    }

    fn posted(&self, ring: u32) -> u16 {
        // CAST: 16 bits are the meaning.
        (self.word(ring + DOORBELL) >> 8) as u16
    }

    fn moves_data(&self) -> bool {
        self.active && self.word(FLAGS) & (NETWORK | DMA) == NETWORK | DMA
    }

    /// Whether a frame with this destination is wanted.
    fn wants(&self, mac: &[u8; 6], own: &[u8; 6]) -> bool {
        let flags = self.word(FLAGS);
        let group = is_multicast(mac);
        let filtered = (0..FILTER_COUNT).any(|n| {
            let high = self.word(FILTERS + 8 * n) & 0xffff;
            let low = self.word(FILTERS + 8 * n + 4);
            let [.., a, b, c, d, e, f] = (u64::from(high) << 32 | u64::from(low)).to_be_bytes();
            flags & 1 << n != 0 && *mac == [a, b, c, d, e, f]
        });
        mac == own
            || *mac == [0xff; 6]
            || flags & PROMISCUOUS != 0
            || group && flags & PROMISCUOUS_MULTICAST != 0
            || filtered
    }
}

/// Whether a byte offset from [`START`] is in the segment.
pub fn covers(at: u32) -> bool {
    at < LEN
}

/// Reads a word of the segment; `at` is relative to [`START`]. `None` outside.
pub fn read(hca: &Hca, at: u32) -> Option<u32> {
    if !covers(at) || at % 4 != 0 {
        return None;
    }
    let guid = hca.vport.guid();
    let [a, b, c, d, e, f] = hca.vport.mac;
    // CAST: halves of a GUID.
    Some(match at {
        0x00 => {
            REVISION
                | FORMAT_CONNECTX4
                | OFFERS_MAC_FILTERS
                | OFFERS_PROMISCUOUS
                | OFFERS_PROMISCUOUS_MULTICAST
        }
        0x04 => LOG_MAX_RING << 24,
        0x08 => KEY,
        0x10 => (guid >> 32) as u32,
        0x14 => guid as u32,
        0x20 => LOG_UAR_PAGE,
        PORT => {
            let up = hca.vport.link_up() && hca.nodnic.word(FLAGS) & NETWORK != 0;
            TYPE_ETHERNET | if up { STATE_ACTIVE } else { STATE_DOWN }
        }
        MAC => u32::from_be_bytes([0, 0, a, b]),
        0x10c => u32::from_be_bytes([c, d, e, f]),
        at if at == SEND + NUMBER => SEND_NUMBER,
        at if at == RECEIVE + NUMBER => RECEIVE_NUMBER,
        at => hca.nodnic.word(at),
    })
}

/// Writes a word of the segment; false when nothing there can be written.
pub fn write(hca: &mut Hca, at: u32, value: u32) -> bool {
    let known = WRITABLE.iter().any(|(from, to)| (*from..*to).contains(&at));
    if !known || at % 4 != 0 {
        return false;
    }
    let nodnic = &mut hca.nodnic;
    let before = nodnic.word(at);
    nodnic.put(at, value);
    match at {
        FLAGS if before & NETWORK != 0 && value & NETWORK == 0 => {
            // The rings start afresh when the port is opened again.
            nodnic.sent = 0;
            nodnic.received = 0;
            nodnic.completed = 0;
        }
        at if at == SEND + DOORBELL || at == FLAGS => send(hca),
        _ => {}
    }
    true
}

/// Works off the send ring.
fn send(hca: &mut Hca) {
    if !hca.nodnic.moves_data() {
        return;
    }
    let blocks = 1u32 << hca.nodnic.log(SEND).min(LOG_MAX_RING) >> BLOCK.trailing_zeros();
    let posted = hca.nodnic.posted(SEND);
    if blocks == 0 || u32::from(posted.wrapping_sub(hca.nodnic.sent)) > blocks {
        tracing::error!("boot interface: {posted} requests rung, the ring has {blocks}");
        port::count(hca, "nodnic_bad_doorbell");
        return;
    }
    while hca.nodnic.sent != posted {
        let index = hca.nodnic.sent;
        hca.nodnic.sent = index.wrapping_add(1);
        let slot = u64::from(u32::from(index) & (blocks - 1));
        let at = hca.nodnic.address(SEND) + slot * BLOCK as u64;
        let outcome =
            frame(hca, at, index).map(|frame| port::transmit(hca, frame, None, usize::MAX));
        let error = outcome.err().map(|why| {
            tracing::error!("boot interface: send request {index}: {why}");
            Syndrome::LocalQpOp
        });
        // CAST: CQE opcodes have four bits.
        let opcode = match error {
            None => raw::MLX5_CQE_REQ as u8,
            Some(_) => raw::MLX5_CQE_REQ_ERR as u8,
        };
        complete(hca, opcode, SEND_NUMBER, index, 0, error);
    }
}

/// The frame that the send request at `at` describes.
fn frame(hca: &mut Hca, at: u64, index: u16) -> Result<Vec<u8>, String> {
    let mut wqe = [0; BLOCK];
    let dma = |error: crate::host::DmaError| error.to_string();
    hca.env.read(at, &mut wqe).map_err(dma)?;
    let control = Control::parse(wqe.first_chunk::<SEGMENT>().ok_or("no control segment")?);
    if control.number != SEND_NUMBER || control.index != index || control.blocks() != 1 {
        return Err(format!("control segment {control:x?}"));
    }
    let bytes = wqe.get(..usize::from(control.segments) * SEGMENT);
    let parsed = parse(&control, bytes.ok_or("longer than a block")?);
    let operation = parsed.map_err(|error| error.to_string())?;
    let Operation::Send {
        mss: None,
        inlined,
        pieces,
        ..
    } = operation
    else {
        return Err("not a plain send".to_owned());
    };
    let mut frame = inlined.to_vec();
    let most = usize::from(port::mtu(hca));
    for piece in pieces {
        match piece {
            Piece::Inline(bytes) => frame.extend_from_slice(bytes),
            Piece::Memory { key, .. } if key != KEY => return Err(format!("key {key:#x}")),
            Piece::Memory { addr, len, .. } => {
                let start = frame.len();
                let end = start.saturating_add(len as usize);
                if end > most {
                    return Err(format!("frame of {end} bytes"));
                }
                frame.resize(end, 0);
                // PANIC: the frame has just been made that long.
                hca.env.read(addr, &mut frame[start..]).map_err(dma)?;
            }
        }
    }
    if frame.len() < ETH_LEN {
        return Err(format!("frame of {} bytes", frame.len()));
    }
    frame.resize(frame.len().max(MIN_LEN), 0);
    Ok(frame)
}

/// A frame came over the cable, and a boot program runs the card.
pub fn receive(hca: &mut Hca, frame: &[u8]) {
    let drop = |hca: &mut Hca, why| {
        hca.env.counters.frames_dropped += 1;
        port::count(hca, why);
    };
    let Some(mac) = frame.first_chunk::<6>() else {
        return drop(hca, "rx_malformed");
    };
    if !hca.nodnic.moves_data() || !hca.nodnic.wants(mac, &hca.vport.mac) {
        return drop(hca, "rx_filtered");
    }
    let entries = (1u64 << hca.nodnic.log(RECEIVE).min(LOG_MAX_RING)) / RECEIVE_WQE;
    let index = hca.nodnic.received;
    let left = u64::from(hca.nodnic.posted(RECEIVE).wrapping_sub(index));
    if left == 0 || left > entries {
        return drop(hca, "rx_out_of_buffer");
    }
    hca.nodnic.received = index.wrapping_add(1);
    let at = hca.nodnic.address(RECEIVE) + (u64::from(index) & (entries - 1)) * RECEIVE_WQE;
    let error = store(hca, at, frame).err();
    if let Some(error) = error {
        tracing::error!("boot interface: receive request {index}: {}", error.text());
    }
    // CAST: CQE opcodes have four bits, frames are short.
    let opcode = match error {
        None => raw::MLX5_CQE_RESP_SEND as u8,
        Some(_) => raw::MLX5_CQE_RESP_ERR as u8,
    };
    let len = frame.len() as u32;
    complete(hca, opcode, RECEIVE_NUMBER, index, len, error);
}

/// Puts a frame where the receive request at `at` says.
fn store(hca: &mut Hca, at: u64, frame: &[u8]) -> Result<(), Syndrome> {
    let mut wqe = [0; 16];
    hca.env
        .read(at, &mut wqe)
        .map_err(|_| Syndrome::LocalProtection)?;
    let [l0, l1, l2, l3, k0, k1, k2, k3, address @ ..] = wqe;
    let room = u32::from_be_bytes([l0, l1, l2, l3]) & !raw::MLX5_INLINE_SEG;
    if u32::from_be_bytes([k0, k1, k2, k3]) != KEY {
        return Err(Syndrome::LocalProtection);
    }
    if frame.len() as u64 > u64::from(room) {
        return Err(Syndrome::LocalLength);
    }
    hca.env
        .write(u64::from_be_bytes(address), frame)
        .map_err(|_| Syndrome::LocalProtection)
}

/// Writes the next completion.
fn complete(
    hca: &mut Hca,
    opcode: u8,
    number: u32,
    index: u16,
    byte_count: u32,
    error: Option<Syndrome>,
) {
    let completion = Completion {
        opcode,
        qpn: number,
        // Receives are told apart by it.
        user_index: number,
        wqe_opcode: 0,
        wqe_counter: index,
        byte_count,
        imm: [0; 4],
        flags_rqpn: 0,
        vlan: None,
        solicited: false,
    };
    let cqe = match error {
        None => Cqe::good(completion),
        Some(syndrome) => Cqe::error(completion, syndrome),
    };
    let log = hca.nodnic.log(CQ).min(LOG_CQ);
    let at = hca.nodnic.completed;
    hca.nodnic.completed = at.wrapping_add(1);
    // CAST: one bit.
    let owner = (at >> log & 1) as u8;
    let slot = u64::from(at & ((1 << log) - 1)) * crate::cq::CQE_LEN as u64;
    let address = hca.nodnic.address(CQ) + slot;
    // A queue that cannot be written has been reported; there is no event to raise.
    let _ = hca.env.publish(address, &cqe.owned(owner));
}
