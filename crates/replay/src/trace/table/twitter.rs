//! Twitter's cache traces as published (Yang, Yue and Rashmi, A large scale analysis of hundreds of
//! in-memory cache clusters at Twitter, OSDI 2020): lines of time in seconds, anonymised key, key
//! size, value size, client, operation and time to live, with commas between.
//!
//! A `get` or `gets` is a request. The other operations change the cache's content; this reader
//! only takes sizes from them. An object is its key and value, and has as many bytes as both. A
//! request that missed at Twitter states a value of 0 bytes: the value then has the size that the
//! last operation on the key stated, or 0. Times to live are ignored.

use crate::Access;
use crate::limits::MAX_REMEMBERED_URLS;
use crate::trace::decimal::whole;
use crate::trace::entry::{FormatEntry, Open, first_line, is_text};
use crate::trace::error::{ReadError, TraceProblem};
use crate::trace::lines::Lines;
use crate::trace::object_id::name_hash;
use crate::trace::requests::Requests;
use crate::trace::times::whole_seconds;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use larder_units::Time;

/// The number of fields of a line.
const FIELDS: usize = 7;
/// The field that names the operation.
const OPERATION: usize = 5;

/// See [`Format::TWITTER`](crate::Format::TWITTER).
pub(in crate::trace) const ENTRY: FormatEntry = FormatEntry {
    name: "twitter",
    summary: "Twitter's cache traces: time, key, key size, value size, client, operation, time to live",
    suffixes: &[],
    detect: |_, start| is_text(start) && Twitter::is_line(first_line(start)),
    open: Open::Bytes(|bytes| {
        Box::new(Twitter {
            lines: Lines::new(bytes),
            values: HashMap::default(),
        })
    }),
};

struct Twitter {
    lines: Lines,
    /// The bytes of the value that were stated last, by key.
    values: HashMap<u64, u64, FixedState>,
}

impl Twitter {
    /// Returns true if a line is of this format.
    fn is_line(line: &[u8]) -> bool {
        let operation = line.split(|byte| *byte == b',').nth(OPERATION);
        let is_word =
            operation.is_some_and(|op| !op.is_empty() && op.iter().all(u8::is_ascii_alphabetic));
        is_word
            && line.iter().filter(|byte| **byte == b',').count() == FIELDS - 1
            && line[0].is_ascii_digit()
    }

    /// Returns the value's size, as stated now or before.
    fn value(&mut self, id: u64, stated: u64) -> u64 {
        if stated == 0 {
            return self.values.get(&id).copied().unwrap_or(0);
        }
        if self.values.len() < MAX_REMEMBERED_URLS || self.values.contains_key(&id) {
            self.values.insert(id, stated);
        }
        stated
    }
}

impl Requests for Twitter {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                return Ok(None);
            };
            let Operation {
                now,
                id,
                key,
                value,
                is_request,
            } = match Operation::of(line) {
                Ok(operation) => operation,
                Err(problem) => return Err(self.lines.error(problem)),
            };
            let value = self.value(id, value);
            if is_request {
                return Ok(Some(Access {
                    id,
                    size: key.saturating_add(value),
                    now,
                }));
            }
        }
    }
}

struct Operation {
    now: Time,
    id: u64,
    /// Bytes.
    key: u64,
    /// Bytes.
    value: u64,
    is_request: bool,
}

impl Operation {
    fn of(line: &[u8]) -> Result<Operation, TraceProblem> {
        let mut fields = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let mut field = || {
            fields
                .next()
                .ok_or_else(|| TraceProblem::line("7 fields", line))
        };
        let (time, name, key, value, _client, operation) =
            (field()?, field()?, field()?, field()?, field()?, field()?);
        let size =
            |text: &[u8]| whole(text).ok_or_else(|| TraceProblem::field("size in bytes", text));
        if name.is_empty() {
            return Err(TraceProblem::Missing("key"));
        }
        Ok(Operation {
            now: whole_seconds(time)?,
            id: name_hash(name),
            key: size(key)?,
            value: size(value)?,
            is_request: matches!(operation, b"get" | b"gets"),
        })
    }
}
