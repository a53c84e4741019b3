//! The streams of a client of HTTP/3: arbitrary bytes give the same frames in one piece and in
//! many, no field section is above its limit, and no request is malformed.

#![no_main]

use bytes::Bytes;
use larder_http3::frames::{Frame, RequestFrames};
use larder_http3::signals::{ControlFrames, Signals};
use larder_http3::{Violation, head};

const MOST: usize = 1000;

/// Head, body and trailers, and how the stream ends.
fn read(bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, Result<(), Violation>) {
    let mut frames = RequestFrames::new(MOST);
    let mut found = vec![Vec::new(); 3];
    for piece in bytes.chunks(piece) {
        let mut input = Bytes::copy_from_slice(piece);
        loop {
            match frames.read(&mut input) {
                Ok(Some(Frame::Head(section))) => found[0].extend_from_slice(&section),
                Ok(Some(Frame::Data(data))) => found[1].extend_from_slice(&data),
                Ok(Some(Frame::Trailers(section))) => found[2].extend_from_slice(&section),
                Ok(None) => break,
                Err(violation) => return (found, Err(violation)),
            }
        }
    }
    let end = frames.end();
    (found, end)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let whole = read(bytes, bytes.len().max(1));
    assert_eq!(read(bytes, 3), whole);
    let (found, _) = whole;
    assert!(found[0].len() <= MOST && found[2].len() <= MOST);
    if let Ok(parts) = head::read(&found[0], MOST) {
        let values = parts.headers.values();
        let bytes: usize = values.map(|value| value.len() + 32).sum();
        assert!(bytes <= MOST);
        let has_line = |value: &http::HeaderValue| value.as_bytes().contains(&b'\n');
        assert!(!parts.headers.values().any(has_line));
    }
    let _ = head::read_trailers(&found[2], MOST);
    for mut signals in [
        Signals::Control(ControlFrames::default()),
        Signals::Encoder,
        Signals::Decoder { is_within: false },
    ] {
        let _ = signals.read(&mut Bytes::copy_from_slice(bytes));
    }
});
