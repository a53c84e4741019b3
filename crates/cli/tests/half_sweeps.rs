//! Failure: a replay that is killed, or whose trace changes, loses finished rows or stores
//! incomplete ones. Uses the real program.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A sweep over one trace: a reading with quick rows, and a reading with slow ones.
struct Sweep {
    _folder: TempDir,
    trace: PathBuf,
    kept: PathBuf,
}

/// Returns the number of rows computed in one reading.
fn rows_at_once() -> usize {
    std::thread::available_parallelism()
        .map_or(1, usize::from)
        .max(8)
}

impl Sweep {
    fn new() -> Sweep {
        let folder = TempDir::new().unwrap();
        let trace = folder.path().join("web07.trace.xz");
        fs::copy(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests/data/web07.trace.xz"),
            &trace,
        )
        .unwrap();
        Sweep {
            trace,
            kept: folder.path().join("rows.jsonl"),
            _folder: folder,
        }
    }

    fn replay(&self, resume: bool) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
        command
            .arg("replay")
            .arg(&self.trace)
            .args(["-s", "1000", "--limit", "40000", "--json"]);
        command.args(["-p", "lru,lookahead(interval=10000,window=10000)+lru"]);
        command.args(["--seed", &format!("1..{}", rows_at_once())]);
        if resume {
            command.arg("--resume").arg(&self.kept);
        }
        command
    }

    /// Starts a replay and waits until it has stored the rows of its first reading.
    fn half_done(&self) -> Child {
        let mut child = self
            .replay(true)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        while self.lines().len() < rows_at_once() {
            assert!(
                Instant::now() < patience && child.try_wait().unwrap().is_none(),
                "no row was kept in time"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        child
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.kept).unwrap_or_default();
        text.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(str::to_owned)
            .collect()
    }

    /// Returns the rows without the speeds.
    fn figures(&self, resume: bool) -> Vec<String> {
        let output = self.replay(resume).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let json = String::from_utf8(output.stdout).unwrap();
        json.lines()
            .map(|line| {
                line.split(",\"requests_per_second\"")
                    .next()
                    .unwrap()
                    .to_owned()
            })
            .collect()
    }
}

#[test]
fn a_killed_replay_begins_again() {
    let sweep = Sweep::new();
    let mut child = sweep.half_done();
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    assert_eq!(
        child.wait().unwrap().code(),
        None,
        "it ended before it was killed"
    );
    let before = sweep.lines();
    assert!(before.len() < 2 * rows_at_once(), "nothing is left to do");

    let rows = sweep.figures(true);
    assert_eq!(rows.len(), 2 * rows_at_once());
    assert_eq!(rows, sweep.figures(false));
    assert_eq!(
        sweep.lines()[..before.len()],
        before,
        "what was finished is gone"
    );
}

#[test]
fn a_trace_that_changes_meanwhile_is_kept_as_it_is_now() {
    let sweep = Sweep::new();
    let child = sweep.half_done();
    OpenOptions::new()
        .append(true)
        .open(&sweep.trace)
        .unwrap()
        .write_all(b"more")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.contains("web07.trace.xz: changed while it was replayed"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1), "{said}");
    // The rows of the trace before the change, and none of it after the change.
    assert_eq!(sweep.lines().len(), rows_at_once());
}
