//! Every bound of the forwarder, with its reason. A host may lower the ones in [`crate::Config`];
//! none can be switched off.

use std::time::Duration;

/// The largest network-layer packet, bytes (NDN packet specification 0.3, section 1.4: practical
/// limit of 8800). [`crate::Config`] may say otherwise, for networks in which every node does.
pub const MAX_PACKET_BYTES: usize = 8800;

/// Interests pending at once. An entry with an ordinary name takes about 400 bytes with its
/// records: near 100 MB at the limit.
pub const PIT_ENTRIES: usize = 1 << 18;

/// Bytes of names and forwarding hints of pending Interests: 2^18 long ones would take 4.6 GB.
pub const PIT_BYTES: usize = 128 << 20;

/// The number of entries of the face with the largest share of a full PIT that are charged to other
/// faces waiting for them, before a new Interest is refused. It bounds the work for one packet.
pub const SHARED_ENTRIES_TO_MAKE_ROOM: usize = 16;

/// Pending Interests of one name that differ in CanBePrefix, MustBeFresh, ForwardingHint or
/// implicit digest: they share one hash, so each look-up passes them all.
pub const ENTRIES_PER_NAME: usize = 64;

/// The number of copies of a Data among which a duplicate for the same face is searched. Thousands
/// of entries may wait for one Data, each with many faces. Beyond this number, a consumer that sent
/// two different Interests gets two copies.
pub const REPEATS_LOOKED_FOR: usize = 256;

/// Downstreams, or upstreams, that one pending Interest remembers. More than this many consumers of
/// one name within one round trip retransmit, and are answered from the Content Store.
pub const RECORDS_PER_ENTRY: usize = 1024;

/// The longest time that an Interest may stay pending. Longer lifetimes are cut to it: state must
/// end.
pub const INTEREST_LIFETIME: Duration = Duration::from_secs(600);

/// Prefixes from which on a table has a filter: the index of fewer stays in the processor's second
/// cache.
pub const FILTERED_PREFIXES: usize = 1 << 16;

/// The number of prefixes that each insertion adds to a new filter while it is built. This takes
/// some 5 us, and the filter is complete when the table has grown by 1/32.
pub const PREFIXES_FILTERED_AT_ONCE: usize = 32;

/// Lines of it, a page, that are made before that with each insertion.
pub const FILTER_LINES_AT_ONCE: usize = 64;

/// Components of the longest prefix in the FIB and in the strategy choice table (NFD's name tree
/// has the same bound).
pub const PREFIX_COMPONENTS: usize = 32;

/// Components of the longest Interest name with CanBePrefix: Data is matched against one hash a
/// prefix, which this bounds.
pub const CAN_BE_PREFIX_COMPONENTS: usize = 64;

/// Bytes of the longest prefix in the FIB: with [`ROUTES`] of them memory must end somewhere.
pub const PREFIX_BYTES: usize = 2048;

/// Bytes of incomplete packets in reassembly, over all faces. One face holds about 890 kB at the
/// worst, so 70 hostile faces fill it; then the face that holds the most loses its own.
pub const REASSEMBLY_BYTES: usize = 64 << 20;

/// Nonces remembered after their Interests are gone: the table takes 8 bytes each, 1 MB. A flood
/// shortens the memory, and fills no more.
pub const DEAD_NONCES: usize = 1 << 17;

/// The age at which a dead nonce is forgotten: loops longer than this are cut by HopLimit and the
/// PIT instead.
pub const DEAD_NONCE_AGE: Duration = Duration::from_secs(3);

/// Routes in the RIB, over all prefixes.
pub const ROUTES: usize = 1 << 20;

/// Routes of one prefix: every change of it rebuilds its next hops.
pub const ROUTES_PER_PREFIX: usize = 4096;

/// Management commands remembered of each face, with their responses: one that comes again is
/// answered again, and not carried out again.
pub const REPLAY_COMMANDS: usize = 256;

/// Bytes of those responses. An ordinary one has 200, but a command's name, which they repeat, may
/// fill a packet.
pub const REPLAY_BYTES: usize = 128 << 10;

/// Prefixes with a strategy of their own. Operators set a handful; each may measure up to
/// [`MEASURED_NAMESPACES`].
pub const STRATEGY_CHOICES: usize = 1024;

/// The largest difference between the time in a signed command and this node's clock (NFD's
/// number).
pub const SIGNATURE_TIME_GRACE: Duration = Duration::from_secs(120);

/// Commands remembered of each certificate within twice that time, 16 bytes each; with more, the
/// oldest times are refused.
pub const SIGNED_COMMANDS: usize = 1 << 16;

/// Bytes that one cached Data takes besides its packet: the entry (64), its places in the two
/// indexes (about 16 and 64), the policy's share (24), and of the buffer its head (16), its
/// rounding up (32 on average) and the allocator's (8).
pub const CONTENT_STORE_ENTRY_BYTES: u64 = 224;

/// Names that one CanBePrefix Interest enters into the Content Store's tree, where so many came
/// since the last: some 50 microseconds. With more, it finds only those that came last.
pub const NAMES_ENTERED_AT_ONCE: usize = 256;

/// The number of names that each lookup enters while prefixes are requested. It is one more than a
/// lookup can have stored, so the list of waiting names becomes empty.
pub const NAMES_ENTERED_A_LOOK_UP: usize = 2;

/// Look-ups, after an Interest with CanBePrefix, that enter names: a store of 2^20 packets is whole
/// after a few such Interests, and a single one costs a router without others at most some 60 ms of
/// its time.
pub const LOOK_UPS_THAT_ENTER: u32 = 1 << 16;

/// Names that one `cs/erase` enters, some 30 milliseconds; where more wait, it says that it has not
/// seen all.
pub const NAMES_ENTERED_TO_ERASE: usize = 1 << 16;

/// Names that one `cs/erase` looks at under the first twelve components of a deeper prefix, some 10
/// milliseconds; where there are more, it says so, and the next one goes on behind them.
pub const NAMES_PASSED_TO_ERASE: usize = 1 << 16;

/// The time within which the next command continues an erasure. Clients send it at once, and on a
/// busy machine within a command's 4 s.
pub const ERASURE_GOES_ON: Duration = Duration::from_secs(5);

/// The number of unfinished erasures, of all clients, whose position is remembered. Beyond it the
/// oldest one starts again from the beginning. More operators rarely erase deep prefixes of a full
/// store at the same time.
pub const ERASURES_GOING_ON: usize = 16;

/// Buffers of Data that left the Content Store are used again for the next: so many bytes of them
/// wait, which a burst of evictions would exceed.
pub const SPARE_BUFFER_BYTES: usize = 1 << 20;

/// Packets that come to a send queue longer than this carry a congestion mark (NDNLPv2), unless the
/// face says otherwise: NFD's default, and five milliseconds' worth at 100 Mb/s.
pub const CONGESTION_THRESHOLD_BYTES: u64 = 64 << 10;

/// The interval of congestion marking of a face for which management states none: NFD's default,
/// and RFC 8289's.
pub const CONGESTION_MARKING_INTERVAL: Duration = Duration::from_millis(100);

/// The least MTU that `faces/update` and `faces/create` may set, bytes: NFD's. A packet of 8800
/// bytes needs 44 (`larder_packet::limits::MAX_FRAGMENTS`).
pub const LEAST_MTU: u64 = 64;

/// The largest origin of a route: ndn-cxx reads it as a number of 16 bits, and refuses a whole
/// `rib/list` with a larger one.
pub const LARGEST_ORIGIN: u64 = 65_535;

/// The bytes of one status dataset: a million routes. A larger one is refused, because it is
/// created in one step while packets wait.
pub const DATASET_BYTES: usize = 64 << 20;

/// Datasets that are remembered while their segments are fetched; the oldest goes first.
pub const DATASETS: usize = 64;

/// Bytes of them all. The newest is kept whatever its size.
pub const DATASETS_BYTES: usize = 128 << 20;

/// Bytes of a dataset's segment: with name and signature it stays below [`MAX_PACKET_BYTES`].
pub const DATASET_SEGMENT_BYTES: usize = 8000;

/// The number of face events that are kept for late subscribers, about 200 bytes each.
pub const FACE_EVENTS: usize = 1024;

/// Faces that the host is asked to make at once, by commands that wait for it.
pub const FACES_BEING_CREATED: usize = 256;

/// Data that one `cs/erase` erases; clients ask again for the rest (NFD's number).
pub const ERASE_AT_ONCE: u64 = 256;

/// Bytes that count as one packet where the management protocol states a capacity in packets: an
/// ordinary segment of 8 KB.
pub const NOMINAL_PACKET_BYTES: u64 = 8192;

/// Next hops of a FIB entry of which a measuring strategy remembers something, 40 bytes each: faces
/// come and go under a prefix, and their numbers never come again.
pub const MEASURED_NEXT_HOPS: usize = 16;

/// The number of FIB entries that a measuring strategy remembers: some 130 bytes each with two next
/// hops. Interests of other entries are forwarded by cost.
pub const MEASURED_NAMESPACES: usize = 1 << 16;

/// The age at which unused measurements may be replaced when the table is full.
pub const MEASUREMENT_AGE: Duration = Duration::from_secs(60);

/// Prefixes whose hits and misses are counted: some 150 bytes each.
pub const COUNTED_PREFIXES: usize = 1024;

/// Data verified before they are stored within [`VERIFICATION_INTERVAL`]: at 60 to 120 us for
/// Ed25519 and ECDSA, a fifth of a core.
pub const VERIFICATIONS: u32 = 200;

/// See [`VERIFICATIONS`].
pub const VERIFICATION_INTERVAL: Duration = Duration::from_millis(100);

/// Interests that one strategy holds back, over all faces: a second at 65,000 a second. More are
/// refused.
pub const HELD_INTERESTS: usize = 1 << 16;

/// Bytes of them: an ordinary Interest has some 60, but one with parameters may fill a packet.
pub const HELD_BYTES: usize = 32 << 20;

/// The greatest rate, Interests a second, and the deepest bucket that rate limits may have: 2^32 a
/// second is a nanosecond's quarter each.
pub const POLICED_INTERESTS: u64 = 1 << 32;

/// Forwarders that are one to the world: a bit each in a word. Machines with more cores than that
/// run several nodes.
pub const SHARDS: usize = 64;

/// Interests whose answers are read from the second tier at once. With four reads at a time of 100
/// us each they take [`TIER_PATIENCE`]'s half.
pub const TIER_LOOKUPS: usize = 2048;

/// Bytes of Data that are read at once, as many as [`TIER_LOOKUPS`] ordinary packets have: with
/// larger ones, fewer are read.
pub const RECALLED_BYTES: usize = 16 << 20;

/// How long an Interest waits for the second tier before it goes upstream. An SSD takes 0.1 ms per
/// read and a hard disk 10 ms, and consumers send an Interest again after a second or so.
pub const TIER_PATIENCE: Duration = Duration::from_millis(100);

/// Prefixes whose erasure the second tier remembers; past it, the next one erases everything there.
/// A record that is read is compared with all of them: a few microseconds.
pub const ERASE_MARKS: usize = 1 << 10;

/// Management commands and datasets that wait at once for what the other shards say, or for the
/// second tier.
pub const SHARD_QUERIES: usize = 64;

/// Observations that a Content Store keeps until its host takes them: those of a tenth of a second
/// at 160,000 requests in the sample per second. With 100 bytes each they take 1.6 MB.
pub const OBSERVATIONS: usize = 1 << 14;

/// Commands to the routing daemon without an answer at once. A node with 100,000 prefixes sends
/// them in such portions, so neither the daemon's queue nor the PIT fills.
pub const READVERTISE_UNANSWERED: usize = 64;

/// The InterestLifetime of a command to the routing daemon, which answers on this machine.
pub const READVERTISE_LIFETIME: Duration = Duration::from_secs(1);

/// The time after which a command to the routing daemon without an answer is repeated. It doubles
/// with each repetition, up to [`READVERTISE_RETRY_MOST`].
pub const READVERTISE_RETRY: Duration = Duration::from_secs(1);

/// See [`READVERTISE_RETRY`]. A daemon that has stopped answering and answers again learns all
/// prefixes after this time.
pub const READVERTISE_RETRY_MOST: Duration = Duration::from_secs(60);

/// The time after which an accepted prefix is advertised again, as in NFD: a daemon may lose it
/// without losing its connection.
pub const READVERTISE_INTERVAL: Duration = Duration::from_secs(3600);

/// Prefixes without a route that the routing daemon has not confirmed to have withdrawn, 200 bytes
/// each with an ordinary name. More are forgotten, and the daemon advertises them until it
/// restarts: it has not answered for long then.
pub const READVERTISE_WITHDRAWN: usize = 1 << 14;
