//! A Content Store that an operator cannot list, configure or erase by commands.

use crate::management::of_name;
use crate::world::{World, data, faces, name};
use larder_forwarder::FaceId;
use larder_packet::mgmt::{CsInfo, CsObject, Element};
use larder_packet::{ControlParameters, tlv, types};
use larder_units::ByteSize;
use std::time::Duration;

/// Failure: packets wait while one command walks the whole store, or the command reports that
/// everything is erased while something remains.
#[test]
fn an_erasure_passes_the_whole_store() {
    const OLDEST: u32 = 300;
    let mut world = World::with("fifo", ByteSize::from_mib(100));
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    for i in 0..OLDEST + larder_forwarder::limits::NAMES_ENTERED_TO_ERASE as u32 {
        let uri = format!("/{}/{i}", if i < OLDEST { "a" } else { "b" });
        world.interest(consumer, &uri, i);
        world.sent(producer, data(&uri, b"", None));
    }
    let mut erase = || {
        let done = world
            .command(consumer, "cs", "erase", &of_name("/a"))
            .body
            .unwrap();
        (done.count, done.capacity)
    };
    assert_eq!(erase(), (Some(0), Some(256)), "the oldest were looked at");
    assert_eq!(erase(), (Some(256), Some(256)));
    assert_eq!(erase(), (Some(44), None));
    assert_eq!(erase(), (Some(0), None));
}

/// Failure: each command walks the siblings of a deep prefix, which are stored beside its entries,
/// or no command walks to the end.
#[test]
fn an_erasure_passes_all_siblings_of_a_deep_prefix() {
    const SIBLINGS: u32 = larder_forwarder::limits::NAMES_PASSED_TO_ERASE as u32 * 5 / 4;
    const DEEP: &str = "/1/2/3/4/5/6/7/8/9/10/11/12";
    let mut world = World::with("fifo", ByteSize::from_mib(100));
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    let store = |world: &mut World, i: u32| {
        let uri = format!(
            "{DEEP}/{}/{i}",
            if i.is_multiple_of(512) { "a" } else { "b" }
        );
        world.interest(consumer, &uri, i);
        world.sent(producer, data(&uri, b"", None));
    };
    for i in 0..SIBLINGS {
        store(&mut world, i);
    }
    let erase = |world: &mut World, prefix: &str| {
        let done = world
            .command(
                consumer,
                "cs",
                "erase",
                &of_name(&format!("{DEEP}{prefix}")),
            )
            .body
            .unwrap();
        (done.count.unwrap(), done.capacity)
    };
    assert_eq!(
        erase(&mut world, "/none").1,
        Some(256),
        "some names wait for the tree"
    );
    let (first, more) = erase(&mut world, "/a");
    assert!(
        (100..155).contains(&first) && more == Some(256),
        "{first} of 160: four of five names are looked at"
    );
    // What comes meanwhile is none of the command's business, and harms nothing.
    store(&mut world, SIBLINGS);
    let (mut erased, mut commands) = (first, 1);
    while let (count, Some(_)) = erase(&mut world, "/a") {
        (erased, commands) = (erased + count, commands + 1);
        assert!(commands < 4, "{erased} of 160 are erased");
    }
    assert!(stored(&mut world, consumer, &format!("{DEEP}/a")).len() <= 1);
    assert_eq!(
        erase(&mut world, "/none").0,
        0,
        "another prefix begins at its own beginning"
    );
}

/// Failure: a client's erasure begins where another client's stopped, and reports that everything
/// is erased.
#[test]
fn an_erasure_goes_on_where_another_client_stopped() {
    const SIBLINGS: u32 = larder_forwarder::limits::NAMES_PASSED_TO_ERASE as u32 * 5 / 4;
    const DEEP: &str = "/1/2/3/4/5/6/7/8/9/10/11/12";
    let mut world = World::with("fifo", ByteSize::from_mib(100));
    let [one, two, producer] = std::array::from_fn(|_| world.local());
    world.route("/", producer, 0);
    for i in 0..SIBLINGS {
        let uri = format!(
            "{DEEP}/{}/{i}",
            if i.is_multiple_of(512) { "a" } else { "b" }
        );
        world.interest(one, &uri, i);
        world.sent(producer, data(&uri, b"", None));
    }
    let erase = |world: &mut World, from: FaceId| {
        let done = world
            .command(from, "cs", "erase", &of_name(&format!("{DEEP}/a")))
            .body
            .unwrap();
        (done.count.unwrap(), done.capacity)
    };
    // A first one enters the names that wait for the tree, and passes nothing that counts.
    while !matches!(erase(&mut world, one), (_, None)) {}
    let mut nonce = SIBLINGS;
    let mut again = |world: &mut World| {
        for i in (0..SIBLINGS).step_by(512) {
            let uri = format!("{DEEP}/a/{i}");
            nonce += 1;
            world.interest(one, &uri, nonce);
            world.sent(producer, data(&uri, b"", None));
        }
    };
    again(&mut world);
    let (first, more) = erase(&mut world, one);
    assert!(
        first > 0 && more.is_some(),
        "{first}: it stopped on its way"
    );
    // What it has passed is stored once more; another client's erasure sees that.
    again(&mut world);
    while !matches!(erase(&mut world, two), (_, None)) {}
    assert_eq!(stored(&mut world, two, &format!("{DEEP}/a")).len(), 0);
    // The first client's goes on where it stopped, whatever others erased meanwhile.
    again(&mut world);
    assert_eq!(erase(&mut world, one).1, None, "it began anew");
}

#[test]
fn the_content_store_is_configured_and_erased() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    for i in 0..300 {
        let uri = format!("/a/{i}");
        world.interest(consumer, &uri, i);
        world.sent(producer, data(&uri, b"x", Some(Duration::from_secs(60))));
    }
    let info = |world: &mut World| {
        let (content, _) = world.dataset(consumer, &name("/localhost/nfd/cs/info"));
        CsInfo::decode_all(&content).unwrap().remove(0)
    };
    let before = info(&mut world);
    assert_eq!(
        (before.entries, before.flags, before.capacity),
        (300, 3, 128),
        "1 MiB is 128 packets of 8 KiB"
    );
    let done = world
        .command(consumer, "cs", "erase", &of_name("/a"))
        .body
        .unwrap();
    assert_eq!(
        (done.count, done.capacity),
        (Some(256), Some(256)),
        "and there are more"
    );
    let done = world
        .command(consumer, "cs", "erase", &of_name("/a"))
        .body
        .unwrap();
    assert_eq!((done.count, done.capacity), (Some(44), None));
    assert_eq!(info(&mut world).entries, 0);

    // Where some of the many are to go, they go, and no more is promised.
    for i in 0..20 {
        let uri = format!("/a/{i}");
        world.interest(consumer, &uri, 2000 + i);
        world.sent(producer, data(&uri, b"x", Some(Duration::from_secs(60))));
    }
    let some = ControlParameters {
        count: Some(15),
        ..of_name("/a")
    };
    let done = world.command(consumer, "cs", "erase", &some).body.unwrap();
    assert_eq!((done.count, done.capacity), (Some(15), None));
    let done = world.command(consumer, "cs", "erase", &some).body.unwrap();
    assert_eq!((done.count, done.capacity), (Some(5), None));

    let not_served = ControlParameters {
        flags: Some(0),
        mask: Some(2),
        ..ControlParameters::default()
    };
    world.interest(consumer, "/b", 1000);
    world.sent(producer, data("/b", b"x", Some(Duration::from_secs(60))));
    assert_eq!(
        faces(&world.interest(consumer, "/b", 1001)),
        [consumer],
        "a hit"
    );
    let done = world
        .command(consumer, "cs", "config", &not_served)
        .body
        .unwrap();
    assert_eq!((done.flags, done.mask), (Some(1), None));
    assert_eq!(faces(&world.interest(consumer, "/b", 1002)), [producer]);
    let not_admitted = ControlParameters {
        flags: Some(2),
        mask: Some(3),
        ..ControlParameters::default()
    };
    world.command(consumer, "cs", "config", &not_admitted);
    world.interest(consumer, "/c", 1003);
    world.sent(producer, data("/c", b"x", Some(Duration::from_secs(60))));
    assert_eq!(
        faces(&world.interest(consumer, "/c", 1004)),
        [producer],
        "it was not stored"
    );
    let smaller = ControlParameters {
        capacity: Some(0),
        ..ControlParameters::default()
    };
    world.command(consumer, "cs", "config", &smaller);
    assert_eq!(info(&mut world).entries, 0);
    let zero = ControlParameters {
        count: Some(0),
        ..of_name("/a")
    };
    assert_eq!(
        world.command(consumer, "cs", "erase", &zero).status_code,
        400
    );
}

fn stored(world: &mut World, face: FaceId, prefix: &str) -> Vec<CsObject> {
    let mut asked = name("/localhost/nfd/cs/query");
    let mut argument = Vec::new();
    tlv::write_tlv(&mut argument, types::NAME, name(prefix).as_bytes());
    asked.push_generic(&argument);
    let (content, _) = world.dataset(face, &asked);
    CsObject::decode_all(&content).unwrap()
}

#[test]
fn what_is_cached_is_listed_with_age_and_hits() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    for uri in ["/a/1", "/a/2", "/b"] {
        world.interest(consumer, uri, 1);
        world.sent(producer, data(uri, b"x", Some(Duration::from_secs(5))));
    }
    world.interest(consumer, "/a/2", 2);
    world.pass(Duration::from_secs(2));
    let objects = stored(&mut world, consumer, "/a");
    let told: Vec<_> = objects
        .iter()
        .map(|object| (object.name.to_string(), object.hits))
        .collect();
    assert_eq!(told, [("/a/1".to_owned(), 0), ("/a/2".to_owned(), 1)]);
    assert_eq!(
        (objects[0].age, objects[0].fresh),
        (Duration::from_secs(2), Some(Duration::from_secs(3)))
    );
    assert_eq!(
        objects[0].bytes as usize,
        data("/a/1", b"x", Some(Duration::from_secs(5))).len()
    );
    assert_eq!(stored(&mut world, consumer, "/").len(), 3);
    world.pass(Duration::from_secs(10));
    assert_eq!(stored(&mut world, consumer, "/b")[0].fresh, None);
    let (all, _) = world.dataset(consumer, &name("/localhost/nfd/cs/query"));
    assert_eq!(CsObject::decode_all(&all).unwrap().len(), 3);
    let (refused, _) = world.dataset(consumer, &name("/localhost/nfd/cs/query/nonsense"));
    assert_eq!(
        larder_packet::ControlResponse::decode(&refused)
            .unwrap()
            .status_code,
        400
    );
}

#[test]
fn another_policy_keeps_what_is_stored() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    for i in 0..100 {
        world.pass(Duration::from_millis(1));
        let uri = format!("/a/{i}");
        world.interest(consumer, &uri, i);
        world.sent(producer, data(&uri, &[7; 1000], None));
    }
    let policy = |spec: &str, capacity_bytes| ControlParameters {
        policy: Some(spec.to_owned()),
        capacity_bytes,
        ..ControlParameters::default()
    };
    let done = world.command(
        consumer,
        "cs",
        "config",
        &policy("filter(theta=2)+lru", None),
    );
    assert_eq!(
        (done.status_code, done.body.unwrap().policy.as_deref()),
        (200, Some("filter(theta=2)+lru"))
    );
    for i in 0..100 {
        assert_eq!(
            faces(&world.interest(consumer, &format!("/a/{i}"), 1000 + i)),
            [consumer],
            "a hit"
        );
    }
    // With room for fewer, the new policy says who stays: FIFO keeps the youngest.
    let done = world.command(consumer, "cs", "config", &policy("fifo", Some(50_000)));
    assert_eq!(done.body.unwrap().capacity_bytes, Some(50_000));
    let kept = stored(&mut world, consumer, "/a");
    assert!((35..50).contains(&kept.len()), "{}", kept.len());
    assert!(kept.iter().any(|object| object.name == name("/a/99")));
    assert!(!kept.iter().any(|object| object.name == name("/a/0")));
    assert_eq!(world.forwarder.stats().content_store_entries, kept.len());
    let mut refused = |spec: &str| {
        world
            .command(consumer, "cs", "config", &policy(spec, None))
            .status_code
    };
    assert_eq!(
        (refused("lur"), refused("belady"), refused("")),
        (406, 406, 406)
    );
    assert_eq!(world.forwarder.policy().to_string(), "fifo");
}

#[test]
fn a_capacity_beyond_all_measure_brings_the_forwarder_down() {
    let mut world = World::new();
    let (consumer, producer) = (world.local(), world.local());
    world.route("/", producer, 0);
    let mut nonce = 0;
    for policy in larder_policy::registry()
        .iter()
        .filter(|policy| !policy.is_offline())
    {
        for capacity in [u64::MAX, 0, 1, 100_000] {
            let parameters = ControlParameters {
                policy: Some(policy.name.to_owned()),
                capacity_bytes: Some(capacity),
                ..ControlParameters::default()
            };
            let code = world
                .command(consumer, "cs", "config", &parameters)
                .status_code;
            assert!(
                code == 200 || code == 406,
                "{} {capacity}: {code}",
                policy.name
            );
            for i in 0..4 {
                nonce += 1;
                let uri = format!("/a/{i}");
                let sent = world.interest(consumer, &uri, nonce);
                if faces(&sent) == [producer] {
                    world.sent(producer, data(&uri, &[7; 1000], None));
                }
            }
        }
    }
}
