//! A trace format of one's own: lines of `OBJECT:SIZE`. After its registration every trace can have
//! it, and the file's end `.pairs` shows it:
//!
//! ```sh
//! cargo run -p larder-replay --example custom_trace_format
//! ```
//!
//! `examples/custom_larder.rs` of `larder-cli` builds a complete `larder` with such a format.

#![allow(clippy::print_stdout, reason = "an example prints its result")]

use larder_replay::{
    Access, FormatEntry, FormatRegistry, Lines, Open, ReadError, Requests, Trace, replay,
};
use larder_units::{ByteSize, Time};
use std::error::Error;

const PAIRS: FormatEntry = FormatEntry {
    name: "pairs",
    summary: "lines of OBJECT:SIZE",
    suffixes: &[".pairs"],
    // Only the file's name shows the format.
    detect: |_, _| false,
    open: Open::Bytes(|bytes| {
        Box::new(Pairs {
            lines: Lines::new(bytes),
        })
    }),
};

struct Pairs {
    lines: Lines,
}

impl Requests for Pairs {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        let Some(line) = self.lines.next_line()? else {
            return Ok(None);
        };
        let pair = std::str::from_utf8(line)
            .ok()
            .and_then(|line| line.split_once(':'));
        let numbers =
            pair.and_then(|(id, size)| Some((id.trim().parse().ok()?, size.trim().parse().ok()?)));
        match numbers {
            Some((id, size)) => Ok(Some(Access {
                id,
                size,
                now: Time::ZERO,
            })),
            None => Err(ReadError::new(
                self.lines.place(),
                "OBJECT:SIZE expected, two whole numbers",
            )),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let formats = FormatRegistry::builtin().register(&PAIRS)?;
    formats
        .install()
        .map_err(|_| "a trace was opened before the format was registered")?;

    let text = "7:60\n8:60\n8:60\n7:60\n";
    let trace = Trace::read(text.as_bytes(), "example.pairs", None)?;
    let accesses: Vec<Access> = trace.collect::<Result<_, _>>()?;
    let row = replay(
        "example.pairs",
        accesses,
        &"lru".parse()?,
        ByteSize::from_bytes(100),
        1,
    )?;
    println!("{} requests, {} hits", row.requests, row.hits);
    assert_eq!((row.requests, row.hits), (4, 1));

    let wrong = Trace::read("7:60\n8 60\n".as_bytes(), "wrong.pairs", None)?;
    let error = wrong
        .filter_map(Result::err)
        .next()
        .map(|error| error.to_string());
    println!("{}", error.as_deref().unwrap_or_default());
    assert_eq!(
        error.as_deref(),
        Some("wrong.pairs, line 2: OBJECT:SIZE expected, two whole numbers")
    );
    Ok(())
}
