//! One cell of the experiments: a system on a network with a seed, and its result.

use super::tree::Network;
use serde::{Deserialize, Serialize};

/// The conditions of a cell. Its `Debug` text is its key among the finished rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) system: System,
    pub(super) network: Network,
    pub(super) clients: usize,
    /// The size of the file, bytes.
    pub(super) bytes: usize,
    /// The congestion control of TCP at every host.
    pub(super) congestion: &'static str,
    /// The seed of the links' losses.
    pub(super) seed: u64,
}

/// The result of a cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Run {
    /// Download time of each client, s.
    pub(super) times: Vec<f64>,
    /// CPU time of servers and caches (not of the clients), s.
    pub(super) cpu: f64,
    /// That of the node or cache at the top alone, s.
    pub(super) cpu_top: f64,
    /// The bytes that have left the server's host, with all headers.
    pub(super) sent: u64,
    /// The lateness of the links at the 99th percentile, ns.
    pub(super) late_p99_ns: u64,
    /// The attempts in which the links were later than a valid value allows.
    #[serde(default)]
    pub(super) late_attempts: usize,
    /// True if the links were late in every attempt. Such a run counts in no claim.
    #[serde(default)]
    pub(super) is_late: bool,
}

impl Run {
    /// Checks that every client and the programs' processor time were measured. A time of 0 would
    /// hold every claim of "at most".
    pub(super) fn check(&self, clients: usize) -> Result<(), String> {
        let is_time = |time: &f64| time.is_finite() && *time > 0.0;
        if self.times.len() != clients || !self.times.iter().all(is_time) {
            return Err(format!(
                "download times {:?} of {clients} clients",
                self.times
            ));
        }
        if self.sent == 0 {
            return Err("no bytes have left the server".to_owned());
        }
        if !is_time(&self.cpu) {
            return Err(format!("processor time {} s", self.cpu));
        }
        Ok(())
    }

    /// Returns the mean download time over the clients, s.
    pub(super) fn mean(&self) -> f64 {
        self.times.iter().sum::<f64>() / self.times.len() as f64
    }
}

/// The name of `larder put` and `larder get` among the applications.
pub(super) const LARDER: &str = "Larder";

/// The program that fetches the file, and the place of the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum System {
    /// lighttpd without a cache.
    Lighttpd { tuned: bool },
    /// lighttpd (tuned) behind Squid: at the top, and at the edges too where there are two levels.
    Squid { levels: u8, setup: SquidSetup },
    /// Larder's node at the server and the top, and at the edges too where there are two levels.
    Larder { levels: u8, faces: Faces },
    /// The same over TCP, tuned: every node and `larder put` use packets larger than NDN's usual
    /// size.
    LarderTuned { levels: u8 },
    /// HTTP over NDN: lighttpd behind Larder's egress gateway at the server, NDN nodes at the top
    /// and the edges, and a node on each client's host, which is wget's proxy. The link from there
    /// to the edge uses reliable datagrams, as the documentation advises for a lossy link.
    Pair,
    /// Squid at two levels, or the pair, with traffic of varied names: each wget fetches its share
    /// of the requests, one after the other.
    Varied { pair: bool, names: VariedNames },
    /// One client under one edge: this producer at the server, this consumer at the client, and
    /// Larder's nodes between them. The names are [`LARDER`], or those of programs in
    /// [`Request::applications`](crate::Request::applications).
    Applications {
        producer: &'static str,
        consumer: &'static str,
    },
}

/// The configuration of Squid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SquidSetup {
    /// As Debian packages it.
    Packaged,
    /// For many connections and files of the experiments' sizes.
    Tuned,
    /// Tuned, and a file is read without a stop. Usually, Squid reads 16 kB ahead of the slowest
    /// client of a file that still arrives: with collapsed forwarding all clients go at that
    /// client's pace. Without the stop, Squid's processor time is up to twice as long.
    ReadsAhead,
}

/// Traffic of varied names. Popularity follows Zipf's law. The sizes are between 1 kB and the
/// cell's `bytes`, uniform in their logarithm.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VariedNames {
    pub(super) objects: u64,
    /// The requests of all clients together.
    pub(super) requests: u64,
    /// The exponent of Zipf's law.
    pub(super) exponent: f64,
}

/// The transport between NDN nodes and clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faces {
    /// TCP, as in the paper: TCP retransmits lost packets.
    Tcp,
    /// Datagrams, with fragments of NDNLPv2. On a client's link both ends retransmit what the link
    /// loses, which `larder get` offers.
    Udp,
}

impl System {
    pub(super) fn name(self) -> String {
        let with_levels = |name: &str, levels: u8| {
            format!(
                "{name}, {levels} level{}",
                if levels == 1 { "" } else { "s" }
            )
        };
        match self {
            System::Lighttpd { tuned: true } => "lighttpd".into(),
            System::Lighttpd { tuned: false } => "lighttpd, as packaged".into(),
            System::Squid { levels, setup } => {
                let name = match setup {
                    SquidSetup::Packaged => "Squid, as packaged",
                    SquidSetup::Tuned => "Squid",
                    SquidSetup::ReadsAhead => "Squid, reads ahead",
                };
                with_levels(name, levels)
            }
            System::Larder {
                levels,
                faces: Faces::Tcp,
            } => with_levels("Larder", levels),
            System::Larder {
                levels,
                faces: Faces::Udp,
            } => with_levels("Larder, UDP", levels),
            System::LarderTuned { levels } => with_levels("Larder, packets of 64 KiB", levels),
            System::Pair => "wget, Larder's pair".into(),
            System::Varied { pair: false, .. } => System::Squid {
                levels: 2,
                setup: SquidSetup::ReadsAhead,
            }
            .name(),
            System::Varied { pair: true, .. } => System::Pair.name(),
            System::Applications { producer, consumer } => format!("{consumer} from {producer}"),
        }
    }
}
