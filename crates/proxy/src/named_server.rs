//! A server by name (`resolve = true`): its pool has a member for each address of the name. The
//! addresses are resolved again when their TTL ends (`servers/name.rs`), by a task of its own
//! (`upstream.rs`): a request never waits for that, except for the first addresses.

use super::config::PoolServer;
use super::connections::Server;
use super::dns::{Found, NotFound};
use super::limits;
use super::servers::{self, Addresses, Event, Known, MemberConfig, NameFigures, OfName, SharedPool};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A name, and the settings of the members at its addresses.
pub(super) struct NamedServer {
    /// Its number in the pool.
    number: usize,
    /// The name and the port, as configured.
    name: Arc<str>,
    /// The name itself.
    host: String,
    /// The server without an address.
    template: Server,
    member: MemberConfig,
    addresses: Mutex<Addresses>,
}

/// The configuration of a member.
pub(super) fn member_config(server: &PoolServer, name: &str) -> MemberConfig {
    let PoolServer { weight, is_backup, max_conns, .. } = *server;
    MemberConfig { hash: servers::key(&[name.as_bytes()]), weight, is_backup, max_conns }
}

impl NamedServer {
    /// Creates the server with this name. `before`: the same name in an earlier pool, whose members
    /// it takes over.
    pub(super) fn new(
        number: usize,
        config: &PoolServer,
        (host, template): (String, Server),
        pool: &SharedPool,
        before: Option<(&NamedServer, &SharedPool)>,
    ) -> NamedServer {
        let member = member_config(config, &template.address.name);
        let name = Arc::from(template.address.name.as_str());
        let used = before.map_or(Vec::new(), |(before, _)| before.lock().used().to_vec());
        let addresses = Mutex::new(Addresses::new(used.clone()));
        let server = NamedServer { number, name, host, template, member, addresses };
        if let Some((before, pool_before)) = before {
            used.into_iter().for_each(|address| server.take_over(address, pool, before, pool_before));
        }
        server
    }

    /// Returns true if it has the same name and the same settings of connections.
    pub(super) fn is_like(&self, server: &Server) -> bool {
        self.template.is_like(server)
    }

    /// Returns the name to resolve.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Returns true before the first result.
    pub(super) fn is_pending(&self) -> bool {
        self.lock().is_pending()
    }

    /// Makes the name due.
    pub(super) fn expire(&self) {
        self.lock().expire();
    }

    /// Returns true if the name has to be resolved now.
    pub(super) fn begin(&self, pool: &SharedPool) -> bool {
        self.lock().begin(pool.now())
    }

    /// Returns the name as configured, and its counts.
    pub(super) fn figures(&self) -> (&Arc<str>, NameFigures) {
        (&self.name, self.lock().figures())
    }

    /// Changes the members as the result of a resolution says.
    pub(super) fn on_result(&self, result: Result<Found, NotFound>, pool: &SharedPool) {
        let now = pool.now();
        let mut addresses = self.lock();
        let mut members = pool.pool();
        let others = members.items().filter(|known| !self.is_its(known)).count();
        let update = addresses.on_result(result, limits::SERVERS.saturating_sub(others), now);
        members.retain(|known| !update.gone.iter().any(|address| self.is_at(known, *address)));
        for address in &update.joined {
            let (known, config) = self.at(*address);
            match update.is_first {
                true => members.add(known, config, None, now),
                false => members.join(known, config, now),
            };
        }
        drop(members);
        self.report(update.event, &addresses.figures());
        if !update.joined.is_empty() || !update.gone.is_empty() {
            let (origin, joined, gone) = (&self.name, &update.joined, &update.gone);
            tracing::debug!(%origin, ?joined, ?gone, "the addresses of a server have changed");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Addresses> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, address: IpAddr) -> (Arc<Known>, MemberConfig) {
        self.known(Arc::new(self.template.at(address)), address)
    }

    fn known(&self, server: Arc<Server>, address: IpAddr) -> (Arc<Known>, MemberConfig) {
        let hash = servers::key(&[server.address.name.as_bytes()]);
        let of_name = OfName { number: self.number, host: Arc::clone(&self.name), address };
        (Arc::new(Known::new(server, Some(of_name))), MemberConfig { hash, ..self.member })
    }

    /// Adds a member of an earlier pool, with its connections, health and counts.
    fn take_over(&self, address: IpAddr, pool: &SharedPool, before: &NamedServer, pool_before: &SharedPool) {
        let is_it = |known: &Arc<Known>| before.is_at(known, address);
        let (kept, past) = {
            let members = pool_before.pool();
            (members.items().find(|known| is_it(known)).map(Arc::clone), members.past(is_it))
        };
        let (known, config) = match kept {
            Some(kept) => self.known(Arc::clone(&kept.server), address),
            None => self.at(address),
        };
        let now = pool.now();
        pool.pool().add(known, config, past.as_ref(), now);
    }

    fn is_its(&self, known: &Arc<Known>) -> bool {
        known.of_name.as_ref().is_some_and(|of_name| of_name.number == self.number)
    }

    fn is_at(&self, known: &Arc<Known>, address: IpAddr) -> bool {
        self.is_its(known) && known.of_name.as_ref().is_some_and(|of_name| of_name.address == address)
    }

    fn report(&self, event: Option<Event>, figures: &NameFigures) {
        let origin = &self.name;
        match event {
            None => {}
            Some(Event::Failed) => {
                let reason = figures.failure.as_deref().unwrap_or_default();
                let used = figures.used;
                tracing::warn!(%origin, %reason, used, "a name cannot be resolved; its last addresses stay in use");
            }
            Some(Event::Resolved) => tracing::info!(%origin, used = figures.used, "a name can be resolved again"),
            Some(Event::TooMany) => {
                let (used, left_out) = (figures.used, figures.left_out);
                tracing::warn!(%origin, used, left_out, "a name has more addresses than one origin may have servers");
            }
        }
    }
}
