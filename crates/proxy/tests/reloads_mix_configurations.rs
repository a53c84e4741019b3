//! Failure: after a reload that changes origins and rules together, a request meets the origins of
//! one configuration with the rules of the other.

use crate::wire::{self, Client, Node, Origin, read_response, say};
use larder_proxy::rules::Rule;
use larder_proxy::{HttpConfig, Upstream};
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// An origin that answers with its own name and the name that the rules have added.
fn origin(name: &'static str) -> Origin {
    Origin::new(move |asked, stream| {
        let body = format!("{name} {}", asked.header("x-rules").unwrap_or("none"));
        let head = format!(
            "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        say(stream, &(head + &body))
    })
}

/// A configuration whose rules add the name of its origin.
fn config(origin: &Origin, name: &str) -> HttpConfig {
    let rule = format!("request_headers = {{ set = {{ X-Rules = \"{name}\" }} }}");
    HttpConfig {
        rules: vec![toml::from_str::<Rule>(&rule).unwrap()],
        ..wire::config(Upstream::Http(
            format!("http://{}", origin.address).parse().unwrap(),
        ))
    }
}

fn reload(node: &Node, config: &HttpConfig) {
    let http = node.http.as_ref().unwrap();
    http.take_over(http.reload(config).unwrap()).unwrap();
}

/// A request has passed the rules and waits for its body when the reload comes.
#[test]
fn a_request_that_waits_meets_the_origins_of_another_configuration() {
    let (one, two) = (origin("one"), origin("two"));
    let node = Node::with(&config(&one, "one"));
    let mut stream = TcpStream::connect(node.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let head = "POST /a HTTP/1.1\r\nhost: example.test\r\ncontent-length: 1\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    node.await_figure("requests", 1);
    reload(&node, &config(&two, "two"));
    stream.write_all(b"x").unwrap();
    let answer = read_response(&mut BufReader::new(&stream), false);
    assert_eq!(answer.text(), "one one");
    assert_eq!(Client::new(&node).get("/b").text(), "two two");
}

#[test]
fn a_request_meets_parts_of_two_configurations() {
    let (one, two) = (origin("one"), origin("two"));
    let configs = [config(&one, "one"), config(&two, "two")];
    let node = Node::with(&configs[0]);
    let ask = || {
        let mut client = Client::new(&node);
        for _ in 0..300 {
            let answer = client.get("/a").text();
            assert!(["one one", "two two"].contains(&&*answer), "{answer}");
        }
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        for config in configs.iter().cycle().skip(1) {
            if clients.iter().all(|client| client.is_finished()) {
                break;
            }
            reload(&node, config);
        }
    });
}

/// A request waits for another one while the reload comes, and then asks by itself.
#[test]
fn what_a_former_origin_answers_after_a_reload_is_stored() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let one = Origin::new(move |_, stream| {
        // The first answer waits, and is for its client alone. The channel is closed for others.
        let is_first = released.lock().unwrap().recv().is_ok();
        let control = if is_first { "no-store" } else { "max-age=60" };
        say(
            stream,
            &format!("HTTP/1.1 200 OK\r\ncache-control: {control}\r\ncontent-length: 3\r\n\r\none"),
        )
    });
    let two = origin("two");
    let node = Node::with(&config(&one, "one"));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| Client::new(&node).get("/a").text()))
            .collect();
        node.await_figure("collapsed", 1);
        reload(&node, &config(&two, "two"));
        release.send(()).unwrap();
        drop(release);
        for client in clients {
            assert_eq!(client.join().unwrap(), "one");
        }
    });
    assert_eq!(Client::new(&node).get("/a").text(), "two two");
}
