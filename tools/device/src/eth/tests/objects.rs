// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The objects of the Ethernet face: states, references, and what is refused.

use mlx5_hw::{field, ifc, raw, status::Status};

use crate::eth::bench::{input, Bench};

#[test]
fn states_change_only_as_the_tables_allow() {
    let mut bench = Bench::new();
    let sq = bench.create_sq();

    assert_eq!(bench.modify_sq(&sq, 0, 1), Err(Status::BadResState));
    assert_eq!(bench.modify_sq(&sq, 1, 2), Err(Status::BadParam));
    bench.modify_sq(&sq, 1, 3).unwrap();
    assert_eq!(bench.modify_sq(&sq, 3, 1), Err(Status::BadResState));
    bench.modify_sq(&sq, 3, 0).unwrap();
    assert_eq!(bench.modify_sq(&sq, 0, 3), Err(Status::BadResState));
    bench.modify_sq(&sq, 0, 1).unwrap();
}

#[test]
fn objects_in_use_stay() {
    let mut bench = Bench::new();
    let rq = bench.create_rq(true);
    let rqtn = bench.create_rqt(&[rq.number]).unwrap();
    let tirn = bench
        .create_tir(|create| {
            create
                .set(field!(create_tir_in, ctx.disp_type), 1)
                .set(field!(create_tir_in, ctx.indirect_table), rqtn.into());
        })
        .unwrap();
    let (table, _) = bench.steer_all(tirn);
    let destroy_rq = |bench: &mut Bench| {
        bench.run(input::<ifc::destroy_rq_in>(
            raw::MLX5_CMD_OP_DESTROY_RQ,
            &[],
            |destroy| {
                destroy.set(field!(destroy_rq_in, rqn), rq.number.into());
            },
        ))
    };
    let destroy_rqt = |bench: &mut Bench| {
        bench.run(input::<ifc::destroy_rqt_in>(
            raw::MLX5_CMD_OP_DESTROY_RQT,
            &[],
            |destroy| {
                destroy.set(field!(destroy_rqt_in, rqtn), rqtn.into());
            },
        ))
    };
    let destroy_tir = |bench: &mut Bench| {
        bench.run(input::<ifc::destroy_tir_in>(
            raw::MLX5_CMD_OP_DESTROY_TIR,
            &[],
            |destroy| {
                destroy.set(field!(destroy_tir_in, tirn), tirn.into());
            },
        ))
    };

    assert_eq!(destroy_rq(&mut bench), Err(Status::ResBusy));
    assert_eq!(destroy_rqt(&mut bench), Err(Status::ResBusy));
    assert_eq!(destroy_tir(&mut bench), Err(Status::ResBusy));

    bench
        .run(input::<ifc::delete_fte_in>(
            raw::MLX5_CMD_OP_DELETE_FLOW_TABLE_ENTRY,
            &[],
            |delete| {
                delete.set(field!(delete_fte_in, table_id), table.into());
            },
        ))
        .unwrap();
    assert_eq!(destroy_tir(&mut bench), Ok(()));
    assert_eq!(destroy_rqt(&mut bench), Ok(()));
    assert_eq!(destroy_rq(&mut bench), Ok(()));
    assert_eq!(destroy_rq(&mut bench), Err(Status::BadRes));
}

#[test]
fn what_is_not_offered_is_refused() {
    let mut bench = Bench::new();
    let rq = bench.create_rq(true);

    assert_eq!(bench.create_rqt(&[rq.number; 3]), Err(Status::BadParam));
    assert_eq!(bench.create_rqt(&[rq.number + 1]), Err(Status::BadRes));
    let lro = bench.create_tir(|create| {
        create
            .set(field!(create_tir_in, ctx.inline_rqn), rq.number.into())
            .set(field!(create_tir_in, ctx.packet_merge_mask), 1);
    });
    assert_eq!(lro, Err(Status::BadParam));
    let nowhere = bench.create_tir(|create| {
        create.set(field!(create_tir_in, ctx.inline_rqn), 0x1234);
    });
    assert_eq!(nowhere, Err(Status::BadRes));
    for kind in [1, 4] {
        let table = bench.run(input::<ifc::create_flow_table_in>(
            raw::MLX5_CMD_OP_CREATE_FLOW_TABLE,
            &[],
            |create| {
                create.set(field!(create_flow_table_in, table_type), kind);
            },
        ));
        assert_eq!(table, Err(Status::BadParam));
    }
}
