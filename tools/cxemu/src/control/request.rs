// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be asked of a running card.

use std::time::Duration;

use device::dump::Selection;
use device::fault::Fault;
use pcie::Speed;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

use crate::machine::Machine;

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Everything counted since the start or the last reset of the counters.
    Counters,
    /// Counts from zero again.
    ResetCounters,
    /// Living objects by kind, and firmware pages.
    Census,
    /// Every object, one line each; or those of a kind, or one of them.
    Dump {
        /// What kind: `qp`, `flow-table`.
        #[serde(default)]
        kind: Option<String>,
        /// Which number.
        #[serde(default)]
        number: Option<u32>,
    },
    /// The last commands of the driver.
    Trace {
        /// How many lines at most; all that are kept when absent.
        #[serde(default)]
        last: Option<usize>,
    },
    /// What the host has mapped and set up: memory, payload, read request.
    Bus,
    /// Orders a fault of the model.
    Inject(Fault),
    /// Shows an error in the AER registers and device status.
    Aer {
        /// Bits of the uncorrectable status register.
        #[serde(default)]
        uncorrectable: u32,
        /// Bits of the correctable status register.
        #[serde(default)]
        correctable: u32,
        /// TLP header for the log.
        #[serde(default)]
        header: [u32; 4],
    },
    /// Pulls or plugs the cable.
    Link {
        /// Plugged.
        up: bool,
    },
    /// Shows another PCIe link.
    Retrain {
        /// Generation, 1 to 5.
        speed: u8,
        /// Lanes.
        width: u8,
    },
    /// Replaces the faults of the cable; what is absent is switched off.
    Cable {
        /// Lose every Nth frame.
        #[serde(default)]
        loss_every: u32,
        /// Probability of loss.
        #[serde(default)]
        loss: f64,
        /// Probability of duplication.
        #[serde(default)]
        duplicate: f64,
        /// Probability of being overtaken.
        #[serde(default)]
        reorder: f64,
        /// Probability that a frame which can be is marked for congestion.
        #[serde(default)]
        ecn: f64,
        /// Time in the cable, milliseconds.
        #[serde(default)]
        delay_ms: u64,
        /// Seed of the choices.
        #[serde(default)]
        seed: u64,
    },
}

/// Does what `request` says.
///
/// # Errors
/// A sentence that says why not.
pub fn answer(machine: &Machine, request: Request) -> Result<Value, String> {
    let to_value = |value: Result<Value, serde_json::Error>| value.map_err(|e| e.to_string());
    match request {
        Request::Counters => {
            let mut all = machine.with_card(|card| serde_json::to_value(card.counters()));
            if let Ok(Value::Object(map)) = &mut all {
                map.insert("port".to_owned(), port_counters(machine));
            }
            to_value(all)
        }
        Request::ResetCounters => {
            machine.with_card(|card| card.reset_counters());
            machine.port.reset_counters();
            Ok(Value::Null)
        }
        Request::Census => to_value(machine.with_card(|card| serde_json::to_value(card.census()))),
        Request::Dump { kind, number } => {
            let selection = Selection { kind, number };
            let lines = machine.with_card(|card| card.dump_of(&selection));
            if lines.is_empty() && selection != Selection::default() {
                return Err("no such object".to_owned());
            }
            Ok(json!(lines))
        }
        Request::Trace { last } => machine.with_card(|card| {
            let trace = card.trace();
            let from = last.map_or(0, |last| trace.next().saturating_sub(last as u64));
            let lines: Vec<_> = trace.since(from).collect();
            to_value(serde_json::to_value(lines))
        }),
        Request::Bus => Ok(bus(machine)),
        Request::Inject(fault) => {
            tracing::info!(?fault, "inject");
            machine
                .with_card(|card| card.inject(fault))
                .map_err(|error| error.to_string())?;
            Ok(Value::Null)
        }
        Request::Aer {
            uncorrectable,
            correctable,
            header,
        } => {
            let seen = machine.with_config(|config| {
                let uncorrectable =
                    config.record(pcie::Fault::Uncorrectable(uncorrectable), header);
                let correctable = config.record(pcie::Fault::Correctable(correctable), header);
                (uncorrectable, correctable)
            });
            if seen != (uncorrectable, correctable) {
                return Err(format!("only {:#x} and {:#x} exist", seen.0, seen.1));
            }
            Ok(Value::Null)
        }
        Request::Link { up } => {
            machine.port.set_cable(up);
            Ok(Value::Null)
        }
        Request::Retrain { speed, width } => {
            let code = Speed::from_generation(speed).ok_or("speed is 1 to 5")?;
            if !matches!(width, 1 | 2 | 4 | 8 | 16) {
                return Err("width is 1, 2, 4, 8 or 16".to_owned());
            }
            machine.with_config(|config| config.retrain(code, width));
            Ok(Value::Null)
        }
        Request::Cable {
            loss_every,
            loss,
            duplicate,
            reorder,
            ecn,
            delay_ms,
            seed,
        } => {
            let delay = Duration::from_millis(delay_ms.min(60_000));
            let faults = fabric::Faults {
                loss_every,
                loss,
                duplicate,
                reorder,
                ecn,
                delay,
                seed,
            };
            machine.port.set_faults(faults);
            Ok(Value::Null)
        }
    }
}

fn port_counters(machine: &Machine) -> Value {
    let counters = machine.port.counters();
    json!({
        "carrier": machine.port.link(),
        "tx_frames": counters.tx_frames,
        "tx_bytes": counters.tx_bytes,
        "rx_frames": counters.rx_frames,
        "rx_bytes": counters.rx_bytes,
        "tx_overflow": counters.tx_overflow,
        "tx_refused": counters.tx_refused,
        "lost": counters.lost,
        "duplicated": counters.duplicated,
        "reordered": counters.reordered,
        "marked": counters.marked,
    })
}

fn bus(machine: &Machine) -> Value {
    let (windows, bytes) = machine.memory.size();
    machine.with_config(|config| {
        json!({
            "bus_master": config.master(),
            "memory": config.memory(),
            "max_payload": config.payload(),
            "max_read_request": config.read_request(),
            "dma_windows": windows,
            "dma_bytes": bytes,
        })
    })
}
