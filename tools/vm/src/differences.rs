// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command streams of two drivers that do the same job, side by side.
//!
//! A script says `trace begin`, lets a driver do a job, and says `trace end DRIVER/JOB`. When it has done so with
//! both drivers, `differences JOB` answers with every difference that has no reason in
//! Documentation/driver/differences.md, and with every reason whose difference is gone. Nothing else is a pass.

use std::collections::{BTreeMap, BTreeSet};

use self::{call::Call, reasons::Reasons};

pub mod call;
pub mod reasons;

/// The driver that has to explain itself.
const OURS: &str = "rmlx5";
/// The driver it is compared with.
const REFERENCE: &str = "mlx5";

/// One difference of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Command as [`Call::command`] names it.
    pub command: String,
    /// Field of its input; `calls` or `refused` for their numbers.
    pub field: String,
    /// All values that rmlx5 gave, ascending.
    pub ours: String,
    /// All values that the stock driver gave.
    pub theirs: String,
}

impl Difference {
    /// As a row of the table of reasons, the reason still to be written.
    pub fn row(&self, why: &str) -> String {
        let Self {
            command,
            field,
            ours,
            theirs,
        } = self;
        format!("| {command} | {field} | {ours} | {theirs} | {why} |")
    }
}

/// Calls of one command.
type Calls<'a> = Vec<&'a Call>;

fn by_command(calls: &[Call]) -> BTreeMap<&str, Calls<'_>> {
    let mut map: BTreeMap<&str, Calls<'_>> = BTreeMap::new();
    for call in calls {
        map.entry(&call.command).or_default().push(call);
    }
    map
}

/// The values of a field in all calls. A field that is not told is zero (`-`).
fn values(calls: &Calls<'_>, field: &str) -> String {
    let values: BTreeSet<&str> = calls
        .iter()
        .map(|call| call.fields.get(field).map_or("-", String::as_str))
        .collect();
    let mut values: Vec<&str> = values.into_iter().collect();
    values.sort_by_key(|value| (value.len(), *value));
    values.join(" ")
}

/// What differs between two streams of one job, by command and field. Order and repetition of equal calls count only
/// as the number of calls; of a command that only one driver gives, nothing but that number counts.
pub fn compare(ours: &[Call], theirs: &[Call]) -> Vec<Difference> {
    let (ours, theirs) = (by_command(ours), by_command(theirs));
    let commands: BTreeSet<&str> = ours.keys().chain(theirs.keys()).copied().collect();
    let none = Calls::new();
    let mut differences = Vec::new();
    for command in commands {
        let ours = ours.get(command).unwrap_or(&none);
        let theirs = theirs.get(command).unwrap_or(&none);
        let mut row = |field: &str, ours: String, theirs: String| {
            if ours != theirs {
                differences.push(Difference {
                    command: command.to_owned(),
                    field: field.to_owned(),
                    ours,
                    theirs,
                });
            }
        };
        row("calls", ours.len().to_string(), theirs.len().to_string());
        if ours.is_empty() || theirs.is_empty() {
            continue;
        }
        let refused = |calls: &Calls<'_>| calls.iter().filter(|call| call.refused).count();
        row(
            "refused",
            refused(ours).to_string(),
            refused(theirs).to_string(),
        );
        let fields: BTreeSet<&String> = ours
            .iter()
            .chain(theirs)
            .flat_map(|call| call.fields.keys())
            .collect();
        for field in fields {
            row(field, values(ours, field), values(theirs, field));
        }
    }
    differences
}

/// The streams recorded so far.
#[derive(Debug, Default)]
pub struct Streams {
    /// Number of the first line of the stream that is being recorded.
    first: Option<u64>,
    done: BTreeMap<String, Vec<Call>>,
}

impl Streams {
    /// Everything from here on belongs to the next stream. `last` is the newest line of the card's trace.
    pub fn begin(&mut self, last: &[String]) {
        let newest = last.iter().filter_map(|line| number(line)).max();
        self.first = Some(newest.map_or(0, |number| number + 1));
    }

    /// Ends the stream and calls it `name`. `lines` is the whole trace of the card.
    ///
    /// # Errors
    /// Nothing was begun, lines fell out of the card's ring, or a line cannot be read.
    pub fn end(&mut self, name: &str, lines: &[String]) -> Result<(), String> {
        let first = self.first.take().ok_or("no `trace begin` before")?;
        if lines.first().and_then(|line| number(line)) > Some(first) {
            return Err("the card has forgotten the beginning".into());
        }
        let calls: Result<Vec<Call>, String> = lines
            .iter()
            .filter(|line| number(line) >= Some(first))
            .map(|line| Call::parse(line).ok_or_else(|| format!("strange line '{line}'")))
            .collect();
        self.done.insert(name.to_owned(), calls?);
        Ok(())
    }

    /// What has to be explained, or explained no longer, of a job.
    ///
    /// # Errors
    /// A stream is missing or empty, or the table of reasons cannot be read.
    pub fn unexplained(&self, job: &str, table: &str) -> Result<Vec<String>, String> {
        let stream = |driver: &str| {
            let name = format!("{driver}/{job}");
            match self.done.get(&name) {
                Some(calls) if !calls.is_empty() => Ok(calls),
                Some(_) => Err(format!("{name} gave no command")),
                None => Err(format!("{name} was not recorded")),
            }
        };
        let differences = compare(stream(OURS)?, stream(REFERENCE)?);
        Reasons::parse(table, job)?.judge(&differences)
    }
}

/// Number of a line as the card's control client prints it: `NUMBER MICROSECONDS TEXT`.
fn number(line: &str) -> Option<u64> {
    line.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(lines: &[&str]) -> Vec<Call> {
        lines
            .iter()
            .map(|line| Call::parse(&format!("0 0 {line}")).expect("a line"))
            .collect()
    }

    #[test]
    fn equal_streams_do_not_differ() {
        let a = calls(&["ALLOC_PD -> OK pd=0x1", "CREATE_CQ a=0x1 -> OK cqn=0x400"]);
        let b = calls(&["CREATE_CQ a=0x1 -> OK cqn=0x401", "ALLOC_PD -> OK pd=0x7"]);
        assert_eq!(compare(&a, &b), []);
    }

    #[test]
    fn numbers_of_calls_fields_and_refusals_are_compared() {
        let a = calls(&[
            "X a=0x1 b=0x2 -> OK",
            "X a=0x10 -> OK",
            "ONLY_OURS z=0x1 -> OK",
        ]);
        let b = calls(&["X a=0x1 -> BadParam 0x0001: no"]);
        let rows: Vec<String> = compare(&a, &b).iter().map(|d| d.row("?")).collect();
        assert_eq!(
            rows,
            [
                "| ONLY_OURS | calls | 1 | 0 | ? |",
                "| X | calls | 2 | 1 | ? |",
                "| X | refused | 0 | 1 | ? |",
                "| X | a | 0x1 0x10 | 0x1 | ? |",
                "| X | b | - 0x2 | - | ? |",
            ]
        );
    }

    #[test]
    fn a_stream_is_what_lies_between_begin_and_end() {
        let mut streams = Streams::default();
        let lines = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(streams.end("rmlx5/job", &[]).is_err());
        for (name, text) in [
            ("rmlx5/job", "5 0 A x=0x1 -> OK"),
            ("mlx5/job", "6 0 A x=0x2 -> OK"),
        ] {
            let before = format!("{} 0 OLD -> OK", number(text).expect("number") - 1);
            streams.begin(&lines(&[&before]));
            streams
                .end(name, &lines(&[&before, text]))
                .expect("complete");
        }
        let table = "## job\n| A | x | 0x1 | 0x2 | because |\n";
        assert_eq!(streams.unexplained("job", table), Ok(vec![]));
        assert_eq!(
            streams.unexplained("job", "## job\n").expect("read").len(),
            1
        );
        assert!(streams.unexplained("other", table).is_err());
        // Begun at 3, but the ring starts at 5.
        streams.begin(&lines(&["2 0 OLD -> OK"]));
        assert!(streams.end("rmlx5/job", &lines(&["5 0 A -> OK"])).is_err());
    }
}
