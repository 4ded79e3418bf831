// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The emulator processes of a machine.

use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::{Context, Error, Result},
    machine::{Card, Sockets},
    process::Process,
};

/// How long the emulator may take to open its socket.
const START: Duration = Duration::from_secs(10);

/// Cables between cards: the first end listens, the second connects.
#[derive(Debug)]
pub struct Cables {
    directory: PathBuf,
    seen: HashMap<String, usize>,
}

impl Cables {
    /// Cable sockets live in `directory`.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            seen: HashMap::new(),
        }
    }

    fn end(&mut self, name: &str) -> Result<String> {
        let path = self.directory.join(format!("cable.{name}"));
        let ends = self.seen.entry(name.to_owned()).or_default();
        *ends += 1;
        match *ends {
            1 => Ok(format!("listen:{}", path.display())),
            2 => Ok(format!("connect:{}", path.display())),
            _ => Err(Error::Machine(format!(
                "cable '{name}' has more than two ends"
            ))),
        }
    }
}

/// Starts the emulator of one card and waits for its socket. Its log and command trace go to `logs`.
pub fn start(
    emulator: &Path,
    card: &Card,
    (guest, n): (usize, usize),
    sockets: &Sockets,
    cables: &mut Cables,
    logs: &Path,
) -> Result<Process> {
    let name = format!("guest{guest}.card{n}");
    let socket = sockets.card(n);
    let mut args: Vec<String> = vec![
        "--socket".into(),
        socket.display().to_string(),
        "--ctl".into(),
        sockets.control(n).display().to_string(),
        "--trace".into(),
        logs.join(format!("{name}.trace")).display().to_string(),
        // Each card of a run has an address of its own, locally administered.
        "--mac".into(),
        format!("02:00:00:00:{guest:02x}:{:02x}", n + 1),
    ];
    if !card.profile.is_empty() {
        args.extend(["--profile".into(), card.profile.clone()]);
    }
    if !card.cable.is_empty() {
        args.extend(["--link".into(), cables.end(&card.cable)?]);
    }
    args.extend(card.args.iter().cloned());

    let log_path = logs.join(format!("{name}.log"));
    let log = File::create(&log_path).at(&log_path)?;
    let errors = log.try_clone().at(&log_path)?;
    let program = emulator.display().to_string();
    let mut process = Process::start(&program, &args, |command| {
        command.stdout(log).stderr(errors);
    })?;
    let deadline = Instant::now() + START;
    while !socket.exists() {
        if let Some(status) = process.ended() {
            return Err(Error::Machine(format!(
                "the emulator ended ({status}), see {}",
                log_path.display()
            )));
        }
        if Instant::now() > deadline {
            return Err(Error::Machine(format!(
                "the emulator opened no socket, see {}",
                log_path.display()
            )));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(process)
}

/// Says `words` to a running card; its answer, line by line.
pub fn control(emulator: &Path, socket: &Path, words: &[&str]) -> Result<Vec<String>, String> {
    let output = Command::new(emulator)
        .args(["ctl", "--ctl"])
        .arg(socket)
        .arg("--")
        .args(words)
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(str::to_owned).collect();
    if output.status.success() {
        Ok(lines)
    } else {
        let error = String::from_utf8_lossy(&output.stderr);
        Err(error.trim().replace('\n', "; "))
    }
}
