//! Which node is asked for an object, for requests of all threads.

use crate::limits;
use crate::status::Shared;
use larder_fleet::{Owners, owner_key};
use larder_http::{Scope, Url};
use larder_proxy::Owner;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

/// The nodes that share their responses, and this node's place in the log.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    owners: RwLock<Arc<Owners>>,
    place: RwLock<Place>,
    invalidated: Mutex<Recent>,
}

/// A place in the log.
#[derive(Clone, Debug, Default)]
struct Place {
    /// The identity of the log; `None` while the node follows none.
    log: Option<String>,
    /// The last entry whose purge was executed, and all before.
    applied: u64,
    /// The last entry that the log has acknowledged to this node.
    acknowledged: u64,
}

/// A purge of this node that the log may not have. Until it has, the owner of what the purge names
/// may not know of it, and is not asked.
pub(crate) struct Unacknowledged {
    shared: Arc<Shared>,
    /// The object; `None` for many.
    key: Option<u64>,
    is_acknowledged: bool,
}

impl Unacknowledged {
    /// Begins before the purge is executed here.
    pub(crate) fn new(shared: &Arc<Shared>, scope: &Scope) -> Unacknowledged {
        let key = match scope {
            Scope::Exact(url) => Some(owner_key(&url.to_string())),
            _ => None,
        };
        let mut recent = shared.owned.recent();
        match key {
            Some(key) => recent.add(key, Instant::now() + limits::INVALIDATED_KEEP),
            None => recent.many += 1,
        }
        drop(recent);
        Unacknowledged {
            shared: Arc::clone(shared),
            key,
            is_acknowledged: false,
        }
    }

    /// The log has it: [`Owned::position`] covers it.
    pub(crate) fn end(mut self) {
        self.is_acknowledged = true;
    }
}

impl Drop for Unacknowledged {
    fn drop(&mut self) {
        let mut recent = self.shared.owned.recent();
        if let Some(key) = self.key {
            if self.is_acknowledged {
                recent.objects.remove(&key);
            }
            return;
        }
        recent.many -= 1;
        if !self.is_acknowledged {
            recent.all_until = Some(Instant::now() + limits::INVALIDATED_KEEP);
        }
    }
}

/// The objects that this node has invalidated itself a moment ago. Their owner may not know it yet.
#[derive(Debug, Default)]
struct Recent {
    objects: HashMap<u64, Instant>,
    /// Until when nobody is asked, because there were too many.
    all_until: Option<Instant>,
    /// Purges of many objects that the log may not have: nobody is asked meanwhile.
    many: usize,
}

impl Recent {
    fn add(&mut self, key: u64, until: Instant) {
        if self.objects.len() >= limits::RECENTLY_INVALIDATED {
            let now = Instant::now();
            self.objects.retain(|_, until| *until > now);
        }
        if self.objects.len() < limits::RECENTLY_INVALIDATED {
            self.objects.insert(key, until);
        } else {
            self.all_until = Some(until);
        }
    }

    fn has(&mut self, key: u64, now: Instant) -> bool {
        if self.many > 0 || self.all_until.is_some_and(|until| until > now) {
            return true;
        }
        match self.objects.get(&key) {
            Some(until) if *until > now => true,
            Some(_) => {
                self.objects.remove(&key);
                false
            }
            None => false,
        }
    }
}

impl Owned {
    pub(crate) fn set_owners(&self, owners: Owners) {
        *self.owners.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(owners);
    }

    /// Returns the number of the other nodes.
    pub(crate) fn count(&self) -> usize {
        self.owners
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .count()
    }

    /// Sets the identity of the log, and its last entry that was executed.
    pub(crate) fn set_applied(&self, log: Option<&str>, applied: u64) {
        let place = self.place.read().unwrap_or_else(PoisonError::into_inner);
        if place.log.as_deref() == log && place.applied == applied {
            return;
        }
        drop(place);
        let mut place = self.place.write().unwrap_or_else(PoisonError::into_inner);
        if place.log.as_deref() != log {
            *place = Place {
                log: log.map(str::to_owned),
                ..Place::default()
            };
        }
        place.applied = applied;
    }

    /// Notes that the log has an entry of this node. Call it before its client learns that.
    pub(crate) fn set_acknowledged(&self, sequence: u64) {
        let mut place = self.place.write().unwrap_or_else(PoisonError::into_inner);
        place.acknowledged = place.acknowledged.max(sequence);
    }

    /// Asks nobody for these URLs for a while: the owner learns later that they have changed.
    pub(crate) fn invalidated(&self, urls: &[Url]) {
        let until = Instant::now() + limits::INVALIDATED_KEEP;
        let mut invalidated = self.recent();
        for url in urls {
            invalidated.add(owner_key(&url.to_string()), until);
        }
    }

    pub(crate) fn owners(&self, url: &str) -> Vec<Owner> {
        let owners = Arc::clone(&self.owners.read().unwrap_or_else(PoisonError::into_inner));
        if owners.count() == 0 {
            return Vec::new();
        }
        let key = owner_key(url);
        if self.recent().has(key, Instant::now()) {
            return Vec::new();
        }
        let asked = owners.of(key).into_iter();
        let owner = |peer: larder_fleet::Peer| Owner {
            node: peer.node,
            address: peer.address,
        };
        asked.map(owner).collect()
    }

    /// Returns the identity of the log, and the last entry that this node knows of.
    pub(crate) fn position(&self) -> Option<String> {
        let place = self.place.read().unwrap_or_else(PoisonError::into_inner);
        let known = place.applied.max(place.acknowledged);
        place.log.as_ref().map(|log| format!("{known} {log}"))
    }

    /// Returns whether all purges up to this position are executed here.
    pub(crate) fn has_applied(&self, position: &str) -> bool {
        let place = self.place.read().unwrap_or_else(PoisonError::into_inner);
        let Some((sequence, log)) = position.split_once(' ') else {
            return false;
        };
        let is_reached = sequence
            .parse()
            .is_ok_and(|sequence: u64| sequence <= place.applied);
        is_reached && place.log.as_deref() == Some(log)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.invalidated
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
