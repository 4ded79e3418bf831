// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of suites (tools/testing/suites.toml) and what of it was asked for.

use std::{collections::BTreeMap, fs, path::Path};

use serde::Deserialize;

use crate::{
    error::{Context, Error, Result},
    machine::{Card, Machine},
};

/// The suite that runs on the host, without a guest.
pub const HOST: &str = "host";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    machine: BTreeMap<String, Machine>,
    part: Vec<PartRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartRow {
    suite: String,
    script: String,
    name: Option<String>,
    #[serde(default)]
    machine: String,
    #[serde(default)]
    cards: Vec<Card>,
    peer: Option<PeerRow>,
    #[serde(default = "default_timeout")]
    timeout: u64,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    module: bool,
    #[serde(default)]
    kernel_tests: bool,
    #[serde(default)]
    alone: bool,
    must_fail: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PeerRow {
    machine: String,
    cards: Vec<Card>,
}

const fn default_timeout() -> u64 {
    120
}

/// A guest with its cards.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The machine.
    pub machine: Machine,
    /// Its cards.
    pub cards: Vec<Card>,
}

/// One boot: a script, the machines it needs, and the cases to run.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// Suite it belongs to.
    pub suite: String,
    /// Name; cases are called `NAME.CASE`.
    pub name: String,
    /// Script below tools/testing/selftests/rmlx5.
    pub script: String,
    /// The guest that runs the script, then its peer, if any.
    pub shapes: Vec<Shape>,
    /// Wall time in seconds for the whole part.
    pub timeout: u64,
    /// Environment of the script.
    pub env: Vec<(String, String)>,
    /// Whether rmlx5.ko is handed in.
    pub module: bool,
    /// Whether the kernel's own tests of network drivers are.
    pub kernel_tests: bool,
    /// Whether no other part may run at the same time.
    pub alone: bool,
    /// A test of the bench itself: some case must fail with these words in what is shown.
    pub must_fail: Option<String>,
    /// Cases in the script's order.
    pub cases: Vec<String>,
}

/// Reads the table and finds the cases of each script.
pub fn load(table: &Path, scripts: &Path) -> Result<Vec<Part>> {
    let text = fs::read_to_string(table).at(table)?;
    let wrong = |message: String| Error::Table {
        path: table.to_owned(),
        message,
    };
    let Table { machine, part } =
        toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let shape = |name: &str, cards: Vec<Card>| {
        let machine = match name {
            "" => Machine::default(),
            _ => machine
                .get(name)
                .cloned()
                .ok_or_else(|| wrong(format!("there is no machine '{name}'")))?,
        };
        Ok::<_, Error>(Shape { machine, cards })
    };
    let mut parts: Vec<Part> = Vec::new();
    for row in part {
        let script = scripts.join(&row.script);
        let text = fs::read_to_string(&script).at(&script)?;
        let mut shapes = vec![shape(&row.machine, row.cards)?];
        if let Some(peer) = row.peer {
            shapes.push(shape(&peer.machine, peer.cards)?);
        }
        let stem = Path::new(&row.script).file_stem().unwrap_or_default();
        let name = row
            .name
            .unwrap_or_else(|| stem.to_string_lossy().into_owned());
        if row.suite == HOST
            || parts
                .iter()
                .any(|part| part.suite == row.suite && part.name == name)
        {
            return Err(wrong(format!("part '{}/{name}' is there twice", row.suite)));
        }
        parts.push(Part {
            suite: row.suite,
            name,
            script: row.script,
            shapes,
            timeout: row.timeout,
            env: row.env.into_iter().collect(),
            module: row.module,
            kernel_tests: row.kernel_tests,
            alone: row.alone,
            must_fail: row.must_fail,
            cases: cases(&text),
        });
    }
    Ok(parts)
}

/// Names of the cases of a script: functions `test_NAME` defined at the beginning of a line.
pub fn cases(script: &str) -> Vec<String> {
    script
        .lines()
        .filter_map(|line| line.strip_prefix("test_")?.split_once("()"))
        .map(|(name, _)| name.trim().to_owned())
        .collect()
}

/// What `T=` asks for: words of the form `suite` or `suite/case`, where `*` stands for anything.
#[derive(Debug, Clone)]
pub struct Selection {
    words: Vec<String>,
}

impl Selection {
    /// Parses the value of `T=`; nothing selects everything.
    pub fn parse(text: &str) -> Self {
        let words = text.split_whitespace().map(str::to_owned).collect();
        Self { words }
    }

    /// Whether `suite/case` is asked for.
    pub fn has(&self, suite: &str, case: &str) -> bool {
        self.words.is_empty()
            || self.words.iter().any(|word| match word.split_once('/') {
                None => glob(word, suite),
                Some((wanted, pattern)) => glob(wanted, suite) && glob(pattern, case),
            })
    }

    /// Whether anything of a suite whose cases are not known yet may be asked for.
    pub fn touches(&self, suite: &str) -> bool {
        self.words.is_empty()
            || self
                .words
                .iter()
                .any(|word| glob(word.split('/').next().unwrap_or(word), suite))
    }

    /// Keeps of each part the cases that are asked for, drops parts without any.
    ///
    /// # Errors
    ///
    /// When a word names nothing at all, other than the host suite.
    pub fn apply(&self, parts: Vec<Part>) -> Result<Vec<Part>> {
        for word in &self.words {
            let one = Self::parse(word);
            let known = one.touches(HOST)
                || parts.iter().any(|part| {
                    part.cases
                        .iter()
                        .any(|case| one.has(&part.suite, &format!("{}.{case}", part.name)))
                });
            if !known {
                return Err(Error::NothingSelected(word.clone()));
            }
        }
        Ok(parts
            .into_iter()
            .filter_map(|mut part| {
                // A script without any case is a mistake that has to show, whoever asks for its suite.
                let broken = part.cases.is_empty() && self.touches(&part.suite);
                let name = part.name.clone();
                part.cases
                    .retain(|case| self.has(&part.suite, &format!("{name}.{case}")));
                (broken || !part.cases.is_empty()).then_some(part)
            })
            .collect())
    }
}

/// Shell-like match with `*` only.
fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            (0..=text.len())
                .filter(|at| text.is_char_boundary(*at))
                .any(|at| glob(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_anything() {
        assert!(glob("*", ""));
        assert!(glob("a*c", "abbc"));
        assert!(glob("probe.*", "probe.link"));
        assert!(!glob("probe.*", "probe"));
        assert!(!glob("a*c", "abd"));
    }

    #[test]
    fn cases_are_functions_at_the_beginning_of_a_line() {
        let script = "test_one() {\n}\nhelper() {\n  test_not() { :; }\n}\ntest_two()\n{\n}\n# test_three() {\n";
        assert_eq!(cases(script), ["one", "two"]);
    }

    fn part(suite: &str, name: &str, cases: &[&str]) -> Part {
        Part {
            suite: suite.into(),
            name: name.into(),
            cases: cases.iter().map(ToString::to_string).collect(),
            ..Part::default()
        }
    }

    #[test]
    fn a_selection_keeps_what_it_names() {
        let parts = || {
            vec![
                part("core", "probe", &["a", "b"]),
                part("oracle", "ping", &["a"]),
            ]
        };
        let kept = |text: &str| -> Vec<_> {
            Selection::parse(text)
                .apply(parts())
                .expect("selects")
                .into_iter()
                .map(|part| format!("{}/{} {}", part.suite, part.name, part.cases.join(",")))
                .collect()
        };
        assert_eq!(kept("").len(), 2);
        assert_eq!(kept("core"), ["core/probe a,b"]);
        assert_eq!(kept("core/probe.b"), ["core/probe b"]);
        assert_eq!(
            kept("core/probe* oracle"),
            ["core/probe a,b", "oracle/ping a"]
        );
        assert!(kept("host").is_empty());
    }

    #[test]
    fn a_selection_of_nothing_is_an_error() {
        let parts = vec![part("core", "probe", &["a"])];
        assert!(Selection::parse("core/prob.a")
            .apply(parts.clone())
            .is_err());
        assert!(Selection::parse("core typo").apply(parts).is_err());
    }

    #[test]
    fn a_script_without_cases_is_not_forgotten() {
        let parts = vec![part("core", "empty", &[])];
        assert_eq!(Selection::parse("").apply(parts).expect("selects").len(), 1);
    }
}
