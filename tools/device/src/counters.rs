// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the card counts. Counters outlive resets.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::table::Kind;

/// Everything counted since the card was made.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counters {
    /// Commands by name, refused ones included.
    pub commands: BTreeMap<String, u64>,
    /// Commands that did not end with status OK, by name.
    pub refused: BTreeMap<String, u64>,
    /// Entries that were not delivered (bad token, alignment, ...).
    pub delivery_errors: u64,
    /// Reads of the initialization segment.
    pub iseg_reads: u64,
    /// Writes to it, the command doorbell included.
    pub iseg_writes: u64,
    /// Writes to the command doorbell.
    pub command_doorbells: u64,
    /// Writes of an EQ consumer index, armed or not.
    pub eq_doorbells: u64,
    /// CQ arm doorbells.
    pub cq_doorbells: u64,
    /// SQ doorbells of 8 bytes or less.
    pub sq_doorbells: u64,
    /// SQ doorbells that carried a whole WQE (BlueFlame).
    pub blueflame: u64,
    /// WQEs executed as they came with the doorbell, without a read of the work queue.
    pub blueflame_taken: u64,
    /// Accesses that hit nothing: no UAR page handed out, no such register, wrong size.
    pub stray_accesses: u64,
    /// Turns of queues in the data path.
    pub turns: u64,
    /// MSI-X messages raised.
    pub interrupts: u64,
    /// The same by vector.
    pub interrupts_by_vector: BTreeMap<u16, u64>,
    /// Messages swallowed by a fault.
    pub interrupts_swallowed: u64,
    /// Bytes read from host memory.
    pub dma_read_bytes: u64,
    /// Bytes written to host memory.
    pub dma_written_bytes: u64,
    /// DMA accesses the platform refused.
    pub dma_errors: u64,
    /// Event queue entries written.
    pub eqes: u64,
    /// Completion queue entries written.
    pub cqes: u64,
    /// Completion queue entries that say error.
    pub error_cqes: u64,
    /// CQs that overran.
    pub cq_overruns: u64,
    /// EQs that overran.
    pub eq_overruns: u64,
    /// Frames put on the wire.
    pub frames_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Frames that came from the wire.
    pub frames_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Frames that went back into the same card.
    pub frames_looped: u64,
    /// Frames nobody wanted.
    pub frames_dropped: u64,
    /// Resets of the function, by kind.
    pub resets: BTreeMap<String, u64>,
    /// Counters of the transport engine, by name (rnr_nak_sent, out_of_sequence, ...).
    pub transport: BTreeMap<&'static str, u64>,
    /// Counters of the Ethernet engine, by name.
    pub ethernet: BTreeMap<&'static str, u64>,
}

/// How many objects of each kind live, and the pages they stand on.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Census {
    /// Objects alive.
    pub objects: BTreeMap<&'static str, usize>,
    /// Pages the host has given.
    pub pages_given: u64,
    /// Pages needed for what lives now.
    pub pages_used: u64,
}

impl Census {
    /// Adds the objects of one kind.
    pub fn add(&mut self, kind: Kind, count: usize) {
        self.objects.insert(kind.text(), count);
    }
}
