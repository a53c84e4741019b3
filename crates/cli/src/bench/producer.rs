//! The producer: a thread that answers every Interest under its prefix with a prepared Data.
//!
//! The Data differ only in their names, which end in a number of eight bytes. They are signed with
//! SignatureNull (packet specification 0.3, "Null Signature"). Forwarders check no signatures, and
//! one signature per packet would measure SHA-256.

use crate::connection::broken;
use crate::failure::Failure;
use larder_client::{Client, Received};
use larder_packet::{Data, DataBuilder, Name, NameRef, SignError, Signer};
use larder_transfer::limits::MAX_PACKET_BYTES;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The bytes of the last component, which is the number of the name.
pub const NUMBER_BYTES: usize = 8;

/// The interval at which the producer checks whether to end.
const LOOK: Duration = Duration::from_millis(20);

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
    thread: JoinHandle<Result<(), Failure>>,
    stop: Arc<AtomicBool>,
}

impl Producer {
    /// Registers the prefix if there is a forwarder, and starts to answer.
    pub fn start(
        mut client: Client,
        prefix: &Name,
        content_bytes: usize,
        register: bool,
    ) -> Result<Self, Failure> {
        if register {
            client.register(prefix).map_err(broken)?;
        }
        let data = packet(prefix, content_bytes)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let prefix = prefix.clone();
        let thread = std::thread::Builder::new()
            .name("producer".to_owned())
            .spawn(move || serve(client, &prefix, data, &stopped))
            .map_err(|error| {
                Failure::runtime(format!("cannot start the producer's thread: {error}"))
            })?;
        Ok(Producer { thread, stop })
    }

    /// Ends the thread. An error is the reason why it ended before.
    pub fn stop(self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(Failure::runtime("the producer's thread panicked")))
    }
}

fn serve(
    mut client: Client,
    prefix: &Name,
    mut data: Vec<u8>,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let decoded = Data::decode(&data).map_err(|error| Failure::runtime(error.to_string()))?;
    let name = decoded.name_range();
    let number = name.end - NUMBER_BYTES..name.end;
    while !stop.load(Ordering::Relaxed) {
        let deadline = client.now() + LOOK;
        client
            .receive(Some(deadline), |_, received, output| {
                let Received::Interest {
                    interest, token, ..
                } = received
                else {
                    return;
                };
                let asked = interest.name.as_bytes();
                if asked.len() != name.len() || !interest.name.starts_with(prefix.as_name()) {
                    return;
                }
                data[number.clone()].copy_from_slice(&asked[asked.len() - NUMBER_BYTES..]);
                output.send(token, |out| out.extend_from_slice(&data));
            })
            .map_err(broken)?;
    }
    Ok(())
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
