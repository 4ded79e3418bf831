// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames as a capture file, with the time they passed the port.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, PcapError, TsResolution};

/// Collects what the encoder writes field by field.
#[derive(Clone, Default)]
struct Staging(Arc<Mutex<Vec<u8>>>);

impl Staging {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Staging {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An open capture file: Ethernet, nanosecond time stamps. Each frame goes to the file in one
/// write, so a reader never sees half a record and a killed process loses none.
pub struct Capture {
    file: Option<File>,
    encoder: PcapWriter<Staging>,
    staging: Staging,
}

impl Capture {
    /// Creates (or truncates) the file at `path`.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn create(path: &Path) -> Result<Self, PcapError> {
        let header = PcapHeader {
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            ..PcapHeader::default()
        };
        let staging = Staging::default();
        let encoder = PcapWriter::with_header(staging.clone(), header)?;
        let mut file = File::create(path).map_err(PcapError::IoError)?;
        file.write_all(&staging.take())
            .map_err(PcapError::IoError)?;
        Ok(Self {
            file: Some(file),
            encoder,
            staging,
        })
    }

    /// Writes one frame. A file that refuses is closed with one line in the log.
    pub(crate) fn frame(&mut self, frame: &[u8]) {
        let Some(file) = self.file.as_mut() else {
            return;
        };
        let time = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        // CAST: frames are below MAX_FRAME bytes.
        let packet = PcapPacket::new(time, frame.len() as u32, frame);
        let encoded = self.encoder.write_packet(&packet);
        let record = self.staging.take();
        if let Err(error) =
            encoded.and_then(|_| file.write_all(&record).map_err(PcapError::IoError))
        {
            tracing::warn!(%error, "capture stops");
            self.file = None;
        }
    }
}
