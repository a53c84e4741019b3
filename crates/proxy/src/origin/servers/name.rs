//! The addresses of one name: when it is resolved again, and which of them are used. A state
//! machine with time as an argument.
//!
//! - An answer holds for its TTL, within [`limits::RESOLVED_LEAST`] and
//!   [`limits::RESOLVED_LONGEST`].
//! - If the name servers fail, the last addresses stay in use (RFC 8767), and the name is resolved
//!   again after [`limits::RESOLVE_AGAIN`]. If they say that there is no address, the last ones
//!   stay for [`limits::NO_ADDRESS`]: a wrong zone is soon corrected, and after that the addresses
//!   may belong to others.
//! - Of more addresses than there is room for, those in use are kept, and others join by their
//!   hash. So every answer of the same addresses leads to the same servers, in whatever order.

use super::key;
use crate::base::limits;
use crate::origin::dns::{Found, NotFound};
use larder_units::Time;
use std::net::IpAddr;
use std::time::Duration;

/// The addresses of one name.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// Those in use, IPv4 before IPv6.
    used: Vec<IpAddr>,
    /// The time of the next resolution.
    next: Time,
    /// True while a resolution is in progress.
    is_asking: bool,
    /// True if the name became due meanwhile: the result may be older than that.
    is_expired: bool,
    /// True after the first resolution, whatever its result.
    is_known: bool,
    /// The time of the first answer without an address, of those since the last one with some.
    empty_since: Option<Time>,
    figures: NameFigures,
}

/// Counts of a name, for the status page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameFigures {
    /// Resolutions that have ended.
    pub(crate) resolutions: u64,
    /// The resolutions that gave no address.
    pub(crate) failures: u64,
    /// The reason of the last one, if it failed.
    pub(crate) failure: Option<String>,
    /// Addresses in use.
    pub(crate) used: usize,
    /// Addresses of the last answer that found no room.
    pub(crate) left_out: usize,
}

/// The effect of a resolution.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Update {
    /// Addresses that are new.
    pub(crate) joined: Vec<IpAddr>,
    /// Addresses that are gone.
    pub(crate) gone: Vec<IpAddr>,
    /// True for the addresses of the first answer, which need no slow start.
    pub(crate) is_first: bool,
    /// The event that is worth a line in the log.
    pub(crate) event: Option<Event>,
}

/// A change of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The first failure since the last answer.
    Failed,
    /// The first answer since a failure.
    Resolved,
    /// The first answer with more addresses than there is room for.
    TooMany,
    /// The name has had no address for so long that those in use are gone.
    Gone,
}

impl Addresses {
    /// Creates the addresses of a name that is resolved at once. `used`: those that it has already.
    pub(crate) fn new(used: Vec<IpAddr>) -> Addresses {
        Addresses {
            is_known: !used.is_empty(),
            used,
            ..Addresses::default()
        }
    }

    /// Returns true if the name has to be resolved now: a resolution is in progress then.
    pub(crate) fn begin(&mut self, now: Time) -> bool {
        let is_due = !self.is_asking && self.next <= now;
        self.is_asking |= is_due;
        is_due
    }

    /// Makes the name due.
    pub(crate) fn expire(&mut self) {
        self.next = Time::ZERO;
        self.is_expired = self.is_asking;
    }

    /// Sets the time of the next resolution.
    fn hold(&mut self, now: Time, time: Duration) {
        self.next = if std::mem::take(&mut self.is_expired) {
            now
        } else {
            now + time
        };
    }

    /// Returns true before the first result: a request may wait for it.
    pub(crate) fn is_pending(&self) -> bool {
        !self.is_known
    }

    /// Returns the addresses in use.
    pub(crate) fn used(&self) -> &[IpAddr] {
        &self.used
    }

    pub(crate) fn figures(&self) -> NameFigures {
        NameFigures {
            used: self.used.len(),
            ..self.figures.clone()
        }
    }

    /// Records the result of a resolution. `room`: the most addresses that may be used.
    pub(crate) fn on_result(
        &mut self,
        result: Result<Found, NotFound>,
        room: usize,
        now: Time,
    ) -> Update {
        self.is_asking = false;
        self.figures.resolutions += 1;
        let is_first = !std::mem::replace(&mut self.is_known, true) || self.used.is_empty();
        let found = match result {
            Ok(found) => found,
            Err(not_found) => return self.on_failure(&not_found, now),
        };
        self.hold(
            now,
            found
                .ttl
                .clamp(limits::RESOLVED_LEAST, limits::RESOLVED_LONGEST),
        );
        self.empty_since = None;
        let had_failed = self.figures.failure.take().is_some();
        let (addresses, left_out) = self.choose(found, room);
        let had_left_out = std::mem::replace(&mut self.figures.left_out, left_out) > 0;
        let event = match () {
            () if left_out > 0 && !had_left_out => Some(Event::TooMany),
            () if had_failed => Some(Event::Resolved),
            () => None,
        };
        Update {
            is_first,
            event,
            ..self.replace(addresses)
        }
    }

    fn on_failure(&mut self, not_found: &NotFound, now: Time) -> Update {
        self.hold(now, limits::RESOLVE_AGAIN);
        self.figures.failures += 1;
        let reason = match not_found {
            NotFound::NoAddress => "it has no address".to_owned(),
            NotFound::Failed(reason) => reason.clone(),
        };
        let event = self
            .figures
            .failure
            .replace(reason)
            .is_none()
            .then_some(Event::Failed);
        let since = *self.empty_since.get_or_insert(now);
        match not_found {
            NotFound::NoAddress if now.since(since) >= limits::NO_ADDRESS => {
                let event = if self.used.is_empty() {
                    event
                } else {
                    Some(Event::Gone)
                };
                Update {
                    event,
                    ..self.replace(Vec::new())
                }
            }
            NotFound::NoAddress => Update {
                event,
                ..Update::default()
            },
            NotFound::Failed(_) => {
                self.empty_since = None;
                Update {
                    event,
                    ..Update::default()
                }
            }
        }
    }

    /// Returns the addresses to use, and the number of others. A family that the name servers did
    /// not tell keeps its addresses.
    fn choose(&self, found: Found, room: usize) -> (Vec<IpAddr>, usize) {
        let last = |is_v4: bool| {
            self.used
                .iter()
                .filter(|one| one.is_ipv4() == is_v4)
                .copied()
                .collect()
        };
        let mut all = found.v4.unwrap_or_else(|| last(true));
        all.extend(found.v6.unwrap_or_else(|| last(false)));
        all.retain(|address| !address.is_unspecified() && !address.is_multicast());
        let order = |address: &IpAddr| (!self.used.contains(address), hash(*address));
        all.sort();
        all.dedup();
        all.sort_by_cached_key(order);
        let left_out = all.len().saturating_sub(room);
        all.truncate(room);
        all.sort();
        (all, left_out)
    }

    fn replace(&mut self, addresses: Vec<IpAddr>) -> Update {
        let before = std::mem::replace(&mut self.used, addresses);
        Update {
            joined: self
                .used
                .iter()
                .filter(|one| !before.contains(one))
                .copied()
                .collect(),
            gone: before
                .iter()
                .filter(|one| !self.used.contains(one))
                .copied()
                .collect(),
            ..Update::default()
        }
    }
}

fn hash(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => key(&[&address.octets()]),
        IpAddr::V6(address) => key(&[&address.octets()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn v4(last: &[u16]) -> Vec<IpAddr> {
        last.iter()
            .map(|last| Ipv4Addr::from(0x0a00_0000 + u32::from(*last)).into())
            .collect()
    }

    fn v6(last: u16) -> IpAddr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).into()
    }

    fn found(addresses: Vec<IpAddr>, ttl: u64) -> Result<Found, NotFound> {
        let (v4, v6) = addresses.into_iter().partition(IpAddr::is_ipv4);
        Ok(Found {
            v4: Some(v4),
            v6: Some(v6),
            ttl: Duration::from_secs(ttl),
        })
    }

    fn failed() -> Result<Found, NotFound> {
        Err(NotFound::Failed("silence".to_owned()))
    }

    /// Failure: a name is resolved for each request or never again, or twice at once.
    #[test]
    fn a_ttl_of_no_time_or_of_a_year_is_taken_as_it_is() {
        let mut name = Addresses::default();
        let at = Time::from_secs;
        assert!(name.begin(at(0)) && !name.begin(at(1000)), "one at a time");
        name.on_result(found(v4(&[1]), 0), 64, at(10));
        assert!(!name.begin(at(10)));
        assert!(name.begin(at(10) + limits::RESOLVED_LEAST));
        name.on_result(found(v4(&[1]), 30_000_000), 64, at(20));
        assert!(!name.begin(at(19) + limits::RESOLVED_LONGEST));
        assert!(name.begin(at(20) + limits::RESOLVED_LONGEST));
        name.on_result(failed(), 64, at(100));
        assert!(!name.begin(at(100)) && name.begin(at(100) + limits::RESOLVE_AGAIN));
        name.on_result(found(v4(&[1]), 5), 64, at(200));
        name.expire();
        assert!(name.begin(at(200)), "a reload");
        name.expire();
        name.on_result(found(v4(&[1]), 5), 64, at(201));
        assert!(name.begin(at(201)), "a reload during a resolution");
        name.on_result(found(v4(&[1]), 5), 64, at(202));
        assert!(!name.begin(at(202)), "once");
    }

    /// Failure: name servers that fail end the service, each failure has a line in the log, or an
    /// address that is gone for good is used for ever.
    #[test]
    fn addresses_end_with_the_name_servers() {
        let mut name = Addresses::default();
        let at = Time::from_secs;
        assert!(name.is_pending());
        let first = name.on_result(found(v4(&[1, 2]), 1), 64, at(0));
        assert_eq!(
            (first.joined, first.is_first, name.is_pending()),
            (v4(&[1, 2]), true, false)
        );
        let update = name.on_result(failed(), 64, at(1));
        assert_eq!(
            update,
            Update {
                event: Some(Event::Failed),
                ..Update::default()
            }
        );
        for second in 2..10_000 {
            assert_eq!(name.on_result(failed(), 64, at(second)), Update::default());
        }
        assert_eq!(name.used(), v4(&[1, 2]));
        assert_eq!(
            (name.figures().failures, name.figures().failure.as_deref()),
            (9_999, Some("silence"))
        );
        let update = name.on_result(found(v4(&[2, 3]), 1), 64, at(10_000));
        assert_eq!((&update.joined, &update.gone), (&v4(&[3]), &v4(&[1])));
        assert_eq!(
            (update.event, update.is_first),
            (Some(Event::Resolved), false)
        );
        let empty =
            |name: &mut Addresses, second| name.on_result(Err(NotFound::NoAddress), 64, at(second));
        let hold = limits::NO_ADDRESS.as_secs();
        assert_eq!(empty(&mut name, 20_000).event, Some(Event::Failed));
        assert_eq!(empty(&mut name, 20_000 + hold - 1), Update::default());
        name.on_result(failed(), 64, at(20_000 + hold));
        assert_eq!(
            empty(&mut name, 20_001 + hold),
            Update::default(),
            "counted anew"
        );
        let update = empty(&mut name, 20_001 + 2 * hold);
        assert_eq!(
            (update.gone, update.event),
            (v4(&[2, 3]), Some(Event::Gone))
        );
        assert_eq!(empty(&mut name, 20_002 + 2 * hold), Update::default());
        assert!(name.used().is_empty());
    }

    /// Failure: a time-out of one family removes its servers.
    #[test]
    fn a_family_that_is_not_told_is_gone() {
        let mut name = Addresses::default();
        name.on_result(found([v4(&[1]), vec![v6(1)]].concat(), 1), 64, Time::ZERO);
        let partial = |v4, v6| {
            Ok(Found {
                v4,
                v6,
                ttl: Duration::ZERO,
            })
        };
        let update = name.on_result(partial(Some(v4(&[2])), None), 64, Time::ZERO);
        assert_eq!((update.joined, update.gone), (v4(&[2]), v4(&[1])));
        let update = name.on_result(partial(None, Some(Vec::new())), 64, Time::ZERO);
        assert_eq!((update.joined, update.gone), (vec![], vec![v6(1)]));
        assert_eq!(name.used(), v4(&[2]));
    }

    /// Failure: many addresses take all memory, or an answer in another order changes the servers.
    #[test]
    fn more_addresses_than_places_change_with_each_answer() {
        let mut name = Addresses::default();
        let numbers: Vec<u16> = (0..1000).collect();
        let update = name.on_result(found(v4(&numbers), 1), 62, Time::ZERO);
        assert_eq!(
            (update.joined.len(), update.event),
            (62, Some(Event::TooMany))
        );
        assert_eq!((name.figures().used, name.figures().left_out), (62, 938));
        let reversed: Vec<u16> = numbers.iter().rev().copied().chain(0..1000).collect();
        assert_eq!(
            name.on_result(found(v4(&reversed), 1), 62, Time::ZERO),
            Update::default()
        );
        let mut other = Addresses::default();
        other.on_result(found(v4(&reversed), 1), 62, Time::ZERO);
        assert_eq!(name.used(), other.used(), "the same on another node");
        let update = name.on_result(found(v4(&numbers[500..]), 1), 62, Time::ZERO);
        assert_eq!(update.joined.len(), update.gone.len());
        assert_eq!(name.figures().used, 62);
    }
}
