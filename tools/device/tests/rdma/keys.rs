// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory keys that work requests change, and keys made of others.

use super::{node::*, op, pair::*, pattern, umr::*, CE};
use device::scaffold::driver::Input;
use mlx5_hw::{field, ifc, raw};

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
