// SPDX-License-Identifier: GPL-2.0
//! The table of functions that the core calls.

mod kverbs;
mod user;

use core::{fmt, marker::PhantomData, ptr};

use kernel::{
    error::{from_result, to_result},
    prelude::*,
    sync::atomic::ordering::Relaxed,
    ModuleMetadata,
};
use rmlx5_bindings as bindings;

use super::{
    counter::CounterOps,
    details::DetailOps,
    device::{Driver, Shell},
    gid::Gid,
    kverbs::KernelVerbs,
    mmap::Vma,
    object::{Context, Object},
    page::Entry,
    udata::Udata,
};
use kverbs::KernelOps;
use user::UserOps;

/// Functions for driver `D`.
pub(super) struct Ops<D>(PhantomData<D>);

type ContextObject<D> = Object<bindings::ib_ucontext, <D as Driver>::Context>;
type PdObject<D> = Object<bindings::ib_pd, <D as Driver>::Pd>;

impl<D: KernelVerbs> Ops<D> {
    pub(super) fn table() -> bindings::ib_device_ops {
        let mut ops: bindings::ib_device_ops = pin_init::zeroed();
        ops.owner = D::Module::THIS_MODULE.as_ptr();
        ops.driver_id = D::DRIVER_ID as u32;
        ops.uverbs_abi_ver = D::UVERBS_ABI;
        ops.device_group = D::GROUP.map_or(ptr::null(), |group| group.as_raw());
        ops.enable_driver = Some(Self::enable_driver);
        ops.query_device = Some(Self::query_device);
        ops.query_port = Some(Self::query_port);
        ops.get_port_immutable = Some(Self::get_port_immutable);
        ops.get_link_layer = Some(Self::get_link_layer);
        ops.query_pkey = Some(Self::query_pkey);
        ops.get_dev_fw_str = Some(Self::get_dev_fw_str);
        ops.add_gid = Some(Self::add_gid);
        ops.del_gid = Some(Self::del_gid);
        ops.alloc_ucontext = Some(Self::alloc_ucontext);
        ops.dealloc_ucontext = Some(Self::dealloc_ucontext);
        ops.disassociate_ucontext = Some(Self::disassociate_ucontext);
        ops.mmap = Some(Self::mmap);
        ops.mmap_free = Some(Self::mmap_free);
        ops.alloc_pd = Some(Self::alloc_pd);
        ops.dealloc_pd = Some(Self::dealloc_pd);
        UserOps::<D>::fill(&mut ops);
        KernelOps::<D>::fill(&mut ops);
        CounterOps::<D>::fill(&mut ops);
        DetailOps::<D>::fill(&mut ops);
        ops.size_ib_ucontext = const { ContextObject::<D>::SIZE };
        ops.size_ib_pd = const { PdObject::<D>::SIZE };
        ops
    }

    /// The device is in sysfs, its uevent is still held back. The core calls it again when the device moves to another name
    /// space of the network: its files move along then.
    extern "C" fn enable_driver(ib: *mut bindings::ib_device) -> c_int {
        // SAFETY: The core passes a device of this driver.
        let has_files = unsafe { Shell::<D>::has_files(ib) };
        if has_files.load(Relaxed) != 0 {
            return 0;
        }
        from_result(|| {
            for group in D::NAMED_GROUPS.iter().flatten() {
                // SAFETY: The device is being registered; removing it from sysfs takes the group
                // along. The group is static.
                to_result(unsafe {
                    bindings::sysfs_create_group(
                        &raw mut (*Shell::<D>::device(ib)).kobj,
                        group.as_raw(),
                    )
                })?;
            }
            has_files.store(1, Relaxed);
            Ok(0)
        })
    }

    extern "C" fn query_device(
        ib: *mut bindings::ib_device,
        attributes: *mut bindings::ib_device_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: The core passes a device of this driver, and `udata` for this call.
            let queried = unsafe { D::query_device(Shell::<D>::data(ib), Udata::from_raw(udata)) }?;
            // SAFETY: The core passes a structure that it has zeroed.
            queried.store(unsafe { &mut *attributes });
            Ok(0)
        })
    }

    extern "C" fn query_port(
        ib: *mut bindings::ib_device,
        port: u32,
        attributes: *mut bindings::ib_port_attr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: The core passes a device of this driver.
            let queried = D::query_port(unsafe { Shell::<D>::data(ib) }, port)?;
            // SAFETY: The core passes a structure that it has zeroed.
            queried.store(unsafe { &mut *attributes });
            Ok(0)
        })
    }

    extern "C" fn get_port_immutable(
        ib: *mut bindings::ib_device,
        _port: u32,
        immutable: *mut bindings::ib_port_immutable,
    ) -> c_int {
        // SAFETY: The core passes a device of this driver and a structure to fill in.
        unsafe {
            (*immutable).pkey_tbl_len = 1;
            (*immutable).gid_tbl_len = Shell::<D>::gid_table_len(ib).into();
            (*immutable).core_cap_flags = Shell::<D>::gid_kinds(ib).flags();
            (*immutable).max_mad_size = bindings::IB_MGMT_MAD_SIZE;
        }
        0
    }

    extern "C" fn get_link_layer(
        _ib: *mut bindings::ib_device,
        _port: u32,
    ) -> bindings::rdma_link_layer {
        bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET
    }

    /// RoCE has no partitions; the table has the default key only.
    extern "C" fn query_pkey(
        _ib: *mut bindings::ib_device,
        _port: u32,
        index: u16,
        pkey: *mut u16,
    ) -> c_int {
        if index != 0 {
            return EINVAL.to_errno();
        }
        // SAFETY: The core passes a place for the key.
        unsafe { *pkey = 0xffff };
        0
    }

    extern "C" fn get_dev_fw_str(ib: *mut bindings::ib_device, text: *mut c_char) {
        // CAST: A small constant.
        const LEN: usize = bindings::IB_FW_VERSION_NAME_MAX as usize;

        let mut version = Version {
            text: [0; LEN],
            used: 0,
        };
        // A text that is cut off is as good as it gets.
        // SAFETY: The core passes a device of this driver.
        let _ = D::firmware(unsafe { Shell::<D>::data(ib) }, &mut version);
        // SAFETY: The core passes `LEN` bytes. The last byte of the version is zero.
        unsafe { ptr::copy_nonoverlapping(version.text.as_ptr(), text.cast(), LEN) };
    }

    extern "C" fn add_gid(gid: *const bindings::ib_gid_attr, _context: *mut *mut c_void) -> c_int {
        // SAFETY: The core passes an entry of a device of this driver, for this call.
        unsafe {
            from_result(|| {
                D::add_gid(Shell::<D>::data((*gid).device), &Gid::from_raw(gid)).map(|()| 0)
            })
        }
    }

    extern "C" fn del_gid(gid: *const bindings::ib_gid_attr, _context: *mut *mut c_void) -> c_int {
        // SAFETY: The core passes an entry of a device of this driver, for this call.
        unsafe {
            from_result(|| {
                D::delete_gid(Shell::<D>::data((*gid).device), &Gid::from_raw(gid)).map(|()| 0)
            })
        }
    }

    extern "C" fn alloc_ucontext(
        context: *mut bindings::ib_ucontext,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: The core passes a new context of the size it was told, with its device set, and
        // `udata` for this call.
        from_result(|| unsafe {
            let udata = Udata::from_raw(udata).ok_or(EINVAL)?;
            let data = Shell::<D>::data((*context).device);
            ContextObject::<D>::create(context, D::create_context(data, udata))?;
            Shell::<D>::had_user((*context).device).store(1, Relaxed);
            Ok(0)
        })
    }

    extern "C" fn dealloc_ucontext(context: *mut bindings::ib_ucontext) {
        // SAFETY: The core destroys what was created, after everything made from it.
        unsafe { ContextObject::<D>::destroy(context) }
    }

    /// That there is this function tells the core that contexts may be destroyed behind their
    /// files. The core itself takes mapped device memory away.
    extern "C" fn disassociate_ucontext(_context: *mut bindings::ib_ucontext) {}

    extern "C" fn mmap(
        context: *mut bindings::ib_ucontext,
        vma: *mut bindings::vm_area_struct,
    ) -> c_int {
        // SAFETY: The core passes a context that exists during the call, and a range of its file.
        from_result(|| unsafe {
            let data = Shell::<D>::data((*context).device);
            D::mmap(data, Vma::from_raw(vma, Context::from_raw(context)))?;
            Ok(0)
        })
    }

    extern "C" fn mmap_free(entry: *mut bindings::rdma_user_mmap_entry) {
        // SAFETY: The core frees an entry of a context of this driver, after its last mapping.
        unsafe { Entry::<D::Page>::free(entry) }
    }

    extern "C" fn alloc_pd(pd: *mut bindings::ib_pd, udata: *mut bindings::ib_udata) -> c_int {
        // SAFETY: The core passes a new domain of the size it was told, with its device set, and
        // with the user's object when there is `udata`, which lives for this call as the context
        // does.
        from_result(|| unsafe {
            let data = Shell::<D>::data((*pd).device);
            let user = Udata::from_raw(udata)
                .map(|udata| (Context::from_raw((*(*pd).uobject).context), udata));
            PdObject::<D>::create(pd, D::create_pd(data, user))?;
            Ok(0)
        })
    }

    extern "C" fn dealloc_pd(pd: *mut bindings::ib_pd, _udata: *mut bindings::ib_udata) -> c_int {
        // SAFETY: The core destroys what was created, after everything made from it.
        unsafe { PdObject::<D>::destroy(pd) };
        0
    }
}

/// A text that is cut off before its last byte.
struct Version {
    text: [u8; bindings::IB_FW_VERSION_NAME_MAX as usize],
    used: usize,
}

impl fmt::Write for Version {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.text.len().saturating_sub(1);
        for byte in text.bytes() {
            if self.used >= room {
                return Err(fmt::Error);
            }
            if let Some(slot) = self.text.get_mut(self.used) {
                *slot = byte;
            }
            self.used = self.used.wrapping_add(1);
        }
        Ok(())
    }
}
