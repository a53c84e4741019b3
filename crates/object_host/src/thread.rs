//! The thread `object-store`: writes, removes, and keeps the filter.

use crate::error::Error;
use crate::filter::Layer;
use crate::limits;
use crate::names::{self, Name};
use crate::shared::{Shared, lock, unix_seconds};
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::{ObjectStoreExt, PutPayload};
use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// A task of the thread.
pub(crate) enum Job {
    Put {
        name: Name,
        parts: [Bytes; 2],
        bytes: u64,
        /// Whether it is a note.
        is_note: bool,
    },
    Delete {
        name: Name,
    },
}

/// The thread, from outside.
pub(crate) struct StoreThread {
    jobs: mpsc::UnboundedSender<Job>,
    stop: Arc<Notify>,
    runtime: Handle,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl StoreThread {
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<StoreThread, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::Thread)?;
        let (sender, jobs) = mpsc::unbounded_channel();
        let worker = Worker {
            shared: Arc::clone(shared),
            node: random(),
            places: Arc::new(Semaphore::new(limits::WRITES)),
            read: Vec::new(),
        };
        let (handle, stop) = (runtime.handle().clone(), Arc::<Notify>::default());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("object-store".to_owned())
            .spawn(move || {
                runtime.block_on(worker.run(jobs, stopped));
                // A name that is being resolved keeps nobody waiting.
                runtime.shutdown_background();
            })
            .map_err(Error::Thread)?;
        Ok(StoreThread {
            jobs: sender,
            stop,
            runtime: handle,
            running: Mutex::new(Some(thread)),
        })
    }

    /// Returns false after the end.
    pub(crate) fn send(&self, job: Job) -> bool {
        self.jobs.send(job).is_ok()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    pub(crate) fn stop(&self) {
        self.stop.notify_one();
        if let Some(thread) = lock(&self.running).take() {
            let _ = thread.join();
        }
    }
}

/// Filters of two runs of a node are two.
fn random() -> u128 {
    let mut bytes = [0; 16];
    // Without randomness, two nodes may write one filter, and each knows less.
    let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    u128::from_le_bytes(bytes)
}

struct Worker {
    shared: Arc<Shared>,
    /// The name of the node's filter.
    node: u128,
    places: Arc<Semaphore>,
    /// The filters that were read: the name, and the tag by which a change is seen.
    read: Vec<(String, Option<String>)>,
}

impl Worker {
    async fn run(mut self, mut jobs: mpsc::UnboundedReceiver<Job>, stop: Arc<Notify>) {
        tokio::select! {
            () = self.work(&mut jobs) => {}
            () = stop.notified() => {}
        }
        jobs.close();
        let rest = async {
            while let Some((job, place)) = next(&self.places, &mut jobs).await {
                self.carry_out(job, place);
            }
            // All writes have ended.
            let _all = self.places.acquire_many(limits::WRITES as u32).await;
        };
        let _ = timeout(limits::STOP, rest).await;
        let _ = timeout(limits::STOP, self.write_filter()).await;
    }

    /// Works until nobody has jobs any more.
    async fn work(&mut self, jobs: &mut mpsc::UnboundedReceiver<Job>) {
        let mut writes = interval(limits::FILTER_WRITES);
        let mut reads = interval(limits::FILTER_READS);
        for interval in [&mut writes, &mut reads] {
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        writes.tick().await;
        let places = Arc::clone(&self.places);
        loop {
            tokio::select! {
                job = next(&places, jobs) => match job {
                    Some((job, place)) => self.carry_out(job, place),
                    None => return,
                },
                _ = writes.tick() => self.write_filter().await,
                _ = reads.tick() => {
                    let read = timeout(limits::FILTERS, self.read_filters()).await;
                    let error = match read {
                        Ok(Ok(())) => continue,
                        Ok(Err(error)) => error.to_string(),
                        Err(_) => format!("its filters take longer than {:?}", limits::FILTERS),
                    };
                    self.shared.write_failed(&error);
                    lock(&self.shared.filter).set_others_away();
                    reads.reset_after(limits::PAUSE);
                },
            }
        }
    }

    fn carry_out(&self, job: Job, place: OwnedSemaphorePermit) {
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            match job {
                Job::Put {
                    name,
                    parts,
                    bytes,
                    is_note,
                } => {
                    put(&shared, name, parts, bytes, is_note).await;
                    let waiting = &shared.counters.waiting_bytes;
                    waiting.fetch_sub(bytes, Ordering::Relaxed);
                }
                Job::Delete { name } => {
                    delete(&shared, name).await;
                    let waiting = &shared.counters.waiting_removals;
                    waiting.fetch_sub(1, Ordering::Relaxed);
                }
            }
            drop(place);
        });
    }

    /// Writes the own layers that have changed.
    async fn write_filter(&self) {
        let shared = &self.shared;
        loop {
            let changed = lock(&shared.filter).changed();
            let Some((number, version, bytes)) = changed else {
                return;
            };
            let path = names::filter(&shared.config.url.prefix, self.node, number);
            if let Err(error) = shared.store.put(&path, PutPayload::from(bytes)).await {
                return shared.write_failed(&error);
            }
            shared.write_succeeded();
            lock(&shared.filter).set_written(number, version);
        }
    }

    /// Reads the filters of the others that have changed, and removes those whose objects the
    /// bucket has removed.
    async fn read_filters(&mut self) -> object_store::Result<()> {
        let shared = Arc::clone(&self.shared);
        let prefix = &shared.config.url.prefix;
        let oldest = unix_seconds().saturating_sub(shared.config.keep.as_secs());
        lock(&shared.filter).forget(oldest);
        let mut listed = shared.store.list(Some(&names::filters(prefix)));
        let (mut all, mut read) = (Vec::new(), Vec::new());
        let own = format!("{:032x}-", self.node);
        while let Some(meta) = listed.next().await {
            let meta = meta?;
            let name = meta.location.filename().unwrap_or_default().to_owned();
            if name.starts_with(&own) {
                continue;
            }
            // Its last object is as old.
            if u64::try_from(meta.last_modified.timestamp()).unwrap_or(0) < oldest {
                let _ = shared.store.delete(&meta.location).await;
                continue;
            }
            let known = (name.clone(), meta.e_tag.clone());
            if !self.read.contains(&known) || known.1.is_none() {
                let layer = self.read_layer(&meta.location, meta.size).await?;
                read.extend(layer.map(|layer| (name.clone(), layer)));
            }
            all.push(known);
        }
        let names: Vec<String> = all.iter().map(|(name, _)| name.clone()).collect();
        lock(&shared.filter).set_others(&names, read);
        self.read = all;
        self.shared.write_succeeded();
        Ok(())
    }

    async fn read_layer(
        &self,
        path: &object_store::path::Path,
        size: u64,
    ) -> object_store::Result<Option<Layer>> {
        // What is larger is no layer of ours.
        if size > limits::LAYER_BYTES as u64 + 1024 {
            return Ok(None);
        }
        let read = match self.shared.store.get(path).await {
            // Another node has removed it meanwhile.
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            read => read?,
        };
        let read = timeout(limits::CONNECT + limits::PIECE, read.bytes()).await;
        let slow = |_| object_store::Error::Generic {
            store: "S3",
            source: "a filter does not come".into(),
        };
        Ok(Layer::decode(&read.map_err(slow)??))
    }
}

/// Returns the next job, and a place for it. A job that waits for a place is not lost.
async fn next(
    places: &Arc<Semaphore>,
    jobs: &mut mpsc::UnboundedReceiver<Job>,
) -> Option<(Job, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    Some((jobs.recv().await?, place))
}

async fn put(shared: &Shared, name: Name, parts: [Bytes; 2], bytes: u64, is_note: bool) {
    let path = name.path(&shared.config.url.prefix);
    let payload = PutPayload::from_iter(parts);
    if let Err(error) = shared.store.put(&path, payload).await {
        if is_note {
            lock(&shared.notes).remove(&name);
        }
        return shared.write_failed(&error);
    }
    shared.write_succeeded();
    if !is_note {
        // A response without variants has taken the place of a note.
        lock(&shared.notes).remove(&name);
    }
    lock(&shared.removed).remove(&name);
    let counters = &shared.counters;
    counters.written.fetch_add(1, Ordering::Relaxed);
    counters.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    lock(&shared.filter).insert(name, unix_seconds());
}

async fn delete(shared: &Shared, name: Name) {
    let path = name.path(&shared.config.url.prefix);
    match shared.store.delete(&path).await {
        Ok(()) => {
            shared.write_succeeded();
            shared.counters.removed.fetch_add(1, Ordering::Relaxed);
        }
        Err(object_store::Error::NotFound { .. }) => {}
        Err(error) => shared.write_failed(&error),
    }
}
