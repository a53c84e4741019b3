//! The node's handle of the store: what requests and the cache ask of it.

use crate::breaker::Outcome;
use crate::client;
use crate::config::ObjectStoreConfig;
use crate::error::Error;
use crate::filter::Layer;
use crate::limits;
use crate::names::Name;
use crate::shared::{Counters, Shared, lock};
use crate::thread::{Job, StoreThread};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use larder_http::{OfferedObject, object_head_bytes};
use object_store::{ObjectStore, ObjectStoreExt};
use std::fmt;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{timeout, timeout_at};

/// The fetched keys of which a second fetch is recognised, in bytes of a layer: as many keys, and
/// up to twice as many.
const FETCHED_BYTES: usize = 1 << 20;

/// Pieces of a body that wait for their reader.
const PIECES: usize = 2;

/// The third tier of a cache. Clones are the same tier.
#[derive(Clone)]
pub struct Objects {
    pub(crate) shared: Arc<Shared>,
    own: Arc<Own>,
}

/// What the thread does not need.
struct Own {
    fetched: Mutex<Fetched>,
    reads: Arc<Semaphore>,
    thread: StoreThread,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shared.config.url)
    }
}

/// The keys that were fetched not long ago.
struct Fetched {
    current: Layer,
    last: Layer,
}

/// An object that is being read.
#[derive(Debug)]
pub struct Found {
    /// Everything before the body.
    pub head: Bytes,
    /// The bytes of the object.
    pub whole: u64,
    /// The body.
    pub body: ObjectBody,
}

/// The body of an object, piece by piece. An `Err` is its last piece.
#[derive(Debug)]
pub struct ObjectBody(pub mpsc::Receiver<Result<Bytes, String>>);

impl Objects {
    /// Looks whether the settings can be used. Does not ask the store.
    ///
    /// # Errors
    /// [`Error`], a line.
    pub fn check(config: &ObjectStoreConfig) -> Result<(), Error> {
        client::store(config).map(drop)
    }

    /// Starts the thread. Whether the store answers is seen later.
    ///
    /// # Errors
    /// [`Error`], a line.
    pub fn start(config: &ObjectStoreConfig) -> Result<Objects, Error> {
        Objects::of(config, Arc::new(client::store(config)?))
    }

    /// Does the same with another client.
    pub(crate) fn of(
        config: &ObjectStoreConfig,
        store: Arc<dyn ObjectStore>,
    ) -> Result<Objects, Error> {
        let shared = Arc::new(Shared::new(config.clone(), store));
        let layer = || Layer::new(FETCHED_BYTES, 0);
        let own = Arc::new(Own {
            fetched: Mutex::new(Fetched {
                current: layer(),
                last: layer(),
            }),
            reads: Arc::new(Semaphore::new(limits::READS)),
            thread: StoreThread::start(&shared)?,
        });
        Ok(Objects { shared, own })
    }

    /// Writes what waits, for [`limits::STOP`] at most, and ends the thread.
    pub fn stop(&self) {
        self.own.thread.stop();
    }

    /// Returns what requests to the store came to.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Returns how long a request waits for an object.
    pub fn config(&self) -> &ObjectStoreConfig {
        &self.shared.config
    }

    /// Returns true if an object with so many bytes of body is worth its price.
    pub fn is_worth(&self, bytes: u64) -> bool {
        self.shared.config.prices.is_worth(bytes)
    }

    /// Takes note of a fetch. Returns true if the same hash was fetched not long ago.
    pub fn was_fetched(&self, hash: u64) -> bool {
        let other = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
        let hash = u128::from(other) << 64 | u128::from(hash);
        let mut fetched = lock(&self.own.fetched);
        let Fetched { current, last } = &mut *fetched;
        let is_new = current.insert(hash);
        let was_fetched = !is_new || last.may_have(hash);
        if current.is_full() {
            *last = std::mem::replace(current, Layer::new(FETCHED_BYTES, 0));
        }
        was_fetched
    }

    /// Takes an object to write, if there is room in the queue. Returns false if not.
    pub fn offer(&self, offered: OfferedObject) -> bool {
        let shared = &self.shared;
        let name = Name::new(&offered.key, offered.variant);
        if !offered.is_new && lock(&shared.filter).may_have(name) {
            return false;
        }
        let of_key = Name::new(&offered.key, 0);
        if let Some(note) = offered.note {
            let is_there = lock(&shared.notes)
                .get(&of_key)
                .is_some_and(|(written, names)| {
                    written.elapsed() < limits::NOTE && *names == offered.selected_by
                });
            if !is_there {
                if !self.enqueue(of_key, [note, Bytes::new()], true) {
                    return false;
                }
                shared.add_note(of_key, offered.selected_by);
            }
        }
        self.enqueue(name, [offered.head, offered.body], false)
    }

    fn enqueue(&self, name: Name, parts: [Bytes; 2], is_note: bool) -> bool {
        let counters = &self.shared.counters;
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        let waiting = counters.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = waiting + bytes <= self.shared.config.queue.bytes();
        let may_write = has_room && lock(&self.shared.write_breaker).may_ask(Instant::now());
        let job = Job::Put {
            name,
            parts,
            bytes,
            is_note,
        };
        let is_sent = may_write && self.own.thread.send(job);
        if !is_sent {
            counters.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
        is_sent
    }

    /// Removes the object of a key, if there may be one. Each cache compares what it reads with its
    /// purges: this saves room.
    pub fn remove(&self, key: &[u8]) {
        let shared = &self.shared;
        let name = Name::new(key, 0);
        if !lock(&shared.filter).knows(name) {
            return;
        }
        lock(&shared.notes).remove(&name);
        let mut removed = lock(&shared.removed);
        if removed.len() >= limits::NAMES {
            removed.clear();
        }
        if !removed.insert(name) {
            return;
        }
        drop(removed);
        let waiting = &shared.counters.waiting_removals;
        let has_room = waiting.fetch_add(1, Ordering::Relaxed) < limits::REMOVALS;
        let may_write = has_room && lock(&shared.write_breaker).may_ask(Instant::now());
        if !may_write || !self.own.thread.send(Job::Delete { name }) {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Reads an object: its head until then. `None` if it does not exist or does not come.
    pub async fn get(&self, key: &[u8], variant: u32, until: Instant) -> Option<Found> {
        let shared = &self.shared;
        let name = Name::new(key, variant);
        if !lock(&shared.filter).may_have(name) {
            return None;
        }
        let place = Arc::clone(&self.own.reads).try_acquire_owned().ok()?;
        if !lock(&shared.breaker).may_ask(Instant::now()) {
            return None;
        }
        let (head_sender, head) = oneshot::channel();
        let shared = Arc::clone(shared);
        self.own.thread.spawn(async move {
            read(&shared, name, head_sender).await;
            drop(place);
        });
        match timeout_at(until.into(), head).await {
            Ok(found) => found.ok().flatten(),
            Err(_) => {
                self.shared.counters.late.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

/// Reads an object on the thread, and passes it on. Its result is recorded when the head is there
/// or nobody waits any longer, and once more if the body breaks off.
async fn read(shared: &Shared, name: Name, found: oneshot::Sender<Option<Found>>) {
    let counters = &shared.counters;
    let path = name.path(&shared.config.url.prefix);
    let mut asked = pin!(shared.store.get(&path));
    let in_time = timeout(shared.config.wait, asked.as_mut()).await;
    let mut answer = Outcome::Good;
    let result = match in_time {
        Ok(result) => result,
        Err(_) => {
            shared.note_read(Outcome::Late, &"objects come later than `wait`");
            answer = Outcome::Answered;
            asked.await
        }
    };
    let result = match result {
        Ok(result) => result,
        Err(error) => {
            if matches!(error, object_store::Error::NotFound { .. }) {
                counters.missing.fetch_add(1, Ordering::Relaxed);
                shared.note_read(answer, &"");
            } else {
                shared.note_read(Outcome::Failed, &error);
            }
            let _ = found.send(None);
            return;
        }
    };
    let whole = result.meta.size;
    let mut stream = result.into_stream();
    let read = timeout(limits::PIECE, read_head(&mut stream)).await;
    let Ok(Some((head, rest))) = read else {
        counters.missing.fetch_add(1, Ordering::Relaxed);
        shared.note_read(Outcome::Failed, &"what was read is no object");
        let _ = found.send(None);
        return;
    };
    shared.note_read(answer, &"");
    let (sender, body) = mpsc::channel(PIECES);
    let mut bytes = head.len() as u64;
    let body = ObjectBody(body);
    if found.send(Some(Found { head, whole, body })).is_err() {
        return;
    }
    counters.read.fetch_add(1, Ordering::Relaxed);
    let first = (!rest.is_empty()).then(|| Ok(rest));
    let mut pieces = futures_util::stream::iter(first).chain(stream);
    loop {
        let piece = match timeout(limits::PIECE, pieces.next()).await {
            Ok(Some(piece)) => piece.map_err(|error| error.to_string()),
            Ok(None) => break,
            Err(_) => Err("the rest of an object does not come".to_owned()),
        };
        if let Err(error) = &piece {
            shared.note_read(Outcome::Failed, error);
        }
        let is_last = piece.is_err();
        bytes += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        if sender.send(piece).await.is_err() || is_last {
            break;
        }
    }
    counters.read_bytes.fetch_add(bytes, Ordering::Relaxed);
}

/// Returns everything before the body, and the begin of the body; `None` if it is no object.
async fn read_head(
    stream: &mut BoxStream<'static, object_store::Result<Bytes>>,
) -> Option<(Bytes, Bytes)> {
    let mut read = Vec::new();
    loop {
        let mut piece = stream.next().await?.ok()?;
        if read.is_empty() {
            // Mostly the first piece has all of it.
            if let Some(length) = object_head_bytes(&piece)
                && (1..=piece.len()).contains(&length)
            {
                let head = piece.split_to(length);
                return Some((head, piece));
            }
        }
        read.extend_from_slice(&piece);
        match object_head_bytes(&read) {
            Some(0) => return None,
            Some(length) if read.len() >= length => {
                let mut read = Bytes::from(read);
                let head = read.split_to(length);
                return Some((head, read));
            }
            _ => {}
        }
    }
}
