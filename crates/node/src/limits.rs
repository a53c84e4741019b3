//! Every bound of the node's NDN side, with its reason. The HTTP side's are in `http/limits.rs`.

use std::time::Duration;

/// Faces to other machines at once, unless the configuration says otherwise. UDP peers that were
/// heard first come on top: they have [`UDP_NEW_PEERS`] and the like. Each face takes a file
/// descriptor and a share of [`SEND_QUEUES_BYTES`].
pub const REMOTE_FACES: usize = 3072;

/// The most that the configuration may say: each takes a descriptor, 8 KB in the kernel and 1 KB
/// here.
pub const MOST_REMOTE_FACES: usize = 60_000;

/// Faces of this machine for which faces to other machines leave room.
pub const LOCAL_FACES: usize = 1024;

/// The order in which connections are closed for others holds for so long: sorting 3,000 takes a
/// millisecond.
pub const ENTITLEMENT: Duration = Duration::from_secs(1);

/// UDP peers that were heard within [`UDP_KNOWN_AFTER`] only. Their addresses may be forged: with
/// 3,000 forged senders a second a genuine one has its place for 0.3 s on average, which is longer
/// than most round trips, and for longer in a network that no forged sender claims. About 1 KB
/// each.
pub const UDP_NEW_PEERS: usize = 1024;

/// UDP peers that were heard again later, and have not shown that they hold their address.
pub const UDP_KNOWN_PEERS: usize = 512;

/// UDP peers that have shown it.
pub const UDP_PROVEN_PEERS: usize = 512;

/// A UDP peer that is heard again after this is no new one: longer than a burst of an application's
/// first Interests.
pub const UDP_KNOWN_AFTER: Duration = Duration::from_secs(1);

/// The lifetime of a probe. A forwarder without a route for it refuses at once, so a longer one
/// gains nothing.
pub const PROBE_LIFETIME: Duration = Duration::from_millis(100);

/// Bytes that wait for one slow reader; what comes on top is dropped and counted. Two windows of 64
/// Interests' 8 KB Data, twice over.
pub const SEND_QUEUE_BYTES: usize = 2 << 20;

/// Bytes that wait for all readers, and once more those that they have not acknowledged on reliable
/// links: with more faces than this has room for, each queue is shorter, down to
/// [`SEND_QUEUE_LEAST_BYTES`].
pub const SEND_QUEUES_BYTES: usize = 256 << 20;

/// The shortest queue: eight packets of the largest size.
pub const SEND_QUEUE_LEAST_BYTES: usize = 64 << 10;

/// The part of the longest queue from which on an application on this machine is not read until it
/// has taken half of it: 256 KiB. What one batch of [`FRAMES_AT_ONCE`] adds then has room.
pub const BACKPRESSURE_PART: usize = 8;

/// An application that takes nothing for this long is read although its queue is long: it may be
/// one that writes all its Interests before it reads.
pub const BACKPRESSURE_STALL: Duration = Duration::from_millis(500);

/// Bytes of frames that are held for all faces that are not read; with more, what comes to a long
/// queue is handled at once, and may be dropped. Each face holds at most what one read brings.
pub const HELD_INPUT_BYTES: usize = 16 << 20;

/// Waiting bytes from which on they are written before the turn is over: what one system call may
/// well carry, and UDP's GSO at most does.
pub const WRITE_BYTES: usize = 64 << 10;

/// Waiting packets from which on they are written, too, however small they are: half of what 64
/// outstanding Interests are, so that the reader of the first half works while the second is made.
/// Measured: 16 and 24 are as good within the noise, 48 is no better than none.
pub const WRITE_PACKETS: usize = 32;

/// Buffers of written queues that are kept: as many as are likely to be in use at once.
pub const SPARE_BUFFERS: usize = 32;

/// The largest of them: a queue that is written at [`WRITE_BYTES`] needs little more, which
/// doubling makes this. 8 MB in all.
pub const SPARE_BUFFER_BYTES: usize = 256 << 10;

/// How long packets may wait in a send queue that stands: RFC 8289, section 4.2 (TARGET).
pub const CODEL_TARGET: Duration = Duration::from_millis(5);

/// How long a queue may take to take up a burst: RFC 8289, section 4.2 (INTERVAL), a worst-case
/// round trip.
pub const CODEL_INTERVAL: Duration = Duration::from_millis(100);

/// The times at which a queue's bytes came are told apart from here on: a tenth of
/// [`CODEL_TARGET`].
pub const ARRIVALS_APART: Duration = Duration::from_micros(500);

/// Bytes that the kernel may hold for TCP beyond what it has sent (TCP_NOTSENT_LOWAT): what waits
/// longer waits in the send queue, where it is seen.
pub const TCP_UNSENT_BYTES: u32 = 64 << 10;

/// Bytes read from one stream in one turn of the loop: eight large packets, or some five hundred
/// small ones, and then the others have their turn.
pub const READ_BYTES: usize = 64 << 10;

/// Frames handed to the forwarder at once: what it looks up together. Their answers, 280 KB at
/// most, are queued before the next ones.
pub const FRAMES_AT_ONCE: usize = 32;

/// Bytes of packets that wait for a shard's thread, from all others: what all their readers'
/// windows of 64 large packets hold, as in [`SEND_QUEUE_BYTES`]; a thread that is behind by more
/// gets no further by a longer queue.
pub const SHARD_CHANNEL_BYTES: usize = 4 << 20;

/// Batches and commands from other threads that are obeyed in one turn, and then the sockets have
/// theirs.
pub const COMMANDS_PER_TURN: usize = 64;

/// The largest frame: a packet of 8800 bytes and its NDNLPv2 header.
pub const FRAME_BYTES: usize = larder_packet::limits::MAX_LP_PACKET_BYTES;

/// An oversized packet on a stream or WebSocket is skipped up to this size, and takes no memory; a
/// longer one is taken for garbage, and the face is closed.
pub const SKIP_BYTES: usize = 16 << 20;

/// Bytes of the longest WebSocket handshake: browsers send less than 1 KB, and cookies of other
/// servers on this host may come with it.
pub const HANDSHAKE_BYTES: usize = 8 << 10;

/// The least that partial input may be told to take: some dozens of packets.
pub const PARTIAL_INPUT_LEAST_BYTES: u64 = 256 << 10;

/// An upstream on a stream that cannot be reached is tried again after this, and after twice the
/// time each time up to [`RECONNECT_MOST`].
pub const RECONNECT_FIRST: Duration = Duration::from_secs(1);
/// The longest time between two attempts.
pub const RECONNECT_MOST: Duration = Duration::from_secs(30);

/// The largest payload of a UDP datagram over IPv4.
pub const UDP_MOST_BYTES: usize = 65_507;

/// The largest UDP frame to other machines: Ethernet's 1500 bytes less the IPv6 and UDP headers.
pub const UDP_MTU: usize = 1500 - 40 - 8;

/// The largest UDP frame on loopback, whose MTU is 65,536.
pub const LOOPBACK_MTU: usize = FRAME_BYTES;

/// The smallest UDP frame that a path's MTU makes: IPv6's 1280 bytes less the headers, which every
/// path carries by IPv6 and nearly every by IPv4. What claims to be narrower may be a forged word
/// of a router.
pub const UDP_LEAST_MTU: usize = 1280 - 40 - 8;

/// Paths whose MTU is looked at in one second: four system calls each.
pub const PATHS_AT_ONCE: usize = 32;

/// Neighbours of one Ethernet at once: as [`UDP_NEW_PEERS`].
pub const ETHERNET_PEERS: usize = 1024;

/// Bytes of the shortest Ethernet frame without its checksum (IEEE 802.3).
pub const ETHERNET_LEAST_BYTES: usize = 60;

/// Frames read from one multicast socket or Ethernet in one turn of the loop.
pub const FRAMES_PER_TURN: usize = 64;

/// A UDP peer that sends nothing for this long is forgotten (NFD's default).
pub const UDP_IDLE: Duration = Duration::from_secs(600);

/// Bytes of receive buffer asked of the kernel for UDP sockets; it may give less.
pub const UDP_RECEIVE_BYTES: usize = 4 << 20;

/// Bytes of send buffer asked of the kernel for UDP sockets: a millisecond's at 1 Gb/s. What waits
/// longer waits in the send queues, where it is seen.
pub const UDP_SEND_BYTES: usize = 128 << 10;

/// A TCP face that management makes must be connected by then: the command that waits for it lives
/// 4 s.
pub const FACE_CONNECT: Duration = Duration::from_secs(3);

/// A WebSocket client has this long for its handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// How often the loop looks for idle peers and overdue handshakes, and tries again to accept after
/// running out of descriptors.
pub const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// How long a reload waits for the event loop: a large Content Store under another policy is
/// entered anew in one go.
pub const RELOAD_PATIENCE: Duration = Duration::from_secs(30);

/// Prefixes in the metrics and on the status page: each is a label.
pub const PREFIXES_SHOWN: usize = 32;

/// Time between two warnings about what peers do: the first tells what is going on, the counters
/// tell how often.
pub const WARNINGS: Duration = Duration::from_secs(1);

/// Threads that read from a disk tier. A disk in the page cache needs one; a solid one answers
/// several at once.
pub const DISK_READERS: usize = 4;

/// Threads that read parts of values whose readers have begun to send them: they wait for no other
/// reads.
pub const DISK_PART_READERS: usize = 2;

/// Values that are gone through at once before they are read in parts. Each may be as long as a
/// region, up to 256 MiB, so one that comes behind so many of them still begins within
/// [`DISK_PATIENCE`] on a disk of a GB/s, if they are not all so long.
pub const DISK_OPENS: usize = 16;

/// A part that a disk tier has not read for so long ends the body that it is a part of: a client
/// waits for it as long.
pub const DISK_PART_PATIENCE: Duration = Duration::from_secs(60);

/// Reads that wait for a disk tier, some 200 bytes each and the value's; past it, the origin is
/// asked instead. What is read whole of responses is reserved before, and of Data the forwarder has
/// its own bound (`larder_forwarder::limits::RECALLS`); consumers with a window ask for hundreds of
/// segments at once.
pub const DISK_READS_WAITING: usize = 2048;

/// The writer of a disk tier looks for work at least so often: it is woken for all that it knows
/// of.
pub const DISK_IDLE: Duration = Duration::from_secs(5);

/// A disk tier that has not read or synced for so long is not waited for: the origin is asked, and
/// who removed something is told. A disk under load takes less than a second; one that repeats what
/// it cannot do takes ten and more.
pub const DISK_PATIENCE: Duration = Duration::from_secs(5);

/// A part of a value, whose reader has begun to send it, is asked for again after this where the
/// queue of reads is full.
pub const DISK_RETRY: Duration = Duration::from_millis(10);

/// How often a node that stops looks whether its disk tier has: nobody notices so much more.
pub const DISK_STOP_LOOK: Duration = Duration::from_millis(5);
