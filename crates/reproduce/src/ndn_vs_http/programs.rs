//! The programs on the testbed: lighttpd, Squid and wget as Debian packages them; Larder's node,
//! `put` and `get` from this very binary.

use super::cell::{Cell, Faces, Run, System};
use super::configurations::{self, Route};
use super::tree::{CLUSTERS, edge};
use crate::programs::{cpu_seconds, this_binary};
use crate::{Error, Watch};
use larder_testbed::{LatenessReport, Spec, Testbed};
use std::fs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// A download that takes longer ends the experiment.
const LONGEST: Duration = Duration::from_secs(900);

/// Runs with late links that are run again before the experiment ends.
const ATTEMPTS: usize = 5;

/// A program that does not serve by then has failed.
const START: Duration = Duration::from_secs(20);

/// The file that is fetched; its type is in Debian's table, without which lighttpd sends neither
/// validators nor times.
const FILE: &str = "file.txt";

/// The `[http]` of a node that only forwards.
const NO_HTTP: &str = "listen = \"\"";

/// The setting of every node's `[ndn]`, and of `larder put`, for packets larger than NDN's usual.
const LARGE_AT_NODES: &str = "largest_packet = \"64KiB\"\n";
const LARGE_AT_PUT: [&str; 2] = ["--largest-packet", "64KiB"];

/// Whether the programs and their configurations are there.
pub(super) fn check_installed() -> Result<(), Error> {
    let is_there = |program: &str| {
        let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        found.is_ok()
    };
    if let Some(program) = ["lighttpd", "squid", "wget"].into_iter().find(|program| !is_there(program)) {
        return Err(Error(format!("{program} is not installed: `apt-get install {program}`")));
    }
    match configurations::PACKAGED.into_iter().find(|(_, file)| !Path::new(file).exists()) {
        Some((program, file)) => Err(Error(format!(
            "{file}, of Debian's package, is not there: `apt-get install --reinstall -o Dpkg::Options::=--force-confmiss {program}`"
        ))),
        None => Ok(()),
    }
}

/// Builds the network as the testbed `name`, starts the programs, lets every client fetch the file
/// at once, and takes everything down. A run whose links were late is of another network, and is
/// run again: alone, since those beside it may be why.
pub(super) fn download(cell: &Cell, name: &str, watch: &dyn Watch) -> Result<Run, Error> {
    static BESIDE: RwLock<()> = RwLock::new(());
    for attempt in 0..ATTEMPTS {
        let _beside = (attempt == 0).then(|| BESIDE.read().unwrap_or_else(PoisonError::into_inner));
        let _alone = (attempt > 0).then(|| BESIDE.write().unwrap_or_else(PoisonError::into_inner));
        if watch.is_stopped() {
            return Err(Error::interrupted());
        }
        let spec = cell.network.testbed(name, cell.clients, cell.congestion, cell.seed);
        let (run, lateness) = Site::new(spec, cell.bytes)?.download(cell.system, cell.clients, watch)?;
        if lateness.is_sound() {
            return Ok(run);
        }
        watch.warn(&format!("{}: run again, for the links were late: {lateness}", cell.system.name()));
    }
    Err(Error(format!(
        "the links were late in {ATTEMPTS} runs one after the other: is the machine busy with something else?"
    )))
}

/// How the names of directories begin that belong to this testbed.
fn prefix(testbed: &str) -> String {
    format!("larder-{testbed}-")
}

/// Removes the directories that a killed run has left of this testbed, and the shared memory of its
/// Squids, which are always killed.
pub(super) fn remove_left(testbed: &str) -> Result<(), Error> {
    let memory = Path::new("/dev/shm");
    let hosts = (0..CLUSTERS).map(edge).chain(["top".into()]);
    for name in hosts.flat_map(|host| SHARED.map(|what| format!("{testbed}{host}-cf__{what}.shm"))) {
        // Those that there are.
        let _ = fs::remove_file(memory.join(name));
    }
    let prefix = prefix(testbed);
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
            let path = entry.path();
            fs::remove_dir_all(&path).map_err(|error| Error(format!("{}: {error}", path.display())))?;
        }
    }
    Ok(())
}

/// Of Squid's collapsed forwarding, which makes them with one process too.
const SHARED: [&str; 3] = ["metadata", "queues", "readers"];

/// A testbed with programs. Its processes and its directory go with the testbed; where this process
/// is killed, the next one takes both away ([`Ground`](super::cells::Ground)).
struct Site {
    bed: Testbed,
    directory: TempDir,
    running: Vec<Program>,
}

/// A program on a host.
struct Program {
    host: String,
    what: String,
    process: Child,
    /// Succeeds once the program serves; `None` where it has.
    ask: Option<Command>,
}

impl Site {
    fn new(spec: Spec, bytes: usize) -> Result<Site, Error> {
        let directory = TempDir::with_prefix(prefix(&spec.name));
        let directory = directory.map_err(|error| Error(format!("no temporary directory: {error}")))?;
        let site = Site { bed: Testbed::up(spec)?, directory, running: Vec::new() };
        // Nothing that a compression could shorten.
        let mut stream = larder_units::Streams::new(1).stream("file");
        let file: Vec<u8> = std::iter::repeat_with(|| stream.bits().to_le_bytes()).flatten().take(bytes).collect();
        let path = site.write(FILE, &file)?;
        // Nothing says how long it may be kept: last changed a year ago, it is what caches take for
        // lasting (RFC 9111, section 4.2.2).
        let then = SystemTime::now() - Duration::from_secs(365 * 24 * 3600);
        let set = fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(then));
        set.map_err(|error| Error(format!("{}: {error}", path.display())))?;
        Ok(site)
    }

    fn download(mut self, system: System, clients: usize, watch: &dyn Watch) -> Result<(Run, LatenessReport), Error> {
        match system {
            System::Lighttpd { tuned } => self.start_lighttpd(tuned)?,
            System::Squid { levels, tuned } => {
                self.start_lighttpd(true)?;
                self.start_squid("top", None, tuned)?;
                self.wait_for_all()?;
                for cluster in (0..CLUSTERS).filter(|_| levels > 1) {
                    self.start_squid(&edge(cluster), Some("top"), tuned)?;
                }
            }
            System::Pair => self.start_pair(clients)?,
            System::Larder { levels, faces } => self.start_larder(levels, faces, "", &[])?,
            System::LarderTuned { levels } => {
                self.start_larder(levels, Faces::Tcp, LARGE_AT_NODES, &LARGE_AT_PUT)?;
            }
        }
        self.wait_for_all()?;
        if system == System::Pair {
            // A node on each client's host, all started a moment ago: their first packets make
            // tables and connections, which last for weeks.
            self.write("small.txt", b"a small file")?;
            self.fetch(system, clients, "small.txt", watch)?;
        }
        let before = self.cpu();
        let times = self.fetch(system, clients, FILE, watch)?;
        let [cpu, cpu_top] = std::array::from_fn(|at| self.cpu()[at] - before[at]);
        self.running.iter_mut().for_each(|program| drop(program.process.kill()));
        self.running.iter_mut().for_each(|program| drop(program.process.wait()));
        let lateness = self.bed.down()?;
        Ok((Run { times, cpu, cpu_top, late_p99_ns: lateness.p99_ns }, lateness))
    }

    /// Every client fetches this file at once: how long each took, from the start of its program to
    /// its end.
    fn fetch(&self, system: System, clients: usize, file: &str, watch: &dyn Watch) -> Result<Vec<f64>, Error> {
        let mut starting = Vec::new();
        for client in 0..clients {
            starting.push(Client::new(self.client(system, client, file)?, client)?);
        }
        starting.iter_mut().try_for_each(Client::wait_until_ready)?;
        let mut waiting = Vec::new();
        for client in starting {
            waiting.push(client.start()?);
        }
        let mut times = vec![0.0; clients];
        while !waiting.is_empty() {
            if watch.is_stopped() {
                return Err(Error::interrupted());
            }
            let mut still = Vec::new();
            for (mut client, begun) in waiting {
                let number = client.number;
                let ended = client.process.try_wait().map_err(|error| client.failed(&error))?;
                let took = begun.elapsed();
                match ended {
                    None if took < LONGEST => still.push((client, begun)),
                    Some(status) if status.success() => times[number] = took.as_secs_f64(),
                    _ => {
                        let name = system.name();
                        return Err(Error(format!(
                            "{name}: client {number} failed after {took:.0?}: {}",
                            client.end()
                        )));
                    }
                }
            }
            waiting = still;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(times)
    }

    /// The command of a client, and what its environment has.
    fn client(&self, system: System, client: usize, file: &str) -> Result<Command, Error> {
        let host = self.bed.spec().host(&format!("client{client}"))?;
        let above = |levels: u8| if levels > 1 { edge(client % CLUSTERS) } else { "top".into() };
        let url = format!("http://{}/{file}", self.address("server")?);
        let wget = |proxy: Option<Ipv4Addr>| {
            let mut words: Vec<String> =
                ["wget", "--no-config", "--quiet", "--tries=1", "-O", "-"].map(Into::into).into();
            if let Some(proxy) = proxy {
                words
                    .extend(["-e", "use_proxy=yes", "-e", &format!("http_proxy=http://{proxy}:3128/")].map(Into::into));
            }
            words.push(url.clone());
            words
        };
        let (words, transport) = match system {
            System::Lighttpd { .. } => (wget(None), None),
            System::Pair => (wget(Some(Ipv4Addr::LOCALHOST)), None),
            System::Squid { levels, .. } => (wget(Some(self.address(&above(levels))?)), None),
            System::Larder { levels, .. } | System::LarderTuned { levels } => {
                let faces = if let System::Larder { faces, .. } = system { faces } else { Faces::Tcp };
                let words = [&*this_binary()?, "get", "/repo/file", "--retries", "100"].map(Into::into).into();
                (words, Some(faces.uri(self.address(&above(levels))?)))
            }
        };
        // It waits for a line: to make its namespace's process costs 10 ms, which twenty would not
        // have behind them at once.
        let mut command = self.bed.command(host, "sh");
        command.args(["-c", "printf . >&2; read -r _; exec \"$0\" \"$@\" >/dev/null"]).args(words);
        command.envs(transport.map(|uri| ("NDN_CLIENT_TRANSPORT", uri)));
        Ok(command)
    }

    fn start_lighttpd(&mut self, tuned: bool) -> Result<(), Error> {
        let file = self.write("lighttpd.conf", configurations::lighttpd(self.directory.path(), tuned).as_bytes())?;
        self.start("server", "lighttpd", &["-D", "-f", &file.display().to_string()], 80)
    }

    fn start_squid(&mut self, host: &str, parent: Option<&str>, tuned: bool) -> Result<(), Error> {
        let parent = parent.map(|parent| self.address(parent)).transpose()?;
        let text = configurations::squid(self.directory.path(), host, parent, tuned);
        let file = self.write(&format!("{host}.squid"), text.as_bytes())?;
        // Squid's shared memory bears this name, beside the Squids of other testbeds.
        let service = format!("{}{host}", self.bed.spec().name);
        self.start(host, "squid", &["-N", "-n", &service, "-f", &file.display().to_string()], 3128)
    }

    /// HTTP over NDN from each client's host to lighttpd.
    fn start_pair(&mut self, clients: usize) -> Result<(), Error> {
        self.start_lighttpd(true)?;
        self.wait_for_all()?;
        let secret = self.write("secret", b"a secret of 32 bytes and some more")?;
        // A body is shared on the way up to an eighth of the memory: the file of the clean links
        // has 100 MB.
        let gateway = format!(
            "[ndn.gateway]\nprefix = \"/far\"\norigin = \"http://127.0.0.1:80\"\nsecret = {secret:?}\nmemory = \"1GiB\"\n"
        );
        self.start_node_with("server", None, &gateway, NO_HTTP, 6363)?;
        self.wait_for_all()?;
        self.start_node("top", Some(("server", Faces::Tcp)), "")?;
        self.wait_for_all()?;
        for cluster in 0..CLUSTERS {
            self.start_node(&edge(cluster), Some(("top", Faces::Tcp)), "")?;
        }
        self.wait_for_all()?;
        let http = format!("listen = \"127.0.0.1:3128\"\n[http.upstream]\nndn = \"/far\"\nsecret = {secret:?}");
        for client in 0..clients {
            let near = edge(client % CLUSTERS);
            let up = Route { to: Faces::Udp.uri(self.address(&near)?), reliable: true };
            self.start_node_with(&format!("client{client}"), Some(up), "", &http, 3128)?;
        }
        Ok(())
    }

    /// NDN from `larder put` at the server to the lowest level, with this under every node's
    /// `[ndn]`.
    fn start_larder(&mut self, levels: u8, faces: Faces, ndn: &str, put: &[&str]) -> Result<(), Error> {
        self.start_node("server", None, ndn)?;
        self.wait_for_all()?;
        self.start_put(put)?;
        self.start_node("top", Some(("server", faces)), ndn)?;
        self.wait_for_all()?;
        for cluster in (0..CLUSTERS).filter(|_| levels > 1) {
            self.start_node(&edge(cluster), Some(("top", faces)), ndn)?;
        }
        Ok(())
    }

    /// A node that only forwards.
    fn start_node(&mut self, host: &str, up: Option<(&str, Faces)>, ndn: &str) -> Result<(), Error> {
        let up = up.map(|(up, faces)| Ok::<_, Error>(Route { to: faces.uri(self.address(up)?), reliable: false }));
        self.start_node_with(host, up.transpose()?, ndn, NO_HTTP, 6363)
    }

    /// A node with more under `[ndn]` and with this `[http]`, which serves once it listens on
    /// `port`; nodes that it has routes to serve already.
    fn start_node_with(
        &mut self,
        host: &str,
        up: Option<Route>,
        ndn: &str,
        http: &str,
        port: u16,
    ) -> Result<(), Error> {
        let text = configurations::node(&self.path(&format!("{host}.sock")), up.as_ref(), ndn, http);
        let file = self.write(&format!("{host}.toml"), text.as_bytes())?;
        self.start(host, &this_binary()?, &["run", &file.display().to_string()], port)
    }

    fn start_put(&mut self, words: &[&str]) -> Result<(), Error> {
        let host = self.bed.spec().host("server")?;
        let transport = format!("unix://{}", self.path("server.sock").display());
        let mut put = self.bed.command(host, &this_binary()?);
        put.args(["put", "/repo/file"]).arg(self.path(FILE)).args(words).env("NDN_CLIENT_TRANSPORT", transport);
        // It says when it is ready; to ask for the file would fill the server's cache.
        let mut ask = Command::new("grep");
        ask.args(["--quiet", "^serving"]).arg(self.log(self.running.len()));
        self.start_until(put, "larder put", "server", ask)
    }

    /// Starts a program on a host, which serves once it listens on `port`.
    fn start(&mut self, host: &str, program: &str, words: &[&str], port: u16) -> Result<(), Error> {
        let number = self.bed.spec().host(host)?;
        let mut command = self.bed.command(number, program);
        command.args(words);
        let mut ask = self.bed.command(number, "bash");
        ask.args(["-c", &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")]);
        self.start_until(command, program, host, ask)
    }

    /// Starts a program, which serves once `ask` succeeds.
    fn start_until(&mut self, mut command: Command, what: &str, host: &str, mut ask: Command) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error(format!("{what} on {host}: {error}"));
        let file = fs::File::create(self.log(self.running.len())).map_err(failed)?;
        let copy = file.try_clone().map_err(failed)?;
        let process = command.stdin(Stdio::null()).stdout(copy).stderr(file).spawn().map_err(failed)?;
        ask.stdin(Stdio::null()).stderr(Stdio::null());
        self.running.push(Program { host: host.into(), what: what.into(), process, ask: Some(ask) });
        Ok(())
    }

    /// Waits until all that was started serves.
    fn wait_for_all(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            for number in 0..self.running.len() {
                let Program { host, what, process, ask } = &mut self.running[number];
                let Some(question) = ask else { continue };
                if question.status().is_ok_and(|status| status.success()) {
                    *ask = None;
                } else if process.try_wait().is_ok_and(|status| status.is_some()) || begun.elapsed() > START {
                    let what = format!("{what} on {host}");
                    let said = fs::read_to_string(self.log(number)).unwrap_or_default();
                    return Err(Error(format!("{what} does not serve: {}", said.trim())));
                }
            }
            if self.running.iter().all(|program| program.ask.is_none()) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the program of this number says.
    fn log(&self, number: usize) -> PathBuf {
        self.path(&format!("program{number}.log"))
    }

    /// CPU time of the programs so far, of all and of those at the top, s.
    fn cpu(&self) -> [f64; 2] {
        let of = |is: &dyn Fn(&str) -> bool| -> f64 {
            let programs = self.running.iter().filter(|program| is(&program.host));
            programs.map(|program| cpu_seconds(program.process.id())).sum()
        };
        [of(&|_| true), of(&|host| host == "top")]
    }

    fn address(&self, host: &str) -> Result<Ipv4Addr, Error> {
        Ok(self.bed.spec().address(self.bed.spec().host(host)?))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, Error> {
        let path = self.path(name);
        fs::write(&path, content).map_err(|error| Error(format!("{}: {error}", path.display())))?;
        Ok(path)
    }
}

impl Faces {
    fn uri(self, address: Ipv4Addr) -> String {
        let scheme = match self {
            Faces::Tcp => "tcp",
            Faces::Udp => "udp",
        };
        format!("{scheme}://{address}:6363")
    }
}

/// A client's process, which waits for its start.
struct Client {
    number: usize,
    process: Child,
}

impl Client {
    fn new(mut command: Command, number: usize) -> Result<Client, Error> {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let process = command.spawn().map_err(|error| Error(format!("client {number}: {error}")))?;
        Ok(Client { number, process })
    }

    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let ready = self.process.stderr.as_mut().map_or(Ok(()), |errors| errors.read_exact(&mut [0]));
        ready.map_err(|error| self.failed(&error))
    }

    fn start(mut self) -> Result<(Client, Instant), Error> {
        let begun = Instant::now();
        let told = self.process.stdin.take().map_or(Ok(()), |mut line| line.write_all(b"\n"));
        told.map_err(|error| self.failed(&error))?;
        Ok((self, begun))
    }

    /// Ends it: what it said.
    fn end(mut self) -> String {
        let _ = self.process.kill();
        let said = self.process.wait_with_output().map(|out| String::from_utf8_lossy(&out.stderr).trim().to_owned());
        said.unwrap_or_default()
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error(format!("client {}: {error}", self.number))
    }
}
