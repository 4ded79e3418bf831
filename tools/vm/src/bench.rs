// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of `make bench`: what the same job costs with rmlx5 and with the stock driver.
//!
//! Marks come in pairs, `DRIVER/JOB/begin` and `DRIVER/JOB/end`; their difference is a column. Counts and
//! instructions do not depend on the host's load, so they are compared as ratios of the same run. So is CPU time
//! of the host, which depends on the host but hardly on its load.

mod svg;

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use serde_json::{json, Value};

use crate::{
    error::{Context, Error, Result},
    marks::Mark,
};

/// Who is compared with whom: our driver with the stock one, and our card (under its stock driver) with the kernel's
/// software RoCE.
const PAIRS: [(&str, &str); 2] = [("rmlx5", "mlx5_core"), ("cxemu", "rdma_rxe")];

/// The pair whose columns a job has.
fn pair(drivers: &BTreeMap<String, Column>) -> (&'static str, &'static str) {
    let [first, second] = PAIRS;
    if drivers.contains_key(second.0) || drivers.contains_key(second.1) {
        second
    } else {
        first
    }
}

/// Numbers of one driver and job, by row.
type Column = BTreeMap<String, u64>;

/// Differences of all pairs of marks, by job and driver.
pub fn columns(marks: &[Mark]) -> Result<BTreeMap<String, BTreeMap<String, Column>>> {
    let mut jobs: BTreeMap<String, BTreeMap<String, Column>> = BTreeMap::new();
    for end in marks {
        let Some(stem) = end.name.strip_suffix("/end") else {
            continue;
        };
        let wanted = format!("{stem}/begin");
        let begin = marks.iter().find(|mark| mark.name == wanted);
        let begin = begin.ok_or_else(|| Error::Machine(format!("there is no mark {wanted}")))?;
        let (driver, job) = stem
            .split_once('/')
            .ok_or_else(|| Error::Machine(format!("the mark {stem} names no job")))?;
        jobs.entry(job.to_owned())
            .or_default()
            .insert(driver.to_owned(), column(begin, end));
    }
    Ok(jobs)
}

fn column(begin: &Mark, end: &Mark) -> Column {
    let mut rows = Column::new();
    let mut row = |name: &str, value: u64| {
        rows.insert(name.to_owned(), value);
    };
    let count = |mark: &Mark, names: &[&str]| -> u64 {
        names
            .iter()
            .filter_map(|name| mark.counters[name].as_u64())
            .sum()
    };
    let mut counted = |name: &str, counters: &[&str]| {
        row(
            name,
            count(end, counters).saturating_sub(count(begin, counters)),
        );
    };
    counted("MMIO reads of the init segment", &["iseg_reads"]);
    counted("MMIO writes to the init segment", &["iseg_writes"]);
    counted(
        "MMIO writes to UARs",
        &["eq_doorbells", "cq_doorbells", "sq_doorbells", "blueflame"],
    );
    counted("MSI-X messages", &["interrupts"]);
    counted("DMA bytes read by the card", &["dma_read_bytes"]);
    counted("DMA bytes written by the card", &["dma_written_bytes"]);
    let (from, to) = (begin.instructions, end.instructions);
    row("instructions in the driver", to.driver - from.driver);
    row("instructions in the kernel", to.kernel - from.kernel);
    row("instructions in user space", to.user - from.user);
    let (from, to) = (begin.cpu, end.cpu);
    let emulator = to.emulator_ms.saturating_sub(from.emulator_ms);
    let qemu = to.qemu_ms.saturating_sub(from.qemu_ms);
    if !end.done.is_empty() {
        row("host CPU of the card, ms", emulator);
        row("host CPU of QEMU, ms", qemu);
    }
    for (unit, amount) in &end.done {
        let (whole, scale) = match unit.as_str() {
            "bytes" => ("GB", 1_000_000_000),
            "messages" => ("1M messages", 1_000_000),
            // Below, by what there is of them.
            "packets" | "calls" => continue,
            // Not something that is used up: shown as it is.
            _ => {
                row(unit, *amount);
                continue;
            }
        };
        let per = |ms: u64| (ms * scale).checked_div(*amount).unwrap_or(0);
        row(&format!("host CPU per {whole}, ms"), per(emulator + qemu));
        row(
            &format!("host CPU of the card per {whole}, ms"),
            per(emulator),
        );
    }
    let mut commands = 0;
    for (name, total) in end.counters["commands"].as_object().into_iter().flatten() {
        let before = begin.counters["commands"][name].as_u64().unwrap_or(0);
        let used = total.as_u64().unwrap_or(0).saturating_sub(before);
        commands += used;
        if used > 0 {
            rows.insert(format!("command {name}"), used);
        }
    }
    rows.insert("commands".into(), commands);
    for (unit, one) in [("packets", "packet"), ("calls", "call")] {
        let Some(amount) = end.done.get(unit) else {
            continue;
        };
        rows.insert(unit.into(), *amount);
        for (total, told, each) in SHARES {
            let count = rows.get(total).copied().unwrap_or(0);
            if let Some(share) = (count * each).checked_div(*amount) {
                rows.insert(told.replace("packet", one), share);
            }
        }
    }
    rows
}

/// Rows by packets or calls: what is shared out, the row's name, among how many of them.
const SHARES: [(&str, &str, u64); 7] = [
    ("commands", "commands per 1000 packets", 1000),
    (
        "instructions in the driver",
        "driver instructions a packet",
        1,
    ),
    (
        "instructions in the kernel",
        "kernel instructions a packet",
        1,
    ),
    ("MSI-X messages", "interrupts per 1000 packets", 1000),
    ("MMIO writes to UARs", "doorbells per 1000 packets", 1000),
    (
        "DMA bytes read by the card",
        "bytes read by the card a packet",
        1,
    ),
    (
        "DMA bytes written by the card",
        "bytes written by the card a packet",
        1,
    ),
];

/// Text of the table; ratios below 1 mean that rmlx5 needs less.
fn table(jobs: &BTreeMap<String, BTreeMap<String, Column>>) -> String {
    let mut text = String::new();
    let empty = Column::new();
    for (job, drivers) in jobs {
        let (our_name, reference_name) = pair(drivers);
        let ours = drivers.get(our_name).unwrap_or(&empty);
        let reference = drivers.get(reference_name).unwrap_or(&empty);
        let _ = writeln!(
            text,
            "{job:<34} {our_name:>12} {reference_name:>12}    ratio"
        );
        let names: std::collections::BTreeSet<&String> =
            ours.keys().chain(reference.keys()).collect();
        let (commands, others): (Vec<_>, Vec<_>) = names
            .into_iter()
            .partition(|name| name.starts_with("command "));
        for name in others.into_iter().chain(commands) {
            let ours = ours.get(name).copied().unwrap_or(0);
            let reference = reference.get(name).copied().unwrap_or(0);
            let ratio = match reference {
                0 => "-".to_owned(),
                // CAST: only shown, to two places.
                _ => format!("{:.2}", ours as f64 / reference as f64),
            };
            let _ = writeln!(text, "  {name:<32} {ours:>12} {reference:>12} {ratio:>8}");
        }
        text.push('\n');
    }
    text
}

/// The same rows for a picture, without those of single commands and of what neither of the two needs.
fn sections(jobs: &BTreeMap<String, BTreeMap<String, Column>>) -> Vec<svg::Section> {
    let empty = Column::new();
    let section = |(job, drivers): (&String, &BTreeMap<String, Column>)| {
        let columns = pair(drivers);
        let ours = drivers.get(columns.0).unwrap_or(&empty);
        let reference = drivers.get(columns.1).unwrap_or(&empty);
        let names: std::collections::BTreeSet<&String> =
            ours.keys().chain(reference.keys()).collect();
        let row = |name: &String| svg::Row {
            name: name.clone(),
            ours: ours.get(name).copied().unwrap_or(0),
            reference: reference.get(name).copied().unwrap_or(0),
        };
        let rows = names
            .into_iter()
            .filter(|name| !name.starts_with("command "))
            .map(row)
            .filter(|row| row.ours != 0 || row.reference != 0);
        svg::Section {
            job: job.clone(),
            columns,
            rows: rows.collect(),
        }
    };
    jobs.iter().map(section).collect()
}

/// Writes `bench.txt`, `bench.json` and `bench.svg` and prints the table.
pub fn report(marks: &[Mark], results: &Path) -> Result<()> {
    let jobs = columns(marks)?;
    for (job, drivers) in &jobs {
        let (ours, reference) = pair(drivers);
        for driver in [ours, reference] {
            let nothing = |column: &Column| column["instructions in the kernel"] == 0;
            if drivers.get(driver).is_none_or(nothing) {
                let message = format!("{job} was not measured with {driver}");
                return Err(Error::Machine(message));
            }
        }
    }
    if jobs.is_empty() {
        return Err(Error::Machine("the guest took no marks".into()));
    }
    let text = table(&jobs);
    print!("{text}");
    let path = results.join("bench.txt");
    fs::write(&path, text).at(&path)?;
    let path = results.join("bench.svg");
    fs::write(&path, svg::picture(&sections(&jobs))).at(&path)?;
    let path = results.join("bench.json");
    let value: Value = json!({ "jobs": jobs });
    fs::write(&path, format!("{value:#}\n")).at(&path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::{HostCpu, Instructions};

    fn mark(name: &str, commands: u64, driver: u64) -> Mark {
        Mark {
            name: name.into(),
            counters: json!({ "commands": { "QUERY_PAGES": commands }, "interrupts": commands }),
            instructions: Instructions {
                driver,
                kernel: 10 * driver,
                user: 0,
            },
            cpu: HostCpu {
                emulator_ms: 10 * commands,
                qemu_ms: 20 * commands,
            },
            done: BTreeMap::new(),
        }
    }

    #[test]
    fn columns_are_differences_of_pairs() {
        let marks = [
            mark("rmlx5/bind/begin", 2, 100),
            mark("rmlx5/bind/end", 5, 130),
            mark("mlx5_core/bind/begin", 5, 0),
            mark("mlx5_core/bind/end", 11, 60),
        ];
        let jobs = columns(&marks).expect("complete pairs");
        let ours = &jobs["bind"]["rmlx5"];
        assert_eq!(ours["commands"], 3);
        assert_eq!(ours["command QUERY_PAGES"], 3);
        assert_eq!(ours["MSI-X messages"], 3);
        assert_eq!(ours["instructions in the driver"], 30);
        assert!(table(&jobs).contains("0.50"));
    }

    #[test]
    fn cpu_time_is_told_by_what_was_done() {
        let begin = mark("cxemu/write/begin", 0, 0);
        let mut end = mark("cxemu/write/end", 10, 1);
        end.done.insert("bytes".into(), 100_000_000);
        end.done.insert("messages".into(), 1000);
        end.done.insert("latency, ns".into(), 77);
        let jobs = columns(&[begin, end]).expect("complete pair");
        let column = &jobs["write"]["cxemu"];
        assert_eq!(column["host CPU per GB, ms"], 3000);
        assert_eq!(column["host CPU of the card per GB, ms"], 1000);
        assert_eq!(column["host CPU per 1M messages, ms"], 300_000);
        assert_eq!(column["latency, ns"], 77);
        assert_eq!(pair(&jobs["write"]), ("cxemu", "rdma_rxe"));
    }

    #[test]
    fn packets_have_their_share() {
        let begin = mark("rmlx5/net-tx/begin", 0, 0);
        let mut end = mark("rmlx5/net-tx/end", 10, 5000);
        end.done.insert("packets".into(), 100);
        let jobs = columns(&[begin, end]).expect("complete pair");
        let column = &jobs["net-tx"]["rmlx5"];
        assert_eq!(column["packets"], 100);
        assert_eq!(column["driver instructions a packet"], 50);
        assert_eq!(column["interrupts per 1000 packets"], 100);
    }

    #[test]
    fn calls_have_their_share() {
        let begin = mark("rmlx5/verbs-mr/begin", 1, 0);
        let mut end = mark("rmlx5/verbs-mr/end", 11, 700);
        end.done.insert("calls".into(), 10);
        let jobs = columns(&[begin, end]).expect("complete pair");
        let column = &jobs["verbs-mr"]["rmlx5"];
        assert_eq!(column["driver instructions a call"], 70);
        assert_eq!(column["commands per 1000 calls"], 1000);
    }

    #[test]
    fn an_end_without_a_begin_is_an_error() {
        assert!(columns(&[mark("rmlx5/bind/end", 1, 1)]).is_err());
    }
}
