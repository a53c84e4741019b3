//! The filter with exact counts: the policy `filter` without the collisions of its counter table.

use super::exact_counts::{LastRequests, MOST_REQUESTS};
use larder_policy::{Admit, Build, Cache, Parameter, Policy, PolicyEntry, Preset, Request, Values};

pub(super) static ENTRY: PolicyEntry = PolicyEntry {
    name: "exact-filter",
    citation: "Takemasa, Koizumi, Hasegawa, 2019, section 4.3, without the collisions of the counter table",
    summary: "admits what was requested often enough among the last requests, by exact counts",
    parameters: &[
        Parameter {
            name: "theta",
            unit: "requests",
            values: Values::Integer(0, u32::MAX as u64),
            default: Preset::Value("2"),
            doc: "requests among the last ones, this one included, that admit",
        },
        Parameter {
            name: "window",
            unit: "requests",
            values: Values::Integer(1, MOST_REQUESTS),
            default: Preset::Value("1000"),
            doc: "requests that are counted",
        },
    ],
    complexity: "O(1)",
    bytes_an_object: 500,
    needs_path: false,
    build: Build::Admission(|arguments, _| {
        let get = |name| arguments.get(name).unwrap_or_default();
        Ok(Box::new(ExactFilter {
            theta: get("theta") as u32,
            last: LastRequests::new(get("window") as usize),
        }))
    }),
};

struct ExactFilter {
    theta: u32,
    last: LastRequests,
}

impl Policy for ExactFilter {}

impl Admit for ExactFilter {
    fn on_request(&mut self, request: &Request, _: bool) {
        self.last.push(request.id);
    }

    fn admit(&mut self, request: &Request, _: &mut Cache<'_>) -> bool {
        self.last.count(request.id) >= self.theta
    }
}

#[cfg(test)]
mod tests {
    use super::super::policies::POLICIES;
    use larder_policy::{Engine, Spec};
    use larder_units::{ByteSize, Streams, Time};

    /// Failure: the counts of the two policies differ by more than the collisions of a table, of
    /// which there are hardly any here.
    #[test]
    fn the_filter_decides_otherwise() {
        let specs = [
            "exact-filter(theta=2,window=50)+fifo",
            "filter(theta=2,window=50,table=16777216)+fifo",
        ];
        let [mut exact, mut filter] = specs.map(|text| {
            let spec = Spec::parse(text, &POLICIES).expect("a spec");
            Engine::new(&spec, ByteSize::from_bytes(1), &Streams::new(1)).expect("an engine")
        });
        let mut stream = Streams::new(1).stream("requests");
        let mut admitted = [0, 0];
        for _ in 0..10_000 {
            let id = stream.below(100);
            let both = [&mut exact, &mut filter].map(|engine| {
                engine.miss(id, Time::ZERO);
                engine.admit(id, 1, Time::ZERO)
            });
            assert_eq!(both[0], both[1]);
            admitted[usize::from(both[0])] += 1;
        }
        assert!(admitted[0] > 1000 && admitted[1] > 1000, "{admitted:?}");
    }
}
