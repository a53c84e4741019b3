//! The requests of a prediction: those of a law, or of a trace.

use super::args::PredictArgs;
use crate::failure::Failure;
use crate::replay::progress::Progress;
use crate::replay::source::{MEASURING, Source};
use crate::trace_file::check_read_twice;
use larder_replay::model::Popularity;
use larder_replay::{Access, Replay, Row, Survey, Zipf};
use larder_units::{Streams, Time};

/// The default number of replayed requests of a law.
const REQUESTS: u64 = 4_000_000;

/// The most objects of a law. The models integrate over ranks as floating-point numbers.
const MOST_OBJECTS: u64 = 1_000_000_000_000_000;

/// The number of requests that the caches get at a time.
const CHUNK_REQUESTS: u64 = 1 << 16;

/// The traffic of a prediction.
pub struct Traffic<'a> {
    pub popularity: Popularity,
    /// The bytes of all objects, on which shares of a size are based, as in a replay.
    pub unique_bytes: u64,
    origin: Origin<'a>,
}

enum Origin<'a> {
    Law {
        zipf: Zipf,
        size: u64,
        requests: u64,
        seed: u64,
    },
    Trace(Source<'a>),
}

impl<'a> Traffic<'a> {
    /// Reads the trace, if there is one.
    pub fn new(args: &'a PredictArgs) -> Result<Traffic<'a>, Failure> {
        let usage = |problem: String| Failure::usage(problem);
        if args.requests == Some(0) {
            return Err(usage(
                "--requests 0: no request would be read or replayed".to_owned(),
            ));
        }
        let Some(exponent) = args.zipf else {
            let path = args
                .trace
                .as_deref()
                .ok_or_else(|| usage("give a trace, or --zipf".to_owned()))?;
            let source = Source::new(path, &args.layout, args.requests);
            if args.replay {
                check_read_twice(path, "--replay", "give a file")?;
            }
            let mut survey = Survey::default();
            source.chunks(MEASURING, &Progress::new(source.units(1)), 1, |chunk| {
                for access in chunk.iter() {
                    survey.count(access);
                }
                Ok(true)
            })?;
            let (popularity, unique_bytes) = (Popularity::of(&survey), survey.unique_bytes());
            return Ok(Traffic {
                popularity,
                unique_bytes,
                origin: Origin::Trace(source),
            });
        };
        let objects = args.objects.unwrap_or_default();
        if !(1..=MOST_OBJECTS).contains(&objects) {
            return Err(usage(format!(
                "--objects {objects}: give 1 to {MOST_OBJECTS}"
            )));
        }
        let law = Popularity::zipf(objects, exponent).zip(Zipf::new(objects, exponent));
        let (popularity, zipf) = law.ok_or_else(|| {
            usage(format!(
                "--zipf {exponent}: a finite exponent above 0 is wanted"
            ))
        })?;
        let size = args.object_size.bytes().max(1);
        let requests = args.requests.unwrap_or(REQUESTS);
        let origin = Origin::Law {
            zipf,
            size,
            requests,
            seed: args.seed,
        };
        Ok(Traffic {
            popularity: popularity.with_size(size),
            unique_bytes: objects.saturating_mul(size),
            origin,
        })
    }

    /// Replays the requests with all caches. For a law, counting starts in the middle.
    pub fn replay(&self, mut caches: Vec<Replay>) -> Result<Vec<Row>, Failure> {
        let take = |caches: &mut Vec<Replay>, chunk: &[Access]| {
            for cache in caches {
                for access in chunk {
                    _ = cache.request(access);
                }
            }
        };
        match &self.origin {
            Origin::Trace(source) => {
                source.chunks("replaying", &Progress::new(source.units(1)), 1, |chunk| {
                    take(&mut caches, chunk);
                    Ok(true)
                })?;
            }
            Origin::Law {
                zipf,
                size,
                requests,
                seed,
            } => {
                let mut stream = Streams::new(*seed).stream("predict");
                let mut draw = || Access {
                    id: zipf.draw(&mut stream),
                    size: *size,
                    now: Time::ZERO,
                };
                let progress = Progress::new(*requests as f64);
                for (half, length) in [(0, requests / 2), (1, requests - requests / 2)] {
                    let mut left = length;
                    while left > 0 {
                        let chunk: Vec<Access> =
                            (0..left.min(CHUNK_REQUESTS)).map(|_| draw()).collect();
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
                        caches.iter_mut().for_each(Replay::reset_counts);
                    }
                }
            }
        }
        Ok(caches.iter().map(|cache| cache.row("")).collect())
    }
}
