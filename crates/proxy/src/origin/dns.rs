//! Resolves the names of servers, and tells how long their addresses hold. Isolates
//! hickory-resolver.
//!
//! A name in `/etc/hosts` has the addresses that it has there. Otherwise name servers are asked:
//! those of `[http] resolver`, or those of `/etc/resolv.conf`, with its search list. Both files are
//! read for each resolution, so a change of them needs no reload.

use crate::base::limits;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{Hosts, TokioResolver, system_conf};
use std::future::Future;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The name servers.
#[derive(Default)]
pub(crate) struct Dns {
    /// None: those of the system.
    servers: Vec<SocketAddr>,
    /// What the last resolution used. It knows which name servers are slow or dead.
    last: Mutex<Option<Arc<Resolver>>>,
}

/// A resolver without a cache.
struct Resolver {
    /// The content of `/etc/resolv.conf` that it was created from; empty if it uses other servers.
    file: Vec<u8>,
    hickory: TokioResolver,
    /// The search list.
    search: Vec<Name>,
    /// A name with as many dots is tried before the search list.
    dots: usize,
}

/// The addresses of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The IPv4 addresses; `None` if the name servers failed to tell them.
    pub(crate) v4: Option<Vec<IpAddr>>,
    /// The IPv6 addresses; `None` if the name servers failed to tell them.
    pub(crate) v6: Option<Vec<IpAddr>>,
    /// The time for which they hold, as the name servers say.
    pub(crate) ttl: Duration,
}

/// The reason why a name has no addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotFound {
    /// The name servers say that there are none: NXDOMAIN, or no data.
    NoAddress,
    /// The name servers did not answer, or not usefully: the reason in words.
    Failed(String),
}

/// The answer for one family: its addresses, of which there may be none, and the time for which
/// they hold; or the reason in words why the name servers told none.
type Answer = Result<(Vec<IpAddr>, Duration), String>;

impl Dns {
    /// `servers`: the name servers; none: those of the system.
    pub(crate) fn new(servers: Vec<SocketAddr>) -> Dns {
        Dns {
            servers,
            last: Mutex::default(),
        }
    }

    /// Returns the name servers; none: those of the system.
    pub(crate) fn servers(&self) -> &[SocketAddr] {
        &self.servers
    }

    /// Resolves a name. Takes at most [`limits::RESOLVE`].
    pub(crate) async fn resolve(self: &Arc<Self>, host: &str) -> Result<Found, NotFound> {
        let mut found = self.lookup(host).await?;
        if let (Some(&[v4, ..]), Some(&[v6, ..])) = (found.v4.as_deref(), found.v6.as_deref()) {
            // RFC 6724 §5, rule 1. The other family may reach the same machines.
            match (has_route(v4), has_route(v6)) {
                (true, false) => found.v6 = Some(Vec::new()),
                (false, true) => found.v4 = Some(Vec::new()),
                _ => {}
            }
        }
        Ok(found)
    }

    async fn lookup(self: &Arc<Self>, host: &str) -> Result<Found, NotFound> {
        let failed = |error: NetError| NotFound::Failed(error.to_string());
        let name = Name::from_ascii(host).map_err(|error| failed(error.into()))?;
        let (dns, of_hosts) = (Arc::clone(self), name.clone());
        // The files may be large, such as a list of blocked hosts.
        let read = tokio::task::spawn_blocking(move || (hosts_file(of_hosts), dns.resolver()));
        let (from_hosts, resolver) = read
            .await
            .map_err(|error| NotFound::Failed(error.to_string()))?;
        if let Some(found) = from_hosts {
            return Ok(found);
        }
        let resolver = resolver.map_err(failed)?;
        let names = names(&name, &resolver.search, resolver.dots);
        let hickory = &resolver.hickory;
        first_found(&names, |name, kind| async move {
            answer(hickory.lookup(name, kind).await)
        })
        .await
    }

    /// Returns the resolver of the last resolution, or a new one if the file has changed.
    fn resolver(&self) -> Result<Arc<Resolver>, NetError> {
        let file = if self.servers.is_empty() {
            // Without the file, hickory says what is wrong.
            std::fs::read("/etc/resolv.conf").unwrap_or_default()
        } else {
            Vec::new()
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| last.file == file) {
            return Ok(Arc::clone(last));
        }
        let (config, mut options) = config(&self.servers)?;
        (options.cache_size, options.use_hosts_file) = (0, ResolveHosts::Never);
        (options.timeout, options.attempts) = (limits::RESOLVE_TRY, limits::RESOLVE_RETRIES);
        let search = match (config.search(), config.domain()) {
            ([], domain) => domain.cloned().into_iter().collect(),
            (search, _) => search.to_vec(),
        };
        let dots = options.ndots;
        let mut builder =
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        let resolver = Arc::new(Resolver {
            file,
            hickory: builder.build()?,
            search,
            dots,
        });
        *last = Some(Arc::clone(&resolver));
        Ok(resolver)
    }
}

/// Returns the names to ask for, all complete: the search list adds to a name without a dot at its
/// end. One with enough dots comes first as it is.
fn names(name: &Name, search: &[Name], dots: usize) -> Vec<Name> {
    let mut as_it_is = name.clone();
    as_it_is.set_fqdn(true);
    if name.is_fqdn() {
        return vec![as_it_is];
    }
    let below = |domain: &Name| {
        let mut all = name.clone().append_domain(domain).ok()?;
        all.set_fqdn(true);
        Some(all)
    };
    let mut names: Vec<Name> = search.iter().filter_map(below).collect();
    let is_first = usize::from(name.num_labels()) > dots || name.is_localhost();
    let at = if is_first { 0 } else { names.len() };
    names.insert(at, as_it_is);
    names
}

/// Asks for one name after the other until one has addresses. Each has an equal part of the time
/// that is left. A name that fails is not one without an address.
async fn first_found<A: Future<Output = Answer>>(
    names: &[Name],
    ask: impl Fn(Name, RecordType) -> A,
) -> Result<Found, NotFound> {
    let end = Instant::now() + limits::RESOLVE;
    let mut result = Err(NotFound::NoAddress);
    for (name, left) in names.iter().zip((1..=names.len()).rev()) {
        let now = Instant::now();
        let part = end.saturating_duration_since(now) / u32::try_from(left).unwrap_or(u32::MAX);
        let (v4, v6) = both(
            ask(name.clone(), RecordType::A),
            ask(name.clone(), RecordType::AAAA),
            now + part,
        )
        .await;
        match found(v4, v6) {
            Err(NotFound::NoAddress) => {}
            Err(failed) => result = Err(failed),
            Ok(found) => return Ok(found),
        }
    }
    result
}

/// Waits for both answers until `end`; once one family has addresses, at most for
/// [`limits::OTHER_FAMILY`] more.
async fn both(
    v4: impl Future<Output = Answer>,
    v6: impl Future<Output = Answer>,
    end: Instant,
) -> (Answer, Answer) {
    let (mut v4, mut v6, mut end) = (pin!(v4), pin!(v6), pin!(sleep_until(end)));
    let (mut of_v4, mut of_v6) = (None, None);
    while of_v4.is_none() || of_v6.is_none() {
        tokio::select! {
            answer = &mut v4, if of_v4.is_none() => of_v4 = Some(answer),
            answer = &mut v6, if of_v6.is_none() => of_v6 = Some(answer),
            () = &mut end => break,
        }
        if [&of_v4, &of_v6].into_iter().flatten().any(has_addresses) {
            let soon = end.deadline().min(Instant::now() + limits::OTHER_FAMILY);
            end.as_mut().reset(soon);
        }
    }
    let late = || Err("the name servers do not answer".to_owned());
    (of_v4.unwrap_or_else(late), of_v6.unwrap_or_else(late))
}

/// Returns the name servers and their options.
fn config(servers: &[SocketAddr]) -> Result<(ResolverConfig, ResolverOpts), NetError> {
    if servers.is_empty() {
        let of_system = system_conf::read_system_conf();
        return of_system.map_err(|error| NetError::Msg(format!("/etc/resolv.conf: {error}")));
    }
    let server = |address: &SocketAddr| {
        let mut server = NameServerConfig::udp_and_tcp(address.ip());
        for connection in &mut server.connections {
            connection.port = address.port();
        }
        server
    };
    let config = ResolverConfig::from_parts(None, Vec::new(), servers.iter().map(server).collect());
    Ok((config, ResolverOpts::default()))
}

/// Returns the addresses of a name in `/etc/hosts`; `None` if it is not there.
fn hosts_file(mut name: Name) -> Option<Found> {
    let hosts = Hosts::from_system().ok()?;
    name.set_fqdn(true);
    let of = |kind| {
        hosts
            .lookup_static_host(&Query::query(name.clone(), kind))
            .map(|lookup| addresses(&lookup))
    };
    let (v4, v6) = (
        of(RecordType::A).unwrap_or_default(),
        of(RecordType::AAAA).unwrap_or_default(),
    );
    let is_there = !v4.is_empty() || !v6.is_empty();
    is_there.then_some(Found {
        v4: Some(v4),
        v6: Some(v6),
        ttl: limits::RESOLVED_LONGEST,
    })
}

fn answer(answer: Result<Lookup, NetError>) -> Answer {
    match answer {
        Ok(lookup) => {
            let ttl = lookup
                .answers()
                .iter()
                .map(|record| record.ttl)
                .min()
                .unwrap_or(0);
            Ok((addresses(&lookup), Duration::from_secs(ttl.into())))
        }
        Err(error) if error.is_no_records_found() => Ok((Vec::new(), Duration::ZERO)),
        Err(error) => Err(error.to_string()),
    }
}

fn has_addresses(answer: &Answer) -> bool {
    answer
        .as_ref()
        .is_ok_and(|(addresses, _)| !addresses.is_empty())
}

fn found(v4: Answer, v6: Answer) -> Result<Found, NotFound> {
    let ttl = |answer: &Answer| match answer {
        Ok((addresses, ttl)) => (!addresses.is_empty()).then_some(*ttl),
        // A family that was not told is asked for again soon.
        Err(_) => Some(limits::RESOLVE_AGAIN),
    };
    let ttl = [&v4, &v6]
        .into_iter()
        .filter_map(ttl)
        .min()
        .unwrap_or_default();
    if !has_addresses(&v4) && !has_addresses(&v6) {
        return Err(v4
            .and(v6)
            .map_or_else(NotFound::Failed, |_| NotFound::NoAddress));
    }
    let family = |answer: Answer| answer.ok().map(|(addresses, _)| addresses);
    Ok(Found {
        v4: family(v4),
        v6: family(v6),
        ttl,
    })
}

fn addresses(lookup: &Lookup) -> Vec<IpAddr> {
    let address = |data: &RData| match data {
        RData::A(address) => Some(IpAddr::from(address.0)),
        RData::AAAA(address) => Some(IpAddr::from(address.0)),
        _ => None,
    };
    lookup
        .answers()
        .iter()
        .filter_map(|record| address(&record.data))
        .collect()
}

/// Returns true if this machine has a route to an address. Sends nothing.
fn has_route(address: IpAddr) -> bool {
    let local: SocketAddr = match address {
        IpAddr::V4(_) => ([0; 4], 0).into(),
        IpAddr::V6(_) => ([0; 16], 0).into(),
    };
    UdpSocket::bind(local)
        .and_then(|socket| socket.connect((address, 80)))
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::net::Ipv4Addr;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    fn none() -> Answer {
        Ok((Vec::new(), Duration::ZERO))
    }

    fn one(last: u8) -> Vec<IpAddr> {
        vec![Ipv4Addr::new(10, 0, 0, last).into()]
    }

    /// Failure: the search list is not used, or in another order than the system's resolver does.
    #[test]
    fn names_of_a_search_list() {
        let search = [name("a.example"), name("b.example.")];
        let of = |host: &str, dots| -> Vec<String> {
            names(&name(host), &search, dots)
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(of("app", 1), ["app.a.example.", "app.b.example.", "app."]);
        assert_eq!(
            of("app.ns", 1),
            ["app.ns.", "app.ns.a.example.", "app.ns.b.example."]
        );
        assert_eq!(
            of("app.ns", 5),
            ["app.ns.a.example.", "app.ns.b.example.", "app.ns."]
        );
        assert_eq!(of("app.ns.", 5), ["app.ns."]);
        assert_eq!(of("localhost", 1)[0], "localhost.", "RFC 6761 section 6.3");
        assert_eq!(names(&name("app"), &[], 1), [name("app.")]);
    }

    /// Failure: a name that fails counts as one without an address if another one of the search
    /// list has none, and later all servers are removed.
    #[tokio::test(start_paused = true)]
    async fn a_failure_within_the_search_list_is_no_address() {
        let all = [name("app.a."), name("app.b."), name("app.")];
        let fails = |failing: &'static str| {
            let all = &all;
            async move {
                let ask = |asked: Name, _| async move {
                    if asked == name(failing) {
                        Err("SERVFAIL".to_owned())
                    } else {
                        none()
                    }
                };
                first_found(all, ask).await
            }
        };
        for failing in ["app.a.", "app.b.", "app."] {
            assert_eq!(
                fails(failing).await,
                Err(NotFound::Failed("SERVFAIL".to_owned())),
                "{failing}"
            );
        }
        assert_eq!(fails("other.").await, Err(NotFound::NoAddress));
        // The first is silent: the others have their part of the time.
        let ask = |asked: Name, kind| async move {
            match (asked == name("app.a."), asked == name("app.b."), kind) {
                (true, ..) => pending().await,
                (_, true, RecordType::A) => Ok((one(1), Duration::from_secs(5))),
                _ => none(),
            }
        };
        let found = Found {
            v4: Some(one(1)),
            v6: Some(Vec::new()),
            ttl: Duration::from_secs(5),
        };
        assert_eq!(first_found(&all, ask).await, Ok(found));
    }

    /// Failure: a family that name servers do not answer for makes the whole name fail, or takes
    /// the whole time.
    #[tokio::test(start_paused = true)]
    async fn silence_for_one_family() {
        for silent in [RecordType::A, RecordType::AAAA] {
            let ask = |_, kind| async move {
                if kind == silent {
                    pending().await
                } else {
                    Ok((one(1), Duration::from_secs(30)))
                }
            };
            let begun = Instant::now();
            let result = first_found(&[name("app.")], ask).await.unwrap();
            assert!(begun.elapsed() < limits::RESOLVE, "by the paused clock");
            let told = Some(one(1));
            let (v4, v6) = if silent == RecordType::A {
                (None, told)
            } else {
                (told, None)
            };
            assert_eq!(
                result,
                Found {
                    v4,
                    v6,
                    ttl: limits::RESOLVE_AGAIN
                }
            );
        }
        let silent = first_found(&[name("app.")], |_, _| pending()).await;
        assert!(matches!(silent, Err(NotFound::Failed(_))), "{silent:?}");
    }
}
