//! Chooses one of several servers, and keeps their health, without any I/O.
//!
//! - **Choice**: rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase
//!   hit rates", 1998). Every server has a score for the key; the highest is used. So each server
//!   gets the same keys from every node, and if one disappears, only its keys move, to all others.
//! - **Passive checks**: after [`limits::FAILURES_OUT`] failed requests in a row, a server is out
//!   for a second, then for twice as long each time, up to a minute. After that, one request tries
//!   it; others use other servers until that one is answered.
//! - **Active checks**: probes, if configured. Two failures in a row take a server out, two
//!   successes bring it back.
//! - If all servers are out, they are used all the same: a wrong suspicion must not end the
//!   service.
//!
//! A choice costs one or two multiplications per server. A server takes 64 bytes.

use super::limits;
use larder_units::Time;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::time::Duration;

/// The servers of one origin.
#[derive(Debug)]
pub(super) struct Servers {
    servers: Vec<Server>,
}

#[derive(Debug)]
struct Server {
    /// The hash of its name: the same in every node and after every restart.
    hash: u64,
    /// Failed requests in a row.
    failures: u32,
    /// The time until which it is out.
    out_until: Option<Time>,
    /// The duration of its next exclusion.
    out_for: Duration,
    /// The number of the latest probes with the same result, and that result.
    probes: u32,
    probed_well: bool,
    /// True after probes took it out.
    is_down: bool,
}

/// The servers that a request has been sent to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried(u64);

impl Tried {
    pub(super) fn count(self) -> u32 {
        self.0.count_ones()
    }
}

/// Returns the hash of a key, which is the same on every node.
pub(super) fn key(parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher13::new();
    for part in parts {
        hasher.write(part);
        hasher.write_u8(0xff);
    }
    hasher.finish()
}

impl Servers {
    /// Takes at most [`limits::SERVERS`] of them and ignores the others.
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Servers {
        let server = |name: &str| Server {
            hash: key(&[name.as_bytes()]),
            failures: 0,
            out_until: None,
            out_for: limits::OUT_FIRST,
            probes: 0,
            probed_well: true,
            is_down: false,
        };
        Servers { servers: names.take(limits::SERVERS).map(server).collect() }
    }

    /// Returns the server for the key among those that were not tried; `None` if all were.
    pub(super) fn next(&mut self, key: u64, tried: &mut Tried, now: Time) -> Option<usize> {
        let untried = |at: &usize| tried.0 & 1 << at == 0;
        let score = |at: &usize| mix(self.servers[*at].hash ^ key);
        let best = |usable: bool| {
            let candidates = (0..self.servers.len()).filter(untried);
            candidates.filter(|at| self.servers[*at].is_usable(now) || !usable).max_by_key(score)
        };
        let at = best(true).or_else(|| best(false))?;
        tried.0 |= 1 << at;
        let server = &mut self.servers[at];
        // A trial: no other request uses this server until it is answered, or has had as long
        // again.
        if server.out_until.is_some() {
            server.out_until = Some(now + server.out_for);
        }
        Some(at)
    }

    /// Records that it has answered, with any status.
    pub(super) fn on_answer(&mut self, at: usize) {
        let server = &mut self.servers[at];
        (server.failures, server.out_until, server.out_for) = (0, None, limits::OUT_FIRST);
    }

    /// Records that it has not answered.
    pub(super) fn on_failure(&mut self, at: usize, now: Time) {
        let server = &mut self.servers[at];
        server.failures += 1;
        if server.out_until.is_some() {
            server.out_for = (server.out_for * 2).min(limits::OUT_LONGEST);
        }
        if server.failures >= limits::FAILURES_OUT {
            server.out_until = Some(now + server.out_for);
        }
    }

    /// Records the result of a probe. Returns true if that takes the server out, or brings it back.
    pub(super) fn on_probe(&mut self, at: usize, well: bool) -> bool {
        let server = &mut self.servers[at];
        server.probes = if server.probed_well == well { server.probes + 1 } else { 1 };
        server.probed_well = well;
        if server.probes < limits::PROBES || server.is_down != well {
            return false;
        }
        server.is_down = !well;
        if well {
            self.on_answer(at);
        }
        true
    }

    /// Returns true if the server gets the requests of its keys.
    pub(super) fn is_usable(&self, at: usize, now: Time) -> bool {
        self.servers[at].is_usable(now)
    }
}

impl Server {
    fn is_usable(&self, now: Time) -> bool {
        !self.is_down && self.out_until.is_none_or(|until| until <= now)
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the result depends on
/// every bit of the word.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;

    fn named(names: &[String]) -> Servers {
        Servers::new(names.iter().map(String::as_str))
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("10.0.0.{number}:80")).collect()
    }

    fn first(servers: &mut Servers, key: u64, now: Time) -> usize {
        servers.next(key, &mut Tried::default(), now).unwrap()
    }

    /// Failure: one server fails, and the caches of all others lose their keys; or one of them gets
    /// all of its requests.
    #[test]
    fn only_the_keys_of_the_server_that_goes_move_and_they_spread() {
        let mut servers = named(&names(10));
        let now = Time::from_secs(1);
        let before: Vec<usize> = (0..20_000u64).map(|n| first(&mut servers, key(&[&n.to_be_bytes()]), now)).collect();
        (0..limits::FAILURES_OUT).for_each(|_| servers.on_failure(3, now));
        let mut got = [0; 10];
        for (number, before) in before.iter().enumerate() {
            let after = first(&mut servers, key(&[&(number as u64).to_be_bytes()]), now);
            assert!(*before == 3 && after != 3 || after == *before);
            got[after] += 1;
        }
        let even = 20_000 / 9;
        assert!(
            got[3] == 0 && got.iter().enumerate().all(|(at, n)| at == 3 || (even * 9 / 10..even * 11 / 10).contains(n)),
            "{got:?}"
        );
    }

    /// Failure: a dead server gets every request of its keys after each pause, or none ever again.
    #[test]
    fn one_request_tries_a_server_that_is_out_and_the_pauses_double() {
        let mut servers = named(&names(2));
        let mut now = Time::from_secs(100);
        let its_key = (0..).find(|k| first(&mut servers, *k, now) == 0).unwrap();
        (0..limits::FAILURES_OUT).for_each(|_| servers.on_failure(0, now));
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            now += Duration::from_secs(pause) - Duration::from_millis(1);
            assert_eq!(first(&mut servers, its_key, now), 1, "before {pause} s are over");
            now += Duration::from_millis(1);
            assert_eq!(first(&mut servers, its_key, now), 0, "after {pause} s");
            assert_eq!(first(&mut servers, its_key, now), 1, "a second one meanwhile");
            servers.on_failure(0, now);
        }
        now += limits::OUT_LONGEST;
        assert_eq!(first(&mut servers, its_key, now), 0);
        servers.on_answer(0);
        assert_eq!(first(&mut servers, its_key, now), 0);
        servers.on_failure(0, now);
        assert_eq!(first(&mut servers, its_key, now), 0, "one failure alone means nothing");
    }

    #[test]
    fn probes_take_out_and_bring_back_at_the_second_in_a_row() {
        let mut servers = named(&names(1));
        let now = Time::from_secs(1);
        let said = [true, false, true, false, false, false, true, false, true, true, true];
        let changes: Vec<bool> = said.into_iter().map(|well| servers.on_probe(0, well)).collect();
        let places: Vec<usize> = (0..changes.len()).filter(|at| changes[*at]).collect();
        assert_eq!(places, [4, 9]);
        assert!(servers.is_usable(0, now));
    }

    /// Failure: a request finds no server although there is one, or uses the same twice. By seed.
    #[test]
    fn whatever_happens_every_server_is_offered_once() {
        for seed in 0..50 {
            let mut stream = Streams::new(seed).stream("servers");
            let mut draw = |below: u64| stream.bits() % below;
            let count = 1 + draw(limits::SERVERS as u64) as usize;
            let mut servers = named(&names(count));
            let mut now = Time::from_secs(1);
            for _ in 0..500 {
                now += Duration::from_millis(draw(700));
                match draw(4) {
                    0 => servers.on_failure(draw(count as u64) as usize, now),
                    1 => servers.on_answer(draw(count as u64) as usize),
                    2 => drop(servers.on_probe(draw(count as u64) as usize, draw(2) == 0)),
                    _ => {
                        let (key, mut tried) = (draw(u64::MAX), Tried::default());
                        let usable = (0..count).filter(|at| servers.is_usable(*at, now)).count();
                        let mut seen = Vec::new();
                        while let Some(at) = servers.next(key, &mut tried, now) {
                            assert!(!seen.contains(&at), "seed {seed}");
                            assert!(seen.len() >= usable || servers.servers[at].out_until.is_none_or(|t| t > now));
                            seen.push(at);
                        }
                        assert_eq!((seen.len(), tried.count() as usize), (count, count), "seed {seed}");
                    }
                }
            }
        }
        assert_eq!(named(&[]).next(1, &mut Tried::default(), Time::from_secs(1)), None);
    }
}
