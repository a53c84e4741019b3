//! The places of UDP peers: selects the senders that have a face, and those that lose it.
//!
//! Anyone can forge the source address of a datagram, so a place has to cost a forged sender more
//! than a genuine one. A peer has one of three standings, each with its own places:
//!
//! * `New`: heard within one second only. Its Interests are served, so an ordinary consumer works
//!   at once.
//! * `Known`: heard again later.
//! * `Proven`: it sent something that only the holder of its address could know: the token of a
//!   probe, or Data or a Nack for an Interest that was sent to it.
//!
//! A flood of forged senders fills the places of `New` and affects no other peer. A peer that is
//! promoted to a full standing displaces one there, which moves to the standing below.
//!
//! Within a standing, source prefixes share the places fairly (`fair_share.rs`), and the peer of a
//! prefix that was silent longest loses its place first.
//!
//! The table reads no clock and no socket. It makes room for many peers at once, so it seldom
//! sorts: some 100 ns per new peer.

use crate::limits::{UDP_KNOWN_AFTER, UDP_KNOWN_PEERS, UDP_NEW_PEERS, UDP_PROVEN_PEERS};
use crate::ndn::guard::fair_share::{Claim, sort_by_entitlement};
use larder_forwarder::FaceId;
use larder_units::Time;
use siphasher::sip::SipHasher13;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

/// The standing of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// Heard within [`UDP_KNOWN_AFTER`] only.
    New,
    /// Heard again later.
    Known,
    /// It holds its address.
    Proven,
    /// Created by a route or by management: the peer stays, and takes none of the places.
    Kept,
}

impl Standing {
    /// Returns the standing of a peer of a route or of management.
    pub(crate) fn of_made(permanent: bool) -> Self {
        if permanent {
            Standing::Kept
        } else {
            Standing::Proven
        }
    }

    /// The places of peers with this standing, of all threads together.
    fn places(self) -> usize {
        match self {
            Standing::New => UDP_NEW_PEERS,
            Standing::Known => UDP_KNOWN_PEERS,
            Standing::Proven => UDP_PROVEN_PEERS,
            Standing::Kept => usize::MAX,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Place {
    face: FaceId,
    standing: Standing,
    is_probed: bool,
    first_heard: Time,
    last_heard: Time,
}

/// The peers of the UDP sockets, by address.
#[derive(Debug)]
pub(crate) struct UdpPlaces {
    places: HashMap<SocketAddr, Place>,
    /// By [`Standing`].
    counts: [usize; 4],
    /// The key of the probes' tokens.
    key: [u64; 2],
    /// The threads that share the places: those with a UDP socket.
    threads: usize,
}

/// The token of a probe: 64 bits that a sender cannot guess for an address whose packets it does
/// not receive.
pub(crate) type Token = [u8; 8];

/// The actions after a datagram of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) face: FaceId,
    /// True if a probe was sent: the token of this address in a packet proves that the peer holds
    /// it.
    pub(crate) is_asked: bool,
    /// True if the peer has become known. It should be probed if places are scarce.
    pub(crate) is_promoted: bool,
}

impl UdpPlaces {
    pub(crate) fn new(key: [u64; 2]) -> Self {
        UdpPlaces {
            places: HashMap::new(),
            counts: [0; 4],
            key,
            threads: 1,
        }
    }

    /// Makes this one thread's part of the table. The kernel spreads peers evenly over `threads`,
    /// so each thread has an equal part of the places.
    pub(crate) fn share(&mut self, threads: usize) {
        self.threads = threads;
    }

    /// The places here of peers with this standing.
    fn places_of(&self, standing: Standing) -> usize {
        standing.places() / self.threads
    }

    /// The face of the peer with this address.
    pub(crate) fn get(&self, address: SocketAddr) -> Option<FaceId> {
        self.places.get(&address).map(|place| place.face)
    }

    /// New, known and proven peers.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let [new, known, proven, _] = self.counts;
        [new, known, proven]
    }

    /// Returns true if so many new peers come that each should prove its address.
    pub(crate) fn are_scarce(&self) -> bool {
        self.counts[Standing::New as usize] >= self.places_of(Standing::New) / 2
    }

    /// Adds a peer. The caller makes room afterwards: see [`UdpPlaces::make_room`].
    pub(crate) fn insert(
        &mut self,
        now: Time,
        address: SocketAddr,
        face: FaceId,
        standing: Standing,
    ) {
        let place = Place {
            face,
            standing,
            is_probed: false,
            first_heard: now,
            last_heard: now,
        };
        self.counts[standing as usize] += 1;
        if let Some(former) = self.places.insert(address, place) {
            self.counts[former.standing as usize] -= 1;
        }
    }

    /// Removes a peer whose face is gone. If a route has created another face for it, that one
    /// keeps the place.
    pub(crate) fn remove(&mut self, address: SocketAddr, face: FaceId) {
        if self.get(address) == Some(face)
            && let Some(place) = self.places.remove(&address)
        {
            self.counts[place.standing as usize] -= 1;
        }
    }

    /// Records a datagram from this address. `None` if it belongs to no peer.
    #[inline]
    pub(crate) fn hear(&mut self, now: Time, address: SocketAddr) -> Option<Heard> {
        let place = self.places.get_mut(&address)?;
        place.last_heard = now;
        let is_promoted =
            place.standing == Standing::New && now.since(place.first_heard) >= UDP_KNOWN_AFTER;
        let is_asked = place.is_probed && place.standing < Standing::Proven;
        let heard = Heard {
            face: place.face,
            is_asked,
            is_promoted,
        };
        if is_promoted {
            self.set_standing(address, Standing::Known);
        }
        Some(heard)
    }

    /// Gives a peer another standing.
    pub(crate) fn set_standing(&mut self, address: SocketAddr, standing: Standing) {
        if let Some(place) = self.places.get_mut(&address) {
            self.counts[place.standing as usize] -= 1;
            self.counts[standing as usize] += 1;
            place.standing = standing;
        }
    }

    /// Returns the faces of peers that have not proven their addresses.
    pub(crate) fn unproven(&self) -> Vec<FaceId> {
        let unproven = self
            .places
            .values()
            .filter(|place| place.standing < Standing::Proven);
        unproven.map(|place| place.face).collect()
    }

    /// Records that this face's peer holds its address.
    pub(crate) fn prove(&mut self, address: SocketAddr, face: FaceId) {
        let place = self.places.get(&address);
        if place.is_some_and(|place| place.face == face && place.standing < Standing::Proven) {
            self.set_standing(address, Standing::Proven);
        }
    }

    /// Records that a probe goes to this address, and returns its token.
    pub(crate) fn probe(&mut self, address: SocketAddr) -> Token {
        if let Some(place) = self.places.get_mut(&address) {
            place.is_probed = true;
        }
        self.token(address)
    }

    /// The token of this address.
    pub(crate) fn token(&self, address: SocketAddr) -> Token {
        let [key0, key1] = self.key;
        let mut hasher = SipHasher13::new_with_keys(key0, key1);
        address.hash(&mut hasher);
        hasher.finish().to_be_bytes()
    }

    /// Returns true if a standing has more peers than places.
    pub(crate) fn is_overfull(&self) -> bool {
        let standings = [Standing::New, Standing::Known, Standing::Proven];
        standings
            .into_iter()
            .any(|standing| self.counts[standing as usize] > self.places_of(standing))
    }

    /// Returns the faces that have to be closed so that every standing has room. `has_answered`
    /// tells whether a face has sent Data or a Nack for an Interest that was sent to it.
    pub(crate) fn make_room(&mut self, has_answered: impl Fn(FaceId) -> bool) -> Vec<FaceId> {
        let proven = |place: &Place| place.standing < Standing::Proven && has_answered(place.face);
        let proven: Vec<SocketAddr> = self
            .places
            .iter()
            .filter(|(_, place)| proven(place))
            .map(|(address, _)| *address)
            .collect();
        for address in proven {
            self.set_standing(address, Standing::Proven);
        }
        for address in self.least_entitled(Standing::Proven) {
            self.set_standing(address, Standing::Known);
        }
        let [known, new] =
            [Standing::Known, Standing::New].map(|standing| self.least_entitled(standing));
        let over: Vec<SocketAddr> = [known, new].concat();
        over.iter()
            .filter_map(|address| self.get(*address))
            .collect()
    }

    /// Returns the peers of this standing that others displace, an eighth at a time; none while
    /// there is room.
    fn least_entitled(&self, standing: Standing) -> Vec<SocketAddr> {
        let most = self.places_of(standing);
        if self.counts[standing as usize] <= most {
            return Vec::new();
        }
        let of_standing = self
            .places
            .iter()
            .filter(|(_, place)| place.standing == standing);
        let claim = |(address, place): (&SocketAddr, &Place)| {
            Claim::new(*address, address.ip(), place.last_heard)
        };
        let mut claims: Vec<_> = of_standing.map(claim).collect();
        sort_by_entitlement(&mut claims);
        claims
            .drain(most - most / 8..)
            .map(|claim| claim.of)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::{Stream, Streams};
    use std::collections::HashSet;
    use std::net::{IpAddr, Ipv4Addr};

    /// The addresses that forged senders claim.
    #[derive(Clone, Copy, Debug)]
    enum Flood {
        /// Anything in 10.0.0.0/8.
        Wide,
        /// Some hosts of 10.98.7.0/24, at any port.
        OneNetwork,
        /// A few thousand that come again after more than a second.
        Repeated,
    }

    struct World {
        now: Time,
        places: UdpPlaces,
        open: HashSet<SocketAddr>,
        by_face: HashMap<FaceId, SocketAddr>,
        answering: HashSet<FaceId>,
    }

    impl World {
        fn new() -> World {
            World {
                now: Time::from_secs(1),
                places: UdpPlaces::new([1, 2]),
                open: HashSet::new(),
                by_face: HashMap::new(),
                answering: HashSet::new(),
            }
        }

        /// A datagram from this address. Returns true if its sender was known.
        fn datagram(&mut self, address: SocketAddr) -> bool {
            let heard = self.places.hear(self.now, address);
            if heard.is_none() {
                let face = FaceId(self.by_face.len() as u64 + 256);
                self.by_face.insert(face, address);
                self.open.insert(address);
                self.places.insert(self.now, address, face, Standing::New);
            }
            if self.places.is_overfull() {
                for face in self.places.make_room(|face| self.answering.contains(&face)) {
                    let address = self.by_face[&face];
                    assert!(self.open.remove(&address), "closed twice");
                    self.places.remove(address, face);
                }
            }
            assert!(
                self.open.contains(&address),
                "its own datagram costs a peer its place"
            );
            heard.is_some()
        }

        fn check_invariants(&self) {
            assert_eq!(self.places.places.len(), self.open.len());
            assert!(!self.places.is_overfull());
            for standing in [
                Standing::New,
                Standing::Known,
                Standing::Proven,
                Standing::Kept,
            ] {
                let count = self
                    .places
                    .places
                    .values()
                    .filter(|place| place.standing == standing)
                    .count();
                assert_eq!(count, self.places.counts[standing as usize]);
            }
        }
    }

    fn at(octets: [u8; 4], port: u16) -> SocketAddr {
        SocketAddr::new(Ipv4Addr::from(octets).into(), port)
    }

    fn forged(flood: Flood, number: u32, random: &mut Stream) -> SocketAddr {
        let bits = random.below(1 << 24) as u32;
        let [_, b, c, d] = bits.to_be_bytes();
        match flood {
            Flood::Wide => at([10, b, c, d], 6363),
            Flood::OneNetwork => at([10, 98, 7, d % 4], 1024 + bits as u16 / 2),
            Flood::Repeated => at(
                [10, 98, (number % 4000 / 250) as u8, (number % 250) as u8],
                6363,
            ),
        }
    }

    #[test]
    fn forged_senders_displace_genuine_peers() {
        for (seed, flood) in [
            (1, Flood::Wide),
            (2, Flood::OneNetwork),
            (3, Flood::Repeated),
        ] {
            let mut random = Streams::new(seed).stream("forged");
            let mut world = World::new();
            let start = world.now;
            // Peers with history: one that answered, and one that was only heard again.
            let (proven, known) = (at([192, 0, 2, 1], 6363), at([198, 51, 100, 1], 6363));
            for peer in [proven, known] {
                assert!(!world.datagram(peer));
            }
            world.answering.insert(world.places.get(proven).unwrap());
            world.now += UDP_KNOWN_AFTER;
            assert!(world.datagram(known));
            // New peers of other networks, and of one that forged senders may claim. The latter
            // look like forged senders until they are heard again, and a few lose their places
            // before an answer comes.
            let (mut newcomers, mut neighbours, mut too_short) = (Vec::new(), Vec::new(), 0);
            for number in 0..45_000_u32 {
                world.now += std::time::Duration::from_micros(333);
                world.datagram(forged(flood, number, &mut random));
                if number % 300 == 0 {
                    let host = (number / 300) as u8;
                    newcomers.push(at([203, 0, host, 1], 6363));
                    neighbours.push(at([10, 97, host, 1], 6363));
                    world.datagram(newcomers[newcomers.len() - 1]);
                    world.datagram(neighbours[neighbours.len() - 1]);
                }
                if number % 300 == 270 {
                    too_short +=
                        usize::from(!world.open.contains(&neighbours[neighbours.len() - 1]));
                    world.check_invariants();
                }
            }
            assert!(world.now.since(start).as_secs() >= 12);
            assert!(
                too_short * 20 <= neighbours.len(),
                "{flood:?}: {too_short} had no 90 ms for an answer"
            );
            for peer in newcomers.iter().chain([&proven, &known]) {
                assert!(world.datagram(*peer), "{flood:?}: {peer} lost its place");
            }
            assert!(world.open.len() <= UDP_NEW_PEERS + UDP_KNOWN_PEERS + UDP_PROVEN_PEERS);
        }
    }

    #[test]
    fn a_prefix_has_more_than_its_share_or_a_full_table_is_empty() {
        for seed in 0..20 {
            let mut random = Streams::new(seed).stream("shares");
            let mut world = World::new();
            let peers = 1 + random.below(4000) as u16;
            for number in 0..peers {
                world.now += std::time::Duration::from_micros(1);
                let subnet = [1, 1, 1, 2, 3][random.below(5) as usize];
                world.datagram(at([172, 16, subnet, 1], number));
            }
            let held = |subnet: u8| {
                let inside = |address: &&SocketAddr| matches!(address.ip(), IpAddr::V4(v4) if v4.octets()[2] == subnet);
                world.open.iter().filter(inside).count()
            };
            if usize::from(peers) <= UDP_NEW_PEERS {
                assert_eq!(
                    world.open.len(),
                    usize::from(peers),
                    "seed {seed}: there was room"
                )
            } else {
                assert!(world.open.len() >= UDP_NEW_PEERS * 7 / 8, "seed {seed}");
                let least = held(2).min(held(3));
                assert!(
                    held(1) <= least.max(UDP_NEW_PEERS / 3) + UDP_NEW_PEERS / 4,
                    "seed {seed}: {}",
                    held(1)
                );
            }
        }
    }

    #[test]
    fn tokens_of_two_addresses_are_the_same() {
        let places = UdpPlaces::new([3, 4]);
        let tokens: HashSet<Token> = (1..1000)
            .map(|port| places.token(at([192, 0, 2, 1], port)))
            .collect();
        assert_eq!(tokens.len(), 999);
        let other = UdpPlaces::new([3, 5]);
        assert_ne!(
            places.token(at([192, 0, 2, 1], 1)),
            other.token(at([192, 0, 2, 1], 1))
        );
    }

    #[test]
    fn a_face_that_is_gone_takes_the_place_of_its_successor() {
        let mut places = UdpPlaces::new([1, 2]);
        let peer = at([192, 0, 2, 1], 6363);
        places.insert(Time::ZERO, peer, FaceId(300), Standing::New);
        places.insert(Time::ZERO, peer, FaceId(301), Standing::Kept);
        places.remove(peer, FaceId(300));
        assert_eq!(
            (places.get(peer), places.counts()),
            (Some(FaceId(301)), [0, 0, 0])
        );
    }
}
