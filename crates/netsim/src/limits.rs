//! Every bound of the simulator, with its reason.

/// Events at one instant: with more, an application or a loop of timers of zero length keeps time
/// from passing. A burst of a second's packets of a 100 Gb/s link has fewer.
pub const EVENTS_AN_INSTANT: u64 = 20_000_000;

/// Events that are planned, the frames under way among them: with more, something sends faster than
/// its links and queues let go, and only grows. Half a gigabyte of events, and their packets; the
/// packets of a second at 100 Gb/s over a link to the moon are fewer.
pub const EVENTS_PLANNED: usize = 16_000_000;

/// Segments of a TCP window: 1.5 GB, more than a second of 10 Gb/s. The receiver's window is
/// reached before, 11 600 segments of 16 MiB: some 100 bytes each in the sender, which
/// [`BYTES_HELD`] counts.
pub const TCP_WINDOW: u32 = 1 << 20;

/// Timeouts in a row after which a connection has failed: Linux' `tcp_retries2`, some 15 minutes.
pub const TCP_TRIES: u32 = 15;

/// SYNs in vain, and answers to them: Linux' `tcp_syn_retries`, one or two minutes.
pub const TCP_SYN_TRIES: u32 = 6;

/// Connections at once, each of 1 kB and what it has under way.
pub const TCP_CONNECTIONS: usize = 1_000_000;

/// Connections of a client at once: browsers' bound for one server.
pub const HTTP_CONNECTIONS: usize = 6;

/// Bytes of an HTTP origin's objects: what a terabit a second sends in two hours. Positions in a
/// stream add up without overflow.
pub const HTTP_BODY: u64 = 1 << 50;

/// Requests that wait in a client for a connection, 16 bytes each; more have failed.
pub const HTTP_WAITING: usize = 1_000_000;

/// Bytes of the frames under way and in queues, of what consumers wait for, and of TCP's
/// connections: with more, it only grows too, where packets are large, queues without end, or
/// nobody answers. A machine of 16 GB stands it. Looked at each [`EVENTS_BETWEEN_LOOKS`] events.
pub const BYTES_HELD: u64 = 8 << 30;

/// So seldom that looking costs nothing; at the most so many packets come in between.
pub const EVENTS_BETWEEN_LOOKS: u64 = 4096;

/// Nodes of one simulation, each a forwarder of some 100 kB.
pub const NODES: usize = 100_000;

/// Links of one simulation.
pub const LINKS: usize = 1_000_000;

/// Requests of a trace that a scenario's consumers make, 16 bytes each in memory.
pub const TRACE_REQUESTS: usize = 50_000_000;

/// Nodes, channels and consumers, in every step, of the course of a run: 250 MB where all are
/// nodes, and what each face counts besides where that is asked for.
pub const COURSE_VALUES: usize = 4_000_000;

/// Steps in the course of a run: more than a picture or a replay can show.
pub const COURSE_STEPS: usize = 100_000;

/// Data of all consumers whose delay is noted, 48 bytes each; each consumer has an even share.
pub const DELAY_ROWS: usize = 10_000_000;

/// Nodes of a generated backbone: it looks at all pairs of them.
pub const BACKBONE_NODES: usize = 5000;

/// Levels of a generated tree below its root: names grow with the level, and a tree of one child a
/// node would be all names.
pub const TREE_LEVELS: usize = 1000;

/// Bytes of the largest packet that a node may be told to take: a payload of a megabyte with its
/// name. Real networks have 8800.
pub const MAX_PACKET_BYTES: usize = (1 << 20) + 8192;

/// Bytes of the least MTU of a link: an NDNLPv2 header and a few bytes of a packet.
pub const LEAST_MTU: usize = 128;

/// Interests a second of one consumer: one a nanosecond, the clock's resolution.
pub const FREQUENCY: f64 = 1e9;

/// From so many bytes on, Data is shared among the nodes that it passes. A chain gains half of its
/// speed at 5 KB and a twentieth at 1 KB; below, a copy is a few lines of the processor's cache.
pub const SHARED_BYTES: usize = 512;
