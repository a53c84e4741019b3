//! Tests of the guard of a run.

use super::run_guard::{bytes_counted_twice, bytes_held};
use super::*;
use crate::app::{Received, Sends};
use crate::apps::{Cbr, CbrConfig, Payload, Producer, ProducerConfig};
use crate::error::RunError;
use crate::link::{Depth, Queueing};
use std::time::Duration;

struct Restless;

impl App for Restless {
    fn next_timer(&self) -> Option<Time> {
        Some(Time::ZERO)
    }

    fn on_timer(&mut self, _: Time, _: &mut Sends) {}

    fn on_packet(&mut self, _: Time, _: &Received<'_>, _: &mut Sends) {}
}

struct Silent;

impl App for Silent {
    fn next_timer(&self) -> Option<Time> {
        None
    }

    fn on_timer(&mut self, _: Time, _: &mut Sends) {}

    fn on_packet(&mut self, _: Time, _: &Received<'_>, _: &mut Sends) {}
}

#[test]
fn a_run_that_cannot_end_takes_all_time() {
    let mut network = Simulation::new(1);
    network.guard.max_events_at_instant = 1000;
    let node = network.add_node("a", NodeConfig::default()).unwrap();
    network.add_app(node, Box::new(Restless));
    let error = network.run_until(Time::from_secs(1)).unwrap_err();
    assert_eq!(error, RunError::StandsStill { at: Time::ZERO });
    assert!(error.to_string().contains("time stands still"));
}

#[test]
fn a_run_that_only_grows_takes_all_memory() {
    let mut network = Simulation::new(1);
    network.guard.max_events_planned = 1000;
    let [a, b] = ["a", "b"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
    // A link that sends in no time, with a delay of an hour.
    let far = LinkConfig {
        rate: None,
        ..LinkConfig::new("1Gbps".parse().unwrap(), Duration::from_secs(3600))
    };
    network.connect(a, b, &far).unwrap();
    let prefix: Name = "/p".parse().unwrap();
    let config = CbrConfig {
        frequency: 10_000.0,
        ..CbrConfig::new(prefix.clone())
    };
    network.add_app(
        a,
        Box::new(Cbr::new(config, network.streams().stream("app"))),
    );
    let silent = network.add_app(b, Box::new(Silent));
    network.serve(&prefix, silent).unwrap();
    let error = network.run_until(Time::from_secs(1)).unwrap_err();
    assert!(
        matches!(error, RunError::Grows { .. }) && error.to_string().contains("only grows"),
        "{error}"
    );
}

/// Two nodes, a consumer of large Data, and a producer that answers or is silent.
fn filling(queue: usize, answers: bool) -> RunError {
    let mut network = Simulation::new(1);
    network.guard.max_bytes = 2_000_000;
    let [a, b] = ["a", "b"].map(|name| network.add_node(name, NodeConfig::default()).unwrap());
    let link = LinkConfig {
        queue: Queueing::DropTail(Depth::Packets(queue)),
        ..LinkConfig::new("1Mbps".parse().unwrap(), Duration::ZERO)
    };
    network.connect(a, b, &link).unwrap();
    let prefix: Name = "/p".parse().unwrap();
    let config = CbrConfig {
        frequency: 1000.0,
        ..CbrConfig::new(prefix.clone())
    };
    network.add_app(
        a,
        Box::new(Cbr::new(config, network.streams().stream("app"))),
    );
    let producer = ProducerConfig {
        payload: Payload::Content(5000),
        freshness: None,
    };
    let app: Box<dyn App> = if answers {
        Box::new(Producer::new(producer))
    } else {
        Box::new(Silent)
    };
    let app = network.add_app(b, app);
    network.serve(&prefix, app).unwrap();
    network.run_until(Time::from_secs(100)).unwrap_err()
}

#[test]
fn one_data_on_many_links_takes_all_memory() {
    let mut network = Simulation::new(1);
    network.guard.max_bytes = 2_000_000;
    let node = |network: &mut Simulation, name: &str| {
        network.add_node(name, NodeConfig::default()).unwrap()
    };
    let hub = node(&mut network, "hub");
    let prefix: Name = "/p".parse().unwrap();
    let producer = ProducerConfig {
        payload: Payload::Content(5000),
        freshness: None,
    };
    let producer = network.add_app(hub, Box::new(Producer::new(producer)));
    // Twenty Data per second fill the queues of fifty slow links: 5 MB if each copy counted.
    let slow = LinkConfig::new("100kbps".parse().unwrap(), Duration::ZERO);
    for leaf in 0..50 {
        let leaf = node(&mut network, &format!("leaf {leaf}"));
        network.connect(hub, leaf, &slow).unwrap();
        let config = CbrConfig {
            frequency: 20.0,
            ..CbrConfig::new(prefix.clone())
        };
        network.add_app(
            leaf,
            Box::new(Cbr::new(config, network.streams().stream("app"))),
        );
    }
    network.serve(&prefix, producer).unwrap();
    network.run_until(Time::from_secs(2)).unwrap();
    let (frames, twice) = bytes_counted_twice(&network.network);
    assert!(
        bytes_held(&network.network, &network.apps, &network.tcp_hosts) > 4_000_000 && frames > 800,
        "{} of {frames}",
        bytes_held(&network.network, &network.apps, &network.tcp_hosts)
    );
    assert!(
        bytes_held(&network.network, &network.apps, &network.tcp_hosts) - twice < 600_000,
        "{twice} of {}",
        bytes_held(&network.network, &network.apps, &network.tcp_hosts)
    );
}

#[test]
fn a_queue_without_a_bound_or_an_unanswered_consumer_takes_all_memory() {
    for error in [filling(usize::MAX, true), filling(10, false)] {
        assert!(matches!(error, RunError::Fills { .. }), "{error:?}");
        assert!(
            error.to_string().contains("takes more than 8GiB at"),
            "{error}"
        );
    }
}
