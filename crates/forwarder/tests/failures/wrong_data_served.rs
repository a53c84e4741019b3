//! Data that does not answer the Interest, and cached Data that should have.

use super::world::{Packet, Sent, World, data, faces, interest, name};
use larder_forwarder::DropReason;
use larder_packet::{Data, Interest, LpHeader, PitToken, encode_lp};
use larder_units::ByteSize;
use std::time::Duration;

fn contents(sent: &[Sent]) -> Vec<Vec<u8>> {
    let content = |sent: &Sent| match &sent.packet {
        Packet::Data { content, .. } => Some(content.clone()),
        _ => None,
    };
    sent.iter().filter_map(content).collect()
}

#[test]
fn one_interest_goes_out_and_every_consumer_gets_the_data_with_its_token() {
    let mut world = World::new();
    let (one, two, producer) = (world.local(), world.remote(), world.local());
    world.route("/a", producer, 0);
    let with_token = |token: &[u8], nonce| {
        let mut frame = Vec::new();
        let header = LpHeader {
            pit_token: PitToken::new(token),
            ..LpHeader::default()
        };
        encode_lp(&header, &interest("/a/b", nonce).build(), &mut frame);
        frame
    };
    assert_eq!(faces(&world.sent(one, with_token(&[1], 1))), [producer]);
    assert_eq!(faces(&world.sent(two, with_token(&[2, 2], 2))), []);
    let sent = world.data(producer, "/a/b");
    assert_eq!(faces(&sent), [one, two]);
    assert_eq!(sent[0].token.as_deref(), Some(&[1][..]));
    assert_eq!(sent[1].token.as_deref(), Some(&[2, 2][..]));
}

#[test]
fn unsolicited_data_is_neither_served_nor_stored() {
    let mut world = World::new();
    let (consumer, producer, stranger) = (world.local(), world.local(), world.remote());
    world.route("/a", producer, 0);
    assert_eq!(
        world.frame(stranger, data("/a", b"poison", None)),
        Err(DropReason::Unsolicited)
    );
    world.interest(consumer, "/a", 1);
    assert_eq!(
        world.frame(stranger, data("/a", b"poison", None)),
        Err(DropReason::Unsolicited),
        "it was not asked"
    );
    assert_eq!(
        contents(&world.sent(producer, data("/a", b"true", None))),
        [b"true"]
    );
    assert_eq!(contents(&world.interest(consumer, "/a", 2)), [b"true"]);
}

#[test]
fn longer_data_answers_only_who_can_be_prefix() {
    let mut world = World::new();
    let (exact, prefix, producer) = (world.local(), world.local(), world.local());
    world.route("/", producer, 0);
    world.interest(exact, "/a", 1);
    world.sent(prefix, interest("/a", 2).can_be_prefix(true).build());
    assert_eq!(faces(&world.data(producer, "/a/b/c")), [prefix]);
    assert_eq!(faces(&world.data(producer, "/a")), [exact]);
    // Both from the Content Store now.
    assert_eq!(contents(&world.interest(exact, "/a/b/c", 3)).len(), 1);
    assert_eq!(
        contents(&world.sent(exact, interest("/a/b", 4).can_be_prefix(true).build())).len(),
        1
    );
    assert_eq!(contents(&world.interest(exact, "/a/b", 5)).len(), 0);
    // A sibling whose bytes start alike is under no prefix of it.
    assert_eq!(
        contents(&world.sent(exact, interest("/a/b/cc", 6).can_be_prefix(true).build())).len(),
        0
    );
}

#[test]
fn what_was_stored_long_ago_is_found_by_its_prefix_soon_after_the_first_who_asks_for_one() {
    let mut world = World::with("fifo", ByteSize::from_mib(8));
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    let store = |world: &mut World, name: &str| {
        world.interest(consumer, name, 1);
        world.data(producer, name);
    };
    store(&mut world, "/old/1");
    for i in 0..2000 {
        store(&mut world, &format!("/newer/{i}"));
    }
    let by_prefix = |nonce| interest("/old", nonce).can_be_prefix(true).build();
    assert_eq!(
        faces(&world.sent(consumer, by_prefix(2))),
        [producer],
        "a miss: its name waits"
    );
    world.pass(Duration::from_secs(5));
    // Looked up, not stored: each enters two names of those that wait.
    for i in 0..1000 {
        assert_eq!(
            contents(&world.interest(consumer, &format!("/newer/{i}"), 3)).len(),
            1
        )
    }
    assert_eq!(contents(&world.sent(consumer, by_prefix(4))).len(), 1);
}

#[test]
fn stale_data_does_not_satisfy_must_be_fresh() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    let fresh = |nonce| interest("/a", nonce).must_be_fresh(true).build();
    world.sent(consumer, fresh(1));
    let second = Some(Duration::from_secs(1));
    world.sent(producer, data("/a", b"old", second));
    world.pass(Duration::from_millis(999));
    assert_eq!(contents(&world.sent(consumer, fresh(2))), [b"old"]);
    world.pass(Duration::from_millis(1));
    assert_eq!(faces(&world.sent(consumer, fresh(3))), [producer]);
    assert_eq!(
        contents(&world.sent(producer, data("/a", b"new", None))),
        [b"new"]
    );
    assert_eq!(
        faces(&world.sent(consumer, fresh(4))),
        [producer],
        "no FreshnessPeriod is never fresh"
    );
    world.sent(producer, data("/a", b"new", None));
    assert_eq!(
        contents(&world.interest(consumer, "/a", 5)),
        [b"new"],
        "and the old one is gone"
    );
}

#[test]
fn an_implicit_digest_is_met_exactly() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    let (right, wrong) = (data("/a", b"right", None), data("/a", b"wrong", None));
    let asked = |nonce| {
        let mut full = name("/a");
        full.push(1, &Data::decode(&right).unwrap().implicit_digest());
        larder_packet::InterestBuilder::new(full)
            .nonce(nonce)
            .build()
    };
    assert_eq!(faces(&world.sent(consumer, asked(1))), [producer]);
    assert!(contents(&world.sent(producer, wrong.clone())).is_empty());
    assert_eq!(contents(&world.sent(producer, right.clone())), [b"right"]);
    assert_eq!(
        contents(&world.sent(consumer, asked(2))),
        [b"right"],
        "from the Content Store"
    );
    // Other Data of the name replaces it, and is no answer.
    world.sent(consumer, interest("/a", 3).must_be_fresh(true).build());
    world.sent(producer, wrong);
    assert_eq!(faces(&world.sent(consumer, asked(4))), [producer]);
}

#[test]
fn data_marked_no_cache_is_forwarded_and_not_stored() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    world.interest(consumer, "/a", 1);
    let mut frame = Vec::new();
    let header = LpHeader {
        no_cache: true,
        congestion_mark: Some(1),
        ..LpHeader::default()
    };
    encode_lp(&header, &data("/a", b"x", None), &mut frame);
    let sent = world.sent(producer, frame);
    assert_eq!(
        (faces(&sent), sent[0].ban),
        (vec![consumer], Some(1)),
        "the congestion mark goes on downstream"
    );
    assert_eq!(faces(&world.interest(consumer, "/a", 2)), [producer]);
}

#[test]
fn the_default_filter_stores_freely_while_there_is_room_and_then_what_is_asked_for_twice() {
    let mut world = World::with("filter(theta=2)+fifo", ByteSize::from_bytes(4 * 300));
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    let mut nonce = 0;
    let mut fetch = |world: &mut World, name: &str| {
        nonce += 1;
        let from_store = !contents(&world.interest(consumer, name, nonce)).is_empty();
        if !from_store {
            world.data(producer, name);
        }
        from_store
    };
    for i in 0..20 {
        assert!(!fetch(&mut world, &format!("/once/{i}")));
    }
    let rejected = world.forwarder.stats().content_store.rejections;
    assert!(rejected >= 14, "{rejected}");
    assert!(!fetch(&mut world, "/twice"));
    assert!(
        !fetch(&mut world, "/twice"),
        "the second request is the one that admits"
    );
    assert!(fetch(&mut world, "/twice"));
}

#[test]
fn fragments_are_put_together_before_they_are_looked_at() {
    let mut world = World::new();
    let (consumer, producer) = (world.remote(), world.local());
    world.route("/", producer, 0);
    let long = format!("/{}", "x".repeat(500));
    let mut frames = Vec::new();
    let mut fragmenter = larder_packet::Fragmenter::new(77);
    let header = LpHeader {
        pit_token: PitToken::new(&[9]),
        ..LpHeader::default()
    };
    let packet = interest(&long, 1).hop_limit(9).build();
    fragmenter
        .fragment(&header, &packet, 200, |frame| frames.push(frame.to_vec()))
        .unwrap();
    assert!(frames.len() > 2);
    let mut sent = Vec::new();
    for frame in frames {
        sent.extend(world.frame(consumer, frame).unwrap());
    }
    assert_eq!(faces(&sent), [producer]);
    assert!(matches!(
        sent[0].packet,
        Packet::Interest {
            hop_limit: Some(8),
            ..
        }
    ));
    let sent = world.data(producer, &long);
    assert_eq!(
        (faces(&sent), sent[0].token.as_deref()),
        (vec![consumer], Some(&[9][..]))
    );
}

#[test]
fn interests_that_differ_in_selectors_are_told_apart() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    let build = |nonce, prefix, fresh| {
        interest("/a", nonce)
            .can_be_prefix(prefix)
            .must_be_fresh(fresh)
            .build()
    };
    for (nonce, (prefix, fresh)) in [(false, false), (true, false), (false, true), (true, true)]
        .into_iter()
        .enumerate()
    {
        let frame = build(nonce as u32, prefix, fresh);
        assert!(Interest::decode(&frame).is_ok());
        assert_eq!(faces(&world.sent(consumer, frame)), [producer]);
    }
    assert_eq!(world.forwarder.stats().pit_entries, 4);
    assert_eq!(
        faces(&world.data(producer, "/a")),
        [consumer],
        "one Data answers them all"
    );
    let stats = world.forwarder.stats();
    assert_eq!((stats.pit_entries, stats.satisfied), (0, 4));
}

#[test]
fn data_that_came_for_another_interest_answers_everyone_who_waits_for_it() {
    let mut world = World::new();
    let (one, two, three) = (world.local(), world.local(), world.local());
    let (dead, alive) = (world.remote(), world.remote());
    world.route("/a", alive, 0);
    world.route("/a/1", dead, 0);
    assert_eq!(faces(&world.interest(one, "/a/1", 1)), [dead]);
    assert_eq!(
        faces(&world.sent(two, interest("/a", 2).can_be_prefix(true).build())),
        [alive]
    );
    let sent = world.data(alive, "/a/1");
    assert!(
        faces(&sent).contains(&one) && faces(&sent).contains(&two),
        "{sent:?}"
    );
    assert_eq!(contents(&world.interest(three, "/a/1", 3)).len(), 1);
}

#[test]
fn every_consumer_counts_answered_or_not() {
    let mut world = World::new();
    let (one, two, producer) = (world.local(), world.local(), world.local());
    world.route("/a", producer, 0);
    for (name, answered) in [("/a/1", true), ("/a/2", false), ("/b", false)] {
        world.interest(one, name, 1);
        world.interest(two, name, 2);
        if answered {
            world.data(producer, name);
        }
    }
    world.pass(Duration::from_secs(10));
    let stats = world.forwarder.stats();
    assert_eq!((stats.satisfied, stats.unsatisfied), (2, 4));
}
