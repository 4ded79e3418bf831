// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arming against a model that looks at every CQE, and consumers that must not oversleep.

use super::*;
use proptest::prelude::*;

const T0: Duration = Duration::ZERO;

/// A queue that has produced, consumed and told of `start` CQEs.
fn aged(start: u64) -> (Notify, Counter) {
    let place = Place(start);
    let mut notify = Notify::new(Moderation::default());
    notify.produced = place;
    notify.reported = place;
    // CAST: counters wrap.
    (notify, Counter::new(start as u32))
}

/// Sequence, command and consumer index.
fn request(sequence: u8, solicited: bool, ci: u32) -> u32 {
    u32::from(sequence & 3) << 28 | u32::from(solicited) << 24 | ci & INDEX
}

#[test]
fn a_cqe_that_was_told_of_answers_no_other_request() {
    let (mut notify, pi) = aged(7);
    assert!(!notify.arm(request(0, false, 7), T0));
    assert!(notify.completed(pi.plus(1), false, T0));
    assert!(
        !notify.arm(request(1, false, 7), T0),
        "not polled, but told of"
    );
    assert_eq!(notify.state_code(), 9);
    assert!(notify.completed(pi.plus(2), false, T0));
    assert_eq!((notify.reported(), notify.state_code()), (9, 0xa));
}

#[test]
fn a_cqe_nobody_was_told_of_answers_at_once() {
    let (mut notify, pi) = aged(7);
    assert!(!notify.completed(pi.plus(1), false, T0), "not armed");
    assert!(notify.arm(request(0, false, 7), T0));
    assert!(!notify.completed(pi.plus(2), false, T0));
    assert!(!notify.arm(request(1, false, 9), T0), "consumed");
}

#[test]
fn a_solicited_request_is_not_answered_by_an_older_solicited_cqe() {
    let (mut notify, pi) = aged(0);
    assert!(!notify.arm(request(0, true, 0), T0));
    assert!(notify.completed(pi.plus(1), true, T0));
    assert!(!notify.completed(pi.plus(2), false, T0));
    assert!(
        !notify.arm(request(1, true, 0), T0),
        "only an unsolicited one is new"
    );
    assert_eq!(notify.solicited(), 1);
    assert!(
        notify.arm(request(1, false, 0), T0),
        "the same request widened"
    );
}

#[test]
fn a_place_follows_its_index_around_the_end() {
    let place = Place(3 << 24 | 5);
    assert_eq!(place.near(5), place);
    assert_eq!(place.near(0xff_fffe), Place((3 << 24) - 2));
    assert_eq!(place.near(0x80_0000), Place(3 << 24 | 0x80_0000));
    assert_eq!(
        Place(0).near(0xff_ffff),
        Place(0),
        "nothing is before the first"
    );
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Complete {
        solicited: bool,
    },
    Poll,
    /// The consumer takes an event and steps its sequence.
    Take,
    Arm {
        solicited: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<bool>().prop_map(|solicited| Step::Complete { solicited }),
        2 => Just(Step::Poll),
        2 => Just(Step::Take),
        3 => any::<bool>().prop_map(|solicited| Step::Arm { solicited }),
    ]
}

/// Every CQE by itself: solicited, and whether an event has told of it.
#[derive(Default)]
struct Model {
    cqes: Vec<(bool, bool)>,
    consumed: usize,
    /// Solicited only, and consumed CQEs at the time of the request.
    armed: Option<(bool, usize)>,
}

impl Model {
    fn event(&mut self) -> bool {
        let Some((only, from)) = self.armed else {
            return false;
        };
        let new = |&(solicited, told): &(bool, bool)| !told && (solicited || !only);
        if !self.cqes[from..].iter().any(new) {
            return false;
        }
        self.armed = None;
        self.cqes.iter_mut().for_each(|cqe| cqe.1 = true);
        true
    }
}

/// Around the ends of the index, and long after many CQEs that no event told of.
fn start() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        (1u64..4, 0u64..40).prop_map(|(n, back)| (n << 24) - back)
    ]
}

proptest! {
    #[test]
    fn events_are_those_of_the_model(start in start(), steps in prop::collection::vec(step(), 0..200)) {
        let (mut notify, mut pi) = aged(start);
        let mut model = Model::default();
        let (mut sequence, mut pending) = (0u8, 0u32);
        for step in steps {
            let ci = pi.low24().wrapping_sub((model.cqes.len() - model.consumed) as u32);
            let event = match step {
                Step::Complete { solicited } => {
                    model.cqes.push((solicited, false));
                    pi = pi.plus(1);
                    notify.completed(pi, solicited, T0)
                }
                Step::Poll => {
                    model.consumed = (model.consumed + 1).min(model.cqes.len());
                    continue;
                }
                Step::Take if pending != 0 => {
                    pending -= 1;
                    sequence += 1;
                    continue;
                }
                Step::Take => continue,
                // A request of the past: its event is on its way.
                Step::Arm { solicited } if pending != 0 => {
                    prop_assert!(!notify.arm(request(sequence, solicited, ci), T0));
                    continue;
                }
                Step::Arm { solicited } => {
                    model.armed = Some((solicited, model.consumed));
                    notify.arm(request(sequence, solicited, ci), T0)
                }
            };
            prop_assert_eq!(event, model.event());
            pending += u32::from(event);
        }
    }

    /// Whoever asks, polls until the queue is empty and sleeps is woken, whatever comes in between,
    /// and never for nothing new. `polls` says how he does it: ask first or poll first (then there
    /// is no second look, as in NAPI).
    #[test]
    fn nobody_oversleeps(
        start in start(),
        polls_first in any::<bool>(),
        solicited_only in any::<bool>(),
        arrivals in prop::collection::vec((0u8..4, any::<bool>()), 1..300),
    ) {
        let (mut notify, mut pi) = aged(start);
        let mut ring: Vec<bool> = Vec::new();
        let (mut sequence, mut events, mut untold) = (0u8, 0u32, 0u32);
        // What he does next: 0 ask, 1 poll one, 2 sleep.
        let order: [u8; 3] = if polls_first { [1, 0, 2] } else { [0, 1, 2] };
        let mut place = 0;
        for (lag, solicited) in arrivals {
            for _ in 0..lag {
                match order[place] {
                    0 => {
                        let ci = pi.low24().wrapping_sub(ring.len() as u32);
                        if notify.arm(request(sequence, solicited_only, ci), T0) {
                            prop_assert!(untold > 0, "woken for nothing new");
                            untold = 0;
                            events += 1;
                        }
                        place += 1;
                    }
                    1 if ring.is_empty() => place += 1,
                    1 => {
                        ring.remove(0);
                    }
                    _ => {
                        let waits = ring.iter().any(|&solicited| solicited || !solicited_only);
                        prop_assert!(events != 0 || !waits, "asleep over {:?}", ring);
                        if events != 0 {
                            events -= 1;
                            sequence += 1;
                            place = 0;
                        }
                    }
                }
            }
            ring.push(solicited);
            untold += 1;
            pi = pi.plus(1);
            if notify.completed(pi, solicited, T0) {
                untold = 0;
                events += 1;
            }
            prop_assert!(events <= 1, "one request, one event");
        }
    }

    /// However many CQEs pass without a request, an old event or solicited CQE is no new one.
    #[test]
    fn what_is_long_past_stays_behind(gap in 0u32..0x300_0000, solicited in any::<bool>()) {
        let (mut notify, mut pi) = aged(0);
        prop_assert!(!notify.completed(pi.plus(1), true, T0));
        prop_assert!(notify.arm(request(0, true, 0), T0));
        pi = pi.plus(1);
        // In steps, as single CQEs would do it, with less work.
        let mut left = gap;
        while left != 0 {
            let some = left.min(0x3f_ffff);
            pi = pi.plus(some);
            left -= some;
            prop_assert!(!notify.completed(pi, false, T0));
        }
        let ci = pi.low24();
        prop_assert!(!notify.arm(request(1, solicited, ci), T0));
        prop_assert!(notify.completed(pi.plus(1), true, T0));
    }
}
