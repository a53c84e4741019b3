//! Experiments that measure times are repeated if other programs or machines disturbed them.

use crate::{Error, Provenance, Request, Scale, Section, Watch};
use std::time::Duration;

/// The runs of an experiment whose times are disturbed, the first one among them.
const ATTEMPTS: usize = 3;

/// Runs an experiment. At the full scale, one with claims about times is repeated if others took
/// more of the processors' time than [`Provenance::disturbance`] allows; the last run counts. Rows
/// of an interrupted run, which a later one resumes, are not judged. The conditions are a row too,
/// so that a run that takes all its rows from earlier ones keeps the conditions of the last one
/// that measured. If that was killed before its end, they are those of its start.
pub(crate) fn undisturbed(
    name: &str,
    of_program: &Provenance,
    run: impl Fn() -> Result<Section, Error>,
    request: &Request<'_>,
    watch: &dyn Watch,
    disturbance: fn(&Provenance) -> Option<String>,
) -> Result<Section, Error> {
    let (mut attempt, mut resumed) = (1, Duration::ZERO);
    loop {
        let Request {
            paper,
            scale,
            seed,
            traces,
            forwarder,
            applications,
            ..
        } = request;
        let others = format!("{traces:?}, {forwarder:?}, {applications:?}");
        let conditions = format!(
            "conditions of {}, {name}, {scale}, seed {seed}, {others}",
            paper.name
        );
        let mut provenance = of_program.of_experiment();
        request.rows.begin(&conditions, &provenance)?;
        let mut section = run()?;
        resumed += request.rows.take_resumed();
        provenance.update(resumed);
        if request.rows.is_resumed() {
            let seconds = provenance.seconds;
            section.run = request.rows.peek(&conditions).unwrap_or(provenance);
            // A run that was killed has stored none.
            section.run.seconds = section.run.seconds.or(seconds);
            return Ok(section);
        }
        let is_timed =
            request.scale == Scale::Full && section.claims.iter().any(|claim| claim.timed);
        let is_judged = is_timed && request.rows.has_measured();
        let disturbance = disturbance(&provenance).filter(|_| is_judged);
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
    fn runs(
        scale: Scale,
        timed: bool,
        disturbance: fn(&Provenance) -> Option<String>,
    ) -> (u64, Option<u64>) {
        let rows = Rows::default();
        let (count, _) = run("x", &["a"], &rows, "larder", scale, timed, disturbance);
        (count, rows.get("a"))
    }

    /// Runs an experiment that stores rows with these keys. With the name "measures" it measures
    /// what no row has, too. Returns the number of runs, and the conditions that it has.
    fn run(
        name: &str,
        of_rows: &[&str],
        rows: &Rows,
        command: &str,
        scale: Scale,
        timed: bool,
        disturbance: fn(&Provenance) -> Option<String>,
    ) -> (u64, Provenance) {
        let request = Request {
            scale,
            ..Request::quick(Paper::named("clock").unwrap(), rows)
        };
        let text = format!(
            "title = \"T\"\nshows = \"S\"\n[full]\n[quick]\n[[claim]]\nid = \"a\"\nsays = \"A\"\nkind = \"theory\"\n\
             timed = {timed}\nexpected = 1\nsource = \"S\"\nband = [0, 9]\nreason = \"R\"\n"
        );
        let experiment =
            Experiment::<std::collections::HashMap<String, u64>>::parse("x", &text).unwrap();
        let count = Cell::new(0);
        let of_one = || {
            count.set(count.get() + 1);
            for row in of_rows {
                rows.get_or(row, || Ok(count.get())).unwrap();
            }
            if name == "measures" {
                rows.measures_without_row();
            }
            let mut section = Section::new(&experiment, scale);
            section.measured("a", 1.0);
            section.judged()
        };
        let mut of_program = Provenance::now();
        command.clone_into(&mut of_program.command);
        let section =
            undisturbed(name, &of_program, of_one, &request, &Unwatched, disturbance).unwrap();
        (count.get(), section.run)
    }

    #[test]
    fn a_resumed_experiment_has_the_conditions_of_another_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.jsonl");
        // The third one shares rows of the others, the fourth one has none.
        let experiments: [(&str, &[&str]); 5] = [
            ("x", &["a"]),
            ("y", &["b"]),
            ("z", &["a", "b"]),
            ("w", &[]),
            ("measures", &["a"]),
        ];
        let all = |command: &str, resume: bool| {
            let rows = Rows::open(&path, resume).unwrap();
            experiments.map(|(name, of_rows)| {
                run(name, of_rows, &rows, command, Scale::Full, true, |_| None).1
            })
        };
        let commands = |found: &[Provenance; 5]| found.clone().map(|run| run.command);
        let (first, resumed) = (all("first", false), all("second", true));
        assert_eq!(
            commands(&resumed),
            ["first", "first", "first", "second", "second"]
        );
        for (first, resumed) in first.iter().zip(&resumed).take(3) {
            assert_eq!(
                serde_json::to_value(first).unwrap(),
                serde_json::to_value(resumed).unwrap()
            );
        }
        assert_eq!(
            commands(&all("again", false)),
            ["again"; 5],
            "without --resume"
        );
        // One row is lost, and measured.
        let text = std::fs::read_to_string(&path).unwrap();
        let kept: Vec<&str> = text
            .lines()
            .filter(|line| !line.contains(", b\""))
            .collect();
        std::fs::write(&path, kept.join("\n") + "\n").unwrap();
        assert_eq!(
            commands(&all("part", true)),
            ["again", "part", "part", "part", "part"]
        );
        assert_eq!(
            commands(&all("last", true)),
            ["again", "part", "part", "last", "last"]
        );
    }

    #[test]
    fn a_killed_run_has_the_conditions_of_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.jsonl");
        let rows = |resume| Rows::open(&path, resume).unwrap();
        let of = |command: &str, of_rows: &[&str], rows: &Rows| {
            run("x", of_rows, rows, command, Scale::Full, true, |_| None)
                .1
                .command
        };
        assert_eq!(of("first", &["a"], &rows(false)), "first");
        // The next run measures "b" and "c", and is killed before it stores more.
        assert_eq!(of("killed", &["a", "b", "c"], &rows(true)), "killed");
        let text = std::fs::read_to_string(&path).unwrap();
        let (kept, last) = text.trim_end().rsplit_once('\n').unwrap();
        assert!(last.contains("conditions of"), "{last}");
        std::fs::write(&path, kept.to_owned() + "\n").unwrap();
        let resumed = rows(true);
        let (_, found) = run(
            "x",
            &["a", "b", "c"],
            &resumed,
            "later",
            Scale::Full,
            true,
            |_| None,
        );
        assert_eq!(
            (found.command.as_str(), found.other_percent),
            ("killed", None)
        );
        assert!(found.seconds.is_some());
    }

    #[test]
    fn a_disturbed_experiment_counts_or_never_ends() {
        let (never, always) = (
            |_: &Provenance| None,
            |_: &Provenance| Some("disturbed".to_owned()),
        );
        assert_eq!(runs(Scale::Full, true, never), (1, Some(1)));
        assert_eq!(
            runs(Scale::Full, true, always),
            (3, Some(3)),
            "the rows are those of the last run"
        );
        assert_eq!(runs(Scale::Full, false, always), (1, Some(1)), "no times");
        assert_eq!(runs(Scale::Quick, true, always), (1, Some(1)));
    }
}
