//! What the fields of a log mean, by their names: one table for the members of JSON lines, for the
//! columns of logs with a header, and for the variables of patterns.

/// What a field says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// A date with a time of day, or a number since 1970.
    Time,
    /// A date; the time of day is [`Role::Clock`].
    Date,
    Clock,
    Method,
    /// Method, target and version: `GET / HTTP/1.1`.
    Request,
    /// A target, in any form: path and query, or an absolute URL.
    Target,
    /// A path whose query is [`Role::Query`].
    Path,
    Query,
    Scheme,
    /// The name that the client asked for, perhaps with a port.
    Host,
    /// The server's name or port, if there is no host.
    ServerName,
    Port,
    Status,
    /// Bytes of the body that were sent.
    Body,
    /// Bytes that were sent, with the head.
    Sent,
    /// Bytes of the whole object.
    ObjectSize,
    /// `Content-Range` of the response.
    ContentRange,
    /// What the server's own cache did.
    CacheStatus,
    /// `Cache-Control` of the response.
    CacheControl,
    /// Fields that no name explains, before the time; `learned.rs` looks for the host in them.
    Head,
    /// The same between the time and the request.
    Mid,
    /// The same after all others.
    Tail,
}

impl Role {
    /// Returns true for fields that no name explains.
    pub fn is_unnamed(self) -> bool {
        matches!(self, Role::Head | Role::Mid | Role::Tail)
    }
}

/// The number of roles.
pub(super) const ROLES: usize = Role::Tail as usize + 1;

/// The roles that a reader uses, for `larder trace info`.
pub(super) const SHOWN: [(Role, &str); ROLES - 3] = [
    (Role::Time, "time"),
    (Role::Date, "date"),
    (Role::Clock, "time of day"),
    (Role::Method, "method"),
    (Role::Request, "method and URL"),
    (Role::Target, "URL"),
    (Role::Path, "path"),
    (Role::Query, "query"),
    (Role::Scheme, "scheme"),
    (Role::Host, "host"),
    (Role::ServerName, "server name"),
    (Role::Port, "port"),
    (Role::Status, "status"),
    (Role::Body, "bytes of the body"),
    (Role::Sent, "bytes sent"),
    (Role::ObjectSize, "size of the object"),
    (Role::ContentRange, "range"),
    (Role::CacheStatus, "cache status"),
    (Role::CacheControl, "Cache-Control"),
];

/// The names of fields, for each role the surest first. Names are in lower case with `_` for `-`.
/// Of nested members, the names are joined by dots.
///
/// Sources: nginx's variables; the documented log formats of Caddy, Traefik, Envoy, Elastic (ECS),
/// Google Cloud, Azure, Cloudflare Logpush, Akamai DataStream 2, Fastly, Amazon CloudFront, and the
/// W3C's extended log file format.
const NAMES: &[(Role, &[&str])] = &[
    (
        Role::Time,
        &[
            "time_iso8601",
            "msec",
            "time_local",
            "startutc",
            "startlocal",
            "start_time",
            "start_time_utc",
            "edgestarttimestamp",
            "reqtimesec",
            "request_start",
            "request_time_start",
            "timestamp_iso8601",
            "time_received_isoformat",
            "time_received",
            "time_start",
            "datetime",
            "date_time",
            "@timestamp",
            "timestamp",
            "ts",
            "time",
            "time_unix",
            "time_epoch",
            "epoch",
            "unixtime",
            "event_time",
            "eventtime",
            "request_timestamp",
            "requesttime",
            "logged_at",
            "created_at",
            "asctime",
            "edgeendtimestamp",
            "time_ms",
            "timestamp_ms",
            "ts_ms",
            "time_us",
            "time_ns",
        ],
    ),
    (Role::Date, &["date", "log_date"]),
    (Role::Clock, &["time", "log_time"]),
    (
        Role::Method,
        &[
            "request_method",
            "method",
            "http.request.method",
            "request.method",
            "requestmethod",
            "clientrequestmethod",
            "reqmethod",
            "httpmethod",
            "http_method",
            "cs_method",
            "req.method",
            "verb",
            "request_verb",
            "request.verb",
        ],
    ),
    (
        Role::Request,
        &[
            "request",
            "request_line",
            "requestline",
            "request_first_line",
            "req_line",
            "http_request",
            "request.line",
        ],
    ),
    (
        Role::Target,
        &[
            "request_uri",
            "clientrequesturi",
            "requesturi",
            "requesturl",
            "request_url",
            "request.uri",
            "request.url",
            "url.original",
            "url.full",
            "http.url_details.path",
            "http.url",
            "original_url",
            "originalurl",
            "uri",
            "url",
            "requestpath",
            "req_url",
            "req.url",
            "full_path",
            "http_url",
            "cs_uri",
            "x_envoy_original_path",
            "http.target",
            "url.path_original",
            "resource",
            "target",
        ],
    ),
    (
        Role::Path,
        &[
            "document_uri",
            "url.path",
            "path",
            "request_path",
            "request.path",
            "uri_path",
            "url_path",
            "cs_uri_stem",
            "clientrequestpath",
            "reqpath",
            "http_path",
            "file",
            "filename",
        ],
    ),
    (
        Role::Query,
        &[
            "query_string",
            "querystring",
            "args",
            "url.query",
            "query",
            "cs_uri_query",
            "querystr",
            "request_query",
            "uri_query",
            "url_query",
        ],
    ),
    (
        Role::Scheme,
        &[
            "scheme",
            "url.scheme",
            "request_scheme",
            "requestscheme",
            "clientrequestscheme",
            "cs_protocol",
            "x_forwarded_proto",
            "http_x_forwarded_proto",
            "request.scheme",
        ],
    ),
    (
        Role::Host,
        &[
            "x_host_header",
            "http_host",
            "host",
            "requesthost",
            "requestaddr",
            "clientrequesthost",
            "authority",
            ":authority",
            "reqhost",
            "request.host",
            "url.domain",
            "url.host",
            "http.host",
            "hostname",
            "vhost",
            "virtual_host",
            "virtualhost",
            "http_hostname",
            "cs(host)",
            "cs_host",
            "request_host",
            "host_header",
            "hostheader",
            "domain",
            "domain_name",
            "site",
            "req_host",
            "request.headers.host",
            "upstream_host_name",
        ],
    ),
    (
        Role::ServerName,
        &[
            "server_name",
            "servername",
            "s_computername",
            "s_sitename",
            "canonical_server_name",
        ],
    ),
    (
        Role::Port,
        &[
            "server_port",
            "s_port",
            "requestport",
            "reqport",
            "url.port",
            "request_port",
        ],
    ),
    (
        Role::Status,
        &[
            "status",
            "edgeresponsestatus",
            "response_code",
            "responsecode",
            "response_status",
            "status_code",
            "statuscode",
            "http.response.status_code",
            "http_status",
            "httpstatus",
            "http_status_code",
            "httpstatuscode",
            "downstreamstatus",
            "sc_status",
            "http.status_code",
            "response.status",
            "response.status_code",
            "res.statuscode",
            "resp_status",
            "response",
            "code",
            "elb_status_code",
        ],
    ),
    (
        Role::Body,
        &[
            "body_bytes_sent",
            "bodybytessent",
            "response_body_size",
            "http.response.body.bytes",
            "edgeresponsebodybytes",
            "rspcontentlen",
            "downstreamcontentsize",
            "body_sent.bytes",
            "resp_body_size",
            "response_body_bytes",
            "body_bytes",
            "size",
            "bytes_body",
            "body_size",
            "response_size_body",
            "res.headers.content_length",
            "sent_http_content_length",
            "content_length",
            "contentlength",
        ],
    ),
    (
        Role::Sent,
        &[
            "bytes_sent",
            "bytessent",
            "edgeresponsebytes",
            "responsesize",
            "response_size",
            "responsebytes",
            "response_bytes",
            "http.response.bytes",
            "sc_bytes",
            "bytes",
            "totalbytes",
            "sent_bytes",
            "bytes_out",
            "bytesout",
            "resp_bytes",
            "response_length",
            "network.bytes",
            "response.bytes",
            "sent",
            "length",
        ],
    ),
    (Role::ObjectSize, &["object_size", "objectsize"]),
    (
        Role::ContentRange,
        &[
            "sent_http_content_range",
            "content_range",
            "sc_range",
            "sc(content_range)",
        ],
    ),
    (
        Role::CacheStatus,
        &[
            "upstream_cache_status",
            "cachecachestatus",
            "cache_status",
            "cachestatus",
            "x_cache",
            "x_cache_status",
            "sent_http_x_cache",
            "sent_http_x_cache_status",
            "x_edge_result_type",
            "cachehit",
            "cache_hit",
            "fastly_info.state",
            "fastly_cache_status",
            "sc(x_cache)",
        ],
    ),
    (
        Role::CacheControl,
        &[
            "sent_http_cache_control",
            "response_cache_control",
            "resp_cache_control",
            "sc(cache_control)",
            "resp_headers.cache_control",
            "response_headers.cache_control",
        ],
    ),
];

/// Members whose parts describe a client, a server or a head, not the request. `size` of the client
/// is no size of the response.
const OTHERS: [&str; 17] = [
    "headers",
    "request_headers",
    "resp_headers",
    "response_headers",
    "client",
    "source",
    "destination",
    "user",
    "upstream",
    "origin",
    "server",
    "tls",
    "geo",
    "geoip",
    "user_agent",
    "kubernetes",
    "log",
];

/// Returns a name in the form of [`NAMES`].
pub(super) fn normal(name: &str) -> String {
    name.trim()
        .chars()
        .map(|letter| match letter {
            '-' | ' ' => '_',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// Returns the roles that a field of this name can have, each with its rank; 0 is the surest. The
/// name is [`normal`]. A nested member has a role by its last names too, if none of the others
/// describes something else.
pub(super) fn roles_of(name: &str) -> Vec<(Role, usize)> {
    let mut roles = Vec::new();
    for (role, names) in NAMES {
        let whole = names.iter().position(|known| *known == name);
        let rank = whole.or_else(|| {
            let nested = |known: &&str| {
                let parent = name.strip_suffix(*known)?.strip_suffix('.')?;
                (!parent.split('.').any(|part| OTHERS.contains(&part))).then_some(())
            };
            let place = names.iter().position(|known| nested(known).is_some())?;
            Some(100 + place)
        });
        roles.extend(rank.map(|rank| (*role, rank)));
    }
    roles
}

/// Returns the field that has each role, of fields with these names: the surest one. A field has
/// one role.
pub(super) fn assign(names: &[String]) -> [Option<usize>; ROLES] {
    let mut best: [Option<(usize, usize)>; ROLES] = [None; ROLES];
    for (place, name) in names.iter().enumerate() {
        for (role, rank) in roles_of(name) {
            let slot = &mut best[role as usize];
            if slot.is_none_or(|(known, _)| rank < known) {
                *slot = Some((rank, place));
            }
        }
    }
    let mut places = best.map(|slot| slot.map(|(_, place)| place));
    resolve(names, &mut places);
    places
}

/// Decides between roles that exclude each other.
fn resolve(names: &[String], places: &mut [Option<usize>; ROLES]) {
    let has = |places: &[Option<usize>; ROLES], role: Role| places[role as usize];
    // `time` is the time of day beside a date, and otherwise the time.
    if has(places, Role::Date).is_some() && has(places, Role::Clock).is_some() {
        if has(places, Role::Time) == has(places, Role::Clock) {
            places[Role::Time as usize] = None;
        }
    } else {
        places[Role::Clock as usize] = None;
        if has(places, Role::Time).is_none() {
            places[Role::Time as usize] = has(places, Role::Date);
        }
        places[Role::Date as usize] = None;
    }
    if has(places, Role::Time).is_some() {
        places[Role::Date as usize] = None;
        places[Role::Clock as usize] = None;
    }
    // A field has one meaning.
    let mut taken = Vec::new();
    for (role, _) in SHOWN {
        match has(places, role) {
            Some(place) if taken.contains(&place) => places[role as usize] = None,
            place => taken.extend(place),
        }
    }
    // `host` beside `logname` is the client, in the columns of the Internet Traffic Archive.
    if names.iter().any(|name| name == "logname") {
        places[Role::Host as usize] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(names: &[&str]) -> Vec<(Role, String)> {
        let names: Vec<String> = names.iter().map(|name| normal(name)).collect();
        let places = assign(&names);
        SHOWN
            .iter()
            .filter_map(|(role, _)| Some((*role, names[places[*role as usize]?].clone())))
            .collect()
    }

    /// Failure: a field has another meaning than its server's documentation says.
    #[test]
    fn a_field_means_another_thing() {
        for (names, role, expected) in [
            (
                &["time", "date", "cs-method"][..],
                Role::Clock,
                Some("time"),
            ),
            (&["time", "status"], Role::Time, Some("time")),
            (&["time", "date"], Role::Time, None),
            (&["time", "StartUTC"], Role::Time, Some("startutc")),
            (
                &["size", "body_bytes_sent"],
                Role::Body,
                Some("body_bytes_sent"),
            ),
            (
                &["cs(Host)", "x-host-header"],
                Role::Host,
                Some("x_host_header"),
            ),
            (&["host", "logname"], Role::Host, None),
            (
                &["nginx.access.url"],
                Role::Target,
                Some("nginx.access.url"),
            ),
            (&["client.bytes"], Role::Sent, None),
            (&["resp_headers.status"], Role::Status, None),
            (&["url.path"], Role::Path, Some("url.path")),
            (&["url.path"], Role::Target, None),
            (&["a.uri"], Role::Target, Some("a.uri")),
            (&["myuri"], Role::Target, None),
        ] {
            let found = names_of(names)
                .into_iter()
                .find(|(found, _)| *found == role);
            assert_eq!(
                found.map(|(_, name)| name).as_deref(),
                expected,
                "{names:?} {role:?}"
            );
        }
    }
}
