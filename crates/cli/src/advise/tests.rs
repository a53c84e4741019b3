//! Tests of the command from its arguments to its output.

use super::*;
use clap::Parser;
use larder_replay::{Replay, Trace};
use larder_units::ByteSize;
use std::fs;
use std::path::Path;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: AdviseArgs,
}

fn args(arguments: &[&str]) -> AdviseArgs {
    Cli::try_parse_from(["larder"].iter().chain(arguments))
        .expect("arguments")
        .args
}

fn nasa() -> String {
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../replay/tests/data/nasa_19950801.tsv.zst"
    )
    .to_owned()
}

#[test]
fn exact_figures_differ_from_a_replay() {
    let advice = advise(&args(&[
        &nasa(),
        "-p",
        "lru,s3fifo",
        "-s",
        "1MiB,10MiB",
        "--overhead",
        "0",
    ]))
    .unwrap();
    assert_eq!(
        (advice.traffic.sample, advice.traffic.requests),
        (1.0, 30_393)
    );
    let trace: Result<Vec<_>, _> = Trace::open(Path::new(&nasa()), None).unwrap().collect();
    let trace = trace.unwrap();
    for candidate in &advice.candidates {
        let spec = candidate.policy.parse().unwrap();
        let mut replay = Replay::new(&spec, ByteSize::from_bytes(candidate.capacity), 1)
            .unwrap()
            .filling();
        replay.requests(&trace);
        let row = replay.row("");
        assert_eq!(
            (candidate.object_hit_ratio, candidate.object_error),
            (row.object_hit_ratio, 0.0)
        );
        assert!(
            (candidate.byte_hit_ratio - row.byte_hit_ratio).abs() < 1e-9,
            "{candidate:?}"
        );
    }
}

/// Failure: some seconds of a log become the figures of a day without a word, and the advice to
/// hold everything sounds like a comparison of policies.
#[test]
fn a_short_log_and_a_cache_of_everything_are_not_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let lines: Vec<String> = (0..200)
        .map(|nth| {
            let (second, page) = (nth / 10, (nth * nth) % 20);
            format!("192.0.2.1 - - [30/Nov/2026:00:00:{second:02} +0000] \"GET /{page} HTTP/1.1\" 200 900 \"-\" \"-\"\n")
        })
        .collect();
    fs::write(&log, lines.concat()).unwrap();
    let log = log.to_str().unwrap();
    let said = |arguments: &[&str]| {
        let advice = advise(&args(arguments)).unwrap();
        let (text, configuration) = (advice.text(), advice.configuration());
        (text, advice.choice.reason, configuration)
    };
    let (text, reason, configuration) = said(&[log, "-p", "lru,fifo"]);
    assert!(text.contains("only 19 s were seen"), "{text}");
    assert!(reason.contains("it holds all objects"), "{reason}");
    assert!(configuration.contains("# origin = "), "{configuration}");
    let (text, ..) = said(&[&nasa(), "-p", "lru"]);
    assert!(!text.contains("were seen"), "{text}");
    let (_, reason, _) = said(&[log, "-p", "lru,fifo", "-s", "2KiB,4KiB"]);
    assert!(!reason.contains("all objects"), "{reason}");
}

#[test]
fn stated_errors_do_not_cover_the_truth() {
    let common = [&nasa(), "-p", "lru,agd", "-s", "5MiB,20MiB"];
    let exact = advise(&args(&common)).unwrap();
    let (mut objects, mut bytes, mut all) = (0, 0, 0);
    for seed in 1..=100 {
        let seed = seed.to_string();
        let sampled = advise(&args(
            &[&common[..], &["--keep", "24000", "--seed", &seed]].concat(),
        ));
        // A sample that lost too many objects is refused.
        let Ok(sampled) = sampled else { continue };
        assert!(sampled.traffic.sample < 1.0 && sampled.traffic.seconds == exact.traffic.seconds);
        for (estimate, truth) in sampled.candidates.iter().zip(&exact.candidates) {
            all += 1;
            objects += usize::from(
                (estimate.object_hit_ratio - truth.object_hit_ratio).abs() <= estimate.object_error,
            );
            bytes += usize::from(
                (estimate.byte_hit_ratio - truth.byte_hit_ratio).abs() <= estimate.byte_error,
            );
        }
    }
    // 95 % are expected (378 and 381 of 400 when this was written).
    assert!(
        all >= 20 && objects * 10 >= all * 9 && bytes * 10 >= all * 9,
        "{objects} and {bytes} of {all}"
    );
}

#[test]
fn a_node_refuses_the_configuration_it_is_advised() {
    let folder = tempfile::tempdir().unwrap();
    let (config, page) = (
        folder.path().join("larder.toml"),
        folder.path().join("advice.html"),
    );
    let (config, page) = (config.to_str().unwrap(), page.to_str().unwrap());
    run(args(&[
        &nasa(),
        "-s",
        "1MiB,40MiB",
        "--config",
        config,
        "--html",
        page,
    ]))
    .unwrap();
    let text = fs::read_to_string(config).unwrap();
    let parsed = larder_node::Config::parse(&text, "larder.toml").unwrap();
    assert_eq!(
        parsed.http.proxy.cache.policy.to_string(),
        advise(&args(&[&nasa(), "-s", "1MiB,40MiB"]))
            .unwrap()
            .choice
            .chosen
            .policy
    );
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains("<svg") && page.contains("cache = &quot;") && !page.contains("<script"),
        "{page}"
    );
}

#[test]
fn names_of_files_become_markup() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("<script>alert(1)<!--.csv");
    fs::write(&log, "# time, object, size\n0,1,10\n1,2,20\n2,1,10\n").unwrap();
    let advice = advise(&args(&[log.to_str().unwrap()])).unwrap();
    assert!(advice.page().contains("&lt;script&gt;") && !advice.page().contains("<script"));
}

#[test]
fn the_cheapest_size_is_not_chosen() {
    let chosen = |memory: &str| {
        let prices = ["--egress", "0.05/GB", "--memory", memory];
        let advice = advise(&args(
            &[&[&nasa()[..], "-p", "lru,agd"][..], &prices].concat(),
        ))
        .unwrap();
        (
            advice.choice.chosen.capacity,
            advice.choice.cost_per_month.unwrap(),
            advice.choice.cost_without_cache.unwrap(),
        )
    };
    let (dear, cheap) = (chosen("1000/GiB-month"), chosen("0.01/GiB-month"));
    assert!(dear.0 < cheap.0 && cheap.1 < cheap.2, "{dear:?} {cheap:?}");
    let nothing = advise(&args(&[
        &nasa(),
        "-p",
        "lru",
        "--egress",
        "0.0001/GB",
        "--memory",
        "1000/MiB-month",
    ]))
    .unwrap();
    assert!(
        nothing.choice.reason.contains("no cache costs less"),
        "{}",
        nothing.choice.reason
    );
    let only = advise(&args(&[&nasa(), "-p", "lru", "-s", "1MiB"])).unwrap();
    assert!(
        only.choice.reason.contains("only size"),
        "{}",
        only.choice.reason
    );
    // Of sizes that cost the same the smallest, in any order of the arguments.
    for sizes in ["4GiB,2GiB,1GiB", "1GiB,2GiB,4GiB"] {
        let prices = ["--egress", "1/GB", "--memory", "0/GB-month"];
        let log = nasa();
        let arguments = [&[&log[..], "-p", "lru", "-s", sizes][..], &prices].concat();
        let equal = advise(&args(&arguments)).unwrap();
        assert_eq!(equal.choice.chosen.capacity, 1 << 30, "{sizes}");
    }
    // Without prices, the last doubling saves little.
    let advice = advise(&args(&[&nasa(), "-p", "agd"])).unwrap();
    let last = advice.candidates.last().unwrap();
    assert!(
        advice.choice.chosen.capacity < last.capacity
            && advice.choice.reason.contains("less than one point")
    );
    assert!(last.object_hit_ratio - advice.choice.chosen.object_hit_ratio < 0.05);
}

#[test]
fn mistakes_that_are_not_explained() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let timeless = written("t.csv", "# object, size\n1,10\n2,20\n");
    let web07 = nasa().replace("nasa_19950801.tsv.zst", "web07.trace.xz");
    let config = written("larder.toml", "");
    let empty = written("empty.csv", "# time, object, size\n");
    for (arguments, words) in [
        (vec!["/nonexistent/access.log"], "No such file"),
        (vec![&nasa()[..], "-p", "belady"], "knows the future"),
        (vec![&nasa(), "-p", "lur"], "did you mean `lru`?"),
        (vec![&nasa(), "-s", "1.5"], "ambiguous"),
        (vec![&empty], "no request was read"),
        (
            vec![
                &timeless,
                "--columns",
                "id=1,size=2",
                "--egress",
                "1/GB",
                "--memory",
                "1/GB-month",
            ],
            "no times",
        ),
        (
            vec![&nasa(), "--html", "/nonexistent/x.html"],
            "cannot write",
        ),
        (vec![&nasa(), "--keep", "0"], "only 0 objects are left"),
        (
            vec![&nasa(), "--keep", "500"],
            "objects are left in the sample",
        ),
        (
            vec![&nasa(), "-s", "9007199254740993"],
            "is above 9007199254740992 bytes",
        ),
        (vec![&web07, "-s", "1MiB"], "a cache of 1MiB has no meaning"),
        (
            vec![&web07, "--config", &config],
            "no configuration in bytes",
        ),
        (
            vec![&web07, "--egress", "1/GB", "--memory", "1/GB-month"],
            "no costs",
        ),
    ] {
        let failure = run(args(&arguments)).expect_err("it should fail");
        assert!(
            failure.code == 2 && failure.message.contains(words),
            "{arguments:?}: {}",
            failure.message
        );
    }
}

/// The lines of a log with these seconds, paths and hosts before the client.
fn log(requests: &[(u32, &str)], host: &str) -> String {
    let line = |(second, path): &(u32, &str)| {
        format!(
            "{host}192.0.2.7 - - [10/Oct/2025:13:{:02}:{:02} +0000] \"GET {path} HTTP/1.1\" 200 100 \"-\" \"-\"\n",
            second / 60,
            second % 60
        )
    };
    requests.iter().map(line).collect()
}

/// Failure: the order of the arguments changes the advice, or files of the same time follow each
/// other.
#[test]
fn the_order_of_the_files_counts() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, requests: &[(u32, &str)]| {
        let path = folder.path().join(name);
        fs::write(&path, log(requests, "")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let first = written("1.log", &[(0, "/a"), (20, "/b"), (40, "/c"), (60, "/a")]);
    let same = written("2.log", &[(10, "/a"), (30, "/b"), (50, "/c")]);
    let last = written("3.log", &[(70, "/d"), (80, "/a")]);
    let hits = |files: [&str; 3]| {
        let arguments = [&files[..], &["-p", "lru", "-s", "100", "--overhead", "0"]].concat();
        let advice = advise(&args(&arguments)).unwrap();
        (
            advice.traffic.requests,
            (advice.candidates[0].object_hit_ratio * 9.0).round(),
        )
    };
    // In the order of time: a a b b c c a d a, with room for one object.
    let expected = (9, 3.0);
    assert_eq!(hits([&first, &same, &last]), expected);
    assert_eq!(hits([&last, &same, &first]), expected);
    let twice = run(args(&[&first, &first])).expect_err("it should fail");
    assert!(twice.message.contains("given twice"), "{}", twice.message);
}

/// Failure: requests of a log that was copied count twice without a word.
#[test]
fn a_copied_log_counts_twice() {
    let folder = tempfile::tempdir().unwrap();
    let requests: Vec<(u32, &str)> = (0..30)
        .map(|second| (second, ["/a", "/b", "/c"][second as usize % 3]))
        .collect();
    let (old, new) = (folder.path().join("a.log.1"), folder.path().join("a.log"));
    fs::write(&old, log(&requests[..20], "")).unwrap();
    fs::write(&new, log(&requests[10..], "")).unwrap();
    let advice = advise(&args(&[
        old.to_str().unwrap(),
        new.to_str().unwrap(),
        "-p",
        "lru",
    ]))
    .unwrap();
    let said = advice.traffic.left_out.concat();
    assert!(
        said.contains("a.log.1 has the first requests of a.log too"),
        "{said}"
    );
}

/// Failure: two sites are one, or nothing says that a log has no hosts.
#[test]
fn two_sites_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let requests = [(0, "/"), (1, "/a"), (2, "/")];
    let written = |name: &str, host: &str| {
        let path = folder.path().join(name);
        fs::write(&path, log(&requests, host)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (one, two) = (
        written("one.example.log", ""),
        written("two.example-access.log", ""),
    );
    let with_host = written("all.log", "one.example:443 ");
    let advised = |arguments: &[&str]| {
        let advice = advise(&args(&[arguments, &["-p", "lru"]].concat())).unwrap();
        (
            advice.traffic.objects,
            advice.sentences()[0].contains("names no hosts"),
        )
    };
    assert_eq!(advised(&[&one, &two]), (2.0, true));
    assert_eq!(
        advised(&[&one, &two, "--host-from", "filename"]),
        (4.0, false)
    );
    assert_eq!(advised(&[&one, "--host", "a.example"]), (2.0, false));
    assert_eq!(advised(&[&with_host]), (2.0, false));
}

/// Failure: a flag that says how a log is read has no effect.
#[test]
fn a_flag_about_logs_has_no_effect() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    let requests = [(0, "/api/x"), (1, "/a"), (2, "/a"), (700, "/a")];
    fs::write(&path, log(&requests, "") + "cut").unwrap();
    let path = path.to_str().unwrap();
    let advised = |arguments: &[&str]| {
        let advice = advise(&args(
            &[&[path, "-p", "lru", "-s", "1MiB"], arguments].concat(),
        ))
        .unwrap();
        (
            advice.traffic.requests,
            (advice.candidates[0].object_hit_ratio * 100.0).round(),
        )
    };
    assert_eq!(advised(&[]), (4, 50.0));
    assert_eq!(advised(&["--uncacheable", "/api/*"]), (3, 67.0));
    assert_eq!(advised(&["--ttl", "10min"]), (4, 25.0));
    let pattern = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent";
    assert_eq!(advised(&["--log-format", pattern]), (4, 50.0));
    for (arguments, words) in [
        (&["--strict"][..], "line 5"),
        (&["--log-format", "x"], "--log-format: `x` is no log format"),
        (&["--time-unit", "h"], "--time-unit: `h` is no unit of time"),
        (&["--max-bad", "7"], "--max-bad: "),
        (&["--ttl", "x"], "--ttl: "),
    ] {
        let failure = run(args(&[&[path], arguments].concat())).expect_err("it should fail");
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}
