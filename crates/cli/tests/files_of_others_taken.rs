//! Detects a node, started by root for another user, that gives that user files of others, or that
//! a file in its way holds up. The real program, started as root in a child process.
#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
/// The user `nobody`.
const NOBODY: u32 = 65_534;

/// A folder of the user in one of root, and a secret file of root beside it.
struct Site {
    directory: tempfile::TempDir,
}

impl Site {
    /// Returns `None`, and says so, if this process is not root's.
    fn new() -> Option<Site> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can start a node as another user");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let site = Site { directory };
        fs::create_dir(site.theirs("")).unwrap();
        chown(site.theirs(""), Some(NOBODY), None).unwrap();
        fs::write(site.at("secret"), "root's\n").unwrap();
        fs::set_permissions(site.at("secret"), Permissions::from_mode(0o600)).unwrap();
        Some(site)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A path in the folder of the user.
    fn theirs(&self, name: &str) -> PathBuf {
        self.at("theirs").join(name)
    }

    /// Starts a node as nobody, with these settings, without the other listeners.
    fn node(&self, settings: &[String]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args([
            "run",
            "--set",
            "process.user=nobody",
            "--set",
            "http.threads=1",
        ]);
        command.args([
            "--set",
            "ndn.tcp=",
            "--set",
            "ndn.udp=",
            "--set",
            "ndn.websocket=",
        ]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        for default in [
            "http.listen=127.0.0.1:0",
            "admin.listen=127.0.0.1:0",
            "ndn.unix=",
        ] {
            let key = default.split_inclusive('=').next().unwrap();
            if !settings.iter().any(|setting| setting.starts_with(key)) {
                command.args(["--set", default]);
            }
        }
        command
    }

    /// The node does not start, and says why in one line that names this path.
    fn refuses(&self, settings: &[String], path: &Path) {
        let said = said(&output(&mut self.node(settings)));
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| line.contains(path.to_str().unwrap()))
            .collect();
        assert_eq!(lines.len(), 1, "{settings:?}: {said}");
        self.secret_is_roots();
    }

    fn secret_is_roots(&self) {
        let found = fs::metadata(self.at("secret")).unwrap();
        assert_eq!(
            (found.uid(), found.mode() & 0o777),
            (0, 0o600),
            "the secret has another owner or mode"
        );
        assert_eq!(fs::read_to_string(self.at("secret")).unwrap(), "root's\n");
    }
}

fn said(output: &Output) -> String {
    assert!(!output.status.success(), "the node has started");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for the end of a node that does not start. One that starts is stopped.
fn output(command: &mut Command) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (pid, (ended, end)) = (Pid::from_child(&child), mpsc::channel::<()>());
    let mut out = child.stdout.take().unwrap();
    let watch = std::thread::spawn(move || {
        if end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    // A node that has started prints its addresses.
    let mut greeting = [0; 1];
    if out.read(&mut greeting).unwrap_or(0) > 0 {
        let _ = kill_process(pid, Signal::TERM);
    }
    let output = child.wait_with_output().unwrap();
    drop(ended);
    watch.join().unwrap();
    output
}

struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines
            .next()
            .expect("the node has ended")
            .unwrap()
            .starts_with("admin ")
        {}
        Running(child)
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn log(path: &Path) -> Vec<String> {
    vec![format!("http.access_log.path={}", path.display())]
}

fn tier(path: &Path) -> Vec<String> {
    vec![
        format!("http.disk.path={}", path.display()),
        "http.disk.capacity=64MiB".to_owned(),
    ]
}

fn ndn_tier(path: &Path) -> Vec<String> {
    vec![
        format!("ndn.disk.path={}", path.display()),
        "ndn.disk.capacity=64MiB".to_owned(),
    ]
}

fn http_socket(path: &Path) -> Vec<String> {
    vec![format!("http.listen=unix:{}", path.display())]
}

fn ndn_socket(path: &Path) -> Vec<String> {
    vec![format!("ndn.unix={}", path.display())]
}

/// A kind of file, and the lines of the configuration that name it.
type Kind = (&'static str, fn(&Path) -> Vec<String>);

#[test]
fn a_link_gives_the_user_a_file_of_root() {
    let Some(site) = Site::new() else { return };
    for (kind, settings) in [
        ("log", log as fn(&Path) -> Vec<String>),
        ("tier", tier),
        ("ndn-tier", ndn_tier),
    ] {
        let soft = site.theirs(&format!("{kind}-soft"));
        symlink(site.at("secret"), &soft).unwrap();
        site.refuses(&settings(&soft), &soft);
        let hard = site.theirs(&format!("{kind}-hard"));
        fs::hard_link(site.at("secret"), &hard).unwrap();
        site.refuses(&settings(&hard), &hard);
        // A link to a name that root could create.
        let (dangling, target) = (
            site.theirs(&format!("{kind}-new")),
            site.at(&format!("{kind}-target")),
        );
        symlink(&target, &dangling).unwrap();
        site.refuses(&settings(&dangling), &dangling);
        assert!(
            !target.exists(),
            "root has created a file through the link of a {kind}"
        );
    }
}

#[test]
fn a_folder_of_the_user_leads_root_elsewhere() {
    let Some(site) = Site::new() else { return };
    fs::create_dir(site.at("of-root")).unwrap();
    symlink(site.at("of-root"), site.theirs("folder")).unwrap();
    let kinds: [Kind; 5] = [
        ("log", log),
        ("tier", tier),
        ("ndn-tier", ndn_tier),
        ("http.sock", http_socket),
        ("ndn.sock", ndn_socket),
    ];
    for (name, settings) in kinds {
        let path = site.theirs("folder").join(name);
        site.refuses(&settings(&path), &path);
    }
    // A folder that does not exist yet, behind the link.
    let path = site.theirs("folder/new/ndn.sock");
    site.refuses(&ndn_socket(&path), &path);
    assert_eq!(
        fs::read_dir(site.at("of-root")).unwrap().count(),
        0,
        "root has created a file there"
    );
}

#[test]
fn the_socket_of_a_start_is_exchanged_for_a_link() {
    let Some(site) = Site::new() else { return };
    let (http, ndn) = (site.theirs("http.sock"), site.theirs("ndn.sock"));
    // The file is the user's as soon as it exists: nothing of root follows the path again.
    let node = Running::start(&mut site.node(&[http_socket(&http), ndn_socket(&ndn)].concat()));
    for path in [&http, &ndn] {
        let found = fs::symlink_metadata(path).unwrap();
        assert!(
            found.file_type().is_socket() && found.uid() == NOBODY,
            "{path:?} is not the user's"
        );
    }
    node.stop();
    assert!(!http.exists() && !ndn.exists(), "a socket stays");
    // A link in the place of a socket, and a socket of root.
    symlink(site.at("secret"), &http).unwrap();
    site.refuses(&http_socket(&http), &http);
    symlink(site.at("secret"), &ndn).unwrap();
    site.refuses(&ndn_socket(&ndn), &ndn);
    // While the node starts, somebody exchanges its sockets for links again and again.
    for round in 0..12 {
        let (path, secret) = (site.theirs(&format!("race-{round}")), site.at("secret"));
        let (stop, stopped) = mpsc::channel::<()>();
        let attacked = path.clone();
        let attacker = std::thread::spawn(move || {
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                if fs::symlink_metadata(&attacked).is_ok_and(|found| found.file_type().is_socket())
                {
                    let _ = fs::remove_file(&attacked);
                    let _ = symlink(&secret, &attacked);
                }
            }
        });
        drop(output(&mut site.node(
            &[http_socket(&path), ndn_socket(&site.theirs("other"))].concat(),
        )));
        drop(stop);
        attacker.join().unwrap();
        site.secret_is_roots();
    }
}

#[test]
fn a_fifo_in_the_place_of_a_file_holds_up_the_start() {
    let Some(site) = Site::new() else { return };
    let kinds: [Kind; 3] = [("log", log), ("tier", tier), ("ndn-tier", ndn_tier)];
    for (name, settings) in kinds {
        let path = site.theirs(name);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        chown(&path, Some(NOBODY), None).unwrap();
        site.refuses(&settings(&path), &path);
        // `--check` does not wait either.
        let mut check = site.node(&settings(&path));
        let said = said(&output(check.arg("--check")));
        assert!(said.contains(path.to_str().unwrap()), "{said}");
    }
}

#[test]
fn root_cannot_start_a_node_whose_files_are_in_folders_of_root() {
    let Some(site) = Site::new() else { return };
    fs::create_dir(site.at("run")).unwrap();
    let (disk, http, ndn) = (
        site.at("run/tier"),
        site.at("run/http.sock"),
        site.at("run/new/ndn.sock"),
    );
    let settings = [tier(&disk), http_socket(&http), ndn_socket(&ndn)].concat();
    for round in 0..2 {
        let node = Running::start(&mut site.node(&settings));
        for path in [&disk, &http, &ndn] {
            assert_eq!(
                fs::symlink_metadata(path).unwrap().uid(),
                NOBODY,
                "{path:?} in round {round}"
            );
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&disk), mode(&ndn)), (0o600, 0o666));
        // Another node cannot have the same sockets.
        let said = said(&output(
            &mut site.node(&[http_socket(&http), ndn_socket(&site.theirs("n"))].concat()),
        ));
        assert!(said.contains("http.sock"), "{said}");
        node.stop();
    }
    // A start that fails leaves no socket behind.
    let _ = fs::remove_file(&http);
    let _ = fs::remove_file(&ndn);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = format!("admin.listen={}", taken.local_addr().unwrap());
    let said = said(&output(
        &mut site.node(&[http_socket(&http), ndn_socket(&ndn), vec![admin]].concat()),
    ));
    assert!(said.contains("in use"), "{said}");
    assert!(!http.exists() && !ndn.exists(), "a socket stays");
}
