// SPDX-License-Identifier: GPL-2.0
//! Memory regions of the kernel: all memory by bus address, and regions that requests fill with lists
//! of pages. Source: `mlx5_ib_get_dma_mr`, `mlx5_ib_alloc_mr` and `mlx5_ib_map_mr_sg` in ib/mr.c.

use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    }, //
};
use kernel_ext::rdma::{
    Access,
    Pd, //
};

use crate::{
    buf::Buf,
    ib::{
        mr::{
            permissions,
            Region, //
        },
        Data,
        Domain, //
    },
    mr, //
};

/// Pages of a region at most: its list is a page itself.
pub(in crate::ib) const MOST_PAGES: u32 = 512;
/// The device may read and write a page. Source: `MLX5_EN_RD`, `MLX5_EN_WR`.
const READ_WRITE: u64 = 3;
/// Bits of a key that its user may choose.
const KEY_BYTE: u32 = 8;
/// Bytes of an entry of a list.
const ENTRY: usize = 8;

/// The list of pages of a region, which the device reads when a request fills the region. Its user
/// does not change it before that request is done.
pub(crate) struct PageList {
    buf: Buf,
    used: Atomic<u32>,
    most: u32,
}

impl PageList {
    /// No pages any more.
    pub(super) fn clear(&self) {
        self.used.store(0, Relaxed);
    }

    /// Adds a page. `ENOMEM` when there are enough.
    pub(super) fn add(&self, address: u64) -> Result {
        let at = self.used.load(Relaxed);
        if at >= self.most {
            return Err(ENOMEM);
        }
        // CAST: `usize` has 64 bits here.
        self.buf
            .write(at as usize * ENTRY, &(address | READ_WRITE).to_be_bytes())?;
        self.used.store(at.wrapping_add(1), Relaxed);
        Ok(())
    }

    /// Its bus address, and how many pages it has.
    pub(in crate::ib) fn describe(&self) -> Option<(u64, u32)> {
        Some((self.buf.address(0).ok()?, self.used.load(Relaxed)))
    }
}

/// A key for all memory. The domain has no successor when others are told the key: they would not learn
/// of another one.
pub(super) fn all(data: &Data, pd: Pd<'_, Domain>, access: Access) -> Result<(Region, u32)> {
    let domain = pd.payload();
    let place = domain.place()?;
    if access.remote_read() || access.remote_write() || access.remote_atomic() {
        if let Some(successor) = domain.successor() {
            data.lives.remove_domain(successor);
        }
    }
    let key = mr::Mr::create_all(place.home.cmd(), place.pd, permissions(access))?;
    let number = key.key();
    Ok((Region::of_kernel(&place.home, access, key, None), number))
}

/// A region of up to `pages` pages that nobody may use yet.
pub(super) fn allocate(data: &Data, pd: Pd<'_, Domain>, pages: u32) -> Result<(Region, u32)> {
    let place = pd.payload().place()?;
    if pages == 0 || pages > MOST_PAGES {
        data.complain(fmt!("MR: {pages} pages, the limit is {MOST_PAGES}"));
        return Err(EINVAL);
    }
    let device = &data.device;
    // CAST: `usize` has 64 bits here.
    let bytes = pages as usize * ENTRY;
    let list = PageList {
        buf: Buf::new(device.pdev.device(), device.node, bytes)?,
        used: Atomic::new(0),
        most: pages,
    };
    let free = || mr::Mr::create_free(place.home.cmd(), place.pd, pages);
    let mut key = free()?;
    // In a later generation: what the domain's user posts as all memory must not name a region.
    if place.key.is_some() && key.key() >> KEY_BYTE == pd.local_dma_lkey() >> KEY_BYTE {
        let taken = core::mem::replace(&mut key, free()?);
        // It stands for nothing.
        let _ = taken.destroy(place.home.cmd());
    }
    let number = key.key();
    let region = Region::of_kernel(&place.home, Access::NONE, key, Some(list));
    Ok((region, number))
}
