// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of other people's hardware and software.

use roce::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter_map(|c| (c as char).to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// Congestion notification captured on a ConnectX-4 Lx (published in scapy's regression tests).
#[test]
fn a_cnp_of_real_hardware_has_a_good_icrc_and_is_written_byte_for_byte() {
    let frame = hex("e41d2dab2bc2 7cfe90643b32 0800 45c2
        003c718c 4000 4011 9161 0a001101 0a001201 0000 12b7 0028 0000 8100 ffff 4000
        0118 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 82fd002a");
    let packet = Packet::parse(&frame).unwrap();
    assert_eq!(packet.headers.bth.opcode.service, Service::Cnp);
    assert_eq!(packet.headers.bth.dest_qp, 0x118);
    assert!(packet.headers.bth.becn && !packet.headers.bth.fecn);
    assert!(packet.payload.is_empty());
    assert_eq!(Frame::of(&packet).seal(&packet.headers).unwrap(), frame);
}

/// UC SEND with two pad bytes, from the same tests.
#[test]
fn a_padded_uc_send_is_written_byte_for_byte() {
    let headers = Headers {
        eth: Ethernet {
            dst: Mac([0x24, 0x8a, 7, 0xa8, 0xfa, 0x22]),
            src: Mac([0x24, 0x8a, 7, 0xa8, 0xfa, 0x22]),
            vlan: None,
        },
        ip: Ip {
            addresses: Addresses::V4 {
                src: [192, 168, 0, 7],
                dst: [192, 168, 0, 7],
            },
            tos: 1,
            ttl: 64,
            flow_label: 0,
            ident: 1144,
        },
        sport: 49152,
        bth: Bth {
            opcode: Opcode {
                service: Service::Uc,
                operation: Operation::Send(Position::Only),
            },
            solicited: false,
            migrated: true,
            pkey: 0xffff,
            fecn: false,
            becn: false,
            dest_qp: 211,
            ack_req: false,
            psn: Psn::new(13_571_856),
        },
        ext: Ext::default(),
    };
    let mut frame = Frame::new();
    let payload = b"F0\x81\x8b\xe2\x895\xd9\x0e\x9a\x95PT\x01\xbe\x88^P";
    frame.payload_mut(payload.len()).copy_from_slice(payload);
    let bytes = frame.seal(&headers).unwrap();
    // IPv4 header checksum and ICRC as published.
    assert_eq!(bytes[24..26], [0xb4, 0xd5]);
    assert_eq!(bytes[bytes.len() - 4..], [0x78, 0xf3, 0x53, 0xf3]);
    assert_eq!(bytes.len(), 14 + 64);
    assert_eq!(bytes[34..42], hex("c000 12b7 002c 0000")[..]);
    assert_eq!(bytes[42..54], hex("2460 ffff 0000 00d3 00cf 1710")[..]);
}
