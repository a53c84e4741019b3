//! Failure: whoever reaches the admin port empties the cache; or its owner orders a purge, and it
//! was not done.

use crate::wire::{Client, Node, Origin, Seen, say};
use larder_proxy::Admin;

const TOKEN: &str = "0123456789abcdef";

fn order(admin: &Admin, authorization: &str, body: &str) -> Seen {
    Client::to(admin.local_addr()).send(
        "POST",
        "/purge",
        &[("authorization", authorization)],
        body.as_bytes(),
    )
}

#[test]
fn only_who_has_the_token() {
    let origin = Origin::new(|_, stream| {
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\nsurrogate-key: page\r\ncontent-length: 1\r\n\r\nx",
        )
    });
    let node = Node::of(origin.address);
    let http = node.http.as_ref().unwrap();
    let start =
        |purging| Admin::start(([127, 0, 0, 1], 0).into(), vec![http.source()], purging).unwrap();
    let (open, shut) = (start(Some(http.purging(Some(TOKEN)))), start(None));
    let mut client = Client::new(&node);
    client.get("/a");
    let everything = "{\"everything\": true}";
    let bearer = format!("Bearer {TOKEN}");
    for (admin, authorization, body, status) in [
        (&open, "", everything, 401),
        (&open, "Bearer ", everything, 401),
        (&open, "Bearer 0123456789abcdee", everything, 401),
        (&open, TOKEN, everything, 401),
        (&open, &format!("Basic {TOKEN}"), everything, 401),
        (&open, &bearer, "{}", 400),
        (&open, &format!("bEARER {TOKEN}"), "{}", 400),
        (&open, &bearer, &" ".repeat(40_000), 400),
        (&shut, &bearer, everything, 403),
    ] {
        let seen = order(admin, authorization, body);
        assert_eq!(
            seen.status,
            status,
            "{authorization} {}: {}",
            &body[..body.len().min(30)],
            seen.text()
        );
    }
    assert_eq!(Client::to(open.local_addr()).get("/purge").status, 405);
    assert!(client.get("/a").is_hit());
    for body in [
        everything,
        "{\"tag\": \"page\"}",
        "{\"tag\": \"page\", \"soft\": true}",
        "{\"url\": \"http://example.test/a\"}",
        "{\"prefix\": \"http://example.test/\"}",
    ] {
        let seen = order(&open, &bearer, body);
        assert_eq!(
            (seen.status, seen.text().trim()),
            (200, "{\"purged\":1}"),
            "{body}"
        );
        assert!(!client.get("/a").is_hit(), "{body}");
        assert!(client.get("/a").is_hit(), "{body}");
    }
    open.stop();
    shut.stop();
}
