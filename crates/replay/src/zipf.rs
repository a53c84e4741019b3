//! Zipf popularity: rank k of n with a probability proportional to k^−s.
//!
//! Rejection-inversion (Hörmann and Derflinger, Rejection-inversion to generate variates from monotone discrete distributions, ACM TOMACS
//! 1996): invert the integral of x^−s, round, and reject what the rounding favoured. O(1) a draw, no table, any s > 0 including 1.

use larder_units::Stream;

/// Draws ranks from 1 to n.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: u64,
    s: f64,
    /// H(3/2) − h(1): the left end of what is inverted.
    low: f64,
    /// H(n + 1/2): the right end.
    high: f64,
    /// Ranks this close above the inverted point need no test.
    sure: f64,
}

impl Zipf {
    /// Ranks 1 to `n` with the exponent `s`; `None` unless n ≥ 1 and s is finite and positive.
    pub fn new(n: u64, s: f64) -> Option<Zipf> {
        if n == 0 || !(s.is_finite() && s > 0.0) {
            return None;
        }
        let mut zipf = Zipf { n, s, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(n as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - 2.0_f64.powf(-s));
        Some(zipf)
    }

    /// One rank.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        loop {
            let u = self.high + stream.unit() * (self.low - self.high);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.n as f64);
            if k - x <= self.sure || u >= self.integral(k + 0.5) - k.powf(-self.s) {
                return k as u64;
            }
        }
    }

    /// H(x) = ∫ t^−s dt from 1 to x, written so that s = 1 is no special case.
    fn integral(&self, x: f64) -> f64 {
        let ln = x.ln();
        exp_m1_over((1.0 - self.s) * ln) * ln
    }

    /// The x with H(x) = u.
    fn inverse(&self, u: f64) -> f64 {
        let t = (u * (1.0 - self.s)).max(-1.0);
        (ln_1p_over(t) * u).exp()
    }
}

/// (e^x − 1)/x
fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 * (1.0 + x / 3.0) }
}

/// ln(1 + x)/x
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;

    /// χ² of `draws` of the ranks 1 to n against their probabilities.
    fn chi_square(n: u64, s: f64, draws: impl Iterator<Item = u64>) -> f64 {
        let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-s)).collect();
        let mut counts = vec![0.0; n as usize];
        let mut all = 0.0;
        for rank in draws {
            counts[rank as usize - 1] += 1.0;
            all += 1.0;
        }
        let total: f64 = weights.iter().sum();
        weights.iter().zip(&counts).map(|(w, c)| (c - all * w / total).powi(2) / (all * w / total)).sum()
    }

    #[test]
    fn a_rank_comes_too_often() {
        for (n, s) in [(1, 1.0), (2, 0.5), (10, 0.81), (100, 1.0), (100, 0.01), (50, 2.5), (100, 1.0 + 1e-9)] {
            let zipf = Zipf::new(n, s).unwrap();
            let mut stream = Streams::new(9).stream("zipf test");
            let chi = chi_square(n, s, (0..200_000).map(|_| zipf.draw(&mut stream)));
            // n − 1 degrees of freedom: mean n − 1, deviation √(2(n − 1)); four of those.
            let freedom = (n - 1) as f64;
            assert!(chi <= freedom + 4.0 * (2.0 * freedom).sqrt() + 1e-9, "n {n}, s {s}: {chi}");
        }
    }

    #[test]
    fn it_disagrees_with_rand_distr() {
        use rand_distr::Distribution;
        // The same mean rank and share of rank 1 on a catalogue too large for χ².
        let (n, s, draws) = (10_000_000, 0.8, 200_000);
        let mut stream = Streams::new(3).stream("zipf test");
        let ours = Zipf::new(n, s).unwrap();
        let theirs = rand_distr::Zipf::new(n as f64, s).unwrap();
        let mut bits = rand_pcg::Pcg64::new(4, 5);
        let mean = |ranks: Vec<f64>| ranks.iter().map(|rank| rank.ln()).sum::<f64>() / ranks.len() as f64;
        let ours = mean((0..draws).map(|_| ours.draw(&mut stream) as f64).collect());
        let theirs = mean((0..draws).map(|_| theirs.sample(&mut bits)).collect());
        assert!((ours - theirs).abs() < 0.03, "mean ln rank {ours} and {theirs}");
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
        for (n, s) in [(0, 1.0), (5, 0.0), (5, f64::NAN), (5, f64::INFINITY), (5, -1.0)] {
            assert!(Zipf::new(n, s).is_none());
        }
        let extreme = Zipf::new(u64::MAX, 30.0).unwrap();
        let mut stream = Streams::new(1).stream("extreme");
        assert!((0..100).all(|_| (1..=3).contains(&extreme.draw(&mut stream))));
    }
}
