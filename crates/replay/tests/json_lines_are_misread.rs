//! Failure: lines of JSON are other requests than the same lines of CSV, or an error names no line
//! and column.

use larder_replay::{Access, ColumnNames, Format, Trace, TraceError};
use proptest::prelude::*;
use std::io::Cursor;

fn read(text: &str) -> Result<Vec<Access>, TraceError> {
    Trace::read(Cursor::new(text.to_owned()), "t.jsonl", None)?.collect()
}

fn read_columns(names: &str, text: &str) -> Result<Vec<Access>, TraceError> {
    let names: ColumnNames = names.parse().unwrap();
    Trace::read_columns(Cursor::new(text.to_owned()), "t.jsonl", names)?.collect()
}

#[test]
fn a_value_is_another_one_than_in_csv() {
    let csv = "time,id,size\n0.5,7,9\n1,http://a/?q=\"é\",0\n1,-5,1\n1e2,7.5,18446744073709551615\n\
        1e2,18446744073709551616,3\n1767225600.25,12,3\n";
    let json = r#"{"time":0.5,"id":7,"size":9}
        {"size":"0","other":{"id":[1,"}"]},"key":null,"id":"http://a/?q=\"\u00e9\"","time":"1"}
        {"time":1,"id":-5,"size":1.0}

        {"time":1e2,"id":7.5,"size":18446744073709551615}
        {"time":1e2,"id":18446744073709551616,"size":3}
        {"time":"2026-01-01T01:00:00.25+01:00","id":"12","size":3}
    "#;
    let expected: Vec<Access> = Trace::read(Cursor::new(csv), "t.csv", None)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(read(json).unwrap(), expected);
}

#[test]
fn members_of_other_names_are_not_found() {
    let line = r#"{"ts":5,"url":"/a","len":9}"#;
    let all = read_columns("time=TS,id=url,size=len", &line.to_lowercase()).unwrap();
    let without_size = read_columns("id=url", line).unwrap();
    assert_eq!((all[0].now.nanos(), all[0].size), (5_000_000_000, 9));
    assert_eq!(
        (
            without_size[0].now.nanos(),
            without_size[0].size,
            without_size[0].id
        ),
        (0, 1, all[0].id)
    );
    assert_eq!(read_columns("id=2,size=3", line).unwrap()[0].size, 9);
}

#[test]
fn an_error_names_no_line_or_column() {
    for (line, expected) in [
        (
            r#"{"time":1,"id":1}"#,
            r#"no column is called `size` in `{\"time\":1,\"id\":1}`"#,
        ),
        (
            r#"{"time":1,"id":1,"size":-1}"#,
            "column `size`: `-1` is not a size in bytes",
        ),
        (
            r#"{"time":1,"id":1,"size":1.5}"#,
            "column `size`: `1.5` is not a size in bytes",
        ),
        (
            r#"{"time":1,"id":1,"size":18446744073709551616}"#,
            "column `size`: `18446744073709551616` is not a size",
        ),
        (
            r#"{"time":1,"id":1,"size":null}"#,
            "column `size`: `null` is not a number or text",
        ),
        (
            r#"{"time":1,"id":[1],"size":1}"#,
            "column `id`: `[1]` is not a number or text",
        ),
        (
            r#"{"time":1,"id":"","size":1}"#,
            "column `id`: the object is missing",
        ),
        (
            r#"{"time":-1,"id":1,"size":1}"#,
            "column `time`: `-1` is not a time",
        ),
        (
            r#"{"time":"NaN","id":1,"size":1}"#,
            "column `time`: `NaN` is not a time",
        ),
        (
            r#"{"time":NaN,"id":1,"size":1}"#,
            r#"a JSON object expected, found `{\"time\":NaN"#,
        ),
        (
            r#"{"time":1e300,"id":1,"size":1}"#,
            "column `time`: `1e300` is not a time in seconds: times end",
        ),
        (r#"{"time":1,"id":1,"size":1} x"#, "a JSON object expected"),
        (r#"[1,1,1]"#, "a JSON object expected, found `[1,1,1]`"),
        (r#"{"time":1,"id":1,"size":1"#, "a JSON object expected"),
    ] {
        let text = format!("{{\"time\":0,\"id\":0,\"size\":1}}\n\n{line}\n");
        let error = read(&text).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("t.jsonl, line 3: {expected}")),
            "{error}"
        );
    }
    let first = |line: &str| read(line).unwrap_err().to_string();
    assert_eq!(
        first(r#"{"at":1,"id":1,"size":1}"#),
        "t.jsonl, line 1: no columns are called `time`, `object` and `size` in `at,id,size`; \
         give --columns time=…,id=…,size=…"
    );
    let asked = |names: &str| read_columns(names, r#"{"a":1}"#).unwrap_err().to_string();
    assert_eq!(
        asked("id=b"),
        "t.jsonl, line 1: no column is called `b` in `a`"
    );
    assert_eq!(
        asked("id=2"),
        r#"t.jsonl, line 1: no column is called `2` in `{\"a\":1}`"#
    );
}

#[test]
fn a_web_server_s_log_is_taken_for_a_table() {
    let log = r#"{"time_iso8601":"2026-11-24T18:44:26Z","host":"a","request_uri":"/","status":200,"body_bytes_sent":1}"#;
    let trace = Trace::read(Cursor::new(log), "access.jsonl", None).unwrap();
    assert_eq!(trace.format(), Format::WEB_LOG);
}

proptest! {
    #[test]
    fn text_that_panics(text in "[\\[\\]{}\":,a-e0-9.\\-\\\\ \n]{0,200}") {
        if let Ok(trace) = Trace::read(Cursor::new(text), "t.jsonl", Some(Format::JSON_LINES)) {
            let items: Vec<_> = trace.take(1_000).collect();
            prop_assert!(items.iter().rev().skip(1).all(Result::is_ok));
        }
    }
}
