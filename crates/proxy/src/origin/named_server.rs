//! A server by name (`resolve = true`): its pool has a member for each address of the name. The
//! addresses are resolved again when their TTL ends (`servers/name.rs`), by a task of its own
//! (`upstream.rs`): a request never waits for that, except for the first addresses.

use crate::base::limits;
use crate::origin::connections::Server;
use crate::origin::dns::{Found, NotFound};
use crate::origin::origin_config::PoolServer;
use crate::origin::servers;
use crate::origin::servers::{
    Addresses, Event, Known, MemberConfig, NameFigures, OfName, SharedPool,
};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A name, and the settings of the members at its addresses.
pub(crate) struct NamedServer {
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
pub(crate) fn member_config(server: &PoolServer, name: &str) -> MemberConfig {
    let PoolServer {
        weight,
        is_backup,
        max_conns,
        ..
    } = *server;
    MemberConfig {
        hash: servers::key(&[name.as_bytes()]),
        weight,
        is_backup,
        max_conns,
    }
}

impl NamedServer {
    /// Creates the server with this name.
    pub(crate) fn new(
        number: usize,
        config: &PoolServer,
        (host, template): (String, Server),
    ) -> NamedServer {
        let member = member_config(config, &template.address.name);
        let name = Arc::from(template.address.name.as_str());
        NamedServer {
            number,
            name,
            host,
            template,
            member,
            addresses: Mutex::default(),
        }
    }

    /// Takes over the addresses of the same name in an earlier pool, at most `room`, so that a
    /// reload needs no name server. If the connections have the same settings and `is_trust_same`,
    /// it also takes over connections, health and counts.
    pub(crate) fn take_over(
        &self,
        (pool, before): (&SharedPool, &SharedPool),
        names_before: &[NamedServer],
        room: usize,
        is_trust_same: bool,
    ) {
        let like = names_before
            .iter()
            .find(|name| name.template.is_like(&self.template));
        let Some(name) = like.or_else(|| names_before.iter().find(|name| name.host == self.host))
        else {
            return;
        };
        let keeps = is_trust_same && like.is_some();
        let mut used = name.lock().used().to_vec();
        used.truncate(room);
        used.retain(|address| {
            let is_it = |known: &Arc<Known>| keeps && name.is_at(known, *address);
            let (kept, past) = {
                let members = before.pool();
                (
                    members.items().find(|known| is_it(known)).map(Arc::clone),
                    members.past(is_it),
                )
            };
            let known = self.known(*address, kept);
            let (config, now) = (self.config(&known), pool.now());
            pool.pool().add(known, config, past.as_ref(), now)
        });
        *self.lock() = Addresses::new(used);
    }

    /// Returns the name to resolve.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns true before the first result.
    pub(crate) fn is_pending(&self) -> bool {
        self.lock().is_pending()
    }

    /// Makes the name due.
    pub(crate) fn expire(&self) {
        self.lock().expire();
    }

    /// Returns true if the name has to be resolved now.
    pub(crate) fn begin(&self, pool: &SharedPool) -> bool {
        self.lock().begin(pool.now())
    }

    /// Returns the name as configured, and its counts.
    pub(crate) fn figures(&self) -> (&Arc<str>, NameFigures) {
        (&self.name, self.lock().figures())
    }

    /// Changes the members as the result of a resolution says. `names`: the names of the pool.
    /// Takes the lock of the name before the pool's.
    pub(crate) fn on_result(
        &self,
        result: Result<Found, NotFound>,
        pool: &SharedPool,
        names: usize,
    ) {
        let now = pool.now();
        let mut addresses = self.lock();
        let mut members = pool.pool();
        // Each other name without a member has one place.
        let others: Vec<_> = members
            .items()
            .filter(|known| !self.is_its(known))
            .map(number)
            .collect();
        let present = others.iter().flatten().collect::<BTreeSet<_>>().len();
        let taken = others.len() + names.saturating_sub(1 + present);
        let update = addresses.on_result(result, limits::SERVERS.saturating_sub(taken), now);
        members.retain(|known| {
            !update
                .gone
                .iter()
                .any(|address| self.is_at(known, *address))
        });
        for address in &update.joined {
            let known = self.known(*address, None);
            let config = self.config(&known);
            if update.is_first {
                members.add(known, config, None, now)
            } else {
                members.join(known, config, now)
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
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the server at an address. `before`: the same one in an earlier pool.
    fn known(&self, address: IpAddr, before: Option<Arc<Known>>) -> Arc<Known> {
        let of_name = OfName {
            number: self.number,
            host: Arc::clone(&self.name),
            address,
        };
        match before {
            Some(before) if before.of_name.as_ref() == Some(&of_name) => before,
            Some(before) => Arc::new(Known::new(Arc::clone(&before.server), Some(of_name))),
            None => Arc::new(Known::new(
                Arc::new(self.template.at(address)),
                Some(of_name),
            )),
        }
    }

    fn config(&self, known: &Known) -> MemberConfig {
        MemberConfig {
            hash: servers::key(&[known.name.as_bytes()]),
            ..self.member
        }
    }

    fn is_its(&self, known: &Arc<Known>) -> bool {
        number(known) == Some(self.number)
    }

    fn is_at(&self, known: &Arc<Known>, address: IpAddr) -> bool {
        self.is_its(known)
            && known
                .of_name
                .as_ref()
                .is_some_and(|of_name| of_name.address == address)
    }

    fn report(&self, event: Option<Event>, figures: &NameFigures) {
        let origin = &self.name;
        let reason = figures.failure.as_deref().unwrap_or_default();
        match event {
            None => {}
            Some(Event::Failed) if figures.used == 0 => {
                tracing::warn!(%origin, %reason, "a name cannot be resolved; it has no servers until it can be");
            }
            Some(Event::Failed) => {
                let used = figures.used;
                tracing::warn!(%origin, %reason, used, "a name cannot be resolved; its last addresses stay in use");
            }
            Some(Event::Gone) => {
                let held = limits::NO_ADDRESS;
                tracing::warn!(%origin, %reason, ?held, "a name has no address any more; its servers are not used");
            }
            Some(Event::Resolved) => {
                tracing::info!(%origin, used = figures.used, "a name can be resolved again")
            }
            Some(Event::TooMany) => {
                let (used, left_out) = (figures.used, figures.left_out);
                tracing::warn!(%origin, used, left_out, "a name has more addresses than one origin may have servers");
            }
        }
    }
}

/// Returns the number of the name that has led to a member.
fn number(known: &Arc<Known>) -> Option<usize> {
    known.of_name.as_ref().map(|of_name| of_name.number)
}
