//! The tier over a store in memory that delays, fails, tears and forgets.

use crate::config::{ObjectStoreConfig, Prices};
use crate::limits;
use crate::objects::{Found, Objects};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use larder_http::OfferedObject;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A store in memory with faults.
#[derive(Debug, Default)]
struct Faulty {
    memory: InMemory,
    fails: AtomicBool,
    tears: AtomicBool,
    /// What is listed is gone when it is read.
    forgets: AtomicBool,
    delay_ms: AtomicU64,
    gets: AtomicU64,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

impl Faulty {
    async fn suffer(&self) -> Result<()> {
        tokio::time::sleep(Duration::from_millis(self.delay_ms.load(Ordering::Relaxed))).await;
        if self.fails.load(Ordering::Relaxed) {
            return Err(object_store::Error::Generic {
                store: "faulty",
                source: "it fails".into(),
            });
        }
        Ok(())
    }
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

impl ObjectStore for Faulty {
    fn put_opts<'a, 'b, 'async_trait>(
        &'a self,
        path: &'b Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Boxed<'async_trait, PutResult>
    where
        'a: 'async_trait,
        'b: 'async_trait,
    {
        Box::pin(async move {
            self.suffer().await?;
            self.memory.put_opts(path, payload, options).await
        })
    }

    fn put_multipart_opts<'a, 'b, 'async_trait>(
        &'a self,
        path: &'b Path,
        options: PutMultipartOptions,
    ) -> Boxed<'async_trait, Box<dyn MultipartUpload>>
    where
        'a: 'async_trait,
        'b: 'async_trait,
    {
        self.memory.put_multipart_opts(path, options)
    }

    fn get_opts<'a, 'b, 'async_trait>(
        &'a self,
        path: &'b Path,
        options: GetOptions,
    ) -> Boxed<'async_trait, GetResult>
    where
        'a: 'async_trait,
        'b: 'async_trait,
    {
        Box::pin(async move {
            self.gets.fetch_add(1, Ordering::Relaxed);
            self.suffer().await?;
            if self.forgets.load(Ordering::Relaxed) {
                self.memory.delete(path).await?;
            }
            let mut result = self.memory.get_opts(path, options).await?;
            if self.tears.load(Ordering::Relaxed) {
                let GetResultPayload::Stream(stream) = result.payload;
                let whole = stream.try_collect::<Vec<Bytes>>().await?.concat();
                let half = Bytes::from(whole).slice(..result.meta.size as usize / 2);
                let broken = Err(object_store::Error::Generic {
                    store: "faulty",
                    source: "it is torn".into(),
                });
                let stream = futures_util::stream::iter([Ok(half), broken]);
                result.payload = GetResultPayload::Stream(stream.boxed());
            }
            Ok(result)
        })
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.memory.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        if self.fails.load(Ordering::Relaxed) {
            let broken = Err(object_store::Error::Generic {
                store: "faulty",
                source: "it fails".into(),
            });
            return futures_util::stream::iter([broken]).boxed();
        }
        self.memory.list(prefix)
    }

    fn list_with_delimiter<'a, 'b, 'async_trait>(
        &'a self,
        prefix: Option<&'b Path>,
    ) -> Boxed<'async_trait, ListResult>
    where
        'a: 'async_trait,
        'b: 'async_trait,
    {
        self.memory.list_with_delimiter(prefix)
    }

    fn copy_opts<'a, 'b, 'c, 'async_trait>(
        &'a self,
        from: &'b Path,
        to: &'c Path,
        options: CopyOptions,
    ) -> Boxed<'async_trait, ()>
    where
        'a: 'async_trait,
        'b: 'async_trait,
        'c: 'async_trait,
    {
        self.memory.copy_opts(from, to, options)
    }
}

fn config() -> ObjectStoreConfig {
    ObjectStoreConfig {
        prices: Prices {
            put: 0.0,
            get: 0.0,
            gigabyte_month: 0.0,
            origin_gigabyte: 0.0,
        },
        ..ObjectStoreConfig::new("s3://bucket/prefix".parse().unwrap())
    }
}

fn tier(store: &Arc<Faulty>) -> Objects {
    let store: Arc<dyn ObjectStore> = Arc::clone(store) as _;
    let objects = Objects::of(&config(), store).unwrap();
    // It knows what there is.
    eventually(|| !crate::shared::lock(&objects.shared.filter).may_have(crate::names::Name(1)));
    objects
}

fn eventually(mut is: impl FnMut() -> bool) {
    for _ in 0..500 {
        if is() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it does not come about");
}

/// An object with so many bytes of body: for this crate, the head is a length.
fn offered(key: &str, body: usize) -> OfferedObject {
    let mut head = b"LRO1".to_vec();
    head.extend_from_slice(&20_u32.to_le_bytes());
    head.extend_from_slice(b"............");
    OfferedObject {
        key: key.as_bytes().into(),
        variant: 0,
        note: None,
        selected_by: "accept-language".into(),
        is_new: true,
        head: head.into(),
        body: vec![b'x'; body].into(),
    }
}

fn get(objects: &Objects, key: &str) -> Option<Found> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let until = std::time::Instant::now() + objects.config().wait;
            objects.get(key.as_bytes(), 0, until).await
        })
}

fn read(found: Found) -> std::result::Result<usize, String> {
    let (mut body, mut bytes) = (found.body, 0);
    while let Some(piece) = body.0.blocking_recv() {
        bytes += piece?.len();
    }
    Ok(bytes)
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn write(objects: &Objects, key: &str, body: usize) {
    let before = count(&objects.counters().written);
    objects.offer(offered(key, body));
    eventually(|| count(&objects.counters().written) == before + 1);
}

/// Failure: what was written is not found, by this node or by one with empty disks.
#[test]
fn an_object_comes_back() {
    let store = Arc::new(Faulty::default());
    let objects = tier(&store);
    assert!(get(&objects, "a").is_none());
    assert_eq!(count(&store.gets), 0, "an unknown object costs no request");
    write(&objects, "a", 300_000);
    let found = get(&objects, "a").unwrap();
    assert_eq!((found.head.len(), found.whole), (20, 300_020));
    assert_eq!(read(found), Ok(300_000));
    objects.stop();
    let again = tier(&store);
    assert_eq!(read(get(&again, "a").unwrap()), Ok(300_000));
    // It is known: only a new response replaces it.
    again.offer(OfferedObject {
        is_new: false,
        ..offered("a", 5)
    });
    write(&again, "b", 7);
    assert_eq!(read(get(&again, "a").unwrap()), Ok(300_000));
    again.remove(b"a");
    eventually(|| count(&again.counters().removed) == 1);
    assert!(get(&again, "a").is_none());
    assert_eq!(count(&again.counters().missing), 1);
    again.stop();
}

/// Failure: requests wait for a store that is slow or down, or it is never asked again.
#[test]
fn a_store_is_slow_or_down() {
    let store = Arc::new(Faulty::default());
    let objects = tier(&store);
    write(&objects, "a", 10);
    store.delay_ms.store(3_600_000, Ordering::Relaxed);
    // It hangs: half of the results are enough.
    for _ in 0..limits::RESULTS {
        assert!(get(&objects, "a").is_none());
    }
    let (late, asked) = (count(&objects.counters().late), count(&store.gets));
    assert!((5..limits::RESULTS as u64).contains(&late), "{late}");
    assert!(get(&objects, "a").is_none());
    assert_eq!(count(&store.gets), asked, "it is left alone");
    objects.stop();
    let objects = tier(&store);
    store.delay_ms.store(0, Ordering::Relaxed);
    store.fails.store(true, Ordering::Relaxed);
    for _ in 0..limits::RESULTS {
        assert!(get(&objects, "a").is_none());
    }
    let asked = count(&store.gets);
    assert!(get(&objects, "a").is_none());
    assert_eq!(count(&store.gets), asked, "it is left alone");
    // Writes fail for themselves.
    for number in 0..limits::RESULTS {
        objects.offer(offered(&number.to_string(), 10));
        eventually(|| count(&objects.counters().waiting_bytes) == 0);
    }
    assert!(count(&objects.counters().dropped) >= limits::RESULTS as u64 / 2);
    objects.stop();
}

/// Failure: half of a body passes for all of it, or the node waits for the rest.
#[test]
fn an_object_is_torn() {
    let store = Arc::new(Faulty::default());
    let objects = tier(&store);
    write(&objects, "a", 1000);
    store.tears.store(true, Ordering::Relaxed);
    let found = get(&objects, "a").unwrap();
    assert!(read(found).unwrap_err().contains("torn"));
    write(&objects, "b", 10);
    assert!(get(&objects, "b").is_none(), "its head is torn");
    objects.stop();
}

/// Failure: the queue grows without bound while the store is slow.
#[test]
fn the_queue_is_full() {
    let store = Arc::new(Faulty::default());
    let objects = tier(&store);
    store.delay_ms.store(200, Ordering::Relaxed);
    for number in 0..100 {
        objects.offer(offered(&number.to_string(), 1 << 20));
    }
    let dropped = count(&objects.counters().dropped);
    assert!((36..=37).contains(&dropped), "{dropped}");
    objects.stop();
    assert_eq!(count(&objects.counters().written), 100 - dropped);
    assert_eq!(count(&objects.counters().waiting_bytes), 0);
    assert!(!objects.offer(offered("late", 10)));
    assert_eq!(count(&objects.counters().dropped), dropped + 1);
}

/// Failure: a store that hangs keeps the node from ending.
#[test]
fn a_stop_waits_for_a_store_that_hangs() {
    let store = Arc::new(Faulty::default());
    let objects = tier(&store);
    store.delay_ms.store(60_000, Ordering::Relaxed);
    for number in 0..200 {
        objects.offer(offered(&number.to_string(), 10));
    }
    // Its time is limited.
    objects.stop();
    assert_eq!(count(&objects.counters().written), 0);
}

/// Failure: a store that is away at the start, or a filter that is gone before it is read, makes
/// each unknown object a request for ever.
#[test]
fn the_filters_are_never_complete() {
    let store = Arc::new(Faulty::default());
    let first = tier(&store);
    write(&first, "a", 10);
    first.stop();
    store.forgets.store(true, Ordering::Relaxed);
    let second = tier(&store);
    assert!(get(&second, "unknown").is_none());
    assert_eq!(count(&store.gets), 1, "the filter");
    second.stop();
}

/// Failure: a note that was removed is never written again, or one is written for each variant.
#[test]
fn a_note_is_gone() {
    let store = Arc::new(Faulty::default());
    let objects = tier(&store);
    let variant = |number: u32| OfferedObject {
        variant: number,
        note: Some(offered("a", 0).head),
        ..offered("a", 10)
    };
    let written =
        |count_before: u64| eventually(|| count(&objects.counters().written) == count_before);
    objects.offer(variant(1));
    written(2);
    objects.offer(variant(2));
    written(3);
    // By other fields.
    objects.offer(OfferedObject {
        selected_by: "accept".into(),
        ..variant(7)
    });
    written(5);
    objects.remove(b"a");
    eventually(|| count(&objects.counters().removed) == 1);
    // A second removal costs nothing.
    objects.remove(b"a");
    objects.offer(variant(3));
    written(7);
    assert_eq!(count(&objects.counters().removed), 1);
    // A response without variants takes the place of the note.
    write(&objects, "a", 10);
    objects.offer(variant(1));
    written(10);
    objects.stop();
}

/// Failure: a second fetch is not recognised, or each is one.
#[test]
fn a_key_is_fetched_again() {
    let objects = tier(&Arc::new(Faulty::default()));
    assert!(!objects.was_fetched(1) && objects.was_fetched(1));
    let again = (2..50_000)
        .filter(|hash| objects.was_fetched(*hash))
        .count();
    assert!(again < 50, "{again}");
    objects.stop();
}
