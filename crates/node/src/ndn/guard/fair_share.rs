//! Fair shares of places among source prefixes, for places that any machine can claim.
//!
//! At each of four prefix lengths, the prefixes take turns; within the longest one, claims come in
//! their own order. So senders in one network, or in one /8, displace each other and not those of
//! other networks. This acts as a limit per prefix: a prefix has more than its share only while no
//! other prefix needs the places.

use larder_units::Time;
use std::cmp::Reverse;
use std::net::IpAddr;

/// Bits of the prefixes that share fairly, the longest first: a host, a network, and two sizes of
/// allocations.
const IPV4_PREFIXES: [u32; 4] = [32, 24, 16, 8];

/// A customer has at least a /64, and often a /56 or a /48.
const IPV6_PREFIXES: [u32; 4] = [64, 56, 48, 32];

/// A claim to a place.
pub(crate) struct Claim<T> {
    pub(crate) of: T,
    /// The IPv4 address in the upper bits, or the IPv6 address.
    bits: u128,
    is_ipv6: bool,
    last_heard: Time,
    /// Its turn within its prefix.
    rank: usize,
}

impl<T> Claim<T> {
    pub(crate) fn new(of: T, address: IpAddr, last_heard: Time) -> Self {
        let (bits, is_ipv6) = match address.to_canonical() {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, false),
            IpAddr::V6(v6) => (v6.to_bits(), true),
        };
        Claim {
            of,
            bits,
            is_ipv6,
            last_heard,
            rank: 0,
        }
    }

    fn prefix(&self, level: usize) -> (bool, u128) {
        let length = if self.is_ipv6 {
            IPV6_PREFIXES[level]
        } else {
            IPV4_PREFIXES[level]
        };
        (self.is_ipv6, self.bits >> (128 - length))
    }

    fn turn(&self) -> (usize, Reverse<Time>) {
        (self.rank, Reverse(self.last_heard))
    }
}

/// Sorts the claims so that the first N are those that keep a place if there are N places. Within
/// one prefix, the claims that were heard last come first.
pub(crate) fn sort_by_entitlement<T>(claims: &mut [Claim<T>]) {
    for level in 0..IPV4_PREFIXES.len() {
        claims.sort_unstable_by_key(|claim| (claim.prefix(level), claim.turn()));
        for of_prefix in claims.chunk_by_mut(|one, next| one.prefix(level) == next.prefix(level)) {
            for (turn, claim) in of_prefix.iter_mut().enumerate() {
                claim.rank = turn;
            }
        }
    }
    claims.sort_unstable_by_key(Claim::turn);
}
