// SPDX-License-Identifier: GPL-2.0
//! Files of the channels in debugfs, under `rmlx5/BDF/`:
//!
//! | file | read | write |
//! |---|---|---|
//! | `selftest` | report of the current or last run | options start a run, `stop` ends it, `error N` and `overrun N` trouble channel N |
//! | `endpoint` | one line of JSON for each channel | |
//! | `peer` | | the other machine's lines connect, `loopback` goes back to pairs |
//! | `channels` | objects and recovery counters of each channel | |

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::debugfs::{
    Contents,
    File,
    Text, //
};

use super::{
    endpoint::Endpoint,
    options::Options,
    run::Trouble,
    set::Channels, //
};

struct Selftest(Arc<Channels>);

impl Contents for Selftest {
    type Module = crate::LocalModule;
    const MODE: u16 = 0o600;

    fn read(&self, text: &mut Text) -> Result {
        Ok(self.0.report(text)?)
    }

    fn write(&self, text: &str) -> Result {
        if text.trim() == "stop" {
            self.0.stop_run();
            return Ok(());
        }
        for (word, trouble) in [("error ", Trouble::Error), ("overrun ", Trouble::Overrun)] {
            if let Some(index) = text.trim().strip_prefix(word) {
                return self
                    .0
                    .make(trouble, index.trim().parse().map_err(|_| EINVAL)?);
            }
        }
        let options = Options::parse(text).map_err(|bad| {
            dev_err!(self.0.device.pdev, "selftest: {}\n", format_args!("{bad}"));
            EINVAL
        })?;
        self.0.start_run(options).inspect_err(|error| {
            dev_err!(
                self.0.device.pdev,
                "selftest: not started, error {}\n",
                error.to_errno()
            );
        })
    }
}

struct Endpoints(Arc<Channels>);

impl Contents for Endpoints {
    type Module = crate::LocalModule;
    const MODE: u16 = 0o400;

    fn read(&self, text: &mut Text) -> Result {
        use core::fmt::Write;
        for endpoint in self.0.endpoints()?.iter() {
            writeln!(text, "{endpoint}")?;
        }
        Ok(())
    }
}

struct Peer(Arc<Channels>);

impl Contents for Peer {
    type Module = crate::LocalModule;
    const MODE: u16 = 0o200;

    fn write(&self, text: &str) -> Result {
        if text.trim() == "loopback" {
            return self.0.loopback();
        }
        let mut peers = KVec::new();
        for (number, line) in text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .enumerate()
        {
            let endpoint = Endpoint::parse(line).map_err(|bad| {
                dev_err!(
                    self.0.device.pdev,
                    "peer: line {}: {}\n",
                    number + 1,
                    format_args!("{bad}")
                );
                EINVAL
            })?;
            peers.push(endpoint, GFP_KERNEL)?;
        }
        self.0.connect(peers)
    }
}

struct List(Arc<Channels>);

impl Contents for List {
    type Module = crate::LocalModule;
    const MODE: u16 = 0o400;

    fn read(&self, text: &mut Text) -> Result {
        Ok(self.0.describe(text)?)
    }
}

/// What people see of the channels. Dropping it waits for those who are reading or writing.
pub(super) struct Faces {
    _selftest: File<Selftest>,
    _endpoint: File<Endpoints>,
    _peer: File<Peer>,
    _channels: File<List>,
}

impl Faces {
    /// Makes the files.
    pub(super) fn new(channels: &Arc<Channels>) -> Result<Self> {
        let dir = &channels.device.debugfs;
        Ok(Self {
            _selftest: File::new(
                dir,
                c"selftest",
                Arc::new(Selftest(channels.clone()), GFP_KERNEL)?,
            ),
            _endpoint: File::new(
                dir,
                c"endpoint",
                Arc::new(Endpoints(channels.clone()), GFP_KERNEL)?,
            ),
            _peer: File::new(dir, c"peer", Arc::new(Peer(channels.clone()), GFP_KERNEL)?),
            _channels: File::new(
                dir,
                c"channels",
                Arc::new(List(channels.clone()), GFP_KERNEL)?,
            ),
        })
    }
}
