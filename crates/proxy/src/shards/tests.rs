//! Long work of the policy, and what several shards do to each other.

use super::*;

fn config(capacity: ByteSize, policy: &str) -> Config {
    Config {
        capacity,
        policy: policy.parse().unwrap(),
        max_object: ByteSize::from_mib(64),
        slice: ByteSize::from_bytes(0),
        share_cookies: false,
        ignore_reloads: false,
        targets: Vec::new(),
        hash_key: [1; 16],
    }
}

fn shards(count: u16) -> Arc<Shards> {
    Shards::with(&config(ByteSize::from_mib(1), "lru"), &Streams::new(1), count, None).unwrap()
}

/// Failure: after one search that panics, the policy is never tuned again.
#[test]
fn long_work_that_panics_is_over() {
    let shards = shards(1);
    for under_lock in [false, true] {
        shards.job_running.store(true, Ordering::Relaxed);
        let running = JobRunning(Arc::clone(&shards));
        let work = std::thread::spawn(move || {
            let _state = under_lock.then(|| running.0.shards[0].lock());
            panic!("on purpose");
        });
        assert!(work.join().is_err());
        assert!(!shards.job_running.load(Ordering::Relaxed));
    }
}
