//! `larder ping-server`: answers Interests of ping clients, as ndnpingserver does.

use crate::connection::{CommandKeyArgs, broken, connect, receive};
use crate::failure::Failure;
use crate::output::line;
use clap::Args;
use larder_client::Received;
use larder_packet::{DataBuilder, DigestSigner, Interest, Name};
use larder_transfer::limits::MAX_PACKET_BYTES;
use std::time::Duration;

/// ndnpingserver's default: an answer is fresh for a second.
const FRESHNESS: Duration = Duration::from_secs(1);

/// Answer pings under a prefix, until interrupted
///
/// Answers PREFIX/ping/ANYTHING with Data of that name, for `larder ping` and ndnping. If the node
/// ends, the command waits for it, and registers again.
#[derive(Args, Debug)]
pub struct PingServerArgs {
    /// The prefix to register
    prefix: Name,

    /// Bytes of content in each answer
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    size: usize,

    #[command(flatten)]
    command_key: CommandKeyArgs,
}

/// Answers until SIGINT or SIGTERM.
pub fn run(args: PingServerArgs) -> Result<(), Failure> {
    let content = vec![b'a'; args.size.min(MAX_PACKET_BYTES)];
    let mut prefix = args.prefix.clone();
    prefix.push_generic(b"ping");
    let mut longest = prefix.clone();
    // The largest sequence number that a ping can have.
    longest.push_generic(u64::MAX.to_string().as_bytes());
    let largest = answer(&longest, &content)?.len();
    if largest > MAX_PACKET_BYTES || args.size > MAX_PACKET_BYTES {
        let room = MAX_PACKET_BYTES.saturating_sub(largest - content.len());
        return Err(Failure::usage(format!(
            "--size: at most {room} bytes fit a packet with this prefix"
        )));
    }

    let mut client = connect(Duration::MAX)?;
    args.command_key.apply(&mut client)?;
    client.register(&args.prefix).map_err(broken)?;
    line!("PING SERVER {}; Ctrl-C ends it", args.prefix);
    let (mut answered, mut others) = (0u64, 0u64);
    while !client.interrupted() {
        receive(&mut client, None, |_, received, output| {
            let Received::Interest {
                interest, token, ..
            } = received
            else {
                return;
            };
            if !is_ping(&interest, &prefix) {
                others += 1;
                return;
            }
            let data = DataBuilder::new(interest.name)
                .freshness(FRESHNESS)
                .content(&content);
            if output
                .send(token, |out| data.build_into(&DigestSigner, out))
                .is_ok()
            {
                answered += 1;
            }
        })?;
    }
    client.flush(Duration::from_secs(1)).map_err(broken)?;
    line!("\n--- {} ping server statistics ---", args.prefix);
    line!("{answered} pings answered, {others} other Interests left alone");
    Ok(())
}

fn answer(name: &Name, content: &[u8]) -> Result<Vec<u8>, Failure> {
    let data = DataBuilder::new(name)
        .freshness(FRESHNESS)
        .content(content)
        .build(&DigestSigner);
    data.map_err(|error| Failure::runtime(error.to_string()))
}

fn is_ping(interest: &Interest<'_>, prefix: &Name) -> bool {
    let (name, digest) = interest.name.strip_implicit_digest();
    digest.is_none()
        && name.starts_with(prefix.as_name())
        && name.component_count() > prefix.as_name().component_count()
}
