// SPDX-License-Identifier: GPL-2.0
//! QPs of users for Ethernet frames as they are: no QP on the device, but a send queue behind a TIS, and a
//! receive queue behind a TIR. The states of the queues follow from that of the QP.
//!
//! Source: `create_raw_packet_qp`, `modify_raw_packet_qp` and `sqrq_state_to_qp_state` in ib/qp.c.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use kernel_ext::rdma::{
    NewQp,
    QpState,
    Udata, //
};

use super::{
    check_caps,
    check_flags,
    ends::Ends,
    log_size,
    receive_queue,
    reported,
    Hardware,
    Inner,
    Move,
    Pair,
    LOG_BLOCK, //
};
use crate::{
    home::Home,
    ib::{
        abi,
        context,
        events::QueueKind,
        queue::{
            self,
            Lot,
            Queue, //
        },
        Data,
        Verbs, //
    },
    net::{
        base::{
            Tis,
            TransportDomain, //
        },
        tir::{
            Target,
            Tir, //
        },
    },
    qp::user::Transition,
    queue_state::State,
};

/// Both queues; the fields go in this order.
pub(super) struct RawQp {
    receive: Option<(Tir, Queue)>,
    send: Option<(Queue, Tis)>,
    _domain: Arc<TransportDomain>,
}

impl RawQp {
    /// The queues that there are, with the names that events have for them.
    pub(super) fn queues(&self) -> impl Iterator<Item = (QueueKind, u32)> {
        let send = self.send.as_ref().map(|(queue, _)| queue.number());
        let receive = self.receive.as_ref().map(|(_, queue)| queue.number());
        let send = send.map(|number| (QueueKind::Sq, number));
        let receive = receive.map(|number| (QueueKind::Rq, number));
        Iterator::chain(send.into_iter(), receive)
    }

    /// Number of the TIR. `EINVAL` without a receive queue.
    pub(super) fn tir(&self) -> Result<u32> {
        let (tir, _) = self.receive.as_ref().ok_or(EINVAL)?;
        Ok(tir.number())
    }

    /// Moves the queues along with the QP. Only what ends or begins something concerns them: frames come
    /// from INIT on, and go from RTS on. Sleeps. `EINVAL` for a step that such a QP does not have.
    pub(super) fn step(&self, to: Move) -> Result {
        let receive = self.receive.as_ref().map(|(_, queue)| queue);
        let send = self.send.as_ref().map(|(queue, _)| queue);
        let go = |queue: Option<&Queue>, to| queue.map_or(Ok(()), |queue| queue.go(to));
        // A queue in RST does nothing, so that the device has not stopped it.
        let begin = |queue: Option<&Queue>| {
            queue.map_or(Ok(()), |queue| queue.step(State::Reset, State::Ready))
        };
        let both = |to| go(receive, to).and_then(|()| go(send, to));
        match to {
            Move::Reset => both(State::Reset),
            Move::Error => both(State::Error),
            Move::Step(Transition::RstToInit) => begin(receive),
            Move::Step(Transition::InitToInit | Transition::InitToRtr) => Ok(()),
            Move::Step(Transition::RtrToRts) => begin(send),
            Move::Step(Transition::RtsToRts) => go(send, State::Ready),
            Move::Step(Transition::SqErrToRts) => Err(EINVAL),
        }
    }

    /// The state of the QP, which was last moved to `known`: the device may have stopped a queue. Sleeps.
    /// `EPROTO` for queues whose states do not go together.
    pub(super) fn state(&self, known: QpState) -> Result<QpState> {
        let receive = self.receive.as_ref().map(|(_, queue)| queue.state());
        let send = self.send.as_ref().map(|(queue, _)| queue.state());
        Ok(match (receive.transpose()?, send.transpose()?) {
            (Some(State::Reset), None | Some(State::Reset)) => QpState::Reset,
            (Some(State::Error), None | Some(State::Error)) => QpState::Error,
            (Some(State::Ready), Some(State::Error)) => QpState::Sqe,
            (Some(State::Ready), _) | (None, _) => known,
            (Some(State::Reset | State::Error), Some(_)) => return Err(EPROTO),
        })
    }
}

/// What both queues are made of.
struct Parts {
    /// log2 of its WQEBBs.
    send: Option<(Lot, u8)>,
    /// log2 of its WQEs and of the bytes of each.
    receive: Option<(Lot, (u8, u8))>,
    /// CQs of sends and of receives.
    cqns: (u32, u32),
    pd: u32,
    uar: u32,
    user_index: u32,
    /// Counters of receives.
    counter: u8,
}

impl Parts {
    /// Makes the queues, in RST. Sleeps.
    fn make(self, home: &Home, domain: Arc<TransportDomain>) -> Result<RawQp> {
        let config = |cqn| queue::Config {
            pd: self.pd,
            cqn,
            user_index: self.user_index,
        };
        let (send_cqn, receive_cqn) = self.cqns;
        let send = match self.send {
            Some((lot, log)) => {
                let tis = Tis::new(home, domain.number())?;
                let queue = Queue::send(home, config(send_cqn), lot, log, self.uar, tis.number())?;
                Some((queue, tis))
            }
            None => None,
        };
        let receive = match self.receive {
            Some((lot, shape)) => {
                let queue = Queue::receive(home, config(receive_cqn), lot, shape, self.counter)?;
                let target = Target::Queue(queue.number());
                let tir = Tir::new(home, domain.number(), target)?;
                Some((tir, queue))
            }
            None => None,
        };
        Ok(RawQp {
            receive,
            send,
            _domain: domain,
        })
    }
}

/// Makes such a QP. The core has checked that the user may.
pub(super) fn create(
    data: &Data,
    new: &mut NewQp<'_, Verbs>,
    udata: &mut Udata<'_>,
) -> Result<Pair> {
    let context = new.context()?;
    let user = context.payload();
    let home = user.home()?.clone();
    if !data.device.caps()?.ethernet {
        return Err(EOPNOTSUPP);
    }
    // Its CQEs name it by an index, not by a number (`check_valid_flow`).
    if user.cqe_version() == 0 {
        return Err(EINVAL);
    }
    if new.srq().is_some() {
        data.complain(fmt!("QP: raw packets do not go to an SRQ"));
        return Err(EOPNOTSUPP);
    }
    check_flags(data, new.create_flags())?;
    let wanted = new.caps();
    check_caps(data, &wanted)?;
    let request = abi::CreateQp::parse(udata)?;
    let ends = Ends::of(data, new)?;
    let shape = receive_queue(data, &request)?;
    let log = log_size(data, "send blocks", request.send_blocks)?;
    if shape.is_some() != (wanted.recv_wr != 0) || shape.is_none() && log.is_none() {
        return Err(EINVAL);
    }
    let doorbell = user.doorbell(request.uar)?;
    let lot = |address, bytes| {
        Ok::<_, Error>(Lot {
            buf: context::buffer(context, address, bytes)?,
            record: context::record(context, request.buffers.record)?,
        })
    };
    let send = match log {
        // CAST: the limits keep it far below 2^32.
        Some(log) => {
            let bytes = (request.send_blocks as usize) << LOG_BLOCK;
            Some((lot(request.raw_send, bytes)?, log))
        }
        None => None,
    };
    let receive = match shape {
        Some((log, shift)) => Some((
            lot(request.buffers.queue, 1usize << (log + shift))?,
            (log, shift),
        )),
        None => None,
    };
    let parts = Parts {
        send,
        receive,
        cqns: ends.cqns,
        pd: ends.pd,
        uar: doorbell.uar(),
        user_index: super::user_index(data, &user, request.user_index)?.unwrap_or(0),
        counter: data.device.counter_set(),
    };
    let qp = parts.make(&home, user.transport_domain()?)?;
    let (_, number) = qp.queues().next().ok_or(EINVAL)?;
    let names = qp.queues();
    let inner = Inner::new()?;
    inner.lock().qp = Some(Hardware::Raw(qp));
    // From here on an error destroys it.
    let pair = Pair {
        home,
        events: data.events.clone(),
        kind: new.kind(),
        caps: reported(&request, shape),
        send_blocks: request.send_blocks,
        signals_all: new.signals_all(),
        inner,
        doorbell: Some(doorbell),
        _anchor: None,
        queues: None,
        lives: data.lives.clone(),
    };
    for (kind, number) in names {
        data.events.remember_qp(kind, number, new.notifier())?;
    }
    abi::answer_create_qp(pair.register(), udata)?;
    new.set_number(number);
    Ok(pair)
}
