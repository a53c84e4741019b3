//! Failure: the clock of an origin is some minutes behind, and no request for its pages hits.

use crate::wire::{Asked, Client, Node, Origin, say};
use std::time::{Duration, SystemTime};

fn origin(of_a_cache: &'static str) -> Origin {
    Origin::new(move |_: &Asked, stream| {
        let date = httpdate::fmt_http_date(SystemTime::now() - Duration::from_secs(120));
        let head = format!("date: {date}\r\ncache-control: max-age=60\r\n{of_a_cache}");
        say(
            stream,
            &format!("HTTP/1.1 200 OK\r\n{head}content-length: 4\r\n\r\npage"),
        )
    })
}

#[test]
fn a_date_of_two_minutes_ago_is_always_a_miss() {
    for (of_a_cache, hits) in [
        ("", true),
        ("age: 0\r\n", false),
        ("via: 1.1 other\r\n", false),
    ] {
        let origin = origin(of_a_cache);
        let node = Node::of(origin.address);
        let mut client = Client::new(&node);
        assert!(!client.get("/").is_hit());
        assert_eq!(client.get("/").is_hit(), hits, "{of_a_cache}");
        assert_eq!(
            node.status()["clocks_behind"],
            u64::from(hits),
            "{of_a_cache}"
        );
    }
}
