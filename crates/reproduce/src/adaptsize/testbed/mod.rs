//! The paper's testbed (sections 4.3 and 5): real caches on loopback, with `larder load` as the
//! client and `larder origin` as the origin.
//!
//! The traffic is a scaled-down form of the replays' traffic: traces, catalogue and caches shrink
//! together. Objects are cut at a tenth of the cache or less. Larger objects would measure the
//! servers' own limits (bodies in transfer, evictions for one object) instead. The experiment files
//! give the numbers. All three programs share one machine, so throughput is reported as processor
//! time.
//!
//! Another claim is that a node hits as often as the replayer predicts. The replayer must know that
//! a node counts more than bodies, and that it fills free room without asking the policy.
//! [`serve::overhead`] measures the first, as far as it is the same for every object, and
//! `Traffic::stored` applies both.

mod change;
mod disk;
mod gigabits;
mod production;
mod published;
mod serve;
mod servers;
mod throughput;

use crate::{Error, Run};

pub(super) const EXPERIMENTS: &[(&str, Run)] = &[
    ("testbed-hk", production::run_hk),
    ("testbed-us", production::run_us),
    ("testbed-published", published::run),
    ("testbed-throughput", throughput::run),
    ("testbed-gigabits", gigabits::run),
    ("testbed-change", change::run),
    ("testbed-disk", disk::run),
];

/// Checks that nginx and Varnish are installed.
pub(super) fn check_installed() -> Result<(), Error> {
    servers::check_installed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Scale};

    /// Failure: a scale that the servers' own limits decide. Larder has 7/32 of a cache for large
    /// bodies under way, so two of the largest objects fit at once; a third at the same time passes
    /// through unstored.
    #[test]
    fn a_file_is_read_after_the_servers_were_started() {
        let production = |trace: production::Trace| {
            Experiment::<production::Sweep>::parse(trace.file.0, trace.file.1).unwrap()
        };
        let production = [production(production::HK), production(production::US)];
        let throughput =
            Experiment::<throughput::Sweep>::parse(throughput::FILE.0, throughput::FILE.1).unwrap();
        let change = Experiment::<change::Sweep>::parse(change::FILE.0, change::FILE.1).unwrap();
        let disk = Experiment::<disk::Sweep>::parse(disk::FILE.0, disk::FILE.1).unwrap();
        for scale in [Scale::Quick, Scale::Full] {
            for sweep in production.iter().map(|experiment| experiment.sweep(scale)) {
                assert!(sweep.largest * 2.0 <= 7.0 / 32.0);
                assert!(
                    sweep.capacities.is_sorted() && sweep.capacities[0] > 1 << 20,
                    "Varnish takes 1 MiB or more"
                );
            }
            let sweep = throughput.sweep(scale);
            assert!(sweep.rounds >= 2, "an interval needs two");
            let sweep = disk.sweep(scale);
            assert!(sweep.largest * 2.0 <= 7.0 / 32.0 && sweep.capacity > 1 << 20);
            let sweep = change.sweep(scale);
            assert!(sweep.largest * 20 <= sweep.capacity);
        }
        let claims = production
            .each_ref()
            .map(|experiment| experiment.claims.len());
        assert_eq!((claims, disk.claims.len()), ([12, 12], 12));
    }
}
