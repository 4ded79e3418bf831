// SPDX-License-Identifier: GPL-2.0
//! What `ethtool` asks a driver.
//!
//! Functions run in process context under the RTNL. Setters get values that the core has found to be in
//! the range that the getter states; an error changes nothing.
//!
//! C header: [`include/linux/ethtool.h`](srctree/include/linux/ethtool.h)

mod settings;

use core::{fmt, marker::PhantomData, ptr};

use kernel::{error::from_result, prelude::*};
use rmlx5_bindings as bindings;

// The table is of the kernel crate's bindings, where the device has no members.
use kernel::bindings::net_device as opaque_device;

use super::device::{Driver, NetDevice, Shell};

pub use settings::{Coalesce, Flow, HashFields, Pause, PauseCounts, Rings, Spread};

/// A driver that answers `ethtool`.
pub trait Ethtool: Driver {
    /// Name of the driver.
    const NAME: &'static str;
    /// Bytes of the key of the hash.
    const KEY_LEN: u32;

    /// Writes the firmware version, at most 31 bytes.
    fn firmware(data: &Self::Data, to: &mut dyn fmt::Write) -> fmt::Result;

    /// Writes what bus the device is on, at most 31 bytes.
    fn bus(data: &Self::Data, to: &mut dyn fmt::Write) -> fmt::Result;

    /// How fast the link is, in Mb/s, if that is known. Asked while there is a link.
    fn speed(data: &Self::Data) -> Option<u32>;

    /// Lengths of rings.
    fn rings(data: &Self::Data) -> Rings;

    /// Other lengths; the driver may round up.
    fn set_rings(device: &NetDevice, data: &Self::Data, rx: u32, tx: u32) -> Result;

    /// Channels in use, and the most.
    fn channels(data: &Self::Data) -> (u32, u32);

    /// Another number of channels, not 0.
    fn set_channels(device: &NetDevice, data: &Self::Data, count: u32) -> Result;

    /// When interrupts are raised.
    fn coalesce(data: &Self::Data) -> Coalesce;

    /// Other times.
    fn set_coalesce(device: &NetDevice, data: &Self::Data, coalesce: Coalesce) -> Result;

    /// Pauses in force. An error is shown as none.
    fn pause(data: &Self::Data) -> Result<Pause>;

    /// Other pauses. They are not negotiated.
    fn set_pause(data: &Self::Data, pause: Pause) -> Result;

    /// Pauses that were counted. Sleeps.
    fn pause_counts(data: &Self::Data) -> Result<PauseCounts>;

    /// Names of the tests of `ethtool -t`, at most 31 bytes each.
    const TESTS: &'static [&'static str];

    /// Runs a test by its place in the list; whether it passes. Sleeps.
    fn test(device: &NetDevice, data: &Self::Data, index: usize) -> bool;

    /// Entries of the table that the hash picks from.
    fn table_len(data: &Self::Data) -> u32;

    /// Fills in the table and the key, as far as they are asked for.
    fn spread(data: &Self::Data, table: Option<&mut [u32]>, key: Option<&mut [u8]>);

    /// Spreads in another way. The entries of a table are below the number of channels in use.
    fn set_spread(device: &NetDevice, data: &Self::Data, spread: &Spread<'_>) -> Result;

    /// What goes into the hash of such packets.
    fn hash_fields(data: &Self::Data, flow: Flow) -> HashFields;

    /// Makes the hash of such packets of something else.
    fn set_hash_fields(
        device: &NetDevice,
        data: &Self::Data,
        flow: Flow,
        fields: HashFields,
    ) -> Result;

    /// Counters are going to be read: the moment to ask the hardware for those that it keeps. Sleeps.
    fn recount(data: &Self::Data);

    /// How many counters there are.
    fn counters(data: &Self::Data) -> usize;

    /// Writes the name of a counter, at most 31 bytes.
    fn counter_name(data: &Self::Data, index: usize, to: &mut dyn fmt::Write) -> fmt::Result;

    /// The value of a counter.
    fn counter(data: &Self::Data, index: usize) -> u64;
}

/// The functions of a driver.
#[derive(Clone, Copy)]
pub struct Tools(pub(super) &'static bindings::ethtool_ops);

// SAFETY: The table is only read.
unsafe impl Sync for Tools {}
// SAFETY: As above.
unsafe impl Send for Tools {}

impl Tools {
    /// Those of driver `D`.
    pub const fn of<D: Ethtool>() -> Self {
        Self(Table::<D>::OPS)
    }
}

/// `ETHTOOL_COALESCE_RX_USECS`, `..._RX_MAX_FRAMES`, `..._TX_USECS`, `..._TX_MAX_FRAMES`,
/// `..._USE_ADAPTIVE_RX`, `..._USE_ADAPTIVE_TX`; helpers.c asserts them.
const COALESCE: u32 = 1 << 0 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 9 | 1 << 10;

/// `ETH_TEST_FL_FAILED`; helpers.c asserts it.
const TEST_FAILED: u32 = 1 << 1;

struct Table<D>(PhantomData<D>);

/// A text that is cut off before its last byte.
struct Text<'a> {
    bytes: &'a mut [c_char],
    used: usize,
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.used.wrapping_add(1) >= self.bytes.len() {
                return Err(fmt::Error);
            }
            if let Some(slot) = self.bytes.get_mut(self.used) {
                // CAST: bytes are bytes.
                *slot = byte as c_char;
            }
            self.used = self.used.wrapping_add(1);
        }
        if let Some(slot) = self.bytes.get_mut(self.used) {
            *slot = 0;
        }
        Ok(())
    }
}

impl<D: Ethtool> Table<D> {
    const OPS: &'static bindings::ethtool_ops = &bindings::ethtool_ops {
        supported_coalesce_params: COALESCE,
        get_drvinfo: Some(Self::get_drvinfo),
        get_link: Some(bindings::ethtool_op_get_link),
        get_link_ksettings: Some(Self::get_link_ksettings),
        get_ringparam: Some(Self::get_ringparam),
        set_ringparam: Some(Self::set_ringparam),
        get_channels: Some(Self::get_channels),
        set_channels: Some(Self::set_channels),
        get_coalesce: Some(Self::get_coalesce),
        set_coalesce: Some(Self::set_coalesce),
        get_strings: Some(Self::get_strings),
        get_sset_count: Some(Self::get_sset_count),
        get_ethtool_stats: Some(Self::get_ethtool_stats),
        get_pauseparam: Some(Self::get_pauseparam),
        set_pauseparam: Some(Self::set_pauseparam),
        get_pause_stats: Some(Self::get_pause_stats),
        self_test: Some(Self::self_test),
        get_rx_ring_count: Some(Self::get_rx_ring_count),
        get_rxfh_key_size: Some(Self::get_rxfh_key_size),
        get_rxfh_indir_size: Some(Self::get_rxfh_indir_size),
        get_rxfh: Some(Self::get_rxfh),
        set_rxfh: Some(Self::set_rxfh),
        get_rxfh_fields: Some(Self::get_rxfh_fields),
        set_rxfh_fields: Some(Self::set_rxfh_fields),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `raw` must be a registered device of this driver for `'a`.
    unsafe fn parts<'a>(raw: *mut opaque_device) -> (&'a NetDevice, &'a D::Data) {
        // SAFETY: By the safety requirements.
        unsafe {
            (
                NetDevice::from_raw(raw.cast()),
                Shell::<D>::data(raw.cast()),
            )
        }
    }

    extern "C" fn get_drvinfo(raw: *mut opaque_device, info: *mut bindings::ethtool_drvinfo) {
        // SAFETY: The core passes a device of this driver and a structure to fill in.
        let ((_, data), info) = unsafe { (Self::parts(raw), &mut *info) };
        let text = |bytes| Text { bytes, used: 0 };
        // A text that is cut off is as good as it gets.
        let _ = fmt::Write::write_str(&mut text(&mut info.driver), D::NAME);
        let _ = D::firmware(data, &mut text(&mut info.fw_version));
        let _ = D::bus(data, &mut text(&mut info.bus_info));
    }

    extern "C" fn get_link_ksettings(
        raw: *mut opaque_device,
        settings: *mut bindings::ethtool_link_ksettings,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver and a zeroed structure to fill in.
        let ((device, data), settings) = unsafe { (Self::parts(raw), &mut *settings) };
        let speed = device.has_carrier().then(|| D::speed(data)).flatten();
        // CAST, three times: small constants, and -1 for unknown.
        settings.base.port = bindings::PORT_OTHER as u8;
        (settings.base.speed, settings.base.duplex) = match speed {
            Some(speed) => (speed, bindings::DUPLEX_FULL as u8),
            None => (
                bindings::SPEED_UNKNOWN as u32,
                bindings::DUPLEX_UNKNOWN as u8,
            ),
        };
        0
    }

    extern "C" fn get_ringparam(
        raw: *mut opaque_device,
        param: *mut bindings::ethtool_ringparam,
        _kernel: *mut bindings::kernel_ethtool_ringparam,
        _extack: *mut bindings::netlink_ext_ack,
    ) {
        // SAFETY: The core passes a device of this driver and a structure to fill in.
        let ((_, data), param) = unsafe { (Self::parts(raw), &mut *param) };
        let rings = D::rings(data);
        param.rx_pending = rings.rx;
        param.rx_max_pending = rings.rx_max;
        param.tx_pending = rings.tx;
        param.tx_max_pending = rings.tx_max;
    }

    extern "C" fn set_ringparam(
        raw: *mut opaque_device,
        param: *mut bindings::ethtool_ringparam,
        _kernel: *mut bindings::kernel_ethtool_ringparam,
        _extack: *mut bindings::netlink_ext_ack,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure to read.
        let ((device, data), param) = unsafe { (Self::parts(raw), &*param) };
        if param.rx_pending == 0 || param.tx_pending == 0 {
            return EINVAL.to_errno();
        }
        from_result(|| D::set_rings(device, data, param.rx_pending, param.tx_pending).map(|()| 0))
    }

    extern "C" fn get_channels(raw: *mut opaque_device, channels: *mut bindings::ethtool_channels) {
        // SAFETY: The core passes a device of this driver and a structure to fill in.
        let ((_, data), channels) = unsafe { (Self::parts(raw), &mut *channels) };
        (channels.combined_count, channels.max_combined) = D::channels(data);
    }

    extern "C" fn set_channels(
        raw: *mut opaque_device,
        channels: *mut bindings::ethtool_channels,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure to read.
        let ((device, data), channels) = unsafe { (Self::parts(raw), &*channels) };
        if channels.combined_count == 0 {
            return EINVAL.to_errno();
        }
        from_result(|| D::set_channels(device, data, channels.combined_count).map(|()| 0))
    }

    extern "C" fn get_coalesce(
        raw: *mut opaque_device,
        coalesce: *mut bindings::ethtool_coalesce,
        _kernel: *mut bindings::kernel_ethtool_coalesce,
        _extack: *mut bindings::netlink_ext_ack,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure to fill in.
        let ((_, data), to) = unsafe { (Self::parts(raw), &mut *coalesce) };
        let now = D::coalesce(data);
        to.rx_coalesce_usecs = now.rx_usecs;
        to.rx_max_coalesced_frames = now.rx_frames;
        to.tx_coalesce_usecs = now.tx_usecs;
        to.tx_max_coalesced_frames = now.tx_frames;
        to.use_adaptive_rx_coalesce = now.rx_adaptive.into();
        to.use_adaptive_tx_coalesce = now.tx_adaptive.into();
        0
    }

    extern "C" fn set_coalesce(
        raw: *mut opaque_device,
        coalesce: *mut bindings::ethtool_coalesce,
        _kernel: *mut bindings::kernel_ethtool_coalesce,
        _extack: *mut bindings::netlink_ext_ack,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure to read.
        let ((device, data), from) = unsafe { (Self::parts(raw), &*coalesce) };
        let wanted = Coalesce {
            rx_usecs: from.rx_coalesce_usecs,
            rx_frames: from.rx_max_coalesced_frames,
            tx_usecs: from.tx_coalesce_usecs,
            tx_frames: from.tx_max_coalesced_frames,
            rx_adaptive: from.use_adaptive_rx_coalesce != 0,
            tx_adaptive: from.use_adaptive_tx_coalesce != 0,
        };
        from_result(|| D::set_coalesce(device, data, wanted).map(|()| 0))
    }

    extern "C" fn get_sset_count(raw: *mut opaque_device, set: c_int) -> c_int {
        // SAFETY: The core passes a device of this driver.
        let (_, data) = unsafe { Self::parts(raw) };
        // CAST: the numbers of sets are small.
        let count = match set as u32 {
            bindings::ethtool_stringset_ETH_SS_STATS => D::counters(data),
            bindings::ethtool_stringset_ETH_SS_TEST => D::TESTS.len(),
            _ => return EOPNOTSUPP.to_errno(),
        };
        c_int::try_from(count).unwrap_or(0)
    }

    extern "C" fn get_strings(raw: *mut opaque_device, set: u32, to: *mut u8) {
        // CAST: a small constant.
        const LEN: usize = bindings::ETH_GSTRING_LEN as usize;

        // SAFETY: The core passes a device of this driver.
        let (_, data) = unsafe { Self::parts(raw) };
        let count = match set {
            bindings::ethtool_stringset_ETH_SS_STATS => D::counters(data),
            bindings::ethtool_stringset_ETH_SS_TEST => D::TESTS.len(),
            _ => return,
        };
        for index in 0..count {
            // SAFETY: The core passes as many zeroed strings as there are counters or tests, whose
            // number does not change.
            let bytes = unsafe {
                core::slice::from_raw_parts_mut(to.add(index.wrapping_mul(LEN)).cast(), LEN)
            };
            let mut text = Text { bytes, used: 0 };
            let _ = match D::TESTS.get(index) {
                Some(name) if set == bindings::ethtool_stringset_ETH_SS_TEST => {
                    fmt::Write::write_str(&mut text, name)
                }
                _ => D::counter_name(data, index, &mut text),
            };
        }
    }

    extern "C" fn get_pauseparam(
        raw: *mut opaque_device,
        param: *mut bindings::ethtool_pauseparam,
    ) {
        // SAFETY: The core passes a device of this driver and a zeroed structure to fill in.
        let ((_, data), param) = unsafe { (Self::parts(raw), &mut *param) };
        let pause = D::pause(data).unwrap_or_default();
        param.rx_pause = pause.rx.into();
        param.tx_pause = pause.tx.into();
    }

    extern "C" fn set_pauseparam(
        raw: *mut opaque_device,
        param: *mut bindings::ethtool_pauseparam,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure to read.
        let ((_, data), param) = unsafe { (Self::parts(raw), &*param) };
        if param.autoneg != 0 {
            return EINVAL.to_errno();
        }
        let pause = Pause {
            rx: param.rx_pause != 0,
            tx: param.tx_pause != 0,
        };
        from_result(|| D::set_pause(data, pause).map(|()| 0))
    }

    extern "C" fn get_pause_stats(
        raw: *mut opaque_device,
        stats: *mut bindings::ethtool_pause_stats,
    ) {
        // SAFETY: The core passes a device of this driver and a structure to fill in; what is left alone is not
        // told.
        let ((_, data), stats) = unsafe { (Self::parts(raw), &mut *stats) };
        if let Ok(counts) = D::pause_counts(data) {
            // SAFETY: All views of the union are two numbers.
            let frames = unsafe { &mut stats.__bindgen_anon_1.__bindgen_anon_1 };
            frames.rx_pause_frames = counts.rx;
            frames.tx_pause_frames = counts.tx;
        }
    }

    extern "C" fn self_test(
        raw: *mut opaque_device,
        request: *mut bindings::ethtool_test,
        to: *mut u64,
    ) {
        // SAFETY: The core passes a device of this driver, a structure to change, and as many values as
        // there are tests.
        let ((device, data), request) = unsafe { (Self::parts(raw), &mut *request) };
        for index in 0..D::TESTS.len() {
            let failed = !D::test(device, data, index);
            if failed {
                request.flags |= TEST_FAILED;
            }
            // SAFETY: As above.
            unsafe { to.add(index).write(failed.into()) };
        }
    }

    extern "C" fn get_ethtool_stats(
        raw: *mut opaque_device,
        stats: *mut bindings::ethtool_stats,
        to: *mut u64,
    ) {
        // SAFETY: The core passes a device of this driver and the number of values it made room for.
        let ((_, data), room) = unsafe { (Self::parts(raw), (*stats).n_stats) };
        D::recount(data);
        // CAST: `usize` has 64 bits here.
        for index in 0..D::counters(data).min(room as usize) {
            // SAFETY: There is room for that many values.
            unsafe { to.add(index).write(D::counter(data, index)) };
        }
    }

    extern "C" fn get_rx_ring_count(raw: *mut opaque_device) -> u32 {
        // SAFETY: The core passes a device of this driver.
        let (_, data) = unsafe { Self::parts(raw) };
        D::channels(data).0
    }

    extern "C" fn get_rxfh_key_size(_raw: *mut opaque_device) -> u32 {
        D::KEY_LEN
    }

    extern "C" fn get_rxfh_indir_size(raw: *mut opaque_device) -> u32 {
        // SAFETY: The core passes a device of this driver.
        let (_, data) = unsafe { Self::parts(raw) };
        D::table_len(data)
    }

    extern "C" fn get_rxfh(
        raw: *mut opaque_device,
        param: *mut bindings::ethtool_rxfh_param,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure to fill in.
        let ((_, data), param) = unsafe { (Self::parts(raw), &mut *param) };
        // CAST: 1.
        param.hfunc = 1 << bindings::ETH_RSS_HASH_TOP_BIT as u8;
        // CAST, twice: `usize` has 64 bits here.
        let (entries, bytes) = (D::table_len(data) as usize, D::KEY_LEN as usize);
        // SAFETY: A table or a key that is asked for has the length that the driver has told.
        let (table, key) = unsafe {
            (
                (!param.indir.is_null())
                    .then(|| core::slice::from_raw_parts_mut(param.indir, entries)),
                (!param.key.is_null()).then(|| core::slice::from_raw_parts_mut(param.key, bytes)),
            )
        };
        D::spread(data, table, key);
        0
    }

    extern "C" fn set_rxfh(
        raw: *mut opaque_device,
        param: *mut bindings::ethtool_rxfh_param,
        _extack: *mut bindings::netlink_ext_ack,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure to read.
        let ((device, data), param) = unsafe { (Self::parts(raw), &*param) };
        let toeplitz = 1 << bindings::ETH_RSS_HASH_TOP_BIT;
        if param.hfunc != 0 && u32::from(param.hfunc) != toeplitz {
            return EOPNOTSUPP.to_errno();
        }
        // CAST, twice: `usize` has 64 bits here.
        let (entries, bytes) = (D::table_len(data) as usize, D::KEY_LEN as usize);
        // SAFETY: A table or a key that is given has the length that the driver has told.
        let spread = unsafe {
            Spread {
                table: (!param.indir.is_null())
                    .then(|| core::slice::from_raw_parts(param.indir.cast_const(), entries)),
                key: (!param.key.is_null())
                    .then(|| core::slice::from_raw_parts(param.key.cast_const(), bytes)),
            }
        };
        from_result(|| D::set_spread(device, data, &spread).map(|()| 0))
    }
}

impl<D: Ethtool> Table<D> {
    extern "C" fn get_rxfh_fields(
        raw: *mut opaque_device,
        fields: *mut bindings::ethtool_rxfh_fields,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure to change.
        let ((_, data), fields) = unsafe { (Self::parts(raw), &mut *fields) };
        let Some(flow) = Flow::parse(fields.flow_type) else {
            return EOPNOTSUPP.to_errno();
        };
        fields.data = D::hash_fields(data, flow).raw();
        0
    }

    extern "C" fn set_rxfh_fields(
        raw: *mut opaque_device,
        wanted: *const bindings::ethtool_rxfh_fields,
        _extack: *mut bindings::netlink_ext_ack,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure to read.
        let ((device, data), wanted) = unsafe { (Self::parts(raw), &*wanted) };
        from_result(|| {
            let flow = Flow::parse(wanted.flow_type).ok_or(EOPNOTSUPP)?;
            let fields = HashFields::parse(wanted.data).ok_or(EOPNOTSUPP)?;
            D::set_hash_fields(device, data, flow, fields).map(|()| 0)
        })
    }
}

/// The table as the core wants it.
pub(super) fn raw(tools: Option<Tools>) -> *const bindings::ethtool_ops {
    tools.map_or(ptr::null(), |tools| ptr::from_ref(tools.0))
}
