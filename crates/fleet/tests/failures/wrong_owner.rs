//! Failure: nodes do not agree which of them owns an object, or one owns too many.

use larder_fleet::{Members, Note, Outbox, Owners, PeerOffer, Word, owner_key};
use larder_units::Time;
use std::collections::HashMap;
use std::time::Duration;

fn offer(number: usize, capacity: u64, zone: &str) -> PeerOffer {
    PeerOffer {
        address: format!("10.0.0.{number}:7443").parse().unwrap(),
        capacity,
        zone: zone.to_owned(),
    }
}

/// Nodes `n0`, `n1`, ... with these capacities.
fn nodes(capacities: &[u64]) -> Vec<(String, PeerOffer)> {
    let node =
        |(number, capacity): (usize, &u64)| (format!("n{number}"), offer(number, *capacity, ""));
    capacities.iter().enumerate().map(node).collect()
}

/// The list as one of the nodes sees it.
fn seen_by(own: usize, nodes: &[(String, PeerOffer)]) -> Owners {
    let (name, offer) = &nodes[own];
    let others = nodes.iter().map(|(name, offer)| (&**name, offer));
    Owners::new(name, Some(offer), others)
}

fn keys() -> impl Iterator<Item = u64> {
    (0..40_000).map(|number| owner_key(&format!("http://example.com/{number}")))
}

/// Returns the owner by the list of a node.
fn owner(own: usize, owners: &Owners, key: u64) -> String {
    let first = owners.of(key).into_iter().next();
    first.map_or(format!("n{own}"), |peer| peer.node.to_string())
}

/// Failure: two nodes ask different owners; one node owns much more than its share; or a node asks
/// one that asks it back.
#[test]
fn nodes_disagree_about_an_owner() {
    let nodes = nodes(&[1 << 30, 1 << 30, 2 << 30, 1 << 30, 1 << 30]);
    let lists: Vec<Owners> = (0..nodes.len()).map(|own| seen_by(own, &nodes)).collect();
    let mut owned: HashMap<String, usize> = HashMap::new();
    for key in keys() {
        let all: Vec<String> = (0..nodes.len())
            .map(|own| owner(own, &lists[own], key))
            .collect();
        assert!(all.iter().all(|name| *name == all[0]), "{all:?}");
        *owned.entry(all[0].clone()).or_default() += 1;
        for (own, list) in lists.iter().enumerate() {
            let asked = list.of(key);
            assert!(asked.len() <= 2 && asked.iter().all(|peer| *peer.node != *nodes[own].0));
            assert_eq!(asked.is_empty(), all[0] == nodes[own].0);
        }
    }
    for (name, offer) in &nodes {
        let expected = 40_000.0 * (offer.capacity >> 30) as f64 / 6.0;
        let share = owned[name] as f64 / expected;
        assert!(
            (0.97..1.03).contains(&share),
            "{name} owns {share} of its share"
        );
    }
}

/// Failure: a node that leaves moves objects of others, or its own go to others than the successor
/// that was asked before.
#[test]
fn a_leaving_node_moves_the_objects_of_others() {
    let all = nodes(&[1 << 30; 5]);
    let rest: Vec<_> = all
        .iter()
        .filter(|(name, _)| name != "n3")
        .cloned()
        .collect();
    let (before, after) = (seen_by(0, &all), seen_by(0, &rest));
    let mut moved = 0;
    for key in keys() {
        let (asked, owner_after) = (before.of(key), owner(0, &after, key));
        if owner(0, &before, key) == "n3" {
            moved += 1;
            let successor = asked.get(1).map_or("n0", |peer| &peer.node);
            assert_eq!(owner_after, successor);
        } else {
            assert_eq!(owner_after, owner(0, &before, key));
        }
    }
    assert!((7_600..8_400).contains(&moved), "{moved} of 40,000");
}

/// Failure: another version computes other owners, so that each object has two of them while a
/// fleet is upgraded.
#[test]
fn another_version_has_other_owners() {
    let nodes = nodes(&[1 << 30; 5]);
    let list = seen_by(0, &nodes);
    let keys = (0..8).map(|number| owner_key(&format!("https://example.com/{number}?a=b")));
    let owners: Vec<String> = keys.map(|key| owner(0, &list, key)).collect();
    assert_eq!(owners.join(" "), "n1 n0 n0 n3 n3 n1 n0 n3");
}

/// Failure: a node asks one of another zone, one that offers nothing, or itself.
#[test]
fn a_node_asks_one_that_does_not_answer() {
    let (mut out, now) = (Outbox::new(), Time::from_secs(50));
    let mut members = Members::new("a", Some(offer(1, 100, "fra")));
    members.on_connected(now, &mut out);
    let lease = |node: &str, offer| Note {
        node: node.to_owned(),
        word: Word::Lease(offer),
    };
    let said: Vec<_> = out.drain().collect();
    assert!(format!("{said:?}").contains("10.0.0.1:7443"), "{said:?}");
    let before = members.offer_changes();
    members.on_note(now, &lease("b", None));
    members.on_note(now, &lease("c", Some(offer(3, 100, "ams"))));
    members.on_note(now, &lease("a", Some(offer(1, 100, "fra"))));
    assert_eq!(members.owners().count(), 0);
    members.on_note(now, &lease("d", Some(offer(4, 100, "fra"))));
    assert_eq!(members.owners().count(), 1);
    let with_d = members.offer_changes();
    assert!(with_d > before);
    members.on_note(now, &lease("d", Some(offer(4, 100, "fra"))));
    assert_eq!(members.offer_changes(), with_d, "a renewal is no change");
    // It has moved, and stops.
    members.on_note(now, &lease("d", Some(offer(5, 100, "fra"))));
    assert!(members.offer_changes() > with_d);
    let word = Word::Left;
    members.on_note(
        now,
        &Note {
            node: "d".to_owned(),
            word,
        },
    );
    assert_eq!(members.owners().count(), 0);
    // A node that offers nothing asks nobody.
    let mut silent = Members::new("a", None);
    silent.on_note(now, &lease("d", Some(offer(4, 100, ""))));
    assert_eq!(silent.owners().of(1), []);
}

/// Failure: an owner whose lease has ended without a word is asked for ever; or one that renews its
/// lease is forgotten.
#[test]
fn an_owner_without_a_lease_is_asked() {
    let (mut out, mut now) = (Outbox::new(), Time::from_secs(50));
    let mut members = Members::new("a", Some(offer(1, 100, "")));
    members.on_connected(now, &mut out);
    let lease = |node: &str, number| Note {
        node: node.to_owned(),
        word: Word::Lease(Some(offer(number, 100, ""))),
    };
    members.on_note(now, &lease("b", 2));
    members.on_note(now, &lease("c", 3));
    for _ in 0..10 {
        now += Duration::from_secs(1);
        members.on_note(now, &lease("a", 1));
        members.on_note(now, &lease("c", 3));
    }
    let list = members.owners();
    assert_eq!(list.count(), 1);
    assert!(
        (0..100)
            .flat_map(|key| list.of(key))
            .all(|peer| *peer.node == *"c")
    );
}

/// Failure: a lease of another version, or with an offer that is malformed, does not count; or its
/// offer does.
#[test]
fn an_odd_offer_ends_a_lease() {
    let read = |payload: &str| {
        let note = Note::decode("cdn", "$KV.larder_cdn_members.n1", None, payload.as_bytes());
        note.map(|note| note.word)
    };
    let good = offer(1, 1 << 30, "fra");
    let word = Word::Lease(Some(good));
    let node = "n1".to_owned();
    let payload = Note {
        node,
        word: word.clone(),
    }
    .payload();
    assert_eq!(read(std::str::from_utf8(&payload).unwrap()), Some(word));
    for odd in [
        r#"{"v":1}"#,
        r#"{"v":1,"peer":"nonsense","capacity":1,"zone":""}"#,
        r#"{"v":1,"peer":"10.0.0.1:1","capacity":-1,"zone":""}"#,
        r#"{"v":2,"peer":"10.0.0.1:1","capacity":1,"zone":""}"#,
        "nonsense",
        "",
    ] {
        assert_eq!(read(odd), Some(Word::Lease(None)), "{odd}");
    }
    let long = "z".repeat(65);
    let odd = format!(r#"{{"v":1,"peer":"10.0.0.1:1","capacity":1,"zone":"{long}"}}"#);
    assert_eq!(read(&odd), Some(Word::Lease(None)));
}
