//! The programs on the testbed: lighttpd, Squid and wget as Debian packages them; Larder's node, `put` and `get` from this very binary.

use super::tree::{CLUSTERS, edge};
use crate::programs::{cpu_seconds, this_binary};
use crate::{Error, Watch};
use larder_testbed::{LatenessReport, Spec, Testbed};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// Who brings the file, and where it is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// lighttpd without a cache.
    Lighttpd,
    /// lighttpd behind Squid: at the top, and at the edges too where there are two levels.
    Squid { levels: u8 },
    /// The same with Debian's configuration and nothing else: 256 MB of memory, no object of more than 512 kB in it, a fetch for each request.
    PlainSquid { levels: u8 },
    /// Larder's node at the server and the top, and at the edges too where there are two levels.
    Larder { levels: u8 },
    /// HTTP over NDN: lighttpd behind Larder's far node at the server, NDN nodes at the top and the edges, and a node on each client's host, which wget
    /// asks as its proxy.
    Pair,
}

impl System {
    pub(super) fn name(self) -> String {
        match self {
            System::Lighttpd => "lighttpd".into(),
            System::Squid { levels } => format!("Squid, {levels} level{}", if levels == 1 { "" } else { "s" }),
            System::PlainSquid { levels } => {
                format!("Squid, as packaged, {levels} level{}", if levels == 1 { "" } else { "s" })
            }
            System::Pair => "wget, Larder's pair".into(),
            System::Larder { levels } => format!("Larder, {levels} level{}", if levels == 1 { "" } else { "s" }),
        }
    }
}

/// What one run gave.
pub(super) struct Run {
    /// Download time of each client, s.
    pub(super) times: Vec<f64>,
    /// CPU time of servers and caches (not of the clients), s.
    pub(super) cpu: f64,
    /// How late the links were.
    pub(super) lateness: LatenessReport,
}

impl Run {
    pub(super) fn mean(&self) -> f64 {
        self.times.iter().sum::<f64>() / self.times.len() as f64
    }
}

/// A download that takes longer ends the experiment.
const LONGEST: Duration = Duration::from_secs(900);

/// Runs with late links that are run again before the experiment ends.
const ATTEMPTS: usize = 5;

/// A program that does not serve by then has failed.
const START: Duration = Duration::from_secs(20);

/// Whether the programs are there.
pub(super) fn check_installed() -> Result<(), Error> {
    for (program, package) in [("lighttpd", "lighttpd"), ("squid", "squid"), ("wget", "wget")] {
        let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if found.is_err() {
            return Err(Error(format!("{program} is not installed: `apt-get install {package}`")));
        }
    }
    Ok(())
}

/// Builds the network, starts the programs, lets every client fetch the file at once, and takes everything down. A run whose links were late
/// is of another network, and is run again.
pub(super) fn download(
    spec: &Spec,
    system: System,
    clients: usize,
    bytes: usize,
    watch: &dyn Watch,
) -> Result<Run, Error> {
    for _ in 0..ATTEMPTS {
        let run = Site::new(spec.clone(), bytes)?.download(system, clients)?;
        if run.lateness.is_sound() {
            watch.advance(1);
            return Ok(run);
        }
        watch.warn(&format!("{}: run again, for the links were late: {}", system.name(), run.lateness));
    }
    Err(Error(format!(
        "the links were late in {ATTEMPTS} runs one after the other: is the machine busy with something else?"
    )))
}

/// A testbed with programs. Its processes end with the testbed, whatever happens.
struct Site {
    bed: Testbed,
    directory: TempDir,
    running: Vec<Child>,
}

impl Site {
    fn new(spec: Spec, bytes: usize) -> Result<Site, Error> {
        let directory =
            TempDir::with_prefix("larder-").map_err(|error| Error(format!("no temporary directory: {error}")))?;
        let site = Site { bed: Testbed::up(spec)?, directory, running: Vec::new() };
        // Nothing that a compression could shorten.
        let mut stream = larder_units::Streams::new(1).stream("file");
        let file: Vec<u8> = std::iter::repeat_with(|| stream.bits().to_le_bytes()).flatten().take(bytes).collect();
        let path = site.write("file", &file)?;
        // Nothing says how long it may be kept: last changed a year ago, it is what caches take for lasting (RFC 9111, section 4.2.2).
        let then = SystemTime::now() - Duration::from_secs(365 * 24 * 3600);
        let set = fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(then));
        set.map_err(|error| Error(format!("{path}: {error}")))?;
        Ok(site)
    }

    fn download(mut self, system: System, clients: usize) -> Result<Run, Error> {
        match system {
            System::Lighttpd => self.start_lighttpd()?,
            System::Squid { levels } | System::PlainSquid { levels } => {
                let plain = matches!(system, System::PlainSquid { .. });
                self.start_lighttpd()?;
                self.start_squid("top", None, plain)?;
                for cluster in (0..CLUSTERS).filter(|_| levels > 1) {
                    self.start_squid(&edge(cluster), Some("top"), plain)?;
                }
            }
            System::Pair => {
                self.start_lighttpd()?;
                let secret = self.write("secret", b"a secret of 32 bytes and some more")?;
                // A body is shared on the way up to an eighth of the memory: the file of the clean links has 100 MB.
                let gateway = format!(
                    "[ndn.gateway]\nprefix = \"/far\"\norigin = \"http://127.0.0.1:80\"\nsecret = {secret:?}\nmemory = \"1GiB\"\n"
                );
                self.start_node_with("server", None, &gateway, "listen = \"\"", 6363)?;
                self.start_node("top", Some("server"))?;
                for cluster in 0..CLUSTERS {
                    self.start_node(&edge(cluster), Some("top"))?;
                }
                let http = format!("listen = \"127.0.0.1:3128\"\n[http.upstream]\nndn = \"/far\"\nsecret = {secret:?}");
                for client in 0..clients {
                    let near = edge(client % CLUSTERS);
                    self.start_node_with(&format!("client{client}"), Some(&near), "", &http, 3128)?;
                }
            }
            System::Larder { levels } => {
                self.start_node("server", None)?;
                self.start_node("top", Some("server"))?;
                for cluster in (0..CLUSTERS).filter(|_| levels > 1) {
                    self.start_node(&edge(cluster), Some("top"))?;
                }
                self.start_put()?;
            }
        }
        if system == System::Pair {
            // A node on each client's host, all started a moment ago: their first packets make tables and connections, which last for weeks.
            self.write("small", b"a small file")?;
            self.fetch(system, clients, "small")?;
        }
        let before = self.cpu();
        let times = self.fetch(system, clients, "file")?;
        let cpu = self.cpu() - before;
        for program in &mut self.running {
            let _ = program.kill();
            let _ = program.wait();
        }
        Ok(Run { times, cpu, lateness: self.bed.down()? })
    }

    /// Every client fetches this file at once: how long each took.
    fn fetch(&self, system: System, clients: usize, file: &str) -> Result<Vec<f64>, Error> {
        let fetchers: Result<Vec<(Child, Instant)>, Error> = (0..clients)
            .map(|client| {
                let mut command = self.client(system, client, file)?;
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
                let begun = Instant::now();
                Ok((command.spawn().map_err(|error| Error(format!("client {client}: {error}")))?, begun))
            })
            .collect();
        let mut waiting: Vec<(usize, Child, Instant)> =
            fetchers?.into_iter().enumerate().map(|(client, (child, begun))| (client, child, begun)).collect();
        let mut times = vec![0.0; clients];
        while !waiting.is_empty() {
            let mut still = Vec::new();
            for (client, mut child, begun) in waiting {
                let ended = child.try_wait().map_err(|error| Error(format!("client {client}: {error}")))?;
                let took = begun.elapsed();
                match ended {
                    None if took < LONGEST => still.push((client, child, begun)),
                    Some(status) if status.success() => times[client] = took.as_secs_f64(),
                    _ => {
                        let _ = child.kill();
                        let said =
                            child.wait_with_output().map(|out| String::from_utf8_lossy(&out.stderr).into_owned());
                        let said = said.unwrap_or_default();
                        let name = system.name();
                        return Err(Error(format!("{name}: client {client} failed after {took:.0?}: {}", said.trim())));
                    }
                }
            }
            waiting = still;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(times)
    }

    fn client(&self, system: System, client: usize, file: &str) -> Result<Command, Error> {
        let host = self.bed.spec().host(&format!("client{client}"))?;
        let near = edge(client % CLUSTERS);
        let server = self.address("server")?;
        let proxy = |command: &mut Command, name: &str| -> Result<(), Error> {
            let address = self.address(name)?;
            command.args(["-e", "use_proxy=yes", "-e", &format!("http_proxy=http://{address}:3128/")]);
            Ok(())
        };
        let wget = || {
            let mut command = self.bed.command(host, "wget");
            command.args(["--no-config", "--quiet", "--tries=1", "-O", "-"]);
            command
        };
        let url = format!("http://{server}/{file}");
        let command = match system {
            System::Lighttpd => {
                let mut command = wget();
                command.arg(url);
                command
            }
            System::Pair => {
                let mut command = wget();
                command.args(["-e", "use_proxy=yes", "-e", "http_proxy=http://127.0.0.1:3128/"]).arg(url);
                command
            }
            System::Squid { levels } | System::PlainSquid { levels } => {
                let mut command = wget();
                proxy(&mut command, if levels > 1 { &near } else { "top" })?;
                command.arg(url);
                command
            }
            System::Larder { levels } => {
                let address = self.address(if levels > 1 { &near } else { "top" })?;
                let mut command = self.bed.command(host, &this_binary()?);
                command.args(["get", "/repo/file", "--retries", "100"]);
                command.env("NDN_CLIENT_TRANSPORT", format!("tcp://{address}:6363"));
                command
            }
        };
        Ok(command)
    }

    /// Debian's default has a table of types, without which lighttpd sends neither validators nor times.
    fn start_lighttpd(&mut self) -> Result<(), Error> {
        let types = "mimetype.assign = ( \"\" => \"application/octet-stream\" )";
        let text = format!("server.document-root = {:?}\nserver.port = 80\n{types}\n", self.directory.path());
        let file = self.write("lighttpd.conf", text.as_bytes())?;
        self.start("server", "lighttpd", &["-D", "-f", &file], 80)
    }

    /// Debian's defaults, but for what lets it serve at all, and for a memory cache that holds the file: without it a file of more than 512 kB
    /// would not be cached, and the comparison would be with no cache. `plain` leaves that out.
    fn start_squid(&mut self, host: &str, parent: Option<&str>, plain: bool) -> Result<(), Error> {
        let directory = self.directory.path().display();
        let mut text = format!(
            "http_port 3128\nhttp_access allow all\nvisible_hostname {host}\npid_filename {directory}/{host}.pid\n\
             cache_log /dev/null\naccess_log none\ncache_store_log none\ncoredump_dir none\npinger_enable off\n\
             shutdown_lifetime 0 seconds\n"
        );
        if !plain {
            text += "cache_mem 512 MB\nmaximum_object_size_in_memory 256 MB\nmaximum_object_size 256 MB\ncollapsed_forwarding on\n";
        }
        if let Some(parent) = parent {
            let address = self.address(parent)?;
            text += &format!("cache_peer {address} parent 3128 0 no-query default\nnever_direct allow all\n");
        }
        let file = self.write(&format!("{host}.squid"), text.as_bytes())?;
        self.start(host, "squid", &["-N", "-n", host, "-f", &file], 3128)
    }

    /// A node that only forwards.
    fn start_node(&mut self, host: &str, up: Option<&str>) -> Result<(), Error> {
        self.start_node_with(host, up, "", "listen = \"\"", 6363)
    }

    /// A node with more under `[ndn]` and with this `[http]`, which serves once it listens on `port`.
    fn start_node_with(&mut self, host: &str, up: Option<&str>, ndn: &str, http: &str, port: u16) -> Result<(), Error> {
        let socket = self.path(&format!("{host}.sock"));
        let mut text = format!(
            "[ndn]\nunix = {socket:?}\ntcp = \"0.0.0.0:6363\"\nudp = \"\"\nwebsocket = \"\"\ncontent_store = \"512MiB\"\n"
        );
        if let Some(up) = up {
            text += &format!("[[ndn.route]]\nprefix = \"/\"\nto = \"tcp://{}:6363\"\n", self.address(up)?);
        }
        text += &format!("{ndn}[http]\n{http}\n[admin]\nlisten = \"\"\n");
        let file = self.write(&format!("{host}.toml"), text.as_bytes())?;
        self.start(host, &this_binary()?, &["run", &file], port)
    }

    fn start_put(&mut self) -> Result<(), Error> {
        let host = self.bed.spec().host("server")?;
        let transport = format!("unix://{}", self.path("server.sock"));
        let mut put = self.bed.command(host, &this_binary()?);
        put.args(["put", "/repo/file", &self.path("file")]).env("NDN_CLIENT_TRANSPORT", transport);
        // It says when it is ready; to ask for the file would fill the server's cache.
        let mut ask = Command::new("grep");
        ask.args(["--quiet", "^serving", &self.path("program.log")]);
        self.start_until(put, "larder put", &mut ask)
    }

    /// Starts a program on a host, and waits until it listens on `port`.
    fn start(&mut self, host: &str, program: &str, words: &[&str], port: u16) -> Result<(), Error> {
        let number = self.bed.spec().host(host)?;
        let mut command = self.bed.command(number, program);
        command.args(words);
        let mut ask = self.bed.command(number, "bash");
        ask.args(["-c", &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")]);
        self.start_until(command, &format!("{program} on {host}"), &mut ask)
    }

    /// Starts a program, and waits until `ask` succeeds.
    fn start_until(&mut self, mut command: Command, what: &str, ask: &mut Command) -> Result<(), Error> {
        let log = self.path("program.log");
        let failed = |error: std::io::Error| Error(format!("{what}: {error}"));
        let file = fs::File::create(&log).map_err(failed)?;
        let copy = file.try_clone().map_err(failed)?;
        let mut child = command.stdin(Stdio::null()).stdout(copy).stderr(file).spawn().map_err(failed)?;
        ask.stdin(Stdio::null()).stderr(Stdio::null());
        let begun = Instant::now();
        loop {
            if ask.status().is_ok_and(|status| status.success()) {
                self.running.push(child);
                return Ok(());
            }
            if child.try_wait().is_ok_and(|status| status.is_some()) || begun.elapsed() > START {
                let _ = child.kill();
                let said = fs::read_to_string(log).unwrap_or_default();
                return Err(Error(format!("{what} does not serve: {}", said.trim())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// CPU time of the programs so far, s.
    fn cpu(&self) -> f64 {
        self.running.iter().map(|program| cpu_seconds(program.id())).sum()
    }

    fn address(&self, host: &str) -> Result<String, Error> {
        Ok(self.bed.spec().address(self.bed.spec().host(host)?).to_string())
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<String, Error> {
        let path = self.path(name);
        fs::write(&path, content).map_err(|error| Error(format!("{path}: {error}")))?;
        Ok(path)
    }
}
