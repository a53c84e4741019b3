//! The other nodes of the fleet, as sources of responses: the owner of an object is asked before
//! the object's origin.
//!
//! The request is the client's, with two fields more: [`LARDER_CLIENT`] and [`LARDER_MIN`]. A node
//! that gives no sign of life is left out for a while, and its successor is asked, or the origin: a
//! request never fails for want of a node. An error that another node has made itself is no answer
//! either: [`LARDER_PEER`] marks the others.
//!
//! A node that was asked by another one asks no third one: `peer_request.rs` has its side.

pub(crate) mod continued_body;
mod identity;
pub(crate) mod peer_request;

pub(crate) use identity::client_config;

use crate::base::error::Error;
use crate::base::fleet::{Fleet, Owner};
use crate::base::header_limits::HeaderLimits;
use crate::base::limits;
use crate::base::timeouts::Timeouts;
use crate::config::http_config::HttpConfig;
use crate::config::peers_config::PeersConfig;
use crate::exchange::peers::continued_body::{IsGone, Watch};
use crate::message::upload::Upload;
use crate::origin::connections::{Failed, ReceivedBody, Server};
use crate::origin::origin_body::OriginBody;
use ::http::uri::{PathAndQuery, Uri};
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use foldhash::HashMap;
use larder_fleet::CopyCounts;
use larder_http::UpstreamFailure;
use rustls::ClientConfig;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::time::{sleep, timeout};

/// The place in the fleet's log that the answer of another node must be as new as.
pub(crate) const LARDER_MIN: HeaderName = HeaderName::from_static("larder-min");

/// For whom a node asks: the scheme and the address of its client.
pub(crate) const LARDER_CLIENT: HeaderName = HeaderName::from_static("larder-client");

/// What the answer to another node is: [`RESPONSE`], otherwise perhaps the reason why there is
/// none.
pub(crate) const LARDER_PEER: HeaderName = HeaderName::from_static("larder-peer");

/// A response of the origin, new or stored.
pub(crate) const RESPONSE: HeaderValue = HeaderValue::from_static("response");

/// The node has not executed all purges that the other one knows of.
pub(crate) const BEHIND: HeaderValue = HeaderValue::from_static("behind");

/// The node has no place for another request.
pub(crate) const BUSY: HeaderValue = HeaderValue::from_static("busy");

/// The origin has not answered the node in time.
pub(crate) const LATE: HeaderValue = HeaderValue::from_static("late");

/// Says that a response comes from another node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromPeer;

/// What the nodes that own an object have said.
pub(crate) enum PeerAnswer {
    /// A response.
    Response(Box<Response<OriginBody>>),
    /// The origin does not answer in time.
    Late,
    /// Nothing: the origin is to be asked.
    None,
}

/// The nodes that own an object, and the object's URL at the node.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    /// The owner first, then its successor.
    pub(crate) owners: Vec<Owner>,
    /// The client's target.
    pub(crate) target: PathAndQuery,
    /// Whether the node may keep a copy of a response of theirs.
    pub(crate) is_kept: bool,
}

/// The other nodes of the fleet.
pub(crate) struct Peers {
    fleet: Arc<dyn Fleet>,
    tls: Mutex<Tls>,
    peers: PeersConfig,
    headers: HeaderLimits,
    known: Mutex<HashMap<Arc<str>, Arc<Peer>>>,
    counts: CopyCounts,
    hasher: RandomState,
    counters: PeerCounters,
}

/// What the requests to other nodes, and theirs, came to.
#[derive(Default)]
pub(crate) struct PeerCounters {
    /// Responses of other nodes.
    pub(crate) answered: AtomicU64,
    /// Nodes that did not answer in time, or not at all.
    pub(crate) failed: AtomicU64,
    /// Nodes that had not executed a purge that this node knows of.
    pub(crate) behind: AtomicU64,
    /// Nodes that had no place, or no answer of the origin.
    pub(crate) refused: AtomicU64,
    /// Requests for which the origin was asked after all.
    pub(crate) unanswered: AtomicU64,
    /// Requests of other nodes to this one.
    pub(crate) received: AtomicU64,
}

/// The TLS of connections to other nodes.
struct Tls {
    /// The times of change of the files that were read.
    stamps: [Option<SystemTime>; 3],
    current: Arc<ClientConfig>,
}

fn stamps(config: &PeersConfig) -> [Option<SystemTime>; 3] {
    let files = [
        &config.ca,
        &config.certificate.certificate,
        &config.certificate.key,
    ];
    files.map(|file| std::fs::metadata(file).ok()?.modified().ok())
}

/// Another node.
struct Peer {
    owner: Owner,
    server: Arc<Server>,
    timeouts: Timeouts,
    /// Until when it is left out, and why.
    left_out: Mutex<Option<(Instant, LeftOut)>>,
    /// When it was last asked whether it is there, and whether it was.
    sign_of_life: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

/// Why a node is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeftOut {
    /// It gives no sign of life.
    Silent,
    /// It has not executed a purge that this node knows of.
    Behind,
}

/// The reason why a node gives no response.
enum NoAnswer {
    /// It cannot be reached, or says nothing.
    Silent,
    /// It has not executed a purge that this node knows of.
    Behind,
    /// It has no place, or does not reach the origin.
    Refused,
    /// The origin does not answer it in time.
    Late,
}

impl Peers {
    /// Creates the list of a node without the others, which the fleet tells.
    ///
    /// # Errors
    /// One line: a file and its problem.
    pub(crate) fn new(
        peers: &PeersConfig,
        fleet: &Arc<dyn Fleet>,
        config: &HttpConfig,
    ) -> Result<Peers, Error> {
        Ok(Peers {
            fleet: Arc::clone(fleet),
            tls: Mutex::new(Tls {
                stamps: stamps(peers),
                current: client_config(peers)?,
            }),
            peers: peers.clone(),
            headers: config.limits.headers(),
            known: Mutex::default(),
            counts: CopyCounts::default(),
            hasher: RandomState::new(),
            counters: PeerCounters::default(),
        })
    }

    pub(crate) fn counters(&self) -> &PeerCounters {
        &self.counters
    }

    /// Returns the nodes that own the object of this URL, and counts the request. `None` if it is
    /// this node, or nobody is asked. `url`: that under which the response is stored.
    pub(crate) fn owned(&self, url: &str, target: &PathAndQuery) -> Option<Owned> {
        let owners = self.fleet.owners(url);
        (!owners.is_empty()).then(|| Owned {
            owners,
            target: target.clone(),
            is_kept: self.counts.is_kept(self.hasher.hash_one(url)),
        })
    }

    /// Asks the owners of an object. `fields` has the fields for them.
    pub(crate) async fn ask(
        &self,
        owned: &Owned,
        fields: &(dyn Fn() -> HeaderMap + Send + Sync),
        timeouts: &Timeouts,
    ) -> PeerAnswer {
        let answer = Box::pin(self.ask_owners(owned, fields, timeouts)).await;
        let counter = match answer {
            PeerAnswer::Response(_) => &self.counters.answered,
            PeerAnswer::Late => &self.counters.refused,
            PeerAnswer::None => &self.counters.unanswered,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        answer
    }

    async fn ask_owners(
        &self,
        owned: &Owned,
        fields: &(dyn Fn() -> HeaderMap + Send + Sync),
        timeouts: &Timeouts,
    ) -> PeerAnswer {
        // What this node does not know, it cannot demand.
        let position = self.fleet.position();
        let Some(position) = position.and_then(|text| HeaderValue::try_from(text).ok()) else {
            return PeerAnswer::None;
        };
        let fields = || {
            let mut fields = fields();
            fields.insert(LARDER_MIN, position.clone());
            fields
        };
        for owner in &owned.owners {
            let Some(peer) = self.peer(owner, timeouts) else {
                continue;
            };
            match peer.left_out() {
                Some(LeftOut::Silent) => continue,
                // It is there, and owns the object.
                Some(LeftOut::Behind) => break,
                None => {}
            }
            let counter = match self.ask_patiently(&peer, &owned.target, &fields).await {
                Ok(mut response) => {
                    response.extensions_mut().insert(watch(&peer));
                    return PeerAnswer::Response(Box::new(response));
                }
                Err(NoAnswer::Late) => return PeerAnswer::Late,
                // The successor owns what a node that is gone has owned, and nothing else.
                Err(NoAnswer::Silent) => {
                    peer.leave_out();
                    self.counters.failed.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                Err(NoAnswer::Behind) => {
                    peer.leave_out_for(LeftOut::Behind, limits::PEER_BEHIND);
                    &self.counters.behind
                }
                Err(NoAnswer::Refused) => &self.counters.refused,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            break;
        }
        PeerAnswer::None
    }

    /// Asks again if the node is behind: it gets purges within milliseconds.
    async fn ask_patiently(
        &self,
        peer: &Peer,
        target: &PathAndQuery,
        fields: &(impl Fn() -> HeaderMap + Send + Sync),
    ) -> Result<Response<OriginBody>, NoAnswer> {
        for pause in limits::PEER_BEHIND_PAUSES {
            match peer.ask(Method::GET, target, fields).await {
                Err(NoAnswer::Behind) => sleep(pause).await,
                answered => return answered,
            }
        }
        peer.ask(Method::GET, target, fields).await
    }

    /// Returns a node, with the connections to it. One with another address or other time limits is
    /// another one.
    fn peer(&self, owner: &Owner, timeouts: &Timeouts) -> Option<Arc<Peer>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = known.get(&owner.node)
            && peer.owner == *owner
            && peer.timeouts == *timeouts
        {
            return Some(Arc::clone(peer));
        }
        if known.len() >= limits::PEERS {
            known.clear();
        }
        let tls = Arc::clone(&self.tls().current);
        let peer = Arc::new(Peer::new(owner, &tls, *timeouts, self.headers)?);
        known.insert(Arc::clone(&owner.node), Arc::clone(&peer));
        Some(peer)
    }

    fn tls(&self) -> MutexGuard<'_, Tls> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses changed certificates for new connections. Broken ones are in the log: the listener of
    /// this node reads the same files.
    fn read_again(&self) {
        let now = stamps(&self.peers);
        if self.tls().stamps == now {
            return;
        }
        let read = client_config(&self.peers);
        let mut tls = self.tls();
        tls.stamps = now;
        if let Ok(read) = read {
            tls.current = read;
            drop(tls);
            self.known
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clear();
        }
    }

    /// Closes idle connections, and looks whether the certificates have changed.
    /// `objects`: the number that this node stores.
    pub(crate) fn sweep(&self, objects: u64) {
        self.counts.set_stored(objects);
        self.read_again();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for peer in known.values() {
            peer.server.sweep();
        }
    }
}

/// Returns what watches a node while its body does not come.
fn watch(peer: &Arc<Peer>) -> Watch {
    let peer = Arc::clone(peer);
    Watch(Arc::new(move || -> IsGone {
        let peer = Arc::clone(&peer);
        Box::pin(async move {
            peer.is_gone().await;
            peer.leave_out();
        })
    }))
}

impl Peer {
    fn new(
        owner: &Owner,
        tls: &Arc<ClientConfig>,
        timeouts: Timeouts,
        headers: HeaderLimits,
    ) -> Option<Peer> {
        // The certificate has the name; the address comes from the list of members.
        let uri = format!("https://{}:{}", owner.node, owner.address.port());
        let uri: Uri = uri.parse().ok()?;
        let of_peer = Timeouts {
            origin_connect: limits::PEER_CONNECT,
            // The node itself waits for the origin.
            origin_response: timeouts.origin_response + limits::PEER_LEFT_OUT,
            ..timeouts
        };
        let server = Server::new(&uri, Some(tls), of_peer, headers)?;
        Some(Peer {
            owner: owner.clone(),
            server: Arc::new(server.at(owner.address.ip())),
            timeouts,
            left_out: Mutex::default(),
            sign_of_life: tokio::sync::Mutex::default(),
        })
    }

    fn left_out(&self) -> Option<LeftOut> {
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        if left_out.is_some_and(|(until, _)| until <= Instant::now()) {
            *left_out = None;
        }
        left_out.map(|(_, why)| why)
    }

    fn leave_out(&self) {
        if self.left_out() != Some(LeftOut::Silent) {
            let (node, address) = (&*self.owner.node, self.owner.address);
            tracing::warn!(node, %address, "[fleet.peers]: a node does not answer: it is left out");
        }
        self.leave_out_for(LeftOut::Silent, limits::PEER_LEFT_OUT);
    }

    fn leave_out_for(&self, why: LeftOut, time: Duration) {
        let until = Instant::now() + time;
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        *left_out = Some((until, why));
    }

    /// Sends a request. While its response does not come, asks the node whether it is there.
    async fn ask(
        &self,
        method: Method,
        target: &PathAndQuery,
        fields: &(impl Fn() -> HeaderMap + Send + Sync),
    ) -> Result<Response<OriginBody>, NoAnswer> {
        let request = || {
            let mut request = Request::new(Upload::empty());
            *request.method_mut() = method.clone();
            *request.uri_mut() = Uri::from(target.clone());
            *request.headers_mut() = fields();
            request
        };
        let mut asked = pin!(self.server.ask(request(), request));
        let response = tokio::select! {
            biased;
            answered = asked.as_mut() => answered,
            () = self.is_gone() => return Err(NoAnswer::Silent),
        };
        let mut response: Response<ReceivedBody> = match response {
            Ok(response) => response,
            Err(failed) => return Err(self.no_answer(&failed).await),
        };
        match response.headers_mut().remove(LARDER_PEER) {
            Some(said) if said == RESPONSE => {}
            Some(said) if said == BEHIND => return Err(NoAnswer::Behind),
            Some(said) if said == LATE => return Err(NoAnswer::Late),
            _ => return Err(NoAnswer::Refused),
        }
        let mut response = response.map(|body| OriginBody::Received(body, None));
        response.extensions_mut().insert(FromPeer);
        Ok(response)
    }

    /// Tells why there is no response. One bad response does not make a bad node.
    async fn no_answer(&self, failed: &Failed) -> NoAnswer {
        let (node, reason) = (&*self.owner.node, &*failed.reason);
        tracing::debug!(node, reason, "a node of the fleet does not answer");
        match failed.failure {
            UpstreamFailure::Malformed | UpstreamFailure::HeadTooLarge => NoAnswer::Refused,
            _ if !self.gives_sign_of_life(Instant::now()).await => NoAnswer::Silent,
            UpstreamFailure::TimedOut => NoAnswer::Late,
            _ => NoAnswer::Refused,
        }
    }

    /// Ends when the node gives no sign of life.
    async fn is_gone(&self) {
        let mut pause = limits::PEER_SILENCE;
        loop {
            let since = Instant::now();
            sleep(pause).await;
            if !self.gives_sign_of_life(since).await {
                return;
            }
            pause = limits::PEER_SIGN_AGAIN;
        }
    }

    /// Asks the node whether it is there (RFC 9110, section 9.3.7), unless another request has done
    /// so since then.
    async fn gives_sign_of_life(&self, since: Instant) -> bool {
        let mut last = self.sign_of_life.lock().await;
        if let Some((at, was_there)) = *last
            && at >= since
        {
            return was_there;
        }
        let ask = || {
            let mut request = Request::new(Upload::empty());
            *request.method_mut() = Method::OPTIONS;
            *request.uri_mut() = Uri::from_static("*");
            if let Ok(host) = HeaderValue::from_str(&self.owner.node) {
                request.headers_mut().insert(::http::header::HOST, host);
            }
            request
        };
        let answer = timeout(limits::PEER_SIGN, self.server.ask(ask(), ask)).await;
        let is_there = matches!(answer, Ok(Ok(_)));
        *last = Some((Instant::now(), is_there));
        is_there
    }
}

/// The pauses stay below the time after which a client notices.
const _: () = {
    let mut all = Duration::ZERO;
    let mut at = 0;
    while at < limits::PEER_BEHIND_PAUSES.len() {
        all = all.saturating_add(limits::PEER_BEHIND_PAUSES[at]);
        at += 1;
    }
    assert!(all.as_millis() <= 100);
};
