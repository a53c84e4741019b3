//! The ARC paper's disk traces (`.lis`): first block, number of blocks, a flag, and the request's
//! number, with blanks between. Every block is an object of 512 bytes, and one line requests all
//! its blocks in turn.

use super::decimal::whole;
use super::entry::{FormatEntry, Open, is_text};
use super::error::{ReadError, TraceProblem};
use super::lines::Lines;
use super::requests::Requests;
use crate::Access;
use crate::limits::MAX_ARC_BLOCKS;
use larder_units::Time;

const BLOCK_BYTES: u64 = 512;

/// See [`Format::ARC`](super::Format::ARC).
pub(super) const ENTRY: FormatEntry = FormatEntry {
    name: "arc",
    summary: "the ARC paper's disk traces: first block, number of blocks, flag, request's number",
    suffixes: &[".lis"],
    detect: |_, start| is_text(start) && is_arc(start),
    open: Open::Bytes(|bytes| {
        Box::new(Arc {
            lines: Lines::new(bytes),
            blocks: 0..0,
            number: 0,
        })
    }),
};

struct Arc {
    lines: Lines,
    /// The blocks of the last line that are not returned yet.
    blocks: std::ops::Range<u64>,
    /// The least number that the next line may have.
    number: u64,
}

impl Requests for Arc {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        loop {
            if let Some(id) = self.blocks.next() {
                return Ok(Some(Access {
                    id,
                    size: BLOCK_BYTES,
                    now: Time::ZERO,
                }));
            }
            let Some(line) = self.lines.next_line()? else {
                return Ok(None);
            };
            let (blocks, number) =
                request(line, self.number).map_err(|problem| self.lines.error(problem))?;
            self.blocks = blocks;
            self.number = number.saturating_add(1);
        }
    }
}

/// Returns true if the first lines are such requests, by the third field, which is always 0, and
/// the fourth, which counts from 0.
fn is_arc(start: &[u8]) -> bool {
    let end = start
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap_or(start.len());
    let mut lines = start[..end]
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty())
        .zip(0..);
    let is_request = |(line, number): (&[u8], u64)| {
        let mut fields = line
            .split(u8::is_ascii_whitespace)
            .filter(|field| !field.is_empty())
            .map(whole);
        let mut field = || fields.next().flatten();
        let is_counted =
            field().is_some() && field().is_some() && field() == Some(0) && field() == Some(number);
        is_counted && fields.next().is_none()
    };
    // A single line could be a request of another trace, at second 0 for object 0.
    lines.clone().count() > 1 && lines.all(is_request)
}

/// Returns the blocks and the number of a request. The number is `least` or more, or 0 again: lines
/// of other traces have four numbers as well.
fn request(line: &[u8], least: u64) -> Result<(std::ops::Range<u64>, u64), TraceProblem> {
    let fields: Option<Vec<u64>> = line
        .split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty())
        .map(whole)
        .collect();
    let Some([first, count, _, number]) = fields.as_deref() else {
        return Err(TraceProblem::line(
            "first block, number of blocks, flag and the request's number",
            line,
        ));
    };
    // A concatenation of several traces begins again.
    let begins = *number == 0 && least > 1;
    if *number < least && !begins {
        return Err(TraceProblem::RequestOrder {
            number: *number,
            previous: least - 1,
        });
    }
    if *count > MAX_ARC_BLOCKS {
        return Err(TraceProblem::TooManyBlocks(*count));
    }
    let end = first.checked_add(*count).ok_or(TraceProblem::BlockNumber {
        first: *first,
        count: *count,
    })?;
    Ok((*first..end, *number))
}
