// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests that stay on this side, and the byte order of atomics.

use super::{memory, requester};
use crate::{
    hca::Hca,
    mkey::{apply_umr, By, Need, Umr, ANY_QP},
    qp::{wqe::Op, Kind, Owner, Qp, Segments},
    violation::Violation,
};
use mlx5_hw::{
    field,
    field::{bytes_of, Ref},
    ifc, raw, wire,
    wire::get,
};

/// Control segment, UMR control segment, key context.
const UMR_CONTROL: usize = 16;
const UMR_CONTEXT: usize = UMR_CONTROL + 48;
const UMR_DATA: usize = UMR_CONTEXT + bytes_of::<ifc::mkc>();
/// Translations stand in the request.
const INLINE: u8 = 0x80;

/// Runs the local request at the cursor: it is done, or has failed.
pub(super) fn run(hca: &mut Hca, qp: &mut Qp) {
    let cursor = qp.requester.cursor;
    let Some(flight) = qp.requester.flight.get_mut(cursor) else {
        return;
    };
    let bytes = std::mem::take(&mut flight.umr);
    let control = flight.wqe.control;
    let outcome = match flight.wqe.op {
        Op::Umr => umr(hca, qp, &bytes, u32::from_be_bytes(control.imm)),
        _ => Ok(()),
    };
    let Some(flight) = qp.requester.flight.get_mut(cursor) else {
        return;
    };
    match outcome {
        Ok(()) => {
            flight.done = true;
            qp.requester.cursor += 1;
            qp.requester.sent = 0;
        }
        Err((violation, why)) => {
            let index = control.index;
            tracing::error!("QP {:#x}: UMR request {index}: {why}", qp.qpn);
            flight.error = Some(violation.into());
        }
    }
    requester::settle(hca, qp);
}

fn umr(hca: &mut Hca, qp: &Qp, bytes: &[u8], key: u32) -> Result<(), (Violation, String)> {
    let short = || (Violation::UmrShort, format!("{} bytes", bytes.len()));
    let control = bytes.get(UMR_CONTROL..UMR_CONTEXT).ok_or_else(short)?;
    let mkc = bytes.get(UMR_CONTEXT..UMR_DATA).ok_or_else(short)?;
    let data = bytes.get(UMR_DATA..).unwrap_or(&[]);
    let value = |member| get::<raw::mlx5_wqe_umr_ctrl_seg>(control, member).unwrap_or(0);
    // CAST: 8, 16 and 32 bits wide.
    let flags = value(wire!(mlx5_wqe_umr_ctrl_seg, flags)) as u8;
    let octowords = value(wire!(mlx5_wqe_umr_ctrl_seg, xlt_octowords)) as u32;
    let low = value(wire!(mlx5_wqe_umr_ctrl_seg, __bindgen_anon_1.xlt_offset));
    let high = value(wire!(mlx5_wqe_umr_ctrl_seg, xlt_offset_47_16));
    let umr = Umr {
        flags,
        key,
        mask: value(wire!(mlx5_wqe_umr_ctrl_seg, mkey_mask)),
        offset: high << 16 | low,
        octowords,
        mkc: Ref::new(mkc).ok_or_else(short)?,
    };
    // At most 1 MiB: the member has 16 bits.
    let len = octowords as usize * 16;
    let mut fetched = Vec::new();
    let xlt: &[u8] = if flags & INLINE != 0 {
        data.get(..len).ok_or_else(|| {
            let why = format!("{octowords} octowords inline, not there");
            (Violation::UmrInline, why)
        })?
    } else if len > 0 {
        let list = Segments::of_send(data).map_err(|bad| (bad.violation(), bad.to_string()))?;
        if list.len() < len as u64 {
            return Err((
                Violation::UmrList,
                format!("{octowords} octowords in {} bytes", list.len()),
            ));
        }
        fetched.resize(len, 0);
        list.gather(&mut memory(hca), qp.owner(), 0, &mut fetched)
            .map_err(|fault| (fault.violation(), fault.to_string()))?;
        &fetched
    } else {
        &[]
    };
    let by = By {
        pd: qp.pd,
        qpn: qp.qpn,
        privileged: qp.kind == Kind::Umr,
    };
    let index = key >> 8;
    let new_pd = umr.mkc.get32(field!(mkc, pd));
    if umr.sets_pd() && hca.pds.get(new_pd).is_none() {
        return Err((Violation::UmrNoDomain, format!("no PD {new_pd:#x}")));
    }
    let mkey = hca
        .mkeys
        .get_mut(index)
        .ok_or_else(|| (Violation::UmrKey, format!("no key {key:#x}")))?;
    let before = mkey.holds_pd.then_some(mkey.pd);
    apply_umr(mkey, &umr, xlt, by).map_err(|why| (why.violation(), why.to_string()))?;
    let after = mkey.pd;
    if umr.sets_pd() && before != Some(after) {
        mkey.holds_pd = true;
        // The domain was found a moment ago.
        let _ = hca.pds.hold(after);
        if let Some(before) = before {
            hca.pds.release(before);
        }
    }
    Ok(())
}

/// SEND with invalidate has arrived: the key may not be used any more.
pub(super) fn invalidate(hca: &mut Hca, owner: Owner, key: u32) -> Result<(), String> {
    let mkey = hca
        .mkeys
        .get_mut(key >> 8)
        // CAST: the low byte.
        .filter(|mkey| mkey.variant == key as u8)
        .ok_or_else(|| format!("no key {key:#x}"))?;
    if mkey.pd != owner.pd {
        return Err(format!("key {key:#x} is in PD {:#x}", mkey.pd));
    }
    // A window of type 2 belongs to the QP that bound it.
    if mkey.qpn != ANY_QP && mkey.qpn != owner.qpn {
        return Err(format!("key {key:#x} belongs to QP {:#x}", mkey.qpn));
    }
    if !mkey.rinval {
        return Err(format!("key {key:#x} may not be invalidated remotely"));
    }
    mkey.invalidate();
    Ok(())
}

/// Whether atomic operands in memory have the byte order of the host (little endian) instead of
/// big endian. Source: `atomic_req_8B_endianness_mode`, `get_atomic_caps` in ib/main.c.
fn host_order(hca: &Hca) -> bool {
    hca.caps
        .has(field!(atomic_caps, atomic_req_8B_endianness_mode))
}

/// Eight bytes for the requester's memory.
pub(super) fn atomic_result(hca: &Hca, old: u64) -> [u8; 8] {
    if host_order(hca) {
        old.to_le_bytes()
    } else {
        old.to_be_bytes()
    }
}

/// An atomic operation of the other side; the old value.
pub(super) fn atomic(
    hca: &mut Hca,
    owner: Owner,
    request: &roce::AtomicEth,
    swap: bool,
) -> Result<u64, crate::mkey::Fault> {
    let host = host_order(hca);
    let order = |value: u64| if host { value } else { value.swap_bytes() };
    let reach = owner.reach(request.rkey, Need::Atomic);
    let old = memory(hca).update64(reach, request.va, &mut |raw| {
        let now = order(raw);
        let new = match swap {
            true if now == request.compare => request.swap_or_add,
            true => now,
            false => now.wrapping_add(request.swap_or_add),
        };
        order(new)
    })?;
    Ok(order(old))
}
