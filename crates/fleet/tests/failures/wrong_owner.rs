//! Failure: nodes do not agree which of them owns an object, or one owns too many.

use larder_fleet::{
    Action, Lease, Members, Note, Outbox, Owners, PeerOffer, Standing, Word, by_ownership,
    owner_key,
};
use larder_units::Time;
use std::collections::HashMap;
use std::time::Duration;

fn offer(number: usize, capacity: u64, zone: &str) -> PeerOffer {
    PeerOffer {
        address: format!("10.0.{}.{}:7443", number / 256, number % 256)
            .parse()
            .unwrap(),
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

/// Failure: the nodes that are asked are not the first of the whole order, among many nodes of few
/// or many different capacities.
#[test]
fn a_node_that_is_asked_is_not_the_first() {
    for kinds in [1, 3, 300] {
        let capacities: Vec<u64> = (0..300).map(|number| (1 + number % kinds) << 30).collect();
        let nodes = nodes(&capacities);
        let list = seen_by(0, &nodes);
        for key in keys().take(2_000) {
            let of_all = nodes.iter().map(|(name, offer)| (&**name, offer));
            let mut expected = by_ownership(of_all, key);
            let own = expected.iter().position(|name| *name == "n0");
            expected.truncate(own.expect("it is one of them").min(2));
            let asked = list.of(key);
            let asked: Vec<&str> = asked.iter().map(|peer| &*peer.node).collect();
            assert_eq!(asked, expected, "{kinds} kinds");
        }
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

fn offering(offer: Option<PeerOffer>) -> Word {
    let standing = None;
    Word::Lease(Lease {
        offer,
        standing,
        renewal_seconds: None,
    })
}

/// Failure: a node asks one of another zone, one that offers nothing, or itself.
#[test]
fn a_node_asks_one_that_does_not_answer() {
    let (mut out, now) = (Outbox::new(), Time::from_secs(50));
    let mut members = Members::new("a", Some(offer(1, 100, "fra")));
    members.on_connected(now, &mut out);
    let lease = |node: &str, offer| Note {
        node: node.to_owned(),
        word: offering(offer),
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
        word: offering(Some(offer(number, 100, ""))),
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
    let word = offering(Some(good));
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
        assert_eq!(read(odd), Some(Word::Lease(Lease::default())), "{odd}");
    }
    let long = "z".repeat(65);
    let odd = format!(r#"{{"v":1,"peer":"10.0.0.1:1","capacity":1,"zone":"{long}"}}"#);
    assert_eq!(read(&odd), Some(Word::Lease(Lease::default())));
}

fn standing(instance: &str) -> Option<Standing> {
    Some(Standing {
        instance: instance.to_owned(),
        version: "0.1.0".to_owned(),
        state: "following".to_owned(),
        applied: 7,
        behind: 0,
    })
}

/// Failure: a name that two nodes have is not noticed, by them or by others, although purges seem
/// executed that one of them has not; or an upgrade, or a restart, is taken for a second node.
#[test]
fn two_nodes_of_one_name_count_as_one() {
    for name in ["a", "b"] {
        let (mut out, start) = (Outbox::new(), Time::from_secs(50));
        let mut members = Members::new("a", None);
        members.set_standing(start, standing("1").unwrap());
        members.on_connected(start, &mut out);
        let lease = |instance: &str| Note {
            node: name.to_owned(),
            word: Word::Lease(Lease {
                offer: None,
                standing: standing(instance),
                renewal_seconds: None,
            }),
        };
        let mut now = start;
        let mut hear = |members: &mut Members, instances: [&str; 2], seconds: u64| {
            for _ in 0..seconds / 2 {
                now += Duration::from_secs(2);
                for instance in instances {
                    members.on_note(now, &lease(instance));
                }
            }
            let mut list = members.list(now);
            list.find(|member| member.node == name).unwrap().are_two
        };
        assert!(!hear(&mut members, ["1", "1"], 600), "one node");
        assert!(!hear(&mut members, ["1", "2"], 20), "an upgrade");
        assert!(!hear(&mut members, ["2", "2"], 60));
        assert!(!hear(&mut members, ["2", "3"], 20), "another upgrade");
        assert!(hear(&mut members, ["2", "3"], 20));
        assert!(!hear(&mut members, ["3", "3"], 20), "it is gone");
    }
}

/// Failure: a node that was cut off from the servers, and hears another one of its name, believes
/// that it hears itself: its list of members counts as complete.
#[test]
fn another_node_of_the_name_is_the_own_voice() {
    let (mut out, mut now) = (Outbox::new(), Time::from_secs(50));
    let mut members = Members::new("a", None);
    members.set_standing(now, standing("1").unwrap());
    members.on_connected(now, &mut out);
    members.on_read(now, Some(Vec::new()));
    for _ in 0..20 {
        now += Duration::from_secs(2);
        let word = Word::Lease(Lease {
            offer: None,
            standing: standing("2"),
            renewal_seconds: None,
        });
        members.on_note(
            now,
            &Note {
                node: "a".to_owned(),
                word,
            },
        );
    }
    assert!(!members.is_complete(now));
}

/// Failure: what a node tells of itself reaches an operator's terminal as control characters, or
/// ends its lease.
#[test]
fn a_lease_tells_anything() {
    let read = |payload: &str| {
        let note = Note::decode("cdn", "$KV.larder_cdn_members.n1", None, payload.as_bytes());
        note.map(|note| note.word)
    };
    let text = |version: &str| {
        format!(
            r#"{{"v":1,"instance":"1","version":"{version}","state":"following","applied":7,"behind":0}}"#
        )
    };
    let told = Word::Lease(Lease {
        offer: None,
        standing: standing("1"),
        renewal_seconds: None,
    });
    assert_eq!(read(&text("0.1.0")), Some(told));
    let silent = Some(Word::Lease(Lease::default()));
    for odd in ["\\u001b[2J", "a b", &"9".repeat(65)] {
        assert_eq!(read(&text(odd)), silent, "{odd}");
    }
    // A broken half of a lease does not take the other one with it.
    let with = |peer: &str, version: &str| {
        let offer = format!(r#"{{"peer":"{peer}","capacity":1,"zone":"","v":"#);
        text(version).replace(r#"{"v":"#, &offer)
    };
    for (peer, version, found) in [
        ("10.0.0.1:1", "0.1.0", (true, true)),
        ("10.0.0.1:1", "a b", (true, false)),
        ("nonsense", "0.1.0", (false, true)),
    ] {
        let Some(Word::Lease(lease)) = read(&with(peer, version)) else {
            panic!("{peer} {version}");
        };
        let is = (lease.offer.is_some(), lease.standing.is_some());
        assert_eq!(is, found, "{peer} {version}");
    }
}

/// Failure: a node that has begun to follow the log, or does not any more, is shown otherwise for
/// two seconds; or one whose state changes at each moment floods the others.
#[test]
fn a_state_is_told_late() {
    let (mut out, start) = (Outbox::new(), Time::from_secs(50));
    let mut members = Members::new("a", None);
    let of_state = |state: &str| Standing {
        state: state.to_owned(),
        ..standing("1").unwrap()
    };
    members.set_standing(start, of_state("starting"));
    members.on_connected(start, &mut out);
    let mut leases = 0;
    let mut told = String::new();
    for step in 1..=10_000 {
        let now = start + Duration::from_millis(step);
        let state = if step < 5_000 || step % 2 == 0 {
            "following"
        } else {
            "lagging"
        };
        members.set_standing(now, of_state(state));
        members.on_timeout(now, &mut out);
        for action in out.drain() {
            if let Action::Say(Note { word, .. }) = action {
                leases += 1;
                told = format!("{word:?}");
            }
        }
        if step == 201 {
            assert!(told.contains("following"), "{told}");
        }
    }
    assert!((25..=35).contains(&leases), "{leases} in 10 s");
    // A node that executes many purges has some to execute at most moments.
    leases = 0;
    for step in 10_001..=20_000 {
        let now = start + Duration::from_millis(step);
        members.set_standing(now, of_state(["following", "catching"][step as usize % 2]));
        members.on_timeout(now, &mut out);
        leases += out
            .drain()
            .filter(|action| matches!(action, Action::Say(_)))
            .count();
    }
    assert!((4..=7).contains(&leases), "{leases} in 10 s");
}
