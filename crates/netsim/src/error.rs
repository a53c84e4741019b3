//! Errors: a network that cannot be built, and a run that does not end.

use crate::limits;
use larder_forwarder::RouteError;
use larder_forwarder::strategy::StrategyError;
use larder_packet::Name;
use larder_policy::{Spec, SpecError};
use larder_transfer::PublishError;
use larder_units::{ByteSize, Time, format_duration};
use std::fmt;
use std::time::Duration;

/// The reason why a network cannot be built: one line that names the object and the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// There are two nodes of this name.
    DuplicateNode(String),
    /// There are more than [`limits::NODES`] nodes.
    TooManyNodes,
    /// A cache cannot have its policy.
    Policy {
        /// The cache.
        cache: String,
        /// The reason.
        error: SpecError,
    },
    /// An HTTP cache has a policy that needs a position on the path.
    PolicyNeedsPath(Box<Spec>),
    /// A node's largest packet is too large.
    PacketSize {
        /// The node.
        node: String,
        /// The bytes of the packet.
        bytes: usize,
    },
    /// A node cannot have its strategy.
    Strategy {
        /// The node.
        node: String,
        /// The reason.
        error: StrategyError,
    },
    /// A node refuses a route.
    Route {
        /// The node.
        node: String,
        /// The prefix of the route.
        prefix: Name,
        /// The reason.
        error: RouteError,
    },
    /// A route of this node uses a channel of another node.
    ForeignChannel(String),
    /// A link cannot exist.
    Link {
        /// The names of its nodes.
        between: [String; 2],
        /// The reason.
        problem: LinkProblem,
    },
    /// The objects of an HTTP origin are larger than [`limits::HTTP_BODY`].
    HttpBody(ByteSize),
    /// A lifetime of an HTTP origin's responses is not in whole seconds, as in `Cache-Control`.
    HttpLifetime(Duration),
    /// No path leads from this node to the server of its HTTP client or cache.
    NoPath(String),
    /// A file cannot be served in segments.
    Segments(PublishError),
}

/// The reason why a link cannot exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkProblem {
    /// It leads from a node to itself.
    ToItself,
    /// There are [`limits::LINKS`] links already.
    TooMany,
    /// Its rate is 0.
    NoRate,
    /// Its loss is not a probability.
    Loss,
    /// Its MTU is below [`limits::LEAST_MTU`].
    Mtu,
    /// It is reliable without an MTU.
    ReliableWithoutMtu,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::DuplicateNode(name) => write!(f, "there are two nodes {name}"),
            ConfigError::TooManyNodes => write!(f, "more than {} nodes", limits::NODES),
            ConfigError::Policy { cache, error } => write!(f, "{cache}: {error}"),
            ConfigError::PolicyNeedsPath(policy) => write!(
                f,
                "the policy {policy} needs a cache's position on the path, which HTTP does not carry; it is for nodes' Content Stores"
            ),
            ConfigError::PacketSize { node, bytes } => {
                write!(
                    f,
                    "node {node}: packets of {bytes} bytes: the most is {}",
                    limits::MAX_PACKET_BYTES
                )
            }
            ConfigError::Strategy { node, error } => write!(f, "node {node}: {error}"),
            ConfigError::Route {
                node,
                prefix,
                error,
            } => write!(f, "the route {prefix} of node {node}: {error}"),
            ConfigError::ForeignChannel(node) => {
                write!(f, "a route of node {node} over a link of another node")
            }
            ConfigError::Link {
                between: [from, to],
                problem,
            } => write!(f, "the link {from} – {to} {problem}"),
            ConfigError::HttpBody(body) => {
                write!(
                    f,
                    "objects of {body}: expected {} at most",
                    ByteSize::from_bytes(limits::HTTP_BODY)
                )
            }
            ConfigError::HttpLifetime(lifetime) => {
                write!(
                    f,
                    "a lifetime of {}: expected whole seconds",
                    format_duration(*lifetime)
                )
            }
            ConfigError::NoPath(node) => write!(f, "no links lead from {node} to its server"),
            ConfigError::Segments(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConfigError::Policy { error, .. } => Some(error),
            ConfigError::Strategy { error, .. } => Some(error),
            ConfigError::Route { error, .. } => Some(error),
            ConfigError::Segments(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for LinkProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkProblem::ToItself => f.write_str("leads from a node to itself"),
            LinkProblem::TooMany => write!(f, "is one too many: the most is {}", limits::LINKS),
            LinkProblem::NoRate => {
                f.write_str("has rate 0: leave the rate out for a link that sends in no time")
            }
            LinkProblem::Loss => f.write_str("has a loss that is not a probability"),
            LinkProblem::Mtu => write!(f, "has an MTU below {} bytes", limits::LEAST_MTU),
            LinkProblem::ReliableWithoutMtu => f.write_str(
                "is reliable without an MTU: link reliability works on frames of an MTU",
            ),
        }
    }
}

/// A run that stopped because it would not end, or would fill the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunError {
    /// [`limits::EVENTS_AN_INSTANT`] events happened at one instant.
    StandsStill {
        /// The instant.
        at: Time,
    },
    /// More than [`limits::EVENTS_PLANNED`] events are planned.
    Grows {
        /// The time at which the limit was exceeded.
        at: Time,
    },
    /// A node's table of routes was full when routes were computed again.
    Routes {
        /// The time of the computation.
        at: Time,
    },
    /// Frames on links and in queues, pending Interests of consumers, and TCP connections take more
    /// than [`limits::BYTES_HELD`].
    Fills {
        /// The time at which the limit was exceeded.
        at: Time,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::StandsStill { at } => {
                let most = limits::EVENTS_AN_INSTANT;
                write!(
                    f,
                    "time stands still at {at}: {most} events at one instant; look for an application whose next timer is always in the past"
                )
            }
            RunError::Grows { at } => {
                let most = limits::EVENTS_PLANNED;
                write!(
                    f,
                    "the network only grows: more than {most} events are planned at {at}; look for a consumer that sends more than its link can carry"
                )
            }
            RunError::Routes { at } => {
                write!(
                    f,
                    "a node's table of routes is full at {at}; look for a large number of next-hops"
                )
            }
            RunError::Fills { at } => {
                let most = ByteSize::from_bytes(limits::BYTES_HELD);
                write!(
                    f,
                    "the network only grows: the sum of frames, queues and pending Interests takes more than {most} at {at}; look for a queue without a bound, or a consumer without answers"
                )
            }
        }
    }
}

impl std::error::Error for RunError {}
