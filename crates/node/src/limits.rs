//! Every bound of the node's NDN side, with its reason. The HTTP side's are in `larder-proxy`.

use std::time::Duration;

/// Faces to other machines, by default. UDP peers that sent first come on top: they have
/// [`UDP_NEW_PEERS`] and the like. Each face takes a file descriptor and a share of
/// [`SEND_QUEUES_BYTES`].
pub const REMOTE_FACES: usize = 3072;

/// The largest configurable number: each takes a descriptor, 8 KB in the kernel and 1 KB here.
pub const MOST_REMOTE_FACES: usize = 60_000;

/// Descriptors for faces of this machine that faces to other machines leave free.
pub const LOCAL_FACES: usize = 1024;

/// The time for which the order of connections to close is kept: sorting 3,000 takes a millisecond.
pub const ENTITLEMENT: Duration = Duration::from_secs(1);

/// UDP peers, over all threads, that were heard within [`UDP_KNOWN_AFTER`] only. Their addresses
/// may be forged. With 3,000 forged senders per second, a genuine peer has its place for 0.3 s on
/// average, longer than most round trips, and for longer in a network that no forged sender claims.
/// About 1 KB each.
pub const UDP_NEW_PEERS: usize = 1024;

/// UDP peers that were heard again later, and have not proven that they hold their address.
pub const UDP_KNOWN_PEERS: usize = 512;

/// UDP peers that have proven it.
pub const UDP_PROVEN_PEERS: usize = 512;

/// A UDP peer that is heard again after this time is known. Longer than a burst of an application's
/// first Interests.
pub const UDP_KNOWN_AFTER: Duration = Duration::from_secs(1);

/// The lifetime of a probe. A forwarder without a route for it refuses at once, so a longer one
/// gains nothing.
pub const PROBE_LIFETIME: Duration = Duration::from_millis(100);

/// Bytes that wait for one slow reader. Further packets are dropped and counted. Two windows of 64
/// Interests for Data of 8 KB, twice.
pub const SEND_QUEUE_BYTES: usize = 2 << 20;

/// Bytes that wait for an application on this machine. The system may stop it for longer than
/// [`BACKPRESSURE_STALL`] while it has asked for all that its window allows: 4,000 Data of 8 KB.
/// NFD has no limit here.
pub const APPLICATION_QUEUE_BYTES: usize = 32 << 20;

/// Bytes that wait for all readers, and again as many that they have not acknowledged on reliable
/// links. With more faces than fit, each queue is shorter, down to [`SEND_QUEUE_LEAST_BYTES`].
pub const SEND_QUEUES_BYTES: usize = 256 << 20;

/// The shortest queue: eight packets of the largest size.
pub const SEND_QUEUE_LEAST_BYTES: usize = 64 << 10;

/// The fraction of [`SEND_QUEUE_BYTES`] from which on an application on this machine is not read
/// until it has taken half: 256 KiB. The answers to one more batch of [`FRAMES_AT_ONCE`] then have
/// room.
pub const BACKPRESSURE_PART: usize = 8;

/// An application that takes nothing for this long is read although its queue is long: it may write
/// all its Interests before it reads.
pub const BACKPRESSURE_STALL: Duration = Duration::from_millis(500);

/// Bytes of frames that are held for all faces that are not read. Above this, frames for a long
/// queue are handled at once, and may be dropped. Each face holds at most the bytes of one read.
pub const HELD_INPUT_BYTES: usize = 16 << 20;

/// Waiting bytes from which on a queue is written before the turn is over: what one system call
/// carries well, and the maximum of UDP's GSO.
pub const WRITE_BYTES: usize = 64 << 10;

/// Waiting packets from which on a queue is written, however small they are: half of 64 outstanding
/// Interests, so that the reader of the first half works while the second is made. Measured: 16 and
/// 24 are as good within the noise; 48 is no better than none.
pub const WRITE_PACKETS: usize = 32;

/// Spare buffers of written queues: as many as are likely to be in use at once.
pub const SPARE_BUFFERS: usize = 32;

/// The largest spare buffer: a queue that is written at [`WRITE_BYTES`] needs little more, which
/// doubling turns into this. 8 MB in all.
pub const SPARE_BUFFER_BYTES: usize = 256 << 10;

/// The acceptable wait in a persistent send queue: RFC 8289, section 4.2 (TARGET).
pub const CODEL_TARGET: Duration = Duration::from_millis(5);

/// The time in which a queue may absorb a burst: RFC 8289, section 4.2 (INTERVAL), a worst-case
/// round trip.
pub const CODEL_INTERVAL: Duration = Duration::from_millis(100);

/// The resolution of arrival times in a queue: a tenth of [`CODEL_TARGET`].
pub const ARRIVALS_APART: Duration = Duration::from_micros(500);

/// Faces of one user's applications with shared memory, over all threads, while no other user has
/// any: 63, which take 64 MiB, and two descriptors each beside the socket. Further applications use
/// their sockets.
pub const SHARED_FACES: usize = (64 << 20) / larder_shared_stream::limits::STREAM_BYTES;

/// The same of all users. A user may have as many as are free, so the first one leaves half of
/// them, and the next one half of the rest.
pub const SHARED_FACES_OF_ALL: usize = 2 * SHARED_FACES;

/// Unsent bytes that the kernel may hold for TCP (TCP_NOTSENT_LOWAT). More waits in the send queue,
/// which is measured.
pub const TCP_UNSENT_BYTES: u32 = 64 << 10;

/// The most applications whose shared memory is polled. A look at each takes some 10 ns; with more
/// of them, the loop seldom waits.
pub const POLLED_FACES: usize = 8;

/// The most packets between two waits of a loop that polls. After more, throughput counts, and a
/// loop that sleeps finds more packets at once.
pub const POLLED_PACKETS: usize = 4;

/// The time for which a socket or an application counts as active: a poll pays if packets follow
/// each other within some 100 us.
pub const ACTIVE: Duration = Duration::from_millis(1);

/// Bytes read from one stream per turn of the loop: eight large packets, or some five hundred small
/// ones; then the other faces have their turn.
pub const READ_BYTES: usize = 64 << 10;

/// Frames passed to the forwarder at once, which it looks up together. Their answers, at most 280
/// KB, are queued before the next ones.
pub const FRAMES_AT_ONCE: usize = 32;

/// Bytes of packets that wait for a shard's thread, from all others: the windows of 64 large
/// packets of all their readers, as in [`SEND_QUEUE_BYTES`]. A longer queue does not help a thread
/// that is further behind.
pub const SHARD_CHANNEL_BYTES: usize = 4 << 20;

/// Batches of packets of other threads that are processed per turn; then the sockets have their
/// turn. Other commands do not count: they are few for each packet, and a thread that left them for
/// later would know less than the thread that sent them.
pub const BATCHES_PER_TURN: usize = 64;

/// Bytes of datagrams of strangers that wait for a shard's thread. They have a bound of their own,
/// so a flood of them takes no room of packets between known faces.
pub const STRANGERS_BYTES: usize = 1 << 20;

/// What a datagram of a stranger counts in [`STRANGERS_BYTES`] beside its bytes: a new face costs
/// as much. So 2,000 strangers may wait at most.
pub const STRANGER_BYTES: usize = 512;

/// The largest frame: a packet of 8800 bytes and its NDNLPv2 header.
pub const FRAME_BYTES: usize = larder_packet::limits::MAX_LP_PACKET_BYTES;

/// An oversized packet on a stream or WebSocket is skipped up to this size, and takes no memory. A
/// longer one is treated as garbage, and the face is closed.
pub const SKIP_BYTES: usize = 16 << 20;

/// Bytes of the longest WebSocket handshake: browsers send less than 1 KB, plus cookies of other
/// servers on this host.
pub const HANDSHAKE_BYTES: usize = 8 << 10;

/// The smallest budget of partial input: some dozens of packets.
pub const PARTIAL_INPUT_LEAST_BYTES: u64 = 256 << 10;

/// The wait before a stream upstream is tried again. It doubles each time up to [`RECONNECT_MOST`].
pub const RECONNECT_FIRST: Duration = Duration::from_secs(1);
/// The longest time between two attempts.
pub const RECONNECT_MOST: Duration = Duration::from_secs(30);

/// The largest UDP frame to other machines: Ethernet's 1500 bytes less the IPv6 and UDP headers.
pub const UDP_MTU: usize = 1500 - 40 - 8;

/// The largest UDP frame on loopback, whose MTU is 65,536.
pub const LOOPBACK_MTU: usize = FRAME_BYTES;

/// The smallest UDP frame for the MTU of a path: IPv6's 1280 bytes less the headers, which every
/// path carries by IPv6 and nearly every by IPv4. A smaller value may come from a forged message of
/// a router.
pub const UDP_LEAST_MTU: usize = 1280 - 40 - 8;

/// Paths whose MTU is read per second: four system calls each.
pub const PATHS_AT_ONCE: usize = 32;

/// Neighbours of one Ethernet, as [`UDP_NEW_PEERS`].
pub const ETHERNET_PEERS: usize = 1024;

/// Bytes of the shortest Ethernet frame without its checksum (IEEE 802.3).
pub const ETHERNET_LEAST_BYTES: usize = 60;

/// Frames read from one multicast socket or Ethernet per turn of the loop.
pub const FRAMES_PER_TURN: usize = 64;

/// A UDP peer that is silent for this long is removed (NFD's default).
pub const UDP_IDLE: Duration = Duration::from_secs(600);

/// Bytes of receive buffer requested for UDP sockets; the kernel may give less.
pub const UDP_RECEIVE_BYTES: usize = 4 << 20;

/// Bytes of send buffer requested for UDP sockets: a millisecond at 1 Gb/s. More waits in the send
/// queues, which are measured.
pub const UDP_SEND_BYTES: usize = 128 << 10;

/// The time for the connection of a TCP face that management creates: its command lives for 4 s.
pub const FACE_CONNECT: Duration = Duration::from_secs(3);

/// The time for a WebSocket client's handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// The interval of checks for idle peers and overdue handshakes, and of new attempts to accept
/// after the descriptors were used up.
pub const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// The time that a reload waits for the event loop: a large Content Store is inserted into another
/// policy in one step.
pub const RELOAD_PATIENCE: Duration = Duration::from_secs(30);

/// Prefixes in the metrics and on the status page: each is a label.
pub const PREFIXES_SHOWN: usize = 32;

/// Prefixes whose strategies the console shows: each costs a lookup in the snapshot of each second.
pub const STRATEGIES_SHOWN: usize = 64;

/// Routes that the console shows: a node has up to millions.
pub const ROUTES_SHOWN: usize = 100;

/// The time between two warnings about peers: the first tells the problem, the counters its
/// frequency.
pub const WARNINGS: Duration = Duration::from_secs(1);

/// Descriptors of one message between the processes of an upgrade: the kernel's limit
/// (`SCM_MAX_FD`). A configuration has up to 196 listeners: 64 of `[http]`, 64 of `[http.tls]`, 67
/// of `[ndn]` (of UDP, one for each of 64 threads), and that of `[admin]`. The UDP sockets of
/// HTTP/3, one for each thread and listener, are passed too if there is room.
pub const UPGRADE_DESCRIPTORS: usize = 253;

/// Bytes of one such message: a line for each descriptor, or the reason of a failure.
pub const UPGRADE_MESSAGE_BYTES: usize = 64 * 1024;

/// The time in which a new process reads its configuration and checks it before an upgrade. More
/// means that it hangs.
pub const UPGRADE_PREPARATION: Duration = Duration::from_secs(60);

/// The time in which it opens its disk tiers and starts: a log of a hundred million objects takes
/// half a minute from a fast disk.
pub const UPGRADE_START: Duration = Duration::from_secs(600);

/// The interval in which a process that has been replaced checks whether its connections have
/// ended.
pub const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// The part of the time for requests in progress that is left when a replaced process closes its
/// idle connections: requests that have arrived on them are answered.
pub const DRAIN_REST: Duration = Duration::from_secs(1);

/// Symbolic links in the path of a folder: as many as Linux follows (`path_resolution(7)`).
pub const SYMBOLIC_LINKS: usize = 40;
