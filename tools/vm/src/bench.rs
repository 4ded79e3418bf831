// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of `make bench`: what the same job costs with rmlx5 and with the stock driver.
//!
//! Marks come in pairs, `DRIVER/JOB/begin` and `DRIVER/JOB/end`; their difference is a column. Counts and
//! instructions do not depend on the host's load, so they are compared as ratios of the same run.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use serde_json::{json, Value};

use crate::{
    error::{Context, Error, Result},
    marks::Mark,
};

/// The driver everything is compared with.
const REFERENCE: &str = "mlx5_core";
/// The driver that is compared.
const OURS: &str = "rmlx5";

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
    rows
}

/// Text of the table; ratios below 1 mean that rmlx5 needs less.
fn table(jobs: &BTreeMap<String, BTreeMap<String, Column>>) -> String {
    let mut text = String::new();
    let empty = Column::new();
    for (job, drivers) in jobs {
        let ours = drivers.get(OURS).unwrap_or(&empty);
        let reference = drivers.get(REFERENCE).unwrap_or(&empty);
        let _ = writeln!(text, "{job:<34} {OURS:>12} {REFERENCE:>12}    ratio");
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

/// Writes `bench.txt` and `bench.json` and prints the table.
pub fn report(marks: &[Mark], results: &Path) -> Result<()> {
    let jobs = columns(marks)?;
    for (job, drivers) in &jobs {
        for driver in [OURS, REFERENCE] {
            if drivers
                .get(driver)
                .is_none_or(|column| column["commands"] == 0)
            {
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
    let path = results.join("bench.json");
    let value: Value = json!({ "jobs": jobs });
    fs::write(&path, format!("{value:#}\n")).at(&path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::Instructions;

    fn mark(name: &str, commands: u64, driver: u64) -> Mark {
        Mark {
            name: name.into(),
            counters: json!({ "commands": { "QUERY_PAGES": commands }, "interrupts": commands }),
            instructions: Instructions {
                driver,
                kernel: 10 * driver,
                user: 0,
            },
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
    fn an_end_without_a_begin_is_an_error() {
        assert!(columns(&[mark("rmlx5/bind/end", 1, 1)]).is_err());
    }
}
