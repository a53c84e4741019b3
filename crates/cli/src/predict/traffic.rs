//! The requests that a prediction is for: a law's, or a trace's.

use super::PredictArgs;
use crate::failure::Failure;
use crate::replay::progress::Progress;
use crate::replay::source::Source;
use larder_replay::model::{Popularity, Tally};
use larder_replay::{Access, Replay, Row, Zipf};
use larder_units::{Streams, Time};

/// Requests of a law that are replayed unless it is said otherwise.
const REQUESTS: u64 = 4_000_000;

/// Requests handed to the caches at once.
const CHUNK_REQUESTS: u64 = 1 << 16;

/// What is requested.
pub struct Traffic<'a> {
    pub popularity: Popularity,
    origin: Origin<'a>,
}

enum Origin<'a> {
    Law { zipf: Zipf, size: u64, requests: u64, seed: u64 },
    Trace(Source<'a>),
}

impl<'a> Traffic<'a> {
    /// Reads the trace, if there is one.
    pub fn new(args: &'a PredictArgs) -> Result<Traffic<'a>, Failure> {
        let usage = |problem: String| Failure::usage(problem);
        let Some(exponent) = args.zipf else {
            let path = args.trace.as_deref().ok_or_else(|| usage("give a trace, or --zipf".to_owned()))?;
            let source = Source::new(path, &args.layout, args.requests);
            let mut tally = Tally::default();
            source.chunks("measuring", &Progress::new(source.units(1)), 1, |chunk| {
                chunk.iter().for_each(|access| tally.count(access));
                Ok(true)
            })?;
            return Ok(Traffic { popularity: tally.popularity(), origin: Origin::Trace(source) });
        };
        let objects = args.objects.as_deref().unwrap_or_default();
        let objects = whole(objects)
            .ok_or_else(|| usage(format!("--objects {objects}: a whole number from 1 to 1e15, such as 1e7")))?;
        let law = Popularity::zipf(objects, exponent).zip(Zipf::new(objects, exponent));
        let (popularity, zipf) =
            law.ok_or_else(|| usage(format!("--zipf {exponent}: a finite exponent above 0 is wanted")))?;
        let size = args.object_size.bytes().max(1);
        let requests = args.requests.unwrap_or(REQUESTS);
        let origin = Origin::Law { zipf, size, requests, seed: args.seed };
        Ok(Traffic { popularity: popularity.with_size(size), origin })
    }

    /// Replays the requests through all caches; a law's caches are counted from the second half on.
    pub fn replay(&self, mut caches: Vec<Replay>) -> Result<Vec<Row>, Failure> {
        let take = |caches: &mut Vec<Replay>, chunk: &[Access]| {
            for cache in caches {
                chunk.iter().for_each(|access| _ = cache.request(access));
            }
        };
        match &self.origin {
            Origin::Trace(source) => {
                source.chunks("replaying", &Progress::new(source.units(1)), 1, |chunk| {
                    take(&mut caches, &chunk);
                    Ok(true)
                })?;
                Ok(caches.iter().map(|cache| cache.row("")).collect())
            }
            Origin::Law { zipf, size, requests, seed } => {
                let mut stream = Streams::new(*seed).stream("predict");
                let mut draw = || Access { id: zipf.draw(&mut stream), size: *size, now: Time::ZERO };
                let progress = Progress::new(*requests as f64);
                let mut warm = Vec::new();
                for (half, length) in [(0, requests / 2), (1, requests - requests / 2)] {
                    let mut left = length;
                    while left > 0 {
                        let chunk: Vec<Access> = (0..left.min(CHUNK_REQUESTS)).map(|_| draw()).collect();
                        take(&mut caches, &chunk);
                        left -= chunk.len() as u64;
                        let done = half * (requests / 2) + length - left;
                        progress.at(
                            "replaying",
                            "the law",
                            done,
                            Some(done as f64 / *requests as f64),
                            *requests as f64,
                        );
                    }
                    if half == 0 {
                        warm = caches.iter().map(|cache| cache.row("")).collect();
                    }
                }
                Ok(caches.iter().zip(&warm).map(|(cache, warm)| since(warm, cache.row(""))).collect())
            }
        }
    }
}

/// The figures of `row` without those of `warm`, an earlier one of the same cache. The law's objects are of one size, so bytes hit as objects do.
fn since(warm: &Row, row: Row) -> Row {
    let insertions = |row: &Row| row.insertion_ratio * (row.requests - row.hits) as f64;
    let (requests, hits) = (row.requests - warm.requests, row.hits - warm.hits);
    let share = |part: f64, whole: u64| if whole == 0 { 0.0 } else { part / whole as f64 };
    let ratio = share(hits as f64, requests);
    Row {
        requests,
        hits,
        object_hit_ratio: ratio,
        byte_hit_ratio: ratio,
        insertion_ratio: share(insertions(&row) - insertions(warm), requests - hits),
        ..row
    }
}

/// A whole number, as 10000000 or 1e7.
fn whole(text: &str) -> Option<u64> {
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0 && (1.0..=1e15).contains(&number)).then_some(number as u64)
}
