//! Detects commands whose words are untrue or name nothing, and spellings that one command takes
//! and another refuses.

use crate::node::{Folder, Node, command, free_port, larder, said};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::process::{Command, Output};

/// A node without HTTP, and its configuration.
fn node(folder: &Folder) -> (Node, String) {
    let (socket, admin) = (folder.path("nfd.sock"), free_port());
    let config = folder.write(
        "larder.toml",
        &format!(
            "[ndn]\nunix = {socket:?}\ntcp = \"127.0.0.1:0\"\nudp = \"\"\nwebsocket = \"\"\n\
             [http]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n"
        ),
    );
    let running = Node::start(&mut command(&["run", "--config", &config]));
    (running, config)
}

fn ctl(config: &str, words: &str) -> Output {
    let arguments = ["ctl", "--config", config].into_iter();
    larder(&arguments.chain(words.split(' ')).collect::<Vec<_>>())
}

/// Creates a face to a listener of the test. Returns its number.
fn face(config: &str, peer: &TcpListener) -> String {
    let uri = format!("tcp://{}", peer.local_addr().unwrap());
    let created = ctl(config, &format!("--json face create {uri}"));
    let created: Value = serde_json::from_slice(&created.stdout).unwrap();
    created["face"].to_string()
}

/// Failure: a command that finds nothing says that it has removed something.
#[test]
fn what_is_absent_is_removed() {
    let folder = Folder::new();
    let (_node, config) = node(&folder);
    let says = |words: &str, expected: &str| {
        let output = ctl(&config, words);
        let text = said(&output);
        assert!(output.status.success(), "{words}: {text}");
        assert!(text.contains(expected), "{words}: {text}");
    };
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let face = face(&config, &peer);
    let says = |words: &str, expected: &str| {
        says(
            &words.replace("FACE", &face),
            &expected.replace("FACE", &face),
        );
    };
    for (words, expected) in [
        (
            "route remove /absent FACE",
            "there was no route from /absent to face FACE",
        ),
        (
            "route add /there FACE",
            "/there goes to face FACE at cost 0",
        ),
        ("--json route remove /absent FACE", "\"removed\":false"),
        (
            "--json route remove /there FACE --origin 65",
            "\"removed\":false",
        ),
        (
            "route remove /there FACE",
            "/there goes to face FACE no more",
        ),
        (
            "strategy unset /absent",
            "/absent had no strategy of its own",
        ),
        ("strategy set /there multicast", "/there is forwarded by"),
        (
            "strategy unset /there",
            "/there is forwarded as what is above it",
        ),
        ("--json strategy unset /there", "\"removed\":false"),
    ] {
        says(words, expected);
    }
}

/// Failure: the node refuses a command, and the error does not name what it was about.
#[test]
fn a_refused_command_names_nothing() {
    let folder = Folder::new();
    let (_node, config) = node(&folder);
    for (words, parts) in [
        (
            "face create udp://127.0.0.1:9",
            ["faces/create", "udp4://127.0.0.1:9"],
        ),
        (
            "face create ether://[02:00:00:00:00:01]",
            ["faces/create", "[02:00:00:00:00:01]"],
        ),
        (
            "route add /there udp://127.0.0.1:9",
            ["faces/create", "udp4://127.0.0.1:9"],
        ),
        (
            "strategy set /there nonsense",
            ["strategy-choice/set", "/there"],
        ),
        ("strategy unset /", ["strategy-choice/unset", "for /:"]),
    ] {
        let output = ctl(&config, words);
        let text = said(&output);
        assert!(!output.status.success(), "{words}: {text}");
        for part in parts {
            assert!(text.contains(part), "{words}: {text}");
        }
    }
}

/// Failure: who comes from nfdc types its words, and gets a hint at the help alone.
#[test]
fn the_words_of_nfdc_are_strange() {
    let folder = Folder::new();
    let (_node, config) = node(&folder);
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let face = face(&config, &peer);
    ctl(&config, &format!("route add /there {face}"));
    for (words, expected) in [
        ("route show", "/there"),
        ("route show /there", "/there"),
        ("route list", "/there"),
        ("fib list", "/there"),
        ("status report", "larder-"),
        ("status show", "larder-"),
        ("face list", "uri"),
        ("faces list", "uri"),
        ("strategy list", "best-route"),
        ("strategy show", "best-route"),
        ("cs info", "capacity"),
        ("channel list", "local uri"),
    ] {
        let output = ctl(&config, words);
        let text = said(&output);
        assert!(
            output.status.success() && text.contains(expected),
            "{words}: {text}"
        );
    }
    let other = ctl(&config, "route show /other");
    assert!(other.status.success(), "{}", said(&other));
    assert!(!said(&other).contains("/there"), "{}", said(&other));
}

/// Failure: a mistake elsewhere in the file hides the node, which runs.
#[test]
fn a_mistake_in_the_file_hides_its_node() {
    let folder = Folder::new();
    let (_node, config) = node(&folder);
    let sound = fs::read_to_string(&config).unwrap();
    let wrong = sound
        .replace("[http]\n", "[http]\ncache = 3\nnonsense = 1\n")
        .replace("[admin]\n", "[admin]\nodd = 3\n");
    assert!(wrong.contains("odd"), "{sound}");
    fs::write(&config, wrong).unwrap();
    for words in ["status", "face list", "--json status"] {
        let output = ctl(&config, words);
        let text = said(&output);
        assert!(output.status.success(), "{words}: {text}");
        for part in ["[http] cache: expected a string", "nonsense", "odd"] {
            assert!(text.contains(part), "{words}: {text}");
        }
    }
    // What it needs itself has to be right.
    fs::write(
        &config,
        sound.replace("[ndn]\nunix = ", "[ndn]\nunix = 3 #"),
    )
    .unwrap();
    let output = ctl(&config, "status");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("[ndn] unix"), "{}", said(&output));
}

/// Failure: a configuration file is refused by one command in the spelling that another one needs.
#[test]
fn a_file_needs_another_spelling() {
    let folder = Folder::new();
    let config = folder.write(
        "larder.toml",
        "[ndn]\nenabled = false\n[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n",
    );
    let url = "http://example.com/";
    for arguments in [
        &["run", "--check", &config][..],
        &["run", "--check", "--config", &config],
        &["doctor", &config],
        &["doctor", "--config", &config],
        &["rules", "explain", url, &config],
        &["rules", "explain", url, "--config", &config],
    ] {
        let output = larder(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    }
    for arguments in [
        &["run", "--check", &config, "--config", &config][..],
        &["doctor", &config, "--config", &config],
        &["rules", "explain", url],
    ] {
        let output = larder(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            said(&output)
        );
    }
}

/// Failure: a start that fails leaves a folder behind, or takes one away that was there.
#[test]
fn a_failed_start_leaves_a_folder() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let start = |socket: &str, check: &[&str]| {
        let config = folder.write(
            "larder.toml",
            &format!(
                "[ndn]\nunix = {:?}\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n\
                 [http]\nlisten = \"{}\"\n[admin]\nlisten = \"\"\n",
                folder.path(socket),
                taken.local_addr().unwrap()
            ),
        );
        let output = larder(&[&["run", &config], check].concat());
        assert!(!output.status.success(), "{}", said(&output));
    };
    fs::create_dir(folder.path("there")).unwrap();
    for check in [&[][..], &["--check"]] {
        start("new/inner/nfd.sock", check);
        assert!(!folder.path("new").exists(), "{check:?}");
        start("there/nfd.sock", check);
        assert!(folder.path("there").exists(), "{check:?}");
        assert!(!folder.path("there/nfd.sock").exists(), "{check:?}");
    }
}

/// Failure: a second node takes the default socket, or hides behind one that applications look for
/// later.
#[test]
fn a_second_node_takes_the_default_socket() {
    let folder = Folder::new();
    let config = folder.write(
        "larder.toml",
        "[ndn]\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n[http]\nenabled = false\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n",
    );
    for name in ["runtime", "run"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    let run = || {
        let mut run = command(&["run", &config]);
        run.env("XDG_RUNTIME_DIR", folder.path("runtime"));
        // As root, the first of the default paths is in /run: these nodes have one of their own,
        // if this process may mount.
        let own_run = format!("mount --bind {:?} /run && exec \"$@\"", folder.path("run"));
        let mut within = Command::new("unshare");
        within.args(["--mount", "sh", "-c", &own_run, "sh"]);
        if !within
            .args(["true"])
            .status()
            .is_ok_and(|status| status.success())
        {
            return run;
        }
        let mut within = Command::new("unshare");
        within.args(["--mount", "sh", "-c", &own_run, "sh"]);
        within.arg(run.get_program()).args(run.get_args());
        for (name, value) in run.get_envs() {
            match value {
                Some(value) => within.env(name, value),
                None => within.env_remove(name),
            };
        }
        within
    };
    let first = Node::start(&mut run());
    let second = run().output().unwrap();
    let text = said(&second);
    assert!(!second.status.success(), "{text}");
    assert!(
        text.contains("nfd.sock: another forwarder answers there"),
        "{text}"
    );
    assert!(text.contains("set another path"), "{text}");
    // A socket file that a kill has left is replaced.
    drop(first);
    Node::start(&mut run());
}

/// Failure: a name of a key that is not whole leads to another key.
#[test]
fn a_part_of_a_key_leads_astray() {
    for (typed, meant) in [
        ("cache", "http.cache"),
        ("policy", "ndn.policy"),
        ("listen", "http.listen"),
        ("acme", "http.tls.acme"),
        ("nonsense", "larder run --print-config"),
        ("http.cach", "http.cache?"),
    ] {
        let text = said(&larder(&["run", "--explain", typed]));
        assert!(
            text.contains(meant) && !text.contains("access_log"),
            "{typed}: {text}"
        );
    }
}

/// Failure: an error in a configuration speaks of Rust's types.
#[test]
fn a_configuration_is_read_in_rust() {
    let folder = Folder::new();
    for (text, expected) in [
        (
            "[log]\nformat = \"loud\"\n",
            "expected \"text\" or \"json\", not \"loud\"",
        ),
        (
            "[[ndn.route]]\nto = \"udp://192.0.2.1:6363\"\n",
            "`prefix` is missing, such as prefix = \"/\"",
        ),
    ] {
        let config = folder.write("larder.toml", text);
        let said = said(&larder(&["run", "--check", &config]));
        assert!(said.contains(expected), "{said}");
    }
    let link = "[line]\nnodes = 3\nlink = \"10ms\"\n";
    let scenario = folder.write("scenario.toml", link);
    let said = said(&larder(&["simulate", &scenario]));
    assert!(
        said.contains("expected a table such as { rate = \"10Mbps\""),
        "{said}"
    );
}

/// Failure: an error of a certificate is for those who wrote the library.
#[test]
fn a_certificate_is_wrong_in_riddles() {
    let folder = Folder::new();
    let data = |name: &str| format!("{}/../proxy/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let empty = folder.write("empty.pem", "");
    let damaged = folder.write(
        "damaged.pem",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    let no_key = folder.write(
        "damaged.key",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    );
    let (pem, key) = (data("localhost.pem"), data("localhost.key"));
    for (certificate, key, parts) in [
        (
            &pem,
            &data("hosts.key"),
            ["hosts.key is not the key of", "do not belong together"],
        ),
        (
            &empty,
            &key,
            ["empty.pem: no certificate", "-----BEGIN CERTIFICATE-----"],
        ),
        (
            &pem,
            &empty,
            ["empty.pem: no private key", "-----BEGIN PRIVATE KEY-----"],
        ),
        (
            &pem,
            &no_key,
            [
                "damaged.key: its private key cannot be used",
                "RSA of 2048 bits",
            ],
        ),
        (
            &damaged,
            &key,
            [
                "damaged.pem: its first certificate cannot be used",
                "X.509 version 3",
            ],
        ),
    ] {
        let config = folder.write(
            "larder.toml",
            &format!(
                "[ndn]\nenabled = false\n[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"\"\n\
                 [http.tls]\nlisten = \"127.0.0.1:0\"\ncertificate = {certificate:?}\nkey = {key:?}\n"
            ),
        );
        let text = said(&larder(&["run", "--check", &config]));
        for part in parts {
            assert!(text.contains(part), "{certificate} {key}: {text}");
        }
    }
}

/// Failure: a cache of 10 bytes is measured where 10 MiB are meant.
#[test]
fn ten_bytes_are_meant_silently() {
    let folder = Folder::new();
    let trace = folder.write("t.csv", "time,id,size\n1,a,1000\n2,b,2000\n3,a,1000\n");
    for verb in ["replay", "curve"] {
        let small = said(&larder(&[verb, &trace, "-p", "lru", "-s", "10"]));
        assert!(
            small.contains("-s 10 means 10 bytes; write 10MiB"),
            "{small}"
        );
        let large = said(&larder(&[verb, &trace, "-p", "lru", "-s", "10MiB"]));
        assert!(!large.contains("means"), "{large}");
    }
}
