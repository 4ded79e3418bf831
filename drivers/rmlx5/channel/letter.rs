// SPDX-License-Identifier: GPL-2.0
//! What the handshake says to a peer, as a datagram between control QPs.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | "RMX5" |
//! | 4 | 1 | version, 1 |
//! | 5 | 1 | kind: 1 Request, 2 Reply, 3 Ready, 4 Ahead |
//! | 6 | 2 | path MTU in bytes |
//! | 8 | 4 | epoch |
//! | 12 | 4 | channel that gets it |
//! | 16 | 4 | channel that sends it |
//! | 20 | 4 | QPN of the sender's channel |
//! | 24 | 4 | first PSN that it sends |
//! | 28 | 4 | rkey |
//! | 32 | 8 | address of its memory |
//! | 40 | 16 | GID |
//! | 56 | 6 | Ethernet address |
//! | 62 | 2 | 0 |
//!
//! Numbers are big endian. Anybody on the network can send datagrams. The card drops those without
//! the right Q_Key; of the rest only those count that come from the machine whose endpoint lines a
//! person wrote.

use core::fmt;

use super::{
    endpoint::Endpoint,
    handshake::{Kind, Message},
};
use crate::qp::datagram::GRH_BYTES;

/// Bytes of a letter.
pub(crate) const LETTER_BYTES: usize = 64;
/// Bytes of a receive that holds one.
pub(crate) const MAIL_BYTES: usize = GRH_BYTES + LETTER_BYTES;

const MAGIC: [u8; 4] = *b"RMX5";
const VERSION: u8 = 1;
/// Offset of the source address in the GRH.
const GRH_SOURCE: usize = 8;
/// IP version in the upper half of the first byte of a GRH.
const IPV6: u8 = 6;

/// Why a datagram is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadLetter {
    /// Too short or too long: bytes with the GRH.
    Length(usize),
    /// Not over IPv6: the sender has no address to compare.
    Grh(u8),
    /// Not a letter.
    Magic,
    /// A version that this driver does not know.
    Version(u8),
    /// A kind that does not exist.
    Kind(u8),
    /// A value out of its range.
    Value(&'static str),
    /// Not from where the peer is.
    Source(&'static str),
}

impl fmt::Display for BadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(found) => write!(f, "{found} bytes, must be {MAIL_BYTES}"),
            Self::Grh(version) => write!(f, "IP version {version}"),
            Self::Magic => f.write_str("not a letter"),
            Self::Version(version) => write!(f, "version {version}"),
            Self::Kind(kind) => write!(f, "kind {kind}"),
            Self::Value(name) => write!(f, "{name} is out of range"),
            Self::Source(name) => write!(f, "{name} is not the peer's"),
        }
    }
}

/// What one channel says to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    /// Index of the channel that gets it.
    pub(crate) to: u32,
    /// What is said.
    pub(crate) message: Message,
    /// Who says it. The control QP is not written down: it is the source of the datagram.
    pub(crate) from: Endpoint,
}

impl Letter {
    /// The bytes.
    pub(crate) fn encode(&self) -> [u8; LETTER_BYTES] {
        let mut pen = Pen {
            bytes: [0; LETTER_BYTES],
            at: 0,
        };
        let kind = match self.message.kind {
            Kind::Request => 1,
            Kind::Reply => 2,
            Kind::Ready => 3,
            Kind::Ahead => 4,
        };
        let from = &self.from;
        pen.write(&MAGIC);
        pen.write(&[VERSION, kind]);
        // CAST: at most 4096.
        pen.write(&(from.mtu as u16).to_be_bytes());
        let words = [
            self.message.epoch,
            self.to,
            from.channel,
            from.qpn,
            from.psn,
            from.rkey,
        ];
        for word in words {
            pen.write(&word.to_be_bytes());
        }
        pen.write(&from.addr.to_be_bytes());
        pen.write(&from.gid);
        pen.write(&from.mac);
        pen.bytes
    }

    /// Parses the bytes of a letter whose sender has control QP `control_qpn`.
    fn parse(bytes: &[u8; LETTER_BYTES], control_qpn: u32) -> Result<Self, BadLetter> {
        let mut rest = bytes.as_slice();
        if take(&mut rest)? != MAGIC {
            return Err(BadLetter::Magic);
        }
        let [version, kind] = take(&mut rest)?;
        if version != VERSION {
            return Err(BadLetter::Version(version));
        }
        let kind = match kind {
            1 => Kind::Request,
            2 => Kind::Reply,
            3 => Kind::Ready,
            4 => Kind::Ahead,
            other => return Err(BadLetter::Kind(other)),
        };
        let mtu = u32::from(u16::from_be_bytes(take(&mut rest)?));
        if !(256..=4096).contains(&mtu) || !mtu.is_power_of_two() {
            return Err(BadLetter::Value("mtu"));
        }
        let epoch = u32::from_be_bytes(take(&mut rest)?);
        let to = u32::from_be_bytes(take(&mut rest)?);
        let channel = u32::from_be_bytes(take(&mut rest)?);
        let qpn = u32::from_be_bytes(take(&mut rest)?);
        if !(2..=0xff_ffff).contains(&qpn) {
            return Err(BadLetter::Value("qpn"));
        }
        let psn = u32::from_be_bytes(take(&mut rest)?);
        if psn > 0xff_ffff {
            return Err(BadLetter::Value("psn"));
        }
        let from = Endpoint {
            channel,
            qpn,
            psn,
            mtu,
            rkey: u32::from_be_bytes(take(&mut rest)?),
            addr: u64::from_be_bytes(take(&mut rest)?),
            gid: take(&mut rest)?,
            mac: take(&mut rest)?,
            control_qpn,
            control_qkey: 0,
        };
        if take(&mut rest)? != [0, 0] {
            return Err(BadLetter::Value("padding"));
        }
        Ok(Self {
            to,
            message: Message { kind, epoch },
            from,
        })
    }
}

/// A letter that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mail {
    /// What it says.
    pub(crate) letter: Letter,
    /// Address that the packet came from.
    source: [u8; 16],
}

impl Mail {
    /// Parses a received datagram with its GRH; `source_qpn` is the QP that sent it.
    pub(crate) fn parse(datagram: &[u8], source_qpn: u32) -> Result<Self, BadLetter> {
        let length = BadLetter::Length(datagram.len());
        let (grh, bytes) = datagram.split_first_chunk::<GRH_BYTES>().ok_or(length)?;
        let bytes = bytes.try_into().map_err(|_| length)?;
        let version = grh.first().map_or(0, |byte| byte >> 4);
        if version != IPV6 {
            return Err(BadLetter::Grh(version));
        }
        let source = grh
            .get(GRH_SOURCE..)
            .and_then(|rest| rest.first_chunk::<16>())
            .ok_or(length)?;
        Ok(Self {
            letter: Letter::parse(bytes, source_qpn)?,
            source: *source,
        })
    }

    /// Whether the peer that is known as `peer` said it. After a reset of its card the peer has
    /// another control QP, and says so by a request.
    pub(crate) fn is_from(&self, peer: &Endpoint) -> Result<(), BadLetter> {
        let from = &self.letter.from;
        if self.source != peer.gid || from.gid != peer.gid {
            return Err(BadLetter::Source("GID"));
        }
        if from.mac != peer.mac {
            return Err(BadLetter::Source("Ethernet address"));
        }
        if from.channel != peer.channel {
            return Err(BadLetter::Source("channel"));
        }
        if from.control_qpn != peer.control_qpn && self.letter.message.kind != Kind::Request {
            return Err(BadLetter::Source("control QP"));
        }
        Ok(())
    }
}

/// Letters that wait for a channel; a few, because whoever is not heard says it again.
#[derive(Default)]
pub(crate) struct Mailbox([Option<Mail>; 4]);

impl Mailbox {
    /// Keeps a letter; whether there was room.
    pub(crate) fn put(&mut self, mail: Mail) -> bool {
        match self.0.iter_mut().find(|place| place.is_none()) {
            Some(place) => {
                *place = Some(mail);
                true
            }
            None => false,
        }
    }

    /// The oldest letter.
    pub(crate) fn take(&mut self) -> Option<Mail> {
        let first = self.0.first_mut().and_then(Option::take);
        self.0.rotate_left(1);
        first
    }
}

/// Writes one thing after the other.
struct Pen {
    bytes: [u8; LETTER_BYTES],
    at: usize,
}

impl Pen {
    fn write(&mut self, what: &[u8]) {
        let end = self.at + what.len();
        if let Some(place) = self.bytes.get_mut(self.at..end) {
            place.copy_from_slice(what);
        }
        self.at = end;
    }
}

/// Reads one thing after the other.
fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], BadLetter> {
    let (taken, left) = rest
        .split_first_chunk::<N>()
        .ok_or(BadLetter::Length(rest.len()))?;
    *rest = left;
    Ok(*taken)
}
