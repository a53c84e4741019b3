//! A long reproduction that fails late, and what is left of it.

use larder_reproduce::{Error, Paper, Report, Request, Rows, Scale, Watch, reproduce};
use std::sync::Mutex;

/// Fails to keep the report after so many experiments.
struct Fails {
    after: usize,
    seen: Mutex<Vec<(usize, Vec<&'static str>, String)>>,
}

impl Watch for Fails {
    fn begin(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn warn(&self, _: &str) {}
    fn ended(&self, report: &Report) -> Result<(), Error> {
        let mut seen = self.seen.lock().unwrap();
        seen.push((report.sections.len(), report.missing.clone(), report.html()));
        if seen.len() == self.after {
            Err(Error::from("the disk is full".to_owned()))
        } else {
            Ok(())
        }
    }
}

#[test]
fn what_was_found_before_a_failure_is_lost() {
    let only = ["dumbbell".to_owned(), "linear".to_owned()];
    let rows = Rows::default();
    let paper = Paper::named("clock").unwrap();
    let request = Request {
        paper,
        scale: Scale::Quick,
        seed: 1,
        testbed: false,
        traces: None,
        only: &only,
        forwarder: None,
        applications: None,
        rows: &rows,
    };
    let fails = Fails {
        after: 1,
        seen: Mutex::default(),
    };
    assert_eq!(
        reproduce(&request, &fails).unwrap_err().to_string(),
        "the disk is full"
    );
    let seen = fails.seen.into_inner().unwrap();
    let (sections, missing, page) = &seen[0];
    assert_eq!(
        (seen.len(), *sections, missing.as_slice()),
        (1, 1, &["dumbbell"][..]),
        "in the paper's order"
    );
    assert!(page.contains("Not finished: dumbbell."));
}
