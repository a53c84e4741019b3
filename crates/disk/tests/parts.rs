//! Values that are read in parts: each byte is the one that was written, wherever the record stands
//! meanwhile; or it is an error.

use bytes::Bytes;
use larder_disk::{
    Config, Geometry, Identity, Log, MemoryStorage, Parts, ReadError, Storage, limits,
};
use larder_units::{Stream, Streams, Time};

const IDENTITY: Identity = Identity {
    id: 7,
    hash_key: [3; 16],
};

fn open(storage: &MemoryStorage) -> Log<()> {
    let config = Config {
        geometry: Geometry::new(1 << 20, 8).unwrap(),
        policy: "fifo".parse().unwrap(),
        queue_bytes: 4 << 20,
    };
    Log::open(storage, &config, IDENTITY, (), &Streams::new(1), Time::ZERO)
        .unwrap()
        .0
}

fn write(log: &mut Log<()>, storage: &MemoryStorage) {
    log.settle(Time::ZERO);
    while let Some(job) = log.job(Time::ZERO) {
        log.check_invariants();
        let done = job.run(storage);
        log.complete(done, Time::ZERO);
    }
    log.check_invariants();
}

fn value(length: usize, stream: &mut Stream) -> Bytes {
    (0..length).map(|_| stream.below(256) as u8).collect()
}

fn put(log: &mut Log<()>, key: &[u8], value: &Bytes, split: usize) {
    let put = log.put(
        key,
        1,
        [value.slice(..split), value.slice(split..)],
        Time::ZERO,
    );
    assert_eq!(put, larder_disk::Put::Stored);
}

fn begin(
    log: &mut Log<()>,
    storage: &MemoryStorage,
    key: &[u8],
    first: usize,
) -> Option<(Parts, Bytes)> {
    let lookup = log.look_up(key, None)?;
    let finished = log.finish_open(&lookup, lookup.open(storage, first));
    log.check_invariants();
    let (parts, recalled) = finished?;
    Some((parts, recalled.value))
}

fn read_from(parts: &Parts, storage: &MemoryStorage, mut at: u64) -> Result<Vec<u8>, ReadError> {
    let mut read = Vec::new();
    while at < parts.length() {
        let bytes = parts.read(storage, at)?;
        assert!(!bytes.is_empty() && bytes.len() <= limits::PART_BYTES as usize);
        at += bytes.len() as u64;
        read.extend_from_slice(&bytes);
    }
    Ok(read)
}

#[test]
fn parts_are_not_the_value() {
    let part = limits::PART_BYTES as usize;
    for seed in 0..40 {
        let mut stream = Streams::new(seed).stream("parts");
        let storage = MemoryStorage::default();
        let mut log = open(&storage);
        let around = part * stream.below(4) as usize;
        let length = (around + stream.below(7) as usize).saturating_sub(3);
        let value = value(length, &mut stream);
        put(
            &mut log,
            b"key",
            &value,
            stream.below(length as u64 + 1) as usize,
        );
        let first = stream.below(2 * part as u64) as usize;
        let (queued, head) = begin(&mut log, &storage, b"key", first).unwrap();
        assert_eq!(head, value.slice(..first.min(length)));
        assert_eq!(queued.length(), length as u64);
        assert_eq!(read_from(&queued, &storage, 0).unwrap(), value);
        write(&mut log, &storage);
        let (written, head) = begin(&mut log, &storage, b"key", first).unwrap();
        assert_eq!(head, value.slice(..first.min(length)));
        let from = stream.below(length as u64 + 1);
        for parts in [&queued, &written] {
            assert!(log.holds(parts));
            assert_eq!(
                read_from(parts, &storage, from).unwrap(),
                &value[from as usize..],
                "seed {seed}"
            );
        }
        assert!(written.read(&storage, length as u64).is_err());
        let mut log = open(&storage);
        let (again, _) = begin(&mut log, &storage, b"key", 0).unwrap();
        assert_eq!(
            read_from(&again, &storage, from).unwrap(),
            &value[from as usize..],
            "seed {seed}"
        );
    }
}

#[test]
fn rotten_parts_are_served() {
    let mut stream = Streams::new(1).stream("rot");
    let storage = MemoryStorage::default();
    let mut log = open(&storage);
    let value = value(200_000, &mut stream);
    put(&mut log, b"key", &value, 100);
    write(&mut log, &storage);
    let (parts, _) = begin(&mut log, &storage, b"key", 0).unwrap();
    let mut file = vec![0; 1 << 20];
    storage.read(0, &mut file).unwrap();
    let start = file
        .windows(64)
        .position(|window| window == &value[..64])
        .unwrap();
    for _ in 0..50 {
        let at = stream.below(value.len() as u64) as usize;
        let was = file[start + at];
        storage
            .write((start + at) as u64, &[was ^ 1 << stream.below(8)])
            .unwrap();
        let part = at as u64 / u64::from(limits::PART_BYTES);
        for number in 0..4 {
            let read = parts.read(&storage, number * u64::from(limits::PART_BYTES));
            assert_eq!(read.is_err(), number == part);
        }
        // A new reader is not let begin; and what cannot be read is forgotten.
        let lookup = log.look_up(b"key", None).unwrap();
        assert!(matches!(lookup.open(&storage, 0), Err(ReadError::Corrupt)));
        storage.write((start + at) as u64, &[was]).unwrap();
    }
    storage.write(start as u64, &[file[start] ^ 1]).unwrap();
    assert!(begin(&mut log, &storage, b"key", 0).is_none());
    assert!(log.look_up(b"key", None).is_none());
}

/// Values that are in use are rewritten where their region is reclaimed; others are overwritten.
#[test]
fn a_value_that_has_moved_is_lost() {
    let mut stream = Streams::new(2).stream("moves");
    let storage = MemoryStorage::default();
    let config = Config {
        geometry: Geometry::new(1 << 20, 8).unwrap(),
        policy: "lru".parse().unwrap(),
        queue_bytes: 4 << 20,
    };
    let mut log = Log::open(
        &storage,
        &config,
        IDENTITY,
        (),
        &Streams::new(1),
        Time::ZERO,
    )
    .unwrap()
    .0;
    let (kept, gone) = (value(150_000, &mut stream), value(150_000, &mut stream));
    put(&mut log, b"kept", &kept, 0);
    put(&mut log, b"gone", &gone, 0);
    write(&mut log, &storage);
    let (mut kept_parts, _) = begin(&mut log, &storage, b"kept", 0).unwrap();
    let (gone_parts, _) = begin(&mut log, &storage, b"gone", 0).unwrap();
    let (mut moves, mut left) = (0, false);
    for number in 0..60 {
        log.request(b"kept", Time::ZERO);
        put(
            &mut log,
            format!("{number}").as_bytes(),
            &value(200_000, &mut stream),
            0,
        );
        write(&mut log, &storage);
        if !log.holds(&kept_parts) {
            kept_parts = log.follow(&kept_parts).expect("it is in use");
            assert!(log.holds(&kept_parts));
            moves += 1;
        }
        assert_eq!(
            read_from(&kept_parts, &storage, 70_000).unwrap(),
            &kept[70_000..]
        );
        // It stays readable for a while after it has left the index.
        match read_from(&gone_parts, &storage, 0) {
            Ok(read) => assert_eq!(read, gone),
            Err(_) => {
                assert!(!log.holds(&gone_parts) && log.follow(&gone_parts).is_none());
                left = true;
            }
        }
    }
    assert!(moves > 1 && left, "{moves} {left}");
}
