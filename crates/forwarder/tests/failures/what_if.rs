//! What-if analysis of the Content Store: estimates of another cache than the forwarder's.

use super::world::{Sent, World, data, interest, name};
use larder_forwarder::FaceId;
use larder_packet::ControlParameters;
use larder_replay::{Access, Replay, Trace, WHAT_IF_POLICIES, WhatIf, WhatIfCell};
use larder_units::ByteSize;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

struct Stage {
    world: World,
    what_if: WhatIf,
    consumer: FaceId,
    producer: FaceId,
    nonce: u32,
}

impl Stage {
    fn new(policies: &[&str], capacity: u64) -> Stage {
        let capacity = ByteSize::from_bytes(capacity);
        let mut world = World::with("lru", capacity);
        let (consumer, producer) = (world.local(), world.remote());
        world.route("/", producer, 1);
        let policies: Vec<_> = policies
            .iter()
            .map(|policy| policy.parse().unwrap())
            .collect();
        let what_if = WhatIf::new(&policies, capacity, 1).unwrap();
        let mut stage = Stage {
            world,
            what_if,
            consumer,
            producer,
            nonce: 0,
        };
        stage.observe();
        stage
    }

    fn observe(&mut self) {
        let mut taken = Vec::new();
        let totals = self
            .world
            .forwarder
            .take_observations(self.what_if.sample(), &mut taken);
        self.what_if.observe(&mut taken, totals, self.world.now);
    }

    /// One exchange. Returns true for a hit.
    fn ask(&mut self, uri: &str, content: &[u8], fresh: Option<Duration>) -> bool {
        self.nonce += 1;
        if self.nonce.is_multiple_of(1_024) {
            self.observe();
        }
        self.world.now += Duration::from_millis(1);
        let frame = interest(uri, self.nonce)
            .must_be_fresh(fresh.is_some())
            .build();
        let sent = self.world.sent(self.consumer, frame);
        let is_hit = matches!(&sent[..], [Sent { face, .. }] if *face == self.consumer);
        if !is_hit {
            self.world.sent(self.producer, data(uri, content, fresh));
        }
        is_hit
    }

    /// Returns the cells of a policy, from the smallest to the largest, and the store's own ratio.
    fn cells(&mut self, policy: &str) -> (Vec<WhatIfCell>, f64) {
        self.observe();
        let report = self.what_if.report();
        let cells = report
            .cells
            .into_iter()
            .filter(|cell| cell.policy == policy)
            .collect();
        (cells, report.measured.object_hit_ratio)
    }
}

/// The number of the cell for the present size.
const PRESENT: usize = 4;

/// Failure: the estimates differ from a replay of the same requests.
#[test]
fn estimates_are_off_the_replay_of_the_same_requests() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests/data/web07.trace.xz");
    let accesses: Vec<Access> = Trace::open(&path, None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut stage = Stage::new(&WHAT_IF_POLICIES, 500_000);
    let (mut sizes, mut hits) = (HashMap::new(), 0);
    for access in &accesses {
        let before = stage.world.forwarder.stats().content_store_bytes;
        let is_hit = stage.ask(&format!("/web/{:08}", access.id), &[7; 100], None);
        hits += u32::from(is_hit);
        let grown = stage
            .world
            .forwarder
            .stats()
            .content_store_bytes
            .saturating_sub(before);
        if !is_hit && grown > 0 {
            sizes.entry(access.id).or_insert(grown);
        }
    }
    // All have the same size.
    let size = *sizes.values().max().unwrap();
    let (_, own) = stage.cells("lru");
    assert_eq!(
        own,
        f64::from(hits) / accesses.len() as f64,
        "the analysis counts as the consumers do"
    );
    for policy in WHAT_IF_POLICIES {
        for cell in stage.cells(policy).0 {
            let capacity = ByteSize::from_bytes(cell.capacity);
            let mut replay = Replay::new(&policy.parse().unwrap(), capacity, 1)
                .unwrap()
                .filling();
            for access in &accesses {
                replay.request(&Access { size, ..*access });
            }
            let exact = replay.row("").object_hit_ratio;
            let off = (cell.object_hit_ratio - exact).abs();
            assert!(
                off <= 0.01_f64.max(cell.object_error),
                "{cell:?}: exact {exact}"
            );
        }
    }
    let (cells, _) = stage.cells("lru");
    let off = (cells[PRESENT].object_hit_ratio - own).abs();
    assert!(
        off <= 0.005_f64.max(cells[PRESENT].object_error),
        "{:?}: measured {own}",
        cells[PRESENT]
    );
}

/// Failure: stale Data answers Interests with MustBeFresh in the miniature caches.
#[test]
fn stale_data_hits() {
    let mut stage = Stage::new(&["lru"], 1 << 20);
    for _round in 0..3 {
        for number in 0..50 {
            // The same Data is asked for fresh, then at any age.
            stage.ask(&format!("/a/{number}"), b"x", Some(Duration::from_secs(1)));
        }
        for number in 0..50 {
            stage.world.pass(Duration::from_millis(100));
            stage.ask(&format!("/a/{number}"), b"x", None);
        }
        stage.world.pass(Duration::from_secs(10));
    }
    let (cells, own) = stage.cells("lru");
    assert!((own - 1.0 / 2.0).abs() < 1e-9, "{own}");
    assert!(
        (cells[PRESENT].object_hit_ratio - own).abs() < 1e-9,
        "{own} {:?}",
        cells[PRESENT]
    );
}

/// Failure: erased Data hits in a larger cache.
#[test]
fn erased_data_hits() {
    let mut stage = Stage::new(&["lru"], 3_000);
    for round in 0..2 {
        for number in 0..40 {
            stage.ask(&format!("/a/{number}"), &[7; 100], None);
        }
        if round == 0 {
            let erased = ControlParameters {
                name: Some(name("/a")),
                ..ControlParameters::default()
            };
            let response = stage.world.command(stage.consumer, "cs", "erase", &erased);
            assert_eq!(response.status_code, 200);
        }
    }
    let (cells, _) = stage.cells("lru");
    assert!(
        cells.iter().all(|cell| cell.object_hit_ratio < 1e-9),
        "{cells:?}"
    );
}
