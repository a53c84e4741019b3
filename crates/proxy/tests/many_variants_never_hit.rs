//! Failure: a URL has more variants than the cache keeps, and no request for it hits.

use crate::wire::{self, Asked, Client, Node, Origin, say};
use larder_proxy::Upstream;

fn origin() -> Origin {
    Origin::new(|asked: &Asked, stream| {
        let body = asked.header("origin").unwrap_or("none").to_owned();
        let head = "cache-control: max-age=600\r\nvary: Origin";
        say(
            stream,
            &format!(
                "HTTP/1.1 200 OK\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ),
        )
    })
}

/// Asks for so many values of `Origin` in turn. Returns the number of hits.
fn round(client: &mut Client, values: usize) -> usize {
    let mut hits = 0;
    for value in 0..values {
        let value = format!("https://{value}.example");
        let seen = client.send("GET", "/", &[("origin", &value)], b"");
        assert_eq!(seen.text(), value, "another variant");
        hits += usize::from(seen.is_hit());
    }
    hits
}

#[test]
fn forty_values_in_turn_are_misses() {
    let origin = origin();
    let config = wire::config(Upstream::Http(
        format!("http://{}", origin.address).parse().unwrap(),
    ));
    for (variants, values, hits) in [(1000, 40, 40), (1000, 300, 300), (30, 30, 30), (30, 40, 0)] {
        let mut config = config.clone();
        config.cache.variants = variants;
        let node = Node::with(&config);
        let mut client = Client::new(&node);
        assert_eq!(
            (round(&mut client, values), round(&mut client, values)),
            (0, hits),
            "{variants} {values}"
        );
        let dropped = if hits == values {
            0
        } else {
            2 * values - variants
        };
        assert_eq!(
            node.status()["variants_dropped"],
            dropped,
            "{variants} {values}"
        );
    }
}
