// SPDX-License-Identifier: GPL-2.0
//! Endpoint lines: what is written is JSON and is read back; everything else is refused.

use crate::channel::endpoint::{BadLine, Endpoint};
use proptest::prelude::*;

fn sample() -> Endpoint {
    Endpoint {
        channel: 3,
        qpn: 74,
        psn: 0xabcdef,
        gid: [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1],
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1024,
        rkey: u32::MAX,
        addr: u64::MAX,
        control_qpn: 0,
        control_qkey: 0x7fff_ffff,
    }
}

#[test]
fn line_is_json_for_everybody() {
    let line = sample().to_string();
    let json: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(json["qpn"], 74);
    assert_eq!(json["gid"], "fe80:0000:0000:0000:0200:00ff:fe00:0001");
    assert_eq!(json["mac"], "02:00:00:00:00:01");
    assert_eq!(json["addr"], "0xffffffffffffffff");
    assert_eq!(json.as_object().unwrap().len(), 10);
}

#[test]
fn members_may_come_in_any_order_with_space() {
    let json: serde_json::Value = serde_json::from_str(&sample().to_string()).unwrap();
    // serde_json sorts the members and indents.
    let pretty = serde_json::to_string_pretty(&json).unwrap();
    assert_eq!(Endpoint::parse(&pretty), Ok(sample()));
}

#[test]
fn bad_lines_are_refused_for_their_reason() {
    let good = sample().to_string();
    let cases = [
        ("", BadLine::Syntax),
        ("{}", BadLine::Syntax),
        ("[]", BadLine::Syntax),
        (&good[..good.len() - 1], BadLine::Syntax),
        (&format!("{good} x"), BadLine::Syntax),
        (&good.replace("\"qpn\":74,", ""), BadLine::Missing("qpn")),
        (
            &good.replace("\"qpn\":74", "\"qpn\":74,\"qpn\":74"),
            BadLine::Member,
        ),
        (&good.replace("\"qpn\":74", "\"qpm\":74"), BadLine::Member),
        (&good.replace(":74", ":0074"), BadLine::Syntax),
        (&good.replace(":74", ":-74"), BadLine::Syntax),
        (&good.replace(":74", ":7.4"), BadLine::Syntax),
        (&good.replace(":74", ":1"), BadLine::Value("qpn")),
        (&good.replace(":74", ":16777216"), BadLine::Value("qpn")),
        (
            &good.replace(":74", ":99999999999999999999"),
            BadLine::Syntax,
        ),
        (&good.replace(":1024", ":1000"), BadLine::Value("mtu")),
        (&good.replace(":1024", ":8192"), BadLine::Value("mtu")),
        (&good.replace("fe80", "xe80"), BadLine::Value("gid")),
        (&good.replace("fe80:", "fe80"), BadLine::Value("gid")),
        (&good.replace("02:00", "03:00"), BadLine::Value("mac")),
        (&good.replace("0xf", "0xff"), BadLine::Value("addr")),
        (&good.replace("0xf", "f"), BadLine::Value("addr")),
        (&good.replace("mac", "m\\u0061c"), BadLine::Syntax),
        // The highest bit of a Q_Key would mean the sender's own.
        (
            &good.replace("2147483647", "2147483648"),
            BadLine::Value("control_qkey"),
        ),
    ];
    for (line, want) in cases {
        assert_eq!(Endpoint::parse(line), Err(want), "{line}");
    }
}

proptest! {
    #[test]
    fn nothing_makes_the_parser_panic(line in ".{0,200}") {
        let _ = Endpoint::parse(&line);
    }

    #[test]
    fn what_is_written_is_read(
        channel in any::<u32>(), qpn in 2u32..1 << 24, psn in 0u32..1 << 24,
        gid in 1u128.., mac in any::<[u8; 6]>(), log_mtu in 8u32..=12,
        rkey in any::<u32>(), addr in any::<u64>(), control_qpn in 0u32..1 << 24,
        control_qkey in 0u32..1 << 31,
    ) {
        let mut mac = mac;
        mac[0] = mac[0] & 0xfe | 2;
        let endpoint = Endpoint {
            channel, qpn, psn, gid: gid.to_be_bytes(), mac, mtu: 1 << log_mtu, rkey, addr, control_qpn,
            control_qkey,
        };
        prop_assert_eq!(Endpoint::parse(&endpoint.to_string()), Ok(endpoint));
    }
}
