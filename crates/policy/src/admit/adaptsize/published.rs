//! The model as it was published and deployed, with its errors (AdaptSize, NSDI 2017, section
//! 3.3.2; the authors' prototype where the paper says nothing).
//!
//! It replaces the exponential of the theorem by its Padé approximant of order [4/3], e^x ≈ (840 +
//! 480x + 120x² + 16x³ + x⁴) / (840 − 360x + 60x² − 4x³). Substituted in P = p(e^x − 1) / (1 +
//! p(e^x − 1)) and multiplied out, this is one quotient of polynomials in x = rµ. For small p its
//! denominator is negative from x ≈ 5 on, and P then counts as 0, while the true P tends to 1: p =
//! .001 and x = 8 give 0 instead of .749. This ignores objects that are small enough for the cache
//! and popular enough to be admitted eventually, so c is larger than with the theorem.
//!
//! µ comes from twenty rounds of µ ← µ·C / (expected bytes), starting with C / Σ r·p·s. Threshold
//! is P = 1 − e^{−rµ}, without an approximation. This form is kept for comparison, because the
//! published claims were made with it.

use super::bins::{Admissible, Shape};

/// Rounds of the fixed-point iteration, as in the prototype.
const ROUNDS: usize = 20;
/// The prototype stops when µ exceeds this.
const MU_MAX: f64 = 1e70;

/// Returns the expected hits per unit of time (Lemma 2).
pub(super) fn hits(admissible: &[Admissible], capacity: f64, shape: Shape) -> f64 {
    let p = |a: &Admissible| a.admission.p;
    let presence = |a: &Admissible, mu: f64| match shape {
        Shape::Chance => pade(a.bin.rate * mu, p(a)),
        Shape::Threshold => -(-a.bin.rate * mu).exp_m1(),
    };
    let flow: f64 = admissible
        .iter()
        .map(|a| a.bin.objects * a.bin.rate * p(a) * a.bin.size)
        .sum();
    if flow <= 0.0 {
        return 0.0;
    }
    let mut mu = capacity / flow;
    for _ in 0..ROUNDS {
        if mu > MU_MAX {
            break;
        }
        let bytes: f64 = admissible
            .iter()
            .map(|a| a.bin.objects * a.bin.size * presence(a, mu))
            .sum();
        mu *= capacity / bytes;
    }
    admissible
        .iter()
        .map(|a| a.bin.objects * a.bin.rate * presence(a, mu))
        .sum()
}

/// Returns the probability of being in the cache, clamped as in the prototype; `x` is rµ.
fn pade(x: f64, p: f64) -> f64 {
    let above = x * (840.0 + x * (60.0 + x * (20.0 + x)));
    let below = 840.0 + x * (-360.0 + x * (60.0 - 4.0 * x));
    let quotient = p * above / (below + p * above);
    match (above * p != 0.0, below + p * above == 0.0) {
        (true, true) => 0.0,
        // NaN, the result for an infinite µ, stays: the search then keeps the old c.
        _ => quotient.clamp(0.0, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bins::Admission;
    use super::super::model::presence;
    use super::*;

    #[test]
    fn the_hole_is_mended_or_wider_than_published() {
        assert_eq!(pade(8.0, 0.001), 0.0, "the truth is .749");
        // If p or rµ is large enough, it is as accurate as the paper says.
        for (x, p) in [
            (0.1, 1e-6),
            (1.0, 0.01),
            (3.0, 0.5),
            (4.0, 0.1),
            (8.0, 1.0),
            (20.0, 0.9),
        ] {
            let truth = presence(x, &Admission::with_ln(f64::ln(p))).0;
            assert!(
                (pade(x, p) - truth).abs() < 0.01,
                "x {x}, p {p}: {} for {truth}",
                pade(x, p)
            );
        }
    }

    #[test]
    fn a_hit_ratio_that_is_no_share() {
        for x in (0..4000).map(|i| f64::from(i) * 0.05) {
            for p in [0.0, 1e-12, 1e-3, 0.5, 1.0] {
                assert!(
                    (0.0..=1.0).contains(&pade(x, p)),
                    "x {x}, p {p}: {}",
                    pade(x, p)
                );
            }
        }
    }
}
