// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Send WQEs of an Ethernet SQ. Layouts: `mlx5_wqe_ctrl_seg`, `mlx5_wqe_eth_seg`,
//! `mlx5_wqe_data_seg` in include/linux/mlx5/qp.h.

use super::frame::array;
use super::offload::Request;
use mlx5_hw::{raw, wire, wire::get};

/// Unit in which the control segment counts the size of a WQE, in bytes.
pub const SEGMENT: usize = 16;

/// Basic block: WQEs start at multiples of it, in bytes.
pub const BLOCK: usize = 64;

/// Offset of the first inlined header byte in the Ethernet segment (`inline_hdr.start`).
const INLINE_AT: usize = 14;

/// Most bytes one data segment can name; an inline segment says so with the bit above.
const LEN_MASK: u32 = 0x7fff_ffff;

/// Length of an inline data segment: 10 bits.
const INLINE_LEN: u32 = 0x3ff;

/// Bits of `fm_ce_se` that ask for a completion: `MLX5_WQE_CTRL_CQ_UPDATE`.
const CE_MASK: u8 = 3 << 2;
const CE_CQE: u8 = 2 << 2;
const CE_CQE_EVENT: u8 = 3 << 2;

/// Why a WQE cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WqeError {
    /// The control segment says a size of 0, or more than the queue or the card allows.
    #[error("size of {0} segments")]
    Size(u8),
    /// The WQE carries the number of another queue.
    #[error("queue number {0:#x} in the control segment")]
    Number(u32),
    /// An Ethernet SQ does not do this.
    #[error("opcode {0:#x}")]
    Opcode(u8),
    /// The WQE has no Ethernet segment.
    #[error("no Ethernet segment")]
    Ethernet,
    /// More header bytes than there is WQE.
    #[error("{0} inlined header bytes")]
    InlineHeader(u16),
    /// A request for what the card does not offer (software parser, inner checksums, trailer).
    #[error("Ethernet segment asks for {0}")]
    Unsupported(&'static str),
    /// An inline data segment that is longer than the WQE.
    #[error("inline data segment of {0} bytes")]
    InlineData(u32),
}

/// The control segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Opcode.
    pub opcode: u8,
    /// Size in segments of 16 bytes, the control segment included; 6 bits.
    pub segments: u8,
    /// Index of its first basic block, modulo 2^16.
    pub index: u16,
    /// Number of the queue.
    pub number: u32,
    /// Asks for a CQE.
    pub signaled: bool,
    /// Asks for a solicited event.
    pub solicited: bool,
}

impl Control {
    /// Parses the first segment of a WQE.
    pub fn parse(bytes: &[u8; SEGMENT]) -> Self {
        let word0 = get(bytes, wire!(mlx5_wqe_ctrl_seg, opmod_idx_opcode)).unwrap_or(0);
        let word1 = get(bytes, wire!(mlx5_wqe_ctrl_seg, qpn_ds)).unwrap_or(0);
        let flags = bytes[11];
        Self {
            // CAST: low byte.
            opcode: word0 as u8,
            // CAST: the cut is the meaning.
            index: (word0 >> 8) as u16,
            // CAST: masked.
            segments: (word1 & 0x3f) as u8,
            // CAST: 24 bits are left.
            number: (word1 >> 8) as u32,
            signaled: matches!(flags & CE_MASK, CE_CQE | CE_CQE_EVENT),
            solicited: flags & 1 << 1 != 0,
        }
    }

    /// Basic blocks it occupies, at least one.
    pub fn blocks(&self) -> u16 {
        (u16::from(self.segments) * 16).div_ceil(64).max(1)
    }
}

/// One piece of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of host memory.
    Memory {
        /// Memory key.
        key: u32,
        /// Address under that key.
        addr: u64,
        /// Length in bytes, not 0.
        len: u32,
    },
    /// Bytes of the WQE itself.
    Inline(&'a [u8]),
}

/// What a WQE wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Nothing but, perhaps, a completion.
    Nop,
    /// One frame, or many.
    Send {
        /// Checksums to fill in.
        checksums: Request,
        /// Payload bytes a segment; `None` sends one frame.
        mss: Option<u16>,
        /// Headers inlined in the Ethernet segment.
        inlined: &'a [u8],
        /// The rest of the frame.
        pieces: Vec<Piece<'a>>,
    },
}

/// Takes a whole WQE (`16 * segments` bytes) apart.
///
/// # Errors
/// [`WqeError`]; the queue then goes to the error state.
pub fn parse<'a>(control: &Control, wqe: &'a [u8]) -> Result<Operation<'a>, WqeError> {
    let lso = match u32::from(control.opcode) {
        raw::MLX5_OPCODE_NOP => return Ok(Operation::Nop),
        raw::MLX5_OPCODE_SEND => false,
        raw::MLX5_OPCODE_LSO => true,
        _ => return Err(WqeError::Opcode(control.opcode)),
    };
    let eth = wqe.get(SEGMENT..).unwrap_or_default();
    let (Some(swp), Some(mss), Some(trailer), Some(inline_len)) = (
        array::<4>(eth, 0),
        get(eth, wire!(mlx5_wqe_eth_seg, mss)),
        array::<4>(eth, 12),
        array::<2>(eth, 12).map(u16::from_be_bytes),
    ) else {
        return Err(WqeError::Ethernet);
    };
    if swp != [0; 4] || get(eth, wire!(mlx5_wqe_eth_seg, swp_flags)) != Some(0) {
        return Err(WqeError::Unsupported("the software parser"));
    }
    if u32::from_be_bytes(trailer) & raw::MLX5_ETH_WQE_INSERT_TRAILER != 0 {
        return Err(WqeError::Unsupported("a trailer"));
    }
    // CAST: a byte.
    let flags = get(eth, wire!(mlx5_wqe_eth_seg, cs_flags)).unwrap_or(0) as u32;
    if flags & (raw::MLX5_ETH_WQE_L3_INNER_CSUM | raw::MLX5_ETH_WQE_L4_INNER_CSUM) != 0 {
        return Err(WqeError::Unsupported("inner checksums"));
    }
    let checksums = Request {
        l3: flags & raw::MLX5_ETH_WQE_L3_CSUM != 0,
        l4: flags & raw::MLX5_ETH_WQE_L4_CSUM != 0,
    };
    let inlined = eth
        .get(INLINE_AT..INLINE_AT + usize::from(inline_len))
        .ok_or(WqeError::InlineHeader(inline_len))?;
    // The segment itself has room for two of the bytes.
    let behind = usize::from(inline_len)
        .saturating_sub(SEGMENT - INLINE_AT)
        .next_multiple_of(SEGMENT);
    let data = eth.get(SEGMENT + behind..).unwrap_or_default();
    Ok(Operation::Send {
        checksums,
        // CAST: 16 bits wide.
        mss: lso.then_some(mss as u16),
        inlined,
        pieces: pieces(data)?,
    })
}

fn pieces(mut data: &[u8]) -> Result<Vec<Piece<'_>>, WqeError> {
    let mut pieces = Vec::new();
    while let Some(segment) = array::<SEGMENT>(data, 0) {
        let field = |member| get(&segment, member).unwrap_or(0);
        // CAST: two dwords.
        let count = field(wire!(mlx5_wqe_data_seg, byte_count)) as u32;
        let key = field(wire!(mlx5_wqe_data_seg, lkey)) as u32;
        if count & raw::MLX5_INLINE_SEG != 0 {
            let len = count & INLINE_LEN;
            // CAST: 10 bits.
            let bytes = data
                .get(4..4 + len as usize)
                .ok_or(WqeError::InlineData(len))?;
            pieces.push(Piece::Inline(bytes));
            let step = (4 + len as usize).next_multiple_of(SEGMENT);
            data = data.get(step..).unwrap_or_default();
        } else {
            pieces.push(Piece::Memory {
                key,
                addr: field(wire!(mlx5_wqe_data_seg, addr)),
                // Zero stands for the largest length (InfiniBand volume 1, 10.6.3.1 does not
                // allow empty ones); the length check of the frame refuses it.
                len: if count == 0 { LEN_MASK } else { count },
            });
            data = data.get(SEGMENT..).unwrap_or_default();
        }
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a WQE: control, Ethernet segment with `inlined`, then `rest`.
    fn wqe(opcode: u8, cs_flags: u8, mss: u16, inlined: &[u8], rest: &[u8]) -> Vec<u8> {
        let mut wqe = vec![0; SEGMENT];
        let mut eth = vec![0, 0, 0, 0, cs_flags, 0];
        eth.extend_from_slice(&mss.to_be_bytes());
        eth.extend_from_slice(&[0; 4]);
        eth.extend_from_slice(&(inlined.len() as u16).to_be_bytes());
        eth.extend_from_slice(inlined);
        eth.resize(eth.len().next_multiple_of(SEGMENT).max(SEGMENT), 0);
        wqe.extend_from_slice(&eth);
        wqe.extend_from_slice(rest);
        let segments = (wqe.len() / SEGMENT) as u8;
        wqe[..8].copy_from_slice(&[0, 0, 7, opcode, 0, 0, 0x42, segments]);
        wqe[11] = 2 << 2;
        wqe
    }

    fn data(len: u32, key: u32, addr: u64) -> Vec<u8> {
        [
            len.to_be_bytes().as_slice(),
            &key.to_be_bytes(),
            &addr.to_be_bytes(),
        ]
        .concat()
    }

    fn control(wqe: &[u8]) -> Control {
        Control::parse(wqe[..SEGMENT].try_into().unwrap())
    }

    #[test]
    fn send_with_inlined_headers_and_memory() {
        let headers: Vec<u8> = (0..18).collect();
        let wqe = wqe(0x0a, 0xc0, 0, &headers, &data(100, 0x1200, 0x5000));
        let control = control(&wqe);

        assert_eq!(control.number, 0x42);
        assert_eq!(control.index, 7);
        assert_eq!(control.segments, 4);
        assert!(control.signaled);
        let expected = Operation::Send {
            checksums: Request { l3: true, l4: true },
            mss: None,
            inlined: &headers,
            pieces: vec![Piece::Memory {
                key: 0x1200,
                addr: 0x5000,
                len: 100,
            }],
        };
        assert_eq!(parse(&control, &wqe), Ok(expected));
    }

    #[test]
    fn headers_end_where_they_say() {
        for len in [0usize, 1, 2, 3, 18, 19, 54] {
            let headers: Vec<u8> = (0..len as u8).collect();
            let wqe = wqe(0x0e, 0, 1448, &headers, &data(1, 2, 3));

            match parse(&control(&wqe), &wqe).unwrap() {
                Operation::Send {
                    mss,
                    inlined,
                    pieces,
                    ..
                } => {
                    assert_eq!(mss, Some(1448));
                    assert_eq!(inlined, headers);
                    assert_eq!(pieces.len(), 1, "{len} inlined bytes");
                }
                Operation::Nop => panic!("not a NOP"),
            }
        }
    }

    #[test]
    fn inline_data_segments_are_padded_to_16_bytes() {
        let mut inline = (0x8000_0000u32 | 13).to_be_bytes().to_vec();
        inline.extend_from_slice(b"thirteen byte");
        inline.resize(32, 0);
        inline.extend_from_slice(&data(5, 6, 7));
        let wqe = wqe(0x0a, 0, 0, &[], &inline);

        let Operation::Send { pieces, .. } = parse(&control(&wqe), &wqe).unwrap() else {
            panic!("not a NOP");
        };
        assert_eq!(pieces[0], Piece::Inline(b"thirteen byte"));
        assert_eq!(pieces.len(), 2);
    }

    #[test]
    fn what_the_card_lacks_is_refused() {
        let mut swp = wqe(0x0a, 0, 0, &[0; 18], &[]);
        swp[SEGMENT] = 7;
        let inner = wqe(0x0a, 0x30, 0, &[0; 18], &[]);
        let umr = wqe(0x25, 0, 0, &[0; 18], &[]);
        let mut long = wqe(0x0a, 0, 0, &[0; 18], &[]);
        long[SEGMENT + 12..SEGMENT + 14].copy_from_slice(&[0x3f, 0xff]);

        for (wqe, expected) in [
            (swp, WqeError::Unsupported("the software parser")),
            (inner, WqeError::Unsupported("inner checksums")),
            (umr, WqeError::Opcode(0x25)),
            (long, WqeError::InlineHeader(0x3fff)),
        ] {
            assert_eq!(parse(&control(&wqe), &wqe), Err(expected));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 16..1024)) {
            let control = control(&bytes);
            for opcode in [0, 0x0a, 0x0e, control.opcode] {
                let _ = parse(&Control { opcode, ..control }, &bytes);
            }
        }
    }
}
