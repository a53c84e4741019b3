//! Which node of a fleet answers for an object.
//!
//! Each object has an owner among the nodes of a zone: the other nodes ask it before the origin.
//! The owner follows from the list of members alone (rendezvous hashing by Thaler and Ravishankar,
//! "Using name-based mappings to increase hit rates", weighted by capacity): each node has a score
//! for each object, and the highest one owns it. So a node that leaves moves only its own objects,
//! each to the second of its order. Nodes with different lists ask different owners for a moment,
//! which costs a request and is no error.

use crate::limits;
use crate::message::is_name;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;
use std::cmp::Ordering;
use std::hash::Hasher;
use std::net::SocketAddr;
use std::sync::Arc;

/// What a node offers to the other nodes of its zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerOffer {
    /// Where it answers them.
    #[serde(rename = "peer")]
    pub address: SocketAddr,
    /// The bytes that it can store: its share of the objects.
    pub capacity: u64,
    /// Its zone: nodes of one zone share their responses.
    #[serde(default)]
    pub zone: String,
}

impl PeerOffer {
    /// Returns whether the offer has a size that a note has room for.
    pub(crate) fn is_valid(&self) -> bool {
        self.zone.len() <= limits::NAME_BYTES
    }
}

/// Another node, which may own objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub node: Arc<str>,
    /// Where it answers.
    pub address: SocketAddr,
}

/// The nodes that share their responses, as one of them sees it.
#[derive(Debug, Default)]
pub struct Owners {
    own: Option<Scored>,
    /// Those of one weight are neighbours.
    others: Vec<(Scored, Peer)>,
}

/// What the score of a node depends on, besides the object.
#[derive(Debug)]
struct Scored {
    seed: u64,
    weight: f64,
}

impl Scored {
    fn new(node: &str, offer: &PeerOffer) -> Scored {
        Scored {
            seed: hash(node),
            weight: offer.capacity.max(1) as f64,
        }
    }

    /// Returns 53 bits of the object and the node, which are uniform.
    fn bits(&self, key: u64) -> u64 {
        mix(key ^ self.seed) >> 11
    }

    /// Returns `-weight / ln u`, where `u` is uniform in (0, 1): the highest score is that of a
    /// node with the probability of its share in the weights.
    fn score(&self, bits: u64) -> f64 {
        let uniform = (bits as f64 + 0.5) / (1_u64 << 53) as f64;
        -self.weight / uniform.ln()
    }
}

/// A node that comes first for an object, with its bits.
type First<'a> = Option<(u64, &'a (Scored, Peer))>;

/// Returns the nodes of one weight that come first for an object. Among them, the order of the bits
/// is that of the scores, so most nodes need no logarithm.
fn first_of(same: &[(Scored, Peer)], key: u64) -> [First<'_>; limits::ASKED] {
    let mut first: [First<'_>; limits::ASKED] = [None; limits::ASKED];
    for node in same {
        let mut next = (node.0.bits(key), node);
        for place in &mut first {
            match place {
                Some(known) if known.0 >= next.0 => {}
                Some(known) => std::mem::swap(known, &mut next),
                None => {
                    *place = Some(next);
                    break;
                }
            }
        }
    }
    first
}

impl Owners {
    /// Creates the list of a node with this offer, and of the others of its zone. Without an offer,
    /// the node asks nobody.
    pub fn new<'a>(
        own: &str,
        offer: Option<&PeerOffer>,
        others: impl Iterator<Item = (&'a str, &'a PeerOffer)>,
    ) -> Owners {
        let Some(offer) = offer else {
            return Owners::default();
        };
        let others = others.filter(|(node, other)| *node != own && other.zone == offer.zone);
        let others = others.map(|(node, other)| {
            let peer = Peer {
                node: node.into(),
                address: other.address,
            };
            (Scored::new(node, other), peer)
        });
        let mut others: Vec<(Scored, Peer)> = others.collect();
        others.sort_by(|(one, _), (other, _)| one.weight.total_cmp(&other.weight));
        Owners {
            own: Some(Scored::new(own, offer)),
            others,
        }
    }

    /// Returns the number of the other nodes.
    pub fn count(&self) -> usize {
        self.others.len()
    }

    /// Returns the nodes to ask for an object before its origin, the owner first and then its
    /// successor: those of them that come before the node itself.
    pub fn of(&self, key: u64) -> Vec<Peer> {
        let Some(own) = &self.own else {
            return Vec::new();
        };
        let own = own.score(own.bits(key));
        let mut first: Vec<(f64, &Peer)> = Vec::with_capacity(limits::ASKED + 1);
        let by_weight = self
            .others
            .chunk_by(|(one, _), (other, _)| one.weight == other.weight);
        for (bits, (scored, peer)) in by_weight.flat_map(|same| first_of(same, key)).flatten() {
            let score = scored.score(bits);
            if score < own {
                continue;
            }
            let place =
                first.partition_point(|(other, _)| other.total_cmp(&score) != Ordering::Less);
            if place < limits::ASKED {
                first.insert(place, (score, peer));
                first.truncate(limits::ASKED);
            }
        }
        first.into_iter().map(|(_, peer)| peer.clone()).collect()
    }
}

/// Returns the nodes of one zone in the order in which they own an object: the owner first, then
/// its successor.
pub fn by_ownership<'a>(
    nodes: impl Iterator<Item = (&'a str, &'a PeerOffer)>,
    key: u64,
) -> Vec<&'a str> {
    let mut scored: Vec<(f64, &str)> = nodes
        .map(|(node, offer)| {
            let scored = Scored::new(node, offer);
            (scored.score(scored.bits(key)), node)
        })
        .collect();
    scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    scored.into_iter().map(|(_, node)| node).collect()
}

/// Returns whether a node of this name can share its responses: its certificate has the name as
/// that of a host (RFC 1123, section 2.1), with `_` beside letters, digits and hyphens.
pub fn is_peer_name(text: &str) -> bool {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_name(text)
        && text.len() <= 63
        && !is_number
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Returns the key of an object, the same on all nodes and in all versions: of the URL under which
/// it is stored.
pub fn owner_key(url: &str) -> u64 {
    hash(url)
}

/// The nodes agree on it, so it has no secret.
pub(crate) fn hash(text: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// The finaliser of SplitMix64: each bit of the result depends on each bit of the value.
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}
