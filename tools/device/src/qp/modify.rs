// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State transitions: the commands that move a QP. What each takes of its context is in [`rules`].

mod rules;

use super::{Attributes, Kind};
use crate::{
    cmd::{Command, Refused}, //
    hca::Hca,
    refuse,
};
use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};
use rules::{bit, Step, OPTIONAL};

/// Takes the path of `new`, but keeps P_Key index and timeout, which have bits of their own.
fn take_path(context: &mut Mut<'_, ifc::qpc>, new: Ref<'_, ifc::qpc>) {
    let kept = [
        field!(qpc, primary_address_path.pkey_index),
        field!(qpc, primary_address_path.ack_timeout),
    ];
    let values = kept.map(|field| context.as_ref().get(field));
    let bytes = new.raw(span!(qpc, primary_address_path));
    context
        .raw(span!(qpc, primary_address_path))
        .copy_from_slice(bytes);
    for (field, value) in kept.into_iter().zip(values) {
        context.set(field, value);
    }
}

fn step(
    hca: &mut Hca,
    step: Step,
    qpn: u32,
    mask: u32,
    new: Ref<'_, ifc::qpc>,
) -> Result<(), Refused> {
    let qp = hca.qps.find(qpn)?;
    if qp.state != step.from() {
        refuse!(
            BadQpState,
            1,
            "QP {qpn:#x} is {:?}, {step:?} starts at {:?}",
            qp.state,
            step.from()
        );
    }
    let rule = step.rule(qp.kind);
    if mask & !rule.optional != 0 {
        refuse!(
            BadParam,
            2,
            "QP {qpn:#x}: {step:?} of {:?} has no optional parameters {:#x}",
            qp.kind,
            mask & !rule.optional
        );
    }
    let mut bytes = qp.context;
    let Some(mut context) = Mut::<ifc::qpc>::new(&mut bytes) else {
        refuse!(Internal, 3, "context too short");
    };
    for field in rule.mandatory {
        context.set(*field, new.get(*field));
    }
    if rule.path {
        take_path(&mut context, new);
    }
    for (bit, field) in OPTIONAL {
        if mask & bit != 0 {
            context.set(*field, new.get(*field));
        }
    }
    if mask & bit::PATH != 0 {
        take_path(&mut context, new);
    }
    if mask & bit::ALT_PATH != 0 {
        let bytes = new.raw(span!(qpc, secondary_address_path));
        context
            .raw(span!(qpc, secondary_address_path))
            .copy_from_slice(bytes);
    }
    let attr = Attributes::of(context.as_ref());
    let pd = context.as_ref().get32(field!(qpc, pd));
    check(hca, step, qpn, &attr, pd, new)?;
    commit(hca, step, qpn, bytes, attr, pd);
    Ok(())
}

/// What the fields must be for the transition to happen.
fn check(
    hca: &Hca,
    step: Step,
    qpn: u32,
    attr: &Attributes,
    pd: u32,
    new: Ref<'_, ifc::qpc>,
) -> Result<(), Refused> {
    let qp = hca.qps.find(qpn)?;
    match step {
        Step::RstToInit => {
            hca.pds.find(pd)?;
            if pd != qp.pd && qp.kind != Kind::Umr {
                refuse!(
                    BadParam,
                    4,
                    "QP {qpn:#x}: PD {pd:#x}, made with {:#x}",
                    qp.pd
                );
            }
            for (name, cqn, made) in [
                ("send", new.get32(field!(qpc, cqn_snd)), qp.send_cqn),
                ("receive", new.get32(field!(qpc, cqn_rcv)), qp.recv_cqn),
            ] {
                // mlx5_ib names no CQ where a queue is not the QP's own (`get_cqs` in ib/qp.c): the
                // UMR queue receives nothing, an XRC QP receives through SRQs or sends nothing.
                let none = match (name, qp.kind) {
                    ("receive", Kind::Umr | Kind::Xrc) => true,
                    ("send", Kind::Xrc) => qp.sq.log.is_none(),
                    _ => false,
                };
                let unused = none && cqn == 0;
                if cqn != made && !unused {
                    refuse!(
                        BadParam,
                        5,
                        "QP {qpn:#x}: {name} CQ {cqn:#x}, made with {made:#x}"
                    );
                }
            }
            let set = attr.counter_set.into();
            if set != 0 && hca.q_counters.get(set).is_none() {
                refuse!(BadRes, 6, "QP {qpn:#x}: no Q counter set {set:#x}");
            }
            let port = new.get32(field!(qpc, primary_address_path.vhca_port_num));
            if port != 1 {
                refuse!(BadParam, 7, "QP {qpn:#x}: port {port}");
            }
        }
        Step::InitToRtr => {
            if attr.mtu.is_none() {
                let code = new.get32(field!(qpc, mtu));
                refuse!(BadParam, 8, "QP {qpn:#x}: MTU code {code}");
            }
            let most = hca.caps.get(field!(cmd_hca_cap, log_max_msg));
            if u64::from(attr.log_msg_max) > most.max(12) {
                refuse!(
                    BadParam,
                    9,
                    "QP {qpn:#x}: messages of 2^{}",
                    attr.log_msg_max
                );
            }
            if qp.kind.is_connected() && hca.roce_source(attr.path.sgid_index).is_none() {
                refuse!(
                    BadParam,
                    10,
                    "QP {qpn:#x}: RoCE address {} is not set",
                    attr.path.sgid_index
                );
            }
            let most = hca.caps.get(field!(cmd_hca_cap, log_max_ra_res_qp));
            if qp.kind.is_reliable() && u64::from(attr.max_answered) > 1 << most {
                refuse!(
                    BadParam,
                    11,
                    "QP {qpn:#x}: {} read resources",
                    attr.max_answered
                );
            }
        }
        Step::RtrToRts => {
            let most = hca.caps.get(field!(cmd_hca_cap, log_max_ra_req_qp));
            if qp.kind.is_reliable() && u64::from(attr.max_initiated) > 1 << most {
                refuse!(
                    BadParam,
                    12,
                    "QP {qpn:#x}: {} reads in flight",
                    attr.max_initiated
                );
            }
        }
        Step::InitToInit | Step::RtsToRts | Step::SqerToRts => {}
    }
    if attr.pkey_index >= 128 {
        refuse!(BadParam, 13, "QP {qpn:#x}: P_Key index {}", attr.pkey_index);
    }
    Ok(())
}

/// Nothing here can fail.
fn commit(
    hca: &mut Hca,
    step: Step,
    qpn: u32,
    bytes: [u8; super::CONTEXT],
    attr: Attributes,
    pd: u32,
) {
    let Some(qp) = hca.qps.get_mut(qpn) else {
        return;
    };
    qp.context = bytes;
    qp.attr = attr;
    qp.state = step.to();
    match step {
        Step::RstToInit if pd != qp.pd || !qp.holds_pd => {
            let old = qp.holds_pd.then_some(qp.pd);
            qp.pd = pd;
            qp.holds_pd = true;
            // The domain was found a moment ago.
            let _ = hca.pds.hold(pd);
            if let Some(old) = old {
                hca.pds.release(old);
            }
        }
        Step::InitToRtr => qp.responder.start(&attr),
        Step::RtrToRts => qp.requester.start(&attr),
        _ => {}
    }
    // Requests may have been posted before the state allowed them.
    hca.sched.push(crate::sched::Work::Qp(qpn));
}

macro_rules! steps {
    ($($name:ident = $opcode:ident, $input:ident, $output:ident, $step:ident;)+) => {$(
        #[doc = concat!(stringify!($opcode), ".")]
        pub struct $name;

        impl Command for $name {
            const OPCODE: u32 = raw::$opcode;
            type In = ifc::$input;
            type Out = ifc::$output;

            fn run(
                hca: &mut Hca,
                input: Ref<'_, Self::In>,
                _output: &mut Mut<'_, Self::Out>,
            ) -> Result<(), Refused> {
                step(
                    hca,
                    Step::$step,
                    input.get32(field!($input, qpn)),
                    input.get32(field!($input, opt_param_mask)),
                    input.sub(span!($input, qpc)),
                )
            }
        }
    )+};
}

steps! {
    Rst2InitQp = MLX5_CMD_OP_RST2INIT_QP, rst2init_qp_in, rst2init_qp_out, RstToInit;
    Init2InitQp = MLX5_CMD_OP_INIT2INIT_QP, init2init_qp_in, init2init_qp_out, InitToInit;
    Init2RtrQp = MLX5_CMD_OP_INIT2RTR_QP, init2rtr_qp_in, init2rtr_qp_out, InitToRtr;
    Rtr2RtsQp = MLX5_CMD_OP_RTR2RTS_QP, rtr2rts_qp_in, rtr2rts_qp_out, RtrToRts;
    Rts2RtsQp = MLX5_CMD_OP_RTS2RTS_QP, rts2rts_qp_in, rts2rts_qp_out, RtsToRts;
    Sqerr2RtsQp = MLX5_CMD_OP_SQERR2RTS_QP, sqerr2rts_qp_in, sqerr2rts_qp_out, SqerToRts;
}

/// 2RST_QP: from any state to RESET. Nothing of the QP is written after it.
pub struct ToRstQp;

impl Command for ToRstQp {
    const OPCODE: u32 = raw::MLX5_CMD_OP_2RST_QP;
    type In = ifc::qp_2rst_in;
    type Out = ifc::qp_2rst_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let qpn = input.get32(field!(qp_2rst_in, qpn));
        hca.qps.find_mut(qpn)?.reset();
        hca.transport.forget(qpn);
        Ok(())
    }
}

/// 2ERR_QP: from any state but RESET to ERROR; everything posted is flushed.
pub struct ToErrQp;

impl Command for ToErrQp {
    const OPCODE: u32 = raw::MLX5_CMD_OP_2ERR_QP;
    type In = ifc::qp_2err_in;
    type Out = ifc::qp_2err_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let qpn = input.get32(field!(qp_2err_in, qpn));
        hca.qps.find(qpn)?;
        crate::transport::enter_error(hca, qpn);
        Ok(())
    }
}
