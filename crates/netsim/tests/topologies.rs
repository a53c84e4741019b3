//! Failures of topology files: a link is lost or duplicated, or unusual bytes stop the reader.

use larder_netsim::{Depth, FileFormat, LinkConfig, Queueing, Topology};
use larder_units::Streams;
use proptest::prelude::*;
use std::collections::HashSet;
use std::time::Duration;

const FORMATS: [FileFormat; 5] = [
    FileFormat::Annotated,
    FileFormat::Rocketfuel,
    FileFormat::Weights,
    FileFormat::Latencies,
    FileFormat::Graphml,
];

const ANNOTATED: &str =
    "# comment\nrouter\n\nA\tNA\t3\t1.5\nB NA 3 2\nC\nlink\nA B 10Mbps 7 12ms 20\nB C 1Gbps\n";
const ROCKETFUEL: &str = "1 @London,+UK + bb (2) &1 -> <2> <3> {-1} =a.b.net r0\n2 @? (1) -> <1> =c.d.net! r1\n3 @Paris (0)\n-1 =x.y.org r1\n";
const WEIGHTS: &str = "London,+UK Paris 3.5\nParis London,+UK 3.5\nParis Roma 10\n";
const GRAPHML: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="label" attr.type="string" for="node" id="d1" /><key attr.name="Latitude" for="node" id="d2" />
  <key attr.name="Longitude" for="node" id="d3" /><key attr.name="LinkSpeedRaw" for="edge" id="d4" />
  <graph edgedefault="undirected">
    <node id="0"><data key="d1">New York</data><data key="d2">40.7</data><data key="d3">-74.0</data></node>
    <node id="1"><data key="d1">London</data><data key="d2">51.5</data><data key="d3">-0.1</data></node>
    <node id="2"><data key="d1">London</data></node>
    <edge source="0" target="1"><data key="d4">2500000000.0</data></edge>
    <edge source="1" target="0"><data key="d4">10000000000.0</data></edge>
    <edge source="1" target="2" />
  </graph>
</graphml>"#;

fn link() -> LinkConfig {
    LinkConfig::new("1Mbps".parse().unwrap(), Duration::ZERO)
}

fn read(text: &str, format: FileFormat) -> Topology {
    Topology::read(text, format, &link()).unwrap()
}

fn rate(topology: &Topology, edge: usize) -> u64 {
    topology.edges[edge].config.rate.unwrap().bits_per_second()
}

#[test]
fn ndnsims_annotated_file() {
    let topology = read(ANNOTATED, FileFormat::of("topo.txt", ANNOTATED));
    assert_eq!(topology.nodes, ["A", "B", "C"]);
    assert_eq!(
        topology.positions,
        [Some((1.5, 3.0)), Some((2.0, 3.0)), None]
    );
    let first = &topology.edges[0];
    assert_eq!(
        (first.ends, first.config.metric, first.config.delay),
        ([0, 1], 7, Duration::from_millis(12))
    );
    assert_eq!(first.config.queue, Queueing::DropTail(Depth::Packets(20)));
    assert_eq!(
        (rate(&topology, 0), rate(&topology, 1), topology.edges.len()),
        (10_000_000, 1_000_000_000, 2)
    );
}

#[test]
fn rocketfuels_files() {
    let map = read(ROCKETFUEL, FileFormat::of("1221.cch", ROCKETFUEL));
    assert_eq!(
        (
            map.nodes.len(),
            map.edges.iter().map(|edge| edge.ends).collect::<Vec<_>>()
        ),
        (3, vec![[0, 1], [0, 2]])
    );
    let weights = read(WEIGHTS, FileFormat::of("weights.intra", WEIGHTS));
    assert_eq!(weights.nodes, ["London,+UK", "Paris", "Roma"]);
    assert_eq!(
        weights
            .edges
            .iter()
            .map(|edge| edge.config.metric)
            .collect::<Vec<_>>(),
        [35, 100]
    );
    let latencies = read(WEIGHTS, FileFormat::of("latencies.intra", WEIGHTS));
    assert_eq!(latencies.edges[0].config.delay, Duration::from_micros(3500));
}

#[test]
fn the_topology_zoos_graphml() {
    let topology = read(GRAPHML, FileFormat::of("Zoo.graphml", GRAPHML));
    assert_eq!(topology.nodes, ["New-York", "London", "London-2"]);
    assert_eq!(
        (topology.edges.len(), rate(&topology, 0), rate(&topology, 1)),
        (2, 10_000_000_000, 1_000_000)
    );
    // 5570 km.
    let delay = topology.edges[0].config.delay.as_secs_f64();
    assert!((delay - 0.02785).abs() < 2e-4, "{delay}");
    assert_eq!(
        topology.edges[1].config.delay,
        Duration::ZERO,
        "one end has no place"
    );
}

#[test]
fn a_label_and_an_id_make_another_s_label() {
    let named = |text: &str| text.replacen(">New York<", ">London-2<", 1);
    assert_eq!(
        read(&named(GRAPHML), FileFormat::Graphml).nodes,
        ["London-2", "London", "London-2-2"]
    );
}

#[test]
fn a_mistake_is_found_with_its_line() {
    let refusal = |text: &str, format| {
        Topology::read(text, format, &link())
            .unwrap_err()
            .to_string()
    };
    for (from, to, expected) in [
        ("A B 10Mbps", "A X 10Mbps", "line 8: no router X"),
        (
            "A B 10Mbps",
            "A A 10Mbps",
            "line 8: a link from A to itself",
        ),
        ("A B 10Mbps", "A B 0Mbps", "line 8: \"0Mbps\" is not a rate"),
        ("7 12ms", "x 12ms", "line 8: \"x\" is not a metric"),
        (
            "router",
            "",
            "line 4: \"A\\tNA\\t3\\t1.5\" is before the first section",
        ),
        ("B NA", "A NA", "line 5: a second router A"),
    ] {
        let found = refusal(&ANNOTATED.replacen(from, to, 1), FileFormat::Annotated);
        assert!(found.starts_with(expected), "{found}");
    }
    assert_eq!(
        refusal("a b\n", FileFormat::Weights),
        "line 1: 2 words: expected node, node and a number"
    );
    assert_eq!(
        refusal("x @y -> <1>\n", FileFormat::Rocketfuel),
        "line 1: \"x\" is not a router's number"
    );
    let found = refusal(
        &GRAPHML.replace("source=\"0\"", "source=\"9\""),
        FileFormat::Graphml,
    );
    assert_eq!(found, "line 9: no node has the id \"9\"");
    assert!(refusal("<graphml>", FileFormat::Graphml).starts_with("line 1: "));
    let broken = refusal("<graphml\n\n\n/\n", FileFormat::Graphml);
    assert!(
        broken.starts_with("line 4: ") && !broken.contains('\n'),
        "a quoted line break makes a second line: {broken}"
    );
    assert_eq!(refusal("", FileFormat::Annotated), "no nodes in it");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}", format in 0..5usize) {
        let _ = Topology::read(&text, FORMATS[format], &link());
    }

    #[test]
    fn a_bent_file_is_read_or_refused(file in 0..4usize, format in 0..5usize, at in any::<prop::sample::Index>(), by in ".{0,3}") {
        let text = [ANNOTATED, ROCKETFUEL, WEIGHTS, GRAPHML][file];
        let at = at.index(text.len());
        let bent = format!("{}{by}{}", &text[..at], &text[(at + 1).min(text.len())..]);
        if let Ok(topology) = Topology::read(&bent, FORMATS[format], &link()) {
            let nodes = topology.nodes.len();
            prop_assert!(topology.edges.iter().all(|edge| edge.ends.iter().all(|end| *end < nodes)));
            prop_assert_eq!(topology.positions.len(), nodes);
        }
    }
}

#[test]
fn a_generated_backbone_is_in_pieces_or_of_links_across_the_continent() {
    for (seed, nodes) in [(1, 40), (2, 40), (3, 22), (4, 4), (5, 3), (6, 2), (7, 1)] {
        let make = || Topology::geant_like(nodes, &link(), Streams::new(seed).stream("topology"));
        let backbone = make();
        assert_eq!(backbone.positions, make().positions);
        let pairs: HashSet<[usize; 2]> = backbone
            .edges
            .iter()
            .map(|edge| edge.ends)
            .map(|[a, b]| [a.min(b), a.max(b)])
            .collect();
        let most = nodes * (nodes - 1) / 2;
        assert_eq!(
            (pairs.len(), backbone.edges.len()),
            ((nodes * 3 / 2).min(most), pairs.len()),
            "no pair twice"
        );
        let mut reached = HashSet::from([0]);
        while let Some(edge) = backbone.edges.iter().find(|edge| {
            edge.ends
                .iter()
                .filter(|end| reached.contains(*end))
                .count()
                == 1
        }) {
            reached.extend(edge.ends);
        }
        assert_eq!(reached.len(), nodes);
        if nodes == 40 {
            let millis = |edge: &larder_netsim::Edge| edge.config.delay.as_secs_f64() * 1e3;
            let longest = backbone.edges.iter().map(millis).fold(0.0, f64::max);
            let mean = backbone.edges.iter().map(millis).sum::<f64>() / backbone.edges.len() as f64;
            assert!(
                (2.0..6.0).contains(&mean) && longest < 25.0,
                "{mean} ms on the mean, {longest} at the most"
            );
        }
    }
}
