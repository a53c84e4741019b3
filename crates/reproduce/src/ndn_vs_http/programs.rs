//! The programs on the testbed: lighttpd, Squid and wget as Debian packages them; the node, `put`
//! and `get` of this binary.

use super::cell::{Cell, Faces, LARDER, Run, SquidSetup, System, VariedNames};
use super::configurations::{self, Route};
use super::tree::{CLUSTERS, edge};
use crate::programs::{cpu_seconds, this_binary};
use crate::site::{Probe, Site};
use crate::{Error, Request, Watch};
use larder_replay::Zipf;
use larder_testbed::{LatenessReport, Spec, Testbed};
use std::fs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

/// The longest download. A longer one ends the experiment.
const LONGEST: Duration = Duration::from_secs(900);

/// The number of attempts with late links after which the last one is kept as a late run.
const ATTEMPTS: usize = 3;

/// The fetched file. Its type is in Debian's table; without a type, lighttpd sends neither
/// validators nor times.
const FILE: &str = "file.txt";

/// The name under which applications serve the file, and the file that they write.
const OBJECT: &str = "/repo/file";
const FETCHED: &str = "fetched";

/// The `[http]` of a node that only forwards.
const NO_HTTP: &str = "listen = \"\"";

/// The setting of every node's `[ndn]`, and of `larder put`, for packets larger than NDN's usual
/// size.
const LARGE_AT_NODES: &str = "largest_packet = \"64KiB\"\n";
const LARGE_AT_PUT: [&str; 2] = ["--largest-packet", "64KiB"];

/// Checks that the programs and their configurations are installed.
pub(super) fn check_installed() -> Result<(), Error> {
    let is_there = |program: &str| {
        let found = Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.is_ok()
    };
    if let Some(program) = ["lighttpd", "squid", "wget"]
        .into_iter()
        .find(|program| !is_there(program))
    {
        return Err(Error(format!(
            "{program} is not installed: `apt-get install {program}`"
        )));
    }
    match configurations::PACKAGED
        .into_iter()
        .find(|(_, file)| !Path::new(file).exists())
    {
        Some((program, file)) => Err(Error(format!(
            "{file}, of Debian's package, is not there: `apt-get install --reinstall -o Dpkg::Options::=--force-confmiss {program}`"
        ))),
        None => Ok(()),
    }
}

/// Builds the network as the testbed `name`, starts the programs, lets every client fetch the file
/// at once, and removes everything. A run with late links measured another network, so it is
/// repeated. It then runs alone, because concurrent runs may be the reason.
///
/// # Errors
/// A program failed, or hosts refused frames in every attempt.
pub(super) fn download(
    cell: &Cell,
    name: &str,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Run, Error> {
    static BESIDE: RwLock<()> = RwLock::new(());
    let system = cell.system.name();
    let attempt = |nth: usize| {
        let _beside = (nth == 0).then(|| BESIDE.read().unwrap_or_else(PoisonError::into_inner));
        let _alone = (nth > 0).then(|| BESIDE.write().unwrap_or_else(PoisonError::into_inner));
        if watch.is_stopped() {
            return Err(Error::interrupted());
        }
        let spec = cell
            .network
            .testbed(name, cell.clients, cell.congestion, cell.seed);
        Deployment::new(spec, cell.bytes, request)?.download(cell.system, cell.clients, watch)
    };
    let round_trip = 2 * Duration::from_millis(cell.network.delay);
    let run = in_time(round_trip, attempt, |fault| {
        watch.warn(&format!("{system}: {fault}"))
    })?;
    run.check(cell.clients)
        .map_err(|fault| Error(format!("{system}: {fault}")))?;
    Ok(run)
}

/// Returns the first of [`ATTEMPTS`] runs whose links are in time. If none is, returns the last one
/// in which no host refused a frame, as a late run.
///
/// # Errors
/// Those of an attempt, or hosts refused frames in every attempt.
fn in_time(
    round_trip: Duration,
    attempt: impl Fn(usize) -> Result<(Run, LatenessReport), Error>,
    warn: impl Fn(&str),
) -> Result<Run, Error> {
    let mut late = None;
    for nth in 0..ATTEMPTS {
        let (run, lateness) = attempt(nth)?;
        let run = Run {
            late_attempts: nth,
            ..run
        };
        if lateness.is_sound_for(round_trip) {
            return Ok(run);
        }
        warn(&format!("the links were late: {lateness}"));
        if lateness.refused == 0 {
            late = Some(Run {
                late_attempts: nth + 1,
                is_late: true,
                ..run
            });
        }
    }
    late.ok_or_else(|| {
        Error(format!(
            "hosts refused frames in {ATTEMPTS} runs; end other work on this machine"
        ))
    })
}

/// Returns the prefix of the names of this testbed's directories.
fn prefix(testbed: &str) -> String {
    format!("larder-{testbed}-")
}

/// Removes the directories that a killed run of this testbed has left, and the shared memory of its
/// Squids, which always end by a signal.
pub(super) fn remove_left(testbed: &str) -> Result<(), Error> {
    let memory = Path::new("/dev/shm");
    let hosts = (0..CLUSTERS).map(edge).chain(["top".into()]);
    for name in hosts.flat_map(|host| SHARED.map(|what| format!("{testbed}{host}-cf__{what}.shm")))
    {
        // Some of them may be missing.
        let _ = fs::remove_file(memory.join(name));
    }
    let prefix = prefix(testbed);
    for entry in fs::read_dir(std::env::temp_dir())
        .into_iter()
        .flatten()
        .flatten()
    {
        if entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(&prefix))
        {
            let path = entry.path();
            fs::remove_dir_all(&path)
                .map_err(|error| Error(format!("{}: {error}", path.display())))?;
        }
    }
    Ok(())
}

/// Nothing states the lifetime of the files. They were modified so long ago, and caches consider
/// them fresh for a tenth of that (RFC 9111, section 4.2.2).
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn set_modified(path: &str, time: SystemTime) -> Result<(), Error> {
    let set = fs::File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.set_modified(time));
    set.map_err(|error| Error(format!("{path}: {error}")))
}

/// Returns the file of an object of varied names.
fn varied(object: u64) -> String {
    format!("varied-{object}.txt")
}

/// Returns the file with the URLs that a client fetches.
fn list(client: usize) -> String {
    format!("client{client}.urls")
}

/// The parts of Squid's collapsed forwarding that use shared memory, even with one process.
const SHARED: [&str; 3] = ["metadata", "queues", "readers"];

/// A testbed with programs. Dropping it ends its processes and removes its directory. If this
/// process is killed, the next run removes both ([`MachineLock`](super::cells::MachineLock)).
struct Deployment {
    /// Dropped first: it ends the programs in its namespaces.
    bed: Testbed,
    site: Site,
    /// Host and pid of each program.
    programs: Vec<(String, u32)>,
    /// The shell command of a forwarder that runs in place of nodes that only forward packets of
    /// NDN's usual size.
    forwarder: Option<String>,
    /// The directory of applications of other NDN implementations.
    applications: Option<PathBuf>,
}

impl Deployment {
    fn new(spec: Spec, bytes: usize, request: &Request<'_>) -> Result<Deployment, Error> {
        let site = Site::temporary(&prefix(&spec.name))?;
        let (forwarder, applications) = (
            request.forwarder.map(str::to_owned),
            request.applications.map(Path::to_path_buf),
        );
        let bed = Testbed::up(spec)?;
        let deployment = Deployment {
            bed,
            site,
            programs: Vec::new(),
            forwarder,
            applications,
        };
        // Random bytes, which no compression shortens.
        let mut stream = larder_units::Streams::new(1).stream("file");
        let file: Vec<u8> = std::iter::repeat_with(|| stream.bits().to_le_bytes())
            .flatten()
            .take(bytes)
            .collect();
        let path = deployment.site.write(FILE, file)?;
        set_modified(&path, SystemTime::now() - YEAR)?;
        Ok(deployment)
    }

    fn download(
        mut self,
        system: System,
        clients: usize,
        watch: &dyn Watch,
    ) -> Result<(Run, LatenessReport), Error> {
        match system {
            System::Lighttpd { tuned } => self.start_lighttpd(tuned)?,
            System::Squid { levels, setup } => self.start_squids(levels, setup)?,
            System::Varied { pair: false, .. } => self.start_squids(2, SquidSetup::ReadsAhead)?,
            System::Pair | System::Varied { pair: true, .. } => self.start_pair(clients)?,
            System::Larder { levels, faces } => self.start_larder(levels, faces, "", &[])?,
            System::LarderTuned { levels } => {
                self.start_larder(levels, Faces::Tcp, LARGE_AT_NODES, &LARGE_AT_PUT)?;
            }
            System::Applications { producer, .. } => self.start_applications(producer)?,
        }
        self.site.wait_until_all_serve()?;
        if let System::Varied { names, .. } = system {
            self.write_varied(names, clients)?;
        }
        if matches!(system, System::Pair | System::Varied { .. }) {
            // Each client's host has a node that has just started. Its first packets create tables
            // and connections, which last for weeks in practice.
            self.site.write("small.txt", "a small file")?;
            self.fetch(system, clients, "small.txt", watch)?;
        }
        let (before, sent) = (self.cpu(), self.sent()?);
        let times = self.fetch(system, clients, FILE, watch)?;
        let [cpu, cpu_top] = std::array::from_fn(|at| self.cpu()[at] - before[at]);
        if matches!(system, System::Applications { .. }) {
            self.compare(system)?;
        }
        let sent = self
            .sent()?
            .checked_sub(sent)
            .ok_or_else(|| Error("/proc/net/dev: fewer bytes than before".into()))?;
        self.site.kill_programs();
        let lateness = self.bed.down()?;
        Ok((
            Run {
                times,
                cpu,
                cpu_top,
                sent,
                late_p99_ns: lateness.p99_ns,
                late_attempts: 0,
                is_late: false,
            },
            lateness,
        ))
    }

    /// Lets every client fetch this file at once. Returns the time of each, from the start of its
    /// program to its end.
    fn fetch(
        &self,
        system: System,
        clients: usize,
        file: &str,
        watch: &dyn Watch,
    ) -> Result<Vec<f64>, Error> {
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
                let ended = client
                    .process
                    .try_wait()
                    .map_err(|error| client.failed(&error))?;
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

    /// Returns the command of a client, with its environment.
    fn client(&self, system: System, client: usize, file: &str) -> Result<Command, Error> {
        let host = self.bed.spec().host(&format!("client{client}"))?;
        let above = |levels: u8| {
            if levels > 1 {
                edge(client % CLUSTERS)
            } else {
                "top".into()
            }
        };
        let url = format!("http://{}/{file}", self.address("server")?);
        let wget = |proxy: Option<Ipv4Addr>| {
            let mut words: Vec<String> = ["wget", "--no-config", "--quiet", "--tries=1", "-O", "-"]
                .map(Into::into)
                .into();
            if let Some(proxy) = proxy {
                words.extend(
                    [
                        "-e",
                        "use_proxy=yes",
                        "-e",
                        &format!("http_proxy=http://{proxy}:3128/"),
                    ]
                    .map(Into::into),
                );
            }
            match system {
                System::Varied { .. } if file == FILE => {
                    words.extend(["-i".into(), self.site.path(&list(client))])
                }
                _ => words.push(url.clone()),
            }
            words
        };
        let (words, transport) = match system {
            System::Lighttpd { .. } => (wget(None), None),
            System::Pair | System::Varied { pair: true, .. } => {
                (wget(Some(Ipv4Addr::LOCALHOST)), None)
            }
            System::Varied { pair: false, .. } => {
                (wget(Some(self.address(&edge(client % CLUSTERS))?)), None)
            }
            System::Squid { levels, .. } => (wget(Some(self.address(&above(levels))?)), None),
            System::Larder { levels, .. } | System::LarderTuned { levels } => {
                let faces = if let System::Larder { faces, .. } = system {
                    faces
                } else {
                    Faces::Tcp
                };
                let words = [&*this_binary()?, "get", OBJECT, "--retries", "100"]
                    .map(Into::into)
                    .into();
                (words, Some(faces.uri(self.address(&above(levels))?)))
            }
            System::Applications { consumer, .. } => {
                let mut words = self.application(consumer, "consumer", &["get", OBJECT, "-o"])?;
                words.push(self.site.path(FETCHED));
                (
                    words,
                    Some(Faces::Tcp.uri(self.address(&edge(client % CLUSTERS))?)),
                )
            }
        };
        // The command waits for a line, because the process in its namespace takes 10 ms to start,
        // and twenty clients could not start at once otherwise.
        let mut command = self.bed.command(host, "sh");
        command
            .args([
                "-c",
                "printf . >&2; read -r _; exec \"$0\" \"$@\" >/dev/null",
            ])
            .args(words);
        command.envs(transport.map(|uri| ("NDN_CLIENT_TRANSPORT", uri)));
        Ok(command)
    }

    fn start_lighttpd(&mut self, tuned: bool) -> Result<(), Error> {
        let file = self.site.write(
            "lighttpd.conf",
            configurations::lighttpd(self.site.directory(), tuned),
        )?;
        self.start("server", "lighttpd", &["-D", "-f", &file], 80)
    }

    fn start_squid(
        &mut self,
        host: &str,
        parent: Option<&str>,
        setup: SquidSetup,
    ) -> Result<(), Error> {
        let parent = parent.map(|parent| self.address(parent)).transpose()?;
        let text = configurations::squid(self.site.directory(), host, parent, setup);
        let file = self.site.write(&format!("{host}.squid"), text)?;
        // Squid's shared memory has this name. Other testbeds have their own Squids.
        let service = format!("{}{host}", self.bed.spec().name);
        self.start(host, "squid", &["-N", "-n", &service, "-f", &file], 3128)
    }

    /// Starts Squid before lighttpd, at one level or at two.
    fn start_squids(&mut self, levels: u8, setup: SquidSetup) -> Result<(), Error> {
        self.start_lighttpd(true)?;
        self.start_squid("top", None, setup)?;
        self.site.wait_until_all_serve()?;
        for cluster in (0..CLUSTERS).filter(|_| levels > 1) {
            self.start_squid(&edge(cluster), Some("top"), setup)?;
        }
        Ok(())
    }

    /// Writes the objects of varied names, which are parts of the file, and for each client the
    /// list of the URLs that it fetches. Both depend on the seed alone.
    fn write_varied(&self, names: VariedNames, clients: usize) -> Result<(), Error> {
        let VariedNames {
            objects,
            requests,
            exponent,
        } = names;
        let zipf = Zipf::new(objects, exponent).ok_or_else(|| Error("no objects".into()))?;
        let streams = larder_units::Streams::new(self.bed.spec().seed);
        let (mut drawn, mut sizes) = (streams.stream("names"), streams.stream("sizes"));
        let content = fs::read(self.site.path(FILE)).map_err(Error::from_cause)?;
        let a_year_ago = SystemTime::now() - YEAR;
        for object in 0..objects {
            let bytes = 1000.0 * (content.len() as f64 / 1000.0).powf(sizes.unit());
            let path = self.site.write(
                &varied(object),
                &content[..(bytes as usize).min(content.len())],
            )?;
            set_modified(&path, a_year_ago)?;
        }
        let server = self.address("server")?;
        let mut lists = vec![String::new(); clients];
        for request in 0..requests as usize {
            // Ranks start at 1.
            lists[request % clients] +=
                &format!("http://{server}/{}\n", varied(zipf.draw(&mut drawn) - 1));
        }
        lists
            .iter()
            .enumerate()
            .try_for_each(|(client, text)| self.site.write(&list(client), text).map(|_| ()))
    }

    /// Returns the bytes that have left the server's host.
    fn sent(&self) -> Result<u64, Error> {
        let mut command = self.bed.command(self.bed.spec().host("server")?, "cat");
        let output = command
            .arg("/proc/net/dev")
            .output()
            .map_err(Error::from_cause)?;
        if !output.status.success() {
            return Err(Error(format!(
                "/proc/net/dev: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        // proc_net(5): eight numbers of what was received follow the name, then the sent bytes.
        let devices = text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .filter(|(name, _)| name.trim() != "lo");
        Ok(devices
            .filter_map(|(_, figures)| figures.split_whitespace().nth(8)?.parse::<u64>().ok())
            .sum())
    }

    /// Starts HTTP over NDN from each client's host to lighttpd.
    fn start_pair(&mut self, clients: usize) -> Result<(), Error> {
        self.start_lighttpd(true)?;
        self.site.wait_until_all_serve()?;
        let secret = self
            .site
            .write("secret", "a secret of 32 bytes and some more")?;
        // A body is shared in transfer up to an eighth of the memory, and the file of the clean
        // links has 100 MB.
        let gateway = format!(
            "[ndn.gateway]\nprefix = \"/far\"\norigin = \"http://127.0.0.1:80\"\nsecret = {secret:?}\nmemory = \"1GiB\"\n"
        );
        self.start_node_with("server", None, &gateway, NO_HTTP, 6363)?;
        self.site.wait_until_all_serve()?;
        self.start_node("top", Some(("server", Faces::Tcp)), "")?;
        self.site.wait_until_all_serve()?;
        for cluster in 0..CLUSTERS {
            self.start_node(&edge(cluster), Some(("top", Faces::Tcp)), "")?;
        }
        self.site.wait_until_all_serve()?;
        let http = format!(
            "listen = \"127.0.0.1:3128\"\n[http.upstream]\nndn = \"/far\"\nsecret = {secret:?}"
        );
        for client in 0..clients {
            let near = edge(client % CLUSTERS);
            let up = Route {
                to: Faces::Udp.uri(self.address(&near)?),
                reliable: true,
            };
            self.start_node_with(&format!("client{client}"), Some(up), "", &http, 3128)?;
        }
        Ok(())
    }

    /// Starts NDN from `larder put` at the server to the lowest level, with this text under every
    /// node's `[ndn]`.
    fn start_larder(
        &mut self,
        levels: u8,
        faces: Faces,
        ndn: &str,
        put: &[&str],
    ) -> Result<(), Error> {
        self.start_node("server", None, ndn)?;
        self.site.wait_until_all_serve()?;
        self.start_put(put)?;
        self.start_node("top", Some(("server", faces)), ndn)?;
        self.site.wait_until_all_serve()?;
        for cluster in (0..CLUSTERS).filter(|_| levels > 1) {
            self.start_node(&edge(cluster), Some(("top", faces)), ndn)?;
        }
        Ok(())
    }

    /// Starts a producer at the server, and the nodes between it and the client. The producer is
    /// ready when its prefix is registered.
    fn start_applications(&mut self, producer: &'static str) -> Result<(), Error> {
        self.start_node("server", None, "")?;
        self.site.wait_until_all_serve()?;
        let mut words = self.application(producer, "producer", &["put", OBJECT])?;
        words.push(self.site.path(FILE));
        let transport = (
            "NDN_CLIENT_TRANSPORT",
            format!("unix://{}", self.site.path("server.sock")),
        );
        let mut command = self.bed.command(self.bed.spec().host("server")?, &words[0]);
        command.args(&words[1..]).env(transport.0, &transport.1);
        let mut probe = Command::new("sh");
        probe.args([
            "-c",
            "\"$0\" ctl route list | grep --quiet \"$1\"",
            &this_binary()?,
            OBJECT,
        ]);
        probe.env(transport.0, &transport.1).stdout(Stdio::null());
        self.start_until(command, producer, "server", probe)?;
        self.start_node("top", Some(("server", Faces::Tcp)), "")?;
        self.site.wait_until_all_serve()?;
        self.start_node(&edge(0), Some(("top", Faces::Tcp)), "")
    }

    /// Returns the words of an application: this binary with `own`, or another implementation's
    /// program with the name of the object. The path of a file follows.
    fn application(&self, name: &str, role: &str, own: &[&str]) -> Result<Vec<String>, Error> {
        match &self.applications {
            Some(directory) if name != LARDER => {
                let program = directory
                    .join(format!("{name}-{role}"))
                    .display()
                    .to_string();
                Ok(vec![program, OBJECT.to_owned()])
            }
            _ => Ok([&*this_binary()?]
                .iter()
                .chain(own)
                .map(|word| (*word).to_owned())
                .collect()),
        }
    }

    /// Compares the file that a consumer has written with the one that was served.
    fn compare(&self, system: System) -> Result<(), Error> {
        let [served, fetched] =
            [FILE, FETCHED].map(|name| fs::read(self.site.path(name)).map_err(Error::from_cause));
        if served? == fetched? {
            Ok(())
        } else {
            Err(Error(format!("{}: the file has changed", system.name())))
        }
    }

    /// Starts a node that only forwards.
    fn start_node(
        &mut self,
        host: &str,
        up: Option<(&str, Faces)>,
        ndn: &str,
    ) -> Result<(), Error> {
        let up = up.map(|(up, faces)| {
            Ok::<_, Error>(Route {
                to: faces.uri(self.address(up)?),
                reliable: false,
            })
        });
        self.start_node_with(host, up.transpose()?, ndn, NO_HTTP, 6363)
    }

    /// Starts a node with more text under `[ndn]` and with this `[http]`. It is ready when it
    /// listens on `port`. The nodes at the ends of its routes are ready already.
    fn start_node_with(
        &mut self,
        host: &str,
        up: Option<Route>,
        ndn: &str,
        http: &str,
        port: u16,
    ) -> Result<(), Error> {
        if ndn.is_empty()
            && http == NO_HTTP
            && let Some(forwarder) = self.forwarder.clone()
        {
            return self.start_forwarder(host, &forwarder, up.as_ref());
        }
        let text = configurations::node(
            &self.site.path(&format!("{host}.sock")),
            up.as_ref(),
            ndn,
            http,
        );
        let file = self.site.write(&format!("{host}.toml"), text)?;
        self.start(host, &this_binary()?, &["run", &file], port)
    }

    /// Starts another forwarder in place of a node. `FORWARDER_SOCKET` is the Unix socket for
    /// applications on its host, and `FORWARDER_UPSTREAM` the URI to which it sends all Interests
    /// that no application serves; it is empty at the server.
    fn start_forwarder(
        &mut self,
        host: &str,
        forwarder: &str,
        up: Option<&Route>,
    ) -> Result<(), Error> {
        let number = self.bed.spec().host(host)?;
        let mut command = self.bed.command(number, "sh");
        command.args(["-c", forwarder]);
        command.env("FORWARDER_SOCKET", self.site.path(&format!("{host}.sock")));
        command.env("FORWARDER_UPSTREAM", up.map_or("", |route| &route.to));
        let mut probe = self.bed.command(number, "bash");
        probe.args(["-c", "exec 3<>/dev/tcp/127.0.0.1/6363"]);
        self.start_until(command, "--forwarder", host, probe)
    }

    fn start_put(&mut self, words: &[&str]) -> Result<(), Error> {
        let host = self.bed.spec().host("server")?;
        let transport = format!("unix://{}", self.site.path("server.sock"));
        let mut put = self.bed.command(host, &this_binary()?);
        put.args(["put", OBJECT])
            .arg(self.site.path(FILE))
            .args(words)
            .env("NDN_CLIENT_TRANSPORT", transport);
        // The program reports when it is ready. A request for the file would fill the server's
        // cache.
        let mut probe = Command::new("grep");
        probe
            .args(["--quiet", "^serving"])
            .arg(self.site.next_log());
        self.start_until(put, "larder put", "server", probe)
    }

    /// Starts a program on a host. It is ready when it listens on `port`.
    fn start(&mut self, host: &str, program: &str, words: &[&str], port: u16) -> Result<(), Error> {
        let number = self.bed.spec().host(host)?;
        let mut command = self.bed.command(number, program);
        command.args(words);
        let mut probe = self.bed.command(number, "bash");
        probe.args(["-c", &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")]);
        self.start_until(command, program, host, probe)
    }

    /// Starts a program. It is ready when `probe` succeeds.
    fn start_until(
        &mut self,
        command: Command,
        what: &str,
        host: &str,
        probe: Command,
    ) -> Result<(), Error> {
        let pid = self
            .site
            .spawn(&format!("{what} on {host}"), command, Probe::Command(probe))?;
        self.programs.push((host.to_owned(), pid));
        Ok(())
    }

    /// Returns the CPU time of the programs so far, s: of all, and of those at the top.
    fn cpu(&self) -> [f64; 2] {
        let of = |is: &dyn Fn(&str) -> bool| -> f64 {
            self.programs
                .iter()
                .filter(|(host, _)| is(host))
                .map(|(_, pid)| cpu_seconds(*pid))
                .sum()
        };
        [of(&|_| true), of(&|host| host == "top")]
    }

    fn address(&self, host: &str) -> Result<Ipv4Addr, Error> {
        Ok(self.bed.spec().address(self.bed.spec().host(host)?))
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
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let process = command
            .spawn()
            .map_err(|error| Error(format!("client {number}: {error}")))?;
        Ok(Client { number, process })
    }

    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let ready = self
            .process
            .stderr
            .as_mut()
            .map_or(Ok(()), |errors| errors.read_exact(&mut [0]));
        ready.map_err(|error| self.failed(&error))
    }

    fn start(mut self) -> Result<(Client, Instant), Error> {
        let begun = Instant::now();
        let started = self
            .process
            .stdin
            .take()
            .map_or(Ok(()), |mut line| line.write_all(b"\n"));
        started.map_err(|error| self.failed(&error))?;
        Ok((self, begun))
    }

    /// Ends the process and returns its output.
    fn end(mut self) -> String {
        let _ = self.process.kill();
        let output = self
            .process
            .wait_with_output()
            .map(|out| String::from_utf8_lossy(&out.stderr).trim().to_owned());
        output.unwrap_or_default()
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error(format!("client {}: {error}", self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a run with late links counts, a late run is lost, or a run in which hosts refused
    /// frames is kept.
    #[test]
    fn a_late_attempt_counts() {
        let round_trip = Duration::from_millis(10);
        // By attempt: the lateness, ms, and the refused frames.
        let kept = |attempts: [(u64, u64); ATTEMPTS]| {
            let attempt = |nth: usize| {
                let (millis, refused) = attempts[nth];
                let report = LatenessReport {
                    p99_ns: millis * 1_000_000,
                    refused,
                    ..LatenessReport::default()
                };
                Ok((
                    Run {
                        sent: nth as u64,
                        ..Run::default()
                    },
                    report,
                ))
            };
            in_time(round_trip, attempt, |_| ())
                .map(|run| (run.sent, run.late_attempts, run.is_late))
        };
        assert_eq!(kept([(0, 0), (9, 0), (9, 0)]).unwrap(), (0, 0, false));
        assert_eq!(kept([(9, 0), (0, 7), (1, 0)]).unwrap(), (2, 2, false));
        assert_eq!(kept([(9, 0), (9, 0), (9, 0)]).unwrap(), (2, 3, true));
        assert_eq!(
            kept([(9, 0), (9, 0), (9, 7)]).unwrap(),
            (1, 2, true),
            "the last one without refused frames"
        );
        assert!(
            kept([(0, 7), (9, 7), (0, 7)])
                .unwrap_err()
                .to_string()
                .contains("refused frames in 3 runs")
        );
    }
}
