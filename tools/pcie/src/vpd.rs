// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Vital product data: the capability and the read-only tags behind it.

use crate::space::{Access, Space};

/// Capability id.
const ID: u32 = 0x03;
/// Bytes of the capability.
pub(crate) const LEN: u16 = 8;
/// Transfer finished (read) or wanted (write).
const FLAG: u32 = 1 << 31;
/// Byte address of the transfer.
const ADDRESS: u32 = 0x7fff << 16;

/// The capability at its place, with its storage.
#[derive(Clone, Debug)]
pub(crate) struct Vpd {
    at: u16,
    image: Vec<u8>,
}

impl Vpd {
    /// Lays out the capability. `name` is the identifier string, `keywords` the read-only fields
    /// in order; a field longer than 255 bytes is cut.
    pub(crate) fn define(
        space: &mut Space,
        at: u16,
        next: u8,
        name: &str,
        keywords: &[([u8; 2], String)],
    ) -> Self {
        space.define(at, ID | (u32::from(next) << 8), Access::rw(FLAG | ADDRESS));
        space.define(at + 4, 0, Access::rw(!0));
        Self {
            at,
            image: image(name, keywords),
        }
    }

    /// A write touched `offset..offset + len`: acts when the upper half of the first dword did.
    /// A read request answers at once; a write request ends without effect (read-only storage).
    pub(crate) fn written(&self, space: &mut Space, offset: u64, len: usize) {
        let flag_byte = u64::from(self.at) + 3;
        if !(offset..offset.saturating_add(len as u64)).contains(&flag_byte) {
            return;
        }
        let control = space.get(self.at);
        if control & FLAG != 0 {
            space.set_bits(self.at, FLAG, 0);
            return;
        }
        let address = ((control & ADDRESS) >> 16) as usize;
        let mut word = [0u8; 4];
        for (to, from) in word.iter_mut().zip(self.image.iter().skip(address)) {
            *to = *from;
        }
        space.put(self.at + 4, u32::from_le_bytes(word));
        space.set_bits(self.at, FLAG, FLAG);
    }
}

/// The tags: identifier string, read-only fields closed by the checksum, end.
fn image(name: &str, keywords: &[([u8; 2], String)]) -> Vec<u8> {
    let mut out = Vec::new();
    let tag = |out: &mut Vec<u8>, tag: u8, body: &[u8]| {
        // CAST: bodies are a name and a few fields, far below 64 KiB.
        let len = body.len().min(0xffff) as u16;
        out.push(tag);
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(body);
    };
    tag(&mut out, 0x82, name.as_bytes());
    let mut fields = Vec::new();
    for (keyword, text) in keywords {
        let text = text.as_bytes();
        let len = text.len().min(255);
        fields.extend_from_slice(keyword);
        // CAST: bounded by 255 on the line above.
        fields.push(len as u8);
        fields.extend(text.iter().take(len));
    }
    // The checksum byte makes all bytes from the start to itself sum to zero.
    fields.extend_from_slice(b"RV\x01\0");
    tag(&mut out, 0x90, &fields);
    let sum = out.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    if let Some(last) = out.last_mut() {
        *last = sum.wrapping_neg();
    }
    out.push(0x78);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(space: &mut Space, vpd: &Vpd, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for address in (0..len).step_by(4) {
            space.write(0x4a, &(address as u16).to_le_bytes()).unwrap();
            vpd.written(space, 0x4a, 2);
            assert_eq!(space.get(0x48) & FLAG, FLAG);
            out.extend_from_slice(&space.get(0x4c).to_le_bytes());
        }
        out
    }

    #[test]
    fn reads_back_the_tags_and_sums_to_zero() {
        let mut space = Space::new();
        let fields = [(*b"PN", "CXEMU".to_owned()), (*b"SN", "42".to_owned())];
        let vpd = Vpd::define(&mut space, 0x48, 0, "card", &fields);
        let bytes = read_all(&mut space, &vpd, 64);
        assert_eq!(&bytes[..7], b"\x82\x04\0card");
        assert_eq!(&bytes[7..10], [0x90, 17, 0]);
        assert_eq!(&bytes[10..18], b"PN\x05CXEMU");
        let end = 10 + 17;
        assert_eq!(
            bytes[..end].iter().fold(0u8, |sum, b| sum.wrapping_add(*b)),
            0
        );
        assert_eq!(bytes[end], 0x78);
    }

    #[test]
    fn writing_the_storage_ends_without_effect() {
        let mut space = Space::new();
        let vpd = Vpd::define(&mut space, 0x48, 0, "card", &[]);
        space.write(0x4c, &[0xff; 4]).unwrap();
        space.write(0x4a, &[0, 0x80]).unwrap();
        vpd.written(&mut space, 0x4a, 2);
        assert_eq!(space.get(0x48) & FLAG, 0);
        assert_eq!(read_all(&mut space, &vpd, 4), b"\x82\x04\0c");
    }
}
