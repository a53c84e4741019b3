//! Failures of scenarios: the run differs from the file, or an error in the file is not found.

use larder_netsim::scenario::{Figure, Scenario, Watch};
use std::time::Duration;

const DUMBBELL: &str = include_str!("../../../docs/scenarios/dumbbell.toml");

fn value(figures: &[Figure], component: &str, quantity: &str) -> f64 {
    let mut found = figures
        .iter()
        .filter(|figure| figure.component == component && figure.quantity == quantity);
    found
        .next()
        .unwrap_or_else(|| panic!("no {quantity} of {component}"))
        .value
}

#[test]
fn the_documented_scenario_runs_and_feels_its_fault() {
    let shorter = DUMBBELL.replace("duration = \"10s\"", "duration = \"1500ms\"");
    let shorter = shorter.split("[[fault]]").next().unwrap();
    let healthy = Scenario::parse(shorter, "dumbbell.toml")
        .unwrap()
        .run(1)
        .unwrap();
    assert_eq!(value(&healthy, "cbr c0 /p0", "interests"), 1351.0);
    let answered = value(&healthy, "cbr c0 /p0", "answered");
    assert!(answered > 0.9, "{answered}");
    let hits = value(&healthy, "node c0", "hit ratio");
    assert!((0.3..0.7).contains(&hits), "{hits}");
    // The backbone carries the misses of both consumers.
    let (backbone, edge) = (
        value(&healthy, "channel r2 r1", "frames"),
        value(&healthy, "channel r1 c0", "frames"),
    );
    assert!(backbone > 1.8 * edge, "{backbone} and {edge}");

    let faults = "[[fault]]\nat = \"500ms\"\ncut = [\"r1\", \"r2\"]\n[[fault]]\nat = \"1s\"\nheal = [\"r1\", \"r2\"]\n";
    let cut = format!("{shorter}{faults}");
    let broken = Scenario::parse(&cut, "dumbbell.toml")
        .unwrap()
        .run(1)
        .unwrap();
    assert!(value(&broken, "channel r1 r2", "lost") > 100.0);
    assert!(value(&broken, "cbr c0 /p0", "answered") < answered - 0.05);
    assert_eq!(
        value(&healthy, "node r1", "stored"),
        1000.0,
        "packets, whatever their size"
    );
    let shown = |seed| {
        format!(
            "{:?}",
            Scenario::parse(shorter, "dumbbell.toml")
                .unwrap()
                .run(seed)
                .unwrap()
        )
    };
    assert!(shown(1) == format!("{healthy:?}"));
    assert!(shown(2) != format!("{healthy:?}"));
}

/// Mistakes in `DUMBBELL`: the replaced text, the mistake, and the beginning and a part of its
/// message.
const MISTAKES: [[&str; 4]; 29] = [
    [
        "frequency = 900",
        "frequncy = 900",
        "d.toml:27: unknown field `frequncy`",
        "did you mean `frequency`?",
    ],
    [
        "frequency = 900",
        "frequency = 0",
        "d.toml:27: 0 Interests per second",
        "more than 0",
    ],
    [
        "rate = \"40Mbps\", delay",
        "rate = \"0Mbps\", delay",
        "d.toml:11: a rate of 0",
        "leave the key out",
    ],
    [
        "delay = \"10ms\"",
        "delay = \"-10ms\"",
        "d.toml:11: \"-10ms\" is negative",
        "such as \"10ms\"",
    ],
    ["mtu = 1500", "mtu = 20", "d.toml:11: an MTU of 20", "128"],
    [
        "node = \"c0\"",
        "node = \"q0\"",
        "d.toml:25: no node `q0`",
        "did you mean",
    ],
    [
        "prefix = \"/p0\"\nfrequency",
        "prefix = \"/other\"\nfrequency",
        "d.toml:25: no producer serves /other",
        "there is /p0, /p1",
    ],
    [
        "policy = \"lru\"",
        "policy = \"lrux\"",
        "d.toml:6: ",
        "did you mean",
    ],
    [
        "\"1000 packets\"    #",
        "\"many packets\"    #",
        "d.toml:7: \"many packets\" is not a number of packets",
        "",
    ],
    [
        "payload = \"5kB\"",
        "payload = \"50kB\"",
        "d.toml:15: a payload of 50000 bytes",
        "set largest-packet in [nodes]",
    ],
    [
        "cut = [\"r1\", \"r2\"]",
        "cut = [\"c0\", \"r2\"]",
        "d.toml:36: no link between c0 and r2",
        "",
    ],
    [
        "cut = [\"r1\", \"r2\"]",
        "",
        "d.toml:36: a fault is one of",
        "",
    ],
    [
        "at = \"8s\"",
        "at = \"11s\"",
        "d.toml:36: a fault at 11s, after the end at 10s",
        "",
    ],
    [
        "policy = \"lru\"",
        "strategy = \"best-rout\"\npolicy = \"lru\"",
        "d.toml:6: ",
        "best-rout",
    ],
    [
        "policy = \"lru\"",
        "largest-packet = \"2MiB\"\npolicy = \"lru\"",
        "d.toml:6: packets of 2MiB",
        "the most is",
    ],
    [
        "duration = \"10s\"",
        "duration = \"10s\"\nwarm-up = \"10s\"",
        "d.toml:4: the warm-up",
        "10s",
    ],
    [
        "duration = \"10s\"",
        "duration = \"0s\"",
        "d.toml:3: a run of 0s",
        "\"10s\"",
    ],
    [
        "duration = \"10s\"",
        "duration = 10",
        "d.toml:3: invalid type: integer `10`",
        "quotes with their unit",
    ],
    [
        "frequency = 900",
        "frequency = \"900\"",
        "d.toml:27: invalid type: string",
        "without quotes",
    ],
    [
        "[nodes]  ",
        "[caching]\nat = [\"q*\"]\n[nodes]  ",
        "d.toml:5: no node `q*`",
        "",
    ],
    [
        "[dumbbell] ",
        "[topology]\nfile = \"x.txt\"\nlink = {}\n[dumbbell] ",
        "d.toml:9: cannot read x.txt",
        "",
    ],
    [
        "[dumbbell] ",
        "[line]\nnodes = 2\nlink = {}\n[dumbbell] ",
        "d.toml:12: [dumbbell] is a second shape, after [line]",
        "",
    ],
    [
        "[[producer]]",
        "[line]\nnodes = 2\nlink = {}\n[[producer]]",
        "d.toml:14: [line] is a second shape, after [dumbbell]",
        "",
    ],
    ["pairs = 2", "pairs = 0", "d.toml:10: 0: expected 1", ""],
    [
        "queue = \"1000 packets\", mtu",
        "loss = 2, mtu",
        "d.toml:11: 2 is not a probability",
        "\"2%\"",
    ],
    [
        "queue = \"1000 packets\", mtu",
        "mark = true, mtu",
        "d.toml:11: a drop-tail queue does not mark",
        "codel",
    ],
    [
        "queue = \"1000 packets\", mtu",
        "loss = 0.1, bursts = { to-bad = 0.1, to-good = 0.5 }, mtu",
        "d.toml:11: loss and bursts",
        "keep one",
    ],
    [
        "[dumbbell] ",
        "[[node]]\nname = \"r3\"\n[dumbbell] ",
        "d.toml:10: no [[link]] leads to node r3",
        "",
    ],
    [
        "[dumbbell] ",
        "[[node]]\nname = \"r1\"\n[[node]]\nname = \"r1\"\n[dumbbell] ",
        "d.toml:12: a second [[node]] r1",
        "",
    ],
];

#[test]
fn a_mistake_is_found_with_its_line() {
    let refusal = |from: &str, to: &str| {
        assert!(DUMBBELL.contains(from), "{from}");
        Scenario::parse(&DUMBBELL.replacen(from, to, 1), "d.toml")
            .expect_err(to)
            .to_string()
    };
    for [from, to, starts, contains] in MISTAKES {
        let refusal = refusal(from, to);
        assert!(
            refusal.starts_with(starts) && refusal.contains(contains),
            "{to}: {refusal}"
        );
        assert!(!refusal.contains('\n'), "{refusal}");
    }
    let apart = format!(
        "{DUMBBELL}\n[[link]]\nends = [\"island\", \"coast\"]\nlike = {{}}\n[[node]]\nname = \"island\"\n[[node]]\nname = \"coast\"\n[[cbr]]\nnode = \"island\"\nprefix = \"/p0\"\nfrequency = 1\n"
    );
    let refusal = Scenario::parse(&apart, "d.toml").unwrap_err().to_string();
    assert!(refusal.contains("no route from island to /p0"), "{refusal}");
}

#[test]
fn a_file_crosses_a_lossy_tree() {
    let text = r#"
        duration = "20s"
        [tree]
        children = 2
        levels = 2
        link = { rate = "20Mbps", delay = "5ms", loss = "1%", discipline = "codel", mark = true }
        [[file]]
        node = "t"
        name = "/file"
        size = "2MB"
        [[fetch]]
        node = "t.0.0"
        name = "/file"
        congestion = "cubic"
        [[fetch]]
        node = "t.1.1"
        name = "/file"
        congestion = "aimd"
        start = "1s"
    "#;
    let figures = Scenario::parse(text, "tree.toml").unwrap().run(4).unwrap();
    for fetch in ["fetch t.0.0 /file", "fetch t.1.1 /file"] {
        assert_eq!(value(&figures, fetch, "done"), 1.0, "{fetch}");
        assert!(value(&figures, fetch, "retransmissions") > 0.0, "{fetch}");
        assert!(value(&figures, fetch, "goodput") < 20.0, "{fetch}");
    }
    // The second consumer gets from the root's Content Store what the first one requested.
    assert!(value(&figures, "node t", "hits") > 100.0);
}

#[test]
fn shapes_are_what_they_are_called() {
    let nodes_and_channels = |shape: &str| {
        let text = format!("duration = \"1ms\"\n{shape}\nlink = {{ delay = \"1ms\" }}\n");
        let figures = Scenario::parse(&text, "shape.toml")
            .unwrap()
            .run(1)
            .unwrap();
        let of = |kind: &str| {
            figures
                .iter()
                .filter(|f| {
                    f.component.starts_with(kind) && ["stored", "rate"].contains(&f.quantity)
                })
                .count()
        };
        (of("node "), of("channel ") / 2)
    };
    assert_eq!(nodes_and_channels("[line]\nnodes = 5"), (5, 4));
    assert_eq!(
        nodes_and_channels("[tree]\nchildren = 3\nlevels = 2"),
        (13, 12)
    );
    assert_eq!(
        nodes_and_channels("[grid]\nwidth = 4\nheight = 3"),
        (12, 17)
    );
    let deep = "duration = \"1ms\"\n[tree]\nchildren = 1\nlevels = 100000\nlink = {}\n";
    let refusal = Scenario::parse(deep, "deep.toml").unwrap_err().to_string();
    assert_eq!(refusal, "deep.toml:4: 100000: expected 1 to 1000");
    // The first three nodes are all linked; each later node has two links.
    assert_eq!(
        nodes_and_channels("[scale-free]\nnodes = 50\nlinks = 2"),
        (50, 3 + 47 * 2)
    );
    assert_eq!(nodes_and_channels("[geant-like]\nnodes = 40"), (40, 60));
}

#[test]
fn consumers_by_a_window_and_by_a_trace() {
    let text = r#"
        duration = "10s"
        [line]
        nodes = 3
        link = { rate = "10Mbps", delay = "5ms" }
        [[producer]]
        node = "n2"
        prefix = "/w"
        [[producer]]
        node = "n2"
        prefix = "/t"
        [[window]]
        node = "n0"
        prefix = "/w"
        congestion = "fixed(window=4)"
        [[trace]]
        node = "n*"
        prefix = "/t"
        file = "three.csv"
    "#;
    let trace = "time,id,size\n100,7,1\n101,7,1\n102,8,1\n105,7,1\n";
    let read = |name: &str| {
        if name == "three.csv" {
            Ok(trace.as_bytes().to_vec())
        } else {
            Err(std::io::Error::other("gone"))
        }
    };
    let figures = Scenario::parse_with(text, "both.toml", &read)
        .unwrap()
        .run(1)
        .unwrap();
    // Four segments per round trip, which is 20 ms plus the sending times of two hops.
    let data = value(&figures, "window n0 /w", "data");
    assert!((1500.0..2000.0).contains(&data), "{data}");
    // The requests alternate: n0 has the first and the fourth, and the second one is in n0's
    // Content Store.
    let of = |node: &str| value(&figures, &format!("trace {node} /t"), "data");
    assert_eq!([of("n0"), of("n1"), of("n2")], [2.0, 1.0, 1.0]);
    assert!(value(&figures, "node n0", "hits") >= 1.0);
    let refusal = Scenario::parse_with(text, "both.toml", &|_| Err(std::io::Error::other("gone")))
        .unwrap_err()
        .to_string();
    assert_eq!(refusal, "both.toml:19: cannot read three.csv: gone");
}

#[test]
fn watching_changes_nothing_and_misses_nothing() {
    let text = DUMBBELL.replace(
        "duration = \"10s\"",
        "duration = \"1s\"\nwarm-up = \"333ms\"",
    );
    let scenario = Scenario::parse(text.split("[[fault]]").next().unwrap(), "d.toml").unwrap();
    let shown = |figures: &[Figure]| format!("{figures:?}");
    let figures = scenario.run(1).unwrap();
    let (watched, timeline) = scenario
        .watch(
            1,
            Watch {
                step: Duration::from_millis(70),
                closely: true,
            },
        )
        .unwrap();
    assert!(shown(&figures) == shown(&watched));
    assert_eq!(
        (timeline.steps.len(), timeline.steps[14].at.as_secs_f64()),
        (15, 1.0)
    );
    // The steps include the warm-up.
    let data: u64 = timeline
        .steps
        .iter()
        .map(|step| step.consumers[0].data)
        .sum();
    assert_eq!(data, timeline.delays[0].len() as u64);
    assert!(data as f64 > value(&figures, "cbr c0 /p0", "data"));
    let last = &timeline.steps[14].faces[0];
    let bytes: u64 = last.iter().map(|face| face.counters.in_data_bytes).sum();
    let packets: u64 = last.iter().map(|face| face.counters.in_data).sum();
    assert!(
        packets > 100 && bytes > 5000 * packets && bytes < 5200 * packets,
        "{bytes} in {packets}"
    );
}

/// Failure: a second request for an object in flight crosses the full link again.
#[test]
fn a_full_link_carries_a_file_twice() {
    let mut text =
        "duration = \"60s\"\n[nodes]\ncontent-store = \"64MiB\"\n[[node]]\nname = \"server\"\n"
            .to_owned();
    let mut link = |above: &str, node: &str, link: &str| {
        text += &format!(
            "[[node]]\nname = \"{node}\"\n[[link]]\nends = [\"{above}\", \"{node}\"]\nlike = {{ {link} }}\n"
        );
    };
    link("server", "top", "rate = \"20Mbps\", delay = \"10ms\"");
    for edge in ["e0", "e1"] {
        link(
            "top",
            edge,
            "rate = \"8Mbps\", delay = \"20ms\", queue = \"20 packets\"",
        );
        for client in 0..3 {
            link(
                edge,
                &format!("{edge}c{client}"),
                "rate = \"20Mbps\", delay = \"1ms\"",
            );
        }
    }
    text += "[[file]]\nnode = \"server\"\nname = \"/file\"\nsize = \"2MB\"\n";
    for (at, node) in ["e0c0", "e1c0", "e0c1", "e1c1", "e0c2", "e1c2"]
        .into_iter()
        .enumerate()
    {
        text += &format!(
            "[[fetch]]\nnode = \"{node}\"\nname = \"/file\"\nstart = \"{}ms\"\n",
            15 * at
        );
    }
    for seed in 1..4 {
        let figures = Scenario::parse(&text, "full.toml")
            .unwrap()
            .run(seed)
            .unwrap();
        for (from, to) in [("server", "top"), ("top", "e0"), ("top", "e1")] {
            let frames = value(&figures, &format!("channel {from} {to}"), "frames");
            // 250 segments, the metadata that six clients request, and the retransmissions of queue
            // drops.
            assert!(
                (251.0..=275.0).contains(&frames),
                "{seed}: {from} to {to}: {frames}"
            );
        }
        assert_eq!(value(&figures, "fetch e0c2 /file", "done"), 1.0);
    }
}

const HTTP: &str = include_str!("../../../docs/scenarios/http.toml");

#[test]
fn the_documented_comparison_compares_nothing() {
    let figures = Scenario::parse(HTTP, "http.toml").unwrap().run(1).unwrap();
    for client in ["c0", "c1", "c2", "c3"] {
        let http = format!("http-client {client}");
        assert_eq!(
            (
                value(&figures, &http, "responses"),
                value(&figures, &http, "failures")
            ),
            (1.0, 0.0)
        );
        let ndn = format!("fetch {client} /file");
        assert_eq!(value(&figures, &ndn, "done"), 1.0);
        // The losses are between the client and its edge. NDN repairs them there, TCP over the long
        // link, and each loss stalls CUBIC.
        let (http, ndn) = (
            value(&figures, &http, "time"),
            value(&figures, &ndn, "time"),
        );
        assert!(
            http > 2.0 * ndn && http < 100.0,
            "{client}: HTTP {http} s, NDN {ndn} s"
        );
    }
    let cache = |quantity| value(&figures, "http-cache t", quantity);
    assert_eq!(
        [
            cache("requests"),
            cache("hits") + cache("joined"),
            cache("stored")
        ],
        [4.0, 3.0, 1.0]
    );
    assert_eq!(value(&figures, "http-origin server", "requests"), 1.0);
    assert!(cache("retransmissions") > 10.0);
}

#[test]
fn a_mistake_in_an_http_table_is_found_with_its_line() {
    let line = |text: &str| HTTP[..HTTP.find(text).unwrap()].matches('\n').count() + 1;
    let (upstream, server) = (line("upstream = "), line("server = \"t\""));
    let cases = [
        (
            "upstream = \"server\"",
            "upstream = \"servr\"",
            upstream,
            "no node `servr`; did you mean `server`?",
        ),
        (
            "upstream = \"server\"",
            "upstream = \"t\"",
            upstream,
            "no origin, and no cache that leads to one, at t; there is one at server",
        ),
        (
            "server = \"t\"",
            "server = \"t.0\"",
            server,
            "no origin, and no cache that leads to one, at t.0; there is one at server, t",
        ),
        (
            "server = \"t\"",
            "server = \"t\"\nfrequency = 0",
            server + 1,
            "0 requests per second: expected more than 0",
        ),
        (
            "size = \"1MB\"                      # of",
            "size = \"2000000GiB\" #",
            line("node = \"server\"\nsize"),
            "objects of ",
        ),
        (
            "server = \"t\"",
            "server = \"t\"\nfreqency = 1",
            server + 1,
            "did you mean `frequency`?",
        ),
        (
            "congestion = \"cubic\"",
            "congestion = \"vegas\"",
            line("congestion = "),
            "expected \"cubic\" or \"bbr\"",
        ),
        (
            "node = \"t\"\nupstream",
            "node = \"server\"\nupstream",
            upstream - 1,
            "a second HTTP server at server",
        ),
        (
            "policy = \"lru\"",
            "policy = \"lrux\"",
            line("policy = "),
            "did you mean",
        ),
        (
            "policy = \"lru\"",
            "policy = \"lcd+lru\"",
            upstream - 1,
            "lcd+lru needs a cache's position on the path",
        ),
        ("node = \"c*\"", "node = \"q*\"", server - 1, "no node `q*`"),
    ];
    for (from, to, line, contains) in cases {
        let refusal = Scenario::parse(&HTTP.replacen(from, to, 1), "h.toml")
            .expect_err(to)
            .to_string();
        assert!(
            refusal.starts_with(&format!("h.toml:{line}: ")) && refusal.contains(contains),
            "{to}: {refusal}"
        );
    }
    let apart = HTTP.replace("ends = [\"t\", \"server\"]", "ends = [\"server\", \"far\"]");
    let apart = apart.split("[[file]]").next().unwrap().to_owned() + "[[node]]\nname = \"far\"\n";
    let refusal = Scenario::parse(&apart, "h.toml").unwrap_err().to_string();
    assert!(
        refusal.contains("no links lead from t to its server"),
        "{refusal}"
    );
}

const FRESHNESS: &str = include_str!("../../../docs/scenarios/freshness.toml");

#[test]
fn objects_that_change_are_fresh_for_ever() {
    let figures = Scenario::parse(FRESHNESS, "freshness.toml")
        .unwrap()
        .run(1)
        .unwrap();
    for cache in ["t", "t.0", "t.1"] {
        let cache = |quantity| value(&figures, &format!("http-cache {cache}"), quantity);
        assert!(
            cache("hits") > 100.0 && cache("validated") > 10.0,
            "{} {}",
            cache("hits"),
            cache("validated")
        );
    }
    assert!(value(&figures, "http-cache t.0", "stale") > 20.0);
    for client in ["t.0", "t.1"] {
        assert_eq!(
            value(&figures, &format!("http-client {client}"), "failures"),
            0.0,
            "{client}"
        );
    }
    // Without changes, variants, writes, purges and faults, a cache asks once for each object.
    let static_objects = r#"
        duration = "100s"
        [line]
        nodes = 3
        link = { rate = "100Mbps", delay = "5ms" }
        [[http-origin]]
        node = "n2"
        size = "1kB"
        [[http-cache]]
        node = "n1"
        upstream = "n2"
        capacity = "1MB"
        [[http-client]]
        node = "n0"
        server = "n1"
        frequency = 10
        zipf = { contents = 5, q = 0, s = 0 }
    "#;
    let asked = |text: &str| {
        let figures = Scenario::parse(text, "static.toml")
            .unwrap()
            .run(1)
            .unwrap();
        value(&figures, "http-origin n2", "requests")
    };
    assert_eq!(asked(static_objects), 5.0);
    // Each of five objects is validated some 100 times.
    let short =
        asked(&static_objects.replace("size = \"1kB\"", "size = \"1kB\"\nmax-age = \"1s\""));
    assert!((200.0..=505.0).contains(&short), "{short}");
    let varied = static_objects.replace("size = \"1kB\"", "size = \"1kB\"\nvariants = 3");
    assert_eq!(
        asked(&varied.replace("frequency", "variants = 3\nfrequency")),
        15.0
    );
    let purged = format!("{static_objects}\n[[http-purge]]\nat = \"50s\"\nnode = \"n1\"");
    assert_eq!(
        (asked(&purged), asked(&format!("{purged}\nobject = 1"))),
        (10.0, 6.0)
    );
}

#[test]
fn a_mistake_about_freshness_is_found_with_its_line() {
    let line = |text: &str| {
        FRESHNESS[..FRESHNESS.find(text).unwrap()]
            .matches('\n')
            .count()
            + 1
    };
    let cases = [
        (
            "max-age = \"10s\"",
            "max-age = \"1500ms\"",
            line("node = \"server\"\nsize"),
            "expected whole seconds",
        ),
        (
            "changes = \"30s\"",
            "changes = \"0s\"",
            line("changes = "),
            "leave the key out",
        ),
        (
            "variants = 2",
            "variant = 2",
            line("variants = "),
            "did you mean `variants`?",
        ),
        (
            "at = \"60s\"",
            "at = \"600s\"",
            line("[[http-purge]]"),
            "a purge at 10m, after the end at 2m",
        ),
        (
            "\"60s\"\nnode = \"t\"",
            "\"60s\"\nnode = \"server\"",
            line("at = \"60s\"") + 1,
            "no [[http-cache]] at server",
        ),
    ];
    for (from, to, line, contains) in cases {
        let refusal = Scenario::parse(&FRESHNESS.replacen(from, to, 1), "f.toml")
            .expect_err(to)
            .to_string();
        assert!(
            refusal.starts_with(&format!("f.toml:{line}: ")) && refusal.contains(contains),
            "{to}: {refusal}"
        );
    }
}

#[test]
fn popular_objects_at_a_rate_miss_a_cache_that_holds_them() {
    let text = r#"
        duration = "60s"
        warm-up = "20s"
        [line]
        nodes = 3
        link = { rate = "100Mbps", delay = "5ms" }
        [[http-origin]]
        node = "n2"
        size = "20kB"
        [[http-cache]]
        node = "n1"
        upstream = "n2"
        capacity = "400kB"
        policy = "lru"
        [[http-client]]
        node = "n0"
        server = "n1"
        frequency = 50
        randomize = "exponential"
        zipf = { contents = 100, q = 0, s = 1 }
        keep-alive = true
    "#;
    let figures = Scenario::parse(text, "popular.toml")
        .unwrap()
        .run(1)
        .unwrap();
    let client = |quantity| value(&figures, "http-client n0", quantity);
    // 2000 are expected in 40 s, within four standard deviations.
    assert!(
        (client("requests") - 2000.0).abs() < 180.0,
        "{}",
        client("requests")
    );
    assert!(client("responses") > client("requests") - 20.0 && client("failures") == 0.0);
    // 20 of 100 objects fit. LRU under Zipf 1 serves between a third and two thirds of the
    // requests.
    let ratio = value(&figures, "http-cache n1", "hit ratio");
    assert!((0.33..0.67).contains(&ratio), "{ratio}");
    assert!(value(&figures, "http-cache n1", "stored") <= 20.0);
}

#[test]
fn two_links_between_the_same_nodes_have_one_name() {
    let text = r#"
        duration = "1s"
        [[node]]
        name = "a"
        [[node]]
        name = "b"
        [[link]]
        ends = ["a", "b"]
        like = { rate = "1Mbps", delay = "1ms" }
        [[link]]
        ends = ["b", "a"]
        like = { rate = "2Mbps", delay = "1ms", metric = 2 }
        [[producer]]
        node = "b"
        prefix = "/p"
        [[cbr]]
        node = "a"
        prefix = "/p"
        frequency = 10
    "#;
    let watch = Watch {
        step: Duration::from_millis(500),
        closely: false,
    };
    let (figures, timeline) = Scenario::parse(text, "two.toml")
        .unwrap()
        .watch(1, watch)
        .unwrap();
    let names: Vec<&str> = timeline
        .channels
        .iter()
        .map(|channel| channel.name.as_str())
        .collect();
    assert_eq!(names, ["a b", "b a", "b a (2)", "a b (2)"]);
    assert!(value(&figures, "channel b a", "frames") > 5.0);
    assert_eq!(value(&figures, "channel b a (2)", "frames"), 0.0);
}
