// SPDX-License-Identifier: GPL-2.0
//! Who there is: finds the channel that an asynchronous event or a letter of the peer is about.
//!
//! Its lock is taken in hard interrupts. It holds references to the channels, so whoever takes
//! channels away takes them from the roster first.

use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    }, //
};

use super::{
    control::Control,
    letter::Mail,
    Alarm,
    Channel, //
};
use crate::event::{
    Event,
    Listener,
    QpEvent, //
};

/// Syndrome of a CQ error that says overrun; source: `MLX5_CQ_ERROR_SYNDROME_CQ_OVERRUN`.
const OVERRUN: u32 = mlx5_hw::raw::MLX5_CQ_ERROR_SYNDROME_CQ_OVERRUN;
/// `sub` of a port event that says that the port carries traffic.
/// Source: `MLX5_PORT_CHANGE_SUBTYPE_ACTIVE`.
const ACTIVE: u8 = mlx5_hw::raw::MLX5_PORT_CHANGE_SUBTYPE_ACTIVE as u8;

struct Members {
    /// In the order of their indexes.
    channels: KVec<Arc<Channel>>,
    control: Option<Arc<Control>>,
}

/// The channels of a card, and its control QP.
#[pin_data]
pub(super) struct Roster {
    #[pin]
    members: SpinLockIrq<Members>,
}

impl Roster {
    /// Nobody yet.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                members <- new_spinlock_irq!(Members {
                    channels: KVec::new(),
                    control: None,
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Replaces the list of channels. The old one is dropped outside the lock. Sleeps.
    pub(super) fn set_channels(&self, mut list: KVec<Arc<Channel>>) {
        core::mem::swap(&mut self.members.lock().channels, &mut list);
    }

    /// Replaces the control QP. Sleeps.
    pub(super) fn set_control(&self, mut control: Option<Arc<Control>>) {
        core::mem::swap(&mut self.members.lock().control, &mut control);
    }

    /// Brings a letter to its channel; whether it found room there. Any context.
    pub(super) fn deliver(&self, mail: Mail) -> bool {
        let members = self.members.lock();
        // CAST: `usize` has 64 bits here.
        let Some(channel) = members.channels.get(mail.letter.to as usize) else {
            return false;
        };
        let there_is_room = channel.core.mail.lock().put(mail);
        channel.wake();
        there_is_room
    }

    fn raise(&self, alarm: Alarm, number: u32) {
        let members = self.members.lock();
        let is_cq = alarm.is_cq();
        for channel in members.channels.iter() {
            let core = &channel.core;
            if (is_cq && core.is_cq(number)) || (!is_cq && core.is_qp(number)) {
                core.raise(alarm);
                channel.wake();
                return;
            }
        }
        if let Some(control) = &members.control {
            control.hear(alarm, number);
        }
    }

    /// The port carries traffic again: whoever waits for the peer asks at once.
    fn nudge(&self) {
        for channel in self.members.lock().channels.iter() {
            channel.core.nudge();
            channel.wake();
        }
    }
}

impl Listener for Roster {
    fn event(&self, event: Event) {
        match event {
            Event::Qp { kind, number, .. } => {
                let alarm = match kind {
                    QpEvent::Catastrophic => Alarm::QpCatastrophic,
                    QpEvent::InvalidRequest => Alarm::QpRequest,
                    QpEvent::AccessError => Alarm::QpAccess,
                    _ => return,
                };
                self.raise(alarm, number);
            }
            Event::CqError { cqn, syndrome } => {
                let alarm = match u32::from(syndrome) {
                    OVERRUN => Alarm::CqOverrun,
                    _ => Alarm::CqAccess,
                };
                self.raise(alarm, cqn);
            }
            Event::Port { sub: ACTIVE, .. } => self.nudge(),
            _ => {}
        }
    }
}
