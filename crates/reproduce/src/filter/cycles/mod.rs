//! The cycles of a packet: blocks B1 to B13 of the real forwarder, equations (1) and (2), figures 7
//! and 8.

mod counter;
mod world;

use super::replays::{Rates, filter};
use super::sizes::{self, OnWeb};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_forwarder::account::{STAGES, Stage};
use serde::Deserialize;
use world::{Whole, World};

pub(super) const FILE: (&str, &str) = experiment_file!("filter/cycles.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    objects: u64,
    /// C, in packets.
    capacity: u64,
    /// The number of prefixes in the FIB.
    fib: u64,
    /// The number of exchanges before the measurement.
    settle: u64,
    /// The number of measured batches per policy.
    batches: usize,
}

/// The policies of table 2, in its order.
const POLICIES: [&str; 5] = ["Filter", "TinyLFU", "ARC", "Random", "FIFO"];

/// Table 2: B2, B12, B13.
const PUBLISHED: [[f64; 3]; 5] =
    [[83.0, 0.0, 28.0], [91.0, 0.0, 282.0], [173.0, 202.0, 0.0], [0.0, 62.0, 0.0], [0.0, 0.0, 0.0]];

/// Table 1, with a description of each block.
const BLOCKS: [(&str, &str, f64); 10] = [
    ("B1", "Interest received and decoded", 571.0),
    ("B3", "Content Store look-up", 148.0),
    ("B4", "Data fetched at a hit", 72.0),
    ("B5", "PIT insertion", 188.0),
    ("B6", "FIB look-up", 413.0),
    ("B7", "Interest sent", 56.0),
    ("B8", "Data received and decoded", 188.0),
    ("B9", "PIT look-up and deletion", 73.0),
    ("B10", "Content Store insertion", 329.0),
    ("B11", "Data sent", 50.0),
];

/// The objects and prefixes of the warm forwarder, and the packets of its Content Store. All fit
/// into a processor's second-level cache, and some requests miss.
const WARM: (u64, u64) = (256, 32);

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let on_web = sizes::on_web(request, watch)?;
    let mut section = Section::new(&experiment, request.scale);
    section.condition("counter", counter::UNIT);
    section.condition(
        "cold",
        format!("{} objects, {} packets cached, {} prefixes", sweep.objects, sweep.capacity, sweep.fib),
    );
    section.condition("warm", format!("{} objects, {} packets cached, {} prefixes", WARM.0, WARM.1, WARM.0));
    section.condition("batches", format!("{} of 64 exchanges a policy", sweep.batches));

    let a_policy = sweep.settle + 128 * sweep.batches as u64;
    watch.begin("cycles", 2 * POLICIES.len() as u64 * a_policy);
    let mut cold = World::new(sweep.objects, sweep.fib, request.seed)?;
    let mut warm = World::new(WARM.0, WARM.0, request.seed)?;
    let mut accounts = Vec::new();
    for policy in POLICIES {
        let mut found = [Measured::default(); 2];
        let worlds = [(&mut cold, sweep.capacity), (&mut warm, WARM.1)];
        for ((world, capacity), found) in worlds.into_iter().zip(&mut found) {
            world.with_policy(&spec(policy, capacity), capacity, request.seed)?;
            world.settle(sweep.settle);
            *found = Measured { stages: world.stages(sweep.batches), whole: world.forward(sweep.batches) };
            watch.advance(a_policy);
        }
        accounts.push(found);
    }
    report(&mut section, &accounts, &on_web);
    section.judged()
}

fn spec(policy: &str, capacity: u64) -> String {
    match policy {
        "Filter" => filter(2, capacity),
        "TinyLFU" => format!("tinylfu(window={})+random", 50 * capacity),
        other => other.to_lowercase(),
    }
}

/// The measurements of a policy in one of the forwarders.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    stages: [f64; STAGES],
    whole: Whole,
}

impl Measured {
    fn of(&self, stage: Stage) -> f64 {
        self.stages[stage as usize]
    }
}

/// The cycles of the blocks under one policy.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// B1, B3 to B11, in the order of [`BLOCKS`].
    blocks: [f64; 10],
    history: f64,
    eviction: f64,
    admission: f64,
    admits: bool,
}

impl Account {
    /// Takes the blocks that do not depend on the policy from FIFO, as the paper does, so that
    /// noise in them does not distinguish policies.
    fn new(policy: &str, own: &Measured, fifo: &Measured) -> Account {
        let admits = matches!(policy, "Filter" | "TinyLFU");
        // The second look-up measures the look-up alone. The difference is the cost of the decision
        // and of the sending.
        let send = (fifo.of(Stage::Decide) - fifo.of(Stage::FibLookupAgain)).max(0.0);
        let insertion = fifo.of(Stage::Insertion);
        Account {
            blocks: [
                fifo.of(Stage::InterestDecode),
                fifo.of(Stage::StoreLookup),
                fifo.of(Stage::Fetch),
                fifo.of(Stage::PitInsert),
                fifo.of(Stage::FibLookup),
                send,
                fifo.of(Stage::DataDecode),
                fifo.of(Stage::PitDelete),
                insertion,
                fifo.of(Stage::DataSend),
            ],
            history: own.of(Stage::HistoryUpdate),
            eviction: if admits { 0.0 } else { (own.of(Stage::Insertion) - insertion).max(0.0) },
            admission: own.of(Stage::Admission),
            admits,
        }
    }

    /// Returns equation (1) if the policy evicts, (2) if it admits. The forwarder asks for
    /// admission under every policy, so (1) includes B13 too.
    fn average(&self, rates: &Rates) -> f64 {
        let [b1, b3, b4, b5, b6, b7, b8, b9, b10, b11] = self.blocks;
        let always = b1 + self.history + b3 + b11;
        let miss = b5 + b6 + b7 + b8 + b9 + self.admission;
        let insertion = if self.admits { rates.insertion * b10 } else { self.eviction + b10 };
        always + rates.hit * b4 + (1.0 - rates.hit) * (miss + insertion)
    }
}

fn report(section: &mut Section, accounts: &[[Measured; 2]], on_web: &[OnWeb]) {
    let fifo = accounts[POLICIES.len() - 1];
    let account = |at: usize, world: usize| Account::new(POLICIES[at], &accounts[at][world], &fifo[world]);
    let cold: Vec<Account> = (0..POLICIES.len()).map(|at| account(at, 0)).collect();
    let warm: Vec<Account> = (0..POLICIES.len()).map(|at| account(at, 1)).collect();

    let rows = BLOCKS.iter().enumerate().map(|(at, (block, what, published))| {
        let measured = [cold[0].blocks[at], warm[0].blocks[at]].map(|cycles| format!("{cycles:.0}"));
        [(*block).to_owned(), (*what).to_owned(), format!("{published}")].into_iter().chain(measured).collect()
    });
    section.table("Blocks of every policy (table 1)", ["block", "what", "published", "cold", "warm"], rows.collect());
    let rows = POLICIES.iter().enumerate().map(|(at, policy)| {
        let shown = |account: &Account| {
            [account.history, account.eviction, account.admission].map(|cycles| format!("{cycles:.0}"))
        };
        let all = [PUBLISHED[at].map(|cycles| cycles.to_string()), shown(&cold[at]), shown(&warm[at])];
        std::iter::once((*policy).to_owned()).chain(all.into_iter().map(|three| three.join(" / "))).collect()
    });
    let header = ["policy", "published: B2 / B12 / B13", "cold", "warm"];
    section.table("Blocks of the policies (table 2)", header, rows.collect());

    averages(section, &cold, on_web);
    wholes(section, accounts, &cold);
    let [filter, tinylfu] = [cold[0].admission, cold[1].admission];
    section.measured("decision-to-tinylfu", filter / tinylfu);
}

/// Adds figure 7.
fn averages(section: &mut Section, cold: &[Account], on_web: &[OnWeb]) {
    let lines: Vec<Vec<(f64, f64)>> = POLICIES
        .iter()
        .zip(cold)
        .map(|(policy, account)| {
            let sizes = on_web.iter().filter(|found| found.policy == *policy);
            sizes.map(|found| (found.capacity, account.average(&found.rates))).collect()
        })
        .collect();
    let first = |at: usize| lines[at].first().map_or(f64::NAN, |(_, cycles)| *cycles);
    for (at, id) in [(1, "tinylfu"), (2, "arc"), (3, "random"), (4, "fifo")] {
        section.measured(format!("cycles-below-{id}"), 1.0 - first(0) / first(at));
    }
    let series = POLICIES.iter().zip(&lines).map(|(policy, line)| Series::line(*policy, line.clone()));
    section.figure("average", series.collect());
    let rows = lines[0].iter().enumerate().map(|(size, (capacity, _))| {
        let cycles = lines.iter().map(|line| format!("{:.0}", line[size].1));
        std::iter::once(capacity.to_string()).chain(cycles).collect()
    });
    let header = std::iter::once("cache, packets").chain(POLICIES);
    section.table("Average cycles by equations (1) and (2), cold", header, rows.collect());
}

/// Adds the whole exchanges, and figure 8.
fn wholes(section: &mut Section, accounts: &[[Measured; 2]], cold: &[Account]) {
    let speed = |at: usize| accounts[at][0].whole.packets / accounts[at][0].whole.cycles;
    section.measured("packets-to-arc", speed(0) / speed(2));
    section.measured("packets-to-fifo", speed(0) / speed(4));
    let fifo = accounts[4][0].whole;
    let equation = cold[4].average(&Rates { hit: fifo.hit, insertion: fifo.insertion });
    section.measured("blocks-add-up", equation / fifo.cycles);
    let bars = (0..POLICIES.len()).map(|at| (at as f64, 1e6 * speed(at)));
    section.named_figure("packets", POLICIES, vec![Series::bars("packets", bars.collect())]);
    let rows = POLICIES.iter().zip(accounts).map(|(policy, measured)| {
        let shown = measured.iter().flat_map(|Measured { whole, .. }| {
            [format!("{:.0}", whole.cycles), format!("{:.3} / {:.3}", whole.hit, whole.insertion)]
        });
        std::iter::once((*policy).to_owned()).chain(shown).collect()
    });
    let header = ["policy", "cycles, cold", "hit / insertion rate, cold", "cycles, warm", "hit / insertion rate, warm"];
    section.table("Whole exchanges, as forwarded", header, rows.collect());
}
