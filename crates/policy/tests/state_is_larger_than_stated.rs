//! What `larder policies` says of each policy's memory, against what its tables hold.

use crate::traffic::{Owner, Zipf};
use larder_policy::{Kind, PolicyEntry, Spec, registry};
use larder_units::Time;

/// Bytes of heap once a cache of `objects` objects of 1 KiB has turned over several times, so that
/// ghosts and histories are full.
fn state_bytes(spec: &Spec, objects: u64) -> usize {
    let mut owner = Owner::new(spec, objects << 10, 1);
    let mut zipf = Zipf::new(8 * objects as usize, 0.7, 7);
    for request in 0..10 * objects {
        owner.request(zipf.draw(), 1 << 10, Time::from_millis(request));
        if request % 1000 == 0 {
            owner.run_jobs();
        }
    }
    owner.engine.state_bytes()
}

/// Bytes more for each object more, whatever a policy has beside.
fn bytes_an_object(spec: &str) -> f64 {
    let spec = spec.parse().unwrap();
    // Powers of two: vectors that double are then full.
    let (few, many) = (1 << 10, 1 << 12);
    (state_bytes(&spec, many) as f64 - state_bytes(&spec, few) as f64) / (many - few) as f64
}

/// What a policy needs, in each of its kinds of table.
fn measured(entry: &PolicyEntry) -> Vec<f64> {
    /// The engine's own.
    const ENGINE: f64 = 16.0;
    match (entry.name, entry.kind()) {
        ("size", _) => vec![bytes_an_object("size(max=1KiB)+fifo") - bytes_an_object("fifo")],
        // Its shadows are as large for ten thousand objects as for ten million, and would be most
        // of what is measured here.
        ("agd", _) => ["agd(p=learned)", "agd(p=learned,bytes=100)"]
            .map(|spec| bytes_an_object(spec) - ENGINE)
            .into(),
        (name, Kind::Admission) => {
            vec![bytes_an_object(&format!("{name}+fifo")) - bytes_an_object("fifo")]
        }
        (name, Kind::Eviction) => vec![bytes_an_object(name) - ENGINE],
    }
}

#[test]
fn state_is_larger_than_stated() {
    // AdaptSize remembers what was requested in an interval, however many of these objects are
    // stored.
    for entry in registry()
        .iter()
        .filter(|entry| !entry.is_offline() && entry.name != "adaptsize")
    {
        let stated = f64::from(entry.bytes_an_object);
        for measured in measured(entry) {
            let found = format!(
                "{}: {measured:.1} bytes an object, stated {stated}",
                entry.name
            );
            assert!(measured <= 1.15 * stated + 1.0, "{found}");
            // Tables of admissions round to powers of two, and fill as the traffic has it: an upper
            // bound.
            assert!(
                entry.kind() == Kind::Admission || measured >= 0.85 * stated - 1.0,
                "{found}"
            );
        }
    }
}

/// Failure: a large cache without requests yet has a table of many megabytes, and each of its first
/// thousands of requests touches another page; or counts from before the growth of the table are
/// lost.
#[test]
fn a_filter_that_has_seen_nothing_is_as_large_as_one_that_is_full() {
    let mut owner = Owner::new(&"filter+fifo".parse().unwrap(), 512 << 20, 1);
    let begun = owner.engine.state_bytes();
    assert!(begun < 256 << 10, "{begun} bytes");
    owner.request(0, 8 << 10, Time::ZERO);
    let others = 60_000;
    for id in 1..=others {
        _ = owner.request(id, 8 << 10, Time::ZERO);
    }
    assert!(
        owner.engine.state_bytes() > 16 << 20,
        "128 slots of 16 bits a request: 60000 need 2^23"
    );
    assert!(
        !owner.request(0, 8 << 10, Time::ZERO),
        "not stored at its first request"
    );
    assert!(owner.request(0, 8 << 10, Time::ZERO), "but at its second");
    let stored = owner.engine.len();
    assert!(
        stored <= 1 + others as usize / 100,
        "{stored} objects by false positives, of which q/h are to be expected"
    );
}
