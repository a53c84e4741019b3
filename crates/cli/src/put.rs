//! `larder put`: serves a file as a segmented object.

use crate::connection::{CommandKeyArgs, broken, connect, receive};
use crate::failure::Failure;
use crate::numbers::count;
use crate::output::line;
use clap::Args;
use larder_client::Received;
use larder_packet::{
    Certificate, CertificateError, CertificateServer, DigestSigner, Name, Signer, SystemRandom,
    certified_signer, self_signed, signer_from_pem,
};
use larder_transfer::{
    PublishError, PublishOptions, PublishStats, Publisher, Source, Stamp, limits,
};
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

    /// Name of the key: the name of its owner, KEY, and any last component. A self-signed
    /// certificate of this name is served too, for consumers that validate [default:
    /// NAME/KEY/larder]
    #[arg(long, value_name = "NAME", requires = "key")]
    key_name: Option<Name>,

    /// Serve this certificate of the key in place of a self-signed one (base64, as `ndnsec
    /// cert-dump` writes it), and those of its issuers that follow after empty lines
    #[arg(
        long,
        value_name = "FILE.ndncert",
        requires = "key",
        conflicts_with = "key_name"
    )]
    certificate: Option<PathBuf>,

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
    let identity = Identity::of(&args)?;
    let certificates = identity.certificates;
    let mut publisher = publisher(&args, identity.signer)?;
    let mut client = connect(Duration::MAX)?;
    args.command_key.apply(&mut client)?;
    client.register(&args.name).map_err(broken)?;
    for key_name in certificates
        .key_names()
        .filter(|key| !key.starts_with(args.name.as_name()))
    {
        client.register(&key_name.to_name()).map_err(broken)?;
    }
    announce(&args, &publisher, identity.certificate_name.as_ref());
    let mut failed = None;
    while failed.is_none() && !client.interrupted() {
        receive(&mut client, None, |_, received, output| {
            let Received::Interest {
                interest, token, ..
            } = received
            else {
                return;
            };
            if let Some(certificate) = certificates.answer(&interest) {
                output.send(token, |out| out.extend_from_slice(certificate));
                return;
            }
            if let Err(error) = output.send(token, |out| publisher.on_interest(&interest, out)) {
                failed.get_or_insert(error);
            }
        })?;
    }
    client.flush(Duration::from_secs(1)).map_err(broken)?;
    report(&args, publisher.stats());
    match failed {
        Some(error) => Err(Failure::runtime(format!(
            "{}: {error}",
            args.file.display()
        ))),
        None => Ok(()),
    }
}

fn publisher(args: &PutArgs, signer: Box<dyn Signer>) -> Result<Publisher<OpenFile>, Failure> {
    let file = open(&args.file)?;
    let version = args.version.unwrap_or_else(|| {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
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
    Publisher::new(args.name.clone(), version, OpenFile(file), signer, options).map_err(|error| {
        match error {
            PublishError::SegmentSize { .. } => Failure::usage(format!("--segment-size: {error}")),
            PublishError::ManifestTooLarge { .. } => Failure::usage(format!("--manifest: {error}")),
            error => Failure::runtime(format!("{}: {error}", args.file.display())),
        }
    })
}

fn largest_packet(text: &str) -> Result<usize, String> {
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    let range = limits::MAX_PACKET_BYTES..=limits::LARGEST_PACKET_BYTES;
    let bytes = usize::try_from(size.bytes())
        .ok()
        .filter(|bytes| range.contains(bytes));
    bytes.ok_or_else(|| format!("{size} are not between 8800B, which every node takes, and 64KiB"))
}

fn open(path: &Path) -> Result<File, Failure> {
    let failed = |error: io::Error| {
        Failure::runtime(format!(
            "cannot read {}: {}",
            path.display(),
            system_message(&error)
        ))
    };
    if path == Path::new("-") {
        // Segments are read many times, but standard input only once.
        let mut spool = tempfile::tempfile().map_err(failed)?;
        io::copy(&mut io::stdin().lock(), &mut spool).map_err(failed)?;
        return Ok(spool);
    }
    let file = File::open(path).map_err(|error| {
        Failure::usage(format!(
            "cannot read {}: {}",
            path.display(),
            system_message(&error)
        ))
    })?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Failure::usage(format!(
            "{} is not a regular file; pipe it into `larder put NAME -`",
            path.display()
        )));
    }
    Ok(file)
}

/// What signs the packets, and the certificates that others validate them with.
struct Identity {
    signer: Box<dyn Signer>,
    certificates: CertificateServer,
    certificate_name: Option<Name>,
}

impl Identity {
    fn of(args: &PutArgs) -> Result<Identity, Failure> {
        let Some(path) = &args.key else {
            let certificates = CertificateServer::default();
            return Ok(Identity {
                signer: Box::new(DigestSigner),
                certificates,
                certificate_name: None,
            });
        };
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::usage(format!("--key {}: {error}", path.display()))
        };
        let pem = std::fs::read_to_string(path).map_err(|error| wrong(&system_message(&error)))?;
        let random = SystemRandom::new();
        let Some(file) = &args.certificate else {
            let key_name = key_name(args);
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs());
            // It may have the object's name as a prefix. A consumer that looks for the newest
            // segment by this prefix must not get it from a cache.
            let freshness = limits::METADATA_FRESHNESS;
            let certificate = self_signed(&pem, &key_name, now, freshness, &random).map_err(|error| match error {
                CertificateError::NotACertificate => Failure::usage(format!(
                    "--key-name {key_name}: the name of a key ends in /KEY/IDENTIFIER, as in /alice/KEY/1"
                )),
                error => wrong(&error),
            })?;
            let signer = signer_from_pem(&pem, key_name, &random).map_err(|error| wrong(&error))?;
            return Identity::new(signer, vec![certificate]).map_err(|error| wrong(&error));
        };
        let bad = |error: &dyn std::fmt::Display| {
            Failure::usage(format!("--certificate {}: {error}", file.display()))
        };
        let text = std::fs::read_to_string(file).map_err(|error| bad(&system_message(&error)))?;
        let wires = Certificate::bundle_from_base64(&text).map_err(|error| bad(&error))?;
        let first = wires.first().map(Vec::as_slice).unwrap_or_default();
        let certificate = Certificate::decode(first).map_err(|error| bad(&error))?;
        let signer =
            certified_signer(&pem, &certificate, &random).map_err(|error| wrong(&error))?;
        Identity::new(signer, wires).map_err(|error| bad(&error))
    }

    /// The first of the certificates is that of the signer.
    fn new(signer: Box<dyn Signer>, wires: Vec<Vec<u8>>) -> Result<Identity, CertificateError> {
        let first = wires.first().map(Vec::as_slice).unwrap_or_default();
        let certificate_name = Some(Certificate::decode(first)?.name().clone());
        Ok(Identity {
            signer,
            certificates: CertificateServer::new(wires)?,
            certificate_name,
        })
    }
}

fn key_name(args: &PutArgs) -> Name {
    args.key_name.clone().unwrap_or_else(|| {
        let mut name = args.name.clone();
        name.push_generic(b"KEY").push_generic(b"larder");
        name
    })
}

/// An open file. A rename that puts another file in its place does not change it.
struct OpenFile(File);

impl Source for OpenFile {
    fn stamp(&mut self) -> io::Result<Stamp> {
        let metadata = self.0.metadata()?;
        let modified = metadata
            .modified()?
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let modified_ns = u64::try_from(modified.as_nanos()).unwrap_or(u64::MAX);
        Ok(Stamp {
            size_bytes: metadata.len(),
            modified_ns,
        })
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }
}

fn announce(args: &PutArgs, publisher: &Publisher<OpenFile>, certificate: Option<&Name>) {
    let (name, bytes, segments) = (
        publisher.versioned_name(),
        publisher.size_bytes(),
        publisher.last_segment() + 1,
    );
    if args.json {
        let mut object =
            json!({ "serving": name.to_string(), "bytes": bytes, "segments": segments });
        if let Some(certificate) = certificate {
            object["certificate"] = certificate.to_string().into();
        }
        line!("{object}");
    } else {
        line!("serving {name}: {bytes} bytes in {segments} segments; Ctrl-C ends it");
        if let Some(certificate) = certificate {
            line!("its key has the certificate {certificate}");
        }
        if args.largest_packet > limits::MAX_PACKET_BYTES {
            let bytes = args.largest_packet;
            line!(
                "every node on the way needs `[ndn] largest_packet = \"{bytes}\"` or more: one that has not drops the segments"
            );
        }
    }
}

fn report(args: &PutArgs, stats: &PublishStats) {
    let PublishStats {
        segments,
        bytes,
        metadata,
        manifest,
        past_end,
        not_ours,
    } = *stats;
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
