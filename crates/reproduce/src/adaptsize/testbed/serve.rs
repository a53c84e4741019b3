//! Traffic through a cache: `larder load` is the client, and `larder origin` the origin. The
//! traffic is sent part by part.

use super::servers::{REQUESTS, Server, System};
use crate::adaptsize::replays::Traffic;
use crate::cell::Cell;
use crate::programs::{cpu_seconds, this_binary};
use crate::site::Site;
use crate::{Error, Watch};
use larder_replay::{Access, TraceWriter, WriteFormat};
use larder_units::allocated;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::io::{BufWriter, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};

/// A cache and its traffic.
pub(super) struct Run<'a> {
    pub(super) system: System,
    pub(super) traffic: &'a Traffic,
    /// The capacity, bytes.
    pub(super) capacity: u64,
    /// The number of the client's connections.
    pub(super) connections: usize,
    /// The number of parts of the traffic, of equal length.
    pub(super) parts: usize,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Served {
    /// The requests and hits of each part.
    pub(super) parts: Vec<(u64, u64)>,
    /// Wall time, s.
    pub(super) seconds: f64,
    /// Processor time of the cache, the origin and the client, s.
    pub(super) cpu: [f64; 3],
    /// The mean used share of the capacity, if it can be measured.
    pub(super) held: Option<f64>,
    /// The storable responses that Larder did not store, by reason.
    pub(super) not_stored: BTreeMap<String, u64>,
    /// What came to the disk tier after the first part, if Larder has one.
    pub(super) disk: Option<DiskLoad>,
}

/// What a node's cache in memory leaves to its disk tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DiskLoad {
    /// The requests that the cache in memory did not answer, and the bytes of their bodies.
    pub(super) requests: u64,
    pub(super) bytes: u64,
    /// Of these, what the tier answered.
    pub(super) tier_hits: u64,
    pub(super) tier_hit_bytes: u64,
    /// The bytes written to the tier.
    pub(super) written_bytes: u64,
}

/// A node's counters for [`DiskLoad`].
#[derive(Clone, Copy, Debug)]
struct DiskCounters {
    hits: u64,
    hit_bytes: u64,
    tier_hits: u64,
    tier_hit_bytes: u64,
    written_bytes: u64,
}

impl DiskCounters {
    /// Reads them from the admin server at this port.
    fn read(port: u16) -> Result<DiskCounters, Error> {
        let page = status(port)?;
        let figure = |path: &str| {
            let value = page.pointer(path).and_then(Value::as_u64);
            value.ok_or_else(|| Error(format!("larder's /status has no http{path}")))
        };
        Ok(DiskCounters {
            hits: figure("/hits")?,
            hit_bytes: figure("/hit_bytes")?,
            tier_hits: figure("/recalled")?,
            tier_hit_bytes: figure("/disk_hit_bytes")?,
            written_bytes: figure("/disk/written_bytes")?,
        })
    }

    /// Returns the load of the tier since `before`, in which clients received these bodies.
    ///
    /// # Errors
    /// [`Error`] if the counters contradict each other, or the client.
    fn load_since(&self, before: &DiskCounters, received: (u64, u64)) -> Result<DiskLoad, Error> {
        let load = || {
            let since = |of: fn(&DiskCounters) -> u64| of(self).checked_sub(of(before));
            let [tier_hits, tier_hit_bytes] = [
                since(|all| all.tier_hits)?,
                since(|all| all.tier_hit_bytes)?,
            ];
            let in_memory = since(|all| all.hits)?.checked_sub(tier_hits)?;
            let in_memory_bytes = since(|all| all.hit_bytes)?.checked_sub(tier_hit_bytes)?;
            Some(DiskLoad {
                requests: received.0.checked_sub(in_memory)?,
                bytes: received.1.checked_sub(in_memory_bytes)?,
                tier_hits,
                tier_hit_bytes,
                written_bytes: since(|all| all.written_bytes)?,
            })
        };
        let why = || {
            format!("larder counted {self:?} after {before:?}, while clients received {received:?}")
        };
        load().ok_or_else(|| Error(why()))
    }
}

impl Served {
    /// Returns the hit ratio of the requests from part `from` on.
    pub(super) fn hit_ratio(&self, from: usize) -> f64 {
        let sum =
            |of: fn(&(u64, u64)) -> u64| self.parts[from..].iter().map(of).sum::<u64>() as f64;
        sum(|part| part.1) / sum(|part| part.0)
    }

    pub(super) fn requests(&self) -> u64 {
        self.parts.iter().map(|(requests, _)| requests).sum()
    }

    /// Returns the processor time per request of the cache, the origin and the client, µs.
    pub(super) fn microseconds(&self) -> [f64; 3] {
        self.cpu
            .map(|seconds| seconds * 1e6 / self.requests() as f64)
    }
}

impl Cell for Run<'_> {
    type Row = Served;

    /// The key does not contain the machine.
    fn key(&self, _: u64) -> String {
        let Run {
            system,
            traffic,
            capacity,
            connections,
            parts,
        } = self;
        format!(
            "adaptsize, testbed: {traffic}, {}, {capacity} bytes, {connections} connections, {parts} parts",
            system.name()
        )
    }

    fn units(&self) -> u64 {
        self.traffic.accesses.len() as u64
    }

    fn measure(&self, _: u64, watch: &dyn Watch) -> Result<Served, Error> {
        self.serve(watch)
            .map_err(|error| Error(format!("{}: {error}", self.system.name())))
    }
}

impl Run<'_> {
    fn serve(&self, watch: &dyn Watch) -> Result<Served, Error> {
        let mut site = Site::in_memory()?;
        let origin = Server::origin(&mut site)?;
        let cache = Server::start(&mut site, &self.system, self.capacity, origin.port)?;
        let of_client = |loads: &[Load]| loads.iter().map(|load| load.cpu_seconds).sum();
        let before = [&cache, &origin].map(|server| cpu_seconds(server.pid));
        let mut loads = Vec::new();
        let length = self.traffic.accesses.len().div_ceil(self.parts).max(1);
        let tier = cache
            .admin
            .filter(|_| matches!(self.system, System::LarderDisk(..)));
        let tier = || tier.map(DiskCounters::read).transpose();
        let mut warm = None;
        for accesses in self.traffic.accesses.chunks(length) {
            loads.push(replay(&site, cache.port, accesses, self.connections)?);
            watch.advance(accesses.len() as u64);
            warm = if loads.len() == 1 { tier()? } else { warm };
        }
        let received = loads.iter().skip(1).fold((0, 0), |sum, load| {
            (sum.0 + load.requests, sum.1 + load.bytes)
        });
        let disk = warm
            .zip(tier()?)
            .map(|(warm, end)| end.load_since(&warm, received))
            .transpose()?;
        let [of_cache, of_origin] = [&cache, &origin].map(|server| cpu_seconds(server.pid));
        let not_stored = match cache.admin {
            Some(port) => {
                serde_json::from_value(status(port)?["not_stored"].take()).unwrap_or_default()
            }
            None => BTreeMap::new(),
        };
        Ok(Served {
            parts: loads
                .iter()
                .map(|load| (load.requests, load.hits))
                .collect(),
            seconds: loads.iter().map(|load| load.seconds).sum(),
            cpu: [
                of_cache - before[0],
                of_origin - before[1],
                of_client(&loads),
            ],
            held: cache.held(),
            not_stored,
            disk,
        })
    }
}

/// Returns the bytes that Larder's cache counts for an object in addition to those that an
/// allocator takes for its body. It measures them on the first objects of the traffic, in a node
/// that has room for them.
pub(super) fn overhead(traffic: &Traffic) -> Result<u64, Error> {
    const OBJECTS: usize = 200;
    let mut seen = HashSet::new();
    let objects: Vec<Access> = traffic
        .accesses
        .iter()
        .filter(|access| seen.insert(access.id))
        .take(OBJECTS)
        .copied()
        .collect();
    let bodies: u64 = objects
        .iter()
        .map(|access| allocated(access.size as usize) as u64)
        .sum();
    let mut site = Site::in_memory()?;
    let origin = Server::origin(&mut site)?;
    let room = 16 * bodies + (64 << 20);
    let cache = Server::start(
        &mut site,
        &System::Larder("lru".to_owned()),
        room,
        origin.port,
    )?;
    let load = replay(&site, cache.port, &objects, 1)?;
    let status = status(cache.admin.unwrap_or_default())?;
    let figure = |name: &str| {
        status[name]
            .as_u64()
            .ok_or_else(|| Error(format!("larder's /status has no http.{name}")))
    };
    let (used, stored) = (figure("used_bytes")?, figure("objects")?);
    if stored != load.requests || used < bodies {
        return Err(Error(format!(
            "of {} objects larder stored {stored}, in {used} bytes",
            load.requests
        )));
    }
    Ok((used - bodies) / stored.max(1))
}

/// The report of `larder load --json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Load {
    pub(super) requests: u64,
    pub(super) hits: u64,
    errors: u64,
    failures: BTreeMap<String, u64>,
    statuses: BTreeMap<String, u64>,
    without_cache_status: u64,
    bytes: u64,
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
}

impl Load {
    /// Returns the fault of a load that should have received `requests` complete bodies of `bytes`
    /// in total, if there is one.
    fn fault(&self, requests: u64, bytes: u64) -> Option<String> {
        if let Some((why, times)) = self.failures.iter().next() {
            return Some(format!(
                "{} requests failed, {times} of them: {why}",
                self.errors
            ));
        }
        if let Some((status, times)) = self.statuses.iter().find(|(status, _)| *status != "200") {
            return Some(format!("{times} responses have the status {status}"));
        }
        if self.without_cache_status > 0 {
            return Some(format!(
                "{} responses have no Cache-Status",
                self.without_cache_status
            ));
        }
        let whole = (self.requests, self.bytes) == (requests, bytes);
        (!whole).then(|| {
            format!(
                "{} requests brought {} bytes, not {requests} and {bytes}",
                self.requests, self.bytes
            )
        })
    }
}

/// Sends these requests over this number of connections.
pub(super) fn replay(
    site: &Site,
    port: u16,
    accesses: &[Access],
    connections: usize,
) -> Result<Load, Error> {
    let path = site.path(REQUESTS);
    let write = || -> Result<(), larder_replay::WriteError> {
        let mut writer = TraceWriter::new(
            BufWriter::new(std::fs::File::create(&path)?),
            WriteFormat::Csv,
        )?;
        accesses
            .iter()
            .try_for_each(|access| writer.write(access))?;
        Ok(writer.into_inner().flush()?)
    };
    write().map_err(|error| Error(format!("{path}: {error}")))?;
    let bytes = accesses.iter().map(|access| access.size).sum();
    drive(
        &format!("http://127.0.0.1:{port}"),
        connections,
        &["--trace", &path],
        accesses.len() as u64,
        bytes,
    )
}

/// Requests the same object, `/BYTES/same`, repeatedly.
pub(super) fn repeat(
    port: u16,
    bytes: u64,
    requests: u64,
    connections: usize,
) -> Result<Load, Error> {
    let url = format!("http://127.0.0.1:{port}/{bytes}/same");
    drive(
        &url,
        connections,
        &["--requests", &requests.to_string()],
        requests,
        requests * bytes,
    )
}

fn drive(
    url: &str,
    connections: usize,
    words: &[&str],
    requests: u64,
    bytes: u64,
) -> Result<Load, Error> {
    let failed = |what: String| Error(format!("larder load: {what}"));
    let mut command = Command::new(this_binary()?);
    command
        .args([
            "load",
            url,
            "--json",
            "--connections",
            &connections.to_string(),
        ])
        .args(words);
    let done = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !done.status.success() {
        return Err(failed(
            String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        ));
    }
    let load: Load =
        serde_json::from_slice(&done.stdout).map_err(|error| failed(error.to_string()))?;
    match load.fault(requests, bytes) {
        Some(fault) => Err(failed(fault)),
        None => Ok(load),
    }
}

/// The most that is read of the page `/status`: a node without faces has some kilobytes.
const STATUS_BYTES: u64 = 1 << 20;

/// Returns the object `http` of the page `/status` of a node's admin server.
fn status(port: u16) -> Result<Value, Error> {
    let failed = |what: String| Error(format!("larder's /status: {what}"));
    let request = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        write!(
            stream,
            "GET /status HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n"
        )?;
        let mut response = Vec::new();
        stream
            .take(STATUS_BYTES)
            .read_to_end(&mut response)
            .map(|_| response)
    };
    let response = request().map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&response);
    let body = text
        .split_once("\r\n\r\n")
        .ok_or_else(|| failed("the response has no body".to_owned()))?
        .1;
    let mut page: Value = serde_json::from_str(body).map_err(|error| failed(error.to_string()))?;
    Ok(page["http"].take())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Failure: a cache that quickly returns errors, or truncates bodies, counts as a good one.
    #[test]
    fn a_load_that_went_wrong_counts() {
        let good = json!({
            "requests": 10, "hits": 4, "errors": 0, "failures": {}, "statuses": {"200": 10}, "without_cache_status": 0, "bytes": 1000,
            "seconds": 1.0, "cpu_seconds": 0.1, "latency_ms": {"p50": 1.0},
        });
        let load = |change: Value| {
            let mut report = good.clone();
            report
                .as_object_mut()
                .unwrap()
                .extend(change.as_object().unwrap().clone());
            serde_json::from_value::<Load>(report)
                .unwrap()
                .fault(10, 1000)
        };
        assert_eq!(load(json!({})), None);
        for (change, words) in [
            (
                json!({"errors": 2, "failures": {"reset": 2}}),
                "2 of them: reset",
            ),
            (
                json!({"statuses": {"200": 9, "503": 1}}),
                "1 responses have the status 503",
            ),
            (json!({"without_cache_status": 10}), "no Cache-Status"),
            (json!({"bytes": 999}), "999 bytes, not 10 and 1000"),
            (json!({"requests": 9}), "9 requests"),
        ] {
            let fault = load(change).unwrap();
            assert!(fault.contains(words), "{fault}");
        }
    }

    /// Failure: what the disk answered counts as a hit in memory.
    #[test]
    fn a_recalled_body_is_no_request_of_the_disk() {
        let at = |hits, hit_bytes, tier_hits, tier_hit_bytes, written_bytes| DiskCounters {
            hits,
            hit_bytes,
            tier_hits,
            tier_hit_bytes,
            written_bytes,
        };
        let (before, end) = (at(20, 1000, 10, 900, 50), at(70, 5000, 30, 2900, 90));
        let load = end.load_since(&before, (100, 9000)).unwrap();
        let expected = DiskLoad {
            requests: 100 - (50 - 20),
            bytes: 9000 - (4000 - 2000),
            tier_hits: 20,
            tier_hit_bytes: 2000,
            written_bytes: 40,
        };
        assert_eq!(load, expected);
        assert!(
            end.load_since(&before, (29, 9000)).is_err(),
            "more hits than requests"
        );
        assert!(
            before.load_since(&end, (100, 9000)).is_err(),
            "counters that fall"
        );
    }

    #[test]
    fn the_warm_up_is_counted() {
        let served = Served {
            parts: vec![(10, 0), (10, 5), (20, 16)],
            seconds: 1.0,
            cpu: [40e-6, 0.0, 80e-6],
            held: None,
            not_stored: BTreeMap::new(),
            disk: None,
        };
        assert_eq!(
            (served.hit_ratio(0), served.hit_ratio(1)),
            (21.0 / 40.0, 0.7)
        );
        assert_eq!(served.requests(), 40);
        assert!((served.microseconds()[2] - 2.0).abs() < 1e-9);
    }
}
