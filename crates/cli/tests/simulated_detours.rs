//! Failure: a link of a simulated network is cut, there is a detour, and the strategy makes no
//! difference, or the routes stay for ever. Uses the real program.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn documentation(file: &str) -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs")
            .join(file),
    )
    .unwrap()
}

fn documented() -> String {
    documentation("scenarios/detour.toml")
}

/// The documented scenario without its `[routing]`: one next hop per node, and routes that stay.
fn without_routing() -> String {
    let whole = documented();
    let (before, rest) = whole.split_once("[routing]").unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    format!("{before}{after}")
}

const SECOND_NEXT_HOP: &str = "[[route]]\nnode = \"r1\"\nprefix = \"/p\"\nto = \"r3\"\ncost = 10\n";

/// Runs `larder simulate` with a scenario.
fn simulate(scenario: &str) -> Output {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("detour.toml");
    std::fs::write(&file, scenario).unwrap();
    Command::new(env!("CARGO_BIN_EXE_larder"))
        .arg("simulate")
        .arg(file)
        .arg("--json")
        .output()
        .unwrap()
}

fn warnings(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The figures of a run that has to succeed.
struct Figures(Vec<Value>);

impl Figures {
    fn of(scenario: &str) -> Figures {
        let output = simulate(scenario);
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{}",
            warnings(&output)
        );
        Figures(serde_json::from_slice(&output.stdout).unwrap())
    }

    fn value(&self, component: &str, quantity: &str) -> f64 {
        let is_it =
            |figure: &&Value| figure["component"] == component && figure["quantity"] == quantity;
        let figure = self
            .0
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("no {quantity} of {component}"));
        figure["mean"].as_f64().unwrap()
    }

    /// The figures of the consumer in which strategies differ.
    fn of_consumer(&self) -> [f64; 3] {
        ["data", "delay", "retransmissions"].map(|quantity| self.value("cbr c /p", quantity))
    }
}

fn with_strategy(scenario: &str, strategy: &str) -> String {
    let from = "strategy = \"best-route\"";
    assert!(scenario.contains(from));
    scenario.replace(from, &format!("strategy = \"{strategy}\""))
}

const STRATEGIES: [&str; 4] = ["best-route", "asf", "multicast", "random"];

fn assert_all_differ(scenario: &str) -> [Figures; 4] {
    let runs = STRATEGIES.map(|strategy| Figures::of(&with_strategy(scenario, strategy)));
    for (first, run) in runs.iter().enumerate() {
        for (other, strategy) in runs.iter().zip(STRATEGIES).skip(first + 1) {
            assert_ne!(
                run.of_consumer(),
                other.of_consumer(),
                "{} and {strategy}",
                STRATEGIES[first]
            );
        }
    }
    runs
}

/// Returns a delay with three digits, or all of those before the point.
fn significant(milliseconds: f64) -> String {
    if milliseconds < 100.0 {
        format!("{milliseconds:.1}")
    } else {
        format!("{milliseconds:.0}")
    }
}

#[test]
fn four_strategies_give_the_same_figures_around_a_cut_link() {
    let runs = assert_all_differ(&documented());
    let page = documentation("guides/simulation.md");
    for (run, strategy) in runs.iter().zip(STRATEGIES) {
        let [data, delay, retransmissions] = run.of_consumer();
        let (delay, detour) = (significant(delay), run.value("channel r1 r3", "frames"));
        let row = format!("| `{strategy}` | {data} | {delay} | {retransmissions} | {detour} |");
        assert!(
            page.contains(&row),
            "docs/guides/simulation.md has other figures than {row}"
        );
    }
    let [best_route, asf, multicast, random] = runs;
    // best-route learns nothing from timeouts: for five seconds each Interest is repeated.
    assert!(best_route.value("cbr c /p", "retransmissions") > 400.0);
    assert!(asf.value("cbr c /p", "retransmissions") < 200.0);
    // multicast always uses both ways: only what is on the cut link is lost.
    assert!(multicast.value("cbr c /p", "retransmissions") < 10.0);
    assert!(multicast.value("channel r1 r3", "frames") > 2900.0);
    assert!(random.value("channel r1 r3", "frames") > 1000.0);
}

#[test]
fn a_listed_route_is_no_second_next_hop() {
    let scenario = without_routing() + SECOND_NEXT_HOP;
    let [best_route, _, multicast, _] = assert_all_differ(&scenario);
    // The routes stay for all of the ten seconds.
    assert!(best_route.value("cbr c /p", "retransmissions") > 800.0);
    assert!(multicast.value("cbr c /p", "retransmissions") < 10.0);
    // A cheaper route comes before the computed one, at cost 2.
    let cheaper = Figures::of(&scenario.replace("cost = 10", "cost = 1"));
    assert_eq!(cheaper.value("channel r1 r2", "frames"), 0.0);
    assert_eq!(cheaper.value("cbr c /p", "retransmissions"), 0.0);
}

#[test]
fn routes_stay_on_a_link_that_is_cut_or_off_it_when_it_is_repaired() {
    let without_strategy = without_routing().replace("strategy = \"best-route\"\n", "");
    let retransmissions = |routing: &str| {
        let figures = Figures::of(&format!("{without_strategy}{routing}"));
        ["cbr c /p", "channel r1 r2", "channel r1 r3"].map(|component| {
            let quantity = if component.starts_with("cbr") {
                "retransmissions"
            } else {
                "frames"
            };
            figures.value(component, quantity)
        })
    };
    let [repeated, _, detour] = retransmissions("");
    assert!(repeated > 800.0 && detour == 0.0, "{repeated} {detour}");
    let [repeated, direct, detour] = retransmissions("[routing]\nconvergence-time = \"1s\"\n");
    // A second of Interests is lost, and repeated after the backoff. Then the detour carries the
    // Interests until a second after the repair.
    assert!((90.0..350.0).contains(&repeated), "{repeated}");
    assert!((950.0..1150.0).contains(&detour), "{detour}");
    assert!((1800.0..2100.0).contains(&direct), "{direct}");
    let [repeated, ..] = retransmissions("[routing]\nconvergence-time = \"0s\"\n");
    assert!(
        repeated <= 2.0,
        "only what is on the cut link is lost: {repeated}"
    );
}

#[test]
fn nobody_is_warned_of_a_strategy_without_a_choice() {
    for strategy in STRATEGIES {
        let output = simulate(&with_strategy(&without_routing(), strategy));
        let warning = warnings(&output);
        assert!(
            output.status.success() && warning.lines().count() == 1,
            "{warning}"
        );
        for part in [
            "larder: warning: ",
            "detour.toml: ",
            strategy,
            "next-hops",
            "[[route]]",
        ] {
            assert!(warning.contains(part), "{part} in {warning}");
        }
    }
    // A detour that is found again later is still one next hop at a time.
    let one = documented().replace("next-hops = 2", "next-hops = 1");
    assert!(warnings(&simulate(&one)).contains("makes no difference"));
    // A line has no detour, whatever the number of next hops.
    let line = "duration = \"1s\"\n[nodes]\nstrategy = \"asf\"\n[routing]\nnext-hops = 2\n[line]\nnodes = 3\nlink = {}\n\
                [[producer]]\nnode = \"n2\"\nprefix = \"/p\"\n";
    assert!(warnings(&simulate(line)).contains("asf makes no difference"));
    // Two producers of one prefix are two next hops between them.
    assert_eq!(
        warnings(&simulate(&format!(
            "{line}[[producer]]\nnode = \"n0\"\nprefix = \"/p\"\n"
        ))),
        ""
    );
    // A strategy of one node counts by the next hops of that node.
    let own = |node: &str| {
        let none = documented().replace("strategy = \"best-route\"", "");
        let name = format!("name = \"{node}\"");
        warnings(&simulate(
            &none.replace(&name, &format!("{name}\nstrategy = \"asf\"")),
        ))
    };
    assert!(own("p").contains("asf makes no difference"));
    assert_eq!(own("r1"), "");
    // No strategy is chosen, or one that also limits rates.
    let none = without_routing().replace("strategy = \"best-route\"", "");
    let limits = with_strategy(&without_routing(), "stateful/v=1/rate~50");
    for scenario in [none, limits] {
        assert_eq!(warnings(&simulate(&scenario)), "");
    }
}

#[test]
fn a_shorter_prefix_nearby_takes_the_interests_of_a_longer_one() {
    let scenario = documented() + "[[producer]]\nnode = \"r1\"\nprefix = \"/\"\n";
    let figures = Figures::of(&scenario);
    assert!(figures.value("channel r2 p", "frames") > 2400.0);
}

/// A line in which each node has a producer of its own under a common prefix, and a route of the
/// common prefix, without cost, to each neighbour.
const GROUP: &str = r#"
    duration = "2s"
    [nodes]
    strategy = "best-route"
    content-store = "0 packets"
    [line]
    nodes = 3
    link = { rate = "10Mbps", delay = "1ms" }
    [[route]]
    node = "n0"
    prefix = "/svs"
    to = "n1"
    cost = 0
    [[route]]
    node = "n1"
    prefix = "/svs"
    to = "n0"
    cost = 0
    [[route]]
    node = "n1"
    prefix = "/svs"
    to = "n2"
    cost = 0
    [[route]]
    node = "n2"
    prefix = "/svs"
    to = "n1"
    cost = 0
    [[producer]]
    node = "n0"
    prefix = "/svs/n0"
    [[producer]]
    node = "n1"
    prefix = "/svs/n1"
    [[producer]]
    node = "n2"
    prefix = "/svs/n2"
    [[cbr]]
    node = "n0"
    prefix = "/svs/n1"
    frequency = 100
    stop = "1s"
"#;

#[test]
fn messages_of_the_middle_of_a_line_do_not_arrive_or_are_looked_for_elsewhere() {
    for strategy in STRATEGIES {
        let figures = Figures::of(&with_strategy(GROUP, strategy));
        let beyond = figures.value("channel n1 n2", "frames");
        // The inherited route is a next hop as well. multicast uses all of them, random one.
        match strategy {
            "best-route" => assert_eq!(beyond, 0.0),
            "multicast" => assert_eq!(beyond, 100.0),
            "random" => assert!(beyond > 20.0),
            _ => {}
        }
        if strategy != "random" {
            assert_eq!(figures.value("cbr n0 /svs/n1", "data"), 100.0, "{strategy}");
            assert_eq!(
                figures.value("cbr n0 /svs/n1", "retransmissions"),
                0.0,
                "{strategy}"
            );
        }
    }
}

#[test]
fn a_mistake_in_a_route_is_accepted() {
    let base = without_routing().replace("strategy = \"best-route\"", "") + SECOND_NEXT_HOP;
    let cases = [
        (
            "to = \"r3\"",
            "to = \"r2\"\nlink = 1",
            "unknown field `link`",
        ),
        ("to = \"r3\"", "to = \"p\"", "no link between r1 and p"),
        ("to = \"r3\"", "to = \"r1\"", "no link between r1 and r1"),
        (
            "to = \"r3\"",
            "to = \"r33\"",
            "no node `r33`; did you mean `r3`?",
        ),
        (
            "node = \"r1\"\nprefix",
            "node = \"q\"\nprefix",
            "no node `q`",
        ),
        (
            "prefix = \"/p\"\nto",
            "prefix = \"/q\"\nto",
            "no producer serves /q; there is /p",
        ),
        ("prefix = \"/p\"\nto", "prefix = \"/%ZZ\"\nto", "%ZZ"),
        ("cost = 10", "", "missing field `cost`"),
        ("cost = 10", "cost = -1", "invalid value"),
        (
            SECOND_NEXT_HOP,
            &format!("{SECOND_NEXT_HOP}{SECOND_NEXT_HOP}"),
            "a second [[route]] /p from r1 to r3",
        ),
        (
            SECOND_NEXT_HOP,
            "[routing]\nnext-hops = 0\n",
            "0: expected 1 to 60",
        ),
        (
            SECOND_NEXT_HOP,
            "[routing]\nnext-hops = 61\n",
            "61: expected 1 to 60",
        ),
        (
            SECOND_NEXT_HOP,
            "[routing]\nnext-hop = 2\n",
            "did you mean `next-hops`?",
        ),
        (
            SECOND_NEXT_HOP,
            "[routing]\nconvergence-time = 5\n",
            "quotes with their unit",
        ),
        (
            SECOND_NEXT_HOP,
            "[routing]\nconvergence-time = \"-5s\"\n",
            "is negative",
        ),
    ];
    for (from, to, problem) in cases {
        assert!(base.contains(from), "{from}");
        let output = simulate(&base.replace(from, to));
        let error = warnings(&output);
        assert!(
            output.status.code() == Some(2) && output.stdout.is_empty(),
            "{to}: {error}"
        );
        assert!(
            error.contains(problem) && error.contains("detour.toml:"),
            "{to}: {error}"
        );
        let line = error
            .split("detour.toml:")
            .nth(1)
            .and_then(|rest| rest.split(':').next());
        assert!(
            line.is_some_and(|line| line.parse::<usize>().is_ok()),
            "without a line: {error}"
        );
    }
}
