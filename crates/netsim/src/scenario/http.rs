//! The HTTP hosts of a scenario.

use super::file::{ScenarioError, ScenarioFile};
use super::nodes::{find, matches, no_node};
use super::tables::{HttpClientTable, HttpPurgeTable, HttpRandomizeTable};
use crate::apps::{Names, ZipfMandelbrot};
use crate::tcp::{
    CacheConfig, ClientConfig, Congestion, HostId, HttpPurge, OriginConfig, TcpConfig,
};
use crate::{ConfigError, NodeId, Simulation, limits};
use larder_units::{Time, format_duration};
use std::collections::HashMap;
use toml::Spanned;

/// A host of a scenario.
pub(super) struct PlacedHost {
    /// The name in the figures, such as `http-client c0`.
    pub(super) label: String,
    pub(super) kind: HostKind,
    pub(super) host: HostId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostKind {
    Origin,
    Cache,
    Client,
}

/// Adds origins, then the caches behind them, then clients.
pub(super) fn make_hosts(
    scenario: &ScenarioFile,
    network: &mut Simulation,
) -> Result<Vec<PlacedHost>, ScenarioError> {
    let mut builder = HostBuilder {
        scenario,
        network,
        hosts: Vec::new(),
        servers: Vec::new(),
        labels: HashMap::new(),
    };
    for table in &scenario.tables.http_origin {
        let node = builder.server_at(&table.node)?;
        let same_for_ever = OriginConfig::new(table.size);
        let config = OriginConfig {
            max_age: table.max_age.unwrap_or(same_for_ever.max_age),
            changes: table.changes,
            etag: table.etag,
            variants: table.variants,
            stale_while_revalidate: table.stale_while_revalidate,
            stale_if_error: table.stale_if_error,
            ..same_for_ever
        };
        let made = builder
            .network
            .add_http_origin(node, config, tcp(table.congestion));
        builder.add_server(&table.node, node, HostKind::Origin, made)?;
    }
    builder.caches()?;
    for table in &scenario.tables.http_client {
        builder.clients(table)?;
    }
    for table in &scenario.tables.http_purge {
        builder.purge(table)?;
    }
    Ok(builder.hosts)
}

fn tcp(congestion: Congestion) -> TcpConfig {
    TcpConfig {
        congestion,
        ..TcpConfig::default()
    }
}

struct HostBuilder<'a> {
    scenario: &'a ScenarioFile,
    network: &'a mut Simulation,
    hosts: Vec<PlacedHost>,
    /// Origins and caches, at most one per node.
    servers: Vec<(NodeId, HostId)>,
    /// The number of hosts of each name.
    labels: HashMap<String, u32>,
}

impl HostBuilder<'_> {
    /// Adds each cache after its upstream.
    fn caches(&mut self) -> Result<(), ScenarioError> {
        let scenario = self.scenario;
        let mut left: Vec<_> = scenario.tables.http_cache.iter().collect();
        while !left.is_empty() {
            let before = left.len();
            let mut later = Vec::new();
            for table in left {
                let upstream = find(scenario, self.network, &table.upstream)?;
                let Some(upstream) = self.server(upstream) else {
                    later.push(table);
                    continue;
                };
                let node = self.server_at(&table.node)?;
                let config = CacheConfig {
                    upstream,
                    policy: table
                        .policy
                        .clone()
                        .unwrap_or_else(|| "lru".parse().expect("a policy of the registry")),
                    capacity: table.capacity,
                    collapse: table.collapse,
                    keep_alive: table.keep_alive,
                    timeout: table.timeout,
                };
                let made = self
                    .network
                    .add_http_cache(node, config, tcp(table.congestion));
                self.add_server(&table.node, node, HostKind::Cache, made)?;
            }
            if later.len() == before {
                return Err(self.no_server(&later[0].upstream));
            }
            left = later;
        }
        Ok(())
    }

    fn clients(&mut self, table: &HttpClientTable) -> Result<(), ScenarioError> {
        let scenario = self.scenario;
        let at = find(scenario, self.network, &table.server)?;
        let Some(server) = self.server(at) else {
            return Err(self.no_server(&table.server));
        };
        if let Some(frequency) = &table.frequency
            && !(*frequency.get_ref() > 0.0 && *frequency.get_ref() <= limits::FREQUENCY)
        {
            let (found, most) = (frequency.get_ref(), limits::FREQUENCY);
            let what =
                format!("{found} requests per second: expected more than 0, {most:e} at most");
            return Err(scenario.fault(&frequency.span(), what));
        }
        let frequency = table
            .frequency
            .as_ref()
            .map(|frequency| *frequency.get_ref());
        let objects = table.zipf.map_or(Names::Sequence { end: None }, |zipf| {
            Names::Popularity(ZipfMandelbrot::new(zipf.contents, zipf.q, zipf.s))
        });
        for node in self.nodes(&table.node)? {
            let config = ClientConfig {
                objects: objects.clone(),
                requests: table.requests.or(frequency.is_none().then_some(1)),
                frequency,
                randomize: table.randomize == HttpRandomizeTable::Exponential,
                keep_alive: table.keep_alive,
                variants: table.variants,
                writes: table.writes,
                timeout: table.timeout,
                start: Time::ZERO + table.start,
                ..ClientConfig::one_file(server)
            };
            let made = self
                .network
                .add_http_client(node, config, TcpConfig::default());
            self.add(&table.node, node, HostKind::Client, made)?;
        }
        Ok(())
    }

    fn purge(&mut self, table: &Spanned<HttpPurgeTable>) -> Result<(), ScenarioError> {
        let (scenario, span, table) = (self.scenario, table.span(), table.get_ref());
        if table.at > scenario.tables.duration {
            let (at, end) = (
                format_duration(table.at),
                format_duration(scenario.tables.duration),
            );
            return Err(scenario.fault(
                &span,
                format_args!("a purge at {at}, after the end at {end}"),
            ));
        }
        let node = find(scenario, self.network, &table.node)?;
        let cache = self
            .server(node)
            .filter(|server| self.network.http_cache(*server).is_some());
        let Some(cache) = cache else {
            let what = format!("no [[http-cache]] at {}", table.node.get_ref());
            return Err(scenario.fault(&table.node.span(), what));
        };
        let purge = HttpPurge {
            object: table.object,
            soft: table.soft,
        };
        self.network
            .plan_http_purge(Time::ZERO + table.at, cache, purge);
        Ok(())
    }

    fn nodes(&self, at: &Spanned<String>) -> Result<Vec<NodeId>, ScenarioError> {
        let pattern = at.get_ref().as_str();
        if !pattern.contains('*') {
            return Ok(vec![find(self.scenario, self.network, at)?]);
        }
        let all = || {
            self.network
                .nodes()
                .map(|node| (node, self.network.node_name(node)))
        };
        let nodes: Vec<NodeId> = all()
            .filter(|(_, name)| matches(pattern, name))
            .map(|(node, _)| node)
            .collect();
        if nodes.is_empty() {
            Err(no_node(
                self.scenario,
                &at.span(),
                pattern,
                all().map(|(_, name)| name),
            ))
        } else {
            Ok(nodes)
        }
    }

    fn server(&self, node: NodeId) -> Option<HostId> {
        self.servers
            .iter()
            .find(|(at, _)| *at == node)
            .map(|(_, host)| *host)
    }

    /// Returns the node for a new cache or origin. A node has at most one, since `server` and
    /// `upstream` name nodes.
    fn server_at(&self, at: &Spanned<String>) -> Result<NodeId, ScenarioError> {
        let node = find(self.scenario, self.network, at)?;
        match self.server(node) {
            Some(_) => Err(self.scenario.fault(
                &at.span(),
                format_args!(
                    "a second HTTP server at {}: link a node of its own to it",
                    at.get_ref()
                ),
            )),
            None => Ok(node),
        }
    }

    fn no_server(&self, at: &Spanned<String>) -> ScenarioError {
        let names: Vec<&str> = self
            .servers
            .iter()
            .map(|(node, _)| self.network.node_name(*node))
            .take(20)
            .collect();
        let known = if names.is_empty() {
            "there is no [[http-origin]]".to_owned()
        } else {
            format!("there is one at {}", names.join(", "))
        };
        let what = format!(
            "no origin, and no cache that leads to one, at {}; {known}",
            at.get_ref()
        );
        self.scenario.fault(&at.span(), what)
    }

    fn add_server(
        &mut self,
        at: &Spanned<String>,
        node: NodeId,
        kind: HostKind,
        made: Result<HostId, ConfigError>,
    ) -> Result<(), ScenarioError> {
        let host = self.add(at, node, kind, made)?;
        self.servers.push((node, host));
        Ok(())
    }

    fn add(
        &mut self,
        at: &Spanned<String>,
        node: NodeId,
        kind: HostKind,
        made: Result<HostId, ConfigError>,
    ) -> Result<HostId, ScenarioError> {
        let host = made.map_err(|error| self.scenario.fault(&at.span(), error))?;
        let name = match kind {
            HostKind::Origin => "http-origin",
            HostKind::Cache => "http-cache",
            HostKind::Client => "http-client",
        };
        let mut label = format!("{name} {}", self.network.node_name(node));
        let same = self.labels.entry(label.clone()).or_default();
        *same += 1;
        if *same > 1 {
            label = format!("{label} ({same})");
        }
        self.hosts.push(PlacedHost { label, kind, host });
        Ok(host)
    }
}
