//! Status datasets and notifications, by which a forwarder reports its state (NFD wiki, pages of
//! the modules, "Status Dataset").

use super::element::{Millis, NameElement, NameInside, Nanos, Nested, Number, Text, elements};
use crate::name::Name;
use crate::types::{self, nfd};
use std::time::Duration;

elements! {
    /// `status/general`. The content consists of the fields, without an element around them.
    ForwarderStatus = types::CONTENT => {
        /// Name and version of the forwarder.
        version: String = one(Text, nfd::NFD_VERSION),
        /// Start of the forwarder, in milliseconds since 1970.
        start_timestamp_ms: u64 = one(Number, nfd::START_TIMESTAMP),
        /// Present time, in milliseconds since 1970.
        current_timestamp_ms: u64 = one(Number, nfd::CURRENT_TIMESTAMP),
        /// Entries of NFD's name tree.
        name_tree_entries: u64 = one(Number, nfd::N_NAME_TREE_ENTRIES),
        /// Prefixes with next hops.
        fib_entries: u64 = one(Number, nfd::N_FIB_ENTRIES),
        /// Pending Interests.
        pit_entries: u64 = one(Number, nfd::N_PIT_ENTRIES),
        /// Namespaces with measurements of a strategy.
        measurements_entries: u64 = one(Number, nfd::N_MEASUREMENTS_ENTRIES),
        /// Cached Data.
        cs_entries: u64 = one(Number, nfd::N_CS_ENTRIES),
        /// Interests received.
        in_interests: u64 = one(Number, nfd::N_IN_INTERESTS),
        /// Data received.
        in_data: u64 = one(Number, nfd::N_IN_DATA),
        /// Nacks received.
        in_nacks: u64 = one(Number, nfd::N_IN_NACKS),
        /// Interests sent.
        out_interests: u64 = one(Number, nfd::N_OUT_INTERESTS),
        /// Data sent.
        out_data: u64 = one(Number, nfd::N_OUT_DATA),
        /// Nacks sent.
        out_nacks: u64 = one(Number, nfd::N_OUT_NACKS),
        /// Interests that were answered.
        satisfied_interests: u64 = one(Number, nfd::N_SATISFIED_INTERESTS),
        /// Interests that expired without an answer.
        unsatisfied_interests: u64 = one(Number, nfd::N_UNSATISFIED_INTERESTS),
        /// The file that configures the forwarder; an extension of Larder.
        configuration: Option<String> = opt(Text, nfd::CONFIGURATION),
    }

    /// An entry of `faces/list` and `faces/query`.
    FaceStatus = nfd::FACE_STATUS => {
        /// The face's number.
        face_id: u64 = one(Number, nfd::FACE_ID),
        /// Face URI of the other end.
        uri: String = one(Text, nfd::URI),
        /// Face URI of this end.
        local_uri: String = one(Text, nfd::LOCAL_URI),
        /// Time until an unused face is closed.
        expiration: Option<Duration> = opt(Millis, nfd::EXPIRATION_PERIOD),
        /// 0 non-local, 1 local.
        scope: u64 = one(Number, nfd::FACE_SCOPE),
        /// 0 persistent, 1 on-demand, 2 permanent.
        persistency: u64 = one(Number, nfd::FACE_PERSISTENCY),
        /// 0 point-to-point, 1 multi-access, 2 ad hoc.
        link_type: u64 = one(Number, nfd::LINK_TYPE),
        /// Time between two congestion marks.
        base_congestion_marking_interval: Option<Duration> = opt(Nanos, nfd::BASE_CONGESTION_MARKING_INTERVAL),
        /// Queue length that counts as congestion, in bytes.
        default_congestion_threshold: Option<u64> = opt(Number, nfd::DEFAULT_CONGESTION_THRESHOLD),
        /// The largest frame, in bytes.
        mtu: Option<u64> = opt(Number, nfd::MTU),
        /// Interests received.
        in_interests: u64 = one(Number, nfd::N_IN_INTERESTS),
        /// Data received.
        in_data: u64 = one(Number, nfd::N_IN_DATA),
        /// Nacks received.
        in_nacks: u64 = one(Number, nfd::N_IN_NACKS),
        /// Interests sent.
        out_interests: u64 = one(Number, nfd::N_OUT_INTERESTS),
        /// Data sent.
        out_data: u64 = one(Number, nfd::N_OUT_DATA),
        /// Nacks sent.
        out_nacks: u64 = one(Number, nfd::N_OUT_NACKS),
        /// Bytes received.
        in_bytes: u64 = one(Number, nfd::N_IN_BYTES),
        /// Bytes sent.
        out_bytes: u64 = one(Number, nfd::N_OUT_BYTES),
        /// [`nfd::FLAG_LOCAL_FIELDS`] and its neighbours.
        flags: u64 = one(Number, nfd::FLAGS),
    }

    /// The last component of the name of `faces/query`. Only faces that match all fields are
    /// listed.
    FaceQueryFilter = nfd::FACE_QUERY_FILTER => {
        /// The face's number.
        face_id: Option<u64> = opt(Number, nfd::FACE_ID),
        /// Scheme of the other end's URI, or of this end's.
        uri_scheme: Option<String> = opt(Text, nfd::URI_SCHEME),
        /// Face URI of the other end.
        uri: Option<String> = opt(Text, nfd::URI),
        /// Face URI of this end.
        local_uri: Option<String> = opt(Text, nfd::LOCAL_URI),
        /// 0 non-local, 1 local.
        scope: Option<u64> = opt(Number, nfd::FACE_SCOPE),
        /// 0 persistent, 1 on-demand, 2 permanent.
        persistency: Option<u64> = opt(Number, nfd::FACE_PERSISTENCY),
        /// 0 point-to-point, 1 multi-access, 2 ad hoc.
        link_type: Option<u64> = opt(Number, nfd::LINK_TYPE),
    }

    /// An entry of `faces/channels`: an address at which the forwarder listens.
    ChannelStatus = nfd::CHANNEL_STATUS => {
        /// Face URI of the listener.
        local_uri: String = one(Text, nfd::LOCAL_URI),
    }

    /// A notification of `faces/events`.
    FaceEventNotification = nfd::FACE_EVENT_NOTIFICATION => {
        /// 1 created, 2 destroyed, 3 up, 4 down.
        kind: u64 = one(Number, nfd::FACE_EVENT_KIND),
        /// The face's number.
        face_id: u64 = one(Number, nfd::FACE_ID),
        /// Face URI of the other end.
        uri: String = one(Text, nfd::URI),
        /// Face URI of this end.
        local_uri: String = one(Text, nfd::LOCAL_URI),
        /// 0 non-local, 1 local.
        scope: u64 = one(Number, nfd::FACE_SCOPE),
        /// 0 persistent, 1 on-demand, 2 permanent.
        persistency: u64 = one(Number, nfd::FACE_PERSISTENCY),
        /// 0 point-to-point, 1 multi-access, 2 ad hoc.
        link_type: u64 = one(Number, nfd::LINK_TYPE),
        /// [`nfd::FLAG_LOCAL_FIELDS`] and its neighbours.
        flags: u64 = one(Number, nfd::FLAGS),
    }

    /// An entry of `fib/list`.
    FibEntry = nfd::FIB_ENTRY => {
        /// The prefix.
        name: Name = one(NameElement, types::NAME),
        /// The next hops of the prefix.
        next_hops: Vec<NextHopRecord> = many(Nested<NextHopRecord>, nfd::NEXT_HOP_RECORD),
    }

    /// A next hop of a FIB entry.
    NextHopRecord = nfd::NEXT_HOP_RECORD => {
        /// The face.
        face_id: u64 = one(Number, nfd::FACE_ID),
        /// Cost of the route through this face. Lower costs are preferred.
        cost: u64 = one(Number, nfd::COST),
    }

    /// An entry of `rib/list`.
    RibEntry = nfd::RIB_ENTRY => {
        /// The prefix.
        name: Name = one(NameElement, types::NAME),
        /// Its routes.
        routes: Vec<RouteRecord> = many(Nested<RouteRecord>, nfd::ROUTE),
    }

    /// A route of a RIB entry.
    RouteRecord = nfd::ROUTE => {
        /// The next hop.
        face_id: u64 = one(Number, nfd::FACE_ID),
        /// The origin of the route.
        origin: u64 = one(Number, nfd::ORIGIN),
        /// Cost of the route. Lower costs are preferred.
        cost: u64 = one(Number, nfd::COST),
        /// 1 child-inherit, 2 capture.
        flags: u64 = one(Number, nfd::FLAGS),
        /// Time until the route expires.
        expiration: Option<Duration> = opt(Millis, nfd::EXPIRATION_PERIOD),
    }

    /// An entry of `strategy-choice/list`.
    StrategyChoice = nfd::STRATEGY_CHOICE => {
        /// The prefix.
        name: Name = one(NameElement, types::NAME),
        /// The strategy, with version and parameters.
        strategy: Name = one(NameInside, nfd::STRATEGY),
    }

    /// `cs/info`.
    CsInfo = nfd::CS_INFO => {
        /// Capacity, in packets.
        capacity: u64 = one(Number, nfd::CAPACITY),
        /// Bit 1: Data is admitted. Bit 2: Data is served.
        flags: u64 = one(Number, nfd::FLAGS),
        /// Cached Data.
        entries: u64 = one(Number, nfd::N_CS_ENTRIES),
        /// Interests that the Content Store answered.
        hits: u64 = one(Number, nfd::N_HITS),
        /// Interests that the Content Store could not answer.
        misses: u64 = one(Number, nfd::N_MISSES),
        /// Larder's own: capacity in bytes.
        capacity_bytes: Option<u64> = opt(Number, nfd::LARDER_CAPACITY_BYTES),
        /// Larder's own: bytes in use.
        used_bytes: Option<u64> = opt(Number, nfd::LARDER_BYTES),
        /// Larder's own: the policy's spec.
        policy: Option<String> = opt(Text, nfd::LARDER_POLICY),
        /// Larder's own, if there is a second tier on disk: its capacity in bytes.
        disk_capacity_bytes: Option<u64> = opt(Number, nfd::LARDER_DISK_CAPACITY_BYTES),
        /// Bytes in use on disk.
        disk_used_bytes: Option<u64> = opt(Number, nfd::LARDER_DISK_BYTES),
        /// Data on disk.
        disk_entries: Option<u64> = opt(Number, nfd::LARDER_DISK_ENTRIES),
        /// Interests that the disk answered and memory did not.
        disk_hits: Option<u64> = opt(Number, nfd::LARDER_DISK_HITS),
        /// Interests for names that were not on disk either.
        disk_misses: Option<u64> = opt(Number, nfd::LARDER_DISK_MISSES),
    }

    /// Larder's own, an entry of `cs/query`: a cached Data.
    CsObject = nfd::LARDER_CS_OBJECT => {
        /// The name of the Data.
        name: Name = one(NameElement, types::NAME),
        /// Bytes of the packet.
        bytes: u64 = one(Number, nfd::LARDER_BYTES),
        /// Time since the Data was stored.
        age: Duration = one(Millis, nfd::LARDER_AGE),
        /// Time until the Data is stale; `None` if it is stale.
        fresh: Option<Duration> = opt(Millis, nfd::LARDER_FRESH),
        /// Interests that the Data answered.
        hits: u64 = one(Number, nfd::N_HITS),
    }

    /// Larder's own, an entry of `cs/prefixes`: the Interests for names under a prefix, and how
    /// many of them the Content Store answered.
    CsPrefix = nfd::LARDER_CS_PREFIX => {
        /// The prefix.
        name: Name = one(NameElement, types::NAME),
        /// Interests that the Content Store answered.
        hits: u64 = one(Number, nfd::N_HITS),
        /// Interests that it could not answer.
        misses: u64 = one(Number, nfd::N_MISSES),
        /// The maximum number of further requests before the prefix was counted.
        overcount: u64 = one(Number, nfd::LARDER_OVERCOUNT),
    }
}
