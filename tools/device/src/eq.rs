// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Event queues.
//!
//! An EQE is 64 bytes (`struct mlx5_eqe` in include/linux/mlx5/device.h). The driver presets the
//! owner bit to 1; entry `i` is new when it equals `(i >> log_size) & 1`. Consumer index and arming
//! come through the UAR page of the EQ (`eq_update_ci` in core/lib/eq.h).

use std::mem::offset_of;

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw,
    ring::{Counter, Ring},
    span, wire,
    wire::put,
};

use crate::{
    buffer::Buffer,
    cmd::{Command, Refused},
    hca::Hca,
    refuse,
    table::{Kind, Object},
};

const EQE: usize = size_of::<raw::mlx5_eqe>();
const DATA: usize = 28;

/// EQ state as QUERY_EQ shows it: `MLX5_EQ_STATE_*`.
const STATE_ARMED: u64 = 0x9;
const STATE_FIRED: u64 = 0xa;

/// One event queue.
#[derive(Debug)]
pub struct Eq {
    buffer: Buffer,
    ring: Ring,
    /// The context as the driver made it, for QUERY_EQ.
    context: [u8; size_of::<ifc::eqc>() / 8],
    /// Doorbell page: only writes there count.
    pub uar: u32,
    /// MSI-X vector.
    pub vector: u16,
    /// Event types it gets: bit n of word n / 64.
    pub mask: [u64; 4],
    overrun_ignore: bool,
    producer: Counter,
    consumer: u32,
    armed: bool,
    overrun: bool,
}

impl Object for Eq {
    const KIND: Kind = Kind::Eq;

    fn footprint(&self) -> u64 {
        footprint(self.buffer.len())
    }
}

/// Context and one translation entry for each page of the ring.
fn footprint(bytes: u64) -> u64 {
    64 + 8 * bytes.div_ceil(4096)
}

impl Eq {
    /// Entries the driver has not consumed.
    pub fn backlog(&self) -> u32 {
        self.producer.low24().wrapping_sub(self.consumer) & 0xff_ffff
    }

    /// Whether it is subscribed to an event type.
    pub fn wants(&self, event: u8) -> bool {
        let word = self.mask.get(usize::from(event / 64)).copied();
        word.unwrap_or(0) >> (event % 64) & 1 == 1
    }

    /// One line for a dump.
    pub fn describe(&self, eqn: u32) -> String {
        format!(
            "EQ {eqn:#x}: vector {} entries {} pi {:#x} ci {:#x} {}{} mask {:x?}",
            self.vector,
            self.ring.entries(),
            self.producer.low24(),
            self.consumer,
            if self.armed { "armed" } else { "fired" },
            if self.overrun { " OVERRUN" } else { "" },
            self.mask,
        )
    }
}

impl Hca {
    /// The EQ subscribed to an event type.
    pub fn eq_of(&self, event: u32) -> Option<u32> {
        let event = u8::try_from(event).ok()?;
        let mut all = self.eqs.iter();
        all.find(|(_, eq)| eq.wants(event)).map(|(eqn, _)| eqn)
    }

    /// Posts an event to the EQ subscribed to its type; an event nobody wants is dropped.
    /// `data` goes to byte 0x20 of the EQE.
    pub fn async_event(&mut self, event: u32, subtype: u8, data: &[u8; DATA]) {
        match self.eq_of(event) {
            Some(eqn) => self.post_eqe(eqn, event, subtype, data),
            None => tracing::debug!("event {event:#x}: no EQ is subscribed"),
        }
    }

    /// Writes an event queue entry and raises the interrupt if the EQ is armed.
    pub fn post_eqe(&mut self, eqn: u32, event: u32, subtype: u8, data: &[u8; DATA]) {
        let Some(eq) = self.eqs.get_mut(eqn) else {
            return;
        };
        let ring = eq.ring;
        if eq.backlog() >= ring.entries() && !eq.overrun_ignore {
            if !eq.overrun {
                eq.overrun = true;
                self.env.counters.eq_overruns += 1;
                // Completion EQs subscribe to nothing.
                let count = match eq.mask {
                    [0, 0, 0, 0] => &mut self.vnic.comp_eq_overruns,
                    _ => &mut self.vnic.async_eq_overruns,
                };
                *count = count.wrapping_add(1);
                tracing::error!("EQ Error: EQ {eqn:#x} overran, events are lost");
                // CAST: the syndrome is a byte.
                self.iseg.syndrome =
                    raw::MLX5_INITIAL_SEG_HEALTH_SYNDROME_ASYNCHRONOUS_EQ_BUF_OVERRUN as u8;
            }
            return;
        }
        let mut entry = [0u8; EQE];
        let start = offset_of!(raw::mlx5_eqe, data);
        entry[start..start + DATA].copy_from_slice(data);
        // CAST: event types are bytes.
        let _ = put(&mut entry, wire!(mlx5_eqe, type_), u64::from(event as u8));
        let _ = put(&mut entry, wire!(mlx5_eqe, sub_type), u64::from(subtype));
        let owner = u64::from(ring.owner(eq.producer));
        let _ = put(&mut entry, wire!(mlx5_eqe, owner), owner);
        let at = u64::from(ring.slot(eq.producer)) * EQE as u64;
        eq.producer = eq.producer.plus(1);
        let fire = std::mem::take(&mut eq.armed);
        let vector = eq.vector;
        // A failed write is counted by the platform; the interrupt still comes.
        let _ = eq.buffer.publish(&mut self.env, at, &entry);
        self.env.counters.eqes += 1;
        if fire {
            self.env.raise(vector);
        }
    }

    /// A consumer index came through a UAR page: `word` is EQN << 24 | index.
    pub fn eq_doorbell(&mut self, uar: u32, word: u32, arm: bool) {
        self.env.counters.eq_doorbells += 1;
        let (eqn, index) = (word >> 24, word & 0xff_ffff);
        let Some(eq) = self.eqs.get_mut(eqn).filter(|eq| eq.uar == uar) else {
            tracing::warn!("EQ doorbell at UAR {uar:#x}: EQ {eqn:#x} is not there");
            return;
        };
        let ahead = index.wrapping_sub(eq.consumer) & 0xff_ffff;
        if ahead > eq.backlog() {
            tracing::warn!(
                "EQ {eqn:#x}: consumer index {index:#x} is ahead of producer {:#x}",
                eq.producer.low24()
            );
            return;
        }
        eq.consumer = index;
        if arm {
            // Arming with unread entries fires at once: the event came between poll and arm.
            eq.armed = eq.backlog() == 0;
            if !eq.armed {
                let vector = eq.vector;
                self.env.raise(vector);
            }
        }
    }
}

/// CREATE_EQ.
pub struct CreateEq;

impl Command for CreateEq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_CREATE_EQ;
    type In = ifc::create_eq_in;
    type Out = ifc::create_eq_out;

    fn footprint(input: Ref<'_, Self::In>) -> u64 {
        let log = input.get(field!(create_eq_in, eq_context_entry.log_eq_size));
        footprint((EQE as u64) << log)
    }

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let eqc = input.sub(span!(create_eq_in, eq_context_entry));
        let log = eqc.get32(field!(eqc, log_eq_size));
        if u64::from(log) > hca.caps.get(field!(cmd_hca_cap, log_max_eq_sz)) {
            refuse!(BadParam, 1, "EQ of 2^{log} entries");
        }
        let uar = eqc.get32(field!(eqc, uar_page));
        hca.uars.find(uar)?;
        // CAST: 12 bits.
        let vector = eqc.get(field!(eqc, intr)) as u16;
        if vector >= hca.env.profile.pci.vectors {
            refuse!(BadParam, 2, "vector {vector}: the card has fewer");
        }
        let mut mask = [0; 4];
        for (index, word) in mask.iter_mut().enumerate() {
            *word = input.get(event_word(index));
        }
        for event in 0..=u8::MAX {
            let asked = mask[usize::from(event / 64)] >> (event % 64) & 1 == 1;
            if let (true, Some(other)) = (asked, hca.eq_of(event.into())) {
                refuse!(
                    BadParam,
                    3,
                    "event {event:#x} already goes to EQ {other:#x}"
                );
            }
        }
        // CAST: at most 2^31 entries pass the capability check.
        let ring = match Ring::new(log as u8) {
            Some(ring) => ring,
            None => refuse!(BadParam, 4, "EQ of 2^{log} entries"),
        };
        let buffer = Buffer::parse(
            input.raw(span!(create_eq_in, pas)),
            eqc.get32(field!(eqc, log_page_size)),
            eqc.get32(field!(eqc, page_offset)),
            (EQE as u64) << log,
        )?;
        let mut context = [0; size_of::<ifc::eqc>() / 8];
        context.copy_from_slice(input.raw(span!(create_eq_in, eq_context_entry)));
        let eqn = hca.eqs.insert(Eq {
            buffer,
            ring,
            context,
            uar,
            vector,
            mask,
            overrun_ignore: eqc.flag(field!(eqc, oi)),
            producer: Counter::default(),
            consumer: 0,
            armed: false,
            overrun: false,
        })?;
        hca.uars.hold(uar)?;
        output.set(field!(create_eq_out, eq_number), eqn.into());
        Ok(())
    }
}

fn event_word(index: usize) -> field::Field<ifc::create_eq_in> {
    match index {
        0 => field!(create_eq_in, event_bitmask[0]),
        1 => field!(create_eq_in, event_bitmask[1]),
        2 => field!(create_eq_in, event_bitmask[2]),
        _ => field!(create_eq_in, event_bitmask[3]),
    }
}

/// DESTROY_EQ.
pub struct DestroyEq;

impl Command for DestroyEq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DESTROY_EQ;
    type In = ifc::destroy_eq_in;
    type Out = ifc::destroy_eq_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let eq = hca
            .eqs
            .remove(input.get32(field!(destroy_eq_in, eq_number)))?;
        hca.uars.release(eq.uar);
        Ok(())
    }
}

/// QUERY_EQ.
pub struct QueryEq;

impl Command for QueryEq {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_EQ;
    type In = ifc::query_eq_in;
    type Out = ifc::query_eq_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let eq = hca.eqs.find(input.get32(field!(query_eq_in, eq_number)))?;
        output
            .raw(span!(query_eq_out, eq_context_entry))
            .copy_from_slice(&eq.context);
        output.with(span!(query_eq_out, eq_context_entry), |eqc| {
            let state = if eq.armed { STATE_ARMED } else { STATE_FIRED };
            eqc.set(field!(eqc, st), state)
                .set(field!(eqc, consumer_counter), eq.consumer.into())
                .set(field!(eqc, producer_counter), eq.producer.low24().into());
        });
        Ok(())
    }
}
