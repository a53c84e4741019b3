//! Detects faces, routes, descriptors or memory that thousands of short connections leave behind,
//! and applications that hang for want of descriptors. Uses the real program in its own process, so
//! its descriptors and memory are measured alone.

use larder_packet::{ControlParameters, DigestSigner, InterestBuilder, Name, SharedMemory};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time after which a test has failed. Nothing here takes that long.
const PATIENCE: Duration = Duration::from_secs(20);

/// A node that ends with the test.
struct Running {
    child: Child,
    directory: TempDir,
    /// Its addresses, by scheme.
    tcp: String,
    websocket: String,
    admin: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The resources of a node.
#[derive(Debug, PartialEq)]
struct Held {
    faces: u64,
    routes: u64,
    partial_bytes: u64,
    descriptors: usize,
}

impl Running {
    fn start() -> Running {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("larder.toml");
        let socket = directory.path().join("nfd.sock");
        let text = format!(
            "[ndn]\nunix = {socket:?}\ntcp = \"127.0.0.1:0\"\nudp = \"\"\nwebsocket = \"127.0.0.1:0\"\n\
             [http]\nlisten = \"\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nlevel = \"error\"\n"
        );
        fs::write(&config, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        let command = command
            .arg("run")
            .arg(&config)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut greeting = String::new();
        while !greeting.contains("admin ") {
            greeting += &(lines.next().expect("the node has ended").unwrap() + "\n");
        }
        let address = |before: &str| {
            let rest = greeting
                .split_once(before)
                .unwrap_or_else(|| panic!("no {before} in {greeting}"))
                .1;
            let is_part = |letter: char| letter.is_ascii_digit() || ".:".contains(letter);
            rest.split(|letter| !is_part(letter))
                .next()
                .unwrap()
                .to_owned()
        };
        let (tcp, websocket) = (address("tcp://"), address("ws://"));
        let admin = address("admin  http://");
        Running {
            child,
            directory,
            tcp,
            websocket,
            admin,
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("nfd.sock")
    }

    fn unix(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn status(&self) -> Value {
        let mut stream = TcpStream::connect(&self.admin).unwrap();
        stream
            .write_all(b"GET /status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        serde_json::from_str(page.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    fn held(&self) -> Held {
        let status = self.status();
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .unwrap()
            .count();
        Held {
            faces: status["ndn"]["faces"].as_array().unwrap().len() as u64,
            routes: status["ndn"]["rib_routes"].as_u64().unwrap(),
            partial_bytes: status["ndn"]["partial_input_bytes"].as_u64().unwrap(),
            descriptors,
        }
    }

    /// Waits until the node has these resources. It notices the end of a connection a little later.
    fn await_held(&self, expected: &Held) {
        let deadline = Instant::now() + PATIENCE;
        while self.held() != *expected {
            assert!(
                Instant::now() < deadline,
                "{:?} is held, and was {expected:?} before",
                self.held()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS"))
            .unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

fn interest(name: &str, nonce: u32) -> Vec<u8> {
    InterestBuilder::new(name.parse::<Name>().unwrap())
        .nonce(nonce)
        .lifetime(Duration::from_millis(50))
        .build()
}

/// Returns true if the node answers here: it refuses a name without a route.
fn is_answered(client: &mut UnixStream, nonce: u32) -> bool {
    client.write_all(&interest("/no/route", nonce)).unwrap();
    client.read(&mut [0; 9000]).unwrap() > 0
}

/// Registers a prefix.
fn register(client: &mut UnixStream, prefix: &str) {
    let parameters = ControlParameters {
        name: Some(prefix.parse().unwrap()),
        ..Default::default()
    };
    let mut name: Name = "/localhost/nfd/rib/register".parse().unwrap();
    name.push_generic(&parameters.encode());
    client
        .write_all(
            &InterestBuilder::new(name)
                .nonce(1)
                .sign(&DigestSigner, Default::default())
                .unwrap(),
        )
        .unwrap();
    assert!(client.read(&mut [0; 9000]).unwrap() > 0);
}

/// Opens and ends a connection: with a pending Interest, within a packet, within a handshake,
/// with shared memory, or with a route.
fn come_and_go(node: &Running, number: u32) {
    let cut = number as usize % 40;
    let packet = interest(&format!("/route/{}/{number}", number % 7), number);
    match number % 6 {
        0 => node
            .unix()
            .write_all(&packet[..cut % packet.len()])
            .unwrap(),
        1 => TcpStream::connect(&node.tcp)
            .unwrap()
            .write_all(&packet)
            .unwrap(),
        2 => TcpStream::connect(&node.tcp)
            .unwrap()
            .write_all(&packet[..cut % packet.len()])
            .unwrap(),
        3 => {
            let handshake = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n";
            TcpStream::connect(&node.websocket)
                .unwrap()
                .write_all(&handshake[..cut])
                .unwrap();
        }
        // Asks for shared memory, and sometimes begins to use it.
        4 => {
            let steps = [
                SharedMemory::Request.packet(),
                SharedMemory::Switch.packet(),
            ]
            .concat();
            node.unix().write_all(&steps[..8 * (1 + cut % 2)]).unwrap();
        }
        _ => {
            let mut producer = node.unix();
            register(&mut producer, &format!("/route/{}", number % 7));
            register(&mut producer, &format!("/other/{number}"));
        }
    }
}

#[test]
fn connections_that_come_and_go_leave_faces_routes_descriptors_or_memory() {
    let node = Running::start();
    let mut bystander = node.unix();
    assert!(is_answered(&mut bystander, 1));
    let before = node.held();
    let mut resident = Vec::new();
    for round in 0..4 {
        for number in 0..5000 {
            come_and_go(&node, round * 5000 + number);
            if number % 100 == 0 {
                assert!(
                    is_answered(&mut bystander, 10 + round * 5000 + number),
                    "another client is not served"
                );
            }
        }
        node.await_held(&before);
        resident.push(node.resident_kib());
    }
    // The first two rounds fill tables and buffers that are reused. A leak of 300 bytes per
    // connection would be visible.
    assert!(
        resident[3] < resident[1] + 3000,
        "KiB, round by round: {resident:?}"
    );
}

#[test]
fn an_application_killed_in_the_middle_leaves_its_shared_memory() {
    let node = Running::start();
    let before = node.held();
    let is_mapped = || {
        let maps = fs::read_to_string(format!("/proc/{}/maps", node.child.id())).unwrap();
        maps.contains("memfd:larder-face")
    };
    for _ in 0..3 {
        let satisfied = node.status()["ndn"]["satisfied_interests"]
            .as_u64()
            .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args([
            "bench",
            "--misses",
            "--window",
            "64",
            "--duration",
            "60s",
            "--to",
        ]);
        command
            .arg(format!("unix://{}", node.socket().display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut bench = command.spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        let is_running = || {
            let status = node.status();
            let shared = |face: &&Value| face["shared_memory"] == true;
            let faces = status["ndn"]["faces"]
                .as_array()
                .unwrap()
                .iter()
                .filter(shared)
                .count();
            faces == 2 && status["ndn"]["satisfied_interests"].as_u64().unwrap() > satisfied + 1000
        };
        while !is_running() {
            assert!(
                Instant::now() < deadline,
                "its packets do not pass through shared memory"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(is_mapped());
        bench.kill().unwrap();
        bench.wait().unwrap();
        node.await_held(&before);
        assert!(!is_mapped(), "its memory stays");
    }
}

/// Lists the node's faces by `larder ctl`, with so many descriptors. Returns true if that succeeds.
fn lists_faces(node: &Running, descriptors: u64) -> bool {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        &format!("ulimit -n {descriptors}; exec \"$0\" ctl face list"),
        env!("CARGO_BIN_EXE_larder"),
    ]);
    command.env(
        "NDN_CLIENT_TRANSPORT",
        format!("unix://{}", node.socket().display()),
    );
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        if Instant::now() >= deadline {
            let _ = child.kill();
            panic!("it hangs with {descriptors} descriptors");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_application_that_may_open_few_descriptors_hangs() {
    let node = Running::start();
    // With too few, it cannot connect. With a few more, it cannot open the shared memory, or gets
    // only some of its descriptors.
    let listed: Vec<bool> = (4..20)
        .map(|descriptors| lists_faces(&node, descriptors))
        .collect();
    let first = listed
        .iter()
        .position(|listed| *listed)
        .expect("it needs more than 20 descriptors");
    assert!(
        !listed[0] && listed[first..].iter().all(|listed| *listed),
        "{listed:?}"
    );
}

#[test]
fn an_application_hangs_whose_node_may_open_few_descriptors() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let node = Running::start();
    assert!(lists_faces(&node, 64));
    let opened = fs::read_dir(format!("/proc/{}/fd", node.child.id())).unwrap();
    let numbers = opened.map(|entry| {
        entry
            .unwrap()
            .file_name()
            .to_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    });
    let highest = numbers.max().unwrap();
    // One more is the connection's; shared memory takes five.
    for more in 1..=7 {
        let current = Some(highest + 1 + more);
        let limit = Rlimit {
            current,
            ..getrlimit(Resource::Nofile)
        };
        prlimit(
            Pid::from_raw(node.child.id() as i32),
            Resource::Nofile,
            limit,
        )
        .unwrap();
        assert!(lists_faces(&node, 64), "{more} more descriptors");
    }
}
