// SPDX-License-Identifier: GPL-2.0
//! Files under /sys/class/infiniband/DEV/: `num_qps`, `irq_affinity_list` and `resource/`.
//!
//! What they promise stands in Documentation/ABI/testing/sysfs-class-infiniband-rmlx5. A value that
//! is refused changes nothing and leaves one line with the numbers in the log.

use core::fmt::Write;

use kernel::prelude::*;
use kernel_ext::{
    rdma::DataOf,
    sysfs::{
        Attribute,
        Group,
        Output, //
    },
};

use super::{
    Data,
    Verbs, //
};
use crate::channel::knobs::Refusal;

type Owner = DataOf<Verbs>;

/// A decimal number; no sign, no prefix.
fn number(data: &Data, name: &str, text: &str) -> Result<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(value) if digits => Ok(value),
        _ => {
            dev_err!(data.device.pdev, "{}: not a number of 32 bits\n", name);
            Err(EINVAL)
        }
    }
}

/// Says why a value is refused, and with what errno.
fn refuse(data: &Data, name: &str, value: u32, refusal: Refusal) -> Error {
    let pdev = &data.device.pdev;
    match refusal {
        Refusal::Range { min, max } => {
            dev_err!(
                pdev,
                "{}: {} is not between {} and {}\n",
                name,
                value,
                min,
                max
            )
        }
        Refusal::Odd => {
            dev_err!(
                pdev,
                "{}: {} is odd, loopback pairs need an even number\n",
                name,
                value
            )
        }
        Refusal::Error(error) => {
            dev_err!(
                pdev,
                "{}: {} is not possible, error {}\n",
                name,
                value,
                error.to_errno()
            )
        }
    }
    refusal.errno()
}

fn show(out: &mut Output<'_>, value: u64) -> Result {
    Ok(out.write_fmt(fmt!("{}\n", value))?)
}

static NUM_QPS: Attribute<Owner> = Attribute::rw(
    c"num_qps",
    |data: Pin<&Data>, out| show(out, data.channels.count().into()),
    |data: Pin<&Data>, text| {
        let value = number(&data, "num_qps", text)?;
        data.channels
            .set_count(value)
            .map_err(|refusal| refuse(&data, "num_qps", value, refusal))
    },
);

static CQ_SIZE: Attribute<Owner> = Attribute::rw(
    c"cq_size",
    |data: Pin<&Data>, out| show(out, data.channels.depth().into()),
    |data: Pin<&Data>, text| {
        let value = number(&data, "cq_size", text)?;
        match data.channels.set_depth(value) {
            Ok(_) => Ok(()),
            Err(refusal) => Err(refuse(&data, "cq_size", value, refusal)),
        }
    },
);

static IRQ_AFFINITY_LIST: Attribute<Owner> =
    Attribute::ro(c"irq_affinity_list", |data: Pin<&Data>, out| {
        let vectors = data
            .device
            .eqs()
            .map_or(&[][..], |eqs| eqs.completion_vectors());
        for (index, vector) in vectors.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            out.write_fmt(fmt!("{}{}", comma, vector.number()))?;
        }
        Ok(out.write_fmt(fmt!("\n"))?)
    });

static MAX_CQE: Attribute<Owner> = Attribute::ro(c"max_cqe", |data: Pin<&Data>, out| {
    show(out, data.limits()?.max_cqe.into())
});

static MAX_QP: Attribute<Owner> = Attribute::ro(c"max_qp", |data: Pin<&Data>, out| {
    show(out, data.limits()?.max_qp.into())
});

static MAX_QP_WR: Attribute<Owner> = Attribute::ro(c"max_qp_wr", |data: Pin<&Data>, out| {
    show(out, data.limits()?.max_qp_wr.into())
});

static MAX_SGE: Attribute<Owner> = Attribute::ro(c"max_sge", |data: Pin<&Data>, out| {
    let limits = data.limits()?;
    show(out, limits.max_send_sge.min(limits.max_recv_sge).into())
});

static MAX_MSG_SIZE: Attribute<Owner> = Attribute::ro(c"max_msg_size", |data: Pin<&Data>, out| {
    show(out, data.limits()?.max_msg_size.into())
});

static MAX_DMA_SIZE: Attribute<Owner> = Attribute::ro(c"max_dma_size", |data: Pin<&Data>, out| {
    show(out, data.max_dma_size()?)
});

/// Beside the device's own files.
pub(super) static GROUP: Group<Owner> =
    Group::new(None, &[Some(&NUM_QPS), Some(&IRQ_AFFINITY_LIST), None]);

/// In `resource/`.
pub(super) static RESOURCE: Group<Owner> = Group::new(
    Some(c"resource"),
    &[
        Some(&CQ_SIZE),
        Some(&MAX_CQE),
        Some(&MAX_QP),
        Some(&MAX_QP_WR),
        Some(&MAX_SGE),
        Some(&MAX_MSG_SIZE),
        Some(&MAX_DMA_SIZE),
        None,
    ],
);
