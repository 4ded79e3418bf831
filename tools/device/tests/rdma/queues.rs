// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completion queues, shared receive queues and keys.

use super::{node::*, op, pair::*, pattern, CE, SE};
use device::scaffold::driver::Input;
use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw,
};
use std::time::Duration;

const COMPLETION: u8 = 0x00;
const SRQ_LIMIT: u8 = 0x14;
const LAST_WQE: u8 = 0x13;

/// Completion events of a CQ since the last look.
fn fired(node: &mut Node, cq: &Cq) -> usize {
    let events = node.take_events();
    let of_cq = events.iter().filter(|event| {
        let number: [u8; 4] = event.data[24..].try_into().unwrap();
        event.kind == COMPLETION && u32::from_be_bytes(number) == cq.cqn
    });
    of_cq.count()
}

/// A node with a QP that can complete NOPs at will.
fn nops() -> (Node, End) {
    let mut node = Node::new(1);
    let a = end(&mut node, 0);
    let (mac, gid) = (node.mac, node.gid);
    node.move_rtr(&a.qp, a.qp.qpn, mac, gid, Link::default());
    node.move_rts(&a.qp, Link::default());
    node.take_events();
    (node, a)
}

fn complete(node: &mut Node, a: &mut End) {
    node.post(&mut a.qp, op::NOP, CE, 0, &[]);
    node.doorbell(&a.qp);
}

#[test]
fn one_arm_gives_one_event() {
    let (mut node, mut a) = nops();
    complete(&mut node, &mut a);
    assert_eq!(fired(&mut node, &a.cq), 0, "not armed");
    node.poll(&mut a.cq).unwrap();
    node.arm(&mut a.cq, false);
    assert_eq!(fired(&mut node, &a.cq), 0, "nothing new");
    complete(&mut node, &mut a);
    complete(&mut node, &mut a);
    assert_eq!(fired(&mut node, &a.cq), 1);
    complete(&mut node, &mut a);
    assert_eq!(fired(&mut node, &a.cq), 0, "used up");
}

#[test]
fn arming_behind_a_completion_nobody_was_told_of_fires_at_once() {
    let (mut node, mut a) = nops();
    complete(&mut node, &mut a);
    node.arm(&mut a.cq, false);
    assert_eq!(fired(&mut node, &a.cq), 1);
    // The same sequence again: the event that answers it is out already.
    node.arm(&mut a.cq, false);
    assert_eq!(fired(&mut node, &a.cq), 0);
    // A new request before the completion is polled: the event told of it.
    a.cq.sequence = 1;
    node.arm(&mut a.cq, false);
    assert_eq!(fired(&mut node, &a.cq), 0);
    complete(&mut node, &mut a);
    assert_eq!(fired(&mut node, &a.cq), 1);
    complete(&mut node, &mut a);
    a.cq.sequence = 2;
    node.arm(&mut a.cq, false);
    assert_eq!(fired(&mut node, &a.cq), 1, "nobody was told of the third");
    let query = Input::<ifc::query_cq_in>::new(raw::MLX5_CMD_OP_QUERY_CQ)
        .set(field!(query_cq_in, cqn), a.cq.cqn.into());
    let reply = node.driver.ok(query, 16 + 256);
    let context = Ref::<ifc::query_cq_out>::new(&reply.output).unwrap();
    assert_eq!(
        [
            context.get32(field!(query_cq_out, cq_context.last_notified_index)),
            context.get32(field!(query_cq_out, cq_context.last_solicit_index)),
            context.get32(field!(query_cq_out, cq_context.consumer_counter)),
            context.get32(field!(query_cq_out, cq_context.producer_counter)),
        ],
        [3, 0, 0, 3]
    );
}

#[test]
fn solicited_arming_waits_for_solicited_or_failed() {
    let (mut node, mut a) = nops();
    let mr = node.mr(4096, ALL);
    let list = data(&[(mr.key, mr.va, 8)]);
    node.arm(&mut a.cq, true);
    for (flags, events) in [(CE, 0), (CE | SE, 1)] {
        node.post_recv(&mut a.qp, &[(mr.key, mr.va + 2048, 64)]);
        node.post(&mut a.qp, op::SEND, flags, 0, &list);
        node.doorbell(&a.qp);
        assert_eq!(fired(&mut node, &a.cq), events);
    }
    a.cq.sequence = 1;
    while node.poll(&mut a.cq).is_some() {}
    node.arm(&mut a.cq, true);
    node.move_err(&a.qp);
    complete(&mut node, &mut a);
    assert_eq!(fired(&mut node, &a.cq), 1, "an error counts as solicited");
}

#[test]
fn moderation_holds_events_back_by_count_and_time() {
    let (mut node, mut a) = nops();
    let modify = Input::<ifc::modify_cq_in>::new(raw::MLX5_CMD_OP_MODIFY_CQ)
        .set(field!(modify_cq_in, cqn), a.cq.cqn.into())
        .set(
            field!(
                modify_cq_in,
                modify_field_select_resize_field_select
                    .modify_field_select
                    .modify_field_select
            ),
            3,
        )
        .set(field!(modify_cq_in, cq_context.cq_period), 100)
        .set(field!(modify_cq_in, cq_context.cq_max_count), 4);
    node.driver.ok(modify, 16);
    node.advance(Duration::from_millis(1));
    // The first event comes at once: the last one is long ago.
    node.arm(&mut a.cq, false);
    complete(&mut node, &mut a);
    assert_eq!(fired(&mut node, &a.cq), 1);
    let rearm = |node: &mut Node, a: &mut End| {
        while node.poll(&mut a.cq).is_some() {}
        a.cq.sequence = (a.cq.sequence + 1) & 3;
        node.arm(&mut a.cq, false);
    };
    // By time.
    rearm(&mut node, &mut a);
    complete(&mut node, &mut a);
    assert_eq!(fired(&mut node, &a.cq), 0);
    let due = node.driver.card.next_deadline().unwrap();
    node.advance(Duration::from_micros(99));
    assert_eq!(fired(&mut node, &a.cq), 0);
    node.advance(Duration::from_micros(1));
    assert_eq!(fired(&mut node, &a.cq), 1);
    assert_eq!(due, Duration::from_millis(1) + Duration::from_micros(100));
    // By count.
    rearm(&mut node, &mut a);
    for expected in [0, 0, 0, 1] {
        complete(&mut node, &mut a);
        assert_eq!(fired(&mut node, &a.cq), expected);
    }
}

#[test]
fn a_resize_loses_nothing() {
    let (mut node, mut a) = nops();
    let mut seen = Vec::new();
    for (round, log) in [3u32, 9, 2, 7].into_iter().enumerate() {
        complete(&mut node, &mut a);
        complete(&mut node, &mut a);
        if round == 2 {
            // Two unconsumed and the resize entry do not fit two slots.
            assert_eq!(node.resize(&mut a.cq, 1).status, 0x40);
        }
        assert_eq!(node.resize(&mut a.cq, log).status, 0);
        complete(&mut node, &mut a);
        seen.extend(std::iter::from_fn(|| node.poll(&mut a.cq)).map(|wc| wc.counter));
    }
    assert_eq!(seen, (0..12).collect::<Vec<u16>>());
}

#[test]
fn a_wide_cq_has_its_completion_in_the_second_half() {
    let mut node = Node::new(1);
    let log = 4;
    let buffer = node.driver.machine.alloc(128 << log);
    let record = node.driver.machine.alloc(64);
    for slot in 0..1u64 << log {
        node.driver.machine.poke(buffer + slot * 128 + 127, &[0xf1]);
    }
    let events = node.events.eqn;
    let input = Input::<ifc::create_cq_in>::new(raw::MLX5_CMD_OP_CREATE_CQ)
        .set(field!(create_cq_in, cq_context.log_cq_size), log)
        .set(field!(create_cq_in, cq_context.cqe_sz), 1)
        .set(field!(create_cq_in, cq_context.uar_page), node.uar.into())
        .set(
            field!(create_cq_in, cq_context.c_eqn_or_apu_element),
            events.into(),
        )
        .set(field!(create_cq_in, cq_context.dbr_addr), record)
        .list(&[buffer]);
    let cqn = node.driver.ok(input, 16).number();
    let mut cq = node.cq(4);
    cq.cqn = cqn;
    let mut qp = node.qp(0, &cq, &cq);
    node.move_init(&qp, &cq, &cq, 0);
    node.move_err(&qp);
    node.post(&mut qp, op::NOP, CE, 0, &[]);
    node.doorbell(&qp);
    let entry = node.driver.machine.peek(buffer, 128);
    assert_eq!(entry[..64], [0; 64]);
    assert_eq!((entry[127], entry[64 + 0x37]), (0xd0, 0x05));
}

struct Srq {
    number: u32,
    buffer: u64,
    record: u64,
    posted: u16,
}

fn srq(node: &mut Node, log: u64) -> Srq {
    let buffer = node.driver.machine.alloc(32 << log);
    let record = node.driver.machine.alloc(64);
    // Links in the order 0, 3, 6, ... modulo the size: not the order of the indexes.
    for index in 0..1u64 << log {
        let next = (index + 3) % (1 << log);
        node.driver
            .machine
            .poke(buffer + 32 * index + 2, &(next as u16).to_be_bytes());
    }
    let input = Input::<ifc::create_rmp_in>::new(raw::MLX5_CMD_OP_CREATE_RMP)
        .set(field!(create_rmp_in, ctx.state), 1)
        .set(field!(create_rmp_in, ctx.wq.log_wq_sz), log)
        .set(field!(create_rmp_in, ctx.wq.log_wq_stride), 5)
        .set(field!(create_rmp_in, ctx.wq.pd), node.pd.into())
        .set(field!(create_rmp_in, ctx.wq.dbr_addr), record)
        .list(&[buffer]);
    let number = node.driver.ok(input, 16).number();
    Srq {
        number,
        buffer,
        record,
        posted: 0,
    }
}

impl Srq {
    fn post(&mut self, node: &Node, log: u64, segment: (u32, u64, u32)) {
        let index = u64::from(self.posted) * 3 % (1 << log);
        node.driver
            .machine
            .poke(self.buffer + 32 * index + 16, &data(&[segment]));
        self.posted += 1;
        let count = u32::from(self.posted).to_be_bytes();
        node.driver.machine.poke(self.record, &count);
    }
}

#[test]
fn a_shared_queue_follows_its_links_and_warns() {
    let mut pair = Pair::new();
    let mut a = end(&mut pair.a, 0);
    let mut shared = srq(&mut pair.b, 3);
    let mut cq = pair.b.cq(6);
    let number = shared.number;
    let b = pair.b.qp_with(0, &cq, &cq, |input| {
        input
            .set(field!(create_qp_in, qpc.rq_type), 1)
            .set(field!(create_qp_in, qpc.srqn_rmpn_xrqn), number.into())
            .set(field!(create_qp_in, qpc.log_rq_size), 4)
    });
    pair.b.move_init(&b, &cq, &cq, 0);
    let (mac_a, gid_a, mac_b, gid_b) = (pair.a.mac, pair.a.gid, pair.b.mac, pair.b.gid);
    pair.a.move_rtr(&a.qp, b.qpn, mac_b, gid_b, Link::default());
    pair.b.move_rtr(&b, a.qp.qpn, mac_a, gid_a, Link::default());
    pair.a.move_rts(&a.qp, Link::default());
    let sink = pair.b.mr(4096, ALL);
    let source = pair.a.mr(64, ALL);
    pair.a.fill(&source, &pattern(64, 5));
    for n in 0..5u64 {
        shared.post(&pair.b, 3, (sink.key, sink.va + 100 * n, 100));
    }
    let limit = Input::<ifc::modify_rmp_in>::new(raw::MLX5_CMD_OP_MODIFY_RMP)
        .set(field!(modify_rmp_in, rmp_state), 1)
        .set(field!(modify_rmp_in, rmpn), number.into())
        .set(field!(modify_rmp_in, bitmask.lwm), 1)
        .set(field!(modify_rmp_in, ctx.state), 1)
        .set(field!(modify_rmp_in, ctx.wq.lwm), 3);
    pair.b.driver.ok(limit, 16);
    pair.b.take_events();
    let mut limits = Vec::new();
    for n in 0..5 {
        pair.a.post(
            &mut a.qp,
            op::SEND,
            CE,
            0,
            &data(&[(source.key, source.va, 64)]),
        );
        pair.a.doorbell(&a.qp);
        pair.run();
        let wc = pair.b.poll(&mut cq).unwrap();
        assert_eq!(u64::from(wc.counter), n * 3 % 8, "index, not counter");
        let events = pair.b.take_events();
        limits.push(
            events
                .iter()
                .filter(|event| event.kind == SRQ_LIMIT)
                .count(),
        );
    }
    assert_eq!(limits, [0, 0, 1, 0, 0], "once, when fewer than 3 are left");
    let got = pair.b.bytes(&sink, 464);
    for n in 0..5 {
        assert_eq!(got[100 * n..100 * n + 64], pattern(64, 5));
    }
    pair.b.move_err(&b);
    let events = pair.b.take_events();
    assert!(events.iter().any(|event| event.kind == LAST_WQE));
}

/// UMR control and key context behind the control segment.
fn umr(flags: u8, octowords: u16, mask: u64, context: &[u8; 64]) -> Vec<u8> {
    let mut raw = vec![0; 48];
    raw[0] = flags;
    raw[4..6].copy_from_slice(&octowords.to_be_bytes());
    raw[8..16].copy_from_slice(&mask.to_be_bytes());
    raw.extend(context);
    raw
}

fn context(fill: impl FnOnce(&mut Mut<'_, ifc::mkc>)) -> [u8; 64] {
    let mut raw = [0; 64];
    fill(&mut Mut::new(&mut raw).unwrap());
    raw
}

/// A key in free state with room for translations, as mlx5_ib keeps them in its cache.
fn free_key(node: &mut Node, octowords: u64) -> u32 {
    let input = Input::<ifc::create_mkey_in>::new(raw::MLX5_CMD_OP_CREATE_MKEY)
        .set(field!(create_mkey_in, memory_key_mkey_entry.free), 1)
        .set(field!(create_mkey_in, memory_key_mkey_entry.umr_en), 1)
        .set(
            field!(create_mkey_in, memory_key_mkey_entry.access_mode_1_0),
            1,
        )
        .set(field!(create_mkey_in, memory_key_mkey_entry.qpn), 0xff_ffff)
        .set(field!(create_mkey_in, memory_key_mkey_entry.mkey_7_0), 0x11)
        .set(
            field!(
                create_mkey_in,
                memory_key_mkey_entry.translations_octword_size
            ),
            octowords,
        );
    node.driver.ok(input, 16).number() << 8 | 0x11
}

fn umr_qp(node: &mut Node) -> End {
    let cq = node.cq(7);
    let qp = node.qp_with(0xc, &cq, &cq, |input| {
        // mlx5_ib makes it without PD and without receive queue.
        input
            .set(field!(create_qp_in, qpc.pd), 0)
            .set(field!(create_qp_in, qpc.rq_type), 0)
    });
    node.move_init(&qp, &cq, &cq, 0);
    let link = Link {
        mtu: 5,
        mask: 0,
        ..Link::default()
    };
    let mac = node.mac;
    node.move_rtr(&qp, 0, mac, [0; 16], link);
    node.move_rts(&qp, link);
    End { cq, qp }
}

const REGISTER: u64 = 0x203e_20c3;
const DISABLE: u64 = 0x2000_0080;

#[test]
fn a_key_is_registered_and_disabled_as_mlx5_ib_does_it() {
    let mut pair = Pair::new();
    let mut u = umr_qp(&mut pair.b);
    let (mut a, _b) = connect(&mut pair, 0, Link::default());
    let local = pair.b.pa_key();
    let key = free_key(&mut pair.b, 1);
    let target = pair.b.driver.machine.alloc(8192);
    let list = pair.b.driver.machine.alloc(64);
    let pd = pair.b.pd;
    let source = pair.a.mr(4096, ALL);
    let bytes = pattern(3000, 7);
    pair.a.fill(&source, &bytes);
    let write = |pair: &mut Pair, a: &mut End, key: u32| -> u8 {
        let segments = [
            raddr(0x5000_0e00, key),
            data(&[(source.key, source.va, 3000)]),
        ]
        .concat();
        pair.a.post(&mut a.qp, op::WRITE, CE, 0, &segments);
        pair.a.doorbell(&a.qp);
        pair.run();
        pair.a.poll(&mut a.cq).unwrap().syndrome
    };
    // Two pages, the second first; 64 bytes of list although the key has room for 16.
    for (n, page) in [target + 4096, target].into_iter().enumerate() {
        pair.b
            .driver
            .machine
            .poke(list + 8 * n as u64, &(page | 3).to_be_bytes());
    }
    let new = context(|mkc| {
        mkc.set(field!(mkc, lr), 1)
            .set(field!(mkc, lw), 1)
            .set(field!(mkc, rw), 1)
            .set(field!(mkc, rr), 1)
            .set(field!(mkc, pd), pd.into())
            .set(field!(mkc, start_addr), 0x5000_0e00)
            .set(field!(mkc, len), 3000)
            .set(field!(mkc, log_page_size), 12)
            .set(field!(mkc, qpn), 0xff_ffff)
            .set(field!(mkc, mkey_7_0), 0x22);
    });
    let mut segments = umr(0x30, 4, REGISTER, &new);
    segments.extend(data(&[(local, list, 64)]));
    let key = key & !0xff | 0x22;
    pair.b.post(&mut u.qp, op::UMR, CE | 0x20, key, &segments);
    pair.b.doorbell(&u.qp);
    let wc = pair.b.poll(&mut u.cq).unwrap();
    assert_eq!((wc.syndrome, wc.wqe_opcode), (0, op::UMR));
    assert_eq!(write(&mut pair, &mut a, key), 0);
    let first = pair.b.driver.machine.peek(target + 4096 + 0xe00, 0x200);
    let second = pair.b.driver.machine.peek(target, 3000 - 0x200);
    assert_eq!([first, second].concat(), bytes);
    // Disabled: free again, and the write is refused.
    let off = context(|mkc| {
        mkc.set(field!(mkc, free), 1)
            .set(field!(mkc, pd), pd.into());
    });
    pair.b
        .post(&mut u.qp, op::UMR, CE, key, &umr(0x80, 0, DISABLE, &off));
    pair.b.doorbell(&u.qp);
    assert_eq!(pair.b.poll(&mut u.cq).unwrap().syndrome, 0);
    assert_eq!(write(&mut pair, &mut a, key), 0x13);
}

#[test]
fn a_register_request_on_an_enabled_key_fails_and_the_queue_recovers() {
    let mut node = Node::new(1);
    let mut u = umr_qp(&mut node);
    let mr = node.mr(4096, ALL);
    let off = context(|mkc| {
        mkc.set(field!(mkc, free), 1);
    });
    // The key was not made for UMR.
    node.post(&mut u.qp, op::UMR, CE, mr.key, &umr(0x80, 0, 1 << 29, &off));
    node.doorbell(&u.qp);
    assert_eq!(node.poll(&mut u.cq).unwrap().syndrome, 0x06);
    assert_eq!(node.state(&u.qp), 6);
    node.move_rst(&mut u.qp);
    let cq = u.cq.clone();
    node.move_init(&u.qp, &cq, &cq, 0);
    let mac = node.mac;
    let link = Link {
        mask: 0,
        ..Link::default()
    };
    node.move_rtr(&u.qp, 0, mac, [0; 16], link);
    node.move_rts(&u.qp, link);
    node.post(&mut u.qp, op::NOP, CE, 0, &[]);
    node.doorbell(&u.qp);
    assert_eq!(node.poll(&mut u.cq).unwrap().syndrome, 0);
}

#[test]
fn fast_registration_invalidation_and_its_remote_form() {
    let mut pair = Pair::new();
    let (mut a, mut b) = connect(&mut pair, 0, Link::default());
    let index = free_key(&mut pair.b, 4) >> 8;
    let target = pair.b.driver.machine.alloc(4096);
    let pd = pair.b.pd;
    // The PD comes with a request of the privileged queue.
    let mut u = umr_qp(&mut pair.b);
    let owned = context(|mkc| {
        mkc.set(field!(mkc, free), 1)
            .set(field!(mkc, pd), pd.into());
    });
    pair.b.post(
        &mut u.qp,
        op::UMR,
        CE,
        index << 8 | 0x11,
        &umr(0x80, 0, 1 << 7, &owned),
    );
    pair.b.doorbell(&u.qp);
    assert_eq!(pair.b.poll(&mut u.cq).unwrap().syndrome, 0);
    // REG_MR on an ordinary QP, list inline.
    let register = |pair: &mut Pair, b: &mut End, variant: u32| {
        let new = context(|mkc| {
            mkc.set(field!(mkc, lr), 1)
                .set(field!(mkc, lw), 1)
                .set(field!(mkc, rw), 1)
                .set(field!(mkc, umr_en), 1)
                .set(field!(mkc, en_rinval), 1)
                .set(field!(mkc, start_addr), 0x9000)
                .set(field!(mkc, len), 4096)
                .set(field!(mkc, log_page_size), 12)
                .set(field!(mkc, qpn), 0xff_ffff)
                .set(field!(mkc, mkey_7_0), variant.into());
        });
        let mask = 1 | 2 | 1 << 6 | 1 << 8 | 1 << 13 | 0xf << 17 | 1 << 23 | 1 << 29;
        let mut segments = umr(0xa0, 1, mask, &new);
        segments.extend((target | 3).to_be_bytes());
        segments.extend([0; 56]);
        pair.b
            .post(&mut b.qp, op::UMR, CE, index << 8 | variant, &segments);
        pair.b.doorbell(&b.qp);
        assert_eq!(pair.b.poll(&mut b.cq).unwrap().syndrome, 0);
        index << 8 | variant
    };
    let source = pair.a.mr(64, ALL);
    let sink = pair.b.mr(64, ALL);
    pair.a.fill(&source, b"fast");
    let key = register(&mut pair, &mut b, 0x33);
    let list = data(&[(source.key, source.va, 4)]);
    pair.a.post(
        &mut a.qp,
        op::WRITE,
        0,
        0,
        &[raddr(0x9100, key), list.clone()].concat(),
    );
    // SEND with invalidate: the receive names the key, and the key is gone.
    pair.b.post_recv(&mut b.qp, &[(sink.key, sink.va, 64)]);
    pair.a.post(&mut a.qp, op::SEND_INVAL, CE, key, &list);
    pair.a.doorbell(&a.qp);
    pair.run();
    assert_eq!(pair.a.poll(&mut a.cq).unwrap().syndrome, 0);
    let wc = pair.b.poll(&mut b.cq).unwrap();
    assert_eq!((wc.opcode, wc.imm), (4, key));
    assert_eq!(pair.b.driver.machine.peek(target + 0x100, 4), b"fast");
    // Again with another variant, then LOCAL_INV.
    let key = register(&mut pair, &mut b, 0x34);
    let off = context(|mkc| {
        mkc.set(field!(mkc, free), 1);
    });
    pair.b
        .post(&mut b.qp, op::UMR, CE, key, &umr(0x80, 0, 1 << 29, &off));
    pair.b.doorbell(&b.qp);
    assert_eq!(pair.b.poll(&mut b.cq).unwrap().syndrome, 0);
    pair.a.post(
        &mut a.qp,
        op::WRITE,
        CE,
        0,
        &[raddr(0x9100, key), list].concat(),
    );
    pair.a.doorbell(&a.qp);
    pair.run();
    assert_eq!(pair.a.poll(&mut a.cq).unwrap().syndrome, 0x13);
}

#[test]
fn an_indirect_key_joins_pieces_of_others() {
    let mut pair = Pair::new();
    let (mut a, _b) = connect(&mut pair, 0, Link::default());
    let local = pair.b.pa_key();
    let pages = pair.b.driver.machine.alloc(3 * 4096);
    let klm = |len: u32, at: u64| [u64::from(len) << 32 | u64::from(local), pages + at];
    let list = [klm(100, 8192), klm(0, 0), klm(1000, 5), klm(3000, 4096)].concat();
    let input = pair
        .b
        .mkey(ALL, 2)
        .set(
            field!(create_mkey_in, memory_key_mkey_entry.start_addr),
            0x777,
        )
        .set(field!(create_mkey_in, memory_key_mkey_entry.len), 4100)
        .set(
            field!(
                create_mkey_in,
                memory_key_mkey_entry.translations_octword_size
            ),
            4,
        )
        .set(field!(create_mkey_in, translations_octword_actual_size), 4)
        .list(&list);
    let key = pair.b.driver.ok(input, 16).number() << 8 | 0x5a;
    let source = pair.a.mr(4100, ALL);
    let bytes = pattern(4100, 2);
    pair.a.fill(&source, &bytes);
    let segments = [raddr(0x777, key), data(&[(source.key, source.va, 4100)])].concat();
    pair.a.post(&mut a.qp, op::WRITE, CE, 0, &segments);
    pair.a.doorbell(&a.qp);
    pair.run();
    assert_eq!(pair.a.poll(&mut a.cq).unwrap().syndrome, 0);
    let machine = &pair.b.driver.machine;
    let got = [
        machine.peek(pages + 8192, 100),
        machine.peek(pages + 5, 1000),
        machine.peek(pages + 4096, 3000),
    ]
    .concat();
    assert_eq!(got, bytes);
}

#[test]
fn a_key_that_points_to_itself_ends() {
    let mut pair = Pair::new();
    let (mut a, _b) = connect(&mut pair, 0, Link::default());
    // The index of the next key is known: numbers are handed out in turn.
    let next = (pair.b.pa_key() >> 8) + 1;
    let list = [4096u64 << 32 | u64::from(next << 8 | 0x5a), 0];
    let input = pair
        .b
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
        .list(&list);
    let index = pair.b.driver.ok(input, 16).number();
    assert_eq!(index, next);
    let source = pair.a.mr(64, ALL);
    let segments = [
        raddr(0, index << 8 | 0x5a),
        data(&[(source.key, source.va, 8)]),
    ]
    .concat();
    pair.a.post(&mut a.qp, op::WRITE, CE, 0, &segments);
    pair.a.doorbell(&a.qp);
    pair.run();
    assert_eq!(pair.a.poll(&mut a.cq).unwrap().syndrome, 0x13);
}

#[test]
fn keys_hold_their_domain_and_queues_their_cqs() {
    let mut node = Node::new(1);
    let mr = node.mr(64, ALL);
    let pd = Input::<ifc::dealloc_pd_in>::new(raw::MLX5_CMD_OP_DEALLOC_PD)
        .set(field!(dealloc_pd_in, pd), node.pd.into());
    assert_eq!(
        node.driver.refused(pd, 16).0,
        mlx5_hw::status::Status::ResBusy
    );
    let a = end(&mut node, 0);
    let cq = || {
        Input::<ifc::destroy_cq_in>::new(raw::MLX5_CMD_OP_DESTROY_CQ)
            .set(field!(destroy_cq_in, cqn), a.cq.cqn.into())
    };
    assert_eq!(
        node.driver.refused(cq(), 16).0,
        mlx5_hw::status::Status::ResBusy
    );
    let qp = Input::<ifc::destroy_qp_in>::new(raw::MLX5_CMD_OP_DESTROY_QP)
        .set(field!(destroy_qp_in, qpn), a.qp.qpn.into());
    node.driver.ok(qp, 16);
    node.driver.ok(cq(), 16);
    let key = Input::<ifc::destroy_mkey_in>::new(raw::MLX5_CMD_OP_DESTROY_MKEY)
        .set(field!(destroy_mkey_in, mkey_index), (mr.key >> 8).into());
    node.driver.ok(key, 16);
    let pd = Input::<ifc::dealloc_pd_in>::new(raw::MLX5_CMD_OP_DEALLOC_PD)
        .set(field!(dealloc_pd_in, pd), node.pd.into());
    node.driver.ok(pd, 16);
}

#[test]
fn transitions_out_of_order_are_refused() {
    let mut node = Node::new(1);
    let cq = node.cq(4);
    let qp = node.qp(0, &cq, &cq);
    let rtr = Input::<ifc::init2rtr_qp_in>::new(raw::MLX5_CMD_OP_INIT2RTR_QP)
        .set(field!(init2rtr_qp_in, qpn), qp.qpn.into());
    let status = node.driver.refused(rtr, 16).0;
    assert_eq!(status, mlx5_hw::status::Status::BadQpState);
    node.move_init(&qp, &cq, &cq, 0);
    // INIT2RTR with MTU 0, then with an address that is not set.
    for (mtu, index) in [(0, 0), (3, 9)] {
        let rtr = Input::<ifc::init2rtr_qp_in>::new(raw::MLX5_CMD_OP_INIT2RTR_QP)
            .set(field!(init2rtr_qp_in, qpn), qp.qpn.into())
            .set(field!(init2rtr_qp_in, qpc.mtu), mtu)
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.src_addr_index),
                index,
            );
        let status = node.driver.refused(rtr, 16).0;
        assert_eq!(status, mlx5_hw::status::Status::BadParam);
        assert_eq!(node.state(&qp), 1);
    }
}
