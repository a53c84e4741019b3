//! Traces that are written read back as they were, and as others read them.

use larder_replay::{
    Access, Format, Trace, TraceWriter, WriteError, WriteFormat, link_next_accesses,
};
use larder_units::Time;
use proptest::prelude::*;
use std::io::Cursor;

fn written(accesses: &[Access], format: WriteFormat) -> Result<Vec<u8>, WriteError> {
    let mut writer = TraceWriter::new(Vec::new(), format)?;
    accesses
        .iter()
        .try_for_each(|access| writer.write(access))?;
    assert_eq!(writer.requests(), accesses.len() as u64);
    Ok(writer.into_inner())
}

fn read(name: &str, bytes: Vec<u8>) -> Vec<Access> {
    Trace::read(Cursor::new(bytes), name, None)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

fn linked(accesses: &[Access]) -> Vec<u8> {
    let mut file = Cursor::new(written(accesses, WriteFormat::OracleGeneral).unwrap());
    let mut done = 0;
    link_next_accesses(&mut file, |records| done += records).unwrap();
    assert_eq!(done, accesses.len() as u64);
    file.into_inner()
}

fn at(seconds: u64, id: u64, size: u64) -> Access {
    Access {
        id,
        size,
        now: Time::from_secs(seconds),
    }
}

#[test]
fn oracle_general_is_not_libcachesim_s() {
    let bytes = linked(&[
        at(1, 7, 10),
        at(2, u64::MAX, 0),
        at(2, 7, 10),
        at(9, 8, 4_294_967_295),
        at(9, 7, 10),
    ]);
    let next: Vec<i64> = bytes
        .chunks(24)
        .map(|r| i64::from_le_bytes(r[16..].try_into().unwrap()))
        .collect();
    // As in its own traces: the number of the next request, from 1; -1 for none.
    assert_eq!(next, [3, -1, 5, -1, -1]);
    assert_eq!(
        &bytes[24..40],
        [
            2, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0
        ]
    );
}

#[test]
fn next_accesses_are_lost_between_chunks() {
    // Three chunks and a part; every object comes again after 1,000 requests.
    let accesses: Vec<Access> = (0..200_123).map(|n| at(0, n % 1000, 1)).collect();
    let bytes = linked(&accesses);
    for (n, record) in bytes.chunks(24).enumerate() {
        let next = i64::from_le_bytes(record[16..].try_into().unwrap());
        let expected = if n + 1000 < accesses.len() {
            n as i64 + 1001
        } else {
            -1
        };
        assert_eq!(next, expected, "request {}", n + 1);
    }
}

#[test]
fn values_are_cut_off() {
    for (access, format, words) in [
        (
            at(1 << 32, 1, 1),
            WriteFormat::OracleGeneral,
            "request 2: the time in seconds, 4294967296, has no place in 32 bits",
        ),
        (
            at(1, 1, 1 << 63),
            WriteFormat::OracleGeneral,
            "request 2: the size, 9223372036854775808, has no place",
        ),
        (
            at(1, 1 << 32, 1),
            WriteFormat::Numbers,
            "request 2: the object, 4294967296, has no place",
        ),
    ] {
        let error = written(&[at(0, 0, 0), access], format)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(words) && error.ends_with("write text or csv instead"),
            "{error}"
        );
    }
    let mut torn = Cursor::new(vec![0; 47]);
    assert!(link_next_accesses(&mut torn, |_| ()).is_err());
}

#[test]
fn names_ask_for_other_formats() {
    for (name, format) in [
        ("a.oracleGeneral", Some(WriteFormat::OracleGeneral)),
        (
            "a.b.oracleGeneral.bin.zst",
            Some(WriteFormat::OracleGeneral),
        ),
        ("A.TR.zst", Some(WriteFormat::Text)),
        ("dir.csv/a.txt", Some(WriteFormat::Text)),
        ("a.csv", Some(WriteFormat::Csv)),
        ("a.jsonl.zst", Some(WriteFormat::JsonLines)),
        ("a.trace", Some(WriteFormat::Numbers)),
        ("csv", None),
        (".csv", None),
        ("a.xz", None),
        ("a.zst", None),
    ] {
        assert_eq!(WriteFormat::of_name(name), format, "{name}");
    }
    let unknown = "parquet".parse::<WriteFormat>().unwrap_err().to_string();
    assert!(
        unknown.contains("`parquet`") && unknown.contains("oracle-general"),
        "{unknown}"
    );
}

proptest! {
    #[test]
    fn what_was_written_reads_back_otherwise(
        requests in proptest::collection::vec((0..(1_u64 << 32) * 1_000_000_000, any::<u64>(), any::<u64>()), 1..40)
    ) {
        let mut accesses: Vec<Access> =
            requests.into_iter().map(|(now, id, size)| Access { id, size, now: Time::from_nanos(now) }).collect();
        accesses.sort_by_key(|access| access.now);
        for (name, format) in [("t.tr", WriteFormat::Text), ("t.csv", WriteFormat::Csv), ("t.jsonl", WriteFormat::JsonLines)] {
            let back = read(name, written(&accesses, format).unwrap());
            prop_assert_eq!(&back, &accesses, "{}", name);
        }
        let small: Vec<Access> = accesses
            .iter()
            .map(|a| Access { size: a.size >> 32, now: Time::from_secs(a.now.nanos() / 1_000_000_000), ..*a })
            .collect();
        prop_assert_eq!(&read("t.oracleGeneral", linked(&small)), &small);
        let numbers: Vec<Access> = accesses.iter().map(|a| at(0, a.id >> 32, 1)).collect();
        // A few numbers may be the bytes of a text: the format is given.
        let bytes = written(&numbers, WriteFormat::Numbers).unwrap();
        let back: Result<Vec<_>, _> = Trace::read(Cursor::new(bytes), "t", Some(Format::NUMBERS)).unwrap().collect();
        prop_assert_eq!(&back.unwrap(), &numbers);
    }
}
