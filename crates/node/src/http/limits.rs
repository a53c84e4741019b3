//! Every bound of the node's HTTP side, with its reason.

use std::time::Duration;

/// Client connections at once. Each takes a file descriptor, its buffers and, while it reads
/// slowly, the object it is being sent: without a bound on them there is none on memory. Past it,
/// new ones wait in the kernel's queue.
pub const CONNECTIONS: usize = 10_000;

/// Request threads. They share one cache, which each of them holds for a twentieth of a hit: past
/// this many, they would wait for it.
pub const THREADS: usize = 16;

/// The shortest time that `[http.timeouts]` takes: timers count milliseconds.
pub const TIMEOUT_LEAST: Duration = Duration::from_millis(10);

/// The longest: more means no limit at all, and sums of times stay far from the end of the clock.
pub const TIMEOUT_LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// A client has this long to send a whole header block (`client_header`; nginx's default).
pub const HEADER_READ: Duration = Duration::from_secs(60);

/// An idle connection of a client is closed after this (`keepalive`; nginx waits 75 s, Apache 5 s).
pub const KEEPALIVE: Duration = Duration::from_secs(60);

/// Bytes of one header block, first line included (`header_size`); a client gets 431. Browsers stop
/// at 8 to 16 KB of cookies, servers at 8 to 64.
pub const HEADER_BYTES: u64 = 64 * 1024;

/// What `header_size` takes: what every browser may send, and what ten thousand connections may
/// hold at once.
pub const HEADER_BYTES_RANGE: (u64, u64) = (8 * 1024, 1024 * 1024);

/// Fields of one header block (`header_fields`): hyper's own default. Setting it explicitly costs
/// 1.5 % of a hit.
pub const HEADER_FIELDS: usize = 100;

/// What `header_fields` takes. A stored response counts its fields in 16 bits.
pub const HEADER_FIELDS_RANGE: (usize, usize) = (16, 4096);

/// Bytes that a connection reads ahead or holds back, each way. Larger
/// gains nothing that a benchmark shows, and ten thousand connections multiply it.
pub const BUFFER_BYTES: usize = 64 * 1024;

/// A head and a body of up to so many bytes together are copied into one piece: for the kernel, one
/// is less work than several, by more than the copy costs.
pub const JOINED_BYTES: usize = 2 * 1024;

/// After so many requests in a row on a connection that were no plain hits, one of as many is still
/// looked at for one: the look is 4 % of a miss's instructions, for what hyper does once more; a
/// plain hit that is left to hyper costs a sixth more than it had to.
pub const PLAIN_MISSES: u32 = 8;

/// A client that takes nothing of its response for so long is given up (`client_send`): it holds
/// the object, and perhaps a connection of the origin.
pub const WRITE_STALL: Duration = Duration::from_secs(30);

/// While bodies find no room in the cache, since clients are still being sent others, a client must
/// take [`SLOW_BYTES`] in each so long that is spent waiting for it: a bad line's 140 kbit/s. A
/// small page is through before that,
pub const SLOW: Duration = Duration::from_secs(60);

/// and who holds 16 MiB (the room of a cache of 64) has to take them within a quarter of an hour.
pub const SLOW_BYTES: u64 = 1 << 20;

/// Clients have this long for the handshake of TLS: three round trips of the slowest network, and
/// little to hold meanwhile.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// Requests under way on one connection of HTTP/2, as most servers allow (RFC 9113 §6.5.2 asks for
/// at least 100).
pub const STREAMS: u32 = 128;

/// Bytes of requests' bodies under way on one connection of HTTP/2; one stream has
/// [`BUFFER_BYTES`].
pub const CONNECTION_WINDOW_BYTES: u32 = 4 * BUFFER_BYTES as u32;

/// Streams that a client has reset, or broken, and that are not yet done with: at more, the
/// connection ends (CVE-2023-44487, "rapid reset"). h2 itself bounds the CONTINUATION frames of a
/// header block by [`HEADER_BYTES`].
pub const RESET_STREAMS: usize = 32;

/// Frames of HTTP/2 are gathered up to the largest record of TLS (RFC 8446 §5.1).
pub const RECORD_BYTES: usize = 16 * 1024;

/// Between two looks at what the streams of a connection of HTTP/2 do.
pub const STREAMS_LOOK: Duration = Duration::from_secs(5);

/// An upload whose client sends nothing for so long gets 408 (`client_body`): a phone's line comes
/// back within seconds.
pub const UPLOAD_SILENCE: Duration = Duration::from_secs(30);

/// A response's body that brings nothing for so long is given up (`origin_read`; nginx's default).
/// Other clients may wait for it, and it holds room in the cache.
pub const BODY_STALL: Duration = Duration::from_secs(60);

/// A body that is only passed on may be silent for so many times as long: server-sent events and
/// long polling are. It holds two connections and no memory, and a client that leaves ends it.
pub const RELAY_SILENCE: u32 = 10;

/// A server that takes nothing of a request for so long has failed (`origin_send`).
pub const ORIGIN_SEND: Duration = Duration::from_secs(30);

/// For a connection to the origin (`origin_connect`). On one network it takes milliseconds; three
/// seconds survive two lost SYNs.
pub const CONNECT: Duration = Duration::from_secs(4);

/// Between two addresses of one server that are tried (RFC 8305 §5 recommends as much).
pub const CONNECT_STAGGER: Duration = Duration::from_millis(250);

/// From the end of the request's body to the head of the origin's response (`origin_response`;
/// nginx's default).
pub const RESPONSE: Duration = Duration::from_secs(60);

/// An origin that a client's body waits for (`Expect: 100-continue`) is given so long to ask for
/// it, as curl does: older ones never ask.
pub const CONTINUE: Duration = Duration::from_secs(1);

/// Bytes of interim responses that wait for their client. Real ones are a few lines; an origin may
/// send them without end, and what comes past this is dropped.
pub const INTERIM_BYTES: usize = 16 * 1024;

/// Servers of one origin: a bit each says which a request has tried.
pub const SERVERS: usize = 64;

/// Servers beside the first that one request is sent to: a second one fails rarely where they fail
/// by themselves, and where they fail together, retries are a multiple of the load.
pub const RETRIES: u32 = 1;

/// Requests in a row that a server has not answered before it is out: one may be chance, and some
/// are under way when it restarts.
pub const FAILURES_OUT: u32 = 3;

/// How long a server is out at first; twice as long each time,
pub const OUT_FIRST: Duration = Duration::from_secs(1);

/// up to this.
pub const OUT_LONGEST: Duration = Duration::from_secs(60);

/// Probes in a row that must say the same before it is believed.
pub const PROBES: u32 = 2;

/// A probe that takes longer has failed.
pub const PROBE: Duration = Duration::from_secs(5);

/// Between two looks whether probes are due.
pub const PROBE_LOOK: Duration = Duration::from_secs(1);

/// What waits to be written to the disk tier takes up to this share of the cache's capacity (a
/// sixteenth) beside it, from 8 MiB to a GiB. It is taken from the room for bodies under way
/// (`larder_http::limits::filling`). It leaves that half, at least: a cache of less than 64 MiB,
/// whose queue is 8, holds more than both. What reclaiming reads is not counted: a record at a
/// time.
pub const DISK_QUEUE_SHARE: u64 = 16;

/// The smallest such queue: some of the disk's writes (a MiB, `larder_disk::limits::WRITE_BYTES`).
/// One that held a single write would be full, and drop what comes, before that write is due.
pub const DISK_QUEUE_LEAST_BYTES: u64 = 8 << 20;

/// Idle connections that each request thread keeps to one server: as many as bursts need. With
/// [`ORIGIN_IDLE`] they are as many as were needed at once in the last seconds, at most.
pub const ORIGIN_IDLE_CONNECTIONS: usize = 128;

/// Idle connections to all servers together: each holds a descriptor and some KiB, and servers
/// times threads would be hundreds of thousands.
pub const ORIGIN_IDLE_IN_ALL: usize = 4096;

/// An idle connection to the origin is closed after this. Servers close theirs after 5 (Node,
/// Apache) to 75 seconds (nginx); whoever is first spares the other a failed request.
pub const ORIGIN_IDLE: Duration = Duration::from_secs(4);

/// Requests under way to the origin that the store did not answer. Those that others may wait for
/// go on when their client leaves, so the bound on clients is none on them: past this, new ones
/// wait, and leave with their client.
pub const UNDER_WAY: usize = CONNECTIONS;

/// Requests with a body under way, beside [`UNDER_WAY`]: a client may take all day to send one, and
/// must not keep others from asking.
pub const UPLOADS: usize = CONNECTIONS / 2;

/// Validations in the background at once. Nobody waits for them, so nothing else slows down who
/// asks for one stale page after another; past it, the stale response is served and the next
/// request for it tries again.
pub const BACKGROUND: usize = 128;

/// Pieces of a body of slices that are ahead of its client; each is at most a slice, shared with
/// the store, or 64 KiB.
pub const PIECES_AHEAD: usize = 2;

/// A body that is stored in slices as it passes waits so long for a disk that is slower than its
/// origin. After that the rest of it is not stored.
pub const SLICES_WAIT: Duration = Duration::from_secs(1);

/// How often such a body looks whether the disk has room.
pub const SLICES_PAUSE: Duration = Duration::from_millis(5);

/// At a clean stop, requests in progress have this long (`shutdown`): a page or a short download.
/// systemd kills after 90 s.
pub const STOP_GRACE: Duration = Duration::from_secs(30);

/// A client of HTTP/2 whose quiet connection is closed has this long to agree.
pub const GOODBYE: Duration = Duration::from_secs(5);

/// At a clean stop of the admin server: its pages take milliseconds.
pub const ADMIN_STOP_GRACE: Duration = Duration::from_secs(5);

/// What still runs so long after a clean stop was asked for is worth a line in the log. Idle
/// connections close within milliseconds.
pub const STOP_NOTICE: Duration = Duration::from_millis(500);

/// Between two lines in the log about connections that cannot be accepted: out of descriptors, it
/// would be twenty a second.
pub const ACCEPT_WARNING: Duration = Duration::from_secs(1);

/// After an error of accept (usually: out of descriptors), wait so long before the next.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Requests between two questions whether the policy has long work to do.
pub const REQUESTS_PER_JOB_CHECK: u32 = 1024;

/// The largest object that the built-in origin makes: larger than any test needs, small enough for
/// every client's arithmetic.
pub const GENERATED_BYTES: u64 = 1 << 40;

/// Connections to the admin server at once: a scraper, a person, and their retries.
pub const ADMIN_CONNECTIONS: usize = 32;

/// Bytes of the body of one order to purge: the longest URL that is keyed, and its JSON around it.
pub const PURGE_BYTES: usize = 32 * 1024;

/// A client of the admin server has this long to ask, and to ask again: so few places must not be
/// held by who says nothing. A scraper that comes every 15 seconds connects anew.
pub const ADMIN_HEADER_READ: Duration = Duration::from_secs(5);

/// Bytes of a request's body that are read though no server takes it, so that the client hears the
/// 502: a form's. Larger ones lose the connection.
pub const UNWANTED_UPLOAD_BYTES: u64 = 64 << 10;

/// How long its rest is waited for: it left the client with the head, or a round trip later.
pub const UNWANTED_UPLOAD: Duration = Duration::from_secs(1);
