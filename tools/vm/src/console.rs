// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel said, and in which case it said it.
//!
//! Scripts write `rmlx5-test: begin NAME` and `rmlx5-test: end NAME` to /dev/kmsg, so the console shows by itself
//! which case an alarm belongs to.

/// Words of the kernel log that fail the case in which they appear.
const ALARMS: [&str; 25] = [
    "WARNING: ",
    "BUG: ",
    "kernel BUG at",
    "Call Trace:",
    "Oops: ",
    "[ cut here ]",
    "Kernel panic",
    "general protection fault",
    "Unable to handle kernel",
    "KASAN: ",
    "KCSAN: ",
    "KFENCE: ",
    "UBSAN: ",
    "rust_kernel: panicked",
    "detected stalls on CPUs",
    "self-detected stall",
    "soft lockup",
    "blocked for more than",
    "possible recursive locking",
    "circular locking dependency",
    "inconsistent lock state",
    "DMA-API: ",
    "refcount_t: ",
    "nobody cared",
    "corruption",
];

/// Lines that contain such a word and mean no harm, each with its reason.
const HARMLESS: [&str; 1] = [
    // The kernel's remark on the mitigations that the command line turned off.
    "Spectre V2 : WARNING: Unprivileged eBPF",
];

const BEGIN: &str = "rmlx5-test: begin ";
const END: &str = "rmlx5-test: end ";

/// An alarm of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// The case that ran; none between cases, before the first and after the last.
    pub case: Option<String>,
    /// Index of the line.
    pub at: usize,
}

/// The console of one guest.
#[derive(Debug, Default)]
pub struct Console {
    lines: Vec<String>,
}

impl Console {
    /// Adds a line.
    pub fn push(&mut self, line: &str) {
        self.lines.push(line.trim_end().to_owned());
    }

    /// The last `count` lines.
    pub fn tail(&self, count: usize) -> &[String] {
        &self.lines[self.lines.len().saturating_sub(count)..]
    }

    /// Up to `count` lines from `at` on.
    pub fn excerpt(&self, at: usize, count: usize) -> &[String] {
        let end = at.saturating_add(count).min(self.lines.len());
        self.lines.get(at..end).unwrap_or_default()
    }

    /// The first alarm of each case, and the first outside of cases.
    pub fn alarms(&self) -> Vec<Alarm> {
        let mut case: Option<String> = None;
        let mut alarms: Vec<Alarm> = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            if let Some((_, name)) = line.split_once(BEGIN) {
                case = Some(name.trim().to_owned());
            } else if line.contains(END) {
                case = None;
            } else if is_alarm(line) && !alarms.iter().any(|alarm| alarm.case == case) {
                alarms.push(Alarm {
                    case: case.clone(),
                    at,
                });
            }
        }
        alarms
    }
}

/// Whether one line of the kernel log fails a test.
pub fn is_alarm(line: &str) -> bool {
    ALARMS.iter().any(|word| line.contains(word))
        && !HARMLESS.iter().any(|words| line.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(text: &str) -> Console {
        let mut console = Console::default();
        text.lines().for_each(|line| console.push(line));
        console
    }

    #[test]
    fn an_alarm_belongs_to_the_case_that_ran() {
        let log = console(
            "[    1.0] Linux version\n\
             [    2.0] rmlx5-test: begin a\n[    2.1] rmlx5-test: end a\n\
             [    2.2] rmlx5-test: begin b\n\
             [    2.3] ------------[ cut here ]------------\n\
             [    2.4] WARNING: drivers/x.c:1 at f\n\
             [    2.5] rmlx5-test: end b\n",
        );
        let alarms = log.alarms();
        assert_eq!(alarms.len(), 1);
        assert_eq!(alarms[0].case.as_deref(), Some("b"));
        assert_eq!(log.excerpt(alarms[0].at, 2).len(), 2);
    }

    #[test]
    fn an_alarm_between_cases_is_not_lost() {
        let log = console("[    1.0] BUG: sleeping function\n[    2.0] rmlx5-test: begin a\n");
        assert_eq!(log.alarms()[0].case, None);
    }

    #[test]
    fn known_remarks_are_no_alarm() {
        assert!(!is_alarm(
            "Spectre V2 : WARNING: Unprivileged eBPF is enabled"
        ));
        assert!(!is_alarm(
            "pcieport 0000:00:03.0: AER: Uncorrectable (Fatal) error"
        ));
        assert!(is_alarm(
            "[   3.1] INFO: task insmod:77 blocked for more than 60 seconds."
        ));
    }

    #[test]
    fn excerpts_stay_inside_the_log() {
        let log = console("a\nb\n");
        assert_eq!(log.excerpt(1, 10), ["b"]);
        assert!(log.excerpt(7, 1).is_empty());
        assert_eq!(log.tail(1), ["b"]);
    }
}
