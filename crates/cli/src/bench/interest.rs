//! An Interest that is written once: only the number at the end of its name and its nonce change.

use super::producer::NUMBER_BYTES;
use crate::failure::Failure;
use larder_client::Client;
use larder_packet::{Interest, InterestBuilder, Name};
use larder_units::Stream;
use std::time::Duration;

/// InterestLifetime, and the time to wait for an answer.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// The prepared Interest.
pub struct PreparedInterest {
    bytes: Vec<u8>,
    number_at: usize,
    nonce_at: usize,
    nonces: Stream,
}

impl PreparedInterest {
    /// Prepares an Interest for names of this prefix and a number.
    pub fn new(client: &Client, prefix: &Name) -> Result<Self, Failure> {
        let mut name = prefix.clone();
        name.push_generic(&[0; NUMBER_BYTES]);
        let nonce = 0x6265_6e63_u32;
        let bytes = InterestBuilder::new(name)
            .nonce(nonce)
            .lifetime(PATIENCE)
            .build();
        let decoded =
            Interest::decode(&bytes).map_err(|error| Failure::runtime(error.to_string()))?;
        let number_at = decoded.name_range().end - NUMBER_BYTES;
        // The name does not extend beyond its end, and the nonce is the first element after it.
        let nonce_at = decoded.name_range().end + 2;
        Ok(PreparedInterest {
            bytes,
            number_at,
            nonce_at,
            nonces: client.random_stream("nonces"),
        })
    }

    /// Sends it for this number.
    pub fn send(&mut self, client: &mut Client, number: u64) {
        self.bytes[self.number_at..self.number_at + NUMBER_BYTES]
            .copy_from_slice(&number.to_be_bytes());
        let nonce = (self.nonces.bits() as u32).to_be_bytes();
        self.bytes[self.nonce_at..self.nonce_at + 4].copy_from_slice(&nonce);
        client
            .output()
            .send(None, |out| out.extend_from_slice(&self.bytes));
    }
}
