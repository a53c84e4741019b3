//! The path of this program, and the processor time of a tree of processes.

use crate::Error;
use std::fs;

/// Returns the path of the running program.
pub(crate) fn this_binary() -> Result<String, Error> {
    let path = std::env::current_exe().map_err(|error| {
        Error(format!(
            "the path of the running program is unknown: {error}"
        ))
    })?;
    Ok(path.display().to_string())
}

/// Returns the processor time so far of a process and its descendants, s. The value is the
/// scheduler's, in nanoseconds, for each thread. For children that have ended (nginx' cache
/// managers end all the time), it is in hundredths of a second.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    let nanoseconds = |thread: &fs::DirEntry| -> Option<u64> {
        fs::read_to_string(thread.path().join("schedstat"))
            .ok()?
            .split(' ')
            .next()?
            .parse()
            .ok()
    };
    let own: u64 = threads(pid).iter().filter_map(nanoseconds).sum();
    own as f64 / 1e9
        + of_ended_children(pid)
        + children(pid).into_iter().map(cpu_seconds).sum::<f64>()
}

/// Returns the processor time of the children that have ended and were waited for, and of their
/// children, s: `cutime` and `cstime` (proc_pid_stat(5)), in ticks of USER_HZ.
fn of_ended_children(pid: u32) -> f64 {
    const USER_HZ: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The program's name may contain spaces. The third field, the state, follows the last
    // parenthesis.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = fields
        .split(' ')
        .skip(16 - 3)
        .take(2)
        .filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / USER_HZ
}

/// Returns the running children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let listed = threads(pid)
        .into_iter()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    listed
        .flat_map(|pids| {
            pids.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

fn threads(pid: u32) -> Vec<fs::DirEntry> {
    fs::read_dir(format!("/proc/{pid}/task"))
        .map(|threads| threads.flatten().collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_work_of_a_child_is_not_counted() {
        let script = "(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done); (i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 20; :) & wait";
        let mut shell = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let begun = std::time::Instant::now();
        let mut sleeping = false;
        // A child works for some tenths of a second and ends. So does the next one, which also
        // starts a child that sleeps.
        while !sleeping && begun.elapsed().as_secs() < 120 {
            sleeping = children(shell.id())
                .iter()
                .any(|child| !children(*child).is_empty());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let (all, of_child) = (
            cpu_seconds(shell.id()),
            children(shell.id())
                .into_iter()
                .map(cpu_seconds)
                .sum::<f64>(),
        );
        let ended_before = of_ended_children(shell.id());
        let ended: Vec<u32> = children(shell.id())
            .iter()
            .flat_map(|child| children(*child))
            .collect();
        shell.kill().unwrap();
        shell.wait().unwrap();
        for pid in &ended {
            drop(Command::new("kill").arg(pid.to_string()).status());
        }
        assert!(
            sleeping && of_child > 0.01,
            "{all} s, {of_child} s of them the child's"
        );
        assert!(
            ended_before > 0.01 && all >= of_child + ended_before,
            "{all} s, {ended_before} s of them of ended children"
        );
        assert_eq!(
            cpu_seconds(u32::MAX).to_bits(),
            0.0_f64.to_bits(),
            "no such process"
        );
    }
}
