// SPDX-License-Identifier: GPL-2.0
//! What a person writes to `selftest`.

use crate::channel::{
    layout,
    options::{BadOption, Mode, Options},
};

#[test]
fn all_options_are_understood() {
    let options =
        Options::parse("rounds=7 sizes=1,65536 mode=poll duration=3 moderation=16,50 breaks=9\n")
            .unwrap();
    assert_eq!(
        (options.rounds, options.duration, options.mode),
        (7, 3, Mode::Poll)
    );
    assert_eq!((options.moderation, options.breaks), ((16, 50), 9));
    assert_eq!(options.sizes.as_slice(), [1, 65536]);
    assert_eq!(options.sizes.longest(), 65536);
}

#[test]
fn nothing_and_start_mean_the_defaults() {
    assert_eq!(Options::parse("\n"), Ok(Options::new()));
    assert_eq!(Options::parse("start"), Ok(Options::new()));
    assert_eq!(Options::new().mode, Mode::Interrupt);
}

#[test]
fn a_duration_alone_lifts_the_limit_of_rounds() {
    assert_eq!(Options::parse("duration=1").unwrap().rounds, u64::MAX);
    assert_eq!(Options::parse("duration=1 rounds=2").unwrap().rounds, 2);
}

#[test]
fn bad_options_are_refused() {
    for text in [
        "round=1",
        "rounds",
        "rounds=1 rounds=1",
        "mode=irq mode=irq",
    ] {
        assert_eq!(Options::parse(text), Err(BadOption::Name), "{text}");
    }
    for (text, name) in [
        ("rounds=0", "rounds"),
        ("rounds=+1", "rounds"),
        ("rounds=-1", "rounds"),
        ("sizes=", "sizes"),
        ("sizes=0", "sizes"),
        ("sizes=65537", "sizes"),
        ("sizes=1,2,3,4,5,6,7,8,9", "sizes"),
        ("mode=event", "mode"),
        ("duration=0", "duration"),
        ("moderation=16", "moderation"),
        ("moderation=4096,1", "moderation"),
        ("moderation=1,65536", "moderation"),
        ("breaks=x", "breaks"),
        ("duration=86401", "duration"),
    ] {
        assert_eq!(Options::parse(text), Err(BadOption::Value(name)), "{text}");
    }
}

#[test]
fn slots_fit_their_areas() {
    for longest in [1, 8, 63, 64, 65, 4096, 8192, 65535, 65536] {
        let count = layout::slots(longest);
        assert!((1..=layout::MAX_SLOTS).contains(&count));
        assert!(count as u32 * layout::slot_bytes(longest) <= layout::AREA_BYTES);
    }
    assert!(layout::MAX_SLOTS as u32 + 2 <= layout::WQES);
}
