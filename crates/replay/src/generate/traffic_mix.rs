//! A server whose traffic changes repeatedly between web, videos and software downloads (Berger,
//! Sitaraman and Harchol-Balter, AdaptSize, NSDI 2017, section 5.3.2).
//!
//! The traffic changes every 3 million requests, 60 million in all. Each class needs a very
//! different threshold: 32 KB, 1 MB and 16 MB in the paper's example. Choices where the paper says
//! nothing:
//! * web is the [`Cdn`]; videos and downloads are the same with 32 and 512 times larger objects
//!   (the ratios of those thresholds), and as many times fewer of them, so that every class has a
//!   catalogue of about the same bytes; [`TrafficMix::with_object_bytes`] is another reading, in
//!   which all objects of a class have one size;
//! * the next class is drawn from the two others with equal chances, and a class that returns has
//!   the same objects;
//! * the request rate is constant.

use super::cdn::{Cdn, CdnRequests, RATE};
use super::{ParameterError, arrivals};
use crate::Access;
use larder_units::{Stream, Streams, Time};

/// Requests between two changes of the traffic.
const REQUESTS_PER_CLASS: u64 = 3_000_000;

/// A class of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Pages, scripts and images.
    Web,
    /// Chunks of videos.
    Video,
    /// Software.
    Download,
}

impl Class {
    /// All classes.
    pub const ALL: [Class; 3] = [Class::Web, Class::Video, Class::Download];

    /// Returns the factor between the sizes of this class and those of the web.
    pub const fn factor(self) -> u32 {
        match self {
            Class::Web => 1,
            Class::Video => 32,
            Class::Download => 512,
        }
    }
}

/// Changing traffic. The paper's experiment has 60 million requests.
#[derive(Clone, Debug)]
pub struct TrafficMix {
    /// In the order of [`Class::ALL`].
    catalogues: [Cdn; 3],
    /// The bytes of a video and of a download, if all of them have the same.
    object_bytes: Option<[u64; 2]>,
    requests_per_class: u64,
    streams: Streams,
}

impl TrafficMix {
    /// Requests between two changes of the traffic, in the paper's experiment.
    pub const REQUESTS_PER_CLASS: u64 = REQUESTS_PER_CLASS;

    /// Creates traffic with a web catalogue of `objects` with the Zipf exponent `exponent`, and
    /// catalogues of the other classes. It changes every `requests_per_class` requests (0 counts as
    /// 1).
    ///
    /// # Errors
    /// [`ParameterError`] if there is no such catalogue.
    pub fn new(
        objects: usize,
        exponent: f64,
        requests_per_class: u64,
        streams: &Streams,
    ) -> Result<TrafficMix, ParameterError> {
        // Different catalogues from the one seed.
        let mut seeds = streams.stream("traffic mix catalogues");
        let mut catalogue = |class: Class| {
            let objects = objects.div_ceil(class.factor() as usize);
            Ok(Cdn::new(objects, exponent, &Streams::new(seeds.bits()))?.magnified(class.factor()))
        };
        let catalogues = [
            catalogue(Class::Web)?,
            catalogue(Class::Video)?,
            catalogue(Class::Download)?,
        ];
        Ok(TrafficMix {
            catalogues,
            object_bytes: None,
            requests_per_class: requests_per_class.max(1),
            streams: *streams,
        })
    }

    /// Gives each video the first number of bytes and each download the second one: chunks of one
    /// length.
    pub fn with_object_bytes(self, bytes: [u64; 2]) -> TrafficMix {
        TrafficMix {
            object_bytes: Some(bytes),
            ..self
        }
    }

    /// Returns endless requests, always the same ones. Ids of videos follow those of the web, ids
    /// of downloads those of videos.
    pub fn requests(&self) -> TrafficMixRequests<'_> {
        let mut stream = self.streams.stream("traffic mix");
        let class = stream.below(3) as usize;
        TrafficMixRequests {
            mix: self,
            classes: self.catalogues.each_ref().map(Cdn::requests),
            class,
            left: self.requests_per_class,
            stream,
            now: Time::ZERO,
        }
    }

    /// Returns the class of the object with this id.
    pub fn class(&self, id: u64) -> Class {
        Class::ALL[(1..3)
            .rev()
            .find(|class| id >= self.first_id(*class))
            .unwrap_or(0)]
    }

    fn first_id(&self, class: usize) -> u64 {
        self.catalogues[..class]
            .iter()
            .map(|catalogue| catalogue.sizes().len() as u64)
            .sum()
    }
}

/// The requests of a [`TrafficMix`].
#[derive(Clone, Debug)]
pub struct TrafficMixRequests<'a> {
    mix: &'a TrafficMix,
    classes: [CdnRequests<'a>; 3],
    class: usize,
    /// The remaining requests of the present class.
    left: u64,
    stream: Stream,
    now: Time,
}

impl Iterator for TrafficMixRequests<'_> {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        if self.left == 0 {
            self.class = (self.class + 1 + self.stream.below(2) as usize) % 3;
            self.left = self.mix.requests_per_class;
        }
        self.left -= 1;
        self.now += arrivals::pause(RATE, &mut self.stream);
        let Access { id, size, .. } = self.classes[self.class].next()?;
        let chunk = self
            .mix
            .object_bytes
            .zip(self.class.checked_sub(1))
            .map(|(bytes, class)| bytes[class]);
        Some(Access {
            id: id + self.mix.first_id(self.class),
            size: chunk.unwrap_or(size),
            now: self.now,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traffic_does_not_change_as_said() {
        let mix = TrafficMix::new(200_000, 0.9, 1000, &Streams::new(1)).unwrap();
        let accesses: Vec<Access> = mix.requests().take(300_000).collect();
        assert!(
            accesses.windows(2).all(|pair| pair[0].now <= pair[1].now),
            "time goes back"
        );
        let mut classes = Vec::new();
        for phase in accesses.chunks(1000) {
            let class = mix.class(phase[0].id);
            assert!(
                phase.iter().all(|access| mix.class(access.id) == class),
                "two kinds in one phase"
            );
            classes.push(class);
        }
        assert!(
            classes.windows(2).all(|pair| pair[0] != pair[1]),
            "no change"
        );
        // A class has a third of 300 phases; the next class is drawn evenly.
        for class in Class::ALL {
            let phases = classes.iter().filter(|found| **found == class).count();
            assert!(
                (75..=125).contains(&phases),
                "{class:?} in {phases} of 300 phases"
            );
        }
    }

    #[test]
    fn kinds_have_the_same_sizes() {
        let mix = TrafficMix::new(1_000_000, 0.9, 20_000, &Streams::new(2)).unwrap();
        let mut sizes = [const { Vec::new() }; 3];
        for access in mix.requests().take(800_000) {
            sizes[Class::ALL
                .iter()
                .position(|class| *class == mix.class(access.id))
                .unwrap()]
            .push(access.size as f64);
        }
        let medians = sizes.map(|mut sizes| {
            sizes.sort_by(f64::total_cmp);
            sizes[sizes.len() / 2]
        });
        // A download's median request is for one of few objects, so it differs by a factor of up to
        // 1.6.
        for (median, class) in medians.iter().zip(Class::ALL) {
            let factor = median / medians[0] / f64::from(class.factor());
            assert!((0.6..1.6).contains(&factor), "{class:?}: {medians:?}");
        }
        let bytes = mix
            .catalogues
            .each_ref()
            .map(|c| c.sizes().iter().map(|size| f64::from(*size)).sum::<f64>());
        assert!(
            bytes
                .iter()
                .all(|all| (0.3..1.7).contains(&(all / bytes[0]))),
            "{bytes:?}"
        );
    }

    #[test]
    fn chunks_have_other_lengths_or_the_web_has_chunks() {
        let mix = TrafficMix::new(10_000, 0.9, 100, &Streams::new(1)).unwrap();
        let chunks = mix.clone().with_object_bytes([20, 320]);
        for (access, chunk) in mix.requests().zip(chunks.requests()).take(3000) {
            let size = match mix.class(access.id) {
                Class::Web => access.size,
                Class::Video => 20,
                Class::Download => 320,
            };
            assert_eq!(chunk, Access { size, ..access });
        }
    }

    #[test]
    fn other_runs_and_catalogues_of_nothing() {
        let run = |seed| {
            let mix = TrafficMix::new(1000, 0.9, 3, &Streams::new(seed)).unwrap();
            mix.requests().take(100).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        let new = |objects, exponent| TrafficMix::new(objects, exponent, 0, &Streams::new(1));
        assert!(new(0, 0.9).is_err() && new(10, f64::NAN).is_err());
        assert_eq!(
            new(1, 0.9)
                .unwrap()
                .requests()
                .take(30)
                .filter(|access| access.id > 2)
                .count(),
            0
        );
    }
}
