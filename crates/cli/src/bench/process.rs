//! The resources that a process, or a thread of this process, has used, from /proc (proc(5)).

use larder_client::Client;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// CPU time and memory so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// User and system time of all threads.
    pub cpu: Duration,
    /// Resident memory; absent for a thread.
    pub resident_bytes: Option<u64>,
}

/// A measured process or thread.
pub struct Process {
    /// Its directories under /proc.
    directories: Vec<PathBuf>,
}

impl Process {
    /// Returns the processes with these numbers. Without numbers, returns the process that listens
    /// on the Unix socket to which the client is connected.
    pub fn of(pids: &[u32], client: &Client) -> Option<Process> {
        let listener = client.peer_process().filter(|_| pids.is_empty());
        let pids: Vec<u32> = pids.iter().copied().chain(listener).collect();
        let directories: Vec<PathBuf> = pids
            .iter()
            .map(|pid| PathBuf::from(format!("/proc/{pid}")))
            .collect();
        (!directories.is_empty()).then_some(Process { directories })
    }

    /// Returns this thread of this process.
    pub fn thread(id: u32) -> Process {
        Process {
            directories: vec![PathBuf::from(format!("/proc/self/task/{id}"))],
        }
    }

    /// Returns the usage so far, or `None` if the process has ended.
    pub fn usage(&self) -> Option<Usage> {
        let used: Option<Vec<Usage>> = self
            .directories
            .iter()
            .map(|directory| usage(directory))
            .collect();
        used?.into_iter().reduce(|a, b| Usage {
            cpu: a.cpu + b.cpu,
            resident_bytes: a.resident_bytes.zip(b.resident_bytes).map(|(a, b)| a + b),
        })
    }
}

fn usage(directory: &Path) -> Option<Usage> {
    let Ok(tasks) = std::fs::read_dir(directory.join("task")) else {
        return Some(Usage {
            cpu: run_time(directory)?,
            resident_bytes: None,
        });
    };
    let cpu = tasks.filter_map(|task| run_time(&task.ok()?.path())).sum();
    Some(Usage {
        cpu,
        resident_bytes: resident(&std::fs::read_to_string(directory.join("status")).ok()?),
    })
}

/// Returns the time that a thread ran: in nanoseconds if the kernel counts them, otherwise in
/// ticks.
fn run_time(thread: &Path) -> Option<Duration> {
    let precise = std::fs::read_to_string(thread.join("schedstat")).ok();
    let precise = precise
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .filter(|nanos| *nanos > 0);
    match precise {
        Some(nanos) => Some(Duration::from_nanos(nanos)),
        None => ticks(&std::fs::read_to_string(thread.join("stat")).ok()?),
    }
}

/// Returns `utime` and `stime` from a line of /proc/PID/stat. Its second field is a name with
/// arbitrary characters.
fn ticks(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let field = |index| fields.split_whitespace().nth(index)?.parse::<u64>().ok();
    Some(Duration::from_millis(
        (field(11)? + field(12)?) * 1000 / TICKS_PER_SECOND,
    ))
}

/// USER_HZ: 100 on every architecture that Linux still runs on.
const TICKS_PER_SECOND: u64 = 100;

fn resident(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_moves_no_field() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(Duration::from_secs(4)));
        assert_eq!(ticks("7 (a"), None);
        assert_eq!(resident("Name:\tx\nVmRSS:\t  1024 kB\n"), Some(1 << 20));
    }

    #[test]
    fn what_this_thread_burns_is_seen() {
        let process = Process {
            directories: vec![PathBuf::from("/proc/self")],
        };
        let before = process.usage().unwrap();
        let mut sum = 0u64;
        while process.usage().unwrap().cpu < before.cpu + Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_mul(31) + 1);
        }
        assert!(before.resident_bytes.unwrap() > 100_000);
        let gone = Process {
            directories: vec![PathBuf::from("/proc/0")],
        };
        assert_eq!(gone.usage(), None);
    }
}
