// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One card, as a person writes it in one word.

use std::path::PathBuf;
use std::str::FromStr;

use fabric::LinkSpec;

/// A card and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardSpec {
    /// Unix socket for the virtual machine monitor.
    pub socket: PathBuf,
    /// Name or file of the profile.
    pub profile: String,
    /// Address of the port, instead of the profile's.
    pub mac: Option<Mac>,
    /// What the port is plugged into.
    pub link: LinkSpec,
    /// Unix socket for `cxemu ctl`.
    pub ctl: Option<PathBuf>,
    /// Capture file.
    pub pcap: Option<PathBuf>,
    /// File for the commands of the driver.
    pub trace: Option<PathBuf>,
}

impl FromStr for CardSpec {
    type Err = String;

    /// `socket=PATH` and other keys, separated by commas, each at most once. Values cannot contain
    /// commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut socket = None;
        let mut new = Self {
            socket: PathBuf::new(),
            profile: "default".to_owned(),
            mac: None,
            link: LinkSpec::Silent,
            ctl: None,
            pcap: None,
            trace: None,
        };
        let mut seen = Vec::new();
        for word in text.split(',') {
            let (key, value) = match word.split_once('=') {
                Some((key, value)) if !value.is_empty() => (key, value),
                _ => return Err(format!("`{word}` is not KEY=VALUE")),
            };
            if seen.contains(&key) {
                return Err(format!("`{key}` stands twice"));
            }
            seen.push(key);
            let path = || Some(PathBuf::from(value));
            match key {
                "socket" => socket = path(),
                "profile" => new.profile = value.to_owned(),
                "mac" => new.mac = Some(parse_mac(value)?),
                "link" => new.link = value.parse().map_err(|error| format!("{error}"))?,
                "ctl" => new.ctl = path(),
                "pcap" => new.pcap = path(),
                "trace" => new.trace = path(),
                _ => return Err(format!("a card has no `{key}`")),
            }
        }
        new.socket = socket.ok_or("a card needs socket=PATH")?;
        Ok(new)
    }
}

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

/// Parses `aa:bb:cc:dd:ee:ff`.
pub(crate) fn parse_mac(text: &str) -> Result<Mac, String> {
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
    fn a_card_in_one_word() {
        let card: CardSpec = "socket=/s,mac=02:00:00:00:00:0a,link=join:x,trace=/t,profile=small"
            .parse()
            .unwrap();
        assert_eq!(card.socket, PathBuf::from("/s"));
        assert_eq!(card.mac, Some(Mac([2, 0, 0, 0, 0, 10])));
        assert_eq!(card.link, LinkSpec::Join("x".into()));
        assert_eq!((card.profile.as_str(), card.ctl), ("small", None));
        for bad in [
            "",
            "socket",
            "socket=",
            "profile=small",
            "socket=/s,socket=/t",
            "socket=/s,colour=red",
            "socket=/s,link=tcp:1",
            "socket=/s,mac=1",
        ] {
            assert!(bad.parse::<CardSpec>().is_err(), "{bad}");
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
