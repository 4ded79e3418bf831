// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A software ConnectX that a stock QEMU attaches over vfio-user.
//!
//! One thread serves the virtual machine monitor and runs the model inside its register writes; a
//! second one sleeps until a frame, a deadline of the model or a control connection comes.

mod alarm;
mod args;
mod backend;
mod combine;
mod control;
mod endpoint;
mod events;
mod machine;
mod memory;
mod vectors;

use std::error::Error;
use std::fs::File;
use std::io::IsTerminal;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use device::profile::Profile;
use fabric::{Capture, Port};
use tracing_subscriber::EnvFilter;

use crate::args::{CardArgs, Cli, Command};
use crate::backend::Backend;
use crate::machine::Machine;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Some(Command::Ctl(ctl)) => control::client::run(&ctl),
        None => serve(cli.card),
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

fn serve(args: CardArgs) -> Result<(), Box<dyn Error>> {
    let filter = match &args.log {
        Some(filter) => EnvFilter::try_new(filter)?,
        None => EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();

    let socket = args.socket.as_deref().ok_or("no --socket given")?;
    let mut profile = load(&args.profile)?;
    if let Some(mac) = args.mac {
        profile.port.mac = mac.0;
    }
    let vectors = profile.pci.vectors;
    let create = |path: &Path| File::create(path).map_err(|e| format!("{}: {e}", path.display()));
    let capture = args.pcap.as_deref().map(Capture::create).transpose()?;
    let trace = args.trace.as_deref().map(create).transpose()?;
    let port = Port::open(args.link, capture)?;
    let machine = Arc::new(Machine::new(profile, port, trace)?);
    let control = args.ctl.as_deref().map(control::Server::bind).transpose()?;

    let events = events::Loop::new(machine.clone(), control);
    std::thread::Builder::new()
        .name("events".to_owned())
        .spawn(move || events.run())?;

    remove_stale(socket)?;
    let regions = backend::regions(machine.bar_size());
    let server = vfio_user::Server::new(socket, true, backend::irqs(vectors), regions)?;
    tracing::info!(socket = %socket.display(), "waiting for a virtual machine");
    let mut backend = Backend::new(machine.clone());
    loop {
        if let Err(error) = server.run(&mut backend) {
            tracing::warn!("client lost: {}", sentence(&error));
        }
        machine.power_cycle();
        if args.once {
            return Ok(());
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
