// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each violation of the table, committed on a QP that is connected to itself.

use super::{node::*, op, pair::*, umr::*, CE};
use device::violation::{Effect, Violation, Violation as V};
use mlx5_hw::{field, raw};
use std::time::Duration;

/// A RC QP connected to itself, one of type REG_UMR, and memory for both.
struct Culprit {
    node: Node,
    a: End,
    umr: End,
    mr: Mr,
}

impl Culprit {
    fn new() -> Self {
        let mut node = Node::new(1);
        let a = end(&mut node, 0);
        let (mac, gid) = (node.mac, node.gid);
        node.move_rtr(&a.qp, a.qp.qpn, mac, gid, Link::default());
        node.move_rts(&a.qp, Link::default());
        let cq = node.cq(7);
        let qp = node.qp_with(0xc, &cq, &cq, |input| {
            input
                .set(field!(create_qp_in, qpc.pd), 0)
                .set(field!(create_qp_in, qpc.rq_type), 0)
        });
        node.move_init(&qp, &cq, &cq, 0);
        let link = Link {
            mask: 0,
            ..Link::default()
        };
        node.move_rtr(&qp, 0, mac, [0; 16], link);
        node.move_rts(&qp, link);
        let mr = node.mr(8192, ALL);
        node.take_events();
        Self {
            node,
            a,
            umr: End { cq, qp },
            mr,
        }
    }

    fn post(&mut self, opcode: u8, segments: &[u8]) {
        self.node.post(&mut self.a.qp, opcode, CE, 0, segments);
    }

    /// A SEND of 8 bytes behind `key`.
    fn send(&mut self, key: u32, va: u64) {
        self.post(op::SEND, &data(&[(key, va, 8)]));
    }

    /// A control segment that is wrong in one place.
    fn control(&mut self, change: impl FnOnce(&mut [u8])) {
        let mut wqe = [0; 16];
        wqe[1..3].copy_from_slice(&self.a.qp.sq_pi.to_be_bytes());
        wqe[4..8].copy_from_slice(&(self.a.qp.qpn << 8 | 1).to_be_bytes());
        wqe[11] = CE;
        change(&mut wqe);
        self.node.post_raw(&mut self.a.qp, &wqe);
    }

    /// A key of these fields over page 0 of the bus; `octowords` of translations that are zero.
    fn key(&mut self, mode: u64, octowords: u64, fields: &[(Key, u64)]) -> u32 {
        let mut input = self
            .node
            .mkey(ALL, mode)
            .set(field!(create_mkey_in, memory_key_mkey_entry.len), 4096)
            .set(
                field!(
                    create_mkey_in,
                    memory_key_mkey_entry.translations_octword_size
                ),
                octowords,
            )
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.log_page_size),
                12,
            );
        for &(field, value) in fields {
            input = match field {
                Key::Free => input.set(field!(create_mkey_in, memory_key_mkey_entry.free), value),
                Key::Umr => input.set(field!(create_mkey_in, memory_key_mkey_entry.umr_en), value),
                Key::Qpn => input.set(field!(create_mkey_in, memory_key_mkey_entry.qpn), value),
                Key::Read => input.set(field!(create_mkey_in, memory_key_mkey_entry.lr), value),
                Key::Pd => input.set(field!(create_mkey_in, memory_key_mkey_entry.pd), value),
            };
        }
        self.node.driver.ok(input, 16).number() << 8 | 0x5a
    }

    /// A key that work requests may change.
    fn changeable(&mut self, free: bool) -> u32 {
        self.key(1, 4, &[(Key::Umr, 1), (Key::Free, free.into())])
    }

    /// A UMR request of the privileged queue.
    fn change(&mut self, key: u32, flags: u8, octowords: u16, mask: u64, mkc: &[u8; 64]) {
        let segments = umr(flags, octowords, mask, mkc);
        self.node
            .post(&mut self.umr.qp, op::UMR, CE, key, &segments);
    }

    fn ring(&mut self) {
        for qp in [self.a.qp.clone(), self.umr.qp.clone()] {
            self.node.doorbell(&qp);
        }
        for _ in 0..4 {
            self.node.driver.card.tick();
        }
    }

    /// Error completions: syndrome and vendor's number.
    fn failures(&mut self) -> Vec<(u8, u8)> {
        let mut all = Vec::new();
        for cq in [&mut self.a.cq, &mut self.umr.cq] {
            while let Some(wc) = self.node.poll(cq) {
                all.push((wc.syndrome, wc.vendor));
            }
        }
        all.retain(|failure| failure.0 != 0);
        all
    }

    fn counter(&self, name: &str) -> u64 {
        let counters = self.node.driver.card.counters();
        counters.transport.get(name).copied().unwrap_or(0)
    }
}

#[derive(Clone, Copy)]
enum Key {
    Free,
    Umr,
    Qpn,
    Read,
    Pd,
}

const FREE: u64 = 1 << 29;

/// An inline segment that says `says` and has `has` bytes.
fn inline(says: u32, has: usize) -> Vec<u8> {
    let mut raw = (1 << 31 | says).to_be_bytes().to_vec();
    raw.resize(4 + has, 0);
    raw
}

/// Does it. There is an arm for each entry of the table.
fn commit(violation: Violation, c: &mut Culprit) {
    let (key, va) = (c.mr.key, c.mr.va);
    let none = [0; 64];
    match violation {
        V::Size => c.control(|wqe| wqe[7] = 0),
        V::Opcode => c.control(|wqe| wqe[3] = 0x3f),
        V::Short => c.post(op::WRITE, &[]),
        V::InlineLength => c.post(op::SEND, &inline(100, 12)),
        V::Index => c.control(|wqe| wqe[2] = wqe[2].wrapping_add(1)),
        V::Number => c.control(|wqe| wqe[6] ^= 1),
        V::Report => c.control(|wqe| wqe[11] = 0x4),
        V::AtomicSize => {
            let segments = [raddr(va, key), vec![0; 16], data(&[(key, va, 4)])];
            c.post(op::FETCH_ADD, &segments.concat());
        }
        V::InlineResponse => c.post(op::READ, &[raddr(va, key), inline(8, 12)].concat()),
        V::MessageLength => {
            c.post(op::SEND, &data(&[(key, va, 1 << 30), (key, va, 1)]));
        }
        V::ReceiveLength => {
            c.node.post_recv(&mut c.a.qp, &[(key, va, 7)]);
            c.send(key, va);
        }
        V::KeyUnknown => c.send(key ^ 1, va),
        V::KeyFree => {
            let key = c.key(1, 4, &[(Key::Free, 1), (Key::Umr, 1)]);
            c.send(key, 0);
        }
        V::KeyDomain => {
            let pd = c.node.driver.alloc_pd();
            let key = c.key(0, 0, &[(Key::Pd, pd.into())]);
            c.send(key, 0);
        }
        V::KeyQueue => {
            let other = c.umr.qp.qpn;
            let key = c.key(0, 0, &[(Key::Qpn, other.into())]);
            c.send(key, 0);
        }
        V::KeyRights => {
            let key = c.key(0, 0, &[(Key::Read, 0)]);
            c.send(key, 0);
        }
        V::KeyBounds => c.send(key, va + 8185),
        V::KeyUnmapped => {
            // Room for translations, and none of them given.
            let key = c.key(2, 4, &[]);
            c.send(key, 0);
        }
        V::KeyDepth => {
            // The index of the next key is known: numbers are handed out in turn.
            let next = (c.key(0, 0, &[]) >> 8) + 1;
            let input = c
                .node
                .mkey(ALL, 2)
                .set(field!(create_mkey_in, memory_key_mkey_entry.len), 4096)
                .set(
                    field!(
                        create_mkey_in,
                        memory_key_mkey_entry.translations_octword_size
                    ),
                    1,
                )
                .set(field!(create_mkey_in, translations_octword_actual_size), 1)
                .list(&[4096u64 << 32 | u64::from(next << 8 | 0x5a), 0]);
            assert_eq!(c.node.driver.ok(input, 16).number(), next);
            c.send(next << 8 | 0x5a, 0);
        }
        V::KeyDma => {
            let key = c.node.pa_key();
            c.send(key, 1 << 60);
        }
        V::UmrShort => {
            let key = c.changeable(true);
            c.node.post(
                &mut c.umr.qp,
                op::UMR,
                CE,
                key,
                &umr(0, 0, FREE, &none)[..80],
            );
        }
        V::UmrInline => {
            let key = c.changeable(true);
            c.change(key, 0x80, 4, FREE, &none);
        }
        V::UmrList => {
            let changed = c.changeable(true);
            let mut segments = umr(0, 4, FREE, &none);
            segments.extend(data(&[(key, va, 63)]));
            c.node.post(&mut c.umr.qp, op::UMR, CE, changed, &segments);
        }
        V::UmrKey => c.change(0x00f0_0000, 0x80, 0, FREE, &none),
        V::UmrNoDomain => {
            let key = c.changeable(true);
            let context = context(|mkc| {
                mkc.set(field!(mkc, pd), 0xff_0000);
            });
            c.change(key, 0x80, 0, 1 << 7, &context);
        }
        V::UmrFlags => {
            let key = c.changeable(true);
            c.change(key, 0x81, 0, FREE, &none);
        }
        V::UmrMask => {
            let key = c.changeable(true);
            c.change(key, 0x80, 0, 1 << 63, &none);
        }
        V::UmrDisabled => c.change(key, 0x80, 0, FREE, &none),
        V::UmrVariant => {
            let key = c.changeable(true);
            c.change(key ^ 1, 0x80, 0, FREE, &none);
        }
        V::UmrDomain => {
            let pd = c.node.driver.alloc_pd();
            let fields = [(Key::Umr, 1), (Key::Free, 1), (Key::Pd, pd.into())];
            let key = c.key(1, 4, &fields);
            // On a queue that is not privileged.
            let segments = umr(0x80, 0, FREE, &none);
            c.node.post(&mut c.a.qp, op::UMR, CE, key, &segments);
        }
        V::UmrFree => {
            let key = c.changeable(true);
            c.change(key, 0xc0, 0, FREE, &none);
        }
        V::UmrNotFree => {
            let key = c.changeable(false);
            c.change(key, 0xa0, 0, FREE, &none);
        }
        V::UmrCapacity => {
            let changed = c.changeable(true);
            let mut segments = umr(0, 8, FREE, &none);
            segments.extend(data(&[(key, va, 128)]));
            c.node.post(&mut c.umr.qp, op::UMR, CE, changed, &segments);
        }
        V::UmrContext => {
            let key = c.changeable(true);
            let context = context(|mkc| {
                mkc.set(field!(mkc, start_addr), u64::MAX - 10)
                    .set(field!(mkc, len), 4096);
            });
            c.change(key, 0x80, 0, 1 | 1 << 6, &context);
        }
        V::UmrQueue => {
            let other = c.a.qp.qpn;
            let fields = [(Key::Umr, 1), (Key::Qpn, other.into())];
            let key = c.key(1, 4, &fields);
            c.change(key, 0x88, 0, FREE, &none);
        }
        V::Overposted => {
            let record = c.a.qp.record + 4;
            c.node.driver.machine.poke(record, &1000u32.to_be_bytes());
        }
        V::Unreadable => {
            let cq = c.a.cq.clone();
            let qp = c.node.qp_with(0, &cq, &cq, |input| {
                input.set(field!(create_qp_in, qpc.dbr_addr), 1 << 60)
            });
            c.node.move_init(&qp, &cq, &cq, 0);
            let (mac, gid) = (c.node.mac, c.node.gid);
            c.node.move_rtr(&qp, qp.qpn, mac, gid, Link::default());
            c.node.move_rts(&qp, Link::default());
            c.a.qp = qp;
        }
        V::RecordLags => {
            c.post(op::NOP, &[]);
            let record = c.a.qp.record + 4;
            c.node.driver.machine.poke(record, &0u32.to_be_bytes());
        }
        V::ForeignUar => {
            let own = c.node.uar;
            c.node.uar = c.node.driver.alloc_uar();
            let cq = c.a.cq.clone();
            // Doorbells go where the QP of this side thinks its UAR is.
            c.a.qp = c.node.qp_with(0, &cq, &cq, |input| {
                input.set(field!(create_qp_in, qpc.uar_page), own.into())
            });
        }
        V::ArmRecordLags => {
            let mut ahead = c.a.cq.clone();
            ahead.ci = 5;
            c.node.arm(&mut ahead, false);
            c.a.cq.ci = 9;
            // The record stays behind at 5.
            let mut data = 9u32.to_be_bytes().to_vec();
            data.extend(c.a.cq.cqn.to_be_bytes());
            let at = u64::from(c.node.uar) * 4096 + 0x20;
            c.node.driver.card.bar_write(at, &data);
            c.a.cq.ci = 0;
        }
        V::ArmForeignUar => {
            c.node.uar = c.node.driver.alloc_uar();
            let mut cq = c.a.cq.clone();
            c.node.arm(&mut cq, false);
        }
    }
}

#[test]
fn each_violation_has_the_effect_of_the_table() {
    const CATASTROPHE: u8 = 0x05;
    for &violation in V::ALL {
        let mut c = Culprit::new();
        commit(violation, &mut c);
        c.ring();
        c.node.advance(Duration::from_millis(1));
        let seen = c.failures();
        let events = c.node.take_events();
        let catastrophes = events.iter().filter(|event| event.kind == CATASTROPHE);
        match violation.effect() {
            Effect::Completion(syndrome) => {
                let expected = (syndrome.code(), violation as u8);
                assert!(seen.contains(&expected), "{violation:?}: {seen:x?}");
            }
            Effect::Catastrophe => {
                assert_eq!(catastrophes.count(), 1, "{violation:?}");
                assert_eq!(c.node.state(&c.a.qp), 6, "{violation:?}");
            }
            Effect::Counted(name) => {
                assert_eq!(c.counter(name), 1, "{violation:?}");
                assert_eq!((seen.len(), catastrophes.count()), (0, 0), "{violation:?}");
            }
        }
    }
}

#[test]
fn the_table_is_in_order_and_in_the_documentation() {
    let codes: Vec<u8> = V::ALL.iter().map(|violation| *violation as u8).collect();
    assert!(codes.windows(2).all(|two| two[0] < two[1]), "{codes:x?}");
    let page = include_str!("../../../../Documentation/emulator/rdma.md");
    for violation in V::ALL {
        let row = format!("| {:#04x} | {} |", *violation as u8, violation.text());
        assert!(page.contains(&row), "{row}");
    }
}

/// What the card is not asked to judge has number 0.
#[test]
fn flushed_requests_are_nobodys_violation() {
    let mut c = Culprit::new();
    c.send(c.mr.key ^ 1, c.mr.va);
    c.post(op::NOP, &[]);
    c.ring();
    let key = V::KeyUnknown as u8;
    assert_eq!(
        c.failures(),
        [(0x04, key), (raw::MLX5_CQE_SYNDROME_WR_FLUSH_ERR as u8, 0)]
    );
}
