//! The addresses of the configuration: free, or with the program that has them.

use super::{Finding, Level, Topic, of_problem};
use crate::config::Config;
use larder_host::{ListenAddress, ListenConfig};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

/// An address that a node would bind.
struct Listener {
    setting: &'static str,
    address: ListenAddress,
}

/// The programs that have sockets.
pub(super) struct Holders {
    /// The sockets that listen: their addresses, and their numbers in the file system of sockets.
    sockets: Vec<(Protocol, SocketAddr, u64)>,
    /// The processes by the numbers of their sockets.
    processes: HashMap<u64, Vec<Process>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    pid: u64,
    name: String,
}

impl Process {
    /// Returns true if it is a node, or another command of this program.
    fn is_larder(&self) -> bool {
        self.name == "larder"
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.name)
    }
}

/// What problems say of files and sockets that another node has.
const IN_USE: [&str; 3] = [
    "is in use",
    "another process uses it",
    "another forwarder answers there",
];

/// What is said of a program that this user may not look into.
const UNKNOWN: &str = "a program of another user (root sees which)";

/// Returns the findings for all addresses, and the problems that are about something else.
pub(super) fn findings(
    config: &Config,
    problems: &[String],
    running: Option<u64>,
    holders: &Holders,
) -> (Vec<Finding>, Vec<String>) {
    let (mut findings, mut others) = (Vec::new(), problems.to_vec());
    let mut is_larder = false;
    for Listener { setting, address } in listeners(config) {
        let shown = address.to_string();
        let begins = |problem: &str| {
            problem
                .strip_prefix(setting)
                .is_some_and(|rest| rest.starts_with(':'))
        };
        let own = others
            .iter()
            .position(|problem| begins(problem) && names(problem, &shown));
        let held = address
            .tcp()
            .and_then(|address| holders.of(protocol(setting), address));
        if let Some(at) = own {
            let finding = taken(of_problem(&others.remove(at)), held.as_deref());
            is_larder |= finding.level == Level::Note;
            findings.push(finding);
        } else if !problems.iter().any(|problem| problem.contains(setting)) {
            findings.push(match running {
                Some(pid) => of_node(setting, &address, pid, held.as_deref()),
                None => Finding::ok(Topic::Ports, setting, format!("{shown} is free")),
            });
        }
    }
    if is_larder {
        // The same node also has its files.
        let is_in_use = |problem: &String| IN_USE.iter().any(|in_use| problem.contains(in_use));
        let of_files = others.extract_if(.., |problem| is_in_use(problem));
        findings.extend(of_files.map(|problem| perhaps_of_this_file(of_problem(&problem))));
    }
    let of_http3 = http3(config);
    findings.extend(of_http3.filter_map(|address| http3_taken(address, running, holders)));
    (findings, others)
}

/// Returns true if the problem names this address, and not one that contains it:
/// `127.0.0.1:2821` is a part of `127.0.0.1:28210`.
fn names(problem: &str, address: &str) -> bool {
    let is_part = |next: char| next.is_alphanumeric() || ['_', '-'].contains(&next);
    problem.match_indices(address).any(|(at, _)| {
        !problem[..at].ends_with(|before: char| is_part(before) || before == '.')
            && !problem[at + address.len()..].starts_with(is_part)
    })
}

/// Names the program that has an address which cannot be bound.
fn taken(finding: Finding, held: Option<&[&Process]>) -> Finding {
    let holder = match held {
        None => return finding,
        Some([]) => UNKNOWN.to_owned(),
        Some([process, ..]) => process.to_string(),
    };
    let is_larder = held.is_some_and(|held| held.iter().any(|process| process.is_larder()));
    let finding = Finding {
        text: format!("{}: {holder} has it", finding.text),
        ..finding
    };
    if is_larder {
        perhaps_of_this_file(finding)
    } else {
        finding
    }
}

/// A node does not say which file it runs by if its admin server has another address, or if it
/// was started without a file.
fn perhaps_of_this_file(finding: Finding) -> Finding {
    Finding {
        level: Level::Note,
        text: format!(
            "{}: a Larder node, perhaps the one of this file",
            finding.text
        ),
        remedy: "stop it before you start another one with this file".to_owned(),
        ..finding
    }
}

/// Returns the finding for an address of the file by which a process runs.
fn of_node(setting: &str, address: &ListenAddress, pid: u64, held: Option<&[&Process]>) -> Finding {
    let by_file = format!("process {pid}, which runs by this file");
    let finding = |level, text, remedy| Finding::new(level, Topic::Ports, setting, text, remedy);
    let Some(tcp) = address.tcp() else {
        let text = format!("{address} is free, or that of {by_file}");
        return Finding::ok(Topic::Ports, setting, text);
    };
    match held {
        // Any free port.
        _ if tcp.port() == 0 => Finding::ok(Topic::Ports, setting, format!("{address}: {by_file}")),
        Some(held) if held.iter().any(|process| process.pid == pid) => {
            Finding::ok(Topic::Ports, setting, format!("{address}: {by_file}"))
        }
        Some([process, ..]) => finding(
            Level::Error,
            format!("{address}: {process} has it, and not {by_file}"),
            "stop the other program or set another port: a reload fails until then",
        ),
        Some([]) => finding(
            Level::Note,
            format!("{address}: {UNKNOWN} has it, perhaps {by_file}"),
            "run this as root",
        ),
        None => finding(
            Level::Note,
            format!("{address} is free: {by_file}, does not listen there"),
            "reload the node",
        ),
    }
}

fn protocol(setting: &str) -> Protocol {
    if setting == "[ndn] udp" {
        Protocol::Udp
    } else {
        Protocol::Tcp
    }
}

/// Returns the addresses that the configuration names.
fn listeners(config: &Config) -> Vec<Listener> {
    let mut all = Vec::new();
    let mut add = |setting, address: &ListenAddress| {
        let address = address.clone();
        all.push(Listener { setting, address });
    };
    let proxy = &config.http.proxy;
    if config.http.enabled {
        for listen in &proxy.listen {
            add("[http] listen", &listen.address);
        }
        for listen in proxy.tls.iter().flat_map(|tls| &tls.listen) {
            add("[http.tls] listen", &listen.address);
        }
    }
    if config.ndn.enabled {
        let keys = [
            ("[ndn] tcp", config.ndn.tcp),
            ("[ndn] udp", config.ndn.udp),
            ("[ndn] websocket", config.ndn.websocket),
        ];
        for (setting, address) in keys {
            if let Some(address) = address {
                add(setting, &ListenAddress::Tcp(address));
            }
        }
    }
    if let Some(address) = config.admin.listen {
        add("[admin] listen", &ListenAddress::Tcp(address));
    }
    all
}

/// Returns the addresses of HTTP/3, over UDP.
fn http3(config: &Config) -> impl Iterator<Item = SocketAddr> {
    let tls = config.http.proxy.tls.iter();
    let tls = tls.filter(|tls| config.http.enabled && tls.http3);
    let listens = tls.flat_map(|tls| &tls.listen);
    let listens = listens.filter(|listen: &&ListenConfig| !listen.proxy_protocol);
    listens.filter_map(|listen| listen.address.tcp())
}

/// A node starts without HTTP/3 if its address is taken.
fn http3_taken(address: SocketAddr, running: Option<u64>, holders: &Holders) -> Option<Finding> {
    let error = UdpSocket::bind(address).err()?;
    let held = holders.of(Protocol::Udp, address);
    let held = held.as_deref();
    let holder = match (held, running) {
        (Some(held), Some(pid)) if held.iter().any(|process| process.pid == pid) => return None,
        // Perhaps the node itself.
        (Some([]) | None, Some(_)) => return None,
        (Some([process, ..]), _) => format!(": {process} has it"),
        (Some([]), None) => format!(": {UNKNOWN} has it"),
        (None, None) => String::new(),
    };
    let is_larder = held.is_some_and(|held| held.iter().any(|process| process.is_larder()));
    let error = larder_units::system_message(&error);
    let finding = Finding::new(
        Level::Warning,
        Topic::Ports,
        "[http.tls] http3",
        format!("cannot bind {address} over UDP: {error}{holder}"),
        "clients use HTTP/2: stop the other program, or set http3 = false",
    );
    Some(if is_larder && running.is_none() {
        perhaps_of_this_file(finding)
    } else {
        finding
    })
}

impl Holders {
    /// Reads the sockets of this machine and their processes, as far as this user may (proc(5)).
    pub(super) fn read() -> Holders {
        let mut sockets = Vec::new();
        for (file, protocol) in [
            ("tcp", Protocol::Tcp),
            ("tcp6", Protocol::Tcp),
            ("udp", Protocol::Udp),
            ("udp6", Protocol::Udp),
        ] {
            let text = std::fs::read_to_string(format!("/proc/net/{file}")).unwrap_or_default();
            let bound = text.lines().skip(1);
            let bound = bound.filter_map(|line| bound_socket(line, protocol));
            sockets.extend(bound.map(|(address, inode)| (protocol, address, inode)));
        }
        let mut processes = HashMap::new();
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            if let Ok(pid) = process.file_name().to_string_lossy().parse() {
                add_sockets(&process.path(), pid, &mut processes);
            }
        }
        Holders { sockets, processes }
    }

    /// Returns the processes with a socket at this address: none if no program of this user has
    /// it; `None` if there is no socket.
    fn of(&self, protocol: Protocol, address: SocketAddr) -> Option<Vec<&Process>> {
        let with = |conflicts: &dyn Fn(IpAddr) -> bool| -> Option<Vec<&Process>> {
            let sockets = self.sockets.iter().filter(|(of, bound, _)| {
                let is_like = *of == protocol && bound.port() == address.port();
                is_like && conflicts(bound.ip().to_canonical())
            });
            let mut inodes = sockets.map(|(.., inode)| inode).peekable();
            inodes.peek()?;
            let processes = inodes.filter_map(|inode| self.processes.get(inode));
            Some(processes.flatten().collect())
        };
        let wanted = address.ip().to_canonical();
        with(&|bound| bound == wanted)
            .or_else(|| with(&|bound| bound.is_unspecified() || wanted.is_unspecified()))
    }
}

/// Reads a line of `/proc/net/tcp`: the address of a socket that listens, and its number.
fn bound_socket(line: &str, protocol: Protocol) -> Option<(SocketAddr, u64)> {
    const LISTENS: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    if protocol == Protocol::Tcp && *fields.get(3)? != LISTENS {
        return None;
    }
    let (ip, port) = fields.get(1)?.rsplit_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some((
        SocketAddr::new(ip_of(ip)?, port),
        fields.get(9)?.parse().ok()?,
    ))
}

/// Reads an address as the kernel prints it: words of 32 bits in the order of this machine.
fn ip_of(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = text.get(8 * at..8 * at + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    if text.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?).into());
    }
    let words = [word(0)?, word(1)?, word(2)?, word(3)?];
    let bytes: [u8; 16] = words.concat().try_into().ok()?;
    Some(Ipv6Addr::from(bytes).into())
}

/// Adds the sockets of a process.
fn add_sockets(folder: &Path, pid: u64, processes: &mut HashMap<u64, Vec<Process>>) {
    let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
    let open = std::fs::read_dir(folder.join("fd"));
    for file in open.into_iter().flatten().flatten() {
        let target = std::fs::read_link(file.path()).unwrap_or_default();
        let target = target.to_string_lossy();
        let inode = target
            .strip_prefix("socket:[")
            .and_then(|rest| rest.strip_suffix(']'));
        if let Some(inode) = inode.and_then(|inode| inode.parse().ok()) {
            let process = Process {
                pid,
                name: name.trim().to_owned(),
            };
            processes.entry(inode).or_default().push(process);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a problem is filed under a listener whose address is a part of another one's.
    #[test]
    fn a_problem_names_another_address() {
        let problem = "[http] listen: 127.0.0.1:28210 is in use; set another port";
        assert!(names(problem, "127.0.0.1:28210"));
        assert!(!names(problem, "127.0.0.1:2821"));
        assert!(!names("[http] listen: 10.0.0.0:80 is in use", "0.0.0.0:80"));
        let socket = "[http] listen: unix:/run/a.sock is in use";
        assert!(names(socket, "unix:/run/a.sock"));
        assert!(!names("[ndn] tcp: cannot listen on [::1]:80: x", "[::1]:8"));
    }

    /// Failure: the socket of another address with the same port counts, or one of all addresses
    /// does not.
    #[test]
    fn a_port_is_taken_for_an_address() {
        let of_v4 = "0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 77";
        let (local, inode) = bound_socket(of_v4, Protocol::Tcp).unwrap();
        assert_eq!(
            (local.to_string(), inode),
            ("127.0.0.1:8080".to_owned(), 77)
        );
        let all = "0: 00000000000000000000000000000000:1F91 0:0 0A 0:0 0:0 0 0 0 78";
        let (all, _) = bound_socket(all, Protocol::Tcp).unwrap();
        assert_eq!(all.to_string(), "[::]:8081");
        let process = Process {
            pid: 7,
            name: "a".to_owned(),
        };
        let holders = Holders {
            sockets: vec![(Protocol::Tcp, local, 77), (Protocol::Tcp, all, 78)],
            processes: HashMap::from([(77, vec![process.clone()])]),
        };
        for (protocol, address, expected) in [
            (Protocol::Tcp, "127.0.0.1:8080", Some(vec![&process])),
            (Protocol::Tcp, "0.0.0.0:8080", Some(vec![&process])),
            (Protocol::Tcp, "127.0.0.2:8080", None),
            (Protocol::Udp, "127.0.0.1:8080", None),
            (Protocol::Tcp, "127.0.0.2:8081", Some(Vec::new())),
        ] {
            let held = holders.of(protocol, address.parse().unwrap());
            assert_eq!(held, expected, "{address}");
        }
    }
}
