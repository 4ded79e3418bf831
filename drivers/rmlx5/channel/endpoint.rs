// SPDX-License-Identifier: GPL-2.0
//! One end of a connection, as it is told to the other end: a line of JSON.
//!
//! ```text
//! {"channel":0,"qpn":74,"psn":1193046,"gid":"fe80::...","mac":"...","mtu":1024,"rkey":768,"addr":"0x0","control_qpn":73,"control_qkey":1234}
//! ```
//!
//! `gid` has eight groups of four hexadecimal digits, `mac` six of two; `addr` is a string because
//! a JSON number cannot hold 64 bits everywhere. The parser takes the members in any order with
//! any JSON white space and refuses everything else: an unknown or double member, an escape, a
//! number out of range.

use core::fmt;

/// What the other end must know to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Index of the channel on its own side.
    pub(crate) channel: u32,
    /// QP number, 24 bits.
    pub(crate) qpn: u32,
    /// First PSN it sends, 24 bits.
    pub(crate) psn: u32,
    /// RoCE v2 address.
    pub(crate) gid: [u8; 16],
    /// Ethernet address that goes with `gid`.
    pub(crate) mac: [u8; 6],
    /// Path MTU it can take: 256, 512, 1024, 2048 or 4096 bytes.
    pub(crate) mtu: u32,
    /// Key to the memory that the other end may read, write and add to.
    pub(crate) rkey: u32,
    /// Address of that memory inside the MR.
    pub(crate) addr: u64,
    /// UD QP that takes messages about the connection, 24 bits; 0 when there is none.
    pub(crate) control_qpn: u32,
    /// Q_Key of that QP, 31 bits. Who knows it may send messages.
    pub(crate) control_qkey: u32,
}

/// Why a line is not an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadLine {
    /// Not an object of strings and unsigned numbers.
    Syntax,
    /// A member that is not known or comes twice.
    Member,
    /// A value out of its range.
    Value(&'static str),
    /// A member that is not there.
    Missing(&'static str),
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => f.write_str("not a line of the endpoint file"),
            Self::Member => f.write_str("unknown or doubled member"),
            Self::Value(name) => write!(f, "{name} is out of range"),
            Self::Missing(name) => write!(f, "{name} is missing"),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{{\"channel\":{},\"qpn\":{},\"psn\":{},\"gid\":\"{}\",\"mac\":\"{}\",\"mtu\":{},\"rkey\":{},\"addr\":\"{:#x}\",\"control_qpn\":{},\"control_qkey\":{}}}",
            self.channel,
            self.qpn,
            self.psn,
            Gid(&self.gid),
            Mac(&self.mac),
            self.mtu,
            self.rkey,
            self.addr,
            self.control_qpn,
            self.control_qkey
        )
    }
}

/// Prints a GID in full: eight groups of four digits.
pub(crate) struct Gid<'a>(pub(crate) &'a [u8; 16]);

impl fmt::Display for Gid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if index != 0 && index % 2 == 0 {
                f.write_str(":")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Prints an Ethernet address.
pub(crate) struct Mac<'a>(pub(crate) &'a [u8; 6]);

impl fmt::Display for Mac<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if index != 0 {
                f.write_str(":")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl Endpoint {
    /// Whether a QP that is connected to `other` is connected to this: the same QP in the same
    /// life, and the same memory.
    pub(crate) fn is_same_life(&self, other: &Self) -> bool {
        (self.qpn, self.psn, self.rkey, self.addr) == (other.qpn, other.psn, other.rkey, other.addr)
    }

    /// Parses one line.
    pub(crate) fn parse(line: &str) -> Result<Self, BadLine> {
        let mut input = Input(line.as_bytes());
        let mut members = Members::default();
        input.demand(b'{')?;
        loop {
            let name = input.string()?;
            input.demand(b':')?;
            members.take(name, &mut input)?;
            match input.token()? {
                b',' => {}
                b'}' => break,
                _ => return Err(BadLine::Syntax),
            }
        }
        input.skip_space();
        if !input.0.is_empty() {
            return Err(BadLine::Syntax);
        }
        members.finish()
    }
}

#[derive(Default)]
struct Members {
    channel: Option<u64>,
    qpn: Option<u64>,
    psn: Option<u64>,
    gid: Option<[u8; 16]>,
    mac: Option<[u8; 6]>,
    mtu: Option<u64>,
    rkey: Option<u64>,
    addr: Option<u64>,
    control_qpn: Option<u64>,
    control_qkey: Option<u64>,
}

impl Members {
    fn take(&mut self, name: &[u8], input: &mut Input<'_>) -> Result<(), BadLine> {
        match name {
            b"channel" => once(&mut self.channel, input.number()?),
            b"qpn" => once(&mut self.qpn, input.number()?),
            b"psn" => once(&mut self.psn, input.number()?),
            b"mtu" => once(&mut self.mtu, input.number()?),
            b"rkey" => once(&mut self.rkey, input.number()?),
            b"control_qpn" => once(&mut self.control_qpn, input.number()?),
            b"control_qkey" => once(&mut self.control_qkey, input.number()?),
            b"gid" => once(
                &mut self.gid,
                hex_groups::<16>(input.string()?, 2).ok_or(BadLine::Value("gid"))?,
            ),
            b"mac" => once(
                &mut self.mac,
                hex_groups::<6>(input.string()?, 1).ok_or(BadLine::Value("mac"))?,
            ),
            b"addr" => once(
                &mut self.addr,
                hex_number(input.string()?).ok_or(BadLine::Value("addr"))?,
            ),
            _ => Err(BadLine::Member),
        }
    }

    fn finish(self) -> Result<Endpoint, BadLine> {
        let gid = self.gid.ok_or(BadLine::Missing("gid"))?;
        let mac = self.mac.ok_or(BadLine::Missing("mac"))?;
        let mtu = bounded(self.mtu, "mtu", 256, 4096)?;
        if !mtu.is_power_of_two() {
            return Err(BadLine::Value("mtu"));
        }
        if gid == [0; 16] {
            return Err(BadLine::Value("gid"));
        }
        // The lowest bit of the first byte marks a group address: no single card has it.
        if mac == [0; 6] || mac[0] & 1 != 0 {
            return Err(BadLine::Value("mac"));
        }
        Ok(Endpoint {
            channel: bounded(self.channel, "channel", 0, u32::MAX)?,
            qpn: bounded(self.qpn, "qpn", 2, 0xff_ffff)?,
            psn: bounded(self.psn, "psn", 0, 0xff_ffff)?,
            gid,
            mac,
            mtu,
            rkey: bounded(self.rkey, "rkey", 0, u32::MAX)?,
            addr: self.addr.ok_or(BadLine::Missing("addr"))?,
            control_qpn: bounded(self.control_qpn, "control_qpn", 0, 0xff_ffff)?,
            control_qkey: bounded(self.control_qkey, "control_qkey", 0, u32::MAX >> 1)?,
        })
    }
}

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), BadLine> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(BadLine::Member),
    }
}

fn bounded(value: Option<u64>, name: &'static str, min: u32, max: u32) -> Result<u32, BadLine> {
    let value = value.ok_or(BadLine::Missing(name))?;
    match u32::try_from(value) {
        Ok(value) if value >= min && value <= max => Ok(value),
        _ => Err(BadLine::Value(name)),
    }
}

/// What is left of a line.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn skip_space(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    fn token(&mut self) -> Result<u8, BadLine> {
        self.skip_space();
        match self.0 {
            [first, rest @ ..] => {
                self.0 = rest;
                Ok(*first)
            }
            [] => Err(BadLine::Syntax),
        }
    }

    fn demand(&mut self, wanted: u8) -> Result<(), BadLine> {
        if self.token()? == wanted {
            Ok(())
        } else {
            Err(BadLine::Syntax)
        }
    }

    fn split(&mut self, at: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at_checked(at).unwrap_or((self.0, &[]));
        self.0 = rest;
        taken
    }

    fn string(&mut self) -> Result<&'a [u8], BadLine> {
        self.demand(b'"')?;
        let end = self
            .0
            .iter()
            .position(|byte| *byte == b'"')
            .ok_or(BadLine::Syntax)?;
        let text = self.split(end);
        self.demand(b'"')?;
        // No value needs an escape or a control character.
        if text.iter().any(|byte| *byte == b'\\' || *byte < b' ') {
            return Err(BadLine::Syntax);
        }
        Ok(text)
    }

    fn number(&mut self) -> Result<u64, BadLine> {
        self.skip_space();
        let end = self
            .0
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(self.0.len());
        let digits = self.split(end);
        // JSON has no leading zeros.
        if digits.is_empty() || (digits.len() > 1 && digits.first() == Some(&b'0')) {
            return Err(BadLine::Syntax);
        }
        digits
            .iter()
            .try_fold(0u64, |value, digit| {
                value
                    .checked_mul(10)?
                    .checked_add(u64::from(digit.wrapping_sub(b'0')))
            })
            .ok_or(BadLine::Syntax)
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    // CAST: a hexadecimal digit.
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

/// `N` bytes in groups of `group` bytes, a colon between groups.
fn hex_groups<const N: usize>(text: &[u8], group: usize) -> Option<[u8; N]> {
    let mut bytes = [0u8; N];
    let mut rest = text;
    for (index, byte) in bytes.iter_mut().enumerate() {
        if index != 0 && index % group == 0 {
            rest = rest.strip_prefix(b":")?;
        }
        let [high, low, tail @ ..] = rest else {
            return None;
        };
        *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
        rest = tail;
    }
    rest.is_empty().then_some(bytes)
}

fn hex_number(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x")?;
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| {
        Some(value << 4 | u64::from(hex_digit(*digit)?))
    })
}
