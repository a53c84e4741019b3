//! The cycles of a packet: blocks B1 to B13 of the real forwarder, equations (1) and (2), figures 7
//! and 8.

mod counter;
mod policy;
mod world;

use super::replays::{Rates, filter};
use super::sizes::{self, OnWeb};
use crate::statistics::{greatest, least};
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_forwarder::stages::Stage;
use policy::PolicyCycles;
use serde::Deserialize;
use world::{Stages, Whole, World};

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

/// The places of two policies in [`POLICIES`].
const ARC: usize = 2;
const RANDOM: usize = 3;

/// Table 2: B2, B12, B13.
const PUBLISHED: [[f64; 3]; 5] = [
    [83.0, 0.0, 28.0],
    [91.0, 0.0, 282.0],
    [173.0, 202.0, 0.0],
    [0.0, 62.0, 0.0],
    [0.0, 0.0, 0.0],
];

/// Table 1, with a description of each block. What the forwarder does in one stage is one row.
const BLOCKS: [(&str, &str, &str); 8] = [
    ("B1", "Interest decoded, tables prefetched", "571"),
    ("B3", "Content Store look-up", "148"),
    ("B5", "PIT look-up and insertion", "188"),
    ("B6", "FIB look-up", "413"),
    (
        "B4, B7",
        "stored Data fetched, or strategy asked; sent",
        "72, 56",
    ),
    ("B8", "Data decoded", "188"),
    ("B9, B11", "PIT look-up and deletion, Data sent", "73, 50"),
    ("B10", "Content Store insertion", "329"),
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
        format!(
            "{} objects, {} packets cached, {} prefixes",
            sweep.objects, sweep.capacity, sweep.fib
        ),
    );
    section.condition(
        "warm",
        format!(
            "{} objects, {} packets cached, {} prefixes",
            WARM.0, WARM.1, WARM.0
        ),
    );
    section.condition(
        "batches",
        format!("{} of 64 exchanges a policy", sweep.batches),
    );

    let a_policy = 2 * sweep.settle + 192 * sweep.batches as u64;
    watch.begin("cycles", 2 * POLICIES.len() as u64 * a_policy);
    request.rows.measures_without_row();
    let mut cold = World::new(sweep.objects, sweep.fib, request.seed)?;
    let mut warm = World::new(WARM.0, WARM.0, request.seed)?;
    let mut accounts = Vec::new();
    for policy in POLICIES {
        let mut found = [Measured::default(); 2];
        let worlds = [(&mut cold, sweep.capacity), (&mut warm, WARM.1)];
        for ((world, capacity), found) in worlds.into_iter().zip(&mut found) {
            world.with_policy(&spec(policy, capacity), capacity, request.seed)?;
            world.settle(sweep.settle);
            let (stages, policy) = world.stages(sweep.batches);
            *found = Measured {
                stages,
                policy,
                whole: world.forward(sweep.batches),
            };
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
    stages: Stages,
    policy: PolicyCycles,
    whole: Whole,
}

/// The cycles of the blocks under one policy.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// Those of [`BLOCKS`].
    blocks: [f64; 8],
    /// The share of B5 that hits pay too: the look-up.
    pit_look_up: f64,
    history: f64,
    eviction: f64,
    admission: f64,
    admits: bool,
}

impl Account {
    /// Takes the blocks that do not depend on the policy from FIFO, as the paper does, so that
    /// noise in them does not distinguish policies. FIFO's own part is in them, so the policy's
    /// blocks are what its engine takes beyond FIFO's.
    fn new(policy: &str, own: &Measured, fifo: &Measured) -> Account {
        let admits = matches!(policy, "Filter" | "TinyLFU");
        let beyond =
            |of: fn(&PolicyCycles) -> f64| greatest([of(&own.policy) - of(&fifo.policy), 0.0]);
        let (interests, data) = (
            |stage| fifo.stages.of_interests(stage),
            |stage| fifo.stages.of_data(stage),
        );
        let pit_look_up = interests(Stage::PitLookup);
        Account {
            blocks: [
                interests(Stage::Decode) + interests(Stage::Prefetch),
                interests(Stage::StoreLookup),
                pit_look_up + interests(Stage::PitInsert),
                interests(Stage::FibLookup),
                interests(Stage::Answer),
                data(Stage::Decode) + data(Stage::Prefetch),
                data(Stage::PitMatch) + data(Stage::DataSend) + data(Stage::PitDelete),
                data(Stage::StoreInsert),
            ],
            pit_look_up,
            history: beyond(|policy| policy.history),
            eviction: if admits {
                0.0
            } else {
                beyond(|policy| policy.insertion)
            },
            admission: beyond(|policy| policy.admission),
            admits,
        }
    }

    /// Returns equation (1) if the policy evicts, (2) if it admits, with the blocks as they are
    /// here: every Interest is looked up in the PIT first, and B4 and B7 have one stage.
    fn average(&self, rates: &Rates) -> f64 {
        let [
            decode,
            store_look_up,
            pit,
            fib,
            answer,
            data_decode,
            data_forward,
            insert,
        ] = self.blocks;
        let always = decode + self.history + store_look_up + self.pit_look_up + answer;
        let miss = pit - self.pit_look_up + fib + data_decode + data_forward + self.admission;
        let insertion = if self.admits {
            rates.insertion * insert
        } else {
            self.eviction + insert
        };
        always + (1.0 - rates.hit) * (miss + insertion)
    }
}

fn report(section: &mut Section, accounts: &[[Measured; 2]], on_web: &[OnWeb]) {
    let fifo = accounts[POLICIES.len() - 1];
    let account =
        |at: usize, world: usize| Account::new(POLICIES[at], &accounts[at][world], &fifo[world]);
    let cold: Vec<Account> = (0..POLICIES.len()).map(|at| account(at, 0)).collect();
    let warm: Vec<Account> = (0..POLICIES.len()).map(|at| account(at, 1)).collect();

    let rows = BLOCKS
        .iter()
        .enumerate()
        .map(|(at, (block, what, published))| {
            let measured =
                [cold[0].blocks[at], warm[0].blocks[at]].map(|cycles| format!("{cycles:.0}"));
            [block, what, published]
                .map(|text| (*text).to_owned())
                .into_iter()
                .chain(measured)
                .collect()
        });
    section.table(
        "Blocks of every policy (table 1)",
        ["block", "what", "published", "cold", "warm"],
        rows.collect(),
    );
    let rows = POLICIES.iter().enumerate().map(|(at, policy)| {
        let shown = |account: &Account| {
            [account.history, account.eviction, account.admission]
                .map(|cycles| format!("{cycles:.0}"))
        };
        let all = [
            PUBLISHED[at].map(|cycles| cycles.to_string()),
            shown(&cold[at]),
            shown(&warm[at]),
        ];
        std::iter::once((*policy).to_owned())
            .chain(all.into_iter().map(|three| three.join(" / ")))
            .collect()
    });
    let header = ["policy", "published: B2 / B12 / B13", "cold", "warm"];
    section.table("Blocks of the policies (table 2)", header, rows.collect());

    averages(section, &cold, on_web);
    wholes(section, accounts, &cold);
    let [filter, tinylfu] = [cold[0].admission, cold[1].admission];
    section.measured("decision-to-tinylfu", filter / tinylfu);
    section.measured("random-eviction", warm[RANDOM].eviction);
    section.measured("random-eviction-cold", cold[RANDOM].eviction);
    section.measured(
        "random-eviction-to-arc",
        cold[RANDOM].eviction / cold[ARC].eviction,
    );
}

/// Adds figure 7.
fn averages(section: &mut Section, cold: &[Account], on_web: &[OnWeb]) {
    let lines: Vec<Vec<(f64, f64)>> = POLICIES
        .iter()
        .zip(cold)
        .map(|(policy, account)| {
            let sizes = on_web.iter().filter(|found| found.policy == *policy);
            sizes
                .map(|found| (found.capacity, account.average(&found.rates)))
                .collect()
        })
        .collect();
    let first = |at: usize| lines[at].first().map_or(f64::NAN, |(_, cycles)| *cycles);
    for (at, id) in [(1, "tinylfu"), (2, "arc"), (3, "random"), (4, "fifo")] {
        section.measured(format!("cycles-below-{id}"), 1.0 - first(0) / first(at));
    }
    let below_least = |size: usize| {
        let others = least(lines[1..].iter().map(|line| line[size].1));
        1.0 - lines[0][size].1 / others
    };
    section.measured(
        "cycles-below-all",
        least((0..lines[0].len()).map(below_least)),
    );
    let series = POLICIES
        .iter()
        .zip(&lines)
        .map(|(policy, line)| Series::line(*policy, line.clone()));
    section.figure("average", series.collect());
    let rows = lines[0].iter().enumerate().map(|(size, (capacity, _))| {
        let cycles = lines.iter().map(|line| format!("{:.0}", line[size].1));
        std::iter::once(capacity.to_string())
            .chain(cycles)
            .collect()
    });
    let header = std::iter::once("cache, packets").chain(POLICIES);
    section.table(
        "Average cycles by equations (1) and (2), cold",
        header,
        rows.collect(),
    );
}

/// Adds the whole exchanges, and figure 8.
fn wholes(section: &mut Section, accounts: &[[Measured; 2]], cold: &[Account]) {
    let speed = |at: usize| accounts[at][0].whole.packets / accounts[at][0].whole.cycles;
    section.measured("packets-to-arc", speed(0) / speed(2));
    section.measured("packets-to-fifo", speed(0) / speed(4));
    let gigabits = |at: usize| accounts[at][0].whole.gigabits;
    section.measured("gigabits", gigabits(0));
    section.measured("gigabits-to-arc", gigabits(0) / gigabits(2));
    section.measured("gigabits-to-fifo", gigabits(0) / gigabits(4));
    let measured = (0..POLICIES.len()).map(|at| (at as f64, gigabits(at)));
    let published = [(0.0, 16.1), (2.0, 11.2), (4.0, 13.9)];
    let series = vec![
        Series::bars("published", published.into()),
        Series::bars("measured", measured.collect()),
    ];
    section.named_figure("gigabits-sent", POLICIES, series);
    let fifo = accounts[4][0].whole;
    let equation = cold[4].average(&Rates {
        hit: fifo.hit,
        insertion: fifo.insertion,
    });
    section.measured("blocks-add-up", equation / fifo.cycles);
    let bars = (0..POLICIES.len()).map(|at| (at as f64, 1e6 * speed(at)));
    section.named_figure(
        "packets",
        POLICIES,
        vec![Series::bars("packets", bars.collect())],
    );
    let rows = POLICIES.iter().zip(accounts).map(|(policy, measured)| {
        let shown = measured.iter().flat_map(|Measured { whole, .. }| {
            let rates = format!("{:.3} / {:.3}", whole.hit, whole.insertion);
            [
                format!("{:.0}", whole.cycles),
                format!("{:.1}", whole.gigabits),
                rates,
            ]
        });
        std::iter::once((*policy).to_owned()).chain(shown).collect()
    });
    let header = [
        "policy",
        "cycles, cold",
        "Gb/s, cold",
        "hit / insertion rate, cold",
        "cycles, warm",
        "Gb/s, warm",
        "hit / insertion rate, warm",
    ];
    section.table("Whole exchanges, as forwarded", header, rows.collect());
}
