//! Makes the log of a fleet, once. Nodes never do: a log that was lost must not come back empty
//! without anybody noticing. The bucket of the nodes' leases is made with it.

use crate::config::FleetConfig;
use crate::error::Error;
use crate::log_client::{IDENTITY, LogClient, stream_name};
use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{Config, DiscardPolicy, Republish, StorageType};
use larder_fleet::limits::{LEASE, LEASE_LONGEST};
use larder_fleet::members_bucket;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// The settings of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Servers that have a copy: 1, 3 or 5.
    pub replicas: usize,
    /// The time for which entries are kept. A node that was away for longer validates all that it
    /// has stored.
    pub keep: Duration,
    /// The most bytes that are kept.
    pub bytes: u64,
}

impl Default for LogSettings {
    fn default() -> LogSettings {
        LogSettings {
            replicas: 3,
            keep: Duration::from_secs(7 * 24 * 3600),
            bytes: 1 << 30,
        }
    }
}

/// The log, as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The name of its stream.
    pub stream: String,
    /// Its random identity.
    pub identity: String,
    /// The number of servers that have a copy.
    pub replicas: usize,
    /// True if it was there before.
    pub existed: bool,
    /// The version of the server that answered.
    pub server: String,
}

/// Makes the log, unless it is there. It runs on a runtime of its own.
///
/// # Errors
/// One line: no server answers, it is too old, it refuses, or the log has other settings.
pub fn create_log(config: &FleetConfig, settings: LogSettings) -> Result<Created, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(Error::Thread)?;
    let created = runtime.block_on(create(config, settings));
    runtime.shutdown_background();
    created
}

async fn create(config: &FleetConfig, settings: LogSettings) -> Result<Created, Error> {
    let (events, _received) = mpsc::unbounded_channel();
    let client = LogClient::connect(config, false, events).await?;
    if let Some(version) = client.is_too_old() {
        return Err(Error::Version(version));
    }
    let name = stream_name(&config.name);
    let server = client.version();
    if let Ok(stream) = client.context().get_stream(&name).await {
        let found = stream.cached_info();
        let wanted = stream_config(&config.name, settings, "");
        differs(&wanted, &found.config).map_or(Ok(()), |what| Err(Error::Differs(what)))?;
        make_bucket(client.context(), &config.name, settings.replicas).await?;
        let identity = found.config.metadata.get(IDENTITY).cloned();
        return Ok(Created {
            stream: name,
            identity: identity.unwrap_or_default(),
            replicas: found.config.num_replicas,
            existed: true,
            server,
        });
    }
    let [high, low] = larder_host::entropy::words();
    let identity = format!("{high:016x}{low:016x}");
    let wanted = stream_config(&config.name, settings, &identity);
    let made = client.context().create_stream(wanted).await;
    let made = made.map_err(|error| Error::Server(error.to_string()))?;
    make_bucket(client.context(), &config.name, settings.replicas).await?;
    Ok(Created {
        stream: name,
        identity,
        replicas: made.cached_info().config.num_replicas,
        existed: false,
        server,
    })
}

/// Makes the key-value bucket of the nodes' leases. One that is there learns how long leases last.
/// Leases come again within seconds, so they are kept in memory, and nothing is synced for them.
async fn make_bucket(context: &Context, fleet: &str, replicas: usize) -> Result<(), Error> {
    let bucket = members_bucket(fleet);
    let name = format!("KV_{bucket}");
    let failed = |error: &dyn std::fmt::Display| {
        Error::Server(format!(
            "the log is there, the list of members is not as it should be: {error}"
        ))
    };
    if let Ok(found) = context.get_stream(&name).await {
        let mut config = found.cached_info().config.clone();
        if config.max_age != LEASE_LONGEST {
            config.max_age = LEASE_LONGEST;
            let updated = context.update_stream(config).await;
            updated.map_err(|error| failed(&error))?;
        }
        return Ok(());
    }
    let wanted = Config {
        name,
        subjects: vec![format!("$KV.{bucket}.>")],
        storage: StorageType::Memory,
        num_replicas: replicas,
        max_age: LEASE_LONGEST,
        max_messages_per_subject: 1,
        // As the tools for such buckets expect it.
        discard: DiscardPolicy::New,
        duplicate_window: LEASE,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        ..Config::default()
    };
    let made = context.create_stream(wanted).await;
    made.map(|_| ()).map_err(|error| failed(&error))
}

fn stream_config(fleet: &str, settings: LogSettings, identity: &str) -> Config {
    let subject = |name: &str| format!("larder.{fleet}.{name}");
    Config {
        name: stream_name(fleet),
        subjects: vec![subject("purge"), subject("beat.*"), subject("barrier")],
        storage: StorageType::File,
        num_replicas: settings.replicas,
        max_age: settings.keep,
        max_bytes: i64::try_from(settings.bytes).unwrap_or(i64::MAX),
        discard: DiscardPolicy::Old,
        // A purge is repeated with its id for less than this.
        duplicate_window: Duration::from_secs(120),
        deny_delete: true,
        deny_purge: true,
        allow_direct: true,
        republish: Some(Republish {
            source: format!("larder.{fleet}.>"),
            destination: format!("larder.{fleet}.log.>"),
            headers_only: false,
        }),
        metadata: HashMap::from([(IDENTITY.to_owned(), identity.to_owned())]),
        ..Config::default()
    }
}

/// Returns the first setting that nodes rely on and that differs.
fn differs(wanted: &Config, found: &Config) -> Option<String> {
    let mut subjects = [wanted.subjects.clone(), found.subjects.clone()];
    for subjects in &mut subjects {
        subjects.sort();
    }
    if subjects[0] != subjects[1] {
        return Some(format!("subjects {:?}", found.subjects));
    }
    if wanted.republish != found.republish {
        return Some("it does not republish its entries as nodes need it".to_owned());
    }
    if found.storage != wanted.storage {
        return Some("it is kept in memory".to_owned());
    }
    if found.discard != wanted.discard {
        return Some("it refuses new entries when it is full".to_owned());
    }
    if found.max_age != wanted.max_age || found.max_bytes != wanted.max_bytes {
        return Some(format!(
            "it keeps {:?} and {} bytes",
            found.max_age, found.max_bytes
        ));
    }
    if !found.allow_direct {
        return Some("it forbids direct reads".to_owned());
    }
    if found.num_replicas != wanted.num_replicas {
        return Some(format!("{} replicas", found.num_replicas));
    }
    None
}
