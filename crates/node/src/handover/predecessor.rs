//! The new process's side: what it inherits, and what it says to the process that it replaces.

use super::channel::Channel;
use super::{HandoverError, VARIABLE};
use crate::inherited::{Inherited, Role};
use std::os::fd::AsFd;

/// The process that this one has replaced, while it finishes its requests.
pub(crate) struct Predecessor(Channel);

impl Predecessor {
    /// Waits until it has left its UDP sockets, or has ended.
    pub(crate) fn await_udp(self) {
        while let Ok(Some(_)) = self.0.receive() {}
    }
}

/// What a starting process gets from others: listening sockets of systemd, or of the process that
/// it replaces.
#[derive(Default)]
pub struct Handover {
    pub(crate) sockets: Inherited,
    predecessor: Option<Channel>,
}

impl Handover {
    /// Returns what this process gets by its environment. Call it once, before the process opens
    /// anything.
    ///
    /// # Errors
    /// The process that is to be replaced has ended, or `LISTEN_FDS` is malformed.
    pub fn of_process() -> Result<Handover, HandoverError> {
        if let Ok(predecessor) = std::env::var(VARIABLE) {
            let parent =
                rustix::process::getppid().map(|parent| parent.as_raw_nonzero().to_string());
            // Another parent: the one that is to be replaced has ended.
            return if parent == Some(predecessor) {
                Handover::of_predecessor()
            } else {
                Err(HandoverError::Gone)
            };
        }
        let sockets = Inherited::of_service_manager().map_err(HandoverError::ListenFds)?;
        Ok(Handover {
            sockets,
            predecessor: None,
        })
    }

    fn of_predecessor() -> Result<Handover, HandoverError> {
        let end = std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map_err(HandoverError::Pass)?;
        let channel = Channel::new(end);
        let (lines, descriptors) = channel
            .receive()
            .map_err(HandoverError::Pass)?
            .ok_or(HandoverError::Gone)?;
        let mut sockets = Inherited::default();
        for (line, descriptor) in lines.lines().zip(descriptors) {
            let mut words = line.split(' ');
            let role = words.next().and_then(Role::parse);
            // A role that only the other version knows: the socket has an address all the same.
            let _ = sockets.add(descriptor, role, words.any(|word| word == "file"));
        }
        Ok(Handover {
            sockets,
            predecessor: Some(channel),
        })
    }

    /// Returns true if this process replaces another one.
    pub fn is_upgrade(&self) -> bool {
        self.predecessor.is_some()
    }

    /// Returns true if another process has passed sockets to this one: their addresses are in use.
    pub fn has_sockets(&self) -> bool {
        self.is_upgrade() || !self.sockets.is_empty()
    }

    /// Tells the process that is to be replaced that this one can start, and waits until it has
    /// left its disk tiers and its NDN listeners.
    pub(crate) fn await_release(&self) -> Result<(), HandoverError> {
        self.exchange("prepared", "released")
    }

    /// Tells it that this process accepts connections, and waits until it leaves everything, or has
    /// ended: nothing else serves then.
    pub(crate) fn take_over(&self) -> Result<(), HandoverError> {
        match self.exchange("ready", "yours") {
            Err(HandoverError::Gone) => Ok(()),
            answered => answered,
        }
    }

    fn exchange(&self, message: &str, answer: &str) -> Result<(), HandoverError> {
        let Some(channel) = &self.predecessor else {
            return Ok(());
        };
        channel.send(message).map_err(|_| HandoverError::Gone)?;
        match channel.receive() {
            Ok(Some((text, _))) if text == answer => Ok(()),
            Ok(Some((text, _))) if text == "stop" => Err(HandoverError::Stopping),
            _ => Err(HandoverError::Gone),
        }
    }

    /// Returns the process that was replaced, after [`Handover::take_over`].
    pub(crate) fn take_predecessor(&mut self) -> Option<Predecessor> {
        self.predecessor.take().map(Predecessor)
    }

    /// Tells the process that is to be replaced why this one does not start: it goes on, and logs
    /// the reason.
    pub fn fail(&self, reason: &str) {
        if let Some(channel) = &self.predecessor {
            let _ = channel.send(&format!(
                "failed {}",
                reason.lines().collect::<Vec<_>>().join("; ")
            ));
        }
    }
}
