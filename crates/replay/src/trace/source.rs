//! Decompression, told by the first bytes.

use crate::limits::{MAX_XZ_MEMORY, MAX_ZSTD_WINDOW_LOG, SNIFFED_BYTES};
use liblzma::stream::{CONCATENATED, Stream};
use std::io::{self, BufRead, BufReader, Cursor, Read};

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];

/// The decompressed bytes; the first [`BufRead::fill_buf`] shows [`SNIFFED_BYTES`], or all if there are fewer.
pub(super) fn open(bytes: impl Read + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    let (start, bytes) = start_of(bytes)?;
    let decompressed: Box<dyn Read + Send> = if start.starts_with(&ZSTD) {
        let mut decoder = zstd::Decoder::with_buffer(BufReader::new(bytes))?;
        decoder.window_log_max(MAX_ZSTD_WINDOW_LOG)?;
        Box::new(decoder)
    } else if start.starts_with(&XZ) {
        let stream = Stream::new_stream_decoder(MAX_XZ_MEMORY, CONCATENATED).map_err(io::Error::other)?;
        Box::new(liblzma::read::XzDecoder::new_stream(bytes, stream))
    } else {
        Box::new(bytes)
    };
    let (start, rest) = start_of(decompressed)?;
    drop(start);
    Ok(Box::new(rest))
}

/// What went wrong with reading, for people: a compressed trace that ends too early, or the system's own words.
pub(super) fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the compressed data is cut short".to_owned(),
        _ => error.to_string().split(" (os error").next().unwrap_or_default().to_owned(),
    }
}

/// The first bytes, and a reader that gives them again.
fn start_of(mut bytes: impl Read + Send) -> io::Result<(Vec<u8>, impl BufRead + Send)> {
    let mut start = Vec::with_capacity(SNIFFED_BYTES);
    bytes.by_ref().take(SNIFFED_BYTES as u64).read_to_end(&mut start)?;
    let again = Cursor::new(start.clone()).chain(BufReader::with_capacity(64 << 10, bytes));
    Ok((start, again))
}
