// SPDX-License-Identifier: GPL-2.0
//! Work completions for the kernel.

use core::{ffi::c_int, marker::PhantomData};

use rmlx5_bindings as bindings;

use crate::rdma::gid::GidKind;

/// Names a QP in completions. It is not looked at here: a driver that reports a completion of a QP
/// that is gone confuses whoever polls, as in C.
#[derive(Clone, Copy)]
pub struct QpHandle(*mut bindings::ib_qp);

// SAFETY: It is never dereferenced here.
unsafe impl Send for QpHandle {}
// SAFETY: As above.
unsafe impl Sync for QpHandle {}

impl QpHandle {
    pub(in crate::rdma) fn new(qp: *mut bindings::ib_qp) -> Self {
        Self(qp)
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Well.
    Success = bindings::ib_wc_status_IB_WC_SUCCESS,
    /// A message did not fit.
    LocalLength = bindings::ib_wc_status_IB_WC_LOC_LEN_ERR,
    /// The QP could not do it.
    LocalQpOperation = bindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR,
    /// A local key does not allow it.
    LocalProtection = bindings::ib_wc_status_IB_WC_LOC_PROT_ERR,
    /// The QP was in ERROR.
    Flushed = bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR,
    /// A memory window could not be bound.
    WindowBind = bindings::ib_wc_status_IB_WC_MW_BIND_ERR,
    /// The answer made no sense.
    BadResponse = bindings::ib_wc_status_IB_WC_BAD_RESP_ERR,
    /// The other end wanted what it may not have.
    LocalAccess = bindings::ib_wc_status_IB_WC_LOC_ACCESS_ERR,
    /// The other end did not understand the request.
    RemoteInvalidRequest = bindings::ib_wc_status_IB_WC_REM_INV_REQ_ERR,
    /// A key there does not allow it.
    RemoteAccess = bindings::ib_wc_status_IB_WC_REM_ACCESS_ERR,
    /// The other end failed.
    RemoteOperation = bindings::ib_wc_status_IB_WC_REM_OP_ERR,
    /// The other end did not answer.
    RetryExceeded = bindings::ib_wc_status_IB_WC_RETRY_EXC_ERR,
    /// The other end had no receive.
    RnrRetryExceeded = bindings::ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR,
    /// The other end gave up.
    RemoteAborted = bindings::ib_wc_status_IB_WC_REM_ABORT_ERR,
    /// Something else.
    General = bindings::ib_wc_status_IB_WC_GENERAL_ERR,
}

/// What was completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ of so many bytes.
    Read(u32),
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// A key was made invalid.
    Invalidate,
    /// A region was filled.
    Register,
    /// Something was received.
    Receive(Received),
    /// A request that failed: it does not matter which one.
    Failed,
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes; with the 40 of the GRH at a datagram QP.
    pub length: u32,
    /// Whether it was an RDMA WRITE.
    pub write: bool,
    /// Immediate data, in the order of the wire.
    pub immediate: Option<[u8; 4]>,
    /// Key of this end that was made invalid.
    pub invalidated: Option<u32>,
    /// QP that sent it, for datagrams.
    pub source_qpn: u32,
    /// There is a GRH before a datagram.
    pub grh: bool,
    /// VLAN and priority of the frame.
    pub vlan: Option<(u16, u8)>,
    /// How the packet was wrapped, and whether in IPv4.
    pub kind: (GidKind, bool),
}

/// A completion.
#[derive(Clone, Copy)]
pub struct Completion {
    /// What the caller knows the request by.
    pub id: u64,
    /// The QP.
    pub qp: QpHandle,
    /// How it ended.
    pub status: Status,
    /// What it was.
    pub outcome: Outcome,
    /// The device's own code of an error.
    pub vendor: u32,
}

/// Room for completions, for the duration of the call.
///
/// # Invariants
///
/// `first` is room for `room` completions, of which `used` are filled, valid for `'a`.
pub struct Completions<'a> {
    first: *mut bindings::ib_wc,
    room: usize,
    used: usize,
    call: PhantomData<&'a mut ()>,
}

impl Completions<'_> {
    /// # Safety
    ///
    /// As the type invariant, with nothing used.
    pub(in crate::rdma) unsafe fn new(first: *mut bindings::ib_wc, room: usize) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            first,
            room,
            used: 0,
            call: PhantomData,
        }
    }

    /// Whether there is no more room.
    pub fn is_full(&self) -> bool {
        self.used >= self.room
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.used
    }

    /// Adds one; whether there was room.
    pub fn push(&mut self, completion: &Completion) -> bool {
        if self.is_full() {
            return false;
        }
        // SAFETY: By the type invariant; zeros are a value of this structure of numbers and pointers of C.
        let wc = unsafe {
            let place = self.first.add(self.used);
            place.write_bytes(0, 1);
            &mut *place
        };
        self.used += 1;
        wc.__bindgen_anon_1.wr_id = completion.id;
        wc.qp = completion.qp.0;
        wc.status = completion.status as u32;
        wc.vendor_err = completion.vendor;
        match completion.outcome {
            Outcome::Send | Outcome::Failed => {
                wc.opcode = bindings::ib_wc_opcode_IB_WC_SEND;
            }
            Outcome::Write => wc.opcode = bindings::ib_wc_opcode_IB_WC_RDMA_WRITE,
            Outcome::Read(bytes) => {
                wc.opcode = bindings::ib_wc_opcode_IB_WC_RDMA_READ;
                wc.byte_len = bytes;
            }
            Outcome::CompareSwap => {
                wc.opcode = bindings::ib_wc_opcode_IB_WC_COMP_SWAP;
                wc.byte_len = 8;
            }
            Outcome::FetchAdd => {
                wc.opcode = bindings::ib_wc_opcode_IB_WC_FETCH_ADD;
                wc.byte_len = 8;
            }
            Outcome::Invalidate => wc.opcode = bindings::ib_wc_opcode_IB_WC_LOCAL_INV,
            Outcome::Register => wc.opcode = bindings::ib_wc_opcode_IB_WC_REG_MR,
            Outcome::Receive(received) => store(wc, &received),
        }
        true
    }
}

fn store(wc: &mut bindings::ib_wc, received: &Received) {
    let mut flags = bindings::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE;
    wc.opcode = if received.write {
        bindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM
    } else {
        bindings::ib_wc_opcode_IB_WC_RECV
    };
    wc.byte_len = received.length;
    if let Some(immediate) = received.immediate {
        flags |= bindings::ib_wc_flags_IB_WC_WITH_IMM;
        wc.ex.imm_data = u32::from_ne_bytes(immediate);
    }
    if let Some(key) = received.invalidated {
        flags |= bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE;
        wc.ex.invalidate_rkey = key;
    }
    wc.src_qp = received.source_qpn;
    if received.grh {
        flags |= bindings::ib_wc_flags_IB_WC_GRH;
    }
    if let Some((id, priority)) = received.vlan {
        flags |= bindings::ib_wc_flags_IB_WC_WITH_VLAN;
        wc.vlan_id = id;
        wc.sl = priority;
    }
    let network = match received.kind {
        (GidKind::RoceV1, _) => bindings::rdma_network_type_RDMA_NETWORK_ROCE_V1,
        (GidKind::RoceV2, true) => bindings::rdma_network_type_RDMA_NETWORK_IPV4,
        (GidKind::RoceV2, false) => bindings::rdma_network_type_RDMA_NETWORK_IPV6,
    };
    // CAST: small numbers.
    wc.network_hdr_type = network as u8;
    wc.wc_flags = flags as c_int;
}
