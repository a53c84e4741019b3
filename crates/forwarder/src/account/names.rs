//! Stored names that are kept decoded, compared with names that are decoded at each lookup.
//!
//! Yuan and Crowley, Experimental evaluation of content distribution with NDN and HTTP, IEEE
//! INFOCOM Mini-Conference, 2013, section IV and fig. 8: CCNx kept its stored packets in a list
//! ordered by names, and a lookup decoded each name that it compared. Keeping the names decoded
//! gave CCNx 40 % more throughput. Here Interests are answered from the forwarder's own Content
//! Store, each by the functions that [`Forwarder::on_packet`] calls. Only the search for the name
//! differs.
//!
//! A decoded name is the range of its bytes in the packet: Larder's lookups compare whole encoded
//! names, since equal names have equal encodings. So decoding is finding and checking the name. It
//! allocates nothing, as in CCNx. Deviation: a binary search replaces CCNx's skip list. Both
//! compare log2(n) names.

use crate::face::FaceId;
use crate::forwarder::Forwarder;
use crate::outbox::{Body, Outbox};
use crate::tables::content_store::Entry;
use larder_packet::tlv::Tlv;
use larder_packet::{NameRef, types};
use larder_policy::Slot;
use larder_units::Time;
use std::hint::black_box;

/// The way in which a stored name is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookUp {
    /// By its hash, as the forwarder does; the stored encoding is compared.
    Hashed,
    /// By its hash; the name that is found is decoded out of its packet.
    HashedDecoding,
    /// By binary search in canonical order; stored encodings are compared.
    Ordered,
    /// By binary search in canonical order; each compared name is decoded out of its packet, as in
    /// CCNx.
    OrderedDecoding,
}

/// All of them.
pub const LOOK_UPS: [LookUp; 4] = [LookUp::Hashed, LookUp::HashedDecoding, LookUp::Ordered, LookUp::OrderedDecoding];

/// The entries of a Content Store in canonical order of their names. It is valid until an entry is
/// inserted or evicted.
pub struct Order(Vec<Slot>);

impl Order {
    /// Returns the order of a forwarder's Content Store.
    pub fn of(forwarder: &Forwarder) -> Order {
        let store = &forwarder.content_store;
        let mut slots: Vec<Slot> = store.slots().collect();
        slots.sort_by_key(|slot| store.entry(*slot).map(Entry::name_bytes));
        Order(slots)
    }

    /// Returns the number of Data.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// None is stored.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Answers the Interests in these frames out of the Content Store, one after the other; how many it
/// could answer. `order` is of this forwarder.
pub fn answer<'a>(
    forwarder: &mut Forwarder,
    now: Time,
    consumer: FaceId,
    (look_up, order): (LookUp, &Order),
    frames: impl Iterator<Item = &'a mut Vec<u8>>,
    out: &mut Outbox,
) -> usize {
    let mut answered = 0;
    for frame in frames {
        out.sends.clear();
        let Some((interest, hash)) = forwarder.decode_interest(consumer, frame) else { continue };
        let pending = forwarder.pit.find(hash, &interest);
        let nonce = interest.nonce.unwrap_or_default();
        black_box(forwarder.is_duplicate(now, hash, nonce, Some(consumer), pending));
        let Some(slot) = found(forwarder, look_up, order, hash, interest.name) else { continue };
        let store = &mut forwarder.content_store;
        store.engine_mut().hit(slot, hash, now);
        let Some(packet) = store.wire(slot) else { continue };
        out.push(consumer, Body::Cached(packet));
        forwarder.count_sends(0, &[], out);
        answered += black_box(out.sends.len());
    }
    out.sends.clear();
    answered
}

#[inline]
fn found(forwarder: &Forwarder, look_up: LookUp, order: &Order, hash: u64, name: NameRef<'_>) -> Option<Slot> {
    let store = &forwarder.content_store;
    let in_order = |of: fn(&Entry) -> &[u8]| {
        // Encodings sort as names do (packet specification 0.3, "Canonical Order"): types and
        // lengths come first, the shorter the smaller.
        let compared = order.0.binary_search_by(|slot| store.entry(*slot).map_or(&[][..], of).cmp(name.as_bytes()));
        compared.ok().map(|at| order.0[at])
    };
    match look_up {
        LookUp::Hashed => store.exact(hash, name),
        LookUp::HashedDecoding => store.by_hash(hash, |entry| decoded(entry) == name.as_bytes()),
        LookUp::Ordered => in_order(Entry::name_bytes),
        LookUp::OrderedDecoding => in_order(decoded),
    }
}

/// The name, out of the packet: nothing that is kept beside it is used.
fn decoded(entry: &Entry) -> &[u8] {
    let name = || {
        let element = Tlv::only(entry.packet(), types::DATA).ok()?.children().require(types::NAME, "Name").ok()?;
        NameRef::from_value(element.value).ok()?;
        Some(element.value)
    };
    name().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, FaceConfig};
    use larder_packet::{DataBuilder, DigestSigner, InterestBuilder, Name};
    use larder_policy::Engine;
    use larder_units::{ByteSize, Streams};

    /// Failure: one of the variants is fast because it finds nothing, or another Data.
    #[test]
    fn a_way_to_look_up_does_not_look() {
        let streams = Streams::new(1);
        let engine = Engine::new(&"lru".parse().unwrap(), ByteSize::from_mib(1), &streams).unwrap();
        let mut forwarder = Forwarder::new(Config::new([1, 2], streams), engine);
        let (consumer, producer) =
            (forwarder.add_face(FaceConfig::local("consumer")), forwarder.add_face(FaceConfig::local("producer")));
        let mut out = Outbox::new();
        // Of different depths and lengths, so that the order is not that of insertion.
        let names: Vec<Name> = (0..50)
            .rev()
            .map(|n| format!("/a/b{}/{n}{}", "b".repeat(n % 7), "/c".repeat(n % 4)).parse().unwrap())
            .collect();
        crate::account::add_next_hop(&mut forwarder, "/a".parse::<Name>().unwrap().as_name(), producer);
        for (nonce, name) in names.iter().enumerate() {
            let mut asked = InterestBuilder::new(name.clone()).nonce(nonce as u32).build();
            let mut data = DataBuilder::new(name.as_name()).content(b"x").build(&DigestSigner).unwrap();
            forwarder.on_packet(Time::ZERO, consumer, &mut asked, &mut out).unwrap();
            forwarder.on_packet(Time::ZERO, producer, &mut data, &mut out).unwrap();
        }
        let order = Order::of(&forwarder);
        assert_eq!((order.len(), order.is_empty()), (names.len(), false));
        for look_up in LOOK_UPS {
            for name in &names {
                let hash = forwarder.hash_of(name.as_name());
                let slot = found(&forwarder, look_up, &order, hash, name.as_name()).unwrap();
                assert_eq!(forwarder.content_store.entry(slot).unwrap().name(), name.as_name(), "{look_up:?}");
            }
            let none: Name = "/a/none".parse().unwrap();
            assert_eq!(found(&forwarder, look_up, &order, forwarder.hash_of(none.as_name()), none.as_name()), None);
            let mut frames: Vec<Vec<u8>> =
                names.iter().map(|name| InterestBuilder::new(name.clone()).nonce(7).build()).collect();
            let answered = answer(&mut forwarder, Time::ZERO, consumer, (look_up, &order), frames.iter_mut(), &mut out);
            assert_eq!(answered, names.len(), "{look_up:?}");
        }
    }
}
