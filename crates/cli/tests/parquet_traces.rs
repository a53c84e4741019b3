//! Failure: a trace in a Parquet file is another trace for some command. Uses the real program.
#![cfg(feature = "parquet")]

use std::fs;
use std::process::Command;

/// Runs `larder`, and returns its exit status and its output, of which the errors come last.
fn larder(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), text)
}

#[test]
fn a_parquet_file_is_another_trace() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let succeed = |arguments: &[&str]| {
        let (status, text) = larder(arguments);
        assert_eq!(status, 0, "{text}");
        text
    };
    let (csv, parquet, other) = (path("t.csv"), path("t.parquet"), path("other"));
    succeed(&[
        "trace",
        "generate",
        "cdn",
        "--objects",
        "500",
        "-n",
        "30000",
        "-o",
        &csv,
    ]);
    succeed(&["trace", "convert", &csv, &parquet]);
    assert!(
        fs::read(&parquet).unwrap().starts_with(b"PAR1"),
        "no Parquet file"
    );
    assert_eq!(
        succeed(&["trace", "convert", &parquet, "-", "--to", "csv"]).as_bytes(),
        fs::read(&csv).unwrap()
    );
    // The content tells the format too.
    fs::rename(&parquet, &other).unwrap();
    let hits = |trace: &str| {
        let rows = succeed(&["replay", trace, "-p", "lru,s3fifo", "-s", "10%", "--csv"]);
        rows.lines()
            .map(|row| row.split(',').skip(1).take(9).collect::<Vec<_>>().join(","))
            .collect::<Vec<_>>()
    };
    assert_eq!(hits(&other), hits(&csv));
    let renamed = succeed(&[
        "trace",
        "convert",
        &other,
        "-",
        "--to",
        "csv",
        "--columns",
        "id=object,size=size",
    ]);
    assert!(
        renamed.lines().skip(1).all(|line| line.starts_with("0,")),
        "times that were not asked for"
    );
}

#[test]
fn mistakes_without_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("late.csv"), "18446744073,1,1\n").unwrap();
    fs::write(path("not.parquet"), "1,2,3\n").unwrap();
    fs::write(path("cut.parquet"), "PAR1").unwrap();
    for (arguments, words) in [
        (
            &["trace", "info", &path("not.parquet")][..],
            "not.parquet: the Parquet data is damaged or unsupported (",
        ),
        (
            &["trace", "info", &path("cut.parquet")],
            "cut.parquet: the Parquet data is damaged or unsupported (",
        ),
        (
            &["trace", "info", "-", "--format", "parquet"],
            "standard input: parquet is read in any order, so it must be",
        ),
        (
            &["trace", "convert", &path("late.csv"), &path("o.parquet")],
            "o.parquet, request 1: a Parquet timestamp ends",
        ),
        (
            &[
                "trace",
                "convert",
                &path("late.csv"),
                &path("o.parquet.zst"),
                "--to",
                "parquet",
            ],
            "leave out .zst",
        ),
        (
            &[
                "trace",
                "convert",
                &path("late.csv"),
                &path("o.csv"),
                "--to",
                "x",
            ],
            "numbers, parquet",
        ),
    ] {
        let (status, said) = larder(arguments);
        assert!(status == 2 && said.starts_with("larder: "), "{said}");
        assert!(said.contains(words) && said.lines().count() == 1, "{said}");
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            3,
            "a file is left behind: {said}"
        );
    }
}
