//! A place for programs on loopback: a directory in memory, free ports, and processes that end with
//! it, whatever happens.
//!
//! A shell, the watchman, waits at the other end of a pipe. When it closes, because the site is
//! dropped or because this process has ended in any way, Ctrl-C and SIGKILL among them, it ends
//! what still runs and removes the directory. It is in a process group of its own, so that Ctrl-C
//! at a terminal does not reach it.

use crate::Error;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where files are in memory: nginx' cache is one of files.
const MEMORY: &str = "/dev/shm";

/// The file that the client reads its requests from.
pub(super) const REQUESTS: &str = "requests.csv";

/// A program that does not listen by then has failed. Varnish compiles its configuration first.
const START: Duration = Duration::from_secs(20);

/// A program that has not ended by itself so long after it was asked to is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Reads pids, or `done`; what it has when the pipe closes, it ends.
const WATCHMAN: &str = r#"
pids=
while read -r word; do
    if [ "$word" = done ]; then pids=; else pids="$pids $word"; fi
done
if [ -n "$pids" ]; then
    kill -TERM $pids
    sleep 1
    kill -KILL $pids
fi 2>/dev/null
rm -rf -- "$1"
"#;

/// A directory in memory, and programs.
pub(super) struct Site {
    directory: PathBuf,
    watchman: Child,
    /// Its pipe; `None` once it is closed.
    told: Option<ChildStdin>,
    programs: Vec<Child>,
}

impl Site {
    pub(super) fn new() -> Result<Site, Error> {
        let failed =
            |error: std::io::Error| Error(format!("no directory in {MEMORY}, where caches are in memory: {error}"));
        let directory = TempDir::with_prefix_in("larder-testbed-", MEMORY).map_err(failed)?;
        // Servers that are started by root go to users of their own.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).map_err(failed)?;
        let mut command = Command::new("sh");
        command.args(["-c", WATCHMAN, "watchman"]).arg(directory.path()).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut watchman = command.spawn().map_err(|error| Error(format!("no shell: {error}")))?;
        let told = watchman.stdin.take();
        Ok(Site { directory: directory.keep(), watchman, told, programs: Vec::new() })
    }

    /// Starts a program and waits until it listens on `port`; its pid.
    pub(super) fn start(&mut self, program: &str, words: &[&str], port: u16) -> Result<u32, Error> {
        let log = self.path(&format!("{}.log", self.programs.len()));
        let failed = |error: std::io::Error| Error(format!("{program}: {error}"));
        let output = fs::File::create(&log).map_err(failed)?;
        let copy = output.try_clone().map_err(failed)?;
        let mut command = Command::new(program);
        let child = command.args(words).stdin(Stdio::null()).stdout(copy).stderr(output).spawn().map_err(failed)?;
        let pid = child.id();
        self.programs.push(child);
        self.tell(&pid.to_string());
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let ended = self.programs.last_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
            if ended || begun.elapsed() > START {
                let said = fs::read_to_string(log).unwrap_or_default();
                let last: Vec<&str> = said.lines().rev().take(3).collect();
                return Err(Error(format!(
                    "{program} does not serve: {}",
                    last.into_iter().rev().collect::<Vec<_>>().join("; ")
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(pid)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    pub(super) fn write(&self, name: &str, content: &str) -> Result<String, Error> {
        let path = self.path(name);
        fs::write(&path, content).map_err(|error| Error(format!("{path}: {error}")))?;
        Ok(path)
    }

    /// A watchman who is gone cannot be told; then what runs ends with the drop only.
    fn tell(&mut self, word: &str) {
        if let Some(pipe) = &mut self.told {
            let _ = writeln!(pipe, "{word}");
        }
    }

    fn end_programs(&mut self) {
        for program in &self.programs {
            let pid = i32::try_from(program.id()).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        }
        let asked = Instant::now();
        for program in &mut self.programs {
            while matches!(program.try_wait(), Ok(None)) {
                if asked.elapsed() > GRACE {
                    let _ = program.kill();
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.end_programs();
        self.tell("done");
        self.told = None;
        let _ = self.watchman.wait();
    }
}

/// Ports that nobody listens on. Somebody else may take one before its program does, which then
/// says so.
pub(super) fn free_ports<const N: usize>() -> Result<[u16; N], Error> {
    let failed = |error: std::io::Error| Error(format!("no free port on loopback: {error}"));
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        *port = listener.local_addr().map_err(failed)?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(pid: u32) -> bool {
        // A process that nobody has waited for yet is a zombie, and has ended.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
    }

    fn sleeper(site: &mut Site) -> u32 {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        site.programs.push(child);
        site.tell(&pid.to_string());
        pid
    }

    #[test]
    fn a_program_outlives_its_site() {
        let mut site = Site::new().unwrap();
        let (directory, pid) = (site.directory().to_owned(), sleeper(&mut site));
        site.write("file", "text").unwrap();
        assert!(runs(pid) && directory.join("file").exists());
        drop(site);
        assert!(!runs(pid) && !directory.exists());
    }

    /// What a process that is killed leaves of a site: the pipe closes, and nobody says `done`.
    #[test]
    fn a_program_outlives_a_reproduction_that_was_killed() {
        let mut site = Site::new().unwrap();
        let (directory, pid) = (site.directory().to_owned(), sleeper(&mut site));
        site.told = None;
        site.watchman.wait().unwrap();
        assert!(!runs(pid) && !directory.exists());
    }

    #[test]
    fn a_program_that_fails_is_waited_for() {
        let [port] = free_ports().unwrap();
        let mut site = Site::new().unwrap();
        let error = site.start("sh", &["-c", "echo no such option >&2; exit 1"], port).unwrap_err().to_string();
        assert!(error.contains("sh does not serve: no such option"), "{error}");
        let error = site.start("no-such-program", &[], port).unwrap_err().to_string();
        assert!(error.contains("no-such-program") && !error.contains('\n'), "{error}");
    }
}
