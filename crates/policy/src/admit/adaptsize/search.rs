//! The search for AdaptSize's c: every power of two from both ends, then golden section around the
//! best (section 3.2.2).

/// Rounds of AdaptSize's golden-section search. The bracket of two octaves shrinks by 0.618^10, to
/// a sixtieth of an octave, 1 % of c. The authors' programs take 15, to a thousandth, from a whole
/// range.
const SEARCH_ROUNDS: usize = 10;

/// Returns the c in bytes, between 1 and the capacity, with the highest `hit_ratio`, and that
/// ratio. Of equal ones it returns the largest, because admitting more is the smaller intervention.
/// `None` if there is no finite answer, for example without requests.
pub(super) fn best(capacity: f64, hit_ratio: impl Fn(f64) -> f64) -> Option<(f64, f64)> {
    let top = capacity.log2();
    if !(top.is_finite() && top >= 0.0) {
        return None;
    }
    let at = |log_c: f64| Point {
        log_c,
        hit_ratio: hit_ratio(log_c.exp2()),
    };
    let powers = (1..=top.floor() as u32).map(f64::from).chain([top]);
    let best = powers.map(at).fold(at(0.0), |best, found| {
        if found.hit_ratio >= best.hit_ratio {
            found
        } else {
            best
        }
    });
    if !best.hit_ratio.is_finite() {
        return None;
    }
    let (low, high) = ((best.log_c - 1.0).max(0.0), (best.log_c + 1.0).min(top));
    let near = golden_section(at, low, high);
    let best = if near.hit_ratio > best.hit_ratio {
        near
    } else {
        best
    };
    Some((best.log_c.exp2(), best.hit_ratio))
}

#[derive(Clone, Copy)]
struct Point {
    log_c: f64,
    hit_ratio: f64,
}

/// Returns the best point that the search for a maximum between `low` and `high` meets.
fn golden_section(at: impl Fn(f64) -> Point, mut low: f64, mut high: f64) -> Point {
    let golden = 0.5 * (5.0_f64.sqrt() - 1.0);
    let mut left = at(high - golden * (high - low));
    let mut right = at(low + golden * (high - low));
    let mut best = left;
    for _ in 0..SEARCH_ROUNDS {
        let leftwards = left.hit_ratio > right.hit_ratio;
        let better = if leftwards { left } else { right };
        if better.hit_ratio > best.hit_ratio {
            best = better;
        }
        if leftwards {
            (high, right) = (right.log_c, left);
            left = at(high - golden * (high - low));
        } else {
            (low, left) = (left.log_c, right);
            right = at(low + golden * (high - low));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::bins::{Bin, Shape};
    use super::super::model::Model;

    /// Small popular objects, and large ones that fill the cache and have few requests.
    fn mixed(shape: Shape) -> Model {
        let bins = vec![
            Bin {
                objects: 1000.0,
                size: 1e3,
                rate: 5.0,
            },
            Bin {
                objects: 1000.0,
                size: 1e5,
                rate: 1.0,
            },
            Bin {
                objects: 200.0,
                size: 3e6,
                rate: 0.7,
            },
        ];
        Model::new(bins, 2e6, shape)
    }

    #[test]
    fn a_better_c_is_missed() {
        for shape in [Shape::Chance, Shape::Threshold] {
            let model = mixed(shape);
            let (found, ratio) = model.best().unwrap();
            assert_eq!(ratio, model.hit_ratio(found));
            let fine = (0..2000)
                .map(|i| model.hit_ratio((f64::from(i) * 0.01).exp2()))
                .fold(0.0, f64::max);
            assert!(
                model.hit_ratio(found) > fine - 1e-3,
                "{shape:?}: {found}, {fine}"
            );
            assert!(
                model.hit_ratio(found) > model.hit_ratio(2e6) + 0.1,
                "{shape:?}: {found} against no admission"
            );
        }
    }

    #[test]
    fn where_everything_fits_everything_is_admitted() {
        let model = Model {
            capacity: 1e12,
            ..mixed(Shape::Chance)
        };
        assert_eq!(model.best().unwrap(), (1e12_f64.log2().exp2(), 1.0));
    }

    #[test]
    fn a_parameter_that_is_no_number() {
        assert_eq!(
            Model {
                bins: vec![],
                ..mixed(Shape::Chance)
            }
            .best(),
            None
        );
        assert_eq!(
            Model {
                capacity: 0.0,
                ..mixed(Shape::Chance)
            }
            .best(),
            None
        );
    }
}
