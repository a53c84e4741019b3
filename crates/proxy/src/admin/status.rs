//! The cache's figures for the admin server.

use crate::accept::listeners::ListenerKind;
use crate::accept::running_listeners::ServedListeners;
use crate::accept::serving::ClientCounters;
use crate::admin::certificates;
use crate::cache::shards::CacheFigures;
use crate::coding::coded_body::CodingCounters;
use crate::exchange::objects::ObjectCounters;
use crate::exchange::peers::PeerCounters;
use crate::exchange::proxy::Proxy;
use crate::exchange::tunnel::TunnelFigures;
use crate::exchange::upstream::{Origins, PoolStatus};
use crate::origin::files::FilesOrigin;
use crate::origin::servers::{Figures, Known, NameFigures, Snapshot};
use larder_admin::histogram::Times;
use larder_admin::{CaptureLines, MetricLine, Metrics, StatusSource};
use larder_host::ListenAddress;
use larder_http::{COUNTERS, Counters, ForwardReason, Refusal, ShownIn};
use larder_object_host as object_store;
use larder_tier_host as disk;
use larder_units::Ratio;
use larder_what_if_host::LiveWhatIf;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) struct CacheSource {
    proxy: Arc<Proxy>,
    listeners: Arc<ServedListeners>,
    clients: Arc<ClientCounters>,
    what_if: Arc<LiveWhatIf>,
}

/// What the cache holds.
static CACHE: [MetricLine<CacheFigures>; 5] = [
    MetricLine::gauge(
        "used_bytes",
        "larder_http_used_bytes",
        "Bytes stored, with headers and structures",
        |cache| cache.engine.used().bytes(),
    ),
    MetricLine::gauge(
        "capacity_bytes",
        "larder_http_capacity_bytes",
        "Bytes that may be stored",
        |cache| cache.engine.capacity().bytes(),
    ),
    MetricLine::gauge(
        "objects",
        "larder_http_objects",
        "Responses stored now",
        |cache| cache.engine.len() as u64,
    ),
    MetricLine::gauge(
        "filling_bytes",
        "larder_http_filling_bytes",
        "Bodies under way: received for the store, recalled from the disk tier, or still read though not stored",
        |cache| cache.filling.bytes(),
    ),
    MetricLine::gauge(
        "shared_header_bytes",
        "larder_http_shared_header_bytes",
        "Header lines that several stored responses have; each is in memory once",
        |cache| cache.shared_lines.bytes(),
    ),
];

/// Connections that have left HTTP.
static TUNNELS: [MetricLine<TunnelFigures>; 5] = [
    MetricLine::gauge(
        "open",
        "larder_http_upgraded_open",
        "Connections with another protocol, such as WebSocket",
        |tunnels| tunnels.open,
    ),
    MetricLine::counter(
        "opened",
        "larder_http_upgraded",
        "Connections that changed to another protocol",
        |tunnels| tunnels.opened,
    ),
    MetricLine::counter(
        "refused",
        "larder_http_upgrades_refused",
        "Upgrades that got 503, because too many were open",
        |tunnels| tunnels.refused,
    ),
    MetricLine::on_page(
        "received_bytes",
        "Bytes that clients sent on them",
        |tunnels| tunnels.received,
    ),
    MetricLine::on_page("sent_bytes", "Bytes that clients got on them", |tunnels| {
        tunnels.sent
    }),
];

/// Requests between the nodes of a fleet.
static PEERS: [MetricLine<PeerCounters>; 6] = [
    MetricLine::counter(
        "answered",
        "larder_fleet_peer_responses",
        "Responses of other nodes of the fleet, for what they own",
        |peers| peers.answered.load(Ordering::Relaxed),
    ),
    MetricLine::counter(
        "unanswered",
        "larder_fleet_peer_unanswered",
        "Requests for what other nodes own that went to the origin, as no node answered",
        |peers| peers.unanswered.load(Ordering::Relaxed),
    ),
    MetricLine::counter(
        "failed",
        "larder_fleet_peer_failures",
        "Requests to other nodes without an answer: they are left out for a while",
        |peers| peers.failed.load(Ordering::Relaxed),
    ),
    MetricLine::counter(
        "behind",
        "larder_fleet_peer_behind",
        "Requests to other nodes that had not executed a purge in time",
        |peers| peers.behind.load(Ordering::Relaxed),
    ),
    MetricLine::counter(
        "refused",
        "larder_fleet_peer_refused",
        "Requests to other nodes that had no place, or could not reach the origin",
        |peers| peers.refused.load(Ordering::Relaxed),
    ),
    MetricLine::counter(
        "received",
        "larder_fleet_peer_requests",
        "Requests of other nodes to this one",
        |peers| peers.received.load(Ordering::Relaxed),
    ),
];

/// What objects of the third tier came to.
static OBJECTS: [MetricLine<ObjectCounters>; 4] = [
    MetricLine::counter(
        "fresh",
        "larder_object_store_fresh",
        "Responses from the object store without the origin",
        |objects| objects.fresh.load(Ordering::Relaxed),
    ),
    MetricLine::counter(
        "confirmed",
        "larder_object_store_confirmed",
        "Responses from the object store that the origin has confirmed",
        |objects| objects.confirmed.load(Ordering::Relaxed),
    ),
    MetricLine::counter(
        "outdated",
        "larder_object_store_outdated",
        "Objects that the origin has not confirmed: its own answer was used",
        |objects| objects.outdated.load(Ordering::Relaxed),
    ),
    MetricLine::counter(
        "saved_bytes",
        "larder_object_store_saved_bytes",
        "Bytes of bodies from the object store, which the origin did not send",
        |objects| objects.saved_bytes.load(Ordering::Relaxed),
    ),
];

/// Connections of clients. Their metrics by the step of their end are those of
/// [`CacheSource::client_metrics`].
static CLIENTS: [MetricLine<CacheSource>; 8] = [
    MetricLine::gauge(
        "connections",
        "larder_http_connections",
        "Connections of clients",
        |source| source.open_connections() as u64,
    ),
    MetricLine::counter(
        "slow_clients",
        "larder_http_slow_clients",
        "Connections ended so that bodies can be stored",
        |source| source.proxy.memory_pressure().left(),
    ),
    MetricLine::on_page(
        "too_many_connections",
        "Connections of clients that had too many",
        |source| source.clients.too_many.load(Ordering::Relaxed),
    ),
    MetricLine::on_page(
        "no_proxy_header",
        "Connections without a header of the PROXY protocol",
        |source| source.clients.no_proxy_header.load(Ordering::Relaxed),
    ),
    MetricLine::on_page(
        "no_tls",
        "Connections whose TLS handshake failed",
        |source| source.clients.no_tls.load(Ordering::Relaxed),
    ),
    MetricLine::on_page(
        "displaced_connections",
        "Idle connections that were closed for others",
        |source| source.clients.displaced.load(Ordering::Relaxed),
    ),
    MetricLine::on_page(
        "refused_handshakes",
        "Handshakes of HTTP/3 that were refused, because there were too many",
        |source| source.clients.refused_handshakes.load(Ordering::Relaxed),
    ),
    MetricLine::on_page(
        "refused_heads",
        "Heads of requests that found no room",
        |source| source.clients.partial_heads.refused(),
    ),
];

/// Responses that are coded while they are sent.
static CODINGS: [MetricLine<CodingCounters>; 4] = [
    MetricLine::counter(
        "coded_responses",
        "larder_http_coded_responses",
        "Responses that got a content coding while they were sent",
        |codings| codings.responses.load(Ordering::Relaxed),
    ),
    MetricLine::counter(
        "coded_bytes",
        "larder_http_coded_bytes",
        "Body bytes of these, as they came",
        |codings| codings.bytes.load(Ordering::Relaxed),
    ),
    MetricLine::counter(
        "coded_sent_bytes",
        "larder_http_coded_sent_bytes",
        "Body bytes of these, coded",
        |codings| codings.sent.load(Ordering::Relaxed),
    ),
    MetricLine::counter(
        "busy_encoders",
        "larder_http_busy_encoders",
        "Times that all encoders of a coding were busy",
        |codings| codings.refused.load(Ordering::Relaxed),
    ),
];

impl CacheSource {
    pub(crate) fn new(
        proxy: Arc<Proxy>,
        listeners: &Arc<ServedListeners>,
        clients: &Arc<ClientCounters>,
        what_if: &Arc<LiveWhatIf>,
    ) -> CacheSource {
        let (listeners, clients, what_if) = (
            Arc::clone(listeners),
            Arc::clone(clients),
            Arc::clone(what_if),
        );
        CacheSource {
            proxy,
            listeners,
            clients,
            what_if,
        }
    }
}

impl CacheSource {
    /// Writes the metrics of connections that were closed.
    fn client_metrics(&self, metrics: &mut Metrics<'_, '_>) {
        let ClientCounters {
            no_proxy_header,
            no_tls,
            too_many,
            displaced,
            partial_heads,
            refused_handshakes,
        } = &*self.clients;
        let ended = [
            ("proxy_protocol", no_proxy_header),
            ("tls", no_tls),
            ("connections_per_client", too_many),
            ("displaced", displaced),
            ("handshake", refused_handshakes),
        ];
        let heads = ("head", partial_heads.refused());
        let ended = ended
            .map(|(step, count)| (step, count.load(Ordering::Relaxed)))
            .into_iter()
            .chain([heads]);
        metrics.counters(
            "larder_http_connections_refused",
            "Connections of clients that ended before their first request",
            "step",
            ended,
        );
        metrics.lines(&CLIENTS, self);
    }
}

impl CacheSource {
    /// Returns the number of connections of clients.
    fn open_connections(&self) -> usize {
        self.proxy.limits().connections.taken()
    }

    /// Returns the figures of the cache, without those of exchanges.
    fn cache(&self) -> Map<String, Value> {
        let forwarded = |counts: [u64; ForwardReason::ALL.len()]| {
            table(ForwardReason::ALL.map(ForwardReason::name), counts)
        };
        let live = self.proxy.live();
        let origins = &live.origins;
        let servers: Map<String, Value> = origins
            .servers()
            .into_iter()
            .map(|(server, usable)| (server, json!(usable)))
            .collect();
        let (retries_refused, no_server) = origins.refusals();
        let refused =
            |counts: [u64; Refusal::ALL.len()]| table(Refusal::ALL.map(Refusal::name), counts);
        let disk = self.proxy.disk().map(|disk| disk::status(&disk.figures()));
        let cache = self.proxy.shards().figures();
        let CacheFigures {
            counters, engine, ..
        } = &cache;
        let mut figures = Map::new();
        for (policy, gauge) in engine.gauges() {
            figures.insert(format!("{policy}.{}", gauge.name), json!(gauge.value));
        }
        let listeners = self.listeners.addresses();
        let listen: Vec<_> = listeners
            .iter()
            .filter(|(_, kind)| *kind != ListenerKind::Peers)
            .map(|(address, kind)| url(address, kind.is_secure()))
            .collect();
        let mut peers = Map::new();
        if let Some(all) = self.proxy.peers() {
            MetricLine::add_to_page(&PEERS, all.counters(), &mut peers);
        }
        let objects = self.proxy.objects().map(|objects| {
            let mut page = object_store::status(objects);
            MetricLine::add_to_page(&OBJECTS, self.proxy.object_counters(), &mut page);
            page
        });
        let mut upgraded = Map::new();
        MetricLine::add_to_page(&TUNNELS, &self.proxy.tunnels().figures(), &mut upgraded);
        let mut page = Map::new();
        for (key, value) in [
            ("listen", json!(listen)),
            ("origin", json!(origins.name())),
            ("servers", json!(servers)),
            ("pools", pools(origins.pools())),
            ("files", files(origins)),
            (
                "certificates",
                certificates::page(self.proxy.certificates()),
            ),
            ("retries_refused", json!(retries_refused)),
            ("no_server", json!(no_server)),
            (
                "policy",
                json!({ "spec": engine.spec().to_string(), "figures": figures }),
            ),
            ("policy_state_bytes", json!(engine.state_bytes())),
            (
                "hit_ratio",
                json!(Ratio::of(counters.hits, counters.requests).value()),
            ),
            ("forwarded", forwarded(counters.forwarded)),
            ("not_stored", refused(counters.refused)),
            ("disk", json!(disk)),
            ("object_store", json!(objects)),
            ("what_if", json!(self.what_if.status())),
            ("upgraded", Value::Object(upgraded)),
            ("peers", Value::Object(peers)),
        ] {
            page.insert(key.to_owned(), value);
        }
        for counter in &COUNTERS {
            page.insert(counter.name.to_owned(), json!((counter.of)(counters)));
        }
        MetricLine::add_to_page(&CACHE, &cache, &mut page);
        MetricLine::add_to_page(&CLIENTS, self, &mut page);
        MetricLine::add_to_page(&CODINGS, self.proxy.coding_counters(), &mut page);
        page
    }

    fn origin_times(&self, metrics: &mut Metrics<'_, '_>) {
        let times = self.proxy.live().origins.times();
        let times = times.iter().filter(|(_, times)| times.count() > 0);
        let rows: Vec<_> = times
            .map(|(server, times)| ([("server", server.as_str())], times.clone()))
            .collect();
        let help = "Time from a request to a server to the head of its response";
        metrics.histograms("larder_http_origin_seconds", help, &rows);
    }
}

impl StatusSource for CacheSource {
    fn name(&self) -> &'static str {
        "http"
    }

    fn status(&self) -> Value {
        let mut page = self.cache();
        self.proxy.observers().current().status(&mut page);
        Value::Object(page)
    }

    fn capture(&self, share: f64) -> Option<CaptureLines> {
        self.what_if.capture(share)
    }

    fn console(&self) -> (Value, Value) {
        let tried = self.proxy.cache_settings().tried();
        let tried = tried.map(
            |(policy, size)| json!({ "policy": policy.to_string(), "capacity": size.to_string() }),
        );
        let more = json!({ "content": self.proxy.observers().current().content().to_json(), "tried": tried });
        (self.status(), more)
    }

    fn end_captures(&self) {
        self.what_if.end_captures();
    }

    fn metrics(&self, metrics: &mut Metrics<'_, '_>) {
        self.what_if.metrics("larder_whatif", metrics);
        let cache = self.proxy.shards().figures();
        let disk = self.proxy.disk();
        counter_metrics(metrics, &cache.counters, disk.is_some());
        self.client_metrics(metrics);
        upgraded_metrics(metrics, &self.proxy.tunnels().figures());
        metrics.lines(&CACHE, &cache);
        metrics.lines(&CODINGS, self.proxy.coding_counters());
        if let Some(peers) = self.proxy.peers() {
            metrics.lines(&PEERS, peers.counters());
        }
        if let Some(disk) = disk {
            disk::metrics("larder_http_disk", "Responses", metrics, &disk.figures());
        }
        if let Some(objects) = self.proxy.objects() {
            object_store::metrics(objects, metrics);
            metrics.lines(&OBJECTS, self.proxy.object_counters());
        }
        let servers = self.proxy.live().origins.servers();
        let servers = servers
            .iter()
            .map(|(server, usable)| (server.as_str(), f64::from(u8::from(*usable))));
        metrics.gauges(
            "larder_http_server_up",
            "1 where requests go to the server as they should",
            "server",
            servers,
        );
        member_metrics(&self.proxy.live().origins, metrics);
        file_metrics(&self.proxy.live().origins, metrics);
        certificates::metrics(self.proxy.certificates(), metrics);
        self.origin_times(metrics);
        self.proxy.observers().metrics(metrics);
        let gauges: Vec<(String, f64)> = cache
            .engine
            .gauges()
            .iter()
            .map(|(policy, gauge)| (format!("{policy}.{}", gauge.name), gauge.value))
            .collect();
        let gauges = gauges.iter().map(|(name, value)| (name.as_str(), *value));
        metrics.gauges(
            "larder_http_policy",
            "What the policies report of themselves",
            "figure",
            gauges,
        );
    }
}

/// Writes the counters of the cache.
fn counter_metrics(metrics: &mut Metrics<'_, '_>, counters: &Counters, has_tier: bool) {
    for counter in &COUNTERS {
        let is_shown = match counter.shown {
            ShownIn::PageAndMetrics => true,
            ShownIn::PageAndTierMetrics => has_tier,
            ShownIn::Page => false,
        };
        if is_shown {
            let name = format!("larder_http_{}", counter.name);
            metrics.counter(&name, counter.help, (counter.of)(counters));
        }
    }
    let forwarded = ForwardReason::ALL.map(ForwardReason::name);
    metrics.counters(
        "larder_http_forwarded",
        "Requests sent to the origin",
        "reason",
        forwarded.into_iter().zip(counters.forwarded),
    );
    let refused = Refusal::ALL.map(Refusal::name);
    metrics.counters(
        "larder_http_not_stored",
        "Responses to GET not stored",
        "reason",
        refused.into_iter().zip(counters.refused),
    );
}

/// Writes the figures of connections that have left HTTP.
fn upgraded_metrics(metrics: &mut Metrics<'_, '_>, figures: &TunnelFigures) {
    metrics.lines(&TUNNELS, figures);
    metrics.counters(
        "larder_http_upgraded_bytes",
        "Bytes on connections with another protocol",
        "direction",
        [("received", figures.received), ("sent", figures.sent)].into_iter(),
    );
}

/// Returns `http://127.0.0.1:80`, or `https+unix:/run/http.sock`.
fn url(address: &ListenAddress, is_secure: bool) -> String {
    let scheme = if is_secure { "https" } else { "http" };
    match address {
        ListenAddress::Tcp(address) => format!("{scheme}://{address}"),
        ListenAddress::Unix(_) => format!("{scheme}+{address}"),
    }
}

fn table<const N: usize>(names: [&str; N], counts: [u64; N]) -> Value {
    Value::Object(
        names
            .into_iter()
            .zip(counts)
            .map(|(name, count)| (name.to_owned(), json!(count)))
            .collect(),
    )
}

/// Returns the members of each origin.
fn pools(origins: impl Iterator<Item = PoolStatus>) -> Value {
    let member = |one: &Snapshot<Arc<Known>>| {
        let mut times = Times::default();
        one.item.times.sum(&mut times);
        json!({
            "server": one.item.name,
            "name": one.item.of_name.as_ref().map(|of_name| &*of_name.host),
            "state": one.state,
            "weight": one.config.weight,
            "backup": one.config.is_backup,
            "outstanding": one.outstanding,
            "requests": one.figures.requests,
            "failures": one.figures.failures,
            "ejections": one.figures.ejections,
            "mean_response_seconds": Ratio::of(1, times.count()).value() * times.seconds(),
        })
    };
    let name = |(name, figures): &(Arc<str>, NameFigures)| {
        json!({
            "name": &**name,
            "addresses": figures.used,
            "left_out": figures.left_out,
            "resolutions": figures.resolutions,
            "failures": figures.failures,
            "failure": figures.failure,
        })
    };
    let pool = |pool: PoolStatus| {
        json!({
            "origin": pool.origin,
            "servers": pool.members.iter().map(member).collect::<Vec<_>>(),
            "names": pool.names.iter().map(name).collect::<Vec<_>>(),
        })
    };
    Value::Array(origins.map(pool).collect())
}

/// Returns the roots of files, with what happened to them.
fn files(origins: &Origins) -> Value {
    let root = |(origin, files): (String, &FilesOrigin)| {
        let figures = files.figures();
        json!({
            "origin": origin,
            "root": files.name(),
            "opened": figures.opened,
            "checked": figures.checked,
            "forbidden": figures.forbidden,
            "failed": figures.failed,
            "last_error": figures.last_error,
        })
    };
    Value::Array(origins.files().map(root).collect())
}

/// Writes the counters of files, each the sum over all origins that have the root.
fn file_metrics(origins: &Origins, metrics: &mut Metrics<'_, '_>) {
    let mut all: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    for (_, files) in origins.files() {
        let figures = files.figures();
        let counts = [
            figures.opened,
            figures.checked,
            figures.forbidden,
            figures.failed,
        ];
        let sums = all.entry(files.name()).or_default();
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    let names = [
        ("opened", "Files opened for requests"),
        (
            "checked",
            "Looks at the files of requests, without opening them",
        ),
        ("forbidden", "Requests for files that are not served"),
        ("failed", "Requests that an error of the file system failed"),
    ];
    for (place, (name, help)) in names.into_iter().enumerate() {
        let name = format!("larder_http_files_{name}");
        let counts = all.iter().map(|(root, counts)| (*root, counts[place]));
        metrics.counters(&name, help, "root", counts);
    }
}

/// Writes the figures of servers, each the sum over all origins that have the server.
fn member_metrics(origins: &Origins, metrics: &mut Metrics<'_, '_>) {
    let mut all: BTreeMap<String, (u64, Figures)> = BTreeMap::new();
    for one in origins.pools().flat_map(|pool| pool.members) {
        let (outstanding, sum) = all.entry(one.item.name.clone()).or_default();
        *outstanding += u64::from(one.outstanding);
        sum.add(&one.figures);
    }
    let counters = |figure: fn(&Figures) -> u64| {
        all.iter()
            .map(move |(name, (_, sum))| (name.as_str(), figure(sum)))
    };
    let outstanding = all
        .iter()
        .map(|(name, (outstanding, _))| (name.as_str(), *outstanding as f64));
    metrics.gauges(
        "larder_http_server_outstanding",
        "Requests in progress at the server",
        "server",
        outstanding,
    );
    let requests = counters(|sum| sum.requests);
    metrics.counters(
        "larder_http_server_requests",
        "Requests sent to the server",
        "server",
        requests,
    );
    let failures = counters(|sum| sum.failures);
    metrics.counters(
        "larder_http_server_failures",
        "Requests that the server did not answer",
        "server",
        failures,
    );
    let ejections = counters(|sum| sum.ejections);
    metrics.counters(
        "larder_http_server_ejections",
        "Times that the server was left out",
        "server",
        ejections,
    );
    let (retries_refused, no_server) = origins.refusals();
    metrics.counter(
        "larder_http_retries_refused",
        "Retries that retry_budget did not allow",
        retries_refused,
    );
    metrics.counter(
        "larder_http_no_server",
        "Requests that no server could get",
        no_server,
    );
    name_metrics(origins, metrics);
}

/// Writes the figures of names with a server for each address, each the sum over all origins that
/// have the name.
fn name_metrics(origins: &Origins, metrics: &mut Metrics<'_, '_>) {
    let mut all: BTreeMap<Arc<str>, (usize, u64, u64)> = BTreeMap::new();
    for (name, figures) in origins.pools().flat_map(|pool| pool.names) {
        let (used, resolutions, failures) = all.entry(name).or_default();
        (*used, *resolutions) = (*used + figures.used, *resolutions + figures.resolutions);
        *failures += figures.failures;
    }
    let used = all.iter().map(|(name, (used, ..))| (&**name, *used as f64));
    metrics.gauges(
        "larder_http_name_addresses",
        "Addresses of the name that are servers",
        "name",
        used,
    );
    let resolutions = all
        .iter()
        .map(|(name, (_, resolutions, _))| (&**name, *resolutions));
    metrics.counters(
        "larder_http_name_resolutions",
        "Times that the name was resolved",
        "name",
        resolutions,
    );
    let failures = all
        .iter()
        .map(|(name, (.., failures))| (&**name, *failures));
    metrics.counters(
        "larder_http_name_failures",
        "Times that this gave no address",
        "name",
        failures,
    );
}
