// SPDX-License-Identifier: GPL-2.0
//! Geometry of a channel: its queues and its memory.
//!
//! A channel has two MRs. What the other end may touch is apart from what it may not.
//!
//! | MR | area | offset | use |
//! |---|---|---|---|
//! | local | source | 0 | what this end writes and sends |
//! | local | sink | AREA | where READ and FETCH_ADD results land |
//! | local | receive | 2 x AREA | one slot for each receive WQE |
//! | local | scratch | then | the value that a counter starts with |
//! | shared | target | 0 | what the other end writes and reads |
//! | shared | counter | AREA | what the other end adds to |
//!
//! Source, sink and target are divided into slots as long as the longest message of the run.
//! What the control QP has is in [`control`].

/// WQEs of the send queue and of the receive queue.
pub(crate) const WQES: u32 = 128;
/// log2 of [`WQES`].
pub(crate) const LOG_WQES: u8 = 7;
/// CQEs that the queues of one channel can cause: the least depth of its CQ.
pub(crate) const MIN_CQES: u32 = 2 * WQES;
/// Depth of a channel CQ unless `resource/cq_size` says otherwise.
pub(crate) const DEFAULT_CQES: u32 = 1024;
/// Channels unless `num_qps` says otherwise.
pub(crate) const DEFAULT_CHANNELS: u32 = 8;
/// Most channels there can be; the HCA's limit may be lower.
pub(crate) const MAX_CHANNELS: u32 = 256;

/// Bytes of one area.
pub(crate) const AREA_BYTES: u32 = 256 << 10;
/// Bytes of the smallest message.
pub(crate) const MIN_MESSAGE: u32 = 1;
/// Bytes of the largest message.
pub(crate) const MAX_MESSAGE: u32 = 64 << 10;
/// Bytes of one receive slot, and so of the largest SEND.
pub(crate) const RECV_BYTES: u32 = 4096;

/// Offset of the source area in the local MR.
pub(crate) const SOURCE: u32 = 0;
/// Offset of the sink area in the local MR.
pub(crate) const SINK: u32 = AREA_BYTES;
/// Offset of the receive slots in the local MR.
pub(crate) const RECEIVE: u32 = 2 * AREA_BYTES;
/// Offset of 8 bytes in the local MR that hold the value a counter starts with.
pub(crate) const SCRATCH: u32 = RECEIVE + WQES * RECV_BYTES;
/// Bytes of the local MR.
pub(crate) const LOCAL_BYTES: u32 = SCRATCH + 4096;

/// Offset of the target area in the shared MR.
pub(crate) const TARGET: u32 = 0;
/// Offset of the counter in the shared MR.
pub(crate) const COUNTER: u32 = AREA_BYTES;
/// Bytes of the shared MR.
pub(crate) const SHARED_BYTES: u32 = COUNTER + 4096;

/// Most slots in use at a time; with the counter's own WQE they fit the send queue.
pub(crate) const MAX_SLOTS: usize = 32;

/// Length of a slot for messages of up to `longest` bytes: a cache line apart from the next.
pub(crate) const fn slot_bytes(longest: u32) -> u32 {
    longest.next_multiple_of(64)
}

/// Slots of that length in an area.
pub(crate) const fn slots(longest: u32) -> usize {
    // CAST: at most a few thousand.
    let fit = (AREA_BYTES / slot_bytes(longest)) as usize;
    if fit < MAX_SLOTS {
        fit
    } else {
        MAX_SLOTS
    }
}

/// Queues and memory of the control QP: receives, then what is sent.
pub(crate) mod control {
    /// log2 of the WQEs of each queue.
    pub(crate) const LOG_WQES: u8 = 7;
    /// log2 of the CQEs: what both queues can cause.
    pub(crate) const LOG_CQES: u8 = LOG_WQES + 1;
    /// Bytes of a receive: a letter with its GRH, and a little more, so that a longer one is seen.
    pub(crate) const RECEIVE_BYTES: u32 = 128;
    /// Bytes of a letter that is sent.
    pub(crate) const SEND_BYTES: u32 = 64;
    /// Offset of what is sent.
    pub(crate) const SEND: u32 = RECEIVE_BYTES << LOG_WQES;
    /// Bytes of all of it.
    pub(crate) const AREA_BYTES: u32 = SEND + (SEND_BYTES << LOG_WQES);
}
