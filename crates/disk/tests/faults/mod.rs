//! Failures: after a crash, a torn, replaced or removed value is served, or a synced value is gone;
//! a wrong answer of the disk is accepted; when the disk fails, the cache fails with it.

#![expect(clippy::print_stderr, reason = "the seed of a run that fails")]

mod disk;
mod one_fault;
mod world;

use bytes::Bytes;
use disk::Disk;
use larder_disk::{Config, Geometry, Identity, Log, MemoryStorage, Opened, Put, limits};
use larder_units::{Streams, Time};
use world::{KEYS, TAGS, World, key};

/// Seeds a run; a failing one is printed by the panic of its assertion, and becomes a test of its
/// own.
const SEEDS: u64 = 60;

#[test]
fn crashes_at_any_moment() {
    let (mut survived, mut reclaimed) = (0, [0; 2]);
    for seed in 0..SEEDS {
        // Small enough that nothing has to leave: what is missing is lost.
        let mut world = World::new(seed, "lru", 250);
        eprintln!("seed {seed}");
        for _ in 0..15 {
            for _ in 0..world.stream.below(150) {
                world.step();
            }
            world.crash();
        }
        survived += world.survived;
        reclaimed = [0, 1].map(|at| reclaimed[at] + world.reclaimed[at]);
    }
    // That there was something to lose, and regions were used again meanwhile.
    assert!(
        survived > SEEDS * 20 && reclaimed[0] > SEEDS * 10 && reclaimed[1] > SEEDS * 10,
        "{survived} {reclaimed:?}"
    );
}

/// More than fits: the policy decides, and still nothing torn or out of date is served.
#[test]
fn crashes_while_values_leave_for_others() {
    for seed in 0..SEEDS {
        let policy = ["fifo", "lru", "filter(theta=2)+fifo", "s3fifo"][seed as usize % 4];
        let mut world = World::new(1000 + seed, policy, 1500);
        eprintln!("seed {seed} {policy}");
        for _ in 0..8 {
            for _ in 0..world.stream.below(150) {
                world.step();
            }
            world.crash_without_count();
        }
    }
}

#[test]
fn a_disk_that_lies_is_not_believed() {
    let (mut corrupt, mut unreadable, mut recalled) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(2000 + seed, "fifo", 250);
        for _ in 0..300 {
            world.step();
            if world.stream.chance(0.1) {
                world.settle();
                world.disk.set_lies(true);
                let (number, tag) = (
                    world.stream.below(KEYS) as u8,
                    world.stream.below(TAGS) as u32,
                );
                world.look(number, tag, false);
                world.disk.set_lies(false);
            }
        }
        let counters = world.log.counters();
        corrupt += counters.corrupt;
        unreadable += counters.unreadable;
        recalled += counters.recalled;
    }
    assert!(
        corrupt > 0 && unreadable > 0 && recalled > 0,
        "{corrupt} {unreadable} {recalled}"
    );
}

/// Every write and every sync may be the first that fails.
#[test]
fn a_disk_that_fails_ends_the_log_and_nothing_else() {
    for failing in 0..120 {
        let mut world = World::new(3000, "fifo", 250);
        world.disk.fail_after(failing);
        for _ in 0..500 {
            world.step();
            assert!(world.log.queued_bytes() < 1 << 20);
        }
        assert!(world.log.has_failed(), "{failing}");
        assert!(world.log.engine().is_empty() && world.log.job(world.now).is_none());
        assert!(
            world.log.bans().is_empty(),
            "bans of a log that has failed are kept for ever"
        );
        assert!(!world.log.request(&key(1), world.now));
        let ticket = world.log.settle(world.now);
        assert!(
            !world.log.is_settled(ticket),
            "a removal that did not reach the disk is not done"
        );
    }
}

/// Failure: one bit rots, and values in other places are gone, or a removed value is back.
#[test]
fn one_rotten_bit_costs_more_than_one_value() {
    let mut lost = 0;
    for seed in 0..SEEDS * 3 {
        let mut world = World::new(4000 + seed, "lru", 250);
        for _ in 0..400 {
            world.step();
        }
        // What a restart makes of a crash is as good as the rest.
        if seed % 2 > 0 {
            world.crash_without_count();
        }
        world.settle();
        world.crash_without_count();
        let before = world.readable();
        world.rot();
        world.crash_without_count();
        let after = world.readable();
        assert!(
            after + 1 >= before,
            "seed {seed}: {before} values before, {after} after"
        );
        lost += before - after.min(before);
    }
    assert!(lost > 0, "nothing was tried");
}

/// Failure: a value was evicted long ago, its successor was not stored, and a restart serves it.
#[test]
fn what_was_let_go_does_not_come_back_in_the_place_of_what_was_not_stored() {
    let config = Config {
        geometry: Geometry::new(2048, 16).unwrap(),
        policy: "lru".parse().unwrap(),
        queue_bytes: 1 << 20,
    };
    let came_back = |replaced: bool| {
        let disk = MemoryStorage::default();
        let identity = Identity {
            id: 77,
            hash_key: [5; 16],
        };
        let open = || {
            Log::open(&disk, &config, identity, (), &Streams::new(1), Time::ZERO)
                .unwrap()
                .0
        };
        let mut log = open();
        let work = |log: &mut Log<()>| {
            log.settle(Time::ZERO);
            while let Some(job) = log.job(Time::ZERO) {
                let done = job.run(&disk);
                log.complete(done, Time::ZERO);
                log.check_invariants();
            }
        };
        let mut number = 0;
        while number < 2 || log.look_up(&key(1), None).is_some() {
            // Hits are not on the disk: a restart takes the first for the oldest, and keeps the
            // second.
            log.request(&key(0), Time::ZERO);
            assert_eq!(
                log.put(
                    &key(number),
                    0,
                    [vec![number; 300].into(), Bytes::new()],
                    Time::ZERO
                ),
                Put::Stored
            );
            work(&mut log);
            number += 1;
        }
        if replaced {
            assert_eq!(
                log.put(&key(1), 0, [vec![0; 4096].into(), Bytes::new()], Time::ZERO),
                Put::TooLarge
            );
            work(&mut log);
        }
        drop(log);
        open().look_up(&key(1), None).is_some()
    };
    assert!(came_back(false), "else there is nothing to fear");
    assert!(!came_back(true));
}

/// A crash loses the header of a new region, but not the records behind it. Failure: the next start
/// begins the same region once more, and a record that was never in it, and that was removed since,
/// stands just behind the removal.
#[test]
fn a_region_that_never_began_leaves_nothing_behind() {
    let geometry = Geometry::new(2048, 8).unwrap();
    let config = Config {
        geometry,
        policy: "fifo".parse().unwrap(),
        queue_bytes: 1 << 20,
    };
    let now = Time::ZERO;
    for (jobs, one_is_left) in (0..8).flat_map(|jobs| [(jobs, false), (jobs, true)]) {
        let disk = Disk::new(geometry.file_bytes(), Streams::new(1).stream("disk"));
        let open = || {
            let identity = Identity {
                id: 77,
                hash_key: [5; 16],
            };
            Log::open(&disk, &config, identity, (), &Streams::new(1), now)
                .unwrap()
                .0
        };
        let work = |log: &mut Log<()>, jobs: usize| {
            log.settle(now);
            for _ in 0..jobs {
                let Some(job) = log.job(now) else { return };
                let done = job.run(&disk);
                log.complete(done, now);
                log.check_invariants();
            }
        };
        let mut log = open();
        log.remove(b"other", now);
        log.put(
            b"key",
            0,
            [b"value".as_slice().into(), b"".as_slice().into()],
            now,
        );
        work(&mut log, jobs);
        // The headers, or one of them, and the first removal.
        disk.crash_but(
            4096..4096 + 32 + 40,
            if one_is_left {
                0..0
            } else {
                4096 + 2048 - 32..4096 + 2048
            },
        );
        let mut log = open();
        log.remove(b"key", now);
        work(&mut log, usize::MAX);
        assert!(
            open().look_up(b"key", None).is_none(),
            "after {jobs} jobs, {one_is_left}"
        );
    }
}

/// A crash leaves entries whose records never reached the disk. Failure: a value that reclaiming
/// was rewriting is lost, though its former place was not overwritten yet; or from then on one
/// rotten bit costs all older values.
#[test]
fn a_crash_between_records_and_entries_loses_what_was_moved() {
    let geometry = Geometry::new(2048, 8).unwrap();
    let config = Config {
        geometry,
        policy: "fifo".parse().unwrap(),
        queue_bytes: 1 << 20,
    };
    let now = Time::ZERO;
    let region_at = |region: usize| 4096 + 2048 * region;
    let mut moved = 0;
    for (jobs, region) in (20..160).flat_map(|jobs| (0..8).map(move |region| (jobs, region))) {
        let disk = Disk::new(geometry.file_bytes(), Streams::new(1).stream("disk"));
        let open = || {
            let identity = Identity {
                id: 77,
                hash_key: [5; 16],
            };
            Log::open(&disk, &config, identity, (), &Streams::new(1), now)
                .unwrap()
                .0
        };
        let holds = |log: &Log<()>| {
            let lookup = log.look_up(b"kept", None);
            lookup.is_some_and(|lookup| lookup.run(&disk, lookup.room()).is_ok())
        };
        let mut log = open();
        let mut left = jobs;
        let mut number = 0_u8;
        while left > 0 {
            let key: &[u8] = if number == 0 { b"kept" } else { b"other" };
            log.put(key, 0, [vec![number; 700].into(), Bytes::new()], now);
            number += 1;
            log.settle(now);
            while left > 0
                && let Some(job) = log.job(now)
            {
                let done = job.run(&disk);
                log.complete(done, now);
                log.check_invariants();
                left -= 1;
            }
        }
        moved += log.counters().rewritten;
        let place = format!("after {jobs} jobs, region {region}");
        disk.crash_but(region_at(region)..region_at(region) + 1500, 0..0);
        let mut log = open();
        assert!(holds(&log), "{place}");
        while let Some(job) = log.job(now + limits::SYNC_AFTER) {
            let done = job.run(&disk);
            log.complete(done, now + limits::SYNC_AFTER);
            log.check_invariants();
        }
        disk.crash();
        for at in (region_at(region + 1) - 200..region_at(region + 1)).step_by(7) {
            disk.rot(at);
            assert!(holds(&open()), "{place}, byte {at}");
            disk.rot(at);
        }
    }
    assert!(moved > 0, "nothing was tried");
}

/// Failure: the policy has evicted a value that is still on the disk, and its owner removes it. A
/// restart, which knows nothing of hits, keeps it and evicts another.
#[test]
fn what_had_left_the_index_and_was_removed_stays_away() {
    let geometry = Geometry::new(2048, 8).unwrap();
    let disk = Disk::new(geometry.file_bytes(), Streams::new(1).stream("disk"));
    let config = Config {
        geometry,
        policy: "lru".parse().unwrap(),
        queue_bytes: 1 << 20,
    };
    let now = Time::ZERO;
    let open = || {
        let identity = Identity {
            id: 77,
            hash_key: [5; 16],
        };
        Log::open(&disk, &config, identity, (), &Streams::new(1), now)
            .unwrap()
            .0
    };
    let work = |log: &mut Log<()>| {
        log.settle(now);
        while let Some(job) = log.job(now) {
            let done = job.run(&disk);
            log.complete(done, now);
            log.check_invariants();
        }
    };
    let mut log = open();
    let value = || [vec![7; 900].into(), b"".as_slice().into()];
    log.put(b"hot", 0, value(), now);
    log.put(b"key", 0, value(), now);
    for number in 0_u8.. {
        if log.look_up(b"key", None).is_none() {
            break;
        }
        log.request(b"hot", now);
        log.put(&[number], 0, value(), now);
        work(&mut log);
    }
    assert!(
        log.look_up(b"hot", None).is_some() && open().look_up(b"key", None).is_some(),
        "it is still on the disk"
    );
    log.remove_variant(b"key", 0, now);
    work(&mut log);
    assert!(open().look_up(b"key", None).is_none());
}

/// Failure: every region is in use and a removal waits for one; the question whether it lasts is
/// answered when the region before it ends, and a crash then brings back what was removed.
#[test]
fn a_removal_that_waits_for_room_is_settled_before_it_is_written() {
    let config = Config {
        geometry: Geometry::new(1024, 16).unwrap(),
        policy: "fifo".parse().unwrap(),
        queue_bytes: 1 << 20,
    };
    let mut came_back_unsettled = 0;
    for others in 0..40 {
        let disk = MemoryStorage::default();
        let open = || {
            let identity = Identity {
                id: 77,
                hash_key: [5; 16],
            };
            Log::open(&disk, &config, identity, (), &Streams::new(1), Time::ZERO)
                .unwrap()
                .0
        };
        let mut log = open();
        let mut last = 0;
        while log.put(
            &[last],
            0,
            [vec![last; 300].into(), Bytes::new()],
            Time::ZERO,
        ) == Put::Stored
        {
            last += 1;
        }
        for _ in 0..others {
            log.remove(b"nobody", Time::ZERO);
        }
        log.remove(&[last - 1], Time::ZERO);
        let ticket = log.settle(Time::ZERO);
        while !log.is_settled(ticket) {
            came_back_unsettled += u32::from(open().look_up(&[last - 1], None).is_some());
            let job = log.job(Time::ZERO).expect("it lasts at some time");
            let done = job.run(&disk);
            log.complete(done, Time::ZERO);
            log.check_invariants();
        }
        assert!(
            open().look_up(&[last - 1], None).is_none(),
            "after {others} others"
        );
    }
    assert!(came_back_unsettled > 0, "nothing was tried");
}

/// Failure: more removals wait than allowed, and the disk is given up for good; or one of them is
/// forgotten; or a caller waits for one without end.
#[test]
fn a_burst_of_removals_costs_the_disk() {
    let config = Config {
        geometry: Geometry::new(1024, 16).unwrap(),
        policy: "fifo".parse().unwrap(),
        queue_bytes: 1 << 20,
    };
    let now = Time::ZERO;
    let disk = MemoryStorage::default();
    let open = || {
        let identity = Identity {
            id: 77,
            hash_key: [5; 16],
        };
        Log::open(&disk, &config, identity, (), &Streams::new(1), now)
            .unwrap()
            .0
    };
    let mut log = open();
    let mut last = 0;
    while log.put(&[last], 0, [vec![last; 300].into(), Bytes::new()], now) == Put::Stored {
        last += 1;
    }
    // Its removal finds no room, and then there are too many twice over.
    for _ in 0..50 {
        log.remove(b"nobody", now);
    }
    log.remove(&[last - 1], now);
    let mut tickets = vec![log.settle(now)];
    for _ in 0..=2 * limits::TOMBSTONES / 500 {
        for _ in 0..500 {
            log.remove(b"nobody", now);
        }
        tickets.push(log.settle(now));
    }
    assert!(
        log.counters().emptied >= 2,
        "{:?}: nobody learns of it",
        log.counters()
    );
    assert!(
        tickets.is_sorted(),
        "who asked first waits longer than who asked last"
    );
    let [before, .., after] = tickets[..] else {
        panic!()
    };
    let mut came_back_unsettled = 0;
    while !log.is_settled(after) {
        came_back_unsettled += u32::from(open().look_up(&[last - 1], None).is_some());
        assert!(!log.is_settled(before) || open().look_up(&[last - 1], None).is_none());
        let job = log.job(now).expect("it lasts at some time");
        let done = job.run(&disk);
        log.complete(done, now);
        log.check_invariants();
    }
    assert!(came_back_unsettled > 0, "nothing was tried");
    assert!(!log.has_failed());
    assert_eq!(open().engine().len(), 0);
    // It is a disk as before.
    while let Some(job) = log.job(now) {
        let done = job.run(&disk);
        log.complete(done, now);
        log.check_invariants();
    }
    assert_eq!(
        log.put(b"new", 0, [vec![1; 300].into(), Bytes::new()], now),
        Put::Stored
    );
    let ticket = log.settle(now);
    while !log.is_settled(ticket) {
        let done = log.job(now).expect("it lasts at some time").run(&disk);
        log.complete(done, now);
        log.check_invariants();
    }
    assert!(open().look_up(b"new", None).is_some());
}

/// Failure: neither end of a region can be read, and a value that it removed comes back.
#[test]
fn both_ends_of_a_region_that_cannot_be_read_hide_removals() {
    let geometry = Geometry::new(2048, 8).unwrap();
    let disk = Disk::new(geometry.file_bytes(), Streams::new(1).stream("disk"));
    let config = Config {
        geometry,
        policy: "fifo".parse().unwrap(),
        queue_bytes: 1 << 20,
    };
    let now = Time::ZERO;
    let open = || {
        let identity = Identity {
            id: 77,
            hash_key: [5; 16],
        };
        Log::open(&disk, &config, identity, (), &Streams::new(1), now).unwrap()
    };
    let work = |log: &mut Log<()>| {
        log.settle(now);
        while let Some(job) = log.job(now) {
            let done = job.run(&disk);
            log.complete(done, now);
            log.check_invariants();
        }
    };
    // A record and some a region: 0 to 3, in regions of their own.
    let (mut log, _) = open();
    for number in 0..4 {
        log.put(
            &[number],
            0,
            [vec![number; 1200].into(), b"".as_slice().into()],
            now,
        );
        work(&mut log);
    }
    let found = |log: &Log<()>| {
        (0..4)
            .filter(|number| log.look_up(&[*number], None).is_some())
            .collect::<Vec<u8>>()
    };
    assert_eq!(found(&open().0), [0, 1, 2, 3]);
    // Of the first region the end, with the header of the second; then the second one's end, too.
    let end = |region: usize| 4096 + 2048 * (region + 1);
    disk.set_broken(end(0) - 8..end(0) + 8);
    let (log, opened) = open();
    assert_eq!((found(&log), opened), (vec![0, 1, 2, 3], Opened::Found));
    disk.set_broken(end(0)..end(1));
    let (mut log, opened) = open();
    assert_eq!((found(&log), opened), (vec![], Opened::Replaced));
    assert_eq!(
        log.put(
            b"key",
            0,
            [b"value".as_slice().into(), b"".as_slice().into()],
            now
        ),
        Put::Stored
    );
    work(&mut log);
    assert!(log.failure().is_none());
}
