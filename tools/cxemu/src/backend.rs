// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The vfio-user side: regions, memory maps, interrupts and resets of the client.

use std::fs::File;
use std::io;
use std::sync::Arc;

use vfio_bindings::bindings::vfio::{
    vfio_region_info, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_SET_ACTION_TRIGGER,
    VFIO_IRQ_SET_ACTION_TYPE_MASK, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE,
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_ERR_IRQ_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ,
    VFIO_REGION_INFO_FLAG_WRITE,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, ServerBackend, ServerRegion};

use crate::machine::Machine;

/// Regions of the device: BAR0 and configuration space. No region can be mapped: every register
/// has to see its accesses.
pub fn regions(bar_size: u64) -> Vec<ServerRegion> {
    (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let size = match index {
                VFIO_PCI_BAR0_REGION_INDEX => bar_size,
                VFIO_PCI_CONFIG_REGION_INDEX => pcie::CONFIG_SIZE as u64,
                _ => 0,
            };
            let access = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
            // CAST: the structure is a few dozen bytes.
            let region_info = vfio_region_info {
                argsz: size_of::<vfio_region_info>() as u32,
                flags: if size == 0 { 0 } else { access },
                index,
                size,
                ..Default::default()
            };
            ServerRegion {
                region_info,
                sparse_areas: Vec::new(),
                mmap_fd: None,
            }
        })
        .collect()
}

/// Interrupts of the device: MSI-X, and the error notification that clients ask for (it is never
/// sent: a client stops the whole machine on it, where a port would start error recovery). Without
/// the NORESIZE flag the client may enable vectors one by one.
pub fn irqs(vectors: u16) -> Vec<IrqInfo> {
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| {
            let count = match index {
                VFIO_PCI_MSIX_IRQ_INDEX => u32::from(vectors),
                VFIO_PCI_ERR_IRQ_INDEX => 1,
                _ => 0,
            };
            let flags = if count == 0 { 0 } else { VFIO_IRQ_INFO_EVENTFD };
            IrqInfo {
                index,
                flags,
                count,
            }
        })
        .collect()
}

/// What serves one client after the other.
pub struct Backend {
    machine: Arc<Machine>,
}

impl Backend {
    /// Serves `machine`.
    pub fn new(machine: Arc<Machine>) -> Self {
        Self { machine }
    }
}

/// An error for something the client must not ask.
fn refused(what: String) -> io::Error {
    tracing::warn!("{what}");
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

impl ServerBackend for Backend {
    /// Accesses a guest can make never fail: what nobody answers reads as all ones.
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        match region {
            VFIO_PCI_BAR0_REGION_INDEX => self.machine.bar_read(offset, data),
            VFIO_PCI_CONFIG_REGION_INDEX => self.machine.config_read(offset, data),
            _ => data.fill(0xff),
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        match region {
            VFIO_PCI_BAR0_REGION_INDEX => self.machine.bar_write(offset, data),
            VFIO_PCI_CONFIG_REGION_INDEX => self.machine.config_write(offset, data),
            _ => tracing::debug!(region, offset, "write to a region that is not there"),
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> io::Result<()> {
        tracing::debug!("map {size:#x} at {address:#x}, file: {}", fd.is_some());
        let access = (
            flags.contains(DmaMapFlags::READ),
            flags.contains(DmaMapFlags::WRITE),
        );
        let file = fd.map(|file| (file, offset));
        self.machine
            .memory
            .map(address, size, access, file)
            .map_err(|error| {
                tracing::warn!("cannot map {size:#x} at {address:#x}: {error}");
                error
            })
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        tracing::debug!("unmap {size:#x} at {address:#x}");
        if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            self.machine.memory.clear();
            return Ok(());
        }
        self.machine.memory.unmap(address, size)
    }

    fn reset(&mut self) -> io::Result<()> {
        self.machine.bus_reset();
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        fds: Vec<File>,
    ) -> io::Result<()> {
        tracing::debug!("set irqs: index {index} flags {flags:#x} {start}+{count}");
        if index == VFIO_PCI_ERR_IRQ_INDEX {
            return Ok(());
        }
        if index != VFIO_PCI_MSIX_IRQ_INDEX {
            // The other kinds have no vectors; switching nothing off is fine.
            return if count == 0 {
                Ok(())
            } else {
                Err(refused(format!("no IRQ index {index}")))
            };
        }
        if flags & VFIO_IRQ_SET_ACTION_TYPE_MASK != VFIO_IRQ_SET_ACTION_TRIGGER {
            return Err(refused(format!(
                "IRQ action of flags {flags:#x} is not supported"
            )));
        }
        let end = start
            .checked_add(count)
            .and_then(|end| u16::try_from(end).ok());
        let end = end.ok_or_else(|| refused(format!("no vectors {start}+{count}")))?;
        let range = u16::try_from(start).map(|start| start..end);
        let range = range.map_err(|_| refused(format!("no vector {start}")))?;
        if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 {
            // Without descriptors the message takes those of the range away.
            if !fds.is_empty() && fds.len() != range.len() {
                return Err(refused(format!(
                    "{} descriptors, {count} vectors",
                    fds.len()
                )));
            }
            let mut fds = fds.into_iter();
            range.for_each(|vector| self.machine.vectors.connect(vector, fds.next()));
        } else if flags & VFIO_IRQ_SET_DATA_NONE != 0 {
            if count == 0 {
                self.machine.vectors.disconnect();
            } else {
                range.for_each(|vector| self.machine.vectors.raise(vector));
            }
        }
        Ok(())
    }
}
