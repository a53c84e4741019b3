//! The places of connections from other machines: selects the connection to close when there are
//! too many.
//!
//! Anyone can open thousands of connections, most cheaply from one address. So a new connection
//! always gets a place, and while there are too many, the least entitled one is closed for it. A
//! connection that has sent no whole packet is less entitled than others, but a quarter of the
//! places is reserved for such connections, because every connection is one at first. Among equals,
//! source prefixes share the places fairly (`fair_share.rs`), and the connection of a prefix that
//! was silent longest is closed first.
//!
//! A connection of a route, of management or of the configuration is never closed for another. If
//! only such ones are left, new connections are refused.
//!
//! The order is computed for many connections at once, so it costs some 10 µs per new connection.

use crate::limits;
use crate::ndn::guard::fair_share::{Claim, sort_by_entitlement};
use foldhash::fast::FixedState;
use larder_forwarder::FaceId;
use larder_units::Time;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The time of a connection's last whole packet. The thread that reads it writes it; the first
/// thread, which has the places, reads it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity(Arc<AtomicU64>);

impl Activity {
    /// Records a whole packet.
    pub(crate) fn packet_at(&self, now: Time) {
        self.0.store(now.nanos().max(1), Ordering::Relaxed);
    }

    /// Returns the time of the last whole packet, if there was one.
    pub(crate) fn last_packet(&self) -> Option<Time> {
        let nanos = self.0.load(Ordering::Relaxed);
        (nanos > 0).then_some(Time::from_nanos(nanos))
    }
}

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) address: IpAddr,
    pub(crate) accepted: Time,
    pub(crate) activity: Activity,
}

/// The accepted connections from other machines.
#[derive(Debug, Default)]
pub(crate) struct StreamPlaces {
    pub(crate) places: HashMap<FaceId, Place, FixedState>,
    /// The least entitled connections, the least entitled one last, with their activity at that
    /// time.
    pub(crate) next: Vec<(FaceId, Option<Time>)>,
    pub(crate) ranked: Time,
}

impl StreamPlaces {
    /// Adds an accepted connection.
    pub(crate) fn insert(&mut self, now: Time, face: FaceId, address: IpAddr) -> Activity {
        let activity = Activity::default();
        self.places.insert(
            face,
            Place {
                address,
                accepted: now,
                activity: activity.clone(),
            },
        );
        activity
    }

    pub(crate) fn remove(&mut self, face: FaceId) {
        self.places.remove(&face);
    }

    /// Returns the least entitled connection if there are `most` places. `may_go` selects those
    /// that may be closed.
    pub(crate) fn least_entitled(
        &mut self,
        now: Time,
        most: usize,
        may_go: impl Fn(FaceId) -> bool,
    ) -> Option<FaceId> {
        // An old order may be wrong by now.
        if now.since(self.ranked) < limits::ENTITLEMENT
            && let Some(face) = self.next_unchanged(&may_go)
        {
            return Some(face);
        }
        self.ranked = now;
        self.rank(most, &may_go);
        // Another thread may read a packet of each at any time. The new connection needs a place
        // now.
        let least = self.next.last().map(|(face, _)| *face);
        self.next_unchanged(may_go).or(least)
    }

    pub(crate) fn next_unchanged(&mut self, may_go: impl Fn(FaceId) -> bool) -> Option<FaceId> {
        while let Some((face, last_packet)) = self.next.pop() {
            let unchanged = |place: &Place| place.activity.last_packet() == last_packet;
            if self.places.get(&face).is_some_and(unchanged) && may_go(face) {
                return Some(face);
            }
        }
        None
    }

    pub(crate) fn rank(&mut self, most: usize, may_go: impl Fn(FaceId) -> bool) {
        let (mut silent, mut active) = (Vec::new(), Vec::new());
        for (face, place) in self.places.iter().filter(|(face, _)| may_go(**face)) {
            let last_packet = place.activity.last_packet();
            let claims = if last_packet.is_none() {
                &mut silent
            } else {
                &mut active
            };
            claims.push(Claim::new(
                (*face, last_packet),
                place.address,
                last_packet.unwrap_or(place.accepted),
            ));
        }
        let too_many_silent = silent.len() > most / 4 || active.is_empty();
        let mut claims = if too_many_silent { silent } else { active };
        sort_by_entitlement(&mut claims);
        let kept = claims.len().saturating_sub((most / 32).max(1));
        self.next = claims
            .into_iter()
            .skip(kept)
            .map(|claim| claim.of)
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;
    use std::cell::Cell;
    use std::time::Duration;

    const MOST: usize = 400;

    struct World {
        now: Time,
        places: StreamPlaces,
        activities: HashMap<FaceId, Activity>,
        with_routes: Vec<FaceId>,
        accepted: u64,
        closed: Vec<FaceId>,
    }

    impl World {
        fn new() -> World {
            World {
                now: Time::from_secs(1),
                places: StreamPlaces::default(),
                activities: HashMap::new(),
                with_routes: Vec::new(),
                accepted: 0,
                closed: Vec::new(),
            }
        }

        fn accept(&mut self, address: [u8; 4]) -> FaceId {
            self.now += Duration::from_micros(200);
            let World {
                places,
                with_routes,
                now,
                ..
            } = self;
            if places.places.len() == MOST {
                let least = places
                    .least_entitled(*now, MOST, |face| !with_routes.contains(&face))
                    .unwrap();
                assert!(!with_routes.contains(&least), "a route loses its face");
                places.remove(least);
                self.closed.push(least);
            }
            self.accepted += 1;
            let face = FaceId(256 + self.accepted);
            let activity = self.places.insert(self.now, face, address.into());
            self.activities.insert(face, activity);
            face
        }

        /// A packet on a connection. Returns false if it is closed.
        fn packet(&mut self, face: FaceId) -> bool {
            self.activities[&face].packet_at(self.now);
            self.places.places.contains_key(&face)
        }
    }

    /// The behaviour of a hostile connection.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Crowding {
        /// Nothing, or a part of a packet, from one address.
        Silent,
        /// One packet, from one address.
        Active,
        /// Nothing, from many networks.
        Wide,
    }

    #[test]
    fn a_crowd_shuts_out_newcomers_or_closes_those_with_history() {
        for (seed, crowd) in [
            (1, Crowding::Silent),
            (2, Crowding::Active),
            (3, Crowding::Wide),
        ] {
            let mut random = Streams::new(seed).stream("crowd");
            let mut world = World::new();
            // A silent producer, and some clients with history in the network of the crowd.
            let producer = world.accept([192, 0, 2, 1]);
            world.with_routes.push(producer);
            let old: Vec<FaceId> = (0..20)
                .map(|host| world.accept([10, 98, 7, host]))
                .collect();
            for face in &old {
                assert!(world.packet(*face));
            }
            let mut newcomers = Vec::new();
            for number in 0..10_000 {
                let [_, b, c, d] = (random.below(1 << 24) as u32).to_be_bytes();
                let face = world.accept(if crowd == Crowding::Wide {
                    [b | 1, c, d, 9]
                } else {
                    [10, 98, 7, 200]
                });
                if crowd == Crowding::Active {
                    world.packet(face);
                }
                if number % 100 == 0 {
                    newcomers.push(world.accept([203, 0, (number / 100) as u8, 1]));
                }
                // Its first packet comes 10 ms later.
                if number % 100 == 50 {
                    let newest = newcomers[newcomers.len() - 1];
                    assert!(
                        world.packet(newest),
                        "{crowd:?}: a newcomer had no time for a packet"
                    );
                    assert!(
                        old.iter().all(|face| world.packet(*face)),
                        "{crowd:?}: a client was displaced"
                    );
                }
            }
            assert!(
                newcomers.iter().all(|face| world.packet(*face)),
                "{crowd:?}: a newcomer was displaced"
            );
            assert!(world.packet(producer));
            assert_eq!(world.places.places.len(), MOST);
            assert_eq!(
                world.closed.len() as u64,
                world.accepted - MOST as u64,
                "one is closed for one"
            );
        }
    }

    #[test]
    fn a_connection_that_has_just_become_active_is_closed_as_a_silent_one() {
        let mut world = World::new();
        let faces: Vec<FaceId> = (0..MOST).map(|_| world.accept([10, 0, 0, 1])).collect();
        world.accept([10, 0, 0, 1]);
        assert_eq!(
            world.closed,
            [faces[0]],
            "the oldest of the silent goes first"
        );
        assert!(world.packet(faces[1]));
        world.accept([10, 0, 0, 1]);
        assert_eq!(world.closed, [faces[0], faces[2]]);
    }

    /// Failure: another thread reads a packet of the least entitled connection while the order is
    /// computed. Then the order has nobody to close, and the new connection is refused.
    #[test]
    fn a_packet_in_the_middle_of_the_ranking_shuts_out_a_newcomer() {
        // So few that the order has one connection.
        const FEW: usize = 40;
        let mut world = World::new();
        let faces: Vec<FaceId> = (0..FEW).map(|_| world.accept([10, 0, 0, 1])).collect();
        let World {
            places,
            activities,
            now,
            ..
        } = &mut world;
        let (is_ranked, is_active) = (Cell::new(false), Cell::new(false));
        let may_go = |face| {
            if is_ranked.get() && !is_active.replace(true) {
                activities[&faces[0]].packet_at(*now);
            }
            is_ranked.set(is_ranked.get() || face == faces[0]);
            true
        };
        let least = places.least_entitled(*now, FEW, may_go);
        assert!(is_active.get(), "the packet came too late for this test");
        assert_eq!(least, Some(faces[0]));
    }

    #[test]
    fn a_connection_is_closed_though_all_have_routes() {
        let mut world = World::new();
        let faces: Vec<FaceId> = (0..MOST).map(|_| world.accept([10, 0, 0, 1])).collect();
        assert_eq!(
            world.places.least_entitled(world.now, MOST, |_| false),
            None
        );
        assert_eq!(
            world
                .places
                .least_entitled(world.now, MOST, |face| face == faces[7]),
            Some(faces[7])
        );
    }
}
