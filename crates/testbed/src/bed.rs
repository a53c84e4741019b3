//! A running testbed: namespaces with a device each, and the emulator between them.

use crate::emulator::Emulator;
use crate::lateness::LatenessReport;
use crate::{Error, Spec};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tappers::{Interface, Tun};

/// The name of a host's device.
const DEVICE: &str = "larder0";

const IPV6_OFF: &str = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// The threads that errors name.
const EMULATOR: &str = "the emulator";
const HOST: &str = "a host";

/// The time that processes have to end before they are killed when a testbed is removed.
const GRACE: Duration = Duration::from_secs(5);

/// Namespaces, devices and a running emulator. Dropping it removes them.
pub struct Testbed {
    spec: Spec,
    /// The namespaces that this process created. If another process builds a testbed of the same
    /// name at the same time, its namespaces stay.
    made: Vec<String>,
    stop: Arc<AtomicBool>,
    emulator: Option<JoinHandle<Result<LatenessReport, Error>>>,
}

impl Testbed {
    /// Builds the testbed. Needs root, iproute2 and /dev/net/tun.
    ///
    /// # Errors
    /// [`Error`] with the missing part or the failed command. Everything that was created until
    /// then is removed.
    pub fn up(spec: Spec) -> Result<Testbed, Error> {
        spec.check()?;
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        if !left(&spec.name)?.is_empty() {
            return Err(Error::Exists(spec.name));
        }
        allow(&spec.congestion)?;
        let mut bed = Testbed {
            made: Vec::new(),
            stop: Arc::default(),
            emulator: None,
            spec,
        };
        // From here on, a failure drops `bed`, which removes what exists.
        let mut devices = Vec::new();
        for node in 0..bed.spec.nodes.len() {
            devices.push(if bed.spec.nodes[node].is_host {
                Some(bed.make_host(node)?)
            } else {
                None
            });
        }
        let emulator = Emulator::new(&bed.spec, devices);
        let (stop, (ready, is_ready)) = (bed.stop.clone(), std::sync::mpsc::channel());
        let thread = std::thread::Builder::new()
            .name("emulator".into())
            .spawn(move || {
                let _ = ready.send(rustix::thread::gettid());
                emulator.run(&stop)
            });
        bed.emulator = Some(thread.map_err(Error::thread(EMULATOR))?);
        let thread = is_ready.recv().map_err(|_| Error::Panicked(EMULATOR))?;
        let id = thread.as_raw_nonzero().to_string();
        run("chrt", &["--fifo", "--pid", "50", &id])?;
        Ok(bed)
    }

    /// Returns its specification.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns true while its links are emulated; false after another process has removed it.
    pub fn is_running(&self) -> bool {
        self.emulator
            .as_ref()
            .is_some_and(|emulator| !emulator.is_finished())
    }

    /// Returns a command that runs on a host.
    ///
    /// # Panics
    /// If the testbed has no node with this number.
    pub fn command(&self, host: usize, program: &str) -> Command {
        command(&self.spec.namespace(host), program)
    }

    /// Runs a function on a host, in a thread with real-time priority below the emulator's and with
    /// sockets of the host's namespace. The thread returns the result; `None` only if this call has
    /// failed.
    ///
    /// # Errors
    /// [`Error`] if the thread cannot start or cannot enter the namespace.
    ///
    /// # Panics
    /// If the testbed has no node with this number.
    pub fn on_host<T: Send + 'static>(
        &self,
        host: usize,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<Option<T>>, Error> {
        let namespace = self.spec.namespace(host);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("host".into())
            .spawn(move || {
                let entered = enter(&namespace).and_then(|()| {
                    let id = rustix::thread::gettid().as_raw_nonzero().to_string();
                    run("chrt", &["--fifo", "--pid", "40", &id])
                });
                let failed = entered.is_err();
                let _ = ready.send(entered);
                (!failed).then(act)
            });
        let thread = thread.map_err(Error::thread(HOST))?;
        is_ready.recv().map_err(|_| Error::Panicked(HOST))??;
        Ok(thread)
    }

    /// Removes the testbed. Returns the lateness of the emulator.
    ///
    /// # Errors
    /// The [`Error`] of the emulator, or of the removal.
    pub fn down(mut self) -> Result<LatenessReport, Error> {
        let report = self.stop_emulator();
        take_down(&self.spec.name, &std::mem::take(&mut self.made))?;
        report
    }

    fn make_host(&mut self, node: usize) -> Result<Tun, Error> {
        let namespace = self.spec.namespace(node);
        run("ip", &["netns", "add", &namespace])?;
        self.made.push(namespace.clone());
        let spec = &self.spec;
        let device = open_device(&namespace, &spec.congestion)?;
        let address = format!("{}/16", spec.address(node));
        let mtu = spec.mtu.to_string();
        // One command per host instead of three, so that a network of fifty hosts is up in a
        // second.
        let lines = format!(
            "link set lo up\naddress add {address} dev {DEVICE}\nlink set {DEVICE} mtu {mtu} txqueuelen 1000 up\n"
        );
        run_with("ip", &["-netns", &namespace, "-batch", "-"], &lines)?;
        Ok(device)
    }

    fn stop_emulator(&mut self) -> Result<LatenessReport, Error> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.emulator.take().map(JoinHandle::join);
        ended.map_or(Ok(LatenessReport::default()), |ended| {
            ended.unwrap_or(Err(Error::Panicked(EMULATOR)))
        })
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        let _ = self.stop_emulator();
        let _ = take_down(&self.spec.name, &self.made);
    }
}

/// Returns a command that runs in a namespace.
pub fn command(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, program]);
    command
}

/// Removes the rest of a testbed of any process: ends the processes in its namespaces, and removes
/// these with their devices. Returns the number of namespaces.
///
/// # Errors
/// [`Error`] if something cannot be removed.
pub fn down(name: &str) -> Result<usize, Error> {
    let namespaces = left(name)?;
    take_down(name, &namespaces)?;
    Ok(namespaces.len())
}

/// Ends the processes in these namespaces, and removes the namespaces. A missing one is not a
/// failure.
fn take_down(name: &str, namespaces: &[String]) -> Result<(), Error> {
    let standing = || -> Result<Vec<String>, Error> {
        Ok(left(name)?
            .into_iter()
            .filter(|namespace| namespaces.contains(namespace))
            .collect())
    };
    let begun = Instant::now();
    let mut signal = "-TERM";
    loop {
        let pids = running(&standing()?);
        if pids.is_empty() {
            break;
        }
        if begun.elapsed() > GRACE {
            signal = "-KILL";
        }
        // A process may have ended in the meantime.
        let _ = Command::new("kill")
            .arg(signal)
            .args(&pids)
            .stderr(Stdio::null())
            .status();
        std::thread::sleep(Duration::from_millis(50));
        if begun.elapsed() > 2 * GRACE {
            return Err(Error::Processes {
                testbed: name.to_owned(),
                pids,
            });
        }
    }
    // One command for all of them.
    let lines: String = standing()?
        .iter()
        .map(|namespace| format!("netns delete {namespace}\n"))
        .collect();
    // Deleting a namespace that another process has just deleted fails without harm.
    let deleted = run_with("ip", &["-force", "-batch", "-"], &lines);
    if standing()?.is_empty() {
        Ok(())
    } else {
        deleted.map(drop)
    }
}

/// Returns the processes whose network is one of these namespaces. It reads each process once,
/// while `ip netns pids` does so once per namespace.
fn running(namespaces: &[String]) -> Vec<String> {
    let inode = |path: PathBuf| std::fs::metadata(path).map(|metadata| metadata.ino()).ok();
    let networks: Vec<u64> = namespaces
        .iter()
        .filter_map(|namespace| inode(Path::new("/run/netns").join(namespace)))
        .collect();
    // A process that has ended in the meantime has no file.
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let pids = numbers.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.filter(|pid| {
        inode(Path::new("/proc").join(pid).join("ns/net")).is_some_and(|at| networks.contains(&at))
    })
    .collect()
}

/// Returns the namespaces of this testbed.
fn left(name: &str) -> Result<Vec<String>, Error> {
    let prefix = format!("larder-{name}-");
    let listed = run("ip", &["netns", "list"])?;
    let names = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    Ok(names
        .filter(|name| name.starts_with(&prefix))
        .map(str::to_owned)
        .collect())
}

/// Moves this thread into a namespace permanently.
fn enter(namespace: &str) -> Result<(), Error> {
    let path = format!("/run/netns/{namespace}");
    let moved = File::open(&path).and_then(|namespace| {
        Ok(move_into_link_name_space(
            namespace.as_fd(),
            Some(LinkNameSpaceType::Network),
        )?)
    });
    moved.map_err(Error::file(path))
}

/// Creates the device of a namespace, and sets the namespace's congestion control. A thread enters
/// the namespace to do so; the descriptor is also valid outside.
fn open_device(namespace: &str, congestion: &str) -> Result<Tun, Error> {
    let (namespace, congestion) = (namespace.to_owned(), congestion.to_owned());
    let made = std::thread::spawn(move || {
        enter(&namespace)?;
        for (setting, value) in [(IPV6_OFF, "1"), (CONGESTION, congestion.as_str())] {
            std::fs::write(setting, value).map_err(Error::file(format!(
                "{namespace}: cannot write {value} into {setting}"
            )))?;
        }
        let make = || {
            let mut device = Tun::new_named(Interface::new(DEVICE)?)?;
            device.set_nonblocking(true)?;
            Ok(device)
        };
        make().map_err(Error::file(format!(
            "{namespace}: cannot create a device (does /dev/net/tun exist?)"
        )))
    });
    made.join().unwrap_or(Err(Error::Panicked("a namespace")))
}

/// Allows namespaces to use a congestion control that this machine has. The setting is for the
/// whole machine and stays. It removes nothing.
fn allow(congestion: &str) -> Result<(), Error> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(Error::file(path));
    let available = read(AVAILABLE)?;
    if !available.split_whitespace().any(|name| name == congestion) {
        return Err(Error::Congestion {
            name: congestion.to_owned(),
            available: available.trim().to_owned(),
        });
    }
    let allowed = read(ALLOWED)?;
    if allowed.split_whitespace().any(|name| name == congestion) {
        return Ok(());
    }
    let more = format!("{} {congestion}", allowed.trim());
    std::fs::write(ALLOWED, &more)
        .map_err(Error::file(format!("cannot write {more} into {ALLOWED}")))
}

/// Runs a command. Returns its output.
fn run(program: &str, arguments: &[&str]) -> Result<String, Error> {
    run_with(program, arguments, "")
}

/// Runs a command with this input. Returns its output.
fn run_with(program: &str, arguments: &[&str], input: &str) -> Result<String, Error> {
    let line = || format!("{program} {}", arguments.join(" "));
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let done = command.spawn().and_then(|mut child| {
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read its input reports the reason when it ends.
            let _ = stdin.write_all(input.as_bytes());
        }
        child.wait_with_output()
    });
    let done = done.map_err(|error| Error::Program {
        command: line(),
        error,
    })?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    } else {
        let output = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        Err(Error::Command {
            command: line(),
            output,
        })
    }
}
