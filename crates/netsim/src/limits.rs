//! The limits of the simulator, with their reasons.

/// Events at one instant. With more, an application or a loop of timers of length zero keeps time
/// from advancing. A burst of one second of packets on a 100 Gb/s link has fewer.
pub const EVENTS_AN_INSTANT: u64 = 20_000_000;

/// Planned events, including frames on links. With more, an application sends faster than its links
/// and queues release frames, and the network only grows. This limit is half a gigabyte of events,
/// plus their packets. One second of packets at 100 Gb/s over a link to the moon has fewer.
pub const EVENTS_PLANNED: usize = 16_000_000;

/// Segments of a TCP window: 1.5 GB, more than one second of 10 Gb/s. The receiver's window is
/// smaller (11 600 segments for 16 MiB). Each segment takes some 100 bytes in the sender, which
/// [`BYTES_HELD`] counts.
pub const TCP_WINDOW: u32 = 1 << 20;

/// Consecutive timeouts after which a connection fails: Linux' `tcp_retries2`, some 15 minutes.
pub const TCP_TRIES: u32 = 15;

/// Unanswered SYNs, and unanswered replies to a SYN, after which a connection fails: Linux'
/// `tcp_syn_retries`, one or two minutes.
pub const TCP_SYN_TRIES: u32 = 6;

/// Open connections, each of 1 kB plus its segments in flight.
pub const TCP_CONNECTIONS: usize = 1_000_000;

/// Concurrent connections of a client: the limit of browsers for one server.
pub const HTTP_CONNECTIONS: usize = 6;

/// The size of an HTTP origin's objects: what a terabit per second sends in two hours. Positions in
/// a stream add up without overflow.
pub const HTTP_BODY: u64 = 1 << 50;

/// The largest body that a simulated HTTP cache stores. A body in progress is in memory, as in a
/// real cache. Larger ones pass.
pub const HTTP_STORED_BODY: u64 = 1 << 30;

/// Requests that wait in a client for a connection, 16 bytes each. Further requests fail.
pub const HTTP_WAITING: usize = 1_000_000;

/// Bytes of the frames on links and in queues, of pending Interests of consumers, and of TCP
/// connections. With more, the network only grows: packets are large, a queue has no bound, or
/// Interests get no answer. A machine with 16 GB can hold this many. Checked every
/// [`EVENTS_BETWEEN_LOOKS`] events.
pub const BYTES_HELD: u64 = 8 << 30;

/// Events between two checks of the memory. The check costs next to nothing at this interval, and
/// at most this many packets are added in between.
pub const EVENTS_BETWEEN_LOOKS: u64 = 4096;

/// Nodes of one simulation, each a forwarder of some 100 kB.
pub const NODES: usize = 100_000;

/// Links of one simulation.
pub const LINKS: usize = 1_000_000;

/// Next hops of a node towards one producer: the greatest `max-faces-per-prefix` of NLSR.
pub const NEXT_HOPS: usize = 60;

/// Requests of a trace in a scenario, 16 bytes each in memory.
pub const TRACE_REQUESTS: usize = 50_000_000;

/// Values of a timeline: nodes, channels and consumers in every step. This is 250 MB if all are
/// nodes, plus the counters of faces if they are recorded.
pub const TIMELINE_VALUES: usize = 4_000_000;

/// Steps of a timeline: more than a picture or a replay can show.
pub const TIMELINE_STEPS: usize = 100_000;

/// Recorded delays of Data of all consumers, 48 bytes each. All consumers have equal shares.
pub const DELAY_ROWS: usize = 10_000_000;

/// Nodes of a generated backbone. Its generator visits all pairs of nodes.
pub const BACKBONE_NODES: usize = 5000;

/// Levels of a generated tree below its root. Names grow with the level, and names would fill the
/// memory for a tree with one child per node.
pub const TREE_LEVELS: usize = 1000;

/// The size of the largest packet that a node can be configured for: a payload of a megabyte with
/// its name. Real networks have 8800 bytes.
pub const MAX_PACKET_BYTES: usize = (1 << 20) + 8192;

/// The least MTU of a link, in bytes: an NDNLPv2 header and a few bytes of a packet.
pub const LEAST_MTU: usize = 128;

/// Interests per second of one consumer: one per nanosecond, the resolution of the clock.
pub const FREQUENCY: f64 = 1e9;

/// The size from which Data is shared among the nodes that it passes. Sharing gains half of the
/// speed of a chain at 5 KB and a twentieth at 1 KB. Below this size, a copy is a few lines of the
/// processor's cache.
pub const SHARED_BYTES: usize = 512;
