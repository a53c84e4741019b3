//! Failure: one client's odd request makes the origin answer with an error, and everybody gets it
//! from the cache.

use crate::wire::{self, Asked, Client, Node, Origin, say};
use larder_proxy::rules::Rule;
use larder_proxy::{HttpConfig, Upstream};

/// An origin that answers with the status that the field `x-odd` has, as one does for a request
/// that it does not understand. It gives each of its responses a lifetime.
fn origin() -> Origin {
    Origin::new(|asked: &Asked, stream| {
        let status = asked.header("x-odd").unwrap_or("200");
        let head = "cache-control: public, max-age=600\r\ncdn-cache-control: max-age=600";
        say(
            stream,
            &format!("HTTP/1.1 {status} Odd\r\n{head}\r\ncontent-length: 3\r\n\r\n{status}"),
        )
    })
}

fn config(rules: Vec<Rule>, origin: &Origin) -> HttpConfig {
    HttpConfig {
        rules,
        ..wire::config(Upstream::Http(
            format!("http://{}", origin.address).parse().unwrap(),
        ))
    }
}

#[test]
fn an_error_takes_the_page_from_everybody() {
    let origin = origin();
    // A lifetime of a rule for everything is for no error.
    for rules in [
        Vec::new(),
        vec![Rule {
            ttl: Some(600),
            ..Rule::default()
        }],
    ] {
        let node = Node::with(&config(rules, &origin));
        let mut client = Client::new(&node);
        for status in [
            "400", "403", "406", "422", "451", "500", "505", "431", "429",
        ] {
            let target = format!("/{status}");
            assert_eq!(
                client
                    .send("GET", &target, &[("x-odd", status)], b"")
                    .text(),
                status
            );
            let seen = client.get(&target);
            assert_eq!(
                (seen.status, seen.text().as_str()),
                (200, "200"),
                "{status}"
            );
        }
    }
}

/// Failure: negative caching does not work any more, or an operator cannot switch it on.
#[test]
fn an_error_of_the_page_is_asked_for_each_time() {
    let origin = origin();
    let node = Node::with(&config(Vec::new(), &origin));
    let mut client = Client::new(&node);
    for status in ["404", "405", "410", "414", "301", "308", "501", "503"] {
        let target = format!("/{status}");
        client.send("GET", &target, &[("x-odd", status)], b"");
        assert!(client.get(&target).is_hit(), "{status}");
    }
    let named = vec![Rule {
        status: vec!["403".parse().unwrap(), "5xx".parse().unwrap()],
        ttl: Some(60),
        ..Rule::default()
    }];
    let node = Node::with(&config(named, &origin));
    let mut client = Client::new(&node);
    for (status, is_stored) in [("403", true), ("500", true), ("400", false), ("401", false)] {
        let target = format!("/{status}");
        client.send("GET", &target, &[("x-odd", status)], b"");
        assert_eq!(client.get(&target).is_hit(), is_stored, "{status}");
    }
}
