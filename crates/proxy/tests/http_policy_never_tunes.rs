//! Failure: the policy's long work is never asked for, or its result never comes back, and the
//! cache keeps its first guess.

use crate::wire::{self, Client, Node};
use larder_proxy::Upstream;

#[test]
fn adaptsize_tunes_itself_beside_the_requests() {
    let mut config = wire::config(Upstream::Generated);
    config.cache.policy = "adaptsize(chance, interval=2000)+lru".parse().unwrap();
    let node = Node::with(&config);
    let tunings = || {
        node.status()["policy"]["figures"]["adaptsize.tunings"]
            .as_f64()
            .expect("a figure")
    };
    assert_eq!(tunings(), 0.0);
    let mut client = Client::new(&node);
    let mut asked = 0;
    while tunings() < 2.0 {
        assert!(asked < 40_000, "not tuned in {asked} requests");
        for number in 0..200 {
            client.get(&format!("/{}/{}", 100 + number % 7 * 100, number % 50));
        }
        asked += 200;
    }
    assert!(node.status()["hits"].as_u64() > Some(1000));
}
