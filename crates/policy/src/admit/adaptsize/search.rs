//! The search for AdaptSize's c: every power of two from both ends, then golden section around the best (section 3.2.2).

use super::model::Model;
use crate::limits::ADAPTSIZE_SEARCH_ROUNDS;

/// The best parameter found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Optimum {
    /// In bytes.
    pub c: f64,
    /// What the model predicts for it.
    pub hit_ratio: f64,
}

/// The c between 1 byte and the capacity with the highest predicted hit ratio; of equal ones the largest, since admitting more is the smaller
/// intervention. `None` where the model has no finite answer, such as without requests.
pub(super) fn best(model: &Model) -> Option<Optimum> {
    let top = model.capacity.log2();
    if !(top.is_finite() && top >= 0.0) {
        return None;
    }
    let at = |log_c: f64| Optimum { c: log_c.exp2(), hit_ratio: model.hit_ratio(log_c.exp2()) };
    let powers = (0..=top.floor() as u32).map(f64::from).chain([top]);
    let mut best = (0.0, at(0.0));
    for log_c in powers {
        let found = at(log_c);
        if !found.hit_ratio.is_finite() {
            return None;
        }
        if found.hit_ratio >= best.1.hit_ratio {
            best = (log_c, found);
        }
    }
    let (centre, mut optimum) = best;
    let (mut low, mut high) = ((centre - 1.0).max(0.0), (centre + 1.0).min(top));
    let golden = 0.5 * (5.0_f64.sqrt() - 1.0);
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (at(left), at(right));
    for _ in 0..ADAPTSIZE_SEARCH_ROUNDS {
        for found in [at_left, at_right] {
            if found.hit_ratio > optimum.hit_ratio {
                optimum = found;
            }
        }
        if at_left.hit_ratio > at_right.hit_ratio {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = at(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = at(right);
        }
    }
    Some(optimum)
}

#[cfg(test)]
mod tests {
    use super::super::model::{Bin, Shape};
    use super::*;

    /// Small popular objects, and large ones that fill the cache with little use.
    fn mixed(shape: Shape) -> Model {
        let bins = vec![
            Bin { objects: 1000.0, size: 1e3, rate: 5.0 },
            Bin { objects: 1000.0, size: 1e5, rate: 1.0 },
            Bin { objects: 200.0, size: 3e6, rate: 0.7 },
        ];
        Model { bins, capacity: 2e6, shape }
    }

    #[test]
    fn a_better_c_is_missed() {
        for shape in [Shape::Chance, Shape::Threshold] {
            let model = mixed(shape);
            let found = best(&model).unwrap();
            let fine = (0..2000).map(|i| model.hit_ratio((f64::from(i) * 0.01).exp2())).fold(0.0, f64::max);
            assert!(found.hit_ratio > fine - 1e-3, "{shape:?}: {found:?}, {fine}");
            assert!(found.hit_ratio > model.hit_ratio(2e6) + 0.1, "{shape:?}: {found:?} against no admission");
        }
    }

    #[test]
    fn where_everything_fits_everything_is_admitted() {
        let model = Model { capacity: 1e12, ..mixed(Shape::Chance) };
        assert_eq!(best(&model).unwrap().c, 1e12_f64.log2().exp2());
    }

    #[test]
    fn a_parameter_that_is_no_number() {
        assert_eq!(best(&Model { bins: vec![], capacity: 1e6, shape: Shape::Chance }), None);
        assert_eq!(best(&Model { capacity: 0.0, ..mixed(Shape::Chance) }), None);
    }
}
