// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completion queues and shared receive queues.

use super::{node::*, op, pair::*, pattern, CE, SE};
use device::scaffold::driver::Input;
use mlx5_hw::{field, field::Ref, ifc, raw, status::Status};
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
fn a_query_tells_receives_posted_and_used() {
    let (mut node, mut a) = nops();
    let mr = node.mr(4096, ALL);
    for _ in 0..3 {
        node.post_recv(&mut a.qp, &[(mr.key, mr.va + 2048, 64)]);
    }
    let list = data(&[(mr.key, mr.va, 8)]);
    node.post(&mut a.qp, op::SEND, CE, 0, &list);
    node.doorbell(&a.qp);
    let query = Input::<ifc::query_qp_in>::new(raw::MLX5_CMD_OP_QUERY_QP)
        .set(field!(query_qp_in, qpn), a.qp.qpn.into());
    let out = mlx5_hw::field::bytes_of::<ifc::query_qp_out>();
    let reply = node.driver.ok(query, out);
    let context = Ref::<ifc::query_qp_out>::new(&reply.output).unwrap();
    let posted = context.get32(field!(query_qp_out, qpc.sw_rq_counter));
    let used = context.get32(field!(query_qp_out, qpc.hw_rq_counter));
    assert_eq!((posted, used), (3, 1));
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

/// Four completions or 100 us, in this mode; `fields` says what of it counts.
fn moderation(a: &End, fields: u64, mode: u64) -> Input<ifc::modify_cq_in> {
    Input::new(raw::MLX5_CMD_OP_MODIFY_CQ)
        .set(field!(modify_cq_in, cqn), a.cq.cqn.into())
        .set(
            field!(
                modify_cq_in,
                modify_field_select_resize_field_select
                    .modify_field_select
                    .modify_field_select
            ),
            fields,
        )
        .set(field!(modify_cq_in, cq_context.cq_period), 100)
        .set(field!(modify_cq_in, cq_context.cq_max_count), 4)
        .set(field!(modify_cq_in, cq_context.cq_period_mode), mode)
}

#[test]
fn the_period_starts_with_the_event_or_with_the_completion() {
    const MODE: u64 = 1 << 4;
    for (fields, mode, at_once) in [(3, 1, 1), (MODE | 3, 0, 1), (MODE | 3, 1, 0)] {
        let (mut node, mut a) = nops();
        node.driver.ok(moderation(&a, fields, mode), 16);
        node.advance(Duration::from_millis(1));
        node.arm(&mut a.cq, false);
        complete(&mut node, &mut a);
        assert_eq!(fired(&mut node, &a.cq), at_once, "{fields:#x} {mode}");
        node.advance(Duration::from_micros(100));
        assert_eq!(fired(&mut node, &a.cq), 1 - at_once, "{fields:#x} {mode}");
        for mode in [2, 3] {
            let reserved = node.driver.refused(moderation(&a, MODE, mode), 16);
            assert_eq!(reserved, (Status::BadParam, 7));
        }
    }
}

#[test]
fn moderation_holds_events_back_by_count_and_time() {
    let (mut node, mut a) = nops();
    node.driver.ok(moderation(&a, 3, 0), 16);
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
