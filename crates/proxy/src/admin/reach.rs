//! Tries whether servers can be reached, as for a request and without one: `larder doctor`.

use crate::config::http_config::HttpConfig;
use crate::exchange::upstream::rest_of;
use crate::origin::dial::{Address, Connected, first_of};
use crate::origin::dns::{Dns, NotFound};
use crate::origin::trust::Trust;
use ::http::Uri;
use ::http::uri::Scheme;
use larder_units::system_message;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// The most attempts at once: each has a few descriptors, and perhaps a thread for its name.
const AT_ONCE: usize = 128;

/// What an attempt to reach a server found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It accepts connections; its certificate is trusted if it has to have one.
    Reached {
        /// The address of its name, if it has a name.
        address: Option<IpAddr>,
    },
    /// It accepts no connection: the reason in words.
    Failed(String),
    /// It accepts connections, and not the handshake of TLS: the reason in words.
    NotSecure(String),
    /// Its connections use TLS, and no certificates can be read that would verify it.
    NotTried,
}

/// Tries the servers of all origins: those of `origins` in their order, then that of all other
/// requests. An attempt takes at most `time`.
///
/// # Errors
/// The system has no resources for connections.
pub fn reach_servers(config: &HttpConfig, time: Duration) -> io::Result<Vec<Vec<(Uri, Reach)>>> {
    let rest = rest_of(config);
    let groups = || config.origins.iter().chain([&rest]);
    let is_secret = |uri: &Uri| uri.scheme() == Some(&Scheme::HTTPS);
    let speaks_tls = groups().any(|group| group.servers.iter().any(|one| is_secret(&one.uri)));
    let trust = speaks_tls.then(|| Trust::read(config.origin_ca.as_deref()).ok());
    let trust = trust.flatten().map(|trust| trust.config);
    let dns = Arc::new(Dns::new(config.resolver.clone()));
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut found: Vec<Vec<_>> = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut attempts = JoinSet::new();
        for (at, group) in groups().enumerate() {
            let servers = group.servers.iter();
            found.push(
                servers
                    .map(|one| (one.uri.clone(), Reach::NotTried))
                    .collect(),
            );
            for (number, one) in group.servers.iter().enumerate() {
                let Some(mut address) = Address::new(&one.uri, trust.as_ref()) else {
                    continue;
                };
                address.set_protocol(group.protocol);
                let names = one.resolve.then(|| Arc::clone(&dns));
                let places = Arc::clone(&places);
                attempts.spawn(async move {
                    let _place = places.acquire().await;
                    (at, number, reach(&address, names, time).await)
                });
            }
        }
        while let Some(attempt) = attempts.join_next().await {
            if let Ok((at, number, reach)) = attempt {
                found[at][number].1 = reach;
            }
        }
    });
    // A name that the system still looks up is not waited for.
    runtime.shutdown_background();
    Ok(found)
}

/// Tries one server. `names` resolves its name; `None`: the system does.
async fn reach(address: &Address, names: Option<Arc<Dns>>, time: Duration) -> Reach {
    let end = Instant::now() + time;
    let (stream, at) = match timeout_at(end, connect(address, names, time)).await {
        Ok(Ok(connected)) => connected,
        Ok(Err(reason)) => return Reach::Failed(reason),
        Err(_) => return Reach::Failed(format!("no answer within {time:?}")),
    };
    match timeout_at(end, address.secure(stream, true)).await {
        Ok(Ok(_)) => Reach::Reached { address: at },
        Ok(Err(error)) => Reach::NotSecure(system_message(&error)),
        Err(_) => Reach::NotSecure(format!("no answer within {time:?}")),
    }
}

/// Connects. Also returns the address that a name has.
async fn connect(
    address: &Address,
    names: Option<Arc<Dns>>,
    time: Duration,
) -> Result<(Box<dyn Connected>, Option<IpAddr>), String> {
    let message = |error: io::Error| system_message(&error);
    let Some((host, port)) = address.tcp() else {
        let stream = address.open(time).await.map_err(message)?;
        return Ok((stream, None));
    };
    let no_address = |reason: String| format!("its name has no address: {reason}");
    let addresses: Vec<SocketAddr> = match names.filter(|_| address.host().is_some()) {
        Some(names) => {
            let found = names.resolve(host).await.map_err(|error| match error {
                NotFound::NoAddress => no_address("its name servers know none".to_owned()),
                NotFound::Failed(reason) => no_address(reason),
            })?;
            let all = [found.v4, found.v6].into_iter().flatten().flatten();
            all.map(|ip| SocketAddr::new(ip, port)).collect()
        }
        None => tokio::net::lookup_host((host, port))
            .await
            .map_err(|error| no_address(message(error)))?
            .collect(),
    };
    let stream = first_of(&addresses, time).await.map_err(message)?;
    let of_name = address.host().and_then(|_| stream.peer_addr().ok());
    Ok((Box::new(stream), of_name.map(|peer| peer.ip())))
}
