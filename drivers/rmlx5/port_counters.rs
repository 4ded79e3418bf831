// SPDX-License-Identifier: GPL-2.0
//! What the port's RDMA queues have counted since the driver was bound.
//!
//! The card counts in one set of 32-bit counters for all QPs, of users, of the kernel and of the
//! driver's channels. A set ends with its device generation; here its counts are added up in 64 bits,
//! so that nothing runs backwards. What a set counted between the last look and a reset is lost with
//! it, and so is a counter that wraps around twice between two looks.
//!
//! Congestion is counted by the port, in 64 bits, and begins with what the port says first: the firmware of a card may have
//! counted before the driver was bound. Whether a reset clears that is the card's affair: a count that is lower than at the
//! last look has begun again.
//!
//! The driver adds what the card does not count.

use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

use crate::{
    cmd::{
        queue::Counter,
        Cmd, //
    },
    congestion,
    event::{
        Event,
        Listener, //
    },
    q_counter::{
        self,
        Counts, //
    }, //
};

/// Syndrome of a CQ error that says overrun; source: `MLX5_CQ_ERROR_SYNDROME_CQ_OVERRUN`.
const OVERRUN: u32 = mlx5_hw::raw::MLX5_CQ_ERROR_SYNDROME_CQ_OVERRUN;

/// Which cards count it. Source: `mlx5_ib_fill_counters` in ib/counters.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// All.
    Basic,
    /// Those with `out_of_seq_cnt`.
    Sequence,
    /// Those with `retransmission_q_counters`.
    Retransmission,
    /// Those with `enhanced_error_q_counters`.
    Errors,
    /// Those with `cc_query_allowed`; not in a Q counter.
    Congestion,
    /// The driver counts it, whatever the card.
    Driver,
}

type Get = fn(&Counts) -> u32;

macro_rules! hardware {
    ($($group:ident $name:ident,)+) => {
        const HARDWARE: &[(&CStr, Group, Get)] = &[
            $((
                // PANIC: a name has no zero byte; found out when this is compiled.
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
                Group::$group,
                |counts| counts.$name,
            ),)+
        ];
    };
}

hardware! {
    Basic rx_write_requests,
    Basic rx_read_requests,
    Basic rx_atomic_requests,
    Basic out_of_buffer,
    Sequence out_of_sequence,
    Retransmission duplicate_request,
    Retransmission rnr_nak_retry_err,
    Retransmission packet_seq_err,
    Retransmission implied_nak_seq_err,
    Retransmission local_ack_timeout_err,
    Errors resp_local_length_error,
    Errors resp_cqe_error,
    Errors req_cqe_error,
    Errors req_remote_invalid_request,
    Errors req_remote_access_errors,
    Errors resp_remote_access_errors,
    Errors resp_cqe_flush_error,
    Errors req_cqe_flush_error,
    Errors req_transport_retries_exceeded,
    Errors req_rnr_retries_exceeded,
}

/// Names of the driver's own.
const DRIVER: [&CStr; 3] = [c"cq_overrun", c"qp_recovered", c"dma_mapping_error"];

/// Number of counters of all groups.
pub(crate) const COUNT: usize = HARDWARE.len() + congestion::COUNT + DRIVER.len();

/// Name and group of a counter; `None` from [`COUNT`] on.
pub(crate) fn name(index: usize) -> Option<(&'static CStr, Group)> {
    let hardware = HARDWARE.iter().map(|(name, group, _)| (*name, *group));
    let congestion = congestion::NAMES
        .iter()
        .map(|name| (*name, Group::Congestion));
    let driver = DRIVER.iter().map(|name| (*name, Group::Driver));
    let card = Iterator::chain(hardware, congestion);
    Iterator::chain(card, driver).nth(index)
}

/// The set of the card, in one device generation.
struct Set {
    generation: u32,
    /// 0 without: the card has no more, and counts nothing.
    number: u8,
    /// Its counts at the last look.
    last: [u32; HARDWARE.len()],
    /// All counts up to then.
    total: [u64; HARDWARE.len()],
    /// What the port counts of congestion.
    congestion: Congestion,
}

/// Counts of the port that are not in a set.
#[derive(Default)]
struct Congestion {
    /// At the last look.
    last: [u64; congestion::COUNT],
    /// All up to then.
    total: [u64; congestion::COUNT],
}

impl Congestion {
    fn add(&mut self, counts: [u64; congestion::COUNT]) {
        let slots = self.last.iter_mut().zip(self.total.iter_mut());
        for (now, (last, total)) in counts.into_iter().zip(slots) {
            // Lower than before: it has begun again.
            let new = now.checked_sub(*last).unwrap_or(now);
            *total = total.wrapping_add(new);
            *last = now;
        }
    }
}

/// The counters of a card.
#[pin_data]
pub(crate) struct PortCounters {
    /// Held while the card is asked.
    #[pin]
    set: Mutex<Set>,
    /// CQs of anybody that overran.
    cq_overruns: Counter,
    /// QPs of channels that came back from ERROR.
    pub(crate) qps_recovered: Counter,
    /// Memory that could not be mapped for the card.
    pub(crate) mapping_errors: Counter,
}

impl PortCounters {
    /// Nothing was counted yet.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            set <- new_mutex!(Set {
                generation: 0,
                number: 0,
                last: [0; HARDWARE.len()],
                total: [0; HARDWARE.len()],
                congestion: Congestion::default(),
            }),
            cq_overruns: Counter::default(),
            qps_recovered: Counter::default(),
            mapping_errors: Counter::default(),
        })
    }

    /// The number of the set in `generation`, for QP contexts; made at the first call. Sleeps.
    pub(crate) fn set(&self, cmd: &Cmd, generation: u32) -> u8 {
        let mut set = self.set.lock();
        if set.generation != generation {
            set.generation = generation;
            set.last = [0; HARDWARE.len()];
            set.number = q_counter::alloc(cmd).unwrap_or(0);
        }
        set.number
    }

    /// Looks at the card, if it is there, and gives the counters in the order of [`name`]; those of
    /// congestion stay as they are unless `congestion` asks for them. Sleeps.
    pub(crate) fn read(&self, cmd: &Cmd, generation: u32, congestion: bool) -> [u64; COUNT] {
        let mut guard = self.set.lock();
        let set = &mut *guard;
        if set.number != 0 && set.generation == generation {
            // A card that was lost meanwhile has nothing new.
            if let Ok(counts) = q_counter::query(cmd, set.number) {
                let slots = set.last.iter_mut().zip(set.total.iter_mut());
                for ((_, _, get), (last, total)) in HARDWARE.iter().zip(slots) {
                    let now = get(&counts);
                    *total = total.wrapping_add(now.wrapping_sub(*last).into());
                    *last = now;
                }
            }
        }
        // The core looks at a new port before there is a QP: nothing is counted then.
        if congestion && set.generation == generation {
            // As above.
            if let Ok(counts) = congestion::query(cmd) {
                set.congestion.add(counts);
            }
        }
        let driver = [
            self.cq_overruns.get(),
            self.qps_recovered.get(),
            self.mapping_errors.get(),
        ];
        let mut values = [0; COUNT];
        let card = Iterator::chain(set.total.iter(), &set.congestion.total);
        let all = Iterator::chain(card, &driver);
        for (value, count) in values.iter_mut().zip(all) {
            *value = *count;
        }
        values
    }

    /// Gives the set back; all QPs are gone. Sleeps.
    pub(crate) fn end(&self, cmd: &Cmd, generation: u32) {
        let mut set = self.set.lock();
        if set.number != 0 && set.generation == generation {
            // The answer is not needed: a card that fails is reset.
            let _ = q_counter::dealloc(cmd, set.number);
            set.number = 0;
        }
    }
}

impl Listener for PortCounters {
    fn event(&self, event: Event) {
        if let Event::CqError { syndrome, .. } = event {
            if u32::from(syndrome) == OVERRUN {
                self.cq_overruns.inc();
            }
        }
    }
}
