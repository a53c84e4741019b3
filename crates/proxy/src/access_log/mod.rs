//! `[http.access_log]`: a line for each finished exchange.
//!
//! `record.rs` is what is known of an exchange, `template.rs` its line, `escape.rs` keeps values
//! within it, `writer.rs` takes it to `destination.rs` on another thread.

mod destination;
mod escape;
mod record;
mod table;
mod template;
mod time_text;
mod writer;

pub use destination::{LogTarget, Rotation};
pub use escape::Escape;
pub use record::{Attempt, CLIENT_LEFT, CacheResult, Fields, Outcome, Protocol, Record};
pub use template::{NAMES, Template, TemplateError};
pub use time_text::TimeText;

use crate::base::error::{Error, Problem};
use crate::base::limits;
use destination::Destination;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use writer::Buffers;

/// The configuration of the access log.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLogConfig {
    /// Where lines go.
    pub target: LogTarget,
    /// Their format.
    pub template: Template,
    /// The share of exchanges that are logged, above 0 and up to 1. Those that fail are always
    /// logged: statuses from 500, a client that left, a body that broke off.
    pub sample: f64,
    /// The rotation of a file, if Larder does it.
    pub rotation: Option<Rotation>,
}

impl AccessLogConfig {
    fn problem(&self, error: std::io::Error) -> Error {
        let path = match &self.target {
            LogTarget::File(path) | LogTarget::Socket(path) => path.clone(),
            LogTarget::Stdout => PathBuf::from("stdout"),
        };
        Error::setting("[http.access_log] path", Problem::File { path, error })
    }

    /// Returns the error that a start would meet.
    pub(crate) fn check(&self) -> Option<Error> {
        destination::check(&self.target)
            .err()
            .map(|error| self.problem(error))
    }
}

/// The running log.
pub(crate) struct AccessLog {
    config: AccessLogConfig,
    /// A draw of 64 bits below this is logged; `None` logs all.
    sample: Option<u64>,
    buffers: Arc<Buffers>,
    end: WriterEnd,
}

/// The end of a log's writer, which may come after the log.
#[derive(Clone)]
pub(crate) struct WriterEnd(Arc<Mutex<Receiver<()>>>);

impl WriterEnd {
    fn receiver(&self) -> MutexGuard<'_, Receiver<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a writer that was told to end. A destination that blocks is left after
    /// [`limits::LOG_STOP`].
    pub(crate) fn wait(&self) {
        // The other end is gone if the thread has ended before.
        let _ = self.receiver().recv_timeout(limits::LOG_STOP);
    }

    /// Returns true if the writer has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.receiver().try_recv() != Err(TryRecvError::Empty)
    }
}

impl AccessLog {
    /// Opens the destination and starts the writer, for so many request threads.
    ///
    /// # Errors
    /// One line if the file cannot be opened.
    pub(crate) fn start(config: &AccessLogConfig, threads: usize) -> Result<AccessLog, Error> {
        let destination = Destination::open(&config.target, config.rotation)
            .map_err(|error| config.problem(error))?;
        let buffers = Buffers::new(threads);
        let end = WriterEnd(Arc::new(Mutex::new(
            writer::start(&buffers, destination).map_err(Error::Thread)?,
        )));
        let sample = (config.sample < 1.0).then_some((config.sample * u64::MAX as f64) as u64);
        Ok(AccessLog {
            config: config.clone(),
            sample,
            buffers,
            end,
        })
    }

    pub(crate) fn config(&self) -> &AccessLogConfig {
        &self.config
    }

    pub(crate) fn template(&self) -> &Template {
        &self.config.template
    }

    /// Appends the line of a record, if it belongs to the sample.
    pub(crate) fn append(&self, record: &Record<'_>) {
        let mut buffer = self.buffers.own();
        if let Some(below) = self.sample {
            let always = record.status >= CLIENT_LEFT || !record.is_complete;
            if !draw(&mut buffer.draws, below) && !always {
                return;
            }
        }
        // Before 1970, no time.
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.buffers.append(buffer, |texts, lines| {
            self.config.template.write(record, now, texts, lines)
        });
    }

    /// Makes the writer open its file again.
    pub(crate) fn reopen(&self) {
        self.buffers.reopen();
    }

    /// Writes what is there, and ends the writer.
    pub(crate) fn stop(&self) {
        self.buffers.stop();
        self.end.wait();
    }

    /// Returns the end of its writer.
    pub(crate) fn end(&self) -> WriterEnd {
        self.end.clone()
    }

    /// Returns the numbers of written and of dropped lines.
    pub(crate) fn lines(&self) -> (u64, u64) {
        (self.buffers.written(), self.buffers.dropped())
    }
}

impl Drop for AccessLog {
    /// Ends the writer: of a start that failed, or after a reload with the last connection that
    /// used it.
    fn drop(&mut self) {
        self.buffers.stop();
    }
}

/// Draws with a probability of `below` of 2^64 (SplitMix64).
fn draw(state: &mut u64, below: u64) -> bool {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31) < below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_larger_or_smaller_than_its_share() {
        for share in [0.001, 0.1, 0.9] {
            let (mut state, below) = (7, (share * u64::MAX as f64) as u64);
            let drawn = (0..100_000).filter(|_| draw(&mut state, below)).count() as f64;
            assert!(
                (drawn / 100_000.0 - share).abs() < 0.005,
                "{share}: {drawn}"
            );
        }
    }
}
