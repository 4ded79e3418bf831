// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Objects without a data path: EQs, UARs, domains, addresses, registers.

use device::{
    profile::Profile,
    scaffold::driver::{Driver, Input},
};
use mlx5_hw::{field, ifc, raw, status::Status};

fn up() -> Driver {
    Driver::up(Profile::shipped("default").unwrap())
}

#[test]
fn a_number_just_freed_is_not_handed_out_next() {
    let mut driver = up();
    let first = driver.alloc_pd();
    let free = Input::new(raw::MLX5_CMD_OP_DEALLOC_PD).set(field!(dealloc_pd_in, pd), first.into());
    driver.ok(free, 16);
    assert_ne!(driver.alloc_pd(), first);
}

#[test]
fn freeing_what_is_not_there_is_bad_res() {
    let mut driver = up();
    let free = Input::new(raw::MLX5_CMD_OP_DEALLOC_PD).set(field!(dealloc_pd_in, pd), 0x1234);
    assert_eq!(driver.refused(free, 16).0, Status::BadRes);
}

#[test]
fn a_uar_in_use_is_busy() {
    let mut driver = up();
    let uar = driver.alloc_uar();
    let queue = driver.create_eq(uar, 6, 0, &[raw::MLX5_EVENT_TYPE_CMD]);
    let free =
        || Input::new(raw::MLX5_CMD_OP_DEALLOC_UAR).set(field!(dealloc_uar_in, uar), uar.into());
    assert_eq!(driver.refused(free(), 16).0, Status::ResBusy);
    let destroy = Input::new(raw::MLX5_CMD_OP_DESTROY_EQ)
        .set(field!(destroy_eq_in, eq_number), queue.eqn.into());
    driver.ok(destroy, 16);
    driver.ok(free(), 16);
}

#[test]
fn an_event_type_belongs_to_one_eq() {
    let mut driver = up();
    let uar = driver.alloc_uar();
    driver.create_eq(uar, 6, 0, &[raw::MLX5_EVENT_TYPE_PORT_CHANGE]);
    let (second, _) = driver.eq_input(uar, 6, 1, &[raw::MLX5_EVENT_TYPE_PORT_CHANGE]);
    assert_eq!(driver.refused(second, 16), (Status::BadParam, 3));
}

#[test]
fn a_buffer_with_too_few_pages_is_refused() {
    let mut driver = up();
    let uar = driver.alloc_uar();
    let (mut input, _) = driver.eq_input(uar, 10, 0, &[]);
    input.bytes.truncate(input.bytes.len() - 8);
    assert_eq!(driver.refused(input, 16).0, Status::BadParam);
}

#[test]
fn a_vector_the_card_does_not_have_is_refused() {
    let mut driver = up();
    let uar = driver.alloc_uar();
    let (input, _) = driver.eq_input(uar, 6, 64, &[]);
    assert_eq!(driver.refused(input, 16), (Status::BadParam, 2));
}

#[test]
fn an_event_interrupts_once_until_armed_again() {
    let mut driver = up();
    let uar = driver.alloc_uar();
    let mut queue = driver.create_eq(uar, 6, 5, &[raw::MLX5_EVENT_TYPE_PORT_CHANGE]);
    driver.card.set_link(false);
    driver.card.set_link(true);
    assert_eq!(driver.machine.take_interrupts(), [5]);
    let down = driver.next_event(&mut queue).unwrap();
    assert_eq!((down.kind, down.subtype, down.data[8]), (9, 1, 0x10));
    // Armed with an entry unread: at once.
    driver.update_eq(&queue, true);
    assert_eq!(driver.machine.take_interrupts(), [5]);
    assert_eq!(driver.next_event(&mut queue).unwrap().subtype, 4);
    driver.update_eq(&queue, true);
    assert_eq!(driver.machine.take_interrupts(), []);
    driver.card.set_link(false);
    assert_eq!(driver.machine.take_interrupts(), [5]);
}

#[test]
fn the_owner_bit_turns_with_each_lap() {
    let mut driver = up();
    let uar = driver.alloc_uar();
    let mut queue = driver.create_eq(uar, 2, 0, &[raw::MLX5_EVENT_TYPE_PORT_CHANGE]);
    for lap in 0..5 {
        for up in [false, true] {
            driver.card.set_link(up);
            assert!(driver.next_event(&mut queue).is_some(), "lap {lap}");
            assert!(driver.next_event(&mut queue).is_none());
            driver.update_eq(&queue, true);
        }
    }
}

#[test]
fn a_full_eq_loses_events_and_says_so() {
    let mut driver = up();
    let uar = driver.alloc_uar();
    let mut queue = driver.create_eq(uar, 2, 0, &[raw::MLX5_EVENT_TYPE_PORT_CHANGE]);
    for _ in 0..3 {
        driver.card.set_link(false);
        driver.card.set_link(true);
    }
    assert_eq!(driver.card.counters().eq_overruns, 1);
    let synd = driver.bar32(0x23c) >> 16 & 0xff;
    assert_eq!(
        synd,
        raw::MLX5_INITIAL_SEG_HEALTH_SYNDROME_ASYNCHRONOUS_EQ_BUF_OVERRUN
    );
    let left = std::iter::from_fn(|| driver.next_event(&mut queue)).count();
    assert_eq!(left, 4);
}

#[test]
fn an_index_ahead_of_the_producer_is_ignored() {
    let mut driver = up();
    let uar = driver.alloc_uar();
    let queue = driver.create_eq(uar, 6, 0, &[raw::MLX5_EVENT_TYPE_PORT_CHANGE]);
    let word = queue.eqn << 24 | 77;
    driver
        .card
        .bar_write(u64::from(uar) * 4096 + 0x40, &word.to_be_bytes());
    driver.card.set_link(false);
    assert_eq!(driver.machine.take_interrupts(), [0], "still armed");
}

#[test]
fn the_doorbell_of_another_page_does_nothing() {
    let mut driver = up();
    let uar = driver.alloc_uar();
    let other = driver.alloc_uar();
    let (input, _) = driver.eq_input(uar, 6, 0, &[raw::MLX5_EVENT_TYPE_PORT_CHANGE]);
    let eqn = driver.ok(input, 16).number();
    let word = (eqn << 24).to_be_bytes();
    driver.card.bar_write(u64::from(other) * 4096 + 0x40, &word);
    driver.card.set_link(false);
    assert_eq!(driver.machine.take_interrupts(), [], "not armed");
}

fn roce_address(index: u64, mac: u64, version: u64) -> Input<ifc::set_roce_address_in> {
    Input::new(raw::MLX5_CMD_OP_SET_ROCE_ADDRESS)
        .set(field!(set_roce_address_in, roce_address_index), index)
        .set(
            field!(set_roce_address_in, roce_address.source_mac_31_0),
            mac,
        )
        .set(
            field!(set_roce_address_in, roce_address.roce_version),
            version,
        )
        .set(field!(set_roce_address_in, roce_address.roce_l3_type), 1)
}

fn enable_roce(driver: &mut Driver) {
    let enable = Input::new(raw::MLX5_CMD_OP_MODIFY_NIC_VPORT_CONTEXT)
        .set(field!(modify_nic_vport_context_in, field_select.roce_en), 1)
        .set(
            field!(modify_nic_vport_context_in, nic_vport_context.roce_en),
            1,
        );
    driver.ok(enable, 16);
}

#[test]
fn roce_addresses_need_roce_a_valid_index_and_an_offered_version() {
    let mut driver = up();
    let early = driver.refused(roce_address(0, 5, 2), 16);
    assert_eq!(early, (Status::BadResState, 6));
    enable_roce(&mut driver);
    driver.ok(roce_address(0, 5, 2), 16);
    assert_eq!(
        driver.refused(roce_address(255, 5, 2), 16).0,
        Status::BadIndex
    );
    assert_eq!(
        driver.refused(roce_address(1, 5, 7), 16).0,
        Status::BadParam
    );
    let query = Input::<ifc::query_roce_address_in>::new(raw::MLX5_CMD_OP_QUERY_ROCE_ADDRESS);
    let answer = driver.ok(query, 0x30);
    assert_eq!(answer.word(0x24), 5, "the MAC reads back");
}

#[test]
fn the_nic_vport_shows_what_was_set_and_keeps_the_rest() {
    let mut driver = up();
    let list = Input::new(raw::MLX5_CMD_OP_MODIFY_NIC_VPORT_CONTEXT)
        .set(
            field!(modify_nic_vport_context_in, field_select.addresses_list),
            1,
        )
        .set(
            field!(
                modify_nic_vport_context_in,
                nic_vport_context.allowed_list_size
            ),
            2,
        )
        .list(&[0x0200_0000_0001, 0x0200_0000_0002]);
    driver.ok(list, 16);
    let mtu = Input::new(raw::MLX5_CMD_OP_MODIFY_NIC_VPORT_CONTEXT)
        .set(field!(modify_nic_vport_context_in, field_select.mtu), 1)
        .set(
            field!(modify_nic_vport_context_in, nic_vport_context.mtu),
            4000,
        );
    driver.ok(mtu, 16);
    let query =
        Input::<ifc::query_nic_vport_context_in>::new(raw::MLX5_CMD_OP_QUERY_NIC_VPORT_CONTEXT);
    let answer = driver.ok(query, 0x110 + 16);
    assert_eq!(answer.word(0x34) & 0xffff, 4000);
    assert_eq!(answer.word(0x10 + 0xf0) & 0xffff, 2, "list size");
    assert_eq!(answer.word(0x110 + 12), 2, "second address");
}

#[test]
fn a_list_whose_length_and_size_differ_is_refused() {
    let mut driver = up();
    let list = Input::new(raw::MLX5_CMD_OP_MODIFY_NIC_VPORT_CONTEXT)
        .set(
            field!(modify_nic_vport_context_in, field_select.addresses_list),
            1,
        )
        .set(
            field!(
                modify_nic_vport_context_in,
                nic_vport_context.allowed_list_size
            ),
            3,
        )
        .list(&[0x0200_0000_0001]);
    assert_eq!(driver.refused(list, 16), (Status::BadInputLen, 4));
}

#[test]
fn closing_the_port_takes_the_link_down_with_an_event() {
    let mut driver = up();
    let uar = driver.alloc_uar();
    let mut queue = driver.create_eq(uar, 6, 0, &[raw::MLX5_EVENT_TYPE_PORT_CHANGE]);
    let mut paos = [0; 16];
    paos[1] = 1;
    paos[2] = 2;
    paos[4] = 0x80;
    driver.ok(Input::register(0x5006, false, &paos), 0x20);
    assert_eq!(driver.next_event(&mut queue).unwrap().subtype, 1);
    let state = Input::<ifc::query_vport_state_in>::new(raw::MLX5_CMD_OP_QUERY_VPORT_STATE);
    assert_eq!(driver.ok(state, 16).word(12), 0);
    let mut ask = [0; 16];
    ask[1] = 1;
    let answer = driver.ok(Input::register(0x5006, true, &ask), 0x20);
    assert_eq!(answer.word(0x10), 0x0001_0202, "admin and oper down");
}

#[test]
fn registers_refuse_wrong_lengths_ports_and_unknown_numbers() {
    let mut driver = up();
    assert_eq!(
        driver
            .refused(Input::register(0x5006, true, &[0; 12]), 0x20)
            .0,
        Status::BadInputLen
    );
    assert_eq!(
        driver
            .refused(Input::register(0x5006, true, &[0; 16]), 0x20)
            .0,
        Status::BadParam
    );
    assert_eq!(
        driver
            .refused(Input::register(0x1111, true, &[0; 16]), 0x20)
            .0,
        Status::BadParam
    );
    assert_eq!(
        driver
            .refused(Input::register(0x5006, true, &[0; 16]), 0x18)
            .0,
        Status::BadOutputLen
    );
}

#[test]
fn flow_control_is_kept_as_it_is_set() {
    let mut driver = up();
    let mut pfcc = [0; 32];
    pfcc[1] = 1;
    let ask = pfcc;
    let out = driver.ok(Input::register(0x5007, true, &ask), 0x30);
    assert_eq!((out.word(0x18), out.word(0x1c)), (0, 0));

    // Pauses of the link: what the mask of priorities leaves out stays.
    pfcc[8] = 0x80;
    pfcc[9] = 0xff;
    driver.ok(Input::register(0x5007, false, &pfcc), 0x30);
    let mut priorities = ask;
    priorities[5] = 0x0c;
    priorities[7] = 0xff;
    priorities[8] = 0x20;
    priorities[9] = 0x0f;
    priorities[12] = 0x20;
    priorities[13] = 0x81;
    driver.ok(Input::register(0x5007, false, &priorities), 0x30);
    let out = driver.ok(Input::register(0x5007, true, &ask), 0x30);
    assert_eq!(out.word(0x18), 0x800c_0000);
    assert_eq!(out.word(0x1c), 0x0081_0000);

    // Nothing is negotiated.
    pfcc[8] = 0x40;
    let negotiated = Input::register(0x5007, false, &pfcc);
    assert_eq!(driver.refused(negotiated, 0x30), (Status::BadParam, 0x60));
}

#[test]
fn the_partition_table_has_the_default_key_only() {
    let mut driver = up();
    let ask = |index: u64| {
        Input::new(raw::MLX5_CMD_OP_QUERY_HCA_VPORT_PKEY)
            .set(field!(query_hca_vport_pkey_in, pkey_index), index)
    };
    assert_eq!(driver.ok(ask(0), 0x14).word(0x10), 0xffff);
    assert_eq!(driver.ok(ask(1), 0x14).word(0x10), 0);
    assert_eq!(driver.refused(ask(128), 0x14).0, Status::BadIndex);
}

#[test]
fn the_doorbells_of_pages_nobody_has_are_counted_as_stray() {
    let mut driver = up();
    driver.card.bar_write(0x20_0040, &[0; 4]);
    assert_eq!(driver.card.counters().stray_accesses, 1);
}
