//! Which node is asked for an object, for requests of all threads.

use crate::limits;
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

impl Place {
    /// Goes to the log of this identity. Entries of another one are nothing there.
    fn follow(&mut self, log: Option<&str>) {
        if self.log.as_deref() != log {
            *self = Place {
                log: log.map(str::to_owned),
                ..Place::default()
            };
        }
    }
}

/// A purge of this node that the log may not have. Until it has, the owner of what the purge names
/// may not know of it, and is not asked.
#[derive(Debug)]
pub(crate) struct Unacknowledged {
    owned: Arc<Owned>,
    /// The object; `None` for many.
    key: Option<u64>,
    is_acknowledged: bool,
}

impl Unacknowledged {
    /// Begins before the purge is executed here.
    pub(crate) fn new(owned: &Arc<Owned>, scope: &Scope) -> Unacknowledged {
        let key = match scope {
            Scope::Exact(url) => Some(key_of(url)),
            _ => None,
        };
        owned.recent().begin(key);
        Unacknowledged {
            owned: Arc::clone(owned),
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
        let until = Instant::now() + limits::INVALIDATED_KEEP;
        let until = (!self.is_acknowledged).then_some(until);
        self.owned.recent().end(self.key, until);
    }
}

/// The objects that this node has invalidated itself a moment ago. Their owner may not know it yet.
#[derive(Debug, Default)]
struct Recent {
    objects: HashMap<u64, Mark>,
    /// Until when nobody is asked, because there were too many.
    all_until: Option<Instant>,
    /// Purges of many objects that the log may not have: nobody is asked meanwhile.
    many: usize,
}

/// An object that is fetched from its origin for a while.
#[derive(Debug)]
struct Mark {
    /// Purges of it that the log may not have.
    pending: usize,
    until: Instant,
}

impl Recent {
    fn add(&mut self, key: u64, until: Instant) {
        match self.mark(key) {
            Some(mark) => mark.until = mark.until.max(until),
            None => self.all_until = Some(until),
        }
    }

    /// Returns the mark of an object; `None` if there is no room for it.
    fn mark(&mut self, key: u64) -> Option<&mut Mark> {
        let now = Instant::now();
        if self.objects.len() >= limits::RECENTLY_INVALIDATED && !self.objects.contains_key(&key) {
            self.objects
                .retain(|_, mark| mark.pending > 0 || mark.until > now);
            if self.objects.len() >= limits::RECENTLY_INVALIDATED {
                return None;
            }
        }
        let new = || Mark {
            pending: 0,
            until: now,
        };
        Some(self.objects.entry(key).or_insert_with(new))
    }

    /// Begins a purge of an object, or of many.
    fn begin(&mut self, key: Option<u64>) {
        match key.and_then(|key| self.mark(key)) {
            Some(mark) => mark.pending += 1,
            None => self.many += 1,
        }
    }

    /// Ends it: the log has it, or the mark stays until then.
    fn end(&mut self, key: Option<u64>, until: Option<Instant>) {
        let mark = key.and_then(|key| self.objects.get_mut(&key));
        if let Some(mark) = mark.filter(|mark| mark.pending > 0) {
            mark.pending -= 1;
            mark.until = until.unwrap_or(mark.until).max(mark.until);
            return;
        }
        // There was no room for its mark.
        self.many = self.many.saturating_sub(1);
        self.all_until = until.or(self.all_until);
    }

    fn has(&mut self, key: u64, now: Instant) -> bool {
        if self.many > 0 || self.all_until.is_some_and(|until| until > now) {
            return true;
        }
        match self.objects.get(&key) {
            Some(mark) if mark.pending > 0 || mark.until > now => true,
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
        place.follow(log);
        place.applied = applied;
    }

    /// Notes that this node is about to execute all up to this entry of the log. What it asks other
    /// nodes for meanwhile has to be as new: after the purge, it could not be told from what was
    /// requested later.
    pub(crate) fn set_known(&self, log: Option<&str>, sequence: u64) {
        let place = self.place.read().unwrap_or_else(PoisonError::into_inner);
        let is_known = place.log.as_deref() == log
            && (log.is_none() || place.applied.max(place.acknowledged) >= sequence);
        drop(place);
        if is_known {
            return;
        }
        let mut place = self.place.write().unwrap_or_else(PoisonError::into_inner);
        place.follow(log);
        place.acknowledged = place.acknowledged.max(sequence);
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
            invalidated.add(key_of(url), until);
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

/// Returns the key of a URL that may be written otherwise than its responses are stored.
fn key_of(url: &Url) -> u64 {
    owner_key(&url.normal())
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_fleet::PeerOffer;
    use std::time::Duration;

    /// Failure: a purge names an object in other letters than its requests, and its owner, which
    /// does not know of the purge yet, is asked for it.
    #[test]
    fn a_purge_in_other_letters_is_of_another_object() {
        let owned = Arc::new(Owned::default());
        let offer = |port| PeerOffer {
            address: ([127, 0, 0, 1], port).into(),
            capacity: 1 << 30,
            zone: String::new(),
        };
        let (own, other) = (
            PeerOffer {
                capacity: 1,
                ..offer(1)
            },
            offer(2),
        );
        owned.set_owners(Owners::new("a", Some(&own), [("b", &other)].into_iter()));
        let asked = |url: &str| owned.owners(url).len();
        let requested = "http://example.com/A";
        assert_eq!(asked(requested), 1);
        let scope = Scope::Exact("HTTP://Example.com:80/A".parse().unwrap());
        let purge = Unacknowledged::new(&owned, &scope);
        assert_eq!(asked(requested), 0);
        assert_eq!(asked("http://example.com/a"), 1);
        purge.end();
        assert_eq!(asked(requested), 1);
        owned.invalidated(&["http://EXAMPLE.com/A".parse().unwrap()]);
        assert_eq!(asked(requested), 0);
    }

    /// Failure: the acknowledgement of one purge ends the mark of another one; or a mark stays for
    /// ever; or many marks need more and more memory.
    #[test]
    fn an_owner_is_asked_for_what_it_does_not_know() {
        let (mut recent, now) = (Recent::default(), Instant::now());
        let later = now + Duration::from_secs(60);
        recent.begin(Some(1));
        recent.begin(Some(1));
        recent.end(Some(1), None);
        assert!(recent.has(1, later) && !recent.has(2, now));
        recent.end(Some(1), None);
        assert!(!recent.has(1, later));
        // The log did not take it.
        recent.begin(Some(1));
        recent.end(Some(1), Some(now + Duration::from_secs(30)));
        assert!(recent.has(1, now) && !recent.has(1, later));
        // A change by a client, and a purge that is acknowledged meanwhile.
        recent.add(3, now + Duration::from_secs(30));
        recent.begin(Some(3));
        recent.end(Some(3), None);
        assert!(recent.has(3, now) && !recent.has(3, later));
        recent.begin(None);
        assert!(recent.has(4, later));
        recent.end(None, None);
        assert!(!recent.has(4, now));
        for key in 0..limits::RECENTLY_INVALIDATED as u64 * 2 {
            recent.begin(Some(key));
        }
        assert!(
            recent.objects.len() <= limits::RECENTLY_INVALIDATED && recent.has(u64::MAX, later)
        );
        for key in 0..limits::RECENTLY_INVALIDATED as u64 * 2 {
            recent.end(Some(key), None);
        }
        assert_eq!(recent.many, 0);
        assert!(!recent.has(5, later) && !recent.has(u64::MAX, now));
    }

    /// Failure: while a node executes a purge, it asks another one that has not got it, and keeps
    /// the response as if it came after the purge.
    #[test]
    fn a_purge_that_is_being_executed_is_not_demanded() {
        let owned = Owned::default();
        owned.set_applied(Some("log"), 5);
        owned.set_known(Some("log"), 7);
        assert_eq!(owned.position().as_deref(), Some("7 log"));
        assert!(owned.has_applied("5 log") && !owned.has_applied("6 log"));
        owned.set_applied(Some("log"), 7);
        assert!(owned.has_applied("7 log"));
        // All that is stored becomes stale: it is another log.
        owned.set_known(Some("other"), 3);
        assert_eq!(owned.position().as_deref(), Some("3 other"));
        assert!(!owned.has_applied("5 log") && !owned.has_applied("1 other"));
        owned.set_known(None, 0);
        assert_eq!(owned.position(), None);
    }

    /// Failure: a node answers for purges that it has not executed, does not demand those that the
    /// log has acknowledged to it, or compares the entries of two logs.
    #[test]
    fn a_node_that_is_behind_answers() {
        let owned = Owned::default();
        assert!(owned.position().is_none() && !owned.has_applied("0 a"));
        owned.set_applied(Some("a"), 7);
        assert!(owned.has_applied("6 a") && owned.has_applied("7 a"));
        for other in ["8 a", "7 b", "6 b", "7", "x a", ""] {
            assert!(!owned.has_applied(other), "{other}");
        }
        assert_eq!(owned.position().as_deref(), Some("7 a"));
        owned.set_acknowledged(9);
        assert_eq!(owned.position().as_deref(), Some("9 a"));
        assert!(!owned.has_applied("9 a"));
        // What another log has acknowledged says nothing about this one.
        owned.set_applied(Some("b"), 2);
        assert_eq!(owned.position().as_deref(), Some("2 b"));
        owned.set_applied(None, 0);
        assert_eq!(owned.position(), None);
    }
}
