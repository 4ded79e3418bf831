// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why the drivers differ: Documentation/driver/differences.md.

use super::Difference;

/// One row of the table.
#[derive(Debug)]
struct Reason {
    difference: Difference,
    why: String,
}

/// The rows of one job.
#[derive(Debug)]
pub struct Reasons {
    rows: Vec<Reason>,
}

impl Reasons {
    /// Reads the rows below the heading `## JOB`: command, field, value of rmlx5, value of the stock driver, reason.
    ///
    /// # Errors
    /// There is no such heading, or a row without five columns or without a reason.
    pub fn parse(text: &str, job: &str) -> Result<Self, String> {
        let heading = format!("## {job}");
        let mut lines = text.lines().skip_while(|line| line.trim() != heading);
        lines
            .next()
            .ok_or_else(|| format!("the table has no heading '{heading}'"))?;
        let mut rows = Vec::new();
        for line in lines.take_while(|line| !line.starts_with("## ")) {
            let Some(inner) = line.trim().strip_prefix('|') else {
                continue;
            };
            let inner = inner.strip_suffix('|').unwrap_or(inner);
            let columns: Vec<&str> = inner.splitn(5, '|').map(str::trim).collect();
            let [command, field, ours, theirs, why] = columns[..] else {
                return Err(format!("not five columns: {line}"));
            };
            // The head of the table and the line below it.
            if command == "command" || command.starts_with("---") {
                continue;
            }
            if why.is_empty() || why == "?" {
                return Err(format!("no reason: {line}"));
            }
            rows.push(Reason {
                difference: Difference {
                    command: command.into(),
                    field: field.into(),
                    ours: ours.into(),
                    theirs: theirs.into(),
                },
                why: why.into(),
            });
        }
        Ok(Self { rows })
    }

    /// Lines for differences without a row, and for rows without a difference.
    ///
    /// # Errors
    /// The same command and field has two rows.
    pub fn judge(&self, differences: &[Difference]) -> Result<Vec<String>, String> {
        for (at, row) in self.rows.iter().enumerate() {
            let same = |other: &Reason| {
                other.difference.command == row.difference.command
                    && other.difference.field == row.difference.field
            };
            if self.rows.iter().skip(at + 1).any(same) {
                return Err(format!("two rows for {}", row.difference.row(&row.why)));
            }
        }
        let explained =
            |difference: &&Difference| !self.rows.iter().any(|row| row.difference == **difference);
        let gone = |row: &&Reason| !differences.contains(&row.difference);
        Ok(differences
            .iter()
            .filter(explained)
            .map(|difference| difference.row("?"))
            .chain(
                self.rows
                    .iter()
                    .filter(gone)
                    .map(|row| format!("gone: {}", row.difference.row(&row.why))),
            )
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Title\n\n## one\n\n| command | field | rmlx5 | mlx5 | why |\n|---|---|---|---|---|\n| A | calls | 1 | 2 | once is enough |\n\n## two\n| B | x | 0x1 | 0x2 | z |\n";

    fn difference(command: &str, ours: &str) -> Difference {
        Difference {
            command: command.into(),
            field: "calls".into(),
            ours: ours.into(),
            theirs: "2".into(),
        }
    }

    #[test]
    fn only_what_the_row_says_is_explained() {
        let reasons = Reasons::parse(TABLE, "one").expect("table");
        assert_eq!(reasons.judge(&[difference("A", "1")]), Ok(vec![]));
        let other = reasons
            .judge(&[difference("A", "3")])
            .expect("one row each");
        assert_eq!(
            other,
            [
                "| A | calls | 3 | 2 | ? |",
                "gone: | A | calls | 1 | 2 | once is enough |"
            ]
        );
    }

    #[test]
    fn mistakes_in_the_table_are_told() {
        assert!(Reasons::parse(TABLE, "three").is_err());
        assert!(Reasons::parse("## a\n| A | calls | 1 | 2 | ? |\n", "a").is_err());
        assert!(Reasons::parse("## a\n| A | calls | 1 |\n", "a").is_err());
        let twice = "## a\n| A | calls | 1 | 2 | x |\n| A | calls | 1 | 3 | y |\n";
        assert!(Reasons::parse(twice, "a")
            .expect("rows")
            .judge(&[])
            .is_err());
    }
}
