//! Failure: a network of caches keeps its copies elsewhere than the simulator of the literature.
//! The program `icarus.py` beside this file is written from Icarus' descriptions and shares nothing
//! with this crate.

use larder_netsim::scenario::{Figure, Scenario};
use std::process::Command;

const CACHES: &str = include_str!("../../../docs/scenarios/caches.toml");
const GEANT: &str = include_str!("../../../docs/scenarios/geant.txt");

/// A tenth of the documented length: 220 requests per second. Those of the second 20 s count.
fn simulated(policy: &str, routing: &str) -> Vec<Figure> {
    let shorter = CACHES
        .replace("\"400s\"", "\"40s\"")
        .replace("\"200s\"", "\"20s\"");
    let text = shorter
        .replace("lce+lru", policy)
        .replace("\"on-path\"", &format!("\"{routing}\""));
    assert!(text.contains("\"20s\"") && text.contains(policy) && text.contains(routing));
    let scenario = Scenario::parse_with(&text, "caches.toml", &|_| Ok(GEANT.into())).unwrap();
    scenario.run(1).unwrap()
}

fn skipped(why: &str) {
    #[allow(
        clippy::print_stderr,
        reason = "the message is for the person who runs the tests"
    )]
    {
        eprintln!("SKIPPED: {why}");
    }
}

/// Hit ratio and mean delay in milliseconds of the independent program; `None` without python3.
fn independent(scheme: &str) -> Option<[f64; 2]> {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/icarus.py");
    let geant = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/scenarios/geant.txt"
    );
    let output = Command::new("python3")
        .args([here, geant, scheme, "--requests", "4400"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let figure = |name: &str| {
        let (_, rest) = text.split_once(name).unwrap();
        rest.trim_matches(|c: char| !c.is_ascii_digit())
            .split([',', '}'])
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    Some([figure("hit_ratio"), figure("delay_ms")])
}

#[test]
fn copies_are_kept_elsewhere_than_in_an_independent_simulation() {
    for (scheme, policy, routing) in [
        ("lce", "lce+lru", "on-path"),
        ("lcd", "lcd+lru", "on-path"),
        ("hash", "lce+lru", "hash"),
    ] {
        let Some([hits, delay]) = independent(scheme) else {
            return skipped("no python3 to run icarus.py with");
        };
        let figures = simulated(policy, routing);
        let network = |quantity: &str| {
            let found = figures
                .iter()
                .find(|figure| figure.component == "network" && figure.quantity == quantity);
            found.unwrap_or_else(|| panic!("no {quantity}")).value
        };
        let (our_hits, our_delay) = (network("hit ratio"), network("delay"));
        // 4400 requests have a standard deviation of 0.006 each. Over 200 s the results agree
        // within 0.005 and one millisecond.
        assert!(
            (our_hits - hits).abs() < 0.025,
            "{scheme}: hits {our_hits}, independently {hits}"
        );
        assert!(
            (our_delay - delay).abs() < 4.0,
            "{scheme}: {our_delay} ms, independently {delay} ms"
        );
    }
}
