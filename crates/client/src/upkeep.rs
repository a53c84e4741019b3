//! The upkeep of a connection: after the node has closed it, the client connects again, and repeats
//! the commands whose effect the node has forgotten.
//!
//! An **outage** begins when the connection breaks, or when the node does not answer a repeated
//! command. It ends when the node has answered every one of them; without any, when the connection
//! is made (over UDP, when a packet comes). Meanwhile packets to send are discarded, because nobody
//! knows what the node still has of them.
//!
//! A Unix socket tells the end of the node. UDP does not, and TCP does not if the node's machine
//! fails, so there the commands are repeated every [`limits::REFRESH`]: a node that has restarted,
//! or that has destroyed a face after ten silent minutes, gets them again.

use crate::commands::{refusal, unreadable};
use crate::error::ClientError;
use crate::limits;
use larder_packet::{ControlParameters, ControlResponse, Data, Interest, Name, NameRef};
use larder_units::Time;
use std::time::Duration;

/// The outage of a client, and its repeated commands.
pub(super) struct Upkeep {
    /// The longest outage before it is an error.
    pub(super) patience: Duration,
    pub(super) outage: Option<Outage>,
    commands: Vec<Repeated>,
    /// Commands that wait for an answer.
    waiting: usize,
    refused: Option<ClientError>,
    /// The wait before the next attempt to connect.
    pause: Duration,
    connected_at: Time,
}

/// A time without a usable connection.
pub(super) struct Outage {
    /// The event that began it.
    pub(super) error: ClientError,
    since: Time,
    /// The time of the next attempt; `None` while there is a connection.
    pub(super) next_attempt: Option<Time>,
}

/// A command that the node gets again after an outage.
struct Repeated {
    command: &'static str,
    parameters: ControlParameters,
    /// The name of it in messages.
    what: String,
    state: State,
}

enum State {
    /// The node has answered. `None` if only an outage makes it due.
    Answered {
        next: Option<Time>,
    },
    Due {
        tries: usize,
    },
    /// It waits for the answer to this name.
    Sent {
        name: Name,
        until: Time,
        tries: usize,
    },
}

impl Upkeep {
    pub(super) fn new() -> Self {
        Upkeep {
            patience: limits::OUTAGE,
            outage: None,
            commands: Vec::new(),
            waiting: 0,
            refused: None,
            pause: limits::FIRST_PAUSE,
            connected_at: Time::ZERO,
        }
    }

    /// Repeats a command that the node has just executed, from `next` on.
    pub(super) fn repeat(
        &mut self,
        command: &'static str,
        parameters: ControlParameters,
        what: String,
        next: Option<Time>,
    ) {
        self.commands
            .retain(|old| old.command != command || old.parameters != parameters);
        self.commands.push(Repeated {
            command,
            parameters,
            what,
            state: State::Answered { next },
        });
    }

    /// Begins an outage, or goes on with it.
    pub(super) fn lose(&mut self, now: Time, error: ClientError) {
        // A node that closes each new connection at once is not asked more and more often.
        self.pause = if now.since(self.connected_at) > limits::LONGEST_PAUSE {
            limits::FIRST_PAUSE
        } else {
            (self.pause * 2).min(limits::LONGEST_PAUSE)
        };
        let since = self.outage.as_ref().map_or(now, |outage| outage.since);
        let error = self.outage.take().map_or(error, |outage| outage.error);
        self.outage = Some(Outage {
            error,
            since,
            next_attempt: Some(now + self.pause),
        });
        self.waiting = 0;
    }

    /// Records an attempt to connect that has failed.
    pub(super) fn failed(&mut self, now: Time) {
        self.pause = (self.pause * 2).min(limits::LONGEST_PAUSE);
        if let Some(outage) = &mut self.outage {
            outage.next_attempt = Some(now + self.pause);
        }
    }

    /// Records a new connection. `is_proof` if only a node can have accepted it.
    pub(super) fn connected(&mut self, now: Time, is_proof: bool) {
        self.connected_at = now;
        for command in &mut self.commands {
            command.state = State::Due { tries: 0 };
        }
        self.waiting = 0;
        if let Some(outage) = &mut self.outage {
            outage.next_attempt = None;
        }
        if is_proof && self.commands.is_empty() {
            self.outage = None;
        }
    }

    /// Records that a packet came.
    pub(super) fn heard(&mut self) {
        if self.commands.is_empty() {
            self.outage = None;
        }
    }

    /// Returns true during an outage without a connection.
    pub(super) fn is_cut_off(&self) -> bool {
        self.outage
            .as_ref()
            .is_some_and(|outage| outage.next_attempt.is_some())
    }

    /// Returns the error of an outage that is too long.
    pub(super) fn give_up(&mut self, now: Time) -> Option<ClientError> {
        let since = self.outage.as_ref()?.since;
        if now.since(since) < self.patience {
            return None;
        }
        self.outage.take().map(|outage| outage.error)
    }

    /// Returns the error of a command that the node has refused.
    pub(super) fn take_refusal(&mut self) -> Option<ClientError> {
        self.refused.take()
    }

    /// Calls `send` for each command that is due; it returns the name of the Interest.
    ///
    /// # Errors
    /// The node has not answered a command as often as it may.
    pub(super) fn send_due(
        &mut self,
        now: Time,
        mut send: impl FnMut(&str, &ControlParameters) -> Result<Name, ClientError>,
    ) -> Result<(), ClientError> {
        self.waiting = 0;
        for repeated in &mut self.commands {
            let tries = match &repeated.state {
                State::Answered { next } if next.is_some_and(|next| next <= now) => 0,
                State::Due { tries } => *tries,
                State::Sent { until, tries, .. } if *until <= now => *tries,
                State::Sent { .. } => {
                    self.waiting += 1;
                    continue;
                }
                State::Answered { .. } => continue,
            };
            if tries >= limits::MANAGEMENT_TRIES {
                repeated.state = State::Due { tries: 0 };
                return Err(ClientError::ManagementUnanswered {
                    what: repeated.what.clone(),
                });
            }
            let name = send(repeated.command, &repeated.parameters)?;
            repeated.state = State::Sent {
                name,
                until: now + limits::MANAGEMENT_LIFETIME,
                tries: tries + 1,
            };
            self.waiting += 1;
        }
        Ok(())
    }

    /// Returns the time at which this has something to do.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let attempt = self.outage.as_ref().and_then(|outage| outage.next_attempt);
        let end = self
            .outage
            .as_ref()
            .filter(|_| self.patience < Duration::MAX)
            .map(|outage| outage.since + self.patience);
        let mut earliest = attempt.into_iter().chain(end).min();
        if self.is_cut_off() {
            return earliest;
        }
        for repeated in &self.commands {
            let time = match &repeated.state {
                State::Answered { next } => *next,
                State::Due { .. } => Some(Time::ZERO),
                State::Sent { until, .. } => Some(*until),
            };
            earliest = earliest.into_iter().chain(time).min();
        }
        earliest
    }

    /// Returns the place of the repeated command that has this name, or a prefix of it.
    fn find(&self, answered: NameRef<'_>) -> Option<usize> {
        let is_of = |repeated: &Repeated| matches!(&repeated.state, State::Sent { name, .. } if answered.starts_with(name.as_name()));
        if self.waiting == 0 {
            None
        } else {
            self.commands.iter().position(is_of)
        }
    }

    /// Handles the answer to a repeated command. Returns false if it is none. `next` is the time to
    /// repeat it.
    pub(super) fn on_data(&mut self, data: &Data<'_>, next: Option<Time>) -> bool {
        let Some(at) = self.find(data.name) else {
            return false;
        };
        let repeated = &mut self.commands[at];
        repeated.state = State::Answered { next };
        self.waiting -= 1;
        match ControlResponse::decode(data.content) {
            Ok(response) if response.status_code == 200 => {}
            Ok(response) => self.refused = Some(refusal(&repeated.what, &response)),
            Err(error) => self.refused = Some(unreadable(&repeated.what, &error)),
        }
        if self
            .commands
            .iter()
            .all(|command| matches!(command.state, State::Answered { .. }))
        {
            self.outage = None;
        }
        true
    }

    /// Handles a Nack for a repeated command: a node that starts may not have its management yet.
    /// Returns false if it is none.
    pub(super) fn on_nack(&mut self, now: Time, interest: &Interest<'_>) -> bool {
        let Some(at) = self.find(interest.name) else {
            return false;
        };
        if let State::Sent { until, .. } = &mut self.commands[at].state {
            *until = (*until).min(now + limits::LONGEST_PAUSE);
        }
        true
    }
}
