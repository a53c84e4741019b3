//! Zipf popularity: rank k of n with a probability proportional to k^−s; and Zipf–Mandelbrot
//! popularity, proportional to (k + q)^−s.
//!
//! Rejection-inversion (Hörmann and Derflinger, Rejection-inversion to generate variates from
//! monotone discrete distributions, ACM TOMACS 1996): invert the integral of x^−s, round, and
//! reject values that the rounding favours. O(1) a draw, no table, any s > 0 including 1. The shift
//! q moves the ranks: the method works for any points a step of 1 apart, so k + q replaces k
//! everywhere, and h(x) = (x/(1 + q))^−s is 1 at the first rank, so that no shift makes it too
//! small for a float.

use larder_units::Stream;

/// The largest q: a float resolves a ten-thousandth of a rank there.
const MAX_SHIFT: f64 = 1e12;

/// Draws ranks from 1 to n.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: u64,
    s: f64,
    q: f64,
    /// H(3/2 + q) − h(1 + q), the lower end of the inverted range; h(1 + q) is 1.
    low: f64,
    /// H(n + 1/2 + q), the upper end.
    high: f64,
    /// Ranks this close above the inverted point are accepted without a test.
    sure: f64,
}

impl Zipf {
    /// Creates a distribution over the ranks 1 to `n` with the exponent `s`; `None` unless n ≥ 1
    /// and s is finite and positive.
    pub fn new(n: u64, s: f64) -> Option<Zipf> {
        Zipf::mandelbrot(n, s, 0.0)
    }

    /// Does the same with ranks shifted by `q`, which evens out the most popular ones; `None` also
    /// unless 0 ≤ q ≤ 10¹² (beyond, floats are too coarse).
    pub fn mandelbrot(n: u64, s: f64, q: f64) -> Option<Zipf> {
        if n == 0 || !(s.is_finite() && s > 0.0) || !(0.0..=MAX_SHIFT).contains(&q) {
            return None;
        }
        let mut zipf = Zipf {
            n,
            s,
            q,
            low: 0.0,
            high: 0.0,
            sure: 0.0,
        };
        zipf.low = zipf.integral(1.5 + q) - 1.0;
        zipf.high = zipf.integral(n as f64 + 0.5 + q);
        zipf.sure = 2.0 + q - zipf.inverse(zipf.integral(2.5 + q) - zipf.weight(2.0 + q));
        Some(zipf)
    }

    /// Draws one rank.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        loop {
            let u = self.high + stream.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let rank = (x - self.q + 0.5).floor().clamp(1.0, self.n as f64);
            let k = rank + self.q;
            if k - x <= self.sure || u >= self.integral(k + 0.5) - self.weight(k) {
                return rank as u64;
            }
        }
    }

    /// h(x)
    fn weight(&self, x: f64) -> f64 {
        (x / (1.0 + self.q)).powf(-self.s)
    }

    /// H(x) = ∫ h(t) dt from 1 + q to x, in a form without a special case for s = 1.
    fn integral(&self, x: f64) -> f64 {
        let ln = (x / (1.0 + self.q)).ln();
        exp_m1_over((1.0 - self.s) * ln) * ln * (1.0 + self.q)
    }

    /// The x with H(x) = u.
    fn inverse(&self, u: f64) -> f64 {
        let u = u / (1.0 + self.q);
        let t = (u * (1.0 - self.s)).max(-1.0);
        (ln_1p_over(t) * u).exp() * (1.0 + self.q)
    }
}

/// (e^x − 1)/x
fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.exp_m1() / x
    } else {
        1.0 + x / 2.0 * (1.0 + x / 3.0)
    }
}

/// ln(1 + x)/x
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.ln_1p() / x
    } else {
        1.0 - x * (0.5 - x / 3.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;

    /// Returns χ² of `draws` of the ranks 1 to n, compared with their probabilities.
    fn chi_square(n: u64, s: f64, q: f64, draws: impl Iterator<Item = u64>) -> f64 {
        let weights: Vec<f64> = (1..=n)
            .map(|k| ((k as f64 + q) / (1.0 + q)).powf(-s))
            .collect();
        let mut counts = vec![0.0; n as usize];
        let mut all = 0.0;
        for rank in draws {
            counts[rank as usize - 1] += 1.0;
            all += 1.0;
        }
        let total: f64 = weights.iter().sum();
        weights
            .iter()
            .zip(&counts)
            .map(|(w, c)| (c - all * w / total).powi(2) / (all * w / total))
            .sum()
    }

    #[test]
    fn a_rank_comes_too_often() {
        let plain = [
            (1, 1.0),
            (2, 0.5),
            (10, 0.81),
            (100, 1.0),
            (100, 0.01),
            (50, 2.5),
            (100, 1.0 + 1e-9),
        ];
        let shifted = [
            (100, 0.7, 0.7),
            (50, 3.0, 20.0),
            (20, 1.0, 1e6),
            (10, 40.0, 1000.0),
            (1, 1.0, 3.5),
        ];
        for (n, s, q) in plain.into_iter().map(|(n, s)| (n, s, 0.0)).chain(shifted) {
            let zipf = Zipf::mandelbrot(n, s, q).unwrap();
            let mut stream = Streams::new(9).stream("zipf test");
            let chi = chi_square(n, s, q, (0..200_000).map(|_| zipf.draw(&mut stream)));
            // n − 1 degrees of freedom: mean n − 1, deviation √(2(n − 1)); four of those.
            let freedom = (n - 1) as f64;
            assert!(
                chi <= freedom + 4.0 * (2.0 * freedom).sqrt() + 1e-9,
                "n {n}, s {s}, q {q}: {chi}"
            );
        }
    }

    #[test]
    fn it_disagrees_with_rand_distr() {
        use rand_distr::Distribution;
        // Compares the mean rank and the share of rank 1, on a catalogue too large for χ².
        let (n, s, draws) = (10_000_000, 0.8, 200_000);
        let mut stream = Streams::new(3).stream("zipf test");
        let ours = Zipf::new(n, s).unwrap();
        let theirs = rand_distr::Zipf::new(n as f64, s).unwrap();
        let mut bits = rand_pcg::Pcg64::new(4, 5);
        let mean =
            |ranks: Vec<f64>| ranks.iter().map(|rank| rank.ln()).sum::<f64>() / ranks.len() as f64;
        let ours = mean((0..draws).map(|_| ours.draw(&mut stream) as f64).collect());
        let theirs = mean((0..draws).map(|_| theirs.sample(&mut bits)).collect());
        assert!(
            (ours - theirs).abs() < 0.03,
            "mean ln rank {ours} and {theirs}"
        );
    }

    #[test]
    fn published_figures_change_with_the_generator() {
        let zipf = Zipf::new(10_000_000, 0.8).unwrap();
        let mut stream = Streams::new(1).stream("golden");
        let draws: Vec<u64> = (0..6).map(|_| zipf.draw(&mut stream)).collect();
        assert_eq!(draws, GOLDEN);
    }

    const GOLDEN: [u64; 6] = [822, 352766, 117388, 70682, 2752582, 8120955];

    #[test]
    fn no_such_distribution() {
        for (n, s) in [
            (0, 1.0),
            (5, 0.0),
            (5, f64::NAN),
            (5, f64::INFINITY),
            (5, -1.0),
        ] {
            assert!(Zipf::new(n, s).is_none());
        }
        assert!(
            [-0.1, f64::NAN, f64::INFINITY, 1e13]
                .iter()
                .all(|q| Zipf::mandelbrot(5, 1.0, *q).is_none())
        );
        let extreme = Zipf::new(u64::MAX, 30.0).unwrap();
        let mut stream = Streams::new(1).stream("extreme");
        assert!((0..100).all(|_| (1..=3).contains(&extreme.draw(&mut stream))));
    }
}
