// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Archives of the kind the kernel unpacks as its first file system (cpio "newc").
//!
//! Format: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.

use std::collections::BTreeSet;

/// An archive under construction. Directories appear by themselves.
#[derive(Debug, Default)]
pub struct Cpio {
    bytes: Vec<u8>,
    directories: BTreeSet<String>,
    inode: u32,
}

const DIRECTORY: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;
const CHARACTER: u32 = 0o020_600;

impl Cpio {
    /// Adds a file; `path` has no leading slash.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.parents(path);
        self.entry(path, REGULAR | (mode & 0o7777), (0, 0), content);
    }

    /// Adds an empty directory.
    pub fn directory(&mut self, path: &str) {
        self.parents(path);
        if self.directories.insert(path.to_owned()) {
            self.entry(path, DIRECTORY, (0, 0), &[]);
        }
    }

    /// Adds a character device, by major and minor number.
    pub fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.parents(path);
        self.entry(path, CHARACTER, (major, minor), &[]);
    }

    /// Ends the archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn parents(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            let parent = &path[..at];
            if self.directories.insert(parent.to_owned()) {
                self.entry(parent, DIRECTORY, (0, 0), &[]);
            }
        }
    }

    fn entry(&mut self, name: &str, mode: u32, (major, minor): (u32, u32), content: &[u8]) {
        self.inode += 1;
        // CAST: an initial file system is far below 4 GiB, names far below.
        let (size, name_size) = (content.len() as u32, name.len() as u32 + 1);
        let fields = [
            self.inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        while self.bytes.len() % 4 != 0 {
            self.bytes.push(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cpio;

    #[test]
    fn parents_come_before_files_and_only_once() {
        let mut archive = Cpio::default();
        archive.file("a/b/c", 0o644, b"hello");
        archive.file("a/b/d", 0o644, b"");
        archive.device("dev/console", 5, 1);
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        let order: Vec<_> = [
            "a\0",
            "a/b\0",
            "a/b/c\0",
            "a/b/d\0",
            "dev\0",
            "TRAILER!!!\0",
        ]
        .iter()
        .map(|name| text.find(name).expect("entry"))
        .collect();
        assert!(order.is_sorted());
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(text.matches("a/b\0").count(), 1);
    }

    #[test]
    fn an_entry_has_the_layout_of_the_format() {
        let mut archive = Cpio::default();
        archive.file("x", 0o755, b"12345");
        let bytes = archive.finish();
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[14..22], b"000081ed");
        assert_eq!(&bytes[54..62], b"00000005");
        // 110 bytes of header, the name with its zero, padded to four: content at 112.
        assert_eq!(&bytes[112..117], b"12345");
    }
}
