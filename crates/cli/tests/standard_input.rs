//! Failure: a trace on standard input is read otherwise than the same file. Uses the real program.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `larder` with these bytes on standard input. Returns its exit status and its output, of
/// which the errors come last.
fn larder(arguments: &[&str], input: &[u8]) -> (i32, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // A command that refuses its arguments does not read.
    pipe.write_all(input)
        .or_else(|error| {
            if error.kind() == ErrorKind::BrokenPipe {
                Ok(())
            } else {
                Err(error)
            }
        })
        .unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(text).unwrap(),
    )
}

fn data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../replay/tests/data")
        .join(name)
        .to_str()
        .unwrap()
        .to_owned()
}

/// Removes what differs between two runs or between a file and standard input.
fn comparable(output: &str, trace: &str) -> String {
    let lines = output.replace(trace, "standard input");
    let without_rate = |line: &str| {
        line.split(",\"requests_per_second\"")
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    lines
        .lines()
        .map(without_rate)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn every_command_reads_another_trace_than_the_file() {
    let path = data("web07.trace.xz");
    let bytes = fs::read(&path).unwrap();
    for arguments in [
        &[
            "replay",
            "TRACE",
            "-p",
            "lru,s3fifo",
            "-s",
            "1000",
            "--json",
        ][..],
        &[
            "curve",
            "TRACE",
            "-p",
            "lru,fifo",
            "-s",
            "1000,2000",
            "--json",
        ],
        &["predict", "TRACE", "-s", "10%", "--json"],
        &["advise", "TRACE", "-p", "lru,sieve", "--json"],
        &["trace", "info", "TRACE", "--json"],
        &["trace", "convert", "TRACE", "-", "--to", "csv"],
    ] {
        let run = |trace: &str| {
            let mut arguments: Vec<&str> = arguments
                .iter()
                .map(|a| if *a == "TRACE" { trace } else { a })
                .collect();
            arguments.extend(["--format", "numbers"]);
            larder(&arguments, if trace == "-" { &bytes } else { b"" })
        };
        let (file, input) = (run(&path), run("-"));
        assert_eq!(input.0, 0, "{}", input.1);
        assert_eq!(
            comparable(&input.1, "\0"),
            comparable(&file.1, "web07.trace.xz"),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_compressed_or_plain_format_is_not_detected() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let made = larder(
        &[
            "trace",
            "generate",
            "cdn",
            "--objects",
            "50",
            "-n",
            "300",
            "-o",
            &path("t.csv"),
        ],
        b"",
    );
    assert_eq!(made.0, 0, "{}", made.1);
    let csv = fs::read(path("t.csv")).unwrap();
    for (name, format) in [
        ("t.csv", "columns"),
        ("t.csv.zst", "columns"),
        ("t.tr", "columns"),
        ("t.jsonl", "json-lines"),
        ("t.jsonl.zst", "json-lines"),
        ("t.oracleGeneral.zst", "oracle-general"),
    ] {
        let made = larder(&["trace", "convert", "-", &path(name)], &csv);
        assert_eq!(made.0, 0, "{}", made.1);
        let bytes = fs::read(path(name)).unwrap();
        let (status, said) = larder(&["trace", "info", "-", "--json"], &bytes);
        assert_eq!(status, 0, "{said}");
        let expected = format!("{{\"trace\":\"standard input\",\"format\":\"{format}\",");
        assert!(said.starts_with(&expected), "{name}: {said}");
        // Only libCacheSim's format has no fractions of seconds.
        if format != "oracle-general" {
            assert_eq!(
                larder(&["trace", "convert", "-", "-", "--to", "csv"], &bytes)
                    .1
                    .as_bytes(),
                csv,
                "{name}"
            );
        }
    }
}

#[test]
fn mistakes_without_a_remedy() {
    let csv = b"1,2,3\n2,3,4\n";
    for (arguments, input, words) in [
        (
            &["replay", "-", "-p", "lru", "-s", "10%"][..],
            &csv[..],
            "a pipe is read once, 10% reads twice; give bytes, or a file",
        ),
        (
            &["replay", "-", "-p", "lru", "-s", "10%"],
            csv,
            "standard input: a pipe is read once",
        ),
        (
            &["replay", "-", "-p", "belady", "-s", "10"],
            csv,
            "belady reads twice; give a file",
        ),
        (
            &["replay", "-", "-", "-p", "lru", "-s", "1"],
            csv,
            "standard input is read once; give `-` once",
        ),
        (
            &[
                "replay",
                "-",
                "-p",
                "lru",
                "-s",
                "1",
                "--resume",
                "/dev/null",
            ],
            csv,
            "leave out --resume",
        ),
        (&["advise", "-", "-"], csv, "standard input is read once"),
        (
            &["curve", "-"],
            csv,
            "--points reads twice; give bytes, or a file",
        ),
        (
            &["predict", "-", "-s", "1", "--replay"],
            csv,
            "--replay reads twice; give a file",
        ),
        (
            &["replay", "-", "-p", "lru", "-s", "1", "--strict"],
            b"1,2,3\n2,3,x\n",
            "standard input, line 2: `x` is not a size in bytes",
        ),
        (
            &["replay", "-", "-p", "lru", "-s", "1"],
            b"",
            "standard input: no request was read",
        ),
        (
            &["trace", "info", "-"],
            b"\0\x01\x02",
            "standard input: cannot tell the format, give one of columns, ",
        ),
        (
            &[
                "trace",
                "info",
                "-",
                "--columns",
                "id=key,size=bytes",
                "--strict",
            ],
            b"{\"key\":\"a\",\"bytes\":1}\n{\"key\":\"a\",\"bytes\":-1}\n",
            "standard input, line 2: column `bytes`: `-1` is not a size in bytes",
        ),
    ] {
        let (status, said) = larder(arguments, input);
        assert_eq!(status, 2, "{arguments:?}: {said}");
        assert!(
            said.starts_with("larder: ") && said.contains(words) && said.lines().count() == 1,
            "{said}"
        );
    }
}

#[test]
fn the_help_does_not_say_so() {
    for command in [
        &["replay"][..],
        &["curve"],
        &["predict"],
        &["advise"],
        &["trace", "info"],
        &["trace", "convert"],
    ] {
        let (status, help) = larder(&[command, &["--help"]].concat(), b"");
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            status == 0 && help.contains("- is standard input"),
            "{help}"
        );
        assert!(help.contains("json-lines"), "{help}");
    }
}
