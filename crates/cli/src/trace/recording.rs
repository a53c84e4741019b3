//! A trace file being written. Its name determines format and compression, and the file appears
//! under its name only when it is complete.
//!
//! libCacheSim's format has for each request the time of the object's next request, which is known
//! only at the end. The records therefore go to a scratch file beside the destination (in the
//! folder of temporary files if that is standard output or a device). They get
//! their next accesses there from the end to the start, and are then copied to the destination.

use crate::destination::Destination;
use crate::failure::Failure;
use crate::interruption;
use crate::replay::progress::Progress;
use clap::Args;
use larder_replay::{
    Access, TraceWriter, WriteError, WriteFormat, WriteFormatError, link_next_accesses,
};
use larder_units::system_message;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

/// zstd's own default.
const ZSTD_LEVEL: i32 = 3;

/// The bytes gathered before they are compressed or written.
const BUFFER_BYTES: usize = 256 << 10;

/// The arguments that select the format.
#[derive(Args, Debug)]
pub struct OutputFormat {
    /// Format: oracle-general (libCacheSim's), text (webcachesim's `time id size`), csv,
    /// json-lines, parquet or numbers (ids only) [default: from the file's name: .oracleGeneral,
    /// .tr or .txt, .csv, .jsonl, .parquet, .trace, and .zst to compress]
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
}

impl OutputFormat {
    /// Returns true if the trace is written as Parquet.
    fn is_parquet(&self, path: &Path) -> bool {
        match &self.to {
            Some(format) => format == "parquet",
            None => path
                .extension()
                .is_some_and(|extension| extension.eq_ignore_ascii_case("parquet")),
        }
    }

    fn of(&self, name: &str) -> Result<WriteFormat, Failure> {
        match &self.to {
            Some(format) => format
                .parse()
                .map_err(|error: WriteFormatError| Failure::usage(format!("{error}, parquet"))),
            None => WriteFormat::of_name(name).ok_or_else(|| {
                let names = WriteFormat::NAMES.map(|(name, _)| name).join(", ");
                Failure::usage(format!(
                    "{name}: the name has no known ending; give --to with one of {names}, parquet"
                ))
            }),
        }
    }
}

/// Writes requests into a file.
pub struct Recording {
    name: String,
    writer: Writer,
}

enum Writer {
    #[cfg(feature = "parquet")]
    Parquet(Box<larder_parquet::ParquetWriter<BufWriter<Stream>>>),
    Direct(TraceWriter<BufWriter<Stream>>),
    Linked {
        scratch: TraceWriter<BufWriter<File>>,
        out: Stream,
    },
}

impl Recording {
    /// Opens the file. Nothing is written if this fails. At a signal, the program ends without the
    /// file.
    pub fn open(path: &Path, format: &OutputFormat) -> Result<Recording, Failure> {
        let (recording, part) = Recording::open_unwatched(path, format)?;
        if let Some(part) = part {
            interruption::give_up(part, recording.name.clone())?;
        }
        Ok(recording)
    }

    /// Opens the file. Nothing is written if this fails. Also returns the temporary file that has
    /// to be removed if the recording is given up.
    pub fn open_unwatched(
        path: &Path,
        format: &OutputFormat,
    ) -> Result<(Recording, Option<PathBuf>), Failure> {
        if format.is_parquet(path) {
            return Recording::parquet(path);
        }
        let format = format.of(&path.display().to_string())?;
        let name = shown(path);
        let out = Stream::open(path)?;
        let part = out.part();
        let failed = |error: io::Error| {
            Failure::runtime(format!("cannot write {name}: {}", system_message(&error)))
        };
        let writer = match format {
            WriteFormat::OracleGeneral => {
                let scratch = tempfile::tempfile_in(directory(path)).map_err(failed)?;
                let scratch = BufWriter::with_capacity(BUFFER_BYTES, scratch);
                Writer::Linked {
                    scratch: TraceWriter::new(scratch, format).map_err(failed)?,
                    out,
                }
            }
            _ => {
                let out = BufWriter::with_capacity(BUFFER_BYTES, out);
                Writer::Direct(TraceWriter::new(out, format).map_err(failed)?)
            }
        };
        Ok((Recording { name, writer }, part))
    }

    /// As [`Recording::open_unwatched`], for a Parquet file.
    #[cfg(feature = "parquet")]
    fn parquet(path: &Path) -> Result<(Recording, Option<PathBuf>), Failure> {
        let name = shown(path);
        if path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("zst"))
        {
            return Err(Failure::usage(format!(
                "{name}: Parquet files are compressed inside; leave out .zst"
            )));
        }
        let out = Stream::open(path)?;
        let part = out.part();
        let writer =
            larder_parquet::ParquetWriter::new(BufWriter::with_capacity(BUFFER_BYTES, out));
        let writer = writer.map_err(|error| parquet_failure(&name, &error))?;
        Ok((
            Recording {
                name,
                writer: Writer::Parquet(Box::new(writer)),
            },
            part,
        ))
    }

    #[cfg(not(feature = "parquet"))]
    fn parquet(path: &Path) -> Result<(Recording, Option<PathBuf>), Failure> {
        Err(Failure::usage(format!(
            "{}: this program was built without the feature `parquet`",
            shown(path)
        )))
    }

    /// Writes the next request.
    pub fn write(&mut self, access: &Access) -> Result<(), Failure> {
        let written = match &mut self.writer {
            #[cfg(feature = "parquet")]
            Writer::Parquet(writer) => {
                return writer
                    .write(access)
                    .map_err(|error| parquet_failure(&self.name, &error));
            }
            Writer::Direct(writer) => writer.write(access),
            Writer::Linked { scratch, .. } => scratch.write(access),
        };
        written.map_err(|error| match error {
            WriteError::Io(error) => self.failure(&error),
            WriteError::Unfit { .. } => Failure::usage(format!("{}, {error}", self.name)),
        })
    }

    /// Gives the complete file its name. Returns the number of requests.
    pub fn finish(self) -> Result<u64, Failure> {
        let name = self.name.clone();
        let failed = |error: io::Error| {
            Failure::runtime(format!("cannot write {name}: {}", system_message(&error)))
        };
        match self.writer {
            #[cfg(feature = "parquet")]
            Writer::Parquet(writer) => {
                let requests = writer.requests();
                let out = writer
                    .finish()
                    .map_err(|error| parquet_failure(&name, &error))?;
                out.into_inner()
                    .map_err(|error| failed(error.into_error()))?
                    .finish()
                    .map(|()| requests)
            }
            Writer::Direct(writer) => {
                let requests = writer.requests();
                let out = writer
                    .into_inner()
                    .into_inner()
                    .map_err(|error| failed(error.into_error()))?;
                out.finish().map(|()| requests)
            }
            Writer::Linked { scratch, mut out } => {
                let requests = scratch.requests();
                let mut scratch = scratch
                    .into_inner()
                    .into_inner()
                    .map_err(|error| failed(error.into_error()))?;
                let (progress, units, mut linked) =
                    (Progress::new(requests as f64), requests as f64, 0);
                link_next_accesses(&mut scratch, |records| {
                    linked += records;
                    progress.at("linking", &name, linked, Some(linked as f64 / units), units);
                })
                .map_err(failed)?;
                drop(progress);
                scratch
                    .rewind()
                    .and_then(|()| io::copy(&mut scratch, &mut out))
                    .map_err(failed)?;
                out.finish().map(|()| requests)
            }
        }
    }

    fn failure(&self, error: &io::Error) -> Failure {
        Failure::runtime(format!(
            "cannot write {}: {}",
            self.name,
            system_message(error)
        ))
    }
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") {
        "standard output".to_owned()
    } else {
        path.display().to_string()
    }
}

#[cfg(feature = "parquet")]
fn parquet_failure(name: &str, error: &larder_parquet::WriteError) -> Failure {
    match error {
        larder_parquet::WriteError::Io(error) => {
            Failure::runtime(format!("cannot write {name}: {}", system_message(error)))
        }
        larder_parquet::WriteError::Late { .. } => Failure::usage(format!("{name}, {error}")),
    }
}

/// Returns the folder of the scratch file for this destination.
fn directory(path: &Path) -> PathBuf {
    if path == Path::new("-") {
        // Standard output is in no folder, and the current one may not be writable.
        return std::env::temp_dir();
    }
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    match path.metadata() {
        // Another file cannot be created beside a device.
        Ok(file) if !file.is_file() => std::env::temp_dir(),
        _ => parent.unwrap_or(Path::new(".")).to_owned(),
    }
}

/// Bytes on their way to the destination.
enum Stream {
    Plain(Sink),
    Zstd(zstd::Encoder<'static, Sink>),
}

impl Stream {
    fn open(path: &Path) -> Result<Stream, Failure> {
        let sink = Sink(Destination::open(Some(path))?);
        if !path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("zst"))
        {
            return Ok(Stream::Plain(sink));
        }
        let encoder = zstd::Encoder::new(sink, ZSTD_LEVEL).and_then(|mut encoder| {
            encoder.include_checksum(true)?;
            Ok(encoder)
        });
        encoder
            .map(Stream::Zstd)
            .map_err(|error| Failure::runtime(format!("zstd: {error}")))
    }

    fn part(&self) -> Option<PathBuf> {
        match self {
            Stream::Plain(sink) => sink.0.part(),
            Stream::Zstd(encoder) => encoder.get_ref().0.part(),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        let sink = match self {
            Stream::Plain(sink) => sink,
            Stream::Zstd(encoder) => encoder
                .finish()
                .map_err(|error| Failure::runtime(system_message(&error)))?,
        };
        sink.0.finish().map(|_| ())
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(sink) => sink.write(bytes),
            Stream::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(sink) => sink.flush(),
            Stream::Zstd(encoder) => encoder.flush(),
        }
    }
}

/// A destination as a writer.
struct Sink(Destination);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        self.0.take_error().map_or(Ok(bytes.len()), Err)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
