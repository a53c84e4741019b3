//! HTTP over TCP on the links that NDN's nodes have: so that both can be compared in virtual time.
//!
//! What it is: TCP as Linux has it, as a state machine ([`sender`](self) with SACK, RACK, TLP, PRR,
//! CUBIC with HyStart, BBR; delayed acknowledgements), and hosts of three kinds on top: clients,
//! caches with any policy of the registry, origins. Segments are frames of real length on the links
//! of the network, beside NDN's packets and in the same queues; nodes pass them on by the shortest
//! path. What it is not: bytes. A stream is a length, and what a message says its receiver is told
//! when its last byte has come.
//!
//! Hosts take no time, read what comes at once, and have room for what they have not sent. A link
//! that marks drops segments in place of it: there is no ECN, which Linux asks for only where it is
//! told to. A node that crashes unplugs its hosts: they go on when it is back. docs/simulate.md has
//! the model beside the kernel.
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
//! let origin = network.add_http_origin(s, OriginConfig { body: ByteSize::from_bytes(1_000_000) }, TcpConfig::default()).unwrap();
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
mod ranges;
mod rate;
mod receiver;
mod rtt;
mod segment;
mod sender;

pub use connections::HostId;
pub(crate) use connections::NetworkContext;
pub(crate) use http::TcpHosts;
pub use http::{CacheConfig, ClientConfig, HttpCounters, OriginConfig};
pub use sender::TcpCounters;

use std::str::FromStr;
use std::time::Duration;

/// What a host's TCP is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpConfig {
    /// How it finds its rate.
    pub congestion: Congestion,
    /// Bytes of a full segment beside its headers; less where a link's MTU is below 1500.
    pub segment_bytes: u32,
    /// Segments of the first window.
    pub initial_window: u32,
    /// Bytes that it takes beyond what came in order.
    pub receive_window: u32,
    /// Bytes of the stream that it holds until they are acknowledged. Its application fills it
    /// again when a third is free.
    pub send_buffer: u32,
    /// The least timeout, beside the round trip.
    pub min_rto: Duration,
}

impl Default for TcpConfig {
    /// Linux': CUBIC, 1448 bytes in 1500, 10 segments (RFC 6928), 200 ms. The window is a constant
    /// 16 MiB, half of `tcp_rmem`'s greatest, where the kernel's grows with what is read. The
    /// buffer is what 4 MiB (`tcp_wmem`'s greatest) hold: 2500 segments, as Linux 6.18 had them at
    /// most under way, with 230 bytes of its own beside each.
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
    /// RFC 9438, and HyStart.
    #[default]
    Cubic,
    /// Version 1.
    Bbr,
}

impl FromStr for Congestion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "cubic" => Ok(Congestion::Cubic),
            "bbr" => Ok(Congestion::Bbr),
            _ => Err(format!("no congestion control {text:?} of TCP: there is \"cubic\" and \"bbr\"")),
        }
    }
}
