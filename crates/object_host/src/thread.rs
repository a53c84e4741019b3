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
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// A task of the thread.
pub(crate) enum Job {
    Put {
        name: Name,
        parts: [Bytes; 2],
        bytes: u64,
    },
    Delete {
        name: Name,
    },
    /// Nothing comes afterwards.
    Stop,
}

/// The thread, from outside.
pub(crate) struct StoreThread {
    jobs: mpsc::UnboundedSender<Job>,
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
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new()
            .name("object-store".to_owned())
            .spawn(move || runtime.block_on(worker.run(jobs)))
            .map_err(Error::Thread)?;
        Ok(StoreThread {
            jobs: sender,
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
        self.send(Job::Stop);
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
    async fn run(mut self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        let mut writes = interval(limits::FILTER_WRITES);
        let mut reads = interval(limits::FILTER_READS);
        for interval in [&mut writes, &mut reads] {
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        writes.tick().await;
        loop {
            tokio::select! {
                job = jobs.recv() => match job {
                    Some(Job::Stop) | None => break,
                    Some(job) => self.carry_out(job).await,
                },
                _ = writes.tick() => self.write_filter().await,
                _ = reads.tick() => self.read_filters().await,
            }
        }
        let rest = async {
            // All writes have ended.
            let _all = self.places.acquire_many(limits::WRITES as u32).await;
            self.write_filter().await;
        };
        let _ = timeout(limits::STOP, rest).await;
    }

    async fn carry_out(&self, job: Job) {
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
            return;
        };
        let shared = Arc::clone(&self.shared);
        let node = self.node;
        tokio::spawn(async move {
            match job {
                Job::Put { name, parts, bytes } => {
                    put(&shared, node, name, parts, bytes).await;
                    let waiting = &shared.counters.waiting_bytes;
                    waiting.fetch_sub(bytes, Ordering::Relaxed);
                }
                Job::Delete { name } => {
                    let path = name.path(&shared.config.url.prefix);
                    match shared.store.delete(&path).await {
                        Ok(()) => {
                            let removed = &shared.counters.removed;
                            removed.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(object_store::Error::NotFound { .. }) => {}
                        Err(error) => shared.failed(&error),
                    }
                }
                Job::Stop => {}
            }
            drop(place);
        });
    }

    /// Writes the last own layer, if it has changed.
    async fn write_filter(&self) {
        let shared = &self.shared;
        let changed = lock(&shared.filter).take_changed();
        let Some((number, bytes)) = changed else {
            return;
        };
        if !write_layer(&self.shared, self.node, number, bytes).await {
            lock(&shared.filter).set_changed();
        }
    }

    /// Reads the filters of the others that have changed, and removes those whose objects the
    /// bucket has removed.
    async fn read_filters(&mut self) {
        let shared = Arc::clone(&self.shared);
        let prefix = &shared.config.url.prefix;
        let oldest = unix_seconds().saturating_sub(shared.config.keep.as_secs());
        lock(&shared.filter).forget(oldest);
        let mut listed = shared.store.list(Some(&names::filters(prefix)));
        let (mut all, mut read) = (Vec::new(), Vec::new());
        let own = format!("{:032x}-", self.node);
        while let Some(meta) = listed.next().await {
            let meta = match meta {
                Ok(meta) => meta,
                Err(error) => return self.shared.failed(&error),
            };
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
                match self.read_layer(&meta.location, meta.size).await {
                    Ok(Some(layer)) => read.push((name.clone(), layer)),
                    Ok(None) => {}
                    Err(error) => return self.shared.failed(&error),
                }
            }
            all.push(known);
        }
        let names: Vec<String> = all.iter().map(|(name, _)| name.clone()).collect();
        lock(&shared.filter).set_others(&names, read);
        self.read = all;
        self.shared.note_result(false);
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
        let bytes = self.shared.store.get(path).await?.bytes().await?;
        Ok(Layer::decode(&bytes))
    }
}

async fn put(shared: &Shared, node: u128, name: Name, parts: [Bytes; 2], bytes: u64) {
    let path = name.path(&shared.config.url.prefix);
    let payload = PutPayload::from_iter(parts);
    if let Err(error) = shared.store.put(&path, payload).await {
        return shared.failed(&error);
    }
    shared.note_result(false);
    let counters = &shared.counters;
    counters.written.fetch_add(1, Ordering::Relaxed);
    counters.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    let full = lock(&shared.filter).insert(name, unix_seconds());
    if let Some((number, layer)) = full {
        write_layer(shared, node, number, layer.encode()).await;
    }
}

/// Returns false if it fails.
async fn write_layer(shared: &Shared, node: u128, number: usize, bytes: Vec<u8>) -> bool {
    let path = names::filter(&shared.config.url.prefix, node, number);
    match shared.store.put(&path, PutPayload::from(bytes)).await {
        Ok(_) => true,
        Err(error) => {
            shared.failed(&error);
            false
        }
    }
}
