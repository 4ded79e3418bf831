// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is written reads back, and nothing read can break the reader.

use proptest::{option, prelude::*};
use roce::*;

fn ip() -> impl Strategy<Value = Ip> {
    (
        any::<bool>(),
        any::<[[u8; 16]; 2]>(),
        any::<u8>(),
        any::<u8>(),
        0u32..1 << 20,
        any::<u16>(),
    )
        .prop_map(|(v4, [src, dst], tos, ttl, flow_label, ident)| {
            let short = |gid: [u8; 16]| [gid[0], gid[1], gid[2], gid[3]];
            Ip {
                addresses: if v4 {
                    Addresses::V4 {
                        src: short(src),
                        dst: short(dst),
                    }
                } else {
                    Addresses::V6 { src, dst }
                },
                tos,
                ttl,
                flow_label: if v4 { 0 } else { flow_label },
                ident: if v4 { ident } else { 0 },
            }
        })
}

fn syndrome() -> impl Strategy<Value = Syndrome> {
    prop_oneof![
        (0u8..32).prop_map(Syndrome::Ack),
        (0u8..32).prop_map(Syndrome::Rnr),
        Just(Syndrome::Nak(Nak::Sequence)),
        Just(Syndrome::Nak(Nak::InvalidRequest)),
        Just(Syndrome::Nak(Nak::RemoteAccess)),
        Just(Syndrome::Nak(Nak::RemoteOperation)),
    ]
}

/// Headers with exactly the extension headers the opcode names.
fn headers() -> impl Strategy<Value = Headers> {
    let codes: Vec<u8> = (0..=255)
        .filter(|code| Opcode::from_code(*code).is_some())
        .collect();
    let transport = (
        prop::sample::select(codes),
        any::<[bool; 5]>(),
        any::<u16>(),
        0u32..1 << 24,
        0u32..1 << 24,
    );
    let values = (
        any::<[u64; 3]>(),
        any::<[u32; 4]>(),
        syndrome(),
        any::<[u8; 4]>(),
    );
    let eth = (any::<[u8; 6]>(), any::<[u8; 6]>(), option::of(any::<u16>()));
    (eth, ip(), any::<u16>(), transport, values).prop_map(
        |(
            (dst, src, tci),
            ip,
            sport,
            (code, flags, pkey, dest_qp, psn),
            (wide, words, syndrome, imm),
        )| {
            use Operation::*;
            let opcode = Opcode::from_code(code).unwrap();
            let op = opcode.operation;
            let has = |yes: bool| yes.then_some(());
            let starts = matches!(op, Write(at) | WriteImm(at) if at.starts());
            let ack = match op {
                ReadResponse(at) => at != Position::Middle,
                _ => op.is_response(),
            };
            Headers {
                eth: Ethernet {
                    dst: Mac(dst),
                    src: Mac(src),
                    vlan: tci.map(Vlan::from_tci),
                },
                ip,
                sport,
                bth: Bth {
                    opcode,
                    solicited: flags[0],
                    migrated: flags[1],
                    pkey,
                    fecn: flags[2],
                    becn: flags[3],
                    dest_qp,
                    ack_req: flags[4],
                    psn: Psn::new(psn),
                },
                ext: Ext {
                    xrc: has(opcode.service == Service::Xrc && !op.is_response())
                        .map(|()| words[1] & 0xff_ffff),
                    deth: has(opcode.service == Service::Ud).map(|()| Deth {
                        qkey: words[0],
                        src_qp: words[1] & 0xff_ffff,
                    }),
                    reth: has(starts || op == ReadRequest).map(|()| Reth {
                        va: wide[0],
                        rkey: words[2],
                        len: words[3],
                    }),
                    atomic: has(matches!(op, CompareSwap | FetchAdd)).map(|()| AtomicEth {
                        va: wide[0],
                        rkey: words[2],
                        swap_or_add: wide[1],
                        compare: wide[2],
                    }),
                    aeth: has(ack).map(|()| Aeth {
                        syndrome,
                        msn: words[0] & 0xff_ffff,
                    }),
                    atomic_ack: has(op == AtomicAck).map(|()| wide[1]),
                    imm: has(matches!(op, SendImm(_) | WriteImm(_))).map(|()| imm),
                    invalidate: has(matches!(op, SendInv(_))).map(|()| words[2]),
                },
            }
        },
    )
}

fn frame(headers: &Headers, payload: &[u8]) -> Vec<u8> {
    let mut frame = Frame::new();
    frame.payload_mut(payload.len()).copy_from_slice(payload);
    frame.seal(headers).unwrap().to_vec()
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        headers in headers(),
        payload in prop::collection::vec(any::<u8>(), 0..4200),
        trailer in 0usize..20,
    ) {
        let mut bytes = frame(&headers, &payload);
        bytes.resize(bytes.len() + trailer, 0xee);
        let packet = Packet::parse(&bytes).unwrap();
        prop_assert_eq!(packet.headers, headers);
        prop_assert_eq!(packet.payload, &payload[..]);
        let target = target(&bytes).unwrap();
        prop_assert_eq!((target.eth, target.gid), (headers.eth, headers.ip.dst_gid()));
        // Sealing the same frame twice gives the same bytes.
        let mut again = Frame::of(&packet);
        again.seal(&headers).unwrap();
        prop_assert_eq!(again.seal(&headers).unwrap(), &bytes[..bytes.len() - trailer]);
    }

    #[test]
    fn a_flipped_bit_is_noticed_or_allowed_to_change(
        headers in headers(),
        payload in prop::collection::vec(any::<u8>(), 0..300),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let good = frame(&headers, &payload);
        let mut bad = good.clone();
        let at = at.index(bad.len());
        bad[at] ^= 1 << bit;
        if let Ok(packet) = Packet::parse(&bad) {
            // Only what the ICRC leaves out may differ.
            let mut same = packet.headers;
            same.eth = headers.eth;
            same.ip.tos = headers.ip.tos;
            same.ip.ttl = headers.ip.ttl;
            same.ip.flow_label = headers.ip.flow_label;
            same.bth.fecn = headers.bth.fecn;
            same.bth.becn = headers.bth.becn;
            prop_assert_eq!(same, headers);
            prop_assert_eq!(packet.payload, &payload[..]);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = Packet::parse(&bytes);
        let _ = target(&bytes);
        let _ = icrc(&bytes);
    }

    #[test]
    fn cut_frames_never_panic(
        headers in headers(),
        payload in prop::collection::vec(any::<u8>(), 0..64),
        keep in any::<prop::sample::Index>(),
    ) {
        let bytes = frame(&headers, &payload);
        let keep = keep.index(bytes.len());
        prop_assert!(Packet::parse(&bytes[..keep]).is_err());
    }
}
