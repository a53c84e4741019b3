//! AdaptSize's evaluation, the hit ratio for one c: over bins, and over every object; at first both
//! searches' c, and how many times cheaper the bins are. `search` is all of a tuning: bins are
//! gathered, and some 40 c are evaluated.

use divan::Bencher;
use larder_policy::adaptsize_model::{Foresight, Observed, Shape};
use larder_units::Streams;
use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Instant;

#[allow(clippy::print_stdout)] // a bench tells what it measures
fn main() {
    let [binned, each] = [binned(), unbinned()];
    for foresight in [&binned, &each] {
        let (c, hit_ratio) = foresight.best().expect("there are requests");
        println!(
            "{} bins: c {c:.0} bytes, hit ratio {hit_ratio:.4}",
            foresight.bins()
        );
    }
    println!(
        "an evaluation over bins is {:.0} times cheaper than one over objects",
        seconds(&each) / seconds(&binned)
    );
    divan::main();
}

/// Of the evaluations, bytes.
const C: f64 = 65536.0;

/// Of one evaluation, the least of many: a pause of the machine is not the program's.
#[allow(clippy::disallowed_methods)] // a bench measures time
fn seconds(foresight: &Foresight) -> f64 {
    let once = |_| {
        let begun = Instant::now();
        black_box(foresight.hit_ratio(black_box(C)));
        begun.elapsed().as_secs_f64()
    };
    (0..30).map(once).fold(f64::INFINITY, f64::min)
}

const CAPACITY: f64 = (1_u64 << 30) as f64;

/// Pareto's law of popularity, which is Zipf's by the ranks, in two intervals; sizes log-uniform
/// from 100 B to 10 MB.
static OBJECTS: LazyLock<Vec<Observed>> = LazyLock::new(|| {
    let mut stream = Streams::new(1).stream("bench");
    let object = |_| {
        let size = (100.0 * 100_000_f64.powf(stream.unit())).floor();
        let rate = (1.0 - stream.unit()).powf(-0.8);
        let mut near = || (rate * (0.5 + stream.unit())).floor();
        Observed {
            size,
            last: near(),
            before: 0.7 * near(),
        }
    };
    (0..100_000).map(object).collect()
});

fn binned() -> Foresight {
    Foresight::new(OBJECTS.iter().copied(), CAPACITY, Shape::Chance)
}

fn unbinned() -> Foresight {
    Foresight::unbinned(OBJECTS.iter().copied(), CAPACITY, Shape::Chance)
}

#[divan::bench]
fn evaluation_binned(bencher: Bencher<'_, '_>) {
    let foresight = binned();
    bencher.bench_local(|| foresight.hit_ratio(C));
}

#[divan::bench]
fn evaluation_an_object_at_a_time(bencher: Bencher<'_, '_>) {
    let foresight = unbinned();
    bencher.bench_local(|| foresight.hit_ratio(C));
}

#[divan::bench]
fn search() -> Option<(f64, f64)> {
    binned().best()
}
