//! `ndn-vs-http`: a file to many clients, over NDN and over HTTP, on clean and on lossy links; real programs on the testbed's links.
//!
//! It needs root, and lighttpd, Squid and wget as Debian packages them. Rates, file and clients are scaled to one machine; each experiment says how.
//!
//! Missing: the peak throughput of the top node, and what keeping names decoded gains (fig. 8); lighttpd tuned; the same network in the simulator;
//! UDP faces.

mod clean;
mod lossy;
mod programs;
mod tree;

use crate::{Error, Paper};
use larder_figure::Series;

pub(crate) const PAPER: Paper = Paper {
    name: "ndn-vs-http",
    citation: "Yuan, Crowley, Experimental evaluation of content distribution with NDN and HTTP, IEEE INFOCOM Mini-Conference, 2013",
    experiments: &[("clean", clean::run), ("lossy", lossy::run)],
    testbed: &[],
};

impl From<larder_testbed::Error> for Error {
    fn from(error: larder_testbed::Error) -> Self {
        Error(format!("testbed: {error}"))
    }
}

/// A line of x, mean and half interval.
fn series(name: impl Into<String>, points: &[(f64, f64, f64)]) -> Series {
    let line = Series::line(name, points.iter().map(|(x, mean, _)| (*x, *mean)).collect());
    line.with_interval(points.iter().map(|(_, mean, half)| (mean - half, mean + half)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, Scale};

    #[test]
    fn the_files_are_read_after_the_network_was_built() {
        let clean = Experiment::<clean::Sweep>::parse(clean::FILE.0, clean::FILE.1).unwrap();
        let lossy = Experiment::<lossy::Sweep>::parse(lossy::FILE.0, lossy::FILE.1).unwrap();
        for scale in [Scale::Quick, Scale::Full] {
            assert!(clean.sweep(scale).runs > 0 && lossy.sweep(scale).runs > 0);
        }
        assert_eq!((clean.claims.len(), lossy.claims.len()), (2, 5));
    }
}
