//! Binary traces of fixed records: libCacheSim's oracleGeneral, and bare object numbers.

use super::entry::{FormatEntry, Open, is_text};
use super::error::{Place, ReadError, TraceProblem};
use super::requests::Requests;
use crate::Access;
use larder_units::Time;
use std::io::{BufRead, ErrorKind};
use std::ops::Range;

/// Bytes of a binary trace read at once: large against a system call, small against the
/// second-level cache.
const BUFFER_BYTES: usize = 128 << 10;

/// See [`Format::ORACLE_GENERAL`](super::Format::ORACLE_GENERAL).
pub(super) const ORACLE_GENERAL: FormatEntry = FormatEntry {
    name: "oracle-general",
    summary: "libCacheSim's binary, 24 bytes per request",
    suffixes: &[".oraclegeneral", ".oraclegeneral.bin"],
    detect: |_, start| !is_text(start) && is_oracle_general(start),
    open: Open::Bytes(|bytes| Box::new(OracleGeneral::new(bytes))),
};

/// See [`Format::NUMBERS`](super::Format::NUMBERS).
pub(super) const NUMBERS: FormatEntry = FormatEntry {
    name: "numbers",
    summary: "big-endian 32-bit object numbers; every object has one byte",
    suffixes: &[],
    detect: |name, start| !is_text(start) && name.ends_with(".trace"),
    open: Open::Bytes(|bytes| Box::new(Numbers::new(bytes))),
};

/// See [`Format::NUMBERS_64`](super::Format::NUMBERS_64).
pub(super) const NUMBERS_64: FormatEntry = FormatEntry {
    name: "numbers-64",
    summary: "big-endian 64-bit object numbers; every object has one byte",
    suffixes: &[],
    detect: |name, start| !is_text(start) && name.ends_with(".trace") && has_64_bits(start),
    open: Open::Bytes(|bytes| Box::new(Numbers64(Records::new(bytes)))),
};

/// Returns true if these numbers have 64 bits: the upper halves are few (0, or the top of a
/// counter), or all four upper bytes of both halves are as even as a hash's. Numbers of 32 bits
/// that someone has counted have small first bytes.
fn has_64_bits(start: &[u8]) -> bool {
    let numbers = start.as_chunks::<8>().0;
    if numbers.len() < 2 {
        return false;
    }
    let distinct = |of: &dyn Fn(&[u8; 8]) -> u32| {
        let mut values: Vec<u32> = numbers.iter().map(of).collect();
        values.sort_unstable();
        values.dedup();
        values.len()
    };
    let half = |number: &[u8; 8], at: usize| {
        u32::from_be_bytes([number[at], number[at + 1], number[at + 2], number[at + 3]])
    };
    let (upper, lower) = (
        distinct(&|number| half(number, 0)),
        distinct(&|number| half(number, 4)),
    );
    let first_bytes =
        distinct(&|number| u32::from(number[0])).min(distinct(&|number| u32::from(number[4])));
    upper * 8 <= lower || upper == 1 && lower > 1 || first_bytes > 100
}

/// 24 bytes a request, little-endian: u32 time in seconds, u64 object, u32 size, i64 next request
/// (not used).
pub(super) struct OracleGeneral(Records<24>);

/// Big-endian 64-bit object numbers. Every object has one byte.
struct Numbers64(Records<8>);

impl Requests for Numbers64 {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        let Some(record) = self.0.next()? else {
            return Ok(None);
        };
        Ok(Some(Access {
            id: u64::from_be_bytes(record),
            size: 1,
            now: Time::ZERO,
        }))
    }
}

/// Big-endian 32-bit object numbers. Every object has one byte.
pub(super) struct Numbers(Records<4>);

impl OracleGeneral {
    pub fn new(source: Box<dyn BufRead + Send>) -> Self {
        OracleGeneral(Records::new(source))
    }
}

/// Returns true if the first bytes are oracleGeneral's: in all whole records, times do not go back
/// and a next access is none or a request's number. Other bytes are unlikely to be so in each of
/// 170 records.
fn is_oracle_general(start: &[u8]) -> bool {
    let mut latest = 0;
    let mut is_late = |record: &[u8]| {
        let time = record
            .first_chunk()
            .map_or(0, |time| u32::from_le_bytes(*time));
        time < std::mem::replace(&mut latest, time)
    };
    start.len() >= 24 && first_foreign(start).is_none() && !start.chunks_exact(24).any(&mut is_late)
}

/// Returns the offset of the first record whose next access is neither none nor a request's number.
pub(super) fn first_foreign(start: &[u8]) -> Option<usize> {
    let is_foreign = |record: &[u8]| {
        let next = record
            .last_chunk()
            .map_or(0, |next| i64::from_le_bytes(*next));
        // No trace has 2^40 requests. Some files write the largest number for none.
        next != -1 && next != i64::MAX && !(1..1 << 40).contains(&next)
    };
    start
        .chunks_exact(24)
        .position(is_foreign)
        .map(|record| record * 24)
}

impl Requests for OracleGeneral {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        Ok(self.0.next()?.map(|record| oracle_general(&record)))
    }

    fn read(&mut self, accesses: &mut Vec<Access>, most: usize) -> Result<(), ReadError> {
        self.0.read(accesses, most, oracle_general)
    }
}

#[inline]
fn oracle_general(record: &[u8; 24]) -> Access {
    let [
        t0,
        t1,
        t2,
        t3,
        i0,
        i1,
        i2,
        i3,
        i4,
        i5,
        i6,
        i7,
        s0,
        s1,
        s2,
        s3,
        ..,
    ] = *record;
    Access {
        id: u64::from_le_bytes([i0, i1, i2, i3, i4, i5, i6, i7]),
        size: u64::from(u32::from_le_bytes([s0, s1, s2, s3])),
        now: Time::from_secs(u64::from(u32::from_le_bytes([t0, t1, t2, t3]))),
    }
}

impl Numbers {
    pub fn new(source: Box<dyn BufRead + Send>) -> Self {
        Numbers(Records::new(source))
    }
}

impl Requests for Numbers {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        let Some(record) = self.0.next()? else {
            return Ok(None);
        };
        Ok(Some(Access {
            id: u64::from(u32::from_be_bytes(record)),
            size: 1,
            now: Time::ZERO,
        }))
    }
}

/// Records of N bytes, from a buffer of its own. A call through the source's layers for each record
/// would cost more than the record.
struct Records<const N: usize> {
    source: Box<dyn BufRead + Send>,
    buffer: Vec<u8>,
    /// The part of the buffer that was not returned yet.
    unread: Range<usize>,
    /// The byte offset of the next record.
    at: u64,
}

impl<const N: usize> Records<N> {
    fn new(source: Box<dyn BufRead + Send>) -> Self {
        Records {
            source,
            buffer: vec![0; BUFFER_BYTES],
            unread: 0..0,
            at: 0,
        }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<[u8; N]>, ReadError> {
        let Some(record) = self.buffer[self.unread.clone()].first_chunk::<N>() else {
            return if self.fill()? { self.next() } else { Ok(None) };
        };
        self.unread.start += N;
        self.at += N as u64;
        Ok(Some(*record))
    }

    /// Adds records to `accesses` until it has `most`, or the trace ends. It decodes all records of
    /// the buffer at once.
    fn read(
        &mut self,
        accesses: &mut Vec<Access>,
        most: usize,
        decoded: impl Fn(&[u8; N]) -> Access,
    ) -> Result<(), ReadError> {
        while accesses.len() < most {
            let records = self.buffer[self.unread.clone()].as_chunks::<N>().0;
            if records.is_empty() {
                if self.fill()? { continue } else { break }
            }
            let taken = records.len().min(most - accesses.len());
            accesses.extend(records[..taken].iter().map(&decoded));
            self.unread.start += taken * N;
            self.at += (taken * N) as u64;
        }
        Ok(())
    }

    /// Reads until the buffer has a record; returns false at the end of the trace.
    fn fill(&mut self) -> Result<bool, ReadError> {
        let at = Place::Byte(self.at);
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        while self.unread.end < N {
            match self.source.read(&mut self.buffer[self.unread.end..]) {
                Ok(0) if self.unread.end == 0 => return Ok(false),
                Ok(0) => return Err(ReadError::new(at, TraceProblem::CutRecord(N))),
                Ok(read) => self.unread.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::new(at, error)),
            }
        }
        Ok(true)
    }
}
