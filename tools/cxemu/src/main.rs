// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A software ConnectX that a stock QEMU attaches over vfio-user.
//!
//! For each card one thread serves the virtual machine monitor and runs the model inside its register
//! writes; a second one sleeps until a frame, a deadline of the model or a control connection comes.
//! Cards of one process share nothing but the cables between them.

mod alarm;
mod args;
mod backend;
mod combine;
mod control;
mod endpoint;
mod events;
mod machine;
mod memory;
mod spec;
mod vectors;

use std::error::Error;
use std::fs::File;
use std::io::IsTerminal;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;

use clap::Parser;
use device::profile::Profile;
use fabric::{Cables, Capture};
use tracing_subscriber::EnvFilter;

use crate::args::{CardSpec, Cli, Command, RunArgs};
use crate::backend::Backend;
use crate::machine::Machine;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Some(Command::Ctl(ctl)) => control::client::run(&ctl),
        None => serve(&cli.run),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cxemu: {}", sentence(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// An error with all its causes in one line.
fn sentence(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

fn serve(args: &RunArgs) -> Result<(), Box<dyn Error>> {
    let filter = match &args.log {
        Some(filter) => EnvFilter::try_new(filter)?,
        None => EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();

    // All cards, before the first of them answers.
    let mut cables = Cables::default();
    let mut cards: Vec<Running> = Vec::new();
    for spec in args.cards() {
        let card = Running::new(spec, &mut cables)?;
        if let Some(other) = cards.iter().find(|other| other.mac == card.mac) {
            let (one, two) = (other.socket.display(), card.socket.display());
            return Err(format!("the cards at {one} and {two} have the same address").into());
        }
        cards.push(card);
    }
    cables.close()?;
    let alone = cards.len() == 1;
    let mut threads = Vec::new();
    for (number, card) in cards.into_iter().enumerate() {
        // Lines of one card alone do not have to say which one.
        let span = match alone {
            true => tracing::Span::none(),
            false => tracing::info_span!("card", number),
        };
        threads.push(card.start(&span, args.once)?);
    }
    for thread in threads {
        thread.join().map_err(|_| "a card has failed")?;
    }
    Ok(())
}

/// A card with everything that was opened for it.
struct Running {
    machine: Arc<Machine>,
    server: vfio_user::Server,
    control: Option<control::Server>,
    socket: PathBuf,
    mac: [u8; 6],
}

impl Running {
    fn new(spec: CardSpec, cables: &mut Cables) -> Result<Self, Box<dyn Error>> {
        let mut profile = load(&spec.profile)?;
        if let Some(mac) = spec.mac {
            profile.port.mac = mac.0;
        }
        let (mac, vectors) = (profile.port.mac, profile.pci.vectors);
        let create =
            |path: &Path| File::create(path).map_err(|e| format!("{}: {e}", path.display()));
        let capture = spec.pcap.as_deref().map(Capture::create).transpose()?;
        let trace = spec.trace.as_deref().map(create).transpose()?;
        let port = cables.open(spec.link, capture)?;
        let machine = Arc::new(Machine::new(profile, port, trace)?);
        let control = spec.ctl.as_deref().map(control::Server::bind).transpose()?;
        remove_stale(&spec.socket)?;
        let regions = backend::regions(machine.bar_size());
        let server = vfio_user::Server::new(&spec.socket, true, backend::irqs(vectors), regions)?;
        Ok(Self {
            machine,
            server,
            control,
            socket: spec.socket,
            mac,
        })
    }

    /// Starts its two threads; the one that serves clients, which ends with the first of them if
    /// there is to be only one.
    fn start(self, span: &tracing::Span, once: bool) -> std::io::Result<JoinHandle<()>> {
        let Self {
            machine,
            server,
            control,
            socket,
            ..
        } = self;
        let events = events::Loop::new(machine.clone(), control);
        let inside = span.clone();
        std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || inside.in_scope(|| events.run()))?;
        let inside = span.clone();
        let thread = std::thread::Builder::new()
            .name("clients".to_owned())
            .spawn(move || inside.in_scope(|| clients(&machine, &server, &socket, once)))?;
        Ok(thread)
    }
}

/// Serves one client after the other.
fn clients(machine: &Arc<Machine>, server: &vfio_user::Server, socket: &Path, once: bool) {
    tracing::info!(socket = %socket.display(), "waiting for a virtual machine");
    let mut backend = Backend::new(machine.clone());
    loop {
        if let Err(error) = server.run(&mut backend) {
            tracing::warn!("client lost: {}", sentence(&error));
        }
        machine.power_cycle();
        if once {
            return;
        }
        tracing::info!("waiting for the next virtual machine");
    }
}

/// A shipped profile by name, or one from a file.
fn load(profile: &str) -> Result<Profile, Box<dyn Error>> {
    if !profile.contains(['/', '.']) {
        return Ok(Profile::shipped(profile)?);
    }
    let text = std::fs::read_to_string(profile).map_err(|e| format!("{profile}: {e}"))?;
    Profile::parse(&text).map_err(|error| format!("{profile}: {}", sentence(&error)).into())
}

/// Removes the socket file of a process that is gone; one that still answers stays.
fn remove_stale(path: &Path) -> Result<(), Box<dyn Error>> {
    if !path.exists() {
        return Ok(());
    }
    if UnixStream::connect(path).is_ok() {
        return Err(format!("{} is in use by another process", path.display()).into());
    }
    std::fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()).into())
}
