// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extended reliable connections: one connection, and each request says into which SRQ.

use super::{node::*, op, pair::*, pattern, CE};
use device::scaffold::driver::Input;
use mlx5_hw::{field, ifc, raw};

/// Service type of both ends.
const XRC: u64 = raw::MLX5_QP_ST_XRC as u64;

/// An XRC SRQ with its own CQ.
struct Srq {
    number: u32,
    cq: Cq,
    buffer: u64,
    record: u64,
    posted: u16,
}

fn xrcd(node: &mut Node) -> u32 {
    let input = Input::<ifc::alloc_xrcd_in>::new(raw::MLX5_CMD_OP_ALLOC_XRCD);
    node.driver.ok(input, 16).number()
}

fn srq(node: &mut Node, xrcd: u32, pd: u32, user_index: u64) -> Srq {
    let cq = node.cq(6);
    let machine = node.driver.machine.clone();
    let (buffer, record) = (machine.alloc(4096), machine.alloc(64));
    for index in 0..16u64 {
        let next = ((index + 1) % 16) as u16;
        machine.poke(buffer + 32 * index + 2, &next.to_be_bytes());
    }
    macro_rules! member {
        ($($name:ident)+) => { field!(create_xrc_srq_in, $(xrc_srq_context_entry.$name)+) };
    }
    let input = Input::<ifc::create_xrc_srq_in>::new(raw::MLX5_CMD_OP_CREATE_XRC_SRQ)
        .set(member!(log_xrc_srq_size), 4)
        .set(member!(log_rq_stride), 1)
        .set(member!(pd), pd.into())
        .set(member!(xrcd), xrcd.into())
        .set(member!(cqn), cq.cqn.into())
        .set(member!(user_index), user_index)
        .set(member!(db_record_addr_h), record >> 32)
        .set(member!(db_record_addr_l), (record & 0xffff_ffff) >> 2)
        .list(&[buffer]);
    let number = node.driver.ok(input, 16).number();
    Srq {
        number,
        cq,
        buffer,
        record,
        posted: 0,
    }
}

impl Srq {
    fn post(&mut self, node: &Node, segment: (u32, u64, u32)) {
        let at = self.buffer + 32 * u64::from(self.posted % 16) + 16;
        node.driver.machine.poke(at, &data(&[segment]));
        self.posted += 1;
        let count = u32::from(self.posted).to_be_bytes();
        node.driver.machine.poke(self.record, &count);
    }
}

/// A initiator on card a, a target on card b, connected.
fn connect(pair: &mut Pair, xrcd_b: u32, any_b: u32) -> (End, Qp) {
    let domain = xrcd(&mut pair.a);
    let pd = pair.a.pd;
    let any_a = srq(&mut pair.a, domain, pd, 0).number;
    let cq = pair.a.cq(7);
    let mut a = pair.a.qp_with(XRC, &cq, &cq, |input| {
        input
            .set(field!(create_qp_in, qpc.rq_type), 1)
            .set(field!(create_qp_in, qpc.log_rq_size), 0)
            .set(field!(create_qp_in, qpc.log_rq_stride), 0)
            .set(field!(create_qp_in, qpc.xrcd), domain.into())
            .set(field!(create_qp_in, qpc.srqn_rmpn_xrqn), any_a.into())
    });
    a.sq_start = 0;
    // As `create_xrc_tgt_qp` makes it: no pages, no doorbell page, no send queue.
    let unused = pair.b.cq(3);
    let b = pair.b.qp_with(XRC, &unused, &unused, |input| {
        let mut input = input
            .set(field!(create_qp_in, qpc.rq_type), 1)
            .set(field!(create_qp_in, qpc.no_sq), 1)
            .set(field!(create_qp_in, qpc.log_rq_size), 0)
            .set(field!(create_qp_in, qpc.log_rq_stride), 0)
            .set(field!(create_qp_in, qpc.log_sq_size), 0)
            .set(field!(create_qp_in, qpc.uar_page), 0)
            .set(field!(create_qp_in, qpc.xrcd), xrcd_b.into())
            .set(field!(create_qp_in, qpc.srqn_rmpn_xrqn), any_b.into());
        input
            .bytes
            .truncate(mlx5_hw::field::bytes_of::<ifc::create_qp_in>());
        input
    });
    pair.a.move_init(&a, &cq, &cq, 0);
    pair.b.move_init(&b, &unused, &unused, 0);
    let link = Link::default();
    let (mac_a, gid_a, mac_b, gid_b) = (pair.a.mac, pair.a.gid, pair.b.mac, pair.b.gid);
    pair.a.move_rtr(&a, b.qpn, mac_b, gid_b, link);
    pair.b.move_rtr(&b, a.qpn, mac_a, gid_a, link);
    pair.a.move_rts(&a, link);
    pair.b.move_rts(&b, link);
    (End { cq, qp: a }, b)
}

/// The XRC segment.
fn to(srqn: u32) -> Vec<u8> {
    let mut segment = srqn.to_be_bytes().to_vec();
    segment.resize(16, 0);
    segment
}

fn send(pair: &mut Pair, a: &mut End, opcode: u8, segments: &[Vec<u8>]) -> Wc {
    pair.a.post(&mut a.qp, opcode, CE, 0, &segments.concat());
    pair.a.doorbell(&a.qp);
    pair.run();
    pair.a.poll(&mut a.cq).expect("a completion")
}

#[test]
fn each_request_goes_to_the_queue_it_names() {
    let mut pair = Pair::new();
    let domain = xrcd(&mut pair.b);
    let pd = pair.b.pd;
    let mut first = srq(&mut pair.b, domain, pd, 0x77);
    let mut second = srq(&mut pair.b, domain, pd, 0xff_ffff);
    let (mut a, b) = connect(&mut pair, domain, first.number);
    let (source, sink) = (pair.a.mr(8192, ALL), pair.b.mr(8192, ALL));
    pair.a.fill(&source, &pattern(3000, 9));
    let gather = data(&[(source.key, source.va, 3000)]);

    for (srq, user_index) in [(&mut first, 0x77), (&mut second, 0)] {
        pair.b.fill(&sink, &vec![0; 3000]);
        srq.post(&pair.b, (sink.key, sink.va, 8192));
        let wc = send(
            &mut pair,
            &mut a,
            op::SEND,
            &[to(srq.number), gather.clone()],
        );
        assert_eq!(wc.syndrome, 0);
        let slot = u64::from(srq.cq.ci);
        let got = pair.b.poll(&mut srq.cq).expect("a receive");
        assert_eq!((got.opcode, got.bytes, got.qpn), (2, 3000, b.qpn));
        assert_eq!(pair.b.bytes(&sink, 3000), pattern(3000, 9));
        // Version 1 of CQEs has the user index there, version 0 the number of the SRQ.
        let expected = if user_index == 0 {
            srq.number
        } else {
            user_index
        };
        assert_eq!(pair.b.completion_word(&srq.cq, slot, 0x20), expected);
    }
}

#[test]
fn one_sided_operations_use_the_domain_of_the_queue() {
    let mut pair = Pair::new();
    let domain = xrcd(&mut pair.b);
    let other = pair.b.driver.alloc_pd();
    let own = pair.b.pd;
    let queue = srq(&mut pair.b, domain, own, 0);
    let foreign = srq(&mut pair.b, domain, other, 0);
    let (mut a, _) = connect(&mut pair, domain, queue.number);
    let (source, sink) = (pair.a.mr(8192, ALL), pair.b.mr(8192, ALL));
    pair.a.fill(&source, &pattern(5000, 3));
    let remote = raddr(sink.va, sink.key);
    let gather = data(&[(source.key, source.va, 5000)]);

    let to_queue = to(queue.number);
    let write = [to_queue.clone(), remote.clone(), gather.clone()];
    assert_eq!(send(&mut pair, &mut a, op::WRITE, &write).syndrome, 0);
    assert_eq!(pair.b.bytes(&sink, 5000), pattern(5000, 3));
    pair.a.fill(&source, &vec![0; 5000]);
    let read = [to_queue.clone(), remote.clone(), gather.clone()];
    assert_eq!(send(&mut pair, &mut a, op::READ, &read).syndrome, 0);
    assert_eq!(pair.a.bytes(&source, 5000), pattern(5000, 3));
    let mut add = 5u64.to_be_bytes().to_vec();
    add.resize(16, 0);
    // Aligned: the key begins at an odd address.
    let aligned = sink.va.next_multiple_of(8);
    let atomic = [
        to_queue,
        raddr(aligned, sink.key),
        add,
        data(&[(source.key, source.va, 8)]),
    ];
    assert_eq!(send(&mut pair, &mut a, op::FETCH_ADD, &atomic).syndrome, 0);

    // The same key through a queue of another domain.
    let stranger = [to(foreign.number), remote, gather];
    let wc = send(&mut pair, &mut a, op::WRITE, &stranger);
    assert_eq!(wc.syndrome, 0x13, "remote access error");
}

#[test]
fn a_queue_of_another_xrc_domain_or_none_is_refused() {
    for missing in [false, true] {
        let mut pair = Pair::new();
        let (domain, other) = (xrcd(&mut pair.b), xrcd(&mut pair.b));
        let pd = pair.b.pd;
        let own = srq(&mut pair.b, domain, pd, 0);
        let foreign = srq(&mut pair.b, other, pd, 0);
        let (mut a, b) = connect(&mut pair, domain, own.number);
        let source = pair.a.mr(64, ALL);
        let gather = data(&[(source.key, source.va, 8)]);
        let number = if missing { 0x12_3456 } else { foreign.number };

        let wc = send(&mut pair, &mut a, op::SEND, &[to(number), gather]);

        assert_eq!(wc.syndrome, 0x12, "remote invalid request");
        assert_eq!(pair.b.state(&b), 6, "the target is in ERROR");
    }
}
