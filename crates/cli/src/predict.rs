//! `larder predict`: prints the hit ratios that models predict, beside those of a replay.

mod args;
mod rows;
mod traffic;

use crate::failure::Failure;
use crate::output::line;
pub use args::PredictArgs;
use comfy_table::{CellAlignment, Table, presets};
use rows::PredictionRow;
use traffic::Traffic;

/// Computes the predictions, and prints the rows.
pub fn run(args: PredictArgs) -> Result<(), Failure> {
    let rows = rows::rows(&args, &Traffic::new(&args)?)?;
    if args.json {
        for row in &rows {
            line!(
                "{}",
                serde_json::to_string(row).map_err(|error| Failure::runtime(error.to_string()))?
            );
        }
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec![
        "capacity",
        "model",
        "policy",
        "object hit ratio",
        "byte hit ratio",
        "insertion ratio",
    ];
    if args.replay {
        header.splice(4..4, ["replayed", "difference"]);
    }
    table.set_header(header);
    for row in &rows {
        table.add_row(cells(row, args.replay));
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    line!("{table}");
    Ok(())
}

fn cells(row: &PredictionRow, has_replay: bool) -> Vec<String> {
    let ratio = |ratio: f64| format!("{ratio:.4}");
    let predicted = &row.predicted;
    let mut cells = vec![row.unit.show(row.capacity), row.model.to_owned()];
    cells.push(row.policy.clone().unwrap_or_default());
    cells.push(ratio(predicted.object_hit_ratio));
    if has_replay {
        let replayed = row.replayed.map(|replayed| replayed.object_hit_ratio);
        cells.push(replayed.map_or(String::new(), ratio));
        cells.push(replayed.map_or(String::new(), |replayed| {
            format!("{:+.4}", predicted.object_hit_ratio - replayed)
        }));
    }
    cells.extend([
        ratio(predicted.byte_hit_ratio),
        ratio(predicted.insertion_ratio),
    ]);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: PredictArgs,
    }

    fn args(arguments: &str) -> PredictArgs {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../replay/tests/data/");
        let arguments = arguments.replace("DATA/", data);
        Cli::try_parse_from(["larder"].into_iter().chain(arguments.split(' ')))
            .unwrap()
            .args
    }

    #[test]
    fn mistakes_that_are_not_explained() {
        for (arguments, words) in [
            (
                "--zipf 0 --objects 10 -s 1",
                "--zipf 0: a finite exponent above 0",
            ),
            ("--zipf 1 --objects 0 -s 1", "--objects 0: give 1 to"),
            ("--zipf 1 --objects 1e15 --requests 0 -s 1", "--requests 0"),
            ("--zipf 1 --objects 9 -s x", "such as \"64MiB\""),
            ("--zipf 1 --objects 9 -s 0.01%", "less than one"),
            (
                "--zipf 1 --objects 9 -s 3 --table 3 --replay",
                "--table 3: ",
            ),
            ("--zipf 1 --objects 9 -s 3 --table 0", "--table 0: "),
            ("--zipf 1 --objects 9 -s 3 --window 0", "--window 0: "),
            (
                "--zipf 1 --objects 9 -s 3 --window 2048 --table 1024",
                "--window 2048: longer than the table of 1024 slots",
            ),
            ("--zipf 1 --objects 9 -s 3 --admit 0", "--admit 0"),
            (
                "--zipf 1 --objects 9 -s 3 --theta 65535 --window 10",
                "--theta 65535: a history of 10 requests never",
            ),
            (
                "--zipf 1 --objects 9 -s 3 --theta 65535 --table 1024",
                "--theta 65535: a history of 1024 requests never",
            ),
            (
                "--zipf 1 --objects 9 -s 3 --requests 0 --replay",
                "--requests 0: no request",
            ),
            (
                "DATA/web07.trace.xz -s 10% --requests 0",
                "--requests 0: no request",
            ),
            ("DATA/nothing -s 10%", "nothing"),
        ] {
            let args = args(arguments);
            let failure = run(args).expect_err(arguments);
            assert_eq!(failure.code, 2, "{arguments}");
            assert!(
                failure.message.contains(words) && !failure.message.contains('\n'),
                "{}",
                failure.message
            );
        }
    }

    #[test]
    fn the_models_are_far_from_what_they_model() {
        // Independent requests, as the models assume. LFU stays below its limit, because it forgets
        // the counts of evicted objects.
        let args = args("--zipf 0.9 --objects 20000 -s 200,2000 --requests 400000 --replay");
        let rows = rows::rows(&args, &Traffic::new(&args).unwrap()).unwrap();
        assert_eq!(rows.len(), 12);
        for row in rows.iter().filter(|row| row.policy.is_some()) {
            let difference =
                row.predicted.object_hit_ratio - row.replayed.unwrap().object_hit_ratio;
            let band = if row.policy.as_deref() == Some("lfu") {
                0.05
            } else {
                0.006
            };
            assert!(difference.abs() < band, "{row:?}");
        }
    }

    #[test]
    fn a_cache_of_many_objects_is_not_replayed_for_a_window_that_nobody_gave() {
        let args = args("--zipf 0.8 --objects 100000000 -s 20000000 --requests 1000 --replay");
        let rows = rows::rows(&args, &Traffic::new(&args).unwrap()).unwrap();
        let filter = rows
            .iter()
            .find(|row| row.model.starts_with("Filter"))
            .unwrap();
        assert!(
            filter.policy.as_ref().unwrap().contains("window=16777216"),
            "{filter:?}"
        );
        assert!(
            filter.replayed.is_some() && filter.predicted.object_hit_ratio > 0.0,
            "{filter:?}"
        );
    }

    #[test]
    fn a_share_is_of_other_bytes_than_in_a_replay() {
        // The sizes of one object differ, and one is 0. The largest counts.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(
            &path,
            "# time, object, size\n0,1,300\n1,1,100\n2,2,0\n3,3,700\n4,1,200\n",
        )
        .unwrap();
        let arguments = format!("{} -s 10%,100%", path.display());
        let args = args(&arguments);
        let rows = rows::rows(&args, &Traffic::new(&args).unwrap()).unwrap();
        let mut capacities: Vec<u64> = rows.iter().map(|row| row.capacity).collect();
        capacities.dedup();
        assert_eq!(capacities, [100, 1000]);
    }

    #[test]
    fn a_trace_s_popularity_is_read_wrong() {
        let args = args("DATA/web07.trace.xz -s 1000,100% --replay");
        let rows = rows::rows(&args, &Traffic::new(&args).unwrap()).unwrap();
        let row = |capacity: u64, policy: &str| {
            rows.iter()
                .find(|row| row.capacity == capacity && row.policy.as_deref() == Some(policy))
                .unwrap()
        };
        // Everything fits, so each object's first request misses, in the model and in the replay.
        for policy in ["fifo", "lru", "lfu"] {
            let row = row(20_484, policy);
            let replayed = row.replayed.unwrap();
            assert!(
                (row.predicted.object_hit_ratio - replayed.object_hit_ratio).abs() < 1e-9,
                "{row:?}"
            );
        }
        // Objects of this shop are requested again soon, and not independently. The model is too
        // low.
        let lru = row(1000, "lru");
        assert!(
            lru.predicted.object_hit_ratio < lru.replayed.unwrap().object_hit_ratio,
            "{lru:?}"
        );
    }
}
