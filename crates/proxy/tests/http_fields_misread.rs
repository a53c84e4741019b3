//! Failure: what an origin says of its responses is read otherwise than the RFCs have it, and
//! pages are fetched, or denied, for nothing.

use crate::wire::{Client, Node, Origin, say};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Its first answer has these fields, and every later one this status.
fn origin(fields: &'static str, later: &'static str) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::new(move |_, stream| {
        let (status, fields) = match count.fetch_add(1, Ordering::SeqCst) {
            0 => ("200 OK", fields),
            _ => (later, "cache-control: no-store\r\n"),
        };
        say(
            stream,
            &format!("HTTP/1.1 {status}\r\n{fields}content-length: 4\r\n\r\npage"),
        )
    })
}

#[test]
fn a_500_denies_what_stale_if_error_allows() {
    for status in ["500 No", "502 No", "503 No", "504 No"] {
        let origin = origin(
            "cache-control: max-age=0, stale-if-error=600\r\netag: \"1\"\r\n",
            status,
        );
        let node = Node::of(origin.address);
        let mut client = Client::new(&node);
        client.get("/page");
        let seen = client.get("/page");
        assert_eq!(seen.status, 200, "{status}");
        assert!(
            seen.header("cache-status").contains("stale-if-error"),
            "{}",
            seen.header("cache-status")
        );
    }
    // Without the word, it is passed on.
    let origin = origin("cache-control: max-age=0\r\netag: \"1\"\r\n", "500 No");
    let node = Node::of(origin.address);
    let mut client = Client::new(&node);
    client.get("/page");
    assert_eq!(client.get("/page").status, 500);
}

#[test]
fn an_age_that_is_a_list_or_no_number_makes_a_fresh_page_stale() {
    for (age, is_hit) in [
        ("age: 10\r\n", true),
        ("age: 10, 900\r\n", true),
        ("age: 10\r\nage: 900\r\n", true),
        ("age: abc\r\n", true),
        ("age: -900\r\n", true),
        ("age: 900\r\n", false),
        ("age: 900, 10\r\n", false),
    ] {
        let fields: &str =
            Box::leak(format!("cache-control: max-age=600\r\n{age}").into_boxed_str());
        let origin = origin(fields, "200 OK");
        let node = Node::of(origin.address);
        let mut client = Client::new(&node);
        client.get("/page");
        assert_eq!(client.get("/page").is_hit(), is_hit, "{age}");
    }
}

#[test]
fn a_date_in_other_letters_makes_a_fresh_page_stale() {
    for date in [
        "Thu, 01 Jan 2099 00:00:00 GMT",
        "thu, 01 jan 2099 00:00:00 gmt",
        "THU, 01 JAN 2099 00:00:00 GMT",
        "thu jan  1 00:00:00 2099",
    ] {
        let fields: &str = Box::leak(format!("expires: {date}\r\n").into_boxed_str());
        let origin = origin(fields, "200 OK");
        let node = Node::of(origin.address);
        let mut client = Client::new(&node);
        client.get("/page");
        assert!(client.get("/page").is_hit(), "{date}");
    }
}
