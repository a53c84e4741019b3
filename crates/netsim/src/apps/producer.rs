//! The producer: answers every Interest at once, with Data of one size.

use crate::app::{App, Received, Sends};
use larder_packet::{DataBuilder, Interest, Name, NameRef, SignError, Signer};
use larder_units::Time;
use std::time::Duration;

/// SignatureNull (NDN packet specification 0.3, "SignatureNull"). Simulated Data needs no
/// signature, and hashing would take most of the time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsigned;

/// The SignatureType of SignatureNull.
const SIGNATURE_NULL: u64 = 200;

impl Signer for Unsigned {
    fn signature_type(&self) -> u64 {
        SIGNATURE_NULL
    }

    fn key_locator(&self) -> Option<NameRef<'_>> {
        None
    }

    fn sign(&self, _: &[&[u8]]) -> Result<Vec<u8>, SignError> {
        Ok(Vec::new())
    }
}

/// The size of a Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Bytes of content, without name and signature (ndnSIM's PayloadSize).
    Content(usize),
    /// Bytes of the whole packet. If no content gives exactly this size, the packet has one byte
    /// less.
    Packet(usize),
}

/// The configuration of a [`Producer`].
#[derive(Clone, Copy, Debug)]
pub struct ProducerConfig {
    /// The size of its Data.
    pub payload: Payload,
    /// The FreshnessPeriod. `None` leaves it out.
    pub freshness: Option<Duration>,
}

impl Default for ProducerConfig {
    /// ndnSIM's 1024 bytes of content.
    fn default() -> Self {
        ProducerConfig {
            payload: Payload::Content(1024),
            freshness: None,
        }
    }
}

/// A producer.
pub struct Producer {
    config: ProducerConfig,
    content: Vec<u8>,
    /// Bytes of the last Data without its content.
    overhead: usize,
    interests: u64,
}

impl Producer {
    /// Creates a producer.
    pub fn new(config: ProducerConfig) -> Self {
        let (Payload::Content(most) | Payload::Packet(most)) = config.payload;
        Producer {
            config,
            content: vec![0; most],
            overhead: 0,
            interests: 0,
        }
    }

    /// Returns the bytes of a Data without content for the first Interest under `prefix`.
    pub fn least_packet(prefix: &Name, freshness: Option<Duration>) -> usize {
        let mut name = prefix.clone();
        name.push_sequence(0);
        let config = ProducerConfig {
            payload: Payload::Content(0),
            freshness,
        };
        Producer::new(config).answer(name.as_name()).len()
    }

    /// The number of answered Interests.
    pub fn interests(&self) -> u64 {
        self.interests
    }

    fn data(&self, name: NameRef<'_>, content: usize) -> Vec<u8> {
        let data = DataBuilder::new(name).content(&self.content[..content.min(self.content.len())]);
        let data = match self.config.freshness {
            Some(freshness) => data.freshness(freshness),
            None => data,
        };
        // `Unsigned` never fails.
        data.build(&Unsigned).unwrap_or_default()
    }

    fn answer(&mut self, name: NameRef<'_>) -> Vec<u8> {
        let whole = match self.config.payload {
            Payload::Content(bytes) => return self.data(name, bytes),
            Payload::Packet(bytes) => bytes,
        };
        // Names and length fields differ by a byte or two, so the last overhead is mostly right.
        let mut data = Vec::new();
        for _ in 0..3 {
            let content = whole.saturating_sub(self.overhead);
            data = self.data(name, content);
            if data.len() == whole || content == 0 {
                break;
            }
            self.overhead = data.len() - content;
        }
        data
    }
}

impl App for Producer {
    fn next_timer(&self) -> Option<Time> {
        None
    }

    fn on_timer(&mut self, _: Time, _: &mut Sends) {}

    fn on_packet(&mut self, _: Time, packet: &Received<'_>, sends: &mut Sends) {
        if packet.header.nack.is_none()
            && let Ok(interest) = Interest::decode(packet.packet)
        {
            self.interests += 1;
            let data = self.answer(interest.name);
            sends.push(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_packet::Data;

    #[test]
    fn data_has_the_size_that_was_asked_for() {
        for whole in [200, 300, 1250, 5000, 160_000] {
            let mut producer = Producer::new(ProducerConfig {
                payload: Payload::Packet(whole),
                freshness: None,
            });
            for number in [1, 300, 70_000] {
                let mut name: Name = "/a/b".parse().unwrap();
                name.push_sequence(number);
                let data = producer.answer(name.as_name());
                assert_eq!(data.len(), whole, "{number}");
                assert!(Data::decode(&data).is_ok());
            }
        }
    }
}
