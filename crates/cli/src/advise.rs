//! `larder advise`: reads access logs or traces, and answers which cache to run: the policy, the
//! size, and what they save, with the error of the estimate.
//!
//! The crate `larder-advise` gives the advice. This reads the files (`read.rs`), shows the
//! progress, and prints and writes the result.

mod args;
mod merged;
mod read;

use crate::destination::{check_writable, write_whole};
use crate::failure::Failure;
use crate::lists::{note_of_bare_sizes, parse_all};
use crate::output::{error_line, line};
use crate::progress::Bar;
pub use args::AdviseArgs;
use larder_advise::{Advice, AdviseError, Comparison, Question};
use larder_replay::Unit;
use std::sync::Arc;

/// Reads the logs, and prints the advice.
pub fn run(args: AdviseArgs) -> Result<(), Failure> {
    // A file that cannot be written is reported before the work, not after it.
    args.html
        .iter()
        .chain(&args.config)
        .try_for_each(|path| check_writable(path))?;
    let advice = advise(&args)?;
    if let Some(path) = &args.html {
        write_whole(path, &advice.page())?;
    }
    if let Some(path) = &args.config {
        write_whole(path, &advice.configuration())?;
    }
    if args.json {
        line!(
            "{}",
            serde_json::to_string(&advice).map_err(|error| Failure::runtime(error.to_string()))?
        )
    } else {
        line!("{}", advice.text())
    }
    Ok(())
}

fn advise(args: &AdviseArgs) -> Result<Advice, Failure> {
    let question = Question {
        policies: parse_all(&args.policy)?,
        sizes: parse_all(&args.size)?,
        goal: args.goal(),
        prices: args.prices(),
        seed: args.seed,
    };
    question.check().map_err(Failure::refused)?;
    let bar = Arc::new(Bar::new(0));
    let gathered = read::read(args, &bar)?
        .finish(args.overhead)
        .map_err(|error| match error {
            AdviseError::TooFewObjects(_) => {
                Failure::usage(format!("--keep {}: {error}", args.keep))
            }
            _ => Failure::refused(error),
        })?;
    // Prices need sizes too, and say so below.
    if args.config.is_some() && question.prices.is_none() {
        gathered
            .traffic
            .check_sizes("configuration in bytes")
            .map_err(Failure::refused)?;
    }
    if let Some(note) = note_of_bare_sizes(&args.size)
        && gathered.traffic.unit == Unit::Bytes
    {
        error_line!("larder: note: {note}");
    }
    let comparison = Comparison::new(&question, gathered).map_err(Failure::refused)?;
    bar.add(comparison.requests());
    let (policies, sizes) = (question.policies.len(), comparison.sizes().len());
    bar.set_message(format!("comparing {policies} policies at {sizes} sizes"));
    let advice = comparison.advice(|requests| {
        bar.advance(requests);
        true
    });
    bar.clear();
    advice.map_err(Failure::refused)
}

#[cfg(test)]
mod tests;
