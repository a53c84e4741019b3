//! A log in a file, with the threads that write, sync and read.

mod file;
mod readers;
mod reads;
mod status;

use crate::error::{Error, Problem};
use crate::limits;
use file::DiskFile;
use larder_disk::{Bans, Config, Geometry, Identity, Log, OpenError, Opened};
use larder_policy::Spec;
use larder_units::{ByteSize, Streams, Time, parsed, system_message};
use readers::{Read, run_reads};
pub use reads::{Asked, Found};
use serde::Deserialize;
pub use status::{metrics, status};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::timeout;

/// The configuration of a tier: `[http.disk]`, and `[ndn.disk]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskConfig {
    /// The file.
    pub path: PathBuf,
    /// Its size; objects take up to three quarters of it.
    pub capacity: ByteSize,
    /// Its policies.
    #[serde(deserialize_with = "parsed", default = "fifo")]
    pub policy: Spec,
    /// Memory for records that wait to be written. Further records are not stored there. A file
    /// does not say it: see [`DiskConfig::behind`].
    #[serde(skip)]
    pub queue: ByteSize,
}

impl DiskConfig {
    /// Returns the configuration of a tier behind a cache in memory of this size.
    #[must_use]
    pub fn behind(self, cache: ByteSize) -> DiskConfig {
        let queue = cache.bytes() / limits::QUEUE_SHARE;
        let queue = queue.clamp(limits::QUEUE_LEAST_BYTES, limits::QUEUE_MOST_BYTES);
        DiskConfig {
            queue: ByteSize::from_bytes(queue),
            ..self
        }
    }
}

#[allow(clippy::expect_used, reason = "a literal, parsed by a test")]
fn fifo() -> Spec {
    "fifo".parse().expect("a policy that a test parses")
}

/// Checks a tier's file without changing it.
///
/// # Errors
/// One line about the path or the capacity. A file that another process has locked is no error if
/// `may_be_in_use`.
pub fn check(setting: &str, config: &DiskConfig, may_be_in_use: bool) -> Result<(), Error> {
    let geometry = geometry(setting, config)?;
    match file::check(&config.path, geometry.file_bytes()) {
        Err(error) if may_be_in_use && error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
        checked => checked.map_err(|error| {
            of_path(
                setting,
                Problem::File {
                    path: config.path.clone(),
                    error,
                },
            )
        }),
    }
}

fn geometry(setting: &str, config: &DiskConfig) -> Result<Geometry, Error> {
    Geometry::of(config.capacity)
        .map_err(|error| refused(format!("{setting} capacity"), Problem::Capacity(error)))
}

fn of_path(setting: &str, problem: Problem) -> Error {
    refused(format!("{setting} path"), problem)
}

fn refused(setting: String, problem: Problem) -> Error {
    Error::Setting { setting, problem }
}

/// A log in a file, with its threads. Clones share it.
pub struct Disk<M>(Arc<Shared<M>>);

impl<M> Clone for Disk<M> {
    fn clone(&self) -> Self {
        Disk(Arc::clone(&self.0))
    }
}

struct Shared<M> {
    state: Mutex<State<M>>,
    wake: Condvar,
    /// Permits for values that are checked before they are read in parts.
    opens: Semaphore,
    /// The number of reclaimed regions.
    reclaimed: watch::Sender<u64>,
    file: DiskFile,
    path: PathBuf,
    started: Instant,
}

struct State<M> {
    log: Log<M>,
    /// The callers that wait for a sync, and the position that each waits for.
    settling: Vec<(u64, oneshot::Sender<()>)>,
    reads: Option<SyncSender<Read>>,
    /// The queue for parts: a body that is being sent does not wait for others to begin.
    part_reads: Option<SyncSender<Read>>,
    /// Reads that found the queue full, or were not answered in time.
    reads_refused: u64,
    /// Values that were overwritten before their slow reader had all of them.
    cut_short: u64,
    /// How often the log had to remove everything, as far as it was logged; and the time from which
    /// it may be logged again.
    emptied: u64,
    next_warning: Time,
    /// Set after the log has failed: true if its file is empty.
    retired: Option<bool>,
    stopping: bool,
    /// Set when the file is left to another process: nothing is looked up or changed any more.
    released: bool,
    /// The thread that writes; `None` if it has written its last byte.
    writer: Option<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
}

/// A tier's figures.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DiskFigures {
    pub counters: larder_disk::Counters,
    pub spec: String,
    pub used: ByteSize,
    pub capacity: ByteSize,
    pub objects: usize,
    pub queued_bytes: usize,
    pub state_bytes: usize,
    pub reads_refused: u64,
    pub cut_short: u64,
    /// The reason of its failure.
    pub failure: Option<String>,
}

impl<M: Bans + Send + 'static> Disk<M> {
    /// Opens the log and starts its threads. `setting` is the table of the configuration, for
    /// errors.
    ///
    /// # Errors
    /// One line about the path or the capacity. A disk that fails is no error: the tier is empty
    /// then.
    pub fn start(
        setting: &str,
        config: &DiskConfig,
        bans: M,
        streams: &Streams,
    ) -> Result<Disk<M>, Error> {
        let begun = Instant::now();
        let geometry = geometry(setting, config)?;
        let path = || config.path.clone();
        let opened = DiskFile::open(&config.path);
        let file = opened.map_err(|error| {
            of_path(
                setting,
                Problem::File {
                    path: path(),
                    error,
                },
            )
        })?;
        let log_config = Config {
            geometry,
            policy: config.policy.clone(),
            queue_bytes: usize::try_from(config.queue.bytes()).unwrap_or(usize::MAX),
        };
        let opened = Log::open(
            &file,
            &log_config,
            fresh_identity(),
            bans,
            streams,
            Time::ZERO,
        );
        let (mut log, opened) = opened.map_err(|error| match error {
            OpenError::Foreign => of_path(setting, Problem::Foreign(path())),
            OpenError::Policy(error) => {
                refused(format!("{setting} policy"), Problem::Policy(error))
            }
        })?;
        if let Err(error) = file.reserve(geometry.file_bytes()) {
            log.fail(error);
        }
        report(&config.path, opened, &log, begun.elapsed());
        let (reads, waiting) = sync_channel(limits::DISK_READS_WAITING);
        let (part_reads, waiting_parts) = sync_channel(limits::DISK_READS_WAITING);
        let state = State {
            log,
            settling: Vec::new(),
            reads: Some(reads),
            part_reads: Some(part_reads),
            reads_refused: 0,
            cut_short: 0,
            emptied: 0,
            next_warning: Time::ZERO,
            retired: None,
            stopping: false,
            released: false,
            writer: None,
            readers: Vec::new(),
        };
        let path = config.path.clone();
        let (wake, reclaimed) = (Condvar::new(), watch::Sender::new(0));
        let (state, opens) = (Mutex::new(state), Semaphore::new(limits::DISK_OPENS));
        let shared = Shared {
            state,
            wake,
            opens,
            reclaimed,
            file,
            path,
            started: begun,
        };
        let disk = Disk(Arc::new(shared));
        disk.spawn([waiting, waiting_parts])
            .map_err(Error::Thread)?;
        Ok(disk)
    }

    fn spawn(&self, waiting: [Receiver<Read>; 2]) -> std::io::Result<()> {
        let writer = self.clone();
        let writer = std::thread::Builder::new()
            .name("disk".to_owned())
            .spawn(move || writer.write())?;
        self.lock().writer = Some(writer);
        for (waiting, count) in waiting
            .into_iter()
            .zip([limits::DISK_READERS, limits::DISK_PART_READERS])
        {
            let waiting = Arc::new(Mutex::new(waiting));
            for _ in 0..count {
                let waiting = Arc::clone(&waiting);
                let thread = std::thread::Builder::new().name("disk-read".to_owned());
                let thread = thread.spawn(move || run_reads(&waiting))?;
                self.lock().readers.push(thread);
            }
        }
        Ok(())
    }

    /// Calls the log for a change. Returns `None` after [`Disk::release`]: another process has the
    /// file.
    pub fn change<T>(&self, call: impl FnOnce(&mut Log<M>, Time) -> T) -> Option<T> {
        self.with_state(|state, now| (!state.released).then(|| call(&mut state.log, now)))
    }

    /// Calls the log, and wakes the writer if there is work for it.
    pub fn with<T>(&self, call: impl FnOnce(&mut Log<M>, Time) -> T) -> T {
        self.with_state(|state, now| call(&mut state.log, now))
    }

    fn with_state<T>(&self, call: impl FnOnce(&mut State<M>, Time) -> T) -> T {
        let mut state = self.lock();
        let was_idle = state.log.next_timeout().is_none();
        let result = call(&mut state, self.now());
        self.warn_if_emptied(&mut state);
        let is_due = was_idle && state.log.next_timeout().is_some();
        if is_due
            || state.log.queued_bytes() >= larder_disk::limits::WRITE_BYTES
            || state.log.has_failed()
        {
            self.0.wake.notify_one();
        }
        result
    }

    /// Logs why the cache is cold.
    fn warn_if_emptied(&self, state: &mut State<M>) {
        let emptied = state.log.counters().emptied;
        if emptied == state.emptied || self.now() < state.next_warning {
            return;
        }
        (state.emptied, state.next_warning) = (emptied, self.now() + limits::WARNINGS);
        tracing::warn!(
            path = %self.0.path.display(),
            times = emptied,
            limit = larder_disk::limits::TOMBSTONES,
            "more removals wait for the disk than may, and it has been emptied: it is too slow for what is stored there; \
             give it a policy that stores less, or a faster disk"
        );
    }

    /// Waits until all earlier changes are on the disk. After [`Disk::release`] it waits for none.
    ///
    /// # Errors
    /// One line if that is impossible. The file may still hold removed records then.
    pub async fn settle(&self) -> Result<(), Error> {
        let (done, waiting) = oneshot::channel();
        let ticket = {
            let mut state = self.lock();
            if state.released {
                return Ok(());
            }
            let ticket = state.log.settle(self.now());
            if state.settling.len() == state.settling.capacity() {
                // Those that were not answered in time.
                state.settling.retain(|(_, done)| !done.is_closed());
            }
            state.settling.push((ticket, done));
            self.answer_settled(&mut state);
            self.0.wake.notify_one();
            ticket
        };
        // The result is read below.
        let _ = timeout(limits::DISK_PATIENCE, waiting).await;
        let (state, path) = (self.lock(), || self.0.path.clone());
        match state.log.is_settled(ticket) || state.retired == Some(true) {
            true => Ok(()),
            false if state.retired.is_none() => Err(Error::NotSynced(path())),
            false => Err(Error::NotEmptied(path())),
        }
    }

    /// Writes what has to be written, and ends the threads. Does not wait for ever for a disk that
    /// hangs.
    pub fn stop(&self) {
        let begun = Instant::now();
        self.lock().part_reads = None;
        if self.end_writer() {
            self.wait_while(begun, |state| {
                state.readers.iter().any(|thread| !thread.is_finished())
            });
        }
    }

    /// Writes what has to be written, and leaves the file to another process. From then on, lookups
    /// find nothing, and changes have no effect. Parts are read on: a region that the other process
    /// has overwritten has other checksums.
    pub fn release(&self) {
        self.lock().released = true;
        // A writer that hangs may write later.
        if self.end_writer()
            && let Err(error) = self.0.file.unlock()
        {
            let (path, error) = (self.0.path.display(), system_message(&error));
            tracing::error!(%path, error, "the disk tier cannot be left to another process");
        }
    }

    /// Takes back the file after [`Disk::release`], because the other process has failed. The file
    /// is emptied and not used until the next start: it does not know what was removed meanwhile.
    pub fn take_back(&self) {
        let mut state = self.lock();
        if !std::mem::take(&mut state.released) || state.log.has_failed() {
            return;
        }
        state.log.fail(std::io::Error::other(
            "it was closed for an upgrade, which has failed",
        ));
        // A writer that hangs empties the file when it goes on.
        if state.writer.is_none() {
            self.retire(state);
        }
    }

    /// Ends lookups and the thread that writes. Returns false if the disk hangs.
    fn end_writer(&self) -> bool {
        {
            let mut state = self.lock();
            state.stopping = true;
            state.reads = None;
            state.log.settle(self.now());
        }
        self.0.wake.notify_one();
        let is_writing = |state: &mut State<M>| {
            // A panic of the thread is logged by itself.
            drop(state.writer.take_if(|writer| writer.is_finished()));
            state.writer.is_some()
        };
        self.wait_while(Instant::now(), is_writing)
    }

    /// Waits for threads. Returns false if the disk hangs.
    fn wait_while(
        &self,
        begun: Instant,
        mut is_running: impl FnMut(&mut State<M>) -> bool,
    ) -> bool {
        while is_running(&mut self.lock()) {
            if begun.elapsed() >= limits::DISK_PATIENCE {
                let path = self.0.path.display();
                tracing::error!(%path, "the disk tier hangs: what it has not synced is lost");
                return false;
            }
            std::thread::sleep(limits::DISK_STOP_LOOK);
        }
        true
    }

    /// Returns its figures.
    pub fn figures(&self) -> DiskFigures {
        let state = self.lock();
        let engine = state.log.engine();
        DiskFigures {
            counters: state.log.counters(),
            spec: engine.spec().to_string(),
            used: engine.used(),
            capacity: engine.capacity(),
            objects: engine.len(),
            queued_bytes: state.log.queued_bytes(),
            state_bytes: state.log.state_bytes(),
            reads_refused: state.reads_refused,
            cut_short: state.cut_short,
            failure: state.log.failure().map(system_message),
        }
    }

    /// The thread that writes.
    fn write(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.log.job(self.now()) {
                drop(state);
                let done = job.run(&self.0.file);
                state = self.lock();
                state.log.complete(done, self.now());
                self.answer_settled(&mut state);
                let reclaimed = state.log.counters().regions_reclaimed;
                self.0
                    .reclaimed
                    .send_if_modified(|known| std::mem::replace(known, reclaimed) != reclaimed);
                continue;
            }
            if state.log.has_failed() {
                return self.retire(state);
            }
            if state.stopping {
                state.writer = None;
                return;
            }
            let idle = limits::DISK_IDLE;
            let wait = state
                .log
                .next_timeout()
                .map_or(idle, |at| at.since(self.now()).min(idle));
            state = self
                .0
                .wake
                .wait_timeout(state, wait)
                .map_or_else(|held| held.into_inner().0, |held| held.0);
        }
    }

    /// Retires a failed log, on its writer or after its end: its file does not know later removals,
    /// so it must not be read again.
    fn retire(&self, mut state: MutexGuard<'_, State<M>>) {
        let path = self.0.path.display();
        let reason = state.log.failure().map_or_else(String::new, system_message);
        let emptied = match self.0.file.empty() {
            Ok(()) => {
                tracing::error!(%path, reason, "the disk tier has failed: on without it until the next start");
                true
            }
            Err(error) => {
                let error = system_message(&error);
                tracing::error!(%path, reason, error, "the disk tier has failed, and its file cannot be emptied: remove it before the next start");
                false
            }
        };
        (state.retired, state.writer) = (Some(emptied), None);
        self.answer_settled(&mut state);
    }

    fn answer_settled(&self, state: &mut State<M>) {
        let State {
            log,
            settling,
            retired,
            ..
        } = state;
        let over = |ticket: u64| log.is_settled(ticket) || retired.is_some();
        let mut at = 0;
        while at < settling.len() {
            if over(settling[at].0) {
                // The caller may have gone.
                let _ = settling.swap_remove(at).1.send(());
            } else {
                at += 1;
            }
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.0.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// A method of the log leaves it consistent or does not return: a panic in one is a bug, and
    /// the log continues.
    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fresh_identity() -> Identity {
    let [id, key_a, key_b] = larder_host::entropy::words();
    let mut hash_key = [0; 16];
    hash_key[..8].copy_from_slice(&key_a.to_le_bytes());
    hash_key[8..].copy_from_slice(&key_b.to_le_bytes());
    Identity { id, hash_key }
}

/// The thread that empties the file reports a failure.
fn report<M: Bans>(path: &Path, opened: Opened, log: &Log<M>, took: Duration) {
    let (path, objects) = (path.display(), log.engine().len());
    match opened {
        Opened::New => tracing::info!(%path, "a new disk tier"),
        Opened::Found => {
            tracing::info!(%path, objects, seconds = took.as_secs_f64(), "the disk tier is back")
        }
        Opened::Replaced => {
            tracing::warn!(%path, "the disk tier is of another size or version, or damaged: it begins empty")
        }
        Opened::Failed => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a disk hangs, and with it every request for its records and every unsafe request.
    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_disk_that_hangs() {
        let folder = tempfile::tempdir().unwrap();
        let (path, policy) = (folder.path().join("tier"), "fifo".parse().unwrap());
        let config = DiskConfig {
            path,
            capacity: ByteSize::from_mib(8),
            policy,
            queue: ByteSize::from_mib(1),
        };
        let disk = Disk::start("[http.disk]", &config, (), &Streams::new(1)).unwrap();
        disk.with(|log, now| {
            log.put(
                b"key",
                0,
                [b"value".as_slice().into(), b"".as_slice().into()],
                now,
            )
        });
        disk.stop();
        let (reads, nobody) = sync_channel(1);
        disk.lock().reads = Some(reads);
        let room = Arc::new(());
        let hold = |_| Some(Arc::clone(&room));
        assert!(disk.tier_lookup(b"key", None, 0, hold).await.is_none());
        assert_eq!(
            Arc::strong_count(&room),
            2,
            "what is still to be read takes its room"
        );
        disk.lock().reads = None;
        drop(nobody);
        assert_eq!(Arc::strong_count(&room), 1);
        disk.with(|log, now| log.remove(b"key", now));
        let error = disk.settle().await.unwrap_err().to_string();
        assert!(
            error.contains("tier") && error.contains("not synced"),
            "{error}"
        );
        assert_eq!(disk.figures().reads_refused, 1);
    }

    fn disk_at(path: &Path) -> Result<Disk<()>, Error> {
        let (path, policy) = (path.to_owned(), "fifo".parse().unwrap());
        let config = DiskConfig {
            path,
            capacity: ByteSize::from_mib(8),
            policy,
            queue: ByteSize::from_mib(4),
        };
        Disk::start("[http.disk]", &config, (), &Streams::new(1))
    }

    fn put(disk: &Disk<()>, key: &[u8], value: &[u8]) -> Option<larder_disk::Put> {
        let value = [bytes::Bytes::copy_from_slice(value), bytes::Bytes::new()];
        disk.change(|log, now| log.put(key, 0, value, now))
    }

    /// Failure: an upgrade cuts a body that is being sent, or mixes it with what the new process
    /// writes; or the old process changes or finds something later.
    #[tokio::test]
    async fn a_released_tier_reads_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tier");
        let old = disk_at(&path).unwrap();
        let value: Vec<u8> = (0..300_000_u32)
            .map(|number| (number % 251) as u8)
            .collect();
        put(&old, b"key", &value).unwrap();
        old.settle().await.unwrap();
        let nothing = |_| None::<()>;
        let Some(Found::First(_, mut parts)) = old.tier_lookup(b"key", None, 10, nothing).await
        else {
            panic!("no parts")
        };
        old.release();
        let new = disk_at(&path).unwrap();
        assert_eq!(put(&old, b"late", b"value"), None);
        assert!(old.tier_lookup(b"key", None, 10, nothing).await.is_none());
        let mut at = 0;
        while at < value.len() {
            let part = old.read_part(&mut parts, at as u64).await.unwrap();
            assert_eq!(part, value[at..at + part.len()]);
            at += part.len();
        }
        for number in 0..100_u32 {
            put(&new, &number.to_be_bytes(), &[7; 200_000]).unwrap();
            new.settle().await.unwrap();
        }
        assert!(
            old.read_part(&mut parts, 0).await.is_err(),
            "it is overwritten"
        );
        new.stop();
        old.stop();
    }

    /// Failure: two processes write one file, because the old one's disk hangs; or a failed upgrade
    /// brings back what was removed.
    #[tokio::test]
    async fn a_tier_has_two_writers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tier");
        let disk = disk_at(&path).unwrap();
        put(&disk, b"key", b"value").unwrap();
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        disk.release();
        disk.lock().writer = Some(std::thread::spawn(move || _ = wait.recv()));
        assert!(disk.0.file.lock().is_ok());
        for _ in 0..2 {
            disk.release();
            assert!(disk_at(&path).is_err(), "the old process may write");
        }
        drop(go_on);
        disk.release();
        let other = disk_at(&path).unwrap();
        assert_eq!(other.figures().objects, 1);
        other.stop();
        drop(other);
        disk.take_back();
        assert!(disk_at(&path).is_err());
        disk.settle().await.unwrap();
        disk.release();
        assert_eq!(
            disk_at(&path).unwrap().figures().objects,
            0,
            "what was removed comes back"
        );
    }

    /// Failure: one lost block at the start of the file makes the node refuse all of it.
    #[tokio::test]
    async fn a_lost_first_block_costs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (path, policy) = (folder.path().join("tier"), "fifo".parse().unwrap());
        let config = DiskConfig {
            path,
            capacity: ByteSize::from_mib(8),
            policy,
            queue: ByteSize::from_mib(1),
        };
        let disk = Disk::start("[http.disk]", &config, (), &Streams::new(1)).unwrap();
        disk.with(|log, now| {
            log.put(
                b"key",
                0,
                [b"value".as_slice().into(), b"".as_slice().into()],
                now,
            )
        });
        disk.settle().await.unwrap();
        disk.stop();
        drop(disk);
        let mut bytes = std::fs::read(&config.path).unwrap();
        assert!(bytes[..4096].iter().any(|byte| *byte != 0));
        bytes[..4096].fill(0);
        std::fs::write(&config.path, &bytes).unwrap();
        let disk = Disk::start("[http.disk]", &config, (), &Streams::new(1)).unwrap();
        assert!(
            disk.tier_lookup(b"key", None, 0, |_| Some(()))
                .await
                .is_some()
        );
        assert_ne!(
            std::fs::read(&config.path).unwrap()[..4096],
            [0; 4096],
            "it is written again"
        );
        disk.stop();
    }
}
