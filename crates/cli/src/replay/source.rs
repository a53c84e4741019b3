//! A trace's file, which is read once or several times.

use super::progress::Progress;
use crate::failure::Failure;
use crate::layout::Layout;
use crate::lists::note_of_bare_sizes;
use crate::output::error_line;
use crate::trace_file;
use larder_policy::{Future, FutureBuilder};
use larder_replay::{Access, Size, Survey, Trace};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// The label of the progress while a trace is read to measure it. The trace is read again later.
pub const MEASURING: &str = "measuring";

/// Returns a message about requests that are earlier than a previous one, if there are any.
pub fn late(trace: &Trace) -> Option<String> {
    let first = trace.first_late_request()?;
    Some(match trace.late_requests() {
        1 => format!("request {first} is earlier than one before it, and takes that one's time"),
        late => format!(
            "{late} requests are earlier than one before them, the first is request {first}, and take the latest time"
        ),
    })
}

/// The requests read at a time, 24 bytes each. A chunk is large compared with the cost of passing
/// it on, and small compared with the processor's cache.
const CHUNK_REQUESTS: usize = 1 << 14;

/// The same for several caches, 6 MB. Each cache loads its data into the processor's cache again
/// for each chunk, because the others have replaced it.
const SHARED_CHUNK_REQUESTS: usize = 1 << 18;

/// The number of blocks that identify a file: the first, the last, and some between.
const SAMPLED_BLOCKS: u64 = 16;

/// The bytes of each block. They cover many requests and are read quickly.
const SAMPLED_BLOCK_BYTES: u64 = 16 << 10;

/// A trace's file, and the requested part of it.
pub struct Source<'a> {
    path: &'a Path,
    layout: &'a Layout,
    limit: Option<u64>,
}

/// The identity of a file. Its directory does not matter. Another file with the same name, length
/// and time has another sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub name: String,
    pub bytes: u64,
    pub modified_ns: u64,
    /// SHA-256 of [`SAMPLED_BLOCKS`] blocks of the file, from its first to its last, in hexadecimal
    /// digits.
    pub sample: String,
}

/// The results of a first reading.
pub struct Measured {
    pub survey: Option<Survey>,
    pub future: Option<Arc<Future>>,
}

impl<'a> Source<'a> {
    pub fn new(path: &'a Path, layout: &'a Layout, limit: Option<u64>) -> Source<'a> {
        Source {
            path,
            layout,
            limit,
        }
    }

    /// Returns the file's name without its directory.
    pub fn name(&self) -> String {
        trace_file::name(self.path)
    }

    /// Returns the identity of the file.
    ///
    /// # Errors
    /// If it is not a regular file. A pipe can have other content the next time.
    pub fn identity(&self) -> Result<Identity, Failure> {
        let failed =
            |problem: &str| Failure::usage(format!("{}: {problem}", trace_file::shown(self.path)));
        let io_failed = |error: io::Error| failed(&larder_units::system_message(&error));
        let file = if trace_file::is_standard_input(self.path) {
            None
        } else {
            Some(self.path.metadata().map_err(io_failed)?).filter(Metadata::is_file)
        };
        let Some(file) = file else {
            return Err(failed(
                "not a file, so it cannot be known again; leave out --resume",
            ));
        };
        let modified = file
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified_ns = modified.map_or(0, |since| since.as_nanos() as u64);
        let bytes = file.len();
        Ok(Identity {
            name: self.name(),
            bytes,
            modified_ns,
            sample: self.sample(bytes).map_err(io_failed)?,
        })
    }

    /// Returns [`Identity::sample`] of the file, which has `bytes` bytes.
    fn sample(&self, bytes: u64) -> io::Result<String> {
        let file = File::open(self.path)?;
        let mut block = vec![0; bytes.min(SAMPLED_BLOCK_BYTES) as usize];
        let last = bytes - block.len() as u64;
        let mut digest = Sha256::new();
        for nth in 0..SAMPLED_BLOCKS {
            let at = u128::from(last) * u128::from(nth) / u128::from(SAMPLED_BLOCKS - 1);
            file.read_exact_at(&mut block, at as u64)?;
            digest.update(&block);
        }
        Ok(digest
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect())
    }

    /// Checks that the file is unchanged. Rows of a file that changes during the run belong to no
    /// trace.
    ///
    /// # Errors
    /// If it has changed.
    pub fn check_unchanged(&self, before: &Identity) -> Result<(), Failure> {
        match self.identity() {
            Ok(now) if now == *before => Ok(()),
            _ => Err(Failure::runtime(format!(
                "{}: changed while it was replayed, so its last rows are not kept; replay a copy of it",
                trace_file::shown(self.path)
            ))),
        }
    }

    /// Checks that a size with a unit of bytes has a meaning for this trace. The first requests
    /// tell whether its objects have sizes.
    ///
    /// # Errors
    /// If they have none, or the trace cannot be read.
    pub fn check_unit(&self, size: &Size) -> Result<(), Failure> {
        if !matches!(size, Size::Bytes(_)) || self.has_sizes()? != Some(false) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{}: its objects have no sizes, so a cache of {size} has no meaning; give a number of objects (1000) or a share (10%)",
            trace_file::shown(self.path)
        )))
    }

    /// Returns whether its objects have sizes, as far as the first requests tell; `None` if there
    /// is none, or if the trace is a pipe: reading would take its first requests away.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn has_sizes(&self) -> Result<Option<bool>, Failure> {
        if !trace_file::is_file(self.path) {
            return Ok(None);
        }
        let mut first = Vec::new();
        let mut trace = self.layout.open(self.path)?;
        trace
            .read_many(&mut first, CHUNK_REQUESTS)
            .map_err(|error| Failure::usage(error.to_string()))?;
        // Of a trace without a request, the replay says so, and why.
        Ok((!first.is_empty()).then(|| first.iter().any(|access| access.size > 1)))
    }

    /// Prints a note if a capacity of these lists means few bytes.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn note_bare_sizes(&self, lists: &[String]) -> Result<(), Failure> {
        if let Some(note) = note_of_bare_sizes(lists)
            && self.has_sizes()? == Some(true)
        {
            error_line!("larder: note: {}: {note}", trace_file::shown(self.path));
        }
        Ok(())
    }

    /// Returns the work of reading the trace for `rows` rows, for the progress: the file's bytes
    /// for each, or about eight bytes per request with a limit.
    pub fn units(&self, rows: usize) -> f64 {
        let limit = self.limit.unwrap_or(u64::MAX).saturating_mul(8) as f64;
        rows as f64 * trace_file::units(self.path).min(limit)
    }

    /// Passes all requests to `take` in chunks, until it has enough. Returns the trace in its state
    /// after that. `take` may keep a chunk by leaving another vector in its place.
    ///
    /// # Errors
    /// If the trace cannot be read, or has no request.
    pub fn chunks(
        &self,
        verb: &str,
        progress: &Progress,
        rows: usize,
        mut take: impl FnMut(&mut Vec<Access>) -> Result<bool, Failure>,
    ) -> Result<Trace, Failure> {
        let failed = |problem: String| {
            Failure::usage(format!("{}: {problem}", trace_file::shown(self.path)))
        };
        let mut trace = self.layout.open(self.path)?;
        let name = self.name();
        let (mut requests, mut chunk) = (0, Vec::new());
        let most = if rows > 1 {
            SHARED_CHUNK_REQUESTS
        } else {
            CHUNK_REQUESTS
        } as u64;
        loop {
            let left = self
                .limit
                .map_or(u64::MAX, |limit| limit - requests)
                .min(most);
            trace
                .read_many(&mut chunk, left as usize)
                .map_err(|error| Failure::usage(error.to_string()))?;
            requests += chunk.len() as u64;
            if requests == 0 {
                let problem = "no request was read".to_owned();
                let reasons = trace.report().remarks();
                let reasons = reasons.iter().map(|reason| reason.trim().to_owned());
                let said: Vec<String> = std::iter::once(problem).chain(reasons).collect();
                return Err(failed(said.join("; ")));
            }
            let by_limit = self.limit.map(|limit| requests as f64 / limit as f64);
            let share = trace
                .progress()
                .map(|share| share.max(by_limit.unwrap_or(0.0)))
                .or(by_limit);
            progress.at(verb, &name, requests, share, self.units(rows));
            if chunk.is_empty() || !take(&mut chunk)? {
                progress.done(self.units(rows));
                // Only once, although the trace may be read twice.
                if verb != MEASURING {
                    for remark in late(&trace).into_iter().chain(trace.report().remarks()) {
                        progress.print(&format!("{name}: {remark}"));
                    }
                }
                return Ok(trace);
            }
        }
    }

    /// Reads the trace in advance if a size is a `share` of it, or if the policy `offline` must
    /// know it.
    ///
    /// # Errors
    /// If it cannot be read, cannot be read twice, or does not fit into memory.
    pub fn measure(
        &self,
        share: Option<&str>,
        offline: Option<&str>,
        progress: &Progress,
    ) -> Result<Measured, Failure> {
        let Some(reason) = share.or(offline) else {
            return Ok(Measured {
                survey: None,
                future: None,
            });
        };
        let failed = |problem: String| {
            Failure::usage(format!("{}: {problem}", trace_file::shown(self.path)))
        };
        let remedy = if share.is_some() {
            "give bytes, or a file"
        } else {
            "give a file"
        };
        trace_file::check_read_twice(self.path, reason, remedy)?;
        let mut survey = share.map(|_| Survey::default());
        let mut future = offline.map(|_| FutureBuilder::default());
        progress.add(self.units(1));
        self.chunks(MEASURING, progress, 1, |chunk| {
            if let Some(survey) = &mut survey {
                for access in chunk.iter() {
                    survey.count(access);
                }
            }
            if let Some(future) = &mut future {
                for access in chunk {
                    let pushed = future.push(access.id, access.size);
                    pushed
                        .map_err(|error| failed(format!("{error}; replay fewer with --limit")))?;
                }
            }
            Ok(true)
        })?;
        let future = future.map(|future| Arc::new(future.build()));
        if let (Some(future), Some(policy)) = (&future, offline) {
            let mib = future.bytes() >> 20;
            let requests = future.len();
            progress.print(&format!(
                "{}: read ahead for `{policy}`, {requests} requests in {mib} MiB",
                self.name()
            ));
        }
        Ok(Measured { survey, future })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_another_order_go_unnoticed() {
        let message = |bytes: &'static str| {
            let mut trace = Trace::read(bytes.as_bytes(), "t.tr", None).unwrap();
            trace.by_ref().for_each(drop);
            late(&trace)
        };
        assert_eq!(message("1 1 1\n2 2 1\n"), None);
        assert_eq!(
            message("1 1 1\n5 2 1\n3 1 1\n").unwrap(),
            "request 3 is earlier than one before it, and takes that one's time"
        );
        let several = message("5 1 1\n3 2 1\n7 3 1\n6 1 1\n").unwrap();
        assert_eq!(
            several,
            "2 requests are earlier than one before them, the first is request 2, and take the latest time"
        );
    }
}
