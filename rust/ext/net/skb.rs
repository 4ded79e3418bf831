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

/// What the hardware has to do before it sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    /// Compute the transport checksum.
    pub checksum: bool,
    /// Put this tag in.
    pub tag: Option<Tag>,
}

/// What is known of a received packet besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Receive queue it came by.
    pub queue: u16,
    /// Hash that the hardware computed.
    pub hash: Option<(u32, HashKind)>,
    /// The hardware has found IP and transport checksum good.
    pub good: bool,
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
    #[inline]
    pub(super) unsafe fn from_raw(raw: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw)
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.as_ptr()
    }

    /// Hands it to somebody else.
    #[inline]
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
    #[inline]
    pub fn len(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_raw()).len }
    }

    /// Length of the linear part.
    #[inline]
    pub fn linear_len(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_raw()).len.wrapping_sub((*self.as_raw()).data_len) }
    }

    /// What stands behind the linear part (`skb_shinfo`).
    #[inline]
    fn shared(&self) -> *mut bindings::skb_shared_info {
        // CAST: `usize` has 64 bits here.
        // SAFETY: By the type invariant the packet has it at this offset, on machines with 64 bits.
        unsafe {
            (*self.as_raw())
                .head
                .add((*self.as_raw()).end as usize)
                .cast()
        }
    }

    /// Number of page fragments behind the linear part.
    #[inline]
    pub fn fragments(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.shared()).nr_frags.into() }
    }

    /// Bytes of a fragment; 0 where there is none.
    #[inline]
    pub fn fragment_len(&self, index: u32) -> u32 {
        // CAST: `usize` has 64 bits here.
        // SAFETY: By the type invariant; the reference ends with this call.
        let fragments = unsafe { &(*self.shared()).frags };
        fragments
            .get(index as usize)
            .map_or(0, |fragment| fragment.len)
    }

    /// Makes the first `len` bytes linear; `false` when the packet is shorter or memory is short.
    #[inline]
    pub fn ensure_linear(&mut self, len: u32) -> bool {
        if len <= self.linear_len() {
            return true;
        }
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
    #[inline]
    pub fn copy_linear(&self, to: &mut [u8]) -> bool {
        // CAST: `usize` has 64 bits here.
        if to.len() > self.linear_len() as usize {
            return false;
        }
        // SAFETY: By the type invariant the linear part has as many bytes; `to` is not in it.
        unsafe {
            core::ptr::copy_nonoverlapping((*self.as_raw()).data, to.as_mut_ptr(), to.len());
        }
        true
    }

    /// What the hardware has to do before it sends the packet.
    #[inline]
    pub fn wants(&self) -> Wants {
        // SAFETY: By the type invariant.
        let wants = unsafe { bindings::skb_wants(self.as_raw()) };
        Wants {
            checksum: wants & 1 != 0,
            tag: if wants & 2 != 0 { self.tag() } else { None },
        }
    }

    /// How it is to be cut, if it is more than one frame.
    #[inline]
    pub fn gso(&self) -> Option<Gso> {
        // SAFETY: By the type invariant.
        let (size, segments) = unsafe { ((*self.shared()).gso_size, (*self.shared()).gso_segs) };
        if size == 0 {
            return None;
        }
        // SAFETY: As above, and it is a GSO packet.
        let headers = unsafe { bindings::skb_gso_headers(self.as_raw()) };
        Some(Gso {
            size: size.into(),
            segments: u32::from(segments).max(1),
            headers,
        })
    }

    fn tag(&self) -> Option<Tag> {
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
    #[inline]
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
        let at = page.offset().wrapping_add(offset);
        // SAFETY: By the type invariants; the piece is in the page.
        let taken =
            unsafe { bindings::skb_add_page(self.as_raw(), page.as_raw(), at, len, page.size()) };
        if !taken {
            return Err(page);
        }
        page.into_packet();
        Ok(())
    }

    /// Reads and removes the Ethernet header: the packet is one that `device` received. Whether it came for a group.
    #[inline]
    pub fn received_on(&mut self, device: &NetDevice, news: &Arrival) -> bool {
        let (hash, kind) = match news.hash {
            None => (0, bindings::pkt_hash_types_PKT_HASH_TYPE_NONE),
            Some((hash, HashKind::L3)) => (hash, bindings::pkt_hash_types_PKT_HASH_TYPE_L3),
            Some((hash, HashKind::L4)) => (hash, bindings::pkt_hash_types_PKT_HASH_TYPE_L4),
        };
        // SAFETY: By the type invariant; the function copes with a packet that is too short.
        unsafe {
            bindings::skb_received(
                self.as_raw(),
                device.as_raw(),
                news.queue,
                hash,
                kind,
                news.good,
            )
        }
    }

    /// `sum` is what hardware computed over the IP datagram. Whether the packet can use it. After
    /// [`SkBuff::received_on`].
    #[inline]
    pub fn checksum_is(&mut self, sum: u16) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::skb_csum_complete(self.as_raw(), sum) }
    }

    /// Hardware took this customer tag out.
    #[inline]
    pub fn set_tag(&mut self, tci: u16) {
        // SAFETY: By the type invariant.
        unsafe { bindings::skb_put_ctag(self.as_raw(), tci) }
    }
}

impl Drop for SkBuff {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is ours.
        unsafe { bindings::skb_free(self.as_raw()) }
    }
}
