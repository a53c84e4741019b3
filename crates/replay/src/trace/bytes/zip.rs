//! The files of a zip archive, one after another, read as a stream: stored and deflated ones.
//! (PKWARE, APPNOTE.TXT 6.3, sections 4.3.7 and 4.3.9)

use flate2::bufread::DeflateDecoder;
use std::io::{self, BufRead, Read};

/// The signature of a file's header.
pub(super) const LOCAL_FILE: [u8; 4] = *b"PK\x03\x04";
const DATA_DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";

/// Bit 3 of the flags: the sizes follow the data.
const SIZES_FOLLOW: u16 = 1 << 3;
/// Bit 0 of the flags.
const IS_ENCRYPTED: u16 = 1;
/// The largest size in 32 bits; a larger one is in the extra field.
const ZIP64: u64 = u32::MAX as u64;

/// The bytes of all files of an archive.
pub(super) struct Reader<R> {
    state: State<R>,
    /// The last byte so far: a file of lines may end without a line break.
    last: Option<u8>,
}

enum State<R> {
    /// Before a header.
    Between(R),
    Stored(io::Take<R>),
    Deflated {
        decoder: DeflateDecoder<R>,
        /// True if a data descriptor follows.
        has_descriptor: bool,
        is_zip64: bool,
    },
    Ended,
}

impl<R: BufRead> Reader<R> {
    pub fn new(bytes: R) -> Reader<R> {
        Reader {
            state: State::Between(bytes),
            last: None,
        }
    }
}

impl<R: BufRead> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Ok(0),
                State::Between(bytes) => {
                    self.state = next_file(bytes)?;
                    let is_next = matches!(self.state, State::Stored(_) | State::Deflated { .. });
                    if is_next && self.last.is_some_and(|last| last != b'\n') {
                        self.last = Some(b'\n');
                        buffer[0] = b'\n';
                        return Ok(1);
                    }
                }
                State::Stored(mut bytes) => {
                    let read = bytes.read(buffer)?;
                    if read > 0 {
                        self.state = State::Stored(bytes);
                        self.last = Some(buffer[read - 1]);
                        return Ok(read);
                    }
                    if bytes.limit() > 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.state = State::Between(bytes.into_inner());
                }
                State::Deflated {
                    mut decoder,
                    has_descriptor,
                    is_zip64,
                } => {
                    let read = decoder.read(buffer)?;
                    if read > 0 {
                        self.state = State::Deflated {
                            decoder,
                            has_descriptor,
                            is_zip64,
                        };
                        self.last = Some(buffer[read - 1]);
                        return Ok(read);
                    }
                    let mut bytes = decoder.into_inner();
                    if has_descriptor {
                        skip_descriptor(&mut bytes, is_zip64)?;
                    }
                    self.state = State::Between(bytes);
                }
            }
        }
    }
}

/// Reads a header, and returns the state within its file. The central directory ends the files.
fn next_file<R: BufRead>(mut bytes: R) -> io::Result<State<R>> {
    let mut signature = [0; 4];
    if bytes.fill_buf()?.is_empty() {
        return Ok(State::Ended);
    }
    bytes.read_exact(&mut signature)?;
    if signature != LOCAL_FILE {
        return Ok(State::Ended);
    }
    let mut header = [0; 26];
    bytes.read_exact(&mut header)?;
    let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let size = u32::from_le_bytes([header[14], header[15], header[16], header[17]]);
    let (flags, method) = (half(2), half(4));
    let mut name = vec![0; usize::from(half(22))];
    bytes.read_exact(&mut name)?;
    let mut extra = vec![0; usize::from(half(24))];
    bytes.read_exact(&mut extra)?;
    let is_zip64 = extra.starts_with(&[1, 0]);
    let size = match u64::from(size) {
        // The extra field has the original size first.
        ZIP64 if is_zip64 => extra
            .get(12..20)
            .and_then(|size| size.try_into().ok())
            .map_or(ZIP64, u64::from_le_bytes),
        size => size,
    };
    if flags & IS_ENCRYPTED != 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a file of the archive is encrypted",
        ));
    }
    let has_descriptor = flags & SIZES_FOLLOW != 0;
    // Resource forks of macOS are no text.
    if name.starts_with(b"__MACOSX/") && !has_descriptor {
        io::copy(&mut bytes.by_ref().take(size), &mut io::sink())?;
        return Ok(State::Between(bytes));
    }
    match method {
        0 if !has_descriptor => Ok(State::Stored(bytes.take(size))),
        8 => Ok(State::Deflated {
            decoder: DeflateDecoder::new(bytes),
            has_descriptor,
            is_zip64,
        }),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a file of the archive is neither deflated nor stored",
        )),
    }
}

/// Passes over checksum and sizes, and a signature before them if there is one.
fn skip_descriptor(bytes: &mut impl BufRead, is_zip64: bool) -> io::Result<()> {
    let mut first = [0; 4];
    bytes.read_exact(&mut first)?;
    let sizes = if is_zip64 { 16 } else { 8 };
    let rest = if first == DATA_DESCRIPTOR {
        4 + sizes
    } else {
        sizes
    };
    let mut descriptor = [0; 20];
    bytes.read_exact(&mut descriptor[..rest])
}
