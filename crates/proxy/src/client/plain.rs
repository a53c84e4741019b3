//! Plain hits, answered before hyper: a request whose bytes have come alone and complete, that
//! needs only a target, and that the store answers. It costs one lookup and one write of a head and
//! the stored body. hyper handles everything else: requests that are not surely plain, misses,
//! requests in pieces, and several at once.
//!
//! This code makes no decision that hyper and `service.rs` would make differently. hyper's own
//! parser (httparse) parses the request, and fewer requests qualify than they accept: HTTP/1.1,
//! GET, a target in its normal form with the characters of RFC 3986, one `Host` that is a name or
//! an IPv4 address, no bare LF, nothing that announces a body, and no connection option except
//! keep-alive. None is a question of an authority for certificates.

use crate::base::alt_svc::AltSvc;
use crate::base::header_limits::HeaderLimits;
use crate::exchange::acme_challenge;
use crate::exchange::live::LiveView;
use crate::exchange::proxy::Proxy;
use crate::exchange::request_rules::address_of;
use crate::message::host_pattern::is_plain_host;
use crate::message::request_id::X_REQUEST_ID;
use crate::message::target::Target;
use crate::message::trusted_proxies::TrustedPeer;
use crate::report::observer::Observer;
use crate::rules::{RequestFields, RuleRequest, Values};
use ::http::header::{ACCEPT_ENCODING, RANGE};
use ::http::{HeaderMap, HeaderName, HeaderValue, Method};
use bytes::Bytes;
use httparse::{EMPTY_HEADER, Header, Request, Status};
use larder_http::{Codings, ContentCoding, PlainField, PlainHit, PlainRequest};
use larder_static_files::Tag;
use larder_units::Time;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// More fields than browsers send. hyper handles requests with more.
const FIELDS: usize = 32;

/// What the plain hits of a listener need, before there is a client.
#[derive(Clone)]
pub(crate) struct PlainSettings {
    proxy: Arc<Proxy>,
    /// The observer of the listener's connections.
    observer: Arc<Observer>,
    /// `http` or `https`.
    scheme: &'static str,
}

impl PlainSettings {
    pub(crate) fn new(
        proxy: &Arc<Proxy>,
        scheme: &'static str,
        observer: &Arc<Observer>,
    ) -> PlainSettings {
        PlainSettings {
            proxy: Arc::clone(proxy),
            observer: Arc::clone(observer),
            scheme,
        }
    }

    /// Returns the plain hits of one client, with the limits of its connection.
    pub(crate) fn of_client(
        &self,
        trusted: &Option<TrustedPeer>,
        client: Option<IpAddr>,
        redirects: bool,
        headers: HeaderLimits,
        alt_svc: Option<Arc<AltSvc>>,
    ) -> PlainHits {
        PlainHits {
            proxy: Arc::clone(&self.proxy),
            observer: Arc::clone(&self.observer),
            scheme: self.scheme,
            headers,
            trusted: trusted.clone(),
            redirects,
            live: LiveView::new(self.proxy.live_cell()),
            client: address_of(client),
            alt_svc,
        }
    }
}

/// Answers the plain hits of one connection.
pub(crate) struct PlainHits {
    proxy: Arc<Proxy>,
    observer: Arc<Observer>,
    /// `http` or `https`.
    scheme: &'static str,
    headers: HeaderLimits,
    /// Reads what a trusted proxy says of a request's client.
    trusted: Option<TrustedPeer>,
    /// True if requests for `http` are redirected.
    redirects: bool,
    /// Renewed when a request begins.
    live: LiveView,
    /// The client of the connection, for the rules.
    client: IpAddr,
    /// What responses say of HTTP/3.
    alt_svc: Option<Arc<AltSvc>>,
}

impl PlainHits {
    /// If `bytes` are a plain request and the store has the response: appends the head of the
    /// answer to `head` and returns the rest. `places` gets the places of the values that the
    /// access log needs: of the fields that its format names, and of `X-Request-Id`.
    pub(crate) fn answer(
        &mut self,
        bytes: &[u8],
        head: &mut Vec<u8>,
        places: &mut Vec<Range<usize>>,
    ) -> Option<PlainAnswer> {
        let mut fields = [EMPTY_HEADER; FIELDS];
        let Parsed {
            authority,
            target,
            fields,
            asks_for_less,
        } = parse(bytes, &mut fields, &self.headers)?;
        // Only the certificate of a client may set it.
        self.live.renew();
        if self.has_subject(fields) {
            return None;
        }
        let codings = self.live.codings();
        let coding = self.coding_of(fields)?;
        let files = self.live.files().cloned();
        let asker = self.asker(fields, authority)?;
        let (scheme, authority, client) = (asker.scheme, asker.authority, asker.client);
        let shards = self.proxy.shards();
        let reduced = || {
            let mut fields = map(fields);
            codings.reduce(&mut fields);
            fields
        };
        let accepted = || accepted_codings(fields, codings);
        let asking = RuleRequest {
            scheme,
            host: authority,
            target,
            method: &Method::GET,
            client,
            fields: RequestFields::Parsed(fields),
        };
        let target = target.as_str();
        let asked = Asked {
            bytes,
            asker: &asker,
            target,
            fields,
        };
        let request = PlainRequest {
            scheme,
            authority,
            target,
            asks_for_less,
            coding,
            confirmed: None,
        };
        let announce = announce(self.alt_svc.as_deref());
        let Some((rules, bits)) = self.live.rules_of(&asking) else {
            let tag = files.and_then(|files| files.tag(scheme, authority, target, accepted));
            let request = request.confirmed_by(tag.as_ref().map(Tag::as_bytes));
            let hit = shards.plain_hit(request, reduced, head, announce);
            return Some(self.answered(&asked, hit?, head.len(), places));
        };
        let changes_form = coding.is_some() && rules.change_coding_fields(bits);
        if changes_form || !rules.allow_plain(bits, &asking) {
            return None;
        }
        let values = || asker.values(target);
        let changed = || {
            let mut fields = reduced();
            rules.select_cookies(bits, &mut fields);
            rules.change_request(bits, &values(), &mut fields);
            fields
        };
        let keyed = rules.keyed_target(bits, target);
        let files = files.filter(|_| !rules.rewrites(bits));
        let tag = files.and_then(|files| files.tag(scheme, authority, target, changed));
        let request = PlainRequest {
            target: keyed.as_deref().unwrap_or(target),
            coding: coding.filter(|_| rules.compresses(bits)),
            ..request.confirmed_by(tag.as_ref().map(Tag::as_bytes))
        };
        let edit = |head: &mut Vec<u8>| {
            rules.change_head(bits, &values, head);
            announce(head);
        };
        let hit = shards.plain_hit(request, changed, head, edit)?;
        rules.count(bits, &asking);
        Some(self.answered(&asked, hit, head.len(), places))
    }

    /// Returns true if the request has the field for the subject of a client's certificate.
    fn has_subject(&self, fields: &[Header<'_>]) -> bool {
        let subject = self.live.subject_field();
        subject.is_some_and(|subject| {
            let mut names = fields.iter().map(|field| field.name);
            names.any(|name| name.eq_ignore_ascii_case(subject.as_str()))
        })
    }

    /// Returns the content coding that the client gets, if responses have such; `None` if the
    /// request is not plain because of that.
    fn coding_of(&mut self, fields: &[Header<'_>]) -> Option<Option<ContentCoding>> {
        if self.live.compression().is_none() {
            return Some(None);
        }
        let mut accepted: Option<&[u8]> = None;
        for field in fields {
            if field.name.eq_ignore_ascii_case(ACCEPT_ENCODING.as_str()) {
                if accepted.replace(field.value).is_some() {
                    return None;
                }
            } else if field.name.eq_ignore_ascii_case(RANGE.as_str()) {
                // Ranges are those of the response as it came.
                return Some(None);
            }
        }
        Some(accepted.and_then(|accepted| self.live.coding_of(accepted)))
    }

    /// Returns what the client, or a trusted proxy, says of a request; `None` if the request is not
    /// plain because of that.
    fn asker<'a>(&self, fields: &[Header<'a>], authority: &'a str) -> Option<Asker<'a>> {
        let mut asker = Asker {
            scheme: self.scheme,
            authority,
            client: self.client,
            named: None,
        };
        if let Some(trusted) = &self.trusted {
            let forwarded = trusted.read(fields.iter().map(|field| (field.name, field.value)));
            asker = Asker {
                scheme: forwarded.scheme.unwrap_or(asker.scheme),
                authority: forwarded.host.unwrap_or(authority),
                client: address_of(forwarded.client),
                named: forwarded.client,
            };
            if !is_plain_host(asker.authority) {
                return None;
            }
        }
        let is_redirected = self.redirects && asker.scheme == "http";
        (!is_redirected).then_some(asker)
    }

    /// Returns the answer to a request. `length` is that of the head with what stands behind it.
    fn answered(
        &self,
        request: &Asked<'_>,
        hit: (PlainHit, Time),
        length: usize,
        places: &mut Vec<Range<usize>>,
    ) -> PlainAnswer {
        let Asked {
            bytes,
            asker,
            target,
            fields,
        } = request;
        let (hit, begun) = hit;
        let PlainHit {
            status,
            body_bytes,
            rest,
        } = hit;
        places.clear();
        if let Some(template) = self.observer.template() {
            let own = [X_REQUEST_ID];
            places.extend(template.request_fields().iter().chain(&own).map(|name| {
                let field = fields
                    .iter()
                    .find(|field| field.name.eq_ignore_ascii_case(name.as_str()));
                field.map_or(0..0, |field| place(bytes, field.value))
            }));
        }
        let head_bytes = length - (usize::try_from(body_bytes).unwrap_or(usize::MAX) - rest.len());
        PlainAnswer {
            status: status.as_u16(),
            head_bytes,
            body_bytes,
            rest,
            begun,
            scheme: asker.scheme,
            target: place(bytes, target.as_bytes()),
            host: place(bytes, asker.authority.as_bytes()),
            client: asker.named,
        }
    }

    /// Returns how long before `now` a lookup was.
    pub(crate) fn since(&self, lookup: Time, now: std::time::Instant) -> Duration {
        self.proxy.shards().since(lookup, now)
    }
}

/// What the client of a request, or a trusted proxy, says of it.
struct Asker<'a> {
    /// `http` or `https`.
    scheme: &'static str,
    authority: &'a str,
    /// The client, for the rules.
    client: IpAddr,
    /// The client that a trusted proxy names.
    named: Option<IpAddr>,
}

impl Asker<'_> {
    /// Returns the values that rules insert.
    fn values(&self, target: &str) -> Values {
        let host = larder_http::keyed_authority(self.scheme, self.authority);
        Values {
            scheme: self.scheme,
            host: host.into_owned(),
            target: target.to_owned(),
            client: self.client,
        }
    }
}

/// Returns a function that adds what a response says of HTTP/3 to its head.
fn announce(alt_svc: Option<&AltSvc>) -> impl Fn(&mut Vec<u8>) + Copy + '_ {
    move |head| {
        if let Some(alt_svc) = alt_svc {
            alt_svc.append_to(head);
        }
    }
}

/// A plain request, for the access log.
struct Asked<'a> {
    bytes: &'a [u8],
    asker: &'a Asker<'a>,
    target: &'a str,
    fields: &'a [Header<'a>],
}

/// The answer to a plain request.
pub(crate) struct PlainAnswer {
    pub(crate) status: u16,
    /// The length of the head. A small body stands behind it.
    pub(crate) head_bytes: usize,
    /// The length of the whole body.
    pub(crate) body_bytes: u64,
    /// The rest of the body.
    pub(crate) rest: Bytes,
    /// The time of the lookup.
    pub(crate) begun: Time,
    /// `http` or `https`, as the client or a trusted proxy says.
    pub(crate) scheme: &'static str,
    /// The places of target and host in the request.
    pub(crate) target: Range<usize>,
    pub(crate) host: Range<usize>,
    /// The client that a trusted proxy names.
    pub(crate) client: Option<IpAddr>,
}

/// Returns the place of a part within the whole.
fn place(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
    if start > whole.len() {
        0..0
    } else {
        start..start + part.len()
    }
}

/// A plain request.
struct Parsed<'a, 'b> {
    authority: &'a str,
    target: Target<'a>,
    fields: &'b [Header<'a>],
    /// True if it has a condition or a range.
    asks_for_less: bool,
}

/// Returns the parts of a plain request.
fn parse<'a, 'b>(
    bytes: &'a [u8],
    fields: &'b mut [Header<'a>; FIELDS],
    headers: &HeaderLimits,
) -> Option<Parsed<'a, 'b>> {
    // One read may return more than hyper accepts of a head.
    if bytes.len() > headers.bytes()
        || !bytes.starts_with(b"GET /")
        || !bytes.ends_with(b"\r\n\r\n")
    {
        return None;
    }
    let mut request = Request::new(fields);
    let is_alone = request.parse(bytes) == Ok(Status::Complete(bytes.len()));
    let is_bare = |at: usize| bytes.get(at.wrapping_sub(1)) != Some(&b'\r');
    if !is_alone || request.version != Some(1) || memchr::memchr_iter(b'\n', bytes).any(is_bare) {
        return None;
    }
    if request.headers.len() > headers.header_fields {
        return None;
    }
    let target = request
        .path
        .map(Target::from)
        .filter(|target| target.is_plain() && !acme_challenge::is_one(target.as_str()))?;
    let fields = &*request.headers;
    let (mut host, mut asks_for_less) = (None, false);
    for field in fields {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        let stays = || field.value.eq_ignore_ascii_case(b"keep-alive");
        if is("host") {
            if host.replace(field.value).is_some() {
                return None;
            }
        } else if HYPERS.iter().any(|name| is(name)) || is("connection") && !stays() {
            return None;
        } else {
            match PlainField::of(field.name) {
                PlainField::Neutral => {}
                PlainField::AsksForLess => asks_for_less = true,
                PlainField::Prevents => return None,
            }
        }
    }
    let host = str::from_utf8(host?)
        .ok()
        .filter(|host| is_plain_host(host))?;
    Some(Parsed {
        authority: host,
        target,
        fields,
        asks_for_less,
    })
}

/// Fields that announce a body, or ask for another protocol.
const HYPERS: [&str; 4] = ["content-length", "expect", "transfer-encoding", "upgrade"];

fn map(fields: &[Header<'_>]) -> HeaderMap {
    map_of(fields.iter())
}

/// Returns the field that decides which file beside the plain one a client gets.
fn accepted_codings(fields: &[Header<'_>], codings: Codings) -> HeaderMap {
    let is_of_codings = |field: &&Header<'_>| field.name.eq_ignore_ascii_case("accept-encoding");
    let mut field = map_of(fields.iter().filter(is_of_codings));
    codings.reduce(&mut field);
    field
}

fn map_of<'a>(fields: impl Iterator<Item = &'a Header<'a>>) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(fields.size_hint().0);
    for field in fields {
        // httparse accepts only valid names and values.
        if let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(field.name.as_bytes()),
            HeaderValue::from_bytes(field.value),
        ) {
            map.append(name, value);
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits;

    fn is_plain(request: &str) -> bool {
        parse(
            request.as_bytes(),
            &mut [EMPTY_HEADER; FIELDS],
            &HeaderLimits::default(),
        )
        .is_some()
    }

    /// Requests of browsers, curl and caches. `tests/http_plain_hits.rs` checks that no accepted
    /// request would get another answer from hyper.
    #[test]
    fn what_most_clients_send_is_plain() {
        let head = "GET /a/b.css?c=%20&d HTTP/1.1\r\nHost: a.example:8080\r\n";
        for fields in [
            "",
            "User-Agent: curl/8\r\nAccept: */*\r\n",
            "Connection: keep-alive\r\nUser-Agent: Mozilla/5.0 (X)\r\nAccept-Encoding: gzip, br\r\nCookie: a=b\r\nSec-Fetch-Mode: no-cors\r\n",
        ] {
            assert!(is_plain(&format!("{head}{fields}\r\n")), "{fields}");
            assert!(
                !is_plain(&format!("{head}{fields}")) && !is_plain(&format!("{head}{fields}\r\nG")),
                "{fields}"
            );
        }
        assert!(
            !is_plain(&format!("{head}{}\r\n", "x: y\r\n".repeat(FIELDS))),
            "hyper takes more"
        );
        assert!(is_plain(&format!(
            "{head}x: {}\r\n\r\n",
            "y".repeat(limits::HEADER_BYTES as usize / 2)
        )));
        assert!(
            !is_plain(&format!(
                "{head}x: {}\r\n\r\n",
                "y".repeat(limits::HEADER_BYTES as usize)
            )),
            "hyper takes less"
        );
    }

    proptest::proptest! {
        #[test]
        fn anything_is_parsed_without_a_panic(text in "GET /[a-z \\x00]{0,4}(( HTTP/1.1|[Hh]ost: [a:1]{0,3}|x:|\r|\n|\r\n){0,8})") {
            is_plain(&text);
        }
    }
}
