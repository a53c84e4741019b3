//! A model of nginx' `proxy_cache`, after its source (`ngx_http_file_cache.c`). It finds the best
//! `proxy_cache_min_uses` without a run of nginx for each value.
//!
//! One queue has the key of every requested object, stored or not, the most recent first, with the
//! number of its requests. The request number `uses` stores the response. If the cache exceeds its
//! size, keys leave from the end of the queue, with their files and their request numbers. An
//! object is therefore stored only if it gets that many requests while its key is in the queue.
//! O(1) per request, amortised.

use super::replays::{ReplayResult, Traffic, part_length};
use crate::cell::{Cell, measure_all, units};
use crate::grid::Grid;
use crate::{Error, Request, Watch, thread_time};
use larder_replay::Access;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The bytes before the body: nginx' own header, the key, the response's header.
const HEADER_BYTES: u64 = 600;
/// The page size of a memory file system.
const PAGE_BYTES: u64 = 4096;

/// What an object occupies of the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occupied {
    /// The bytes of its body, as for the policies of the replays. This favours nginx.
    Body,
    /// The whole pages of a file with nginx' header and the response's.
    File,
}

impl Occupied {
    fn by(self, size: u64) -> u64 {
        match self {
            Occupied::Body => size.max(1),
            Occupied::File => (size + HEADER_BYTES).next_multiple_of(PAGE_BYTES),
        }
    }
}

/// The values of `min_uses` that are tried: those of the experiments' files, from 1 up.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Uses(Vec<u64>);

impl Uses {
    /// Returns a run of the model for each value.
    pub fn runs<'a>(
        &self,
        traffic: &'a Traffic,
        capacity: u64,
        occupied: Occupied,
        warm_up: usize,
    ) -> Vec<Run<'a>> {
        self.0
            .iter()
            .map(|uses| Run {
                traffic,
                uses: *uses,
                capacity,
                occupied,
                warm_up,
            })
            .collect()
    }

    /// Returns the best value and its result; `found` has one result for each value.
    ///
    /// # Errors
    /// [`Error`] if the optimum is the greatest value that was tried, because a greater one may be
    /// better. 1 is the least value that exists.
    pub fn best<'a>(&self, found: &'a [ReplayResult]) -> Result<(u64, &'a ReplayResult), Error> {
        let grid = Grid::new("nginx' min_uses", self.0.iter().copied()).starting_at_least();
        let scores: Vec<f64> = found.iter().map(|found| found.hit_ratio).collect();
        grid.best(&scores).map(|(at, uses)| (uses, &found[at]))
    }

    /// Runs the model with each value, and returns the best one and its result.
    ///
    /// # Errors
    /// Those of [`Uses::best`], and of rows that cannot be stored.
    pub fn tuned(
        &self,
        traffic: &Traffic,
        [capacity, warm_up]: [u64; 2],
        occupied: Occupied,
        request: &Request<'_>,
        watch: &dyn Watch,
    ) -> Result<(u64, ReplayResult), Error> {
        let runs = self.runs(traffic, capacity, occupied, warm_up as usize);
        watch.begin(
            &format!("{}: nginx by its model", traffic.name),
            units(&runs),
        );
        let found = measure_all(runs, request, watch)?;
        self.best(&found).map(|(uses, found)| (uses, found.clone()))
    }
}

/// A run of the model.
#[derive(Clone)]
pub(super) struct Run<'a> {
    traffic: &'a Traffic,
    uses: u64,
    /// The capacity, bytes.
    capacity: u64,
    occupied: Occupied,
    /// The number of requests before counting starts.
    warm_up: usize,
}

impl Cell for Run<'_> {
    type Row = ReplayResult;

    fn key(&self, _: u64) -> String {
        let Run {
            traffic,
            uses,
            capacity,
            occupied,
            warm_up,
        } = self;
        format!(
            "adaptsize, nginx: {traffic}, {uses} uses, {capacity} bytes of {occupied:?}, warm-up {warm_up}"
        )
    }

    fn units(&self) -> u64 {
        self.traffic.accesses.len() as u64
    }

    fn measure(&self, _: u64, watch: &dyn Watch) -> Result<ReplayResult, Error> {
        let accesses = &self.traffic.accesses;
        let begun = thread_time();
        let mut model = Model::new(accesses, self.capacity, self.uses, self.occupied);
        let mut result = ReplayResult {
            spec: format!("nginx, min_uses {}", self.uses),
            ..ReplayResult::default()
        };
        let (mut done, mut hits, mut counted) = (0, 0, 0_u64);
        for part in accesses.chunks(part_length(accesses.len())) {
            let mut hits_of_part = 0_u64;
            for _ in part {
                let hit = model.request();
                hits_of_part += u64::from(hit);
                if done >= self.warm_up {
                    hits += u64::from(hit);
                    counted += 1;
                }
                done += 1;
            }
            result.timeline.push((
                done as f64 / 1e6,
                hits_of_part as f64 / part.len() as f64,
                None,
            ));
            watch.advance(part.len() as u64);
        }
        result.hit_ratio = hits as f64 / counted.max(1) as f64;
        result.nanoseconds = (thread_time() - begun).as_nanos() as f64 / done.max(1) as f64;
        Ok(result)
    }
}

struct Key {
    /// The index of the last request for the object.
    last: usize,
    requests: u64,
    /// The bytes that its file occupies; 0 without a file.
    bytes: u64,
}

struct Model<'a> {
    accesses: &'a [Access],
    capacity: u64,
    uses: u64,
    occupied: Occupied,
    keys: HashMap<u64, Key>,
    /// The index of the next request.
    next: usize,
    /// The queue is the trace itself: an object stands at its last request. No key stands before
    /// this request.
    end: usize,
    used: u64,
}

impl<'a> Model<'a> {
    fn new(accesses: &'a [Access], capacity: u64, uses: u64, occupied: Occupied) -> Model<'a> {
        Model {
            accesses,
            capacity,
            uses,
            occupied,
            keys: HashMap::new(),
            next: 0,
            end: 0,
            used: 0,
        }
    }

    /// Handles the next request of the trace, and returns true if it is a hit.
    fn request(&mut self) -> bool {
        let access = self.accesses[self.next];
        let key = self.keys.entry(access.id).or_insert(Key {
            last: 0,
            requests: 0,
            bytes: 0,
        });
        key.last = self.next;
        key.requests += 1;
        self.next += 1;
        let hit = key.bytes > 0;
        if !hit && key.requests >= self.uses {
            key.bytes = self.occupied.by(access.size);
            self.used += key.bytes;
        }
        while self.used > self.capacity && self.end < self.next {
            let id = self.accesses[self.end].id;
            if self.keys.get(&id).is_some_and(|key| key.last == self.end) {
                self.used -= self.keys.remove(&id).map_or(0, |key| key.bytes);
            }
            self.end += 1;
        }
        hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Time;

    fn accesses(ids: &[u64], size: u64) -> Vec<Access> {
        ids.iter()
            .map(|id| Access {
                id: *id,
                size,
                now: Time::ZERO,
            })
            .collect()
    }

    fn hits(ids: &[u64], capacity: u64, uses: u64) -> usize {
        let accesses = accesses(ids, 3000);
        let mut model = Model::new(&accesses, capacity, uses, Occupied::File);
        accesses.iter().filter(|_| model.request()).count()
    }

    #[test]
    fn another_cache_s_hits_are_counted() {
        // Stored at the first, at the second, at the third request.
        assert_eq!(
            [1, 2, 3].map(|uses| hits(&[7, 7, 7, 7], 1 << 20, uses)),
            [3, 2, 1]
        );
        // There is room for a file of one page: two objects in turn evict each other.
        assert_eq!(hits(&[1, 2, 1, 2], PAGE_BYTES, 1), 0);
        // When 9 is stored, keys leave from the end of the queue: 1 with its request number, so its
        // next request counts as its first. This is not so if 8 is at the end.
        assert_eq!(hits(&[1, 8, 8, 9, 9, 1, 1], PAGE_BYTES, 2), 0);
        assert_eq!(hits(&[8, 8, 1, 9, 9, 1, 1], PAGE_BYTES, 2), 1);
    }

    #[test]
    fn a_body_occupies_a_page() {
        let accesses = accesses(&[1, 2, 1, 2], 3000);
        let mut model = Model::new(&accesses, 6000, 1, Occupied::Body);
        assert_eq!(
            [(); 4].map(|()| model.request()),
            [false, false, true, true]
        );
    }

    #[test]
    fn an_optimum_on_the_edge_of_the_grid_is_taken() {
        let result = |hit_ratio| ReplayResult {
            hit_ratio,
            ..ReplayResult::default()
        };
        let uses = Uses(vec![1, 2, 5]);
        let best = |ratios: [f64; 3]| uses.best(&ratios.map(result)).map(|(uses, _)| uses);
        assert_eq!(
            (
                best([0.3, 0.2, 0.1]).unwrap(),
                best([0.3, 0.4, 0.1]).unwrap()
            ),
            (1, 2)
        );
        assert!(
            best([0.3, 0.4, 0.5])
                .unwrap_err()
                .to_string()
                .contains("best value, 5")
        );
        // Of equal values, one inside the grid counts.
        assert_eq!(best([0.3, 0.5, 0.5]).unwrap(), 2);
    }
}
