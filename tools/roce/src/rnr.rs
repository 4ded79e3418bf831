// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timer codes of receiver-not-ready NAKs.

use std::time::Duration;

/// Units of 10 us for each of the 32 codes. Source: IBA specification, table "Encoding for RNR NAK
/// Timer Field"; names in `enum ib_rnr_timeout`, include/rdma/ib_verbs.h.
const UNITS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// How long a requester waits after an RNR NAK with timer code `code` (low five bits).
pub fn rnr_delay(code: u8) -> Duration {
    // PANIC: five bits index 32 entries.
    Duration::from_micros(10 * u64::from(UNITS[usize::from(code & 0x1f)]))
}

#[cfg(test)]
mod tests {
    use super::rnr_delay;
    use std::time::Duration;

    #[test]
    fn codes_span_ten_microseconds_to_655_milliseconds() {
        assert_eq!(rnr_delay(1), Duration::from_micros(10));
        assert_eq!(rnr_delay(12), Duration::from_micros(640));
        assert_eq!(rnr_delay(31), Duration::from_micros(491_520));
        assert_eq!(rnr_delay(0), Duration::from_micros(655_360));
    }
}
