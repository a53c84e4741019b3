//! Detects a load that measures something else than an HTTPS cache, or trusts anybody.

use crate::node::{Folder, Node, command, free_port, larder, said};
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
