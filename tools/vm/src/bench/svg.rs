// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of `make bench` as a picture: a bar for each ratio, beside its numbers.

use std::fmt::Write as _;

/// A line of the table.
pub struct Row {
    /// What was measured.
    pub name: String,
    /// With rmlx5, or on cxemu.
    pub ours: u64,
    /// With what it is held against.
    pub reference: u64,
}

/// One job with its rows.
pub struct Section {
    /// Its name.
    pub job: String,
    /// Names of the two columns.
    pub columns: (&'static str, &'static str),
    /// In the order in which they are shown.
    pub rows: Vec<Row>,
}

/// Height of a line.
const LINE: usize = 16;
/// Where the columns end and where the bars begin.
const COLUMNS: (usize, usize) = (360, 460);
const BARS: usize = 480;
/// Length of a bar that means twice as much; longer ones are cut off there.
const TWICE: usize = 240;
const WIDTH: usize = BARS + TWICE + 60;
const LESS: &str = "#4a7";
const MORE: &str = "#c63";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn text(to: &mut String, x: usize, y: usize, attributes: &str, words: &str) {
    let words = escape(words);
    let _ = writeln!(to, r#"<text x="{x}" y="{y}"{attributes}>{words}</text>"#);
}

/// The picture. Bars end at the line where both need the same.
pub fn picture(sections: &[Section]) -> String {
    const END: &str = r#" text-anchor="end""#;
    let lines: usize = sections.iter().map(|section| section.rows.len() + 2).sum();
    let height = (lines + 1) * LINE;
    let mut to = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">"#
    );
    let _ = writeln!(to, "\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>");
    let mut y = LINE;
    for section in sections {
        text(&mut to, 8, y, r#" font-weight="bold""#, &section.job);
        let (ours, reference) = section.columns;
        text(&mut to, COLUMNS.0, y, END, ours);
        text(&mut to, COLUMNS.1, y, END, reference);
        let top = y + 4;
        for row in &section.rows {
            y += LINE;
            text(&mut to, 16, y, "", &row.name);
            text(&mut to, COLUMNS.0, y, END, &row.ours.to_string());
            text(&mut to, COLUMNS.1, y, END, &row.reference.to_string());
            if row.reference != 0 {
                bar(&mut to, y, row);
            }
        }
        let (same, bottom) = (BARS + TWICE / 2, y + 4);
        let _ = writeln!(
            to,
            r##"<line x1="{same}" y1="{top}" x2="{same}" y2="{bottom}" stroke="#333"/>"##
        );
        y += 2 * LINE;
    }
    to.push_str("</svg>\n");
    to
}

fn bar(to: &mut String, y: usize, row: &Row) {
    // CAST: only shown.
    let ratio = row.ours as f64 / row.reference as f64;
    let length = (ratio.min(2.0) * TWICE as f64 / 2.0).round();
    let colour = if ratio > 1.0 { MORE } else { LESS };
    let (top, height) = (y - 10, LINE - 4);
    let _ = writeln!(
        to,
        r#"<rect x="{BARS}" y="{top}" width="{length}" height="{height}" fill="{colour}"/>"#
    );
    let end = BARS + TWICE + 8;
    text(to, end, y, "", &format!("{ratio:.2}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: u64, reference: u64) -> Row {
        Row {
            name: "a < b".into(),
            ours,
            reference,
        }
    }

    #[test]
    fn bars_are_as_long_as_ratios_and_end_somewhere() {
        let section = Section {
            job: "bind".into(),
            columns: ("rmlx5", "mlx5_core"),
            rows: vec![row(1, 2), row(9, 3), row(5, 0)],
        };
        let picture = picture(&[section]);
        let bars: Vec<&str> = picture
            .lines()
            .filter(|line| line.starts_with("<rect x="))
            .collect();
        assert_eq!(bars.len(), 2, "no ratio to nothing");
        assert!(bars[0].contains(r#"width="60""#) && bars[0].contains(LESS));
        assert!(bars[1].contains(r#"width="240""#) && bars[1].contains(MORE));
        assert!(picture.contains("a &lt; b") && picture.contains(">3.00<"));
        assert!(picture.ends_with("</svg>\n"));
    }
}
