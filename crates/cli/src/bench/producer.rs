//! The producer: a thread that answers every Interest under its prefix with prepared Data.
//!
//! The Data differ only in their names, which end in a number of eight bytes. They are signed with
//! SignatureNull (packet specification 0.3, "Null Signature"). Forwarders check no signatures, and
//! one signature per packet would measure SHA-256.

use crate::connection::broken;
use crate::failure::Failure;
use larder_client::{Client, Received};
use larder_packet::{Data, DataBuilder, Name, NameRef, SignError, Signer};
use larder_transfer::limits::MAX_PACKET_BYTES;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The bytes of the last component, which is the number of the name.
pub const NUMBER_BYTES: usize = 8;

/// The interval at which the producer checks whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// The content of the Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// So many bytes.
    Fixed(usize),
    /// As many as the number of the name says.
    Named,
}

/// The bits of a number for the content's bytes, and for which Data it is.
const SIZE_BITS: u32 = 16;
const ID_BITS: u32 = 64 - SIZE_BITS;

impl Content {
    /// Returns the number of a name with this content: of at most 65,535 bytes.
    pub fn number(id: u64, bytes: u64) -> u64 {
        bytes.min(u64::from(u16::MAX)) << ID_BITS | id & ((1 << ID_BITS) - 1)
    }

    fn bytes(self, number: u64) -> usize {
        match self {
            Content::Fixed(bytes) => bytes,
            Content::Named => (number >> ID_BITS) as usize,
        }
    }
}

/// Returns the number at the end of a name.
pub fn number(name: NameRef<'_>) -> Option<u64> {
    Some(u64::from_be_bytes(
        *name.as_bytes().last_chunk::<NUMBER_BYTES>()?,
    ))
}

/// Checks that Data with this content fit a packet.
pub fn check_size(prefix: &Name, content_bytes: usize) -> Result<(), Failure> {
    let empty = packet(prefix, 0)?.len();
    // Room for the numbers of a process and a measurement, and twice for a length in three bytes
    // instead of one.
    let most = MAX_PACKET_BYTES.saturating_sub(empty + 30);
    if content_bytes <= most {
        Ok(())
    } else {
        Err(Failure::usage(format!(
            "--size {content_bytes}B: at most {most}B fit a packet"
        )))
    }
}

/// The running thread.
pub struct Producer {
    thread: JoinHandle<Result<Answered, Failure>>,
    stop: Arc<AtomicBool>,
}

/// What the producer has answered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answered {
    /// Interests.
    pub interests: u64,
    /// Bytes of their content.
    pub bytes: u64,
}

impl Producer {
    /// Registers the prefix if there is a forwarder, and starts to answer.
    pub fn start(
        mut client: Client,
        prefix: &Name,
        content: Content,
        register: bool,
    ) -> Result<Self, Failure> {
        if register {
            client.register(prefix).map_err(broken)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let prefix = prefix.clone();
        let thread = std::thread::Builder::new()
            .name("producer".to_owned())
            .spawn(move || serve(client, &prefix, content, &stopped))
            .map_err(|error| {
                Failure::runtime(format!("cannot start the producer's thread: {error}"))
            })?;
        Ok(Producer { thread, stop })
    }

    /// Ends the thread, and returns what it has answered. An error is the reason why it ended
    /// before.
    pub fn stop(self) -> Result<Answered, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(Failure::runtime("the producer's thread panicked")))
    }
}

fn serve(
    mut client: Client,
    prefix: &Name,
    content: Content,
    stop: &AtomicBool,
) -> Result<Answered, Failure> {
    let mut prepared: HashMap<usize, PreparedData> = HashMap::new();
    let (mut answered, mut failure) = (Answered::default(), None);
    if let Content::Fixed(bytes) = content {
        prepared.insert(bytes, PreparedData::new(prefix, bytes)?);
    }
    let name_bytes = prefix.as_name().as_bytes().len() + 2 + NUMBER_BYTES;
    while !stop.load(Ordering::Relaxed) && failure.is_none() {
        let deadline = client.now() + LOOK;
        client
            .receive(Some(deadline), |_, received, output| {
                let Received::Interest {
                    interest, token, ..
                } = received
                else {
                    return;
                };
                let asked = interest.name;
                if asked.as_bytes().len() != name_bytes || !asked.starts_with(prefix.as_name()) {
                    return;
                }
                let bytes = content.bytes(number(asked).unwrap_or_default());
                let data = match prepared.entry(bytes) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => match PreparedData::new(prefix, bytes) {
                        Ok(data) => new.insert(data),
                        Err(error) => return failure = Some(error),
                    },
                };
                answered.interests += 1;
                answered.bytes += bytes as u64;
                let data = data.of(asked);
                output.send(token, |out| out.extend_from_slice(data));
            })
            .map_err(broken)?;
    }
    failure.map_or(Ok(answered), Err)
}

/// Data whose name is written anew for each answer.
struct PreparedData {
    bytes: Vec<u8>,
    number: Range<usize>,
}

impl PreparedData {
    fn new(prefix: &Name, content_bytes: usize) -> Result<Self, Failure> {
        let bytes = packet(prefix, content_bytes)?;
        let decoded = Data::decode(&bytes).map_err(|error| Failure::runtime(error.to_string()))?;
        let end = decoded.name_range().end;
        Ok(PreparedData {
            bytes,
            number: end - NUMBER_BYTES..end,
        })
    }

    /// Returns the Data of this name.
    fn of(&mut self, name: NameRef<'_>) -> &[u8] {
        if let Some(number) = name.as_bytes().last_chunk::<NUMBER_BYTES>() {
            self.bytes[self.number.clone()].copy_from_slice(number);
        }
        &self.bytes
    }
}

fn packet(prefix: &Name, content_bytes: usize) -> Result<Vec<u8>, Failure> {
    let mut name = prefix.clone();
    name.push_generic(&[0; NUMBER_BYTES]);
    let content = vec![b'x'; content_bytes.min(MAX_PACKET_BYTES)];
    let data = DataBuilder::new(&name)
        .freshness(Duration::from_secs(3600))
        .content(&content);
    data.build(&Null)
        .map_err(|error| Failure::runtime(error.to_string()))
}

/// SignatureNull.
struct Null;

impl Signer for Null {
    fn signature_type(&self) -> u64 {
        200
    }

    fn key_locator(&self) -> Option<NameRef<'_>> {
        None
    }

    fn sign(&self, _: &[&[u8]]) -> Result<Vec<u8>, SignError> {
        Ok(Vec::new())
    }
}
