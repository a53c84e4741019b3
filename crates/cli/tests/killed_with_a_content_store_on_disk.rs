//! Failure: the Content Store's disk tier loses Data that it received more than a second before, or
//! returns half of it. Uses the real program, a file ten times as large as the store in memory, no
//! producer for the second fetch, and SIGKILL for the node.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Home(TempDir);

impl Home {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn node(&self, config: &Path) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        let node = Running(
            command
                .arg("run")
                .arg(config)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        let deadline = Instant::now() + Duration::from_secs(30);
        while UnixStream::connect(self.path("nfd.sock")).is_err() {
            assert!(Instant::now() < deadline, "the node does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        node
    }

    fn larder(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        let transport = format!("unix://{}", self.path("nfd.sock").display());
        command
            .args(arguments)
            .env("NDN_CLIENT_TRANSPORT", transport)
            .current_dir(self.0.path());
        command
    }

    /// Returns true if `larder get` fetches the file, which must then be complete.
    fn gets(&self, name: &str, sent: &[u8]) -> bool {
        let _ = fs::remove_file(self.path("got"));
        let output = self.larder(&["get", name, "-o", "got"]).output().unwrap();
        if output.status.success() {
            assert!(fs::read(self.path("got")).unwrap() == sent, "torn");
        }
        output.status.success()
    }

    fn store(&self) -> serde_json::Value {
        let output = self.larder(&["ctl", "cs", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }
}

#[test]
fn a_file_larger_than_memory_is_gone_with_its_producer_or_with_the_node() {
    let home = Home(tempfile::tempdir().unwrap());
    let config = home.path("node.toml");
    let text = format!(
        "[ndn]\nunix = {:?}\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\ncontent_store = \"1MiB\"\n[ndn.disk]\npath = {:?}\ncapacity = \"64MiB\"\n\
         [http]\nlisten = \"\"\n[admin]\nlisten = \"\"\n",
        home.path("nfd.sock"),
        home.path("tier")
    );
    fs::write(&config, text).unwrap();
    let sent: Vec<u8> = (0..10_u64 << 20)
        .map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect();
    fs::write(home.path("sent"), &sent).unwrap();
    let node = home.node(&config);
    let mut producer = Running(
        home.larder(&["put", "/file", "sent"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(producer.0.stdout.take().unwrap());
    let mut said = String::new();
    lines.read_line(&mut said).unwrap();
    let at = said.find("/file/v=").unwrap_or_else(|| panic!("{said}"));
    let name = said[at..].split(':').next().unwrap().to_owned();
    // A busy disk drops Data that does not fit into its queue. It gets the missing Data at the next
    // request for it.
    let segments = sent.len().div_ceil(8000) as u64;
    let deadline = Instant::now() + Duration::from_secs(60);
    while home.store()["disk_entries"].as_u64().unwrap() < segments {
        assert!(Instant::now() < deadline, "{}", home.store());
        assert!(home.gets(&name, &sent));
        // The node reads only Data that is not in memory from the disk, so the memory is made
        // small.
        for capacity in ["1KiB", "1MiB"] {
            let set = home
                .larder(&["ctl", "cs", "config", "--capacity", capacity])
                .output()
                .unwrap();
            assert!(set.status.success(), "{set:?}");
        }
    }
    drop(producer);
    lines.read_to_string(&mut said).unwrap();
    // The file is on the disk, except for the part in memory.
    assert!(home.gets(&name, &sent), "{}", home.store());
    let store = home.store();
    assert!(store["disk_hits"].as_u64().unwrap() > 1000, "{store}");
    std::thread::sleep(Duration::from_secs(1));
    // The drop sends SIGKILL.
    drop(node);
    let node = home.node(&config);
    assert!(home.gets(&name, &sent), "{}", home.store());
    // Erased Data does not return, whatever follows.
    let erased = home
        .larder(&["ctl", "cs", "erase", "/file"])
        .output()
        .unwrap();
    assert!(erased.status.success(), "{erased:?}");
    drop(node);
    let _node = home.node(&config);
    assert!(!home.gets(&name, &sent));
    assert_eq!(home.store()["disk_hits"], 0);
}
