//! Detects a load that measures something else than an HTTPS cache, or trusts anybody.

use crate::node::{Folder, Node, command, free_port, get, larder, said};
use serde_json::Value;
use std::path::Path;

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy/tests/data");
    path.join(name).to_str().unwrap().to_owned()
}

/// Failure: `larder load` does not speak HTTPS, by HTTP/2 or by HTTP/1.1, or does not verify the
/// server.
#[test]
fn a_load_by_https_loads_nothing() {
    let folder = Folder::new();
    let (https, admin) = (free_port(), free_port());
    let text = format!(
        "[ndn]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n[http]\nlisten = \"\"\n\
         [http.tls]\nlisten = \"127.0.0.1:{https}\"\nhttp3 = false\ncertificate = {:?}\nkey = {:?}\n",
        data("localhost.pem"),
        data("localhost.key")
    );
    let file = folder.write("larder.toml", &text);
    let _node = Node::start(&mut command(&["run", &file]));
    let url = format!("https://localhost:{https}/1KiB/a");
    let load =
        |more: &[&str]| larder(&[&["load", &url, "-n", "60", "-c", "3", "--json"], more].concat());
    for (more, protocol) in [
        (vec!["--insecure"], "HTTP/2"),
        (vec!["--ca", &data("authority.pem")], "HTTP/2"),
        (vec!["--insecure", "--http1"], "HTTP/1.1"),
    ] {
        let loaded = load(&more);
        let report: Value = serde_json::from_slice(&loaded.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", said(&loaded)));
        assert_eq!(report["requests"], 60, "{more:?} {report}");
        assert_eq!(report["errors"], 0, "{more:?} {report}");
        assert!(report["hits"].as_u64().unwrap() >= 57, "{more:?} {report}");
        assert_eq!(report["protocol"], protocol, "{more:?} {report}");
    }
    for more in [vec![], vec!["--ca", &data("other_authority.pem")]] {
        let refused = load(&more);
        assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
        let lines = said(&refused);
        assert!(
            lines.contains("--insecure") && lines.lines().count() == 1,
            "{lines}"
        );
    }
    let missing = load(&["--ca", "/no/authorities"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        said(&missing).contains("--ca: /no/authorities"),
        "{}",
        said(&missing)
    );
}

/// Failure: `larder bench --trace` requests something else than the trace, or counts other hits
/// than the node's Content Store has, or than `larder replay` says.
#[test]
fn a_trace_over_ndn_has_other_hits_than_the_store() {
    let folder = Folder::new();
    // Objects of one to three segments, requested ten times in turn, some of them twice.
    let mut trace = String::from("time,id,size\n");
    for round in 0..10 {
        for id in 0..100 {
            let size = [50, 8000, 20_000][id % 3];
            let line = format!("{},{id},{size}\n", 100 * round + id);
            trace += &line.repeat(1 + id % 2);
        }
    }
    let trace = folder.write("trace.csv", &trace);
    // All fits; or a part, which the node and the replayer count alike if packets are as large as
    // their contents, so within the packets' overhead.
    let replayed = |size: &str| {
        let segments = folder.path("segments.csv");
        let segments = segments.to_str().unwrap();
        let convert = ["trace", "convert", &trace, "--segments", "8000B", segments];
        let converted = larder(&convert);
        assert!(converted.status.success(), "{}", said(&converted));
        let replay = ["replay", "-p", "lru", "-s", size, segments, "--json"];
        let row: Value = serde_json::from_slice(&larder(&replay).stdout).unwrap();
        row["object_hit_ratio"].as_f64().unwrap()
    };
    // 34, 33 and 33 objects of one, one and three segments.
    let segments = 34 + 33 + 3 * 33;
    for store in ["64MiB", "500KiB"] {
        let (socket, admin) = (folder.path(&format!("{store}.sock")), free_port());
        let text = format!(
            "[http]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
             [ndn]\nunix = {socket:?}\ntcp = \"\"\nudp = \"\"\npolicy = \"lru\"\n\
             content_store = {store:?}\n"
        );
        let file = folder.write("larder.toml", &text);
        let _node = Node::start(&mut command(&["run", &file]));
        let to = format!("unix://{}", socket.display());
        let bench = |more: &[&str]| {
            let arguments = ["bench", "--to", &to, "--trace", &trace, "--json"];
            let output = larder(&[&arguments, more].concat());
            let report = serde_json::from_slice(&output.stdout);
            let report: Value = report.unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
            report
        };
        let stored = || {
            let page = get(admin, "/status");
            let page: Value = serde_json::from_str(page.split("\r\n\r\n").nth(1).unwrap()).unwrap();
            page["ndn"]["content_store"]["hits"].as_u64().unwrap()
        };
        for window in ["1", "32"] {
            let before = stored();
            let report = bench(&["--window", window]);
            let [exchanges, joined] =
                ["exchanges", "joined"].map(|key| report[key].as_u64().unwrap());
            assert_eq!(report["lost"], 0, "{report}");
            assert_eq!(window == "1", joined == 0, "{report}");
            let ratio = report["hit_ratio"].as_f64().unwrap();
            let hits = (ratio * exchanges as f64).round() as u64;
            assert_eq!(stored() - before, hits, "{report}");
            if window == "1" {
                let expected = replayed(store);
                assert!((ratio - expected).abs() < 0.05, "{expected}: {report}");
                assert!(store != "64MiB" || exchanges - hits == segments, "{report}");
                assert!(store == "64MiB" || exchanges - hits > segments, "{report}");
            }
        }
        // An object of 16 exabytes takes its time, and no memory.
        let huge = folder.write("huge.csv", "time,id,size\n1,1,18446744073709551615\n");
        let nothing = folder.write("nothing.csv", "time,id,size\n");
        let load = |trace: &str| {
            let end = ["--duration", "1s", "--json"];
            larder(&[&["bench", "--to", &to, "--trace", trace], &end[..]].concat())
        };
        let loaded = load(&huge);
        assert!(loaded.status.success(), "{}", said(&loaded));
        let refused = load(&nothing);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert_eq!(said(&refused).lines().count(), 1, "{}", said(&refused));
        for wrong in [
            &["--window", "1,2"][..],
            &["--size", "0B"],
            &["--size", "9000B"],
            &["--hits"],
        ] {
            let arguments = ["bench", "--to", &to, "--trace", &trace];
            let refused = larder(&[&arguments, wrong].concat());
            assert_eq!(
                refused.status.code(),
                Some(2),
                "{wrong:?}: {}",
                said(&refused)
            );
        }
    }
}
