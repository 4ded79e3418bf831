// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first file system of a guest: what finds the root, and the job it has there.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    cpio::Cpio,
    error::{Context, Result},
    modules::Kernel,
};

/// What leads from the kernel to the root file system and to the host's channels.
const MODULES: [&str; 5] = [
    "virtio_pci",
    "virtio_blk",
    "virtio_console",
    "erofs",
    "overlay",
];

/// Read-only root file system, made by scripts/guest-image.
pub const ROOT_IMAGE: &str = "/usr/share/rmlx5-guest.erofs";

/// What a guest does once it is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs a test script.
    Script,
    /// Executes commands for the other guest.
    Agent,
    /// Gives a shell on the console.
    Shell,
}

/// The job of one guest.
#[derive(Debug)]
pub struct Job {
    /// What to do.
    pub role: Role,
    /// Number of the guest.
    pub guest: usize,
    /// Directory of test scripts, visible as /job/tests.
    pub tests: PathBuf,
    /// The script, relative to `tests`.
    pub script: String,
    /// Environment of the script.
    pub env: Vec<(String, String)>,
    /// Files and directories to appear in /job/files: name there, path here.
    pub files: Vec<(String, PathBuf)>,
}

impl Job {
    /// Builds the archive.
    pub fn pack(&self, kernel: &Kernel) -> Result<Vec<u8>> {
        let mut archive = Cpio::default();
        archive.device("dev/console", 5, 1);
        let busybox = Path::new("/usr/bin/busybox");
        archive.file("bin/busybox", 0o755, &fs::read(busybox).at(busybox)?);
        archive.file("init", 0o755, include_bytes!("../guest/init"));
        let modules = kernel.modules(&MODULES)?;
        let list: String = modules
            .iter()
            .map(|(name, _)| format!("{name}\n"))
            .collect();
        for (name, content) in &modules {
            archive.file(&format!("modules/{name}"), 0o644, content);
        }
        archive.file("modules/list", 0o644, list.as_bytes());
        archive.file("job/start", 0o755, include_bytes!("../guest/start"));
        archive.file("job/env", 0o644, self.environment().as_bytes());
        archive.directory("job/files");
        archive.directory("job/tests");
        pack_directory(&mut archive, &self.tests, "job/tests")?;
        for (name, path) in &self.files {
            let name = format!("job/files/{name}");
            if path.is_dir() {
                archive.directory(&name);
                pack_directory(&mut archive, path, &name)?;
            } else {
                archive.file(&name, 0o755, &fs::read(path).at(path)?);
            }
        }
        Ok(archive.finish())
    }

    fn environment(&self) -> String {
        let role = match self.role {
            Role::Script => "script",
            Role::Agent => "agent",
            Role::Shell => "shell",
        };
        let fixed = [
            ("ROLE", role.to_owned()),
            ("GUEST", self.guest.to_string()),
            ("SCRIPT", self.script.clone()),
        ];
        fixed
            .iter()
            .map(|(name, value)| (*name, value))
            .chain(self.env.iter().map(|(name, value)| (name.as_str(), value)))
            .map(|(name, value)| format!("export {name}='{}'\n", value.replace('\'', r"'\''")))
            .collect()
    }
}

fn pack_directory(archive: &mut Cpio, from: &Path, to: &str) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(from)
        .at(from)?
        .collect::<std::io::Result<_>>()
        .at(from)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = format!("{to}/{}", entry.file_name().to_string_lossy());
        if path.is_dir() {
            archive.directory(&name);
            pack_directory(archive, &path, &name)?;
        } else {
            archive.file(&name, 0o755, &fs::read(&path).at(&path)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_in_the_environment_survive() {
        let job = Job {
            role: Role::Script,
            guest: 0,
            tests: PathBuf::new(),
            script: "x.sh".into(),
            env: vec![("A".into(), "it's".into())],
            files: Vec::new(),
        };
        assert!(job.environment().contains(r"export A='it'\''s'"));
        assert!(job.environment().contains("export SCRIPT='x.sh'"));
    }
}
