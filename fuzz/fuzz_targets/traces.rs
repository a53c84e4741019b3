//! Trace files of every format, plain and compressed, and of none: a request or an error with its
//! place, never a panic. The first byte chooses the format, or leaves it to be told from the bytes.
#![no_main]

use larder_replay::{FormatRegistry, Trace};
use libfuzzer_sys::fuzz_target;

/// A tiny compressed file may hold gigabytes of requests.
const MOST_REQUESTS: usize = 10_000;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else {
        return;
    };
    let format = FormatRegistry::builtin().iter().nth(usize::from(choice));
    match Trace::read(std::io::Cursor::new(bytes.to_vec()), "fuzz", format) {
        Ok(trace) => {
            for access in trace.take(MOST_REQUESTS) {
                if let Err(error) = access {
                    assert!(!error.to_string().contains('\n'), "{error}");
                    break;
                }
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
