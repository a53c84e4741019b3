//! The bytes of a trace: decompression, which the first bytes select, and texts in UTF-16.

mod counted;
mod utf16;
mod zip;

pub(super) use counted::Counted;

use crate::limits::{MAX_XZ_MEMORY_BYTES, MAX_ZSTD_WINDOW_LOG, SNIFFED_BYTES};
use crate::trace::error::{Place, ReadError};
use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::{Arc, OnceLock};

/// Bytes of a compressed trace of no known format that are decompressed to find damage: about a
/// second of work.
const CHECKED_BYTES: u64 = 64 << 20;

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
/// The magic number, with the only method that exists.
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
const BZIP2: [u8; 3] = *b"BZh";

/// A remark on the bytes, which is there when they are read.
pub(super) type Remark = Arc<OnceLock<String>>;

/// The bytes of a trace.
pub(super) struct Source {
    /// The decompressed bytes. The first [`BufRead::fill_buf`] returns [`SNIFFED_BYTES`], or all if
    /// there are fewer.
    pub bytes: Box<dyn BufRead + Send>,
    pub is_compressed: bool,
    /// What is wrong with compressed bytes of which a part was read.
    pub remark: Remark,
}

/// Opens a trace. With `is_lenient`, damaged compressed bytes end the trace with a remark, if
/// something was read before.
pub(super) fn open(
    bytes: impl Read + Send + 'static,
    is_lenient: bool,
) -> Result<Source, ReadError> {
    let failed = |error: io::Error| ReadError::new(Place::File, error);
    let (start, bytes) = start_of(bytes).map_err(|(_, error)| failed(error))?;
    let remark = Remark::default();
    let (compression, bytes): (_, Box<dyn Read + Send>) = if start.starts_with(&ZSTD) {
        let mut decoder = zstd::Decoder::with_buffer(bytes).map_err(failed)?;
        decoder
            .window_log_max(MAX_ZSTD_WINDOW_LOG)
            .map_err(failed)?;
        ("zstd", Box::new(decoder))
    } else if start.starts_with(&XZ) {
        let stream = Stream::new_stream_decoder(MAX_XZ_MEMORY_BYTES, CONCATENATED)
            .map_err(|error| failed(error.into()))?;
        (
            "xz",
            Box::new(liblzma::bufread::XzDecoder::new_stream(bytes, stream)),
        )
    } else if start.starts_with(&GZIP) {
        ("gzip", Box::new(MultiGzDecoder::new(bytes)))
    } else if start.starts_with(&BZIP2) && matches!(start.get(3), Some(b'1'..=b'9')) {
        ("bzip2", Box::new(MultiBzDecoder::new(bytes)))
    } else if start.starts_with(&zip::LOCAL_FILE) {
        ("zip", Box::new(zip::Reader::new(bytes)))
    } else if let Some(order) = utf16::order_of(&start) {
        return Ok(Source {
            bytes: sniffed(utf16::Reader::new(bytes, order)).map_err(|(_, error)| failed(error))?,
            is_compressed: true,
            remark,
        });
    } else {
        return Ok(Source {
            bytes: Box::new(bytes),
            is_compressed: false,
            remark,
        });
    };
    let decompressed = Decompressed {
        bytes,
        compression,
        is_lenient,
        read: 0,
        remark: remark.clone(),
    };
    let at = |(read, error)| ReadError::new(Place::Byte(read), error);
    let (start, bytes) = start_of(decompressed).map_err(at)?;
    let bytes: Box<dyn BufRead + Send> = match utf16::order_of(&start) {
        Some(order) => sniffed(utf16::Reader::new(bytes, order)).map_err(at)?,
        None => Box::new(bytes),
    };
    Ok(Source {
        bytes,
        is_compressed: true,
        remark,
    })
}

/// Returns a reader whose first buffer is as long as [`Source::bytes`] says.
fn sniffed(bytes: impl Read + Send + 'static) -> Result<Box<dyn BufRead + Send>, (u64, io::Error)> {
    let (_, bytes) = start_of(bytes)?;
    Ok(Box::new(bytes))
}

impl Source {
    /// Returns the error of damaged compressed bytes, of which it decompresses at most
    /// [`CHECKED_BYTES`]. So damage is not reported as an unknown format.
    pub fn check(&mut self) -> Result<(), ReadError> {
        let (mut read, mut buffer) = (0, vec![0; SNIFFED_BYTES]);
        while self.is_compressed && read < CHECKED_BYTES {
            match self.bytes.read(&mut buffer) {
                Ok(0) => break,
                Ok(more) => read += more as u64,
                Err(error) => return Err(ReadError::new(Place::Byte(read), error)),
            }
        }
        Ok(())
    }
}

/// Explains the errors of a compression's library.
struct Decompressed<R> {
    bytes: R,
    compression: &'static str,
    is_lenient: bool,
    read: u64,
    remark: Remark,
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.remark.get().is_some() {
            return Ok(0);
        }
        let compression = self.compression;
        let read = self.bytes.read(buffer).map_err(|error| match error.kind() {
            // The error is the file's, not the decoder's.
            _ if error.raw_os_error().is_some() => error,
            kind @ io::ErrorKind::UnexpectedEof => io::Error::new(
                kind,
                format!("the {compression} data ends early: the file is cut short, or other bytes follow it"),
            ),
            kind => {
                let problem = format!("the {compression} data is damaged, or something else follows it ({error})");
                io::Error::new(kind, problem)
            }
        });
        match read {
            Err(error) if self.is_lenient && self.read > 0 && error.raw_os_error().is_none() => {
                // The remark is set once, because nothing is read after it.
                let _ = self
                    .remark
                    .set(format!("{error}; what could be read of it counts"));
                Ok(0)
            }
            Err(error) => Err(error),
            Ok(read) => {
                self.read += read as u64;
                Ok(read)
            }
        }
    }
}

/// Returns the first bytes, and a reader that returns them again. An error comes with the number of
/// bytes before it.
fn start_of(
    mut bytes: impl Read + Send,
) -> Result<(Vec<u8>, impl BufRead + Send), (u64, io::Error)> {
    let mut start = Vec::with_capacity(SNIFFED_BYTES);
    let read = bytes
        .by_ref()
        .take(SNIFFED_BYTES as u64)
        .read_to_end(&mut start);
    read.map_err(|error| (start.len() as u64, error))?;
    let again = Cursor::new(start.clone()).chain(BufReader::with_capacity(64 << 10, bytes));
    Ok((start, again))
}
