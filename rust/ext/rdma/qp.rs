// SPDX-License-Identifier: GPL-2.0
//! Queue pairs of users.

use core::marker::PhantomData;

use kernel::{prelude::*, sync::Arc};
use rmlx5_bindings as bindings;

use super::{
    access::Access,
    ah::{AddressVector, PathReport},
    attr::Mtu,
    cq::Cq,
    kverbs::QpHandle,
    notify::{QpNotifier, Watched},
    object::{Context, Pd, Ref},
    srq::Srq,
    verbs::UserVerbs,
    wq::WqTable,
    xrcd::Xrcd,
};

/// A queue pair.
pub type Qp<'a, T> = Ref<'a, bindings::ib_qp, Watched<bindings::ib_qp, T>>;

/// Transport service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpKind {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagrams.
    Ud,
    /// Sending end of an extended reliable connection.
    XrcInitiator,
    /// Receiving end of one, which belongs to an XRC domain.
    XrcTarget,
    /// Unreliable datagrams to QP 1, for management.
    Gsi,
    /// Ethernet frames as they are.
    RawPacket,
    /// Another one, by its number (`enum ib_qp_type`).
    Other(u32),
}

impl QpKind {
    fn from_raw(kind: bindings::ib_qp_type) -> Self {
        match kind {
            bindings::ib_qp_type_IB_QPT_RC => Self::Rc,
            bindings::ib_qp_type_IB_QPT_UC => Self::Uc,
            bindings::ib_qp_type_IB_QPT_UD => Self::Ud,
            bindings::ib_qp_type_IB_QPT_XRC_INI => Self::XrcInitiator,
            bindings::ib_qp_type_IB_QPT_XRC_TGT => Self::XrcTarget,
            bindings::ib_qp_type_IB_QPT_GSI => Self::Gsi,
            bindings::ib_qp_type_IB_QPT_RAW_PACKET => Self::RawPacket,
            other => Self::Other(other),
        }
    }

    fn as_raw(self) -> bindings::ib_qp_type {
        match self {
            Self::Rc => bindings::ib_qp_type_IB_QPT_RC,
            Self::Uc => bindings::ib_qp_type_IB_QPT_UC,
            Self::Ud => bindings::ib_qp_type_IB_QPT_UD,
            Self::XrcInitiator => bindings::ib_qp_type_IB_QPT_XRC_INI,
            Self::XrcTarget => bindings::ib_qp_type_IB_QPT_XRC_TGT,
            Self::Gsi => bindings::ib_qp_type_IB_QPT_GSI,
            Self::RawPacket => bindings::ib_qp_type_IB_QPT_RAW_PACKET,
            Self::Other(other) => other,
        }
    }
}

/// State of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QpState {
    /// Nothing is processed.
    Reset = bindings::ib_qp_state_IB_QPS_RESET,
    /// Receives may be posted.
    Init = bindings::ib_qp_state_IB_QPS_INIT,
    /// Ready to receive.
    Rtr = bindings::ib_qp_state_IB_QPS_RTR,
    /// Ready to send.
    Rts = bindings::ib_qp_state_IB_QPS_RTS,
    /// No new send is begun.
    Sqd = bindings::ib_qp_state_IB_QPS_SQD,
    /// A send of an unreliable QP failed.
    Sqe = bindings::ib_qp_state_IB_QPS_SQE,
    /// Everything is flushed.
    Error = bindings::ib_qp_state_IB_QPS_ERR,
}

impl QpState {
    fn from_raw(state: bindings::ib_qp_state) -> Option<Self> {
        [
            Self::Reset,
            Self::Init,
            Self::Rtr,
            Self::Rts,
            Self::Sqd,
            Self::Sqe,
            Self::Error,
        ]
        .into_iter()
        .find(|known| *known as u32 == state)
    }
}

/// Sizes of the queues of a QP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpCaps {
    /// Sends that can be posted.
    pub send_wr: u32,
    /// Receives that can be posted.
    pub recv_wr: u32,
    /// Scatter entries of a send.
    pub send_sge: u32,
    /// Scatter entries of a receive.
    pub recv_sge: u32,
    /// Bytes that a send can carry itself.
    pub inline_data: u32,
}

impl QpCaps {
    fn from_raw(raw: &bindings::ib_qp_cap) -> Self {
        Self {
            send_wr: raw.max_send_wr,
            recv_wr: raw.max_recv_wr,
            send_sge: raw.max_send_sge,
            recv_sge: raw.max_recv_sge,
            inline_data: raw.max_inline_data,
        }
    }

    fn store(&self, to: &mut bindings::ib_qp_cap) {
        to.max_send_wr = self.send_wr;
        to.max_recv_wr = self.recv_wr;
        to.max_send_sge = self.send_sge;
        to.max_recv_sge = self.recv_sge;
        to.max_inline_data = self.inline_data;
    }
}

/// A queue pair that is being created, for the duration of the call.
///
/// # Invariants
///
/// The pointers are those of a create function, valid for `'a`, and so are the objects they name.
pub struct NewQp<'a, D: UserVerbs> {
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_init_attr,
    context: Option<Context<'a, D::Context>>,
    notifier: Arc<QpNotifier>,
}

impl<'a, D: UserVerbs> NewQp<'a, D> {
    /// # Safety
    ///
    /// As the type invariant.
    pub(super) unsafe fn new(
        qp: *mut bindings::ib_qp,
        attr: *mut bindings::ib_qp_init_attr,
        context: Option<Context<'a, D::Context>>,
        notifier: Arc<QpNotifier>,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            qp,
            attr,
            context,
            notifier,
        }
    }

    fn get(&self) -> &bindings::ib_qp_init_attr {
        // SAFETY: By the type invariant.
        unsafe { &*self.attr }
    }

    /// The user.
    ///
    /// # Errors
    ///
    /// `EINVAL` when it is the kernel.
    pub fn context(&self) -> Result<Context<'a, D::Context>> {
        self.context.ok_or(EINVAL)
    }

    /// Who is told of events. Nobody is before the create function has returned.
    pub fn notifier(&self) -> Arc<QpNotifier> {
        self.notifier.clone()
    }

    /// Transport service.
    pub fn kind(&self) -> QpKind {
        QpKind::from_raw(self.get().qp_type)
    }

    /// Whether every send makes a completion.
    pub fn signals_all(&self) -> bool {
        self.get().sq_sig_type == bindings::ib_sig_type_IB_SIGNAL_ALL_WR
    }

    /// `IB_QP_CREATE_*` flags.
    pub fn create_flags(&self) -> u32 {
        self.get().create_flags
    }

    /// What the user wants; not checked.
    pub fn caps(&self) -> QpCaps {
        QpCaps::from_raw(&self.get().cap)
    }

    /// What the user gets.
    pub fn set_caps(&mut self, caps: &QpCaps) {
        // SAFETY: By the type invariant.
        caps.store(unsafe { &mut (*self.attr).cap });
    }

    /// What completions name the QP by.
    pub fn handle(&self) -> QpHandle {
        QpHandle::new(self.qp)
    }

    /// The port that a QP for management datagrams is for, counted from 1.
    pub fn port(&self) -> u32 {
        self.get().port_num
    }

    /// The number of the QP, 24 bits.
    pub fn set_number(&mut self, number: u32) {
        // SAFETY: By the type invariant.
        unsafe { (*self.qp).qp_num = number };
    }

    /// The QP is not shown by `rdma resource`: it has nothing that could be asked for.
    pub fn hide(&mut self) {
        // SAFETY: By the type invariant; the core has not added it yet.
        unsafe { (*self.qp).res.set_no_track(1) };
    }

    /// The domain; some services have none.
    pub fn pd(&self) -> Option<Pd<'a, D::Pd>> {
        // SAFETY: By the type invariant.
        unsafe {
            let pd = (*self.qp).pd;
            (!pd.is_null()).then(|| Ref::from_raw(pd))
        }
    }

    fn cq(cq: *mut bindings::ib_cq) -> Option<Cq<'a, D::Cq>> {
        // SAFETY: By the type invariant this is null or a CQ of the driver.
        (!cq.is_null()).then(|| unsafe { Ref::from_raw(cq) })
    }

    /// CQ of sends.
    pub fn send_cq(&self) -> Option<Cq<'a, D::Cq>> {
        Self::cq(self.get().send_cq)
    }

    /// CQ of receives.
    pub fn recv_cq(&self) -> Option<Cq<'a, D::Cq>> {
        Self::cq(self.get().recv_cq)
    }

    /// The table of work queues that a hash picks from, for a QP that only receives by it.
    pub fn wq_table(&self) -> Option<WqTable<'a, D::WqTable>> {
        let table = self.get().rwq_ind_tbl;
        // SAFETY: By the type invariant this is null or a table of the driver.
        (!table.is_null()).then(|| unsafe { Ref::from_raw(table) })
    }

    /// Where receives are taken from, if it is not the QP's own queue.
    pub fn srq(&self) -> Option<Srq<'a, D::Srq>> {
        let srq = self.get().srq;
        // SAFETY: By the type invariant this is null or an SRQ of the driver.
        (!srq.is_null()).then(|| unsafe { Ref::from_raw(srq) })
    }
}

/// The receiving end of an extended reliable connection that is being created, for the duration of the
/// call. It belongs to no process, and has neither queues nor CQs.
///
/// # Invariants
///
/// The pointers are those of a create function, valid for `'a`, and so is the XRC domain.
pub struct NewXrcTarget<'a, D: UserVerbs> {
    qp: *mut bindings::ib_qp,
    xrcd: Xrcd<'a, D::Xrcd>,
    notifier: Arc<QpNotifier>,
}

impl<'a, D: UserVerbs> NewXrcTarget<'a, D> {
    /// # Safety
    ///
    /// As the type invariant; `xrcd` must be that of `qp`.
    pub(super) unsafe fn new(
        qp: *mut bindings::ib_qp,
        xrcd: *mut bindings::ib_xrcd,
        notifier: Arc<QpNotifier>,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            qp,
            // SAFETY: By the safety requirements.
            xrcd: unsafe { Ref::from_raw(xrcd) },
            notifier,
        }
    }

    /// The XRC domain.
    pub fn xrcd(&self) -> Xrcd<'a, D::Xrcd> {
        self.xrcd
    }

    /// Who is told of events. Nobody is before the create function has returned.
    pub fn notifier(&self) -> Arc<QpNotifier> {
        self.notifier.clone()
    }

    /// The number of the QP, 24 bits.
    pub fn set_number(&mut self, number: u32) {
        // SAFETY: By the type invariant.
        unsafe { (*self.qp).qp_num = number };
    }
}

/// What a user wants changed at a QP, for the duration of the call. Each function is `None` when its
/// bit is not in the mask of the call.
///
/// # Invariants
///
/// The pointer is valid for `'a`.
pub struct QpChange<'a> {
    attr: *const bindings::ib_qp_attr,
    mask: u32,
    call: PhantomData<&'a ()>,
}

macro_rules! members {
    ($($(#[$meta:meta])* $name:ident: $ty:ty = $mask:ident, $member:ident;)*) => {
        $(
            $(#[$meta])*
            pub fn $name(&self) -> Option<$ty> {
                self.has(bindings::$mask).then(|| self.get().$member)
            }
        )*
    };
}

impl<'a> QpChange<'a> {
    /// # Safety
    ///
    /// As the type invariant.
    pub(super) unsafe fn new(attr: *const bindings::ib_qp_attr, mask: c_int) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            attr,
            // CAST: a set of bits.
            mask: mask as u32,
            call: PhantomData,
        }
    }

    fn get(&self) -> &'a bindings::ib_qp_attr {
        // SAFETY: By the type invariant.
        unsafe { &*self.attr }
    }

    fn has(&self, bit: u32) -> bool {
        self.mask & bit != 0
    }

    /// Whether there are bits that this interface does not know.
    pub fn has_unknown(&self) -> bool {
        self.mask & !bindings::ib_qp_attr_mask_IB_QP_ATTR_STANDARD_BITS != 0
    }

    /// The mask, for log lines.
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// The state that the QP is to go to.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a number that is no state.
    pub fn state(&self) -> Result<Option<QpState>> {
        if !self.has(bindings::ib_qp_attr_mask_IB_QP_STATE) {
            return Ok(None);
        }
        QpState::from_raw(self.get().qp_state)
            .map(Some)
            .ok_or(EINVAL)
    }

    /// The state that the user takes the QP to be in. Errors as for [`QpChange::state`].
    pub fn current_state(&self) -> Result<Option<QpState>> {
        if !self.has(bindings::ib_qp_attr_mask_IB_QP_CUR_STATE) {
            return Ok(None);
        }
        QpState::from_raw(self.get().cur_qp_state)
            .map(Some)
            .ok_or(EINVAL)
    }

    /// Whether the specification has this step with these attributes.
    pub fn is_allowed(&self, kind: QpKind, from: QpState, to: QpState) -> bool {
        // SAFETY: Looks up a table; the states are states.
        unsafe { bindings::ib_modify_qp_is_ok(from as u32, to as u32, kind.as_raw(), self.mask) }
    }

    /// What the other end may do.
    pub fn access(&self) -> Option<Access> {
        self.has(bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS)
            .then(|| Access::from_raw(self.get().qp_access_flags))
    }

    members! {
        /// Index of the partition key.
        pkey_index: u16 = ib_qp_attr_mask_IB_QP_PKEY_INDEX, pkey_index;
        /// Port, counted from 1.
        port: u32 = ib_qp_attr_mask_IB_QP_PORT, port_num;
        /// Key that datagrams must carry.
        qkey: u32 = ib_qp_attr_mask_IB_QP_QKEY, qkey;
        /// Code of the acknowledgement timeout, 4.096 us << code; 0: none.
        timeout: u8 = ib_qp_attr_mask_IB_QP_TIMEOUT, timeout;
        /// Retries before a lost peer is declared.
        retry_count: u8 = ib_qp_attr_mask_IB_QP_RETRY_CNT, retry_cnt;
        /// Retries when the receiver is not ready; 7: without end.
        rnr_retry: u8 = ib_qp_attr_mask_IB_QP_RNR_RETRY, rnr_retry;
        /// First PSN of the other end.
        rq_psn: u32 = ib_qp_attr_mask_IB_QP_RQ_PSN, rq_psn;
        /// First PSN of this end.
        sq_psn: u32 = ib_qp_attr_mask_IB_QP_SQ_PSN, sq_psn;
        /// Reads and atomics under way as initiator.
        max_rd_atomic: u8 = ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC, max_rd_atomic;
        /// Reads and atomics under way as responder.
        max_dest_rd_atomic: u8 = ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic;
        /// Code of the time that a sender has to wait for a receiver that is not ready.
        min_rnr_timer: u8 = ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER, min_rnr_timer;
        /// QP of the other end.
        destination_qpn: u32 = ib_qp_attr_mask_IB_QP_DEST_QPN, dest_qp_num;
        /// Path migration state (`enum ib_mig_state`).
        migration: u32 = ib_qp_attr_mask_IB_QP_PATH_MIG_STATE, path_mig_state;
    }

    /// MTU of the path.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a code that is none.
    pub fn path_mtu(&self) -> Result<Option<Mtu>> {
        if !self.has(bindings::ib_qp_attr_mask_IB_QP_PATH_MTU) {
            return Ok(None);
        }
        Mtu::from_code(self.get().path_mtu).map(Some).ok_or(EINVAL)
    }

    /// The way to the other end.
    pub fn path(&self) -> Option<AddressVector<'a>> {
        if !self.has(bindings::ib_qp_attr_mask_IB_QP_AV) {
            return None;
        }
        // SAFETY: Part of what the type invariant is about.
        Some(unsafe { AddressVector::from_raw(&self.get().ah_attr) })
    }

    /// Whether another path is given, for when the first one fails.
    pub fn has_alternate_path(&self) -> bool {
        self.has(bindings::ib_qp_attr_mask_IB_QP_ALT_PATH)
    }
}

/// A QP as the device sees it.
#[derive(Clone, Copy)]
pub struct QpReport {
    /// State.
    pub state: QpState,
    /// SQD is not reached yet.
    pub draining: bool,
    /// MTU of the path.
    pub path_mtu: Mtu,
    /// Key that datagrams must carry.
    pub qkey: u32,
    /// Next PSN from the other end.
    pub rq_psn: u32,
    /// Next PSN of this end.
    pub sq_psn: u32,
    /// QP of the other end.
    pub destination_qpn: u32,
    /// What the other end may do.
    pub access: Access,
    /// Sizes.
    pub caps: QpCaps,
    /// The way to the other end, for connections.
    pub path: Option<PathReport>,
    /// Index of the partition key.
    pub pkey_index: u16,
    /// Reads and atomics under way as initiator.
    pub max_rd_atomic: u8,
    /// Reads and atomics under way as responder.
    pub max_dest_rd_atomic: u8,
    /// Code of the time that a sender has to wait.
    pub min_rnr_timer: u8,
    /// Port, counted from 1.
    pub port: u32,
    /// Code of the acknowledgement timeout.
    pub timeout: u8,
    /// Retries before a lost peer is declared.
    pub retry_count: u8,
    /// Retries when the receiver is not ready.
    pub rnr_retry: u8,
    /// Whether every send makes a completion.
    pub signals_all: bool,
}

impl QpReport {
    /// A QP in RESET that nothing is known of.
    pub fn of_nothing() -> Self {
        Self {
            state: QpState::Reset,
            draining: false,
            path_mtu: Mtu::Bytes256,
            qkey: 0,
            rq_psn: 0,
            sq_psn: 0,
            destination_qpn: 0,
            access: Access::NONE,
            caps: QpCaps::default(),
            path: None,
            pkey_index: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            port: 0,
            timeout: 0,
            retry_count: 0,
            rnr_retry: 0,
            signals_all: false,
        }
    }

    /// Writes to the core's structures.
    pub(super) fn store(
        &self,
        qp: &bindings::ib_qp,
        attr: &mut bindings::ib_qp_attr,
        init: &mut bindings::ib_qp_init_attr,
    ) {
        // SAFETY: A structure of numbers and pointers of C, for which zeros are a value.
        *attr = unsafe { core::mem::zeroed() };
        *init = pin_init::zeroed();
        attr.qp_state = self.state as u32;
        attr.cur_qp_state = self.state as u32;
        attr.sq_draining = self.draining.into();
        attr.path_mtu = self.path_mtu as u32;
        attr.path_mig_state = bindings::ib_mig_state_IB_MIG_MIGRATED;
        attr.qkey = self.qkey;
        attr.rq_psn = self.rq_psn;
        attr.sq_psn = self.sq_psn;
        attr.dest_qp_num = self.destination_qpn;
        attr.qp_access_flags = self.access.as_raw();
        self.caps.store(&mut attr.cap);
        if let Some(path) = &self.path {
            path.store(&mut attr.ah_attr);
        }
        attr.pkey_index = self.pkey_index;
        attr.max_rd_atomic = self.max_rd_atomic;
        attr.max_dest_rd_atomic = self.max_dest_rd_atomic;
        attr.min_rnr_timer = self.min_rnr_timer;
        attr.port_num = self.port;
        attr.timeout = self.timeout;
        attr.retry_cnt = self.retry_count;
        attr.rnr_retry = self.rnr_retry;
        init.qp_type = qp.qp_type;
        init.send_cq = qp.send_cq;
        init.recv_cq = qp.recv_cq;
        init.srq = qp.srq;
        self.caps.store(&mut init.cap);
        init.sq_sig_type = if self.signals_all {
            bindings::ib_sig_type_IB_SIGNAL_ALL_WR
        } else {
            bindings::ib_sig_type_IB_SIGNAL_REQ_WR
        };
    }
}

impl<T> Qp<'_, T> {
    /// The number of the QP.
    pub fn number(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_raw()).qp_num }
    }
}
