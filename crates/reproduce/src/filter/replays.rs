//! Replays of the paper's workloads: the hit rate and the insertion rate of a settled cache.

use super::policies;
use crate::{Error, Request, Watch, on_all_cores};
use larder_policy::Spec;
use larder_replay::{Access, Mix, Replay, Video, Web};
use larder_units::{ByteSize, Streams};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;

/// The traffic of section 6.1.2. All packets have the same size, so capacities count packets.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub(super) enum Workload {
    Web {
        objects: u64,
        exponent: f64,
    },
    Video {
        videos: u64,
        packets: u64,
    },
    /// Web and video together. Web has 0.7 times the volume of video.
    Mix {
        objects: u64,
        videos: u64,
        packets: u64,
    },
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Web { objects, exponent } => write!(f, "{objects} objects, Zipf {exponent}"),
            Workload::Video { videos, packets } => {
                write!(f, "{videos} videos of {packets} packets")
            }
            Workload::Mix {
                objects,
                videos,
                packets,
            } => {
                write!(
                    f,
                    "{objects} objects, and {videos} videos of {packets} packets"
                )
            }
        }
    }
}

/// The paper's exponent.
const EXPONENT: f64 = 0.8;

/// The paper's ratio of web to video.
const VOLUMES: f64 = 0.7;

impl Workload {
    /// Returns the traffic in words.
    pub(super) fn described(&self) -> String {
        match *self {
            Workload::Web { objects, exponent } => format!("{objects} objects, Zipf {exponent}"),
            Workload::Video { videos, packets } => format!("{videos} videos of {packets} packets"),
            Workload::Mix {
                objects,
                videos,
                packets,
            } => {
                format!(
                    "{objects} objects and {videos} videos of {packets} packets; web has {VOLUMES} times the volume"
                )
            }
        }
    }

    /// Returns the number of packets of the catalogue.
    pub(super) fn objects(&self) -> u64 {
        match *self {
            Workload::Web { objects, .. } => objects,
            Workload::Video { videos, packets } => videos * packets,
            Workload::Mix {
                objects,
                videos,
                packets,
            } => objects + videos * packets,
        }
    }

    fn requests(&self, seed: u64) -> Result<Box<dyn Iterator<Item = Access>>, Error> {
        let streams = Streams::new(seed);
        let web = |objects, exponent| Web {
            objects,
            exponent,
            object_bytes: 1,
            ..Web::default()
        };
        let video = |videos, packets| Video {
            videos,
            packets,
            packet_bytes: 1,
            exponent: EXPONENT,
            ..Video::default()
        };
        let refused =
            |error: larder_replay::ParameterError| Error(format!("workload {self:?}: {error}"));
        Ok(match *self {
            Workload::Web { objects, exponent } => {
                Box::new(web(objects, exponent).requests(&streams).map_err(refused)?)
            }
            Workload::Video { videos, packets } => {
                Box::new(video(videos, packets).requests(&streams).map_err(refused)?)
            }
            Workload::Mix {
                objects,
                videos,
                packets,
            } => {
                let mix = Mix::of(web(objects, EXPONENT), video(videos, packets), VOLUMES);
                Box::new(mix.requests(&streams).map_err(refused)?)
            }
        })
    }
}

/// The policies of figure 6, with two readings of LFU.
pub(super) const POLICIES: [&str; 7] = [
    "FIFO",
    "Random",
    "LFU (in cache)",
    "ARC",
    "TinyLFU",
    "Filter",
    "LFU (all requests)",
];

/// Returns a policy of the paper in front of a cache of `capacity` packets. The filter has q = C, h
/// = 2²⁴ and θ = 2, TinyLFU a window of 50 C. Two forms of LFU also count packets that are not
/// cached, over the last 400 C requests or the greatest window of `wlfu`, or over all requests.
pub(super) fn spec(policy: &str, capacity: u64) -> Result<Spec, Error> {
    let text = match policy {
        "FIFO" => "fifo".to_owned(),
        "Random" => "random".to_owned(),
        "LFU (400 C)" => format!(
            "wlfu(window={})",
            (400 * capacity).min(larder_policy::limits::WLFU_MAX_WINDOW)
        ),
        "LFU (in cache)" => "lfu".to_owned(),
        "LFU (all requests)" => "lfu-of-all".to_owned(),
        "ARC" => "arc".to_owned(),
        "TinyLFU" => format!("tinylfu(window={})+random", 50 * capacity),
        "Filter" => filter(2, capacity),
        "Filter (exact counts)" => format!("exact-filter(theta=2,window={capacity})+fifo"),
        other => other.to_owned(),
    };
    Spec::parse(&text, &policies::POLICIES).map_err(Error::from_cause)
}

/// Returns the paper's filter in front of FIFO, with these θ and q.
pub(super) fn filter(theta: u64, window: u64) -> String {
    format!("filter(theta={theta},window={window},table=16777216)+fifo")
}

/// One replay.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) workload: Workload,
    pub(super) spec: Spec,
    /// The capacity, packets.
    pub(super) capacity: u64,
    /// The number of requests before counting starts.
    pub(super) warm_up: u64,
    /// The number of counted requests.
    pub(super) requests: u64,
}

/// The result of a replay.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Rates {
    /// Hits ÷ requests.
    pub(super) hit: f64,
    /// Insertions ÷ misses.
    pub(super) insertion: f64,
}

/// The number of requests generated at a time. It is large compared with the look-ahead of
/// [`Replay::requests`], and small compared with the processor's cache.
const CHUNK: u64 = 1 << 14;

/// The number of caches that share one generation of their requests, which is a quarter of the
/// work. With all six, two cores would have some 12 GB of caches of 1.1e7 packets.
const AT_ONCE: usize = 3;

/// Runs the cells that are not finished on all cores, the longest first, and equal cells once. The
/// rates have the order of the cells.
pub(super) fn replay_all(
    cells: &[Cell],
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Vec<Rates>, Error> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut rates: Vec<(usize, Rates)> = Vec::new();
    let mut firsts: HashMap<String, usize> = HashMap::new();
    let mut copies: Vec<(usize, usize)> = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let first = *firsts.entry(cell.key(request.seed)).or_insert(at);
        if first < at {
            watch.advance(cell.length());
            copies.push((at, first));
            continue;
        }
        if let Some(finished) = request.rows.get(&cell.key(request.seed)) {
            watch.advance(cell.length());
            rates.push((at, finished));
            continue;
        }
        let takes =
            |group: &&mut Vec<usize>| group.len() < AT_ONCE && cells[group[0]].sees_what(cell);
        match groups.iter_mut().find(takes) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len() as u64 * cells[group[0]].length()));
    let found = on_all_cores(groups, |group| {
        let together: Vec<&Cell> = group.iter().map(|at| &cells[*at]).collect();
        let rates = replay(&together, request.seed, watch)?;
        for (cell, rates) in together.iter().zip(&rates) {
            request.rows.add(&cell.key(request.seed), rates)?;
        }
        Ok(group.into_iter().zip(rates).collect::<Vec<_>>())
    });
    rates.extend(
        found
            .into_iter()
            .collect::<Result<Vec<_>, Error>>()?
            .concat(),
    );
    let of_firsts: HashMap<usize, Rates> = rates.iter().copied().collect();
    rates.extend(
        copies
            .into_iter()
            .filter_map(|(at, first)| Some((at, *of_firsts.get(&first)?))),
    );
    rates.sort_by_key(|(at, _)| *at);
    Ok(rates.into_iter().map(|(_, rates)| rates).collect())
}

/// Generates the requests once and replays them with all `cells`, which have the same requests.
fn replay(cells: &[&Cell], seed: u64, watch: &dyn Watch) -> Result<Vec<Rates>, Error> {
    let Some(Cell {
        workload,
        warm_up,
        requests,
        ..
    }) = cells.first()
    else {
        return Ok(Vec::new());
    };
    let mut replays = cells
        .iter()
        .map(|cell| cell.start(seed))
        .collect::<Result<Vec<_>, Error>>()?;
    let mut made = workload.requests(seed)?;
    for length in [warm_up, requests] {
        replays.iter_mut().for_each(Replay::reset_counts);
        in_chunks(&mut *made, *length, |chunk| {
            for replay in &mut replays {
                replay.requests(chunk);
                watch.advance(chunk.len() as u64);
            }
        });
    }
    let rates = |replay: &Replay| {
        let row = replay.row("");
        Rates {
            hit: row.object_hit_ratio,
            insertion: row.insertion_ratio,
        }
    };
    let all: Vec<Rates> = replays.iter().map(rates).collect();
    for (cell, rates) in cells.iter().zip(&all) {
        if !rates.hit.is_finite() || !rates.insertion.is_finite() {
            return Err(Error(format!(
                "{}: the replay counted {rates:?}, not numbers",
                cell.key(seed)
            )));
        }
    }
    Ok(all)
}

/// Passes the next `length` requests on in chunks.
fn in_chunks(made: &mut dyn Iterator<Item = Access>, length: u64, mut take: impl FnMut(&[Access])) {
    let (mut left, mut chunk) = (length, Vec::new());
    while left > 0 {
        chunk.clear();
        chunk.extend(made.take(left.min(CHUNK) as usize));
        if chunk.is_empty() {
            return;
        }
        take(&chunk);
        left -= chunk.len() as u64;
    }
}

/// Returns the number of requests of all cells, which is the unit of the work.
pub(super) fn work(cells: &[Cell]) -> u64 {
    cells.iter().map(Cell::length).sum()
}

impl Cell {
    /// Returns a text with everything that the rates depend on.
    fn key(&self, seed: u64) -> String {
        let Cell {
            workload,
            spec,
            capacity,
            warm_up,
            requests,
        } = self;
        format!(
            "filter: {workload:?}, {spec}, {capacity} packets, {warm_up} + {requests} requests, seed {seed}"
        )
    }

    fn length(&self) -> u64 {
        self.warm_up + self.requests
    }

    /// Returns true if `other` has the same requests.
    fn sees_what(&self, other: &Cell) -> bool {
        (self.workload, self.warm_up, self.requests)
            == (other.workload, other.warm_up, other.requests)
    }

    /// Returns the hit rate of each `stretch` requests.
    pub(super) fn course(
        &self,
        seed: u64,
        stretch: u64,
        watch: &dyn Watch,
    ) -> Result<Vec<f64>, Error> {
        let mut replay = self.start(seed)?;
        let mut made = self.workload.requests(seed)?;
        let one = |_| {
            let mut hits = 0;
            in_chunks(&mut *made, stretch, |chunk| {
                hits += replay.requests(chunk);
                watch.advance(chunk.len() as u64);
            });
            hits as f64 / stretch as f64
        };
        Ok((0..self.requests / stretch).map(one).collect())
    }

    fn start(&self, seed: u64) -> Result<Replay, Error> {
        Replay::new(&self.spec, ByteSize::from_bytes(self.capacity), seed)
            .map_err(Error::from_cause)
    }
}
