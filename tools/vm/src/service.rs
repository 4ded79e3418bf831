// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a script in a guest may ask of the host.
//!
//! One line asks; the answer is any number of lines that begin with a space, then one that does not:
//! `ok`, `exit CODE` (of a peer's command) or `error WHY`. A line may begin with a tag, `@TAG `; its answer begins with the
//! line `@TAG` then, so that who comes after a reader that was killed can tell its answer from the rest of another.
//!
//! | line | effect |
//! |---|---|
//! | `ping` | `ok` |
//! | `hmp TEXT` | command of QEMU's human monitor, e.g. `hmp pcie_aer_inject_error rp0 DLP` |
//! | `qmp JSON` | command object of QEMU's monitor |
//! | `card N WORDS` | control socket of card N, e.g. `card 0 counters` |
//! | `card N kill` | ends the emulator of card N as a crash would |
//! | `console` | what the guest has printed so far |
//! | `peer COMMAND` | runs a shell command in the other guest |
//! | `mark NAME [START END] [UNIT=N]...` | takes a mark of a measurement, see [`crate::marks`] |
//! | `trace begin`, `trace end DRIVER/JOB` | records the commands of card 0 in between, see [`crate::differences`] |
//! | `differences JOB` | differences of two recorded streams that have no reason |
//! | `guest N REQUEST` | the request is about guest N |

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    card,
    differences::Streams,
    marks::{HostCpu, Marks},
    process::{cpu_ms, Process},
    qmp::Qmp,
};

/// The host's side of one guest. A lock for each part: a long command of the peer stops nobody else.
#[derive(Debug, Default)]
pub struct Side {
    /// Monitor; none until QEMU is up.
    pub qmp: Mutex<Option<Qmp>>,
    /// Control sockets of its cards.
    pub controls: Vec<PathBuf>,
    /// Copy of its console.
    pub console: PathBuf,
    /// Emulators of its cards.
    pub cards: Mutex<Vec<Process>>,
    /// QEMU's process, once it runs.
    pub qemu: Mutex<Option<u32>>,
    /// Channel to its agent, when it is an agent.
    pub agent: Mutex<Option<Agent>>,
}

/// A poisoned lock protects nothing that a panic could have left half done.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that requests act on.
#[derive(Debug)]
pub struct Service {
    /// The emulator's program, which is its control client too.
    pub emulator: PathBuf,
    /// One side a guest.
    pub sides: Vec<Side>,
    /// Takes marks, when something is measured.
    pub marks: Option<Marks>,
    /// Command streams that a script has recorded.
    pub streams: Mutex<Streams>,
    /// Table of the reasons why they differ.
    pub reasons: PathBuf,
}

/// A guest that executes commands.
#[derive(Debug)]
pub struct Agent {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    ready: bool,
}

impl Agent {
    /// Takes over the `host` channel of an agent guest.
    pub fn new(stream: UnixStream) -> std::io::Result<Self> {
        Ok(Self {
            reader: BufReader::new(stream.try_clone()?),
            writer: stream,
            ready: false,
        })
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => Err("the peer is gone".into()),
            Ok(_) => Ok(line.trim_end_matches('\n').to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn run(&mut self, command: &str) -> Result<(Vec<String>, String), String> {
        while !self.ready {
            self.ready = self.line()? == "ready";
        }
        writeln!(self.writer, "{command}").map_err(|error| error.to_string())?;
        let mut output = Vec::new();
        loop {
            let line = self.line()?;
            match line.strip_prefix(' ') {
                Some(text) => output.push(text.to_owned()),
                None => return Ok((output, line)),
            }
        }
    }
}

/// The tag of a line, with its `@`, and the request.
fn tagged(line: &str) -> (Option<&str>, &str) {
    match line.split_once(' ') {
        Some((tag, request)) if tag.starts_with('@') => (Some(tag), request.trim_start()),
        _ => (None, line),
    }
}

/// An answer: lines, and the last line.
type Answer = (Vec<String>, String);

impl Service {
    /// Serves the channel of guest `from` until it closes.
    pub fn serve(self: &Arc<Self>, from: usize, stream: UnixStream) -> std::io::Result<()> {
        let mut writer = stream.try_clone()?;
        for line in BufReader::new(stream).lines() {
            let line = line?;
            let (tag, request) = tagged(line.trim());
            let (lines, last) = self
                .answer(from, request)
                .unwrap_or_else(|why| (Vec::new(), format!("error {}", why.replace('\n', "; "))));
            let mut text = tag.map(|tag| format!("{tag}\n")).unwrap_or_default();
            text.extend(lines.iter().map(|line| format!(" {line}\n")));
            text.push_str(&last);
            text.push('\n');
            writer.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    fn side(&self, guest: usize) -> Result<&Side, String> {
        self.sides
            .get(guest)
            .ok_or_else(|| format!("there is no guest {guest}"))
    }

    fn answer(&self, guest: usize, request: &str) -> Result<Answer, String> {
        let (verb, rest) = request.split_once(' ').unwrap_or((request, ""));
        let done = |lines: Vec<String>| Ok((lines, "ok".to_owned()));
        match verb {
            "ping" => done(Vec::new()),
            "hmp" => {
                let text = self.monitor(guest, |qmp| qmp.human(rest))?;
                done(text.lines().map(str::to_owned).collect())
            }
            "qmp" => {
                let command = serde_json::from_str(rest).map_err(|error| error.to_string())?;
                let value = self.monitor(guest, |qmp| qmp.execute(command))?;
                done(vec![value.to_string()])
            }
            "card" => done(self.card(guest, rest)?),
            "console" => {
                let path = &self.side(guest)?.console;
                let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
                // Programs before the kernel move the cursor instead of ending lines.
                let text = String::from_utf8_lossy(&bytes).replace(['\r', '\x1b'], "\n");
                done(text.lines().map(str::to_owned).collect())
            }
            "peer" => {
                let other = (0..self.sides.len())
                    .find(|other| *other != guest)
                    .ok_or("there is no other guest")?;
                let mut agent = lock(&self.side(other)?.agent);
                agent
                    .as_mut()
                    .ok_or("the other guest has no agent")?
                    .run(rest)
            }
            "mark" => {
                let marks = self.marks.as_ref().ok_or("nothing is measured here")?;
                let counters = self.card(guest, "0 counters")?.join("\n");
                let counters =
                    serde_json::from_str(&counters).map_err(|error| error.to_string())?;
                marks.take(rest, counters, self.cpu()?)?;
                done(Vec::new())
            }
            "trace" => {
                match rest.split_once(' ').unwrap_or((rest, "")) {
                    ("begin", "") => {
                        lock(&self.streams).begin(&self.card(guest, "0 trace 1")?);
                    }
                    ("end", name) if !name.is_empty() => {
                        lock(&self.streams).end(name, &self.card(guest, "0 trace")?)?;
                    }
                    _ => return Err("trace begin, or trace end DRIVER/JOB".into()),
                }
                done(Vec::new())
            }
            "differences" => {
                let table = std::fs::read_to_string(&self.reasons)
                    .map_err(|error| format!("{}: {error}", self.reasons.display()))?;
                done(lock(&self.streams).unexplained(rest, &table)?)
            }
            "guest" => {
                let (number, rest) = rest.split_once(' ').ok_or("guest N REQUEST")?;
                let other = number.parse().map_err(|_| "guest N REQUEST")?;
                self.side(other)?;
                self.answer(other, rest)
            }
            _ => Err(format!("unknown request '{verb}'")),
        }
    }

    /// CPU time of everything that plays a part.
    fn cpu(&self) -> Result<HostCpu, String> {
        let used = |pid| cpu_ms(pid).ok_or_else(|| format!("process {pid} is gone"));
        let mut cpu = HostCpu::default();
        for side in &self.sides {
            for card in lock(&side.cards).iter() {
                cpu.emulator_ms += used(card.pid())?;
            }
            if let Some(pid) = *lock(&side.qemu) {
                cpu.qemu_ms += used(pid)?;
            }
        }
        Ok(cpu)
    }

    fn monitor<T>(
        &self,
        guest: usize,
        act: impl FnOnce(&mut Qmp) -> crate::error::Result<T>,
    ) -> Result<T, String> {
        let mut qmp = lock(&self.side(guest)?.qmp);
        act(qmp.as_mut().ok_or("QEMU is not up")?).map_err(|error| error.to_string())
    }

    fn card(&self, guest: usize, rest: &str) -> Result<Vec<String>, String> {
        let mut words: Vec<&str> = rest.split_whitespace().collect();
        if words.len() < 2 {
            return Err("card N WORDS".into());
        }
        let number = words.remove(0);
        let n: usize = number.parse().map_err(|_| format!("no card '{number}'"))?;
        let side = self.side(guest)?;
        if words == ["kill"] {
            lock(&side.cards)
                .get_mut(n)
                .ok_or_else(|| format!("no card {n}"))?
                .kill();
            return Ok(Vec::new());
        }
        let socket = side.controls.get(n).ok_or_else(|| format!("no card {n}"))?;
        card::control(&self.emulator, socket, &words)
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixStream, thread};

    use super::*;

    fn service(agents: usize) -> (Arc<Service>, Vec<UnixStream>) {
        let mut far_ends = Vec::new();
        let mut sides = Vec::new();
        for guest in 0..=agents {
            let agent = (guest > 0).then(|| {
                let (near, far) = UnixStream::pair().expect("socket pair");
                far_ends.push(far);
                Agent::new(near).expect("agent")
            });
            sides.push(Side {
                agent: Mutex::new(agent),
                ..Side::default()
            });
        }
        let emulator = "/bin/false".into();
        (
            Arc::new(Service {
                emulator,
                sides,
                marks: None,
                streams: Mutex::default(),
                reasons: PathBuf::new(),
            }),
            far_ends,
        )
    }

    #[test]
    fn a_request_to_nobody_is_an_error() {
        let (service, _) = service(0);
        for request in [
            "hmp info",
            "qmp {}",
            "qmp nonsense",
            "card 0 counters",
            "card",
            "peer true",
            "jump",
            "trace",
            "trace begin",
            "differences job",
            "guest 7 ping",
        ] {
            assert!(service.answer(0, request).is_err(), "{request}");
        }
        assert_eq!(service.answer(0, "ping"), Ok((vec![], "ok".into())));
    }

    #[test]
    fn a_tag_comes_back_before_the_answer() {
        let (service, _) = service(0);
        let (near, far) = UnixStream::pair().expect("socket pair");
        let server = thread::spawn(move || service.serve(0, near));
        let mut writer = far.try_clone().expect("clone");
        writer
            .write_all(b"ping\n@7 ping\n@8 jump\n")
            .expect("write");
        writer
            .shutdown(std::net::Shutdown::Write)
            .expect("shutdown");
        let lines: Vec<String> = BufReader::new(far)
            .lines()
            .map(|line| line.expect("line"))
            .collect();
        assert_eq!(lines[..4], ["ok", "@7", "ok", "@8"]);
        assert!(lines[4].starts_with("error "), "{lines:?}");
        server.join().expect("server").expect("served");
    }

    #[test]
    fn a_peer_answers_with_output_and_code() {
        let (service, mut far_ends) = service(1);
        let mut far = far_ends.remove(0);
        let peer = thread::spawn(move || {
            far.write_all(b"ready\n").expect("write");
            let mut line = String::new();
            BufReader::new(far.try_clone().expect("clone"))
                .read_line(&mut line)
                .expect("read");
            far.write_all(b" one\n  two\nexit 3\n").expect("write");
            line
        });
        let answer = service.answer(0, "peer echo hello");
        assert_eq!(
            answer,
            Ok((vec!["one".into(), " two".into()], "exit 3".into()))
        );
        assert_eq!(peer.join().expect("peer"), "echo hello\n");
        // The peer has left: the next request says so instead of waiting.
        assert!(service.answer(0, "peer true").is_err());
    }
}
