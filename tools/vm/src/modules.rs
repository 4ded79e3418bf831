// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stock kernel, and which of its module files the first file system needs, dependencies first.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    error::{Context, Error, Result},
    payload,
};

/// The stock kernel in the root: `/usr/lib/modules/RELEASE`.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Directory with `vmlinuz` and the modules.
    directory: PathBuf,
    /// What a machine starts.
    pub image: PathBuf,
}

impl Kernel {
    /// The one kernel of the root that this program runs in; it is unpacked to `build`.
    pub fn find(build: &Path) -> Result<Self> {
        let file = Path::new("/var/cache/rmlx5/release");
        let release = fs::read_to_string(file).at(file)?;
        let directory = Path::new("/usr/lib/modules").join(release.trim());
        let image = payload::unpack(&directory.join("vmlinuz"), build.join("vmlinux"))?;
        Ok(Self { directory, image })
    }

    /// Uncompressed content of the named modules and all they need, in load order.
    pub fn modules(&self, names: &[&str]) -> Result<Vec<(String, Vec<u8>)>> {
        let file = self.directory.join("modules.dep");
        let table = fs::read_to_string(&file).at(&file)?;
        let built_in =
            fs::read_to_string(self.directory.join("modules.builtin")).unwrap_or_default();
        let mut order = Vec::new();
        for name in names {
            match load_order(&table, name) {
                Some(paths) => {
                    for path in paths {
                        if !order.contains(&path) {
                            order.push(path);
                        }
                    }
                }
                None if built_in.lines().any(|path| stem(path) == *name) => {}
                None => return Err(Error::NoModule((*name).to_owned())),
            }
        }
        order
            .into_iter()
            .map(|path| Ok((format!("{}.ko", stem(path)), self.content(path)?)))
            .collect()
    }

    fn content(&self, path: &str) -> Result<Vec<u8>> {
        let file = self.directory.join(path);
        let unpack = match file.extension().and_then(|suffix| suffix.to_str()) {
            Some("xz") => "xz",
            Some("zst") => "zstd",
            _ => return fs::read(&file).at(&file),
        };
        let output = Command::new(unpack)
            .arg("-dc")
            .arg(&file)
            .output()
            .map_err(|source| Error::Start {
                program: unpack.to_owned(),
                source,
            })?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(Error::NoModule(file.display().to_string()))
        }
    }
}

/// Name of a module from its path; the kernel takes `-` and `_` for the same.
fn stem(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

/// Paths of `modules.dep` for one module; a line is `module: needs...`, the innermost need last.
fn load_order<'a>(table: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let (path, needs) = table
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(path, _)| stem(path) == name)?;
    let mut order: Vec<_> = needs.split_whitespace().rev().collect();
    order.push(path);
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::load_order;

    const TABLE: &str = "kernel/fs/erofs/erofs.ko.xz: kernel/lib/b.ko.xz kernel/lib/a.ko.xz\n\
                         kernel/drivers/virtio/virtio-pci.ko.xz:\n";

    #[test]
    fn needs_come_first() {
        let order = load_order(TABLE, "erofs").expect("listed");
        assert_eq!(
            order,
            [
                "kernel/lib/a.ko.xz",
                "kernel/lib/b.ko.xz",
                "kernel/fs/erofs/erofs.ko.xz"
            ]
        );
    }

    #[test]
    fn dash_and_underscore_are_the_same() {
        assert!(load_order(TABLE, "virtio_pci").is_some());
        assert!(load_order(TABLE, "virtio").is_none());
    }
}
