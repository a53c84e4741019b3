//! Any policy at one capacity, by a cache scaled down with the sample (Waldspurger, Saemundsson,
//! Ahmad and Park, Cache modeling and optimization using miniature simulations, USENIX ATC 2017):
//! the objects of a sample with the rate R, in a cache of R times the capacity. Large objects are
//! in it with higher chances and less room: see [`Scale`].
//!
//! At the rate 1 it is the replay itself. It takes the policy's time for each sampled request, and
//! its memory for R of the objects.

use super::misses::{LargeMisses, Misses, Simulated};
use super::parts::{eviction, parts};
use super::sample::Sampled;
use crate::replay::Events;
use crate::{Access, Replay};
use larder_policy::{Engine, Scale, Spec, SpecError};
use larder_units::{ByteSize, Streams};

/// Evictions that learn at intervals with a minimum in requests. A miniature spends a larger part
/// of its life in the first interval: on Twitter's trace at 5 MiB and the rate 0.01, the error
/// stated for LHD was right in one sample of ten.
const UNSCALED: [&str; 1] = ["lhd"];

/// A miniature differs from the cache if an object that stands for others takes more than one part
/// in this many of it, or of the smallest part that the policy treats by itself.
const COARSE: f64 = 4.0;

/// Returns the room beyond which one object makes a miniature with this capacity coarse.
pub(crate) fn most_room(spec: &Spec, capacity: f64) -> f64 {
    capacity / (COARSE * parts(spec))
}

/// The difference between a cache and its miniature beyond chance and size: what adapts has less to
/// learn from. `benches/intervals.rs` counts the intervals that hold with it.
const LEAST_ERROR: f64 = 0.01;

/// Returns true if a miniature behaves differently from the cache, beyond the stated errors.
pub(crate) fn error_is_least(spec: &Spec) -> bool {
    UNSCALED.contains(&eviction(&spec.to_string()))
}

/// Returns the scale of a miniature of a cache of this capacity in so many parts, as far as a
/// sample of this scale allows.
pub(super) fn scale(capacity: u64, sample: Scale, parts: f64) -> Scale {
    let wanted = Scale::of(sample.rate(), capacity, parts);
    Scale::new(sample.rate(), wanted.small().max(sample.small()))
}

/// One cache with any policy.
pub struct Miniature {
    replay: Replay,
    capacity: u64,
    scale: Scale,
    /// The room that an object that stands for others may take.
    most_room: f64,
    is_coarse: bool,
    misses: Misses,
    large: Option<LargeMisses>,
    /// The requests with the rooms of their objects, kept to reuse its memory.
    rooms: Vec<Access>,
}

impl Miniature {
    /// Creates an empty cache that represents one of `capacity` with the policies of `spec`, for
    /// the objects of this scale.
    ///
    /// # Errors
    /// [`SpecError`] if the spec's arguments contradict each other.
    pub fn new(
        spec: &Spec,
        capacity: ByteSize,
        scale: Scale,
        seed: u64,
    ) -> Result<Miniature, SpecError> {
        let engine = Engine::miniature(spec, capacity, scale, &Streams::new(seed))?;
        Ok(Miniature {
            replay: Replay::over(engine, seed),
            capacity: capacity.bytes(),
            scale,
            most_room: most_room(spec, capacity.bytes() as f64 * scale.rate()),
            is_coarse: false,
            misses: Misses::default(),
            large: None,
            rooms: Vec::new(),
        })
    }

    /// Returns the same cache, filled as [`Replay::filling`] does.
    pub fn filling(self) -> Miniature {
        Miniature {
            replay: self.replay.filling(),
            ..self
        }
    }
}

/// Counts the misses among requests that are answered in this order.
struct Counting<'a> {
    left: std::slice::Iter<'a, Sampled>,
    scale: Scale,
    misses: &'a mut Misses,
    large: Option<&'a mut LargeMisses>,
}

impl Events for Counting<'_> {
    #[inline]
    fn on_request(&mut self, _: &Access, is_hit: bool) {
        let Some(sampled) = self.left.next() else {
            debug_assert!(false, "as many answers as requests");
            return;
        };
        if !is_hit {
            let weight = sampled.weight(&self.scale);
            self.misses.requests += weight;
            self.misses.bytes += weight * sampled.access.size as f64;
            if weight < 1.0
                && let Some(large) = &mut self.large
            {
                large.count(sampled, weight, &self.scale);
            }
        }
    }
}

impl Simulated for Miniature {
    fn requests(&mut self, requests: &[Sampled]) {
        let scale = self.scale;
        self.rooms.clear();
        self.rooms.extend(requests.iter().map(|sampled| Access {
            size: sampled.room(&scale),
            ..sampled.access
        }));
        self.is_coarse |= self.rooms.iter().zip(requests).any(|(room, sampled)| {
            room.size as f64 > self.most_room && sampled.chance(&scale) < 1.0
        });
        let mut counting = Counting {
            left: requests.iter(),
            scale,
            misses: &mut self.misses,
            large: self.large.as_mut(),
        };
        self.replay.requests_with(&self.rooms, &mut counting);
    }

    fn misses(&self) -> Vec<(u64, Misses)> {
        vec![(self.capacity, self.misses)]
    }

    fn measuring(self) -> Miniature {
        Miniature {
            large: Some(LargeMisses::default()),
            ..self
        }
    }

    fn variances(&self) -> Vec<Misses> {
        vec![
            self.large
                .as_ref()
                .map_or(Misses::default(), LargeMisses::variance),
        ]
    }

    fn rate(&self) -> f64 {
        self.scale.rate()
    }

    fn least_error(&self) -> f64 {
        LEAST_ERROR
    }

    fn error_is_least(&self) -> bool {
        self.is_coarse || error_is_least(self.replay.engine().spec())
    }

    fn size_changes(&self) -> u64 {
        0
    }
}
