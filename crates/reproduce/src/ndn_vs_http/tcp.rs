//! The simulator's TCP compared with the kernel's, download by download over the same links. HTTP
//! in virtual time depends on it.

use super::cells::{MachineLock, testbed};
use super::median;
use crate::statistics::greatest;
use crate::{Error, Experiment, Request, Section, Watch, on_all_cores};
use larder_figure::Series;
use larder_netsim::tcp::{ClientConfig, Congestion, OriginConfig, TcpConfig};
use larder_netsim::{LinkConfig, Loss, NodeConfig, Simulation};
use larder_testbed::{Spec, Testbed, link};
use larder_units::{ByteSize, Time};
use serde::Deserialize;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(super) const FILE: (&str, &str) = experiment_file!("ndn-vs-http/tcp.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    /// The number of the kernel's runs per cell.
    pub(super) runs: usize,
    /// The same for cells that take less than [`SHORT`].
    short_runs: usize,
    model_runs: u64,
    sizes: Vec<u64>,
    round_trips_ms: Vec<u64>,
    losses: Vec<f64>,
}

/// The rate of every link.
const RATE: &str = "100Mbps";

/// The median of the model, s, below which a cell with losses is short. A lost SYN or a timeout
/// takes as long as the rest of a short run, so the runs form groups, and the median of few runs is
/// in one group or another.
const SHORT: f64 = 0.5;

/// The model's bytes of a request and of a response's head.
const REQUEST_BYTES: usize = 150;
const HEAD_BYTES: usize = 250;

/// The rate of the downloads that share the testbed at one time, Mb/s. With a higher rate the links
/// may be late.
const SHARED_MBPS: f64 = 100.0;

/// The longest download. A longer one has failed.
const LONGEST: Duration = Duration::from_secs(900);

/// The number of runs with late links after which the experiment ends.
const ATTEMPTS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    congestion: Congestion,
    bytes: u64,
    round_trip_ms: u64,
    loss: f64,
}

impl Cell {
    fn link(&self) -> LinkConfig {
        let loss = if self.loss > 0.0 {
            Loss::Uniform(self.loss / 100.0)
        } else {
            Loss::None
        };
        let rate = RATE.parse().expect("a rate");
        link(Some(rate), self.round_trip() / 2, loss, None)
    }

    fn round_trip(&self) -> Duration {
        Duration::from_millis(self.round_trip_ms)
    }

    /// Returns true for long runs of CUBIC with losses. The runs of 1 MB show the same.
    fn is_left_out(&self) -> bool {
        let is_long = self.bytes > 1_000_000 && self.round_trip_ms > 100 && self.loss > 1.0;
        is_long && self.congestion == Congestion::Cubic
    }

    fn name(&self) -> &'static str {
        match self.congestion {
            Congestion::Cubic => "CUBIC",
            Congestion::Bbr => "BBR",
        }
    }
}

/// A download of a cell.
#[derive(Clone, Copy)]
struct Job {
    cell: usize,
}

pub(super) fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Section, Error> {
    let _lock = MachineLock::acquire_bare()?;
    let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1)?;
    let sweep = experiment.sweep(request.scale);
    let cells = cells(sweep);
    watch.begin("TCP, the simulator's", cells.len() as u64);
    let simulated = on_all_cores(cells.clone(), |cell| {
        if watch.is_stopped() {
            return Err(Error::interrupted());
        }
        let times: Result<Vec<f64>, Error> = (0..sweep.model_runs)
            .map(|run| simulate(&cell, request.seed + run))
            .collect();
        watch.advance(1);
        times
    });
    let simulated: Vec<Vec<f64>> = simulated.into_iter().collect::<Result<_, _>>()?;
    let mut measured = vec![Vec::new(); cells.len()];
    let mut latest = 0;
    let batches = batches(&cells, &simulated, sweep);
    watch.begin(
        "TCP, the kernel's",
        batches.iter().map(Vec::len).sum::<usize>() as u64,
    );
    for (number, batch) in batches.into_iter().enumerate() {
        // With a common seed, the first packets of all cells would be lost together or not at all.
        let seed = request.seed + number as u64;
        let downloads: Vec<Cell> = batch.iter().map(|job| cells[job.cell]).collect();
        let key = format!("ndn-vs-http, tcp: {downloads:?}, seed {seed}");
        let (times, late) = request
            .rows
            .get_or(&key, || measure(&cells, &batch, seed, watch))?;
        latest = latest.max(late);
        for (job, time) in batch.iter().zip(times) {
            measured[job.cell].push(time);
        }
        watch.advance(batch.len() as u64);
    }
    let mut section = Section::new(&experiment, request.scale);
    section.condition(
        "links",
        format!(
            "{RATE}, half of the round trip each way, queues of 1000 packets, losses both ways"
        ),
    );
    let Sweep {
        runs,
        short_runs,
        model_runs,
        ..
    } = sweep;
    let short =
        format!("{short_runs} of cells with losses that take the simulator less than {SHORT} s");
    section.condition(
        "runs",
        format!("{runs} of the kernel, {short}; {model_runs} of the simulator"),
    );
    section.condition(
        "latest link",
        format!(
            "{:.0} µs late at the 99th percentile of a run",
            latest as f64 / 1e3
        ),
    );
    judge(section, &cells, &simulated, &measured)
}

fn cells(sweep: &Sweep) -> Vec<Cell> {
    let mut cells = Vec::new();
    for congestion in [Congestion::Cubic, Congestion::Bbr] {
        for &bytes in &sweep.sizes {
            for &round_trip_ms in &sweep.round_trips_ms {
                cells.extend(sweep.losses.iter().map(|&loss| Cell {
                    congestion,
                    bytes,
                    round_trip_ms,
                    loss,
                }));
            }
        }
    }
    cells.retain(|cell| !cell.is_left_out());
    cells
}

/// Returns the downloads in batches that run at one time, each with one congestion control. Slow
/// downloads are together.
fn batches(cells: &[Cell], simulated: &[Vec<f64>], sweep: &Sweep) -> Vec<Vec<Job>> {
    let is_short = |cell: usize| cells[cell].loss > 0.0 && median(simulated[cell].clone()) < SHORT;
    let runs = |cell| {
        if is_short(cell) {
            sweep.short_runs
        } else {
            sweep.runs
        }
    };
    let rate =
        |job: &Job| cells[job.cell].bytes as f64 * 8e-6 / median(simulated[job.cell].clone());
    let mut jobs: Vec<Job> = (0..cells.len())
        .flat_map(|cell| std::iter::repeat_n(Job { cell }, runs(cell)))
        .collect();
    jobs.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let mut batches: Vec<(Congestion, f64, Vec<Job>)> = Vec::new();
    for job in jobs {
        let (congestion, more) = (cells[job.cell].congestion, rate(&job));
        let fits = |(of, used, _): &&mut (Congestion, f64, Vec<Job>)| {
            *of == congestion && used + more <= SHARED_MBPS
        };
        match batches.iter_mut().find(fits) {
            Some((_, used, batch)) => {
                *used += more;
                batch.push(job);
            }
            None => batches.push((congestion, more, vec![job])),
        }
    }
    batches.into_iter().map(|(_, _, batch)| batch).collect()
}

// ---- The simulator's ----

fn simulate(cell: &Cell, seed: u64) -> Result<f64, Error> {
    let refused =
        |error: larder_netsim::ConfigError| Error(format!("the network of a download: {error}"));
    let mut network = Simulation::new(seed);
    let client = network
        .add_node("client", NodeConfig::default())
        .map_err(refused)?;
    let server = network
        .add_node("server", NodeConfig::default())
        .map_err(refused)?;
    network
        .connect(client, server, &cell.link())
        .map_err(refused)?;
    let tcp = TcpConfig {
        congestion: cell.congestion,
        ..TcpConfig::default()
    };
    let body = ByteSize::from_bytes(cell.bytes);
    let origin = network
        .add_http_origin(server, OriginConfig::new(body), tcp)
        .map_err(refused)?;
    let client = network
        .add_http_client(client, ClientConfig::one_file(origin), tcp)
        .map_err(refused)?;
    network
        .run_until(Time::ZERO + 2 * LONGEST)
        .map_err(|stuck| Error(stuck.to_string()))?;
    let seen = network.http(client);
    match seen.responses {
        1 => Ok(seen.seconds),
        _ => Err(Error(format!(
            "{cell:?}: the simulated download took longer than {:?}",
            2 * LONGEST
        ))),
    }
}

// ---- The kernel's ----

/// Returns the times of downloads that run at once, and the lateness of the links, ns.
fn measure(
    cells: &[Cell],
    batch: &[Job],
    seed: u64,
    watch: &dyn Watch,
) -> Result<(Vec<f64>, u64), Error> {
    for _ in 0..ATTEMPTS {
        let mut spec = Spec {
            seed,
            ..Spec::new(&testbed(0))
        };
        if cells[batch[0].cell].congestion == Congestion::Bbr {
            spec.congestion = "bbr".into();
        }
        for (at, job) in batch.iter().enumerate() {
            let link = cells[job.cell].link();
            spec.link([&format!("client{at}"), &format!("server{at}")], link);
            // A testbed must be one connected network. No packet uses this link.
            spec.link(
                [&format!("server{at}"), "hub"],
                larder_testbed::link(None, Duration::ZERO, Loss::None, None),
            );
        }
        spec.router("hub");
        let bed = Testbed::up(spec)?;
        let times = download_all(&bed, cells, batch, watch)?;
        let lateness = bed.down()?;
        let round_trip = batch
            .iter()
            .map(|job| cells[job.cell].round_trip())
            .min()
            .unwrap_or_default();
        if lateness.is_sound_for(round_trip) {
            return Ok((times, lateness.p99_ns));
        }
        watch.warn(&format!(
            "TCP: repeated, because the links were late: {lateness}"
        ));
    }
    Err(Error(format!(
        "the links were late in {ATTEMPTS} consecutive runs; end other work on this machine"
    )))
}

fn download_all(
    bed: &Testbed,
    cells: &[Cell],
    batch: &[Job],
    watch: &dyn Watch,
) -> Result<Vec<f64>, Error> {
    let mut servers = Vec::new();
    for (at, job) in batch.iter().enumerate() {
        let (host, bytes) = (
            bed.spec().host(&format!("server{at}"))?,
            cells[job.cell].bytes,
        );
        let listener = ended(bed.on_host(host, || TcpListener::bind("0.0.0.0:80"))?)?;
        servers.push(bed.on_host(host, move || serve(&listener, bytes))?);
    }
    let mut clients = Vec::new();
    for (at, job) in batch.iter().enumerate() {
        let (host, bytes) = (
            bed.spec().host(&format!("client{at}"))?,
            cells[job.cell].bytes,
        );
        let address = bed.spec().address(bed.spec().host(&format!("server{at}"))?);
        clients.push(bed.on_host(host, move || fetch(address, bytes))?);
    }
    while !clients.iter().all(JoinHandle::is_finished) {
        // The threads keep running until this process ends, which is soon.
        if watch.is_stopped() {
            return Err(Error::interrupted());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let times = clients
        .into_iter()
        .map(ended)
        .collect::<Result<Vec<f64>, Error>>()?;
    servers.into_iter().try_for_each(ended)?;
    Ok(times)
}

/// Returns the result of a host's thread.
fn ended<T>(thread: JoinHandle<Option<std::io::Result<T>>>) -> Result<T, Error> {
    let done = thread
        .join()
        .ok()
        .flatten()
        .ok_or_else(|| Error("a host's thread died".into()))?;
    done.map_err(|error| Error(format!("a download: {error}")))
}

fn serve(listener: &TcpListener, bytes: u64) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    stream.read_exact(&mut [0; REQUEST_BYTES])?;
    let chunk = [0; 1 << 16];
    let mut left = HEAD_BYTES as u64 + bytes;
    while left > 0 {
        let piece = left.min(chunk.len() as u64);
        stream.write_all(&chunk[..piece as usize])?;
        left -= piece;
    }
    stream.shutdown(Shutdown::Write)?;
    // Waits until the client has closed too.
    let _ = stream.read(&mut [0; 1])?;
    Ok(())
}

fn fetch(address: Ipv4Addr, bytes: u64) -> std::io::Result<f64> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&(address, 80).into(), LONGEST)?;
    stream.set_read_timeout(Some(LONGEST))?;
    stream.set_nodelay(true)?;
    stream.write_all(&[0; REQUEST_BYTES])?;
    let mut chunk = [0; 1 << 16];
    let mut left = HEAD_BYTES as u64 + bytes;
    while left > 0 {
        let came = stream.read(&mut chunk)? as u64;
        if came == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        left = left.saturating_sub(came);
    }
    Ok(begun.elapsed().as_secs_f64())
}

// ---- Both ----

/// Returns the geometric mean: the median of a multimodal distribution is unstable.
fn typical(times: &[f64]) -> f64 {
    (times.iter().map(|time| time.ln()).sum::<f64>() / times.len() as f64).exp()
}

/// Returns the median with the quartiles, the least and the most.
fn spread(times: &[f64]) -> String {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let at = |quarter: usize| {
        times
            .get(quarter * (times.len() - 1) / 4)
            .copied()
            .unwrap_or(f64::NAN)
    };
    let [least, low, high, most] = [0, 1, 3, 4].map(at);
    format!(
        "{:.2} ({low:.2}–{high:.2}; {least:.2}–{most:.2})",
        median(times.clone())
    )
}

fn judge(
    mut section: Section,
    cells: &[Cell],
    simulated: &[Vec<f64>],
    measured: &[Vec<f64>],
) -> Result<Section, Error> {
    let ratio = |at: usize| median(simulated[at].clone()) / median(measured[at].clone());
    let apart = |at: usize| typical(&simulated[at]) / typical(&measured[at]);
    let row = |(at, cell): (usize, &Cell)| {
        let Cell {
            bytes,
            round_trip_ms,
            loss,
            ..
        } = cell;
        let (kernel, model) = (spread(&measured[at]), spread(&simulated[at]));
        let ratios = [ratio(at), apart(at)].map(|ratio| format!("{ratio:.2}"));
        let first = [
            cell.name().to_owned(),
            format!("{}", *bytes as f64 / 1e6),
            round_trip_ms.to_string(),
        ];
        first
            .into_iter()
            .chain([loss.to_string(), kernel, model])
            .chain(ratios)
            .collect()
    };
    let rows = cells.iter().enumerate().map(row).collect();
    let header = [
        "TCP",
        "MB",
        "round trip, ms",
        "loss, %",
        "kernel, s",
        "simulator, s",
        "ratio",
        "of geometric means",
    ];
    section.table(
        "Download times: median (quartiles; least–most)",
        header,
        rows,
    );
    let of = |keep: &dyn Fn(&Cell) -> bool| -> Vec<usize> {
        cells
            .iter()
            .enumerate()
            .filter(|(_, cell)| keep(cell))
            .map(|(at, _)| at)
            .collect()
    };
    let points = |name: &str, congestion| {
        let points = of(&|cell| cell.congestion == congestion).into_iter();
        Series::points(
            name,
            points
                .map(|at| (median(measured[at].clone()), median(simulated[at].clone())))
                .collect(),
        )
    };
    section.figure(
        "tcp",
        vec![
            points("CUBIC", Congestion::Cubic),
            points("BBR", Congestion::Bbr),
        ],
    );
    let furthest = |of: Vec<usize>, ratio: &dyn Fn(usize) -> f64| {
        greatest(
            of.into_iter()
                .map(|at| greatest([ratio(at), 1.0 / ratio(at)])),
        )
    };
    let mean =
        |of: Vec<usize>| (of.iter().map(|at| ratio(*at).ln()).sum::<f64>() / of.len() as f64).exp();
    section.measured("tcp-clean", furthest(of(&|cell| cell.loss == 0.0), &ratio));
    section.measured(
        "tcp-cubic",
        mean(of(&|cell| {
            cell.loss > 0.0 && cell.congestion == Congestion::Cubic
        })),
    );
    section.measured(
        "tcp-bbr",
        mean(of(&|cell| {
            cell.loss > 0.0 && cell.congestion == Congestion::Bbr
        })),
    );
    section.measured("tcp-worst", furthest(of(&|cell| cell.loss > 0.0), &apart));
    section.judged()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;

    #[test]
    fn a_download_runs_twice_or_beside_too_many() {
        let experiment = Experiment::<Sweep>::parse(FILE.0, FILE.1).unwrap();
        let sweep = experiment.sweep(Scale::Full);
        let cells = cells(sweep);
        assert_eq!((cells.len(), experiment.claims.len()), (44, 4));
        let simulated: Vec<Vec<f64>> = cells.iter().map(|cell| vec![0.1 + cell.loss]).collect();
        let batches = batches(&cells, &simulated, sweep);
        // 0.1 s without losses, more than a second with them.
        assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), 44 * sweep.runs);
        let all_short = super::batches(&cells, &vec![vec![0.4]; cells.len()], sweep);
        assert_eq!(
            all_short.iter().map(Vec::len).sum::<usize>(),
            12 * sweep.runs + 32 * sweep.short_runs
        );
        for batch in &batches {
            let rate: f64 = batch
                .iter()
                .map(|job| cells[job.cell].bytes as f64 * 8e-6 / simulated[job.cell][0])
                .sum();
            assert!(batch.len() == 1 || rate <= SHARED_MBPS);
            assert!(
                batch
                    .iter()
                    .all(|job| cells[job.cell].congestion == cells[batch[0].cell].congestion)
            );
        }
    }

    #[test]
    fn a_simulated_download_ends_before_its_bytes_could_come() {
        let cell = Cell {
            congestion: Congestion::Cubic,
            bytes: 1_000_000,
            round_trip_ms: 10,
            loss: 0.0,
        };
        let time = simulate(&cell, 1).unwrap();
        assert!((0.08 + 0.02..0.16).contains(&time), "{time} s");
    }
}
