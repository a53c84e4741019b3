//! Detects a first configuration that is wrong, or that takes the place of another file.

use crate::node::{Folder, Node, command, free_port, get, larder, said};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy/tests/data");
    path.join(name).to_str().unwrap().to_owned()
}

/// Runs `larder init` in the folder. Returns what it says.
#[track_caller]
fn init(folder: &Folder, arguments: &[&str]) -> String {
    let path = folder.path("larder.toml");
    let all = [
        &["init"],
        arguments,
        &["--force", "-o", path.to_str().unwrap()],
    ]
    .concat();
    let output = larder(&all);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    said(&output)
}

/// Failure: a file that `larder init` writes does not pass the check of a start, or its next
/// command is not said.
#[test]
fn a_first_configuration_is_wrong() {
    let folder = Folder::new();
    let (certificate, key) = (data("localhost.pem"), data("localhost.key"));
    let acme = format!("http.tls.acme.folder={}", folder.path("acme").display());
    let authority = format!("http.tls.acme.directory_ca={}", data("authority.pem"));
    let file = folder.path("larder.toml").to_str().unwrap().to_owned();
    let elsewhere = [
        "http.listen=127.0.0.1:0",
        "http.tls.listen=127.0.0.1:0",
        "admin.listen=127.0.0.1:0",
    ];
    let ndn = [
        "ndn.udp=127.0.0.1:0",
        "ndn.tcp=127.0.0.1:0",
        "ndn.websocket=",
        "ndn.unix=",
    ];
    let origin = "http://127.0.0.1:3000";
    for (arguments, settings) in [
        (
            vec!["edge", "--origin", origin, "--host", "a.example,b.example"],
            [&elsewhere[..], &[&acme, &authority]].concat(),
        ),
        (
            vec![
                "edge",
                "--origin",
                "/",
                "--certificate",
                &certificate,
                "--key",
                &key,
            ],
            elsewhere.to_vec(),
        ),
        (vec!["router"], [&ndn[..], &elsewhere[2..]].concat()),
        (
            vec![
                "router",
                "--uplink",
                "udp://192.0.2.1,tcp://192.0.2.2:6363",
                "--prefix",
                "/a",
            ],
            [&ndn[..], &elsewhere[2..]].concat(),
        ),
        (
            vec!["laboratory"],
            [&ndn[..], &elsewhere[..1], &elsewhere[2..]].concat(),
        ),
    ] {
        let next = init(&folder, &arguments);
        assert!(next.contains(&format!("larder run {file}")), "{next}");
        let settings: Vec<String> = settings.iter().map(|set| format!("--set={set}")).collect();
        let mut check = vec!["run", &file, "--check"];
        check.extend(settings.iter().map(String::as_str));
        let checked = larder(&check);
        let text = fs::read_to_string(&file).unwrap();
        assert!(checked.status.success(), "{}\n{text}", said(&checked));
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(text.matches("\n# ").count() > 5, "no comments: {text}");
    }
}

/// Failure: two edges have one token, or a new edge sends text as it came.
#[test]
fn an_edge_lacks_what_it_needs_at_once() {
    let folder = Folder::new();
    let path = folder.path("larder.toml");
    let written = || {
        let origin = "http://127.0.0.1:3000";
        init(
            &folder,
            &["edge", "--origin", origin, "--host", "a.example"],
        );
        fs::read_to_string(&path).unwrap()
    };
    let token = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("token = "));
        line.expect("a token").to_owned()
    };
    let (one, two) = (written(), written());
    assert_ne!(token(&one), token(&two));
    assert_eq!(token(&one).len(), "token = \"\"".len() + 32);
    assert!(
        one.contains("\n[http.compression]\ncodings = [\"br\""),
        "{one}"
    );
}

/// Failure: no node starts with the configuration of a laboratory.
#[test]
fn a_laboratory_does_not_start() {
    let folder = Folder::new();
    init(&folder, &["laboratory"]);
    let (http, admin) = (free_port(), free_port());
    let sets = [
        format!("--set=http.listen=127.0.0.1:{http}"),
        format!("--set=admin.listen=127.0.0.1:{admin}"),
        format!("--set=ndn.unix={}", folder.path("nfd.sock").display()),
        "--set=ndn.tcp=127.0.0.1:0".to_owned(),
        "--set=ndn.udp=127.0.0.1:0".to_owned(),
        "--set=ndn.websocket=127.0.0.1:0".to_owned(),
    ];
    let file = folder.path("larder.toml");
    let node = Node::start(command(&["run", file.to_str().unwrap()]).args(&sets));
    assert!(node.greeting.contains("NDN"), "{}", node.greeting);
    let page = get(http, "/10KiB/hello");
    assert!(page.lines().next().unwrap().contains(" 200 "), "{page}");
    assert!(folder.path("nfd.sock").exists());
}

/// Failure: a file of the operator is lost, or an answer that no node understands is written.
#[test]
fn a_file_of_the_operator_is_lost() {
    let folder = Folder::new();
    let file = folder.write("larder.toml", "# mine\n");
    let refused = larder(&["init", "laboratory", "-o", &file]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("--force"), "{}", said(&refused));
    let wrong = [
        "init",
        "edge",
        "--force",
        "-o",
        &file,
        "--origin",
        "ftp://a",
        "--host",
        "a.example",
    ];
    let refused = larder(&wrong);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("ftp://a"), "{}", said(&refused));
    assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\n");
    // Without a terminal, what is missing is named, and nothing waits.
    let missing = larder(&["init", "edge", "-o", "-"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(said(&missing).contains("--origin"), "{}", said(&missing));
    let printed = larder(&["init", "laboratory", "-o", "-"]);
    assert!(said(&printed).contains("\n[http]\n") && !said(&printed).contains("wrote"));
}

/// Failure: others read the token that an operator writes into the file, because it is new or was
/// replaced.
#[test]
fn a_configuration_is_open_to_all() {
    let folder = Folder::new();
    let path = folder.path("larder.toml");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    init(&folder, &["laboratory"]);
    assert_eq!(mode(), 0o600);
    for old in [0o600, 0o640, 0o644] {
        fs::set_permissions(&path, fs::Permissions::from_mode(old)).unwrap();
        init(&folder, &["laboratory"]);
        assert_eq!(mode(), old);
    }
    let edge = [
        "edge",
        "--origin",
        "http://127.0.0.1:1",
        "--host",
        "a.example",
    ];
    init(&folder, &edge);
    assert_eq!(mode(), 0o640, "others read the token");
    let others: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(others.len(), 1, "{others:?}");
}
