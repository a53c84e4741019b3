//! A network simulator: real forwarders in virtual time, between modelled links and applications.
//!
//! A [`Simulation`] owns an event queue with a total order, nodes, links and applications. A node
//! is a real [`larder_forwarder::Forwarder`] and handles real packets: a frame on a link has the
//! bytes that it would have on a cable. Links have a rate, a delay, a queue and losses
//! ([`LinkConfig`]). Applications ([`App`]) are connected to a local face of their node; other
//! crates can supply their own (`examples/custom_app.rs`).
//!
//! Each component draws from one random stream that is named after it. The same seed gives the same
//! bytes on every machine whose logarithms, powers and roots round alike, and a new node does not
//! change what others draw.
//!
//! The crate does not model hosts (forwarding and applications take no time) or radio. HTTP over a
//! model of TCP is in [`tcp`].
//!
//! Read first: [`Simulation`] and [`App`].
//!
//! ```text
//!  App ──local face── Forwarder ──face── Channel (queue ─ rate ─ loss ─ delay)
//!                                           │
//!                                          face── Forwarder ──local face── App
//! ```
//!
//! ```
//! use larder_netsim::apps::{Cbr, CbrConfig, Producer, ProducerConfig};
//! use larder_netsim::{LinkConfig, NodeConfig, Simulation};
//! use larder_units::Time;
//! use std::time::Duration;
//!
//! let mut network = Simulation::new(1);
//! let [c, p] = ["c", "p"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
//! network.connect(c, p, &LinkConfig::new("10Mbps".parse().unwrap(), Duration::from_millis(5))).unwrap();
//! let prefix: larder_packet::Name = "/a".parse().unwrap();
//! let consumer = Cbr::new(CbrConfig { frequency: 100.0, ..CbrConfig::new(prefix.clone()) }, network.streams().stream("app c"));
//! let consumer = network.add_app(c, Box::new(consumer));
//! let producer = network.add_app(p, Box::new(Producer::new(ProducerConfig::default())));
//! network.serve(&prefix, producer).unwrap();
//! network.run_until(Time::from_secs(1)).unwrap();
//! assert_eq!(network.app::<Cbr>(consumer).unwrap().counters().data, 99);
//! ```
#![forbid(unsafe_code)]

mod app;
pub mod apps;
mod centrality;
mod error;
mod events;
mod frame;
pub mod limits;
mod link;
mod node;
mod routes;
pub mod scenario;
mod simulation;
pub mod tcp;
mod topology;

pub use app::{App, AppId, Received, Sends};
pub use error::{ConfigError, LinkProblem, RunError};
pub use link::{
    Channel, ChannelCounters, ChannelId, CoDel, Depth, LinkConfig, LinkId, Links, Loss, Queueing,
    Red,
};
pub use node::{Capacity, NodeConfig, NodeId};
pub use simulation::{Fault, Routing, Simulation};
pub use topology::{Edge, FileFormat, Topology, TopologyError};
