//! Failure: a signal ends hours of work without a message about the progress and the way to
//! continue. Uses the real program.

use larder_node::{Config, Node};
use larder_replay::{Access, Trace};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn larder(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns true if the process waits for signals.
fn listens(child: &Child) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    threads.flatten().any(|thread| {
        fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name == "signals\n")
    })
}

/// Sends `signal` when the process waits for signals. Returns its last output and its exit status.
fn interrupted(mut child: Child, signal: Signal) -> (String, Option<i32>) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !listens(&child) {
        assert!(
            Instant::now() < patience && child.try_wait().unwrap().is_none(),
            "it does not listen in time"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    (
        String::from_utf8(output.stderr).unwrap(),
        output.status.code(),
    )
}

#[test]
fn a_replay_ends_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("rows").to_str().unwrap().to_owned();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests/data/web07.trace.xz");
    let trace = trace.to_str().unwrap();
    // Seconds of work.
    let endless = [
        "replay",
        trace,
        trace,
        "-s",
        "1000",
        "-p",
        "lookahead(interval=5000,window=20000)+lru",
    ];
    let (said, code) = interrupted(larder(&endless), Signal::INT);
    assert!(said.starts_with("larder: interrupted: 0 of "), "{said}");
    assert!(
        said.ends_with(" rows finished; --resume FILE keeps those that are\n"),
        "{said}"
    );
    assert_eq!(code, Some(130), "{said}");
    let (said, code) = interrupted(
        larder(&[&endless[..], &["--resume", &kept]].concat()),
        Signal::TERM,
    );
    assert!(
        said.ends_with(" rows finished; go on with the same --resume\n"),
        "{said}"
    );
    assert_eq!((said.lines().count(), code), (1, Some(130)), "{said}");
}

#[test]
fn a_reproduction_ends_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let (said, code) = interrupted(
        larder(&["reproduce", "chunk-size", "--quick", "-o", out]),
        Signal::INT,
    );
    assert!(said.starts_with("larder: interrupted: 0 of "), "{said}");
    assert!(said.contains(" experiments finished, "), "{said}");
    // It promises to go on only from rows that are there.
    let rows = std::fs::read(folder.path().join("rows.jsonl")).unwrap();
    let way_on = if said.contains("--resume") {
        assert!(!rows.is_empty(), "{said}");
        format!("; go on with --resume ({out}/rows.jsonl)\n")
    } else {
        "; nothing is finished that could be kept\n".to_owned()
    };
    assert!(said.ends_with(&way_on), "{said}");
    assert_eq!((said.lines().count(), code), (1, Some(130)), "{said}");
}

/// Failure: an interrupted command leaves gigabytes under a hidden name.
#[test]
fn a_trace_that_is_given_up_leaves_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["t.csv", "t.tr.zst", "t.oracleGeneral"] {
        let path = folder.path().join(name).to_str().unwrap().to_owned();
        let (said, code) = interrupted(
            larder(&["trace", "generate", "web", "-n", "9000000000", "-o", &path]),
            Signal::INT,
        );
        assert_eq!(
            (said, code),
            (
                format!("larder: interrupted: {path} is not written\n"),
                Some(130)
            )
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{name}");
    }
}

/// Returns the address of the HTTP cache, from the status page.
fn http_address(admin: &str) -> String {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream
        .write_all(b"GET /status HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let status: serde_json::Value =
        serde_json::from_str(page.split_once("\r\n\r\n").unwrap().1).unwrap();
    status["http"]["listen"][0]
        .as_str()
        .unwrap()
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .to_owned()
}

/// Failure: a capture of the traffic that is ended by hand is lost, or has other requests.
#[test]
fn a_capture_that_is_ended_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[ndn]\nenabled = false\n[http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    let node = Node::start(&Config::parse(text, "test").unwrap()).unwrap();
    let admin = node.admin_address().unwrap().to_string();
    let path = folder.path().join("day.oracleGeneral.zst");
    let child = larder(&[
        "ctl",
        "capture",
        "--admin",
        &admin,
        "-o",
        path.to_str().unwrap(),
    ]);
    // The node takes the requests that come after it has begun, so they come until it is ended.
    let (address, ended) = (http_address(&admin), AtomicBool::new(false));
    let (said, code) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = TcpStream::connect(address).unwrap();
            for number in (0..).take_while(|_| !ended.load(Ordering::Relaxed)) {
                write!(
                    stream,
                    "GET /1000/{} HTTP/1.1\r\nhost: a\r\n\r\n",
                    number % 7
                )
                .unwrap();
                let mut answer = [0; 4096];
                assert!(stream.read(&mut answer).unwrap() > 0);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        std::thread::sleep(Duration::from_secs(4));
        let result = interrupted(child, Signal::INT);
        ended.store(true, Ordering::Relaxed);
        result
    });
    assert_eq!((said.as_str(), code), ("", Some(0)));
    let accesses: Vec<Access> = Trace::open(&path, None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let objects: HashSet<u64> = accesses.iter().map(|access| access.id).collect();
    assert!(
        accesses.len() > 50 && objects.len() == 7,
        "{} {objects:?}",
        accesses.len()
    );
    assert!(
        accesses
            .iter()
            .all(|access| (1_000..2_000).contains(&access.size)),
        "{accesses:?}"
    );
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "no temporary file stays"
    );
    node.stop();
}
