//! Every bound of the forwarder, with its reason. A host may lower the ones in [`crate::Config`];
//! no bound can be switched off.

use std::time::Duration;

/// The largest network-layer packet, bytes (NDN packet specification 0.3, section 1.4: practical
/// limit of 8800). [`crate::Config`] may set another one, for networks in which every node does.
pub const MAX_PACKET_BYTES: usize = 8800;

/// Pending Interests. An entry with an ordinary name takes about 400 bytes with its records: nearly
/// 100 MB at the limit.
pub const PIT_ENTRIES: usize = 1 << 18;

/// Bytes of names and forwarding hints of pending Interests: 2^18 long ones would take 4.6 GB.
pub const PIT_BYTES: usize = 128 << 20;

/// The number of entries of the face with the largest share of a full PIT that are charged to other
/// faces waiting for them, before a new Interest is refused. It bounds the work for one packet.
pub const SHARED_ENTRIES_TO_MAKE_ROOM: usize = 16;

/// Pending Interests of one name that differ in CanBePrefix, MustBeFresh, ForwardingHint or
/// implicit digest. They share one hash, so each lookup compares all of them.
pub const ENTRIES_PER_NAME: usize = 64;

/// The number of copies of a Data among which a duplicate for the same face is searched. Thousands
/// of entries may wait for one Data, each with many faces. Beyond this number, a consumer that sent
/// two different Interests gets two copies.
pub const REPEATS_LOOKED_FOR: usize = 256;

/// Downstreams, or upstreams, of one pending Interest. If more consumers request one name within a
/// round trip, the others retransmit, and the Content Store answers them.
pub const RECORDS_PER_ENTRY: usize = 1024;

/// The longest time that an Interest may stay pending. Longer lifetimes are cut to it, because
/// state must end.
pub const INTEREST_LIFETIME: Duration = Duration::from_secs(600);

/// The number of prefixes from which on a table has a filter. The index of fewer prefixes stays in
/// the processor's second-level cache.
pub const FILTERED_PREFIXES: usize = 1 << 16;

/// The number of prefixes that each insertion adds to a new filter while it is built. This takes
/// about 5 us, and the filter is complete when the table has grown by 1/32.
pub const PREFIXES_FILTERED_AT_ONCE: usize = 32;

/// Filter lines allocated per insertion before filling starts (one page).
pub const FILTER_LINES_AT_ONCE: usize = 64;

/// Components of the longest prefix in the FIB and in the strategy choice table (NFD's name tree
/// has the same bound).
pub const PREFIX_COMPONENTS: usize = 32;

/// Components of the longest Interest name with CanBePrefix. Data is matched against one hash per
/// prefix, so this bounds the work.
pub const CAN_BE_PREFIX_COMPONENTS: usize = 64;

/// Bytes of the longest prefix in the FIB. With [`ROUTES`] of them, memory must be bounded.
pub const PREFIX_BYTES: usize = 2048;

/// Bytes of incomplete packets in reassembly, over all faces. One face holds at most about 890 kB,
/// so 70 hostile faces fill it; then the face that holds the most loses its own.
pub const REASSEMBLY_BYTES: usize = 64 << 20;

/// Nonces remembered after their Interests are gone, 8 bytes each: a table of 1 MB. A flood of
/// Interests shortens the time that they are remembered, and takes no more memory.
pub const DEAD_NONCES: usize = 1 << 17;

/// The age at which a dead nonce is forgotten. HopLimit and the PIT stop longer loops.
pub const DEAD_NONCE_AGE: Duration = Duration::from_secs(3);

/// Routes in the RIB, over all prefixes.
pub const ROUTES: usize = 1 << 20;

/// Routes of one prefix. Every change of one rebuilds the next hops of the prefix.
pub const ROUTES_PER_PREFIX: usize = 4096;

/// Management commands remembered of each face, with their responses. A repeated command gets its
/// response again, and is not carried out again.
pub const REPLAY_COMMANDS: usize = 256;

/// Bytes of those responses. An ordinary one has 200, but it repeats the command's name, which may
/// fill a packet.
pub const REPLAY_BYTES: usize = 128 << 10;

/// Prefixes with a strategy of their own. Operators set a handful; each may measure up to
/// [`MEASURED_NAMESPACES`].
pub const STRATEGY_CHOICES: usize = 1024;

/// The largest difference between the time in a signed command and this node's clock (NFD's
/// number).
pub const SIGNATURE_TIME_GRACE: Duration = Duration::from_secs(120);

/// Commands remembered of each certificate within twice [`SIGNATURE_TIME_GRACE`], 16 bytes each. If
/// there are more, the oldest times are refused.
pub const SIGNED_COMMANDS: usize = 1 << 16;

/// Bytes that one cached Data takes besides its packet: the entry (64), its entries in the two
/// indexes (about 16 and 64), the policy's share (24), and for the buffer its head (16), its
/// rounding up (32 on average) and the allocator's overhead (8).
pub const CONTENT_STORE_ENTRY_BYTES: u64 = 224;

/// Names that one CanBePrefix Interest enters into the Content Store's tree, if that many have
/// arrived since the last one: about 50 microseconds. If there are more, the Interest finds only
/// the newest ones.
pub const NAMES_ENTERED_AT_ONCE: usize = 256;

/// The number of names that each lookup enters while prefixes are requested. It is one more than a
/// lookup can have stored, so the list of waiting names becomes empty.
pub const NAMES_ENTERED_A_LOOK_UP: usize = 2;

/// Lookups after a CanBePrefix Interest that also index waiting names. A store of 2^20 packets is
/// completely indexed after a few such Interests, and a single one costs a router without others at
/// most about 60 ms of its time.
pub const LOOK_UPS_THAT_ENTER: u32 = 1 << 16;

/// Names that one `cs/erase` enters, about 30 milliseconds. If more wait, the response states that
/// it has not examined all.
pub const NAMES_ENTERED_TO_ERASE: usize = 1 << 16;

/// Names that one `cs/erase` examines under the first twelve components of a deeper prefix, about
/// 10 milliseconds. If there are more, the response states this, and the next command continues
/// after them.
pub const NAMES_PASSED_TO_ERASE: usize = 1 << 16;

/// The time within which the next command continues an erasure. Clients send it at once, or on a
/// busy machine within a command's 4 s.
pub const ERASURE_GOES_ON: Duration = Duration::from_secs(5);

/// The number of unfinished erasures, of all clients, whose position is remembered. Beyond it the
/// oldest one restarts from the beginning. More operators rarely erase deep prefixes of a full
/// store at the same time.
pub const ERASURES_GOING_ON: usize = 16;

/// Bytes of buffers of evicted Data that are kept for reuse. A burst of evictions would exceed it.
pub const SPARE_BUFFER_BYTES: usize = 1 << 20;

/// Packets that enter a send queue longer than this get a congestion mark (NDNLPv2), unless the
/// face has another threshold: NFD's default, and five milliseconds at 100 Mb/s.
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

/// Bytes of all these datasets. The newest is kept even if it is larger.
pub const DATASETS_BYTES: usize = 128 << 20;

/// Bytes of a dataset's segment: with name and signature it stays below [`MAX_PACKET_BYTES`].
pub const DATASET_SEGMENT_BYTES: usize = 8000;

/// The number of face events that are kept for late subscribers, about 200 bytes each.
pub const FACE_EVENTS: usize = 1024;

/// Faces that the host creates at the same time, for commands that wait for them.
pub const FACES_BEING_CREATED: usize = 256;

/// Data that one `cs/erase` erases; clients send further commands for the rest (NFD's number).
pub const ERASE_AT_ONCE: u64 = 256;

/// Bytes that count as one packet if the management protocol states a capacity in packets: an
/// ordinary segment of 8 KB.
pub const NOMINAL_PACKET_BYTES: u64 = 8192;

/// Next hops of a FIB entry for which a measuring strategy keeps measurements, 40 bytes each. Faces
/// under a prefix change, and their numbers are not reused.
pub const MEASURED_NEXT_HOPS: usize = 16;

/// The number of FIB entries for which a measuring strategy keeps measurements: about 130 bytes
/// each with two next hops. Interests of other entries are forwarded by cost.
pub const MEASURED_NAMESPACES: usize = 1 << 16;

/// The age at which unused measurements may be replaced when the table is full.
pub const MEASUREMENT_AGE: Duration = Duration::from_secs(60);

/// Prefixes whose hits and misses are counted: about 150 bytes each.
pub const COUNTED_PREFIXES: usize = 1024;

/// Data that are verified before they are stored, within [`VERIFICATION_INTERVAL`]: at 60 to 120 us
/// for Ed25519 and ECDSA, a fifth of a core.
pub const VERIFICATIONS: u32 = 200;

/// The interval of [`VERIFICATIONS`].
pub const VERIFICATION_INTERVAL: Duration = Duration::from_millis(100);

/// Interests that one strategy holds back, over all faces: a second at 65,000 a second. Further
/// ones are refused.
pub const HELD_INTERESTS: usize = 1 << 16;

/// Bytes of the held Interests. An ordinary Interest has about 60, but one with parameters may fill
/// a packet.
pub const HELD_BYTES: usize = 32 << 20;

/// The greatest rate in Interests per second, and the deepest bucket of a rate limit: at 2^32 a
/// second an Interest takes a quarter of a nanosecond.
pub const POLICED_INTERESTS: u64 = 1 << 32;

/// Maximum number of shards; a shard set is one 64-bit mask. Machines with more cores run several
/// nodes.
pub const SHARDS: usize = 64;

/// Interests whose answers are being read from the second tier. With four simultaneous reads of 100
/// us each, they take half of [`TIER_PATIENCE`].
pub const TIER_LOOKUPS: usize = 2048;

/// Bytes of Data that are being read, as many as in [`TIER_LOOKUPS`] ordinary packets. With larger
/// packets, fewer are read at the same time.
pub const RECALLED_BYTES: usize = 16 << 20;

/// The time that an Interest waits for the second tier before it goes upstream. An SSD takes 0.1 ms
/// per read and a hard disk 10 ms, and consumers retransmit an Interest after about a second.
pub const TIER_PATIENCE: Duration = Duration::from_millis(100);

/// Prefixes whose erasure the second tier remembers. Beyond it, the next one erases everything
/// there. A record that is read is compared with all of them, which takes a few microseconds.
pub const ERASE_MARKS: usize = 1 << 10;

/// Management commands and datasets that wait for the replies of other shards, or for the second
/// tier.
pub const SHARD_QUERIES: usize = 64;

/// Observations that a Content Store keeps until its host takes them: those of a tenth of a second
/// at 160,000 requests in the sample per second. With 100 bytes each they take 1.6 MB.
pub const OBSERVATIONS: usize = 1 << 14;

/// Commands to the routing daemon that are sent and not yet answered. A node with 100,000 prefixes
/// sends them in such portions, so neither the daemon's queue nor the PIT fills.
pub const READVERTISE_UNANSWERED: usize = 64;

/// The InterestLifetime of a command to the routing daemon, which answers on this machine.
pub const READVERTISE_LIFETIME: Duration = Duration::from_secs(1);

/// The time after which a command to the routing daemon without an answer is repeated. It doubles
/// with each repetition, up to [`READVERTISE_RETRY_MOST`].
pub const READVERTISE_RETRY: Duration = Duration::from_secs(1);

/// The longest such time ([`READVERTISE_RETRY`]). A daemon that has stopped answering and answers
/// again learns all prefixes after this time.
pub const READVERTISE_RETRY_MOST: Duration = Duration::from_secs(60);

/// The time after which an accepted prefix is advertised again, as in NFD: a daemon may lose it
/// without losing its connection.
pub const READVERTISE_INTERVAL: Duration = Duration::from_secs(3600);

/// Prefixes without a route whose withdrawal the routing daemon has not confirmed, 200 bytes each
/// with an ordinary name. Further ones are forgotten, and the daemon advertises them until it
/// restarts; it has then not answered for a long time.
pub const READVERTISE_WITHDRAWN: usize = 1 << 14;
