//! Detects a doctor that misses what is wrong on a machine, or calls a sound one ill.

use crate::node::{Folder, Node, command, free_port, larder, said};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Returns the findings as JSON, and the exit status.
fn examined(config: &str) -> (Vec<Value>, Option<i32>) {
    let output = larder(&["doctor", "--json", "--config", config]);
    let page: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    (
        page["findings"].as_array().unwrap().clone(),
        output.status.code(),
    )
}

/// Returns the only finding of this level whose text or place has these parts.
#[track_caller]
fn find<'a>(findings: &'a [Value], level: &str, parts: &[&str]) -> &'a Value {
    let has = |finding: &&Value| {
        let text = finding.to_string();
        finding["level"] == level && parts.iter().all(|part| text.contains(part))
    };
    let found: Vec<&Value> = findings.iter().filter(has).collect();
    assert_eq!(found.len(), 1, "{level} {parts:?} in {findings:#?}");
    found[0]
}

/// Sets the permissions of the folder.
fn set_mode(folder: &Folder, mode: u32) {
    fs::set_permissions(folder.path(""), fs::Permissions::from_mode(mode)).unwrap();
}

fn data(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy/tests/data");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// Failure: an operator learns of a taken port, a silent origin, an expired certificate, an open
/// key or a full disk from clients.
#[test]
fn the_doctor_finds_nothing_where_much_is_wrong() {
    let folder = Folder::new();
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = occupied.local_addr().unwrap();
    let nobody = free_port();
    let certificate = folder.write("certificate.pem", &data("localhost.pem"));
    let key = folder.write("key.pem", &data("localhost.key"));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    set_mode(&folder, 0o755);
    let expired = folder.write("expired.pem", &data("expired.pem"));
    let tier = folder.path("tier");
    let text = format!(
        "[ndn]\nenabled = false\n[admin]\nlisten = \"\"\n[http]\nlisten = \"{taken}\"\ncahce = 1\n\
         origin = \"http://127.0.0.1:{nobody}\"\n\
         [http.disk]\npath = {tier:?}\ncapacity = \"64TiB\"\n\
         [http.tls]\nlisten = \"127.0.0.1:0\"\ncertificate = {certificate:?}\nkey = {key:?}\n\
         [[http.tls.certificates]]\ncertificate = {expired:?}\nkey = {key:?}\n"
    );
    let config = folder.write("larder.toml", &text);
    let (findings, status) = examined(&config);
    assert_eq!(status, Some(1), "{findings:#?}");
    let own = format!("process {}", std::process::id());
    let port = find(&findings, "error", &["[http] listen", "is in use", &own]);
    assert!(
        port["remedy"]
            .as_str()
            .unwrap()
            .contains("stop the other program")
    );
    find(
        &findings,
        "error",
        &["configuration", "larder.toml:7", "cahce"],
    );
    find(
        &findings,
        "error",
        &["origins", &format!("127.0.0.1:{nobody}")],
    );
    find(&findings, "error", &["[http.disk] path", "free for"]);
    find(
        &findings,
        "error",
        &["[[http.tls.certificates]]", "they do not belong together"],
    );
    find(&findings, "error", &["expired.pem", "expired", "days ago"]);
    find(
        &findings,
        "warning",
        &["[http.tls] key", "0644", "chmod o="],
    );
    find(&findings, "ok", &["[http.tls] certificate", "valid for"]);
    // People get the same: a line for each finding, and the numbers.
    let printed = larder(&["doctor", "--config", &config]);
    let lines = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert_eq!(lines.lines().count(), findings.len() + 1, "{lines}");
    assert!(
        lines.lines().last().unwrap().contains("errors, "),
        "{lines}"
    );
    assert_eq!(printed.status.code(), Some(1));
    assert!(!tier.exists(), "the doctor leaves a file behind");
}

/// Failure: a sound configuration has errors, before a start or while its node runs.
#[test]
fn the_doctor_calls_a_sound_node_ill() {
    let folder = Folder::new();
    let (http, admin) = (free_port(), free_port());
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!(
        "[ndn]\nunix = {:?}\ntcp = \"\"\nudp = \"127.0.0.1:0\"\nwebsocket = \"\"\n\
         [admin]\nlisten = \"127.0.0.1:{admin}\"\n[http]\nlisten = \"127.0.0.1:{http}\"\n\
         origin = \"http://{}\"\n[http.access_log]\npath = {:?}\n[http.disk]\npath = {:?}\ncapacity = \"64MiB\"\n",
        folder.path("nfd.sock"),
        origin.local_addr().unwrap(),
        folder.path("access.log"),
        folder.path("tier"),
    );
    let config = folder.write("larder.toml", &text);
    let listen = format!("127.0.0.1:{http}");
    let (findings, status) = examined(&config);
    assert_eq!(status, Some(0), "{findings:#?}");
    find(&findings, "ok", &["[http] listen", &listen, "is free"]);
    find(&findings, "ok", &["[http] origin", "accepts connections"]);
    find(&findings, "ok", &["[http.disk] path", "room for 64MiB"]);
    find(&findings, "ok", &["recvmmsg"]);
    for topic in ["descriptors", "clock", "memory", "kernel"] {
        assert!(
            findings.iter().any(|finding| finding["topic"] == topic),
            "{topic}"
        );
    }
    let node = Node::start(&mut command(&["run", &config]));
    let (findings, status) = examined(&config);
    assert_eq!(status, Some(0), "{findings:#?}");
    let pid = format!("process {}", node.child.id());
    find(&findings, "ok", &["[http] listen", &listen, &pid]);
    find(&findings, "ok", &["[admin] listen", &pid]);
    assert!(findings.iter().any(|finding| {
        finding["topic"] == "descriptors" && finding["place"].as_str().unwrap().contains(&pid)
    }));
}

/// Failure: the port of another program is called the node's own, and the next reload fails; or a
/// listener that the node does not have yet is called its own.
#[test]
fn the_port_of_another_program_is_the_nodes_own() {
    let folder = Folder::new();
    let (http, admin, free) = (free_port(), free_port(), free_port());
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = occupied.local_addr().unwrap();
    let text = |listen: &str| {
        format!(
            "[ndn]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n[http]\nlisten = [{listen}]\n"
        )
    };
    let own = format!("\"127.0.0.1:{http}\"");
    let config = folder.write("larder.toml", &text(&own));
    let node = Node::start(&mut command(&["run", &config]));
    folder.write(
        "larder.toml",
        &text(&format!("{own}, \"{taken}\", \"127.0.0.1:{free}\"")),
    );
    let (findings, status) = examined(&config);
    assert_eq!(status, Some(1), "{findings:#?}");
    let pid = format!("process {}", node.child.id());
    let other = format!("process {}", std::process::id());
    find(&findings, "ok", &[&format!("127.0.0.1:{http}"), &pid]);
    find(&findings, "error", &[&taken.to_string(), &other, "reload"]);
    find(
        &findings,
        "note",
        &[&format!("127.0.0.1:{free}"), "is free"],
    );
}

/// Failure: a node is an intruder at its own addresses, because its admin server is off, or its
/// address was edited.
#[test]
fn a_node_is_an_intruder_at_its_own_addresses() {
    let folder = Folder::new();
    let (http, admin) = (free_port(), free_port());
    let text = |admin: &str| {
        format!(
            "[ndn]\nunix = {:?}\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n[admin]\nlisten = \"{admin}\"\n\
             [http]\nlisten = \"127.0.0.1:{http}\"\n[http.disk]\npath = {:?}\ncapacity = \"64MiB\"\n",
            folder.path("nfd.sock"),
            folder.path("tier"),
        )
    };
    let config = folder.write("larder.toml", &text(&format!("127.0.0.1:{admin}")));
    let node = Node::start(&mut command(&["run", &config]));
    let pid = format!("process {}", node.child.id());
    for other in [String::new(), format!("127.0.0.1:{}", free_port())] {
        folder.write("larder.toml", &text(&other));
        let (findings, status) = examined(&config);
        assert_eq!(status, Some(0), "{findings:#?}");
        find(
            &findings,
            "note",
            &["[http] listen", &pid, "perhaps the one of this file"],
        );
    }
}

/// Failure: an origin without a server that answers is a warning, because it has several; or the
/// servers behind the first ones are not tried.
#[test]
fn a_dead_origin_is_a_warning() {
    let folder = Folder::new();
    let (dead, alive) = (free_port(), TcpListener::bind("127.0.0.1:0").unwrap());
    let alive = alive.local_addr().unwrap();
    let dead = |paths: std::ops::Range<usize>| {
        let servers = paths.map(|path| format!("\"http://127.0.0.1:{dead}/{path}\""));
        servers.collect::<Vec<_>>().join(", ")
    };
    let text = format!(
        "[ndn]\nenabled = false\n[admin]\nlisten = \"\"\n[http]\nlisten = \"127.0.0.1:0\"\n\
         [[http.origins]]\nhost = \"a.example\"\nservers = [{}]\n\
         [[http.origins]]\nhost = \"b.example\"\nservers = [{}]\n\
         [[http.origins]]\nhost = \"c.example\"\nservers = [{}, \"http://{alive}\"]\n",
        dead(0..40),
        dead(40..80),
        dead(80..81),
    );
    let (findings, status) = examined(&folder.write("larder.toml", &text));
    assert_eq!(status, Some(1), "{findings:#?}");
    let at = |level: &str| {
        let of_level =
            |finding: &&Value| finding["topic"] == "origins" && finding["level"] == level;
        findings.iter().filter(of_level).count()
    };
    assert_eq!((at("error"), at("warning"), at("ok")), (80, 1, 1));
}

/// Failure: a server whose certificate the node does not trust is sound.
#[test]
fn an_origin_that_is_not_trusted_is_sound() {
    let folder = Folder::new();
    let (https, admin) = (free_port(), free_port());
    let path = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy/tests/data");
        folder.join(name)
    };
    let origin = format!(
        "[ndn]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n[http]\nlisten = \"\"\n\
         [http.tls]\nlisten = \"127.0.0.1:{https}\"\nhttp3 = false\ncertificate = {:?}\nkey = {:?}\n",
        path("localhost.pem"),
        path("localhost.key"),
    );
    let origin = folder.write("origin.toml", &origin);
    let _origin = Node::start(&mut command(&["run", &origin]));
    for (authority, level, expected) in [
        ("authority.pem", "ok", "its certificate is trusted"),
        ("other_authority.pem", "error", "the handshake of TLS fails"),
    ] {
        let text = format!(
            "[ndn]\nenabled = false\n[admin]\nlisten = \"\"\n[http]\nlisten = \"127.0.0.1:0\"\n\
             origin = \"https://localhost:{https}\"\norigin_ca = {:?}\n",
            path(authority)
        );
        let (findings, status) = examined(&folder.write("larder.toml", &text));
        find(&findings, level, &["[http] origin", expected]);
        assert_eq!(status, Some(i32::from(level == "error")), "{findings:#?}");
    }
}

/// Failure: a host has no address, or its authority is away, and nobody knows why no certificate
/// comes.
#[test]
fn certificates_that_nobody_can_give_are_sound() {
    let folder = Folder::new();
    let nobody = free_port();
    let config = folder.write(
        "larder.toml",
        &format!(
            "[ndn]\nenabled = false\n[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"\"\n\
             [http.tls]\nlisten = \"127.0.0.1:0\"\n[http.tls.acme]\nhosts = [\"nobody.invalid\"]\n\
             folder = {:?}\ndirectory = \"https://127.0.0.1:{nobody}/directory\"\n",
            folder.path("acme")
        ),
    );
    let (findings, _) = examined(&config);
    let directory = format!("https://127.0.0.1:{nobody}/directory cannot be reached");
    for parts in [
        [
            "[http.tls.acme] nobody.invalid",
            "has no address",
            "make a record (A or AAAA)",
        ],
        ["[http.tls.acme] directory", &directory, "the firewall"],
    ] {
        find(&findings, "warning", &parts);
    }
}

/// Failure: all users can read a key or the admin server's token; or a warning says so although
/// they cannot enter the folder.
#[test]
fn secrets_are_open_to_all() {
    let folder = Folder::new();
    let certificate = folder.write("certificate.pem", &data("localhost.pem"));
    let key = folder.write("key.pem", &data("localhost.key"));
    let text = format!(
        "[ndn]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken = \"0123456789abcdef\"\n\
         [http]\nlisten = \"127.0.0.1:0\"\n\
         [http.tls]\nlisten = \"127.0.0.1:0\"\ncertificate = {certificate:?}\nkey = {key:?}\n"
    );
    let config = folder.write("larder.toml", &text);
    let secrets = |mode: u32| {
        for path in [&key, &config] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let (findings, _) = examined(&config);
        let is_open = |finding: &Value| finding["remedy"].as_str().unwrap().contains("chmod o=");
        let open = findings.iter().filter(|finding| is_open(finding));
        open.map(|finding| finding["place"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    set_mode(&folder, 0o700);
    assert_eq!(secrets(0o644), [""; 0], "the folder is closed");
    set_mode(&folder, 0o755);
    assert_eq!(secrets(0o644), ["[http.tls] key", "[admin] token"]);
    assert_eq!(secrets(0o640), [""; 0]);
}
