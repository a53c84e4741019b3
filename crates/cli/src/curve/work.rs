//! One thread reads the trace, the others run the caches.

use crate::failure::Failure;
use crate::replay::progress::Progress;
use crate::replay::source::Source;
use larder_replay::{Curve, LruCurve, Miniature, Point, Sample, Sampled};
use larder_reproduce::thread_time;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// The most chunks that wait for a slow cache before the reader waits.
const WAITING_CHUNKS: usize = 4;

/// Part of a policy's curve.
pub enum Line {
    /// LRU's whole curve.
    Lru(Curve<LruCurve>),
    /// One point.
    Cache(Curve<Miniature>),
}

/// The curves of all policies.
pub struct Lines {
    policies: Vec<Vec<Timed>>,
    sampling: Duration,
}

struct Timed {
    line: Line,
    busy: Duration,
}

impl Timed {
    fn take(&mut self, chunk: &[Sampled]) {
        let start = thread_time();
        match &mut self.line {
            Line::Lru(curve) => curve.requests(chunk),
            Line::Cache(cache) => cache.requests(chunk),
        }
        self.busy += thread_time().saturating_sub(start);
    }
}

impl Lines {
    /// Takes the parts of each policy's curve, in order.
    pub fn new(policies: Vec<Vec<Line>>) -> Lines {
        let timed = |line| Timed {
            line,
            busy: Duration::ZERO,
        };
        let policies = policies
            .into_iter()
            .map(|lines| lines.into_iter().map(timed).collect());
        Lines {
            policies: policies.collect(),
            sampling: Duration::ZERO,
        }
    }

    /// Reads the trace once on this thread, and passes its sample to one worker per core. Each
    /// worker has its share of the curves.
    pub fn read(
        &mut self,
        source: &Source<'_>,
        progress: &Progress,
        sample: &mut Sample,
    ) -> Result<(), Failure> {
        let lines: Vec<&mut Timed> = self.policies.iter_mut().flatten().collect();
        let cores = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(lines.len());
        let mut shares: Vec<Vec<&mut Timed>> = (0..cores).map(|_| Vec::new()).collect();
        // Neighbours have similar costs, so the largest caches of one policy go to different
        // workers.
        for (index, line) in lines.into_iter().enumerate() {
            shares[index % cores].push(line);
        }
        std::thread::scope(|scope| {
            let start = |share| {
                let (sender, chunks) = sync_channel(WAITING_CHUNKS);
                scope.spawn(move || work(share, &chunks));
                sender
            };
            let workers: Vec<SyncSender<Arc<Vec<Sampled>>>> =
                shares.into_iter().map(start).collect();
            source
                .chunks("drawing", progress, 1, |chunk| {
                    let start = thread_time();
                    let sampled: Arc<Vec<Sampled>> = Arc::new(
                        chunk
                            .iter()
                            .filter_map(|access| sample.take(access))
                            .collect(),
                    );
                    self.sampling += thread_time().saturating_sub(start);
                    // A worker ends before its channel only by a panic, and the scope passes the
                    // panic on.
                    Ok(workers
                        .iter()
                        .all(|worker| worker.send(sampled.clone()).is_ok()))
                })
                .map(drop)
        })
    }

    /// Returns each policy's points, the share of the objects that they represent so far, and their
    /// processor time in seconds, including the sampling.
    pub fn points(&self, sample: &Sample) -> impl Iterator<Item = (Vec<Point>, f64, f64)> {
        self.policies.iter().map(|lines| {
            let points = lines.iter().flat_map(|timed| match &timed.line {
                Line::Lru(curve) => curve.points(sample),
                Line::Cache(cache) => cache.points(sample),
            });
            let busy: Duration = lines.iter().map(|timed| timed.busy).sum();
            let rate = lines.first().map_or(1.0, |timed| match &timed.line {
                Line::Lru(curve) => curve.rate(),
                Line::Cache(cache) => cache.rate(),
            });
            (points.collect(), rate, (busy + self.sampling).as_secs_f64())
        })
    }
}

fn work(mut lines: Vec<&mut Timed>, chunks: &Receiver<Arc<Vec<Sampled>>>) {
    while let Ok(chunk) = chunks.recv() {
        for line in &mut lines {
            line.take(&chunk);
        }
    }
}
