//! The guard of a run: stops it where time does not pass or memory only grows.

use super::app_table::AppTable;
use super::network::Network;
use crate::error::RunError;
use crate::limits;
use crate::link::Channel;
use crate::tcp::TcpHosts;
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use larder_units::Time;

/// Counters of events, and the limits that end a run.
pub(super) struct RunGuard {
    events_at_instant: u64,
    pub(super) events_done: u64,
    /// The number of events at which the memory is next checked.
    next_memory_check: u64,
    /// [`limits::EVENTS_AN_INSTANT`], [`limits::EVENTS_PLANNED`] and [`limits::BYTES_HELD`], except
    /// in tests.
    pub(super) max_events_at_instant: u64,
    pub(super) max_events_planned: usize,
    pub(super) max_bytes: u64,
}

impl RunGuard {
    pub(super) fn new() -> Self {
        RunGuard {
            events_at_instant: 0,
            events_done: 0,
            next_memory_check: 0,
            max_events_at_instant: limits::EVENTS_AN_INSTANT,
            max_events_planned: limits::EVENTS_PLANNED,
            max_bytes: limits::BYTES_HELD,
        }
    }

    /// Counts the next event, advances the time to it, and checks the limits.
    pub(super) fn advance(
        &mut self,
        network: &mut Network,
        apps: &AppTable,
        tcp_hosts: &TcpHosts,
        at: Time,
    ) -> Result<(), RunError> {
        if at > network.now {
            network.now = at;
            self.events_at_instant = 0;
        }
        self.events_at_instant += 1;
        self.events_done += 1;
        if self.events_at_instant > self.max_events_at_instant {
            return Err(RunError::StandsStill { at });
        }
        if network.events.len() > self.max_events_planned {
            return Err(RunError::Grows { at });
        }
        if self.events_done >= self.next_memory_check {
            return self.check_memory(network, apps, tcp_hosts, at);
        }
        Ok(())
    }

    fn check_memory(
        &mut self,
        network: &Network,
        apps: &AppTable,
        tcp_hosts: &TcpHosts,
        at: Time,
    ) -> Result<(), RunError> {
        // A check visits all channels and connections, so a large network is checked less often.
        let visited = network.channels.len() + 2 * tcp_hosts.connections();
        self.next_memory_check =
            self.events_done + limits::EVENTS_BETWEEN_LOOKS.max(visited as u64);
        let held = bytes_held(network, apps, tcp_hosts);
        if held > self.max_bytes {
            let (frames, twice) = bytes_counted_twice(network);
            self.next_memory_check += frames;
            if held - twice > self.max_bytes {
                return Err(RunError::Fills { at });
            }
        }
        Ok(())
    }
}

/// The bytes of frames on links and in queues, of pending Interests of applications, and of
/// connections. Data that many channels hold counts once for each of them.
pub(super) fn bytes_held(network: &Network, apps: &AppTable, tcp_hosts: &TcpHosts) -> u64 {
    let waiting: u64 = network
        .channels
        .iter()
        .map(|channel| channel.waiting().1)
        .sum();
    network.frames.bytes() + waiting + apps.kept_bytes() + tcp_hosts.held_bytes()
}

/// The number of frames on links and in queues, and the bytes that [`bytes_held`] counts more than
/// once because several frames share them.
pub(super) fn bytes_counted_twice(network: &Network) -> (u64, u64) {
    let mut seen: HashSet<*const u8, FixedState> = HashSet::default();
    let (mut count, mut twice) = (0, 0);
    for frame in network
        .frames
        .iter()
        .chain(network.channels.iter().flat_map(Channel::queued))
    {
        count += 1;
        let is_known = frame.shared_at().is_some_and(|start| !seen.insert(start));
        twice += if is_known { frame.len() as u64 } else { 0 };
    }
    (count, twice)
}
