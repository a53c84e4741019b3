//! Every assigned TLV-TYPE number that this crate reads or writes.
//!
//! Sources: NDN Packet Format Specification 0.3 ("TLV-TYPE number assignments", "Name",
//! "Signature"), NDN Naming Conventions revision 3, NDNLPv2 (NFD wiki), NFD Management Protocol
//! (NFD wiki). Numbers of the management protocol mean different things in different elements;
//! [`nfd`] has those that commands share.

/// Interest packet.
pub const INTEREST: u32 = 5;
/// Data packet.
pub const DATA: u32 = 6;
/// Name.
pub const NAME: u32 = 7;

/// Name component: implicit SHA-256 digest of the Data.
pub const IMPLICIT_SHA256_DIGEST: u16 = 1;
/// Name component: SHA-256 digest of the Interest's parameters.
pub const PARAMETERS_SHA256_DIGEST: u16 = 2;
/// Name component without a type of its own.
pub const GENERIC_NAME_COMPONENT: u16 = 8;
/// Name component: a word that the application's protocol defines (`32=metadata`).
pub const KEYWORD: u16 = 32;
/// Name component: segment number (`seg=`).
pub const SEGMENT: u16 = 50;
/// Name component: byte offset (`off=`).
pub const BYTE_OFFSET: u16 = 52;
/// Name component: version (`v=`).
pub const VERSION: u16 = 54;
/// Name component: timestamp, in microseconds since 1970 (`t=`).
pub const TIMESTAMP: u16 = 56;
/// Name component: sequence number (`seq=`).
pub const SEQUENCE_NUM: u16 = 58;

/// Interest: the name may be a prefix of the Data's.
pub const CAN_BE_PREFIX: u32 = 33;
/// Interest: stale Data may not answer.
pub const MUST_BE_FRESH: u32 = 18;
/// Interest: a list of names toward which it may be forwarded.
pub const FORWARDING_HINT: u32 = 30;
/// Interest: four bytes that detect loops.
pub const NONCE: u32 = 10;
/// Interest: lifetime in milliseconds.
pub const INTEREST_LIFETIME: u32 = 12;
/// Interest: remaining hops, one byte.
pub const HOP_LIMIT: u32 = 34;
/// Interest: opaque bytes for the producer.
pub const APPLICATION_PARAMETERS: u32 = 36;
/// Interest: the signature fields.
pub const INTEREST_SIGNATURE_INFO: u32 = 44;
/// Interest: the signature.
pub const INTEREST_SIGNATURE_VALUE: u32 = 46;

/// Data: content type, freshness period and final block.
pub const META_INFO: u32 = 20;
/// Data: the content.
pub const CONTENT: u32 = 21;
/// Data: the signature fields.
pub const SIGNATURE_INFO: u32 = 22;
/// Data: the signature.
pub const SIGNATURE_VALUE: u32 = 23;
/// MetaInfo: the content type.
pub const CONTENT_TYPE: u32 = 24;
/// MetaInfo: milliseconds for which the Data counts as fresh.
pub const FRESHNESS_PERIOD: u32 = 25;
/// MetaInfo: the last component of the last segment's name.
pub const FINAL_BLOCK_ID: u32 = 26;

/// SignatureInfo: the algorithm.
pub const SIGNATURE_TYPE: u32 = 27;
/// SignatureInfo: the key.
pub const KEY_LOCATOR: u32 = 28;
/// KeyLocator: digest of the key.
pub const KEY_DIGEST: u32 = 29;
/// SignatureInfo of an Interest: random bytes against replay.
pub const SIGNATURE_NONCE: u32 = 38;
/// SignatureInfo of an Interest: milliseconds since 1970.
pub const SIGNATURE_TIME: u32 = 40;
/// SignatureInfo of an Interest: a counter.
pub const SIGNATURE_SEQ_NUM: u32 = 42;
/// SignatureInfo of a certificate: its period of validity.
pub const VALIDITY_PERIOD: u32 = 253;
/// ValidityPeriod: the first moment, as `YYYYMMDDThhmmss`.
pub const NOT_BEFORE: u32 = 254;
/// ValidityPeriod: the last moment.
pub const NOT_AFTER: u32 = 255;

/// ContentType: bytes.
pub const CONTENT_BLOB: u64 = 0;
/// ContentType: a public key (certificate).
pub const CONTENT_KEY: u64 = 2;
/// ContentType: the application reports that no such Data exists.
pub const CONTENT_NACK: u64 = 3;

/// ContentType: a prefix announcement.
pub const CONTENT_PREFIX_ANNOUNCEMENT: u64 = 5;

/// SignatureType: a SHA-256 digest, no key.
pub const DIGEST_SHA256: u64 = 0;
/// SignatureType: RSASSA-PKCS1-v1_5 with SHA-256.
pub const SHA256_WITH_RSA: u64 = 1;
/// SignatureType: ECDSA with SHA-256.
pub const SHA256_WITH_ECDSA: u64 = 3;
/// SignatureType: HMAC with SHA-256.
pub const HMAC_WITH_SHA256: u64 = 4;
/// SignatureType: Ed25519.
pub const ED25519: u64 = 5;

/// NDNLPv2 packet.
pub const LP_PACKET: u32 = 100;
/// NDNLPv2: a network packet, or a piece of one.
pub const LP_FRAGMENT: u32 = 80;
/// NDNLPv2: number of this fragment, eight bytes.
pub const LP_SEQUENCE: u32 = 81;
/// NDNLPv2: position of this fragment in its packet.
pub const LP_FRAG_INDEX: u32 = 82;
/// NDNLPv2: number of fragments of the packet.
pub const LP_FRAG_COUNT: u32 = 83;
/// NDNLPv2: opaque bytes that the reply must repeat.
pub const LP_PIT_TOKEN: u32 = 98;
/// NDNLPv2: the Interest in the fragment was refused.
pub const LP_NACK: u32 = 800;
/// NDNLPv2: the reason of the refusal.
pub const LP_NACK_REASON: u32 = 801;
/// NDNLPv2: the face on which the packet arrived, for local applications.
pub const LP_INCOMING_FACE_ID: u32 = 812;
/// NDNLPv2: the face to which a local application wants the Interest sent.
pub const LP_NEXT_HOP_FACE_ID: u32 = 816;
/// NDNLPv2: whether the Data may be cached.
pub const LP_CACHE_POLICY: u32 = 820;
/// NDNLPv2: 1 is NoCache.
pub const LP_CACHE_POLICY_TYPE: u32 = 821;
/// NDNLPv2: a queue on the path is long.
pub const LP_CONGESTION_MARK: u32 = 832;
/// NDNLPv2: a TxSequence that was received from the neighbour.
pub const LP_ACK: u32 = 836;
/// NDNLPv2: the number of this transmission of a frame.
pub const LP_TX_SEQUENCE: u32 = 840;
/// NDNLPv2: the Interest must not be broadcast for self-learning.
pub const LP_NON_DISCOVERY: u32 = 844;
/// Larder's own: the Interests per second that the path of this Data can carry.
///
/// Larder's own fields have numbers that a receiver ignores if it does not know them: multiples of
/// four from 800 to 959. NDNLPv2 has no range for experiments, and NFD drops a packet with a field
/// of any other number, also of those for applications (above 32767). The numbers are near the end
/// of the range, because NDNLPv2 assigns its own from the beginning, up to 848 so far. A value of
/// another form than Larder's belongs to another program, and is ignored.
pub const LP_INTEREST_RATE: u32 = 928;
/// Larder's own: the caches of a path.
pub const LP_PATH_RECORD: u32 = 932;
/// Larder's own: a step of the agreement on shared memory. The value has the
/// version and the step, a byte each.
pub const LP_SHARED_MEMORY: u32 = 936;

/// Numbers of the NFD Management Protocol that commands use.
pub mod nfd {
    /// Reply to a command.
    pub const CONTROL_RESPONSE: u32 = 101;
    /// ControlResponse: a status code with HTTP's numbers.
    pub const STATUS_CODE: u32 = 102;
    /// ControlResponse: the status in words.
    pub const STATUS_TEXT: u32 = 103;
    /// Arguments of a command; in its reply, the values that are in effect.
    pub const CONTROL_PARAMETERS: u32 = 104;
    /// A face.
    pub const FACE_ID: u32 = 105;
    /// Cost of a route.
    pub const COST: u32 = 106;
    /// A strategy's name, wrapped.
    pub const STRATEGY: u32 = 107;
    /// Flag bits.
    pub const FLAGS: u32 = 108;
    /// Milliseconds until expiration.
    pub const EXPIRATION_PERIOD: u32 = 109;
    /// The origin of the route.
    pub const ORIGIN: u32 = 111;
    /// The flag bits that a command sets.
    pub const MASK: u32 = 112;
    /// Face URI of the other end.
    pub const URI: u32 = 114;
    /// Face URI of this end.
    pub const LOCAL_URI: u32 = 129;
    /// Content Store capacity, in packets.
    pub const CAPACITY: u32 = 131;
    /// A number of packets.
    pub const COUNT: u32 = 132;
    /// 0 persistent, 1 on-demand, 2 permanent.
    pub const FACE_PERSISTENCY: u32 = 133;
    /// Nanoseconds between congestion marks.
    pub const BASE_CONGESTION_MARKING_INTERVAL: u32 = 135;
    /// Queue length, in bytes, that counts as congestion.
    pub const DEFAULT_CONGESTION_THRESHOLD: u32 = 136;
    /// Largest packet of a face, in bytes.
    pub const MTU: u32 = 137;

    /// ForwarderStatus: name and version.
    pub const NFD_VERSION: u32 = 128;
    /// ForwarderStatus: when it started, in milliseconds since 1970.
    pub const START_TIMESTAMP: u32 = 129;
    /// ForwarderStatus: now.
    pub const CURRENT_TIMESTAMP: u32 = 130;
    /// ForwarderStatus: entries of the name tree.
    pub const N_NAME_TREE_ENTRIES: u32 = 131;
    /// ForwarderStatus: entries of the FIB.
    pub const N_FIB_ENTRIES: u32 = 132;
    /// ForwarderStatus: entries of the PIT.
    pub const N_PIT_ENTRIES: u32 = 133;
    /// ForwarderStatus: entries of the strategies' measurements.
    pub const N_MEASUREMENTS_ENTRIES: u32 = 134;
    /// ForwarderStatus and CsInfo: entries of the Content Store.
    pub const N_CS_ENTRIES: u32 = 135;

    /// ForwarderStatus of Larder: the configuration file. Even, so other implementations ignore it.
    pub const CONFIGURATION: u32 = 65_100;

    /// Status of a face.
    pub const FACE_STATUS: u32 = 128;
    /// A listener.
    pub const CHANNEL_STATUS: u32 = 130;
    /// FaceQueryFilter: scheme of a face URI.
    pub const URI_SCHEME: u32 = 131;
    /// 0 non-local, 1 local.
    pub const FACE_SCOPE: u32 = 132;
    /// 0 point-to-point, 1 multi-access, 2 ad hoc.
    pub const LINK_TYPE: u32 = 134;
    /// The filter of a query for faces.
    pub const FACE_QUERY_FILTER: u32 = 150;
    /// An event of a face.
    pub const FACE_EVENT_NOTIFICATION: u32 = 192;
    /// FaceEventNotification: 1 created, 2 destroyed, 3 up, 4 down.
    pub const FACE_EVENT_KIND: u32 = 193;

    /// Counter: Interests received.
    pub const N_IN_INTERESTS: u32 = 144;
    /// Counter: Data received.
    pub const N_IN_DATA: u32 = 145;
    /// Counter: Interests sent.
    pub const N_OUT_INTERESTS: u32 = 146;
    /// Counter: Data sent.
    pub const N_OUT_DATA: u32 = 147;
    /// Counter: bytes received.
    pub const N_IN_BYTES: u32 = 148;
    /// Counter: bytes sent.
    pub const N_OUT_BYTES: u32 = 149;
    /// Counter: Nacks received.
    pub const N_IN_NACKS: u32 = 151;
    /// Counter: Nacks sent.
    pub const N_OUT_NACKS: u32 = 152;
    /// Counter: Interests answered.
    pub const N_SATISFIED_INTERESTS: u32 = 153;
    /// Counter: Interests not answered.
    pub const N_UNSATISFIED_INTERESTS: u32 = 154;

    /// State of the Content Store.
    pub const CS_INFO: u32 = 128;
    /// Counter: Interests answered by the Content Store.
    pub const N_HITS: u32 = 129;
    /// Counter: Interests not answered by the Content Store.
    pub const N_MISSES: u32 = 130;

    /// An entry of the FIB.
    pub const FIB_ENTRY: u32 = 128;
    /// A next hop of a FIB entry.
    pub const NEXT_HOP_RECORD: u32 = 129;
    /// An entry of the RIB.
    pub const RIB_ENTRY: u32 = 128;
    /// A route of a RIB entry.
    pub const ROUTE: u32 = 129;
    /// An entry of the strategy choice table.
    pub const STRATEGY_CHOICE: u32 = 128;

    /// Face flag: IncomingFaceId, NextHopFaceId and CachePolicy pass between the forwarder and the
    /// application.
    pub const FLAG_LOCAL_FIELDS: u64 = 1;
    /// Face flag: lost frames are sent again (NDNLPv2, "Link Reliability").
    pub const FLAG_LP_RELIABILITY: u64 = 2;
    /// Face flag: packets that wait long are marked.
    pub const FLAG_CONGESTION_MARKING: u64 = 4;
    /// Content Store flag: Data is admitted.
    pub const FLAG_CS_ADMIT: u64 = 1;
    /// Content Store flag: Data is served.
    pub const FLAG_CS_SERVE: u64 = 2;

    // Larder's own numbers, in elements of which NFD's clients skip unknown fields: even, and far
    // from the assigned ones.

    /// A cached Data of `cs/query`.
    pub const LARDER_CS_OBJECT: u32 = 64_000;
    /// A prefix of `cs/prefixes`.
    pub const LARDER_CS_PREFIX: u32 = 64_012;
    /// The maximum number of further requests that were not counted.
    pub const LARDER_OVERCOUNT: u32 = 64_014;
    /// A policy spec.
    pub const LARDER_POLICY: u32 = 64_002;
    /// A number of bytes.
    pub const LARDER_BYTES: u32 = 64_004;
    /// A capacity in bytes.
    pub const LARDER_CAPACITY_BYTES: u32 = 64_010;
    /// Second tier on disk: bytes that may be stored.
    pub const LARDER_DISK_CAPACITY_BYTES: u32 = 64_016;
    /// Second tier on disk: bytes stored.
    pub const LARDER_DISK_BYTES: u32 = 64_018;
    /// Second tier on disk: Data stored.
    pub const LARDER_DISK_ENTRIES: u32 = 64_020;
    /// Second tier on disk: Interests that it answered.
    pub const LARDER_DISK_HITS: u32 = 64_022;
    /// Second tier on disk: Interests for names that it did not have.
    pub const LARDER_DISK_MISSES: u32 = 64_024;
    /// Milliseconds since something was stored.
    pub const LARDER_AGE: u32 = 64_006;
    /// Milliseconds until something is stale.
    pub const LARDER_FRESH: u32 = 64_008;
}

/// Returns a type as the one byte that encodes it.
///
/// # Panics
/// If the type takes more than a byte. In a constant, that is an error of compilation.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "checked before")]
pub(crate) const fn short(typ: u32) -> u8 {
    assert!(typ < 0xFD, "the type takes more than a byte");
    typ as u8
}
