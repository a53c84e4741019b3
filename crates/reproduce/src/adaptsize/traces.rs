//! Section 4.1, figures 4 and 9: the published properties of the two traces, measured on the
//! traffic that replaces them.

use super::public;
use super::replays::Catalogue;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_replay::Access;
use serde::Deserialize;
use std::collections::BTreeMap;

const FILE: (&str, &str) = experiment_file!("adaptsize/traces.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    hk: Catalogue,
    us: Catalogue,
}

/// The paper's limit for a popular object, as a share of the requests: more than 200,000 of HK's
/// 450 million.
const POPULAR: f64 = 200e3 / 450e6;

/// The requests of the published traces, 450 and 440 million, differ less than their bytes.
const PUBLISHED_REQUESTS: f64 = 445e6;

/// The size of an object and the number of its requests.
#[derive(Clone, Copy, Default)]
struct Object {
    size: u64,
    requests: u64,
}

/// One property of a trace.
struct Property {
    /// The id of its claim, without the trace's name. Some properties have no claim.
    id: &'static str,
    says: &'static str,
    value: f64,
    /// The published values of HK and of US.
    published: [&'static str; 2],
}

/// The objects and requests of a trace.
struct TraceSummary {
    /// The objects with at least one request, sorted by size.
    objects: Vec<Object>,
    requests: u64,
    /// The bytes of all requests.
    bytes: u64,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let mut section = Section::new(&experiment, request.scale);
    watch.begin("the traces", (sweep.hk.requests + sweep.us.requests) as u64);
    let mut tables = Vec::new();
    let [mut by_size, mut by_count] = [Vec::new(), Vec::new()];
    for (name, catalogue, seed) in [
        ("hk", sweep.hk, request.seed),
        ("us", sweep.us, request.seed + 1),
    ] {
        let cdn = catalogue.cdn(seed)?;
        let trace = TraceSummary::of(cdn.requests().take(catalogue.requests), cdn.sizes().len());
        watch.advance(catalogue.requests as u64);
        let properties = trace.properties();
        for property in &properties {
            section.measured_if_claimed(format!("{name}-{}", property.id), property.value);
        }
        by_size.push(Series::line(name, trace.sizes()));
        by_count.push(Series::points(name, trace.mean_sizes()));
        tables.push(properties);
    }
    // Figure 9a has a trace of 1998; a day of a web server of 1995 takes its place.
    let mut objects: BTreeMap<u64, Object> = BTreeMap::new();
    let nasa = public::nasa()?;
    for access in &nasa.accesses {
        let object = objects.entry(access.id).or_default();
        *object = Object {
            size: access.size,
            requests: object.requests + 1,
        };
    }
    let bytes = nasa.accesses.iter().map(|access| access.size).sum();
    let nasa = TraceSummary::new(
        objects.into_values().collect(),
        nasa.accesses.len() as u64,
        bytes,
    );
    for property in nasa.properties() {
        section.measured_if_claimed(format!("nasa-{}", property.id), property.value);
    }
    by_count.push(Series::points("NASA, 1995", nasa.mean_sizes()));
    let rows = tables[0].iter().zip(&tables[1]).map(|(hk, us)| {
        let [of_hk, of_us] = hk.published.map(str::to_owned);
        vec![
            hk.says.to_owned(),
            of_hk,
            format!("{:.4}", hk.value),
            of_us,
            format!("{:.4}", us.value),
        ]
    });
    section.table(
        "Properties",
        [
            "property",
            "HK, published",
            "HK, here",
            "US, published",
            "US, here",
        ],
        rows.collect(),
    );
    section.figure("sizes", by_size);
    section.figure("popularity", by_count);
    section.judged()
}

impl TraceSummary {
    /// Summarises requests for the objects 0 to `objects` − 1.
    fn of(accesses: impl Iterator<Item = Access>, objects: usize) -> TraceSummary {
        let mut trace = TraceSummary {
            objects: vec![Object::default(); objects],
            requests: 0,
            bytes: 0,
        };
        for access in accesses {
            let object = &mut trace.objects[access.id as usize];
            object.size = access.size;
            object.requests += 1;
            trace.requests += 1;
            trace.bytes += access.size;
        }
        TraceSummary::new(trace.objects, trace.requests, trace.bytes)
    }

    fn new(mut objects: Vec<Object>, requests: u64, bytes: u64) -> TraceSummary {
        objects.retain(|object| object.requests > 0);
        objects.sort_by_key(|object| object.size);
        TraceSummary {
            objects,
            requests,
            bytes,
        }
    }

    fn properties(&self) -> [Property; 11] {
        let (objects, requests) = (self.objects.len() as f64, self.requests as f64);
        let sum =
            |bytes: &mut dyn Iterator<Item = u64>| bytes.map(|bytes| bytes as f64).sum::<f64>();
        let all = sum(&mut self.objects.iter().map(|object| object.size));
        let large = self
            .objects
            .iter()
            .filter(|object| object.size > 1_000_000)
            .count() as f64;
        let about_1_kb = self
            .objects
            .iter()
            .filter(|object| (500..2000).contains(&object.size));
        let about_1_kb = sum(&mut about_1_kb.map(|object| object.requests));
        let popular = || {
            self.objects
                .iter()
                .filter(|object| object.requests as f64 > POPULAR * requests)
        };
        let popular = sum(&mut popular().map(|object| object.size)) / popular().count() as f64;
        let mean = self.bytes as f64 / requests;
        let [smallest, largest] = [self.objects.first(), self.objects.last()]
            .map(|o| o.map_or(f64::NAN, |o| o.size as f64));
        let property = |id, says, value, published| Property {
            id,
            says,
            value,
            published,
        };
        [
            property(
                "requests-an-object",
                "requests an object",
                requests / objects,
                ["18", "8"],
            ),
            property(
                "object-kb",
                "mean size of an object, KB",
                all / objects / 1e3,
                ["588", "162"],
            ),
            property(
                "above-1-mb",
                "share of the objects above 1 MB",
                large / objects,
                ["about .05"; 2],
            ),
            property(
                "about-1-kb",
                "share of the requests for 500 to 2,000 bytes",
                about_1_kb / requests,
                ["about .15"; 2],
            ),
            property(
                "request-kb",
                "mean size of a request, KB",
                mean / 1e3,
                ["335", "similar"],
            ),
            property(
                "popular-kb",
                "mean size of popular objects, KB",
                popular / 1e3,
                ["8.6", "similar"],
            ),
            property(
                "times-smaller",
                "the mean request over the mean popular object",
                mean / popular,
                ["40", "similar"],
            ),
            property(
                "total-tb",
                "bytes of as many requests as the trace has, TB",
                mean * PUBLISHED_REQUESTS / 1e12,
                ["157.5", "152.3"],
            ),
            property(
                "request-over-object",
                "the mean request over the mean object",
                mean / (all / objects),
                ["0.60", "2.14"],
            ),
            property("smallest", "smallest object, bytes", smallest, ["1"; 2]),
            property("largest", "largest object, GB", largest / 1e9, ["1.6"; 2]),
        ]
    }

    /// Returns figure 4: at each power of two, the share of requests for objects of at most this
    /// size.
    fn sizes(&self) -> Vec<(f64, f64)> {
        let mut at_most = [0_u64; 65];
        for object in &self.objects {
            at_most[object.size.max(1).next_power_of_two().ilog2() as usize] += object.requests;
        }
        let sum = at_most.iter().scan(0, |sum, requests| {
            *sum += requests;
            Some(*sum as f64 / self.requests as f64)
        });
        (0..)
            .map(|log: i32| f64::from(log).exp2())
            .zip(sum)
            .take(32)
            .collect()
    }

    /// Returns figure 9: the mean size of the objects with 1, 2 to 3, 4 to 7, … requests.
    fn mean_sizes(&self) -> Vec<(f64, f64)> {
        let mut by_count: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for object in &self.objects {
            let (objects, bytes) = by_count.entry(object.requests.ilog2()).or_default();
            *objects += 1.0;
            *bytes += object.size as f64;
        }
        by_count
            .into_iter()
            .map(|(log, (objects, bytes))| (f64::from(log).exp2(), bytes / objects))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Time;

    #[test]
    fn properties_are_of_another_trace() {
        // Object 0 has 1,000 B and six requests; 1 has 2 MB and two; 2 has none; 3 has 16 B and
        // one.
        let requests = [
            (0, 1000),
            (0, 1000),
            (1, 2_000_000),
            (0, 1000),
            (3, 16),
            (0, 1000),
            (0, 1000),
            (1, 2_000_000),
            (0, 1000),
        ];
        let trace = TraceSummary::of(
            requests.into_iter().map(|(id, size)| Access {
                id,
                size,
                now: Time::ZERO,
            }),
            4,
        );
        let of = |id| {
            trace
                .properties()
                .into_iter()
                .find(|property| property.id == id)
                .unwrap()
                .value
        };
        assert_eq!(of("requests-an-object"), 3.0);
        assert_eq!(of("object-kb"), (1000.0 + 2e6 + 16.0) / 3.0 / 1e3);
        assert_eq!((of("above-1-mb"), of("about-1-kb")), (1.0 / 3.0, 6.0 / 9.0));
        assert_eq!(of("request-kb"), (6.0 * 1000.0 + 4e6 + 16.0) / 9.0 / 1e3);
        assert_eq!((of("smallest"), of("largest")), (16.0, 0.002));
        let sizes = trace.sizes();
        assert_eq!(
            (sizes[3].1, sizes[4], sizes[10]),
            (0.0, (16.0, 1.0 / 9.0), (1024.0, 7.0 / 9.0))
        );
        assert_eq!(sizes[21], (2_097_152.0, 1.0));
        assert_eq!(trace.mean_sizes(), [(1.0, 16.0), (2.0, 2e6), (4.0, 1000.0)]);
    }
}
