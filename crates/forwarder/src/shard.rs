//! Several forwarders that work as one: the choice of the shard that processes a packet, and each
//! shard's part of the limits.
//!
//! Each shard has its own Content Store, PIT and strategies, and shares nothing. So an Interest and
//! every Data that answers it must reach the same shard, without a lookup in a table. The home of a
//! name is the shard that a keyed hash of its *group* selects. The group is the name's components
//! up to the first that is not generic (NDN packet specification 0.3, section 2; "NDN naming
//! conventions", revision 3). So the versions and segments of a file, its RDR metadata, and
//! Interests with an implicit digest or parameters have the same home. A hash of, say, the first
//! two components would give one home to all names of a network in which all names begin alike. The
//! first shard is the home of the names of the management protocol, and of the routing daemon's to
//! which management sends commands.
//!
//! Data of another home can answer an Interest with CanBePrefix whose name ends within the group:
//! `/a/b/c` answers `/a`. Each shard reports the numbers of components of the names of such pending
//! Interests ([`crate::Forwarder::pending_prefixes`]). Data goes to its own home, and to the homes
//! of its prefixes of these lengths. So every pending Interest gets its Data. But such an Interest
//! finds in the Content Store only the Data of its own home, and goes upstream for other Data.
//!
//! A home costs one hash. If shorter lengths are pending, it also costs one pass over the name.

use crate::limits::{CAN_BE_PREFIX_COMPONENTS, SHARDS};
use crate::local_names::{is_management, is_routing_daemon};
use crate::tables::name_hash::{Lengths, NameHasher};
use larder_packet::tlv::Tlv;
use larder_packet::{LpPacket, NameRef, types};
use larder_units::ByteSize;

/// One of several forwarders that are one to the world, or the only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    /// The whole forwarder.
    pub const ONLY: Shard = Shard { number: 0, of: 1 };

    /// All of `of` shards, the first first: it manages the others. At least one, at most
    /// [`SHARDS`].
    pub fn all(of: usize) -> impl Iterator<Item = Shard> {
        let of = of.clamp(1, SHARDS);
        (0..of).map(move |number| Shard { number, of })
    }

    /// Returns the number of the shard, from 0.
    pub fn number(self) -> usize {
        self.number
    }

    /// Returns the number of shards.
    pub fn of(self) -> usize {
        self.of
    }

    /// Returns true if there is only one shard.
    pub fn is_only(self) -> bool {
        self.of == 1
    }

    /// Returns true if this shard manages others.
    pub(crate) fn manages(self) -> bool {
        self.number == 0 && self.of > 1
    }

    /// Returns this shard's part of a total. The parts of all shards add up to the total.
    pub fn part(self, whole: u64) -> u64 {
        let of = self.of as u64;
        whole / of + u64::from((self.number as u64) < whole % of)
    }

    /// Returns this shard's part of a capacity.
    pub fn part_of(self, capacity: ByteSize) -> ByteSize {
        ByteSize::from_bytes(self.part(capacity.bytes()))
    }
}

/// A set of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Homes(u64);

impl Homes {
    fn one(shard: usize) -> Homes {
        Homes(1 << shard)
    }

    /// Returns true if the set contains this shard.
    #[inline]
    pub fn contain(self, shard: Shard) -> bool {
        self.0 & 1 << shard.number != 0
    }

    /// Their numbers, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..SHARDS).filter(move |shard| self.0 & 1 << shard != 0)
    }
}

/// Says where packets are at home. All shards have the same one.
#[derive(Clone)]
pub struct Dispatch {
    hasher: NameHasher,
    shards: usize,
}

impl Dispatch {
    /// For this many shards; the key is a secret, and another one than that of the forwarders'
    /// tables: their indexes would otherwise fill unevenly.
    pub fn new(key: [u64; 2], shards: usize) -> Self {
        Dispatch {
            hasher: NameHasher::new(key),
            shards: shards.clamp(1, SHARDS),
        }
    }

    /// Returns the shards that need a frame. Returns `None` if the shard that received it should
    /// process it: a fragment, or bytes that cannot be decoded. `pending` returns
    /// [`crate::Forwarder::pending_prefixes`] of a shard.
    pub fn homes(&self, frame: &[u8], pending: impl Fn(usize) -> u64) -> Option<Homes> {
        let packet = LpPacket::decode(frame)
            .ok()
            .filter(|packet| packet.header.frag_count == 1)?
            .fragment?;
        let typ = u32::from(*packet.first()?);
        if typ != types::INTEREST && typ != types::DATA {
            return None;
        }
        // The name is the first element of both packets.
        let name = Tlv::only(packet, typ)
            .ok()?
            .children()
            .next()?
            .ok()
            .filter(|name| name.typ == types::NAME)?;
        let name = NameRef::from_value(name.value).ok()?;
        let group = Group::of(name);
        let home = self.home(name, group);
        let mut homes = Homes::one(home);
        if typ == types::DATA {
            let asked =
                (0..self.shards).fold(0, |all, shard| all | pending(shard)) & group.shorter();
            if asked != 0 {
                self.add_homes_of_prefixes(name, asked, pending, &mut homes);
            }
        }
        Some(homes)
    }

    fn home(&self, name: NameRef<'_>, group: Group) -> usize {
        if is_management(name) || is_routing_daemon(name) {
            0
        } else {
            self.of_hash(self.hasher.hash(&name.as_bytes()[..group.end]))
        }
    }

    /// By the upper half of the hash, without a division.
    fn of_hash(&self, hash: u64) -> usize {
        (((hash >> 32) * self.shards as u64) >> 32) as usize
    }

    fn add_homes_of_prefixes(
        &self,
        name: NameRef<'_>,
        asked: u64,
        pending: impl Fn(usize) -> u64,
        homes: &mut Homes,
    ) {
        // One pass computes all hashes: names may be long, and senders choose which lengths are
        // pending.
        let mut prefixes = Vec::new();
        self.hasher
            .prefixes(name, Lengths::from_bits(asked), &mut prefixes);
        for prefix in prefixes.iter().filter(|prefix| prefix.components > 0) {
            let home = self.of_hash(prefix.hash);
            if pending(home) >> (prefix.components - 1) & 1 == 1 {
                homes.0 |= 1 << home;
            }
        }
    }
}

/// The components of a name up to the first that is not generic; no more than an Interest with
/// CanBePrefix may have.
#[derive(Clone, Copy)]
struct Group {
    components: usize,
    /// The end of the prefix in the name's TLV-VALUE.
    end: usize,
}

impl Group {
    fn of(name: NameRef<'_>) -> Group {
        let generic = name
            .components()
            .take_while(|component| component.typ == types::GENERIC_NAME_COMPONENT);
        let components = generic.take(CAN_BE_PREFIX_COMPONENTS).count();
        let end = name.prefix_ends().take(components).last().unwrap_or(0);
        Group { components, end }
    }

    /// Shorter prefixes of it, as [`crate::Forwarder::pending_prefixes`] has them.
    fn shorter(self) -> u64 {
        (1u64 << self.components.saturating_sub(1)) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::{DataBuilder, DigestSigner, InterestBuilder, Name};

    const SHARDS_HERE: usize = 7;

    fn dispatch() -> Dispatch {
        Dispatch::new([5, 6], SHARDS_HERE)
    }

    fn name(text: &str) -> Name {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn of_interest(text: &str) -> Homes {
        let interest = InterestBuilder::new(name(text))
            .can_be_prefix(true)
            .nonce(1)
            .build();
        dispatch().homes(&interest, |_| u64::MAX).unwrap()
    }

    fn of_data(text: &str, pending: impl Fn(usize) -> u64) -> Homes {
        let data = DataBuilder::new(name(text).as_name())
            .content(b"x")
            .build(&DigestSigner)
            .unwrap();
        dispatch().homes(&data, pending).unwrap()
    }

    #[test]
    fn data_misses_the_interest_that_it_answers() {
        let digest = "sha256digest=".to_owned() + &"00".repeat(32);
        for group in [
            "/a",
            "/ndn/edu/ucla/irl/file",
            "/p/q/r/s/t/u/v/w/x/y/z/1/2/3/4/5/6",
        ] {
            let interests = [
                "",
                "/32=metadata",
                "/54=%01",
                "/54=%01/50=%07",
                "/32=metadata/54=%01/50=%00",
            ];
            let data = [
                "/32=metadata/54=%01/50=%00",
                "/54=%01/50=%07",
                "/54=%01/50=%07/8=more",
            ];
            let home = of_interest(group);
            for end in interests
                .iter()
                .copied()
                .chain([format!("/{digest}").as_str()])
            {
                assert_eq!(of_interest(&format!("{group}{end}")), home, "{group}{end}");
            }
            for end in data {
                assert_eq!(
                    of_data(&format!("{group}{end}"), |_| 0),
                    home,
                    "{group}{end}"
                );
            }
        }
    }

    #[test]
    fn an_interest_of_a_shorter_prefix_waits_in_vain_and_others_are_troubled() {
        let mut differ = 0;
        for number in 0..100 {
            let (short, long) = (format!("/a{number}"), format!("/a{number}/b/c/54=%01"));
            let (asked, home) = (of_interest(&short), of_data(&long, |_| 0));
            let pending = |shard: usize| u64::from(asked.iter().eq([shard]));
            let found = of_data(&long, pending);
            assert_eq!(found.0, asked.0 | home.0, "{long}");
            differ += u32::from(asked != home);
            // One of three components is pending: that is its own length.
            assert_eq!(of_data(&long, |_| 0b100), home, "{long}");
            assert_eq!(of_data(&short, |_| u64::MAX), asked, "nothing is shorter");
        }
        assert!(differ > 50, "{differ}");
    }

    #[test]
    fn commands_go_where_nobody_manages() {
        for text in [
            "/localhost/nfd",
            "/localhost/nfd/faces/list",
            "/localhop/nfd/rib/register/x",
            "/localhost/nlsr/rib/register/x",
        ] {
            assert!(of_interest(text).iter().eq([0]), "{text}");
        }
    }

    #[test]
    fn one_shard_has_all_the_work() {
        let mut counts = [0; SHARDS_HERE];
        for number in 0..7000 {
            for shard in of_interest(&format!("/ndn/edu/{number}/x")).iter() {
                counts[shard] += 1;
            }
        }
        assert!(
            counts.iter().all(|count| (850..1150).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn bytes_that_are_no_packet_are_sent_about() {
        for frame in [
            &b""[..],
            b"\x05",
            b"\x05\x00",
            b"\x06\x02\x07\x05",
            b"\x64\x00",
            b"\x05\x04\x08\x02\x07\x00",
            b"\xff\xff",
        ] {
            assert_eq!(dispatch().homes(frame, |_| 0), None, "{frame:?}");
        }
    }

    #[test]
    fn parts_are_more_or_less_than_the_whole() {
        for whole in [0, 1, 63, 64, 1 << 20, (1 << 20) + 5] {
            for of in [1, 2, 3, 64] {
                assert_eq!(
                    Shard::all(of).map(|shard| shard.part(whole)).sum::<u64>(),
                    whole
                );
            }
        }
    }
}
