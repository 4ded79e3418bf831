// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Inputs: a list of records, each a few bytes that a target understands.

/// One input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Commands, requests, frames or accesses, in order.
    pub records: Vec<Vec<u8>>,
}

impl Input {
    /// An input of these records.
    pub fn new(records: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self {
            records: records.into_iter().collect(),
        }
    }

    /// One line of hexadecimal digits a record.
    pub fn to_text(&self) -> String {
        let line = |record: &Vec<u8>| -> String {
            let digits: String = record.iter().map(|byte| format!("{byte:02x}")).collect();
            digits + "\n"
        };
        self.records.iter().map(line).collect()
    }

    /// Reads [`Input::to_text`] back.
    ///
    /// # Errors
    /// The line that is not made of pairs of hexadecimal digits.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let record = |line: &str| -> Option<Vec<u8>> {
            let digits = line.as_bytes().chunks(2);
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
            let good = line.len() % 2 == 0 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
            good.then(|| digits.map(byte).collect())?
        };
        let records: Result<_, _> = text
            .lines()
            .map(|line| record(line).ok_or_else(|| format!("not hexadecimal: {line:?}")))
            .collect();
        Ok(Self { records: records? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_reads_back() {
        let input = Input::new([vec![], vec![0, 0xff, 7]]);
        assert_eq!(Input::from_text(&input.to_text()), Ok(input));
        for bad in ["0", "0g", "+1"] {
            assert!(Input::from_text(bad).is_err(), "{bad}");
        }
    }
}
