//! The upgrade of a running node, on both sides ([`crate::handover`] describes the messages).
//!
//! - **HTTP**: the new process accepts connections before the old one stops to. An open connection
//!   ends with the old process's next answer (`Connection: close`, or GOAWAY): an idle one is not
//!   closed, because its client may have sent a request, until `[http.timeouts] shutdown` is over.
//! - **HTTP/3**: the old process ends its connections (GOAWAY) and refuses new ones, whose clients
//!   use HTTP/2. The new process has the same UDP sockets, and reads them after that.
//! - **Disk tiers**: one process writes a log. The old one closes its tiers first, and asks the
//!   origin for what it misses from then on. A later invalidation in the old process does not reach
//!   the new one's tier or memory; purges are refused until the new one takes them.
//! - **Fleet**: one process follows the log. The old one leaves it first, and serves what it has
//!   stored until its last proof ends.
//! - **NDN**: the old process pauses its listeners, so that each connection and each datagram
//!   belongs to the new one, except datagrams that wait in UDP sockets for which a smaller number
//!   of threads has no reader. Its faces end with it, and applications connect again.

use super::{Event, Node, Part};
use crate::error::NodeError;
use crate::handover::{HandedSocket, Handover, HandoverError, Predecessor, Successor};
use crate::inherited::Role;
use crate::{config::Config, limits, preflight, supervisor};
use larder_admin::CommandReply;
use larder_host::ListenSocket;
use larder_proxy::{Admin, Http};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::Instant;

/// The new process.
impl Node {
    /// Checks everything that can prevent the start, and then waits until the process that is
    /// replaced has left what only one process can have.
    pub(super) fn take_over(&self, config: &Config, handover: &Handover) -> Result<(), NodeError> {
        if !handover.is_upgrade() {
            return Ok(());
        }
        let problems = preflight::problems_of_upgrade(config, &handover.sockets);
        if !problems.is_empty() {
            return Err(HandoverError::Refused(problems.join("; ")).into());
        }
        Ok(handover.await_release()?)
    }

    /// Makes this node the owner of what it has inherited.
    pub(super) fn own(&mut self, handover: &mut Handover) -> Result<(), NodeError> {
        handover.take_over()?;
        let files = handover.sockets.own_files();
        if let Some(http) = &self.http {
            http.own_files(&files);
        }
        if let Some(ndn) = &mut self.ndn {
            ndn.own_files(&files);
        }
        handover.sockets.close_rest();
        match handover.take_predecessor() {
            Some(predecessor) => self.await_udp(predecessor)?,
            None => self.read_udp(),
        }
        Ok(())
    }

    /// Reads the UDP sockets of HTTP/3 as soon as the process before has left them.
    fn await_udp(&self, predecessor: Predecessor) -> Result<(), NodeError> {
        let events = self.events.clone();
        let wait = move || {
            predecessor.await_udp();
            drop(events.send(Event::UdpLeft));
        };
        let thread = std::thread::Builder::new().name("upgrade".to_owned());
        thread.spawn(wait).map_err(HandoverError::Start)?;
        Ok(())
    }

    pub(super) fn read_udp(&self) {
        if let Some(http) = &self.http {
            http.read_udp();
        }
    }
}

/// The old process.
impl Node {
    /// Starts a process that is to replace this one. The client that has sent the command, if there
    /// is one, learns the outcome when the new process has taken over, or has failed.
    pub(super) fn upgrade(&mut self, reply: Option<CommandReply>) {
        if let Some(successor) = &self.successor {
            let pid = successor.pid();
            if let Some(reply) = reply {
                reply.send(Err(format!(
                    "an upgrade to process {pid} is under way already"
                )));
            }
            return tracing::warn!(pid, "an upgrade is under way already");
        }
        let events = self.events.clone();
        let sockets = self.sockets().map_err(HandoverError::Pass);
        let report = move |news| drop(events.send(Event::Successor(news)));
        match sockets.and_then(|sockets| Successor::start(&sockets, report)) {
            Ok(successor) => {
                tracing::info!(pid = successor.pid(), "upgrading: another process starts");
                self.successor = Some(successor);
                self.upgrade_reply = reply;
                self.signals_to_repeat.clear();
            }
            Err(error) => {
                tracing::error!(%error, "no upgrade: this process goes on");
                if let Some(reply) = reply {
                    reply.send(Err(format!("no upgrade, the process goes on: {error}")));
                }
            }
        }
    }

    fn sockets(&self) -> io::Result<Vec<HandedSocket>> {
        let mut sockets = self
            .ndn
            .as_ref()
            .map_or(Ok(Vec::new()), |ndn| ndn.sockets())?;
        if let Some(admin) = &self.admin {
            sockets.push(HandedSocket {
                role: Role::Admin,
                descriptor: admin.socket()?.into(),
                owns_file: false,
            });
        }
        for socket in self.http.as_deref().map_or(Ok(Vec::new()), Http::sockets)? {
            let descriptor = match socket.socket {
                ListenSocket::Tcp(listener) => OwnedFd::from(listener),
                ListenSocket::Unix(listener) => OwnedFd::from(listener),
            };
            let role = Role::of_http(socket.kind);
            sockets.push(HandedSocket {
                role,
                descriptor,
                owns_file: socket.owns_file,
            });
        }
        let udp = self.http.as_deref().map(Http::udp_sockets).transpose()?;
        let udp = udp.unwrap_or_default();
        // Without them, the new process serves no HTTP/3, and says so.
        if sockets.len() + udp.len() <= limits::UPGRADE_DESCRIPTORS {
            sockets.extend(udp.into_iter().map(|socket| HandedSocket {
                role: Role::Http3,
                descriptor: socket.into(),
                owns_file: false,
            }));
        }
        Ok(sockets)
    }

    /// Leaves to the new process what only one process can have.
    pub(super) fn release(&mut self) {
        let Some(successor) = &self.successor else {
            return;
        };
        self.is_released = true;
        self.set_handed_over(true);
        self.console.leave_history();
        if let Some(fleet) = &mut self.fleet {
            fleet.hand_over();
        }
        if let Some(http) = &self.http {
            http.release_disk();
        }
        if let Some(ndn) = &self.ndn {
            ndn.handle.set_listening(false);
        }
        successor.released();
    }

    fn set_handed_over(&self, is_handed_over: bool) {
        if let Some(purging) = &self.purging {
            purging.set_handed_over(is_handed_over);
        }
    }

    /// Goes on after the new process has failed.
    pub(super) fn go_on(&mut self, reason: &str) {
        let Some(successor) = self.successor.take() else {
            return;
        };
        let pid = successor.pid();
        tracing::error!(pid, reason, "the upgrade has failed: this process goes on");
        if let Some(reply) = self.upgrade_reply.take() {
            reply.send(Err(format!("no upgrade, the process goes on: {reason}")));
        }
        if !std::mem::take(&mut self.is_released) {
            return;
        }
        self.console.take_back_history();
        if let Some(http) = &self.http {
            http.take_back_disk();
        }
        if let Err(error) = self.follow_fleet() {
            tracing::error!(%error, "the node does not follow its fleet any more");
        }
        if let Some(ndn) = &self.ndn {
            ndn.handle.set_listening(true);
        }
        // Purges of the disk tiers have an effect again.
        self.set_handed_over(false);
        if self.has_disk {
            tracing::error!(
                "its disk tier was closed for the upgrade, and is emptied: this process goes on without it until the \
                 next start or upgrade"
            );
        }
    }

    /// Leaves the listeners to the new process, finishes the requests in progress, and ends.
    /// Returns the node if the new process has ended meanwhile.
    pub(super) fn leave(mut self, child: Child) -> Option<Node> {
        let successor = self.successor.as_ref()?;
        if let Err(reason) = successor.yours(child) {
            self.go_on(&reason);
            return Some(self);
        }
        let successor = self.successor.take()?;
        if let Some(reply) = self.upgrade_reply.take() {
            reply.send(Ok(json!({ "pid": successor.pid() })));
        }
        supervisor::main_process_is(successor.pid());
        for signal in &self.signals_to_repeat {
            successor.signal(*signal);
        }
        if let Some(ndn) = &mut self.ndn {
            ndn.leave_files();
        }
        if let Some(http) = &self.http {
            http.drain();
        }
        self.admin.iter().for_each(Admin::drain);
        tracing::info!(
            pid = successor.pid(),
            "upgraded: this process finishes its requests, and ends"
        );
        // Requests may wait for HTTP over NDN. Otherwise applications connect to the new process
        // as soon as they can.
        if self.ingress.is_some() {
            self.finish_http(&successor);
            self.stop_ndn();
        } else {
            self.stop_ndn();
            self.finish_http(&successor);
        }
        self.admin.into_iter().for_each(Admin::stop);
        None
    }

    fn stop_ndn(&mut self) {
        if let Some(ingress) = self.ingress.take() {
            ingress.into_stopping().stop();
        }
        if let Some(egress) = self.egress.take() {
            egress.into_stopping().stop();
        }
        if let Some(ndn) = self.ndn.take() {
            ndn.into_stopping().stop();
        }
    }

    /// Waits until the last connection has ended, within the time for requests in progress. A
    /// signal to stop closes the idle ones at once.
    fn finish_http(&mut self, successor: &Successor) {
        let Some(http) = self.http.take().map(Part::into_stopping) else {
            return;
        };
        let end = Instant::now() + http.shutdown_time();
        while !http.is_idle() && Instant::now() + limits::DRAIN_REST < end {
            if http.has_left_udp() {
                successor.left_udp();
            }
            match self.next_events.recv_timeout(limits::DRAIN_LOOK) {
                Ok(Event::Signal(SIGTERM | SIGINT)) => break,
                Ok(Event::Signal(SIGUSR1)) => http.reopen_access_log(),
                _ => {}
            }
        }
        http.stop_within(end.saturating_duration_since(Instant::now()));
    }
}
