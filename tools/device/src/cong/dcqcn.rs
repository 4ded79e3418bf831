// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rate of one QP under congestion (DCQCN: Zhu et al., "Congestion Control for Large-Scale RDMA
//! Deployments", SIGCOMM 2015), with the parameters of the card.
//!
//! Nothing here has a timer: whoever looks brings the time, and what was due until then is made up
//! for.

use super::Rp;
use std::time::Duration;

/// How far a QP may run ahead of its rate, so that not every packet has to wait for a timer.
const AHEAD: Duration = Duration::from_micros(100);
/// Increases made up for at a time: as many as lead from the lowest to the highest rate by steps of
/// the default. One that was not looked at for longer starts from there.
const MOST_RAISES: u32 = 1 << 15;
/// Fixed point of alpha.
const ONE: f64 = 1024.0;

/// Rate and state of a limited QP. Rates are in Mb/s, which is bits per microsecond.
#[derive(Clone, Debug)]
pub struct Limiter {
    current: f64,
    target: f64,
    /// How bad congestion is, in 1024ths.
    alpha: f64,
    /// When alpha was updated, and whether a CNP has come since.
    alpha_at: Duration,
    alpha_cnp: bool,
    /// When the rate was decreased, and whether a CNP has come since.
    cut_at: Duration,
    cut_cnp: bool,
    /// When the timer increased the rate.
    raised_at: Duration,
    /// Bytes since the last increase by bytes.
    octets: u64,
    /// Increases since the last decrease, by the timer and by bytes.
    by_time: u32,
    by_octets: u32,
    /// When all that was sent has left at the current rate.
    left: Duration,
}

impl Limiter {
    /// The first CNP of a QP.
    pub fn new(rp: &Rp, now: Duration) -> Self {
        let line = f64::from(rp.line());
        let mut new = Self {
            current: line,
            target: line,
            alpha: rp.initial_alpha_value.into(),
            alpha_at: now,
            alpha_cnp: true,
            cut_at: now,
            cut_cnp: false,
            raised_at: now,
            octets: 0,
            by_time: 0,
            by_octets: 0,
            left: now,
        };
        match rp.rate_to_set_on_first_cnp {
            0 => new.cut(rp, now),
            rate => {
                new.current = f64::from(rate).min(line);
                new.target = new.current;
            }
        }
        new
    }

    /// Another CNP.
    pub fn cnp(&mut self, rp: &Rp, now: Duration) {
        self.advance(rp, now);
        self.alpha_cnp = true;
        self.cut_cnp = true;
        self.advance(rp, now);
    }

    /// A packet of `octets` bytes leaves.
    pub fn sent(&mut self, rp: &Rp, now: Duration, octets: usize) {
        self.advance(rp, now);
        self.left = self.left.max(now) + self.time_for(octets);
        self.octets += octets as u64;
        let step = u64::from(rp.rpg_byte_reset) * 64;
        while step != 0 && self.octets >= step {
            self.octets -= step;
            self.by_octets += 1;
            self.raise(rp);
        }
    }

    /// How long so many bytes take at the rate of now.
    pub fn time_for(&self, octets: usize) -> Duration {
        // PANIC: the first rate is 1 at least, and no decrease leads below `rpg_min_rate`.
        Duration::from_secs_f64(octets as f64 * 8.0 / self.current / 1e6)
    }

    /// Until when nothing may be sent.
    pub fn held(&self, now: Duration) -> Option<Duration> {
        (self.left > now + AHEAD).then(|| self.left - AHEAD)
    }

    /// The rate in Mb/s.
    pub fn rate(&self) -> u32 {
        // CAST: at most the rate of the port.
        self.current as u32
    }

    /// Whether the rate is back where it was: less than 1 Mb/s below.
    pub fn is_over(&self, rp: &Rp) -> bool {
        f64::from(rp.line()) - self.current < 1.0
    }

    /// Makes up for what was due until `now`.
    pub fn advance(&mut self, rp: &Rp, now: Duration) {
        self.update_alpha(rp, now);
        let period = Duration::from_micros(rp.rate_reduce_monitor_period.into());
        if self.cut_cnp && now.saturating_sub(self.cut_at) >= period {
            self.cut(rp, now);
        }
        let step = Duration::from_micros(rp.rpg_time_reset.max(1).into());
        for _ in 0..MOST_RAISES {
            if now.saturating_sub(self.raised_at) < step || self.is_over(rp) {
                return;
            }
            self.raised_at += step;
            self.by_time += 1;
            self.raise(rp);
        }
        self.raised_at = now;
    }

    fn update_alpha(&mut self, rp: &Rp, now: Duration) {
        let step = u128::from(rp.dce_tcp_rtt.max(1));
        let mut updates = now.saturating_sub(self.alpha_at).as_micros() / step;
        if updates == 0 {
            return;
        }
        // CAST: no more microseconds than a process lives.
        self.alpha_at += Duration::from_micros((updates * step) as u64);
        let keep = f64::from(rp.dce_tcp_g) / ONE;
        if std::mem::take(&mut self.alpha_cnp) {
            self.alpha = (self.alpha * keep + ONE - f64::from(rp.dce_tcp_g)).min(ONE - 1.0);
            updates -= 1;
        }
        // CAST: a huge exponent makes 0, as it should.
        self.alpha *= keep.powi(updates.min(1 << 20) as i32);
    }

    fn cut(&mut self, rp: &Rp, now: Duration) {
        let raised =
            self.by_octets > 0 || rp.clamp_tgt_rate_after_time_inc != 0 && self.by_time > 0;
        if raised || rp.clamp_tgt_rate != 0 {
            self.target = self.current;
        }
        let share = 1.0 - self.alpha / f64::from(1u32 << rp.rpg_gd);
        let least = f64::from(rp.rpg_min_dec_fac) / 100.0;
        let floor = f64::from(rp.rpg_min_rate).min(self.current);
        self.current = (self.current * share.max(least)).max(floor);
        self.cut_cnp = false;
        self.cut_at = now;
        self.raised_at = now;
        self.octets = 0;
        self.by_time = 0;
        self.by_octets = 0;
    }

    fn raise(&mut self, rp: &Rp) {
        let threshold = rp.rpg_threshold;
        let more = if self.by_time.max(self.by_octets) <= threshold {
            // Fast recovery: half of the way back.
            0
        } else if self.by_time.min(self.by_octets) > threshold {
            rp.rpg_hai_rate
        } else {
            rp.rpg_ai_rate
        };
        self.target = (self.target + f64::from(more)).min(rp.line().into());
        self.current = (self.current + self.target) / 2.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(count: u64) -> Duration {
        Duration::from_micros(count)
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 0.01, "{found}, not {expected}");
    }

    #[test]
    fn the_first_notification_halves_the_rate_or_sets_it() {
        let rp = Rp::default();
        // 1 - 1023 / 2048 is a little more than the half that is left at least.
        near(
            Limiter::new(&rp, us(5)).current,
            100_000.0 * 1025.0 / 2048.0,
        );
        let set = Rp {
            rate_to_set_on_first_cnp: 2_500,
            ..rp.clone()
        };
        near(Limiter::new(&set, us(5)).current, 2_500.0);
        let bound = Rp {
            rpg_min_dec_fac: 80,
            ..rp.clone()
        };
        near(Limiter::new(&bound, us(5)).current, 80_000.0);
        let slower = Rp {
            rpg_max_rate: 1_000,
            ..rp
        };
        near(
            Limiter::new(&slower, us(5)).current,
            1_000.0 * 1025.0 / 2048.0,
        );
    }

    #[test]
    fn there_is_one_decrease_in_a_period_and_none_below_the_least_rate() {
        let rp = Rp::default();
        let mut limiter = Limiter::new(&rp, us(0));
        let first = limiter.current;
        limiter.cnp(&rp, us(1));
        limiter.cnp(&rp, us(3));
        near(limiter.current, first);
        limiter.advance(&rp, us(4));
        let second = limiter.current;
        assert!(second < first * 0.52, "{second}");
        limiter.advance(&rp, us(9));
        near(limiter.current, second);
        for at in 3..200 {
            limiter.cnp(&rp, us(4 * at));
        }
        near(limiter.current, 1.0);
    }

    #[test]
    fn alpha_grows_with_notifications_and_fades_without() {
        let rp = Rp::default();
        let mut limiter = Limiter::new(&rp, us(0));
        limiter.advance(&rp, us(1));
        near(limiter.alpha, 1023.0 * 1019.0 / 1024.0 + 5.0);
        let before = limiter.alpha;
        limiter.advance(&rp, us(3));
        near(limiter.alpha, before * (1019.0f64 / 1024.0).powi(2));
        limiter.advance(&rp, Duration::from_secs(1));
        near(limiter.alpha, 0.0);
        // A notification after a long time finds no reason to slow down much.
        let rate = limiter.current;
        limiter.cnp(&rp, Duration::from_secs(1) + us(1));
        assert!(limiter.current > rate * 0.99);
    }

    #[test]
    fn recovery_goes_half_of_the_way_then_adds() {
        let rp = Rp::default();
        let mut limiter = Limiter::new(&rp, us(0));
        let first = limiter.current;
        limiter.cnp(&rp, us(10));
        // Nothing had raised it: the target is still that of the beginning.
        near(limiter.target, 100_000.0);
        limiter.advance(&rp, us(10 + 299));
        let low = limiter.current;
        assert!(low < first);
        limiter.advance(&rp, us(10 + 300));
        near(limiter.current, (low + 100_000.0) / 2.0);
        // The timer has raised it: now the target is lowered to the rate.
        let high = limiter.current;
        limiter.cnp(&rp, us(10 + 310));
        near(limiter.target, high);
        limiter.advance(&rp, us(10 + 310 + 600));
        near(limiter.target, high + 5.0);
    }

    #[test]
    fn many_bytes_and_much_time_make_large_steps() {
        let rp = Rp {
            rate_to_set_on_first_cnp: 1_000,
            rpg_byte_reset: 1,
            ..Rp::default()
        };
        let mut limiter = Limiter::new(&rp, us(0));
        limiter.sent(&rp, us(0), 64);
        near(limiter.target, 1_000.0);
        limiter.sent(&rp, us(0), 64);
        near(limiter.target, 1_005.0);
        limiter.advance(&rp, us(300));
        near(limiter.target, 1_010.0);
        limiter.advance(&rp, us(600));
        near(limiter.target, 1_060.0);
    }

    #[test]
    fn packets_wait_for_their_rate() {
        let rp = Rp {
            rate_to_set_on_first_cnp: 8,
            ..Rp::default()
        };
        let mut limiter = Limiter::new(&rp, us(0));
        assert_eq!(limiter.held(us(0)), None);
        // 8 Mb/s are a byte a microsecond.
        limiter.sent(&rp, us(0), 100);
        assert_eq!(limiter.held(us(0)), None, "a little ahead");
        limiter.sent(&rp, us(0), 50);
        assert_eq!(limiter.held(us(0)), Some(us(50)));
        assert_eq!(limiter.held(us(50)), None);
    }

    #[test]
    fn a_limit_ends_in_bounded_work_after_any_time() {
        for rp in [
            Rp::default(),
            Rp {
                rpg_ai_rate: 1,
                rpg_time_reset: 1,
                ..Rp::default()
            },
        ] {
            let mut limiter = Limiter::new(&rp, us(0));
            for at in 1..100 {
                limiter.cnp(&rp, us(4 * at));
            }
            assert!(!limiter.is_over(&rp));
            for hours in 1..10 {
                limiter.advance(&rp, Duration::from_secs(3600 * hours));
            }
            assert!(limiter.is_over(&rp));
        }
    }
}
