//! Every bound of the node's HTTP side, with its reason.

use larder_units::ByteSize;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Client connections at once (`connections`). Each takes a file descriptor, its buffers and, while
/// its client reads slowly, the object that it sends: without this bound, memory has none. Further
/// connections wait in the kernel's queue.
pub const CONNECTIONS: usize = 10_000;

/// Connections of one client that are looked at for an idle one, to be closed for a new connection:
/// the time for that has a bound. The next look goes on behind them.
pub const DISPLACED_LOOK: usize = 64;

/// Clients with the most connections that are looked at for an idle one.
pub const DISPLACED_CLIENTS: usize = 4;

/// The time after which a connection without a place looks for an idle one again.
pub const DISPLACED_AGAIN: Duration = Duration::from_millis(100);

/// Bytes of a buffered request (`buffer_requests`) that stay in memory, and bytes of its file that
/// are read or written at once.
pub const BUFFERED_BYTES: u64 = 64 * 1024;

/// Bytes of all buffered requests in memory: those of 512 full ones. Others use the disk at once.
pub const BUFFERED_MEMORY_BYTES: u64 = 32 << 20;

/// The largest `connections`: more need several addresses, or several machines.
pub const CONNECTIONS_MOST: usize = 1_000_000;

/// Elements of `trusted_proxies`: each new connection is compared with all of them. The published
/// blocks of a large CDN are some dozens.
pub const TRUSTED_PROXIES: usize = 256;

/// Request threads. Beyond this number the network card and the kernel's locks limit a cache on one
/// machine.
pub const THREADS: usize = 64;

/// The interval in which a retired request thread checks whether it has a task left.
pub const RETIRED_LOOK: Duration = Duration::from_millis(100);

/// Returns the number of shards for so many request threads. A thread holds a shard for a twentieth
/// of a hit. With sixteen shards for each thread, two threads rarely meet in one. A shard has some
/// 50 KiB of its own, so a small cache has fewer; a single thread needs one.
pub fn shards(threads: usize, capacity: ByteSize) -> u16 {
    let most = if threads <= 1 {
        1
    } else {
        (threads * 16).min(64)
    };
    let of_capacity = usize::try_from(capacity.bytes() / SHARD_BYTES_LEAST).unwrap_or(usize::MAX);
    u16::try_from(most.min(of_capacity).max(1)).unwrap_or(1)
}

/// The least capacity for each shard of a cache.
const SHARD_BYTES_LEAST: u64 = 1 << 20;

/// The shortest time in `[http.timeouts]`: timers count milliseconds.
pub const TIMEOUT_LEAST: Duration = Duration::from_millis(10);

/// The longest time. More means no limit at all, and sums of times stay far from the end of the
/// clock.
pub const TIMEOUT_LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// A client has this long to send a whole header block (`client_header`; nginx's default).
pub const HEADER_READ: Duration = Duration::from_secs(60);

/// An idle connection of a client is closed after this (`keepalive`; nginx waits 75 s, Apache 5 s).
pub const KEEPALIVE: Duration = Duration::from_secs(60);

/// Bytes of one header block, first line included (`header_size`); a client gets 431. Browsers stop
/// at 8 to 16 KB of cookies, servers at 8 to 64.
pub const HEADER_BYTES: u64 = 64 * 1024;

/// Bytes of all incomplete heads of HTTP/1 requests together, of which a client has at most as many
/// as are free. Heads usually come in one packet, so few are incomplete at a time.
pub const PARTIAL_HEADS_BYTES: usize = 32 << 20;

/// An incomplete head of this size always has room: with [`CONNECTIONS`], 80 MB at most.
pub const SMALL_HEAD_BYTES: usize = 8 * 1024;

/// The range of `header_size`: from what every browser may send to what ten thousand connections
/// may hold at once.
pub const HEADER_BYTES_RANGE: [u64; 2] = [8 * 1024, 1024 * 1024];

/// Fields of one header block (`header_fields`): hyper's own default. Setting it explicitly costs
/// 1.5 % of a hit.
pub const HEADER_FIELDS: usize = 100;

/// The range of `header_fields`. A stored response counts its fields in 16 bits.
pub const HEADER_FIELDS_RANGE: RangeInclusive<usize> = 16..=4096;

/// Bytes of a client that are held back while it is undecided whether its protocol changes. A
/// client that is in order sends none.
pub const HELD_BYTES: usize = 16 * 1024;

/// Connections with another protocol, such as WebSockets, at once (`upgrades`): they last for
/// hours, and half of [`CONNECTIONS`] has to stay for requests. Further ones get 503. A client has
/// at most as many as are free (a dynamic threshold: Choudhury and Hahne, 1998), so one alone has
/// half.
pub const TUNNELS: usize = CONNECTIONS / 2;

/// Bytes that are copied at once on such connections. Each thread has one buffer for all.
pub const TUNNEL_BYTES: usize = 16 * 1024;

/// A connection with another protocol on which both sides are silent for so long is closed
/// (`upgrade`), as other forwarded bodies are ([`RELAY_SILENCE`]). Most applications send something
/// every half minute, for proxies that wait one minute.
pub const TUNNEL_IDLE: Duration = Duration::from_secs(600);

/// The longest silence on such a connection after one side has ended: most protocols, WebSocket
/// among them, have nothing more to say then, and a client may forget to close.
pub const TUNNEL_HALF_CLOSED: Duration = Duration::from_secs(60);

/// Bytes that a connection reads ahead or holds back, in each direction. Larger buffers gain
/// nothing in benchmarks, and ten thousand connections multiply them.
pub const BUFFER_BYTES: usize = 64 * 1024;

/// A head and a body of up to so many bytes together are copied into one piece: the kernel then has
/// less work, by more than the copy costs.
pub const JOINED_BYTES: usize = 2 * 1024;

/// After so many requests in a row on a connection that were no plain hits, only one of as many is
/// examined for one. The examination is 4 % of a miss's instructions, and hyper repeats it; a plain
/// hit that hyper answers costs a sixth more than necessary.
pub const PLAIN_MISSES: u32 = 8;

/// A client that reads nothing of its response for so long loses its connection (`client_send`): it
/// holds the object, and perhaps a connection to the origin.
pub const WRITE_STALL: Duration = Duration::from_secs(30);

/// While bodies find no room in the cache because other clients still read theirs, a client has to
/// read [`SLOW_BYTES`] within each such period: 140 kbit/s, the rate of a bad line. A small page is
/// complete before that.
pub const SLOW: Duration = Duration::from_secs(60);

/// See [`SLOW`]. A client that holds 16 MiB (the room of a cache of 64) has to read them within a
/// quarter of an hour.
pub const SLOW_BYTES: u64 = 1 << 20;

/// The time for a TLS handshake (`tls_handshake`): three round trips of the slowest network, with
/// little to hold meanwhile.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// The interval of looks at the files of certificates. An operator who changes one waits for two of
/// them; a look takes some microseconds.
pub const CERTIFICATES_LOOK: Duration = Duration::from_secs(1);

/// Concurrent requests on one connection of HTTP/2 or 3 (`http2_streams`), as most servers allow
/// (RFC 9113 §6.5.2 recommends at least 100).
pub const STREAMS: u32 = 128;

/// The range of `http2_streams`: a stream holds up to [`BUFFER_BYTES`] of its response.
pub const STREAMS_RANGE: RangeInclusive<u32> = 1..=1000;

/// Bytes of request bodies in progress on one HTTP/2 connection. One stream has [`BUFFER_BYTES`].
pub const CONNECTION_WINDOW_BYTES: u32 = 4 * BUFFER_BYTES as u32;

/// Streams that a client has reset or broken, and whose work is not finished. Above this number,
/// the connection ends (CVE-2023-44487, "rapid reset"). h2 itself bounds the CONTINUATION frames of
/// a header block by [`HEADER_BYTES`].
pub const RESET_STREAMS: usize = 32;

/// HTTP/2 frames are collected up to the largest TLS record (RFC 8446 §5.1).
pub const RECORD_BYTES: usize = 16 * 1024;

/// The interval of checks of the streams of an HTTP/2 connection.
pub const STREAMS_LOOK: Duration = Duration::from_secs(5);

/// An upload whose client sends nothing for so long gets 408 (`client_body`). The line of a phone
/// recovers within seconds.
pub const UPLOAD_SILENCE: Duration = Duration::from_secs(30);

/// A response body that is silent for so long is given up (`origin_read`; nginx's default). Other
/// clients may wait for it, and it holds room in the cache.
pub const BODY_STALL: Duration = Duration::from_secs(60);

/// A body that is only forwarded may be silent so many times longer, as server-sent events and long
/// polling are. It holds two connections and no memory, and ends when its client leaves.
pub const RELAY_SILENCE: u32 = 10;

/// A server that accepts nothing of a request for so long has failed (`origin_send`).
pub const ORIGIN_SEND: Duration = Duration::from_secs(30);

/// The time for a connection to the origin (`origin_connect`). Within one network it takes
/// milliseconds; three seconds survive two lost SYNs.
pub const CONNECT: Duration = Duration::from_secs(4);

/// The time between two addresses of one server (RFC 8305 §5 recommends it).
pub const CONNECT_STAGGER: Duration = Duration::from_millis(250);

/// The time from the end of the request's body to the head of the origin's response
/// (`origin_response`; nginx's default).
pub const RESPONSE: Duration = Duration::from_secs(60);

/// The time in which an origin may ask for a body that waits (`Expect: 100-continue`), as in curl.
/// Old origins never ask.
pub const CONTINUE: Duration = Duration::from_secs(1);

/// Bytes of informational responses that wait for their client. Real ones have a few lines. An
/// origin may send them without end; those above the limit are dropped.
pub const INTERIM_BYTES: usize = 16 * 1024;

/// Servers of one origin: one bit each records which of them a request has tried.
pub const SERVERS: usize = 64;

/// The shortest time for which the addresses of a name hold (`resolve`): a TTL of 0 says that an
/// answer may be used once, and a question for each request would be a load for the name servers.
pub const RESOLVED_LEAST: Duration = Duration::from_secs(1);

/// The longest time for which they hold, whatever their TTL. A question each minute is no load, and
/// a change of `/etc/hosts`, or of a zone whose name servers were flushed, has its effect soon.
pub const RESOLVED_LONGEST: Duration = Duration::from_secs(60);

/// The time for one resolution: name servers that answer do so within a second, and the system's
/// resolver gives up after as long.
pub const RESOLVE: Duration = Duration::from_secs(10);

/// The time in which name servers have to answer once, and how often they are asked again: in all a
/// little less than [`RESOLVE`]. hickory asks two of them at once, and the slow ones last.
pub const RESOLVE_TRY: Duration = Duration::from_secs(2);
/// See [`RESOLVE_TRY`].
pub const RESOLVE_RETRIES: usize = 3;

/// When one family of addresses is known, the other one has this time: some name servers never
/// answer for AAAA. RFC 8305 §3 gives it 50 ms, but there an address that comes later is used too.
pub const OTHER_FAMILY: Duration = Duration::from_millis(500);

/// A name that could not be resolved is resolved again after this: a service that starts before its
/// name is known is found soon, and two questions each time are no load.
pub const RESOLVE_AGAIN: Duration = Duration::from_secs(2);

/// The last addresses of a name stay in use for so long when it has none any more: a mistake in a
/// zone, or a service that restarts, lasts no longer, and then others may get the addresses
/// (HAProxy's `hold nx`).
pub const NO_ADDRESS: Duration = Duration::from_secs(30);

/// Name servers in `[http] resolver`. The system's resolver uses three.
pub const NAME_SERVERS: usize = 8;

/// Further servers that one request is sent to. A second server seldom fails when failures are
/// independent; when they are not, retries multiply the load.
pub const RETRIES: u32 = 1;

/// Retries for each 100 requests (`retry_budget`): Finagle's default, and twice that of Google's
/// SRE book. Without such a bound, an origin that fails gets twice the load.
pub const RETRY_PERCENT: u32 = 20;

/// Retries that each second allows in addition, so that an origin with few requests has enough.
pub const RETRIES_PER_SECOND: u64 = 10;

/// Unused retries that are saved for later: those of ten seconds without requests. A server that
/// fails suddenly costs as many before its breaker opens.
pub const RETRIES_SAVED: u64 = 100;

/// Failed requests in a row after which a server is left out (`max_fails`): one may be chance, and
/// some are in progress when it restarts.
pub const FAILURES_OUT: u32 = 3;

/// The time for which a server is out at first. It doubles each time.
pub const OUT_FIRST: Duration = Duration::from_secs(1);

/// The longest time for which a server is out (`fail_timeout`).
pub const OUT_LONGEST: Duration = Duration::from_secs(60);

/// The least share of its weight that a server has after a recovery (`slow_start`): with less, it
/// would get no requests to warm up with.
pub const SLOW_START_LEAST: f64 = 0.1;

/// A server has at most so many times its part of the outstanding requests (`balance = "hash"`). A
/// smaller factor moves more URLs to other servers (Mirrokni et al.: each change of a server moves
/// 1/(c-1)² of them); HAProxy recommends 1.25 to 2, and Vimeo runs 1.25.
pub const LOAD_FACTOR: f64 = 1.25;

/// Outstanding requests that a server may always have, whatever the others have: chance alone makes
/// such differences.
pub const LOAD_ALWAYS: u32 = 8;

/// The greatest weight of a server. With more, others would get one request of thousands.
pub const WEIGHT_MOST: u32 = 1000;

/// A client has at most so many times as many requests at servers with `max_conns` as they have
/// room for: one alone has eight ninths, and the last places are for others.
pub const SERVER_SHARE: usize = 8;

/// The longest wait for a server that has fewer requests than `max_conns`. After that, clients get
/// 503: they soon leave or repeat their requests, and a longer queue serves neither.
pub const SERVER_WAIT: Duration = Duration::from_secs(2);

/// The time between two log lines about failed requests to a server that answers others.
pub const SERVER_COMPLAINT: Duration = Duration::from_secs(10);

/// Equal probes in a row that change a server's state.
pub const PROBES: u32 = 2;

/// A probe that takes longer has failed: an active check, or the request that tries a server that
/// was left out.
pub const PROBE: Duration = Duration::from_secs(5);

/// A configuration that a reload has replaced is kept for so long at least, for requests that began
/// just before: they find their origins within microseconds.
pub const FORMER_LIVE: Duration = Duration::from_secs(1);

/// The interval of checks whether probes are due.
pub const PROBE_LOOK: Duration = Duration::from_secs(1);

/// Idle connections that each request thread keeps to one server: enough for bursts. With
/// [`ORIGIN_IDLE`], there are at most as many as were needed at once in the last seconds.
pub const ORIGIN_IDLE_CONNECTIONS: usize = 128;

/// Idle connections to all servers together. Each holds a descriptor and some KiB, and servers
/// times threads would be hundreds of thousands.
pub const ORIGIN_IDLE_IN_ALL: usize = 4096;

/// An idle connection to the origin is closed after this time (`origin_keepalive`). Servers close
/// theirs after 5 s (Node, Apache) to 75 s (nginx); the side that closes first saves the other a
/// failed request.
pub const ORIGIN_IDLE: Duration = Duration::from_secs(4);

/// Requests at once on one HTTP/2 connection to a server: what most servers allow, and the least
/// that RFC 9113 §6.5.2 recommends. Further ones open another connection.
pub const ORIGIN_STREAMS: usize = 100;

/// Bytes of the head of a response by HTTP/2 that reach the check of `header_size`: twice its
/// largest value. A larger head is malformed.
pub const ORIGIN_HEADER_LIST_BYTES: u32 = 2 * HEADER_BYTES_RANGE[1] as u32;

/// HTTP/2 connections of one thread to one server. When all are full, further requests wait on
/// them.
pub const ORIGIN_HTTP2_CONNECTIONS: usize = 8;

/// An idle HTTP/2 connection to a server is closed after this. Its server says when it closes it
/// (GOAWAY), so it may be kept longer than [`ORIGIN_IDLE`]; nginx's default.
pub const ORIGIN_HTTP2_IDLE: Duration = Duration::from_secs(60);

/// Times that a request is sent again because its server has not processed it (GOAWAY, or a refused
/// stream): a server that restarts refuses once, one that is overloaded again and again.
pub const REFUSED: u32 = 2;

/// Bytes of an upload by HTTP/2 that are kept until the server has answered, so that the request
/// can be sent again if the server has not processed it: the window of a stream, which a server
/// grants before it has read anything (RFC 9113 §6.9.2).
pub const KEPT_UPLOAD_BYTES: usize = 64 * 1024;

/// Requests with a body in progress (`uploads`), beside those without one: a client may take all
/// day to send a body, and must not block other requests. Further ones wait.
pub const UPLOADS: usize = CONNECTIONS / 2;

/// Concurrent validations in the background. No client waits for them, so nothing else slows a
/// client down that requests one stale page after another. Above the limit, the stale response is
/// served, and the next request for it tries again.
pub const BACKGROUND: usize = 128;

/// Pieces of a sliced body that are ahead of its client. Each is at most a slice, shared with the
/// store, or 64 KiB.
pub const PIECES_AHEAD: usize = 2;

/// Slices that are fetched ahead of the client of a sliced body. With a slice of 1 MiB, five at
/// once fill a line of 2 Gbit/s to an origin that is 20 ms away. A body begins with one and gets
/// one more with each slice that has left: players read a little of a file, and leave.
pub const SLICES_AHEAD: usize = 4;

/// The time that a body which is stored in slices waits for a disk slower than its origin. After
/// that, its rest is not stored.
pub const SLICES_WAIT: Duration = Duration::from_secs(1);

/// The interval in which such a body checks whether the disk has room.
pub const SLICES_PAUSE: Duration = Duration::from_millis(5);

/// The time for requests in progress at a stop (`shutdown`): a page or a short download. systemd
/// kills after 90 s.
pub const STOP_GRACE: Duration = Duration::from_secs(30);

/// The time that an open connection has for one more request at a stop. Its client may have sent it
/// already, or has just connected for it, and would get a reset. A few round trips.
pub const LAST_REQUEST: Duration = Duration::from_millis(250);

/// The time in which a client of HTTP/2 sends the requests that it has queued when it learns that
/// the connection ends: several round trips, and a busy client's turn.
pub const GOAWAY_PAUSE: Duration = Duration::from_secs(1);

/// The time between the last response of an HTTP/3 connection, which has arrived, and its close,
/// unless its client closes it. What else is on its way is sent again within a few round trips.
#[cfg(feature = "http3")]
pub const LAST_DATAGRAMS: Duration = Duration::from_secs(1);

/// The time that closed connections have to drain before the next reader of a UDP socket begins:
/// three probe timeouts (RFC 9000 §10.2), which is a few round trips, or a second without any.
#[cfg(feature = "http3")]
pub const UDP_CLOSE: Duration = Duration::from_secs(3);

/// Handshakes of HTTP/3 in progress on one socket above which a client has to show its address
/// first: that costs a round trip, and nothing is kept meanwhile. One takes half a millisecond of
/// the processor.
#[cfg(feature = "http3")]
pub const HANDSHAKES_UNVALIDATED: usize = 64;

/// Handshakes of HTTP/3 in progress on one socket. What comes above that is refused, or dropped if
/// the client has not shown its address.
#[cfg(feature = "http3")]
pub const HANDSHAKES: usize = 1024;

/// The same of one client, which has shown its address. One lasts a round trip.
#[cfg(feature = "http3")]
pub const HANDSHAKES_PER_CLIENT: usize = HANDSHAKES / 16;

/// The time for a client of HTTP/2 or 3 to agree to the end of an idle connection.
pub const GOODBYE: Duration = Duration::from_secs(5);

/// Connections that are open so long after a stop began are logged. Idle ones close within
/// milliseconds.
pub const STOP_NOTICE: Duration = Duration::from_millis(500);

/// The interval of log lines about connections that cannot be accepted: without descriptors there
/// would be twenty per second.
pub const ACCEPT_WARNING: Duration = Duration::from_secs(1);

/// The time that a reload gives the tasks of a former listener to end: far more than they need.
pub const ACCEPTORS_END: Duration = Duration::from_secs(1);

/// The pause after an error of accept (usually: out of descriptors).
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Requests between two checks whether the policy has long work to do.
pub const REQUESTS_PER_JOB_CHECK: u32 = 1024;

/// The largest object of the generated origin: larger than any test needs, and small enough for
/// every client's arithmetic.
pub const GENERATED_BYTES: u64 = 1 << 40;

/// Bytes of a request's body that are read although no server takes it, so that the client gets the
/// 502: enough for a form. A larger upload loses the connection.
pub const UNWANTED_UPLOAD_BYTES: u64 = 64 << 10;

/// The time for its rest, which left the client with the head, or a round trip later.
pub const UNWANTED_UPLOAD: Duration = Duration::from_secs(1);

/// The rest of a body that is too large (`client_body_size`) is read for so long after the 413, and
/// dropped: a connection that is closed on a client that still sends is reset, and the reset may
/// destroy the response (RFC 9112 §9.6). nginx waits up to 30 s, with pauses of up to 5 s.
pub const LINGER: Duration = Duration::from_secs(5);

/// The largest page of `error_page`: each is held in memory, and a page with all its styles has
/// less.
pub const ERROR_PAGE_BYTES: u64 = 1 << 20;

/// Bytes of lines that one request thread holds for the access log before it drops lines. A disk
/// that writes 100 MB/s empties sixteen of them in a sixth of a second; a busy thread fills one in
/// 50 ms if nothing is written.
pub const LOG_BUFFER_BYTES: usize = 1 << 20;

/// The writer of the access log gathers lines for so long: few large writes, and a reader of the
/// file sees a line soon.
pub const LOG_FLUSH: Duration = Duration::from_millis(100);

/// The receiver of a log's socket may hold up the writer for so long.
pub const LOG_SEND: Duration = Duration::from_millis(100);

/// The time for the last lines of the access log at a stop, if its destination blocks.
pub const LOG_STOP: Duration = Duration::from_secs(2);

/// Bytes of a format in `[http.access_log]`: all variables fit several times.
pub const LOG_FORMAT_BYTES: usize = 4096;

/// The files that a rotation of the access log keeps at most: each rotation renames all of them.
pub const LOG_FILES: u32 = 1000;

/// Hosts with figures of their own in `/metrics`; all others together are `other`. Each is a series
/// in the monitoring system, and clients may name any host.
pub const HOST_FIGURES: usize = 100;

/// Bytes of a request id that a client may choose.
pub const REQUEST_ID_BYTES: usize = 128;

/// The longest host whose rules a connection keeps for its next request: the longest name with a
/// dot at its end (RFC 1035 §2.3.4), a colon and a port.
pub const KNOWN_HOST_BYTES: usize = 260;

/// Each thread reports one of so many exchanges to the tables of the console. A report takes some
/// microseconds.
pub const CONTENT_SAMPLE: u64 = 64;

/// URLs in each table of the console: a URL with more than this part of the requests is in it.
pub const CONTENT_URLS: usize = 256;

/// URLs that the console shows of each table.
pub const CONTENT_SHOWN: usize = 20;

/// Bytes of a URL in these tables, which clients choose. Five tables of 256 take 640 KiB at most.
pub const CONTENT_URL_BYTES: usize = 512;

/// Variants of a URL that the console reads from the disk: each is one read.
pub const CONSOLE_TIER_VARIANTS: usize = 32;

/// The time for a connection to another node of the fleet, with its TLS handshake: the nodes of a
/// zone are some milliseconds apart.
pub const PEER_CONNECT: Duration = Duration::from_millis(500);

/// A node that has sent no response for so long is asked whether it is there.
pub const PEER_SILENCE: Duration = Duration::from_millis(100);

/// The time in which it has to say so.
pub const PEER_SIGN: Duration = Duration::from_millis(250);

/// It is asked again after this, while its origin is slow.
pub const PEER_SIGN_AGAIN: Duration = Duration::from_secs(1);

/// A node that does not answer is not asked for so long. Its lease ends after 6 s.
pub const PEER_LEFT_OUT: Duration = Duration::from_secs(3);

/// A node that is behind is asked again after each of these: purges reach all nodes within
/// milliseconds.
pub const PEER_BEHIND_PAUSES: [Duration; 3] = [
    Duration::from_millis(4),
    Duration::from_millis(16),
    Duration::from_millis(60),
];

/// A node that stays behind is not asked for so long.
pub const PEER_BEHIND: Duration = Duration::from_secs(1);

/// Other nodes whose connections are known.
pub const PEERS: usize = 4096;
