//! The old process's side: starts the new process, and reports what it says.

use super::channel::Channel;
use super::{HandedSocket, HandoverError, VARIABLE};
use crate::limits;
use std::ffi::OsString;
use std::fmt::Write;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

/// A process that is to replace this one.
pub(crate) struct Successor {
    pid: u32,
    channel: Arc<Channel>,
}

/// What a successor reports.
#[derive(Debug)]
pub(crate) enum News {
    /// It can start as soon as this process leaves its disk tiers to it.
    Prepared,
    /// It accepts connections.
    Ready(Child),
    /// It has ended, for this reason.
    Failed(String),
}

impl Successor {
    /// Starts this process's program with the same arguments and variables, and passes it the
    /// sockets. `report` is called on a thread of its own.
    ///
    /// # Errors
    /// [`HandoverError`]. The new process has ended then.
    pub(crate) fn start(
        sockets: &[HandedSocket],
        report: impl Fn(News) + Send + 'static,
    ) -> Result<Successor, HandoverError> {
        if std::process::id() == 1 {
            return Err(HandoverError::FirstProcess);
        }
        if is_unnotified_service(|name| std::env::var(name).ok()) {
            return Err(HandoverError::UnnotifiedService);
        }
        let (near, far) = Channel::pair().map_err(HandoverError::Pass)?;
        let mut lines = String::new();
        for socket in sockets {
            let file = if socket.owns_file { " file" } else { "" };
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{}{file}", socket.role.name());
        }
        // The new process waits for a first message, even without sockets.
        let _ = writeln!(lines, "all");
        let descriptors: Vec<_> = sockets
            .iter()
            .map(|socket| socket.descriptor.as_fd())
            .collect();
        near.send_with(&lines, &descriptors)
            .map_err(HandoverError::Pass)?;
        let mut child = command().stdin(far).spawn().map_err(HandoverError::Start)?;
        let (pid, channel) = (child.id(), Arc::new(near));
        let watched = Arc::clone(&channel);
        let watch = move || {
            report(match converse(&watched, &report) {
                Ok(()) => News::Ready(child),
                Err(reason) => News::Failed(end(&mut child, reason)),
            });
        };
        let thread = std::thread::Builder::new()
            .name("upgrade".to_owned())
            .spawn(watch);
        // The new process ends when its channel does.
        thread.map_err(HandoverError::Start)?;
        Ok(Successor { pid, channel })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Tells it that this process has left its disk tiers and NDN listeners.
    pub(crate) fn released(&self) {
        // If it has ended, its thread reports that.
        let _ = self.channel.send("released");
    }

    /// Tells it that everything is its own.
    ///
    /// # Errors
    /// The reason why it does not learn that. It has ended then.
    pub(crate) fn yours(&self, mut child: Child) -> Result<(), String> {
        self.channel
            .send("yours")
            .map_err(|_| end(&mut child, None))
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: i32) {
        use rustix::process::{Pid, Signal, kill_process};
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some((pid, signal)) = pid.zip(Signal::from_named_raw(signal)) {
            // It may have ended.
            let _ = kill_process(pid, signal);
        }
    }

    /// Tells it that nothing in this process reads UDP sockets any more. It learns it by the end of
    /// the channel, as if this process had ended.
    pub(crate) fn left_udp(&self) {
        self.channel.close();
    }

    /// Ends it.
    pub(crate) fn stop(&self) {
        // The end of the channel alone means that this process has ended by itself.
        let _ = self.channel.send("stop");
        self.channel.close();
    }
}

/// Returns true if this is the main process of a systemd service that would end with it. Programs
/// that such a process starts inherit `INVOCATION_ID`; `SYSTEMD_EXEC_PID` of systemd 248 and later
/// names the process.
fn is_unnotified_service(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_main = match variable("SYSTEMD_EXEC_PID") {
        Some(pid) => pid == std::process::id().to_string(),
        None => variable("INVOCATION_ID").is_some(),
    };
    is_main && variable("NOTIFY_SOCKET").is_none()
}

/// Returns the command of this process: the file that its first argument names now, perhaps another
/// one than at its start.
fn command() -> Command {
    let mut arguments = std::env::args_os();
    let program = arguments
        .next()
        .unwrap_or_else(|| OsString::from("/proc/self/exe"));
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env(VARIABLE, std::process::id().to_string());
    // These name this process: the new one has the sockets, and is watched after MAINPID.
    for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
        command.env_remove(name);
    }
    command
}

/// Reports what the new process says, until it is ready or fails.
///
/// # Errors
/// The reason, if it is known.
fn converse(channel: &Channel, report: &impl Fn(News)) -> Result<(), Option<String>> {
    let mut patience = limits::UPGRADE_PREPARATION;
    loop {
        match receive(channel, patience)?.as_str() {
            "prepared" => report(News::Prepared),
            "ready" => return Ok(()),
            text => {
                return Err(Some(
                    text.strip_prefix("failed ").unwrap_or(text).to_owned(),
                ));
            }
        }
        patience = limits::UPGRADE_START;
    }
}

fn receive(channel: &Channel, patience: Duration) -> Result<String, Option<String>> {
    channel
        .set_receive_timeout(patience)
        .map_err(|error| Some(error.to_string()))?;
    match channel.receive() {
        Ok(Some((text, _))) => Ok(text),
        Ok(None) => Err(None),
        // It has ended without reading what it got.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(None),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Some(format!(
            "it says nothing for {} s",
            patience.as_secs()
        ))),
        Err(error) => Err(Some(error.to_string())),
    }
}

/// Ends a process that has failed. Returns the reason.
fn end(child: &mut Child, reason: Option<String>) -> String {
    // It may hang.
    let _ = child.kill();
    let status = child.wait();
    match (reason, status) {
        (Some(reason), _) => reason,
        (None, Ok(status)) => format!("it has ended before it was ready: {status}"),
        (None, Err(error)) => error.to_string(),
    }
}
