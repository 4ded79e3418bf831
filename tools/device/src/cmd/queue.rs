// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command queue: entries, mailbox chains, delivery status, completion.
//!
//! Entry layout: `struct mlx5_cmd_layout` in include/linux/mlx5/device.h.

use std::{collections::BTreeMap, mem::offset_of, time::Duration};

use mlx5_hw::{raw, status::Delivery, wire, wire::get};

use super::{execute, mailbox, opcode, registry, Verdict};
use crate::{caps, fault::CommandFault, hca::Hca};

/// log2 of the number of slots.
pub const LOG_SLOTS: u32 = 5;
/// log2 of the size of a slot in bytes.
pub const LOG_STRIDE: u32 = 6;

const ENTRY: usize = 1 << LOG_STRIDE;
const INLINE: usize = 16;
const INLINE_IN: usize = offset_of!(raw::mlx5_cmd_layout, in_);
const INLINE_OUT: usize = offset_of!(raw::mlx5_cmd_layout, out);
/// Longest input or output taken: the page list of a 1 GiB memory key fits.
const LONGEST: usize = 16 << 20;

/// State of the queue.
#[derive(Debug, Default)]
pub struct CommandQueue {
    /// Bus address of the entries; 0 until the driver has programmed it.
    pub addr: u64,
    pending: BTreeMap<u8, Pending>,
}

/// A command that is not answered yet.
#[derive(Debug)]
struct Pending {
    posted: Posted,
    wait: Wait,
}

#[derive(Debug)]
enum Wait {
    /// For firmware pages.
    Pages,
    /// For a time of the card's clock.
    Until(Duration),
    /// For ever.
    Ever,
}

/// A command as taken from its slot.
#[derive(Clone, Debug)]
struct Posted {
    slot: u8,
    entry: [u8; ENTRY],
    input: Vec<u8>,
    out_len: usize,
    /// Blocks for the output behind the inline part.
    out_blocks: Vec<u64>,
    /// The command EQ at the time of the doorbell: only it may hear of the completion.
    eqn: Option<u32>,
}

/// Rings the doorbell: bit i of `mask` is slot i.
pub fn doorbell(hca: &mut Hca, mask: u32) {
    hca.env.counters.command_doorbells += 1;
    let eqn = hca.eq_of(raw::MLX5_EVENT_TYPE_CMD);
    for slot in 0..1u8 << LOG_SLOTS {
        if mask >> slot & 1 == 0 {
            continue;
        }
        if hca.cmdq.addr == 0 {
            tracing::warn!("command doorbell before a queue address was written");
            return;
        }
        if hca.cmdq.pending.contains_key(&slot) {
            tracing::warn!("command slot {slot}: doorbell for a command still in work");
            continue;
        }
        take(hca, slot, eqn);
    }
}

/// Does what has become possible: delayed commands whose time has come.
pub fn tick(hca: &mut Hca) {
    let now = hca.env.now();
    let due: Vec<u8> = hca
        .cmdq
        .pending
        .iter()
        .filter(|(_, pending)| matches!(pending.wait, Wait::Until(at) if at <= now))
        .map(|(slot, _)| *slot)
        .collect();
    resume(hca, due);
}

/// When [`tick`] has something to do.
pub fn next_deadline(hca: &Hca) -> Option<Duration> {
    let times = hca.cmdq.pending.values().filter_map(|p| match p.wait {
        Wait::Until(at) => Some(at),
        _ => None,
    });
    times.min()
}

/// Pages were given or refused: parked commands are tried again.
pub fn pages_changed(hca: &mut Hca) {
    let parked: Vec<u8> = hca
        .cmdq
        .pending
        .iter()
        .filter(|(_, pending)| matches!(pending.wait, Wait::Pages))
        .map(|(slot, _)| *slot)
        .collect();
    resume(hca, parked);
}

fn resume(hca: &mut Hca, slots: Vec<u8>) {
    for slot in slots {
        if let Some(pending) = hca.cmdq.pending.remove(&slot) {
            perform(hca, pending.posted);
        }
    }
}

/// Fetches a command and performs it, or says why it was not delivered.
fn take(hca: &mut Hca, slot: u8, eqn: Option<u32>) {
    let mut entry = [0; ENTRY];
    let addr = hca.cmdq.addr + u64::from(slot) * ENTRY as u64;
    if hca.env.read(addr, &mut entry).is_err() {
        // Not even the status can be written.
        return;
    }
    let lay = |member| get(&entry, member).unwrap_or(0);
    if lay(wire!(mlx5_cmd_layout, status_own)) & 1 == 0 {
        tracing::warn!("command slot {slot}: doorbell, but the entry belongs to software");
        return;
    }
    let mut posted = Posted {
        slot,
        entry,
        input: Vec::new(),
        out_len: 0,
        out_blocks: Vec::new(),
        eqn,
    };
    match fetch(hca, &mut posted) {
        Ok(()) => start(hca, posted),
        Err(delivery) => {
            tracing::warn!("command slot {slot}: not delivered: {}", delivery.text());
            hca.env.counters.delivery_errors += 1;
            let mut output = vec![0; INLINE];
            complete(hca, &posted, delivery, &mut output);
        }
    }
}

fn fetch(hca: &mut Hca, posted: &mut Posted) -> Result<(), Delivery> {
    let entry = posted.entry;
    let lay = |member| get(&entry, member).unwrap_or(0);
    if lay(wire!(mlx5_cmd_layout, type_)) != u64::from(raw::MLX5_PCI_CMD_XPORT) {
        return Err(Delivery::Descriptor);
    }
    if entry[1..4].iter().any(|byte| *byte != 0) || entry[0x3e] != 0 {
        return Err(Delivery::Reserved);
    }
    if caps::checksums_on(hca) && entry.iter().fold(0, |sum, byte| sum ^ byte) != 0xff {
        return Err(Delivery::Signature);
    }
    // CAST: 32-bit lengths.
    let in_len = lay(wire!(mlx5_cmd_layout, inlen)) as usize;
    let out_len = lay(wire!(mlx5_cmd_layout, outlen)) as usize;
    if !(8..=LONGEST).contains(&in_len) {
        return Err(Delivery::InputLen);
    }
    if !(8..=LONGEST).contains(&out_len) {
        return Err(Delivery::OutputLen);
    }
    let token = entry[wire!(mlx5_cmd_layout, token).offset()];
    posted.input = entry[INLINE_IN..INLINE_IN + INLINE.min(in_len)].to_vec();
    posted.out_len = out_len;
    if in_len > INLINE {
        let first = lay(wire!(mlx5_cmd_layout, in_ptr));
        let mut rest = Vec::new();
        let input = Some(&mut rest);
        mailbox::walk(
            hca,
            first,
            in_len - INLINE,
            token,
            Delivery::InputAlignment,
            input,
        )?;
        posted.input.extend_from_slice(&rest);
    }
    if out_len > INLINE {
        let first = lay(wire!(mlx5_cmd_layout, out_ptr));
        posted.out_blocks = mailbox::walk(
            hca,
            first,
            out_len - INLINE,
            token,
            Delivery::OutputAlignment,
            None,
        )?;
    }
    Ok(())
}

fn start(hca: &mut Hca, posted: Posted) {
    let opcode = opcode(&posted.input);
    match hca.env.faults.command(opcode) {
        Some(CommandFault::Swallow) => {
            tracing::info!("fault: {} swallowed", registry::name(opcode));
            park(hca, posted, Wait::Ever);
        }
        Some(CommandFault::Delay(delay)) => {
            tracing::info!("fault: {} delayed by {delay:?}", registry::name(opcode));
            let until = hca.env.now() + delay;
            park(hca, posted, Wait::Until(until));
        }
        Some(CommandFault::Fail(status)) => {
            tracing::info!("fault: {} fails with {status:#x}", registry::name(opcode));
            let mut output = vec![0; posted.out_len.max(INLINE)];
            output[0] = status;
            let words = describe(hca, opcode, &posted.input, true);
            let reason = format!("{status:#x} by fault");
            finish(hca, &posted, &words, &mut output, Some(reason));
        }
        None => perform(hca, posted),
    }
}

fn park(hca: &mut Hca, posted: Posted, wait: Wait) {
    hca.cmdq
        .pending
        .insert(posted.slot, Pending { posted, wait });
}

fn perform(hca: &mut Hca, posted: Posted) {
    let mut output = vec![0; posted.out_len.max(INLINE)];
    // What the input says may depend on what it changes.
    let words = describe(hca, opcode(&posted.input), &posted.input, true);
    match execute(hca, &posted.input, posted.out_len, &mut output) {
        Verdict::Parked => park(hca, posted, Wait::Pages),
        Verdict::Done => finish(hca, &posted, &words, &mut output, None),
        Verdict::Refused(refused) => {
            let name = registry::name(opcode(&posted.input));
            tracing::warn!(
                "{name} refused: {}: {}",
                refused.status.text(),
                refused.what
            );
            let reason = format!(
                "{:?} {:#06x}: {}",
                refused.status, refused.code, refused.what
            );
            finish(hca, &posted, &words, &mut output, Some(reason));
        }
    }
    hca.after_command();
}

fn finish(
    hca: &mut Hca,
    posted: &Posted,
    fields: &str,
    output: &mut [u8],
    refused: Option<String>,
) {
    let opcode = opcode(&posted.input);
    let name = registry::name(opcode);
    let result = match &refused {
        Some(reason) => reason.clone(),
        None => format!("OK {}", describe(hca, opcode, output, false))
            .trim_end()
            .to_owned(),
    };
    let micros = u64::try_from(hca.env.now().as_micros()).unwrap_or(u64::MAX);
    let line = if fields.is_empty() {
        format!("{name} -> {result}")
    } else {
        format!("{name} {fields} -> {result}")
    };
    hca.env.trace.push(micros, line);
    *hca.env.counters.commands.entry(name.clone()).or_default() += 1;
    if refused.is_some() {
        *hca.env.counters.refused.entry(name).or_default() += 1;
    }
    complete(hca, posted, Delivery::Ok, output);
}

/// The fields of an input or output that are not zero, in words.
fn describe(hca: &Hca, opcode: u16, bytes: &[u8], input: bool) -> String {
    let Some(entry) = registry::find(opcode) else {
        return String::new();
    };
    if u32::from(opcode) == raw::MLX5_CMD_OP_ACCESS_REG {
        return crate::register::describe(bytes, input);
    }
    if u32::from(opcode) == raw::MLX5_CMD_OP_SET_HCA_CAP && input {
        return caps::describe_set(hca, bytes);
    }
    let layout = if input { entry.input } else { entry.output };
    let words = layout.decode(bytes);
    // The line starts with the name of the opcode.
    let own = format!("opcode={opcode:#x}");
    words.strip_prefix(&own).unwrap_or(&words).trim().to_owned()
}

/// Writes the output, gives the entry back with its last byte, and tells the command EQ.
fn complete(hca: &mut Hca, posted: &Posted, delivery: Delivery, output: &mut [u8]) {
    let signed = caps::checksums_on(hca);
    let (inline, rest) = output.split_at(INLINE.min(output.len()));
    for (addr, data) in posted.out_blocks.iter().zip(rest.chunks(mailbox::DATA)) {
        // A block that cannot be written cannot be reported either: the platform counts it.
        let _ = hca.env.write(*addr, data);
        if signed {
            mailbox::sign(hca, *addr);
        }
    }
    let addr = hca.cmdq.addr + u64::from(posted.slot) * ENTRY as u64;
    let mut entry = posted.entry;
    entry[INLINE_OUT..INLINE_OUT + inline.len()].copy_from_slice(inline);
    entry[0x3f] = delivery.code() << 1;
    entry[0x3d] = 0;
    if signed {
        entry[0x3d] = !entry.iter().fold(0, |sum, byte| sum ^ byte);
    }
    if hca
        .env
        .publish(addr + INLINE_OUT as u64, &entry[INLINE_OUT..])
        .is_err()
    {
        return;
    }
    // Only an EQ that existed when the doorbell rang and still exists: a driver that polls has no
    // handler for the event.
    if let Some(eqn) = posted.eqn.filter(|eqn| hca.eqs.get(*eqn).is_some()) {
        let times = if hca.env.faults.duplicate_event() {
            2
        } else {
            1
        };
        for _ in 0..times {
            command_event(hca, eqn, 1 << posted.slot);
        }
    }
}

/// Posts a command completion event for a mask of slots.
pub fn command_event(hca: &mut Hca, eqn: u32, slots: u32) {
    let mut data = [0; 28];
    data[..4].copy_from_slice(&slots.to_be_bytes());
    hca.post_eqe(eqn, raw::MLX5_EVENT_TYPE_CMD, 0, &data);
}
