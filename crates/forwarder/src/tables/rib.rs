//! The Routing Information Base: routes with origin, cost, flags and expiry. The next hops of the
//! FIB are computed from them.
//!
//! The rules are those of NFD's RIB. The next hops of a prefix are its own routes, and the routes
//! of shorter prefixes that have the child-inherit flag, up to the first prefix with a capturing
//! route. Of several routes of one prefix through one face, the cheapest counts, and a route hides
//! those of shorter prefixes through the same face.
//!
//! Next hops are in the order of their costs. Of those with the same cost, routes of longer
//! prefixes come first, so a default route does not take the Interests of an application; then the
//! older ones.

use crate::face::FaceId;
use crate::limits;
use larder_packet::{Name, NameRef};
use larder_units::Time;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Bound;

/// The flag of routes that longer prefixes inherit (NFD management protocol, RIB flags).
pub const CHILD_INHERIT: u64 = 1;
/// The flag of routes whose prefix, and longer ones, inherit nothing from shorter prefixes.
pub const CAPTURE: u64 = 2;

/// The origin of next hops that `fib/add-nexthop` made. They are kept among the routes because they
/// end with their faces as routes do. But a prefix that has only such next hops inherits nothing,
/// and `rib/list` does not list them.
pub(crate) const ORIGIN_FIB: u64 = u64::MAX;

/// One route of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The next hop.
    pub face: FaceId,
    /// The maker of the route: 0 is an application, 255 is the configuration (NFD management
    /// protocol, "Route origins").
    pub origin: u64,
    /// The cost; smaller is better.
    pub cost: u64,
    /// [`CHILD_INHERIT`] and [`CAPTURE`].
    pub flags: u64,
    /// The time at which the route ends by itself.
    pub expires: Option<Time>,
}

/// A next hop of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// The face that Interests are sent to.
    pub face: FaceId,
    /// The cost; smaller is better.
    pub cost: u64,
}

/// The reason why a route is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// The next hop does not exist.
    NoFace(FaceId),
    /// The prefix has too many components, or bytes.
    TooLong,
    /// The table, or the limit of routes per prefix, is full.
    Full,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::NoFace(face) => write!(f, "there is no face {face}"),
            RouteError::TooLong => write!(
                f,
                "a prefix has at most {} components and {} bytes",
                limits::PREFIX_COMPONENTS,
                limits::PREFIX_BYTES
            ),
            RouteError::Full => f.write_str("the table of routes is full"),
        }
    }
}

impl std::error::Error for RouteError {}

/// The new next hops of a prefix. If there are none, the FIB removes the prefix.
pub(crate) struct FibUpdate {
    pub(crate) prefix: Name,
    pub(crate) next_hops: Vec<NextHop>,
}

#[derive(Default)]
pub(crate) struct Rib {
    /// The routes, in canonical order, which is the byte order of the names. So all prefixes under
    /// a prefix are in one range.
    prefixes: BTreeMap<Name, Vec<Route>>,
    routes: usize,
    /// The number of routes to each face. Most faces that close have none, and then cost nothing.
    of_face: HashMap<FaceId, usize>,
    /// A time before which no route expires. The first expiry may be later.
    soonest: Option<Time>,
}

impl Rib {
    pub(crate) fn routes(&self) -> usize {
        self.routes
    }

    /// Returns true if a route leads to this face.
    pub(crate) fn has_routes_to(&self, face: FaceId) -> bool {
        self.of_face.contains_key(&face)
    }

    pub(crate) fn of(&self, prefix: &Name) -> &[Route] {
        self.prefixes.get(prefix).map_or(&[], Vec::as_slice)
    }

    /// Returns every prefix with its routes, in canonical order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, &[Route])> {
        self.prefixes
            .iter()
            .map(|(name, routes)| (name, routes.as_slice()))
    }

    /// Adds a route, or replaces the one with the same face and origin.
    pub(crate) fn add(&mut self, prefix: &Name, route: Route) -> Vec<FibUpdate> {
        self.soonest = [self.soonest, route.expires].into_iter().flatten().min();
        let routes = self.prefixes.entry(prefix.clone()).or_default();
        match routes
            .iter_mut()
            .find(|old| old.face == route.face && old.origin == route.origin)
        {
            Some(old) => {
                let same = (old.cost, old.flags) == (route.cost, route.flags);
                *old = route;
                if same {
                    // A refresh changes the expiry, but no next hop.
                    return Vec::new();
                }
            }
            None => {
                *self.of_face.entry(route.face).or_default() += 1;
                routes.push(route);
                self.routes += 1;
            }
        }
        self.updates_under(prefix)
    }

    /// Removes the route with this face and origin.
    pub(crate) fn remove(&mut self, prefix: &Name, face: FaceId, origin: u64) -> Vec<FibUpdate> {
        let Some(routes) = self.prefixes.get_mut(prefix) else {
            return Vec::new();
        };
        let Some(at) = routes
            .iter()
            .position(|route| route.face == face && route.origin == origin)
        else {
            return Vec::new();
        };
        routes.remove(at);
        let is_empty = routes.is_empty();
        self.forget(face);
        let mut updates = Vec::new();
        if is_empty {
            self.prefixes.remove(prefix);
            updates.push(FibUpdate {
                prefix: prefix.clone(),
                next_hops: Vec::new(),
            });
        }
        updates.extend(self.updates_under(prefix));
        updates
    }

    fn forget(&mut self, face: FaceId) {
        self.routes -= 1;
        if let Some(count) = self.of_face.get_mut(&face) {
            *count -= 1;
            if *count == 0 {
                self.of_face.remove(&face);
            }
        }
    }

    /// Removes every route of a face that was removed.
    pub(crate) fn remove_face(&mut self, face: FaceId) -> Vec<FibUpdate> {
        if self.of_face.contains_key(&face) {
            self.remove_everywhere(|route| route.face == face)
        } else {
            Vec::new()
        }
    }

    /// Removes every route that has expired.
    pub(crate) fn expire(&mut self, now: Time) -> Vec<FibUpdate> {
        if self.soonest.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let updates = self.remove_everywhere(|route| route.expires.is_some_and(|at| at <= now));
        self.soonest = self
            .prefixes
            .values()
            .flatten()
            .filter_map(|route| route.expires)
            .min();
        updates
    }

    fn remove_everywhere(&mut self, gone: impl Fn(&Route) -> bool) -> Vec<FibUpdate> {
        let (mut updates, mut affected, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        self.prefixes.retain(|prefix, routes| {
            let before = removed.len();
            removed.extend(
                routes
                    .extract_if(.., |route| gone(route))
                    .map(|route| route.face),
            );
            if removed.len() > before {
                affected.push(prefix.clone());
            }
            if routes.is_empty() {
                updates.push(FibUpdate {
                    prefix: prefix.clone(),
                    next_hops: Vec::new(),
                });
            }
            !routes.is_empty()
        });
        for face in removed {
            self.forget(face);
        }
        // In canonical order the prefixes under a prefix follow it, so each subtree is computed
        // once.
        let mut top: Option<&Name> = None;
        for prefix in &affected {
            if top.is_none_or(|top| !prefix.as_name().starts_with(top.as_name())) {
                updates.extend(self.updates_under(prefix));
                top = Some(prefix);
            }
        }
        updates
    }

    /// Returns the time at which the next route may expire.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.soonest
    }

    /// Returns the next hops of every prefix at or under `prefix`.
    fn updates_under(&self, prefix: &Name) -> Vec<FibUpdate> {
        let under = self
            .prefixes
            .range::<Name, _>((Bound::Included(prefix), Bound::Unbounded));
        under
            .take_while(|(name, _)| name.as_name().starts_with(prefix.as_name()))
            .map(|(name, _)| FibUpdate {
                prefix: name.clone(),
                next_hops: self.next_hops(name.as_name()),
            })
            .collect()
    }

    /// Checks the counts of routes, and that each prefix of the FIB has the next hops that its
    /// routes give. `next_hops` returns the FIB's next hops of a prefix; `fib_prefixes` is their
    /// number. O(routes); for tests.
    ///
    /// # Panics
    /// If the tables do not agree.
    pub(crate) fn check_invariants<'a>(
        &self,
        fib_prefixes: usize,
        next_hops: impl Fn(NameRef<'_>) -> Option<&'a [NextHop]>,
    ) {
        let mut of_face: HashMap<FaceId, usize> = HashMap::new();
        for (prefix, routes) in &self.prefixes {
            assert!(!routes.is_empty(), "{prefix} has a route");
            for route in routes {
                *of_face.entry(route.face).or_default() += 1;
            }
            let expected = self.next_hops(prefix.as_name());
            assert_eq!(
                next_hops(prefix.as_name()),
                Some(&expected[..]),
                "the FIB follows the routes of {prefix}"
            );
        }
        assert_eq!(
            fib_prefixes,
            self.prefixes.len(),
            "the FIB has the prefixes of the RIB"
        );
        assert_eq!(self.of_face, of_face, "routes are counted by their faces");
        assert_eq!(
            self.routes,
            of_face.values().sum::<usize>(),
            "routes are counted"
        );
        let first = self
            .prefixes
            .values()
            .flatten()
            .filter_map(|route| route.expires)
            .min();
        assert!(
            first.is_none_or(|first| self.soonest.is_some_and(|soonest| soonest <= first)),
            "expiry is not missed"
        );
    }

    fn next_hops(&self, prefix: NameRef<'_>) -> Vec<NextHop> {
        let mut hops: Vec<NextHop> = Vec::new();
        let length = prefix.component_count();
        let inherits = self
            .of(&prefix.to_name())
            .iter()
            .any(|route| route.origin != ORIGIN_FIB);
        let shortest = if inherits { 0 } else { length };
        for n in (shortest..=length).rev() {
            let routes = self.of(&prefix.prefix(n).to_name());
            // The hops before are those of longer prefixes.
            let nearer = hops.len();
            for route in routes
                .iter()
                .filter(|route| n == length || route.flags & CHILD_INHERIT != 0)
            {
                match hops.iter().position(|hop| hop.face == route.face) {
                    None => hops.push(NextHop {
                        face: route.face,
                        cost: route.cost,
                    }),
                    Some(at) if at >= nearer => hops[at].cost = hops[at].cost.min(route.cost),
                    Some(_) => {}
                }
            }
            if routes.iter().any(|route| route.flags & CAPTURE != 0) {
                break;
            }
        }
        // Stable: hops of the same cost stay in this order.
        hops.sort_by_key(|hop| hop.cost);
        hops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const NAMES: [&str; 6] = ["/", "/a", "/a/b", "/a/b/c", "/ab", "/b"];

    #[derive(Clone, Debug)]
    enum Step {
        Add(usize, Route),
        Remove(usize, u64, u64),
        RemoveFace(u64),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let origin = || prop_oneof![Just(0), Just(255), Just(ORIGIN_FIB)];
        let expires = prop::option::of((1u64..40).prop_map(Time::from_secs));
        let made = (1u64..6, origin(), 0u64..3, 0u64..4, expires);
        prop_oneof![
            4 => (0..NAMES.len(), made).prop_map(|(name, (face, origin, cost, flags, expires))| {
                Step::Add(name, Route { face: FaceId(face), origin, cost, flags, expires })
            }),
            2 => (0..NAMES.len(), 1u64..6, origin()).prop_map(|(name, face, origin)| Step::Remove(name, face, origin)),
            1 => (1u64..6).prop_map(Step::RemoveFace),
            1 => (0u64..8).prop_map(Step::Pass),
        ]
    }

    /// The next hops of a prefix by the rules of NFD's RIB (`Rib::getAncestorRoutes`,
    /// `FibUpdater::addInheritedRoutes`) and FIB (`fib::Entry::sortNextHops`); `None` if it has no
    /// route of its own.
    fn by_definition(routes: &[(Name, Route)], prefix: &Name) -> Option<Vec<NextHop>> {
        let of = |name: NameRef<'_>| -> Vec<&Route> {
            routes
                .iter()
                .filter(|(other, _)| other.as_name() == name)
                .map(|(_, route)| route)
                .collect()
        };
        // Each face once, at its lowest cost, in the order of registration.
        let cheapest = |routes: Vec<&Route>| {
            let mut hops: Vec<NextHop> = Vec::new();
            for route in &routes {
                let costs = routes
                    .iter()
                    .filter(|other| other.face == route.face)
                    .map(|other| other.cost);
                if !hops.iter().any(|hop| hop.face == route.face) {
                    hops.push(NextHop {
                        face: route.face,
                        cost: costs.min().unwrap(),
                    });
                }
            }
            hops
        };
        let captures = |routes: &[&Route]| routes.iter().any(|route| route.flags & CAPTURE != 0);
        let own = of(prefix.as_name());
        own.first()?;
        // Next hops without a registration inherit nothing.
        let mut ends = captures(&own) || own.iter().all(|route| route.origin == ORIGIN_FIB);
        let mut hops = cheapest(own);
        for length in (0..prefix.as_name().component_count()).rev() {
            if ends {
                break;
            }
            let ancestor = of(prefix.as_name().prefix(length));
            ends = captures(&ancestor);
            let inherited = ancestor
                .into_iter()
                .filter(|route| route.flags & CHILD_INHERIT != 0);
            for hop in cheapest(inherited.collect()) {
                // A route of a nearer prefix hides those of the same face.
                if !hops.iter().any(|nearer| nearer.face == hop.face) {
                    hops.push(hop);
                }
            }
        }
        // Own routes come before inherited ones of the same cost: the sort is stable.
        hops.sort_by_key(|hop| hop.cost);
        Some(hops)
    }

    /// Does a step with the routes alone; returns the prefixes whose routes it changed.
    fn change(routes: &mut Vec<(Name, Route)>, step: &Step, now: Time) -> Vec<Name> {
        let before = routes.clone();
        match step {
            Step::Add(at, route) => {
                let name: Name = NAMES[*at].parse().unwrap();
                let of_same = |(other, old): &(Name, Route)| {
                    (other, old.face, old.origin) == (&name, route.face, route.origin)
                };
                let old = routes
                    .iter_mut()
                    .find(|old| of_same(old))
                    .map(|old| std::mem::replace(&mut old.1, route.clone()));
                if old.is_none() {
                    routes.push((name.clone(), route.clone()));
                }
                let is_refresh =
                    old.is_some_and(|old| (old.cost, old.flags) == (route.cost, route.flags));
                return if is_refresh { Vec::new() } else { vec![name] };
            }
            Step::Remove(at, face, origin) => {
                let name: Name = NAMES[*at].parse().unwrap();
                routes.retain(|(other, old)| {
                    (other, old.face, old.origin) != (&name, FaceId(*face), *origin)
                });
            }
            Step::RemoveFace(face) => routes.retain(|(_, route)| route.face != FaceId(*face)),
            Step::Pass(_) => routes.retain(|(_, route)| route.expires.is_none_or(|at| at > now)),
        }
        before
            .into_iter()
            .filter(|old| !routes.contains(old))
            .map(|(name, _)| name)
            .collect()
    }

    proptest! {
        /// Failure: a prefix has other next hops than its routes give, or a change computes
        /// prefixes that it does not concern, or one twice.
        #[test]
        fn next_hops_are_not_those_of_the_routes(steps in prop::collection::vec(step(), 1..60)) {
            let (mut rib, mut routes, mut now) = (Rib::default(), Vec::new(), Time::ZERO);
            let mut fib: BTreeMap<Name, Vec<NextHop>> = BTreeMap::new();
            for step in steps {
                let updates = match &step {
                    Step::Add(at, route) => rib.add(&NAMES[*at].parse().unwrap(), route.clone()),
                    Step::Remove(at, face, origin) => rib.remove(&NAMES[*at].parse().unwrap(), FaceId(*face), *origin),
                    Step::RemoveFace(face) => rib.remove_face(FaceId(*face)),
                    Step::Pass(seconds) => {
                        now += std::time::Duration::from_secs(*seconds);
                        rib.expire(now)
                    }
                };
                let changed = change(&mut routes, &step, now);
                let names: BTreeSet<&Name> = updates.iter().map(|update| &update.prefix).collect();
                prop_assert_eq!(names.len(), updates.len(), "twice");
                let concerns = |name: &Name| changed.iter().any(|prefix| name.as_name().starts_with(prefix.as_name()));
                prop_assert!(names.into_iter().all(concerns), "{:?}", step);
                for FibUpdate { prefix, next_hops } in updates {
                    if next_hops.is_empty() { drop(fib.remove(&prefix)) } else { drop(fib.insert(prefix, next_hops)) }
                }
                for name in NAMES {
                    let name: Name = name.parse().unwrap();
                    let expected = by_definition(&routes, &name);
                    prop_assert_eq!(fib.get(&name), expected.as_ref(), "{} after {:?}", name, step);
                    let of_name = routes.iter().filter(|(other, _)| *other == name).count();
                    prop_assert_eq!(rib.of(&name).len(), of_name);
                }
                prop_assert_eq!((rib.routes(), rib.iter().count()), (routes.len(), fib.len()));
                for face in (1..6).map(FaceId) {
                    assert_eq!(rib.has_routes_to(face), routes.iter().any(|(_, route)| route.face == face));
                }
                let first = routes.iter().filter_map(|(_, route)| route.expires).min();
                prop_assert!(first.is_none_or(|first| rib.next_timeout().is_some_and(|at| at <= first)));
                let is_due = rib.next_timeout().is_some_and(|at| at <= now);
                prop_assert!(!matches!(step, Step::Pass(_)) || !is_due, "it wakes its host again and again");
                rib.check_invariants(fib.len(), |prefix| fib.get(&prefix.to_name()).map(Vec::as_slice));
            }
        }
    }

    fn route(face: u64, cost: u64, flags: u64) -> Route {
        Route {
            face: FaceId(face),
            origin: 0,
            cost,
            flags,
            expires: None,
        }
    }

    fn hops(updates: &[FibUpdate], prefix: &str) -> Vec<(u64, u64)> {
        let update = updates
            .iter()
            .find(|update| update.prefix.to_string() == prefix)
            .expect("an update");
        update
            .next_hops
            .iter()
            .map(|hop| (hop.face.0, hop.cost))
            .collect()
    }

    #[test]
    fn longer_prefixes_inherit_until_one_captures() {
        let mut rib = Rib::default();
        let name = |uri: &str| uri.parse::<Name>().unwrap();
        rib.add(&name("/a"), route(1, 10, CHILD_INHERIT));
        rib.add(&name("/a/b"), route(2, 5, 0));
        let updates = rib.add(&name("/a/b/c"), route(3, 1, 0));
        assert_eq!(hops(&updates, "/a/b/c"), [(3, 1), (1, 10)]);
        let updates = rib.add(&name("/a/b"), route(2, 5, CAPTURE));
        assert_eq!(hops(&updates, "/a/b"), [(2, 5)]);
        assert_eq!(hops(&updates, "/a/b/c"), [(3, 1)]);
        let updates = rib.remove(&name("/a/b"), FaceId(2), 0);
        assert_eq!(hops(&updates, "/a/b"), []);
        assert_eq!(hops(&updates, "/a/b/c"), [(3, 1), (1, 10)]);
        assert_eq!(rib.routes(), 2);
        let updates = rib.remove_face(FaceId(1));
        assert_eq!(hops(&updates, "/a"), []);
        assert_eq!(hops(&updates, "/a/b/c"), [(3, 1)]);
    }

    #[test]
    fn a_route_ends_at_its_time() {
        let mut rib = Rib::default();
        let name: Name = "/a".parse().unwrap();
        rib.add(
            &name,
            Route {
                expires: Some(Time::from_secs(5)),
                ..route(1, 0, 0)
            },
        );
        assert_eq!(rib.next_timeout(), Some(Time::from_secs(5)));
        assert!(rib.expire(Time::from_secs(4)).is_empty());
        assert_eq!(hops(&rib.expire(Time::from_secs(5)), "/a"), []);
        assert_eq!(rib.next_timeout(), None);
    }

    /// Failure: the check that property tests, simulations and fuzz targets rely on accepts a
    /// broken table.
    #[test]
    fn a_broken_rib_passes_its_check() {
        let name: Name = "/a".parse().unwrap();
        let hops = [NextHop {
            face: FaceId(1),
            cost: 10,
        }];
        let check = |rib: &Rib, prefixes: usize, hops: &[NextHop]| {
            let check =
                std::panic::AssertUnwindSafe(|| rib.check_invariants(prefixes, |_| Some(hops)));
            std::panic::catch_unwind(check).is_ok()
        };
        let breakages: [fn(&mut Rib); 4] = [
            |rib| rib.prefixes.values_mut().for_each(Vec::clear),
            |rib| _ = rib.of_face.insert(FaceId(2), 1),
            |rib| rib.routes += 1,
            |rib| rib.soonest = None,
        ];
        for (number, breakage) in breakages.into_iter().enumerate() {
            let mut rib = Rib::default();
            rib.add(
                &name,
                Route {
                    expires: Some(Time::from_secs(5)),
                    ..route(1, 10, 0)
                },
            );
            assert!(check(&rib, 1, &hops));
            assert!(!check(&rib, 2, &hops), "the FIB has another prefix");
            assert!(!check(&rib, 1, &[]), "the FIB has other next hops");
            breakage(&mut rib);
            assert!(!check(&rib, 1, &hops), "breakage {number}");
        }
    }
}
