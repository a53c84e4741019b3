//! A flash crowd: some objects suddenly become very popular (Berger, Sitaraman and Harchol-Balter,
//! AdaptSize, NSDI 2017, section 5.3.1).
//!
//! The first 5 million requests are normal traffic, in which every cache warms up. Then half of the
//! requests are normal, and half are for the crowd's 200 to 1,000 objects. The normal traffic is
//! the [`Cdn`] here, because the paper's traces are not public. Choices where the paper says
//! nothing:
//! * the crowd's objects are "randomly sampled from the trace": here drawn from the catalogue with
//!   equal chances. So most had hardly any requests before (drawn by their requests, they would
//!   have been popular already), and have the sizes of rare objects, half of them below 17 KB. A
//!   threshold that was right before still admits most of them;
//! * but sections 3.1 and 5.3.1 speak of "a video with 2 MB chunks" that "abruptly becomes
//!   popular", and the typical case of figure 15a moves the best threshold from 20 KB to 512 KB.
//!   [`CrowdShape::chunk_bytes`] is this second reading: chunks of one size, without requests
//!   before;
//! * the requests of the crowd are spread evenly over its objects, as independent draws;
//! * they are additional requests: twice as many requests a second.

use super::arrivals;
use super::cdn::{Cdn, CdnRequests, RATE};
use crate::Access;
use larder_units::{Stream, Streams, Time};
use std::collections::BTreeSet;

/// Requests before the crowd arrives, in the paper's experiment.
const CALM_REQUESTS: u64 = 5_000_000;

/// The objects that a crowd requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrowdShape {
    /// The least and the greatest number of objects. A random number between the two is drawn.
    pub objects: [u64; 2],
    /// The bytes of each object, if they are the chunks of a new video, with ids beyond the
    /// catalogue's; `None` if they are drawn from the catalogue.
    pub chunk_bytes: Option<u64>,
}

/// The paper's experiment: 200 to 1,000 objects of the catalogue.
impl Default for CrowdShape {
    fn default() -> CrowdShape {
        CrowdShape {
            objects: [200, 1000],
            chunk_bytes: None,
        }
    }
}

/// A flash crowd over the traffic of a [`Cdn`]. The paper's experiment has 15 million requests.
#[derive(Clone, Debug)]
pub struct FlashCrowd {
    cdn: Cdn,
    calm_requests: u64,
    /// The ids, ascending.
    crowd: Vec<u64>,
    chunk_bytes: Option<u64>,
    streams: Streams,
}

impl FlashCrowd {
    /// Creates the paper's crowd for objects of `cdn`, drawn by `streams`. It arrives after
    /// [`FlashCrowd::CALM_REQUESTS`].
    pub fn new(cdn: Cdn, streams: &Streams) -> FlashCrowd {
        FlashCrowd::of(CrowdShape::default(), cdn, streams)
    }

    /// Does the same for another crowd.
    pub fn of(crowd: CrowdShape, cdn: Cdn, streams: &Streams) -> FlashCrowd {
        let mut stream = streams.stream("flash crowd");
        let catalogue = cdn.sizes().len() as u64;
        let CrowdShape {
            objects: [least, most],
            chunk_bytes,
        } = crowd;
        let count = least.max(1) + stream.below(most.saturating_sub(least.max(1)) + 1);
        let crowd = match chunk_bytes {
            Some(_) => (catalogue..catalogue.saturating_add(count)).collect(),
            None => {
                let mut drawn = BTreeSet::new();
                while (drawn.len() as u64) < count.min(catalogue) {
                    drawn.insert(stream.below(catalogue));
                }
                drawn.into_iter().collect()
            }
        };
        FlashCrowd {
            cdn,
            calm_requests: CALM_REQUESTS,
            crowd,
            chunk_bytes,
            streams: *streams,
        }
    }

    /// Requests before the crowd arrives, in the paper's experiment.
    pub const CALM_REQUESTS: u64 = CALM_REQUESTS;

    /// Lets the crowd arrive after this number of requests.
    pub fn after(self, calm_requests: u64) -> FlashCrowd {
        FlashCrowd {
            calm_requests,
            ..self
        }
    }

    /// Returns the ids of the objects that the crowd requests.
    pub fn crowd(&self) -> &[u64] {
        &self.crowd
    }

    /// Returns endless requests, always the same ones.
    pub fn requests(&self) -> FlashCrowdRequests<'_> {
        FlashCrowdRequests {
            flash_crowd: self,
            ever: self.cdn.requests(),
            stream: self.streams.stream("flash crowd requests"),
            done: 0,
            now: Time::ZERO,
        }
    }
}

/// The requests of a [`FlashCrowd`].
#[derive(Clone, Debug)]
pub struct FlashCrowdRequests<'a> {
    flash_crowd: &'a FlashCrowd,
    ever: CdnRequests<'a>,
    stream: Stream,
    done: u64,
    now: Time,
}

impl Iterator for FlashCrowdRequests<'_> {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        let FlashCrowd {
            cdn,
            calm_requests,
            crowd,
            chunk_bytes,
            ..
        } = self.flash_crowd;
        let is_calm = self.done < *calm_requests;
        self.done += 1;
        self.now += arrivals::pause(if is_calm { RATE } else { 2.0 * RATE }, &mut self.stream);
        if is_calm || self.stream.chance(0.5) {
            return self.ever.next().map(|access| Access {
                now: self.now,
                ..access
            });
        }
        let id = crowd[self.stream.below(crowd.len() as u64) as usize];
        let size = chunk_bytes.unwrap_or_else(|| u64::from(cdn.sizes()[id as usize]));
        Some(Access {
            id,
            size,
            now: self.now,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flash_crowd(objects: usize, seed: u64) -> FlashCrowd {
        let streams = Streams::new(seed);
        FlashCrowd::new(Cdn::new(objects, 0.9, &streams).unwrap(), &streams)
    }

    #[test]
    fn no_crowd_comes_or_it_was_there_before() {
        let crowd = flash_crowd(100_000, 1).after(200_000);
        let ids: BTreeSet<u64> = crowd.crowd().iter().copied().collect();
        assert!((200..=1000).contains(&ids.len()) && ids.len() == crowd.crowd().len());
        let accesses: Vec<Access> = crowd.requests().take(600_000).collect();
        let share = |accesses: &[Access]| {
            accesses
                .iter()
                .filter(|access| ids.contains(&access.id))
                .count() as f64
                / accesses.len() as f64
        };
        // At most 1 % of the objects were drawn; a popular one among them would add 4 %.
        let (before, after) = (share(&accesses[..200_000]), share(&accesses[200_000..]));
        assert!(
            before < 0.05,
            "{before} of the calm requests are for the crowd's objects"
        );
        assert!(
            (after - 0.5 - before / 2.0).abs() < 0.005,
            "{after} of the later ones"
        );

        // Evenly: the most popular object of the crowd has few requests more than its share.
        let mut counts = std::collections::HashMap::new();
        for a in accesses[200_000..].iter().filter(|a| ids.contains(&a.id)) {
            *counts.entry(a.id).or_insert(0) += 1;
        }
        let mean = 400_000.0 * 0.5 / ids.len() as f64;
        let mut counts: Vec<f64> = counts
            .values()
            .map(|count: &i32| f64::from(*count))
            .collect();
        counts.sort_by(f64::total_cmp);
        let median = counts[counts.len() / 2];
        assert!((median / mean - 1.0).abs() < 0.03, "{median} for {mean}");

        assert!(
            accesses.windows(2).all(|pair| pair[0].now <= pair[1].now),
            "time goes back"
        );
        let seconds =
            |from: usize, to: usize| accesses[to].now.since(accesses[from].now).as_secs_f64();
        let faster = (400_000.0 / seconds(199_999, 599_999)) / (199_999.0 / seconds(0, 199_999));
        assert!(
            (faster - 2.0).abs() < 0.03,
            "{faster} times as many a second"
        );
    }

    #[test]
    fn chunks_were_there_before_or_have_other_sizes() {
        let streams = Streams::new(1);
        let chunks = CrowdShape {
            objects: [5, 25],
            chunk_bytes: Some(2_000_000),
        };
        let crowd =
            FlashCrowd::of(chunks, Cdn::new(1000, 0.9, &streams).unwrap(), &streams).after(10_000);
        assert!((5..=25).contains(&crowd.crowd().len()));
        let accesses: Vec<Access> = crowd.requests().take(30_000).collect();
        assert!(accesses[..10_000].iter().all(|access| access.id < 1000));
        let (chunks, others): (Vec<Access>, _) = accesses[10_000..]
            .iter()
            .partition(|access| access.id >= 1000);
        assert!((9_700..10_300).contains(&chunks.len()) && others.len() + chunks.len() == 20_000);
        assert!(
            chunks
                .iter()
                .all(|chunk| chunk.size == 2_000_000 && crowd.crowd().contains(&chunk.id))
        );
        assert!(
            crowd
                .crowd()
                .iter()
                .all(|id| chunks.iter().any(|chunk| chunk.id == *id))
        );
    }

    #[test]
    fn the_calm_traffic_is_another() {
        let crowd = flash_crowd(1000, 2);
        let calm = |access: &Access| (access.id, access.size);
        assert!(
            crowd.requests().take(1000).map(|a| calm(&a)).eq(crowd
                .cdn
                .requests()
                .take(1000)
                .map(|a| calm(&a)))
        );
        let after = |seed| {
            flash_crowd(1000, seed)
                .after(0)
                .requests()
                .take(50)
                .collect::<Vec<_>>()
        };
        assert_eq!(after(1), after(1));
        assert_ne!(after(1), after(3));
    }

    #[test]
    fn a_catalogue_smaller_than_the_crowd() {
        assert_eq!(flash_crowd(7, 1).crowd(), [0, 1, 2, 3, 4, 5, 6]);
    }
}
