// SPDX-License-Identifier: GPL-2.0
//! The commands that move a QP from state to state.

use kernel::prelude::*;
use mlx5_hw::{
    field,
    field::{
        Mut,
        Ref, //
    },
    ifc,
    raw,
    span, //
};

use super::{
    query::QueryQp,
    state::{
        QpState,
        Step, //
    },
    Qp,
    Service, //
};
use crate::{
    cmd::{
        Cmd,
        Command, //
    },
    plain_command,
    record::{
        Record,
        Records, //
    }, //
};

/// The only port.
const PORT: u8 = 1;
/// Acknowledgement timeout: 4.096 us << 16, a quarter of a second.
const ACK_TIMEOUT: u8 = 16;
/// Retries before a lost peer is declared; the field has three bits.
const RETRIES: u8 = 7;
/// Receiver-not-ready retries without end: a receiver that is slow is not lost.
const RNR_RETRIES: u8 = 7;
/// What a receiver without WQE asks for: 0.64 ms. Source: IB specification, RNR NAK timer codes.
const RNR_TIMER: u8 = 12;
/// Hops of a packet.
const HOP_LIMIT: u8 = 64;
/// A packet in 2^8 asks for an acknowledgement. Source: `MLX5_IB_ACK_REQ_FREQ` in ib/qp.c.
const LOG_ACK_FREQUENCY: u8 = 8;

/// MTU code of a datagram QP (4096 bytes) and log2 of its longest message.
/// Source: `__mlx5_ib_modify_qp` in ib/qp.c.
const DATAGRAM_MTU: u8 = 5;
const LOG_DATAGRAM: u8 = 12;

/// The way to the other end.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    /// QP of the other end, 24 bits.
    pub(crate) remote_qpn: u32,
    /// First PSN of this end, 24 bits.
    pub(crate) send_psn: u32,
    /// First PSN of the other end, 24 bits.
    pub(crate) receive_psn: u32,
    /// Address of the other end.
    pub(crate) gid: [u8; 16],
    /// Ethernet address of the other end.
    pub(crate) mac: [u8; 6],
    /// Index of this end's address in the RoCE address table.
    pub(crate) source_index: u8,
    /// UDP source port.
    pub(crate) source_port: u16,
    /// Code of the path MTU: 1 is 256 bytes, 5 is 4096.
    pub(crate) mtu_code: u8,
    /// log2 of the longest message, 12 to 30.
    pub(crate) log_message: u8,
    /// log2 of READs and atomics under way, as initiator.
    pub(crate) log_initiator_depth: u8,
    /// The same as responder.
    pub(crate) log_responder_depth: u8,
}

struct RstToInit<'a>(&'a Qp);

impl Command for RstToInit<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_RST2INIT_QP;
    type In = ifc::rst2init_qp_in;
    type Out = ifc::rst2init_qp_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        let qp = self.0;
        input
            .set(field!(rst2init_qp_in, qpn), qp.number.into())
            .with(span!(rst2init_qp_in, qpc), |qpc| {
                common(qpc, qp);
                qpc.set(field!(qpc, dbr_addr), qp.record)
                    .set(field!(qpc, counter_set_id), qp.counter_set.into())
                    .set(field!(qpc, primary_address_path.vhca_port_num), PORT.into());
                match qp.ring.service {
                    // Reads and atomics are allowed when the responder's depth is known.
                    Service::Rc => qpc.set_flag(field!(qpc, rwe), true),
                    Service::Ud { qkey } => qpc.set(field!(qpc, q_key), qkey.into()),
                    Service::Umr => qpc,
                };
            });
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// Without a path: for datagrams.
struct InitToRtr<'a>(&'a Qp, Option<&'a Path>);

impl Command for InitToRtr<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_INIT2RTR_QP;
    type In = ifc::init2rtr_qp_in;
    type Out = ifc::init2rtr_qp_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        let Self(qp, path) = *self;
        input.set(field!(init2rtr_qp_in, qpn), qp.number.into());
        let Some(path) = path else {
            input.with(span!(init2rtr_qp_in, qpc), |qpc| {
                common(qpc, qp);
                qpc.set(field!(qpc, mtu), DATAGRAM_MTU.into())
                    .set(field!(qpc, log_msg_max), LOG_DATAGRAM.into());
            });
            return Ok(());
        };
        let access = raw::MLX5_QP_OPTPAR_RRE | raw::MLX5_QP_OPTPAR_RAE | raw::MLX5_QP_OPTPAR_RWE;
        input
            .set(field!(init2rtr_qp_in, opt_param_mask), access.into())
            .with(span!(init2rtr_qp_in, qpc), |qpc| {
                common(qpc, qp);
                qpc.set(field!(qpc, mtu), path.mtu_code.into())
                    .set(field!(qpc, log_msg_max), path.log_message.into())
                    .set(field!(qpc, remote_qpn), path.remote_qpn.into())
                    .set(field!(qpc, next_rcv_psn), path.receive_psn.into())
                    .set(field!(qpc, min_rnr_nak), RNR_TIMER.into())
                    .set(field!(qpc, log_rra_max), path.log_responder_depth.into())
                    .set(
                        field!(qpc, atomic_mode),
                        raw::MLX5_QPC_ATOMIC_MODE_IB_SPEC.into(),
                    )
                    .set_flag(field!(qpc, rre), true)
                    .set_flag(field!(qpc, rwe), true)
                    .set_flag(field!(qpc, rae), true)
                    .with(span!(qpc, primary_address_path), |ads| address(ads, path));
            });
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

/// Without a path: for datagrams.
struct RtrToRts<'a>(&'a Qp, Option<&'a Path>);

impl Command for RtrToRts<'_> {
    const OPCODE: u32 = raw::MLX5_CMD_OP_RTR2RTS_QP;
    type In = ifc::rtr2rts_qp_in;
    type Out = ifc::rtr2rts_qp_out;
    type Output = ();

    fn fill(&self, input: &mut Mut<'_, Self::In>) -> Result {
        let Self(qp, path) = *self;
        input
            .set(field!(rtr2rts_qp_in, qpn), qp.number.into())
            .with(span!(rtr2rts_qp_in, qpc), |qpc| {
                common(qpc, qp);
                let Some(path) = path else {
                    // Nobody looks at the PSNs of datagrams.
                    return;
                };
                qpc.set(field!(qpc, next_send_psn), path.send_psn.into())
                    .set(field!(qpc, log_sra_max), path.log_initiator_depth.into())
                    .set(field!(qpc, retry_count), RETRIES.into())
                    .set(field!(qpc, rnr_retry), RNR_RETRIES.into())
                    .set(field!(qpc, log_ack_req_freq), LOG_ACK_FREQUENCY.into())
                    .set(
                        field!(qpc, primary_address_path.ack_timeout),
                        ACK_TIMEOUT.into(),
                    );
            });
        Ok(())
    }

    fn parse(&self, _output: Ref<'_, Self::Out>) -> Option<()> {
        Some(())
    }
}

plain_command! {
    /// 2ERR_QP.
    ToError, MLX5_CMD_OP_2ERR_QP, qp_2err_in, qp_2err_out, number: u32 => qpn
}

plain_command! {
    /// 2RST_QP.
    ToReset, MLX5_CMD_OP_2RST_QP, qp_2rst_in, qp_2rst_out, number: u32 => qpn
}

/// What every transition carries, as the C driver does.
fn common(qpc: &mut Mut<'_, ifc::qpc>, qp: &Qp) {
    qpc.set(field!(qpc, st), qp.ring.service.code().into())
        .set(
            field!(qpc, pm_state),
            raw::MLX5_QPC_PM_STATE_MIGRATED.into(),
        )
        .set(field!(qpc, pd), qp.pd.into())
        .set(field!(qpc, cqn_snd), qp.cqn.into())
        .set(field!(qpc, cqn_rcv), qp.cqn.into());
}

fn address(ads: &mut Mut<'_, ifc::ads>, path: &Path) {
    let [m0, m1, m2, m3, m4, m5] = path.mac;
    ads.set(field!(ads, src_addr_index), path.source_index.into())
        .set(field!(ads, hop_limit), HOP_LIMIT.into())
        .set(field!(ads, udp_sport), path.source_port.into())
        .set(field!(ads, vhca_port_num), PORT.into())
        .set(field!(ads, rmac_47_32), u16::from_be_bytes([m0, m1]).into())
        .set(
            field!(ads, rmac_31_0),
            u32::from_be_bytes([m2, m3, m4, m5]).into(),
        );
    ads.raw(span!(ads, rgid_rip)).copy_from_slice(&path.gid);
}

impl Qp {
    /// RESET, then INIT: the queues are empty and receives may be posted. Sleeps.
    ///
    /// After a failed command the state is RESET as far as the driver knows.
    pub(crate) fn restart(&mut self, cmd: &Cmd, records: &Records) -> Result {
        if self.state != QpState::Reset {
            self.state = self.step(Step::ToReset)?;
            cmd.exec(&ToReset {
                number: self.number,
            })?;
        }
        self.sq.reset();
        self.rq.reset();
        self.fresh = None;
        records.clear(Record::Qp)?;
        let next = self.step(Step::RstToInit)?;
        cmd.exec(&RstToInit(self))?;
        self.state = next;
        Ok(())
    }

    /// INIT to RTR: packets of the other end are taken from now on. Sleeps.
    pub(crate) fn receive_from(&mut self, cmd: &Cmd, path: &Path) -> Result {
        let next = self.step(Step::InitToRtr)?;
        cmd.exec(&InitToRtr(self, Some(path)))?;
        self.state = next;
        Ok(())
    }

    /// RTR to RTS: sends are carried out from now on. Sleeps.
    pub(crate) fn send_to(&mut self, cmd: &Cmd, path: &Path) -> Result {
        let next = self.step(Step::RtrToRts)?;
        cmd.exec(&RtrToRts(self, Some(path)))?;
        self.state = next;
        Ok(())
    }

    /// INIT to RTS, for datagrams and changes of keys: there is no other end. `EINVAL` for another service. Sleeps.
    pub(crate) fn open(&mut self, cmd: &Cmd) -> Result {
        if self.ring.service == Service::Rc {
            return Err(EINVAL);
        }
        let next = self.step(Step::InitToRtr)?;
        cmd.exec(&InitToRtr(self, None))?;
        self.state = next;
        let next = self.step(Step::RtrToRts)?;
        cmd.exec(&RtrToRts(self, None))?;
        self.state = next;
        Ok(())
    }

    /// To ERROR: everything that is posted is flushed. Sleeps.
    pub(crate) fn fail(&mut self, cmd: &Cmd) -> Result {
        let next = self.step(Step::ToError)?;
        cmd.exec(&ToError {
            number: self.number,
        })?;
        self.state = next;
        Ok(())
    }

    /// To RESET: the device lets go of everything that is posted. Sleeps.
    pub(crate) fn reset(&mut self, cmd: &Cmd) -> Result {
        if self.state != QpState::Reset {
            self.state = self.step(Step::ToReset)?;
            cmd.exec(&ToReset {
                number: self.number,
            })?;
        }
        Ok(())
    }

    /// Asks the device for the state. `EPROTO` for one that such a QP cannot have. Sleeps.
    pub(crate) fn query(&self, cmd: &Cmd) -> Result<QpState> {
        let snapshot = cmd.exec(&QueryQp {
            number: self.number,
        })?;
        QpState::from_context(snapshot.state).ok_or(EPROTO)
    }
}
