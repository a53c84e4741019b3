//! A cache that learns a wrong place on the path, or reports a place without a request.

use crate::world::World;
use larder_forwarder::{CHILD_INHERIT, FaceId, Route};
use larder_packet::{
    DataBuilder, DigestSigner, InterestBuilder, LpHeader, LpPacket, Name, PathRecord, encode_lp,
};
use larder_units::ByteSize;

/// What the forwarder sends to `face` for this frame tells of the path.
fn told(
    world: &mut World,
    from: FaceId,
    to: FaceId,
    packet: &[u8],
    path: Option<PathRecord>,
) -> Option<PathRecord> {
    let mut frame = Vec::new();
    encode_lp(
        &LpHeader {
            path,
            ..LpHeader::default()
        },
        packet,
        &mut frame,
    );
    world
        .forwarder
        .on_packet(world.now, from, &mut frame, &mut world.outbox)
        .expect("taken");
    let input = frame[world.outbox.input()].to_vec();
    let send = world.outbox.drain().next().expect("sent on");
    assert_eq!(send.face, to);
    let mut wire = Vec::new();
    send.write_stream(&input, &mut wire);
    LpPacket::decode(&wire).expect("well-formed").header.path
}

struct Place {
    world: World,
    consumer: FaceId,
    producer: FaceId,
}

fn place(centrality: Option<u64>) -> Place {
    let mut world = World::new();
    let (consumer, producer) = (world.remote(), world.remote());
    let route = Route {
        face: producer,
        origin: 0,
        cost: 0,
        flags: CHILD_INHERIT,
        expires: None,
    };
    world
        .forwarder
        .add_route(&"/a".parse().unwrap(), route)
        .unwrap();
    if let Some(centrality) = centrality {
        world.forwarder.set_centrality(centrality);
    }
    Place {
        world,
        consumer,
        producer,
    }
}

fn interest(name: &Name) -> Vec<u8> {
    InterestBuilder::new(name)
        .nonce(name.to_string().len() as u32)
        .build()
}

#[test]
fn the_place_is_counted_on_both_ways_and_from_a_hit() {
    let Place {
        mut world,
        consumer,
        producer,
    } = place(Some(5));
    let (name, mib) = ("/a/1".parse::<Name>().unwrap(), 1 << 20);
    let asked = Some(PathRecord {
        caches: 2,
        capacity: 10,
        centrality: 3,
    });
    let up = told(&mut world, consumer, producer, &interest(&name), asked);
    assert_eq!(
        up,
        Some(PathRecord {
            caches: 3,
            capacity: 10 + mib,
            centrality: 5
        })
    );
    let data = DataBuilder::new(&name).build(&DigestSigner).unwrap();
    let answered = Some(PathRecord {
        caches: 1,
        capacity: 0,
        centrality: 9,
    });
    let down = told(&mut world, producer, consumer, &data, answered);
    assert_eq!(
        down,
        Some(PathRecord {
            caches: 2,
            capacity: 0,
            centrality: 9
        })
    );
    // Stored now: the path begins here, and its greatest centrality is of those behind.
    let mut again = interest(&name);
    let nonce = again.len() - 1;
    again[nonce] ^= 1;
    let hit = told(&mut world, consumer, consumer, &again, asked);
    assert_eq!(
        hit,
        Some(PathRecord {
            caches: 0,
            capacity: 0,
            centrality: 3
        })
    );
}

/// Failure: Data of an application, which sends no record, does not tell how central the caches are
/// that it will pass.
#[test]
fn the_path_of_an_applications_data_has_no_central_cache() {
    let Place {
        mut world,
        consumer,
        producer,
    } = place(Some(5));
    for (name, behind, centrality) in [("/a/1", 3, 5), ("/a/2", 7, 7)] {
        let name = name.parse::<Name>().unwrap();
        let asked = PathRecord {
            caches: 2,
            capacity: 10,
            centrality: behind,
        };
        told(
            &mut world,
            consumer,
            producer,
            &interest(&name),
            Some(asked),
        );
        let data = DataBuilder::new(&name).build(&DigestSigner).unwrap();
        let down = told(&mut world, producer, consumer, &data, None);
        assert_eq!(
            down,
            Some(PathRecord {
                caches: 1,
                capacity: 0,
                centrality
            })
        );
    }
}

/// Failure: a router whose Content Store has no room counts as a cache, or its capacity stays that
/// of its start.
#[test]
fn a_router_without_room_counts_as_a_cache() {
    let Place {
        mut world,
        consumer,
        producer,
    } = place(Some(5));
    let asked = Some(PathRecord {
        caches: 2,
        capacity: 10,
        centrality: 3,
    });
    let answered = Some(PathRecord {
        caches: 1,
        capacity: 0,
        centrality: 9,
    });
    for (number, bytes) in [(1, 0), (2, 1 << 10), (3, 0)] {
        let name = format!("/a/{number}").parse::<Name>().unwrap();
        world
            .forwarder
            .set_capacity(world.now, ByteSize::from_bytes(bytes));
        let is_cache = bytes > 0;
        let joined = PathRecord {
            caches: 3,
            capacity: 10 + bytes,
            centrality: 5,
        };
        let up = told(&mut world, consumer, producer, &interest(&name), asked);
        assert_eq!(
            up,
            if is_cache { Some(joined) } else { asked },
            "{bytes} bytes"
        );
        let data = DataBuilder::new(&name).build(&DigestSigner).unwrap();
        let passed = PathRecord {
            caches: 2,
            capacity: 0,
            centrality: 9,
        };
        let down = told(&mut world, producer, consumer, &data, answered);
        assert_eq!(
            down,
            if is_cache { Some(passed) } else { answered },
            "{bytes} bytes"
        );
    }
}

#[test]
fn absurd_records_are_no_harm() {
    let Place {
        mut world,
        consumer,
        producer,
    } = place(Some(1));
    let most = PathRecord {
        caches: u32::MAX,
        capacity: u64::MAX,
        centrality: u64::MAX,
    };
    let name = "/a/1".parse::<Name>().unwrap();
    assert_eq!(
        told(&mut world, consumer, producer, &interest(&name), Some(most)),
        Some(most)
    );
    let data = DataBuilder::new(&name).build(&DigestSigner).unwrap();
    let down = told(&mut world, producer, consumer, &data, Some(most)).unwrap();
    assert_eq!(down.caches, u32::MAX);
}

#[test]
fn who_was_not_told_to_tells_nothing() {
    let Place {
        mut world,
        consumer,
        producer,
    } = place(None);
    let record = Some(PathRecord {
        caches: 2,
        capacity: 10,
        centrality: 3,
    });
    let name = "/a/1".parse::<Name>().unwrap();
    assert_eq!(
        told(&mut world, consumer, producer, &interest(&name), record),
        None
    );
    let data = DataBuilder::new(&name).build(&DigestSigner).unwrap();
    assert_eq!(told(&mut world, producer, consumer, &data, record), None);
}

/// Failure: a policy that needs its place on the path never learns it, because the host has set no
/// centrality.
#[test]
fn a_policy_that_needs_the_path_gets_none() {
    let Place {
        mut world,
        consumer,
        producer,
    } = place(None);
    world
        .forwarder
        .set_policy(world.now, &"lcd+lru".parse().unwrap(), None)
        .unwrap();
    let name = "/a/1".parse::<Name>().unwrap();
    let up = told(&mut world, consumer, producer, &interest(&name), None).expect("a record");
    assert_eq!((up.caches, up.centrality), (1, 0));
}

/// Failure: an Interest that the strategy held back collects nothing, or an application gets what
/// it collected.
#[test]
fn an_interest_that_was_held_back_tells_nothing() {
    for is_application in [false, true] {
        let Place {
            mut world,
            consumer,
            producer,
        } = place(Some(5));
        let upstream = if is_application {
            world.local()
        } else {
            producer
        };
        let route = Route {
            face: upstream,
            origin: 0,
            cost: 0,
            flags: CHILD_INHERIT,
            expires: None,
        };
        world
            .forwarder
            .add_route(&"/b".parse().unwrap(), route)
            .unwrap();
        let shaped = "/localhost/nfd/strategy/hobhis/v=1/rate~1000/queue~8"
            .parse()
            .unwrap();
        world
            .forwarder
            .set_strategy(&"/".parse().unwrap(), &shaped)
            .unwrap();
        for number in 0..2 {
            let mut frame = Vec::new();
            let path = Some(PathRecord {
                caches: 2,
                capacity: 10,
                centrality: 3,
            });
            let name = format!("/b/{number}").parse().unwrap();
            encode_lp(
                &LpHeader {
                    path,
                    ..LpHeader::default()
                },
                &interest(&name),
                &mut frame,
            );
            world
                .forwarder
                .on_packet(world.now, consumer, &mut frame, &mut world.outbox)
                .expect("taken");
            assert_eq!(
                world.outbox.drain().count(),
                1 - number,
                "the second one waits"
            );
        }
        world.now = world.forwarder.next_timeout().unwrap();
        world.forwarder.on_timeout(world.now, &mut world.outbox);
        let send = world.outbox.drain().next().expect("released");
        let expected = PathRecord {
            caches: 3,
            capacity: 10 + (1 << 20),
            centrality: 5,
        };
        assert_eq!(
            (send.face, send.header.path),
            (upstream, (!is_application).then_some(expected))
        );
    }
}
