//! The buffers of the request threads, and the thread that writes them.
//!
//! A request thread appends a line to its own buffer, behind a lock that only the writer takes
//! besides, for as long as it swaps the buffer for an empty one. Threads that a reload adds share
//! the buffers of others. A full buffer drops the line. The first line in an empty buffer wakes the
//! writer, which waits [`limits::LOG_FLUSH`] for more, or until a buffer is half full. So an idle
//! node wakes for nothing, and a request never waits for the disk.

use super::destination::{Destination, Health};
use super::time_text::TimeText;
use crate::base::{limits, threads};
use larder_units::system_message;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

/// What one request thread has written.
pub(super) struct Buffer {
    lines: Vec<u8>,
    pub(super) texts: TimeText,
    /// The state of the draws for a sample.
    pub(super) draws: u64,
}

/// The buffers of all request threads.
pub(super) struct Buffers {
    buffers: Vec<Mutex<Buffer>>,
    writer: OnceLock<Thread>,
    /// True while the writer is awake, or will be.
    is_awake: AtomicBool,
    is_half_full: AtomicBool,
    reopens: AtomicBool,
    stops: AtomicBool,
    dropped: AtomicU64,
    written: AtomicU64,
}

impl Buffers {
    pub fn new(threads: usize) -> Arc<Buffers> {
        let buffer = |number: u64| Buffer {
            lines: Vec::new(),
            texts: TimeText::default(),
            draws: number,
        };
        Arc::new(Buffers {
            buffers: (0..threads.max(1) as u64)
                .map(|number| Mutex::new(buffer(number)))
                .collect(),
            writer: OnceLock::new(),
            is_awake: AtomicBool::new(false),
            is_half_full: AtomicBool::new(false),
            reopens: AtomicBool::new(false),
            stops: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            written: AtomicU64::new(0),
        })
    }

    /// Returns the buffer of this thread.
    pub fn own(&self) -> MutexGuard<'_, Buffer> {
        let number = threads::current() % self.buffers.len();
        self.buffers[number]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a line that `write` writes, without its end. Drops it if there is no room.
    pub fn append(
        &self,
        mut buffer: MutexGuard<'_, Buffer>,
        write: impl FnOnce(&mut TimeText, &mut Vec<u8>),
    ) {
        let before = buffer.lines.len();
        if before >= limits::LOG_BUFFER_BYTES {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let Buffer { lines, texts, .. } = &mut *buffer;
        write(texts, lines);
        lines.push(b'\n');
        let half = limits::LOG_BUFFER_BYTES / 2;
        let is_half_full = before < half && lines.len() >= half;
        drop(buffer);
        if before == 0 && !self.is_awake.swap(true, Ordering::AcqRel) {
            self.wake();
        }
        if is_half_full {
            self.is_half_full.store(true, Ordering::Release);
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    /// Makes the writer open the file again.
    pub fn reopen(&self) {
        self.reopens.store(true, Ordering::Release);
        self.wake();
    }

    /// Makes the writer end after all lines that are there now.
    pub fn stop(&self) {
        self.stops.store(true, Ordering::Release);
        self.wake();
    }

    /// Lines that were not written: no room in a buffer, or an error.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Lines that were written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Waits until there may be lines. Returns true at a stop.
    fn wait(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        while !is_set(&self.is_awake) && !is_set(&self.stops) && !is_set(&self.reopens) {
            std::thread::park();
        }
        let until = std::time::Instant::now() + limits::LOG_FLUSH;
        while !is_set(&self.is_half_full) && !is_set(&self.stops) && !is_set(&self.reopens) {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::park_timeout(left);
        }
        self.is_half_full.store(false, Ordering::Release);
        is_set(&self.stops)
    }

    fn write_all(&self, destination: &mut Destination, health: &mut Health, spare: &mut Vec<u8>) {
        for buffer in &self.buffers {
            spare.clear();
            std::mem::swap(
                &mut buffer.lock().unwrap_or_else(PoisonError::into_inner).lines,
                spare,
            );
            if spare.is_empty() {
                continue;
            }
            let lines = memchr::memchr_iter(b'\n', spare).count() as u64;
            let (lost, error) = destination.write(spare);
            health.note(destination, lost, error.as_ref());
            self.dropped.fetch_add(lost, Ordering::Relaxed);
            self.written.fetch_add(lines - lost, Ordering::Relaxed);
        }
    }

    fn run(&self, mut destination: Destination) {
        let (mut health, mut spare) = (Health::new(), Vec::new());
        loop {
            let stops = self.wait();
            // A line that comes after this wakes the writer again.
            self.is_awake.store(false, Ordering::Release);
            // What was written before the signal belongs to the old file.
            let reopens = self.reopens.swap(false, Ordering::AcqRel);
            self.write_all(&mut destination, &mut health, &mut spare);
            if reopens && let Err(error) = destination.reopen() {
                let (path, error) = (destination.name(), system_message(&error));
                tracing::error!(
                    path,
                    error,
                    "[http.access_log] cannot be opened again; the old file stays in use"
                );
            }
            if stops {
                return;
            }
        }
    }
}

/// Starts the writer. The receiver gets something when it has ended.
pub(super) fn start(buffers: &Arc<Buffers>, destination: Destination) -> io::Result<Receiver<()>> {
    let (ended, end) = mpsc::channel();
    let own = Arc::clone(buffers);
    let run = move || {
        // The thread may run before the next line of its creator.
        let _ = own.writer.set(std::thread::current());
        own.run(destination);
        let _ = ended.send(());
    };
    let thread = std::thread::Builder::new()
        .name("access-log".to_owned())
        .spawn(run)?;
    let _ = buffers.writer.set(thread.thread().clone());
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::super::destination::LogTarget;
    use super::*;

    fn add(buffers: &Buffers, line: &[u8]) {
        buffers.append(buffers.own(), |_, lines| lines.extend_from_slice(line));
    }

    #[test]
    fn a_stopped_writer_grows_or_blocks_the_requests() {
        let buffers = Buffers::new(1);
        let line = [b'x'; 1000];
        let lines = 2 * limits::LOG_BUFFER_BYTES / line.len();
        for _ in 0..lines {
            add(&buffers, &line);
        }
        let held = buffers.own().lines.len();
        assert!(held <= limits::LOG_BUFFER_BYTES + line.len() + 1, "{held}");
        assert_eq!(buffers.dropped() as usize, lines - held / (line.len() + 1));
    }

    #[test]
    fn a_stop_or_a_signal_loses_lines() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("log"), folder.path().join("old"));
        let buffers = Buffers::new(1);
        let end = start(
            &buffers,
            Destination::open(&LogTarget::File(path.clone()), None).unwrap(),
        )
        .unwrap();
        add(&buffers, b"one");
        std::fs::rename(&path, &old).unwrap();
        buffers.reopen();
        while !path.exists() {
            std::thread::yield_now();
        }
        add(&buffers, b"two");
        buffers.stop();
        end.recv().unwrap();
        let read = |path| std::fs::read_to_string(path).unwrap();
        assert_eq!(
            (read(&old).as_str(), read(&path).as_str()),
            ("one\n", "two\n")
        );
        assert_eq!((buffers.written(), buffers.dropped()), (2, 0));
    }

    #[test]
    fn a_full_disk_ends_the_writer() {
        let buffers = Buffers::new(1);
        let end = start(
            &buffers,
            Destination::open(&LogTarget::File("/dev/full".into()), None).unwrap(),
        )
        .unwrap();
        for expected in 1..=2 {
            add(&buffers, b"one");
            while buffers.dropped() < expected {
                std::thread::yield_now();
            }
        }
        buffers.stop();
        end.recv().unwrap();
        assert_eq!(buffers.written(), 0);
    }
}
