//! The caches under test, with the same bytes and one request thread each: Larder's node, Varnish,
//! nginx' proxy_cache.
//!
//! Each reports in `Cache-Status` (RFC 9211) whether it had the object: nginx with
//! `$upstream_cache_status`, Varnish with a mark from `vcl_hit`. The caches count capacity
//! differently. Larder counts bodies, header blocks, keys and structures; Varnish's malloc counts
//! bodies and headers; nginx counts files in pages of 4 KiB. Difference to Debian's packages:
//! * Varnish may evict up to 10,000 objects to make room for one (`nuke_limit`; 50 as packaged,
//!   beyond which the response breaks off);
//! * Varnish keeps 500 threads for requests, one for each of up to 300 connections and more
//!   (`thread_pool_min`; 100 as packaged, beyond which it starts threads as they are needed);
//! * Varnish logs no request, as nginx and Larder log none here (`vsl_mask`, [`UNLOGGED`]). Its log
//!   in shared memory took 22 % of its processor time for hits of 1,000 bytes, and 8 to 12 % for
//!   hits of 100,000 (50 connections, medians of eight rounds by turns, twice).
//!
//! A run here takes a minute and replaces days in the paper. Therefore:
//! * where hits are counted, a hit moves an object to the front of Varnish's LRU at once, not at
//!   most every two seconds (`lru_interval`), with which a small cache would be FIFO;
//! * nginx enforces its size in a process that wakes up every ten seconds, in which it would store
//!   many times its size. [`Trimmer`] wakes this process as soon as the size is exceeded.

use crate::Error;
use crate::programs::{children, this_binary};
use crate::site::{Site, free_ports};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The file from which the client reads its requests.
pub(super) const REQUESTS: &str = "requests.csv";

/// What Varnish logs of a hit or a miss, and does not log here; `benches/http/compare.py` has the
/// same list.
const UNLOGGED: &str = "vsl_mask=-ReqMethod,-ReqURL,-ReqProtocol,-ReqHeader,-ReqUnset,-ReqStart,-ReqAcct,\
    -RespProtocol,-RespStatus,-RespReason,-RespHeader,-RespUnset,-BereqMethod,-BereqURL,-BereqProtocol,-BereqHeader,\
    -BereqUnset,-BereqAcct,-BerespProtocol,-BerespStatus,-BerespReason,-BerespHeader,-BerespUnset,-VCL_call,\
    -VCL_return,-VCL_use,-Hit,-Timestamp,-Begin,-End,-Link,-SessOpen,-SessClose,-BackendOpen,-BackendReuse,\
    -BackendClose,-BackendStart,-Fetch_Body,-Storage,-TTL,-Filters,-Length";

/// The threads of Varnish where it has few, in place of one for each connection. In a trial with
/// 300 clients and objects of 100,000 bytes, it answered less with 5 or 20.
pub(super) const FEW_THREADS: usize = 10;

/// A cache and its policy.
#[derive(Clone, Debug)]
pub(super) enum System {
    /// Larder's node with this policy.
    Larder(String),
    /// The same, with this number of request threads.
    LarderThreads(String, usize),
    /// The same with one thread, and with a disk tier of this number of bytes.
    LarderDisk(String, u64),
    /// Varnish. `is_exact`: with LRU. Otherwise, as usual, a hit moves an object to the front at
    /// most every two seconds, which spares hits a lock.
    Varnish { is_exact: bool },
    /// Varnish with this number of threads for requests, in place of one for each connection:
    /// usually a thread waits 50 ms for the next request of its connection (`timeout_linger`), and
    /// here for none.
    VarnishThreads(usize),
    /// nginx, with LRU. It admits an object at the request with this number.
    Nginx(u64),
}

impl System {
    pub(super) fn name(&self) -> String {
        match self {
            System::Larder(policy) => format!("Larder, {policy}"),
            System::LarderThreads(policy, threads) => {
                format!("Larder, {policy}, {threads} threads")
            }
            System::LarderDisk(policy, bytes) => {
                format!("Larder, {policy}, a disk tier of {bytes} bytes")
            }
            System::Varnish { .. } => "Varnish".to_owned(),
            System::VarnishThreads(threads) => format!("Varnish, {threads} threads"),
            System::Nginx(uses) => format!("nginx, min_uses {uses}"),
        }
    }
}

/// Checks that the programs are installed.
///
/// # Errors
/// The first missing program, with its package.
pub(super) fn check_installed() -> Result<(), Error> {
    for (program, package) in [("nginx", "nginx"), ("varnishd", "varnish")] {
        let version = Command::new(daemon(program))
            .arg("-V")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if version.is_err() {
            return Err(Error(format!(
                "{program} is not installed: `apt-get install {package}`"
            )));
        }
    }
    Ok(())
}

/// Returns the path of a daemon. Debian installs daemons outside the PATH of some users.
fn daemon(program: &str) -> String {
    let path = format!("/usr/sbin/{program}");
    if Path::new(&path).exists() {
        path
    } else {
        program.to_owned()
    }
}

/// A running server.
pub(super) struct Server {
    pub(super) port: u16,
    pub(super) pid: u32,
    /// The admin port of Larder's node.
    pub(super) admin: Option<u16>,
    trimmer: Option<Trimmer>,
}

impl Server {
    /// Starts `larder origin`.
    pub(super) fn origin(site: &mut Site) -> Result<Server, Error> {
        let [port] = free_ports()?;
        let pid = site.start(
            &this_binary()?,
            &["origin", "--listen", &format!("127.0.0.1:{port}")],
            port,
        )?;
        Ok(Server {
            port,
            pid,
            admin: None,
            trimmer: None,
        })
    }

    /// Starts a cache of `capacity` bytes in front of the origin at this port.
    pub(super) fn start(
        site: &mut Site,
        system: &System,
        capacity: u64,
        origin: u16,
    ) -> Result<Server, Error> {
        match system {
            System::Larder(policy) => Node {
                policy,
                threads: 1,
                capacity,
                disk: None,
            }
            .start(site, origin),
            System::LarderThreads(policy, threads) => Node {
                policy,
                threads: *threads,
                capacity,
                disk: None,
            }
            .start(site, origin),
            System::LarderDisk(policy, bytes) => Node {
                policy,
                threads: 1,
                capacity,
                disk: Some(*bytes),
            }
            .start(site, origin),
            System::Varnish { is_exact } => {
                let lru = if *is_exact {
                    "lru_interval=0"
                } else {
                    "lru_interval=2"
                };
                start_varnish(site, &[lru, "thread_pool_min=500"], capacity, origin)
            }
            System::VarnishThreads(threads) => {
                let [least, most] =
                    ["min", "max"].map(|end| format!("thread_pool_{end}={threads}"));
                // As many requests as connections may wait for a thread.
                let queue = [
                    "timeout_linger=0",
                    "thread_queue_limit=100000",
                    "thread_pool_reserve=1",
                ];
                start_varnish(
                    site,
                    &[&["lru_interval=2", &least, &most], &queue[..]].concat(),
                    capacity,
                    origin,
                )
            }
            System::Nginx(uses) => {
                let [port] = free_ports()?;
                let directory = site.directory().join(format!("nginx-{port}"));
                let failed =
                    |error: std::io::Error| Error(format!("{}: {error}", directory.display()));
                std::fs::create_dir(&directory).map_err(failed)?;
                let text = nginx(&directory, *uses, capacity, origin, port);
                let file = site.write(&format!("nginx-{port}.conf"), &text)?;
                let before = in_memory(site.directory())?;
                let prefix = directory.display().to_string();
                let pid = site.start(&daemon("nginx"), &["-p", &prefix, "-c", &file], port)?;
                let trimmer = Trimmer::start(site.directory().to_owned(), pid, before, capacity);
                Ok(Server {
                    port,
                    pid,
                    admin: None,
                    trimmer: Some(trimmer),
                })
            }
        }
    }

    /// Returns the mean used share of the capacity, if the cache stores files. The site stops the
    /// server.
    pub(super) fn held(self) -> Option<f64> {
        self.trimmer.map(Trimmer::stop)
    }
}

fn start_varnish(
    site: &mut Site,
    own: &[&str],
    capacity: u64,
    origin: u16,
) -> Result<Server, Error> {
    let [port] = free_ports()?;
    let file = site.write(&format!("varnish-{port}.vcl"), varnish(origin))?;
    let directory = site.path(&format!("varnish-{port}"));
    let (listen, memory) = (format!("127.0.0.1:{port}"), format!("malloc,{capacity}b"));
    let words = [
        "-F", "-f", &file, "-a", &listen, "-s", &memory, "-n", &directory,
    ];
    let tuned = ["nuke_limit=10000", "thread_pools=1", UNLOGGED];
    let tuned: Vec<&str> = tuned
        .iter()
        .chain(own)
        .flat_map(|parameter| ["-p", parameter])
        .collect();
    let pid = site.start(&daemon("varnishd"), &[&words[..], &tuned].concat(), port)?;
    Ok(Server {
        port,
        pid,
        admin: None,
        trimmer: None,
    })
}

/// Larder's node.
struct Node<'a> {
    policy: &'a str,
    /// The number of request threads.
    threads: usize,
    /// The bytes of the cache in memory.
    capacity: u64,
    /// The bytes of the disk tier, if it has one.
    disk: Option<u64>,
}

impl Node<'_> {
    fn start(&self, site: &mut Site, origin: u16) -> Result<Server, Error> {
        let [port, admin] = free_ports()?;
        let file = site.write(
            &format!("larder-{port}.toml"),
            self.config(site.directory(), origin, [port, admin]),
        )?;
        let pid = site.start(&this_binary()?, &["run", &file], port)?;
        Ok(Server {
            port,
            pid,
            admin: Some(admin),
            trimmer: None,
        })
    }

    fn config(&self, directory: &Path, origin: u16, [port, admin]: [u16; 2]) -> String {
        let Node {
            policy,
            threads,
            capacity,
            disk,
        } = self;
        let path = directory.join(format!("larder-{port}.disk"));
        let disk = disk.map_or_else(String::new, |bytes| {
            // A slice would count as a request of the disk.
            format!(
                "slice = \"0\"\n[http.disk]\npath = \"{}\"\ncapacity = \"{bytes}B\"\n",
                path.display()
            )
        });
        format!(
            "[ndn]\nunix = \"\"\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\n\
             [http]\nlisten = \"127.0.0.1:{port}\"\norigin = \"http://127.0.0.1:{origin}\"\nthreads = {threads}\ncache = \"{capacity}B\"\nmax_object = \"{capacity}B\"\npolicy = \"{policy}\"\n{disk}\
             [admin]\nlisten = \"127.0.0.1:{admin}\"\n[log]\nlevel = \"warn\"\n"
        )
    }
}

fn varnish(origin: u16) -> String {
    format!(
        "vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"{origin}\"; }}\n\
         sub vcl_hit {{ set req.http.larder-found = \"hit\"; }}\n\
         sub vcl_deliver {{\n    set resp.http.Cache-Status = \"varnish; fwd=miss\";\n    \
         if (req.http.larder-found == \"hit\") {{ set resp.http.Cache-Status = \"varnish; hit\"; }}\n}}\n"
    )
}

/// Returns nginx' configuration. `inactive` and the zone are so large that only the size causes
/// removals.
fn nginx(directory: &Path, uses: u64, capacity: u64, origin: u16, port: u16) -> String {
    let directory = directory.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("    {kind}_temp_path {directory}/{kind};\n"))
        .concat();
    format!(
        "daemon off;\nworker_processes 1;\npid {directory}/pid;\nerror_log {directory}/error.log warn;\n\
         events {{ worker_connections 4096; }}\nhttp {{\n    access_log off;\n    sendfile on;\n    tcp_nodelay on;\n    keepalive_requests 1000000000;\n{temporary}    \
         proxy_cache_path {directory}/cache levels=1:2 keys_zone=all:256m max_size={capacity} inactive=30d use_temp_path=off \
         manager_files=1000000 manager_threshold=10s;\n    \
         map $upstream_cache_status $found {{ HIT \"nginx; hit\"; default \"nginx; fwd=miss\"; }}\n    \
         upstream origin {{ server 127.0.0.1:{origin}; keepalive 128; keepalive_requests 1000000000; }}\n    \
         server {{\n        listen 127.0.0.1:{port} backlog=4096;\n        location / {{\n            \
         proxy_pass http://origin;\n            proxy_http_version 1.1;\n            proxy_set_header Connection \"\";\n            \
         proxy_cache all;\n            proxy_cache_min_uses {uses};\n            add_header Cache-Status $found;\n        }}\n    }}\n}}\n"
    )
}

/// Returns the bytes of files in the memory file system, without the client's list of requests,
/// which is in the same file system but not part of a cache.
fn in_memory(directory: &Path) -> Result<u64, Error> {
    let figures = rustix::fs::statvfs(directory)
        .map_err(|error| Error(format!("{}: {error}", directory.display())))?;
    let requests = std::fs::metadata(directory.join(REQUESTS)).map_or(0, |file| file.len());
    let used = (figures.f_blocks - figures.f_bfree) * figures.f_frsize;
    Ok(used.saturating_sub(requests.next_multiple_of(figures.f_frsize)))
}

/// Wakes nginx' cache manager whenever the cache exceeds its capacity. It ends the manager's
/// process; nginx restarts it at once, and the new process checks the size at once. The size is
/// that of all files in the memory file system, minus those from before the start.
struct Trimmer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

/// The interval between two checks, in which the manager does its work.
const TRIM_EVERY: Duration = Duration::from_millis(3);

impl Trimmer {
    fn start(directory: PathBuf, nginx: u32, before: u64, capacity: u64) -> Trimmer {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut sum, mut looks) = (0.0, 0.0);
            while !stopped.load(Ordering::Relaxed) {
                let held = in_memory(&directory)
                    .unwrap_or(before)
                    .saturating_sub(before);
                sum += held as f64 / capacity as f64;
                looks += 1.0;
                if held > capacity {
                    wake_manager(nginx);
                }
                std::thread::sleep(TRIM_EVERY);
            }
            sum / f64::max(looks, 1.0)
        });
        Trimmer { stop, thread }
    }

    fn stop(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(f64::NAN)
    }
}

fn wake_manager(nginx: u32) {
    let is_manager = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.contains("cache manager"))
    };
    let manager = children(nginx).into_iter().find(is_manager);
    let pid = manager
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(Pid::from_raw);
    // If the manager has ended in the meantime, nginx has restarted it.
    let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_has_other_bytes_than_the_others() {
        let node = |disk| {
            let node = Node {
                policy: "lru",
                threads: 1,
                capacity: 12_000_000,
                disk,
            };
            node.config(Path::new("/dev/shm/x"), 18_000, [18_001, 18_002])
        };
        let texts = [
            node(None),
            nginx(Path::new("/dev/shm/x"), 3, 12_000_000, 18_000, 18_001),
            varnish(18_000),
        ];
        for text in &texts {
            assert!(text.contains("18000"), "the origin: {text}");
            assert_eq!(
                text.matches('{').count(),
                text.matches('}').count(),
                "{text}"
            );
        }
        for (text, bytes) in texts
            .iter()
            .zip(["cache = \"12000000B\"", "max_size=12000000 "])
        {
            assert!(
                text.contains(bytes) && text.contains("127.0.0.1:18001"),
                "{text}"
            );
        }
        assert!(texts[1].contains("proxy_cache_min_uses 3;"));
        let with_disk = node(Some(300));
        assert!(with_disk.contains(
            "[http.disk]\npath = \"/dev/shm/x/larder-18001.disk\"\ncapacity = \"300B\"\n"
        ));
        assert!(!texts[0].contains("disk"));
    }
}
