//! `larder trace`: describes traces, converts them and generates them.

mod convert;
mod generate;
pub mod info;
pub mod recording;

use crate::failure::Failure;
use crate::layout::Layout;
use crate::numbers::count;
use crate::replay::progress::Progress;
use crate::replay::source::Source;
use clap::{Args, Subcommand};
use larder_replay::{Access, Trace};
use std::path::PathBuf;

/// Describe traces, convert them, and generate them
#[derive(Args, Debug)]
pub struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Subcommand, Debug)]
enum TraceCommand {
    Info(info::InfoArgs),
    Convert(convert::ConvertArgs),
    Generate(Box<generate::GenerateArgs>),
}

/// Runs the subcommand.
pub fn run(args: TraceArgs) -> Result<(), Failure> {
    match args.command {
        TraceCommand::Info(args) => info::run(args),
        TraceCommand::Convert(args) => convert::run(args),
        TraceCommand::Generate(args) => generate::run(*args),
    }
}

/// A trace to read.
#[derive(Args, Debug)]
struct Input {
    /// Trace file, plain or compressed (zstd, xz, gzip, bzip2, zip); - is standard input
    trace: PathBuf,

    #[command(flatten)]
    layout: Layout,

    /// Read at most this many requests
    #[arg(long, value_name = "N", value_parser = count)]
    limit: Option<u64>,
}

impl Input {
    fn source(&self) -> Source<'_> {
        Source::new(&self.trace, &self.layout, self.limit)
    }

    /// Calls `take` with every request, and shows the progress.
    fn each(
        &self,
        verb: &str,
        mut take: impl FnMut(&Access) -> Result<(), Failure>,
    ) -> Result<Trace, Failure> {
        let source = self.source();
        source.chunks(verb, &Progress::new(source.units(1)), 1, |chunk| {
            chunk.iter().try_for_each(&mut take)?;
            Ok(true)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::path::Path;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: TraceArgs,
    }

    fn larder_trace(arguments: &[&str]) -> Result<(), Failure> {
        let typed = ["larder trace"].iter().chain(arguments);
        run(Cli::try_parse_from(typed).expect("arguments").args)
    }

    fn requests(path: &Path) -> Vec<Access> {
        Trace::open(path, None)
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    }

    #[test]
    fn a_trace_changes_from_format_to_format() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        larder_trace(&[
            "generate",
            "cdn",
            "--objects",
            "500",
            "-n",
            "3000",
            "-o",
            &path("a.csv"),
        ])
        .unwrap();
        let made = requests(Path::new(&path("a.csv")));
        assert_eq!(made.len(), 3000);
        for [from, to] in [
            ["a.csv", "b.tr.zst"],
            ["b.tr.zst", "c.oracleGeneral.zst"],
            ["c.oracleGeneral.zst", "d.oracleGeneral.bin"],
        ] {
            larder_trace(&["convert", &path(from), &path(to)]).unwrap();
        }
        assert_eq!(requests(Path::new(&path("b.tr.zst"))), made);
        let whole = |access: &Access| (access.id, access.size, access.now.nanos() / 1_000_000_000);
        let last = requests(Path::new(&path("d.oracleGeneral.bin")));
        assert!(last.iter().map(whole).eq(made.iter().map(whole)));
        assert!(
            std::fs::read(path("b.tr.zst"))
                .unwrap()
                .starts_with(&[0x28, 0xb5, 0x2f, 0xfd]),
            "not compressed"
        );
        // Next accesses are numbers from 1.
        let records = std::fs::read(path("d.oracleGeneral.bin")).unwrap();
        for (number, (record, access)) in records.chunks(24).zip(&made).enumerate() {
            let again = made[number + 1..]
                .iter()
                .position(|later| later.id == access.id);
            let expected = again.map_or(-1, |distance| (number + distance) as i64 + 2);
            assert_eq!(
                i64::from_le_bytes(record[16..].try_into().unwrap()),
                expected,
                "request {number}"
            );
        }
        larder_trace(&["info", &path("d.oracleGeneral.bin"), "--json"]).unwrap();
        larder_trace(&["info", &path("a.csv")]).unwrap();
    }

    #[test]
    fn a_generator_makes_another_number_or_other_traffic_by_the_same_seed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.csv");
        let table = directory.path().join("table.txt");
        std::fs::write(&table, "4\n10 0.25\n1\n1 0.75\n").unwrap();
        for generator in [
            "web",
            "zipf-mandelbrot",
            "video",
            "mix",
            "cdn",
            "flash-crowd",
            "traffic-mix",
            "joint",
        ] {
            let mut arguments = vec![
                "generate",
                generator,
                "-n",
                "500",
                "-o",
                path.to_str().unwrap(),
                "--seed",
                "7",
            ];
            arguments.extend((generator == "joint").then(|| table.to_str().unwrap()));
            let run = || {
                larder_trace(&arguments).unwrap();
                requests(&path)
            };
            let made = run();
            assert_eq!(made.len(), 500, "{generator}");
            assert_eq!(made, run(), "{generator}");
            *arguments
                .iter_mut()
                .find(|argument| **argument == "7")
                .unwrap() = "8";
            larder_trace(&arguments).unwrap();
            assert_ne!(made, requests(&path), "{generator}");
        }
    }

    #[test]
    fn a_window_that_is_no_share_is_not_refused() {
        for windows in ["0", "2", "x", "0.2..0.1", "0.1..2"] {
            let typed = ["t", "generate", "web", "--windows", windows, "-o", "t.csv"];
            let parsed = Cli::try_parse_from(typed).map(|_| ());
            let error = parsed.expect_err(windows).to_string();
            assert!(
                error.contains("windows: a share of the trace above 0"),
                "{windows}: {error}"
            );
        }
    }

    #[test]
    fn mistakes_that_leave_a_file_or_are_not_explained() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("in.csv"), "1,2,3\n4,5,99999999999\n").unwrap();
        std::fs::write(path("empty.csv"), "time,id,size\n").unwrap();
        let (input, csv) = (path("in.csv"), path("o.csv"));
        for (arguments, words) in [
            (
                &["convert", &input, &path("o.feather")][..],
                "o.feather: the name has no known ending; give --to with one of",
            ),
            (
                &["convert", &input, &path("o.parquet.zst"), "--to", "parquet"],
                "leave out .zst",
            ),
            (
                &["convert", &input, &path("o.csv"), "--to", "lis"],
                "not written as `lis`, but as oracle-general",
            ),
            (
                &["convert", &input, &path("o.oracleGeneral")],
                "o.oracleGeneral, request 2: the size, 99999999999, has no place",
            ),
            (
                &["convert", &input, &path("none/o.csv")],
                "none/o.csv: No such file",
            ),
            (
                &["convert", &path("none.csv"), &path("o.csv")],
                "none.csv: No such file",
            ),
            (
                &["info", &path("empty.csv")],
                "empty.csv: no request was read",
            ),
            (
                &["generate", "web", "--exponent", "NaN", "-o", &csv],
                "--objects, exponent, shift: at least",
            ),
            (
                &["generate", "web", "--requests-per-second", "0", "-o", &csv],
                "--requests-per-second: a positive",
            ),
            (
                &[
                    "generate",
                    "web",
                    "--windows",
                    "1",
                    "--requests",
                    "999999999999",
                    "-o",
                    &csv,
                ],
                "--requests: at most 134217728 with --windows",
            ),
            (
                &["generate", "mix", "--ratio", "NaN", "-o", &csv],
                "--ratio: a positive",
            ),
            (
                &["generate", "cdn", "--objects", "999999999999", "-o", &csv],
                "--objects: at most 268,435,456",
            ),
            (
                &["generate", "joint", &input, "-o", &csv],
                "in.csv, line 1: ",
            ),
            (
                &["generate", "joint", &path("none"), "-o", &csv],
                "none: No such file",
            ),
        ] {
            let failure = larder_trace(arguments).expect_err("it should fail");
            assert!(
                failure.message.contains(words) && !failure.message.contains('\n'),
                "{}",
                failure.message
            );
            assert_eq!(failure.code, 2, "{}", failure.message);
            let left = std::fs::read_dir(directory.path()).unwrap().count();
            assert_eq!(left, 2, "a file is left behind: {}", failure.message);
        }
    }
}
