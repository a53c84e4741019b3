//! Access logs in every known format and by patterns, with bad lines skipped: requests in the order
//! of time, and a report that counts every line, never a panic. The first line chooses the format,
//! or is a pattern; an empty one leaves it to be told from the lines.
#![no_main]

use larder_replay::{BadLines, LogFormat, ReadOptions, Trace};
use larder_units::Ratio;
use libfuzzer_sys::fuzz_target;

/// A tiny compressed file may hold gigabytes of requests.
const MOST_REQUESTS: usize = 10_000;

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let format = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
    let mut options = ReadOptions {
        bad_lines: Ratio::new(1.0).map(|most| BadLines { most }),
        ..ReadOptions::default()
    };
    let is_known = format.parse::<LogFormat>().is_ok();
    options.log.format = is_known.then(|| format.to_owned());
    let log = std::io::Cursor::new(bytes[end..].to_vec());
    let Ok(mut trace) = Trace::read_with(log, "access.log", &options) else {
        return;
    };
    let mut requests = Vec::new();
    if trace.read_many(&mut requests, MOST_REQUESTS).is_ok() {
        assert!(requests.is_sorted_by_key(|access| access.now));
        let report = trace.report();
        assert!(report.lines() >= requests.len() as u64);
        assert!(report.first_skipped.len() <= 3);
    }
});
