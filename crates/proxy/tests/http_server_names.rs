//! Failure: a server by name (`resolve`) has one address for ever, requests go to addresses that
//! are gone, a change breaks requests in progress or forgets the health of servers that stay, or a
//! name server that fails or lies ends the service.

use crate::names::{NameServer, Says};
use crate::wire::{self, Asked, Client, Node, Origin, say};
use larder_proxy::{
    HttpConfig, OriginGroup, OriginProtocol, PoolConfig, PoolServer, Reach, Upstream,
};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

fn loopback(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

fn loopbacks(last: &[u8]) -> Says {
    Says::Addresses(last.iter().map(|last| loopback(*last)).collect())
}

/// Servers at several loopback addresses with the same port. Each answers with its own number; a
/// request for `/slow` gets the rest of its body after `release`.
struct Servers {
    all: Vec<Origin>,
    port: u16,
    release: Arc<AtomicBool>,
}

impl Servers {
    fn new(addresses: &[IpAddr]) -> Servers {
        let listeners = || {
            let mut all = vec![TcpListener::bind((addresses[0], 0)).unwrap()];
            let port = all[0].local_addr().unwrap().port();
            for address in &addresses[1..] {
                all.push(TcpListener::bind((*address, port)).ok()?);
            }
            Some((all, port))
        };
        let (listeners, port) = (0..100)
            .find_map(|_| listeners())
            .expect("a port that is free everywhere");
        let release = Arc::new(AtomicBool::new(false));
        let origin = |(number, listener): (usize, TcpListener)| {
            let release = Arc::clone(&release);
            Origin::on(listener, move |asked: &Asked, stream| {
                let head =
                    "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: 2\r\n\r\n";
                if !asked.line.contains("/slow") {
                    return say(stream, &format!("{head}s{number}"));
                }
                say(stream, &format!("{head}s"));
                while !release.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(10));
                }
                say(stream, &number.to_string())
            })
        };
        Servers {
            all: listeners.into_iter().enumerate().map(origin).collect(),
            port,
            release,
        }
    }

    fn requests(&self) -> Vec<usize> {
        self.all.iter().map(Origin::requests).collect()
    }

    fn entry(&self) -> PoolServer {
        let uri: http::Uri = format!("http://backend.example:{}", self.port)
            .parse()
            .unwrap();
        PoolServer {
            resolve: true,
            ..PoolServer::from(uri)
        }
    }
}

fn config(server: PoolServer, names: &NameServer) -> HttpConfig {
    let group = OriginGroup {
        path: "/".into(),
        servers: vec![server],
        ..OriginGroup::default()
    };
    HttpConfig {
        origins: vec![group],
        resolver: vec![names.address],
        ..wire::config(Upstream::Generated)
    }
}

/// Waits until the status of the pool is as `is_it` says.
fn until(node: &Node, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..1500 {
        let pool = node.status()["pools"][0].clone();
        if is_it(&pool) {
            return pool;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}: {}", node.status()["pools"]);
}

fn addresses(pool: &Value) -> Vec<String> {
    let servers = pool["servers"].as_array().unwrap().iter();
    let name = |server: &Value| {
        server["server"]
            .as_str()
            .unwrap()
            .rsplit_once(':')
            .unwrap()
            .0
            .to_owned()
    };
    let mut all: Vec<_> = servers.map(name).collect();
    all.sort();
    all
}

fn has(pool: &Value, last: &[u8]) -> bool {
    addresses(pool)
        == last
            .iter()
            .map(|last| loopback(*last).to_string())
            .collect::<Vec<_>>()
}

/// Returns the server at an address.
fn one_of(pool: &Value, address: IpAddr) -> Value {
    let of = |server: &&Value| {
        server["server"]
            .as_str()
            .unwrap()
            .starts_with(&format!("{address}:"))
    };
    pool["servers"]
        .as_array()
        .unwrap()
        .iter()
        .find(of)
        .unwrap_or_else(|| panic!("{address}: {pool}"))
        .clone()
}

fn ask(client: &mut Client, count: usize, prefix: &str) {
    for number in 0..count {
        let seen = client.get(&format!("/{prefix}/{number}"));
        assert_eq!(seen.status, 200, "{prefix} {number}");
    }
}

#[test]
fn addresses_join_and_leave_while_requests_are_in_progress() {
    let servers = Servers::new(&[1, 2, 3].map(loopback));
    let names = NameServer::new(loopbacks(&[1, 2]));
    let server = PoolServer {
        weight: 3,
        max_conns: 50,
        ..servers.entry()
    };
    let node = Node::with(&config(server, &names));
    let mut client = Client::new(&node);
    ask(&mut client, 60, "first");
    let first = servers.requests();
    assert!(first[0] > 0 && first[1] > 0 && first[2] == 0, "{first:?}");
    let pool = until(&node, "two", |pool| has(pool, &[1, 2]));
    let name = format!("backend.example:{}", servers.port);
    for server in pool["servers"].as_array().unwrap() {
        assert_eq!(
            (&server["weight"], &server["name"]),
            (&3.into(), &name.clone().into()),
            "{server}"
        );
    }
    // A response of the first server, which leaves meanwhile.
    let slow = (0..)
        .map(|number| format!("/slow/{number}"))
        .find(|target| {
            let (heard, hears) = mpsc::channel();
            let (address, to) = (node.address, target.clone());
            let before = servers.requests();
            thread::spawn(move || heard.send(Client::to(address).get(&to)));
            while servers.requests()[..2] == before[..2] {
                thread::sleep(Duration::from_millis(5));
            }
            let is_first = servers.requests()[0] > before[0];
            if is_first {
                names.say(loopbacks(&[2, 3]));
                until(&node, "the first leaves", |pool| has(pool, &[2, 3]));
                assert!(hears.try_recv().is_err(), "it waits");
                servers.release.store(true, Ordering::SeqCst);
                let seen = hears.recv_timeout(Duration::from_secs(30)).unwrap();
                assert_eq!(
                    (seen.status, seen.text().as_str(), seen.cut),
                    (200, "s0", false)
                );
            }
            is_first
        });
    assert!(slow.is_some());
    let before = servers.requests();
    ask(&mut client, 60, "then");
    let after = servers.requests();
    assert_eq!(after[0], before[0], "it is gone");
    assert!(after[1] > before[1] && after[2] > before[2], "{after:?}");
    let pool = until(&node, "two", |pool| has(pool, &[2, 3]));
    let second = one_of(&pool, loopback(2));
    assert!(
        second["requests"].as_u64() > Some(u64::try_from(first[1]).unwrap()),
        "its counts go on: {second}"
    );
}

#[test]
fn name_servers_that_fail_end_the_service() {
    let servers = Servers::new(&[1, 2].map(loopback));
    let names = NameServer::new(Says::NxDomain);
    let node = Node::with(&config(servers.entry(), &names));
    let mut client = Client::new(&node);
    assert_eq!(client.get("/none").status, 503);
    names.say(loopbacks(&[1, 2]));
    until(&node, "a name that appears", |pool| has(pool, &[1, 2]));
    ask(&mut client, 20, "first");
    let failures = |pool: &Value| pool["names"][0]["failures"].as_u64().unwrap();
    for says in [Says::ServFail, Says::NxDomain, Says::Addresses(Vec::new())] {
        let before = failures(&node.status()["pools"][0]);
        names.say(says.clone());
        let pool = until(&node, "failures", |pool| failures(pool) > before);
        assert!(
            has(&pool, &[1, 2]) && pool["names"][0]["failure"].is_string(),
            "{says:?}: {pool}"
        );
        ask(&mut client, 10, &format!("{says:?}"));
        names.say(loopbacks(&[1, 2]));
        until(&node, "an answer", |pool| {
            pool["names"][0]["failure"].is_null()
        });
    }
    names.say(loopbacks(&[2]));
    until(&node, "the first leaves", |pool| has(pool, &[2]));
    ask(&mut client, 10, "last");
}

#[test]
fn a_new_address_makes_an_ill_server_healthy_and_gets_all_requests_at_once() {
    // Nothing listens at the third address.
    let servers = Servers::new(&[1, 2].map(loopback));
    let names = NameServer::new(loopbacks(&[1, 3]));
    let mut config = config(servers.entry(), &names);
    config.origins[0].pool = PoolConfig {
        slow_start: Duration::from_secs(3600),
        ..PoolConfig::default()
    };
    let node = Node::with(&config);
    let mut client = Client::new(&node);
    ask(&mut client, 60, "first");
    let ill = |pool: &Value| one_of(pool, loopback(3));
    let before = ill(&node.status()["pools"][0]);
    assert!(before["ejections"].as_u64() >= Some(1), "{before}");
    names.say(loopbacks(&[1, 2, 3]));
    let pool = until(&node, "the second joins", |pool| has(pool, &[1, 2, 3]));
    let after = ill(&pool);
    assert!(
        after["state"] != "up" && after["failures"].as_u64() >= before["failures"].as_u64(),
        "{after}"
    );
    let states = |pool: &Value| {
        pool["servers"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["state"] == "slow start")
            .count()
    };
    assert_eq!(states(&pool), 1, "{pool}");
    let before = servers.requests();
    ask(&mut client, 200, "then");
    let after = servers.requests();
    let (old, new) = (after[0] - before[0], after[1] - before[1]);
    assert!(
        new > 0 && new * 3 < old,
        "a tenth of its share: {new} and {old}"
    );
}

#[test]
fn a_thousand_addresses_take_all_memory_or_none_is_used() {
    let anywhere = Origin::on(TcpListener::bind("0.0.0.0:0").unwrap(), |_, stream| {
        say(
            stream,
            "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: 2\r\n\r\nok",
        )
    });
    let all = |from: u32| {
        Says::Addresses(
            (from..from + 1000)
                .map(|at| Ipv4Addr::from(0x7f01_0000 + at).into())
                .collect(),
        )
    };
    let names = NameServer::new(all(1));
    let uri: http::Uri = format!("http://many.example:{}", anywhere.address.port())
        .parse()
        .unwrap();
    let config = config(
        PoolServer {
            resolve: true,
            ..PoolServer::from(uri)
        },
        &names,
    );
    let node = Node::with(&config);
    let mut client = Client::new(&node);
    ask(&mut client, 20, "first");
    let name = |pool: &Value, key: &str| pool["names"][0][key].as_u64().unwrap();
    let pool = until(&node, "all places", |pool| addresses(pool).len() == 64);
    assert_eq!(
        (name(&pool, "addresses"), name(&pool, "left_out")),
        (64, 936)
    );
    let resolutions = name(&pool, "resolutions");
    let later = until(&node, "again", |pool| {
        name(pool, "resolutions") >= resolutions + 2
    });
    assert_eq!(
        addresses(&later),
        addresses(&pool),
        "the same answer, the same servers"
    );
    names.say(all(2001));
    let of_second = |address: &String| {
        address.parse::<Ipv4Addr>().unwrap() >= Ipv4Addr::from(0x7f01_0000 + 2001)
    };
    until(&node, "all others", |pool| {
        addresses(pool).len() == 64 && addresses(pool).iter().all(of_second)
    });
    ask(&mut client, 20, "then");
}

#[test]
fn one_family_of_addresses_is_left_out() {
    let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
    let has_v6 = TcpListener::bind((v6, 0)).is_ok();
    let addresses = if has_v6 {
        vec![loopback(1), v6]
    } else {
        vec![loopback(1)]
    };
    let servers = Servers::new(&addresses);
    let names = NameServer::new(Says::Addresses(vec![loopback(1), v6]));
    let node = Node::with(&config(servers.entry(), &names));
    ask(&mut Client::new(&node), 40, "both");
    assert!(
        servers.requests().iter().all(|requests| *requests > 0),
        "{:?}",
        servers.requests()
    );
    let pool = &node.status()["pools"][0];
    assert_eq!(
        pool["servers"].as_array().unwrap().len(),
        addresses.len(),
        "{pool}"
    );
    names.say(Says::Addresses(vec![loopback(1)]));
    until(&node, "only IPv4", |pool| has(pool, &[1]));
}

#[test]
fn silence_for_ipv6_makes_the_whole_name_fail() {
    let servers = Servers::new(&[1, 2].map(loopback));
    let names = NameServer::new(Says::NothingForIpv6(vec![loopback(1)]));
    let node = Node::with(&config(servers.entry(), &names));
    until(&node, "the first", |pool| has(pool, &[1]));
    ask(&mut Client::new(&node), 10, "first");
    names.say(Says::NothingForIpv6(vec![loopback(2)]));
    until(&node, "the second", |pool| has(pool, &[2]));
    let name = node.status()["pools"][0]["names"][0].clone();
    assert_eq!(
        (&name["failures"], &name["failure"]),
        (&0.into(), &Value::Null),
        "{name}"
    );
}

#[test]
fn a_reload_loses_servers_for_which_a_name_leaves_no_place() {
    let servers = Servers::new(&[1, 2].map(loopback));
    let many = (0..100)
        .map(|at| Ipv4Addr::from(0x7f01_0001 + at).into())
        .collect();
    let names = NameServer::new(Says::Addresses(many));
    let first = config(servers.entry(), &names);
    let node = Node::with(&first);
    let count = |pool: &Value| pool["servers"].as_array().unwrap().len();
    until(&node, "all places", |pool| count(pool) == 64);
    let http = node.http.as_ref().unwrap();
    let mut more = first.clone();
    let url =
        |host: &str| -> http::Uri { format!("http://{host}:{}", servers.port).parse().unwrap() };
    more.origins[0].servers.push(PoolServer {
        resolve: true,
        ..PoolServer::from(url("other.example"))
    });
    more.origins[0]
        .servers
        .push(PoolServer::from(url("127.0.0.2")));
    http.take_over(http.reload(&more).unwrap()).unwrap();
    one_of(&node.status()["pools"][0], loopback(2));
    let name = Value::from(url("other.example").authority().unwrap().as_str());
    let has_name = |pool: &Value| {
        pool["servers"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["name"] == name)
    };
    let pool = until(&node, "the other name", has_name);
    assert_eq!(count(&pool), 64, "{pool}");
    // The same from the start, when either name may be known first.
    let node = Node::with(&more);
    until(&node, "the other name", |pool| {
        count(pool) == 64 && has_name(pool)
    });
}

#[test]
fn a_reload_of_other_settings_needs_the_name_servers() {
    let servers = Servers::new(&[1, 2].map(loopback));
    let names = NameServer::new(loopbacks(&[1, 2]));
    let first = config(servers.entry(), &names);
    let node = Node::with(&first);
    ask(&mut Client::new(&node), 20, "first");
    names.say(Says::ServFail);
    let http = node.http.as_ref().unwrap();
    let mut second = first.clone();
    second.timeouts.origin_response += Duration::from_secs(1);
    let mut third = second.clone();
    third.origins[0].protocol = OriginProtocol::Auto;
    for config in [second, third] {
        http.take_over(http.reload(&config).unwrap()).unwrap();
        let pool = node.status()["pools"][0].clone();
        assert!(has(&pool, &[1, 2]), "{pool}");
        ask(&mut Client::new(&node), 20, "then");
    }
}

#[test]
fn a_reload_forgets_addresses_or_shows_the_origin_of_the_start() {
    let servers = Servers::new(&[1, 2].map(loopback));
    let names = NameServer::new(loopbacks(&[1, 2]));
    let node = Node::with(&config(servers.entry(), &names));
    let mut client = Client::new(&node);
    ask(&mut client, 40, "first");
    let requests = |pool: &Value| {
        pool["servers"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| one["requests"].as_u64())
            .sum()
    };
    let before: u64 = requests(&node.status()["pools"][0]);
    names.say(Says::ServFail);
    let http = node.http.as_ref().unwrap();
    let reload = |config: &HttpConfig| http.take_over(http.reload(config).unwrap()).unwrap();
    reload(&config(
        PoolServer {
            weight: 7,
            ..servers.entry()
        },
        &names,
    ));
    let pool = node.status()["pools"][0].clone();
    assert!(has(&pool, &[1, 2]) && requests(&pool) >= before, "{pool}");
    assert!(
        pool["servers"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["weight"] == 7),
        "{pool}"
    );
    let has_times = |one: &Value| one["mean_response_seconds"].as_f64().unwrap() > 0.0;
    assert!(
        pool["servers"].as_array().unwrap().iter().all(has_times),
        "{pool}"
    );
    ask(&mut client, 40, "then");
    assert_eq!(node.status()["origin"], "generated");
    let uri: http::Uri = format!("http://other.example:{}", servers.port)
        .parse()
        .unwrap();
    names.say(loopbacks(&[2]));
    let upstream = Upstream::Http(uri.clone());
    let fallback = HttpConfig {
        origin_resolve: true,
        resolver: vec![names.address],
        ..wire::config(upstream)
    };
    reload(&fallback);
    assert_eq!(node.status()["origin"], uri.to_string());
    let before = servers.requests();
    ask(&mut client, 10, "last");
    assert_eq!(
        (servers.requests()[0], servers.requests()[1]),
        (before[0], before[1] + 10)
    );
}

/// Failure: `larder doctor` asks the system for a name that the node resolves by its own name
/// servers, and calls a server dead that answers.
#[test]
fn a_name_of_other_name_servers_is_tried_by_the_systems() {
    let (servers, names) = (
        Servers::new(&[loopback(1)]),
        NameServer::new(loopbacks(&[1])),
    );
    let config = config(servers.entry(), &names);
    let reached = || larder_proxy::reach_servers(&config, Duration::from_secs(60)).unwrap();
    let groups = reached();
    assert_eq!(groups.len(), 2, "the last one is that of other requests");
    let address = Some(loopback(1));
    assert_eq!(groups[0][0].1, Reach::Reached { address });
    names.say(Says::NxDomain);
    let groups = reached();
    assert!(matches!(&groups[0][0].1, Reach::Failed(reason) if reason.contains("no address")));
}
