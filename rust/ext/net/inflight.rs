// SPDX-License-Identifier: GPL-2.0
//! Packets that the hardware is sending.
//!
//! A ring in the order of posting: each packet is kept, with the DMA mappings of its pieces, until the
//! driver says that the hardware has finished the oldest one.

use kernel::{dma::DataDirection, prelude::*};
use rmlx5_bindings as bindings;

use super::SkBuff;
use crate::pci::BoundDevice;

/// A piece of a packet as the device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bus address.
    pub address: u64,
    /// Length in bytes, not 0.
    pub len: u32,
}

struct Packet<T> {
    skb: SkBuff,
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

/// The packets of one hardware queue, each with a note of the driver.
///
/// Dropping it unmaps and frees all of them: the driver knows by then that the hardware has let go.
///
/// # Invariants
///
/// `mappings` holds, from `first_mapping` on and in order, live mappings for `device`: those of all
/// packets in `packets` from `first` on, and none else.
pub struct InFlight<T> {
    packets: KVVec<Option<Packet<T>>>,
    first: usize,
    count: usize,
    mappings: KVVec<Piece>,
    first_mapping: usize,
    mapped: usize,
    device: BoundDevice,
}

impl<T> InFlight<T> {
    /// Room for `packets` packets with `pieces` pieces in all; both powers of two. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` for other numbers, `ENOMEM`.
    pub fn new(device: &BoundDevice, packets: usize, pieces: usize) -> Result<Self> {
        if !packets.is_power_of_two() || !pieces.is_power_of_two() {
            return Err(EINVAL);
        }
        let mut slots = KVVec::with_capacity(packets, GFP_KERNEL)?;
        for _ in 0..packets {
            slots.push(None, GFP_KERNEL)?;
        }
        let empty = Piece { address: 0, len: 0 };
        // INVARIANT: Nothing is in it.
        Ok(Self {
            packets: slots,
            first: 0,
            count: 0,
            mappings: KVVec::from_elem(empty, pieces, GFP_KERNEL)?,
            first_mapping: 0,
            mapped: 0,
            device: device.clone(),
        })
    }

    /// How many packets are in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none is in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Maps the bytes of a packet from `skip` (in the linear part) on, and keeps both. `each` sees the
    /// pieces in order. Any context.
    pub fn push(
        &mut self,
        skb: SkBuff,
        skip: u32,
        note: T,
        mut each: impl FnMut(Piece),
    ) -> core::result::Result<(), (SkBuff, T, Refused)> {
        let linear = skb.linear_len();
        let fragments = skb.fragments();
        // CAST: below 20.
        let need = fragments as usize + 1;
        if self.count == self.packets.len()
            || need > self.mappings.len().wrapping_sub(self.mapped)
            || skip > linear
        {
            return Err((skb, note, Refused::Full));
        }
        let before = self.mapped;
        let mut done = true;
        if linear > skip {
            done = self.map_linear(&skb, skip, linear.wrapping_sub(skip), &mut each);
        }
        for index in 0..fragments {
            done = done && self.map_fragment(&skb, index, &mut each);
        }
        if !done {
            while self.mapped > before {
                self.unmap_last();
            }
            return Err((skb, note, Refused::Mapping));
        }
        let slot = self.first.wrapping_add(self.count) & self.packets.len().wrapping_sub(1);
        let Some(slot) = self.packets.get_mut(slot) else {
            return Err((skb, note, Refused::Full));
        };
        *slot = Some(Packet {
            skb,
            // CAST: below 20.
            mappings: self.mapped.wrapping_sub(before) as u32,
            note,
        });
        // INVARIANT: The packet's mappings are the last ones.
        self.count = self.count.wrapping_add(1);
        Ok(())
    }

    /// The note of the oldest packet.
    pub fn oldest(&self) -> Option<&T> {
        self.packets
            .get(self.first)
            .and_then(Option::as_ref)
            .map(|packet| &packet.note)
    }

    /// The hardware has finished the oldest packet: unmaps it and gives it back. Any context.
    pub fn pop(&mut self) -> Option<(SkBuff, T)> {
        let packet = self.packets.get_mut(self.first)?.take()?;
        self.first = self.first.wrapping_add(1) & self.packets.len().wrapping_sub(1);
        self.count = self.count.wrapping_sub(1);
        for _ in 0..packet.mappings {
            self.unmap_first();
        }
        Some((packet.skb, packet.note))
    }

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
            bindings::dma_map_single(
                self.device.as_raw_device(),
                // CAST: `usize` has 64 bits here.
                (*skb.as_raw()).data.add(skip as usize).cast(),
                len as usize,
                DataDirection::ToDevice.into(),
            )
        };
        self.keep(address, len, each)
    }

    fn map_fragment(&mut self, skb: &SkBuff, index: u32, each: &mut impl FnMut(Piece)) -> bool {
        // SAFETY: `index` is below the number of fragments, and the packet is kept as long as the
        // mapping.
        let (address, len) = unsafe {
            (
                bindings::skb_frag_dma_map(self.device.as_raw_device(), skb.as_raw(), index),
                bindings::skb_frag_size(skb.as_raw(), index),
            )
        };
        self.keep(address, len, each)
    }

    fn keep(&mut self, address: u64, len: u32, each: &mut impl FnMut(Piece)) -> bool {
        // SAFETY: The device is valid.
        if unsafe { bindings::dma_mapping_error(self.device.as_raw_device(), address) } != 0 {
            return false;
        }
        let piece = Piece { address, len };
        let at = self.first_mapping.wrapping_add(self.mapped) & self.mappings.len().wrapping_sub(1);
        if let Some(slot) = self.mappings.get_mut(at) {
            *slot = piece;
            self.mapped = self.mapped.wrapping_add(1);
        }
        each(piece);
        true
    }

    fn unmap_first(&mut self) {
        let piece = self.mappings.get(self.first_mapping).copied();
        self.first_mapping =
            self.first_mapping.wrapping_add(1) & self.mappings.len().wrapping_sub(1);
        self.mapped = self.mapped.wrapping_sub(1);
        if let Some(piece) = piece {
            self.unmap(piece);
        }
    }

    fn unmap_last(&mut self) {
        self.mapped = self.mapped.wrapping_sub(1);
        let at = self.first_mapping.wrapping_add(self.mapped) & self.mappings.len().wrapping_sub(1);
        if let Some(piece) = self.mappings.get(at).copied() {
            self.unmap(piece);
        }
    }

    fn unmap(&self, piece: Piece) {
        // The linear part is mapped as a piece of its page, so both kinds are undone alike.
        // SAFETY: By the type invariant it is a live mapping; it is forgotten with this call.
        unsafe {
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
}

impl<T> Drop for InFlight<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
