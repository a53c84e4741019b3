//! `large=refuse`: an object larger than the queue of the newcomers.

use crate::traffic::Owner;
use larder_units::Time;

#[test]
fn an_object_larger_than_the_queue_is_stored() {
    // The queue's share of 1,000 bytes, by each policy's default.
    for (spec, queue) in [
        ("s3fifo", 100),
        ("2q", 250),
        ("slru", 500),
        ("s4lru", 250),
        ("lirs", 10),
        ("w-tinylfu", 10),
    ] {
        let hits = |spec: &str, size: u64| {
            let mut owner = Owner::new(&spec.parse().unwrap(), 1_000, 1);
            let requests = (0..10_u64).filter(|_| owner.request(7, size, Time::ZERO));
            requests.count()
        };
        let refusing = format!("{spec}(large=refuse)");
        assert_eq!(hits(&refusing, queue), 9, "{refusing}");
        assert_eq!(hits(&refusing, queue + 1), 0, "{refusing}");
        assert_eq!(hits(&format!("{spec}(store)"), queue + 1), 9, "{spec}");
        assert_eq!(hits(spec, queue + 1), 9, "{spec}");
    }
}
