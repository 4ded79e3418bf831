// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guest memory, as the client maps it: windows of bus addresses over shared file descriptors.

use std::fs::File;
use std::io;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use device::host::DmaError;
use vm_memory::{FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

/// One mapping of the client.
struct Window {
    start: u64,
    /// Bytes, at least one; `start + len` does not overflow.
    len: u64,
    readable: bool,
    writable: bool,
    /// Nothing when the client gave no descriptor: the addresses exist, but we cannot reach them.
    memory: Option<MmapRegion>,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.len
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end()
    }
}

/// All memory the card can reach. Shared: the card reads and writes, the client's messages map
/// and unmap. A mapping is never removed while an access runs.
#[derive(Default)]
pub struct GuestMemory {
    /// Sorted by start, never overlapping.
    windows: RwLock<Vec<Window>>,
    master: AtomicBool,
}

impl GuestMemory {
    /// Bus mastering: while off, every access fails.
    pub fn set_master(&self, on: bool) {
        self.master.store(on, Ordering::Release);
    }

    /// Adds a mapping of `len` bytes at bus address `start`.
    ///
    /// # Errors
    /// EINVAL for an empty or overlapping range; what mmap says.
    pub fn map(
        &self,
        start: u64,
        len: u64,
        access: (bool, bool),
        file: Option<(File, u64)>,
    ) -> io::Result<()> {
        let invalid = |what: &str| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{what}: {len:#x} at {start:#x}"),
            )
        };
        let end = start.checked_add(len).filter(|_| len > 0);
        let end = end.ok_or_else(|| invalid("no such range"))?;
        let (readable, writable) = access;
        let mut windows = self.write();
        if windows.iter().any(|window| window.overlaps(start, end)) {
            return Err(invalid("mapped already"));
        }
        let memory = match file {
            Some((file, offset)) => {
                let size = usize::try_from(len).map_err(|_| invalid("too large"))?;
                let protection = if writable { libc::PROT_WRITE } else { 0 } | libc::PROT_READ;
                let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
                // Touching pages beyond the end of a file would kill the process.
                let info = file.metadata()?;
                if info.is_file() && offset.checked_add(len).is_none_or(|end| end > info.len()) {
                    return Err(invalid("the file is too short"));
                }
                let file = FileOffset::new(file, offset);
                let region = MmapRegion::build(Some(file), size, protection, flags);
                Some(region.map_err(io::Error::other)?)
            }
            None => None,
        };
        let window = Window {
            start,
            len,
            readable,
            writable,
            memory,
        };
        let at = windows.partition_point(|other| other.start < start);
        windows.insert(at, window);
        Ok(())
    }

    /// Removes every mapping that lies in `start..start + len`.
    ///
    /// # Errors
    /// EINVAL when the range cuts a mapping; then nothing is removed.
    pub fn unmap(&self, start: u64, len: u64) -> io::Result<()> {
        let end = start.saturating_add(len);
        let mut windows = self.write();
        let cut = |window: &Window| {
            window.overlaps(start, end) && (window.start < start || window.end() > end)
        };
        if windows.iter().any(cut) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{len:#x} at {start:#x} cuts a mapping"),
            ));
        }
        windows.retain(|window| !window.overlaps(start, end));
        Ok(())
    }

    /// Removes everything.
    pub fn clear(&self) {
        self.write().clear();
    }

    /// Number of mappings and bytes in them.
    pub fn size(&self) -> (usize, u64) {
        let windows = self.read_lock();
        (windows.len(), windows.iter().map(|window| window.len).sum())
    }

    fn read_lock(&self) -> RwLockReadGuard<'_, Vec<Window>> {
        self.windows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Window>> {
        self.windows.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `step` over the pieces of `addr..addr + len` in order: (offset in the access, memory).
    fn pieces(
        &self,
        addr: u64,
        len: usize,
        writing: bool,
        step: &mut dyn FnMut(usize, VolatileSlice<'_>),
    ) -> Result<(), DmaError> {
        let error = DmaError { addr, len };
        if !self.master.load(Ordering::Acquire) {
            return Err(error);
        }
        let windows = self.read_lock();
        let mut done = 0usize;
        while done < len {
            let at = addr.checked_add(done as u64).ok_or(error)?;
            let index = windows.partition_point(|window| window.end() <= at);
            let window = windows
                .get(index)
                .filter(|window| window.start <= at)
                .ok_or(error)?;
            if !(if writing {
                window.writable
            } else {
                window.readable
            }) {
                return Err(error);
            }
            let memory = window.memory.as_ref().ok_or(error)?;
            let offset = usize::try_from(at - window.start).map_err(|_| error)?;
            let here = (len - done).min(memory.size().saturating_sub(offset));
            let piece = memory.get_slice(offset, here).map_err(|_| error)?;
            if here == 0 {
                return Err(error);
            }
            step(done, piece);
            done += here;
        }
        Ok(())
    }
}

/// The card's view of guest memory.
pub struct CardDma(pub std::sync::Arc<GuestMemory>);

impl device::host::Dma for CardDma {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaError> {
        self.0.pieces(addr, buf.len(), false, &mut |at, piece| {
            if let Some(to) = buf.get_mut(at..at + piece.len()) {
                piece.copy_to(to);
            }
        })
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        self.0.pieces(addr, buf.len(), true, &mut |at, piece| {
            if let Some(from) = buf.get(at..at + piece.len()) {
                piece.copy_from(from);
            }
        })
    }

    fn publish(&self, addr: u64, buf: &[u8]) -> Result<(), DmaError> {
        let Some((last, body)) = buf.split_last() else {
            return Ok(());
        };
        let whole = DmaError {
            addr,
            len: buf.len(),
        };
        self.write(addr, body).map_err(|_| whole)?;
        let at = addr.checked_add(body.len() as u64).ok_or(whole)?;
        // Everything before, also what other calls wrote, is visible before the last byte.
        fence(Ordering::Release);
        self.write(at, &[*last]).map_err(|_| whole)
    }

    fn update64(&self, addr: u64, change: &mut dyn FnMut(u64) -> u64) -> Result<u64, DmaError> {
        let error = DmaError { addr, len: 8 };
        let mut old = Err(error);
        self.0.pieces(addr, 8, true, &mut |_, piece| {
            // A value over the seam of two mappings, or not aligned, has no atomic reference.
            let Ok(cell) = piece.get_atomic_ref::<AtomicU64>(0) else {
                return;
            };
            let mut seen = cell.load(Ordering::Acquire);
            loop {
                let new = change(seen);
                match cell.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => break,
                    Err(now) => seen = now,
                }
            }
            old = Ok(seen);
        })?;
        old
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::host::Dma;
    use std::sync::Arc;

    const PAGE: u64 = 4096;

    fn file(len: u64) -> File {
        let fd = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(fd);
        file.set_len(len).unwrap();
        file
    }

    fn mapped(windows: &[(u64, u64)]) -> (Arc<GuestMemory>, CardDma) {
        let memory = Arc::new(GuestMemory::default());
        for (start, len) in windows {
            memory
                .map(*start, *len, (true, true), Some((file(*len), 0)))
                .unwrap();
        }
        memory.set_master(true);
        (memory.clone(), CardDma(memory))
    }

    #[test]
    fn what_is_written_is_read_also_over_a_seam() {
        let (_, dma) = mapped(&[(0x1000, PAGE), (0x2000, PAGE)]);
        let data: Vec<u8> = (0..200).collect();
        dma.write(0x2000 - 100, &data).unwrap();
        let mut back = vec![0; 200];
        dma.read(0x2000 - 100, &mut back).unwrap();
        assert_eq!(back, data);
        dma.publish(0x2000 - 3, &[1, 2, 3, 4, 5, 6]).unwrap();
        let mut back = [0; 6];
        dma.read(0x2000 - 3, &mut back).unwrap();
        assert_eq!(back, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn holes_and_ends_are_refused() {
        let (_, dma) = mapped(&[(0x1000, PAGE), (0x3000, PAGE)]);
        for addr in [0xfff, 0x1ffd, 0x2000, 0x3ffd, u64::MAX - 2] {
            assert_eq!(dma.read(addr, &mut [0; 4]), Err(DmaError { addr, len: 4 }));
            assert!(dma.write(addr, &[0; 4]).is_err());
            assert!(dma.publish(addr, &[0; 4]).is_err());
        }
    }

    #[test]
    fn nothing_moves_without_bus_mastering() {
        let (memory, dma) = mapped(&[(0, PAGE)]);
        memory.set_master(false);
        assert!(dma.write(0, &[1]).is_err());
        assert!(dma.read(0, &mut [0]).is_err());
        memory.set_master(true);
        assert!(dma.write(0, &[1]).is_ok());
    }

    #[test]
    fn read_only_and_unbacked_windows_are_respected() {
        let memory = Arc::new(GuestMemory::default());
        memory.set_master(true);
        memory
            .map(0, PAGE, (true, false), Some((file(PAGE), 0)))
            .unwrap();
        memory.map(PAGE, PAGE, (true, true), None).unwrap();
        let dma = CardDma(memory);
        assert!(dma.read(0, &mut [0; 4]).is_ok());
        assert!(dma.write(0, &[0; 4]).is_err());
        assert!(dma.update64(0, &mut |old| old).is_err());
        assert!(dma.read(PAGE, &mut [0; 4]).is_err());
    }

    #[test]
    fn overlap_is_refused_and_unmap_takes_whole_mappings() {
        let (memory, dma) = mapped(&[(0x1000, PAGE), (0x3000, PAGE)]);
        assert!(memory.map(0x1800, PAGE, (true, true), None).is_err());
        assert!(memory.map(0, 0x10000, (true, true), None).is_err());
        assert!(memory.map(0, 0, (true, true), None).is_err());
        assert!(memory.map(u64::MAX, 2, (true, true), None).is_err());
        assert!(memory.unmap(0x1800, PAGE).is_err());
        memory.unmap(0x1000, PAGE).unwrap();
        assert!(dma.read(0x1000, &mut [0]).is_err());
        assert_eq!(memory.size(), (1, PAGE));
        memory.unmap(0, u64::MAX).unwrap();
        assert_eq!(memory.size(), (0, 0));
    }

    #[test]
    fn a_file_that_is_too_short_is_refused() {
        let memory = GuestMemory::default();
        assert!(memory
            .map(0, 2 * PAGE, (true, true), Some((file(PAGE), 0)))
            .is_err());
    }

    #[test]
    fn update_is_atomic_and_returns_the_old_value() {
        let (_, dma) = mapped(&[(0, PAGE)]);
        dma.write(8, &5u64.to_ne_bytes()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        dma.update64(8, &mut |old| old + 1).unwrap();
                    }
                });
            }
        });
        assert_eq!(dma.update64(8, &mut |_| 1), Ok(20_005));
        assert!(dma.update64(12, &mut |old| old).is_err());
    }
}
