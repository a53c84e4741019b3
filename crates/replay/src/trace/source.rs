//! Decompression, told by the first bytes.

use super::error::{Place, ReadError};
use crate::limits::{CHECKED_BYTES, MAX_XZ_MEMORY, MAX_ZSTD_WINDOW_LOG, SNIFFED_BYTES};
use flate2::bufread::MultiGzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use std::io::{self, BufRead, BufReader, Cursor, Read};

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
/// With the only method there is.
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];

/// A trace's bytes.
pub(super) struct Source {
    /// Decompressed; the first [`BufRead::fill_buf`] shows [`SNIFFED_BYTES`], or all if there are
    /// fewer.
    pub bytes: Box<dyn BufRead + Send>,
    is_compressed: bool,
}

/// The decompressed bytes.
pub(super) fn open(bytes: impl Read + Send + 'static) -> Result<Source, ReadError> {
    let failed = |error| ReadError::new(Place::File, said(&error));
    let (start, bytes) = start_of(bytes).map_err(|(_, error)| failed(error))?;
    let (compression, bytes): (_, Box<dyn Read + Send>) = if start.starts_with(&ZSTD) {
        let mut decoder = zstd::Decoder::with_buffer(bytes).map_err(failed)?;
        decoder.window_log_max(MAX_ZSTD_WINDOW_LOG).map_err(failed)?;
        ("zstd", Box::new(decoder))
    } else if start.starts_with(&XZ) {
        let stream = Stream::new_stream_decoder(MAX_XZ_MEMORY, CONCATENATED).map_err(|error| failed(error.into()))?;
        ("xz", Box::new(liblzma::bufread::XzDecoder::new_stream(bytes, stream)))
    } else if start.starts_with(&GZIP) {
        ("gzip", Box::new(MultiGzDecoder::new(bytes)))
    } else {
        return Ok(Source { bytes: Box::new(bytes), is_compressed: false });
    };
    let decompressed = start_of(Decompressed { bytes, compression });
    let (_, bytes) = decompressed.map_err(|(read, error)| ReadError::new(Place::Byte(read), said(&error)))?;
    Ok(Source { bytes: Box::new(bytes), is_compressed: true })
}

impl Source {
    /// What is wrong with compressed bytes, as far as some of them tell. For who would complain of
    /// something else, which is not the fault.
    pub fn check(&mut self) -> Result<(), ReadError> {
        let (mut read, mut buffer) = (0, vec![0; SNIFFED_BYTES]);
        while self.is_compressed && read < CHECKED_BYTES {
            match self.bytes.read(&mut buffer) {
                Ok(0) => break,
                Ok(more) => read += more as u64,
                Err(error) => return Err(ReadError::new(Place::Byte(read), said(&error))),
            }
        }
        Ok(())
    }
}

/// Says in an error what the compression's library leaves to be guessed.
struct Decompressed<R> {
    bytes: R,
    compression: &'static str,
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let compression = self.compression;
        self.bytes.read(buffer).map_err(|error| match error.kind() {
            // The file's, not the decoder's.
            _ if error.raw_os_error().is_some() => error,
            kind @ io::ErrorKind::UnexpectedEof => io::Error::new(
                kind,
                format!("the {compression} data ends early: the file is cut short, or other bytes follow it"),
            ),
            kind => {
                let problem = format!("the {compression} data is damaged, or something else follows it ({error})");
                io::Error::new(kind, problem)
            }
        })
    }
}

/// What went wrong with reading, for people.
pub(super) fn said(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

/// The first bytes, and a reader that gives them again; or how many there were before the error.
fn start_of(mut bytes: impl Read + Send) -> Result<(Vec<u8>, impl BufRead + Send), (u64, io::Error)> {
    let mut start = Vec::with_capacity(SNIFFED_BYTES);
    let read = bytes.by_ref().take(SNIFFED_BYTES as u64).read_to_end(&mut start);
    read.map_err(|error| (start.len() as u64, error))?;
    let again = Cursor::new(start.clone()).chain(BufReader::with_capacity(64 << 10, bytes));
    Ok((start, again))
}
