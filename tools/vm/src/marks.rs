// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Marks of a measurement: what the card has counted and what the guest has executed so far.
//!
//! A script says `host mark NAME [START END]... [UNIT=N]...`, with the hexadecimal bounds of the text of each module it is
//! about, and how much was done (`bytes=65536`). The guest waits for the answer in code that no driver owns, so a mark does not disturb what
//! it measures. Instructions come from the plugin of crate `icount`.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Mutex,
};

use serde_json::Value;

use crate::service::lock;

/// Instructions executed since the start of the guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Instructions {
    /// In the text the mark named.
    pub driver: u64,
    /// In the kernel and all other modules.
    pub kernel: u64,
    /// In user space.
    pub user: u64,
}

/// CPU time used on the host, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostCpu {
    /// By the cards' emulators.
    pub emulator_ms: u64,
    /// By QEMU.
    pub qemu_ms: u64,
}

/// One mark.
#[derive(Debug, Clone)]
pub struct Mark {
    /// What the script called it.
    pub name: String,
    /// Counters of card 0, as its control socket shows them.
    pub counters: Value,
    /// Instructions.
    pub instructions: Instructions,
    /// CPU time.
    pub cpu: HostCpu,
    /// What the script says was done, by unit.
    pub done: BTreeMap<String, u64>,
}

/// Takes marks of one guest.
#[derive(Debug)]
pub struct Marks {
    socket: PathBuf,
    taken: Mutex<Vec<Mark>>,
}

impl Marks {
    /// Arguments for QEMU that load the plugin, and the end that asks it.
    pub fn new(plugin: &Path, run: &Path) -> (Vec<String>, Self) {
        let socket = run.join("icount");
        let option = format!("{},socket={}", plugin.display(), socket.display());
        let taken = Mutex::default();
        (vec!["-plugin".into(), option], Self { socket, taken })
    }

    /// Takes a mark: `words` are its name, the bounds of texts, and amounts.
    pub fn take(&self, words: &str, counters: Value, cpu: HostCpu) -> Result<(), String> {
        let (amounts, words): (Vec<&str>, Vec<&str>) = words
            .split_whitespace()
            .partition(|word| word.contains('='));
        let mut done = BTreeMap::new();
        for word in amounts {
            let amount = word
                .split_once('=')
                .and_then(|(unit, n)| Some((unit, n.parse().ok()?)));
            let (unit, amount) = amount.ok_or_else(|| format!("no amount '{word}'"))?;
            done.insert(unit.to_owned(), amount);
        }
        let mut words = words.into_iter();
        let name = words
            .next()
            .ok_or("mark NAME [START END]... [UNIT=N]...")?
            .to_owned();
        let bounds: Vec<u64> = words
            .map(|word| u64::from_str_radix(word, 16).map_err(|_| format!("no address '{word}'")))
            .collect::<Result<_, _>>()?;
        if bounds.len() % 2 != 0 {
            return Err(format!("a text without an end: {bounds:x?}"));
        }
        let texts: Vec<(u64, u64)> = bounds.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let instructions = self
            .ask(&texts)
            .map_err(|error| format!("icount: {error}"))?;
        lock(&self.taken).push(Mark {
            name,
            counters,
            instructions,
            cpu,
            done,
        });
        Ok(())
    }

    /// The marks so far, which this forgets.
    pub fn drain(&self) -> Vec<Mark> {
        std::mem::take(&mut *lock(&self.taken))
    }

    fn ask(&self, texts: &[(u64, u64)]) -> std::io::Result<Instructions> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.write_all(b"mark\n")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        instructions(&line, texts)
            .ok_or_else(|| std::io::Error::other(format!("strange answer '{}'", line.trim_end())))
    }
}

/// Reads an answer of the plugin. Pages that a text touches are the driver's.
fn instructions(line: &str, texts: &[(u64, u64)]) -> Option<Instructions> {
    let answer: Value = serde_json::from_str(line).ok()?;
    let mut sum = Instructions {
        driver: 0,
        kernel: answer["kernel"].as_u64()?,
        user: answer["user"].as_u64()?,
    };
    for (page, count) in answer["pages"].as_object()? {
        let page = u64::from_str_radix(page, 16).ok()?;
        let count = count.as_u64()?;
        if texts
            .iter()
            .any(|(start, end)| page + 0xfff >= *start && page < *end)
        {
            sum.driver += count;
        } else {
            sum.kernel += count;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_text_are_the_drivers() {
        let line = r#"{"user": 5, "kernel": 7, "pages": {"ffffffffc0001000": 11, "ffffffffc0002000": 13, "ffffffffc0003000": 17}}"#;
        let texts = [(0xffff_ffff_c000_1800, 0xffff_ffff_c000_3000)];
        let expected = Instructions {
            driver: 24,
            kernel: 24,
            user: 5,
        };
        assert_eq!(instructions(line, &texts), Some(expected));
        assert_eq!(instructions("{}", &texts), None);
        let two = [
            (0xffff_ffff_c000_1000, 0xffff_ffff_c000_1800),
            (0xffff_ffff_c000_3000, 0xffff_ffff_c000_4000),
        ];
        assert_eq!(instructions(line, &two).map(|sum| sum.driver), Some(28));
    }
}
