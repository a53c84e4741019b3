//! HTTP over TCP on the same links as NDN, so that both can be compared in virtual time.
//!
//! TCP is a state machine that follows Linux (a sender with SACK, RACK, TLP, PRR, CUBIC with
//! HyStart, BBR; a receiver with delayed acknowledgements). On top of it are three kinds of hosts:
//! clients, caches, and origins. A cache is a real [`larder_http::Cache`], with real heads of
//! requests and responses, and with any policy of the registry. Segments are frames of real length
//! on the links of the network, in the same queues as NDN's packets. Nodes forward them along the
//! shortest path. Streams carry no bytes: a stream is a length, and the receiver learns the meaning
//! of a message when its last byte has arrived.
//!
//! Hosts take no time, read bytes as they arrive, and have unlimited room for what they have not
//! sent. A link that marks frames drops segments: there is no ECN, which Linux requests only if
//! configured. A node that crashes disconnects its hosts, which continue when it is back.
//! docs/guides/simulation.md compares the model with the kernel.
//!
//! ```text
//!  client ─ Endpoint ─ segments ─ channel ─ node ─ channel ─ Endpoint ─ cache ─ Endpoint ─ … ─ origin
//! ```
//!
//! ```
//! use larder_netsim::tcp::{ClientConfig, OriginConfig, TcpConfig};
//! use larder_netsim::{LinkConfig, NodeConfig, Simulation};
//! use larder_units::{ByteSize, Time};
//! use std::time::Duration;
//!
//! let mut network = Simulation::new(1);
//! let [c, s] = ["c", "s"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
//! network.connect(c, s, &LinkConfig::new("100Mbps".parse().unwrap(), Duration::from_millis(5))).unwrap();
//! let origin = network.add_http_origin(s, OriginConfig::new(ByteSize::from_bytes(1_000_000)), TcpConfig::default()).unwrap();
//! let client = network.add_http_client(c, ClientConfig::one_file(origin), TcpConfig::default()).unwrap();
//! network.run_until(Time::from_secs(1)).unwrap();
//! let seen = network.http(client);
//! assert_eq!((seen.responses, seen.bytes), (1, 1_000_000));
//! assert!(seen.seconds > 0.08 && seen.seconds < 0.16, "{} s", seen.seconds);
//! ```

mod bbr;
mod connections;
mod cubic;
mod endpoint;
mod http;
mod messages;
mod ranges;
mod rate;
mod receiver;
mod rtt;
mod segment;
mod sender;
mod window;

pub use connections::HostId;
pub(crate) use connections::NetworkContext;
pub(crate) use http::TcpHosts;
pub use http::{
    CacheConfig, ClientConfig, HttpCounters, HttpPurge, Origin, OriginConfig, Requester,
};
pub use messages::{HttpRequest, HttpResponse, http_date, unix_seconds};
pub use sender::TcpCounters;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The configuration of a host's TCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpConfig {
    /// The congestion control.
    pub congestion: Congestion,
    /// Bytes of a full segment without its headers; fewer on a path with an MTU below 1500.
    pub segment_bytes: u32,
    /// The initial window in segments.
    pub initial_window: u32,
    /// Bytes that the receiver accepts beyond those received in order.
    pub receive_window: u32,
    /// Bytes of the stream that the sender holds until they are acknowledged. The application
    /// refills the buffer when a third of it is free.
    pub send_buffer: u32,
    /// The least variance part of the timeout, which is added to the round trip.
    pub min_rto: Duration,
}

impl Default for TcpConfig {
    /// As in Linux: CUBIC, 1448 bytes in 1500, 10 segments (RFC 6928), 200 ms. The window is
    /// constant at 16 MiB, half of the maximum of `tcp_rmem`; the kernel's grows with what is read.
    /// The buffer is what 4 MiB (the maximum of `tcp_wmem`) hold: 2500 segments, the most that
    /// Linux 6.18 had in flight, with 230 bytes of metadata for each.
    fn default() -> Self {
        TcpConfig {
            congestion: Congestion::Cubic,
            segment_bytes: 1500 - segment::HEADER_BYTES as u32,
            initial_window: 10,
            receive_window: 16 << 20,
            send_buffer: 2500 * 1448,
            min_rto: Duration::from_millis(200),
        }
    }
}

/// A congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 9438, with HyStart.
    #[default]
    Cubic,
    /// BBR, version 1.
    Bbr,
}

/// A text that is not the name of a congestion control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCongestion(String);

impl fmt::Display for UnknownCongestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no congestion control {:?} of TCP: expected \"cubic\" or \"bbr\"",
            self.0
        )
    }
}

impl std::error::Error for UnknownCongestion {}

impl FromStr for Congestion {
    type Err = UnknownCongestion;

    fn from_str(text: &str) -> Result<Self, UnknownCongestion> {
        match text {
            "cubic" => Ok(Congestion::Cubic),
            "bbr" => Ok(Congestion::Bbr),
            _ => Err(UnknownCongestion(text.to_owned())),
        }
    }
}
