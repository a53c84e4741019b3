//! Tests of the command from its arguments to its rows.

use super::*;
use clap::Parser;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: ReplayArgs,
}

fn web07() -> String {
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../replay/tests/data/web07.trace.xz"
    )
    .to_owned()
}

fn rows(trace: &[&str], arguments: &[&str]) -> Result<Vec<Row>, Failure> {
    let args = Cli::try_parse_from(["larder"].iter().chain(trace).chain(arguments))
        .expect("arguments")
        .args;
    sweep(&args, &SweepStatus::new(), |_| Ok(()))
}

fn failure(trace: &str, arguments: &[&str]) -> Failure {
    let failure = rows(&[trace], arguments).expect_err("it should fail");
    assert_eq!(failure.code, 2, "{}", failure.message);
    assert!(!failure.message.contains('\n'), "{}", failure.message);
    failure
}

/// Writes a file with this text.
fn written(folder: &TempDir, name: &str, text: &[u8]) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn mistakes_that_are_not_explained() {
    for (arguments, words) in [
        (["-p", "lur", "-s", "10%"], "did you mean `lru`?"),
        (
            ["-p", "filter(window=9999,table=1024)+lru", "-s", "1000"],
            "smaller than `window=9999`",
        ),
        (
            ["-p", "w-tinylfu(window=NaN)", "-s", "1000"],
            "`window=NaN` is not a share between 0 and 1",
        ),
        (["-p", "lru", "-s", "10 parsecs"], "such as \"64MiB\""),
        (["-p", "lru", "-s", "101%"], "between 0 and 1"),
        (["-p", "lru", "-s", "NaN%"], "between 0 and 1"),
        (["-p", "lru", "-s", "NaN"], "such as \"64MiB\""),
        (["-p", "lru", "-s", "-5"], "such as \"64MiB\""),
        (["-p", "lru", "-s", "0"], "a cache of nothing hits nothing"),
        (["-p", "lru", "-s", "0%"], "a cache of nothing hits nothing"),
        (["-p", "lru", "-s", "1.5"], "size 1.5 is ambiguous"),
        (
            ["-p", "lru", "-s", "0.000001%"],
            "of 20484 bytes is less than one",
        ),
    ] {
        let failure = failure(&web07(), &arguments);
        assert!(failure.message.contains(words), "{}", failure.message);
    }
    for (arguments, words) in [
        (
            ["-p", "lru", "-s", "10%", "--format", "columns"],
            "no columns are called",
        ),
        (["-p", "lru", "-s", "10%", "--format", "cvs"], "columns"),
        (
            ["-p", "lru", "-s", "10", "--seed", "5..1"],
            "such as \"1..5\"",
        ),
        (
            ["-p", "lru", "-s", "10", "--seed", "0..18446744073709551615"],
            "more than 100000 seeds",
        ),
        (
            ["-p", "lru", "-s", "10", "--seed", "1..100000"],
            "1001 rows, more than 1000",
        ),
        (
            ["-p", "lru", "-s", "10", "--limit", "0"],
            "web07.trace.xz: no request was read",
        ),
        (
            ["-p", "belady", "-s", "10", "--limit", "0"],
            "web07.trace.xz: no request was read",
        ),
    ] {
        let failure = failure(&web07(), &arguments);
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[test]
fn a_file_without_requests_is_said_to_have_no_sizes() {
    let folder = TempDir::new().unwrap();
    let failing = br#"192.0.2.1 - - [30/Nov/2026:00:00:00 +0000] "GET /a HTTP/1.1" 500 90 "-" "-"
"#;
    for (name, content, words) in [
        ("empty.log", &b""[..], "empty.log: no request was read"),
        (
            "failing.log",
            failing,
            "no request was read; 1 of 1 lines do not count: 1 (100.0 %) status 500",
        ),
    ] {
        let failure = failure(
            &written(&folder, name, content),
            &["-p", "lru", "-s", "1MiB"],
        );
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[test]
fn other_columns_than_those_named() {
    let folder = TempDir::new().unwrap();
    let trace = written(
        &folder,
        "sales.csv",
        b"when,article,buyer\n1,7,3\n2,8,7\n3,7,3\n",
    );
    let resume = folder.path().join("rows").to_str().unwrap().to_owned();
    let hits = |columns: &str| {
        let arguments = [
            "-p",
            "lru",
            "-s",
            "10",
            "--resume",
            &resume,
            "--columns",
            columns,
        ];
        rows(&[&trace], &arguments).unwrap()[0].hits
    };
    // The trace is the same file, so the cached layout of one must not apply to the other.
    assert_eq!(hits("time=when,id=article"), 1);
    assert_eq!(hits("id=1"), 0);
    assert_eq!(hits("id=3"), 1);
    assert!(
        failure(&trace, &["-p", "lru", "-s", "10", "--columns", "size=3"])
            .message
            .contains("does not name the id")
    );
}

#[test]
fn a_bad_trace_is_not_named() {
    let folder = TempDir::new().unwrap();
    let whole = fs::read(web07()).unwrap();
    let cut = written(&folder, "cut.trace.xz", &whole[..whole.len() / 2]);
    let foreign = written(&folder, "foreign.bin", b"\x7fELF\x02\x01\x01\0\0\0\0\0");
    let empty = written(&folder, "empty.csv", b"");
    let words = written(
        &folder,
        "words.csv",
        b"# time, object, size\n0, 7, 60\n1, 8, many\n",
    );
    let missing = folder
        .path()
        .join("missing.csv")
        .to_str()
        .unwrap()
        .to_owned();
    for (trace, says) in [
        (&cut, "cut short"),
        (&foreign, "foreign.bin"),
        (&empty, "empty.csv"),
        (&words, "line 3"),
        (&missing, "No such file"),
    ] {
        for policy in ["lru", "belady"] {
            let failure = failure(trace, &["-p", policy, "-s", "1000", "--strict"]);
            assert!(failure.message.contains(says), "{}", failure.message);
            let file = Path::new(trace).file_name().unwrap().to_str().unwrap();
            assert!(failure.message.contains(file), "{}", failure.message);
        }
    }
}

#[test]
fn sizes_out_of_all_proportion() {
    // Objects of 0 bytes, larger than the cache, of 2^63 and just below 2^64 bytes.
    let folder = TempDir::new().unwrap();
    let text = "# time, object, size\n0,1,0\n1,1,0\n2,2,1001\n3,2,1001\n4,3,9223372036854775808\n5,3,9223372036854775808\n6,4,1000\n7,4,1000\n";
    let trace = written(&folder, "odd.csv", text.as_bytes());
    for entry in larder_policy::registry() {
        let spec = match (entry.name, entry.kind()) {
            ("size", _) => "size(max=1GiB)+lru".to_owned(),
            (name, larder_policy::Kind::Admission) => format!("{name}+lru"),
            (name, larder_policy::Kind::Eviction) => name.to_owned(),
        };
        let row = &rows(&[&trace], &["-p", &spec, "-s", "1000"]).unwrap()[0];
        // An object that fits may hit at its second request. One that does not fit never hits.
        assert!(row.requests == 8 && row.hits <= 2, "{spec}: {row:?}");
        let row = &rows(&[&trace], &["-p", &spec, "-s", "9223372036854775808"]).unwrap()[0];
        assert!(
            row.hits <= 4 && row.byte_hit_ratio <= 1.0,
            "{spec}: {row:?}"
        );
    }
    let row = &rows(&[&trace], &["-p", "lru", "-s", "1000"]).unwrap()[0];
    assert_eq!(row.hits, 2);
    let row = &rows(&[&trace], &["-p", "lru", "-s", "9223372036854775808"]).unwrap()[0];
    assert_eq!(row.hits, 4);
}

#[test]
fn a_row_of_the_product_is_missing_or_another() {
    let folder = TempDir::new().unwrap();
    let first = "# time, object, size\n".to_owned() + &"0,1,10\n0,2,10\n0,3,10\n".repeat(40);
    let second = "# time, object, size\n".to_owned() + &"0,1,10\n0,2,10\n".repeat(50);
    let first = written(&folder, "first.csv", first.as_bytes());
    let second = written(&folder, "second.csv", second.as_bytes());
    let product = rows(
        &[&first, &second],
        &["-p", "lru,random", "-s", "20,50%", "--seeds", "1..2,7"],
    )
    .unwrap();
    let found: Vec<_> = product
        .iter()
        .map(|row| {
            (
                row.trace.as_str(),
                row.policy.as_str(),
                row.capacity,
                row.seed,
            )
        })
        .collect();
    let mut expected = Vec::new();
    for (trace, half) in [("first.csv", 15), ("second.csv", 10)] {
        for policy in ["lru", "random"] {
            for size in [20, half] {
                expected.extend([1, 2, 7].map(|seed| (trace, policy, size, seed)));
            }
        }
    }
    assert_eq!(found, expected);
    // Each row equals that of a run alone.
    for row in &product {
        let trace = if row.trace == "first.csv" {
            &first
        } else {
            &second
        };
        let (size, seed) = (row.capacity.to_string(), row.seed.to_string());
        let alone = rows(&[trace], &["-p", &row.policy, "-s", &size, "--seed", &seed]).unwrap();
        assert_eq!(
            (alone[0].requests, alone[0].hits),
            (row.requests, row.hits),
            "{row:?}"
        );
    }
}

#[test]
fn a_finished_row_is_computed_again() {
    let folder = TempDir::new().unwrap();
    let kept = folder
        .path()
        .join("rows.jsonl")
        .to_str()
        .unwrap()
        .to_owned();
    let run = |arguments: &[&str]| rows(&[&web07()], &[arguments, &["--resume", &kept]].concat());
    let first = run(&["-p", "lru", "-s", "1000,10%"]).unwrap();
    let lines = fs::read_to_string(&kept).unwrap();
    assert_eq!(lines.lines().count(), 2);

    // A row with impossible values shows that it was not computed.
    fs::write(
        &kept,
        lines.replace(&format!("\"hits\":{}", first[0].hits), "\"hits\":123456"),
    )
    .unwrap();
    let again = run(&["-p", "fifo,lru", "-s", "1000,10%"]).unwrap();
    let hits: Vec<u64> = again.iter().map(|row| row.hits).collect();
    assert_eq!(hits[2..], [123_456, first[1].hits]);
    assert!(hits[0] < first[0].hits && hits[0] > 0);
    assert_eq!(fs::read_to_string(&kept).unwrap().lines().count(), 4);

    // Another seed, limit or fill mode is another row.
    for other in [&["--seed", "2"][..], &["--limit", "70000"], &["--no-fill"]] {
        let before = fs::read_to_string(&kept).unwrap().lines().count();
        let row = &run(&[&["-p", "lru", "-s", "1000"], other].concat()).unwrap()[0];
        assert_ne!(row.hits, 123_456);
        assert_eq!(
            fs::read_to_string(&kept).unwrap().lines().count(),
            before + 1,
            "{other:?}"
        );
    }
}

#[test]
fn a_trace_of_the_same_name_is_taken_for_another() {
    let folder = TempDir::new().unwrap();
    let kept = folder
        .path()
        .join("rows.jsonl")
        .to_str()
        .unwrap()
        .to_owned();
    let hits = |name: &str, last: &str| {
        fs::create_dir(folder.path().join(name)).unwrap();
        let trace = written(
            &folder,
            &format!("{name}/t.csv"),
            format!("# time, object, size\n0,1,1\n0,1,1\n0,{last},1\n").as_bytes(),
        );
        fs::File::open(&trace)
            .unwrap()
            .set_modified(std::time::UNIX_EPOCH)
            .unwrap();
        rows(&[&trace], &["-p", "lru", "-s", "10", "--resume", &kept]).unwrap()[0].hits
    };
    assert_eq!((hits("first", "1"), hits("second", "2")), (2, 1));
    // In another directory, but otherwise the same.
    fs::write(
        &kept,
        fs::read_to_string(&kept)
            .unwrap()
            .replace("\"hits\":1", "\"hits\":77"),
    )
    .unwrap();
    assert_eq!(hits("third", "2"), 77);
}

#[test]
fn a_figure_that_cannot_be_written_is_said_after_the_work() {
    let folder = TempDir::new().unwrap();
    let svg = folder.path().join("none/x.svg");
    let typed = [
        "larder",
        "/nonexistent/trace",
        "-p",
        "lru",
        "-s",
        "1",
        "--svg",
        svg.to_str().unwrap(),
    ];
    let failure =
        run(Cli::try_parse_from(typed).expect("arguments").args).expect_err("it should fail");
    assert!(
        failure.message.contains("none/x.svg: No such file"),
        "{}",
        failure.message
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_torn_line_loses_the_rest() {
    let folder = TempDir::new().unwrap();
    let kept = folder
        .path()
        .join("rows.jsonl")
        .to_str()
        .unwrap()
        .to_owned();
    let run = || {
        rows(
            &[&web07()],
            &["-p", "lru,fifo", "-s", "1000", "--resume", &kept],
        )
    };
    let first = run().unwrap();
    let whole = fs::read(&kept).unwrap();
    let second_line = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for end in [
        0,
        second_line - 20,
        second_line - 1,
        second_line,
        second_line + 1,
        second_line + 40,
        whole.len() - 1,
    ] {
        fs::write(&kept, &whole[..end]).unwrap();
        let again = run().unwrap();
        assert_eq!(
            again.iter().map(|row| row.hits).collect::<Vec<_>>(),
            [first[0].hits, first[1].hits],
            "{end}"
        );
        let text = fs::read_to_string(&kept).unwrap();
        assert_eq!(text.lines().count(), 2, "{end}: {text}");
        assert!(
            text.lines()
                .all(|line| serde_json::from_str::<Row>(line).is_ok()),
            "{end}: {text}"
        );
    }
}

#[test]
fn somebody_s_file_is_overwritten() {
    let folder = TempDir::new().unwrap();
    for (text, says) in [
        ("my notes", "the last line is not a row"),
        ("my notes\n", "line 1: not a row"),
        ("{\"trace\": 1}\n", "line 1: not a row"),
        ("{", "the last line is not a row"),
        ("{\"trace\": 1}", "the last line is not a row"),
        (
            "{\"trace\":\"x\",\"level\":\"debug\"}",
            "the last line is not a row",
        ),
        (
            "{\"trace\":\"x\",\"policy\":\"lru\"}\n{\"tr",
            "line 1: not a row",
        ),
    ] {
        let kept = written(&folder, "notes.txt", text.as_bytes());
        let failure = failure(&web07(), &["-p", "lru", "-s", "1000", "--resume", &kept]);
        assert!(
            failure.message.contains(says) && failure.message.contains("notes.txt"),
            "{}",
            failure.message
        );
        assert_eq!(fs::read_to_string(&kept).unwrap(), text);
    }
    let mine = folder.path().join("mine.jsonl");
    rows(
        &[&web07()],
        &[
            "-p",
            "lru",
            "-s",
            "1000",
            "--resume",
            mine.to_str().unwrap(),
        ],
    )
    .unwrap();
    let mine = fs::read_to_string(mine).unwrap();
    let sample = mine.find(",\"sample\"").unwrap()..mine.find("},\"format\"").unwrap();
    let older = mine
        .replace(&mine[sample], "")
        .replace(env!("CARGO_PKG_VERSION"), "0.0.9");
    let kept = written(&folder, "older.jsonl", older.as_bytes());
    let message = failure(&web07(), &["-p", "lru", "-s", "1000", "--resume", &kept]).message;
    let says = "line 1: a row of another build of larder replay, 0.0.9: missing field `sample`; give a new file";
    assert!(message.contains(says), "{message}");
    let open = Finished::open(&folder.path().join("rows.jsonl")).unwrap();
    let kept = folder
        .path()
        .join("rows.jsonl")
        .to_str()
        .unwrap()
        .to_owned();
    let failure = failure(&web07(), &["-p", "lru", "-s", "1000", "--resume", &kept]);
    assert!(
        failure
            .message
            .contains("another larder replay is writing it"),
        "{}",
        failure.message
    );
    drop(open);
}

#[test]
fn a_unit_without_a_meaning_is_accepted() {
    let folder = TempDir::new().unwrap();
    let unsized_objects = written(&folder, "keys.csv", b"# time, object, size\n0,1,1\n1,2,1\n");
    let message = failure(&unsized_objects, &["-p", "lru", "-s", "100MiB"]).message;
    assert!(
        message.contains("its objects have no sizes, so a cache of 100MiB"),
        "{message}"
    );
    assert_eq!(
        rows(&[&unsized_objects], &["-p", "LRU", "-s", "2,50%,0.5"]).unwrap()[2].capacity,
        1
    );
    // An element of a list that was separated by a blank.
    for (stray, flag) in [("fifo", "--policy lru,fifo"), ("20%", "--size 10%,20%")] {
        let message = rows(&[&unsized_objects, stray], &["-p", "lru", "-s", "2"])
            .unwrap_err()
            .message;
        assert!(
            message.contains(stray) && message.contains(flag),
            "{message}"
        );
    }
}

#[test]
fn objects_are_not_stored_while_there_is_room() {
    let hits = |arguments: &[&str]| {
        let rows = rows(
            &[&web07()],
            &[&["-p", "after(n=3)+lru", "-s", "10%"], arguments].concat(),
        )
        .unwrap();
        (rows[0].fill, rows[0].hits)
    };
    let (filling, asking) = (hits(&[]), hits(&["--no-fill"]));
    assert!(
        filling.0 && !asking.0 && filling.1 > asking.1,
        "{filling:?} {asking:?}"
    );
}

#[test]
fn a_picture_of_another_kind_is_written() {
    for name in ["x.png", "x.PDF"] {
        let typed = ["larder", &web07(), "-p", "lru", "-s", "1", "--svg", name];
        let failure =
            run(Cli::try_parse_from(typed).expect("arguments").args).expect_err("it should fail");
        assert!(
            failure.code == 2 && failure.message.contains("give x.svg"),
            "{}",
            failure.message
        );
    }
}

#[test]
fn a_slow_cache_holds_up_or_loses_requests() {
    // Policies with very different costs, and more of them than cores. Each must see every request
    // in order.
    let policies = [
        "fifo",
        "lru",
        "lhd",
        "lookahead(window=2000)+lru",
        "belady",
        "belady-size",
        "agd",
        "lru-k",
    ];
    let together = rows(&[&web07()], &["-s", "1000", "-p", &policies.join(",")]).unwrap();
    for (row, policy) in together.iter().zip(policies) {
        let alone = &rows(&[&web07()], &["-s", "1000", "-p", policy]).unwrap()[0];
        assert_eq!((row.requests, row.hits), (76_118, alone.hits), "{policy}");
    }
    let hits = |policy: &str| {
        together
            .iter()
            .find(|row| row.policy == policy)
            .unwrap()
            .hits
    };
    assert!(policies.iter().all(|policy| hits(policy) <= hits("belady")));
}
