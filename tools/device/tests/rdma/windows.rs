// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory windows as mlx5_ib allocates them and libmlx5 binds them (`set_bind_wr` in
//! providers/mlx5/qp.c).

use super::{node::*, op, pair::*, pattern, umr::*, CE};
use device::scaffold::driver::Input;
use mlx5_hw::{field, ifc, raw};

const INLINE: u8 = 0x80;
const MUST_BE_FREE: u8 = 0x20;
const OFFSET: u8 = 0x10;
const CHECK_QPN: u8 = 0x08;

const FREE: u64 = raw::MLX5_MKEY_MASK_FREE;
const KEY: u64 = raw::MLX5_MKEY_MASK_KEY;
const QPN: u64 = raw::MLX5_MKEY_MASK_QPN;
const RANGE: u64 = raw::MLX5_MKEY_MASK_LEN | raw::MLX5_MKEY_MASK_START_ADDR;
const RIGHTS: u64 = raw::MLX5_MKEY_MASK_LW
    | raw::MLX5_MKEY_MASK_RR
    | raw::MLX5_MKEY_MASK_RW
    | raw::MLX5_MKEY_MASK_A;

const BIND_ERROR: u8 = 0x06;
const REMOTE_ACCESS: u8 = 0x13;
const REMOTE_OPERATION: u8 = 0x14;

/// A window: its key now.
#[derive(Clone, Copy)]
struct Window {
    key: u32,
    second: bool,
}

/// `mlx5_ib_alloc_mw`.
fn allocate(node: &mut Node, second: bool) -> Window {
    macro_rules! member {
        ($($name:ident)+) => { field!(create_mkey_in, $(memory_key_mkey_entry.$name)+) };
    }
    let input = Input::<ifc::create_mkey_in>::new(raw::MLX5_CMD_OP_CREATE_MKEY)
        .set(member!(free), 1)
        .set(member!(translations_octword_size), 4)
        .set(member!(pd), node.pd.into())
        .set(member!(umr_en), 1)
        .set(member!(lr), 1)
        .set(member!(access_mode_1_0), 2)
        .set(member!(en_rinval), second.into())
        .set(member!(qpn), 0xff_ffff)
        .set(member!(mkey_7_0), 0x40);
    Window {
        key: node.driver.ok(input, 16).number() << 8 | 0x40,
        second,
    }
}

/// Binds to part of `mr` for remote writes; the syndrome. The key gets a new variant when it works.
fn bind(node: &mut Node, end: &mut End, window: &mut Window, mr: &Mr, at: u64, len: u64) -> u8 {
    let new = window.key & !0xff | (window.key + 1) & 0xff;
    let (second, qpn) = (window.second, end.qp.qpn);
    let mask = FREE | KEY | RANGE | RIGHTS | if second { QPN } else { 0 };
    let flags = OFFSET | INLINE | if second { MUST_BE_FREE } else { 0 };
    let mut segments = umr(
        flags,
        4,
        mask,
        &context(|mkc| {
            mkc.set(field!(mkc, rw), 1)
                .set(
                    field!(mkc, qpn),
                    if second { qpn.into() } else { 0xff_ffff },
                )
                .set(field!(mkc, mkey_7_0), (new & 0xff).into())
                .set(field!(mkc, start_addr), mr.va + at)
                .set(field!(mkc, len), len);
        }),
    );
    segments.extend(data(&[(mr.key, mr.va + at, len as u32)]));
    segments.resize(48 + 64 + 64, 0);
    node.post(&mut end.qp, op::UMR, CE, window.key, &segments);
    node.doorbell(&end.qp);
    let syndrome = node.poll(&mut end.cq).unwrap().syndrome;
    if syndrome == 0 {
        window.key = new;
    }
    syndrome
}

/// `IBV_WR_LOCAL_INV`; the syndrome.
fn invalidate(node: &mut Node, end: &mut End, window: Window) -> u8 {
    let flags = OFFSET | INLINE | CHECK_QPN;
    let segments = umr(
        flags,
        0,
        FREE | KEY | QPN,
        &context(|mkc| {
            mkc.set(field!(mkc, free), 1)
                .set(field!(mkc, qpn), 0xff_ffff);
        }),
    );
    node.post(&mut end.qp, op::UMR, CE, window.key, &segments);
    node.doorbell(&end.qp);
    node.poll(&mut end.cq).unwrap().syndrome
}

/// A WRITE of `len` bytes at `va`; the syndrome.
fn write(pair: &mut Pair, a: &mut End, key: u32, va: u64, source: &Mr, len: u32) -> u8 {
    let segments = [raddr(va, key), data(&[(source.key, source.va, len)])].concat();
    pair.a.post(&mut a.qp, op::WRITE, CE, 0, &segments);
    pair.a.doorbell(&a.qp);
    pair.run();
    pair.a.poll(&mut a.cq).unwrap().syndrome
}

struct Setup {
    pair: Pair,
    a: End,
    b: End,
    source: Mr,
    sink: Mr,
}

fn setup() -> Setup {
    let mut pair = Pair::new();
    let (a, b) = connect(&mut pair, 0, Link::default());
    let source = pair.a.mr(4096, ALL);
    let sink = pair.b.mr(8192, LOCAL);
    pair.a.fill(&source, &pattern(4096, 9));
    Setup {
        pair,
        a,
        b,
        source,
        sink,
    }
}

#[test]
fn a_window_of_type_1_opens_its_range_until_it_is_unbound() {
    let Setup {
        mut pair,
        mut a,
        mut b,
        source,
        sink,
    } = setup();
    let mut window = allocate(&mut pair.b, false);
    assert_eq!(bind(&mut pair.b, &mut b, &mut window, &sink, 1000, 5000), 0);
    let at = sink.va + 1000;
    assert_eq!(
        write(&mut pair, &mut a, window.key, at + 904, &source, 4096),
        0
    );
    assert_eq!(pair.b.bytes(&sink, 6000)[1904..], pattern(4096, 9));
    // Bound again, elsewhere: it need not be free.
    let before = window.key;
    assert_eq!(bind(&mut pair.b, &mut b, &mut window, &sink, 0, 100), 0);
    assert_ne!(before, window.key);
    assert_eq!(
        write(&mut pair, &mut a, window.key, sink.va, &source, 100),
        0
    );
    // Unbound: a bind of length 0.
    let segments = umr(
        OFFSET | INLINE,
        0,
        FREE | KEY,
        &context(|mkc| {
            mkc.set(field!(mkc, free), 1)
                .set(field!(mkc, mkey_7_0), (window.key & 0xff).into())
                .set(field!(mkc, qpn), 0xff_ffff);
        }),
    );
    pair.b.post(&mut b.qp, op::UMR, CE, window.key, &segments);
    pair.b.doorbell(&b.qp);
    assert_eq!(pair.b.poll(&mut b.cq).unwrap().syndrome, 0);
    let syndrome = write(&mut pair, &mut a, window.key, sink.va, &source, 8);
    assert_eq!(syndrome, REMOTE_ACCESS);
}

#[test]
fn a_window_is_no_wider_than_it_was_bound() {
    for (offset, len) in [(999, 8), (1000 + 4993, 8), (0, 8)] {
        let mut s = setup();
        let mut window = allocate(&mut s.pair.b, false);
        let (b, sink) = (&mut s.b, &s.sink);
        assert_eq!(bind(&mut s.pair.b, b, &mut window, sink, 1000, 5000), 0);
        let va = sink.va + offset;
        let syndrome = write(&mut s.pair, &mut s.a, window.key, va, &s.source, len);
        assert_eq!(syndrome, REMOTE_ACCESS, "{offset}");
    }
}

#[test]
fn a_bind_does_not_widen_the_key_behind_it() {
    // Beyond its end, and a key that may not be written.
    for (at, rights) in [(8000, LOCAL), (0, 0)] {
        let mut s = setup();
        let behind = s.pair.b.mr(8192, rights);
        let mut window = allocate(&mut s.pair.b, false);
        assert_eq!(
            bind(&mut s.pair.b, &mut s.b, &mut window, &behind, at, 1000),
            0
        );
        let va = behind.va + at;
        let syndrome = write(&mut s.pair, &mut s.a, window.key, va, &s.source, 1000);
        assert_eq!(syndrome, REMOTE_ACCESS, "{at}");
    }
}

#[test]
fn a_window_of_type_2_belongs_to_its_qp_and_is_bound_when_free() {
    let Setup {
        mut pair,
        mut a,
        mut b,
        source,
        sink,
    } = setup();
    let mut window = allocate(&mut pair.b, true);
    assert_eq!(bind(&mut pair.b, &mut b, &mut window, &sink, 0, 4096), 0);
    assert_eq!(
        write(&mut pair, &mut a, window.key, sink.va, &source, 64),
        0
    );
    // Through another connection.
    let (mut other_a, mut other_b) = connect(&mut pair, 0, Link::default());
    let syndrome = write(&mut pair, &mut other_a, window.key, sink.va, &source, 64);
    assert_eq!(syndrome, REMOTE_ACCESS);
    // Invalidated by its own QP, not by another one; bound again only then.
    let (_, mut third) = connect(&mut pair, 0, Link::default());
    assert_eq!(invalidate(&mut pair.b, &mut third, window), BIND_ERROR);
    let mut again = window;
    let syndrome = bind(&mut pair.b, &mut b, &mut again, &sink, 0, 4096);
    assert_eq!(syndrome, BIND_ERROR, "it is bound");
    assert_eq!(pair.b.poll(&mut other_b.cq), None);
    let (mut a, mut b) = connect(&mut pair, 0, Link::default());
    let mut window = allocate(&mut pair.b, true);
    assert_eq!(bind(&mut pair.b, &mut b, &mut window, &sink, 0, 4096), 0);
    assert_eq!(invalidate(&mut pair.b, &mut b, window), 0);
    assert_eq!(bind(&mut pair.b, &mut b, &mut window, &sink, 100, 100), 0);
    let va = sink.va + 100;
    assert_eq!(write(&mut pair, &mut a, window.key, va, &source, 100), 0);
    assert_eq!(invalidate(&mut pair.b, &mut b, window), 0);
    let syndrome = write(&mut pair, &mut a, window.key, va, &source, 100);
    assert_eq!(syndrome, REMOTE_ACCESS);
}

#[test]
fn the_other_side_invalidates_a_window_of_type_2_only_through_its_qp() {
    for (second, own, expected) in [
        (true, true, 0),
        (true, false, REMOTE_OPERATION),
        (false, true, REMOTE_OPERATION),
    ] {
        let mut s = setup();
        let (mut other_a, mut other_b) = connect(&mut s.pair, 0, Link::default());
        let mut window = allocate(&mut s.pair.b, second);
        assert_eq!(
            bind(&mut s.pair.b, &mut s.b, &mut window, &s.sink, 0, 4096),
            0
        );
        let (a, b) = if own {
            (&mut s.a, &mut s.b)
        } else {
            (&mut other_a, &mut other_b)
        };
        s.pair
            .b
            .post_recv(&mut b.qp, &[(s.sink.key, s.sink.va, 64)]);
        let list = data(&[(s.source.key, s.source.va, 4)]);
        s.pair
            .a
            .post(&mut a.qp, op::SEND_INVAL, CE, window.key, &list);
        s.pair.a.doorbell(&a.qp);
        s.pair.run();
        assert_eq!(s.pair.a.poll(&mut a.cq).unwrap().syndrome, expected);
        if expected == 0 {
            let wc = s.pair.b.poll(&mut b.cq).unwrap();
            assert_eq!((wc.opcode, wc.imm), (4, window.key));
            let (va, key) = (s.sink.va, window.key);
            let syndrome = write(&mut s.pair, a, key, va, &s.source, 4);
            assert_eq!(syndrome, REMOTE_ACCESS);
        }
    }
}

#[test]
fn a_window_of_another_domain_stays_as_it_is() {
    let mut s = setup();
    let own = s.pair.b.pd;
    s.pair.b.pd = s.pair.b.driver.alloc_pd();
    let mut window = allocate(&mut s.pair.b, false);
    s.pair.b.pd = own;
    let syndrome = bind(&mut s.pair.b, &mut s.b, &mut window, &s.sink, 0, 64);
    assert_eq!(syndrome, BIND_ERROR);
}

/// XRC and UC queues bind too; libmlx5 leaves out the XRC segment then.
#[test]
fn every_connected_queue_binds() {
    for st in [raw::MLX5_QP_ST_UC, raw::MLX5_QP_ST_XRC] {
        let mut node = Node::new(1);
        let cq = node.cq(7);
        let xrcd = Input::<ifc::alloc_xrcd_in>::new(raw::MLX5_CMD_OP_ALLOC_XRCD);
        let xrcd = node.driver.ok(xrcd, 16).number();
        let mut qp = node.qp_with(st as u64, &cq, &cq, |input| {
            if st != raw::MLX5_QP_ST_XRC {
                return input;
            }
            input
                .set(field!(create_qp_in, qpc.xrcd), xrcd.into())
                .set(field!(create_qp_in, qpc.rq_type), 3)
                .set(field!(create_qp_in, qpc.log_rq_size), 0)
                .set(field!(create_qp_in, qpc.log_rq_stride), 0)
        });
        if st == raw::MLX5_QP_ST_XRC {
            qp.sq_start = 0;
        }
        node.move_init(&qp, &cq, &cq, 0);
        let (mac, gid) = (node.mac, node.gid);
        let link = Link {
            mask: if st == raw::MLX5_QP_ST_UC { 0x8 } else { 0xe },
            ..Link::default()
        };
        node.move_rtr(&qp, qp.qpn, mac, gid, link);
        node.move_rts(&qp, link);
        let mut end = End { cq, qp };
        let mr = node.mr(4096, LOCAL);
        let mut window = allocate(&mut node, true);
        assert_eq!(bind(&mut node, &mut end, &mut window, &mr, 0, 64), 0);
        assert_eq!(invalidate(&mut node, &mut end, window), 0);
    }
}
