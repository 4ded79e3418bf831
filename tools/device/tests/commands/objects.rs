// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds whom (RES_BUSY), and how many there may be (LIM).

use crate::{
    good::good,
    world::{request, Request, World},
};
use device::cmd::Needs;
use mlx5_hw::status::Status;

/// While what `maker` makes lives, the object that its field names cannot be freed.
struct Hold {
    maker: &'static str,
    field: &'static str,
    free: &'static str,
    number: &'static str,
    /// How the maker's own object is freed.
    unmake: &'static str,
    made: &'static str,
}

const fn hold(
    maker: &'static str,
    field: &'static str,
    (free, number): (&'static str, &'static str),
    (unmake, made): (&'static str, &'static str),
) -> Hold {
    Hold {
        maker,
        field,
        free,
        number,
        unmake,
        made,
    }
}

const UAR: (&str, &str) = ("DEALLOC_UAR", "uar");
const PD: (&str, &str) = ("DEALLOC_PD", "pd");
const XRCD: (&str, &str) = ("DEALLOC_XRCD", "xrcd");
const DOMAIN: (&str, &str) = ("DEALLOC_TRANSPORT_DOMAIN", "transport_domain");
const EQ: (&str, &str) = ("DESTROY_EQ", "eq_number");
const CQ: (&str, &str) = ("DESTROY_CQ", "cqn");
const MKEY: (&str, &str) = ("DESTROY_MKEY", "mkey_index");
const QP: (&str, &str) = ("DESTROY_QP", "qpn");
const SRQ: (&str, &str) = ("DESTROY_SRQ", "srqn");
const XRC_SRQ: (&str, &str) = ("DESTROY_XRC_SRQ", "xrc_srqn");
const RMP: (&str, &str) = ("DESTROY_RMP", "rmpn");
const TIS: (&str, &str) = ("DESTROY_TIS", "tisn");
const TIR: (&str, &str) = ("DESTROY_TIR", "tirn");
const SQ: (&str, &str) = ("DESTROY_SQ", "sqn");
const RQ: (&str, &str) = ("DESTROY_RQ", "rqn");

const HOLDS: &[Hold] = &[
    hold("CREATE_EQ", "eq_context_entry.uar_page", UAR, EQ),
    hold("CREATE_CQ", "cq_context.uar_page", UAR, CQ),
    hold("CREATE_CQ", "cq_context.c_eqn_or_apu_element", EQ, CQ),
    hold("CREATE_MKEY", "memory_key_mkey_entry.pd", PD, MKEY),
    hold("CREATE_QP", "qpc.pd", PD, QP),
    hold("CREATE_QP", "qpc.uar_page", UAR, QP),
    hold("CREATE_QP", "qpc.cqn_snd", CQ, QP),
    hold("CREATE_QP", "qpc.cqn_rcv", CQ, QP),
    hold("CREATE_SRQ", "srq_context_entry.pd", PD, SRQ),
    hold("CREATE_XRC_SRQ", "xrc_srq_context_entry.pd", PD, XRC_SRQ),
    hold(
        "CREATE_XRC_SRQ",
        "xrc_srq_context_entry.xrcd",
        XRCD,
        XRC_SRQ,
    ),
    hold("CREATE_XRC_SRQ", "xrc_srq_context_entry.cqn", CQ, XRC_SRQ),
    hold("CREATE_RMP", "ctx.wq.pd", PD, RMP),
    hold("CREATE_TIS", "ctx.transport_domain", DOMAIN, TIS),
    hold("CREATE_TIR", "ctx.transport_domain", DOMAIN, TIR),
    hold("CREATE_TIR", "ctx.inline_rqn", RQ, TIR),
    hold("CREATE_SQ", "ctx.cqn", CQ, SQ),
    hold("CREATE_SQ", "ctx.tis_num_0", TIS, SQ),
    hold("CREATE_SQ", "ctx.wq.pd", PD, SQ),
    hold("CREATE_SQ", "ctx.wq.uar_page", UAR, SQ),
    hold("CREATE_RQ", "ctx.cqn", CQ, RQ),
    hold("CREATE_RQ", "ctx.wq.pd", PD, RQ),
];

fn must(w: &mut World, request: &Request) -> u64 {
    let (status, code, answer) = w.run(request);
    let name = request.entry.name;
    assert_eq!(status, Status::Ok, "{name}: {code:#x}: {}", w.last());
    answer.number().into()
}

#[test]
fn what_is_used_is_busy_and_free_afterwards() {
    for hold in HOLDS {
        let mut w = World::at(Needs::Init);
        let make = good(&mut w, hold.maker).expect("a recipe");
        let made = must(&mut w, &make);
        let free = request(hold.free).set(hold.number, make.get(hold.field));
        let (status, ..) = w.run(&free);
        assert_eq!(status, Status::ResBusy, "{} {}", hold.maker, hold.field);
        must(&mut w, &request(hold.unmake).set(hold.made, made));
        must(&mut w, &free);
    }
}

/// The list behind SET_FLOW_TABLE_ENTRY and CREATE_RQT is no field.
#[test]
fn what_a_list_names_is_busy_too() {
    let mut w = World::at(Needs::Init);
    let set = good(&mut w, "SET_FLOW_TABLE_ENTRY").expect("a recipe");
    must(&mut w, &set);
    let number = |at: usize| {
        let raw = &set.bytes[set.bytes.len() - at..][..4];
        raw.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)) & 0xff_ffff
    };
    let (table, group) = (set.get("table_id"), set.get("flow_context.group_id"));
    let frees = [
        request("DEALLOC_FLOW_COUNTER").set("flow_counter_id", number(8)),
        request("DESTROY_TIR").set("tirn", number(16)),
        request("DESTROY_FLOW_GROUP")
            .set("table_id", table)
            .set("group_id", group),
        request("DESTROY_FLOW_TABLE").set("table_id", table),
    ];
    for free in &frees {
        assert_eq!(w.run(free).0, Status::ResBusy, "{}", free.entry.name);
    }
    let delete = request("DELETE_FLOW_TABLE_ENTRY").set("table_id", table);
    must(&mut w, &delete.set("flow_index", set.get("flow_index")));
    for free in &frees {
        must(&mut w, free);
    }

    let table = good(&mut w, "CREATE_RQT").expect("a recipe");
    let rqtn = must(&mut w, &table);
    let rqn = &table.bytes[table.bytes.len() - 4..];
    let rqn = rqn.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
    let free = request("DESTROY_RQ").set("rqn", rqn);
    assert_eq!(w.run(&free).0, Status::ResBusy);
    must(&mut w, &request("DESTROY_RQT").set("rqtn", rqtn));
    must(&mut w, &free);
}

/// Commands that make something, and the capability that says how much of it: `1 << 3`, or 8.
const LIMITS: &[(&str, &str, u64)] = &[
    ("ALLOC_PD", "log_max_pd", 3),
    ("ALLOC_XRCD", "log_max_xrcd", 3),
    ("ALLOC_TRANSPORT_DOMAIN", "log_max_transport_domain", 3),
    ("ALLOC_Q_COUNTER", "max_qp_cnt", 8),
    ("ALLOC_FLOW_COUNTER", "max_flow_counter_15_0", 8),
    ("CREATE_EQ", "max_num_eqs", 8),
    ("CREATE_CQ", "log_max_cq", 3),
    ("CREATE_MKEY", "log_max_mkey", 3),
    ("CREATE_QP", "log_max_qp", 3),
    ("CREATE_SRQ", "log_max_srq", 3),
    ("CREATE_XRC_SRQ", "log_max_srq", 3),
    ("CREATE_RMP", "log_max_srq", 3),
    ("CREATE_TIS", "log_max_tis", 3),
    ("CREATE_TIR", "log_max_tir", 3),
    ("CREATE_RQT", "log_max_rqt", 3),
    ("CREATE_SQ", "log_max_sq", 3),
    ("CREATE_RQ", "log_max_rq", 3),
];

#[test]
fn the_ninth_of_eight_is_over_the_limit() {
    for (name, cap, value) in LIMITS {
        let mut w = World::with(Needs::Init, |profile| {
            let caps = profile.caps.get_mut("cmd_hca_cap").unwrap();
            assert!(caps.insert((*cap).to_owned(), *value).is_some(), "{cap}");
        });
        // One recipe, run again and again: objects of another kind are made once.
        let make = good(&mut w, name).expect("a recipe");
        for _ in 0..8 {
            must(&mut w, &make);
        }
        let before = w.state();
        let (status, ..) = w.run(&make);
        assert_eq!(status, Status::Limit, "{name}: {}", w.last());
        assert_eq!(w.state(), before, "{name}: the refused one left something");
    }
}
