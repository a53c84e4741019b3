//! Encoders of the content codings that a node adds to responses (RFC 9110 §8.4): `br`, `zstd` and
//! `gzip`, over the libraries brotli, zstd and flate2 with zlib-rs.
//!
//! An [`Encoder`] takes a body piece by piece and gives coded bytes out as they come; [`encode`]
//! codes a whole body. Neither reads nor writes anything else.
//!
//! The cost by coding and effort, in ratio and megabytes a second, is in the benchmark
//! (`cargo bench -p larder-content-coding`).
#![forbid(unsafe_code)]

pub use larder_http::ContentCoding;
use std::io::{self, Write};

/// The processor time that a coding may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// For one client, while it waits: gzip 4, brotli 4, zstd 3.
    Streaming,
    /// Once, for all later clients: gzip 6, brotli 5, zstd 9. Higher levels gain a few per cent for
    /// several times the time.
    Stored,
}

/// The window of encoders for one client, as a power of two in bytes: 256 KiB. It bounds the memory
/// of an encoder: at most 4 MiB with brotli, 1.3 MiB with zstd, and 80 KiB with gzip, which has a
/// window of 32 KiB.
const STREAMING_WINDOW: u32 = 18;

/// The window of brotli for stored forms: 4 MiB, its default. Decoders of browsers allow 16 MiB.
const STORED_WINDOW: u32 = 22;

/// Codes a body that comes in pieces.
pub struct Encoder(Inner);

enum Inner {
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
}

impl Encoder {
    /// Creates an encoder.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(coding: ContentCoding, effort: Effort) -> io::Result<Encoder> {
        let is_stored = effort == Effort::Stored;
        Ok(Encoder(match coding {
            ContentCoding::Brotli => {
                let (level, window) = if is_stored {
                    (5, STORED_WINDOW)
                } else {
                    (4, STREAMING_WINDOW)
                };
                // Its buffer is that of the output between two calls.
                let writer = brotli::CompressorWriter::new(Vec::new(), 4096, level, window);
                Inner::Brotli(Box::new(writer))
            }
            ContentCoding::Zstd => {
                let level = if is_stored { 9 } else { 3 };
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level)?;
                if !is_stored {
                    encoder.window_log(STREAMING_WINDOW)?;
                }
                Inner::Zstd(encoder)
            }
            ContentCoding::Gzip => {
                let level = flate2::Compression::new(if is_stored { 6 } else { 4 });
                Inner::Gzip(flate2::write::GzEncoder::new(Vec::new(), level))
            }
        }))
    }

    /// Codes a piece, and returns the coded bytes that are ready: often none.
    ///
    /// # Errors
    /// The library fails, which it does without memory.
    pub fn write(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        match &mut self.0 {
            Inner::Brotli(writer) => writer.write_all(piece)?,
            Inner::Zstd(encoder) => encoder.write_all(piece)?,
            Inner::Gzip(encoder) => encoder.write_all(piece)?,
        }
        Ok(self.take())
    }

    /// Returns coded bytes with which a client can read all pieces so far.
    ///
    /// # Errors
    /// As [`Encoder::write`].
    pub fn flush(&mut self) -> io::Result<Vec<u8>> {
        match &mut self.0 {
            Inner::Brotli(writer) => writer.flush()?,
            Inner::Zstd(encoder) => encoder.flush()?,
            Inner::Gzip(encoder) => encoder.flush()?,
        }
        Ok(self.take())
    }

    /// Returns the last coded bytes.
    ///
    /// # Errors
    /// As [`Encoder::write`].
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self.0 {
            Inner::Brotli(writer) => Ok(writer.into_inner()),
            Inner::Zstd(encoder) => encoder.finish(),
            Inner::Gzip(encoder) => encoder.finish(),
        }
    }

    fn take(&mut self) -> Vec<u8> {
        match &mut self.0 {
            Inner::Brotli(writer) => std::mem::take(writer.get_mut()),
            Inner::Zstd(encoder) => std::mem::take(encoder.get_mut()),
            Inner::Gzip(encoder) => std::mem::take(encoder.get_mut()),
        }
    }
}

/// Codes a whole body.
///
/// # Errors
/// As [`Encoder::write`].
pub fn encode(coding: ContentCoding, effort: Effort, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(coding, effort)?;
    let mut coded = encoder.write(body)?;
    coded.append(&mut encoder.finish()?);
    Ok(coded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    /// Decodes as much as there is, as a client does that has not got the end yet.
    fn decoded(coding: ContentCoding, coded: &[u8]) -> Vec<u8> {
        let mut reader: Box<dyn Read> = match coding {
            ContentCoding::Brotli => Box::new(brotli::Decompressor::new(coded, 4096)),
            ContentCoding::Zstd => Box::new(zstd::stream::read::Decoder::new(coded).unwrap()),
            ContentCoding::Gzip => Box::new(flate2::read::MultiGzDecoder::new(coded)),
        };
        let (mut all, mut piece) = (Vec::new(), [0; 1000]);
        while let Ok(read @ 1..) = reader.read(&mut piece) {
            all.extend_from_slice(&piece[..read]);
        }
        all
    }

    /// Failure: an encoder is used up to its end only by luck: the coded bytes of small bodies come
    /// out, and those of large ones, of none, or after a flush do not.
    #[test]
    fn every_body_comes_back() {
        for coding in ContentCoding::ALL {
            for effort in [Effort::Streaming, Effort::Stored] {
                for length in [0, 1, 1000, 100_000, 3_000_000] {
                    let body: Vec<u8> = (0..length as u32)
                        .flat_map(|at| (at / 7 % 251).to_le_bytes())
                        .collect();
                    let coded = encode(coding, effort, &body).unwrap();
                    assert!(
                        decoded(coding, &coded) == body,
                        "{coding:?} {effort:?} {length}"
                    );
                    assert!(length < 1000 || coded.len() < body.len() / 2, "{coding:?}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Failure: a client waits for bytes that the origin has sent and the encoder keeps.
        #[test]
        fn what_was_flushed_can_be_read(
            pieces in proptest::collection::vec((proptest::collection::vec(0u8..8, 0..3000), any::<bool>()), 0..12),
            coding in proptest::sample::select(&ContentCoding::ALL[..]),
        ) {
            let mut encoder = Encoder::new(coding, Effort::Streaming).unwrap();
            let (mut sent, mut body) = (Vec::new(), Vec::new());
            for (piece, is_flushed) in pieces {
                sent.append(&mut encoder.write(&piece).unwrap());
                body.extend_from_slice(&piece);
                if is_flushed {
                    sent.append(&mut encoder.flush().unwrap());
                    prop_assert!(decoded(coding, &sent) == body);
                }
            }
            sent.append(&mut encoder.finish().unwrap());
            prop_assert!(decoded(coding, &sent) == body);
        }
    }
}
