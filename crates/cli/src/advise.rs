//! `larder advise`: reads access logs or traces, and answers which cache to run: the policy, the
//! size, and what they save, with the error of the estimate.
//!
//! The logs are read once. A sample of the objects stays in memory (`gather.rs`), every policy runs
//! over it at every size on all cores (`candidates.rs`), and `choice.rs` chooses. `terminal.rs`,
//! `page.rs` and `configuration.rs` show the result.

mod advice;
mod args;
mod candidates;
mod choice;
mod configuration;
mod gather;
mod page;
mod prices;
mod sentences;
mod terminal;

use crate::destination::{check_writable, write_whole};
use crate::failure::Failure;
use crate::lists::parse_all;
use crate::output::line;
use crate::progress::Bar;
use advice::Advice;
pub use args::AdviseArgs;
use choice::Choice;
use gather::{Reading, Traffic};
use larder_policy::Spec;
use larder_replay::Unit;
use std::sync::Arc;

/// Reads the logs, and prints the advice.
pub fn run(args: AdviseArgs) -> Result<(), Failure> {
    // A file that cannot be written is reported before the work, not after it.
    args.html.iter().chain(&args.config).try_for_each(|path| check_writable(path))?;
    let advice = advise(&args)?;
    if let Some(path) = &args.html {
        write_whole(path, &page::page(&advice))?;
    }
    if let Some(path) = &args.config {
        write_whole(path, &configuration::configuration(&advice))?;
    }
    match args.json {
        true => line!("{}", serde_json::to_string(&advice).map_err(|error| Failure::runtime(error.to_string()))?),
        false => line!("{}", terminal::text(&advice)),
    }
    Ok(())
}

fn advise(args: &AdviseArgs) -> Result<Advice, Failure> {
    let specs: Vec<Spec> = parse_all(&args.policy)?;
    if let Some(spec) = specs.iter().find(|spec| spec.is_offline()) {
        return Err(Failure::usage(format!("policy `{spec}` knows the future, so no node can run it")));
    }
    let bar = Arc::new(Bar::new(0));
    let AdviseArgs { layout, keep, seed, overhead, .. } = args;
    let reading = Reading { layout, keep: *keep, seed: *seed, overhead: *overhead };
    let (traffic, kept) = gather::gather(&args.files, &reading, &bar)?;
    let prices = args.egress.zip(args.memory);
    check_unit(args, &traffic)?;
    let sizes = candidates::sizes(&parse_all(&args.size)?, &traffic)?;
    let candidates = candidates::run(&specs, &sizes, &kept, &traffic, args.seed, &bar)?;
    bar.clear();
    let choice = Choice::new(&candidates, &traffic, args.goal, prices);
    Ok(Advice { traffic, candidates, choice })
}

/// Checks that the traffic has what the arguments need: times and sizes.
fn check_unit(args: &AdviseArgs, traffic: &Traffic) -> Result<(), Failure> {
    let needed = match (args.egress.is_some(), args.config.is_some()) {
        (true, _) => "costs",
        (_, true) => "configuration in bytes",
        _ => return Ok(()),
    };
    if traffic.unit == Unit::Objects {
        return Err(Failure::usage(format!(
            "the objects have no sizes, so there is no {needed}: leave out what asks for it"
        )));
    }
    if args.egress.is_some() && traffic.seconds == 0.0 {
        return Err(Failure::usage("the trace has no times, so it has no costs per month; leave out the prices"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
