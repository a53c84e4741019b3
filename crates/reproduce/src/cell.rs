//! The cells of an experiment's grid: each is one run under fixed conditions, which is computed
//! once and stored as a row.

use crate::{Error, Request, Watch, on_all_cores};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One run under fixed conditions.
pub(crate) trait Cell: Send {
    /// The result of the run.
    type Row: Serialize + DeserializeOwned + Send;

    /// Returns a text with everything that the row depends on, except for the program. `seed` is
    /// the seed of the request.
    fn key(&self, seed: u64) -> String;

    /// Returns the work of the run, in the units of the experiment's progress.
    fn units(&self) -> u64;

    /// Runs the cell, and reports all of its units to `watch`.
    ///
    /// # Errors
    /// [`Error`] if the run is impossible or has failed.
    fn measure(&self, seed: u64, watch: &dyn Watch) -> Result<Self::Row, Error>;
}

/// Returns the row of a cell: the stored one, or that of a new run, which is stored.
///
/// # Errors
/// [`Error`] if the run has failed, or if its row cannot be stored.
pub(crate) fn measure<C: Cell>(
    cell: &C,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<C::Row, Error> {
    let key = cell.key(request.seed);
    if let Some(finished) = request.rows.get(&key) {
        watch.advance(cell.units());
        return Ok(finished);
    }
    let row = cell.measure(request.seed, watch)?;
    request.rows.add(&key, &row).map(|()| row)
}

/// Returns the rows of the cells in their order, measured on all cores.
///
/// # Errors
/// The first [`Error`] of [`measure`], after all cells have ended.
pub(crate) fn measure_all<C: Cell>(
    cells: Vec<C>,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Vec<C::Row>, Error> {
    on_all_cores(cells, |cell| measure(&cell, request, watch))
        .into_iter()
        .collect()
}

/// Returns the total work of these cells.
pub(crate) fn units<C: Cell>(cells: &[C]) -> u64 {
    cells.iter().map(Cell::units).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Report, Rows, clock};
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Square(u64);

    impl Cell for Square {
        type Row = u64;

        fn key(&self, seed: u64) -> String {
            format!("square {} {seed}", self.0)
        }

        fn units(&self) -> u64 {
            self.0
        }

        fn measure(&self, _: u64, watch: &dyn Watch) -> Result<u64, Error> {
            watch.advance(self.units());
            if self.0 == 13 {
                Err(Error("13 is refused".to_owned()))
            } else {
                Ok(self.0 * self.0)
            }
        }
    }

    struct Counter(AtomicU64);

    impl Watch for Counter {
        fn begin(&self, _: &str, _: u64) {}
        fn advance(&self, units: u64) {
            self.0.fetch_add(units, Ordering::Relaxed);
        }
        fn warn(&self, _: &str) {}
        fn ended(&self, _: &Report) -> Result<(), Error> {
            Ok(())
        }
    }

    #[test]
    fn a_stored_cell_reports_no_progress_or_comes_in_another_order() {
        let rows = Rows::default();
        let request = Request::quick(&clock::PAPER, &rows);
        let cells = || vec![Square(3), Square(1), Square(2)];
        for _ in 0..2 {
            let counter = Counter(AtomicU64::new(0));
            assert_eq!(measure_all(cells(), &request, &counter).unwrap(), [9, 1, 4]);
            assert_eq!(counter.0.into_inner(), units(&cells()));
        }
        assert_eq!(rows.get::<u64>("square 2 1"), Some(4));
        let failed = measure_all(vec![Square(5), Square(13)], &request, &crate::Unwatched);
        assert_eq!(failed.unwrap_err().to_string(), "13 is refused");
        assert_eq!(
            rows.get::<u64>("square 13 1"),
            None,
            "a failed run is not stored"
        );
    }
}
