// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use fabric::LinkSpec;

use crate::spec::parse_mac;
pub use crate::spec::{CardSpec, Mac};

/// A software ConnectX that a stock QEMU attaches over vfio-user.
#[derive(Debug, Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Cli {
    /// What to do other than being a card.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to be a card.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What to do other than being a card.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Talk to a running card.
    Ctl(CtlArgs),
}

/// How to be a card, or several.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The card of the plain options.
    #[command(flatten)]
    pub first: FirstCard,
    /// One more card: socket=PATH, and profile=, mac=, link=, ctl=, pcap=, trace= as the options,
    /// separated by commas.
    #[arg(long = "card", value_name = "KEY=VALUE,...")]
    pub more: Vec<CardSpec>,
    /// What to log, as RUST_LOG (which counts when this is absent).
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// End when the first client of each card has left.
    #[arg(long)]
    pub once: bool,
}

impl RunArgs {
    /// All cards, in the order of the command line.
    pub fn cards(&self) -> Vec<CardSpec> {
        let first = self.first.socket.clone().map(|socket| CardSpec {
            socket,
            profile: self.first.profile.clone(),
            mac: self.first.mac,
            link: self.first.link.clone(),
            ctl: self.first.ctl.clone(),
            pcap: self.first.pcap.clone(),
            trace: self.first.trace.clone(),
        });
        first.into_iter().chain(self.more.clone()).collect()
    }
}

/// The card of the plain options.
#[derive(Debug, Args)]
pub struct FirstCard {
    /// Unix socket for the virtual machine monitor.
    #[arg(long, value_name = "PATH", required_unless_present = "more")]
    pub socket: Option<PathBuf>,
    /// What card: default, minimal, small, degraded, or a TOML file.
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    pub profile: String,
    /// MAC address of the port, instead of the profile's.
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    pub mac: Option<Mac>,
    /// What the port is plugged into: none, silent, listen:PATH, connect:PATH or join:NAME.
    #[arg(long, value_name = "LINK", default_value = "silent")]
    pub link: LinkSpec,
    /// Unix socket for `cxemu ctl`.
    #[arg(long, value_name = "PATH")]
    pub ctl: Option<PathBuf>,
    /// Write every frame of the port to this capture file.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Write every command of the driver to this file, one line each.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// Talk to a running card.
#[derive(Debug, Args)]
pub struct CtlArgs {
    /// Its control socket.
    #[arg(long, value_name = "PATH")]
    pub ctl: PathBuf,
    /// What to say, e.g. `counters` or `inject qp-context qpn=0x12`; `help` lists all.
    #[arg(required = true, trailing_var_arg = true)]
    pub words: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_asked_for_and_enough() {
        assert!(Cli::try_parse_from(["cxemu"]).is_err());
        let cli = Cli::try_parse_from(["cxemu", "--socket", "/x"]).unwrap();
        assert_eq!(cli.run.first.link, LinkSpec::Silent);
        assert_eq!(cli.run.cards().len(), 1);
        assert!(cli.command.is_none());
    }

    #[test]
    fn cards_come_in_the_order_of_the_command_line() {
        let words = ["cxemu", "--card", "socket=/b,link=join:x", "--socket", "/a"];
        let cli = Cli::try_parse_from(words.iter().chain(&["--card", "socket=/c"])).unwrap();
        let sockets: Vec<_> = cli
            .run
            .cards()
            .into_iter()
            .map(|card| card.socket)
            .collect();
        assert_eq!(sockets, ["/a", "/b", "/c"].map(PathBuf::from));
        let only = Cli::try_parse_from(["cxemu", "--card", "socket=/b"]).unwrap();
        assert_eq!(only.run.cards().len(), 1);
    }

    #[test]
    fn control_needs_no_card() {
        let cli = Cli::try_parse_from(["cxemu", "ctl", "--ctl", "/c", "trace", "10"]).unwrap();
        let Some(Command::Ctl(ctl)) = cli.command else {
            panic!("not ctl")
        };
        assert_eq!(ctl.words, ["trace", "10"]);
    }

    #[test]
    fn the_manual_page_has_every_option() {
        use clap::CommandFactory;
        let page = include_str!("../cxemu.1");
        let command = Cli::command();
        let options = command.get_arguments().filter_map(|one| one.get_long());
        for option in options.filter(|name| !["help", "version"].contains(name)) {
            assert!(page.contains(&format!(".It Fl -{option}")), "--{option}");
        }
        for command in command.get_subcommands() {
            let name = command.get_name();
            assert!(name == "help" || page.contains(&format!(".Cm {name}")));
        }
    }
}
