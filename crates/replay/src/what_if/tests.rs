use super::*;
use crate::{Access, Replay, Web};
use larder_policy::observe::{Label, Observer, Outcome};
use larder_units::Streams;
use std::time::Duration;

fn web(requests: usize) -> Vec<Access> {
    let web = Web {
        objects: 60_000,
        exponent: 0.9,
        ..Web::default()
    };
    web.requests(&Streams::new(3))
        .unwrap()
        .take(requests)
        .collect()
}

fn specs() -> Vec<Spec> {
    WHAT_IF_POLICIES
        .map(|policy| policy.parse().unwrap())
        .to_vec()
}

/// A cache whose requests are observed. It never answers one itself; its content does not matter.
struct Host {
    observer: Observer,
    what_if: WhatIf,
    taken: Vec<Observation>,
}

impl Host {
    fn new(policies: &[Spec], capacity: u64) -> Host {
        let what_if = WhatIf::new(policies, ByteSize::from_bytes(capacity), 1).unwrap();
        let mut host = Host {
            observer: Observer::new(7, 1_024),
            what_if,
            taken: Vec::new(),
        };
        host.pass(Time::ZERO);
        host
    }

    fn pass(&mut self, now: Time) {
        let totals = self.observer.take(self.what_if.sample(), &mut self.taken);
        if self.what_if.observe(&mut self.taken, totals, now) {
            self.what_if.thin_out();
        }
    }

    fn fetched(&mut self, key: u64, request: Observed) {
        self.observer
            .fetched(key, request.bytes, |place| Observed { place, ..request });
    }

    /// Returns the hits of the smallest cache, and all requests.
    fn hits(&mut self) -> (u64, u64) {
        self.pass(Time::from_secs(1));
        let report = self.what_if.report();
        (
            (report.cells[0].object_hit_ratio * report.requests as f64).round() as u64,
            report.requests,
        )
    }
}

fn request(seconds: u64) -> Observed {
    Observed {
        now: Time::from_secs(seconds),
        place: 0,
        variant: 0,
        size: 100,
        bytes: 100,
        outcome: Outcome::Fetched,
        lifetime: Duration::from_secs(60),
        any_age: false,
        validates: true,
        label: None,
    }
}

fn of_access(access: &Access) -> Observed {
    Observed {
        now: access.now,
        size: access.size,
        bytes: access.size,
        lifetime: Duration::MAX,
        ..request(0)
    }
}

/// Replays requests whose ids are those of the miniature caches.
fn replayed(accesses: &[Access], spec: &Spec, capacity: u64) -> (f64, f64) {
    let mut replay = Replay::new(spec, ByteSize::from_bytes(capacity), 1)
        .unwrap()
        .filling();
    let observer = Observer::new(7, 1_024);
    for access in accesses {
        replay.request(&Access {
            id: observer.place(access.id),
            ..*access
        });
    }
    let row = replay.row("");
    (row.object_hit_ratio, row.byte_hit_ratio)
}

fn run(accesses: &[Access], capacity: u64) -> Host {
    let mut host = Host::new(&specs(), capacity);
    for accesses in accesses.chunks(512) {
        for access in accesses {
            host.fetched(access.id, of_access(access));
        }
        host.pass(accesses[0].now);
    }
    host
}

#[test]
fn all_objects_in_the_sample_are_not_the_replay_itself() {
    let accesses: Vec<Access> = web(30_000)
        .into_iter()
        .filter(|access| access.id < 1_400)
        .collect();
    let report = run(&accesses, 200_000).what_if.report();
    assert_eq!(
        report.cells.len(),
        WHAT_IF_POLICIES.len() * WHAT_IF_SIZES.len()
    );
    for cell in &report.cells {
        let exact = replayed(&accesses, &cell.policy.parse().unwrap(), cell.capacity);
        assert_eq!(
            (cell.object_error, cell.byte_error, cell.rate),
            (0.0, 0.0, 1.0),
            "{cell:?}"
        );
        assert!(
            (cell.object_hit_ratio - exact.0).abs() < 1e-9,
            "{cell:?} {exact:?}"
        );
        assert!(
            (cell.byte_hit_ratio - exact.1).abs() < 1e-9,
            "{cell:?} {exact:?}"
        );
    }
}

#[test]
fn a_sample_is_off_beyond_its_error() {
    let accesses = web(400_000);
    let host = run(&accesses, 40_000_000);
    let report = host.what_if.report();
    let (mut covered, mut sampled) = (0, 0);
    for cell in &report.cells {
        let exact = replayed(&accesses, &cell.policy.parse().unwrap(), cell.capacity).0;
        let off = (cell.object_hit_ratio - exact).abs();
        assert!(off < 0.05, "{cell:?} {exact}");
        sampled += u32::from(cell.rate < 1.0);
        covered += u32::from(off <= cell.object_error + 1e-9);
    }
    // By its definition the error covers 95 %, and the parts err together.
    assert!(
        sampled >= 36 && covered >= 43,
        "{sampled} sampled, {covered} of {} covered",
        report.cells.len()
    );
    assert!(
        host.what_if.state_bytes() < 32 << 20,
        "{} bytes",
        host.what_if.state_bytes()
    );
}

#[test]
fn a_stale_object_answers() {
    let lru = ["lru".parse().unwrap()];
    let mut host = Host::new(&lru, 100_000);
    host.fetched(1, request(0));
    host.fetched(1, request(59));
    assert_eq!(host.hits(), (1, 2));
    // Stale, and the origin has another one.
    host.fetched(1, request(61));
    assert_eq!(host.hits(), (1, 3));
    // Stale again, but the cache has validated its copy.
    host.fetched(
        1,
        Observed {
            outcome: Outcome::Hit,
            ..request(200)
        },
    );
    assert_eq!(host.hits(), (2, 4));
    // Stale, and nothing can be validated.
    host.fetched(
        1,
        Observed {
            outcome: Outcome::Hit,
            validates: false,
            ..request(300)
        },
    );
    assert_eq!(host.hits(), (2, 5));
    // Fresh, but the client requires the origin.
    host.fetched(
        1,
        Observed {
            outcome: Outcome::Reloaded,
            ..request(301)
        },
    );
    assert_eq!(host.hits(), (2, 6));
}

#[test]
fn a_refresh_counts_or_is_forgotten() {
    let mut host = Host::new(&["lru".parse().unwrap()], 100_000);
    host.fetched(1, request(0));
    // A stale copy answers while the cache fetches another one.
    let refreshed = Observed {
        outcome: Outcome::Refreshed,
        ..request(70)
    };
    host.observer.refreshed(1, |place| Observed {
        place,
        ..refreshed.clone()
    });
    host.observer
        .refreshed(2, |place| Observed { place, ..refreshed });
    host.fetched(
        1,
        Observed {
            outcome: Outcome::Hit,
            validates: false,
            ..request(100)
        },
    );
    assert_eq!(host.hits(), (1, 2));
}

#[test]
fn a_stale_object_answers_no_request_for_any_age() {
    let mut host = Host::new(&["lru".parse().unwrap()], 100_000);
    host.fetched(
        1,
        Observed {
            any_age: true,
            ..request(0)
        },
    );
    host.fetched(
        1,
        Observed {
            any_age: true,
            ..request(100)
        },
    );
    assert_eq!(host.hits(), (1, 2));
    host.fetched(1, request(101));
    assert_eq!(host.hits(), (1, 3));
}

#[test]
fn an_object_without_a_lifetime_answers() {
    let mut host = Host::new(&["lru".parse().unwrap()], 100_000);
    for second in 0..4 {
        host.fetched(
            1,
            Observed {
                lifetime: Duration::ZERO,
                ..request(second)
            },
        )
    }
    assert_eq!(host.hits(), (0, 4));
}

#[test]
fn responses_that_may_not_be_stored_are_no_misses() {
    let mut host = Host::new(&["lru".parse().unwrap()], 100_000);
    for second in 0..2 {
        host.fetched(1, request(second));
    }
    host.observer.unstorable(Some(100));
    host.observer.unstorable(None);
    assert_eq!(host.hits(), (1, 4));
    let cell = &host.what_if.report().cells[0];
    assert!((cell.byte_hit_ratio - 1.0 / 3.0).abs() < 1e-9);
}

#[test]
fn variants_of_a_key_are_one_object() {
    let mut host = Host::new(&["lru".parse().unwrap()], 100_000);
    for second in 0..4 {
        host.fetched(
            1,
            Observed {
                variant: 1 + second as u32 % 2,
                ..request(second)
            },
        )
    }
    assert_eq!(host.hits(), (2, 4));
    // A purge of the key removes both.
    host.observer.removed(1, false, Time::from_secs(5));
    for second in 6..8 {
        host.fetched(
            1,
            Observed {
                variant: 1 + second as u32 % 2,
                ..request(second)
            },
        )
    }
    assert_eq!(host.hits(), (2, 6));
}

#[test]
fn a_purge_leaves_objects_of_a_larger_cache() {
    use larder_policy::observe::Scope;
    let label = |path: &str, tag: &str| Label {
        key: path.as_bytes().into(),
        tags: [tag.as_bytes().into()].into(),
    };
    let named = |path: &str, tag: &str, seconds| Observed {
        label: Some(Box::new(label(path, tag))),
        ..request(seconds)
    };
    let ask = |host: &mut Host, seconds| {
        host.fetched(1, named("http://a/x/1", "red", seconds));
        host.fetched(2, named("http://a/y/2", "blue", seconds));
    };
    // All objects, twice; then each scope removes one of two, or both.
    let mut host = Host::new(&["lru".parse().unwrap()], 100_000);
    let purges = [
        (Scope::Prefix(b"http://a/x/".as_slice().into()), 1),
        (Scope::Tag(b"blue".as_slice().into()), 1),
        (Scope::Everything, 0),
        (Scope::Tag(b"green".as_slice().into()), 2),
    ];
    ask(&mut host, 0);
    let (mut hits, mut requests) = (0, 2);
    for (at, (scope, left)) in (1..).zip(purges) {
        host.observer
            .removed_all(scope.clone(), false, Time::from_secs(2 * at - 1));
        ask(&mut host, 2 * at);
        (hits, requests) = (hits + left, requests + 2);
        assert_eq!(host.hits(), (hits, requests), "{scope:?}");
    }
    // Stale objects are validated.
    host.observer
        .removed_all(Scope::Everything, true, Time::from_secs(20));
    host.fetched(
        1,
        Observed {
            outcome: Outcome::Hit,
            ..request(21)
        },
    );
    host.fetched(2, request(21));
    assert_eq!(host.hits(), (hits + 1, requests + 2));
}

#[test]
fn the_figures_go_back_more_than_an_hour() {
    let mut host = Host::new(&["lru".parse().unwrap()], 100_000);
    // An hour of misses, then more than an hour of hits.
    for minute in 0..130 {
        let key = if minute < 60 { 1_000 + minute } else { 1 };
        host.fetched(
            key,
            Observed {
                lifetime: Duration::MAX,
                ..request(60 * minute)
            },
        );
        host.pass(Time::from_secs(60 * minute));
    }
    let report = host.what_if.report();
    assert!(
        report.seconds >= 3_000.0 && report.seconds <= 3_900.0,
        "{}",
        report.seconds
    );
    assert_eq!(report.cells[0].object_hit_ratio, 1.0);
}

#[test]
fn the_figures_include_lost_observations() {
    let mut host = Host::new(&["lru".parse().unwrap()], 1_000_000);
    for key in 0..5_000 {
        host.fetched(key, request(0));
    }
    host.pass(Time::from_secs(1));
    let report = host.what_if.report();
    assert!(
        report.requests == 0 && report.cells.iter().all(|cell| cell.rate == 0.5),
        "{report:?}"
    );
    // The requests from then on are counted, with the objects in the caches.
    for key in 0..100 {
        host.fetched(key, request(1));
    }
    host.pass(Time::from_secs(2));
    let report = host.what_if.report();
    let largest = report.cells.last().unwrap();
    assert!(
        report.requests == 100 && largest.object_hit_ratio > 0.9 && !largest.error_is_least,
        "{largest:?}"
    );
}
