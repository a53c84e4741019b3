//! Replays of the paper's workloads: what of the requests hit and what of the misses was stored, once the cache has settled.

use crate::{Error, Request, Watch, on_all_cores};
use larder_policy::Spec;
use larder_replay::{Access, Mix, Replay, Video, Web};
use larder_units::{ByteSize, Streams};
use serde::Deserialize;

/// The traffic of section 6.1.2. Packets have one size, so capacities count packets.
#[derive(Clone, Copy, Debug, Deserialize)]
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
    /// Web beside video, 0.7 times its volume.
    Mix {
        objects: u64,
        videos: u64,
        packets: u64,
    },
}

/// The paper's exponent.
const EXPONENT: f64 = 0.8;

/// The paper's ratio of web to video.
const VOLUMES: f64 = 0.7;

impl Workload {
    /// Packets of the catalogue.
    pub(super) fn objects(&self) -> u64 {
        match *self {
            Workload::Web { objects, .. } => objects,
            Workload::Video { videos, packets } => videos * packets,
            Workload::Mix { objects, videos, packets } => objects + videos * packets,
        }
    }

    fn drive(&self, seed: u64, requests: u64, mut take: impl FnMut(&Access)) -> Result<(), Error> {
        let streams = Streams::new(seed);
        let web = |objects, exponent| Web { objects, exponent, object_bytes: 1, ..Web::default() };
        let video =
            |videos, packets| Video { videos, packets, packet_bytes: 1, exponent: EXPONENT, ..Video::default() };
        let requests = usize::try_from(requests).unwrap_or(usize::MAX);
        let refused = |error: larder_replay::ParameterError| Error(format!("workload {self:?}: {error}"));
        match *self {
            Workload::Web { objects, exponent } => {
                let all = web(objects, exponent).requests(&streams).map_err(refused)?;
                all.take(requests).for_each(|access| take(&access));
            }
            Workload::Video { videos, packets } => {
                let all = video(videos, packets).requests(&streams).map_err(refused)?;
                all.take(requests).for_each(|access| take(&access));
            }
            Workload::Mix { objects, videos, packets } => {
                let mix = Mix::of(web(objects, EXPONENT), video(videos, packets), VOLUMES);
                mix.requests(&streams).map_err(refused)?.take(requests).for_each(|access| take(&access));
            }
        }
        Ok(())
    }
}

/// The policies of figure 6.
pub(super) const POLICIES: [&str; 6] = ["FIFO", "Random", "LFU (in cache)", "ARC", "TinyLFU", "Filter"];

/// A policy of the paper before a cache of `capacity` packets: the filter with q = C, h = 2²⁴ and θ = 2, TinyLFU with a window of 50 C; LFU
/// counts what is not cached too, over 400 C requests, or as many as it can.
pub(super) fn spec(policy: &str, capacity: u64) -> Result<Spec, Error> {
    let text = match policy {
        "FIFO" => "fifo".to_owned(),
        "Random" => "random".to_owned(),
        "LFU (400 C)" => format!("wlfu(window={})", (400 * capacity).min(larder_policy::limits::WLFU_MAX_WINDOW)),
        "LFU (in cache)" => "lfu".to_owned(),
        "ARC" => "arc".to_owned(),
        "TinyLFU" => format!("tinylfu(window={})+random", 50 * capacity),
        "Filter" => filter(2, capacity),
        other => other.to_owned(),
    };
    text.parse().map_err(|error: larder_policy::SpecError| Error(error.to_string()))
}

/// The paper's filter before FIFO, with another θ and q.
pub(super) fn filter(theta: u64, window: u64) -> String {
    format!("filter(theta={theta},window={window},table=16777216)+fifo")
}

/// One replay.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) workload: Workload,
    pub(super) spec: Spec,
    /// Packets.
    pub(super) capacity: u64,
    /// Requests before anything is counted.
    pub(super) warm_up: u64,
    /// Requests that are counted.
    pub(super) requests: u64,
}

/// What a replay found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// Hits ÷ requests.
    pub(super) hit: f64,
    /// Insertions ÷ misses.
    pub(super) insertion: f64,
}

/// Requests between two words to whoever watches.
pub(super) const STRIDE: u64 = 1 << 18;

/// Runs the cells on all cores, the longest first; the rates come in the order of the cells.
pub(super) fn replay_all(cells: &[Cell], request: &Request<'_>, watch: &dyn Watch) -> Result<Vec<Rates>, Error> {
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(cells[at].warm_up + cells[at].requests));
    let found = on_all_cores(order, |at| (at, cells[at].replay(request.seed, watch)));
    let mut rates: Vec<(usize, Rates)> =
        found.into_iter().map(|(at, rates)| Ok((at, rates?))).collect::<Result<_, Error>>()?;
    rates.sort_by_key(|(at, _)| *at);
    Ok(rates.into_iter().map(|(_, rates)| rates).collect())
}

/// The requests of all cells: the units of the work.
pub(super) fn work(cells: &[Cell]) -> u64 {
    cells.iter().map(|cell| cell.warm_up + cell.requests).sum()
}

impl Cell {
    fn replay(&self, seed: u64, watch: &dyn Watch) -> Result<Rates, Error> {
        let mut replay = self.start(seed)?;
        let mut number = 0;
        self.workload.drive(seed, self.warm_up + self.requests, |access| {
            if number == self.warm_up {
                replay.reset_counts();
            }
            replay.request(access);
            number += 1;
            if number % STRIDE == 0 {
                watch.advance(STRIDE);
            }
        })?;
        watch.advance(number % STRIDE);
        let row = replay.row("");
        Ok(Rates { hit: row.object_hit_ratio, insertion: row.insertion_ratio })
    }

    /// The hit rate in each stretch of `stretch` requests.
    pub(super) fn course(&self, seed: u64, stretch: u64, watch: &dyn Watch) -> Result<Vec<f64>, Error> {
        let mut replay = self.start(seed)?;
        let (mut course, mut hits, mut number) = (Vec::new(), 0_u64, 0_u64);
        self.workload.drive(seed, self.requests, |access| {
            hits += u64::from(replay.request(access));
            number += 1;
            if number.is_multiple_of(stretch) {
                course.push(hits as f64 / stretch as f64);
                hits = 0;
                watch.advance(stretch);
            }
        })?;
        Ok(course)
    }

    fn start(&self, seed: u64) -> Result<Replay, Error> {
        Replay::new(&self.spec, ByteSize::from_bytes(self.capacity), seed).map_err(|error| Error(error.to_string()))
    }
}
