// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use fabric::LinkSpec;

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
    pub card: CardArgs,
}

/// What to do other than being a card.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Talk to a running card.
    Ctl(CtlArgs),
}

/// How to be a card.
#[derive(Debug, Args)]
pub struct CardArgs {
    /// Unix socket for the virtual machine monitor.
    #[arg(long, value_name = "PATH", required = true)]
    pub socket: Option<PathBuf>,
    /// What card: default, minimal, small, degraded, or a TOML file.
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    pub profile: String,
    /// MAC address of the port, instead of the profile's.
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    pub mac: Option<Mac>,
    /// What the port is plugged into: none, silent, listen:PATH or connect:PATH.
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
    /// What to log, as RUST_LOG (which counts when this is absent).
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// End when the first client leaves.
    #[arg(long)]
    pub once: bool,
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

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

fn parse_mac(text: &str) -> Result<Mac, String> {
    let mut mac = [0; 6];
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() != mac.len() {
        return Err("six bytes, written aa:bb:cc:dd:ee:ff".to_owned());
    }
    for (byte, part) in mac.iter_mut().zip(parts) {
        *byte = u8::from_str_radix(part, 16).map_err(|_| format!("`{part}` is no byte"))?;
    }
    if mac[0] & 1 != 0 || mac == [0; 6] {
        return Err("a port cannot have a multicast or zero address".to_owned());
    }
    Ok(Mac(mac))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_asked_for_and_enough() {
        assert!(Cli::try_parse_from(["cxemu"]).is_err());
        let cli = Cli::try_parse_from(["cxemu", "--socket", "/x"]).unwrap();
        assert_eq!(cli.card.link, LinkSpec::Silent);
        assert!(cli.command.is_none());
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

    #[test]
    fn addresses_are_checked() {
        assert_eq!(parse_mac("02:00:00:00:00:0a"), Ok(Mac([2, 0, 0, 0, 0, 10])));
        for bad in [
            "",
            "02:00",
            "01:00:00:00:00:00",
            "00:00:00:00:00:00",
            "02:00:00:00:00:gg",
        ] {
            assert!(parse_mac(bad).is_err(), "{bad}");
        }
    }
}
