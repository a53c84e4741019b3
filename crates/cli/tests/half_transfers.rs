//! Failure: put, get and ping work in part and report success. Uses the real program, a real node
//! and Unix sockets.

use larder_packet::{
    Certificate, ControlParameters, Data, DataBuilder, DigestSigner, Interest, InterestBuilder,
    KeyLocator, LpPacket, Name, SignatureFreshness,
};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A node with its own directory.
struct Home {
    directory: TempDir,
    _node: Running,
}

/// A process that ends with the test.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end. Returns the exit status, standard error, and the rest of standard output.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut errors, mut rest) = (String::new(), String::new());
        self.out.read_to_string(&mut rest).unwrap();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        (self.child.wait().unwrap().code(), errors, rest)
    }
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nfd.sock");
        let config = directory.path().join("node.toml");
        let text = format!(
            "[ndn]\nunix = {socket:?}\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n[http]\nlisten = \"\"\n[admin]\nlisten = \"\"\n"
        );
        fs::write(&config, text).unwrap();
        let node = Running::start(
            Command::new(env!("CARGO_BIN_EXE_larder"))
                .arg("run")
                .arg(&config),
        );
        let deadline = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < deadline, "the node does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Home {
            directory,
            _node: node,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self, name: &str, size: usize) -> PathBuf {
        let bytes: Vec<u8> = (0..size as u64)
            .map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
            .collect();
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    fn larder(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        let transport = format!("unix://{}", self.path("nfd.sock").display());
        command
            .args(arguments)
            .env("NDN_CLIENT_TRANSPORT", transport)
            .current_dir(self.directory.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.larder(arguments).output().unwrap()
    }

    /// Starts a server, and waits until it reports that it serves.
    fn serve(&self, arguments: &[&str]) -> (Running, String) {
        let mut server = Running::start(&mut self.larder(arguments));
        let line = server.line();
        assert!(
            !line.is_empty(),
            "{arguments:?} did not start: {:?}",
            server.end()
        );
        (server, line)
    }

    /// Returns the files that the test did not create.
    fn leftovers(&self) -> Vec<String> {
        let names = fs::read_dir(self.directory.path()).unwrap();
        names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains("part"))
            .collect()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn assert_same(left: &Path, right: &Path) {
    assert!(
        fs::read(left).unwrap() == fs::read(right).unwrap(),
        "{left:?} differs from {right:?}"
    );
}

#[test]
fn what_was_put_is_what_is_got() {
    let home = Home::new();
    for size in [0, 1, 8000, 8001, 3_000_000] {
        let (file, name) = (home.file("file", size), format!("/test/{size}"));
        let (server, line) = home.serve(&["put", &name, "file"]);
        assert!(line.starts_with(&format!("serving {name}/v=")), "{line}");
        let output = home.run(&["get", &name, "-o", "out"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_same(&home.path("out"), &file);
        // The same for standard output. The second fetch may come from the Content Store.
        assert!(home.run(&["get", &name]).stdout == fs::read(&file).unwrap());
        server.signal(Signal::INT);
        let (status, errors, rest) = server.end();
        assert_eq!((status, errors.as_str()), (Some(0), ""));
        assert!(rest.starts_with("served "), "{rest}");
    }
    assert!(home.leftovers().is_empty());
}

#[test]
fn json_is_for_programs() {
    let home = Home::new();
    home.file("file", 20_000);
    let (mut server, line) = home.serve(&["put", "/j", "file", "--json", "--version", "5"]);
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        ready,
        serde_json::json!({ "serving": "/j/v=5", "bytes": 20_000, "segments": 3 })
    );
    let output = home.run(&["get", "/j", "-o", "out", "--json"]);
    let got: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&got["bytes"], &got["segments"], &got["name"]),
        (&20_000.into(), &3.into(), &"/j/v=5".into())
    );
    server.signal(Signal::TERM);
    let served: serde_json::Value = serde_json::from_str(&server.line()).unwrap();
    assert_eq!(
        (&served["segments"], &served["metadata"]),
        (&3.into(), &1.into())
    );
    assert_eq!(
        home.run(&["get", "/j", "--json"]).status.code(),
        Some(2),
        "JSON and content on one stream"
    );
}

#[test]
fn one_signature_for_a_file_is_checked_by_who_has_the_key() {
    let home = Home::new();
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../packet/tests/keys");
    let (key, public) = (
        format!("{keys}/ed25519.pem"),
        format!("{keys}/ed25519.pub.pem"),
    );
    let file = home.file("file", 3_000_000);
    let (_server, _) = home.serve(&["put", "/signed", "file", "--key", &key, "--manifest"]);
    let output = home.run(&["get", "/signed", "-o", "out", "--json", "--trust", &public]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_same(&home.path("out"), &file);
    let got: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // 375 segments. A packet holds the digests of 249.
    assert_eq!(
        (
            &got["manifest_packets"],
            &got["unverified"],
            &got["segments"]
        ),
        (&2.into(), &0.into(), &375.into())
    );

    let strangers = format!("{keys}/p256.pub.pem");
    let output = home.run(&[
        "get",
        "/signed",
        "-o",
        "never",
        "--retries",
        "0",
        "--trust",
        &strangers,
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains(
            "is not accepted: it is signed with Ed25519, and the trusted key is for ECDSA"
        ),
        "{}",
        stderr(&output)
    );
    assert!(!home.path("never").exists());
    assert_eq!(
        home.run(&["put", "/x", "file", "--manifest"]).status.code(),
        Some(2),
        "nothing to sign with"
    );
}

#[test]
fn a_file_that_changes_ends_both_sides() {
    let home = Home::new();
    let file = home.file("file", 100_000);
    let (server, _) = home.serve(&["put", "/changing", "file"]);
    fs::write(&file, vec![1; 100_000]).unwrap();
    let output = home.run(&[
        "get",
        "/changing",
        "-o",
        "out",
        "--retries",
        "1",
        "--lifetime",
        "1s",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("/changing/v="),
        "{}",
        stderr(&output)
    );
    let (status, errors, _) = server.end();
    assert_eq!(status, Some(1));
    assert!(
        errors.contains("larder: file: the file changed while it was being served"),
        "{errors}"
    );
    assert!(!home.path("out").exists() && home.leftovers().is_empty());
}

#[test]
fn an_interrupted_get_leaves_nothing_and_says_130() {
    let home = Home::new();
    // Registers the prefix, and answers only pings.
    let (_server, _) = home.serve(&["ping-server", "/silent"]);
    fs::write(home.path("out"), "old").unwrap();
    let get = Running::start(&mut home.larder(&["get", "/silent/file", "-o", "out"]));
    let deadline = Instant::now() + Duration::from_secs(20);
    while home.leftovers().is_empty() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(10));
    }
    get.signal(Signal::INT);
    let (status, errors, _) = get.end();
    assert_eq!(
        (status, errors.as_str()),
        (Some(130), "larder: interrupted: 0 bytes had arrived\n")
    );
    assert_eq!(fs::read(home.path("out")).unwrap(), b"old");
    assert!(home.leftovers().is_empty());
}

#[test]
fn nobody_there_is_said_and_not_waited_for() {
    let home = Home::new();
    let output = home.run(&["get", "/nobody", "-o", "out"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "larder: no route to /nobody\n");
    let output = home
        .larder(&["get", "/x"])
        .env("NDN_CLIENT_TRANSPORT", "unix:///nowhere")
        .output()
        .unwrap();
    assert!(
        stderr(&output).ends_with("start a node with `larder run`\n"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn bad_arguments_are_status_2_and_leave_no_file() {
    let home = Home::new();
    home.file("file", 10);
    for arguments in [
        &["put", "/x", "missing"][..],
        &["put", "/x", "."],
        &["put", "/x", "file", "--segment-size", "8800"],
        &["put", "/x", "file", "--segment-size", "0"],
        &["put", "/x", "file", "--largest-packet", "1MiB"],
        &[
            "put",
            "/x",
            "file",
            "--largest-packet",
            "10kB",
            "--segment-size",
            "10kB",
        ],
        &["put", "/x", "file", "--key", "file"],
        &["put", "/x%", "file"],
        &["get", "/x", "-o", "missing/out"],
        &["get", "/x", "-o", "."],
        &["get", "/x", "-o", "-", "--json"],
        &["get", "/x", "--trust", "file"],
        &["get", "/x", "--lifetime", "soon"],
        &["ping", "/x", "-i", "0"],
        &["ping-server", "/x", "--size", "9000"],
    ] {
        let output = home.run(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert!(!stderr(&output).is_empty());
    }
    assert!(home.leftovers().is_empty());
}

#[test]
fn pings_are_answered_and_lost_ones_counted() {
    let home = Home::new();
    let (_server, _) = home.serve(&["ping-server", "/p", "--size", "1000"]);
    let output = home.run(&["ping", "/p", "-c", "3", "-i", "10ms"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("content from /p: seq=").count(), 3, "{text}");
    assert!(
        text.contains("3 packets transmitted, 3 received, 0 nacked, 0% lost"),
        "{text}"
    );

    let output = home.run(&["ping", "/q", "-c", "2", "-i", "10ms"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains("reason=NoRoute") && text.contains("2 nacked, 0% lost, 100% nacked"),
        "{text}"
    );
    assert_eq!(stderr(&output), "larder: 2 of 2 pings were not answered\n");
}

#[test]
fn a_last_ping_that_is_lost_is_waited_for_without_end() {
    let home = Home::new();
    std::fs::write(home.path("in"), b"content").unwrap();
    // `put` does not answer names other than its own.
    let (_server, _) = home.serve(&["put", "/silent", "in"]);
    let output = home.run(&[
        "ping",
        "/silent",
        "-c",
        "2",
        "-i",
        "10ms",
        "--lifetime",
        "100ms",
    ]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text.matches("timeout from /silent: seq=").count(),
        2,
        "{text}"
    );
}

#[test]
fn a_benchmark_measures_what_it_says() {
    let home = Home::new();
    let counters = || {
        let info = String::from_utf8(
            home.larder(&["ctl", "cs", "info", "--json"])
                .output()
                .unwrap()
                .stdout,
        )
        .unwrap();
        let number = |key: &str| {
            let at = info.find(key).unwrap_or_else(|| panic!("{key} in {info}")) + key.len() + 2;
            let digits: String = info[at..]
                .trim()
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            digits.parse::<u64>().unwrap()
        };
        (number("\"hits"), number("\"misses"))
    };
    let measure = |arguments: &[&str]| {
        let before = counters();
        let common = [
            "bench",
            "--size",
            "100B",
            "--window",
            "4",
            "--duration",
            "100ms",
            "--json",
        ];
        let output = home
            .larder(&[&common[..], arguments].concat())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let row: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        let (hits, misses) = counters();
        (row, hits - before.0, misses - before.1)
    };
    let exchanges = |row: &serde_json::Value| row["exchanges"].as_u64().unwrap();

    let (row, _, misses) = measure(&["--misses"]);
    assert!(
        exchanges(&row) > 0 && misses >= exchanges(&row),
        "{row}, but {misses} misses"
    );
    assert!(
        row["cpu_us_per_exchange"].as_f64().unwrap() > 0.0
            && row["resident_bytes"].as_u64().unwrap() > 0,
        "{row}"
    );
    let (row, hits, _) = measure(&["--hits"]);
    assert!(
        hits >= exchanges(&row) && exchanges(&row) > 0,
        "{row}, but {hits} hits"
    );
    let (row, hits, misses) = measure(&["--misses", "--rate", "500"]);
    assert!(
        misses < 500 && exchanges(&row) <= 60,
        "{row}: {misses} misses at 500 a second for 0.4 s, {hits} hits"
    );
    let (row, _, misses) = measure(&["--floor"]);
    assert!(
        exchanges(&row) > 0 && misses == 0,
        "{row}: no forwarder is under a relay"
    );
}

/// Starts a producer of single Data with the prefix /plain. `content` returns the answer for each
/// name.
fn produce_plain(
    home: &Home,
    content: impl Fn(&str) -> Option<(Name, &'static [u8])> + Send + 'static,
) {
    let mut stream = UnixStream::connect(home.path("nfd.sock")).unwrap();
    let parameters = ControlParameters {
        name: Some("/plain".parse().unwrap()),
        ..ControlParameters::default()
    };
    let mut command: Name = "/localhost/nfd/rib/register".parse().unwrap();
    command.push_generic(&parameters.encode());
    let signed = InterestBuilder::new(command)
        .nonce(1)
        .sign(&DigestSigner, SignatureFreshness::default())
        .unwrap();
    stream.write_all(&signed).unwrap();
    let (registered, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut received, mut buffer) = (Vec::new(), [0; 9000]);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(read) => received.extend_from_slice(&buffer[..read]),
            }
            while let Some(length) = larder_packet::tlv::frame(&received, 9000).unwrap() {
                let frame: Vec<u8> = received.drain(..length).collect();
                let packet = LpPacket::decode(&frame).unwrap().fragment.unwrap();
                let Ok(interest) = Interest::decode(packet) else {
                    registered.send(()).unwrap();
                    continue;
                };
                if let Some((name, content)) = content(&interest.name.to_string()) {
                    let mut builder = DataBuilder::new(name.as_name()).content(content);
                    if let Some(last) = name
                        .as_name()
                        .last()
                        .filter(|last| last.as_segment().is_some())
                    {
                        builder = builder.final_block_id(last);
                    }
                    let mut data = builder.build(&DigestSigner).unwrap();
                    if content == b"corrupt" {
                        // The last byte is one of the digest.
                        *data.last_mut().unwrap() ^= 1;
                    }
                    stream.write_all(&data).unwrap();
                }
            }
        }
    });
    wait.recv_timeout(Duration::from_secs(20))
        .expect("the prefix is registered");
}

#[test]
fn a_data_that_is_no_segmented_object_is_bad_metadata() {
    let home = Home::new();
    produce_plain(&home, |asked| match asked {
        // An application that answers every name under its prefix.
        _ if asked.starts_with("/plain/all") => Some((
            asked.parse().unwrap(),
            if asked.ends_with("metadata") {
                b""
            } else {
                b"of all"
            },
        )),
        // Data as ndnpoke has it, without metadata.
        "/plain/one" => Some(("/plain/one".parse().unwrap(), b"of one")),
        // A name like that of a certificate.
        "/plain/v=5" => Some(("/plain/v=5".parse().unwrap(), b"of five")),
        _ if asked.starts_with("/plain/longer/32=") => None,
        _ if asked.starts_with("/plain/longer") => {
            Some(("/plain/longer/x".parse().unwrap(), b"of x"))
        }
        _ => None,
    });
    let fetched = |name: &str, content: &str| {
        let output = home.run(&["get", name, "-o", &content.replace(' ', "-"), "--json"]);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        assert_eq!(
            fs::read_to_string(home.path(&content.replace(' ', "-"))).unwrap(),
            content
        );
        let got: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&got["name"], &got["bytes"]),
            (&name.into(), &content.len().into())
        );
    };
    let refused = |name: &str, retries: &str, reasons: &[&str]| {
        let output = home.run(&["get", name, "--retries", retries]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        let said = stderr(&output);
        assert!(
            reasons.iter().all(|reason| said.contains(reason)),
            "{name}: {said}"
        );
    };
    // Time-outs take most of the time, so the cases run concurrently.
    std::thread::scope(|scope| {
        scope.spawn(|| fetched("/plain/all", "of all"));
        scope.spawn(|| fetched("/plain/one", "of one"));
        scope.spawn(|| fetched("/plain/v=5", "of five"));
        scope.spawn(|| refused("/plain/longer", "15", &["there is /plain/longer/x"]));
        let both = [
            "no answer to /plain/none/32=metadata:",
            "no answer to /plain/none:",
        ];
        scope.spawn(move || refused("/plain/none", "0", &both));
    });
    assert_eq!(home.run(&["get", "/plain/all"]).stdout, b"of all");
}

/// Failure: a name whose signature fails "does not exist", or is tried for long.
#[test]
fn a_failed_signature_hides_behind_a_missing_name() {
    let home = Home::new();
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../packet/tests/keys");
    let key = |name: &str| format!("{keys}/{name}");
    home.file("file", 20_000);
    let (_ed, _) = home.serve(&[
        "put",
        "/ed",
        "file",
        "--key",
        &key("ed25519.pem"),
        "--version",
        "1",
    ]);
    let (_manifest, _) = home.serve(&[
        "put",
        "/manifest",
        "file",
        "--key",
        &key("ed25519.pem"),
        "--manifest",
        "--version",
        "1",
    ]);
    let (_digest, _) = home.serve(&["put", "/digest", "file", "--version", "1"]);
    produce_plain(&home, |asked| {
        // Its digest is wrong.
        let name: Name = asked.strip_suffix("/32=metadata")?.parse().unwrap();
        let mut metadata = name.clone();
        metadata
            .push_keyword(b"metadata")
            .push_version(1)
            .push_segment(0);
        Some((metadata, b"corrupt"))
    });
    let p256 = key("p256.pub.pem");
    let other = home.path("other.pem");
    let generated = Command::new("openssl")
        .args(["genpkey", "-algorithm", "ed25519", "-out"])
        .arg(&other)
        .output();
    assert!(generated.unwrap().status.success());
    let other = other.to_str().unwrap();
    let ed = key("ed25519.pub.pem");
    for (name, trust, expected) in [
        (
            "/ed",
            other,
            "/ed/32=metadata/v=1/seg=0 is not accepted: its signature is not by the trusted key",
        ),
        ("/ed", other, "(its key locator is /ed/KEY/larder)"),
        (
            "/ed/v=1",
            other,
            "/ed/v=1/seg=0 is not accepted: its signature is not by the trusted key",
        ),
        (
            "/ed",
            &p256,
            "it is signed with Ed25519, and the trusted key is for ECDSA",
        ),
        (
            "/manifest",
            other,
            "/manifest/32=metadata/v=1/seg=0 is not accepted: its signature is not by",
        ),
        (
            "/manifest/v=1",
            &ed,
            "/manifest/v=1/seg=0 is not accepted: it has only a SHA-256 digest",
        ),
        ("/manifest/v=1", &ed, "fetch the name without its version"),
        (
            "/digest",
            &ed,
            "/digest/32=metadata/v=1/seg=0 is not accepted: it has only a SHA-256 digest",
        ),
        (
            "/digest/v=1",
            &ed,
            "/digest/v=1/seg=0 is not accepted: it has only a SHA-256 digest",
        ),
    ] {
        let output = home.run(&["get", name, "-o", "never", "--trust", trust]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains(expected), "{name} with {trust}: {said}");
        assert!(
            !said.contains("no answer") && !said.contains("no such"),
            "{said}"
        );
    }
    let exact = home.run(&["get", "/digest/v=1", "--exact", "--trust", &ed]);
    assert!(
        stderr(&exact).contains("/digest/v=1/seg=0 is not accepted: it has only"),
        "{}",
        stderr(&exact)
    );
    let output = home.run(&["get", "/plain/corrupt"]);
    assert!(
        stderr(&output).contains("its SHA-256 digest is wrong"),
        "{}",
        stderr(&output)
    );
    assert!(!home.path("never").exists() && home.leftovers().is_empty());
}

/// Failure: segments without metadata are not fetched, as ndn-cxx's SegmentFetcher fetches them, or
/// the error does not tell how to fetch what there is.
#[test]
fn segments_without_metadata_are_out_of_reach() {
    let home = Home::new();
    produce_plain(&home, |asked| {
        let content: &'static [u8] = b"content";
        match asked {
            "/plain/pyv" => Some(("/plain/pyv/v=7/seg=0".parse().unwrap(), content)),
            "/plain/pyv/v=7/seg=0" => Some((asked.parse().unwrap(), content)),
            "/plain/pyu" => Some(("/plain/pyu/seg=0".parse().unwrap(), content)),
            "/plain/pyu/seg=0" => Some((asked.parse().unwrap(), content)),
            "/plain/deep" => Some(("/plain/deep/a/v=3/seg=0".parse().unwrap(), content)),
            "/plain/flat" => Some(("/plain/flat/a/seg=0".parse().unwrap(), content)),
            _ => None,
        }
    });
    let refused = |name: &str, remedy: &str| {
        let output = home.run(&["get", name]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert!(
            stderr(&output).contains(remedy),
            "{name}: {}",
            stderr(&output)
        );
    };
    // Time-outs take most of the time, so the cases run concurrently.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let output = home.run(&["get", "/plain/pyv"]);
            assert_eq!(output.stdout, b"content", "{}", stderr(&output));
            assert!(
                stderr(&output).starts_with("/plain/pyv/v=7: 7 bytes"),
                "{}",
                stderr(&output)
            );
        });
        scope.spawn(|| {
            let output = home.run(&["get", "/plain/pyu", "--exact"]);
            assert_eq!(output.stdout, b"content", "{}", stderr(&output));
        });
        scope.spawn(|| refused("/plain/pyu", "larder get --exact /plain/pyu"));
        scope.spawn(|| refused("/plain/deep", "larder get /plain/deep/a"));
        scope.spawn(|| refused("/plain/flat", "larder get --exact /plain/flat/a"));
    });
}

/// Sends an Interest, and returns the Data that answers it.
fn express(home: &Home, name: &Name, selectors: [bool; 2]) -> Vec<u8> {
    static NONCE: AtomicU32 = AtomicU32::new(1);
    let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
    let [can_be_prefix, must_be_fresh] = selectors;
    let mut stream = UnixStream::connect(home.path("nfd.sock")).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .write_all(
            &InterestBuilder::new(name)
                .can_be_prefix(can_be_prefix)
                .must_be_fresh(must_be_fresh)
                .nonce(nonce)
                .build(),
        )
        .unwrap();
    let (mut received, mut buffer) = (Vec::new(), [0; 9000]);
    loop {
        let read = stream
            .read(&mut buffer)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read > 0, "the node has closed the connection");
        received.extend_from_slice(&buffer[..read]);
        if let Some(length) = larder_packet::tlv::frame(&received, 9000).unwrap() {
            let packet = LpPacket::decode(&received[..length]).unwrap();
            assert!(
                packet.header.nack.is_none(),
                "{name}: {:?}",
                packet.header.nack
            );
            return packet.fragment.unwrap().to_vec();
        }
    }
}

/// Failure: segments name a key that nobody serves, so that no other library can validate them.
#[test]
fn a_key_is_named_and_nobody_serves_it() {
    let home = Home::new();
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../packet/tests/keys");
    let key = |name: &str| format!("{keys}/{name}");
    home.file("file", 20_000);
    let made = home.run(&["certificate", &key("p256.pem"), "/alice/KEY/7"]);
    fs::write(home.path("alice.ndncert"), &made.stdout).unwrap();
    let ed = key("ed25519.pem");
    let p256 = key("p256.pem");
    for (name, more) in [
        ("/default", vec!["--key", ed.as_str()]),
        ("/manifest", vec!["--key", ed.as_str(), "--manifest"]),
        (
            "/elsewhere",
            vec!["--key", p256.as_str(), "--key-name", "/bob/KEY/1"],
        ),
        (
            "/certified",
            vec!["--key", p256.as_str(), "--certificate", "alice.ndncert"],
        ),
    ] {
        let (mut server, _) = home.serve(&[&["put", name, "file"], &more[..]].concat());
        let line = server.line();
        let mut metadata: Name = name.parse().unwrap();
        metadata.push_keyword(b"metadata");
        let signed = express(&home, &metadata, [true, false]);
        let signed = Data::decode(&signed).unwrap();
        let Some(KeyLocator::Name(locator)) = signed.signature_info().key_locator else {
            panic!("no key")
        };
        // As a validator of another library does.
        let wire = express(&home, &locator.to_name(), [true, true]);
        let certificate = Certificate::decode(&wire).unwrap();
        assert!(
            certificate.is_meant_by(locator),
            "{} of {locator}",
            certificate.name()
        );
        assert!(
            line.ends_with(&format!("{}\n", certificate.name())),
            "{line}"
        );
        signed.verify(&certificate).unwrap();
        Data::decode(&wire).unwrap().verify(&certificate).unwrap();
        // A consumer that looks for the newest version by the object's name does not get the
        // certificate from a cache for long.
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let object = express(&home, &name.parse().unwrap(), [true, true]);
            if Data::decode(&object).unwrap().content_type.is_none() {
                break;
            }
            assert!(Instant::now() < deadline, "{name}");
            std::thread::sleep(Duration::from_millis(20));
        }
        // Its certificate is a key to trust.
        let exact = express(&home, certificate.name(), [false, false]);
        fs::write(
            home.path("served.ndncert"),
            larder_packet::to_base64(&exact),
        )
        .unwrap();
        assert_eq!(
            home.run(&["get", name, "--trust", "served.ndncert"]).stdout,
            fs::read(home.path("file")).unwrap()
        );
        server.signal(Signal::INT);
        server.end();
    }
    for (arguments, expected) in [
        (
            [
                "put",
                "/x",
                "file",
                "--key",
                &ed,
                "--certificate",
                "alice.ndncert",
            ],
            "is that of another key",
        ),
        (
            ["put", "/x", "file", "--key", &ed, "--certificate", "file"],
            "--certificate file: ",
        ),
        (
            ["put", "/x", "file", "--key", &ed, "--key-name", "/alice"],
            "/KEY/",
        ),
    ] {
        let output = home.run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            stderr(&output).contains(expected),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}

/// Failure: a certificate is no key to trust.
#[test]
fn a_certificate_is_not_trusted() {
    let home = Home::new();
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../packet/tests/keys");
    let (p256, public) = (format!("{keys}/p256.pem"), format!("{keys}/p256.pub.pem"));
    home.file("file", 20_000);
    let made = home.run(&["certificate", &p256, "/alice/KEY/7"]);
    fs::write(home.path("alice.ndncert"), &made.stdout).unwrap();
    let text = fs::read_to_string(home.path("alice.ndncert")).unwrap();
    let block = format!(
        "-----BEGIN NDN CERT-----\nName: /alice/KEY/7\nSigType: ECDSA\n\n{text}-----END NDN CERT-----\n"
    );
    fs::write(home.path("ndnd.cert"), block).unwrap();
    let (_server, _) = home.serve(&[
        "put",
        "/last",
        "file",
        "--key",
        &p256,
        "--certificate",
        "ndnd.cert",
    ]);
    fs::write(
        home.path("raw.ndncert"),
        express(&home, &"/alice/KEY/7".parse().unwrap(), [true, false]),
    )
    .unwrap();
    for trust in ["alice.ndncert", "ndnd.cert", "raw.ndncert", &public, &p256] {
        let output = home.run(&["get", "/last", "-o", "out", "--trust", trust]);
        assert!(output.status.success(), "{trust}: {}", stderr(&output));
    }
    fs::write(home.path("text"), "neither").unwrap();
    let output = home.run(&["get", "/last", "--trust", "text"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("neither a PEM key"),
        "{}",
        stderr(&output)
    );
}
