//! Experiments that measure times are repeated if other programs or machines disturbed them.

use crate::{Error, Provenance, Request, Scale, Section, Watch};
use std::time::Duration;

/// The runs of an experiment whose times are disturbed, the first one among them.
const ATTEMPTS: usize = 3;

/// Runs an experiment. At the full scale, one with claims about times is repeated if others took
/// more of the processors' time than [`Provenance::disturbance`] allows; the last run counts. Rows
/// of an interrupted run, which a later one resumes, are not judged.
pub(crate) fn undisturbed(
    of_program: &Provenance,
    run: impl Fn() -> Result<Section, Error>,
    request: &Request<'_>,
    watch: &dyn Watch,
    disturbance: fn(&Provenance) -> Option<String>,
) -> Result<Section, Error> {
    let (mut attempt, mut resumed) = (1, Duration::ZERO);
    loop {
        request.rows.begin();
        let mut provenance = of_program.of_experiment();
        let mut section = run()?;
        resumed += request.rows.take_resumed();
        provenance.update(resumed);
        // Without a row of this run, no time was measured now.
        let is_timed = request.scale == Scale::Full && section.claims.iter().any(|claim| claim.timed);
        let is_judged = is_timed && request.rows.has_added();
        let disturbance = disturbance(&provenance).filter(|_| is_judged);
        section.run = provenance;
        let Some(disturbance) = disturbance else { return Ok(section) };
        if attempt == ATTEMPTS {
            watch.warn(&format!(
                "\"{}\": {disturbance}, at {ATTEMPTS} attempts of {ATTEMPTS}; its times may be wrong",
                section.title
            ));
            return Ok(section);
        }
        watch.warn(&format!("\"{}\" runs again: {disturbance}", section.title));
        request.rows.withdraw_added()?;
        attempt += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Paper, Rows, Unwatched};
    use std::cell::Cell;

    /// The number of runs of an experiment that stores a row in each, and the row at the end.
    fn runs(scale: Scale, timed: bool, disturbance: fn(&Provenance) -> Option<String>) -> (u64, Option<u64>) {
        let rows = Rows::default();
        let request = Request { scale, ..Request::quick(Paper::named("clock").unwrap(), &rows) };
        let text = format!(
            "title = \"T\"\nshows = \"S\"\n[full]\n[quick]\n[[claim]]\nid = \"a\"\nsays = \"A\"\nkind = \"theory\"\n\
             timed = {timed}\nexpected = 1\nsource = \"S\"\nband = [0, 9]\nreason = \"R\"\n"
        );
        let experiment = Experiment::<std::collections::HashMap<String, u64>>::parse("x", &text).unwrap();
        let count = Cell::new(0);
        let run = || {
            count.set(count.get() + 1);
            rows.get_or("a", || Ok(count.get())).unwrap();
            let mut section = Section::new(&experiment, scale);
            section.measured("a", 1.0);
            section.judged()
        };
        undisturbed(&Provenance::now(), run, &request, &Unwatched, disturbance).unwrap();
        (count.get(), rows.get("a"))
    }

    #[test]
    fn a_disturbed_experiment_counts_or_never_ends() {
        let (never, always) = (|_: &Provenance| None, |_: &Provenance| Some("disturbed".to_owned()));
        assert_eq!(runs(Scale::Full, true, never), (1, Some(1)));
        assert_eq!(runs(Scale::Full, true, always), (3, Some(3)), "the rows are those of the last run");
        assert_eq!(runs(Scale::Full, false, always), (1, Some(1)), "no times");
        assert_eq!(runs(Scale::Quick, true, always), (1, Some(1)));
    }
}
