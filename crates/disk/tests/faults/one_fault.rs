//! Failures: one fault of the disk, wherever it is, costs more than the value in that place; or it
//! brings back a removed, replaced or purged value.

use super::world::LastBytes;
use bytes::Bytes;
use larder_disk::{Config, Geometry, Identity, Log, Opened, Put, Storage};
use larder_units::{Streams, Time};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

const BLOCK: u64 = 4096;

/// A disk of which one block may be unreadable.
struct Disk {
    bytes: RefCell<Vec<u8>>,
    broken: Option<u64>,
}

impl Storage for Disk {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let touches =
            |block: u64| at < (block + 1) * BLOCK && block * BLOCK < at + into.len() as u64;
        if self.broken.is_some_and(touches) {
            return Err(io::Error::other("a block cannot be read"));
        }
        into.copy_from_slice(&self.bytes.borrow()[at as usize..at as usize + into.len()]);
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.bytes.borrow_mut()[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// What is on a disk, and which values may be found there: number and version.
struct Case {
    name: String,
    config: Config,
    bytes: Vec<u8>,
    current: BTreeMap<u64, u64>,
    /// Those that a restart finds on a sound disk: the policy has let the others go.
    found: BTreeMap<u64, u64>,
}

const KEYS: u64 = 60;

/// The last byte says which mark concerns it.
fn key(number: u64) -> Vec<u8> {
    format!("key {number} {}", number % 5).into_bytes()
}

fn open(disk: &Disk, config: &Config) -> (Log<LastBytes>, Opened) {
    let identity = Identity {
        id: 77,
        hash_key: [5; 16],
    };
    Log::open(
        disk,
        config,
        identity,
        LastBytes::default(),
        &Streams::new(1),
        Time::ZERO,
    )
    .unwrap()
}

fn work(log: &mut Log<LastBytes>, disk: &Disk) {
    let ticket = log.settle(Time::ZERO);
    while let Some(job) = log.job(Time::ZERO) {
        let done = job.run(disk);
        log.complete(done, Time::ZERO);
    }
    assert!(log.is_settled(ticket));
}

/// All that can be read.
fn readable(log: &mut Log<LastBytes>, disk: &Disk) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    for number in 0..KEYS {
        let Some(lookup) = log.look_up(&key(number), Some(0)) else {
            continue;
        };
        let read = lookup.run(disk, lookup.room());
        if let Some(recalled) = log.finish(&lookup, read) {
            found.insert(
                number,
                u64::from_le_bytes(recalled.value[..8].try_into().unwrap()),
            );
        }
    }
    found
}

impl Case {
    /// `steps` things happen to a new log.
    fn new(region_bytes: u32, steps: u64, is_restarted: bool) -> Case {
        let geometry = Geometry::new(region_bytes, 8).unwrap();
        let config = Config {
            geometry,
            policy: "fifo".parse().unwrap(),
            queue_bytes: 1 << 20,
        };
        let disk = Disk {
            bytes: RefCell::new(vec![0; geometry.file_bytes() as usize]),
            broken: None,
        };
        let mut stream = Streams::new(steps).stream("one fault");
        let (mut log, opened) = open(&disk, &config);
        assert_eq!(opened, Opened::New);
        let mut current = BTreeMap::new();
        for version in 0..steps {
            let number = stream.below(KEYS);
            match stream.below(100) {
                0..8 => {
                    log.remove(&key(number), Time::ZERO);
                    current.remove(&number);
                }
                8..16 => {
                    log.remove_variant(&key(number), 0, Time::ZERO);
                    current.remove(&number);
                }
                16..20 => {
                    let last = *key(number).last().unwrap();
                    log.ban(vec![last; 20].into(), Time::ZERO);
                    current.retain(|number, _| key(*number).last() != Some(&last));
                }
                _ if version == steps / 4 => {
                    log.clear(Time::ZERO);
                    current.clear();
                }
                _ => {
                    let value = [
                        version.to_le_bytes().to_vec().into(),
                        Bytes::from(vec![7; stream.below(90) as usize]),
                    ];
                    match log.put(&key(number), 0, value, Time::ZERO) {
                        Put::Stored => current.insert(number, version),
                        _ => current.remove(&number),
                    };
                }
            }
            log.check_invariants();
            work(&mut log, &disk);
            log.check_invariants();
        }
        if is_restarted {
            log = open(&disk, &config).0;
            work(&mut log, &disk);
            log.check_invariants();
        }
        let moved = log.counters().rewritten;
        let name = format!(
            "{region_bytes} bytes a region, {steps} steps, {moved} moved, restarted {is_restarted}"
        );
        let bytes = disk.bytes.into_inner();
        let sound = Disk {
            bytes: RefCell::new(bytes.clone()),
            broken: None,
        };
        let found = readable(&mut open(&sound, &config).0, &sound);
        assert!(found.len() > 10, "{name}: there is nothing to lose");
        Case {
            name,
            config,
            bytes,
            current,
            found,
        }
    }

    /// Restarts on a disk with a fault. Returns how many values that costs.
    fn loss(&self, disk: &Disk, fault: &str, restarts: u32) -> usize {
        let mut most = 0;
        for restart in 0..restarts {
            let (mut log, opened) = open(disk, &self.config);
            let place = format!("{}, {fault}, restart {restart}", self.name);
            assert_eq!(opened, Opened::Found, "{place}");
            log.check_invariants();
            let found = readable(&mut log, disk);
            for (number, version) in &found {
                assert_eq!(
                    self.current.get(number),
                    Some(version),
                    "{place}: {number} came back"
                );
            }
            most = most.max(
                self.found
                    .keys()
                    .filter(|number| !found.contains_key(number))
                    .count(),
            );
            work(&mut log, disk);
        }
        most
    }
}

/// Logs that are not full and logs that have used all regions again, open and sealed at the end.
fn cases(region_bytes: u32, few: u64, many: u64) -> impl Iterator<Item = Case> {
    let steps = [(few, false), (few, true), (many, false)];
    steps
        .into_iter()
        .map(move |(steps, is_restarted)| Case::new(region_bytes, steps, is_restarted))
}

#[test]
fn one_flipped_bit_costs_older_regions() {
    for (stride, case) in [1, 3, 3].into_iter().zip(cases(1024, 60, 160)) {
        let padding = |at: &usize| (56..4096).contains(at) || *at >= case.bytes.len() - 4040;
        for at in
            (0..case.bytes.len()).filter(|at| at % if padding(at) { 997 } else { stride } == 0)
        {
            let mut bytes = case.bytes.clone();
            bytes[at] ^= 1 << (at % 8);
            let disk = Disk {
                bytes: RefCell::new(bytes),
                broken: None,
            };
            let lost = case.loss(&disk, &format!("byte {at}"), 1 + u32::from(at % 5 == 0));
            assert!(
                lost <= 1,
                "{}, byte {at}: {lost} values are lost",
                case.name
            );
        }
    }
}

#[test]
fn one_unreadable_block_empties_the_tier() {
    for case in cases(16384, 400, 2500) {
        for block in 0..case.bytes.len() as u64 / BLOCK {
            let disk = Disk {
                bytes: RefCell::new(case.bytes.clone()),
                broken: Some(block),
            };
            let lost = case.loss(&disk, &format!("block {block}"), 2);
            // A record has at least 40 bytes of header, 7 of key and 8 of value.
            assert!(
                lost <= 4096 / 55 + 2,
                "{}, block {block}: {lost} values are lost",
                case.name
            );
        }
    }
}

/// As above, with everything in the block changed.
#[test]
fn one_block_of_zeros_brings_back_what_was_removed() {
    for case in cases(16384, 400, 2500) {
        for block in 1..case.bytes.len() / BLOCK as usize {
            let mut bytes = case.bytes.clone();
            bytes[block * BLOCK as usize..(block + 1) * BLOCK as usize].fill(0);
            let disk = Disk {
                bytes: RefCell::new(bytes),
                broken: None,
            };
            let lost = case.loss(&disk, &format!("zeros in block {block}"), 2);
            assert!(
                lost <= 4096 / 55 + 2,
                "{}, block {block}: {lost} values are lost",
                case.name
            );
        }
    }
}
