//! Losses on the clients' links, and a delay behind them (fig. 5, 6 and 7). NDN caches at the edge,
//! HTTP does not.

use super::cell::Cell;
use super::cell::{Faces, SquidSetup, System};
use super::cells::{MOST_AT_ONCE, MachineLock, Measured, Runs, line};

use super::state_forwarder;
use super::tree::{Network, Shape};
use crate::statistics::count;
use crate::{Error, Experiment, Request, Section, Watch};
use larder_figure::Series;
use larder_units::BitRate;
use serde::Deserialize;
use std::cmp::Reverse;

pub(super) const FILE: (&str, &str) = experiment_file!("ndn-vs-http/lossy.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    pub(super) runs: u64,
    /// The number of runs without delay. Such a run is short, and one stalled client changes its
    /// mean.
    runs_without_delay: u64,
    pub(super) file_bytes: usize,
    rate: String,
    /// Fig. 5: numbers of clients, at the greatest loss and delay.
    clients: Vec<usize>,
    /// Fig. 6: delays, ms each way, at the greatest loss.
    delays: Vec<u64>,
    /// Fig. 7: losses, %, at the greatest delay.
    losses: Vec<f64>,
    /// The number of clients in fig. 6 and 7.
    pub(super) clients_there: usize,
    /// Whether [`Sweep::explanations`] are measured.
    explains: bool,
}

/// A column: its name, the program, and the congestion control of TCP on every host.
#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    system: System,
    congestion: &'static str,
    at: At,
}

/// The points at which a column is measured.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Everywhere,
    /// The greatest loss and delay.
    Greatest,
    /// Where an explanation needs it ([`Sweep::explanations`]).
    Explanation,
}

const fn column(name: &'static str, system: System, congestion: &'static str) -> Column {
    Column {
        name,
        system,
        congestion,
        at: At::Everywhere,
    }
}

const SQUID: System = System::Squid {
    levels: 1,
    setup: SquidSetup::ReadsAhead,
};
const COLUMNS: [Column; 7] = [
    column("Squid, CUBIC", SQUID, "cubic"),
    column("Squid, BBR", SQUID, "bbr"),
    column(
        "Larder, CUBIC",
        System::Larder {
            levels: 2,
            faces: Faces::Tcp,
        },
        "cubic",
    ),
    column("wget, Larder's pair", System::Pair, "cubic"),
    column(
        "Larder over UDP",
        System::Larder {
            levels: 2,
            faces: Faces::Udp,
        },
        "cubic",
    ),
    Column {
        at: At::Greatest,
        ..column(
            "Squid as packaged, CUBIC",
            System::Squid {
                levels: 1,
                setup: SquidSetup::Packaged,
            },
            "cubic",
        )
    },
    Column {
        at: At::Explanation,
        ..column(
            "Larder, BBR",
            System::Larder {
                levels: 2,
                faces: Faces::Tcp,
            },
            "bbr",
        )
    },
];
const SQUID_CUBIC: usize = 0;
const SQUID_BBR: usize = 1;
const LARDER: usize = 2;
const PAIR: usize = 3;
const LARDER_UDP: usize = 4;
const LARDER_BBR: usize = 6;

/// Half of the 50 ms of fig. 6, if they are a round trip, ms.
const HALF_OF_50: u64 = 25;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) clients: usize,
    pub(super) delay: u64,
    pub(super) loss: f64,
}

impl Sweep {
    /// Returns the fewest clients of fig. 5.
    fn fewest(&self) -> usize {
        self.clients.iter().copied().min().unwrap_or_default()
    }

    /// Returns the point with the greatest loss and delay.
    pub(super) fn greatest(&self) -> Point {
        Point {
            clients: self.clients_there,
            delay: self.delays.iter().copied().max().unwrap_or(0),
            loss: self.losses.iter().copied().fold(0.0, f64::max),
        }
    }

    fn points(&self) -> Vec<Point> {
        let greatest = self.greatest();
        let of_clients = self.clients.iter().map(|&clients| Point {
            clients,
            ..greatest
        });
        let of_delays = self.delays.iter().map(|&delay| Point { delay, ..greatest });
        let of_losses = self.losses.iter().map(|&loss| Point { loss, ..greatest });
        let mut points: Vec<Point> = Vec::new();
        for point in of_clients.chain(of_delays).chain(of_losses) {
            if !points.contains(&point) {
                points.push(point);
            }
        }
        points
    }

    /// Returns what is measured: points, each with a column, the columns of a point one after the
    /// other.
    fn plan(&self) -> Vec<(Point, usize)> {
        let (mut points, explanations) = (self.points(), self.explanations());
        for (point, _) in &explanations {
            if !points.contains(point) {
                points.push(*point);
            }
        }
        let figures = self.points();
        let is_measured = |point: &Point, at: usize| match COLUMNS[at].at {
            _ if explanations.contains(&(*point, at)) => true,
            At::Everywhere => figures.contains(point),
            At::Greatest => *point == self.greatest(),
            At::Explanation => false,
        };
        let pairs = points
            .into_iter()
            .flat_map(|point| (0..COLUMNS.len()).map(move |at| (point, at)));
        pairs
            .filter(|(point, at)| is_measured(point, *at))
            .collect()
    }

    /// Returns what the reasons of failing claims say, and no figure shows: the parts of the time
    /// of few clients, a round trip in place of a delay each way, and the same congestion control
    /// on both sides.
    fn explanations(&self) -> Vec<(Point, usize)> {
        let greatest = self.greatest();
        let few = Point {
            clients: self.fewest(),
            ..greatest
        };
        let round_trip = Point {
            delay: HALF_OF_50,
            ..greatest
        };
        let points = [
            (
                Point {
                    delay: 0,
                    ..greatest
                },
                LARDER_BBR,
            ),
            (Point { delay: 0, ..few }, LARDER),
            (Point { loss: 0.0, ..few }, LARDER),
            (round_trip, SQUID_CUBIC),
            (round_trip, LARDER),
        ];
        if self.explains {
            points.into()
        } else {
            Vec::new()
        }
    }

    pub(super) fn network(&self, point: Point) -> Result<Network, Error> {
        let rate: BitRate = self
            .rate
            .parse()
            .map_err(|error| Error(format!("experiments/{}: rate: {error}", FILE.0)))?;
        Ok(Network {
            shape: Shape::Links,
            rate: Some(rate),
            delay: point.delay,
            loss: point.loss,
        })
    }

    /// Returns the cells of a column at a point, one per run.
    pub(super) fn cells(
        &self,
        point: Point,
        system: System,
        congestion: &'static str,
        seed: u64,
    ) -> Result<impl Iterator<Item = Cell>, Error> {
        let (network, clients, bytes) = (self.network(point)?, point.clients, self.file_bytes);
        let runs = if point.delay == 0 {
            self.runs_without_delay
        } else {
            self.runs
        };
        Ok((0..runs).map(move |run| Cell {
            system,
            network,
            clients,
            bytes,
            congestion,
            seed: seed + run,
        }))
    }
}

/// Returns the share of the machine that a run needs. Over a lossy link, CUBIC's clients wait for
/// time-outs nearly all of the time, and BBR's for most of it (the links of 20 clients need a tenth
/// of a core). Larder's clients behind a delay wait for half of the time. Without delay a run needs
/// the whole machine, except for CUBIC's, whose clients also wait. The lateness of the links, which
/// is checked in each run, shows that runs do not disturb each other.
fn share(cell: &Cell) -> usize {
    let Cell {
        system,
        network,
        congestion,
        ..
    } = cell;
    let is_lossy = network.loss > 0.0;
    match (system, network.delay) {
        (
            System::Squid { .. }
            | System::Larder {
                faces: Faces::Tcp, ..
            },
            0,
        ) if is_lossy && *congestion == "cubic" => MOST_AT_ONCE / 2,
        (_, 0) => MOST_AT_ONCE,
        (System::Squid { .. }, _) if is_lossy => 1 + usize::from(*congestion != "cubic"),
        _ => MOST_AT_ONCE / 4,
    }
}

/// Measures cells, the long ones first, so that no long cell runs alone at the end: first those
/// with time-outs, and of these first those with many clients. Cells that need the whole machine
/// come last. Within these groups the order is by run and not by column, so that other work of the
/// machine affects all columns.
pub(super) fn measure(
    mut cells: Vec<Cell>,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Measured, Error> {
    cells.sort_by_key(|cell| {
        let (delay, is_patient) = (cell.network.delay, share(cell) == 1);
        (
            delay == 0,
            share(cell) == MOST_AT_ONCE,
            !is_patient,
            Reverse(delay),
            Reverse(cell.clients),
            cell.seed,
        )
    });
    let mut measured = Measured::default();
    measured.add(cells, share, request, watch)?;
    Ok(measured)
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let _lock = MachineLock::acquire()?;
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let (plan, greatest) = (sweep.plan(), sweep.greatest());
    let mut cells = Vec::new();
    for (point, column) in plan.iter().map(|(point, at)| (*point, COLUMNS[*at])) {
        cells.extend(sweep.cells(point, column.system, column.congestion, request.seed)?);
    }
    let mut points: Vec<Point> = plan.iter().map(|(point, _)| *point).collect();
    points.dedup();
    watch.begin("lossy links", cells.len() as u64);
    let measured = measure(cells, request, watch)?;
    let of = |point: &Point, at: usize| {
        let Column {
            system, congestion, ..
        } = COLUMNS[at];
        measured.runs(|cell| {
            let there = Point {
                clients: cell.clients,
                delay: cell.network.delay,
                loss: cell.network.loss,
            };
            there == *point && cell.system == system && cell.congestion == congestion
        })
    };

    let mut section = Section::new(&experiment, request.scale);
    state_forwarder(&mut section, request);
    report(&mut section, sweep, &measured);
    section.table("Download times", HEADER, rows(&points, &of));
    draw(&mut section, &points, greatest, &of);
    let no_delay = Point {
        delay: 0,
        ..greatest
    };
    let few_clients = Point {
        clients: sweep.fewest(),
        ..greatest
    };
    for (claim, point, slower, faster) in [
        ("lossy-cubic", greatest, SQUID_CUBIC, LARDER),
        ("lossy-bbr", greatest, SQUID_BBR, LARDER),
        ("no-delay", no_delay, SQUID_CUBIC, LARDER),
        ("no-delay-near", no_delay, SQUID_CUBIC, LARDER),
        ("few-clients", few_clients, SQUID_CUBIC, LARDER),
        ("no-delay-bbr", no_delay, SQUID_BBR, LARDER),
        ("lossy-cubic-udp", greatest, SQUID_CUBIC, LARDER_UDP),
        ("lossy-bbr-udp", greatest, SQUID_BBR, LARDER_UDP),
        ("no-delay-udp", no_delay, SQUID_BBR, LARDER_UDP),
        ("pair-cubic", greatest, SQUID_CUBIC, PAIR),
        ("pair-bbr", greatest, SQUID_BBR, PAIR),
        ("pair-no-delay", no_delay, SQUID_CUBIC, PAIR),
        ("pair-no-delay-bbr", no_delay, SQUID_BBR, PAIR),
    ] {
        section.measured(
            claim,
            of(&point, slower).median() / of(&point, faster).median(),
        );
    }
    let time = |point, at| of(&point, at).median();
    shapes(&mut section, sweep, &time);
    if sweep.explains {
        explain(&mut section, sweep, &time);
    }
    section.judged()
}

/// Measures what the text says of the shapes of fig. 5, 6 and 7. `time` is the median of a column's
/// runs at a point, NaN if there are none.
fn shapes(section: &mut Section, sweep: &Sweep, time: &dyn Fn(Point, usize) -> f64) {
    let greatest = sweep.greatest();
    let few = sweep.fewest();
    let most = sweep.clients.iter().copied().max().unwrap_or_default();
    let over = |clients, than, at| {
        time(
            Point {
                clients,
                ..greatest
            },
            at,
        ) / time(
            Point {
                clients: than,
                ..greatest
            },
            at,
        )
    };
    section.measured("clients-larder", over(greatest.clients, few, LARDER));
    section.measured("clients-squid", over(most, few, SQUID_CUBIC));
    section.measured("clients-larder-flat", over(most, greatest.clients, LARDER));
    for (claim, delay) in [("delay-50", 50), ("delay-100", 100)] {
        let point = Point { delay, ..greatest };
        section.measured(claim, time(point, SQUID_CUBIC) / time(point, LARDER));
    }
    let at_5 = Point {
        loss: 5.0,
        ..greatest
    };
    section.measured("loss-5", time(at_5, SQUID_CUBIC) / time(at_5, LARDER));
    let falls = |points: &[Point]| {
        let of_column = |at: usize| {
            falls(
                &points
                    .iter()
                    .map(|point| time(*point, at))
                    .collect::<Vec<f64>>(),
            )
        };
        of_column(SQUID_CUBIC) + of_column(LARDER)
    };
    let sorted = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values
    };
    let delays = sorted(sweep.delays.iter().map(|delay| *delay as f64).collect());
    let delays: Vec<Point> = delays
        .into_iter()
        .map(|delay| Point {
            delay: delay as u64,
            ..greatest
        })
        .collect();
    section.measured("delay-rises", falls(&delays));
    let losses: Vec<Point> = sorted(sweep.losses.clone())
        .into_iter()
        .map(|loss| Point { loss, ..greatest })
        .collect();
    section.measured("loss-rises", falls(&losses));
}

/// Measures what [`Sweep::explanations`] are for.
fn explain(section: &mut Section, sweep: &Sweep, time: &dyn Fn(Point, usize) -> f64) {
    let greatest = sweep.greatest();
    let no_delay = Point {
        delay: 0,
        ..greatest
    };
    section.measured(
        "no-delay-both-bbr",
        time(no_delay, SQUID_BBR) / time(no_delay, LARDER_BBR),
    );
    let round_trip = Point {
        delay: HALF_OF_50,
        ..greatest
    };
    section.measured(
        "round-trip-50",
        time(round_trip, SQUID_CUBIC) / time(round_trip, LARDER),
    );
    let of_few = |point: Point| {
        time(point, LARDER)
            / time(
                Point {
                    clients: sweep.fewest(),
                    ..point
                },
                LARDER,
            )
    };
    section.measured("clients-larder-no-delay", of_few(no_delay));
    section.measured(
        "clients-larder-no-loss",
        of_few(Point {
            loss: 0.0,
            ..greatest
        }),
    );
}

/// Returns the number of steps at which a course of times does not rise; NaN if one is missing.
fn falls(times: &[f64]) -> f64 {
    if times.iter().any(|time| time.is_nan()) {
        return f64::NAN;
    }
    count(times.windows(2).map(|pair| pair[1] <= pair[0]))
}

fn report(section: &mut Section, sweep: &Sweep, measured: &Measured) {
    let Sweep {
        rate,
        file_bytes,
        runs,
        runs_without_delay,
        ..
    } = sweep;
    section.condition(
        "links",
        format!(
            "{rate}, queues of 1000 packets; the delay each way, between the edges and the top"
        ),
    );
    let programs = "fresh programs (the pair's have fetched a small file), empty caches";
    let file =
        format!("{file_bytes} bytes; {runs} runs, {runs_without_delay} without delay; {programs}");
    section.condition("file", file);
    measured.state_lateness(section);
}

const HEADER: [&str; 8] = [
    "clients",
    "delay, ms",
    "loss, %",
    "system",
    "mean, s",
    "± s (90 %)",
    "median run, s",
    "clients: fastest / median / slowest, s",
];

fn rows<'a>(points: &[Point], of: &dyn Fn(&Point, usize) -> Runs<'a>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for point in points {
        for (at, column) in COLUMNS.iter().enumerate() {
            let runs = of(point, at);
            if runs.is_empty() {
                continue;
            }
            let (mean, half) = runs.mean();
            let Point {
                clients,
                delay,
                loss,
            } = point;
            let place = [
                clients.to_string(),
                delay.to_string(),
                loss.to_string(),
                column.name.to_owned(),
            ];
            let figures = [mean, half, runs.median()].map(|seconds| format!("{seconds:.2}"));
            rows.push(
                place
                    .into_iter()
                    .chain(figures)
                    .chain([runs.spread()])
                    .collect(),
            );
        }
    }
    rows
}

fn draw<'a>(
    section: &mut Section,
    points: &[Point],
    greatest: Point,
    of: &dyn Fn(&Point, usize) -> Runs<'a>,
) {
    let drawn = |keep: &dyn Fn(&Point) -> bool, x: &dyn Fn(&Point) -> f64| -> Vec<Series> {
        let mut kept: Vec<&Point> = points.iter().filter(|point| keep(point)).collect();
        kept.sort_by(|a, b| x(a).total_cmp(&x(b)));
        let of_column = |(at, column): (usize, &Column)| {
            line(
                column.name,
                kept.iter().map(|point| (x(point), of(point, at))),
            )
        };
        let lines = COLUMNS.iter().enumerate().map(of_column);
        lines.filter(|line| !line.points.is_empty()).collect()
    };
    section.figure(
        "clients",
        drawn(
            &|p| (p.delay, p.loss) == (greatest.delay, greatest.loss),
            &|p| p.clients as f64,
        ),
    );
    section.figure(
        "delay",
        drawn(
            &|p| (p.clients, p.loss) == (greatest.clients, greatest.loss),
            &|p| p.delay as f64,
        ),
    );
    section.figure(
        "loss",
        drawn(
            &|p| (p.clients, p.delay) == (greatest.clients, greatest.delay),
            &|p| p.loss,
        ),
    );
    // The times of all clients of all runs at one point, the fastest first.
    let each = COLUMNS.iter().enumerate().map(|(at, column)| {
        let times = of(&greatest, at).each();
        let share = |place: usize| 100.0 * (place as f64 + 1.0) / times.len() as f64;
        Series::line(
            column.name,
            times
                .iter()
                .enumerate()
                .map(|(place, time)| (share(place), *time))
                .collect(),
        )
    });
    section.figure(
        "each",
        each.filter(|line| !line.points.is_empty()).collect(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_is_not_measured_or_a_figure_has_more_columns() {
        let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1).unwrap();
        for sweep in [crate::Scale::Full, crate::Scale::Quick].map(|scale| experiment.sweep(scale))
        {
            let plan = sweep.plan();
            assert!(sweep.explanations().iter().all(|pair| plan.contains(pair)));
            let columns = |point: Point| plan.iter().filter(|(at, _)| *at == point).count();
            let everywhere = COLUMNS
                .iter()
                .filter(|column| column.at == At::Everywhere)
                .count();
            assert_eq!(columns(sweep.greatest()), everywhere + 1);
            let no_delay = Point {
                delay: 0,
                ..sweep.greatest()
            };
            assert_eq!(columns(no_delay), everywhere + usize::from(sweep.explains));
            assert_eq!(
                columns(Point {
                    delay: HALF_OF_50,
                    ..no_delay
                }),
                2 * usize::from(sweep.explains)
            );
        }
    }

    #[test]
    fn a_missing_time_does_not_fall() {
        assert_eq!(
            (falls(&[1.0, 2.0, 3.0]), falls(&[1.0, 1.0, 0.5])),
            (0.0, 2.0)
        );
        assert!(falls(&[1.0, f64::NAN, 3.0]).is_nan() && falls(&[]).is_nan());
    }
}
