// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel itself, out of the image that boot loaders start. QEMU starts it at its PVH entry: a guest under TCG takes
//! three seconds to unpack what the host unpacks in a fraction of one, and each guest would do it again.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::error::{Context, Error, Result};

/// First bytes of what zstd packed.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What the image `bytes` carries, by its header (Documentation/arch/x86/boot.rst); `None` when it is none of protocol 2.08
/// or later, or is cut off.
pub fn payload(bytes: &[u8]) -> Option<&[u8]> {
    let field = |at: usize, size: usize| {
        let bytes = bytes.get(at..at + size)?;
        let value = bytes.iter().rev();
        Some(value.fold(0, |value, byte| value << 8 | usize::from(*byte)))
    };
    if bytes.get(0x202..0x206)? != b"HdrS" || field(0x206, 2)? < 0x208 {
        return None;
    }
    let sectors = match field(0x1f1, 1)? {
        0 => 4,
        sectors => sectors,
    };
    let begin = (sectors + 1) * 512 + field(0x248, 4)?;
    bytes.get(begin..begin.checked_add(field(0x24c, 4)?)?)
}

/// Unpacks the kernel of `image` to `kernel`; returns what a machine is to start. An image that zstd did not pack is started
/// as it is. Each run does it again: it takes half a second, and an old kernel under the same name does not go unseen.
pub fn unpack(image: &Path, kernel: PathBuf) -> Result<PathBuf> {
    let bytes = fs::read(image).at(image)?;
    // Its size follows in four bytes.
    let packed = match payload(&bytes).and_then(|bytes| bytes.split_last_chunk::<4>()) {
        Some((packed, _)) if packed.starts_with(&ZSTD) => packed,
        _ => return Ok(image.to_owned()),
    };
    // Another process may be at it, or use what is there.
    let part = kernel.with_extension(std::process::id().to_string());
    let input = part.with_extension("zst");
    fs::write(&input, packed).at(&input)?;
    let status = Command::new("zstd")
        .args(["-q", "-d", "-f", "-o"])
        .args([&part, &input])
        .status()
        .map_err(|source| Error::Start {
            program: "zstd".to_owned(),
            source,
        })?;
    fs::remove_file(&input).at(&input)?;
    if !status.success() {
        return Err(Error::Machine(format!(
            "the kernel in {} does not unpack; type: make prepare",
            image.display()
        )));
    }
    fs::rename(&part, &kernel).at(&kernel)?;
    Ok(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with `content` as its payload.
    fn image(content: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 3 * 512 + 16];
        image[0x1f1] = 2;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
        image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        let length = u32::try_from(content.len()).expect("short");
        image[0x24c..0x250].copy_from_slice(&length.to_le_bytes());
        image.extend(content);
        image.extend(b"what follows");
        image
    }

    #[test]
    fn the_header_says_where_the_kernel_is() {
        assert_eq!(payload(&image(b"kernel")), Some(&b"kernel"[..]));
    }

    #[test]
    fn what_is_no_image_has_no_kernel() {
        let whole = image(b"kernel");
        assert_eq!(payload(&whole[..3 * 512 + 16 + 5]), None, "cut off");
        assert_eq!(payload(&whole[..0x248]), None, "without its header");
        assert_eq!(payload(b"\x7fELF"), None);
        let mut old = whole;
        old[0x206] = 7;
        old[0x207] = 2;
        assert_eq!(payload(&old), None, "protocol 2.07");
    }

    #[test]
    fn what_zstd_did_not_pack_is_started_as_it_is() {
        let directory = std::env::temp_dir().join(format!("vm-payload-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("directory");
        let path = directory.join("vmlinuz");
        fs::write(&path, image(b"kernel and size")).expect("image");
        let started = unpack(&path, directory.join("kernel")).expect("works");
        assert_eq!(started, path);
        fs::remove_dir_all(directory).expect("clean");
    }
}
