//! Management for applications: commands and datasets of the NFD management protocol, one at a
//! time.
//!
//! Packets that arrive meanwhile are kept for the next [`Client::receive`], up to 1 MiB; further
//! ones are dropped.

use super::{Client, ClientError, Endpoint, Output, Received, limits};
use crate::commands::{management_name, refusal, signed_command, unreadable};
use crate::entropy;
use larder_packet::types;
use larder_packet::{
    Component, ControlParameters, ControlResponse, Data, Interest, InterestBuilder, LpHeader,
    NackReason, Name, encode_lp,
};
use larder_units::Time;

/// The answer to an Interest.
enum Answer {
    /// The Data, as bytes.
    Data(Vec<u8>),
    Nack(NackReason),
    /// None, or a signal ended the wait.
    Silence,
}

impl Client {
    /// Asks the forwarder for Interests under `prefix` (`rib/register`). Packets that arrive
    /// meanwhile are kept for the next [`Client::receive`], up to 1 MiB.
    ///
    /// # Errors
    /// The forwarder refuses, does not answer, or the connection breaks.
    pub fn register(&mut self, prefix: &Name) -> Result<(), ClientError> {
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            origin: Some(0),
            cost: Some(0),
            flags: Some(1), // CHILD_INHERIT
            ..ControlParameters::default()
        };
        self.keep_up_command(
            "rib/register",
            parameters,
            format!("registration of {prefix}"),
        )
    }

    /// Asks the forwarder to name the face of each Interest (NDNLPv2 IncomingFaceId;
    /// `faces/update`).
    ///
    /// # Errors
    /// The forwarder refuses, does not answer, or the connection breaks.
    pub fn learn_incoming_faces(&mut self) -> Result<(), ClientError> {
        let flags = Some(larder_packet::types::nfd::FLAG_LOCAL_FIELDS);
        let parameters = ControlParameters {
            flags,
            mask: flags,
            ..ControlParameters::default()
        };
        self.keep_up_command("faces/update", parameters, "faces/update".to_owned())
    }

    /// Sends a command that must succeed, and repeats it after an outage. `what` is its name in
    /// messages.
    fn keep_up_command(
        &mut self,
        command: &'static str,
        parameters: ControlParameters,
        what: String,
    ) -> Result<(), ClientError> {
        let response = self
            .command(command, &parameters)
            .map_err(|error| match error {
                ClientError::ManagementUnanswered { .. } => {
                    ClientError::ManagementUnanswered { what: what.clone() }
                }
                ClientError::ManagementRefused { reason, .. } => ClientError::ManagementRefused {
                    what: what.clone(),
                    reason,
                },
                other => other,
            })?;
        if response.status_code != 200 {
            return Err(refusal(&what, &response));
        }
        let next = self.next_refresh(self.now());
        self.upkeep.repeat(command, parameters, what, next);
        Ok(())
    }

    /// Returns the time to repeat a command that has just been answered; `None` if the end of the
    /// connection tells in any case that the node has forgotten it.
    pub(super) fn next_refresh(&self, now: Time) -> Option<Time> {
        match self.transport.endpoint {
            Endpoint::Unix(_) => None,
            Endpoint::Tcp(_) | Endpoint::Udp(_) => Some(now + limits::REFRESH),
        }
    }

    /// Sends a command, such as `rib/register`, signed by the key of
    /// [`Client::sign_commands`].
    ///
    /// # Errors
    /// The forwarder does not answer, has no management, or the connection breaks. A refusal is a
    /// response with its status code.
    pub fn command(
        &mut self,
        command: &str,
        parameters: &ControlParameters,
    ) -> Result<ControlResponse, ClientError> {
        for _ in 0..limits::MANAGEMENT_TRIES {
            let signer = self.signer.as_ref();
            let (_, wire) = signed_command(signer, self.socket.is_local(), command, parameters)?;
            match self.ask(&wire)? {
                Answer::Data(data) => {
                    let response =
                        Data::decode(&data).and_then(|data| ControlResponse::decode(data.content));
                    return response.map_err(|error| unreadable(command, &error));
                }
                Answer::Nack(reason) => return Err(no_management(command, reason)),
                Answer::Silence if self.interrupted() => break,
                Answer::Silence => {}
            }
        }
        Err(ClientError::ManagementUnanswered {
            what: command.to_owned(),
        })
    }

    /// Returns the content of a dataset, such as `faces/list`. `argument` is the last component of
    /// its name, if it has one.
    ///
    /// # Errors
    /// The forwarder does not answer, has no such dataset, or the connection breaks.
    pub fn dataset(
        &mut self,
        dataset: &str,
        argument: Option<&[u8]>,
    ) -> Result<Vec<u8>, ClientError> {
        let mut name = self.management_name(dataset);
        if let Some(argument) = argument {
            _ = name.push_generic(argument);
        }
        let first = self.segment(dataset, &name, true)?;
        let decoded = Data::decode(&first).map_err(|error| unreadable(dataset, &error))?;
        if decoded.content_type == Some(types::CONTENT_NACK) {
            let reason = ControlResponse::decode(decoded.content)
                .map_or("refused".to_owned(), |response| {
                    format!("{} {}", response.status_code, response.status_text)
                });
            return Err(ClientError::ManagementRefused {
                what: dataset.to_owned(),
                reason,
            });
        }
        let versioned = decoded.name.without_last().to_name();
        let last = decoded
            .final_block_id
            .and_then(|last: Component<'_>| last.as_segment())
            .unwrap_or(0);
        let mut content = decoded.content.to_vec();
        for number in 1..=last {
            let mut name = versioned.clone();
            name.push_segment(number);
            let segment = self.segment(dataset, &name, false)?;
            let segment = Data::decode(&segment).map_err(|error| unreadable(dataset, &error))?;
            content.extend_from_slice(segment.content);
            if content.len() > limits::DATASET_BYTES || segment.content.is_empty() {
                let reason = format!(
                    "a segment is empty, or it has more than {} bytes",
                    limits::DATASET_BYTES
                );
                return Err(ClientError::ManagementRefused {
                    what: dataset.to_owned(),
                    reason,
                });
            }
        }
        Ok(content)
    }

    fn segment(
        &mut self,
        dataset: &str,
        name: &Name,
        by_prefix: bool,
    ) -> Result<Vec<u8>, ClientError> {
        for _ in 0..limits::MANAGEMENT_TRIES {
            let [nonce] = entropy::words();
            let interest = InterestBuilder::new(name)
                .can_be_prefix(by_prefix)
                .must_be_fresh(by_prefix);
            let wire = interest
                .nonce(nonce as u32)
                .lifetime(limits::MANAGEMENT_LIFETIME)
                .build();
            match self.ask(&wire)? {
                Answer::Data(data) => return Ok(data),
                Answer::Nack(reason) => return Err(no_management(dataset, reason)),
                Answer::Silence if self.interrupted() => break,
                Answer::Silence => {}
            }
        }
        Err(ClientError::ManagementUnanswered {
            what: dataset.to_owned(),
        })
    }

    /// Sends an Interest and waits for its answer.
    fn ask(&mut self, wire: &[u8]) -> Result<Answer, ClientError> {
        self.output.send(None, |out| out.extend_from_slice(wire));
        let asked = Interest::decode(wire)
            .map(|interest| interest.name.to_name())
            .unwrap_or_default();
        let deadline = self.now() + limits::MANAGEMENT_LIFETIME;
        let mut answer = Answer::Silence;
        // Packets that are kept already are not for this request.
        let mut kept = std::mem::take(&mut self.kept);
        let mut kept_bytes: usize = kept.iter().map(Vec::len).sum();
        let mut result = Ok(());
        while result.is_ok()
            && matches!(answer, Answer::Silence)
            && self.now() < deadline
            && !self.interrupted()
        {
            // One at a time: an Interest right after the answer is for the application.
            result =
                self.receive_at_most(
                    1,
                    Some(deadline),
                    |_, received, _: &mut Output| match received {
                        Received::Data { data, .. } if data.name.starts_with(asked.as_name()) => {
                            answer = Answer::Data(data.wire.to_vec());
                        }
                        Received::Nack { interest, reason } if interest.name == asked.as_name() => {
                            answer = Answer::Nack(reason);
                        }
                        other => {
                            let frame = frame_of(&other);
                            kept_bytes += frame.len();
                            if kept_bytes <= limits::KEPT_BYTES {
                                kept.push_back(frame);
                            }
                        }
                    },
                );
        }
        self.kept = kept;
        result.map(|()| answer)
    }

    fn management_name(&self, what: &str) -> Name {
        management_name(self.socket.is_local(), what)
    }
}

/// Returns a packet as it can arrive.
fn frame_of(received: &Received<'_>) -> Vec<u8> {
    let (header, packet) = match received {
        Received::Interest {
            interest,
            token,
            incoming_face,
        } => (
            LpHeader {
                pit_token: *token,
                incoming_face: *incoming_face,
                ..LpHeader::default()
            },
            interest.wire,
        ),
        Received::Data {
            data,
            marked,
            granted_rate,
        } => {
            let congestion_mark = marked.then_some(1);
            (
                LpHeader {
                    congestion_mark,
                    interest_rate: *granted_rate,
                    ..LpHeader::default()
                },
                data.wire,
            )
        }
        Received::Nack { interest, reason } => (
            LpHeader {
                nack: Some(*reason),
                ..LpHeader::default()
            },
            interest.wire,
        ),
    };
    let mut frame = Vec::with_capacity(packet.len());
    encode_lp(&header, packet, &mut frame);
    frame
}

fn no_management(what: &str, reason: NackReason) -> ClientError {
    ClientError::ManagementRefused {
        what: what.to_owned(),
        reason: format!("no management here (Nack {reason})"),
    }
}
