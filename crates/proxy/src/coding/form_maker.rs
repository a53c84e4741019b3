//! Makes coded forms of stored responses, on a thread of its own with low priority. A second thread
//! stores them: one with low priority would hold the locks of the cache for longer than requests
//! can wait.

use crate::cache::shards::Shards;
use bytes::Bytes;
use foldhash::HashSet;
use larder_content_coding::{Effort, encode};
use larder_http::{ContentCoding, WantedForm};
use std::sync::mpsc::{Receiver, SendError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Bytes of the bodies that wait. A form of a larger body is made if nothing else waits; others are
/// not remembered: their responses are coded while they are sent, and wanted again at the next hit.
const QUEUE_BYTES: usize = 16 << 20;

/// Forms that wait to be stored.
const MADE: usize = 4;

/// The nice value of the thread that codes: requests come first.
const NICE: i32 = 10;

/// Makes the forms that hits want.
pub(crate) struct FormMaker {
    shards: Weak<Shards>,
    /// The queue of the threads, which start with the first form; `None` inside if they do not.
    wanted: OnceLock<Option<Sender<Box<WantedForm>>>>,
    under_way: Arc<UnderWay>,
}

/// The forms that wait or are made.
#[derive(Default)]
struct UnderWay(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    ids: HashSet<(u64, ContentCoding)>,
    bytes: usize,
}

impl UnderWay {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a form may be made: it is not under way, and there is room.
    fn begin(&self, form: &WantedForm) -> bool {
        let mut waiting = self.lock();
        let bytes = waiting.bytes + form.body.len();
        let has_room = bytes <= QUEUE_BYTES || waiting.ids.is_empty();
        if !has_room || !waiting.ids.insert((form.id(), form.coding)) {
            return false;
        }
        waiting.bytes = bytes;
        true
    }

    fn end(&self, form: &WantedForm) {
        let mut waiting = self.lock();
        if waiting.ids.remove(&(form.id(), form.coding)) {
            waiting.bytes -= form.body.len();
        }
    }
}

impl FormMaker {
    pub(crate) fn new(shards: &Arc<Shards>) -> FormMaker {
        FormMaker {
            shards: Arc::downgrade(shards),
            wanted: OnceLock::new(),
            under_way: Arc::default(),
        }
    }

    /// Starts the threads. They end with this, or with the cache.
    fn start(&self) -> Option<Sender<Box<WantedForm>>> {
        let (sender, receiver) = channel();
        let (made, to_store) = sync_channel(MADE);
        let (shards, under_way) = (Weak::clone(&self.shards), Arc::clone(&self.under_way));
        let stores = std::thread::Builder::new()
            .name("forms".to_owned())
            .spawn(move || store_all(&to_store, &shards, &under_way));
        let under_way = Arc::clone(&self.under_way);
        let codes = std::thread::Builder::new()
            .name("compress".to_owned())
            .spawn(move || make_all(&receiver, &made, &under_way));
        for error in [stores.as_ref().err(), codes.as_ref().err()]
            .into_iter()
            .flatten()
        {
            tracing::error!(%error, "cannot start a thread: responses are coded each time");
        }
        (stores.is_ok() && codes.is_ok()).then_some(sender)
    }

    /// Makes a form, unless it is under way or too many are.
    pub(crate) fn make(&self, form: Box<WantedForm>) {
        let Some(wanted) = self.wanted.get_or_init(|| self.start()) else {
            return;
        };
        if !self.under_way.begin(&form) {
            return;
        }
        // The thread has ended.
        if let Err(SendError(form)) = wanted.send(form) {
            self.under_way.end(&form);
        }
    }
}

type Made = (Box<WantedForm>, Bytes);

fn make_all(wanted: &Receiver<Box<WantedForm>>, made: &SyncSender<Made>, under_way: &UnderWay) {
    // It is only a preference of the scheduler.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    while let Ok(form) = wanted.recv() {
        match encode(form.coding, Effort::Stored, &form.body) {
            Ok(mut coded) => {
                coded.shrink_to_fit();
                if made.send((form, coded.into())).is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot make a coded form");
                under_way.end(&form);
            }
        }
    }
}

fn store_all(made: &Receiver<Made>, shards: &Weak<Shards>, under_way: &UnderWay) {
    while let Ok((form, coded)) = made.recv() {
        let Some(shards) = shards.upgrade() else {
            return;
        };
        shards.store_coded(&form, coded);
        under_way.end(&form);
    }
}
