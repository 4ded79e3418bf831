// SPDX-License-Identifier: GPL-2.0
//! Packets that the hardware is sending.
//!
//! A ring with two ends that need no lock between them: the [`Sender`] puts a packet in, with the DMA mappings of
//! its pieces; the [`Finisher`] takes the oldest one out when the driver says that the hardware is done with it. Each
//! end has one owner at a time: the transmit lock of a queue and a poller are such owners.
//!
//! # What orders the ends
//!
//! Counters that run free and only grow: `posted` is written by the sender, `taken` by the finisher. A slot belongs to the
//! finisher from the release of `posted` to the release of `taken`, to the sender otherwise; who reads the other's
//! counter acquires it, and looks again only when what it knows does not suffice.

use core::{cell::UnsafeCell, mem::MaybeUninit};

use kernel::{
    dma::DataDirection,
    prelude::*,
    sync::{
        atomic::{
            ordering::{Acquire, Relaxed, Release},
            Atomic,
        },
        Arc,
    },
};
use pin_init::Zeroable;
use rmlx5_bindings as bindings;

use super::SkBuff;
use crate::pci::BoundDevice;

/// A piece of a packet as the device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Zeroable)]
pub struct Piece {
    /// Bus address.
    pub address: u64,
    /// Length in bytes, not 0.
    pub len: u32,
}

struct Packet<T> {
    skb: SkBuff,
    /// Its mappings: `mappings` of them from counter `first` on.
    first: u32,
    mappings: u32,
    note: T,
}

/// Why a packet was not taken; it is given back with this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No room for the packet or for its pieces.
    Full,
    /// A piece could not be mapped.
    Mapping,
}

/// What the functions that map give when they cannot (`DMA_MAPPING_ERROR`).
const NOT_MAPPED: u64 = u64::MAX;

/// A counter in a cache line of its own: each end writes one, and the other reads it.
#[repr(align(64))]
struct Line(Atomic<u32>);

/// What both ends share.
///
/// # Invariants
///
/// Slots with counters from `taken` up to, not including, `posted` hold packets, whose `mappings` are live mappings for `device`.
/// Their numbers of slots and mappings are powers of two below 2^31.
struct Ring<T> {
    packets: KVVec<UnsafeCell<MaybeUninit<Packet<T>>>>,
    mappings: KVVec<UnsafeCell<Piece>>,
    posted: Line,
    taken: Line,
    /// Mappings that are undone. Released by `taken`.
    unmapped: Atomic<u32>,
    device: BoundDevice,
}

// SAFETY: A slot is used by one end at a time, see the module; packets may move between threads.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: As above.
unsafe impl<T: Send> Sync for Ring<T> {}

/// The end that puts packets in.
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
    posted: u32,
    mapped: u32,
    /// `taken` and `unmapped` when they were looked at last.
    taken: u32,
    unmapped: u32,
}

/// The end that takes packets out.
pub struct Finisher<T> {
    ring: Arc<Ring<T>>,
    taken: u32,
    /// `posted` when it was looked at last.
    known: u32,
}

/// A ring for `packets` packets with `pieces` pieces in all, both powers of two. Sleeps.
///
/// When both ends are gone, what is still in it is unmapped and freed: the driver knows by then that the hardware has let
/// go. One that cannot know forgets its [`Sender`].
///
/// # Errors
///
/// `EINVAL` for other numbers, `ENOMEM`.
pub fn ring<T: Send>(
    device: &BoundDevice,
    packets: usize,
    pieces: usize,
) -> Result<(Sender<T>, Finisher<T>)> {
    let good = |n: usize| n.is_power_of_two() && n < 1 << 31;
    if !good(packets) || !good(pieces) {
        return Err(EINVAL);
    }
    // INVARIANT: Nothing is in it.
    let ring = Arc::new(
        Ring {
            packets: KVVec::zeroed(packets, GFP_KERNEL)?,
            mappings: KVVec::zeroed(pieces, GFP_KERNEL)?,
            posted: Line(Atomic::new(0)),
            taken: Line(Atomic::new(0)),
            unmapped: Atomic::new(0),
            device: device.clone(),
        },
        GFP_KERNEL,
    )?;
    let sender = Sender {
        ring: ring.clone(),
        posted: 0,
        mapped: 0,
        taken: 0,
        unmapped: 0,
    };
    let finisher = Finisher {
        ring,
        taken: 0,
        known: 0,
    };
    Ok((sender, finisher))
}

impl<T> Ring<T> {
    /// Slot of a packet.
    #[inline]
    fn slot(&self, counter: u32) -> Option<*mut MaybeUninit<Packet<T>>> {
        // CAST: `usize` has 64 bits here.
        let at = counter as usize & self.packets.len().wrapping_sub(1);
        self.packets.get(at).map(UnsafeCell::get)
    }

    /// Slot of a mapping.
    #[inline]
    fn mapping(&self, counter: u32) -> Option<*mut Piece> {
        // CAST: `usize` has 64 bits here.
        let at = counter as usize & self.mappings.len().wrapping_sub(1);
        self.mappings.get(at).map(UnsafeCell::get)
    }

    /// Undoes a mapping.
    ///
    /// # Safety
    ///
    /// The slot must be the caller's and hold a live mapping, which is forgotten with this call.
    #[inline]
    unsafe fn unmap(&self, counter: u32) {
        let Some(slot) = self.mapping(counter) else {
            return;
        };
        // The linear part is mapped as a piece of its page, so both kinds are undone alike.
        // SAFETY: By the safety requirements.
        unsafe {
            let piece = *slot;
            bindings::dma_unmap_page_attrs(
                self.device.as_raw_device(),
                piece.address,
                // CAST: `usize` has 64 bits here.
                piece.len as usize,
                DataDirection::ToDevice.into(),
                0,
            )
        }
    }

    /// Takes out the packet with this counter and undoes its mappings.
    ///
    /// # Safety
    ///
    /// `taken` and not `posted` must have this value, and the slot must be the caller's.
    #[inline]
    unsafe fn take(&self, taken: u32) -> Option<(SkBuff, T)> {
        let slot = self.slot(taken)?;
        // SAFETY: By the type invariant it holds a packet, which is not looked at again.
        let packet = unsafe { (*slot).assume_init_read() };
        for n in 0..packet.mappings {
            // SAFETY: By the type invariant; the packet owned it.
            unsafe { self.unmap(packet.first.wrapping_add(n)) };
        }
        let end = packet.first.wrapping_add(packet.mappings);
        self.unmapped.store(end, Relaxed);
        // INVARIANT: The slot is empty and its mappings are undone.
        self.taken.0.store(taken.wrapping_add(1), Release);
        Some((packet.skb, packet.note))
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let posted = self.posted.0.load(Acquire);
        let mut taken = self.taken.0.load(Acquire);
        while taken != posted {
            // SAFETY: Nobody else has the ring, and the packet is in it.
            drop(unsafe { self.take(taken) });
            taken = taken.wrapping_add(1);
        }
    }
}

impl<T> Sender<T> {
    /// Whether there is room for a packet with `need` pieces. The slots are the sender's then.
    #[inline]
    fn has_room(&mut self, need: u32) -> bool {
        // CAST, twice: numbers of slots are below 2^31.
        let packets = self.ring.packets.len() as u32;
        let mappings = self.ring.mappings.len() as u32;
        let fits = |sender: &Self| {
            sender.posted.wrapping_sub(sender.taken) < packets
                && need <= mappings.wrapping_sub(sender.mapped.wrapping_sub(sender.unmapped))
        };
        if fits(self) {
            return true;
        }
        self.taken = self.ring.taken.0.load(Acquire);
        self.unmapped = self.ring.unmapped.load(Relaxed);
        fits(self)
    }

    /// Lets the other end know of what was pushed; before the hardware does.
    pub fn publish(&mut self) {
        // INVARIANT: Slots before `posted` hold packets with live mappings.
        self.ring.posted.0.store(self.posted, Release);
    }

    /// Maps the bytes of a packet from `skip` (in the linear part) on and keeps both, to itself until [`Sender::publish`].
    /// `each` sees the pieces in order. Any context.
    pub fn push(
        &mut self,
        skb: SkBuff,
        skip: u32,
        note: T,
        mut each: impl FnMut(Piece),
    ) -> core::result::Result<(), (SkBuff, T, Refused)> {
        let linear = skb.linear_len();
        let fragments = skb.fragments();
        let fits = self.has_room(fragments + 1) && skip <= linear;
        let (Some(slot), true) = (self.ring.slot(self.posted), fits) else {
            return Err((skb, note, Refused::Full));
        };
        let first = self.mapped;
        let mut done = true;
        if linear > skip {
            done = self.map_linear(&skb, skip, linear.wrapping_sub(skip), &mut each);
        }
        for index in 0..fragments {
            done = done && self.map_fragment(&skb, index, &mut each);
        }
        if !done {
            while self.mapped != first {
                self.mapped = self.mapped.wrapping_sub(1);
                // SAFETY: Made above and not yet the finisher's.
                unsafe { self.ring.unmap(self.mapped) };
            }
            return Err((skb, note, Refused::Mapping));
        }
        let packet = Packet {
            skb,
            first,
            mappings: self.mapped.wrapping_sub(first),
            note,
        };
        // SAFETY: The slot is the sender's: there are fewer packets than slots. It is in the ring.
        unsafe { (*slot).write(packet) };
        self.posted = self.posted.wrapping_add(1);
        Ok(())
    }

    #[inline]
    fn map_linear(
        &mut self,
        skb: &SkBuff,
        skip: u32,
        len: u32,
        each: &mut impl FnMut(Piece),
    ) -> bool {
        // SAFETY: The linear part has `skip + len` bytes, checked by the caller, and the packet is kept
        // as long as the mapping.
        let address = unsafe {
            // CAST: `usize` has 64 bits here.
            let start = (*skb.as_raw()).data.add(skip as usize);
            bindings::skb_data_dma_map(self.ring.device.as_raw_device(), start.cast(), len)
        };
        self.keep(address, len, each)
    }

    #[inline]
    fn map_fragment(&mut self, skb: &SkBuff, index: u32, each: &mut impl FnMut(Piece)) -> bool {
        // SAFETY: `index` is below the number of fragments, and the packet is kept as long as the
        // mapping.
        let address = unsafe {
            bindings::skb_frag_dma_map(self.ring.device.as_raw_device(), skb.as_raw(), index)
        };
        self.keep(address, skb.fragment_len(index), each)
    }

    #[inline(always)]
    fn keep(&mut self, address: u64, len: u32, each: &mut impl FnMut(Piece)) -> bool {
        if address == NOT_MAPPED {
            return false;
        }
        let piece = Piece { address, len };
        if let Some(slot) = self.ring.mapping(self.mapped) {
            // SAFETY: The slot is the sender's: there was room for all pieces of the packet.
            unsafe { *slot = piece };
            self.mapped = self.mapped.wrapping_add(1);
        }
        each(piece);
        true
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // What the other end does not know of goes with the ring.
        self.publish();
    }
}

impl<T> Finisher<T> {
    /// The hardware has finished the oldest packet: unmaps it and gives it back. Any context.
    #[inline]
    pub fn pop(&mut self) -> Option<(SkBuff, T)> {
        if self.taken == self.known {
            self.known = self.ring.posted.0.load(Acquire);
            if self.taken == self.known {
                return None;
            }
        }
        // SAFETY: The packet is in the ring, and this end is the only one that takes packets out.
        let taken = unsafe { self.ring.take(self.taken) }?;
        self.taken = self.taken.wrapping_add(1);
        Some(taken)
    }
}
