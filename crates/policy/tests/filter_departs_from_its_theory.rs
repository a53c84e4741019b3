//! Filter before FIFO against the analytic model of its paper, equations (3) to (7): hit rate and
//! insertion rate of independent requests.

use crate::traffic::{Owner, Zipf};
use larder_units::Time;

const OBJECTS: usize = 20_000;
const EXPONENT: f64 = 0.8;

/// P[X ≥ θ − 1] of equation (3), X Poisson with the mean qλ′.
fn insertion_rate(mean: f64, theta: u32) -> f64 {
    let mut term = (-mean).exp();
    let mut below = 0.0;
    for k in 0..theta.saturating_sub(1) {
        below += term;
        term *= mean / f64::from(k + 1);
    }
    1.0 - below
}

/// Hit rate (7) and insertion rate (4).
fn theory(capacity: f64, window: f64, theta: u32) -> (f64, f64) {
    let zipf = Zipf::new(OBJECTS, EXPONENT, 0);
    let objects: Vec<(f64, f64)> = (0..OBJECTS)
        .map(|id| zipf.share(id))
        .map(|rate| (rate, insertion_rate(window * rate, theta)))
        .collect();
    let cached = |tau: f64, (rate, p): (f64, f64)| rate * p * tau / (1.0 + rate * p * tau);
    let (mut low, mut high) = (0.0, 1e15);
    for _ in 0..200 {
        let tau = 0.5 * (low + high);
        let filled: f64 = objects.iter().map(|object| cached(tau, *object)).sum();
        if filled < capacity {
            low = tau
        } else {
            high = tau
        }
    }
    let hit: f64 = objects
        .iter()
        .map(|object| object.0 * cached(low, *object))
        .sum();
    let inserted: f64 = objects
        .iter()
        .map(|object| object.0 * (1.0 - cached(low, *object)) * object.1)
        .sum();
    (hit, inserted / (1.0 - hit))
}

fn replay(spec: &str, capacity: u64) -> (f64, f64) {
    let mut owner = Owner::new(&spec.parse().unwrap(), capacity, 1);
    let mut zipf = Zipf::new(OBJECTS, EXPONENT, 3);
    let (warm, all) = (50_000, 250_000);
    let (mut hits, mut insertions) = (0, 0);
    for number in 0..all {
        let id = zipf.draw();
        let hit = owner.request(id, 1, Time::ZERO);
        if number >= warm {
            hits += u32::from(hit);
            insertions += u32::from(!hit && owner.index.contains_key(&id));
        }
    }
    let counted = f64::from(all - warm);
    (
        f64::from(hits) / counted,
        f64::from(insertions) / (counted - f64::from(hits)),
    )
}

#[test]
fn hit_and_insertion_rates_differ_from_the_equations() {
    // The paper's proportions: a hundredth of the catalogue cached, q = C. θ = 1 is FIFO alone.
    // Where q is longer than an object's stay, the equations are too high: they take the history as
    // independent of the miss, while who was asked for lately is likely cached.
    for (theta, window, band) in [
        (1, 200, 0.005),
        (2, 200, 0.005),
        (3, 200, 0.02),
        (2, 1000, 0.025),
    ] {
        let (hit, inserted) = theory(200.0, f64::from(window), theta);
        let measured = replay(
            &format!("filter(theta={theta},window={window},table=262144)+fifo"),
            200,
        );
        assert!(
            (measured.0 - hit).abs() < band,
            "θ {theta}, q {window}: hit rate {}, theory {hit}",
            measured.0
        );
        assert!(
            (measured.1 - inserted).abs() < band,
            "θ {theta}, q {window}: insertions {}, theory {inserted}",
            measured.1
        );
    }
}

/// TinyLFU compares the newcomer with a stored object and Filter with a constant, so it gets
/// further; nobody gets beyond the most popular C. Eight misses are under way at once, as in a
/// router: the duels of their answers are not each preceded by a miss.
#[test]
fn tinylfu_before_random_stays_at_filter_or_beats_the_best_set() {
    let (capacity, outstanding) = (200, 8);
    let mut owner = Owner::new(
        &"tinylfu(window=10000)+random".parse().unwrap(),
        capacity,
        1,
    );
    let mut zipf = Zipf::new(OBJECTS, EXPONENT, 3);
    let (warm, all) = (50_000, 250_000);
    let (mut hits, mut fetched) = (0, Vec::new());
    for number in 0..all {
        let id = zipf.draw();
        match owner.index.get(&id) {
            Some(slot) => {
                owner.engine.hit(*slot, id, Time::ZERO);
                hits += u32::from(number >= warm);
            }
            None => {
                owner.engine.miss(id, Time::ZERO);
                fetched.push(id);
            }
        }
        if fetched.len() == outstanding {
            for id in fetched.drain(..) {
                if !owner.index.contains_key(&id) && owner.engine.admit(id, 1, Time::ZERO) {
                    owner.insert(id, 1, Time::ZERO);
                }
            }
        }
    }
    let hit = f64::from(hits) / f64::from(all - warm);
    let best_set: f64 = (0..capacity as usize).map(|id| zipf.share(id)).sum();
    let (filter, _) = theory(capacity as f64, capacity as f64, 2);
    assert!(
        (filter + 0.01..best_set).contains(&hit),
        "{hit}, Filter's theory {filter}, the best set {best_set}"
    );
}

#[test]
fn the_default_window_is_not_q_equal_to_c() {
    // Unit objects: capacity / mean size is C, and the table's 128 slots a request may add 0.8 % of
    // false positives.
    let measured = replay("filter+fifo", 200);
    let paper = replay("filter(window=200,table=16777216)+fifo", 200);
    assert!(
        (measured.0 - paper.0).abs() < 0.01,
        "hit rate {} and {}",
        measured.0,
        paper.0
    );
    assert!(
        (measured.1 - paper.1).abs() < 0.01,
        "insertions {} and {}",
        measured.1,
        paper.1
    );
}
