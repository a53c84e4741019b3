//! `larder load`: the HTTP client of the adaptsize paper's testbed (§4.3). It replays a trace
//! against a cache in a closed loop: each connection requests the next object of the trace as soon
//! as it has received the one before.
//!
//! An object `id` of `size` bytes is requested as `/SIZE/ID`, which `larder origin` serves.
//! `Cache-Status` (RFC 9211) of the cache nearest to the client says whether it was a hit.

mod closed_loop;
mod dial;
mod report;

use closed_loop::{Plan, drive};
use dial::TlsArgs;

use crate::failure::Failure;
use crate::layout::Layout;
use crate::numbers::count;
use crate::output::line;
use crate::replay::progress::Progress;
use clap::Args;
use http::Uri;
use larder_units::parse_duration;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Load an HTTP cache with a trace or one URL over many connections, and print hit ratio, latency
/// and throughput
#[derive(Args, Debug)]
pub struct LoadArgs {
    /// URL of the cache, such as http://127.0.0.1:8080 or https://localhost:8443, where the cache
    /// chooses HTTP/2 or HTTP/1.1; without --trace, exactly this URL is
    /// requested
    url: Uri,

    /// Replay this trace: its object ID of SIZE bytes is requested as /SIZE/ID, under the path of
    /// URL
    #[arg(long)]
    trace: Option<PathBuf>,

    #[command(flatten)]
    layout: Layout,

    #[command(flatten)]
    tls: TlsArgs,

    /// Connect to this address, such as 127.0.0.1:8080, whatever server URL names: the cache still
    /// gets the name
    #[arg(long, value_name = "ADDRESS")]
    connect: Option<SocketAddr>,

    /// Connections; each requests the next object after it has received the one before
    #[arg(long, short, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=5000))]
    connections: u16,

    /// Stop after this many requests
    #[arg(long, short = 'n', value_name = "N", value_parser = count)]
    requests: Option<u64>,

    /// Stop after this time [default: 10s, if neither a trace nor --requests ends the load]
    #[arg(long, short, value_parser = parse_duration)]
    duration: Option<Duration>,

    /// Do not count this many requests at the start
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count)]
    warm_up: u64,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the load, and reports.
pub fn run(args: LoadArgs) -> Result<(), Failure> {
    larder_node::raise_descriptor_limit();
    let endless = args.trace.is_none() && args.requests.is_none();
    let plan = Plan {
        url: args.url,
        connect: args.connect,
        tls: args.tls,
        connections: usize::from(args.connections),
        requests: args.requests,
        duration: args.duration.or(endless.then_some(Duration::from_secs(10))),
        warm_up: args.warm_up,
    };
    let trace = args
        .trace
        .as_deref()
        .map(|path| args.layout.open(path))
        .transpose()?;
    let report = drive(&plan, trace, &Progress::new(1e6))?;
    if args.json {
        line!("{}", report.json());
    } else {
        line!("{}", report.table());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_proxy::{Http, HttpConfig, OriginServer, Upstream};
    use larder_units::ByteSize;
    use serde_json::json;

    fn plan(url: String, connections: usize) -> Plan {
        Plan {
            url: url.parse().unwrap(),
            connect: None,
            tls: TlsArgs::default(),
            connections,
            requests: None,
            duration: None,
            warm_up: 0,
        }
    }

    fn cache(origin: &OriginServer, capacity: ByteSize) -> Http {
        let mut config = HttpConfig {
            listen: vec![std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()],
            threads: 1,
            upstream: Upstream::Http(format!("http://{}", origin.local_addr()).parse().unwrap()),
            what_if: false,
            ..HttpConfig::default()
        };
        config.cache.capacity = capacity;
        config.cache.policy = "lru".parse().unwrap();
        config.cache.max_object = ByteSize::from_mib(1);
        config.cache.slice = ByteSize::from_bytes(0);
        Http::start(&config, || ()).unwrap()
    }

    /// Failure: the testbed's figures are not the cache's. Requests are lost or counted twice, hits
    /// are misread, or bytes are wrong.
    #[test]
    fn a_trace_over_many_connections_comes_whole_and_its_hits_are_counted() {
        let origin = OriginServer::start(([127, 0, 0, 1], 0).into(), 2).unwrap();
        let node = cache(&origin, ByteSize::from_mib(64));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        // 300 objects, requested 10 times in turn: 300 misses and otherwise hits, if nothing is
        // evicted.
        let mut text = String::from("time,id,size\n");
        for round in 0..10 {
            for id in 0..300 {
                text.push_str(&format!("{},{id},{}\n", round * 300 + id, 1000 + id))
            }
        }
        std::fs::write(&path, text).unwrap();
        let layout = Layout::default();
        let progress = Progress::new(1.0);
        let url = format!("http://{}/", node.local_addr().unwrap());
        let drive = |plan: &Plan| {
            drive(plan, Some(layout.open(&path).unwrap()), &progress)
                .unwrap()
                .json()
        };
        let report = drive(&plan(url.clone(), 20));
        assert_eq!(
            (&report["requests"], &report["errors"]),
            (&json!(3000), &json!(0))
        );
        assert_eq!(report["hits"], 2700, "{report}");
        assert_eq!(
            report["bytes"],
            10 * (0..300).map(|id| 1000 + id).sum::<u64>()
        );

        let report = drive(&Plan {
            warm_up: 300,
            requests: Some(1000),
            ..plan(url, 1)
        });
        assert_eq!(
            (&report["requests"], &report["hits"]),
            (&json!(700), &json!(700))
        );
        node.stop();
        origin.stop();
    }

    /// Failure: a load for one site of a cache is stored for another, or looks the site up.
    #[test]
    fn a_name_is_asked_for_at_another_address() {
        let origin = OriginServer::start(([127, 0, 0, 1], 0).into(), 1).unwrap();
        let node = cache(&origin, ByteSize::from_mib(1));
        let drive = |site: &str| {
            let plan = Plan {
                connect: node.local_addr(),
                requests: Some(10),
                ..plan(format!("http://{site}/100/1"), 1)
            };
            drive(&plan, None, &Progress::new(1.0)).unwrap().json()
        };
        for site in ["a.invalid", "b.invalid:81", "c.invalid"] {
            assert_eq!(drive(site)["hits"], 9, "{site}");
        }
        assert_eq!(drive("b.invalid:81")["hits"], 10);
        node.stop();
        origin.stop();
    }

    #[test]
    fn nobody_there_is_one_line_with_the_address() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let failure = drive(
            &plan(format!("http://{closed}/1"), 3),
            None,
            &Progress::new(1.0),
        )
        .unwrap_err();
        assert!(
            failure.message.contains(&closed.to_string()) && !failure.message.contains('\n'),
            "{failure}"
        );
        let failure = drive(
            &plan("ftp://localhost/".to_owned(), 3),
            None,
            &Progress::new(1.0),
        )
        .unwrap_err();
        assert!(failure.message.contains("http://"), "{failure}");
    }
}
