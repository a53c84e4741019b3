//! Statistics beyond those of a row: over time, by size, and the ages of evicted objects.

use crate::limits::BREAKDOWN_MAX_WINDOWS;
use crate::{Access, Events};
use larder_policy::Slot;
use serde::Serialize;

/// The unit and length of a window of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// This many requests, from 1.
    Requests(u64),
    /// This many nanoseconds of the trace's time, from 1.
    Nanos(u64),
}

/// The statistics to collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// The counts of each window of this length.
    pub window: Option<Window>,
    /// The counts of each size class.
    pub size_classes: bool,
    /// The ages of evicted objects.
    pub evictions: bool,
}

/// The counts of a part of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The start of the part: a request's number from 0, nanoseconds of the trace's time, or the
    /// least size in bytes.
    pub start: u64,
    /// Requests.
    pub requests: u64,
    /// Requests whose object was cached.
    pub hits: u64,
    /// Objects stored.
    pub insertions: u64,
    /// Bytes of the requests.
    pub bytes: u64,
    /// Bytes of the requests that hit.
    pub hit_bytes: u64,
}

impl Part {
    fn count(&mut self, access: &Access, is_hit: bool) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(access.size);
        if is_hit {
            self.hits += 1;
            self.hit_bytes = self.hit_bytes.saturating_add(access.size);
        }
    }

    fn add(&mut self, other: &Part) {
        self.requests += other.requests;
        self.hits += other.hits;
        self.insertions += other.insertions;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.hit_bytes = self.hit_bytes.saturating_add(other.hit_bytes);
    }
}

/// The ages of evicted objects, in requests since they were stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evictions {
    /// Objects evicted.
    pub evictions: u64,
    /// Evicted objects that were not requested while they were stored.
    pub without_hit: u64,
    /// The mean age; 0 if nothing was evicted.
    pub mean_age: f64,
    /// The number of objects by the power of two of their age: the n-th has ages below 2^n.
    pub ages: Vec<u64>,
}

/// The statistics that [`crate::Replay::requests_with`] collects.
///
/// If a trace has more windows than [`BREAKDOWN_MAX_WINDOWS`], their length doubles as often as
/// needed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    #[serde(skip)]
    wanted: Breakdown,
    /// The windows in order, including those without a request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Part>,
    /// The size classes that have requests: sizes from a power of ten up to the next one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub size_classes: Vec<Part>,
    /// The evictions, if they are collected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evictions: Option<Evictions>,
    /// The number of the request; and for each slot, the number of its insertion, and whether it
    /// was hit.
    #[serde(skip)]
    request: u64,
    #[serde(skip)]
    stored: Vec<(u64, bool)>,
    #[serde(skip)]
    ages_sum: f64,
}

impl Figures {
    /// Returns statistics without a request.
    pub fn new(wanted: Breakdown) -> Figures {
        Figures {
            wanted,
            evictions: wanted.evictions.then(Evictions::default),
            ..Figures::default()
        }
    }

    /// Resets all counts at the end of a warm-up. The first window begins there.
    pub fn reset(&mut self) {
        self.windows.clear();
        self.size_classes.clear();
        self.evictions = self.wanted.evictions.then(Evictions::default);
        self.ages_sum = 0.0;
    }

    /// Returns the window of a request.
    fn window(&mut self, access: &Access, length: Window) -> &mut Part {
        let (place, mut width) = match length {
            Window::Requests(requests) => (self.request, requests.max(1)),
            Window::Nanos(nanos) => (access.now.nanos(), nanos.max(1)),
        };
        let first = self
            .windows
            .first()
            .map_or(place - place % width, |first| first.start);
        let mut at = place.saturating_sub(first) / width;
        while at >= BREAKDOWN_MAX_WINDOWS as u64 {
            width *= 2;
            self.windows = self.windows.chunks(2).map(merged).collect();
            at = (place - first) / width;
        }
        self.wanted.window = Some(match length {
            Window::Requests(_) => Window::Requests(width),
            Window::Nanos(_) => Window::Nanos(width),
        });
        let next = self.windows.len() as u64;
        self.windows.extend((next..=at).map(|nth| Part {
            start: first + nth * width,
            ..Part::default()
        }));
        &mut self.windows[at as usize]
    }

    fn size_class(&mut self, size: u64) -> &mut Part {
        let start = if size == 0 {
            0
        } else {
            10_u64.pow(size.ilog10())
        };
        let at = self
            .size_classes
            .partition_point(|class| class.start < start);
        if self
            .size_classes
            .get(at)
            .is_none_or(|class| class.start != start)
        {
            self.size_classes.insert(
                at,
                Part {
                    start,
                    ..Part::default()
                },
            );
        }
        &mut self.size_classes[at]
    }
}

fn merged(pair: &[Part]) -> Part {
    let mut whole = pair[0];
    for part in &pair[1..] {
        whole.add(part);
    }
    whole
}

impl Events for Figures {
    fn on_request(&mut self, access: &Access, is_hit: bool) {
        if let Some(length) = self.wanted.window {
            self.window(access, length).count(access, is_hit);
        }
        if self.wanted.size_classes {
            self.size_class(access.size).count(access, is_hit);
        }
        self.request += 1;
    }

    fn on_hit(&mut self, slot: Slot) {
        if self.wanted.evictions
            && let Some((_, was_hit)) = self.stored.get_mut(slot.index())
        {
            *was_hit = true;
        }
    }

    fn on_insert(&mut self, access: &Access, slot: Slot) {
        if let Some(length) = self.wanted.window {
            self.window(access, length).insertions += 1;
        }
        if self.wanted.size_classes {
            self.size_class(access.size).insertions += 1;
        }
        if self.wanted.evictions {
            if self.stored.len() <= slot.index() {
                self.stored.resize(slot.index() + 1, (0, false));
            }
            self.stored[slot.index()] = (self.request, false);
        }
    }

    fn on_evict(&mut self, slot: Slot) {
        let Some(evictions) = &mut self.evictions else {
            return;
        };
        let Some((since, was_hit)) = self.stored.get(slot.index()) else {
            return;
        };
        let age = self.request - since;
        let power = (u64::BITS - age.leading_zeros()) as usize;
        if evictions.ages.len() <= power {
            evictions.ages.resize(power + 1, 0);
        }
        evictions.ages[power] += 1;
        evictions.evictions += 1;
        evictions.without_hit += u64::from(!was_hit);
        self.ages_sum += age as f64;
        evictions.mean_age = self.ages_sum / evictions.evictions as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Replay;
    use larder_units::{ByteSize, Time};

    fn figures(
        wanted: Breakdown,
        requests: &[(u64, u64, u64)],
        capacity: u64,
    ) -> (Figures, Replay) {
        let mut replay =
            Replay::new(&"lru".parse().unwrap(), ByteSize::from_bytes(capacity), 1).unwrap();
        let mut figures = Figures::new(wanted);
        let access = |(id, size, second): &(u64, u64, u64)| Access {
            id: *id,
            size: *size,
            now: Time::from_secs(*second),
        };
        let accesses: Vec<Access> = requests.iter().map(access).collect();
        for chunk in accesses.chunks(3) {
            _ = replay.requests_with(chunk, &mut figures);
        }
        (figures, replay)
    }

    /// Failure: the parts do not add up to the row, or a request is in a wrong one.
    #[test]
    fn parts_are_not_the_whole() {
        let requests: Vec<_> = (0..1000_u64)
            .map(|n| {
                (
                    if n % 3 == 0 { n % 4 } else { n * 31 % 89 },
                    n % 120,
                    7 + n / 10,
                )
            })
            .collect();
        let wanted = Breakdown {
            window: Some(Window::Requests(64)),
            size_classes: true,
            evictions: true,
        };
        let (found, replay) = figures(wanted, &requests, 700);
        let counts = replay.counts();
        for parts in [&found.windows, &found.size_classes] {
            let whole = merged(parts);
            let sums = (
                whole.requests,
                whole.hits,
                whole.insertions,
                whole.bytes,
                whole.hit_bytes,
            );
            assert_eq!(
                sums,
                (
                    counts.requests,
                    counts.hits,
                    counts.insertions,
                    counts.bytes,
                    counts.hit_bytes
                )
            );
        }
        assert_eq!(
            found
                .windows
                .iter()
                .map(|part| part.requests)
                .take(15)
                .sum::<u64>(),
            15 * 64
        );
        assert_eq!(
            found
                .size_classes
                .iter()
                .map(|class| class.start)
                .collect::<Vec<_>>(),
            [0, 1, 10, 100]
        );
        let evictions = found.evictions.unwrap();
        let stored = replay.engine().len() as u64;
        assert_eq!(evictions.evictions, counts.insertions - stored);
        assert_eq!(evictions.ages.iter().sum::<u64>(), evictions.evictions);
        assert!(evictions.without_hit > 0 && evictions.without_hit < evictions.evictions);
    }

    /// Failure: a window of time begins at a wrong time, or a pause in the trace has no windows.
    #[test]
    fn a_pause_has_no_window() {
        let wanted = Breakdown {
            window: Some(Window::Nanos(10_000_000_000)),
            ..Breakdown::default()
        };
        let (found, _) = figures(wanted, &[(1, 1, 12), (1, 1, 19), (1, 1, 45)], 10);
        let parts: Vec<_> = found
            .windows
            .iter()
            .map(|part| (part.start / 1_000_000_000, part.requests))
            .collect();
        assert_eq!(parts, [(10, 2), (20, 0), (30, 0), (40, 1)]);
    }

    /// Failure: a long trace takes unbounded memory, or loses requests when windows are merged.
    #[test]
    fn windows_are_unbounded() {
        let wanted = Breakdown {
            window: Some(Window::Requests(1)),
            ..Breakdown::default()
        };
        let requests: Vec<_> = (0..3 * BREAKDOWN_MAX_WINDOWS as u64)
            .map(|n| (n % 5, 1, 0))
            .collect();
        let (found, _) = figures(wanted, &requests, 10);
        assert!(found.windows.len() <= BREAKDOWN_MAX_WINDOWS);
        assert_eq!(merged(&found.windows).requests, requests.len() as u64);
        assert!(
            found.windows.iter().all(|part| part.requests == 4),
            "{:?}",
            &found.windows[..3]
        );
    }

    /// Failure: an age is counted from another request.
    #[test]
    fn ages_are_off() {
        let wanted = Breakdown {
            evictions: true,
            ..Breakdown::default()
        };
        let (found, _) = figures(
            wanted,
            &[(1, 1, 0), (2, 1, 0), (1, 1, 0), (3, 1, 0), (4, 1, 0)],
            2,
        );
        let evictions = found.evictions.unwrap();
        // Request 3 evicts object 2, stored by request 1; request 4 evicts object 1, stored by 0.
        assert_eq!(
            (
                evictions.evictions,
                evictions.without_hit,
                evictions.mean_age
            ),
            (2, 1, 3.0)
        );
        assert_eq!(evictions.ages, [0, 0, 1, 1]);
    }
}
