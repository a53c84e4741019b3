//! Cells of the experiments: a system on a network with a seed. A cell is measured once and stored,
//! so that `--resume` does not measure it again.

use super::cell::{Cell, Run, System};
use super::{programs, series};
use crate::{Error, Request, Section, Watch};
use larder_figure::Series;
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

/// A lock on the machine: two reproductions at once would disturb each other's figures.
pub(super) struct MachineLock {
    /// Holds the file lock.
    file: File,
}

impl MachineLock {
    /// Acquires the lock ([`MachineLock::acquire_bare`]) if lighttpd, Squid and wget are installed.
    pub(super) fn acquire() -> Result<MachineLock, Error> {
        programs::check_installed()?;
        MachineLock::acquire_bare()
    }

    /// Acquires the lock, and removes what a killed run has left.
    ///
    /// # Errors
    /// The process is not root, another reproduction uses it, or its remains cannot be removed.
    pub(super) fn acquire_bare() -> Result<MachineLock, Error> {
        check_root()?;
        // The lock is for the machine, as the namespaces are. A directory for temporary files may
        // belong to one user.
        let path = Path::new("/run/larder-ndn-vs-http.lock");
        let failed = |what: &dyn std::fmt::Display| Error(format!("{}: {what}", path.display()));
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|error| failed(&error))?;
        file.try_lock().map_err(|_| {
            failed(&"another `larder reproduce ndn-vs-http` runs, and two would disturb each other")
        })?;
        for number in 0..MOST_AT_ONCE {
            larder_testbed::down(&testbed(number))?;
            programs::remove_left(&testbed(number))?;
        }
        Ok(MachineLock { file })
    }
}

fn check_root() -> Result<(), Error> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Error(
        "ndn-vs-http creates network namespaces and devices; run it as root".into(),
    ))
}

/// Checks that the process is root, and, `with_programs`, that lighttpd, Squid and wget are
/// installed.
pub(super) fn check_requirements(with_programs: bool) -> Result<(), Error> {
    check_root()?;
    if with_programs {
        programs::check_installed()
    } else {
        Ok(())
    }
}

impl Drop for MachineLock {
    /// The next run reports what cannot be removed now. A program that is starting has a copy of
    /// the lock's descriptor until it executes.
    fn drop(&mut self) {
        for number in 0..MOST_AT_ONCE {
            drop(programs::remove_left(&testbed(number)));
        }
        _ = self.file.unlock();
    }
}

/// The most concurrent runs, if each has the least share of the machine.
pub(super) const MOST_AT_ONCE: usize = 18;

/// Returns the name of a concurrent testbed. The names are always the same, so that the rest of a
/// killed run is found.
pub(super) fn testbed(number: usize) -> String {
    format!("ndnvshttp{number}")
}

/// Cells and their results.
#[derive(Default)]
pub(super) struct Measured(Vec<(Cell, Run)>);

impl Measured {
    /// Measures these cells in their order, and adds the results. `share` is the share of the
    /// machine that a cell needs, out of [`MOST_AT_ONCE`]. A caller that lets several cells run at
    /// once documents why they do not disturb each other.
    ///
    /// # Errors
    /// The first failure, or that the work was stopped. Running cells end, and no other cell
    /// starts.
    pub(super) fn add(
        &mut self,
        cells: Vec<Cell>,
        share: impl Fn(&Cell) -> usize + Sync,
        request: &Request<'_>,
        watch: &dyn Watch,
    ) -> Result<(), Error> {
        let queue = CellQueue::new(cells);
        std::thread::scope(|scope| {
            for _ in 0..MOST_AT_ONCE {
                scope.spawn(|| {
                    while let Some(slot) = queue.take(&share) {
                        let run = measured(&slot.cell, slot.number, request, watch);
                        slot.finish(run);
                    }
                });
            }
        });
        let State { failure, done, .. } = queue
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        match failure {
            Some(_) if watch.is_stopped() => Err(Error::interrupted()),
            Some(error) => Err(error),
            None => {
                self.0.extend(done);
                Ok(())
            }
        }
    }

    /// Returns the runs of these cells that were in time; none, if half of the runs or more were
    /// late.
    pub(super) fn runs(&self, is: impl Fn(&Cell) -> bool) -> Runs<'_> {
        let in_time = self.select(|cell, run| is(cell) && !run.is_late);
        let Runs(all) = self.select(|cell, _| is(cell));
        if 2 * in_time.0.len() > all.len() {
            in_time
        } else {
            Runs(Vec::new())
        }
    }

    fn select(&self, is: impl Fn(&Cell, &Run) -> bool) -> Runs<'_> {
        Runs(
            self.0
                .iter()
                .filter(|(cell, run)| is(cell, run))
                .map(|(_, run)| run)
                .collect(),
        )
    }

    /// States the lateness of the links. If runs were late, adds a table of them beside the runs of
    /// the same cells that were in time, and lets claims fail that have too few runs.
    pub(super) fn state_lateness(&self, section: &mut Section) {
        let Runs(in_time) = self.select(|_, run| !run.is_late);
        let latest = in_time
            .iter()
            .map(|run| run.late_p99_ns)
            .max()
            .unwrap_or_default();
        let repeated = self.select(|_, run| run.late_attempts > 0).0.len();
        let (counted, all) = (in_time.len(), self.0.len());
        section.condition(
            "runs with links in time",
            format!(
                "{counted} of {all}, {} of them a repetition; up to {:.0} µs late at the 99th percentile of a run",
                repeated - (all - counted),
                latest as f64 / 1e3
            ),
        );
        if counted < all {
            section.lacks_runs();
            section.table(
                "Late runs, which count nowhere else, beside runs in time",
                LATE_HEADER,
                self.late(),
            );
        }
    }

    /// Returns the rows of [`LATE_HEADER`].
    fn late(&self) -> Vec<Vec<String>> {
        // The seed alone distinguishes the runs of one row.
        let same = |a: &Cell, b: &Cell| Cell { seed: 0, ..*a } == Cell { seed: 0, ..*b };
        let mut cells: Vec<Cell> = Vec::new();
        for (cell, _) in self.0.iter().filter(|(_, run)| run.is_late) {
            if !cells.iter().any(|known| same(known, cell)) {
                cells.push(*cell);
            }
        }
        let row = |cell: &Cell| {
            let [late, in_time] =
                [true, false].map(|is| self.select(|of, run| same(of, cell) && run.is_late == is));
            let Cell {
                network,
                clients,
                congestion,
                ..
            } = cell;
            let place = [
                clients.to_string(),
                network.delay.to_string(),
                network.loss.to_string(),
                cell.system.name(),
            ];
            let latest = late.median_of(|run| run.late_p99_ns as f64 / 1e3);
            let late = [
                late.0.len().to_string(),
                format!("{latest:.0}"),
                format!("{:.3}", late.median()),
            ];
            let in_time = if in_time.is_empty() {
                ["0".to_owned(), "\u{2013}".to_owned()]
            } else {
                [
                    in_time.0.len().to_string(),
                    format!("{:.3}", in_time.median()),
                ]
            };
            place
                .into_iter()
                .chain([(*congestion).to_owned()])
                .chain(late)
                .chain(in_time)
                .collect()
        };
        cells.iter().map(row).collect()
    }
}

const LATE_HEADER: [&str; 10] = [
    "clients",
    "delay, ms",
    "loss, %",
    "system",
    "TCP",
    "late runs",
    "late: 99th percentile, µs (median)",
    "late: download, s (median)",
    "runs in time",
    "in time: download, s (median)",
];

/// The cells to measure, which run concurrently within the capacity of the machine. They start in
/// order, so a cell with a large share is not overtaken for ever.
struct CellQueue {
    state: Mutex<State>,
    /// Notified when a cell has ended.
    released: Condvar,
}

struct State {
    waiting: VecDeque<Cell>,
    /// The free share, out of [`MOST_AT_ONCE`].
    room: usize,
    /// The numbers of free testbeds.
    numbers: Vec<usize>,
    failure: Option<Error>,
    done: Vec<(Cell, Run)>,
}

impl CellQueue {
    fn new(cells: Vec<Cell>) -> CellQueue {
        let (room, numbers) = (MOST_AT_ONCE, (0..MOST_AT_ONCE).rev().collect());
        let state = State {
            waiting: cells.into(),
            room,
            numbers,
            failure: None,
            done: Vec::new(),
        };
        CellQueue {
            state: Mutex::new(state),
            released: Condvar::new(),
        }
    }

    /// Waits until the next cell has room, and takes it. `None` if no cell is left or one has
    /// failed.
    fn take(&self, share: &impl Fn(&Cell) -> usize) -> Option<Slot<'_>> {
        let mut state = locked(&self.state);
        loop {
            let share = share(state.waiting.front().filter(|_| state.failure.is_none())?);
            if share <= state.room {
                let (cell, number) = (state.waiting.pop_front()?, state.numbers.pop()?);
                state.room -= share;
                return Some(Slot {
                    queue: self,
                    cell,
                    number,
                    share,
                });
            }
            state = self
                .released
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A running cell, the number of its testbed, and its share, which the drop releases.
struct Slot<'a> {
    queue: &'a CellQueue,
    cell: Cell,
    number: usize,
    share: usize,
}

impl Slot<'_> {
    fn finish(self, run: Result<Run, Error>) {
        let mut state = locked(&self.queue.state);
        match run {
            Ok(run) => state.done.push((self.cell, run)),
            Err(error) => drop(state.failure.get_or_insert(error)),
        }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.queue.state);
        state.room += self.share;
        state.numbers.push(self.number);
        self.queue.released.notify_all();
    }
}

/// Returns a line of mean download times, with their intervals. A point without runs is left out.
pub(super) fn line<'a>(
    name: impl Into<String>,
    points: impl Iterator<Item = (f64, Runs<'a>)>,
) -> Series {
    let points = points
        .filter(|(_, runs)| !runs.is_empty())
        .map(|(x, runs)| (x, runs.mean()));
    series(
        name,
        &points
            .map(|(x, (mean, half))| (x, mean, half))
            .collect::<Vec<_>>(),
    )
}

/// Runs that differ only in their seed.
pub(super) struct Runs<'a>(Vec<&'a Run>);

impl Runs<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the mean over the runs of the clients' mean download time, and half the width of its
    /// 90 % interval, s.
    pub(super) fn mean(&self) -> (f64, f64) {
        super::mean_and_interval(&self.0.iter().map(|run| run.mean()).collect::<Vec<_>>())
    }

    /// Returns the median over the runs of the clients' mean download time, s. Claims use it,
    /// because one run with a bad start moves a mean.
    pub(super) fn median(&self) -> f64 {
        super::median(self.0.iter().map(|run| run.mean()).collect())
    }

    /// Returns the download times of all clients in all runs, sorted, s.
    pub(super) fn each(&self) -> Vec<f64> {
        let mut times: Vec<f64> = self.0.iter().flat_map(|run| &run.times).copied().collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// Returns the times of the fastest, the median and the slowest client of all runs, as text for
    /// a table.
    pub(super) fn spread(&self) -> String {
        let times = self.each();
        let at = |place: usize| times.get(place).copied().unwrap_or(f64::NAN);
        [0, times.len() / 2, times.len().saturating_sub(1)]
            .map(|place| super::shown(at(place)))
            .join(" / ")
    }

    /// Returns the median over the runs of a value of each run.
    pub(super) fn median_of(&self, of: impl Fn(&Run) -> f64) -> f64 {
        super::median(self.0.iter().map(|run| of(run)).collect())
    }
}

fn measured(
    cell: &Cell,
    number: usize,
    request: &Request<'_>,
    watch: &dyn Watch,
) -> Result<Run, Error> {
    let forwarder = request
        .forwarder
        .map_or_else(String::new, |command| format!(", forwarder {command}"));
    let applications = match (cell.system, request.applications) {
        (System::Applications { .. }, Some(directory)) => format!(", {}", directory.display()),
        _ => String::new(),
    };
    let key = format!("ndn-vs-http {cell:?}{forwarder}{applications}");
    // A late run is measured again by `--resume`, when the machine may be idle.
    let finished = request.rows.get(&key).filter(|run: &Run| !run.is_late);
    let run = match finished {
        Some(run) => run,
        None => {
            let run = programs::download(cell, &testbed(number), request, watch)?;
            request.rows.add(&key, &run)?;
            run
        }
    };
    watch.advance(1);
    Ok(run)
}

/// A panic in another thread ends the reproduction anyway.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::cell::Faces;
    use super::super::tree::{Network, Shape};
    use super::*;
    use crate::{Rows, Unwatched};
    use std::time::Duration;

    /// Failure: a cell is measured again after `--resume`, or is confused with another that differs
    /// only in the loss.
    #[test]
    fn a_finished_cell_is_measured_again() {
        let network = Network {
            shape: Shape::Links,
            rate: None,
            delay: 200,
            loss: 10.0,
        };
        let system = System::Larder {
            levels: 2,
            faces: Faces::Tcp,
        };
        let cell = Cell {
            system,
            network,
            clients: 3,
            bytes: 1,
            congestion: "cubic",
            seed: 1,
        };
        let rows = Rows::default();
        let kept = Run {
            times: vec![1.0, 2.0, 6.0],
            cpu: 0.5,
            cpu_top: 0.25,
            sent: 9,
            late_p99_ns: 7000,
            late_attempts: 0,
            is_late: false,
        };
        rows.add(&format!("ndn-vs-http {cell:?}"), &kept).unwrap();
        let request = Request::quick(&super::super::PAPER, &rows);
        let mut measured = Measured::default();
        measured
            .add(vec![cell], |_| 4, &request, &Unwatched)
            .unwrap();
        let runs = measured.runs(|cell| cell.clients == 3);
        assert_eq!(
            (runs.mean(), runs.median(), runs.spread().as_str()),
            ((3.0, 0.0), 3.0, "1.00 / 2.00 / 6.00")
        );
        assert!(measured.late().is_empty());
        let lossless = Cell {
            network: Network {
                loss: 0.0,
                ..network
            },
            ..cell
        };
        assert_ne!(format!("{cell:?}"), format!("{lossless:?}"));
    }

    /// Failure: a late run counts in a claim or is not reported, or one run in time of many counts
    /// as their median.
    #[test]
    fn a_late_run_counts() {
        let network = Network {
            shape: Shape::Links,
            rate: None,
            delay: 5,
            loss: 0.0,
        };
        let cell = |clients, seed| Cell {
            system: System::Pair,
            network,
            clients,
            bytes: 1,
            congestion: "cubic",
            seed,
        };
        let run = |time, is_late| Run {
            times: vec![time],
            late_p99_ns: 1_200_000,
            is_late,
            ..Run::default()
        };
        let of_five = [
            (cell(5, 1), run(2.0, false)),
            (cell(5, 2), run(9.0, true)),
            (cell(5, 3), run(4.0, false)),
        ];
        let of_forty = [
            (cell(40, 1), run(8.0, true)),
            (cell(40, 2), run(7.0, false)),
        ];
        let measured = Measured(of_five.into_iter().chain(of_forty).collect());
        let of = |clients| measured.runs(move |cell| cell.clients == clients);
        assert_eq!(of(5).median(), 3.0);
        assert!(
            of(40).is_empty() && of(40).median().is_nan(),
            "half of the runs"
        );
        let rows: Vec<String> = measured.late().iter().map(|row| row.join(" ")).collect();
        let pair = System::Pair.name();
        let expected = [
            "5 5 0 PAIR cubic 1 1200 9.000 2 3.000",
            "40 5 0 PAIR cubic 1 1200 8.000 1 7.000",
        ];
        assert_eq!(rows, expected.map(|row| row.replace("PAIR", &pair)));
        let points = line("pair", [(5.0, of(5)), (40.0, of(40))].into_iter()).points;
        assert_eq!(points, [(5.0, 3.0)], "no point without runs");
    }

    /// Failure: `--resume` keeps a late run.
    #[test]
    fn a_late_run_is_finished() {
        let network = Network {
            shape: Shape::Links,
            rate: None,
            delay: 5,
            loss: 0.0,
        };
        let cell = Cell {
            system: System::Pair,
            network,
            clients: 1,
            bytes: 1,
            congestion: "cubic",
            seed: 1,
        };
        let rows = Rows::default();
        let late = Run {
            times: vec![1.0],
            is_late: true,
            ..Run::default()
        };
        rows.add(&format!("ndn-vs-http {cell:?}"), &late).unwrap();
        let request = Request::quick(&super::super::PAPER, &rows);
        let stopped = Measured::default()
            .add(vec![cell], |_| 4, &request, &Stopped)
            .unwrap_err();
        assert_eq!(
            stopped.to_string(),
            "interrupted",
            "it was to be measured again"
        );
    }

    struct Stopped;

    impl Watch for Stopped {
        fn begin(&self, _: &str, _: u64) {}

        fn advance(&self, _: u64) {}

        fn warn(&self, _: &str) {}

        fn ended(&self, _: &crate::Report) -> Result<(), Error> {
            Ok(())
        }

        fn is_stopped(&self) -> bool {
            true
        }
    }

    /// Failure: a run that needs the whole machine has others beside it, or waits until all others
    /// are done.
    #[test]
    fn a_run_that_needs_room_has_none() {
        let network = Network {
            shape: Shape::Links,
            rate: None,
            delay: 0,
            loss: 0.0,
        };
        let system = System::Lighttpd { tuned: true };
        let cell = |bytes| Cell {
            system,
            network,
            clients: 1,
            bytes,
            congestion: "cubic",
            seed: 1,
        };
        let queue = CellQueue::new(vec![cell(4), cell(MOST_AT_ONCE), cell(1), cell(1)]);
        let share = |cell: &Cell| cell.bytes;
        let first = queue.take(&share).unwrap();
        std::thread::scope(|scope| {
            let alone = scope.spawn(|| queue.take(&share).unwrap());
            std::thread::sleep(Duration::from_millis(20));
            assert!(
                !alone.is_finished(),
                "it does not run concurrently with the first"
            );
            first.finish(Ok(Run::default()));
            let alone = alone.join().unwrap();
            let room = locked(&queue.state).room;
            assert_eq!(
                (alone.cell.bytes, room),
                (MOST_AT_ONCE, 0),
                "and no other cell overtakes it"
            );
            alone.finish(Err(Error("it broke".into())));
        });
        assert!(
            queue.take(&share).is_none(),
            "after a failure no cell starts"
        );
        let state = locked(&queue.state);
        assert_eq!((state.room, state.done.len()), (MOST_AT_ONCE, 1));
    }
}
