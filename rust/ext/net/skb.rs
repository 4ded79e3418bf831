// SPDX-License-Identifier: GPL-2.0
//! Packets.

use core::ptr::NonNull;

use kernel::{error::to_result, prelude::*};
use rmlx5_bindings as bindings;

use super::{pool::RxPage, NetDevice};

/// A packet that the hardware has to cut into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// Payload bytes of a segment, not 0.
    pub size: u32,
    /// Number of segments.
    pub segments: u32,
    /// Bytes of the headers, all of them, that each segment gets.
    pub headers: u32,
}

/// A VLAN tag that is not in the bytes of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// EtherType of the tag, 0x8100 or 0x88a8.
    pub protocol: u16,
    /// Priority, DEI and VLAN id.
    pub tci: u16,
}

/// What a hash in the hardware has taken into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKind {
    /// Addresses.
    L3,
    /// Addresses and ports.
    L4,
}

/// A packet with one owner; dropped packets are freed. Any context.
///
/// # Invariants
///
/// The pointer is a valid packet that belongs to this value.
pub struct SkBuff(NonNull<bindings::sk_buff>);

// SAFETY: A packet is not bound to a thread.
unsafe impl Send for SkBuff {}
// SAFETY: Shared references only read what the owner could change.
unsafe impl Sync for SkBuff {}

impl SkBuff {
    /// # Safety
    ///
    /// `raw` must be a valid packet that nobody else owns.
    pub(super) unsafe fn from_raw(raw: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw)
    }

    pub(super) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.as_ptr()
    }

    /// Hands it to somebody else.
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }

    /// Length in bytes, a tag that is not in the bytes left out.
    #[expect(
        clippy::len_without_is_empty,
        reason = "no driver sees an empty packet"
    )]
    pub fn len(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_raw()).len }
    }

    /// Length of the linear part.
    pub fn linear_len(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::skb_headlen(self.as_raw()) }
    }

    /// Number of page fragments behind the linear part.
    pub fn fragments(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::skb_nr_frags(self.as_raw()) }
    }

    /// Makes the first `len` bytes linear; `false` when the packet is shorter or memory is short.
    pub fn ensure_linear(&mut self, len: u32) -> bool {
        // SAFETY: By the type invariant; `self` is the only user.
        unsafe { bindings::skb_may_pull(self.as_raw(), len) }
    }

    /// Makes all of it linear.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the packet is as before.
    pub fn linearize(&mut self) -> Result {
        // SAFETY: By the type invariant; `self` is the only user.
        to_result(unsafe { bindings::skb_linearize(self.as_raw()) })
    }

    /// Copies the first `to.len()` bytes, which must be linear; whether they are.
    pub fn copy_linear(&self, to: &mut [u8]) -> bool {
        let Ok(len) = u32::try_from(to.len()) else {
            return false;
        };
        // SAFETY: By the type invariant, and `to` has `len` bytes.
        unsafe { bindings::skb_copy_linear(self.as_raw(), to.as_mut_ptr(), len) }
    }

    /// Whether the hardware has to compute the transport checksum.
    pub fn wants_checksum(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::skb_csum_partial(self.as_raw()) }
    }

    /// How it is to be cut, if it is more than one frame.
    pub fn gso(&self) -> Option<Gso> {
        // SAFETY: By the type invariant.
        let size = unsafe { bindings::skb_gso_size(self.as_raw()) };
        if size == 0 {
            return None;
        }
        // SAFETY: As above, and it is a GSO packet.
        let (segments, headers) = unsafe {
            (
                bindings::skb_gso_segs(self.as_raw()),
                bindings::skb_gso_headers(self.as_raw()),
            )
        };
        Some(Gso {
            size,
            segments: segments.max(1),
            headers,
        })
    }

    /// The tag to send it with.
    pub fn tag(&self) -> Option<Tag> {
        let mut protocol = 0;
        // SAFETY: By the type invariant.
        let tci = unsafe { bindings::skb_vlan_tag(self.as_raw(), &mut protocol) };
        Some(Tag {
            protocol,
            tci: u16::try_from(tci).ok()?,
        })
    }

    // Received packets.

    /// Appends bytes of a page to the linear part; `false`, and nothing changed, when they do not fit
    /// there or are not in the page.
    pub fn append(&mut self, page: &RxPage, offset: u32, len: u32) -> bool {
        let Some(from) = page.bytes(offset, len) else {
            return false;
        };
        // SAFETY: By the type invariant; `from` points to `len` bytes of the page.
        unsafe { bindings::skb_append(self.as_raw(), from.cast(), len) }
    }

    /// Appends a piece of a page as a fragment; the page belongs to the packet then and goes back to
    /// its pool with it. Gives the page back when there is no room or the piece is not in the page.
    pub fn append_page(
        &mut self,
        page: RxPage,
        offset: u32,
        len: u32,
    ) -> core::result::Result<(), RxPage> {
        if page.bytes(offset, len).is_none() {
            return Err(page);
        }
        // CAST: a page.
        let size = RxPage::SIZE as u32;
        // SAFETY: By the type invariants; the piece is in the page.
        let taken =
            unsafe { bindings::skb_add_page(self.as_raw(), page.as_raw(), offset, len, size) };
        if !taken {
            return Err(page);
        }
        page.into_packet();
        Ok(())
    }

    /// Reads and removes the Ethernet header: the packet is one that `device` received.
    pub fn received_on(&mut self, device: &NetDevice) {
        // SAFETY: By the type invariant; the function copes with a packet that is too short.
        unsafe { bindings::skb_received(self.as_raw(), device.as_raw()) }
    }

    /// Whether it came for a group. After [`SkBuff::received_on`].
    pub fn is_multicast(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::skb_is_multicast(self.as_raw()) }
    }

    /// Hardware has found the transport checksum good.
    pub fn checksum_is_good(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::skb_csum_unnecessary(self.as_raw()) }
    }

    /// `sum` is what hardware computed over the IP datagram. Whether the packet can use it. After
    /// [`SkBuff::received_on`].
    pub fn checksum_is(&mut self, sum: u16) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::skb_csum_complete(self.as_raw(), sum) }
    }

    /// The hash that hardware computed.
    pub fn set_hash(&mut self, hash: u32, kind: HashKind) {
        let kind = match kind {
            HashKind::L3 => 2,
            HashKind::L4 => 3,
        };
        // SAFETY: By the type invariant.
        unsafe { bindings::skb_set_hash(self.as_raw(), hash, kind) }
    }

    /// Hardware took this customer tag out.
    pub fn set_tag(&mut self, tci: u16) {
        // SAFETY: By the type invariant.
        unsafe { bindings::skb_put_ctag(self.as_raw(), tci) }
    }

    /// The receive queue it came by.
    pub fn set_queue(&mut self, queue: u16) {
        // SAFETY: By the type invariant.
        unsafe { bindings::skb_record_rx_queue(self.as_raw(), queue) }
    }
}

impl Drop for SkBuff {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is ours.
        unsafe { bindings::skb_free(self.as_raw()) }
    }
}
