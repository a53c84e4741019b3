//! The caching reverse proxy: passes clients' requests to the cache, the cache's requests to the
//! origin, and responses back.

pub(super) mod forward;

use super::disk_tier::{self, HttpDisk};
use super::limits;
use super::origin_body::OriginBody;
use super::outgoing::{Outgoing, response};
use super::slow_client::MemoryPressure;
use super::streamed::stream;
use super::timeouts::Timeouts;
use super::upload::Upload;
use super::upstream::Origins;
use super::upstream_request::{UpstreamTarget, set_forwarded_headers};
use crate::error::Error;
use ::http::{HeaderMap, Method, Response};
use bytes::Bytes;
use larder_http::{
    Answer, Assembly, Budget, Cache, CdnLoop, Completion, Exchange, Fill, Now, Piece, PlainRequest, Purge, RequestHead,
    ResponseHead, Step, TierSlice, UpstreamFailure,
};
use larder_units::Time;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The cache and its origins, shared by all connections.
pub(super) struct Proxy {
    state: Mutex<State>,
    /// Replaced as a whole. Requests in progress keep the origins that they began with.
    origins: Mutex<Arc<Origins>>,
    disk: Option<HttpDisk>,
    /// The room for tier hits.
    budget: Budget,
    timeouts: Timeouts,
    /// Tells whether bodies find no room.
    memory_pressure: Arc<MemoryPressure>,
    /// The member that this cache adds to `CDN-Loop`.
    cdn_loop: CdnLoop,
    /// Places for [`limits::UNDER_WAY`].
    under_way: Arc<Semaphore>,
    /// Places for [`limits::UPLOADS`].
    uploads: Arc<Semaphore>,
    /// Places for [`limits::BACKGROUND`].
    background: Arc<Semaphore>,
    started: Instant,
    /// True after a request in a loop was logged.
    circle_logged: AtomicBool,
}

struct State {
    cache: Cache,
    /// Requests since the last check whether the policy has long work.
    since_job_check: u32,
    /// True while long work runs.
    job_running: bool,
}

impl Proxy {
    pub(super) fn new(cache: Cache, origins: Origins, disk: Option<HttpDisk>, timeouts: Timeouts) -> Proxy {
        let (budget, cdn_loop) = (cache.budget(), cache.cdn_loop());
        let state = Mutex::new(State { cache, since_job_check: 0, job_running: false });
        Proxy {
            state,
            origins: Mutex::new(Arc::new(origins)),
            disk,
            memory_pressure: MemoryPressure::of(budget.clone()),
            budget,
            timeouts,
            cdn_loop,
            under_way: Arc::new(Semaphore::new(limits::UNDER_WAY)),
            uploads: Arc::new(Semaphore::new(limits::UPLOADS)),
            background: Arc::new(Semaphore::new(limits::BACKGROUND)),
            started: Instant::now(),
            circle_logged: AtomicBool::new(false),
        }
    }

    pub(super) fn memory_pressure(&self) -> &Arc<MemoryPressure> {
        &self.memory_pressure
    }

    pub(super) fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    pub(super) fn cdn_loop(&self) -> &CdnLoop {
        &self.cdn_loop
    }

    pub(super) fn origins(&self) -> Arc<Origins> {
        Arc::clone(&self.origins.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_origins(&self, origins: Origins) {
        *self.origins.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(origins);
    }

    /// Reads figures of the cache.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Cache) -> T) -> T {
        read(&self.lock().cache)
    }

    /// Purges in steps, with requests in between. Returns the number of purged responses.
    pub(super) fn purge(&self, purge: &Purge) -> u64 {
        let (mut from, mut objects) = (0, 0);
        loop {
            let now = self.now();
            let step = self.lock().cache.purge(purge, from, now);
            objects += step.objects;
            match step.next {
                Some(next) => from = next,
                None => return objects,
            }
        }
    }

    /// Returns the room for bodies in progress.
    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns its disk tier.
    pub(super) fn disk(&self) -> Option<&HttpDisk> {
        self.disk.as_ref()
    }

    /// Waits until no restart can bring removed responses back.
    ///
    /// # Errors
    /// One line if the disk fails.
    pub(super) async fn settle(&self) -> Result<(), Error> {
        match &self.disk {
            Some(disk) => disk.settle().await,
            None => Ok(()),
        }
    }

    /// Calls [`Cache::on_slices_cut`].
    pub(super) fn put_slices(&self, fill: &mut Fill) -> bool {
        let now = self.now();
        self.lock().cache.on_slices_cut(fill, now)
    }

    pub(super) fn complete(&self, mut fill: Box<Fill>) {
        fill.fit();
        let now = self.now();
        if self.lock().cache.on_complete(fill, now) == Completion::Truncated {
            tracing::debug!("the origin's body was not as long as it said");
        }
    }

    pub(super) fn abort(&self, fill: Box<Fill>) {
        self.lock().cache.on_abort(fill);
    }

    pub(super) fn next_piece(&self, assembly: &mut Assembly) -> Piece {
        let now = self.now();
        self.lock().cache.next_piece(assembly, now)
    }

    /// Looks a slice up on the disk.
    pub(super) async fn tier_slice(&self, key: &[u8], assembly: &mut Assembly) -> Option<TierSlice> {
        let tier_hit = disk_tier::tier_lookup(self.disk.as_ref()?, key, None, &self.budget).await?;
        let now = self.now();
        self.lock().cache.on_tier_slice(assembly, tier_hit, now)
    }

    pub(super) fn slice(&self, exchange: Box<Exchange>, head: ResponseHead) -> Option<Box<Fill>> {
        let now = self.now();
        self.lock().cache.on_slice(exchange, head, now)
    }

    pub(super) fn slice_failed(&self, exchange: Box<Exchange>) {
        self.lock().cache.on_slice_failure(exchange);
    }

    /// Returns a place among the requests in progress; `None` only if the semaphore were closed,
    /// which never happens.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.under_way).acquire_owned().await.ok()
    }

    /// Sends a request to the origin, with the fields of the cache.
    pub(super) async fn ask(
        &self,
        method: Method,
        upstream_target: &UpstreamTarget,
        fields: impl Fn() -> HeaderMap + Send + Sync,
        body: Upload,
    ) -> Result<Response<OriginBody>, UpstreamFailure> {
        let forwarded_headers = || {
            let mut headers = fields();
            set_forwarded_headers(&mut headers, upstream_target);
            headers
        };
        self.origins().ask(method, upstream_target, &forwarded_headers, body).await
    }

    /// Converts the cache's answer.
    pub(super) fn sent(&self, answer: Answer) -> Response<Outgoing> {
        let Answer { status, headers, body, mut more, streamed } = answer;
        if let (Some(streamed), Some(disk)) = (streamed, &self.disk) {
            return response(status, headers, stream(disk, &self.budget, *streamed));
        }
        if more.is_empty() {
            return response(status, headers, Outgoing::whole(body));
        }
        more.insert(0, body);
        response(status, headers, Outgoing::parts(more))
    }

    fn now(&self) -> Now {
        let nanos = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Now { time: Time::from_nanos(nanos), unix_seconds }
    }

    /// A method of the cache leaves it consistent or does not return: a panic in one is a bug, and
    /// the cache continues.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a request to the cache, and now and then checks whether the policy has long work.
    pub(super) fn step(self: &Arc<Self>, head: &RequestHead<'_>) -> Step {
        let now = self.now();
        let mut state = self.lock();
        let step = state.cache.on_request(head, now);
        self.check_for_job(&mut state);
        step
    }

    /// Calls [`Cache::plain_hit`].
    pub(super) fn plain_hit(
        self: &Arc<Self>,
        request: PlainRequest<'_>,
        fields: impl FnOnce() -> HeaderMap,
        head: &mut Vec<u8>,
    ) -> Option<Bytes> {
        let now = self.now();
        let mut state = self.lock();
        let body = state.cache.plain_hit(request, fields, now, head)?;
        self.check_for_job(&mut state);
        Some(body)
    }

    fn check_for_job(self: &Arc<Self>, state: &mut State) {
        state.since_job_check += 1;
        if state.since_job_check >= limits::REQUESTS_PER_JOB_CHECK && !state.job_running {
            state.since_job_check = 0;
            if let Some(job) = state.cache.job() {
                state.job_running = true;
                let running = JobRunning(Arc::clone(self));
                // AdaptSize's search takes tens of milliseconds, too long for a request thread.
                tokio::task::spawn_blocking(move || {
                    let done = job.run();
                    running.0.lock().cache.complete_job(done);
                });
            }
        }
    }

    /// Refuses a request in a loop. The first one is logged; the others would repeat the line.
    pub(super) fn refuse_circle(&self, exchange: &Exchange) -> Response<Outgoing> {
        if !self.circle_logged.swap(true, Ordering::Relaxed) {
            let host = exchange.authority();
            tracing::warn!(host, "[http] origin leads back to this cache: requests that go round in a circle get 508");
        }
        self.sent(self.lock().cache.on_failure(exchange, UpstreamFailure::Circle, self.now()))
    }
}

/// Long work of the policy, which runs until this is dropped, also by a panic, so that the next may
/// run.
struct JobRunning(Arc<Proxy>);

impl Drop for JobRunning {
    fn drop(&mut self) {
        self.0.lock().job_running = false;
    }
}

#[cfg(test)]
impl Proxy {
    /// Returns a proxy with a cache of 1 MiB and the generated origin.
    pub(super) fn generated() -> Arc<Proxy> {
        let config = larder_http::Config {
            capacity: larder_units::ByteSize::from_mib(1),
            policy: "lru".parse().unwrap(),
            max_object: larder_units::ByteSize::from_mib(1),
            slice: larder_units::ByteSize::from_bytes(0),
            share_cookies: false,
            ignore_reloads: false,
            targets: vec!["cdn-cache-control".parse().unwrap()],
            hash_key: [1; 16],
        };
        let cache = Cache::new(&config, &larder_units::Streams::new(1)).unwrap();
        Arc::new(Proxy::new(cache, Origins::generated(), None, Timeouts::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::informational::InformationalResponses;
    use super::super::listen::Client;
    use super::super::service::Service;
    use super::*;
    use hyper_util::rt::TokioIo;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Failure: clients that come and go leave endless requests at the origin.
    #[tokio::test]
    async fn what_is_under_way_is_bounded() {
        let proxy = Proxy::generated();
        let ask = async |target: &str| {
            let (near, mut far) = tokio::io::duplex(4096);
            let client = Client {
                address: ([127, 0, 0, 1], 1).into(),
                is_secure: false,
                interims: InformationalResponses::default(),
            };
            let service = Service::new(&proxy, client);
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(near), service));
            far.write_all(format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
            let mut start = [0; 12];
            let read = tokio::time::timeout(Duration::from_millis(100), far.read_exact(&mut start)).await;
            (read.is_ok().then(|| String::from_utf8_lossy(&start).into_owned()), far)
        };
        assert_eq!(ask("/10/a").await.0.as_deref(), Some("HTTP/1.1 200"));
        let all = u32::try_from(limits::UNDER_WAY).unwrap();
        let places = Arc::clone(&proxy.under_way).acquire_many_owned(all).await.unwrap();
        let (waits, mut far) = ask("/10/b").await;
        assert_eq!(waits, None);
        assert_eq!(ask("/10/a").await.0.as_deref(), Some("HTTP/1.1 200"), "a hit needs no place");
        drop(places);
        far.read_exact(&mut [0; 12]).await.unwrap();
        while proxy.under_way.available_permits() < limits::UNDER_WAY {
            tokio::task::yield_now().await;
        }
    }

    /// Failure: after one search that panics, the policy is never tuned again.
    #[test]
    fn long_work_that_panics_is_over() {
        let proxy = Proxy::generated();
        for under_lock in [false, true] {
            proxy.lock().job_running = true;
            let running = JobRunning(Arc::clone(&proxy));
            let work = std::thread::spawn(move || {
                let _state = under_lock.then(|| running.0.lock());
                panic!("on purpose");
            });
            assert!(work.join().is_err());
            assert!(!proxy.lock().job_running);
        }
    }
}
