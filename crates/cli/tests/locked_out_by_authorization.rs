//! Failure: `[[ndn.authorize]]` refuses Larder's own programs, and nothing lets them sign; a
//! certificate that has expired is noticed by those whom it locks out. Uses the real program.

use larder_packet::{CERTIFICATE_FRESHNESS, Name, SystemRandom, self_signed, to_base64};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory with two keys, their certificates, and a configuration.
struct Home(TempDir);

impl Home {
    /// `more` follows the keys of `[ndn]`. FOLDER is the directory.
    fn new(more: &str) -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../packet/tests/keys");
        for (name, file) in [("operator", "ed25519.pem"), ("other", "p256.pem")] {
            fs::copy(format!("{keys}/{file}"), home.path(&format!("{name}.pem"))).unwrap();
            home.certify(name, name, now() - 60);
        }
        home.certify("operator", "expired", 0);
        home.certify("operator", "future", now() + 3600);
        let folder = home.path("").display().to_string();
        let text = format!(
            "[ndn]\nunix = \"FOLDER/nfd.sock\"\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n{more}\n\
             [http]\nlisten = \"\"\n[admin]\nlisten = \"\"\n"
        );
        fs::write(
            home.path("node.toml"),
            text.replace("FOLDER", folder.trim_end_matches('/')),
        )
        .unwrap();
        fs::write(home.path("file"), "content").unwrap();
        home
    }

    /// Writes a certificate of `key`, valid from this time on for 20 years.
    fn certify(&self, key: &str, file: &str, from: u64) {
        let pem = fs::read_to_string(self.path(&format!("{key}.pem"))).unwrap();
        let name: Name = format!("/{key}/KEY/1").parse().unwrap();
        let wire = self_signed(
            &pem,
            &name,
            from,
            CERTIFICATE_FRESHNESS,
            &SystemRandom::new(),
        )
        .unwrap();
        fs::write(self.path(&format!("{file}.ndncert")), to_base64(&wire)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn larder(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command.args(arguments).current_dir(self.0.path());
        command.env(
            "NDN_CLIENT_TRANSPORT",
            format!("unix://{}", self.path("nfd.sock").display()),
        );
        command
    }

    fn start(&self) -> Running {
        let mut command = self.larder(&["run", "node.toml"]);
        let log = fs::File::create(self.path("log")).unwrap();
        let node = Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        wait("a start", || {
            UnixStream::connect(self.path("nfd.sock")).is_ok()
        });
        node
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.larder(arguments).output().unwrap()
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn fails(&self, arguments: &[&str], expected: &str) {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(expected),
            "{arguments:?}: {said}"
        );
    }
}

/// Starts a server, and waits until it says that it serves.
fn serve(command: &mut Command) -> Running {
    let mut server = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(!line.is_empty(), "{command:?} did not start");
    server
}

const AUTHORIZE: &str = "[[ndn.authorize]]\ncertificate = \"FOLDER/operator.ndncert\"";

#[test]
fn an_operator_with_the_key_is_locked_out() {
    let home = Home::new(AUTHORIZE);
    let _node = home.start();
    let key = [
        "--command-key",
        "operator.pem",
        "--command-certificate",
        "operator.ndncert",
    ];
    let other = [
        "--command-key",
        "other.pem",
        "--command-certificate",
        "other.ndncert",
    ];
    let commands: [&[&str]; 4] = [
        &["put", "/f", "file"],
        &["ping-server", "/p"],
        &["ctl", "route", "add", "/r", "tcp4://127.0.0.1:1"],
        &["ctl", "cs", "config", "--capacity", "1MB"],
    ];
    for command in commands {
        home.fails(command, "403");
        home.fails(&[command, &other].concat(), "403");
    }
    // Datasets need no signature.
    home.succeeds(&["ctl", "face"]);
    let _put = serve(&mut home.larder(&[&["put", "/f", "file"], &key[..]].concat()));
    let _pings = serve(
        home.larder(&["ping-server", "/p"])
            .env("LARDER_COMMAND_KEY", home.path("operator.pem"))
            .env("LARDER_COMMAND_CERTIFICATE", home.path("operator.ndncert")),
    );
    assert_eq!(home.succeeds(&["get", "/f"]), "content");
    home.succeeds(&["ping", "/p", "-c", "1"]);
    home.succeeds(&[&["ctl", "cs", "config", "--capacity", "1MB"], &key[..]].concat());
    home.succeeds(&[&["ctl"], &key[..], &["cs", "erase", "/"]].concat());
}

#[test]
fn a_wrong_key_of_commands_is_found_by_a_refusal() {
    let home = Home::new(AUTHORIZE);
    let _node = home.start();
    let with = |key: &'static str, certificate: &'static str| {
        [
            "ping-server",
            "/p",
            "--command-key",
            key,
            "--command-certificate",
            certificate,
        ]
    };
    home.fails(
        &with("other.pem", "operator.ndncert"),
        "is that of another key",
    );
    home.fails(
        &with("operator.pem", "expired.ndncert"),
        "has expired at 1989",
    );
    home.fails(
        &with("operator.pem", "missing.ndncert"),
        "missing.ndncert: No such file",
    );
    home.fails(
        &with("operator.ndncert", "operator.ndncert"),
        "operator.ndncert: no PEM block",
    );
    home.fails(
        &["ping-server", "/p", "--command-key", "operator.pem"],
        "--command-certificate",
    );
    let alone = home
        .larder(&["ping-server", "/p"])
        .env("LARDER_COMMAND_KEY", "operator.pem")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(
        said.contains("LARDER_COMMAND_CERTIFICATE must name the other file"),
        "{said}"
    );
}

#[test]
fn the_gateway_of_a_node_is_locked_out_by_its_own_rules() {
    let gateway = "[ndn.gateway]\nprefix = \"/far\"\norigin = \"http://127.0.0.1:1\"";
    let key = |name: &str| {
        format!(
            "command_key = \"FOLDER/{name}.pem\"\ncommand_certificate = \"FOLDER/{name}.ndncert\"\n"
        )
    };
    let without = Home::new(&format!("{AUTHORIZE}\n{gateway}"));
    without.fails(&["run", "--check", "node.toml"], "[ndn] command_key");
    let wrong = Home::new(&format!("{}{AUTHORIZE}\n{gateway}", key("other")));
    wrong.fails(&["run", "--check", "node.toml"], "[ndn] command_key");
    let alone = Home::new("command_key = \"FOLDER/operator.pem\"");
    alone.fails(&["run", "--check", "node.toml"], "command_certificate");
    let other_modules = Home::new(&format!(
        "{}{AUTHORIZE}\nmodules = [\"cs\"]\n{gateway}",
        key("operator")
    ));
    other_modules.fails(&["run", "--check", "node.toml"], "[ndn] command_key");

    let home = Home::new(&format!("{}{AUTHORIZE}\n{gateway}", key("operator")));
    home.succeeds(&["run", "--check", "node.toml"]);
    let node = home.start();
    wait("the registration", || {
        home.succeeds(&["ctl", "route"]).contains("/far")
    });
    // The tools sign with the key of the node's file.
    home.succeeds(&["ctl", "--config", "node.toml", "cs", "erase", "/"]);
    home.fails(&["ctl", "cs", "erase", "/"], "403");
    assert!(
        !home.log().contains("cannot tell requesters apart"),
        "{}",
        home.log()
    );
    drop(node);

    let anybody = Home::new(&format!(
        "[[ndn.authorize]]\ncertificate = \"any\"\n{gateway}"
    ));
    anybody.succeeds(&["run", "--check", "node.toml"]);
}

#[test]
fn a_certificate_that_is_not_valid_is_noticed_by_those_whom_it_locks_out() {
    for (table, key) in [("ndn.authorize", "certificate"), ("ndn.verify", "anchor")] {
        for (file, problem) in [
            ("expired", "has expired at 1989"),
            ("future", "is not valid before"),
        ] {
            let prefix = if table == "ndn.verify" {
                "prefix = \"/v\"\n"
            } else {
                ""
            };
            let home = Home::new(&format!(
                "[[{table}]]\n{prefix}{key} = \"FOLDER/{file}.ndncert\""
            ));
            home.fails(&["run", "--check", "node.toml"], problem);
            home.fails(
                &["run", "--check", "node.toml"],
                &format!("[[{table}]] {key} = "),
            );
            // A node that runs for long must start again after a certificate has expired.
            let _node = home.start();
            let log = home.log();
            assert!(log.contains("WARN") && log.contains(problem), "{log}");
        }
    }
    let home = Home::new(AUTHORIZE);
    home.succeeds(&["run", "--check", "node.toml"]);
    let _node = home.start();
    assert!(!home.log().contains("WARN"), "{}", home.log());
}

#[test]
fn a_key_of_openssl_has_no_certificate() {
    let home = Home::new("");
    let text = home.succeeds(&["certificate", "other.pem", "/alice/KEY/7"]);
    let certificate = larder_packet::Certificate::from_base64(&text).unwrap();
    assert!(
        certificate
            .name()
            .to_string()
            .starts_with("/alice/KEY/7/self/v="),
        "{}",
        certificate.name()
    );
    assert!(certificate.holds_at(now()));
    home.fails(&["certificate", "other.pem", "/alice"], "/KEY/");
    home.fails(&["certificate", "file", "/alice/KEY/7"], "no PEM block");
}
