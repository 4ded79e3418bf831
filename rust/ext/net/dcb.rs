// SPDX-License-Identifier: GPL-2.0
//! Data centre bridging (IEEE 802.1Q): what `dcb` of iproute2 asks a driver.
//!
//! Functions run in process context under the RTNL; an error changes nothing. The core keeps the list of entries
//! that `dcb app` shows; here it is only about DSCPs, which the hardware maps itself.
//!
//! C header: [`include/net/dcbnl.h`](srctree/include/net/dcbnl.h)

use core::marker::PhantomData;

use kernel::{error::from_result, error::to_result, prelude::*};
use rmlx5_bindings as bindings;

use super::device::{Driver, NetDevice, Shell};

/// Priorities, and traffic classes at most.
// CAST: 8.
pub const COUNT: usize = bindings::IEEE_8021QAZ_MAX_TCS as usize;
/// Values of a DSCP.
pub const CODE_POINTS: u16 = 64;

/// How a traffic class is chosen for transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Before all classes below it.
    Strict,
    /// By its share.
    Ets,
    /// As the vendor likes.
    Vendor,
}

/// Which class a priority has, and how classes are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ets {
    /// Class of each priority.
    pub class_of: [u8; COUNT],
    /// Algorithm of each class.
    pub algorithms: [Algorithm; COUNT],
    /// Share of each class in percent; for [`Algorithm::Ets`] only.
    pub shares: [u8; COUNT],
}

/// Pauses of single priorities (PFC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pfc {
    /// A bit for each priority that can be paused.
    pub enabled: u8,
    /// Pauses that were sent, by priority.
    pub sent: [u64; COUNT],
    /// Pauses that came, by priority.
    pub received: [u64; COUNT],
}

/// Software on this host negotiates with the neighbour, by the IEEE's rules.
// CAST: 9.
const HOST: u8 = (bindings::DCB_CAP_DCBX_HOST | bindings::DCB_CAP_DCBX_VER_IEEE) as u8;

/// A driver that bridges.
pub trait Bridging: Driver {
    /// Traffic classes there are.
    fn classes(data: &Self::Data) -> u8;

    /// Classes in force.
    fn ets(data: &Self::Data) -> Result<Ets>;

    /// Other classes. Classes of priorities are below [`Bridging::classes`]; shares sum up to 100, if any class has
    /// one.
    fn set_ets(data: &Self::Data, ets: &Ets) -> Result;

    /// Limits of classes in kbit/s; 0 for none.
    fn rates(data: &Self::Data) -> Result<[u64; COUNT]>;

    /// Other limits.
    fn set_rates(data: &Self::Data, rates: &[u64; COUNT]) -> Result;

    /// Which priorities can be paused, and what was counted.
    fn pfc(data: &Self::Data) -> Result<Pfc>;

    /// Other priorities, a bit each.
    fn set_pfc(data: &Self::Data, enabled: u8) -> Result;

    /// The priority that an entry gives a DSCP.
    fn entry(data: &Self::Data, code_point: u8) -> Option<u8>;

    /// Another entry for a DSCP, or none any more. As long as there is an entry for any, the DSCP says what priority a packet
    /// has, and without one the VLAN tag does.
    fn set_entry(
        device: &NetDevice,
        data: &Self::Data,
        code_point: u8,
        priority: Option<u8>,
    ) -> Result;
}

/// The functions of a driver.
#[derive(Clone, Copy)]
pub struct Bridge(pub(super) &'static bindings::dcbnl_rtnl_ops);

// SAFETY: The table is only read.
unsafe impl Sync for Bridge {}
// SAFETY: As above.
unsafe impl Send for Bridge {}

impl Bridge {
    /// Those of driver `D`.
    pub const fn of<D: Bridging>() -> Self {
        Self(Table::<D>::OPS)
    }
}

/// `IEEE_8021QAZ_APP_SEL_DSCP`.
// CAST: 5.
const SELECT_DSCP: u8 = bindings::IEEE_8021QAZ_APP_SEL_DSCP as u8;
/// `IEEE_8021QAZ_TSA_*`.
// CAST, four times: bytes.
const STRICT: u8 = bindings::IEEE_8021QAZ_TSA_STRICT as u8;
const CREDITS: u8 = bindings::IEEE_8021QAZ_TSA_CB_SHAPER as u8;
const ETS: u8 = bindings::IEEE_8021QAZ_TSA_ETS as u8;
const VENDOR: u8 = bindings::IEEE_8021QAZ_TSA_VENDOR as u8;

impl Algorithm {
    fn from_raw(raw: u8) -> Result<Self> {
        match raw {
            STRICT => Ok(Self::Strict),
            ETS => Ok(Self::Ets),
            VENDOR => Ok(Self::Vendor),
            CREDITS => Err(EOPNOTSUPP),
            _ => Err(EINVAL),
        }
    }

    fn raw(self) -> u8 {
        match self {
            Self::Strict => STRICT,
            Self::Ets => ETS,
            Self::Vendor => VENDOR,
        }
    }
}

/// Checks what a person wants.
fn parse(raw: &bindings::ieee_ets, classes: u8) -> Result<Ets> {
    let mut algorithms = [Algorithm::Strict; COUNT];
    for (algorithm, raw) in algorithms.iter_mut().zip(raw.tc_tsa) {
        *algorithm = Algorithm::from_raw(raw)?;
    }
    let mut shares = [0; COUNT];
    let (mut sum, mut shared) = (0u32, false);
    for ((share, algorithm), raw) in shares.iter_mut().zip(algorithms).zip(raw.tc_tx_bw) {
        if algorithm == Algorithm::Ets {
            *share = raw;
            sum = sum.wrapping_add(raw.into());
            shared = true;
        }
    }
    if shared && sum != 100 || raw.prio_tc.iter().any(|class| *class >= classes) {
        return Err(EINVAL);
    }
    Ok(Ets {
        class_of: raw.prio_tc,
        algorithms,
        shares,
    })
}

struct Table<D>(PhantomData<D>);

impl<D: Bridging> Table<D> {
    const OPS: &'static bindings::dcbnl_rtnl_ops = &bindings::dcbnl_rtnl_ops {
        ieee_getets: Some(Self::getets),
        ieee_setets: Some(Self::setets),
        ieee_getmaxrate: Some(Self::getmaxrate),
        ieee_setmaxrate: Some(Self::setmaxrate),
        ieee_getpfc: Some(Self::getpfc),
        ieee_setpfc: Some(Self::setpfc),
        ieee_setapp: Some(Self::setapp),
        ieee_delapp: Some(Self::delapp),
        getdcbx: Some(Self::getdcbx),
        setdcbx: Some(Self::setdcbx),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `raw` must be a registered device of this driver for `'a`.
    unsafe fn parts<'a>(raw: *mut bindings::net_device) -> (&'a NetDevice, &'a D::Data) {
        // SAFETY: By the safety requirements.
        unsafe { (NetDevice::from_raw(raw), Shell::<D>::data(raw)) }
    }

    extern "C" fn getets(raw: *mut bindings::net_device, to: *mut bindings::ieee_ets) -> c_int {
        // SAFETY: The core passes a device of this driver and a zeroed structure to fill in.
        let ((_, data), to) = unsafe { (Self::parts(raw), &mut *to) };
        from_result(|| {
            let ets = D::ets(data)?;
            to.ets_cap = D::classes(data);
            to.prio_tc = ets.class_of;
            to.tc_tx_bw = ets.shares;
            to.tc_tsa = ets.algorithms.map(Algorithm::raw);
            Ok(0)
        })
    }

    extern "C" fn setets(raw: *mut bindings::net_device, wanted: *mut bindings::ieee_ets) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure.
        let ((_, data), wanted) = unsafe { (Self::parts(raw), &*wanted) };
        from_result(|| {
            let ets = parse(wanted, D::classes(data))?;
            D::set_ets(data, &ets).map(|()| 0)
        })
    }

    extern "C" fn getmaxrate(
        raw: *mut bindings::net_device,
        to: *mut bindings::ieee_maxrate,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure to fill in.
        let ((_, data), to) = unsafe { (Self::parts(raw), &mut *to) };
        from_result(|| {
            to.tc_maxrate = D::rates(data)?;
            Ok(0)
        })
    }

    extern "C" fn setmaxrate(
        raw: *mut bindings::net_device,
        wanted: *mut bindings::ieee_maxrate,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure.
        let ((_, data), wanted) = unsafe { (Self::parts(raw), &*wanted) };
        from_result(|| D::set_rates(data, &wanted.tc_maxrate).map(|()| 0))
    }

    extern "C" fn getpfc(raw: *mut bindings::net_device, to: *mut bindings::ieee_pfc) -> c_int {
        // SAFETY: The core passes a device of this driver and a zeroed structure to fill in.
        let ((_, data), to) = unsafe { (Self::parts(raw), &mut *to) };
        from_result(|| {
            let pfc = D::pfc(data)?;
            to.pfc_cap = D::classes(data);
            to.pfc_en = pfc.enabled;
            to.requests = pfc.sent;
            to.indications = pfc.received;
            Ok(0)
        })
    }

    extern "C" fn setpfc(raw: *mut bindings::net_device, wanted: *mut bindings::ieee_pfc) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure.
        let ((_, data), wanted) = unsafe { (Self::parts(raw), &*wanted) };
        from_result(|| D::set_pfc(data, wanted.pfc_en).map(|()| 0))
    }

    extern "C" fn setapp(raw: *mut bindings::net_device, app: *mut bindings::dcb_app) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure.
        let ((device, data), app) = unsafe { (Self::parts(raw), &mut *app) };
        from_result(|| {
            let code_point = code_point(app)?;
            if usize::from(app.priority) >= COUNT {
                return Err(EINVAL);
            }
            let before = D::entry(data, code_point);
            D::set_entry(device, data, code_point, Some(app.priority))?;
            if let Some(priority) = before {
                let mut old = bindings::dcb_app { priority, ..*app };
                // An entry that is not there need not go.
                // SAFETY: The device is registered.
                let _ = unsafe { bindings::dcb_ieee_delapp(raw, &mut old) };
            }
            // SAFETY: As above.
            to_result(unsafe { bindings::dcb_ieee_setapp(raw, app) }).map(|()| 0)
        })
    }

    extern "C" fn delapp(raw: *mut bindings::net_device, app: *mut bindings::dcb_app) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure.
        let ((device, data), app) = unsafe { (Self::parts(raw), &mut *app) };
        from_result(|| {
            let code_point = code_point(app)?;
            if D::entry(data, code_point) != Some(app.priority) {
                return Err(ENOENT);
            }
            // SAFETY: The device is registered.
            to_result(unsafe { bindings::dcb_ieee_delapp(raw, app) })?;
            D::set_entry(device, data, code_point, None).map(|()| 0)
        })
    }

    extern "C" fn getdcbx(_raw: *mut bindings::net_device) -> u8 {
        HOST
    }

    extern "C" fn setdcbx(_raw: *mut bindings::net_device, mode: u8) -> u8 {
        // There is nobody else who could, and no other rules.
        (mode != HOST).into()
    }
}

/// The DSCP that an entry is about; `EINVAL` when it is about something else.
fn code_point(app: &bindings::dcb_app) -> Result<u8> {
    if app.selector != SELECT_DSCP || app.protocol >= CODE_POINTS {
        return Err(EINVAL);
    }
    // CAST: checked above.
    Ok(app.protocol as u8)
}
