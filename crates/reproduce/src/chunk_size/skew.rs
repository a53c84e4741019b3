//! What of the text any popularity gives: RANDOM's place among the policies, the growth of
//! throughput, and the ratio of lifetimes. The paper names the distribution, but not its
//! parameters.

use super::dumbbell::{BACKBONES, Cell, Outcome, RATES, READING, Reading, run_all};
use super::steady::{self, Steady};
use crate::statistics::{Confidence, count, greatest, least, mean_and_interval};
use crate::{Error, Experiment, Request, Section, Watch};
use serde::Deserialize;

pub(super) const FILE: (&str, &str) = experiment_file!("chunk-size/skew.toml");

/// The paper's policies, and both meanings of RANDOM.
const POLICIES: [&str; 5] = ["fifo", "lfu", "lru", "random", "random-priority"];
const FIFO: usize = 0;
const LFU: usize = 1;
const UNIFORM: usize = 3;

/// The places in [`POLICIES`] of the two meanings of RANDOM.
const RANDOMS: std::ops::Range<usize> = 3..5;

/// The sizes between which the text has the growth of throughput, as indices into Table I.
const FROM: usize = 0;
const TO: usize = 5;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    seeds: u64,
    /// The seeds of pairs with an exponent of at most `flat`, under which policies differ less.
    flat_seeds: u64,
    flat: f64,
    /// The simulated time, s.
    seconds: u64,
    /// Indices into Table I, for hit ratios.
    sizes: Vec<usize>,
    /// The parameters q of the Zipf–Mandelbrot distribution.
    shifts: Vec<f64>,
    /// Its exponents s.
    exponents: Vec<f64>,
    steady: Steady,
}

impl Sweep {
    /// Returns the pairs of q and s that have `is_flat`.
    fn pairs(&self, is_flat: bool) -> Vec<(f64, f64)> {
        let exponents = self
            .exponents
            .iter()
            .filter(|s| (**s <= self.flat) == is_flat);
        exponents
            .flat_map(|s| self.shifts.iter().map(move |q| (*q, *s)))
            .collect()
    }

    /// Returns the runs of a pair: all policies without congestion, first at `sizes`, then at the
    /// ends of the growth; then FIFO at these ends with mild congestion.
    fn cells(&self, skew: (f64, f64), seed: u64) -> Vec<Cell<'static>> {
        let reading = Reading { skew, ..READING };
        let [free, congested] = BACKBONES.map(|(_, mbps)| mbps);
        let cell = |place: usize, policy, backbone_mbps| Cell {
            size: RATES[place],
            policy,
            backbone_mbps,
            reading,
            seconds: self.seconds,
            seed,
        };
        let places = self
            .sizes
            .iter()
            .copied()
            .filter(|place| *place < RATES.len())
            .chain([FROM, TO]);
        let of_place = |place| POLICIES.map(|policy| cell(place, policy, free));
        let mut cells: Vec<_> = places.flat_map(of_place).collect();
        cells.extend([FROM, TO].map(|place| cell(place, POLICIES[FIFO], congested)));
        cells
    }
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let Sweep {
        seeds,
        flat_seeds,
        flat,
        seconds,
        ..
    } = *sweep;
    let mut section = Section::new(&experiment, request.scale);
    let runs = format!("{seeds} seeds of {seconds} s, {flat_seeds} where s is at most {flat}");
    section.condition("runs", runs);
    let mut found = Vec::new();
    for (is_flat, seeds, what) in [
        (true, flat_seeds, "flat popularities"),
        (false, seeds, "popularities"),
    ] {
        let pairs = sweep.pairs(is_flat);
        let cells: Vec<_> = pairs
            .iter()
            .flat_map(|skew| sweep.cells(*skew, request.seed))
            .collect();
        let runs = run_all(&cells, seeds, what, request, watch)?;
        let of_pairs = runs.chunks(cells.len() / pairs.len().max(1));
        found.extend(
            pairs
                .iter()
                .zip(of_pairs)
                .map(|(skew, runs)| Found::new(*skew, runs)),
        );
    }
    let mut bands = [[0.0; 2]; STATEMENTS.len()];
    for (band, id) in bands.iter_mut().zip(STATEMENTS) {
        let claim = experiment.claims.iter().find(|claim| claim.id == id);
        *band = claim
            .ok_or_else(|| Error(format!("{}: there is no claim `{id}`", FILE.0)))?
            .band;
    }
    tabulate_hits(&found, sweep, &mut section);
    tabulate_statements(&found, bands, &mut section);
    claim(&found, bands, &mut section);
    steady::run(&sweep.steady, request, &mut section, watch)?;
    section.judged()
}

/// The claims whose bands say whether a pair meets the text: FIFO's growth, LFU's growth, and the
/// ratio of lifetimes.
const STATEMENTS: [&str; 3] = [
    "skew-throughput-fifo",
    "skew-throughput-lfu",
    "skew-lifetime",
];

/// What was found under one pair of q and s.
struct Found {
    skew: (f64, f64),
    /// By size of the sweep.
    hits: Vec<Hits>,
    /// FIFO's growth with mild congestion, LFU's without, and the ratio of lifetimes; NaN if
    /// nothing was evicted at R1.
    statements: [f64; 3],
    /// FIFO's growth without congestion.
    fifo_free: f64,
}

/// The hit ratios at one size.
struct Hits {
    /// By policy.
    means: Vec<f64>,
    /// The hit ratio of the RANDOM with the lower one, less that of the lowest other policy.
    random_less_others: f64,
    /// Half of the 95 % interval of this difference, over the seeds.
    interval: f64,
}

impl Found {
    /// Evaluates the runs of [`Sweep::cells`].
    fn new(skew: (f64, f64), runs: &[Vec<Outcome>]) -> Found {
        let (congestion_free, congested) = runs.split_at(runs.len() - 2);
        let sizes: Vec<_> = congestion_free.chunks(POLICIES.len()).collect();
        let (sizes, ends) = sizes.split_at(sizes.len() - 2);
        let mbps = |runs: &Vec<Outcome>| Outcome::mean(runs).mbps;
        let growth = |policy: usize| mbps(&ends[1][policy]) / mbps(&ends[0][policy]);
        let fifo = mbps(&congested[1]) / mbps(&congested[0]);
        let ratios: Vec<f64> = sizes
            .iter()
            .chain(&ends[1..])
            .filter_map(|runs| lifetime_ratio(runs))
            .collect();
        let lifetimes = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let hits = sizes.iter().map(|runs| Hits::new(runs)).collect();
        Found {
            skew,
            hits,
            statements: [fifo, growth(LFU), lifetimes],
            fifo_free: growth(FIFO),
        }
    }

    /// Returns true if a RANDOM has the lowest hit ratio at every size.
    fn random_is_worst(&self) -> bool {
        self.hits.iter().all(|hits| hits.random_less_others < 0.0)
    }

    /// Returns true if that difference can be seen in a figure at one size or more.
    fn is_visible(&self) -> bool {
        self.hits
            .iter()
            .any(|hits| -hits.random_less_others > VISIBLE * hits.means[FIFO])
    }

    /// Returns whether it meets each of the text's four statements: RANDOM's place, and
    /// [`STATEMENTS`].
    fn meets(&self, bands: [[f64; 2]; 3]) -> [bool; 4] {
        let lies = |at: usize| (bands[at][0]..=bands[at][1]).contains(&self.statements[at]);
        [self.random_is_worst(), lies(0), lies(1), lies(2)]
    }
}

/// The relative difference of two hit ratios below which the claims of figure 1 call them equal.
const VISIBLE: f64 = 0.02;

impl Hits {
    fn new(of_policies: &[Vec<Outcome>]) -> Hits {
        let means: Vec<f64> = of_policies
            .iter()
            .map(|runs| Outcome::mean(runs).hit_ratio)
            .collect();
        let lowest = |places: std::ops::Range<usize>| {
            places
                .min_by(|one, other| means[*one].total_cmp(&means[*other]))
                .unwrap_or(FIFO)
        };
        let (random, other) = (lowest(RANDOMS), lowest(0..RANDOMS.start));
        let by_seed = of_policies[random].iter().zip(&of_policies[other]);
        let differences: Vec<f64> = by_seed
            .map(|(random, other)| random.hit_ratio - other.hit_ratio)
            .collect();
        let (random_less_others, interval) =
            mean_and_interval(&differences, Confidence::NinetyFive);
        Hits {
            means,
            random_less_others,
            interval,
        }
    }
}

/// Returns the lifetime of evicted entries of FIFO, LFU and LRU over uniform RANDOM's; `None` if
/// one of them evicted nothing.
fn lifetime_ratio(of_policies: &[Vec<Outcome>]) -> Option<f64> {
    let lifetime = |policy: usize| Outcome::mean(&of_policies[policy]).lifetime;
    let ratio = (0..UNIFORM).map(lifetime).sum::<f64>() / UNIFORM as f64 / lifetime(UNIFORM);
    ratio.is_finite().then_some(ratio)
}

fn tabulate_hits(found: &[Found], sweep: &Sweep, section: &mut Section) {
    let mut rows = Vec::new();
    for pair in found {
        for (size, hits) in sweep
            .sizes
            .iter()
            .filter_map(|size| RATES.get(*size))
            .zip(&pair.hits)
        {
            let mut row = vec![
                pair.skew.0.to_string(),
                pair.skew.1.to_string(),
                size.0.to_string(),
            ];
            row.extend(hits.means.iter().map(|hits| format!("{hits:.4}")));
            row.push(format!(
                "{:+.4} ± {:.4}",
                hits.random_less_others, hits.interval
            ));
            rows.push(row);
        }
    }
    let last = ["RANDOM less the worst other, 95 % interval"];
    let header = ["q", "s", "packet, KB"]
        .into_iter()
        .chain(POLICIES)
        .chain(last);
    section.table("Hit ratio at the consumers", header, rows);
}

fn tabulate_statements(found: &[Found], bands: [[f64; 2]; 3], section: &mut Section) {
    let shown = |value: f64| {
        if value.is_finite() {
            format!("{value:.2}")
        } else {
            "–".to_owned()
        }
    };
    let row = |pair: &Found| {
        let [fifo, lfu, lifetimes] = pair.statements;
        let values = [fifo, lfu, lfu / fifo, pair.fifo_free, lifetimes].map(shown);
        let worst = if pair.random_is_worst() {
            "RANDOM"
        } else {
            "–"
        }
        .to_owned();
        let met = pair
            .meets(bands)
            .iter()
            .filter(|met| **met)
            .count()
            .to_string();
        let skew = [pair.skew.0.to_string(), pair.skew.1.to_string()];
        skew.into_iter().chain(values).chain([worst, met]).collect()
    };
    let header = [
        "q",
        "s",
        "FIFO, mild congestion",
        "LFU, congestion-free",
        "LFU's over FIFO's",
        "FIFO, congestion-free",
        "lifetime over RANDOM's",
        "lowest hit ratio at every size",
        "statements met, of 4",
    ];
    let rows = found.iter().map(row).collect();
    section.table(
        "Growth of throughput from 5 to 120 KB, and lifetime of evicted entries at R1",
        header,
        rows,
    );
}

fn claim(found: &[Found], bands: [[f64; 2]; 3], section: &mut Section) {
    section.measured(
        "random-worst",
        count(found.iter().map(Found::random_is_worst)),
    );
    let is_visible = |pair: &Found| pair.random_is_worst() && pair.is_visible();
    section.measured("random-worst-visible", count(found.iter().map(is_visible)));
    for (at, id) in STATEMENTS.into_iter().enumerate() {
        let middle = (bands[at][0] + bands[at][1]) / 2.0;
        let values = found
            .iter()
            .map(|pair| pair.statements[at])
            .filter(|value| value.is_finite());
        let nearest =
            values.min_by(|one, other| (one - middle).abs().total_cmp(&(other - middle).abs()));
        section.measured(id, nearest.unwrap_or(f64::NAN));
    }
    let apart = found
        .iter()
        .map(|pair| pair.statements[1] / pair.statements[0]);
    section.measured("skew-throughput-apart", greatest(apart));
    let both = found
        .iter()
        .map(|pair| pair.meets(bands))
        .map(|[_, fifo, lfu, _]| fifo && lfu);
    section.measured("skew-throughput-both", count(both));
    let unmet = found
        .iter()
        .map(|pair| count(pair.meets(bands).map(|met| !met)));
    section.measured("skew-unmet", least(unmet));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of a pair with one size: these hit ratios and lifetimes by policy at every size, and a
    /// throughput of 10 Mbps at 5 KB.
    fn runs(hits: [f64; 5], lifetimes: [f64; 5], [fifo, lfu]: [f64; 2]) -> Vec<Vec<Outcome>> {
        let run = |policy: usize, mbps| {
            let (hit_ratio, lifetime) = (hits[policy], lifetimes[policy]);
            vec![
                Outcome {
                    hit_ratio,
                    lifetime,
                    mbps,
                    ..Outcome::default()
                };
                2
            ]
        };
        let all = |mbps: f64| (0..POLICIES.len()).map(move |policy| run(policy, mbps));
        let congested = [10.0, 10.0 * fifo].map(|mbps| run(FIFO, mbps));
        all(10.0)
            .chain(all(10.0))
            .chain(all(10.0 * lfu))
            .chain(congested)
            .collect()
    }

    #[test]
    fn a_pair_that_meets_the_text_is_not_found() {
        let bands = [[1.4, 1.8], [3.1, 3.9], [1.6, 2.4]];
        let met = |hits, lifetimes, growth| {
            Found::new((0.7, 0.7), &runs(hits, lifetimes, growth)).meets(bands)
        };
        let published = (
            [0.6, 0.8, 0.7, 0.5, 0.65],
            [4.0, 4.0, 4.0, 2.0, 2.0],
            [1.6, 3.5],
        );
        assert_eq!(met(published.0, published.1, published.2), [true; 4]);
        let another = (
            [0.5, 0.8, 0.7, 0.6, 0.55],
            [2.0, 2.0, 2.0, 2.0, 2.0],
            [3.5, 1.6],
        );
        assert_eq!(met(another.0, another.1, another.2), [false; 4]);
        let nothing_evicted = met(published.0, [f64::NAN; 5], published.2);
        assert_eq!(nothing_evicted, [true, true, true, false]);
    }

    #[test]
    fn a_difference_that_no_figure_shows_counts_as_visible() {
        let found = |random| {
            Found::new(
                (0.7, 0.7),
                &runs([0.6, 0.8, 0.7, random, 0.65], [1.0; 5], [1.0; 2]),
            )
        };
        let [near, far] = [found(0.595), found(0.58)];
        assert!(near.random_is_worst() && !near.is_visible());
        assert!(far.random_is_worst() && far.is_visible());
        assert!(
            (far.hits[0].random_less_others + 0.02).abs() < 1e-12 && far.hits[0].interval < 1e-12
        );
    }
}
