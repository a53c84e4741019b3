//! TinyLFU as the text of section 4.2 can be read: an admission whose counts are exact, for the
//! readings beside the policy `tinylfu`, whose counts stand in a sketch and end at 15.

use larder_policy::{
    Admit, Arguments, Build, Cache, Parameter, Policy, PolicyEntry, Preset, Registry, Request, Values,
};
use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;

/// The greatest window: ten times that of the largest cell here.
const MOST_REQUESTS: u64 = 1 << 30;

static ENTRY: PolicyEntry = PolicyEntry {
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

/// The policies of Larder, and `duel`.
pub(super) static POLICIES: LazyLock<Registry> =
    LazyLock::new(|| Registry::builtin().register(&ENTRY).unwrap_or_else(|_| Registry::builtin()));

struct Duel {
    counts: HashMap<u64, u32>,
    window: usize,
    /// The requests of the sliding window, or `None` if counts are halved.
    history: Option<VecDeque<u64>>,
    since_halving: usize,
    most: u32,
    newcomer_wins_ties: bool,
}

impl Duel {
    fn new(arguments: &Arguments<'_>) -> Duel {
        let get = |name| arguments.get(name).unwrap_or_default();
        Duel {
            counts: HashMap::new(),
            window: get("window") as usize,
            history: (get("forgets") == 1).then(VecDeque::new),
            since_halving: 0,
            most: get("most") as u32,
            newcomer_wins_ties: get("tie") == 1,
        }
    }

    fn count(&self, id: u64) -> u32 {
        self.counts.get(&id).map_or(0, |count| (*count).min(self.most))
    }
}

impl Policy for Duel {}

impl Admit for Duel {
    fn on_request(&mut self, request: &Request, _: bool) {
        let count = self.counts.entry(request.id).or_default();
        let Some(history) = &mut self.history else {
            *count = count.saturating_add(1).min(self.most);
            self.since_halving += 1;
            if self.since_halving == self.window {
                self.since_halving = 0;
                self.counts.retain(|_, count| {
                    *count /= 2;
                    *count > 0
                });
            }
            return;
        };
        *count += 1;
        history.push_back(request.id);
        if history.len() > self.window
            && let Some(oldest) = history.pop_front()
            && let Some(count) = self.counts.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&oldest);
            }
        }
    }

    fn admit(&mut self, request: &Request, cache: &mut Cache<'_>) -> bool {
        // All packets have the same size: one victim at most.
        if cache.used() + request.size <= cache.capacity() {
            return true;
        }
        let Some(victim) = cache.next_victim() else { return false };
        let (newcomer, victim) = (self.count(request.id), self.count(victim.id));
        newcomer > victim || (newcomer == victim && self.newcomer_wins_ties)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_policy::{Engine, Spec};
    use larder_units::{ByteSize, Streams, Time};

    /// Returns whether object 2 enters a cache with room for object 1, after these requests.
    fn enters(arguments: &str, requests: &[u64]) -> bool {
        let spec = Spec::parse(&format!("duel({arguments})+fifo"), &POLICIES).expect("a spec");
        let mut engine = Engine::new(&spec, ByteSize::from_bytes(1), &Streams::new(1)).expect("an engine");
        engine.miss(1, Time::ZERO);
        assert!(engine.admit(1, 1, Time::ZERO), "an empty cache takes everything");
        let slot = engine.insert(1, 1, Time::ZERO, &mut Vec::new()).expect("room");
        for id in requests {
            if *id == 1 { engine.hit(slot, 1, Time::ZERO) } else { engine.miss(*id, Time::ZERO) }
        }
        engine.admit(2, 1, Time::ZERO)
    }

    #[test]
    fn a_reading_decides_as_another() {
        assert!(!enters("window=9", &[2]), "a tie");
        assert!(enters("window=9,tie=enters", &[2]));
        assert!(enters("window=9", &[2, 2]));
        assert!(!enters("window=9,most=2", &[1, 2, 2, 2]), "both have the greatest count");
        assert!(enters("window=2,forgets=slides", &[2, 3]), "object 1 has left the window");
        assert!(!enters("window=2,forgets=halves", &[2, 3]), "one request each, halved to nothing");
    }
}
