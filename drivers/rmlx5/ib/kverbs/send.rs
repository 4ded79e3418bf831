// SPDX-License-Identifier: GPL-2.0
//! From a send request of the kernel to its WQE. Source: `mlx5_ib_post_send` in ib/wr.c.

use kernel::prelude::*;
use kernel_ext::rdma::kverbs::{
    Operation,
    Outcome,
    Send,
    Sends, //
};
use mlx5_hw::raw;

use super::wqe::{
    Control,
    Registration,
    Wqe, //
};
use crate::ib::{
    mr::permissions,
    Verbs, //
};

/// What a request waits for, beyond its own flags.
#[derive(Clone, Copy)]
pub(super) struct Fence {
    /// Before a registration: as the device wants it.
    registration: u32,
    /// Before the next request: set behind a registration.
    next: u32,
}

impl Fence {
    /// `code` is the capability `umr_fence`. Source: `get_umr_fence` in ib/main.c.
    pub(super) fn new(code: u32) -> Self {
        Self {
            registration: match code {
                raw::MLX5_CAP_UMR_FENCE_NONE => raw::MLX5_FENCE_MODE_NONE,
                raw::MLX5_CAP_UMR_FENCE_SMALL => raw::MLX5_FENCE_MODE_INITIATOR_SMALL,
                _ => raw::MLX5_FENCE_MODE_STRONG_ORDERING,
            },
            next: raw::MLX5_FENCE_MODE_NONE,
        }
    }

    /// The fence of a request, and what it leaves to the next one.
    fn of(&self, registers: bool, fenced: bool) -> (u32, u32) {
        if registers {
            return (self.registration, raw::MLX5_FENCE_MODE_INITIATOR_SMALL);
        }
        let fence = match (fenced, self.next) {
            (false, next) => next,
            (true, raw::MLX5_FENCE_MODE_NONE) => raw::MLX5_FENCE_MODE_FENCE,
            (true, _) => raw::MLX5_FENCE_MODE_SMALL_AND_FENCE,
        };
        (fence, raw::MLX5_FENCE_MODE_NONE)
    }
}

/// What goes with a WQE.
pub(super) struct Built {
    pub(super) control: Control,
    pub(super) outcome: Outcome,
}

/// Makes the WQE of a request, without its control segment: `wqe` is new, and nothing when this fails. `key_of` gives the key that the device knows a key by.
/// `EINVAL` for what does not fit one, `EOPNOTSUPP` for an operation that the device does not do for the kernel.
pub(super) fn build(
    wqe: &mut Wqe,
    list: &Sends<'_, Verbs>,
    request: &Send<'_, Verbs>,
    list_key: u32,
    key_of: impl Fn(u32) -> u32,
    fence: &mut Fence,
) -> Result<Built> {
    let mut control = Control {
        signaled: request.is_signaled(),
        solicited: request.is_solicited(),
        ..Control::default()
    };
    let operation = request.operation();
    if let Some((ah, qpn, qkey)) = list.datagram(request) {
        let payload = ah.payload();
        let vector = payload.as_ref().get_ref().as_ref().ok_or(EINVAL)?;
        wqe.datagram(&vector.0, qpn, qkey).ok_or(EINVAL)?;
        if !matches!(
            operation,
            Operation::Send {
                invalidate: None,
                ..
            }
        ) {
            return Err(EINVAL);
        }
    }
    let registers = matches!(operation, Operation::Register { .. });
    let (own, next) = fence.of(registers, request.is_fenced());
    control.fence = own;
    let immediate = |bytes: Option<[u8; 4]>| bytes.map_or(0, u32::from_be_bytes);
    let mut pieces = true;
    let (opcode, outcome) = match operation {
        Operation::Send {
            invalidate: Some(key),
            ..
        } => {
            control.immediate = key;
            (raw::MLX5_OPCODE_SEND_INVAL, Outcome::Send)
        }
        Operation::Send {
            immediate: bytes, ..
        } => {
            control.immediate = immediate(bytes);
            let opcode = match bytes {
                Some(_) => raw::MLX5_OPCODE_SEND_IMM,
                None => raw::MLX5_OPCODE_SEND,
            };
            (opcode, Outcome::Send)
        }
        Operation::Write {
            remote,
            immediate: bytes,
        } => {
            wqe.remote(remote.address, remote.rkey).ok_or(EINVAL)?;
            control.immediate = immediate(bytes);
            let opcode = match bytes {
                Some(_) => raw::MLX5_OPCODE_RDMA_WRITE_IMM,
                None => raw::MLX5_OPCODE_RDMA_WRITE,
            };
            (opcode, Outcome::Write)
        }
        Operation::Read { remote } => {
            wqe.remote(remote.address, remote.rkey).ok_or(EINVAL)?;
            (raw::MLX5_OPCODE_RDMA_READ, Outcome::Read(0))
        }
        Operation::CompareSwap {
            remote,
            compare,
            swap,
        } => {
            wqe.remote(remote.address, remote.rkey).ok_or(EINVAL)?;
            wqe.atomic(swap, compare).ok_or(EINVAL)?;
            (raw::MLX5_OPCODE_ATOMIC_CS, Outcome::CompareSwap)
        }
        Operation::FetchAdd { remote, add } => {
            wqe.remote(remote.address, remote.rkey).ok_or(EINVAL)?;
            wqe.atomic(add, 0).ok_or(EINVAL)?;
            (raw::MLX5_OPCODE_ATOMIC_FA, Outcome::FetchAdd)
        }
        Operation::Invalidate { key } => {
            control.immediate = key;
            wqe.invalidate().ok_or(EINVAL)?;
            pieces = false;
            (raw::MLX5_OPCODE_UMR, Outcome::Invalidate)
        }
        Operation::Register {
            mr,
            key,
            access,
            start,
            length,
            page,
        } => {
            control.immediate = key;
            let region = mr.payload();
            let (list, count) = region.list().ok_or(EINVAL)?;
            if !page.is_power_of_two() {
                return Err(EINVAL);
            }
            wqe.register(&Registration {
                key,
                start,
                length,
                // CAST: below 32.
                log_page: page.trailing_zeros() as u8,
                pages: count,
                access: permissions(access),
                list,
                list_key,
            })
            .ok_or(EINVAL)?;
            pieces = false;
            (raw::MLX5_OPCODE_UMR, Outcome::Register)
        }
        Operation::Other(_) => return Err(EOPNOTSUPP),
    };
    control.opcode = opcode;
    if pieces {
        add_pieces(wqe, request, key_of).ok_or(EINVAL)?;
    }
    fence.next = next;
    Ok(Built { control, outcome })
}

fn add_pieces(wqe: &mut Wqe, request: &Send<'_, Verbs>, key_of: impl Fn(u32) -> u32) -> Option<()> {
    if request.is_inline() && request.pieces() != 0 {
        return wqe.inline(request.inline());
    }
    for piece in request.scatter() {
        wqe.piece(piece.address, piece.length, key_of(piece.lkey))?;
    }
    Some(())
}
