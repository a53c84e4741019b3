//! `larder put`: serves a file as a segmented object.

use crate::connection::{CommandKeyArgs, broken, connect, receive};
use crate::failure::Failure;
use crate::numbers::count;
use crate::output::line;
use clap::Args;
use larder_client::Received;
use larder_packet::{DigestSigner, Name, Signer, SystemRandom, signer_from_pem};
use larder_transfer::{PublishError, PublishOptions, PublishStats, Publisher, Source, Stamp, limits};
use larder_units::{ByteSize, parse_duration, system_message};
use serde_json::json;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Serve a file under a name, until interrupted
///
/// Consumers request NAME/32=metadata to learn the version, then NAME/v=N/seg=0, 1, … (RDR, as
/// ndncatchunks, ndnget and `ndnd cat` do). If the file changes while it is served, the command
/// ends, so that no consumer receives a mixture. If the node ends, the command waits for it, and
/// registers again.
#[derive(Args, Debug)]
pub struct PutArgs {
    /// Name of the object, such as /home/video
    name: Name,

    /// The file; `-` is standard input, which is copied to a temporary file
    file: PathBuf,

    /// Bytes of content per segment [default: 800 less than the largest packet]
    #[arg(long, value_name = "SIZE")]
    segment_size: Option<ByteSize>,

    /// The largest packet that every node on the path accepts, up to 64KiB: its
    /// `[ndn] largest_packet`. Fewer and larger packets cost less work, but other NDN software
    /// accepts at most 8800 bytes
    #[arg(long, value_name = "SIZE", default_value = "8800", value_parser = largest_packet)]
    largest_packet: usize,

    /// Version number [default: milliseconds since 1970]
    #[arg(long, value_name = "N", value_parser = count)]
    version: Option<u64>,

    /// FreshnessPeriod of the segments
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    freshness: Duration,

    /// Sign with this Ed25519 or ECDSA P-256 key (PEM, PKCS#8:
    /// `openssl genpkey -algorithm ed25519`); otherwise a SHA-256 digest
    #[arg(long, value_name = "KEY.pem")]
    key: Option<PathBuf>,

    /// Name of the key in the packets [default: NAME/KEY/larder]
    #[arg(long, value_name = "NAME", requires = "key")]
    key_name: Option<Name>,

    /// Sign once for the whole file: segments carry digests, and the signed metadata leads to a
    /// manifest of them, which `larder get --trust` checks. The file is read once at the start
    #[arg(long, requires = "key")]
    manifest: bool,

    #[command(flatten)]
    command_key: CommandKeyArgs,

    /// Print JSON: one object when ready, one at the end
    #[arg(long)]
    json: bool,
}

/// Serves until SIGINT or SIGTERM.
pub fn run(args: PutArgs) -> Result<(), Failure> {
    let mut publisher = publisher(&args)?;
    let mut client = connect(Duration::MAX)?;
    args.command_key.apply(&mut client)?;
    client.register(&args.name).map_err(broken)?;
    announce(&args, &publisher);
    let mut failed = None;
    while failed.is_none() && !client.interrupted() {
        receive(&mut client, None, |_, received, output| {
            let Received::Interest { interest, token, .. } = received else { return };
            if let Err(error) = output.send(token, |out| publisher.on_interest(&interest, out)) {
                failed.get_or_insert(error);
            }
        })?;
    }
    client.flush(Duration::from_secs(1)).map_err(broken)?;
    report(&args, publisher.stats());
    match failed {
        Some(error) => Err(Failure::runtime(format!("{}: {error}", args.file.display()))),
        None => Ok(()),
    }
}

fn publisher(args: &PutArgs) -> Result<Publisher<OpenFile>, Failure> {
    let file = open(&args.file)?;
    let version = args.version.unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    });
    // A size that does not fit usize is larger than every packet. The publisher reports the limit.
    let segment_bytes = match args.segment_size {
        Some(size) => usize::try_from(size.bytes()).unwrap_or(usize::MAX),
        None => args.largest_packet - limits::SEGMENT_OVERHEAD_BYTES,
    };
    let options = PublishOptions {
        largest_packet: args.largest_packet,
        segment_bytes,
        freshness: args.freshness,
        manifest: args.manifest,
    };
    Publisher::new(args.name.clone(), version, OpenFile(file), signer(args)?, options).map_err(|error| match error {
        PublishError::SegmentSize { .. } => Failure::usage(format!("--segment-size: {error}")),
        PublishError::ManifestTooLarge { .. } => Failure::usage(format!("--manifest: {error}")),
        error => Failure::runtime(format!("{}: {error}", args.file.display())),
    })
}

fn largest_packet(text: &str) -> Result<usize, String> {
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    let range = limits::MAX_PACKET_BYTES..=limits::LARGEST_PACKET_BYTES;
    let bytes = usize::try_from(size.bytes()).ok().filter(|bytes| range.contains(bytes));
    bytes.ok_or_else(|| format!("{size} are not between 8800B, which every node takes, and 64KiB"))
}

fn open(path: &Path) -> Result<File, Failure> {
    let failed =
        |error: io::Error| Failure::runtime(format!("cannot read {}: {}", path.display(), system_message(&error)));
    if path == Path::new("-") {
        // Segments are read many times, but standard input only once.
        let mut spool = tempfile::tempfile().map_err(failed)?;
        io::copy(&mut io::stdin().lock(), &mut spool).map_err(failed)?;
        return Ok(spool);
    }
    let file = File::open(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {}", path.display(), system_message(&error))))?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Failure::usage(format!(
            "{} is not a regular file; pipe it into `larder put NAME -`",
            path.display()
        )));
    }
    Ok(file)
}

fn signer(args: &PutArgs) -> Result<Box<dyn Signer>, Failure> {
    let Some(path) = &args.key else { return Ok(Box::new(DigestSigner)) };
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("--key {}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&system_message(&error)))?;
    let key_name = args.key_name.clone().unwrap_or_else(|| {
        let mut name = args.name.clone();
        name.push_generic(b"KEY").push_generic(b"larder");
        name
    });
    signer_from_pem(&text, key_name, &SystemRandom::new()).map_err(|error| wrong(&error))
}

/// An open file. A rename that puts another file in its place does not change it.
struct OpenFile(File);

impl Source for OpenFile {
    fn stamp(&mut self) -> io::Result<Stamp> {
        let metadata = self.0.metadata()?;
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let modified_ns = u64::try_from(modified.as_nanos()).unwrap_or(u64::MAX);
        Ok(Stamp { size_bytes: metadata.len(), modified_ns })
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }
}

fn announce(args: &PutArgs, publisher: &Publisher<OpenFile>) {
    let (name, bytes, segments) = (publisher.versioned_name(), publisher.size_bytes(), publisher.last_segment() + 1);
    if args.json {
        line!("{}", json!({ "serving": name.to_string(), "bytes": bytes, "segments": segments }));
    } else {
        line!("serving {name}: {bytes} bytes in {segments} segments; Ctrl-C ends it");
        if args.largest_packet > limits::MAX_PACKET_BYTES {
            let bytes = args.largest_packet;
            line!(
                "every node on the way needs `[ndn] largest_packet = \"{bytes}\"` or more: one that has not drops the segments"
            );
        }
    }
}

fn report(args: &PutArgs, stats: &PublishStats) {
    let PublishStats { segments, bytes, metadata, manifest, past_end, not_ours } = *stats;
    if args.json {
        line!(
            "{}",
            json!({ "segments": segments, "bytes": bytes, "metadata": metadata, "manifest": manifest, "past_end": past_end, "not_ours": not_ours })
        );
    } else {
        line!(
            "served {segments} segments ({bytes} bytes) and {metadata} metadata; {past_end} Interests past the end, {not_ours} for other names"
        );
    }
}

const _: () = assert!(
    limits::SEGMENT_OVERHEAD_BYTES == 800
        && limits::MAX_PACKET_BYTES == 8800
        && limits::LARGEST_PACKET_BYTES == 64 << 10
        && limits::DEFAULT_FRESHNESS.as_secs() == 10,
    "as the help says"
);
