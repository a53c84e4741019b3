//! A search over a grid of values of one parameter.
//!
//! An optimum at the edge of a grid says that the grid is too small: a rival that is tuned by it is
//! weaker than it could be. So it is an error.

use crate::Error;
use std::fmt::Display;

/// The values of a parameter that a search tries, in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct Grid<X> {
    parameter: String,
    values: Vec<X>,
    starts_at_least: bool,
}

impl<X: Copy + Display> Grid<X> {
    /// Returns a grid of these values, in ascending order. Errors name the parameter.
    pub(crate) fn new(
        parameter: impl Into<String>,
        values: impl IntoIterator<Item = X>,
    ) -> Grid<X> {
        Grid {
            parameter: parameter.into(),
            values: values.into_iter().collect(),
            starts_at_least: false,
        }
    }

    /// Says that no value below the first one exists, as with a number of requests that starts at
    /// 1. Then the first value may be the best.
    pub(crate) fn starting_at_least(self) -> Grid<X> {
        Grid {
            starts_at_least: true,
            ..self
        }
    }

    /// Returns the place of the greatest score, and its value. `scores` has one score for each
    /// value. Of equal scores, one inside the grid is preferred.
    ///
    /// # Errors
    /// [`Error`] if a score is missing or is not a number, or if the best value is at the edge of
    /// the grid.
    pub(crate) fn best(&self, scores: &[f64]) -> Result<(usize, X), Error> {
        let Grid {
            parameter,
            values,
            starts_at_least,
        } = self;
        if scores.len() != values.len() || values.is_empty() {
            let (scores, values) = (scores.len(), values.len());
            return Err(Error(format!(
                "{parameter}: {scores} scores for a grid of {values} values"
            )));
        }
        if let Some(at) = scores.iter().position(|score| !score.is_finite()) {
            return Err(Error(format!(
                "{parameter} {}: the score is {}, not a number",
                values[at], scores[at]
            )));
        }
        let last = values.len() - 1;
        let is_edge = |at: usize| at == last || at == 0 && !starts_at_least;
        let better = |a: &usize, b: &usize| {
            scores[*a]
                .total_cmp(&scores[*b])
                .then(is_edge(*b).cmp(&is_edge(*a)))
        };
        let best = (0..=last).max_by(better).unwrap_or(last);
        if is_edge(best) {
            let (first, last) = (values[0], values[last]);
            return Err(Error(format!(
                "{parameter}: the best value, {}, is at the edge of the grid from {first} to {last}; extend the grid",
                values[best]
            )));
        }
        Ok((best, values[best]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optimum_at_the_edge_passes_for_one() {
        let grid = Grid::new("x of nginx", [1, 2, 5, 8]);
        let fault = |scores: &[f64]| grid.best(scores).unwrap_err().to_string();
        assert_eq!(grid.best(&[0.1, 0.3, 0.2, 0.1]).unwrap(), (1, 2));
        assert_eq!(
            fault(&[0.1, 0.2, 0.3, 0.4]),
            "x of nginx: the best value, 8, is at the edge of the grid from 1 to 8; extend the grid"
        );
        assert!(fault(&[0.4, 0.2, 0.3, 0.1]).contains("the best value, 1, is at the edge"));
        let starting_at_least = grid.clone().starting_at_least();
        assert_eq!(
            starting_at_least.best(&[0.4, 0.2, 0.3, 0.1]).unwrap(),
            (0, 1),
            "nothing is below 1"
        );
        assert!(starting_at_least.best(&[0.1, 0.2, 0.3, 0.4]).is_err());
        assert_eq!(
            grid.best(&[0.1, 0.3, 0.3, 0.3]).unwrap(),
            (2, 5),
            "a plateau that reaches the edge"
        );
        assert!(
            Grid::new("x", [1]).best(&[1.0]).is_err(),
            "one value is no search"
        );
    }

    #[test]
    fn a_score_is_missing_and_another_one_is_the_best() {
        let grid = Grid::new("c", [1, 2, 3]);
        assert!(
            grid.best(&[0.1, f64::NAN, 0.0])
                .unwrap_err()
                .to_string()
                .contains("c 2: the score is NaN")
        );
        assert!(
            grid.best(&[0.1, 0.2])
                .unwrap_err()
                .to_string()
                .contains("2 scores for a grid of 3 values")
        );
        assert!(Grid::<u32>::new("c", []).best(&[]).is_err());
    }
}
