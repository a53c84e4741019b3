//! Makes coded forms of stored responses, on a thread of its own with low priority.

use crate::cache::shards::Shards;
use foldhash::{HashSet, HashSetExt};
use larder_content_coding::{Effort, encode};
use larder_http::{ContentCoding, WantedForm};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Wanted forms that wait. More are not remembered: their responses are coded while they are sent,
/// and wanted again at the next hit.
const QUEUE: usize = 256;

/// The nice value of the thread: requests come first.
const NICE: i32 = 10;

/// Makes the forms that hits want.
pub(crate) struct FormMaker {
    shards: Weak<Shards>,
    /// The queue of the thread, which starts with the first form; `None` inside if it does not.
    wanted: OnceLock<Option<SyncSender<Box<WantedForm>>>>,
    /// Those that wait or are made.
    under_way: Arc<Mutex<HashSet<(u64, ContentCoding)>>>,
}

impl FormMaker {
    pub(crate) fn new(shards: &Arc<Shards>) -> FormMaker {
        FormMaker {
            shards: Arc::downgrade(shards),
            wanted: OnceLock::new(),
            under_way: Arc::new(Mutex::new(HashSet::new())),
        }
    }

    /// Starts the thread. It ends with this, or with the cache.
    fn start(&self) -> Option<SyncSender<Box<WantedForm>>> {
        let (sender, receiver) = sync_channel(QUEUE);
        let (shards, under_way) = (Weak::clone(&self.shards), Arc::clone(&self.under_way));
        let thread = std::thread::Builder::new()
            .name("compress".to_owned())
            .spawn(move || make_all(&receiver, &shards, &under_way));
        if let Err(error) = &thread {
            tracing::error!(%error, "cannot start a thread: responses are coded each time");
        }
        thread.ok().map(|_| sender)
    }

    /// Makes a form, unless it is under way or too many are.
    pub(crate) fn make(&self, form: Box<WantedForm>) {
        let Some(wanted) = self.wanted.get_or_init(|| self.start()) else {
            return;
        };
        let id = (form.id(), form.coding);
        if !locked(&self.under_way).insert(id) {
            return;
        }
        if wanted.try_send(form).is_err() {
            locked(&self.under_way).remove(&id);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make_all(
    wanted: &Receiver<Box<WantedForm>>,
    shards: &Weak<Shards>,
    under_way: &Mutex<HashSet<(u64, ContentCoding)>>,
) {
    // It is only a preference of the scheduler.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    while let Ok(form) = wanted.recv() {
        match encode(form.coding, Effort::Stored, &form.body) {
            Ok(coded) => {
                let Some(shards) = shards.upgrade() else {
                    return;
                };
                shards.store_coded(&form, coded.into());
            }
            Err(error) => tracing::warn!(%error, "cannot make a coded form"),
        }
        locked(under_way).remove(&(form.id(), form.coding));
    }
}
