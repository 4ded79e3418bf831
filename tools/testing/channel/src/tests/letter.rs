// SPDX-License-Identifier: GPL-2.0
//! Letters: what is written is read, everything else is refused for its reason.

use crate::channel::{
    endpoint::Endpoint,
    handshake::{Kind, Message},
    letter::{BadLetter, Letter, Mail, Mailbox, LETTER_BYTES, MAIL_BYTES},
};
use proptest::prelude::*;

const GID: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 3, 0xff, 0xfe, 4, 5, 6];

fn sample(kind: Kind) -> Letter {
    Letter {
        to: 0x0102_0304,
        message: Message {
            kind,
            epoch: 0x1112_1314,
        },
        from: Endpoint {
            channel: 0x2122_2324,
            qpn: 0x32_3334,
            psn: 0x42_4344,
            gid: GID,
            mac: [2, 2, 3, 4, 5, 6],
            mtu: 0x400,
            rkey: 0x5152_5354,
            addr: 0x6162_6364_6566_6768,
            control_qpn: 0x77,
            control_qkey: 0,
        },
    }
}

/// As it lies in a receive: version 6, the source address, the letter.
fn datagram(letter: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    bytes[0] = 0x60;
    bytes[8..24].copy_from_slice(&GID);
    bytes.extend(letter);
    bytes
}

#[test]
fn bytes_are_those_of_the_table() {
    let mut want = b"RMX5".to_vec();
    want.extend([1, 2, 4, 0, 0x11, 0x12, 0x13, 0x14, 1, 2, 3, 4]);
    want.extend([
        0x21, 0x22, 0x23, 0x24, 0, 0x32, 0x33, 0x34, 0, 0x42, 0x43, 0x44,
    ]);
    want.extend([0x51, 0x52, 0x53, 0x54]);
    want.extend([0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68]);
    want.extend(GID);
    want.extend([2, 2, 3, 4, 5, 6, 0, 0]);
    assert_eq!(sample(Kind::Reply).encode().as_slice(), want);
}

#[test]
fn every_kind_comes_back() {
    for kind in [Kind::Request, Kind::Reply, Kind::Ready, Kind::Ahead] {
        let mail = Mail::parse(&datagram(&sample(kind).encode()), 0x77).unwrap();
        assert_eq!(mail.letter, sample(kind));
    }
}

#[test]
fn bad_datagrams_are_refused_for_their_reason() {
    let good = datagram(&sample(Kind::Request).encode());
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    let cases = [
        (vec![], BadLetter::Length(0)),
        (good[..39].to_vec(), BadLetter::Length(39)),
        (
            good[..MAIL_BYTES - 1].to_vec(),
            BadLetter::Length(MAIL_BYTES - 1),
        ),
        (
            [&good[..], &[0]].concat(),
            BadLetter::Length(MAIL_BYTES + 1),
        ),
        (with(0, 0x45), BadLetter::Grh(4)),
        (with(0, 0), BadLetter::Grh(0)),
        (with(40, b'r'), BadLetter::Magic),
        (with(44, 2), BadLetter::Version(2)),
        (with(45, 0), BadLetter::Kind(0)),
        (with(45, 5), BadLetter::Kind(5)),
        (with(46, 5), BadLetter::Value("mtu")),
        (with(46, 0), BadLetter::Value("mtu")),
        (with(60, 1), BadLetter::Value("qpn")),
        (with(64, 1), BadLetter::Value("psn")),
        (with(103, 1), BadLetter::Value("padding")),
    ];
    for (bytes, want) in cases {
        assert_eq!(Mail::parse(&bytes, 0x77), Err(want), "{bytes:x?}");
    }
}

#[test]
fn only_the_peer_is_heard() {
    let letter = sample(Kind::Reply);
    let peer = letter.from;
    let mail = |letter: &Letter, qpn| Mail::parse(&datagram(&letter.encode()), qpn).unwrap();
    assert_eq!(mail(&letter, 0x77).is_from(&peer), Ok(()));

    // The packet comes from elsewhere, whatever the letter says.
    let mut forged = datagram(&letter.encode());
    forged[23] ^= 1;
    let forged = Mail::parse(&forged, 0x77).unwrap();
    assert_eq!(forged.is_from(&peer), Err(BadLetter::Source("GID")));

    // The letter names another machine or channel: it must not lead the connection there.
    let mut other = letter;
    other.from.gid[15] ^= 1;
    assert_eq!(
        mail(&other, 0x77).is_from(&peer),
        Err(BadLetter::Source("GID"))
    );
    let mut other = letter;
    other.from.mac[5] ^= 1;
    let found = mail(&other, 0x77).is_from(&peer);
    assert_eq!(found, Err(BadLetter::Source("Ethernet address")));
    let mut other = letter;
    other.from.channel ^= 1;
    let found = mail(&other, 0x77).is_from(&peer);
    assert_eq!(found, Err(BadLetter::Source("channel")));

    // Another control QP may ask, after a reset of the peer's card, and may say nothing else.
    for kind in [Kind::Reply, Kind::Ready, Kind::Ahead] {
        let found = mail(&sample(kind), 0x78).is_from(&peer);
        assert_eq!(found, Err(BadLetter::Source("control QP")));
    }
    assert_eq!(mail(&sample(Kind::Request), 0x78).is_from(&peer), Ok(()));
}

#[test]
fn mailbox_keeps_the_order_and_a_bound() {
    let mail = |to| {
        let letter = Letter {
            to,
            ..sample(Kind::Ready)
        };
        Mail::parse(&datagram(&letter.encode()), 1).unwrap()
    };
    let mut mailbox = Mailbox::default();
    let mut expected = 0;
    for to in 0..4 {
        assert!(mailbox.put(mail(to)));
    }
    assert!(!mailbox.put(mail(4)));
    for to in 4..40 {
        assert_eq!(mailbox.take().unwrap().letter.to, expected);
        expected += 1;
        assert!(mailbox.put(mail(to)));
    }
    for to in expected..40 {
        assert_eq!(mailbox.take().unwrap().letter.to, to);
    }
    assert_eq!(mailbox.take(), None);
    assert!(mailbox.put(mail(7)));
    assert_eq!(mailbox.take().unwrap().letter.to, 7);
}

proptest! {
    #[test]
    fn nothing_makes_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), qpn in any::<u32>()) {
        let _ = Mail::parse(&bytes, qpn);
    }

    /// Whatever is accepted is in range, and is what its bytes say.
    #[test]
    fn what_is_accepted_is_written_the_same(mut bytes in any::<[u8; LETTER_BYTES]>(), kind in 1u8..5, log in 8u32..=12) {
        bytes[..6].copy_from_slice(&[b'R', b'M', b'X', b'5', 1, kind]);
        bytes[6..8].copy_from_slice(&(1u16 << log).to_be_bytes());
        (bytes[20], bytes[24], bytes[62], bytes[63]) = (0, 0, 0, 0);
        if let Ok(mail) = Mail::parse(&datagram(&bytes), 9) {
            prop_assert_eq!(mail.letter.encode(), bytes);
            prop_assert!((2..1 << 24).contains(&mail.letter.from.qpn));
        }
    }
}
