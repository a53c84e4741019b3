//! Fear: a replay that is killed loses what it had finished, or leaves half of it for a whole. The real program.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Quick over one trace, slow over the other two.
fn replay(folder: &Path, resume: Option<&Path>) -> Command {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests/data");
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder"));
    command
        .arg("replay")
        .arg(folder.join("small.csv"))
        .args(["web07.trace.xz", "web12.trace.xz"].map(|name| data.join(name)));
    command.args(["-s", "1000", "-p", "lru", "agd", "lookahead(interval=20000,window=20000)+lru", "--json"]);
    if let Some(resume) = resume {
        command.arg("--resume").arg(resume);
    }
    command
}

/// Without the speeds.
fn figures(json: &str) -> Vec<String> {
    json.lines().map(|line| line.split(",\"requests_per_second\"").next().unwrap().to_owned()).collect()
}

fn lines(path: &PathBuf) -> usize {
    fs::read(path).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count()
}

#[test]
fn a_killed_replay_begins_again() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("rows.jsonl");
    fs::write(folder.path().join("small.csv"), "# time, object, size\n0,1,10\n1,2,10\n2,1,10\n").unwrap();
    let mut child = replay(folder.path(), Some(&kept)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while lines(&kept) < 3 {
        assert!(Instant::now() < patience && child.try_wait().unwrap().is_none(), "no row was kept in time");
        std::thread::sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().code(), None, "it ended before it was killed");
    let mut before = fs::read_to_string(&kept).unwrap();
    before.truncate(before.rfind('\n').map_or(0, |end| end + 1));
    assert!(lines(&kept) < 9, "nothing is left to do");

    let run = |resume| {
        let output = replay(folder.path(), resume).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        figures(&String::from_utf8(output.stdout).unwrap())
    };
    let rows = run(Some(&kept));
    assert_eq!(rows, run(None));
    assert_eq!(rows.len(), 9);
    assert!(fs::read_to_string(&kept).unwrap().starts_with(&before), "what was finished is gone");
}
