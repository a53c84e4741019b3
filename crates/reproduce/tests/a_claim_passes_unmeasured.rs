//! A reproduction that says more than it measured.

use larder_figure::Series;
use larder_reproduce::{Experiment, Judged, PAPERS, Paper, Scale, Section, Verdict};
use serde::Deserialize;
use std::path::Path;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    objects: u64,
}

const FILE: &str = r#"
title = "An experiment"
shows = "Something"
[full]
objects = 10
[quick]
objects = 1
[[figure]]
id = "fig"
title = "A figure"
x = "x"
y = "y"
[[claim]]
id = "a"
says = "The first"
kind = "value"
published = 1.0
band = [0.9, 1.1]
reason = "Theory"
quick = { band = [0.5, 0.6], reason = "Theory, scaled down" }
[[claim]]
id = "b"
says = "The second"
kind = "value"
published = 2
band = [2, 2]
reason = "A count"
full_only = true
"#;

fn experiment(text: &str) -> Result<Experiment<Sweep>, String> {
    Experiment::parse("paper/file.toml", text).map_err(|error| error.to_string())
}

fn judged(scale: Scale, measured: &[(&str, f64)]) -> Result<Section, String> {
    let mut section = Section::new(&experiment(FILE).unwrap(), scale);
    section.figure("fig", vec![]);
    for (id, value) in measured {
        section.measured(*id, *value);
    }
    section.judged().map_err(|error| error.to_string())
}

#[test]
fn a_claim_is_judged_by_another_band() {
    assert_eq!(
        [Scale::Full, Scale::Quick].map(|scale| experiment(FILE).unwrap().sweep(scale).objects),
        [10, 1]
    );
    let full = judged(Scale::Full, &[("a", 1.1), ("b", 2.0)]).unwrap();
    assert!(
        full.claims.iter().all(|claim| claim.holds),
        "a band holds its ends"
    );
    let full = judged(Scale::Full, &[("a", 1.1000001), ("b", 1.9999)]).unwrap();
    assert!(full.claims.iter().all(|claim| !claim.holds));
    // The second is not judged at the quick scale, measured or not.
    for measured in [&[("a", 0.55), ("b", 7.0)][..], &[("a", 0.55)]] {
        let quick = judged(Scale::Quick, measured).unwrap();
        assert_eq!(quick.claims.len(), 1);
        assert!(
            quick.claims[0].holds
                && quick.claims[0].band == [0.5, 0.6]
                && quick.claims[0].reason.contains("scaled")
        );
    }
    assert!(!judged(Scale::Quick, &[("a", 1.0)]).unwrap().claims[0].holds);
}

/// Failure: a claim "holds" by a band that the published value is not in, and nothing says so.
#[test]
fn a_band_without_the_published_value_is_not_named() {
    let verdict =
        |scale, measured: &[(&str, f64)]| judged(scale, measured).unwrap().claims[0].verdict_text();
    assert_eq!(verdict(Scale::Full, &[("a", 1.0), ("b", 2.0)]), "holds");
    let quick = verdict(Scale::Quick, &[("a", 0.55)]);
    assert!(
        quick.starts_with("holds (") && quick.contains("leaves the published value out"),
        "{quick}"
    );
}

#[test]
fn a_value_that_is_no_number_is_judged() {
    for (value, name) in [
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
    ] {
        let error = judged(Scale::Full, &[("a", value), ("b", 2.0)]).unwrap_err();
        assert!(
            error.contains(&format!("claim `a` measured {name}, which is not a number")),
            "{error}"
        );
    }
    assert!(
        judged(Scale::Full, &[("a", 1.0), ("b", 2.0), ("c", 3.0)])
            .unwrap_err()
            .contains("`c`")
    );
    let without_figure = Section::new(
        &experiment(FILE.split("[[claim]]").next().unwrap()).unwrap(),
        Scale::Full,
    );
    assert!(
        without_figure
            .judged()
            .unwrap_err()
            .to_string()
            .contains("figure `fig` was not drawn")
    );
}

/// A measurement that is missing fails its claim, whether or not the claim is known to fail.
#[test]
fn a_missing_measurement_holds() {
    let section = judged(Scale::Full, &[("a", 1.0)]).unwrap();
    let [a, b] = &section.claims[..] else {
        panic!("{:?}", section.claims)
    };
    assert_eq!(
        [a.verdict(), b.verdict()],
        [Verdict::Holds, Verdict::NotMeasured]
    );
    assert!(!b.holds && b.measured.is_none() && b.verdict().is_unexpected_failure());
    assert_eq!(b.shown()[2], "not measured");
    assert_eq!(
        serde_json::to_value(b).unwrap()["measured"],
        serde_json::Value::Null
    );
    // Not even where every value would hold but for being absent.
    let open = FILE
        .replace("band = [2, 2]", "band = [0, inf]")
        .replace("full_only", "fails.full = \"x\"\nfull_only");
    let mut section = Section::new(&experiment(&open).unwrap(), Scale::Full);
    section.figure("fig", vec![]);
    let verdicts: Vec<Verdict> = section
        .judged()
        .unwrap()
        .claims
        .iter()
        .map(Judged::verdict)
        .collect();
    assert_eq!(verdicts, [Verdict::NotMeasured; 2]);
}

/// Failure: a claim whose runs were left out holds, or ends the experiment.
#[test]
fn a_claim_without_runs_holds_or_ends_the_experiment() {
    let mut section = Section::new(&experiment(FILE).unwrap(), Scale::Full);
    section.figure("fig", vec![]);
    section.lacks_runs();
    section.measured("a", 1.0);
    section.measured("b", f64::NAN);
    let verdicts: Vec<Verdict> = section
        .judged()
        .unwrap()
        .claims
        .iter()
        .map(Judged::verdict)
        .collect();
    assert_eq!(verdicts, [Verdict::Holds, Verdict::NotMeasured]);
}

#[test]
fn a_listed_failure_is_unexpected_or_an_unlisted_one_is_not() {
    let listed = FILE.replace("quick = {", "fails.full = \"The reason\"\nquick = {");
    let verdicts = |scale, value| {
        let mut section = Section::new(&experiment(&listed).unwrap(), scale);
        section.figure("fig", vec![]);
        section.measured("a", value);
        section.measured("b", 2.0);
        let claim = section.judged().unwrap().claims.swap_remove(0);
        (claim.verdict(), claim.known_failure)
    };
    let reason = Some("The reason".to_owned());
    assert_eq!(
        verdicts(Scale::Full, 1.2),
        (Verdict::FailsAsListed, reason.clone())
    );
    assert_eq!(
        verdicts(Scale::Full, 1.0),
        (Verdict::HoldsThoughListed, reason)
    );
    assert_eq!(
        verdicts(Scale::Quick, 1.2),
        (Verdict::Fails, None),
        "listed for the other scale"
    );
    assert_eq!(verdicts(Scale::Quick, 0.55), (Verdict::Holds, None));
}

#[test]
fn mistakes_in_a_file_are_not_found() {
    for (from, to, words) in [
        (
            "objects = 10",
            "object = 10",
            "line 5: unknown field `object`",
        ),
        (
            "band = [0.9, 1.1]",
            "band = [1.1, 0.9]",
            "`a`: no value lies in the band [1.1, 0.9]",
        ),
        ("band = [0.5, 0.6]", "band = [nan, 0.6]", "`a`: no value"),
        (
            "band = [2, 2]",
            "band = [-inf, inf]",
            "`b`: every value lies",
        ),
        ("published = 2\n", "", "`b`: it has neither"),
        (
            "published = 2\n",
            "expected = 2\n",
            "`expected` needs a `source`",
        ),
        (
            "published = 2\n",
            "published = 2\nsource = \"x\"\n",
            "`source` needs `expected`",
        ),
        (
            "kind = \"value\"\npublished = 2\n",
            "published = 2\n",
            "missing field `kind`",
        ),
        (
            "published = 2\n",
            "expected = 2\nsource = \"x\"\n",
            "`b`: a value needs `published`",
        ),
        (
            "kind = \"value\"\npublished = 2\n",
            "kind = \"goal\"\npublished = 2\n",
            "`b`: a goal has no `published`",
        ),
        (
            "published = 2\n",
            "published = 3\n",
            "`b`: no published value",
        ),
        ("id = \"b\"", "id = \"a\"", "the id `a` is used twice"),
        ("reason = \"A count\"\n", "", "missing field `reason`"),
    ] {
        let error = experiment(&FILE.replace(from, to)).unwrap_err();
        assert!(
            error.contains(words) && error.contains("paper/file.toml") && !error.contains('\n'),
            "{error}"
        );
    }
}

#[test]
fn an_order_in_words_needs_a_number() {
    let words = FILE.replace("kind = \"value\"\npublished = 2\n", "kind = \"order\"\n");
    let claims = experiment(&words).unwrap().claims;
    assert!(claims[1].published.is_none() && claims[1].expected.is_none());
}

#[test]
fn what_is_expected_is_told_as_published() {
    let text = FILE
        .replace("published = 1.0", "published = [0.9, 1]")
        .replace(
            "kind = \"value\"\npublished = 2\nband = [2, 2]",
            "kind = \"theory\"\nexpected = 2\nsource = \"Theory\"\nband = [2, inf]",
        );
    let mut section = Section::new(&experiment(&text).unwrap(), Scale::Full);
    section.figure("fig", vec![]);
    section.measured("a", 1.0);
    section.measured("b", 3.0);
    let claims = section.judged().unwrap().claims;
    assert!(claims.iter().all(|claim| claim.holds));
    assert_eq!(claims[0].shown(), ["0.9000 … 1", "–", "1", "0.9000 … 1.10"]);
    assert_eq!(claims[1].shown(), ["–", "2", "3", "at least 2"]);
    let json = serde_json::to_value(&claims).unwrap();
    assert_eq!(json[0]["published"], serde_json::json!([0.9, 1.0]));
    assert_eq!(
        [
            &json[0]["expected"],
            &json[0]["source"],
            &json[1]["published"]
        ],
        [&serde_json::Value::Null; 3]
    );
    assert_eq!(json[1]["expected"], 2.0);
    assert_eq!(json[1]["source"], "Theory");
    assert_eq!(json[1]["band"], serde_json::json!([2.0, null]));
}

#[test]
fn a_paper_is_missing() {
    assert_eq!(Paper::named("filter").unwrap().name, "filter");
    assert!(Paper::named("").is_err());
    let error = Paper::named("filter")
        .unwrap()
        .check(true, &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("--testbed; adaptsize has"), "{error}");
}

#[test]
fn a_file_is_no_experiment_s() {
    for paper in PAPERS {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("experiments")
            .join(paper.name);
        let files = std::fs::read_dir(&directory)
            .unwrap()
            .map(|file| file.unwrap().path());
        let mut files: Vec<_> = files
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.retain(|name| name != "coverage");
        files.sort_unstable();
        let mut named: Vec<&str> = paper.experiments().chain(paper.on_testbed()).collect();
        named.sort_unstable();
        assert_eq!(files, named, "{}", paper.name);
    }
}

/// The published value of a claim stands in its figure, beside the measured one, and under it.
#[test]
fn a_published_value_is_left_out_of_its_figure() {
    let place = |more: &str| {
        FILE.replace(
            "published = 1.0",
            &format!("published = 1.0\ndrawn = [{{ figure = \"fig\"{more} }}]"),
        )
    };
    let drawn = |text: &str| {
        let mut section = Section::new(&experiment(text).unwrap(), Scale::Full);
        let series = vec![
            Series::line("LRU", vec![(5.0, 2.0)]),
            Series::line("FIFO", vec![(5.0, 3.0)]),
        ];
        section.figure("fig", series);
        section.measured("a", 1.05);
        section.measured("b", 2.0);
        section.judged().unwrap().figures.swap_remove(0)
    };
    let alone = drawn(&place(", x = 7"));
    let published = alone.figure.series.last().unwrap();
    assert_eq!(
        (&*published.name, &published.points[..]),
        ("published", &[(7.0, 1.0)][..])
    );
    assert_eq!(published.labels, ["1"]);
    assert_eq!(
        alone.captions,
        ["The first: published 1, measured 1.05; holds."]
    );
    let ratio = place(", x = 7, times = 5, series = \"FIFO\"")
        .replace("published = 1.0", "published = [0.5, 1.5]");
    let ratio = drawn(&ratio);
    let published = ratio.figure.series.last().unwrap();
    assert_eq!(
        published.points,
        [(7.0, 3.0)],
        "a multiple of FIFO's measured value"
    );
    assert_eq!(published.interval, Some(vec![(1.5, 4.5)]));
    let elsewhere = drawn(&place(", x = 7, times = 6"));
    assert_eq!(
        elsewhere.figure.series.len(),
        2,
        "this scale has no such point"
    );
    let caption = drawn(&place(""));
    assert_eq!(
        (caption.figure.series.len(), caption.captions.len()),
        (2, 1)
    );
    let error = experiment(&place("").replace("figure = \"fig\"", "figure = \"gif\"")).unwrap_err();
    assert!(
        error.contains("claim `a` is drawn in `gif`, which is no figure"),
        "{error}"
    );
}

/// One figure of each paper stands at the head of its page.
#[test]
fn a_page_has_no_headline_or_two() {
    for paper in PAPERS {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("experiments")
            .join(paper.name);
        let texts = std::fs::read_dir(&directory)
            .unwrap()
            .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        assert_eq!(
            texts
                .map(|text| text.matches("headline = true").count())
                .sum::<usize>(),
            1,
            "{}",
            paper.name
        );
    }
}

/// The page of the results says how many claims of each kind there are at least.
#[test]
fn the_page_counts_other_claims() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/results/papers.md"))
        .unwrap()
        .replace('\n', " ");
    let files = PAPERS
        .iter()
        .flat_map(|paper| std::fs::read_dir(root.join("experiments").join(paper.name)).unwrap());
    let texts: Vec<String> = files
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    let kinds = [
        ("value", "about published values"),
        ("order", "about published orders"),
        ("theory", "about consequences of theory"),
        ("arithmetic", "about arithmetic of the papers"),
        ("goal", "about goals of this project"),
    ];
    for (kind, words) in kinds {
        let line = format!("kind = \"{kind}\"");
        let count: usize = texts
            .iter()
            .map(|text| text.lines().filter(|found| *found == line).count())
            .sum();
        let before = page.split(&format!(" {words}")).next().unwrap();
        let said: usize = before
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap_or_else(|_| panic!("no number of {words}"));
        assert_eq!(
            said, count,
            "papers.md: {said} {words}, and there are {count}"
        );
    }
}
