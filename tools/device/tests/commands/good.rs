// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The good path of each command: an input that must succeed, after all that it needs was made.

use crate::world::{request, Request, World};

/// A request that succeeds; `None` for a command without recipe.
pub fn good(w: &mut World, name: &str) -> Option<Request> {
    boot(w, name)
        .or_else(|| plain(w, name))
        .or_else(|| rdma(w, name))
        .or_else(|| transition(w, name))
        .or_else(|| ethernet(w, name))
        .or_else(|| steering(w, name))
}

fn boot(w: &mut World, name: &str) -> Option<Request> {
    Some(match name {
        "SET_ISSI" => request(name).set("current_issi", 1),
        "QUERY_PAGES" => request(name).op_mod(1),
        "MANAGE_PAGES" => {
            let (_, _, answer) = w.run(&request("QUERY_PAGES").op_mod(1));
            let wanted = answer.word(12);
            let pages = w.pages(wanted.into());
            let give = request(name).op_mod(1);
            give.set("input_num_entries", wanted.into()).list(&pages)
        }
        "INIT_HCA" => {
            w.driver.give_startup_pages(1);
            w.driver.give_startup_pages(2);
            request(name)
        }
        // Group 0, what is in force.
        "QUERY_HCA_CAP" => request(name).op_mod(1),
        "SET_HCA_CAP" => {
            let query = good(w, "QUERY_HCA_CAP")?;
            let (_, _, answer) = w.run(&query);
            let mut set = request(name);
            set.bytes[16..].copy_from_slice(&answer.output[16..]);
            set
        }
        // PAOS of the one port, read.
        "ACCESS_REG" => {
            let mut paos = [0; 16];
            paos[1] = 1;
            let read = request(name).op_mod(1).set("register_id", 0x5006);
            read.list(&paos).room(16)
        }
        "ENABLE_HCA" | "DISABLE_HCA" | "TEARDOWN_HCA" | "QUERY_ISSI" | "QUERY_ADAPTER" => {
            request(name)
        }
        _ => return None,
    })
}

/// Commands that need nothing, and those that free or show one object.
fn plain(w: &mut World, name: &str) -> Option<Request> {
    let (made_by, number) = match name {
        "ALLOC_PD"
        | "ALLOC_UAR"
        | "ALLOC_XRCD"
        | "ALLOC_TRANSPORT_DOMAIN"
        | "ALLOC_Q_COUNTER"
        | "ALLOC_FLOW_COUNTER"
        | "MAD_IFC"
        | "QUERY_HCA_VPORT_PKEY"
        | "QUERY_NIC_VPORT_CONTEXT"
        | "QUERY_ROCE_ADDRESS"
        | "QUERY_SPECIAL_CONTEXTS"
        | "QUERY_VNIC_ENV"
        | "QUERY_CONG_STATISTICS"
        | "QUERY_VPORT_COUNTER"
        | "QUERY_VPORT_STATE" => {
            let room = if name == "QUERY_HCA_VPORT_PKEY" { 4 } else { 0 };
            return Some(request(name).room(room));
        }
        "SET_DRIVER_VERSION" => {
            let mut version = request(name);
            version.bytes[16..21].copy_from_slice(b"Linux");
            return Some(version);
        }
        "QUERY_CONG_PARAMS" | "QUERY_CONG_STATUS" => {
            return Some(request(name).set("cong_protocol", 1))
        }
        "MODIFY_CONG_STATUS" => {
            return Some(request(name).set("cong_protocol", 2).set("priority", 3))
        }
        "MODIFY_CONG_PARAMS" => {
            // The additive increase of the reaction point.
            let mut modify = request(name).set("cong_protocol", 1);
            modify.bytes[12..16].copy_from_slice(&(1u32 << 7).to_be_bytes());
            modify.bytes[32 + 0x24..][..4].copy_from_slice(&9u32.to_be_bytes());
            return Some(modify);
        }
        "MODIFY_VPORT_STATE" => return Some(request(name).set("admin_state", 1)),
        "MODIFY_NIC_VPORT_CONTEXT" => {
            let mtu = request(name).set("field_select.mtu", 1);
            return Some(mtu.set("nic_vport_context.mtu", 1500));
        }
        "SET_ROCE_ADDRESS" => {
            let enable = request("MODIFY_NIC_VPORT_CONTEXT")
                .set("field_select.roce_en", 1)
                .set("nic_vport_context.roce_en", 1);
            w.run(&enable);
            return Some(
                request(name)
                    .set("roce_address.source_mac_31_0", 5)
                    .set("roce_address.roce_version", 2)
                    .set("roce_address.roce_l3_type", 1),
            );
        }
        "DEALLOC_PD" => ("ALLOC_PD", "pd"),
        "DEALLOC_UAR" => ("ALLOC_UAR", "uar"),
        "DEALLOC_XRCD" => ("ALLOC_XRCD", "xrcd"),
        "DEALLOC_TRANSPORT_DOMAIN" => ("ALLOC_TRANSPORT_DOMAIN", "transport_domain"),
        "DEALLOC_Q_COUNTER" | "QUERY_Q_COUNTER" => ("ALLOC_Q_COUNTER", "counter_set_id"),
        "DEALLOC_FLOW_COUNTER" => ("ALLOC_FLOW_COUNTER", "flow_counter_id"),
        "QUERY_FLOW_COUNTER" => {
            let id = w.make("ALLOC_FLOW_COUNTER");
            return Some(request(name).set("flow_counter_id", id).room(16));
        }
        "DESTROY_EQ" | "QUERY_EQ" => ("CREATE_EQ", "eq_number"),
        "DESTROY_CQ" | "QUERY_CQ" => ("CREATE_CQ", "cqn"),
        "DESTROY_MKEY" | "QUERY_MKEY" => ("CREATE_MKEY", "mkey_index"),
        "DESTROY_SRQ" | "QUERY_SRQ" => ("CREATE_SRQ", "srqn"),
        "DESTROY_XRC_SRQ" | "QUERY_XRC_SRQ" => ("CREATE_XRC_SRQ", "xrc_srqn"),
        "DESTROY_RMP" | "QUERY_RMP" => ("CREATE_RMP", "rmpn"),
        "DESTROY_QP" | "QUERY_QP" | "2RST_QP" | "2ERR_QP" => ("CREATE_QP", "qpn"),
        "DESTROY_TIS" | "QUERY_TIS" | "MODIFY_TIS" => ("CREATE_TIS", "tisn"),
        "DESTROY_TIR" | "QUERY_TIR" | "MODIFY_TIR" => ("CREATE_TIR", "tirn"),
        "DESTROY_RQT" | "QUERY_RQT" | "MODIFY_RQT" => ("CREATE_RQT", "rqtn"),
        "DESTROY_SQ" | "QUERY_SQ" => ("CREATE_SQ", "sqn"),
        "DESTROY_RQ" | "QUERY_RQ" => ("CREATE_RQ", "rqn"),
        _ => return None,
    };
    let made = w.make(made_by);
    Some(request(name).set(number, made))
}

fn rdma(w: &mut World, name: &str) -> Option<Request> {
    let record = w.memory(64);
    Some(match name {
        "CREATE_EQ" => {
            let uar = w.make("ALLOC_UAR");
            let page = w.pages(1);
            request(name)
                .set("eq_context_entry.log_eq_size", 6)
                .set("eq_context_entry.uar_page", uar)
                .list(&page)
        }
        "CREATE_CQ" => {
            let (eqn, uar) = (w.make("CREATE_EQ"), w.make("ALLOC_UAR"));
            let page = w.pages(1);
            request(name)
                .set("cq_context.log_cq_size", 6)
                .set("cq_context.uar_page", uar)
                .set("cq_context.c_eqn_or_apu_element", eqn & 0xff)
                .set("cq_context.dbr_addr", record)
                .list(&page)
        }
        "MODIFY_CQ" => {
            let cqn = w.make("CREATE_CQ");
            let select = "modify_field_select_resize_field_select";
            request(name)
                .set("cqn", cqn)
                .set(
                    &format!("{select}.modify_field_select.modify_field_select"),
                    3,
                )
                .set("cq_context.cq_period", 10)
                .set("cq_context.cq_max_count", 10)
        }
        "CREATE_MKEY" => {
            let pd = w.make("ALLOC_PD");
            request(name)
                .set("memory_key_mkey_entry.lr", 1)
                .set("memory_key_mkey_entry.length64", 1)
                .set("memory_key_mkey_entry.qpn", 0xff_ffff)
                .set("memory_key_mkey_entry.pd", pd)
        }
        "CREATE_SRQ" => {
            let pd = w.make("ALLOC_PD");
            let page = w.pages(1);
            request(name)
                .set("srq_context_entry.log_srq_size", 4)
                .set("srq_context_entry.log_rq_stride", 1)
                .set("srq_context_entry.pd", pd)
                .set("srq_context_entry.dbr_addr", record)
                .list(&page)
        }
        "CREATE_XRC_SRQ" => {
            let (pd, xrcd) = (w.make("ALLOC_PD"), w.make("ALLOC_XRCD"));
            let cqn = w.make("CREATE_CQ");
            let page = w.pages(1);
            request(name)
                .set("xrc_srq_context_entry.log_xrc_srq_size", 4)
                .set("xrc_srq_context_entry.log_rq_stride", 1)
                .set("xrc_srq_context_entry.pd", pd)
                .set("xrc_srq_context_entry.xrcd", xrcd)
                .set("xrc_srq_context_entry.cqn", cqn)
                .set("xrc_srq_context_entry.db_record_addr_h", record >> 32)
                .set(
                    "xrc_srq_context_entry.db_record_addr_l",
                    (record & 0xffff_ffff) >> 2,
                )
                .list(&page)
        }
        "CREATE_RMP" => {
            let pd = w.make("ALLOC_PD");
            let page = w.pages(1);
            request(name)
                .set("ctx.state", 1)
                .set("ctx.wq.log_wq_sz", 4)
                .set("ctx.wq.log_wq_stride", 5)
                .set("ctx.wq.pd", pd)
                .set("ctx.wq.dbr_addr", record)
                .list(&page)
        }
        "MODIFY_RMP" => {
            let rmpn = w.make("CREATE_RMP");
            request(name)
                .set("rmpn", rmpn)
                .set("rmp_state", 1)
                .set("ctx.state", 1)
                .set("bitmask.lwm", 1)
                .set("ctx.wq.lwm", 3)
        }
        "ARM_RQ" => {
            let srqn = w.make("CREATE_SRQ");
            request(name)
                .op_mod(1)
                .set("srq_number", srqn)
                .set("lwm", 3)
        }
        "ARM_XRC_SRQ" => {
            let srqn = w.make("CREATE_XRC_SRQ");
            request(name).op_mod(1).set("xrc_srqn", srqn).set("lwm", 3)
        }
        "CREATE_QP" => {
            let (pd, uar) = (w.make("ALLOC_PD"), w.make("ALLOC_UAR"));
            let (send, recv) = (w.make("CREATE_CQ"), w.make("CREATE_CQ"));
            let page = w.pages(1);
            request(name)
                .set("qpc.pm_state", 3)
                .set("qpc.pd", pd)
                .set("qpc.log_sq_size", 5)
                .set("qpc.log_rq_size", 4)
                .set("qpc.log_rq_stride", 2)
                .set("qpc.uar_page", uar)
                .set("qpc.cqn_snd", send)
                .set("qpc.cqn_rcv", recv)
                .set("qpc.dbr_addr", record)
                .list(&page)
        }
        "ATTACH_TO_MCG" => {
            let qpn = datagram(w);
            group(request(name).set("qpn", qpn))
        }
        "DETACH_FROM_MCG" => {
            let qpn = datagram(w);
            w.run(&group(request("ATTACH_TO_MCG").set("qpn", qpn)));
            group(request(name).set("qpn", qpn))
        }
        _ => return None,
    })
}

/// A UD QP.
fn datagram(w: &mut World) -> u64 {
    let create = good(w, "CREATE_QP").expect("a recipe").set("qpc.st", 2);
    w.run(&create).2.number().into()
}

fn group(mut request: Request) -> Request {
    let (at, bits) = request.entry.input.find("multicast_gid").expect("in both");
    let at = at as usize / 8;
    assert_eq!(bits, 128);
    request.bytes[at] = 0xff;
    request.bytes[at + 1] = 0x0e;
    request.bytes[at + 15] = 1;
    request
}

/// A QP on its way to the state that a transition begins in, and the transition.
fn transition(w: &mut World, name: &str) -> Option<Request> {
    let way: &[&str] = match name {
        "RST2INIT_QP" => &[],
        "INIT2INIT_QP" | "INIT2RTR_QP" => &["RST2INIT_QP"],
        "RTR2RTS_QP" => &["RST2INIT_QP", "INIT2RTR_QP"],
        "RTS2RTS_QP" => &["RST2INIT_QP", "INIT2RTR_QP", "RTR2RTS_QP"],
        "SQERR2RTS_QP" => return Some(failed_send(w)),
        _ => return None,
    };
    let create = good(w, "CREATE_QP")?;
    let qpn = w.run(&create).2.number().into();
    travel(w, &create, qpn, way);
    Some(step(&create, name, qpn))
}

fn travel(w: &mut World, create: &Request, qpn: u64, way: &[&str]) {
    w.make("SET_ROCE_ADDRESS");
    for name in way {
        let (status, code, _) = w.run(&step(create, name, qpn));
        assert_eq!(status.code(), 0, "{name}: {code:#x}: {}", w.last());
    }
}

fn step(create: &Request, name: &str, qpn: u64) -> Request {
    let request = request(name).set("qpn", qpn);
    match name {
        "RST2INIT_QP" => ["qpc.pd", "qpc.cqn_snd", "qpc.cqn_rcv"]
            .iter()
            .fold(request, |request, path| request.set(path, create.get(path)))
            .set("qpc.pm_state", 3)
            .set("qpc.primary_address_path.vhca_port_num", 1),
        "INIT2RTR_QP" => request
            .set("qpc.mtu", 3)
            .set("qpc.log_msg_max", 30)
            .set("qpc.remote_qpn", 0x123)
            .set("qpc.primary_address_path.vhca_port_num", 1)
            .set("qpc.primary_address_path.rmac_31_0", 5),
        _ => request,
    }
}

/// A UD QP whose send queue has failed by a request that makes no sense.
fn failed_send(w: &mut World) -> Request {
    let (record, buffer) = (w.memory(64), w.memory(4096));
    let mut create = good(w, "CREATE_QP").expect("a recipe").set("qpc.st", 2);
    let list = create.bytes.len() - 8;
    create.bytes[list..].copy_from_slice(&buffer.to_be_bytes());
    let create = create.set("qpc.dbr_addr", record);
    let uar = create.get("qpc.uar_page");
    let (status, code, answer) = w.run(&create);
    assert_eq!(status.code(), 0, "{code:#x}: {}", w.last());
    let qpn = answer.number().into();
    travel(
        w,
        &create,
        qpn,
        &["RST2INIT_QP", "INIT2RTR_QP", "RTR2RTS_QP"],
    );
    let machine = w.driver.machine.clone();
    // Opcode 0x3f does not exist; the send queue lies behind 16 receive requests of 64 bytes.
    let control = [[0, 0, 0, 0x3f], ((qpn as u32) << 8 | 1).to_be_bytes()].concat();
    machine.poke(buffer + 1024, &control);
    machine.poke(record + 4, &1u32.to_be_bytes());
    w.driver.card.bar_write(uar * 4096 + 0x800, &control);
    request("SQERR2RTS_QP").set("qpn", qpn)
}

fn ethernet(w: &mut World, name: &str) -> Option<Request> {
    let record = w.memory(64);
    Some(match name {
        "CREATE_TIS" => {
            let domain = w.make("ALLOC_TRANSPORT_DOMAIN");
            request(name).set("ctx.transport_domain", domain)
        }
        "CREATE_SQ" => {
            let (pd, uar) = (w.make("ALLOC_PD"), w.make("ALLOC_UAR"));
            let (cqn, tisn) = (w.make("CREATE_CQ"), w.make("CREATE_TIS"));
            let page = w.pages(1);
            request(name)
                .set("ctx.cqn", cqn)
                .set("ctx.tis_lst_sz", 1)
                .set("ctx.tis_num_0", tisn)
                .set("ctx.wq.wq_type", 1)
                .set("ctx.wq.pd", pd)
                .set("ctx.wq.uar_page", uar)
                .set("ctx.wq.dbr_addr", record)
                .set("ctx.wq.log_wq_stride", 6)
                .set("ctx.wq.log_wq_sz", 4)
                .list(&page)
        }
        "MODIFY_SQ" => {
            let sqn = w.make("CREATE_SQ");
            request(name).set("sqn", sqn).set("ctx.state", 1)
        }
        "CREATE_RQ" => {
            let (pd, cqn) = (w.make("ALLOC_PD"), w.make("CREATE_CQ"));
            let page = w.pages(1);
            request(name)
                .set("ctx.cqn", cqn)
                .set("ctx.wq.wq_type", 1)
                .set("ctx.wq.pd", pd)
                .set("ctx.wq.dbr_addr", record)
                .set("ctx.wq.log_wq_stride", 4)
                .set("ctx.wq.log_wq_sz", 4)
                .list(&page)
        }
        "MODIFY_RQ" => {
            let rqn = w.make("CREATE_RQ");
            request(name).set("rqn", rqn).set("ctx.state", 1)
        }
        "CREATE_RQT" => {
            let rqn = w.make("CREATE_RQ") as u32;
            request(name)
                .set("rqt_context.rqt_max_size", 16)
                .set("rqt_context.rqt_actual_size", 1)
                .list(&rqn.to_be_bytes())
        }
        "CREATE_TIR" => {
            let (domain, rqn) = (w.make("ALLOC_TRANSPORT_DOMAIN"), w.make("CREATE_RQ"));
            request(name)
                .set("ctx.transport_domain", domain)
                .set("ctx.inline_rqn", rqn)
        }
        _ => return None,
    })
}

fn steering(w: &mut World, name: &str) -> Option<Request> {
    Some(match name {
        "CREATE_FLOW_TABLE" => request(name).set("flow_table_context.log_size", 2),
        "DESTROY_FLOW_TABLE" | "QUERY_FLOW_TABLE" | "SET_FLOW_TABLE_ROOT" => {
            let table = w.make("CREATE_FLOW_TABLE");
            request(name).set("table_id", table)
        }
        "MODIFY_FLOW_TABLE" => {
            let table = w.make("CREATE_FLOW_TABLE");
            request(name)
                .set("table_id", table)
                .set("modify_field_select", 1)
        }
        "CREATE_FLOW_GROUP" => {
            let table = w.make("CREATE_FLOW_TABLE");
            request(name)
                .set("table_id", table)
                .set("end_flow_index", 3)
        }
        "DESTROY_FLOW_GROUP" | "QUERY_FLOW_GROUP" => {
            let (table, group) = table_and_group(w);
            request(name).set("table_id", table).set("group_id", group)
        }
        "SET_FLOW_TABLE_ENTRY" => {
            let (table, group) = table_and_group(w);
            flow_entry(w, table, group)
        }
        "QUERY_FLOW_TABLE_ENTRY" | "DELETE_FLOW_TABLE_ENTRY" => {
            let (table, group) = table_and_group(w);
            let set = flow_entry(w, table, group);
            w.run(&set);
            request(name).set("table_id", table).set("flow_index", 1)
        }
        _ => return None,
    })
}

fn table_and_group(w: &mut World) -> (u64, u64) {
    let create = good(w, "CREATE_FLOW_GROUP").expect("a recipe");
    (create.get("table_id"), w.run(&create).2.number().into())
}

/// An entry at index 1 that counts and forwards to a TIR.
fn flow_entry(w: &mut World, table: u64, group: u64) -> Request {
    let (tirn, counter) = (w.make("CREATE_TIR"), w.make("ALLOC_FLOW_COUNTER"));
    let list = [(2 << 24 | tirn) << 32, counter << 32];
    request("SET_FLOW_TABLE_ENTRY")
        .set("table_id", table)
        .set("flow_index", 1)
        .set("flow_context.group_id", group)
        .set("flow_context.action", 4 | 8)
        .set("flow_context.destination_list_size", 1)
        .set("flow_context.flow_counter_list_size", 1)
        .list(&list.map(u64::to_be_bytes).concat())
}
