//! `[fleet]`: the fleet that the node belongs to (`larder-fleet-host`).

use super::Config;
use larder_fleet_host::{FleetConfig, FleetTls, OnPartition, PeerOffer};
use larder_host::ListenAddress;
use larder_proxy::{CertificateFiles, HttpConfig, PeersConfig};
use larder_units::{from_text, parse_duration};
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `[fleet]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct FleetTable {
    /// The name of the fleet.
    #[serde(deserialize_with = "name")]
    pub name: String,
    /// The name of the node; `None` for that of the host.
    #[serde(default, deserialize_with = "optional_name")]
    pub node: Option<String>,
    /// The servers of NATS.
    #[serde(deserialize_with = "servers")]
    pub nats: Vec<String>,
    /// PEM file of the authorities of their certificates.
    pub ca: Option<PathBuf>,
    /// PEM file of the node's certificate.
    pub certificate: Option<PathBuf>,
    /// PEM file of its key.
    pub key: Option<PathBuf>,
    /// File with `USER:PASSWORD` or a token.
    pub credentials: Option<PathBuf>,
    /// See [`FleetConfig::invalidate`].
    #[serde(default)]
    pub invalidate: bool,
    /// The folder of the outbox and the position.
    pub folder: Option<PathBuf>,
    /// See [`FleetConfig::max_lag`].
    #[serde(default = "max_lag", deserialize_with = "lag")]
    pub max_lag: Duration,
    /// See [`FleetConfig::on_partition`].
    #[serde(default)]
    pub on_partition: Partition,
    /// `[fleet.peers]`: the node shares its responses with the others of its zone.
    pub peers: Option<PeersTable>,
}

/// `[fleet.peers]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct PeersTable {
    /// Where the node answers the others.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// The address that the others use; `None` for that of `listen`.
    #[serde(default, deserialize_with = "optional_address")]
    pub address: Option<SocketAddr>,
    /// Nodes of one zone share their responses.
    #[serde(default, deserialize_with = "optional_name")]
    pub zone: Option<String>,
    /// PEM file of the fleet's authority.
    pub ca: PathBuf,
    /// PEM file of the node's certificate.
    pub certificate: PathBuf,
    /// PEM file of its key.
    pub key: PathBuf,
}

/// `revalidate` or `serve`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Partition {
    /// See [`OnPartition::Revalidate`].
    #[default]
    Revalidate,
    /// See [`OnPartition::Serve`].
    Serve,
}

impl FleetTable {
    /// Returns the configuration of the member, whose cache has this configuration.
    pub fn config(&self, http: &HttpConfig) -> FleetConfig {
        let disk = http.disk.as_ref();
        let beside = disk.map(|disk| {
            let mut beside = disk.path.as_os_str().to_owned();
            beside.push(".fleet");
            PathBuf::from(beside)
        });
        FleetConfig {
            name: self.name.clone(),
            node: self.node.clone().unwrap_or_else(host_name),
            servers: self.nats.clone(),
            tls: FleetTls {
                ca: self.ca.clone(),
                identity: self.certificate.clone().zip(self.key.clone()),
            },
            credentials: self.credentials.clone(),
            max_lag: self.max_lag,
            on_partition: match self.on_partition {
                Partition::Revalidate => OnPartition::Revalidate,
                Partition::Serve => OnPartition::Serve,
            },
            invalidate: self.invalidate,
            folder: self.folder.clone().or(beside),
            has_disk: disk.is_some(),
            offer: self.peers.as_ref().map(|peers| PeerOffer {
                address: peers.address.unwrap_or(peers.listen),
                capacity: http.cache.capacity.bytes()
                    + disk.map_or(0, |disk| disk.capacity.bytes()),
                zone: peers.zone.clone().unwrap_or_default(),
            }),
        }
    }

    /// Returns where the node answers the others, if it does.
    pub(super) fn peers(&self) -> Option<PeersConfig> {
        let peers = self.peers.as_ref()?;
        Some(PeersConfig {
            listen: ListenAddress::Tcp(peers.listen).into(),
            ca: peers.ca.clone(),
            certificate: CertificateFiles {
                certificate: peers.certificate.clone(),
                key: peers.key.clone(),
            },
        })
    }

    /// Returns the files that a start reads, each with its setting.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("[fleet] ca", &self.ca),
            ("[fleet] certificate", &self.certificate),
            ("[fleet] key", &self.key),
            ("[fleet] credentials", &self.credentials),
        ];
        let of_peers = self.peers.iter().flat_map(|peers| {
            [
                ("[fleet.peers] ca", &*peers.ca),
                ("[fleet.peers] certificate", &*peers.certificate),
                ("[fleet.peers] key", &*peers.key),
            ]
        });
        files
            .into_iter()
            .filter_map(|(setting, path)| Some((setting, path.as_deref()?)))
            .chain(of_peers)
    }
}

/// Returns settings of this table that exclude others, or that need others.
pub(super) fn contradictions(config: &Config) -> Vec<String> {
    let mut problems = Vec::new();
    let Some(fleet) = &config.fleet else {
        return problems;
    };
    if fleet.certificate.is_some() != fleet.key.is_some() {
        problems.push("[fleet] certificate and key need each other: set both, or none".to_owned());
    }
    if !config.http.enabled {
        problems.push(
            "[fleet]: nodes share purges of the HTTP cache, and [http] enabled is false".to_owned(),
        );
    }
    if fleet.peers.is_some() && !fleet.invalidate {
        problems.push(
            "[fleet] invalidate: nodes that share their responses need it: set invalidate = true, or a node would \
             get what one of its clients has changed from another node"
                .to_owned(),
        );
    }
    let node = fleet.node.clone().unwrap_or_else(host_name);
    if fleet.peers.is_some() && !larder_fleet_host::is_peer_name(&node) {
        problems.push(format!(
            "[fleet] node: \"{node}\" cannot stand in a certificate as the name of a host: nodes that share their \
             responses need up to 63 letters, digits, \"-\" and \"_\", not only digits, and no \"-\" at an end"
        ));
    }
    if let Some(peers) = &fleet.peers
        && peers.address.is_none()
        && (peers.listen.ip().is_unspecified() || peers.listen.port() == 0)
    {
        problems.push(format!(
            "[fleet.peers] address: it is needed, because listen = \"{}\" tells the other nodes no address: set the \
             one at which they reach this node",
            peers.listen
        ));
    }
    problems
}

/// Returns the name of the host up to its first dot, with `-` for what no name may have.
fn host_name() -> String {
    let uname = rustix::system::uname();
    let full = uname.nodename().to_string_lossy();
    let first = full.split('.').next().unwrap_or_default();
    let name: String = first
        .chars()
        .take(larder_fleet_host::limits::NAME_BYTES)
        .map(|letter| if is_of_name(letter) { letter } else { '-' })
        .collect();
    if name.is_empty() {
        "node".to_owned()
    } else {
        name
    }
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || letter == '_'
}

fn parse_name(text: &str) -> Result<String, String> {
    if larder_fleet_host::is_name(text) {
        return Ok(text.to_owned());
    }
    Err("expected 1 to 64 letters, digits, \"-\" and \"_\", such as \"fra-1\"".to_owned())
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    from_text(deserializer, parse_name)
}

fn optional_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    from_text(deserializer, |text| match text {
        "" => Ok(None),
        text => parse_name(text).map(Some),
    })
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected an address and a port, such as \"10.0.0.1:7443\"";
    text.parse().map_err(|_| expected.to_owned())
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    from_text(deserializer, parse_address)
}

fn optional_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    from_text(deserializer, |text| match text {
        "" => Ok(None),
        text => parse_address(text).map(Some),
    })
}

fn servers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let servers = Vec::<String>::deserialize(deserializer)?;
    let expected = "expected servers of NATS, such as [\"nats://10.0.0.1:4222\"]";
    let is_server = |text: &&String| larder_fleet_host::is_server(text);
    match servers.iter().find(|text| !is_server(text)) {
        // The text may have a password, which belongs into `credentials`.
        Some(_) => Err(serde::de::Error::custom(format!("nats: {expected}"))),
        None if servers.is_empty() => Err(serde::de::Error::custom(format!("nats: {expected}"))),
        None => Ok(servers),
    }
}

fn max_lag() -> Duration {
    Duration::from_secs(30)
}

fn lag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let least = larder_fleet_host::limits::LEAST_LAG;
    from_text(deserializer, |text| match parse_duration(text) {
        Ok(lag) if lag >= least => Ok(lag),
        Ok(_) => Err("expected 1s or more".to_owned()),
        Err(error) => Err(error.to_string()),
    })
}
