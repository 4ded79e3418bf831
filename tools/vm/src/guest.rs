// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One running guest: QEMU, and threads that turn its channels into events.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Stdio,
    sync::mpsc::Sender,
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::{Context, Error, Result},
    image::{Job, Role, ROOT_IMAGE},
    machine::{self, Accelerator, Boot, Sockets},
    modules::Kernel,
    process::Process,
    qmp::Qmp,
    suite::Shape,
};

/// The machine program.
pub const QEMU: &str = "qemu-system-x86_64";

/// How long QEMU may take to open its sockets.
const START: Duration = Duration::from_secs(20);

/// Something that a guest did.
#[derive(Debug)]
pub enum Event {
    /// A line on the console.
    Console(usize, String),
    /// A line of test results.
    Ktap(usize, String),
    /// The console closed: QEMU is gone.
    Gone(usize),
}

/// A guest under way; dropping it ends it.
#[derive(Debug)]
pub struct Guest {
    /// QEMU.
    pub qemu: Process,
    /// The `host` channel, for whoever serves it.
    pub host: Option<UnixStream>,
    /// The monitor.
    pub qmp: Option<Qmp>,
}

/// Where a guest's things go.
#[derive(Debug)]
pub struct Places<'a> {
    /// Short-lived: sockets, first file system.
    pub run: &'a Path,
    /// Kept: console, logs, files the guest sends out.
    pub logs: &'a Path,
}

impl Guest {
    /// Builds the first file system, starts QEMU and connects its channels.
    pub fn start(
        kernel: &Kernel,
        shape: &Shape,
        job: &Job,
        accelerator: Accelerator,
        places: &Places<'_>,
        events: &Sender<Event>,
    ) -> Result<Self> {
        let number = job.guest;
        let sockets = Sockets::new(places.run, number);
        let initrd = places.run.join(format!("g{number}.initrd"));
        fs::write(&initrd, job.pack(kernel)?).at(&initrd)?;
        let boot = Boot {
            kernel: kernel.image.clone(),
            initrd,
            image: PathBuf::from(ROOT_IMAGE),
        };
        let args = machine::arguments(&shape.machine, &shape.cards, &sockets, accelerator, &boot);
        let log_path = places.logs.join(format!("guest{number}.qemu.log"));
        let log = fs::File::create(&log_path).at(&log_path)?;
        // A person's shell has the terminal; QEMU puts it into raw mode and back.
        let terminal = job.role == Role::Shell;
        let mut qemu = Process::start(QEMU, &args, |command| {
            if terminal {
                command.stdin(Stdio::inherit()).stdout(Stdio::inherit());
            } else {
                command.stdout(Stdio::piped());
            }
            command.stderr(log);
        })?;
        let console_path = places.logs.join(format!("guest{number}.console"));
        let console = fs::File::create(&console_path).at(&console_path)?;
        if let Some(output) = qemu.child().stdout.take() {
            watch_console(number, output, console, events.clone());
        }

        // QEMU opens the monitor last of all, so the rest is there when it answers.
        let qmp = connect(&sockets.qmp(), &mut qemu, &log_path)?;
        drop(qmp);
        let qmp = Qmp::connect(&sockets.qmp())?;
        let ktap = connect(&sockets.port("ktap"), &mut qemu, &log_path)?;
        watch_ktap(number, ktap, events.clone());
        let out = connect(&sockets.port("out"), &mut qemu, &log_path)?;
        collect(out, places.logs.join(format!("guest{number}.out.tar")));
        let host = connect(&sockets.port("host"), &mut qemu, &log_path)?;
        Ok(Self {
            qemu,
            host: Some(host),
            qmp: Some(qmp),
        })
    }
}

fn connect(path: &Path, qemu: &mut Process, log: &Path) -> Result<UnixStream> {
    let deadline = Instant::now() + START;
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(_) if qemu.ended().is_none() && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(20));
            }
            Err(_) => {
                let text = fs::read_to_string(log).unwrap_or_default();
                let last = text.lines().last().unwrap_or("no message");
                return Err(Error::Machine(format!("QEMU did not start: {last}")));
            }
        }
    }
}

fn watch_console(
    guest: usize,
    output: impl Read + Send + 'static,
    mut copy: fs::File,
    events: Sender<Event>,
) {
    thread::spawn(move || {
        let mut reader = BufReader::new(output);
        let mut bytes = Vec::new();
        while matches!(reader.read_until(b'\n', &mut bytes), Ok(count) if count > 0) {
            // A full disk must not stop the run: the line still counts.
            let _ = copy.write_all(&bytes);
            let line = String::from_utf8_lossy(&bytes).into_owned();
            if events.send(Event::Console(guest, line)).is_err() {
                return;
            }
            bytes.clear();
        }
        let _ = events.send(Event::Gone(guest));
    });
}

fn watch_ktap(guest: usize, stream: UnixStream, events: Sender<Event>) {
    thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut bytes = Vec::new();
        while matches!(reader.read_until(b'\n', &mut bytes), Ok(count) if count > 0) {
            let line = String::from_utf8_lossy(&bytes).into_owned();
            if events.send(Event::Ktap(guest, line)).is_err() {
                return;
            }
            bytes.clear();
        }
    });
}

fn collect(mut stream: UnixStream, path: PathBuf) {
    thread::spawn(move || {
        if let Ok(mut file) = fs::File::create(path) {
            let _ = std::io::copy(&mut stream, &mut file);
        }
    });
}
