//! A request in flight to the origin: its phase, and the followers that wait for its head.

use crate::body::shared_body::BodyId;
use crate::now::Now;
use crate::outbox::{FollowerId, Outbox};
use crate::rfc::cache_status::ForwardReason;
use crate::rfc::directives::{Reload, RequestDirectives};
use crate::rfc::freshness::Freshness;
use crate::rfc::vary::Selector;
use crate::store::purge::{CACHE_TAG, SURROGATE_KEY, each_tag};
use crate::store::purge_table::Purged;
use crate::store::stored::Stored;
use http::{HeaderMap, HeaderValue, StatusCode};
use larder_units::Time;
use std::sync::Arc;

/// The number of a fetch in its table. An owner of this number keeps the fetch in memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FetchId(pub(super) usize);

/// The leader's handle of its fetch. The leader returns it to
/// [`InFlightTable::finish`](crate::collapse::table::InFlightTable::finish).
#[derive(Debug)]
#[must_use = "InFlightTable::finish takes it"]
pub(crate) struct Lead(pub(super) FetchId);

/// A request in flight to the origin.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Its hash in the table, by its key and its variant.
    pub(super) hash: u64,
    pub(super) key: Box<[u8]>,
    /// The values of its request for the fields by which the URL's responses vary, if these are
    /// known. Only requests with the same values follow.
    pub(super) variant: Selector,
    /// The number of caches with our name that its request has passed ([`crate::cdn_loop_count`]).
    pub(super) passed: usize,
    /// The degree of its request's reload.
    pub(super) reload: Reload,
    /// The time when its request was sent.
    pub(super) requested: Time,
    pub(super) phase: Phase,
    /// Followers that wait for its head, by position.
    waiting: Vec<Option<FollowerId>>,
    /// Free positions in `waiting`.
    free: Vec<usize>,
    /// All followers, including those that were woken and have not joined yet.
    pub(super) followers: usize,
}

#[derive(Debug)]
pub(super) enum Phase {
    Asking,
    Streaming(Box<Head>),
    Finished(Outcome),
}

/// The head of a response that followers share.
#[derive(Debug)]
pub(crate) struct Head {
    pub status: StatusCode,
    /// The fields that do not depend on the time or the length of the body.
    pub headers: Arc<HeaderMap>,
    /// The `Cache-Status` of caches nearer to the origin.
    pub earlier: Box<str>,
    pub selector: Selector,
    /// A body may take longer than the response stays fresh; a late request must then ask again.
    pub freshness: Freshness,
    /// Content-Length.
    pub length: Option<u64>,
    pub body: BodyId,
    /// True if it is an object of the object tier.
    pub is_object: bool,
    /// True until the body is no longer collected: a follower reads it from the start.
    pub is_open: bool,
}

impl Head {
    fn has_tag(&self, tag: &[u8]) -> bool {
        let mut has_tag = false;
        for name in [SURROGATE_KEY, CACHE_TAG] {
            for line in self.headers.get_all(&name) {
                each_tag(name.as_str(), line.as_bytes(), &mut |other| {
                    has_tag |= other == tag
                });
            }
        }
        has_tag
    }

    /// Returns true if this response may answer a request that arrived at `now`, as if it were
    /// stored already (RFC 9111 §4).
    pub(super) fn suits(
        &self,
        request: &HeaderMap,
        directives: &RequestDirectives,
        now: Now,
    ) -> bool {
        self.is_open
            && self.selector.matches(request)
            && self.freshness.satisfies(directives, now.time)
    }
}

/// The end of a fetch without a body to share.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Followers ask the cache again.
    Again,
    /// The origin's failure answers all followers.
    Failed {
        status: StatusCode,
        retry_after: Option<HeaderValue>,
        /// Whether the origin has answered so. Otherwise the cache itself has.
        is_of_origin: bool,
    },
    /// The stale stored response that answered the leader. The status is the origin's, if it sent
    /// one.
    Stale {
        stored: Box<Stored>,
        status: Option<StatusCode>,
    },
    /// The response was in the second tier.
    TierHit(Box<Stored>),
}

impl InFlight {
    /// Returns the fetch of a request that has just been sent.
    pub(super) fn new(
        hash: u64,
        key: Box<[u8]>,
        variant: Selector,
        passed: usize,
        reload: Reload,
        requested: Time,
    ) -> InFlight {
        let (phase, waiting, free) = (Phase::Asking, Vec::new(), Vec::new());
        InFlight {
            hash,
            key,
            variant,
            passed,
            reload,
            requested,
            phase,
            waiting,
            free,
            followers: 0,
        }
    }

    /// Returns the number of followers that wait for its head.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() - self.free.len()
    }

    /// Adds a follower. Returns its position among those that wait; `None` if the head has arrived.
    pub(super) fn add_follower(&mut self, id: FollowerId) -> Option<usize> {
        self.followers += 1;
        if !matches!(self.phase, Phase::Asking) {
            return None;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        self.waiting[place] = Some(id);
        Some(place)
    }

    /// Removes a follower, which had this position while it waited.
    pub(super) fn remove_follower(&mut self, place: Option<usize>) {
        self.followers -= 1;
        if let Some(place) = place.filter(|_| matches!(self.phase, Phase::Asking)) {
            self.waiting[place] = None;
            self.free.push(place);
        }
    }

    /// Wakes all waiting followers, to compare their requests with its variant.
    pub(super) fn wake_waiting(&self, outbox: &mut Outbox) {
        outbox.woken.extend(self.waiting.iter().flatten());
    }

    /// Moves to another phase, and wakes all waiting followers.
    pub(super) fn change(&mut self, phase: Phase, outbox: &mut Outbox) {
        self.phase = phase;
        self.free.clear();
        outbox.woken.extend(self.waiting.drain(..).flatten());
    }

    pub(super) fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished(_))
    }

    /// Returns true if a purge names its response, as far as the response is known.
    pub(super) fn is_named_by(&self, what: Purged<'_>) -> bool {
        match (what, &self.phase) {
            (Purged::Everything, _) => true,
            (Purged::Key(key), _) => *self.key == *key,
            (Purged::Prefix(prefix), _) => self.key.starts_with(prefix),
            (Purged::Tag(tag), Phase::Streaming(head)) => head.has_tag(tag),
            (Purged::Tag(_), _) => false,
        }
    }

    /// Returns true if a request may follow it.
    pub(super) fn accepts_follower(&self, asking: &JoinRequest<'_>) -> bool {
        let JoinRequest {
            headers,
            directives,
            passed,
            now,
            ..
        } = asking;
        match &self.phase {
            Phase::Asking => {
                directives.reload() <= self.reload
                    && *passed <= self.passed
                    && self.requested >= directives.trusted_since
            }
            Phase::Streaming(head) => head.suits(headers, directives, *now),
            Phase::Finished(_) => false,
        }
    }

    /// Returns true if a request that cannot follow replaces it in the table.
    pub(super) fn yields_to(&self, asking: &JoinRequest<'_>) -> bool {
        let reload = asking.directives.reload();
        match self.phase {
            _ if self.requested < asking.directives.trusted_since => true,
            Phase::Asking => asking.passed > self.passed || reload > self.reload,
            Phase::Streaming(_) => reload > Reload::No,
            Phase::Finished(_) => true,
        }
    }
}

/// A request that the store does not answer.
pub(crate) struct JoinRequest<'a> {
    pub headers: &'a HeaderMap,
    pub directives: RequestDirectives,
    pub reason: ForwardReason,
    /// The number of caches with our name that it has passed.
    pub passed: usize,
    pub now: Now,
}
