//! The addresses of the configuration: free, or with the program that has them.

use super::{Finding, Level, Topic, of_problem};
use crate::config::Config;
use larder_host::{ListenAddress, ListenConfig};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

/// An address that a node would bind.
struct Listener {
    setting: &'static str,
    address: ListenAddress,
}

/// The programs that have sockets.
pub(super) struct Holders {
    /// The sockets that listen, by protocol and port: their numbers in the file system of sockets.
    sockets: HashMap<(Protocol, u16), Vec<u64>>,
    /// The processes by the numbers of their sockets.
    processes: HashMap<u64, String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Protocol {
    Tcp,
    Udp,
}

/// Returns the findings for all addresses, and the problems that are about something else.
pub(super) fn findings(
    config: &Config,
    problems: &[String],
    running: Option<u64>,
    holders: &Holders,
) -> (Vec<Finding>, Vec<String>) {
    let (mut findings, mut others) = (Vec::new(), problems.to_vec());
    for Listener { setting, address } in listeners(config) {
        let shown = address.to_string();
        let begins = |problem: &str| {
            problem
                .strip_prefix(setting)
                .is_some_and(|rest| rest.starts_with(':'))
        };
        let own = others
            .iter()
            .position(|problem| begins(problem) && problem.contains(&shown));
        if let Some(at) = own {
            let mut finding = of_problem(&others.remove(at));
            if let Some(holder) = address
                .tcp()
                .and_then(|address| holders.of(protocol(setting), address))
            {
                finding.text = format!("{}: {holder} has it", finding.text);
            }
            findings.push(finding);
        } else if !problems.iter().any(|problem| problem.contains(setting)) {
            let text = match running {
                Some(pid) => format!("{shown}: process {pid}, which runs by this file"),
                None => format!("{shown} is free"),
            };
            findings.push(Finding::ok(Topic::Ports, setting, text));
        }
    }
    if running.is_none() {
        findings.extend(http3(config).filter_map(|address| http3_taken(address, holders)));
    }
    (findings, others)
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
fn http3_taken(address: SocketAddr, holders: &Holders) -> Option<Finding> {
    let error = UdpSocket::bind(address).err()?;
    let error = larder_units::system_message(&error);
    let holder = holders.of(Protocol::Udp, address);
    let holder = holder.map_or(String::new(), |holder| format!(": {holder} has it"));
    Some(Finding::new(
        Level::Warning,
        Topic::Ports,
        "[http.tls] http3",
        format!("cannot bind {address} over UDP: {error}{holder}"),
        "clients use HTTP/2: stop the other program, or set http3 = false",
    ))
}

impl Holders {
    /// Reads the sockets of this machine and their processes, as far as this user may (proc(5)).
    pub(super) fn read() -> Holders {
        let mut sockets: HashMap<_, Vec<u64>> = HashMap::new();
        for (file, protocol) in [
            ("tcp", Protocol::Tcp),
            ("tcp6", Protocol::Tcp),
            ("udp", Protocol::Udp),
            ("udp6", Protocol::Udp),
        ] {
            let text = std::fs::read_to_string(format!("/proc/net/{file}")).unwrap_or_default();
            for (port, inode) in text
                .lines()
                .skip(1)
                .filter_map(|line| bound(line, protocol))
            {
                sockets.entry((protocol, port)).or_default().push(inode);
            }
        }
        let mut processes = HashMap::new();
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = process.file_name();
            let pid = name.to_string_lossy();
            if pid.bytes().all(|byte| byte.is_ascii_digit()) {
                add_sockets(&process.path(), &pid, &mut processes);
            }
        }
        Holders { sockets, processes }
    }

    /// Returns the process with a socket at this port, as text; `None` if there is none.
    fn of(&self, protocol: Protocol, address: SocketAddr) -> Option<String> {
        let sockets = self.sockets.get(&(protocol, address.port()))?;
        let known = sockets.iter().find_map(|inode| self.processes.get(inode));
        Some(match known {
            Some(process) => process.clone(),
            None => "a program of another user (root sees which)".to_owned(),
        })
    }
}

/// Reads a line of `/proc/net/tcp`: the port of a socket that listens, and its number.
fn bound(line: &str, protocol: Protocol) -> Option<(u16, u64)> {
    const LISTENS: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    if protocol == Protocol::Tcp && *fields.get(3)? != LISTENS {
        return None;
    }
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    Some((
        u16::from_str_radix(port, 16).ok()?,
        fields.get(9)?.parse().ok()?,
    ))
}

/// Adds the sockets of a process.
fn add_sockets(folder: &Path, pid: &str, processes: &mut HashMap<u64, String>) {
    let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
    let open = std::fs::read_dir(folder.join("fd"));
    for file in open.into_iter().flatten().flatten() {
        let target = std::fs::read_link(file.path()).unwrap_or_default();
        let target = target.to_string_lossy();
        let inode = target
            .strip_prefix("socket:[")
            .and_then(|rest| rest.strip_suffix(']'));
        if let Some(inode) = inode.and_then(|inode| inode.parse().ok()) {
            processes.insert(inode, format!("process {pid} ({})", name.trim()));
        }
    }
}
