// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A queue buffer in host memory: a list of pages that the device sees as one piece.

use mlx5_hw::status::Status;

use crate::{cmd::Refused, env::Env, host::DmaError};

/// Pages of one size, an offset into the first one, and a length.
#[derive(Clone, Debug)]
pub struct Buffer {
    pages: Vec<u64>,
    shift: u32,
    offset: u64,
    len: u64,
}

impl Buffer {
    /// Takes the page list of a command apart.
    ///
    /// `pas` is the raw list behind the fixed part of the input, `log_page_size` the context field
    /// (0 means 4 KiB), `page_offset` counts units of 1/64 page, `len` is what the queue needs, in
    /// bytes. Source: `mlx5_fill_page_frag_array` in core/alloc.c, `mlx5_umem_find_best_quantized_pgoff`
    /// in ib/mlx5_ib.h.
    ///
    /// # Errors
    /// [`Status::BadParam`] when the list is too short or an address is not aligned to the page
    /// size.
    pub fn parse(
        pas: &[u8],
        log_page_size: u32,
        page_offset: u32,
        len: u64,
    ) -> Result<Self, Refused> {
        let shift = log_page_size + 12;
        if shift >= 52 || page_offset >= 64 {
            return Err(Refused::new(
                Status::BadParam,
                0x7001,
                format!("page size 2^{shift}, offset {page_offset}/64"),
            ));
        }
        let offset = (1u64 << shift) / 64 * u64::from(page_offset);
        let needed = (offset + len).div_ceil(1 << shift);
        let pages: Vec<u64> = pas
            .chunks_exact(8)
            .map(|raw| raw.iter().fold(0, |pa, byte| pa << 8 | u64::from(*byte)))
            .collect();
        if (pages.len() as u64) < needed {
            return Err(Refused::new(
                Status::BadParam,
                0x7002,
                format!(
                    "{} pages of 2^{shift} bytes given, a buffer of {len} bytes needs {needed}",
                    pages.len()
                ),
            ));
        }
        if let Some(bad) = pages.iter().find(|pa| **pa & ((1 << shift) - 1) != 0) {
            return Err(Refused::new(
                Status::BadParam,
                0x7003,
                format!("page address {bad:#x} is not aligned to 2^{shift} bytes"),
            ));
        }
        Ok(Self {
            pages,
            shift,
            offset,
            len,
        })
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bus address of a byte, and how many bytes follow it in the same page.
    ///
    /// # Errors
    /// Outside of the buffer, as a failed DMA at address 0: callers check against [`Buffer::len`].
    pub fn address(&self, at: u64) -> Result<(u64, u64), DmaError> {
        let outside = DmaError { addr: 0, len: 0 };
        if at >= self.len {
            return Err(outside);
        }
        let at = self.offset + at;
        // CAST: an index that does not fit is out of range too.
        let page = self.pages.get((at >> self.shift) as usize).ok_or(outside)?;
        let inside = at & ((1 << self.shift) - 1);
        Ok((page + inside, (1 << self.shift) - inside))
    }

    /// Reads from byte `at` on.
    pub fn read(&self, env: &mut Env, at: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        let mut done = 0;
        while done < buf.len() {
            let (addr, left) = self.address(at + done as u64)?;
            let step = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(buf.len() - done);
            env.read(addr, &mut buf[done..done + step])?;
            done += step;
        }
        Ok(())
    }

    /// Writes from byte `at` on.
    pub fn write(&self, env: &mut Env, at: u64, buf: &[u8]) -> Result<(), DmaError> {
        let mut done = 0;
        while done < buf.len() {
            let (addr, left) = self.address(at + done as u64)?;
            let step = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(buf.len() - done);
            env.write(addr, &buf[done..done + step])?;
            done += step;
        }
        Ok(())
    }

    /// Publishes an entry whose last byte is its owner byte. Entries are powers of two and aligned
    /// to their size, so they never cross a page.
    pub fn publish(&self, env: &mut Env, at: u64, entry: &[u8]) -> Result<(), DmaError> {
        let (addr, left) = self.address(at)?;
        if left < entry.len() as u64 {
            return Err(DmaError {
                addr,
                len: entry.len(),
            });
        }
        env.publish(addr, entry)
    }
}
