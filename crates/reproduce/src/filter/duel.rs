//! TinyLFU as the text of section 4.2 can be read: an admission whose counts are exact, for the
//! readings beside the policy `tinylfu`, whose counts stand in a sketch and end at 15.

use super::exact_counts::{ExactCounts, LastRequests, MOST_REQUESTS};
use larder_policy::{
    Admit, Arguments, Build, Cache, Parameter, Policy, PolicyEntry, Preset, Request, Values,
};

pub(super) static ENTRY: PolicyEntry = PolicyEntry {
    name: "duel",
    citation: "a reading of TinyLFU in Takemasa, Koizumi, Hasegawa, 2019, section 4.2",
    summary: "admits what was requested more often than its victim, by exact counts",
    parameters: &[
        Parameter {
            name: "window",
            unit: "requests",
            values: Values::Integer(1, MOST_REQUESTS),
            default: Preset::Value("1000"),
            doc: "requests that are counted, or after which all counts are halved",
        },
        Parameter {
            name: "forgets",
            unit: "",
            values: Values::Choice(&["halves", "slides"]),
            default: Preset::Value("halves"),
            doc: "whether counts are halved, or the oldest request leaves",
        },
        Parameter {
            name: "most",
            unit: "requests",
            values: Values::Integer(1, u32::MAX as u64),
            default: Preset::Value("4294967295"),
            doc: "the greatest count",
        },
        Parameter {
            name: "tie",
            unit: "",
            values: Values::Choice(&["stays", "enters"]),
            default: Preset::Value("stays"),
            doc: "whether the victim stays or the newcomer enters if both have the same count",
        },
    ],
    complexity: "O(1) amortised",
    bytes_an_object: 1000,
    needs_path: false,
    build: Build::Admission(|arguments, _| Ok(Box::new(Duel::new(arguments)))),
};

struct Duel {
    counts: Counts,
    most: u32,
    newcomer_wins_ties: bool,
}

/// How requests are counted.
enum Counts {
    /// All counts are halved after a window of requests.
    Halved {
        counts: ExactCounts,
        window: usize,
        since_halving: usize,
    },
    /// The requests of a window that slides.
    Sliding(LastRequests),
}

impl Duel {
    fn new(arguments: &Arguments<'_>) -> Duel {
        let get = |name| arguments.get(name).unwrap_or_default();
        let window = get("window") as usize;
        let counts = match get("forgets") {
            1 => Counts::Sliding(LastRequests::new(window)),
            _ => Counts::Halved {
                counts: ExactCounts::default(),
                window,
                since_halving: 0,
            },
        };
        Duel {
            counts,
            most: get("most") as u32,
            newcomer_wins_ties: get("tie") == 1,
        }
    }

    fn count(&self, id: u64) -> u32 {
        let count = match &self.counts {
            Counts::Halved { counts, .. } => counts.of(id),
            Counts::Sliding(last) => last.count(id),
        };
        count.min(self.most)
    }
}

impl Policy for Duel {}

impl Admit for Duel {
    fn on_request(&mut self, request: &Request, _: bool) {
        match &mut self.counts {
            Counts::Sliding(last) => last.push(request.id),
            Counts::Halved {
                counts,
                window,
                since_halving,
            } => {
                let count = counts.entry(request.id);
                *count = count.saturating_add(1).min(self.most);
                *since_halving += 1;
                if since_halving == window {
                    *since_halving = 0;
                    counts.halve();
                }
            }
        }
    }

    fn admit(&mut self, request: &Request, cache: &mut Cache<'_>) -> bool {
        // All packets have the same size: one victim at most.
        if cache.used() + request.size <= cache.capacity() {
            return true;
        }
        let Some(victim) = cache.next_victim() else {
            return false;
        };
        let (newcomer, victim) = (self.count(request.id), self.count(victim.id));
        newcomer > victim || (newcomer == victim && self.newcomer_wins_ties)
    }
}

#[cfg(test)]
mod tests {
    use super::super::policies::POLICIES;
    use larder_policy::{Engine, Spec};
    use larder_units::{ByteSize, Streams, Time};

    /// Returns whether object 2 enters a cache with room for object 1, after these requests.
    fn enters(arguments: &str, requests: &[u64]) -> bool {
        let spec = Spec::parse(&format!("duel({arguments})+fifo"), &POLICIES).expect("a spec");
        let mut engine =
            Engine::new(&spec, ByteSize::from_bytes(1), &Streams::new(1)).expect("an engine");
        engine.miss(1, Time::ZERO);
        assert!(
            engine.admit(1, 1, Time::ZERO),
            "an empty cache takes everything"
        );
        let slot = engine
            .insert(1, 1, Time::ZERO, &mut Vec::new())
            .expect("room");
        for id in requests {
            if *id == 1 {
                engine.hit(slot, 1, Time::ZERO)
            } else {
                engine.miss(*id, Time::ZERO)
            }
        }
        engine.admit(2, 1, Time::ZERO)
    }

    #[test]
    fn a_reading_decides_as_another() {
        assert!(!enters("window=9", &[2]), "a tie");
        assert!(enters("window=9,tie=enters", &[2]));
        assert!(enters("window=9", &[2, 2]));
        assert!(
            !enters("window=9,most=2", &[1, 2, 2, 2]),
            "both have the greatest count"
        );
        assert!(
            enters("window=2,forgets=slides", &[2, 3]),
            "object 1 has left the window"
        );
        assert!(
            !enters("window=2,forgets=halves", &[2, 3]),
            "one request each, halved to nothing"
        );
    }
}
