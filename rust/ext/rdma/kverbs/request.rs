// SPDX-License-Identifier: GPL-2.0
//! Work requests of the kernel.

use core::marker::PhantomData;

use rmlx5_bindings as bindings;

use super::{Ah, KernelVerbs};
use crate::rdma::{access::Access, mr::Mr, object::Ref};

/// A piece of local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scatter {
    /// Bus address, or address in the region.
    pub address: u64,
    /// Bytes; may be 0.
    pub length: u32,
    /// Key.
    pub lkey: u32,
}

/// A piece of the other end's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Address in the region.
    pub address: u64,
    /// Key.
    pub rkey: u32,
}

/// What a send does.
pub enum Operation<'a, D: KernelVerbs> {
    /// SEND, with immediate data (in the order of the wire) or the key to invalidate.
    Send {
        /// Immediate data.
        immediate: Option<[u8; 4]>,
        /// Key that the other end invalidates.
        invalidate: Option<u32>,
    },
    /// RDMA WRITE, with immediate data.
    Write {
        /// Where to.
        remote: Remote,
        /// Immediate data.
        immediate: Option<[u8; 4]>,
    },
    /// RDMA READ.
    Read {
        /// Where from.
        remote: Remote,
    },
    /// Compare and swap of 8 bytes.
    CompareSwap {
        /// Where.
        remote: Remote,
        /// What must be there.
        compare: u64,
        /// What is put there.
        swap: u64,
    },
    /// Fetch and add of 8 bytes.
    FetchAdd {
        /// Where.
        remote: Remote,
        /// What is added.
        add: u64,
    },
    /// Makes a key of this end invalid.
    Invalidate {
        /// The key.
        key: u32,
    },
    /// Fills a region with the pages that were added to it.
    Register {
        /// The region.
        mr: Mr<'a, D::Mr>,
        /// Its key from now on: that of the region with another low byte.
        key: u32,
        /// Who may do what.
        access: Access,
        /// Address of the first byte.
        start: u64,
        /// Bytes.
        length: u64,
        /// Bytes of a page.
        page: u32,
    },
    /// Another one, by its number (`enum ib_wr_opcode`).
    Other(u32),
}

/// A send request, for the duration of the call.
///
/// # Invariants
///
/// The pointer is a request of the core's caller for a QP of driver `D`, valid for `'a`, part of the
/// structure that its opcode and the type of the QP ask for.
pub struct Send<'a, D: KernelVerbs>(*const bindings::ib_send_wr, PhantomData<&'a D>);

impl<'a, D: KernelVerbs> Send<'a, D> {
    fn get(&self) -> &'a bindings::ib_send_wr {
        // SAFETY: By the type invariant.
        unsafe { &*self.0 }
    }

    /// What the caller knows the request by.
    pub fn id(&self) -> u64 {
        // SAFETY: Both views of the union are 8 bytes.
        unsafe { self.get().__bindgen_anon_1.wr_id }
    }

    fn has(&self, flag: bindings::ib_send_flags) -> bool {
        self.get().send_flags & flag != 0
    }

    /// Whether its completion is wanted.
    pub fn is_signaled(&self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_SIGNALED)
    }

    /// Whether the other end is to be told by an event.
    pub fn is_solicited(&self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_SOLICITED)
    }

    /// Whether it waits for reads and atomics before it.
    pub fn is_fenced(&self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_FENCE)
    }

    /// Whether the pieces are kernel memory to be copied: see [`Send::inline`].
    pub fn is_inline(&self) -> bool {
        self.has(bindings::ib_send_flags_IB_SEND_INLINE)
    }

    fn entries(&self) -> &'a [bindings::ib_sge] {
        let wr = self.get();
        // SAFETY: By the type invariant the list has as many entries as the request says.
        unsafe { entries(wr.sg_list, wr.num_sge) }
    }

    /// Number of pieces.
    pub fn pieces(&self) -> usize {
        self.entries().len()
    }

    /// The pieces of local memory.
    pub fn scatter(&self) -> impl Iterator<Item = Scatter> + 'a {
        self.entries().iter().map(scatter)
    }

    /// The bytes of an inline request, piece by piece. Nothing for others.
    pub fn inline(&self) -> impl Iterator<Item = &'a [u8]> {
        let entries = if self.is_inline() {
            self.entries()
        } else {
            &[]
        };
        entries
            .iter()
            .filter(|entry| entry.length != 0 && entry.addr != 0)
            .map(|entry| {
                // SAFETY: The pieces of an inline request are memory of the kernel, for the call.
                // CAST: such an address.
                unsafe {
                    core::slice::from_raw_parts(entry.addr as *const u8, entry.length as usize)
                }
            })
    }

    fn immediate(&self) -> [u8; 4] {
        // SAFETY: Both views of the union are 4 bytes; this one is in the order of the wire.
        unsafe { self.get().ex.imm_data }.to_ne_bytes()
    }

    fn key(&self) -> u32 {
        // SAFETY: Both views of the union are 4 bytes.
        unsafe { self.get().ex.invalidate_rkey }
    }

    fn remote(&self) -> Remote {
        // SAFETY: By the type invariant; the request is at the start of the structure.
        let wr = unsafe { &*self.0.cast::<bindings::ib_rdma_wr>() };
        Remote {
            address: wr.remote_addr,
            rkey: wr.rkey,
        }
    }

    /// What it does.
    pub fn operation(&self) -> Operation<'a, D> {
        match self.get().opcode {
            bindings::ib_wr_opcode_IB_WR_SEND => Operation::Send {
                immediate: None,
                invalidate: None,
            },
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => Operation::Send {
                immediate: Some(self.immediate()),
                invalidate: None,
            },
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => Operation::Send {
                immediate: None,
                invalidate: Some(self.key()),
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE => Operation::Write {
                remote: self.remote(),
                immediate: None,
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => Operation::Write {
                remote: self.remote(),
                immediate: Some(self.immediate()),
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_READ => Operation::Read {
                remote: self.remote(),
            },
            opcode @ (bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP
            | bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD) => {
                // SAFETY: By the type invariant; the request is at the start of the structure.
                let wr = unsafe { &*self.0.cast::<bindings::ib_atomic_wr>() };
                let remote = Remote {
                    address: wr.remote_addr,
                    rkey: wr.rkey,
                };
                if opcode == bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD {
                    Operation::FetchAdd {
                        remote,
                        add: wr.compare_add,
                    }
                } else {
                    Operation::CompareSwap {
                        remote,
                        compare: wr.compare_add,
                        swap: wr.swap,
                    }
                }
            }
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => Operation::Invalidate { key: self.key() },
            bindings::ib_wr_opcode_IB_WR_REG_MR => {
                // SAFETY: By the type invariant; the request is at the start of the structure, and its
                // region is one of driver `D` that lives as long as the request.
                unsafe {
                    let wr = &*self.0.cast::<bindings::ib_reg_wr>();
                    let mr = &*wr.mr;
                    Operation::Register {
                        mr: Ref::from_raw(wr.mr),
                        key: wr.key,
                        access: Access::from_raw(wr.access),
                        start: mr.iova,
                        length: mr.length,
                        page: mr.page_size,
                    }
                }
            }
            other => Operation::Other(other),
        }
    }

    /// Where a datagram goes: address, QP, Q_Key. For requests to datagram QPs only.
    ///
    /// # Safety
    ///
    /// The QP must be one of datagrams.
    unsafe fn datagram(&self) -> Option<(Ah<'a, D::Ah>, u32, u32)> {
        // SAFETY: By the type invariant and the safety requirements; the request is at the start of the
        // structure, and its address handle is one of driver `D` that lives as long as the request.
        unsafe {
            let wr = &*self.0.cast::<bindings::ib_ud_wr>();
            (!wr.ah.is_null()).then(|| (Ref::from_raw(wr.ah), wr.remote_qpn, wr.remote_qkey))
        }
    }
}

/// The pieces of a request. Nothing for a count below 1.
///
/// # Safety
///
/// `list` must have `count` entries for `'a`; with none it may be null.
unsafe fn entries<'a>(list: *const bindings::ib_sge, count: i32) -> &'a [bindings::ib_sge] {
    let count = usize::try_from(count).unwrap_or(0);
    if count == 0 || list.is_null() {
        return &[];
    }
    // SAFETY: By the safety requirements.
    unsafe { core::slice::from_raw_parts(list, count) }
}

fn scatter(entry: &bindings::ib_sge) -> Scatter {
    Scatter {
        address: entry.addr,
        length: entry.length,
        lkey: entry.lkey,
    }
}

/// A list of sends, taken one by one.
///
/// # Invariants
///
/// `next` is null or as [`Send`] wants it, and so are those behind it; `qp` is the QP that they are
/// posted to.
pub struct Sends<'a, D: KernelVerbs> {
    next: *const bindings::ib_send_wr,
    last: *const bindings::ib_send_wr,
    qp: *const bindings::ib_qp,
    call: PhantomData<&'a D>,
}

impl<'a, D: KernelVerbs> Sends<'a, D> {
    /// # Safety
    ///
    /// As the type invariant.
    pub(in crate::rdma) unsafe fn new(
        first: *const bindings::ib_send_wr,
        qp: *const bindings::ib_qp,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            next: first,
            last: first,
            qp,
            call: PhantomData,
        }
    }

    /// The next one.
    pub fn take(&mut self) -> Option<Send<'a, D>> {
        if self.next.is_null() {
            return None;
        }
        self.last = self.next;
        // SAFETY: By the type invariant.
        self.next = unsafe { (*self.last).next };
        // INVARIANT: By the type invariant.
        Some(Send(self.last, PhantomData))
    }

    /// Where a datagram goes: address, QP, Q_Key. `None` when the QP is not one of datagrams.
    pub fn datagram(&self, send: &Send<'a, D>) -> Option<(Ah<'a, D::Ah>, u32, u32)> {
        // SAFETY: By the type invariant.
        let kind = unsafe { (*self.qp).qp_type };
        let datagrams =
            kind == bindings::ib_qp_type_IB_QPT_UD || kind == bindings::ib_qp_type_IB_QPT_GSI;
        // SAFETY: The QP is one of datagrams.
        datagrams.then(|| unsafe { send.datagram() }).flatten()
    }

    /// The one that was taken last.
    pub(in crate::rdma) fn last(&self) -> *const bindings::ib_send_wr {
        self.last
    }
}

/// A receive request, for the duration of the call.
///
/// # Invariants
///
/// The pointer is a request of the core's caller, valid for `'a`.
pub struct Receive<'a>(*const bindings::ib_recv_wr, PhantomData<&'a ()>);

impl<'a> Receive<'a> {
    fn get(&self) -> &'a bindings::ib_recv_wr {
        // SAFETY: By the type invariant.
        unsafe { &*self.0 }
    }

    /// What the caller knows the request by.
    pub fn id(&self) -> u64 {
        // SAFETY: Both views of the union are 8 bytes.
        unsafe { self.get().__bindgen_anon_1.wr_id }
    }

    fn entries(&self) -> &'a [bindings::ib_sge] {
        let wr = self.get();
        // SAFETY: By the type invariant the list has as many entries as the request says.
        unsafe { entries(wr.sg_list, wr.num_sge) }
    }

    /// Number of pieces.
    pub fn pieces(&self) -> usize {
        self.entries().len()
    }

    /// The pieces of local memory.
    pub fn scatter(&self) -> impl Iterator<Item = Scatter> + 'a {
        self.entries().iter().map(scatter)
    }
}

/// A list of receives, taken one by one.
///
/// # Invariants
///
/// `next` is null or as [`Receive`] wants it, and so are those behind it.
pub struct Receives<'a> {
    next: *const bindings::ib_recv_wr,
    last: *const bindings::ib_recv_wr,
    call: PhantomData<&'a ()>,
}

impl<'a> Receives<'a> {
    /// # Safety
    ///
    /// As the type invariant.
    pub(in crate::rdma) unsafe fn new(first: *const bindings::ib_recv_wr) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            next: first,
            last: first,
            call: PhantomData,
        }
    }

    /// The next one.
    pub fn take(&mut self) -> Option<Receive<'a>> {
        if self.next.is_null() {
            return None;
        }
        self.last = self.next;
        // SAFETY: By the type invariant.
        self.next = unsafe { (*self.last).next };
        // INVARIANT: By the type invariant.
        Some(Receive(self.last, PhantomData))
    }

    /// The one that was taken last.
    pub(in crate::rdma) fn last(&self) -> *const bindings::ib_recv_wr {
        self.last
    }
}
