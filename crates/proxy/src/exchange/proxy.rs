//! The caching reverse proxy: passes clients' requests to the cache, the cache's requests to the
//! origin, and responses back.

mod ask_objects;
pub(crate) mod file_rules;
pub(crate) mod forward;

use crate::base::fair_places::FairPlace;
use crate::base::limits;
use crate::base::live_limits::LiveLimits;
use crate::base::places::Places;
use crate::base::slow_client::MemoryPressure;
use crate::cache::cache_settings::CacheSettings;
use crate::cache::disk_tier;
use crate::cache::disk_tier::HttpDisk;
use crate::cache::shards::{OpenExchange, ShardAssembly, Shards};
use crate::coding::asked_coding::AskedCoding;
use crate::coding::coded_body::{CodedBody, CodingCounters};
use crate::coding::encoder_places::EncoderPlaces;
use crate::coding::form_maker::FormMaker;
use crate::exchange::disk_body::stream;
use crate::exchange::live::{Live, LiveCell};
use crate::exchange::objects::ObjectCounters;
use crate::exchange::outgoing::{Outgoing, response};
use crate::exchange::peers::continued_body::{AskRest, continued, without_conditions};
use crate::exchange::peers::{Owned, PeerAnswer, Peers};
use crate::exchange::tunnel::Tunnels;
use crate::exchange::upstream_request::{LiveTarget, UpstreamRequest};
use crate::exchange::upstream_target::{UpstreamTarget, set_forwarded_headers, set_peer_headers};
use crate::message::upload::Upload;
use crate::origin::origin_body::OriginBody;
use crate::report::observer::Observer;
use crate::report::observers::Observers;
use ::http::header::AUTHORIZATION;
use ::http::{HeaderMap, Method, Response, StatusCode};
use hyper::body::Body;
use larder_acme_host::Certificates;
use larder_http::{Answer, AnswerCoding, Assembly, Budget, TierSlice, UpstreamFailure};
use larder_object_host::Objects;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// The cache and its origins, shared by all connections.
pub(crate) struct Proxy {
    shards: Arc<Shards>,
    cache_settings: CacheSettings,
    /// The configuration of requests.
    live: Arc<LiveCell>,
    /// Notified after it was replaced.
    origins_changed: Arc<Notify>,
    disk: Option<HttpDisk>,
    limits: Arc<LiveLimits>,
    /// Gets the records of exchanges.
    observers: Observers,
    /// Tells whether bodies find no room.
    memory_pressure: Arc<MemoryPressure>,
    /// Places for [`limits::BACKGROUND`].
    background: Arc<Places>,
    /// Connections that have left HTTP.
    tunnels: Arc<Tunnels>,
    encoders: EncoderPlaces,
    coding_counters: Arc<CodingCounters>,
    form_maker: FormMaker,
    /// True after a request in a loop was logged.
    circle_logged: AtomicBool,
    /// The certificates by ACME, and the answers to their challenges.
    certificates: Arc<Certificates>,
    /// The other nodes of the fleet, if they share responses; set before requests come.
    peers: OnceLock<Peers>,
    /// The third tier; set before requests come.
    objects: OnceLock<Objects>,
    object_counters: ObjectCounters,
}

impl Proxy {
    pub(crate) fn new(
        shards: Arc<Shards>,
        live: Live,
        disk: Option<HttpDisk>,
        limits: Arc<LiveLimits>,
        observer: Arc<Observer>,
    ) -> Proxy {
        Proxy {
            live: LiveCell::new(live),
            origins_changed: Arc::default(),
            disk,
            memory_pressure: MemoryPressure::of(shards.budget().clone()),
            encoders: EncoderPlaces::new(),
            coding_counters: Arc::default(),
            form_maker: FormMaker::new(&shards),
            shards,
            cache_settings: CacheSettings::default(),
            observers: Observers::new(observer),
            background: Places::new(limits::BACKGROUND),
            tunnels: Tunnels::new(&limits.upgrades),
            limits,
            circle_logged: AtomicBool::new(false),
            certificates: Arc::default(),
            peers: OnceLock::new(),
            objects: OnceLock::new(),
            object_counters: ObjectCounters::default(),
        }
    }

    /// Returns the certificates by ACME.
    pub(crate) fn certificates(&self) -> &Arc<Certificates> {
        &self.certificates
    }

    /// Asks these nodes before the origin, for what they own.
    pub(crate) fn set_peers(&self, peers: Peers) {
        let _ = self.peers.set(peers);
    }

    /// Returns the other nodes of the fleet, if they share responses.
    pub(crate) fn peers(&self) -> Option<&Peers> {
        self.peers.get()
    }

    /// Returns true if a request is for a file: files are on each node.
    pub(crate) fn is_of_files(&self, request: &UpstreamRequest) -> bool {
        let origins = &request.live.origins;
        origins.has_files && {
            let host = request.host.to_str().unwrap_or_default();
            let (target, _) = request.stored_url();
            origins.files_of(host, target.path()).is_some()
        }
    }

    /// Asks this tier before the origin.
    pub(crate) fn set_objects(&self, objects: Objects) {
        let _ = self.objects.set(objects);
    }

    /// Returns the third tier, if there is one.
    pub(crate) fn objects(&self) -> Option<&Objects> {
        self.objects.get()
    }

    pub(crate) fn object_counters(&self) -> &ObjectCounters {
        &self.object_counters
    }

    /// Returns the nodes to ask for the object of a request before its origin.
    pub(crate) fn owned(&self, request: &UpstreamRequest) -> Option<Box<Owned>> {
        let peers = self.peers.get().filter(|_| !request.is_of_peer)?;
        // What a client that has logged in gets is nobody else's.
        if request.parts.headers.contains_key(AUTHORIZATION) {
            return None;
        }
        let (target, url) = request.stored_url();
        if self.is_of_files(request) {
            return None;
        }
        peers.owned(&url, &target).map(Box::new)
    }

    /// Returns the cache.
    pub(crate) fn shards(&self) -> &Arc<Shards> {
        &self.shards
    }

    /// Returns the settings of the cache.
    pub(crate) fn cache_settings(&self) -> &CacheSettings {
        &self.cache_settings
    }

    pub(crate) fn memory_pressure(&self) -> &Arc<MemoryPressure> {
        &self.memory_pressure
    }

    /// Returns what finished exchanges are reported to.
    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    /// Returns the limits, which a reload replaces.
    pub(crate) fn limits(&self) -> &Arc<LiveLimits> {
        &self.limits
    }

    /// Returns the connections that have left HTTP.
    pub(crate) fn tunnels(&self) -> &Arc<Tunnels> {
        &self.tunnels
    }

    /// Returns the configuration of requests in force.
    pub(crate) fn live(&self) -> Arc<Live> {
        self.live.current()
    }

    /// Returns what holds that configuration, for the views of connections.
    pub(crate) fn live_cell(&self) -> &Arc<LiveCell> {
        &self.live
    }

    /// Replaces the configuration of requests. Those in progress keep the one that they began with.
    pub(crate) fn set_live(&self, live: Live) {
        live.origins.expire_names();
        self.live.set(live);
        self.origins_changed.notify_one();
    }

    /// Returns the event of [`Proxy::set_live`].
    pub(crate) fn origins_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.origins_changed)
    }

    /// Returns the room for bodies in progress.
    pub(crate) fn budget(&self) -> &Budget {
        self.shards.budget()
    }

    /// Returns its disk tier.
    pub(crate) fn disk(&self) -> Option<&HttpDisk> {
        self.disk.as_ref()
    }

    /// Waits until no restart can bring removed responses back.
    ///
    /// # Errors
    /// One line if the disk fails.
    pub(crate) async fn settle(&self) -> Result<(), larder_tier_host::Error> {
        match &self.disk {
            Some(disk) => disk.settle().await,
            None => Ok(()),
        }
    }

    /// Looks a slice up on the disk.
    pub(crate) async fn tier_slice(
        &self,
        key: &[u8],
        assembly: &mut ShardAssembly<Assembly>,
    ) -> Option<TierSlice> {
        let tier_hit =
            disk_tier::tier_lookup(self.disk.as_ref()?, key, None, self.budget()).await?;
        self.shards.on_tier_slice(assembly, tier_hit)
    }

    /// Returns a place of a client among the requests in progress.
    pub(crate) async fn place(&self, client: IpAddr) -> FairPlace {
        self.limits.requests.acquire(client).await
    }

    /// Sends a request to the owner of its object, or to the origin, with the fields of the cache.
    pub(crate) async fn ask(
        &self,
        method: Method,
        LiveTarget { live, target }: &LiveTarget,
        fields: impl Fn() -> HeaderMap + Send + Sync,
        mut body: Upload,
    ) -> Result<Response<OriginBody>, UpstreamFailure> {
        body.check_emptiness().await?;
        if let (Some(owned), Some(peers)) = (&target.owned, self.peers.get()) {
            let peer_headers = || {
                let mut headers = fields();
                set_peer_headers(&mut headers, target);
                headers
            };
            let answer = peers.ask(owned, &peer_headers, &live.timeouts).await;
            // The other node may have another representation than the one with these slices.
            let is_other = |response: &Response<OriginBody>| {
                target.is_of_slices && response.status() != StatusCode::PARTIAL_CONTENT
            };
            match answer {
                PeerAnswer::Response(response) if !is_other(&response) => {
                    let mut headers = fields();
                    without_conditions(&mut headers);
                    set_forwarded_headers(&mut headers, target);
                    let rest = rest_of(live, target.without_client(), headers);
                    return Ok(continued(*response, rest));
                }
                PeerAnswer::Late => return Err(UpstreamFailure::TimedOut),
                PeerAnswer::Response(_) | PeerAnswer::None => {}
            }
        }
        let forwarded_headers = || {
            let mut headers = fields();
            set_forwarded_headers(&mut headers, target);
            headers
        };
        live.origins
            .ask(method, target, &forwarded_headers, body)
            .await
    }

    /// Converts the cache's answer.
    pub(crate) fn sent(&self, answer: Answer) -> Response<Outgoing> {
        let Answer {
            status,
            headers,
            body,
            mut more,
            streamed,
            coding,
        } = answer;
        if let (Some(streamed), Some(disk)) = (streamed, &self.disk) {
            return response(status, headers, stream(disk, self.budget(), *streamed));
        }
        let body = if more.is_empty() {
            Outgoing::whole(body)
        } else {
            more.insert(0, body);
            Outgoing::parts(more)
        };
        let mut response = response(status, headers, body);
        if coding != AnswerCoding::Open {
            response.extensions_mut().insert(coding);
        }
        response
    }

    /// Returns the counters of responses that are coded while they are sent.
    pub(crate) fn coding_counters(&self) -> &CodingCounters {
        &self.coding_counters
    }

    /// Gives a response the content coding that its client gets.
    pub(crate) fn coded(
        &self,
        response: Response<Outgoing>,
        asked: &AskedCoding,
    ) -> Response<Outgoing> {
        let (mut head, body) = response.into_parts();
        let says = head.extensions.remove::<AnswerCoding>().unwrap_or_default();
        let length = body.size_hint().exact();
        let mut place = None;
        let may_encode = |coding| {
            place = self.encoders.of(coding).try_acquire();
            if place.is_none() {
                self.coding_counters.refused.fetch_add(1, Ordering::Relaxed);
            }
            place.is_some()
        };
        let encoder = asked.apply(head.status, &mut head.headers, length, &says, may_encode);
        let (Some(encoder), Some(place)) = (encoder, place) else {
            return Response::from_parts(head, body);
        };
        if let AnswerCoding::Wanted(form) = says {
            self.form_maker.make(form);
        }
        let body = Box::new(CodedBody::new(body, encoder, &self.coding_counters, place));
        Response::from_parts(head, Outgoing::Coded(body))
    }

    /// Refuses a request in a loop. The first one is logged; the others would repeat the line.
    pub(crate) fn refuse_circle(&self, exchange: OpenExchange) -> Response<Outgoing> {
        if !self.circle_logged.swap(true, Ordering::Relaxed) {
            let host = exchange.authority();
            tracing::warn!(
                host,
                "[http] origin leads back to this cache: requests that go round in a circle get 508"
            );
        }
        self.sent(self.shards.on_failure(exchange, UpstreamFailure::Circle))
    }
}

/// Returns what asks the origin for the rest of a body of another node, or of an object.
pub(crate) fn rest_of(live: &Arc<Live>, target: UpstreamTarget, mut headers: HeaderMap) -> AskRest {
    let live = Arc::clone(live);
    Box::new(move |fields| {
        headers.extend(fields);
        Box::pin(async move {
            let fields = || headers.clone();
            let asked = live
                .origins
                .ask(Method::GET, &target, &fields, Upload::empty());
            asked.await.ok()
        })
    })
}

#[cfg(test)]
impl Proxy {
    /// Returns a proxy with a cache of 1 MiB and the generated origin.
    pub(crate) fn generated() -> Arc<Proxy> {
        let config = larder_http::Config {
            capacity: larder_units::ByteSize::from_mib(1),
            policy: "lru".parse().unwrap(),
            max_object: larder_units::ByteSize::from_mib(1),
            slice: larder_units::ByteSize::from_bytes(0),
            hash_key: [1; 16],
            ..larder_http::Config::default()
        };
        let shards = Shards::with(&config, &larder_units::Streams::new(1), 4, None).unwrap();
        let timeouts = crate::base::timeouts::Timeouts::default();
        let limits = LiveLimits::new(timeouts, crate::base::http_limits::HttpLimits::default());
        let live = Live {
            origins: crate::exchange::upstream::Origins::generated(),
            rules: None,
            timeouts,
            codings: larder_http::Codings::from_bits(0),
            compression: None,
            subject_field: None,
        };
        Arc::new(Proxy::new(
            shards,
            live,
            None,
            limits,
            Arc::new(Observer::without_log()),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::request_counter::{Counted, Exchanges};
    use crate::exchange::client::Client;
    use crate::exchange::service::Service;
    use crate::message::informational::InformationalResponses;
    use hyper_util::rt::TokioIo;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Failure: clients that come and go leave endless requests at the origin.
    #[tokio::test]
    async fn what_is_under_way_is_bounded() {
        let proxy = Proxy::generated();
        let ask = async |target: &str| {
            let (near, mut far) = tokio::io::duplex(4096);
            let client = Client::insecure(InformationalResponses::default());
            let service = Service::new(&proxy, client);
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(
                TokioIo::new(near),
                Counted::new(service, &Exchanges::endless()),
            ));
            far.write_all(format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes())
                .await
                .unwrap();
            let mut start = [0; 12];
            let read =
                tokio::time::timeout(Duration::from_millis(100), far.read_exact(&mut start)).await;
            (
                read.is_ok()
                    .then(|| String::from_utf8_lossy(&start).into_owned()),
                far,
            )
        };
        assert_eq!(ask("/10/a").await.0.as_deref(), Some("HTTP/1.1 200"));
        let mut places = Vec::new();
        for number in 0..=255 {
            places.extend(std::iter::from_fn(|| {
                proxy
                    .limits
                    .requests
                    .try_acquire([192, 0, 2, number].into())
            }));
        }
        assert_eq!(places.len(), limits::CONNECTIONS);
        let (waits, mut far) = ask("/10/b").await;
        assert_eq!(waits, None);
        assert_eq!(
            ask("/10/a").await.0.as_deref(),
            Some("HTTP/1.1 200"),
            "a hit needs no place"
        );
        drop(places);
        far.read_exact(&mut [0; 12]).await.unwrap();
        while proxy.limits.requests.free() < limits::CONNECTIONS {
            tokio::task::yield_now().await;
        }
    }
}
