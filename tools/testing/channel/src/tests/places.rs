// SPDX-License-Identifier: GPL-2.0
//! Places of the table of users' rules.

use crate::net::places::{Places, LOG_BANDS};

fn spans(places: Places, band: u8) -> Vec<(u32, u32)> {
    let ranges = (0..).map_while(|at| places.span(band, at));
    ranges.map(|range| (range.first, range.last())).collect()
}

#[test]
fn spans_cover_each_place_of_each_band_once() {
    for log in LOG_BANDS..=16 {
        let places = Places::new(log);
        let mut next = 0;
        for band in 0..1 << LOG_BANDS {
            for (first, last) in spans(places, band) {
                assert_eq!(first, next, "table of 1 << {log}, band {band}");
                assert!(last >= first);
                next = last + 1;
            }
        }
        assert_eq!(next, 1 << log, "table of 1 << {log}");
    }
}

#[test]
fn half_of_a_band_is_wide() {
    let all = spans(Places::new(16), 3);
    let wide: Vec<_> = all.iter().filter(|(first, last)| first < last).collect();
    assert_eq!(wide.len(), 32);
    assert!(wide.iter().all(|(first, last)| last - first == 31));
    assert_eq!(all.len(), 32 + 1024);
}

#[test]
fn there_is_no_further_band() {
    assert_eq!(Places::new(16).span(1 << LOG_BANDS, 0), None);
    assert_eq!(Places::new(LOG_BANDS).span(0, 1), None);
    assert_eq!(
        Places::new(u8::MAX)
            .span(31, 1055)
            .map(|range| range.last()),
        Some(0xffff)
    );
}
