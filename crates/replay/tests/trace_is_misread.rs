//! Trace readers: what each format says, where errors are, and that no bytes hurt.

use larder_replay::{Access, ColumnNames, Format, FormatRegistry, Survey, Trace, TraceError};
use larder_units::Time;
use proptest::prelude::*;
use std::io::Write;
use std::path::PathBuf;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn read(name: &str, bytes: &[u8]) -> Result<Vec<Access>, TraceError> {
    Trace::read(std::io::Cursor::new(bytes.to_vec()), name, None)?.collect()
}

fn triples(name: &str, bytes: &[u8]) -> Vec<(u64, u64, u64)> {
    read(name, bytes)
        .unwrap()
        .iter()
        .map(|a| (a.now.nanos() / 1_000_000, a.id, a.size))
        .collect()
}

fn error(name: &str, bytes: &[u8]) -> String {
    read(name, bytes).unwrap_err().to_string()
}

#[test]
fn columns_are_mistaken_for_each_other() {
    let expected = [(0, 13053225291711363978, 737), (1000, 7, 248)];
    assert_eq!(
        triples("t.csv", b"# time, object, size, next_access_vtime\n0, 13053225291711363978, 737, 13\n1, 7, 248, 1\n"),
        expected
    );
    assert_eq!(
        triples(
            "t.csv",
            b"size,id,time\n737,13053225291711363978,0\n248,7,1\n"
        ),
        expected
    );
    assert_eq!(
        triples("t.tr", b"0 13053225291711363978 737\r\n\r\n1   7 248"),
        expected
    );
    assert_eq!(
        triples("t.tr", b"0\t13053225291711363978\t737\n1\t7\t248\textra\n"),
        expected
    );
    assert_eq!(triples("t.tr", b"0.25 7 1\n"), [(250, 7, 1)]);
    assert_eq!(triples("t.csv", b"# time, object, size\n"), []);
    assert_eq!(triples("t.csv", b""), []);
    let named = read(
        "t.csv",
        b"0,/index.html,5\n1,/other.html,5\n2,/index.html,5\n",
    )
    .unwrap();
    assert!(named[0].id == named[2].id && named[0].id != named[1].id);
    // Names of digits with leading zeros are not the number.
    for bytes in [
        &b"0,7,5\n1,07,5\n2,007,5\n3,0,5\n"[..],
        b"0 7 5\n1 07 5\n2 007 5\n3 0 5\n",
    ] {
        let ids: Vec<u64> = read("t.csv", bytes)
            .unwrap()
            .iter()
            .map(|access| access.id)
            .collect();
        assert!(
            ids[0] == 7 && ids[3] == 0 && ids[1] != 7 && ids[2] != 7 && ids[1] != ids[2],
            "{ids:?}"
        );
    }
    assert_eq!(
        named[0].id, 11_573_615_933_122_706_495,
        "ids of names are part of every published figure"
    );
}

/// Traces with an error: the name of the file, its content, and the message.
const MISREAD: &[(&str, &str, &str)] = &[
    (
        "t.csv",
        "0,1,2\n0,1\n",
        "t.csv, line 2: time, object and size expected, found `0,1`",
    ),
    (
        "t.csv",
        "0,1,2\n\n0,1,x\n",
        "t.csv, line 3: `x` is not a size in bytes",
    ),
    (
        "t.csv",
        "0,1,-5\n",
        "t.csv, line 1: `-5` is not a size in bytes",
    ),
    (
        "t.csv",
        "soon,1,5\n",
        "t.csv, line 1: `soon` is not a time in seconds",
    ),
    (
        "t.csv",
        "-1,1,5\n",
        "t.csv, line 1: `-1` is not a time in seconds",
    ),
    (
        "t.csv",
        "nan,1,5\n",
        "t.csv, line 1: `nan` is not a time in seconds",
    ),
    ("t.csv", "0,,5\n", "t.csv, line 1: the object is missing"),
    (
        "t.csv",
        "0,1,18446744073709551616\n",
        "t.csv, line 1: `18446744073709551616` is not a size in bytes",
    ),
    (
        "t.lis",
        "12\n",
        "t.lis, line 1: first block, number of blocks, flag and the request's number expected, found `12`",
    ),
    (
        "t.lis",
        "1 8 0 7\n9 8 0 6\n",
        "t.lis, line 2: request 6 after request 7",
    ),
    (
        "t.lis",
        "1 8 0 0\n9 8 0 1\n1 8 0 0\n9 8 0 0\n",
        "t.lis, line 4: request 0 after request 0",
    ),
    (
        "t.lis",
        "12 9999999 0 0\n",
        "t.lis, line 1: 9999999 blocks in one request, more than 1048576",
    ),
    (
        "t.lis",
        "18446744073709551615 2 0 0\n",
        "t.lis, line 1: block 18446744073709551615 and 2 more pass 2^64",
    ),
    (
        "t.tsv",
        "url\tresponse\tbytes\n",
        "t.tsv, line 1: no columns are called `time`, `object` and `size` in `url,response,bytes`; \
         give --columns time=…,id=…,size=…",
    ),
    (
        "t.tsv",
        "time\turl\tresponse\tbytes\n1\t/\t2x0\t5\n",
        "t.tsv, line 2: `2x0` is not a status",
    ),
    (
        "t.tsv",
        "time\turl\tresponse\tbytes\n1\t/\n",
        "t.tsv, line 2: the columns of the first line expected, found `1\\t/`",
    ),
    (
        "t.oracleGeneral",
        "1234567890123456\x01\0\0\0\0\0\0\0abc",
        "t.oracleGeneral, byte 24: the trace ends within a record of 24 bytes",
    ),
    (
        "t.oracleGeneral.bin",
        "1234567890123456\x01\0\0\0\0\0\0\0a picture, or a program..",
        "t.oracleGeneral.bin, byte 24: no record of oracle-general as the file's name says, its next access is no request's number; \
             to read it all the same give --format oracle-general",
    ),
    (
        "t.trace",
        "\0\0\0\x01\0",
        "t.trace, byte 4: the trace ends within a record of 4 bytes",
    ),
    (
        "t.bin",
        "\0\0\0\x01",
        "t.bin: cannot tell the format, give one of columns, json-lines, web-log, arc, oracle-general, twitter, numbers, numbers-64, \
         alibaba, tencent-cbs, msr, fiu, systor, wikimedia-2007, ibm-cos, tencent-photo, meta-kv, meta-cdn",
    ),
];

#[test]
fn errors_do_not_say_where() {
    for (name, bytes, line) in MISREAD {
        assert_eq!(error(name, bytes.as_bytes()), *line);
    }
    let missing = Trace::open(&data("none.csv"), None)
        .err()
        .unwrap()
        .to_string();
    assert!(missing.contains("none.csv: No such file"), "{missing}");
    let unknown = "lisp".parse::<Format>().unwrap_err().to_string();
    assert!(
        unknown.contains("`lisp`") && unknown.contains("oracle-general"),
        "{unknown}"
    );
}

#[test]
fn times_that_a_clock_cannot_hold_are_all_the_same_time() {
    let line = |time: &str| format!("{time},1,5\n").into_bytes();
    for time in ["18446744074", "18446744073.709551616", "1e11", "1e300"] {
        let said = error("t.csv", &line(time));
        assert!(
            said.starts_with(&format!(
                "t.csv, line 1: `{time}` is not a time in seconds: times end"
            )),
            "{said}"
        );
    }
    for (time, nanos) in [
        ("18446744073", 18_446_744_073_000_000_000),
        ("18446744073.709551615", u64::MAX),
    ] {
        assert_eq!(read("t.csv", &line(time)).unwrap()[0].now.nanos(), nanos);
    }
    // Milliseconds and microseconds since 1970 are of these sizes.
    for (time, nanos) in [
        ("1600000000000", 1_600_000_000_000_000_000),
        ("1600000000000000", 1_600_000_000_000_000_000),
        ("1600000000000000001", 1_600_000_000_000_000_001),
    ] {
        assert_eq!(read("t.csv", &line(time)).unwrap()[0].now.nanos(), nanos);
    }
    let log = b"time\turl\tresponse\tbytes\n807249600000\t/\t200\t5\n";
    let time = read("t.tsv", log).unwrap()[0].now;
    assert_eq!(time, Time::from_secs(807_249_600));
    let said = error("t", b"99999999999,zDL,3,0,1,get,0\n");
    assert!(
        said.starts_with("t, line 1: `99999999999` is not a time in seconds: times end"),
        "{said}"
    );
}

#[test]
fn a_line_without_end_fills_memory() {
    let long = error("t.csv", &[b'1'; 200_000]);
    assert_eq!(long, "t.csv, line 1: longer than 65536 bytes");
}

#[test]
fn binary_numbers_are_turned_around() {
    let mut record = Vec::new();
    record.extend(7_u32.to_le_bytes());
    record.extend(0x0123_4567_89ab_cdef_u64.to_le_bytes());
    record.extend(512_u32.to_le_bytes());
    record.extend((-1_i64).to_le_bytes());
    assert_eq!(
        triples("t.oracleGeneral.bin", &record.repeat(2)),
        [(7000, 0x0123_4567_89ab_cdef, 512); 2]
    );
    assert_eq!(
        triples("t.trace", &[0, 0, 1, 2, 255, 255, 255, 255]),
        [(0, 258, 1), (0, 0xffff_ffff, 1)]
    );
}

#[test]
fn arc_requests_lose_blocks() {
    assert_eq!(
        triples("P.lis", b"10 3 0 0\n100 0 0 1\n11 1 5 2\n"),
        [10, 11, 12, 11].map(|id| (0, id, 512))
    );
}

#[test]
fn web_log_counts_what_is_no_object() {
    // 404 is heuristically cacheable, 302 is not.
    let log = "host\ttime\tmethod\turl\tresponse\tbytes\na\t1\tGET\t/x\t200\t50\na\t2\tGET\t/x\t304\t0\na\t3\tGET\t/y\t404\t9\n\
               a\t4\tGET\t/x\t304\t-\na\t5\tGET\t/x\t200\t70\na\t6\tHEAD\t/x\t200\t0\na\t7\tGET\t/z\t304\t0\na\t8\tGET\t/y\t302\t-\n";
    let sizes =
        |accesses: Vec<Access>| accesses.iter().map(|a| (a.now, a.size)).collect::<Vec<_>>();
    let at = |second, size| (Time::from_secs(second), size);
    // A stream: the largest so far. A file: the largest of all.
    let streamed = sizes(read("log.tsv", log.as_bytes()).unwrap());
    assert_eq!(
        streamed,
        [
            at(1, 50),
            at(2, 50),
            at(3, 9),
            at(4, 50),
            at(5, 70),
            at(6, 70),
            at(7, 0)
        ]
    );
    let mut file = tempfile::Builder::new().suffix(".tsv").tempfile().unwrap();
    file.write_all(log.as_bytes()).unwrap();
    let opened = sizes(
        Trace::open(file.path(), None)
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap(),
    );
    assert_eq!(
        opened,
        [
            at(1, 70),
            at(2, 70),
            at(3, 9),
            at(4, 70),
            at(5, 70),
            at(6, 70),
            at(7, 0)
        ]
    );
}

#[test]
fn a_json_log_is_another_trace() {
    let line = |time: &str, host: &str, uri: &str, status: &str, bytes: u64| {
        format!(
            "{{\"time_iso8601\":\"2026-11-24T18:44:{time}Z\",\"host\":\"{host}\",\"request_uri\":\"{uri}\",\
             \"status\":{status},\"body_bytes_sent\":{bytes},\"cache_status\":\"hit\"}}\n"
        )
    };
    let log = [
        line("26.000", "a", "/x", "200", 50),
        line("26.250", "b", "/x", "200", 60),
        line("27.000", "a", "/x", "304", 0),
        line("28.000", "a", "/y", "404", 9),
        line("29.000", "a", "/\\u0078", "\"200\"", 70),
    ];
    let read = read("access.log", log.concat().as_bytes()).unwrap();
    let (a, b) = (read[0].id, read[1].id);
    assert_ne!(a, b, "the host counts");
    assert_eq!(
        read.iter().map(|access| access.id).collect::<Vec<_>>(),
        [a, b, a, read[3].id, a]
    );
    assert_ne!(a, read[3].id, "a 404 is an object too");
    assert_eq!(
        read.iter().map(|access| access.size).collect::<Vec<_>>(),
        [50, 60, 50, 9, 70]
    );
    let start = Time::from_millis(1_795_545_866_000).nanos();
    let millis: Vec<_> = read
        .iter()
        .map(|access| (access.now.nanos() - start) / 1_000_000)
        .collect();
    assert_eq!(millis, [0, 250, 1000, 2000, 3000]);
    // An object without the members is no line of a log.
    assert!(
        Trace::read(
            std::io::Cursor::new(b"{\"a\":1}\n".to_vec()),
            "x",
            Some(Format::WEB_LOG)
        )
        .unwrap()
        .next()
        .unwrap()
        .is_err()
    );
}

/// The bytes by each compression that is read, by the end of the file's name.
fn compressions(plain: &[u8]) -> [(&'static str, Vec<u8>); 3] {
    let all = |mut encoder: Box<dyn std::io::Read + '_>| {
        let mut bytes = Vec::new();
        encoder.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let mut zstd = zstd::Encoder::new(Vec::new(), 3).unwrap();
    // As the tool does: else nobody would miss what is not compressible.
    zstd.include_checksum(true).unwrap();
    zstd.write_all(plain).unwrap();
    [
        ("zst", zstd.finish().unwrap()),
        ("xz", all(Box::new(liblzma::read::XzEncoder::new(plain, 6)))),
        (
            "gz",
            all(Box::new(flate2::read::GzEncoder::new(
                plain,
                flate2::Compression::default(),
            ))),
        ),
    ]
}

#[test]
fn compressed_traces_are_other_traces() {
    let plain = b"0 1 2\n3 4 5\n".repeat(1000);
    let expected = read("t.tr", &plain).unwrap();
    for (extension, bytes) in compressions(&plain) {
        assert_eq!(
            read(&format!("t.tr.{extension}"), &bytes).unwrap(),
            expected
        );
        assert_eq!(
            read("named-otherwise.tr", &bytes).unwrap(),
            expected,
            "{extension}"
        );
        // As of several files that were compressed apart.
        let twice = read("t.tr", &bytes.repeat(2)).unwrap();
        assert_eq!(
            (twice.len(), twice[2000]),
            (
                4000,
                Access {
                    now: twice[1999].now,
                    ..expected[0]
                }
            ),
            "{extension}"
        );
    }
    assert_eq!(read("t.tr.xz", b"").unwrap(), []);
}

#[test]
fn a_compressed_trace_that_is_damaged_is_blamed_for_something_else() {
    // Numbers that no compression foresees, so that what is cut off is missed.
    let numbers: Vec<u8> = (0..20_000_u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes())
        .collect();
    for (extension, whole) in compressions(&numbers) {
        let place = |said: &str, name: &str| -> u64 {
            let place = said
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(", byte ")?.split(':').next());
            place
                .and_then(|byte| byte.parse().ok())
                .unwrap_or_else(|| panic!("{said}"))
        };
        for end in [12, 100, whole.len() / 2, whole.len() - 1] {
            // By its name it is known, by the other it would not be.
            for name in [format!("a.trace.{extension}"), format!("a.{extension}")] {
                let said = error(&name, &whole[..end]);
                assert!(
                    said.ends_with(
                        "data ends early: the file is cut short, or other bytes follow it"
                    ),
                    "{said}"
                );
                assert!(place(&said, &name) <= end as u64 + 100, "{said}");
            }
        }
        let said = error("a.trace", &[&whole[..], b"This is no part of it."].concat());
        assert!(
            said.contains("is damaged, or something else follows it ("),
            "{said}"
        );
        let said = error("a.trace", &[&whole[..], b"x"].concat());
        assert!(
            said.starts_with("a.trace, byte 80000: ") && said.contains(" follow"),
            "{said}"
        );
        let middle = whole.len() / 2;
        let zeros = [&whole[..middle], &[0; 64], &whole[middle + 64..]].concat();
        let said = error(&format!("a.{extension}"), &zeros);
        assert!(
            said.contains("is damaged, or something else follows it ("),
            "{said}"
        );
    }
    let whole = std::fs::read(data("web07.trace.xz")).unwrap();
    let said = error("t.xz", &whole[..3000]);
    assert!(
        said.starts_with("t.xz, byte ") && said.contains("the file is cut short"),
        "{said}"
    );
    assert!(error("t.xz", &whole).starts_with("t.xz: cannot tell the format"));
    assert!(error("a.trace", &[0, 0, 0, 1, 0]).ends_with("within a record of 4 bytes"));
}

#[test]
fn a_line_that_is_cut_short_is_a_short_line() {
    let lines: String = (0..40_000_u64)
        .map(|n| format!("{n} {} 7\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    for (extension, whole) in compressions(lines.as_bytes()) {
        let said = error(&format!("t.tr.{extension}"), &whole[..whole.len() / 2]);
        assert!(
            said.starts_with(&format!("t.tr.{extension}, line "))
                && said.contains("the file is cut short"),
            "{said}"
        );
    }
}

#[test]
fn real_traces_have_other_numbers() {
    for (name, format, requests, objects, bytes) in [
        (
            "nasa_19950801.tsv.zst",
            Format::WEB_LOG,
            30_393,
            1_739,
            109_359_310,
        ),
        ("web07.trace.xz", Format::NUMBERS, 76_118, 20_484, 20_484),
        ("web12.trace.xz", Format::NUMBERS, 95_607, 13_756, 13_756),
    ] {
        let trace = Trace::open(&data(name), None).unwrap();
        assert_eq!(trace.format(), format);
        let mut survey = Survey::default();
        for access in trace {
            survey.count(&access.unwrap());
        }
        assert_eq!(
            (survey.requests(), survey.objects(), survey.unique_bytes()),
            (requests, objects, bytes),
            "{name}"
        );
    }
}

proptest! {
    #[test]
    fn bytes_that_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), compression in 0..4usize) {
        let magic: &[u8] = [&[][..], &[0x28, 0xb5, 0x2f, 0xfd], b"\xfd7zXZ\0", &[0x1f, 0x8b, 8]][compression];
        let bytes = [magic, &bytes].concat();
        for format in FormatRegistry::builtin().iter() {
            if let Ok(trace) = Trace::read(std::io::Cursor::new(bytes.clone()), "x", Some(format)) {
                // An error is the last item.
                let items: Vec<_> = trace.take(100_000).collect();
                prop_assert!(items.iter().rev().skip(1).all(Result::is_ok));
            }
        }
    }

    #[test]
    fn many_at_once_are_other_requests(bytes in proptest::collection::vec(any::<u8>(), 0..600), most in 1..9_usize) {
        for (format, text) in [(Format::ORACLE_GENERAL, None), (Format::NUMBERS, None), (Format::COLUMNS, Some("0 1 2\n5 4 3\n2 1"))] {
            let bytes = text.map_or(bytes.clone(), |text| text.as_bytes().to_vec());
            let open = || Trace::read(std::io::Cursor::new(bytes.clone()), "x", Some(format)).unwrap();
            let mut one_by_one = open();
            let expected: Vec<Access> = one_by_one.by_ref().map_while(Result::ok).collect();
            let (mut trace, mut found, mut chunk) = (open(), Vec::new(), Vec::new());
            let is_wrong = loop {
                let read = trace.read_many(&mut chunk, most);
                found.extend_from_slice(&chunk);
                if read.is_err() || chunk.is_empty() {
                    break read.is_err();
                }
            };
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(is_wrong, open().any(|item| item.is_err()));
            prop_assert_eq!(trace.late_requests(), one_by_one.late_requests());
            prop_assert!(trace.next().is_none() && trace.read_many(&mut chunk, most).is_ok() && chunk.is_empty());
        }
    }

    #[test]
    fn text_that_panics(lines in proptest::collection::vec("[0-9a-z#,\t -]{0,30}|a \\[[0-9]{1,2}/(Jan|Feb)/[0-9]{1,20}:[0-9]{1,2}:0:0 [+-][0-9]{1,5}\\] \"[a-z \"]{0,6}\" [0-9]{3} [0-9-]{1,21}", 0..8)) {
        let text = lines.join("\n");
        for format in FormatRegistry::builtin().iter() {
            if let Ok(trace) = Trace::read(std::io::Cursor::new(text.clone()), "t", Some(format)) {
                let _ = trace.take(100_000).last();
            }
        }
        for name in ["t.csv", "t.lis", "t.tsv"] {
            if let Ok(trace) = Trace::read(std::io::Cursor::new(text.clone()), name, None) {
                let _ = trace.take(100_000).last();
            }
        }
    }
}

#[test]
fn columns_that_the_trace_names_otherwise_are_mistaken() {
    let read = |names: &str, bytes: &'static [u8]| {
        let trace =
            Trace::read_columns(bytes, "t.csv", names.parse::<ColumnNames>().unwrap()).unwrap();
        let accesses: Result<Vec<Access>, TraceError> = trace.collect();
        accesses.map(|accesses| {
            accesses
                .iter()
                .map(|a| (a.now.nanos() / 1_000_000_000, a.id, a.size))
                .collect::<Vec<_>>()
        })
    };
    let named = b"ts,blk,op,len,next\n5,7,get,9,-1\n6,8,set,1,2\n";
    assert_eq!(
        read("time=ts,id=blk,size=len", named).unwrap(),
        [(5, 7, 9), (6, 8, 1)]
    );
    assert_eq!(
        read("size=LEN, id=blk", named).unwrap(),
        [(0, 7, 9), (0, 8, 1)]
    );
    assert_eq!(read("id=2,time=ts", named).unwrap(), [(5, 7, 1), (6, 8, 1)]);
    assert_eq!(
        read("id=3,size=1", b"4 0 7\n5 0 8 99\n").unwrap(),
        [(0, 7, 4), (0, 8, 5)]
    );
    let said = |names: &str, bytes| read(names, bytes).unwrap_err().to_string();
    assert_eq!(
        said("id=key", named),
        "t.csv, line 1: no column is called `key` in `ts,blk,op,len,next`"
    );
    assert_eq!(
        said("id=2,size=3", b"1 2\n"),
        "t.csv, line 1: time, object and size expected, found `1 2`"
    );
    for (names, words) in [
        ("", "names no columns"),
        ("time=1", "does not name the id"),
        ("id=0", "counted from 1"),
        ("id=1,id=2", "twice"),
        ("key=1", "`key` is no column to read"),
    ] {
        let error = names.parse::<ColumnNames>().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn common_logs_are_misread() {
    let log = "a - - [01/Aug/1995:00:00:01 -0400] \"GET /x HTTP/1.0\" 200 50\n\
               b.example - - [01/Aug/1995:00:00:02 -0400] \"HEAD /x HTTP/1.0\" 304 -\n\
               c - bob [01/Aug/1995:00:00:03 -0400] \"GET /q\"uote HTTP/1.0\" 200 9 \"http://from\" \"Mozilla (x) 200 7\"\n\
               d - - [01/Aug/1995:00:00:04 -0400] \"-\" 408 -\n\
               e - - [01/Aug/1995:00:00:05 -0400] \"GET /x\" 200 50\n";
    let trace = Trace::read(std::io::Cursor::new(log), "access.log", None).unwrap();
    assert_eq!(trace.format(), Format::WEB_LOG);
    let accesses: Vec<Access> = trace.map(Result::unwrap).collect();
    let told: Vec<_> = accesses
        .iter()
        .map(|a| (a.now.nanos() / 1_000_000_000 - 807_249_600, a.size))
        .collect();
    assert_eq!(told, [(1, 50), (2, 50), (3, 9), (5, 50)]);
    assert!(
        accesses[0].id == accesses[1].id
            && accesses[0].id == accesses[3].id
            && accesses[0].id != accesses[2].id
    );
    let foreign = "a - - [01/Aug/1995:00:00:01 -0400] \"GET /x HTTP/1.0\" 200 50\nnonsense\n";
    assert!(
        error("access.log", foreign.as_bytes())
            .starts_with("access.log, line 2: a line of the log's format expected")
    );
}

#[test]
fn twitter_s_operations_are_requests() {
    let lines = "0,zDL,3,0,1,get,0\n1,zDL,3,97,1,set,86400\n2,zDL,3,0,2,gets,0\n3,zDL,3,7,2,get,0\n4,q,1,0,2,delete,0\n";
    let trace = Trace::read(std::io::Cursor::new(lines), "cluster052", None).unwrap();
    assert_eq!(trace.format(), Format::TWITTER);
    let told: Vec<_> = trace
        .map(|a| a.unwrap())
        .map(|a| (a.now.nanos() / 1_000_000_000, a.size))
        .collect();
    assert_eq!(told, [(0, 3), (2, 100), (3, 10)]);
    assert!(
        error("t", b"0,zDL,3,0,1,get,0\n0,zDL,3\n").ends_with("7 fields expected, found `0,zDL,3`")
    );
    assert!(
        error("t", b"0,zDL,3,0,1,get,0\n0,zDL,x,0,1,get,0\n")
            .ends_with("line 2: `x` is not a size in bytes")
    );
}

#[test]
fn the_content_does_not_tell_the_format() {
    let format = |name: &str, bytes: &[u8]| {
        Trace::read(std::io::Cursor::new(bytes.to_vec()), name, None)
            .map(|trace| trace.format())
            .ok()
    };
    assert_eq!(
        format("P3", b"230027 8 0 0\n1842745 64 0 1\n"),
        Some(Format::ARC)
    );
    assert_eq!(
        format("t", b"0 8 0 0\n1 64 0 7\n"),
        Some(Format::COLUMNS),
        "the fourth number does not count"
    );
    assert_eq!(format("t", b"0 8 0 0\n"), Some(Format::COLUMNS));
    let record = |time: u32, next: i64| {
        [
            &time.to_le_bytes()[..],
            &7_u64.to_le_bytes(),
            &512_u32.to_le_bytes(),
            &next.to_le_bytes(),
        ]
        .concat()
    };
    assert_eq!(
        format("cluster52", &[record(1, 2), record(1, -1)].concat()),
        Some(Format::ORACLE_GENERAL)
    );
    assert_eq!(
        format("cluster52", &[record(2, 2), record(1, -1)].concat()),
        None,
        "times go back"
    );
    assert_eq!(
        format("cluster52", &record(2, 0)),
        None,
        "no request is the 0th"
    );
    assert_eq!(
        format("t.trace", &[0, 0, 1, 2].repeat(12)),
        Some(Format::NUMBERS)
    );
}

#[test]
fn time_goes_back_in_a_cache() {
    let bytes = &b"5 1 1\n3 2 1\n7 3 1\n6 1 1\n7 1 1\n"[..];
    let mut trace = Trace::read(bytes, "t.tr", None).unwrap();
    let seconds: Vec<u64> = trace
        .by_ref()
        .map(|access| access.unwrap().now.nanos() / 1_000_000_000)
        .collect();
    assert_eq!(
        (seconds, trace.late_requests(), trace.first_late_request()),
        (vec![5, 5, 7, 7, 7], 2, Some(2))
    );
}

#[test]
fn sizes_of_nothing_and_of_2_to_the_63() {
    assert_eq!(
        triples("t.csv", b"0,1,0\n0,2,9223372036854775808\n"),
        [(0, 1, 0), (0, 2, 1 << 63)]
    );
}
