//! The configuration of requests in force. A reload replaces it as a whole, so a request sees the
//! former one or the new one, and never parts of both.

use crate::base::limits;
use crate::base::timeouts::Timeouts;
use crate::config::http_config::HttpConfig;
use crate::exchange::request_rules::NormalUrl;
use crate::exchange::upstream::Origins;
use crate::rules::{Bits, Explanation, HostRules, RuleRequest, Rules};
use ::http::{HeaderMap, HeaderName, StatusCode};
use larder_http::{Codings, Compression, ContentCoding, keyed_authority};
use larder_static_files::Tag;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

/// The configuration of requests.
pub(crate) struct Live {
    pub(crate) origins: Origins,
    /// `None` if there is no rule.
    pub(crate) rules: Option<Arc<Rules>>,
    /// The time limits of requests. Those of connections are the ones with which they began.
    pub(crate) timeouts: Timeouts,
    /// The codings that `Accept-Encoding` is reduced to.
    pub(crate) codings: Codings,
    /// The responses that get a content coding; `None` if none does.
    pub(crate) compression: Option<Arc<Compression>>,
    /// The request field for the subject of a client's certificate, if it is configured. No client
    /// may send it.
    pub(crate) subject_field: Option<HeaderName>,
}

impl Live {
    /// Returns the configuration with these origins and rules, which were made from it.
    pub(crate) fn new(config: &HttpConfig, origins: Origins, rules: Option<Arc<Rules>>) -> Live {
        Live {
            origins,
            rules,
            timeouts: config.timeouts,
            codings: config.accept_encoding,
            compression: config.compression.compression().map(Arc::new),
            subject_field: config.subject_field().cloned(),
        }
    }

    /// Returns the URL under which the response to a GET of this URL is stored.
    ///
    /// # Errors
    /// The reason for which such a request is refused.
    pub(crate) fn keyed_url(&self, url: &str) -> Result<String, &'static str> {
        let url = NormalUrl::new(url)?;
        let keyed = self.rules.as_ref().and_then(|rules| {
            let bits = rules.of_request(&url.get());
            rules.keyed_target(bits, &url.target)
        });
        let target = keyed.as_deref().unwrap_or(&url.target);
        Ok(format!("{}://{}{target}", url.scheme, url.authority))
    }

    /// Explains what the rules do to a GET of this URL, and to a response with 200.
    pub(crate) fn explain(&self, url: &NormalUrl) -> Option<Explanation> {
        let (rules, none) = (self.rules.as_ref()?, HeaderMap::new());
        Some(rules.explain(&url.get(), &none, StatusCode::OK, &none))
    }
}

/// The configuration in force, which a reload replaces.
pub(crate) struct LiveCell {
    /// Counts the replacements.
    generation: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    current: Arc<Live>,
    /// Those before, and since when they are no longer in force. A request that began just before
    /// the reload still finds its own.
    former: Vec<(Instant, Arc<Live>)>,
}

impl LiveCell {
    pub(crate) fn new(live: Live) -> Arc<LiveCell> {
        Arc::new(LiveCell {
            generation: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                current: Arc::new(live),
                former: Vec::new(),
            }),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the configuration. Requests in progress keep the one that they began with.
    pub(crate) fn set(&self, live: Live) {
        let mut inner = self.inner();
        let before = std::mem::replace(&mut inner.current, Arc::new(live));
        inner.former.push((Instant::now(), before));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Returns the configuration in force.
    pub(crate) fn current(&self) -> Arc<Live> {
        Arc::clone(&self.inner().current)
    }

    /// Gives up former configurations after [`limits::FORMER_LIVE`]. Requests in progress have
    /// their own.
    pub(crate) fn forget_former(&self) {
        let is_old = |(since, _): &mut (Instant, _)| since.elapsed() >= limits::FORMER_LIVE;
        let old: Vec<_> = self.inner().former.extract_if(.., is_old).collect();
        // Without the lock, because they close their connections.
        drop(old);
    }
}

/// A connection's view of the configuration. It looks into the cell only after a reload, so
/// connections do not share a lock. It keeps the rules, and no origins: an idle connection holds
/// none that a reload has removed.
pub(crate) struct LiveView {
    cell: Arc<LiveCell>,
    generation: u64,
    live: Weak<Live>,
    rules: Option<Arc<Rules>>,
    codings: Codings,
    compression: Option<Arc<Compression>>,
    subject_field: Option<HeaderName>,
    files: Option<LiveFiles>,
    /// The rules of the host that the connection asked last.
    host: Option<HostRules>,
    /// The last `Accept-Encoding`, and the coding that follows from it: a client repeats one value.
    accepted: (Box<[u8]>, Option<ContentCoding>),
}

/// The longest `Accept-Encoding` that a connection remembers: browsers send 23 bytes.
const REMEMBERED_BYTES: usize = 64;

impl LiveView {
    pub(crate) fn new(cell: &Arc<LiveCell>) -> LiveView {
        let generation = cell.generation.load(Ordering::Acquire);
        let live = cell.current();
        LiveView {
            cell: Arc::clone(cell),
            generation,
            live: Arc::downgrade(&live),
            rules: live.rules.clone(),
            codings: live.codings,
            compression: live.compression.clone(),
            subject_field: live.subject_field.clone(),
            files: LiveFiles::new(&live),
            host: None,
            accepted: Default::default(),
        }
    }

    /// A request begins: from now on, this is a view of the configuration in force.
    pub(crate) fn renew(&mut self) {
        if self.cell.generation.load(Ordering::Acquire) != self.generation {
            *self = LiveView::new(&self.cell);
        }
    }

    /// Returns the whole configuration of the request that began last; `None` if a reload has
    /// replaced it more than [`limits::FORMER_LIVE`] ago: this thread has not run since.
    pub(crate) fn live(&self) -> Option<Arc<Live>> {
        self.live.upgrade()
    }

    /// Returns the codings that `Accept-Encoding` is reduced to.
    pub(crate) fn codings(&self) -> Codings {
        self.codings
    }

    /// Returns which responses get a content coding.
    pub(crate) fn compression(&self) -> Option<&Arc<Compression>> {
        self.compression.as_ref()
    }

    /// Returns the coding that a client with this `Accept-Encoding` gets, if responses get any.
    pub(crate) fn coding_of(&mut self, accepted: &[u8]) -> Option<ContentCoding> {
        if *self.accepted.0 == *accepted {
            return self.accepted.1;
        }
        let coding = self.compression.as_ref()?.chosen([accepted].into_iter());
        if accepted.len() <= REMEMBERED_BYTES {
            self.accepted = (accepted.into(), coding);
        }
        coding
    }

    /// Returns the request field for the subject of a client's certificate.
    pub(crate) fn subject_field(&self) -> Option<&HeaderName> {
        self.subject_field.as_ref()
    }

    /// Returns the files of the configuration; `None` if no request is for files.
    pub(crate) fn files(&self) -> Option<&LiveFiles> {
        self.files.as_ref()
    }

    /// Returns those of its rules that are for a request; `None` if no rule is.
    pub(crate) fn rules_of(&mut self, request: &RuleRequest<'_>) -> Option<(&Arc<Rules>, Bits)> {
        let rules = self.rules.as_ref()?;
        let bits = match &self.host {
            Some(host) if host.are_of(request.scheme, request.host) => {
                rules.of_request_to(host, request)
            }
            _ => {
                let host = rules.host_rules(request);
                let bits = rules.of_request_to(&host, request);
                self.host = (request.host.len() <= limits::KNOWN_HOST_BYTES).then_some(host);
                bits
            }
        };
        (!bits.is_empty()).then_some((rules, bits))
    }
}

/// A connection's way to the files of the configuration. By default, no stored response of a file
/// is fresh: at each hit, a look at the file finds its entity tag, and a stored response with this
/// tag answers. So a changed file is seen at once, and a hit opens no file.
#[derive(Clone)]
pub(crate) struct LiveFiles(Arc<Weak<Live>>);

impl LiveFiles {
    /// `None` if no request is for files.
    fn new(live: &Arc<Live>) -> Option<LiveFiles> {
        let has_files = live.origins.has_files;
        has_files.then(|| LiveFiles(Arc::new(Arc::downgrade(live))))
    }

    /// Returns the entity tag of the file that a GET would get now; `None` if it is for another
    /// origin, for no file, or stored responses are fresh for a while.
    pub(crate) fn tag(
        &self,
        scheme: &str,
        authority: &str,
        target: &str,
        fields: impl FnOnce() -> HeaderMap,
    ) -> Option<Tag> {
        let live = self.0.upgrade()?;
        let path = target.split('?').next().unwrap_or_default();
        let host = keyed_authority(scheme, authority);
        live.origins.tag_of(&host, path, fields)
    }
}
