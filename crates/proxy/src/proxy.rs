//! The caching reverse proxy: passes clients' requests to the cache, the cache's requests to the
//! origin, and responses back.

use super::assemble::{UpstreamTarget, assemble};
use super::body::{Collecting, OriginBody, Outgoing, Timed, Upload};
use super::disk_tier::{self, HttpDisk};
use super::limits;
use super::slow_client::MemoryPressure;
use super::streamed::stream;
use super::timeouts::Timeouts;
use super::upstream::Origins;
use super::upstream_request::{UpstreamRequest, set_forwarded_headers};
use ::http::header::{CONNECTION, CONTENT_LENGTH};
use ::http::request::Parts;
use ::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version};
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use larder_http::{
    Answer, Assembled, Assembly, Budget, Cache, CdnLoop, Completion, Exchange, Fill, Follower, JoinResult, Now, Piece,
    PlainRequest, Purge, Reply, RequestHead, ResponseHead, Step, TierSlice, TierStep, UpstreamFailure,
};
use larder_units::Time;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;
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
    pub(super) async fn settle(&self) -> Result<(), String> {
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

    /// Returns a response whose body is put together from slices.
    pub(super) fn assembled(
        self: &Arc<Self>,
        assembled: Assembled,
        mut upstream_target: UpstreamTarget,
    ) -> Response<Outgoing> {
        // An informational response to a slice would stand within the body.
        upstream_target.interims = None;
        let Assembled { status, headers, body } = assembled;
        response(status, headers, assemble(Arc::clone(self), body, upstream_target))
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

    /// Waits for another request that already asks the origin.
    pub(super) async fn follow(
        self: Arc<Self>,
        mut follower: Follower,
        upstream_request: UpstreamRequest,
        body: Incoming,
    ) -> Response<Outgoing> {
        loop {
            let boarding = poll_fn(|cx| follower.poll_join(&upstream_request.parts.headers, cx)).await;
            match boarding {
                JoinResult::Answer(answer) => return self.sent(answer),
                JoinResult::Stream { status, headers, body } => {
                    return response(status, headers, Outgoing::Shared(body));
                }
                JoinResult::Again => {}
            }
            let step = {
                let now = self.now();
                self.lock().cache.on_released(&upstream_request.head(false), follower.joined(), now)
            };
            match step {
                Step::Answer(answer) => return self.sent(answer),
                Step::Assemble(assembled) => return self.assembled(assembled, upstream_request.upstream_target()),
                Step::Follow(other) => follower = other,
                Step::Forward(exchange) => return self.send_forward(exchange, upstream_request, body).await,
                Step::Refresh(answer, exchange) => {
                    self.refresh(exchange, upstream_request);
                    return self.sent(answer);
                }
            }
        }
    }

    /// Forwards a request that the store does not answer. It continues without its client if others
    /// may wait for the response.
    pub(super) fn send_forward(
        self: Arc<Self>,
        exchange: Box<Exchange>,
        upstream_request: UpstreamRequest,
        body: Incoming,
    ) -> DetachOnDrop<Response<Outgoing>> {
        let (upload, places) = match body.is_end_stream() {
            true => (Upload::empty(), &self.under_way),
            false => (Upload::new(body, upstream_request.expects, self.timeouts.client_body), &self.uploads),
        };
        let (is_shared, places) = (exchange.is_shared(), Arc::clone(places));
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => DetachOnDrop::new(is_shared, self.send(exchange, upstream_request, upload, Some(place))),
            // A request that waits for a place ends with its client.
            Err(_) => DetachOnDrop::new(false, async move {
                let place = places.acquire_owned().await.ok();
                DetachOnDrop::new(is_shared, self.send(exchange, upstream_request, upload, place)).await
            }),
        }
    }

    async fn send(
        self: Arc<Self>,
        exchange: Box<Exchange>,
        upstream_request: UpstreamRequest,
        upload: Upload,
        place: Option<OwnedSemaphorePermit>,
    ) -> Response<Outgoing> {
        let asked = upload.asked();
        let (mut response, rest) = Arc::clone(&self).forward(exchange, upstream_request, upload).await;
        if let Some((body, fill)) = rest {
            let mut collecting = Collecting::new(body, fill, self, place);
            // A small body has come with its head and needs no task.
            if !poll_fn(|cx| Poll::Ready(Pin::new(&mut collecting).poll(cx).is_ready())).await {
                tokio::spawn(collecting);
            }
        }
        // RFC 9110 §10.1.1: a response before the body says whether the connection ends. It ends,
        // because the client may send the body all the same.
        if asked.is_some_and(|asked| !asked.load(Ordering::Relaxed)) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Validates a response in the background that was just served stale.
    pub(super) fn refresh(self: &Arc<Self>, exchange: Box<Exchange>, mut upstream_request: UpstreamRequest) {
        upstream_request.interims = None;
        let Ok(place) = Arc::clone(&self.background).try_acquire_owned() else { return };
        upstream_request.parts.method = Method::GET;
        let proxy = Arc::clone(self);
        tokio::spawn(async move {
            // A body that is not for the store is not needed.
            if let (_, Some((body, fill))) =
                Arc::clone(&proxy).forward(exchange, upstream_request, Upload::empty()).await
            {
                Collecting::new(body, fill, proxy, Some(place)).await;
            }
        });
    }

    /// Looks the response up on the disk. `Err` is the answer.
    async fn tier_lookup(
        self: &Arc<Self>,
        mut exchange: Box<Exchange>,
        upstream_request: &UpstreamRequest,
    ) -> Result<Box<Exchange>, Box<Response<Outgoing>>> {
        let mut variant = None;
        while let (Some(disk), Some(key)) = (&self.disk, exchange.tier_key()) {
            let tier_hit = disk_tier::tier_lookup(disk, &key, variant, &self.budget).await;
            let now = self.now();
            match self.lock().cache.on_tier_lookup(exchange, tier_hit, &upstream_request.head(false), now) {
                TierStep::Answer(answer) => return Err(Box::new(self.sent(answer))),
                TierStep::Assemble(assembled) => {
                    return Err(Box::new(self.assembled(assembled, upstream_request.upstream_target())));
                }
                TierStep::Forward(exchange) => return Ok(exchange),
                TierStep::Variant(again, other) => (exchange, variant) = (again, Some(other)),
            }
        }
        Ok(exchange)
    }

    /// Sends the request to the origin. The response is for the client. If its body may be stored,
    /// the caller has to collect it, and the client reads it meanwhile.
    async fn forward(
        self: Arc<Self>,
        exchange: Box<Exchange>,
        upstream_request: UpstreamRequest,
        upload: Upload,
    ) -> (Response<Outgoing>, Option<(OriginBody, Box<Fill>)>) {
        let mut exchange = match self.tier_lookup(exchange, &upstream_request).await {
            Ok(exchange) => exchange,
            Err(answer) => return (*answer, None),
        };
        let upstream_target = upstream_request.upstream_target();
        let Parts { method, headers, version, .. } = upstream_request.parts;
        exchange.take_headers(headers);
        let mut asked = self.ask(method.clone(), &upstream_target, || exchange.upstream_headers(), upload).await;
        loop {
            let (head, body) = match asked {
                Ok(response) => response.into_parts(),
                Err(failure) => {
                    let mut answer = self.sent(self.lock().cache.on_failure(&exchange, failure, self.now()));
                    // RFC 9110 §15.5.9: the rest of the body may still come.
                    if failure == UpstreamFailure::UploadTimedOut && version <= Version::HTTP_11 {
                        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    }
                    return (answer, None);
                }
            };
            let head = ResponseHead { status: head.status, version: head.version, headers: head.headers };
            let now = self.now();
            let (reply, unsettled) = {
                let mut state = self.lock();
                (state.cache.on_response(exchange, head, now), state.cache.take_unsettled())
            };
            // A client that gets the answer to its change must not see the old page after a crash.
            if unsettled && let Err(error) = self.settle().await {
                tracing::warn!(error, "an unsafe request's invalidation may be undone by a restart");
            }
            match reply {
                Reply::Answer(answer) => return (self.sent(answer), None),
                Reply::Relay { status, headers, fill } => {
                    let Some((fill, reader)) = fill.and_then(|fill| fill.reader().map(|reader| (fill, reader))) else {
                        let body = Timed::new(body, self.timeouts.origin_relay());
                        return (response(status, headers, Outgoing::Relay(Box::new(body))), None);
                    };
                    return (response(status, headers, Outgoing::Shared(reader)), Some((body, fill)));
                }
                Reply::Assemble(assembled, fill) => {
                    return (self.assembled(assembled, upstream_target), fill.map(|fill| (body, fill)));
                }
                Reply::Retry(again) => {
                    exchange = again;
                    asked =
                        self.ask(method.clone(), &upstream_target, || exchange.retry_headers(), Upload::empty()).await;
                }
            }
        }
    }
}

/// A future that continues as a task when it is dropped. A task from the start would cost more at
/// every miss.
pub(super) struct DetachOnDrop<T: Send + 'static> {
    /// `None` after it is done.
    future: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    goes_on: bool,
}

impl<T: Send + 'static> DetachOnDrop<T> {
    pub(super) fn new(goes_on: bool, future: impl Future<Output = T> + Send + 'static) -> DetachOnDrop<T> {
        DetachOnDrop { future: Some(Box::pin(future)), goes_on }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let polled = self.future.as_mut().map_or(Poll::Pending, |future| future.as_mut().poll(cx));
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        // `None` after it is done. Without a runtime, the node has ended.
        if let (Some(future), true, Ok(runtime)) = (self.future.take(), self.goes_on, Handle::try_current()) {
            runtime.spawn(future);
        }
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

fn response(status: StatusCode, headers: HeaderMap, body: Outgoing) -> Response<Outgoing> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Returns an error of the proxy itself, in one line.
pub(super) fn plain_error(status: StatusCode, text: impl Into<Bytes>) -> Response<Outgoing> {
    let text = text.into();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    response(status, headers, Outgoing::whole(text))
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
