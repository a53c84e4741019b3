//! A directory and the programs that an experiment runs in it: starting them, waiting until they
//! serve, ending them.
//!
//! A site in memory ([`Site::in_memory`]) also ends with this process. A shell, the watchdog, waits
//! at the other end of a pipe. The pipe closes when the site is dropped or when this process ends
//! in any way, Ctrl-C and SIGKILL included. The watchdog then ends the programs that still run and
//! removes the directory. It has a process group of its own, so that Ctrl-C at a terminal does not
//! reach it.
//!
//! A temporary site ([`Site::temporary`]) has no watchdog. It is for programs in the namespaces of
//! a testbed, which `larder testbed down` and the next run of the experiment take down.

use crate::Error;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A file system in memory. nginx keeps its cache in files.
const MEMORY: &str = "/dev/shm";

/// The time that a program has to start serving. Varnish compiles its configuration first.
const START: Duration = Duration::from_secs(20);

/// The time that a program has to end after SIGTERM. Then it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// The interval between two checks of whether programs serve.
const POLL: Duration = Duration::from_millis(20);

/// Lines at the end of a program's log that an error message quotes.
const QUOTED_LINES: usize = 3;

/// Reads pids, or `done`. Ends the processes that it knows when the pipe closes.
const WATCHDOG: &str = r#"
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

/// A directory and programs. Dropping it ends the programs and removes the directory.
pub(crate) struct Site {
    directory: TempDir,
    watchdog: Option<Watchdog>,
    programs: Vec<Program>,
}

/// The shell that outlives this process.
struct Watchdog {
    process: Child,
    /// `None` once it is closed.
    pipe: Option<ChildStdin>,
}

/// A program that was started.
struct Program {
    name: String,
    process: Child,
    /// `None` once the program serves.
    probe: Option<Probe>,
}

/// A check of whether a program serves.
pub(crate) enum Probe {
    /// It accepts TCP connections on this port of loopback.
    Port(u16),
    /// This command succeeds.
    Command(Command),
}

impl Probe {
    fn succeeds(&mut self) -> bool {
        match self {
            Probe::Port(port) => TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok(),
            Probe::Command(command) => command.status().is_ok_and(|status| status.success()),
        }
    }
}

impl Site {
    /// A site in memory, with a watchdog.
    pub(crate) fn in_memory() -> Result<Site, Error> {
        let failed = |error: std::io::Error| {
            Error(format!(
                "no directory in {MEMORY}, where caches are in memory: {error}"
            ))
        };
        let directory = TempDir::with_prefix_in("larder-testbed-", MEMORY).map_err(failed)?;
        // Servers that root starts change to users of their own.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).map_err(failed)?;
        let watchdog = Some(Watchdog::start(directory.path())?);
        Ok(Site {
            directory,
            watchdog,
            programs: Vec::new(),
        })
    }

    /// A site in the directory for temporary files. The name of its own directory starts with
    /// `prefix`.
    pub(crate) fn temporary(prefix: &str) -> Result<Site, Error> {
        let directory = TempDir::with_prefix(prefix);
        let directory =
            directory.map_err(|error| Error(format!("no temporary directory: {error}")))?;
        Ok(Site {
            directory,
            watchdog: None,
            programs: Vec::new(),
        })
    }

    /// Starts a program and waits until it listens on `port`. Returns its pid.
    pub(crate) fn start(&mut self, program: &str, words: &[&str], port: u16) -> Result<u32, Error> {
        let mut command = Command::new(program);
        command.args(words);
        let pid = self.spawn(program, command, Probe::Port(port))?;
        self.wait_until_all_serve()?;
        Ok(pid)
    }

    /// Starts a program under this name. Returns its pid without waiting.
    pub(crate) fn spawn(
        &mut self,
        name: &str,
        mut command: Command,
        mut probe: Probe,
    ) -> Result<u32, Error> {
        let failed = |error: std::io::Error| Error(format!("{name}: {error}"));
        let output = fs::File::create(self.next_log()).map_err(failed)?;
        let copy = output.try_clone().map_err(failed)?;
        let process = command
            .stdin(Stdio::null())
            .stdout(copy)
            .stderr(output)
            .spawn()
            .map_err(failed)?;
        if let Probe::Command(command) = &mut probe {
            command.stdin(Stdio::null()).stderr(Stdio::null());
        }
        let pid = process.id();
        self.programs.push(Program {
            name: name.to_owned(),
            process,
            probe: Some(probe),
        });
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.write(&pid.to_string());
        }
        Ok(pid)
    }

    /// Waits until all programs serve.
    ///
    /// # Errors
    /// The end of the log of a program that has ended, or that does not serve in time.
    pub(crate) fn wait_until_all_serve(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            for number in 0..self.programs.len() {
                let Program {
                    name,
                    process,
                    probe,
                } = &mut self.programs[number];
                let Some(waiting) = probe else { continue };
                if waiting.succeeds() {
                    *probe = None;
                } else if !matches!(process.try_wait(), Ok(None)) || begun.elapsed() > START {
                    let fault = format!("{name} does not serve: ");
                    return Err(Error(fault + &self.end_of_log(number)));
                }
            }
            if self.programs.iter().all(|program| program.probe.is_none()) {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Kills all programs and waits for their end.
    pub(crate) fn kill_programs(&mut self) {
        for program in &mut self.programs {
            drop(program.process.kill());
        }
        for program in &mut self.programs {
            drop(program.process.wait());
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.directory().join(name).display().to_string()
    }

    /// Writes a file into the directory. Returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<String, Error> {
        let path = self.path(name);
        fs::write(&path, content).map_err(|error| Error(format!("{path}: {error}")))?;
        Ok(path)
    }

    /// The path of the log of the program that is started next.
    pub(crate) fn next_log(&self) -> String {
        self.log(self.programs.len())
    }

    fn log(&self, number: usize) -> String {
        self.path(&format!("{number}.log"))
    }

    fn end_of_log(&self, number: usize) -> String {
        let text = fs::read_to_string(self.log(number)).unwrap_or_default();
        let lines: Vec<&str> = text.trim().lines().collect();
        lines[lines.len().saturating_sub(QUOTED_LINES)..].join("; ")
    }

    fn end_programs(&mut self) {
        for program in &self.programs {
            let pid = i32::try_from(program.process.id())
                .ok()
                .and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        }
        let asked = Instant::now();
        for program in &mut self.programs {
            while matches!(program.process.try_wait(), Ok(None)) {
                if asked.elapsed() > GRACE {
                    let _ = program.process.kill();
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.end_programs();
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.write("done");
            watchdog.end();
        }
    }
}

impl Watchdog {
    fn start(directory: &Path) -> Result<Watchdog, Error> {
        let mut command = Command::new("sh");
        command
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(directory)
            .process_group(0);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = command
            .spawn()
            .map_err(|error| Error(format!("no shell: {error}")))?;
        let pipe = process.stdin.take();
        Ok(Watchdog { process, pipe })
    }

    /// Writes a line into the pipe. If the watchdog has ended, only the drop of the site ends the
    /// programs.
    fn write(&mut self, word: &str) {
        if let Some(pipe) = &mut self.pipe {
            let _ = writeln!(pipe, "{word}");
        }
    }

    /// Closes the pipe, and waits until the watchdog has removed the directory.
    fn end(&mut self) {
        self.pipe = None;
        let _ = self.process.wait();
    }
}

/// Ports that no socket listens on. Another program may take one before its user does, which then
/// reports the failure.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N], Error> {
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
        // A zombie has ended. Its parent has not waited for it yet.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, state)| !state.starts_with('Z'))
    }

    fn sleeper(site: &mut Site) -> u32 {
        let mut command = Command::new("sleep");
        command.arg("60");
        site.spawn("sleep", command, Probe::Command(Command::new("true")))
            .unwrap()
    }

    #[test]
    fn a_program_outlives_its_site() {
        let mut site = Site::in_memory().unwrap();
        let (directory, pid) = (site.directory().to_owned(), sleeper(&mut site));
        site.write("file", "text").unwrap();
        assert!(runs(pid) && directory.join("file").exists());
        drop(site);
        assert!(!runs(pid) && !directory.exists());
    }

    /// When a process is killed, the pipe closes without `done`.
    #[test]
    fn a_program_outlives_a_reproduction_that_was_killed() {
        let mut site = Site::in_memory().unwrap();
        let (directory, pid) = (site.directory().to_owned(), sleeper(&mut site));
        site.watchdog.as_mut().unwrap().end();
        assert!(!runs(pid) && !directory.exists());
    }

    #[test]
    fn a_program_that_fails_is_waited_for() {
        let [port] = free_ports().unwrap();
        let mut site = Site::in_memory().unwrap();
        let error = site
            .start("sh", &["-c", "echo no such option >&2; exit 1"], port)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("sh does not serve: no such option"),
            "{error}"
        );
        let error = site
            .start("no-such-program", &[], port)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no-such-program") && !error.contains('\n'),
            "{error}"
        );
    }

    #[test]
    fn a_temporary_site_leaves_a_program_or_its_directory() {
        let mut site = Site::temporary("larder-unit-").unwrap();
        let (directory, pid) = (site.directory().to_owned(), sleeper(&mut site));
        site.wait_until_all_serve().unwrap();
        assert!(runs(pid) && directory.exists());
        drop(site);
        assert!(!runs(pid) && !directory.exists());
    }

    #[test]
    fn a_program_counts_as_serving_before_its_probe_succeeds() {
        let mut site = Site::temporary("larder-unit-").unwrap();
        let ready = site.path("ready");
        let mut late = Command::new("sh");
        late.args(["-c", "sleep 0.1; touch \"$0\"; exec sleep 60", &ready]);
        let mut probe = Command::new("test");
        probe.args(["-e", &ready]);
        site.spawn("late", late, Probe::Command(probe)).unwrap();
        site.wait_until_all_serve().unwrap();
        assert!(Path::new(&ready).exists());
        let mut failing = Command::new("sh");
        failing.args(["-c", "for i in 1 2 3 4; do echo line $i; done; exit 1"]);
        site.spawn(
            "failing on top",
            failing,
            Probe::Command(Command::new("false")),
        )
        .unwrap();
        let error = site.wait_until_all_serve().unwrap_err().to_string();
        assert_eq!(
            error,
            "failing on top does not serve: line 2; line 3; line 4"
        );
    }
}
