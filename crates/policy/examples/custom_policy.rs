//! An eviction policy that a program adds to Larder: it is declared here, registered, named in a
//! spec, and run over generated requests. It prints hit ratios.
//!
//! ```sh
//! cargo run -p larder-policy --example custom_policy
//! ```

#![allow(clippy::print_stdout, reason = "an example prints its result")]

use larder_policy::{
    Build, Engine, Evict, Parameter, Policy, PolicyEntry, Preset, Registry, Request, Slot, Spec,
    Values,
};
use larder_units::{ByteSize, Streams, Time};
use std::collections::{HashMap, VecDeque};
use std::error::Error;

/// FIFO that gives an object another round for each hit, up to `x` rounds.
struct Rounds {
    /// The most rounds that hits can earn.
    most: u64,
    /// The stored slots; the next victim is at the front.
    queue: VecDeque<Slot>,
    /// Rounds that each slot's object still has.
    rounds: HashMap<Slot, u64>,
}

const ENTRY: PolicyEntry = PolicyEntry {
    name: "mine",
    citation: "this example",
    summary: "evicts what was stored first, but gives another round for each hit",
    parameters: &[Parameter {
        name: "x",
        unit: "rounds",
        values: Values::Integer(0, 100),
        default: Preset::Value("1"),
        doc: "the most rounds that hits can earn",
    }],
    complexity: "O(1) amortised",
    bytes_an_object: 40,
    needs_path: false,
    build: Build::Eviction(|arguments, _| {
        let most = arguments.get("x").unwrap_or(1);
        Ok(Box::new(Rounds {
            most,
            queue: VecDeque::new(),
            rounds: HashMap::new(),
        }))
    }),
};

impl Rounds {
    /// Moves each object that has rounds left to the back, until one at the front has none.
    fn turn(&mut self) {
        while let Some(slot) = self.queue.front().copied() {
            match self.rounds.get_mut(&slot) {
                Some(rounds) if *rounds > 0 => *rounds -= 1,
                _ => return,
            }
            self.queue.rotate_left(1);
        }
    }
}

impl Policy for Rounds {}

impl Evict for Rounds {
    fn on_hit(&mut self, slot: Slot, _: &Request) {
        let rounds = self.rounds.entry(slot).or_default();
        *rounds = (*rounds + 1).min(self.most);
    }

    fn on_insert(&mut self, slot: Slot, _: &Request) {
        self.rounds.insert(slot, 0);
        self.queue.push_back(slot);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        self.turn();
        let slot = self.queue.pop_front()?;
        self.rounds.remove(&slot);
        Some(slot)
    }

    /// The order after the first victim is approximate: it leaves the rounds out.
    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        self.turn();
        match after {
            None => self.queue.front().copied(),
            Some(after) => self
                .queue
                .iter()
                .copied()
                .skip_while(|slot| *slot != after)
                .nth(1),
        }
    }

    fn on_remove(&mut self, slot: Slot) {
        self.queue.retain(|other| *other != slot);
        self.rounds.remove(&slot);
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.queue.len())
    }
}

/// Returns the share of hits among 100,000 requests for 10,000 objects, of which the first ones are
/// requested most.
fn hit_ratio(mut engine: Engine) -> f64 {
    const REQUESTS: u64 = 100_000;
    let mut stream = Streams::new(1).stream("requests");
    let (mut index, mut victims, mut hits) = (HashMap::new(), Vec::new(), 0_u64);
    for millisecond in 0..REQUESTS {
        let now = Time::from_millis(millisecond);
        let id = (10_000.0 * stream.unit().powi(4)) as u64;
        let size = 100 + id % 1000;
        if let Some(slot) = index.get(&id) {
            engine.hit(*slot, id, now);
            hits += 1;
            continue;
        }
        engine.miss(id, now);
        if engine.admit(id, size, now) && engine.make_room(id, size, now, &mut victims) {
            for victim in victims.drain(..) {
                engine.last_id(victim).map(|id| index.remove(&id));
            }
            index.extend(
                engine
                    .insert(id, size, now, &mut victims)
                    .map(|slot| (id, slot)),
            );
        }
    }
    engine.check_invariants();
    hits as f64 / REQUESTS as f64
}

fn main() -> Result<(), Box<dyn Error>> {
    let registry = Registry::builtin().register(&ENTRY)?;
    let capacity = ByteSize::from_bytes(500_000);
    for text in ["fifo", "mine(x=3)", "filter(theta=2)+mine(x=3)"] {
        let spec = Spec::parse(text, &registry)?;
        let engine = Engine::new(&spec, capacity, &Streams::new(1))?;
        println!("{spec}: hit ratio {:.3}", hit_ratio(engine));
    }

    // A program that has its policy as an object needs no registry.
    let policy = Rounds {
        most: 3,
        queue: VecDeque::new(),
        rounds: HashMap::new(),
    };
    let engine = Engine::with(capacity, Vec::new(), Box::new(policy));
    println!(
        "the same policy as an object: hit ratio {:.3}",
        hit_ratio(engine)
    );
    Ok(())
}
