//! Experiments that measure times are repeated if other programs or machines disturbed them.

use crate::{Error, Provenance, Request, Scale, Section, Watch};
use std::time::Duration;

/// The runs of an experiment whose times are disturbed, the first one among them.
const ATTEMPTS: usize = 3;

/// Runs an experiment. At the full scale, one with claims about times is repeated if others took
/// more of the processors' time than [`Provenance::disturbance`] allows; the last run counts. Rows
/// of an interrupted run, which a later one resumes, are not judged. A run that takes all its rows
/// from an earlier one keeps the conditions of that run, which are a row too.
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
        let has_measured = request.rows.has_added();
        let Request { paper, scale, seed, .. } = request;
        let conditions = format!("conditions of {}, {}, {scale}, seed {seed}", paper.name, section.name);
        if !has_measured && !resumed.is_zero() {
            section.run = request.rows.get(&conditions).unwrap_or(provenance);
            return Ok(section);
        }
        let is_judged = request.scale == Scale::Full && section.claims.iter().any(|claim| claim.timed);
        let disturbance = disturbance(&provenance).filter(|_| is_judged && has_measured);
        section.run = provenance;
        if let Some(disturbance) = disturbance {
            if attempt < ATTEMPTS {
                watch.warn(&format!("\"{}\" runs again: {disturbance}", section.title));
                request.rows.withdraw_added()?;
                attempt += 1;
                continue;
            }
            watch.warn(&format!(
                "\"{}\": {disturbance}, at {ATTEMPTS} attempts of {ATTEMPTS}; its times may be wrong",
                section.title
            ));
        }
        request.rows.add(&conditions, &section.run)?;
        return Ok(section);
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
        let (count, _) = run_with(&rows, &Provenance::now(), scale, timed, disturbance);
        (count, rows.get("a"))
    }

    /// The number of runs with these rows, and the conditions that the experiment has.
    fn run_with(
        rows: &Rows,
        of_program: &Provenance,
        scale: Scale,
        timed: bool,
        disturbance: fn(&Provenance) -> Option<String>,
    ) -> (u64, Provenance) {
        let request = Request { scale, ..Request::quick(Paper::named("clock").unwrap(), rows) };
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
        let section = undisturbed(of_program, run, &request, &Unwatched, disturbance).unwrap();
        (count.get(), section.run)
    }

    #[test]
    fn a_resumed_experiment_has_the_conditions_of_another_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.jsonl");
        let run = |command: &str, rows: &Rows| {
            let mut of_program = Provenance::now();
            command.clone_into(&mut of_program.command);
            run_with(rows, &of_program, Scale::Full, true, |_| None).1
        };
        let first = run("measures", &Rows::open(&path, false).unwrap());
        let resumed = run("resumes", &Rows::open(&path, true).unwrap());
        assert_eq!(serde_json::to_value(&resumed).unwrap(), serde_json::to_value(&first).unwrap());
        assert_eq!(resumed.command, "measures");
        assert_eq!(run("again", &Rows::open(&path, false).unwrap()).command, "again", "without --resume");
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
