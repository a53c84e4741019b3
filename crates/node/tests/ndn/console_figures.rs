//! The console shows other routes than those of the RIB.

use super::Stage;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

/// Returns the first status page of the console.
fn console(stage: &Stage) -> Value {
    let admin = stage.node.admin_address().unwrap();
    let mut stream = TcpStream::connect(admin).unwrap();
    write!(
        stream,
        "GET /console/events HTTP/1.1\r\nhost: {admin}\r\n\r\n"
    )
    .unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines.find(|line| line == "event: status").unwrap();
    serde_json::from_str(lines.next().unwrap().strip_prefix("data: ").unwrap()).unwrap()
}

/// Failure: a route is missing, has another face, or a next hop of the FIB counts as a route.
#[test]
fn a_route_is_not_on_the_console() {
    let stage = Stage::new();
    let mut producer = stage.unix();
    producer.register("/a/b");
    let page = console(&stage);
    let routes: Vec<&Value> = page["console"]["ndn"]["routes"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    let own: Vec<&&Value> = routes
        .iter()
        .filter(|route| route["prefix"] == "/a/b")
        .collect();
    let [route] = own[..] else {
        panic!("{routes:?}")
    };
    assert_eq!(
        (&route["cost"], &route["child_inherit"], &route["capture"]),
        (&json!(0), &json!(true), &json!(false))
    );
    let face = page["ndn"]["faces"]
        .as_array()
        .unwrap()
        .iter()
        .find(|face| face["id"] == route["face"])
        .unwrap();
    assert!(
        face["uri"] == route["uri"] && face["scope"] == "local",
        "{route} leads to {face}"
    );
    assert_eq!(routes.len() as u64, stage.figure("/ndn/rib_routes"));
}
