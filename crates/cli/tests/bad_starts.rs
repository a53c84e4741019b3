//! Detects a node that starts wrongly, or ends when it must not. The real program, real files, real
//! sockets.

use crate::vacant::vacant;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time after which a test has failed. Nothing here takes that long.
const PATIENCE: Duration = Duration::from_secs(20);

fn larder(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command
        .args(arguments)
        .env_remove("NDN_CLIENT_TRANSPORT")
        .env_remove("LARDER_TOKEN")
        .output()
        .unwrap()
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A directory with a configuration file.
struct Workspace {
    directory: TempDir,
}

impl Workspace {
    fn new() -> Workspace {
        Workspace {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes the configuration of a node with a Unix socket, free ports, and an admin server at
    /// `admin`. `more` is added to the table `[admin]`.
    fn quiet(&self, name: &str, admin: u16, more: &str) -> String {
        let socket = self.path(&format!("{name}.sock"));
        self.write(
            &format!("{name}.toml"),
            &format!(
                "[ndn]\nunix = {socket:?}\ntcp = \"127.0.0.1:0\"\nudp = \"\"\nwebsocket = \"\"\n\
                 [http]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n{more}\n"
            ),
        )
    }
}

/// A node that ends with the test.
struct Running {
    child: Child,
    greeting: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts a node and waits until it has printed its addresses. The admin server's comes last.
    fn start(config: &str) -> Running {
        Running::spawn(Command::new(env!("CARGO_BIN_EXE_larder")).args(["run", config]))
    }

    fn spawn(command: &mut Command) -> Running {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut greeting = String::new();
        while !greeting.contains("admin ") {
            let line = lines.next().expect("the node has ended").unwrap();
            greeting += &format!("{line}\n");
        }
        Running { child, greeting }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

fn vacant_port() -> u16 {
    vacant().port()
}

/// Returns the body of a page of the admin server.
fn page(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Failure: a check by root creates the folder of certificates, which the service's own user cannot
/// write then.
#[test]
fn a_check_leaves_a_folder_behind() {
    let workspace = Workspace::new();
    let folder = workspace.path("state/acme");
    let text = format!(
        "[ndn]\nenabled = false\n[http]\nlisten = \"127.0.0.1:0\"\n[http.tls]\nlisten = \"127.0.0.1:0\"\n\
         [admin]\nlisten = \"\"\n[http.tls.acme]\nhosts = [\"a.test\"]\nfolder = {folder:?}\n\
         directory_ca = {:?}\n",
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy/tests/data/authority.pem")
    );
    let config = workspace.write("larder.toml", &text);
    let checked = larder(&["run", "--check", &config]);
    assert!(checked.status.success(), "{}", error_of(&checked));
    assert!(!workspace.path("state").exists());
}

#[test]
fn check_accepts_what_run_cannot_start() {
    let workspace = Workspace::new();
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = occupied.local_addr().unwrap();
    let image = workspace.path("image");
    fs::write(&image, vec![0; 40_000]).unwrap();
    let missing = workspace.path("missing.pem");
    let own = vacant_port();
    let quiet =
        "[ndn]\nunix = \"\"\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n[admin]\nlisten = \"\"\n";
    let no_http = quiet.to_owned() + "[http]\nlisten = \"\"\n";
    for (text, parts) in [
        (
            format!(
                "{quiet}[http]\nlisten = \"\"\n[http.tls]\nlisten = \"127.0.0.1:0\"\ncertificate = {missing:?}\nkey = {image:?}\n"
            ),
            vec!["[http.tls] certificate", "missing.pem"],
        ),
        (
            format!("{quiet}[http]\nlisten = \"{taken}\"\n"),
            vec!["[http] listen", "in use"],
        ),
        (
            format!(
                "[ndn]\nunix = \"\"\ntcp = \"{taken}\"\nudp = \"\"\nwebsocket = \"\"\n[admin]\nlisten = \"\"\n[http]\nlisten = \"\"\n"
            ),
            vec!["[ndn] tcp", "in use"],
        ),
        (
            format!(
                "{quiet}[http]\nlisten = \"127.0.0.1:0\"\n[http.disk]\npath = \"/no/such/folder/tier\"\ncapacity = \"64MiB\"\n"
            ),
            vec!["[http.disk] path", "/no/such/folder/tier"],
        ),
        (
            format!(
                "{quiet}[http]\nlisten = \"127.0.0.1:0\"\n[http.disk]\npath = {image:?}\ncapacity = \"64MiB\"\n"
            ),
            vec!["[http.disk] path", "something else"],
        ),
        (
            format!(
                "{quiet}[http]\nlisten = \"127.0.0.1:{own}\"\norigin = \"http://localhost:{own}\"\n"
            ),
            vec!["[http] origin", "itself"],
        ),
        (
            format!(
                "{quiet}[http]\nlisten = \"127.0.0.1:0\"\norigin = \"https://a\"\norigin_ca = {missing:?}\n"
            ),
            vec!["[http] origin_ca", "missing.pem"],
        ),
        (
            format!("{no_http}[[ndn.authorize]]\ncertificate = {missing:?}\n"),
            vec!["ndn.authorize", "missing.pem"],
        ),
        (
            format!("{no_http}[[ndn.route]]\nprefix = \"/\"\nto = \"udp://127.0.0.1:9\"\n"),
            vec!["[[ndn.route]]", "udp is off"],
        ),
        (
            no_http.replace("[ndn]\n", "[ndn]\nethernet = [\"no-such-0\"]\n"),
            vec!["[ndn] ethernet", "no-such-0"],
        ),
        (
            no_http.replace("[ndn]\nunix = \"\"", &format!("[ndn]\nunix = {image:?}")),
            vec!["[ndn] unix", "not a socket"],
        ),
        (
            format!("{quiet}[http]\nlisten = \"127.0.0.1:0\"\nredirect_to_https = true\n"),
            vec!["[http] redirect_to_https", "[http.tls]", "false"],
        ),
        (
            "[ndn]\nenabled = false\n[http]\nenabled = false\n".to_owned(),
            vec!["enabled", "both false"],
        ),
    ] {
        let config = workspace.write("larder.toml", &text);
        let checked = larder(&["run", "--check", &config]);
        let said = error_of(&checked);
        assert_eq!(checked.status.code(), Some(2), "{text} gave {said}");
        assert!(
            parts.iter().all(|part| said.contains(part)) && said.lines().count() == 1,
            "{text} gave {said}"
        );
        assert_eq!(
            fs::read(&image).unwrap().len(),
            40_000,
            "the check changed a file"
        );
        let started = larder(&["run", &config]);
        assert!(!started.status.success(), "{text} starts");
        assert!(
            error_of(&started).contains(said.trim()),
            "run says otherwise: {}",
            error_of(&started)
        );
    }
}

#[test]
fn a_folder_of_files_that_is_none_is_found_by_the_first_client() {
    let workspace = Workspace::new();
    let file = workspace.write("page.html", "text");
    let quiet = "[ndn]\nenabled = false\n[admin]\nlisten = \"\"\n[http]\nlisten = \"127.0.0.1:0\"";
    for (text, parts) in [
        (
            format!("{quiet}\norigin = \"file:///no/such/folder\"\n"),
            ["[http] origin", "/no/such/folder", "create it"],
        ),
        (
            format!("{quiet}\n[[http.origins]]\nhost = \"a\"\norigin = {file:?}\n"),
            ["[[http.origins]] origin", "page.html", "no folder"],
        ),
    ] {
        let config = workspace.write("larder.toml", &text);
        let checked = larder(&["run", "--check", &config]);
        let said = error_of(&checked);
        let is_whole = parts.iter().all(|part| said.contains(part));
        assert_eq!(checked.status.code(), Some(2), "{text} gave {said}");
        assert!(is_whole && said.lines().count() == 1, "{text} gave {said}");
        let started = larder(&["run", &config]);
        assert!(!started.status.success(), "{text} starts");
        assert!(error_of(&started).contains(said.trim()), "{text}");
    }
}

#[test]
fn a_file_with_several_mistakes_reports_the_first_only() {
    let workspace = Workspace::new();
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = occupied.local_addr().unwrap();
    let text = format!(
        "[ndn]\nunx = \"/a\"\ncontent_store = \"12 parsecs\"\npolicy = \"filter(window=9999,table=1024)+lru\"\n\
         [[ndn.route]]\nprefix = \"/a\"\nto = \"http://a\"\n[[ndn.route]]\nprefix = 7\nto = \"udp://127.0.0.1:1\"\n\
         [http]\nlisten = \"{taken}\"\nthreads = 99\n[htpp]\n[ndn.disk]\npath = \"/a\"\n"
    );
    // Nothing else of this machine may be in the way.
    let quiet = ["unix", "tcp", "udp", "websocket"].map(|key| format!("--set=ndn.{key}="));
    let config = workspace.write("larder.toml", &text);
    let mut arguments = vec!["run", "--check", &config, "--set=admin.listen="];
    arguments.extend(quiet.iter().map(String::as_str));
    let said = error_of(&larder(&arguments));
    let parts = [
        "[http] listen",
        ":2: ",
        ":3: ",
        ":7: ",
        ":9: ",
        ":13: ",
        ":14: ",
        ":15: ",
        "[ndn] policy",
    ];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    assert_eq!(said.lines().count(), parts.len(), "{said}");
    // A valid text may still not start. All such problems are reported at once, too.
    let text = format!(
        "[ndn]\nunix = \"\"\ntcp = \"{taken}\"\nudp = \"\"\nwebsocket = \"\"\n[admin]\nlisten = \"{taken}\"\n\
         [http]\nlisten = \"{taken}\"\n[http.disk]\npath = \"/no/such/tier\"\ncapacity = \"64MiB\"\n"
    );
    let config = workspace.write("larder.toml", &text);
    for said in [
        error_of(&larder(&["run", "--check", &config])),
        error_of(&larder(&["run", &config])),
    ] {
        let parts = [
            "[ndn] tcp",
            "[http] listen",
            "[http.disk] path",
            "[admin] listen",
        ];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        assert_eq!(said.lines().count(), parts.len(), "{said}");
    }
}

/// Failure: `--check` reports wrong keys first, then an unknown user, then the first file that
/// cannot be read, each only when the one before is mended; or the default in the place of a wrong
/// value is a problem.
#[test]
fn the_stages_of_a_check_hide_each_other() {
    let workspace = Workspace::new();
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = occupied.local_addr().unwrap();
    let text = format!(
        "[ndn]\nenabled = false\n[admin]\nlisten = 3\n[process]\nuser = \"no-such-user\"\n[http]\n\
         slice = 3\nlisten = \"{taken}\"\norigin_ca = \"/no/authorities\"\nredirect_to_https = true\n\
         [http.disk]\npath = \"/no/such/tier\"\ncapacity = \"64MiB\"\n[[http.rules]]\nstatus = 404\n\
         error_page = \"/no/page\"\n[http.tls]\nlisten = \"127.0.0.1:0\"\ncertificate = \"/no/certificate\"\n\
         key = \"/no/key\"\nclient_ca = \"/no/clients\"\n[http.access_log]\npath = \"/no/log/access.log\"\n"
    );
    let checked = larder(&["run", "--check", &workspace.write("larder.toml", &text)]);
    let said = error_of(&checked);
    let parts = [
        "larder.toml:4: [admin] listen",
        "larder.toml:8: [http] slice",
        "[process] user",
        "[http] listen",
        "[http] origin_ca: /no/authorities",
        "[http.disk] path",
        "[[http.rules]] error_page: /no/page",
        "[http.tls] certificate: /no/certificate",
        "[http.tls] key: /no/key",
        "[http.tls] client_ca: /no/clients",
        "[http.access_log] path",
    ];
    for part in parts {
        assert_eq!(said.matches(part).count(), 1, "{part} in {said}");
    }
    assert_eq!(said.lines().count(), parts.len(), "{said}");
    assert_eq!(checked.status.code(), Some(2));
}

/// Failure: a cache that is larger than the memory of the machine passes without a word.
#[test]
fn a_cache_beyond_the_memory_passes_in_silence() {
    let workspace = Workspace::new();
    let quiet = "[ndn]\nenabled = false\n[admin]\nlisten = \"\"\n[http]\ncache = \"64TiB\"\n";
    let text = format!("{quiet}listen = \"127.0.0.1:0\"\n");
    let checked = larder(&["run", "--check", &workspace.write("larder.toml", &text)]);
    let said = error_of(&checked);
    assert!(checked.status.success(), "{said}");
    let parts = ["warning", "[http] cache", "64TiB", "memory"];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    // A start says it, too. This one ends at a port in use.
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!("{quiet}listen = \"{}\"\n", occupied.local_addr().unwrap());
    let started = error_of(&larder(&["run", &workspace.write("larder.toml", &text)]));
    let parts = ["WARN", "[http] cache", "64TiB", "memory", "in use"];
    assert!(parts.iter().all(|part| started.contains(part)), "{started}");
    // This size runs nowhere.
    let text = text.replace("64TiB", "256TiB");
    let refused = larder(&["run", "--check", &workspace.write("larder.toml", &text)]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(error_of(&refused).contains("256TiB is more than the 128TiB"));
}

#[test]
fn the_file_of_a_running_node_is_called_wrong_because_its_ports_are_taken() {
    let workspace = Workspace::new();
    let (http, admin) = (vacant_port(), vacant_port());
    let tier = workspace.path("tier");
    let text = |more: &str| {
        format!(
            "[ndn]\nunix = {:?}\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
             [http]\nlisten = \"127.0.0.1:{http}\"\n{more}\n[http.disk]\npath = {tier:?}\ncapacity = \"64MiB\"\n",
            workspace.path("nfd.sock")
        )
    };
    let config = workspace.write("larder.toml", &text(""));
    let node = Running::start(&config);
    let checked = larder(&["run", "--check", &config]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(
        checked.status.success() && said.contains(&node.child.id().to_string()),
        "{said} {}",
        error_of(&checked)
    );
    assert!(
        workspace.path("nfd.sock").exists() && tier.exists(),
        "the check took something away"
    );
    // An invalid edit is detected.
    workspace.write(
        "larder.toml",
        &text("origin_ca = \"/no/such/file\"\norigin = \"https://a\""),
    );
    assert!(error_of(&larder(&["run", "--check", &config])).contains("/no/such/file"));
    // Another file with the same ports is invalid.
    let other = workspace.write("other.toml", &text(""));
    assert!(error_of(&larder(&["run", "--check", &other])).contains("[http] listen"));
}

#[test]
fn sigusr1_ends_the_node() {
    let workspace = Workspace::new();
    let admin = vacant_port();
    let mut node = Running::start(&workspace.quiet("node", admin, ""));
    for signal in [Signal::USR1, Signal::USR2, Signal::HUP] {
        node.signal(signal);
    }
    // The answer shows that the node runs. SIGTERM comes after the other signals, so the node has
    // handled them.
    assert!(page(admin, "/status").contains("\"pid\""));
    node.signal(Signal::TERM);
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match node.child.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(Instant::now() < deadline, "it does not stop"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
}

/// As a program that rotates logs does: rename, then SIGUSR1.
#[test]
fn sigusr1_leaves_the_access_log_in_the_renamed_file() {
    let workspace = Workspace::new();
    let http = vacant_port();
    let (log, old) = (workspace.path("access.log"), workspace.path("access.log.1"));
    let config = format!(
        "[ndn]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:0\"\n[http]\nlisten = \"127.0.0.1:{http}\"\n\
         [http.access_log]\npath = {log:?}\nformat = \"$request_uri $status\"\n"
    );
    let mut node = Running::start(&workspace.write("larder.toml", &config));
    let deadline = Instant::now() + PATIENCE;
    let await_true = |what: &str, is_true: &dyn Fn() -> bool| {
        while !is_true() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    page(http, "/10/one");
    fs::rename(&log, &old).unwrap();
    node.signal(Signal::USR1);
    await_true("no new file", &|| log.exists());
    page(http, "/10/two");
    node.signal(Signal::TERM);
    await_true("no second line", &|| {
        fs::read_to_string(&log).is_ok_and(|text| text == "/10/two 200\n")
    });
    assert_eq!(fs::read_to_string(&old).unwrap(), "/10/one 200\n");
    let _ = node.child.wait();
}

#[test]
fn strangers_reach_a_node_that_was_not_opened_to_them() {
    let defaults = larder_node::Config::default();
    let ndn = [defaults.ndn.tcp, defaults.ndn.udp, defaults.ndn.websocket];
    let listen = &defaults.http.proxy.listen;
    let http = listen.iter().map(|listen| listen.address.tcp());
    for address in ndn.into_iter().chain(http).chain([defaults.admin.listen]) {
        assert!(
            address.is_some_and(|address| address.ip().is_loopback()),
            "{address:?}"
        );
    }
    let workspace = Workspace::new();
    let node = Running::start(&workspace.quiet("node", vacant_port(), ""));
    assert!(
        node.greeting.contains("[ndn] udp = \"[::]:6363\""),
        "{}",
        node.greeting
    );
    assert!(
        node.greeting.contains("[http] listen = \"0.0.0.0:80\""),
        "{}",
        node.greeting
    );
}

#[test]
fn a_half_that_is_switched_off_runs() {
    let workspace = Workspace::new();
    let (http, admin) = (vacant_port(), vacant_port());
    let socket = workspace.path("nfd.sock");
    let half = |ndn: bool, workspace: &Workspace| {
        workspace.write(
            "half.toml",
            &format!(
                "[ndn]\nenabled = {ndn}\nunix = {socket:?}\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n\
                 [http]\nenabled = {}\nlisten = \"127.0.0.1:{http}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n",
                !ndn
            ),
        )
    };
    for ndn in [true, false] {
        let node = Running::start(&half(ndn, &workspace));
        assert_eq!(socket.exists(), ndn);
        assert_eq!(TcpStream::connect(("127.0.0.1", http)).is_ok(), !ndn);
        let status: serde_json::Value = serde_json::from_str(&page(admin, "/status")).unwrap();
        assert_eq!(
            (status.get("ndn").is_some(), status.get("http").is_some()),
            (ndn, !ndn)
        );
        assert!(page(admin, "/metrics").contains("larder_uptime_seconds"));
        node.signal(Signal::HUP);
        assert_eq!(node.greeting.contains("NDN "), ndn, "{}", node.greeting);
        node.signal(Signal::TERM);
        let mut node = node;
        assert!(node.child.wait().unwrap().success());
    }
}

#[test]
fn ctl_commands_another_node_than_the_configured_one() {
    let workspace = Workspace::new();
    let admin = vacant_port();
    let token = "token = \"0123456789abcdef\"";
    let first = workspace.quiet("first", admin, token);
    let _node = Running::start(&first);
    // The file of another node with the first node's socket and port.
    let second = workspace.write("second.toml", &fs::read_to_string(&first).unwrap());
    for command in [
        &["ctl", "face"][..],
        &["ctl", "status"],
        &["ctl", "purge", "--everything"],
    ] {
        let of = |config: &str| larder(&[command, &["--config", config]].concat());
        let right = of(&first);
        assert!(right.status.success(), "{command:?}: {}", error_of(&right));
        let wrong = of(&second);
        let said = error_of(&wrong);
        assert_eq!(wrong.status.code(), Some(1), "{command:?}: {said}");
        assert!(
            said.contains("second.toml")
                && said.contains("first.toml")
                && said.lines().count() == 1,
            "{said}"
        );
    }
    assert!(Path::new(&first).exists());
}

/// Starts a node without a file, with a wait until it has printed its last address.
fn without_file(arguments: &[&str], variables: &[(&str, &str)]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command
        .arg("run")
        .args(arguments)
        .envs(variables.iter().copied());
    Running::spawn(&mut command)
}

/// Answers every connection with one response after it has read a request.
fn origin(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn flags_and_variables_do_not_start_a_node_without_a_file() {
    let port = origin(
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\ncache-control: max-age=60\r\n\r\nhello",
    );
    let (http, admin) = (vacant_port(), vacant_port());
    let (origin, listen, figures) = (
        format!("http://127.0.0.1:{port}"),
        format!("127.0.0.1:{http}"),
        format!("127.0.0.1:{admin}"),
    );
    let arguments = [
        "--origin",
        &origin,
        "--listen",
        &listen,
        "--set",
        "http.threads=1",
    ];
    let variables = [
        ("LARDER_NDN_ENABLED", "false"),
        ("LARDER_ADMIN_LISTEN", figures.as_str()),
        ("LARDER_HTTP_CACHE", "32MiB"),
        ("LARDER_HTTP_LISTEN", "192.0.2.1:1"),
    ];
    let node = without_file(&arguments, &variables);
    assert_eq!(page(http, "/a"), "hello");
    assert_eq!(
        (page(admin, "/healthz"), page(admin, "/readyz")),
        ("alive\n".to_owned(), "ready\n".to_owned())
    );
    let metrics = page(admin, "/metrics");
    for name in [
        "process_resident_memory_bytes ",
        "process_cpu_seconds_total ",
        "process_open_fds ",
        "process_start_time_seconds ",
        "larder_build_info{version=\"",
        "larder_http_capacity_bytes 33554432",
    ] {
        assert!(
            metrics.contains(&format!("\n{name}")),
            "{name} is missing in {metrics}"
        );
    }
    // The status needs no NDN, and finds the node by the same variable.
    let mut status = Command::new(env!("CARGO_BIN_EXE_larder"));
    let status = status
        .args(["ctl", "status", "--json"])
        .env("LARDER_ADMIN_LISTEN", &figures);
    let status = status
        .env("NDN_CLIENT_TRANSPORT", "unix:///no/such/socket")
        .output()
        .unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&status.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&status.stderr)));
    assert_eq!(
        (&shown["http_requests"], &shown["pid"]),
        (&1.into(), &node.child.id().into()),
        "{shown}"
    );
    // SIGHUP reads the same flags and variables again.
    node.signal(Signal::HUP);
    assert_eq!(page(http, "/a"), "hello");
}

#[test]
fn a_wrong_variable_or_flag_is_ignored() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command
            .arg("run")
            .args(arguments)
            .env("LARDER_HTTP_CAHCE", "1GiB")
            .output()
            .unwrap()
    };
    for arguments in [&["--check"][..], &["--print-effective-config"], &[]] {
        let refused = run(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(
            error_of(&refused).contains("did you mean LARDER_HTTP_CACHE?"),
            "{}",
            error_of(&refused)
        );
    }
    let twice = larder(&[
        "run",
        "--check",
        "--cache",
        "1GiB",
        "--set",
        "http.cache=2GiB",
    ]);
    assert!(
        error_of(&twice).contains("keep one"),
        "{}",
        error_of(&twice)
    );
    let printed = larder(&["run", "--print-effective-config", "--cache", "1GiB"]);
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(
        printed.contains("cache = \"1GiB\"   # --cache\n"),
        "{printed}"
    );
}

#[test]
fn a_node_that_stops_calls_itself_ready() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (http, admin) = (vacant_port(), vacant_port());
    let origin = format!("http://{}", silent.local_addr().unwrap());
    let (listen, figures) = (format!("127.0.0.1:{http}"), format!("127.0.0.1:{admin}"));
    let arguments = [
        "--origin",
        &origin,
        "--listen",
        &listen,
        "--admin",
        &figures,
        "--set",
        "ndn.enabled=false",
    ];
    let mut node = without_file(&arguments, &[]);
    let mut client = TcpStream::connect(("127.0.0.1", http)).unwrap();
    client
        .write_all(b"GET /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .unwrap();
    let (mut asked, _) = silent.accept().unwrap();
    assert!(asked.read(&mut [0; 4096]).unwrap() > 0);
    node.signal(Signal::TERM);
    let deadline = Instant::now() + PATIENCE;
    while page(admin, "/readyz") != "larder: the node stops\n" {
        assert!(Instant::now() < deadline, "{:?}", page(admin, "/readyz"));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(page(admin, "/healthz"), "alive\n");
    asked
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate")
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("late"), "{answer}");
    assert!(node.child.wait().unwrap().success());
}

/// Failure: a script takes a missing program or privilege (2) for a claim that fails (1).
#[test]
fn a_missing_program_or_privilege_passes_for_a_failing_claim() {
    let workspace = Workspace::new();
    let out = workspace.path("out").to_str().unwrap().to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command
        .args(["reproduce", "ndn-vs-http", "--out", &out])
        .env("PATH", "/nonexistent");
    let output = command.output().unwrap();
    let error = error_of(&output);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("run it as root") || error.contains("is not installed: `apt-get install"),
        "{error}"
    );
    assert!(output.stdout.is_empty());
}

/// Failure: `larder get --no-smoothing` without a tick, which smooths nothing, is accepted.
#[test]
fn smoothing_is_turned_off_without_a_tick() {
    for tick in [&[][..], &["--tick", "0s"]] {
        let output = larder(&[&["get", "/object", "--no-smoothing"], tick].concat());
        let error = error_of(&output);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("--tick"), "{error}");
    }
}

/// Failure: traces that do not exist, or that the paper does not replay, are passed over.
#[test]
fn traces_that_do_not_exist_are_passed_over() {
    let workspace = Workspace::new();
    let out = workspace.path("out").to_str().unwrap().to_owned();
    for (run, problem) in [
        ("adaptsize --only public", "--traces /nonexistent: "),
        (
            "adaptsize --only cost",
            "--traces: only `public` replays them",
        ),
        (
            "adaptsize --testbed",
            "--traces: --testbed replays no traces",
        ),
        ("clock --only linear", "--traces: clock replays no traces"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command
            .arg("reproduce")
            .args(run.split(' '))
            .args(["--out", &out]);
        let output = command.args(["--traces", "/nonexistent"]).output().unwrap();
        let error = error_of(&output);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(problem), "{error}");
    }
    assert!(!workspace.path("out").exists());
}

/// Failure: an archive of Larder's results has those of another forwarder among them.
#[test]
fn an_archive_mixes_forwarders() {
    let workspace = Workspace::new();
    let [out, archive] =
        ["out", "archive"].map(|name| workspace.path(name).to_str().unwrap().to_owned());
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command.args([
        "reproduce",
        "ndn-vs-http",
        "--forwarder",
        "nfd",
        "--out",
        &out,
        "--archive",
        &archive,
    ]);
    let output = command.output().unwrap();
    let error = error_of(&output);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("--archive") && error.contains("--forwarder"),
        "{error}"
    );
    assert!(!workspace.path("archive").exists());
}
