//! Finds the boundaries of a client's messages, beside hyper, to refuse messages that can be read
//! in two ways and that hyper would accept: a `Content-Length` together with a `Transfer-Encoding`
//! (RFC 9112 §6.1 treats this as an error), either of them twice, and lines that end with a bare LF
//! (§2.2 allows to recognize them, but not every server does, which makes request smuggling
//! possible).
//!
//! hyper drops a length beside a coding before this code could ask for it. So the bytes are
//! inspected on their way to hyper, and the byte that makes a message ambiguous is replaced by NUL,
//! which no head may contain: hyper answers 400 and closes the connection (as §2.2 and §5 demand).
//! It never sees the bytes after that: the stream ends there. Only a head gets its end first,
//! because hyper would otherwise not parse a head that came in pieces, and close without the 400.
//! Nothing follows trailers, so that an upload with such trailers does not end as a complete one,
//! however hyper treats that byte. This module judges nothing else: hyper refuses by itself what is
//! no HTTP, and then the result here does not matter.
//!
//! After a head without a body that asks for another protocol, nothing passes until that is decided
//! (`upgrade.rs`): what follows is HTTP only if the protocol stays.
//!
//! A target may have bytes that hyper refuses and other servers accept. They are percent-encoded
//! before hyper gets them.
//!
//! Costs a search for LF per line, and nothing for the bytes of bodies. 64 bytes per connection.

use memchr::memchr;

/// The state of one connection.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    at: At,
    line: Line,
    /// The number of complete heads.
    heads: u64,
    /// True after a head has asked for another protocol.
    asked_upgrade: bool,
    /// True if the present head asks for another protocol.
    asks_upgrade: bool,
    /// True if the next byte has to be encoded before it is inspected.
    awaits_encoding: bool,
}

#[derive(Debug, Default)]
enum At {
    /// Before a request line. Empty lines do not count (RFC 9112 §2.2).
    #[default]
    Start,
    /// In a head, with the framing of its body so far.
    Fields(Option<Said>),
    /// Within a body, or a chunk with its line end, of so many bytes.
    Skip(u64, After),
    /// In the line before a chunk.
    Size(u64),
    Trailers,
    /// After a head that asks for another protocol.
    Undecided,
    /// After a refusal; true while hyper has to get the end of the head in which it was.
    Refused(bool),
}

/// The declared framing of a body.
#[derive(Clone, Copy, Debug)]
enum Said {
    Length(u64),
    Chunked,
}

#[derive(Clone, Copy, Debug)]
enum After {
    Body,
    Chunk,
}

/// The current line.
#[derive(Debug, Default)]
struct Line {
    /// Its start, in lower case.
    start: [u8; LONGEST],
    bytes: usize,
    ends_in_cr: bool,
    /// True while digits count: those of a length, or of a chunk's size until another character.
    counts: bool,
    /// The number of spaces. The target of a request stands behind the first one.
    spaces: usize,
}

const LENGTH: &[u8] = b"content-length:";
const CODING: &[u8] = b"transfer-encoding:";
const UPGRADE: &[u8] = b"upgrade:";
const LONGEST: usize = CODING.len();

impl Framing {
    /// Returns the number of complete heads.
    pub(crate) fn heads(&self) -> u64 {
        self.heads
    }

    /// Returns true after a head has asked for another protocol.
    pub(crate) fn has_asked_upgrade(&self) -> bool {
        self.asked_upgrade
    }

    /// Returns true between two messages.
    pub(crate) fn is_between(&self) -> bool {
        matches!(self.at, At::Start) && self.line.bytes == 0
    }

    /// Returns true before a head, or in one.
    pub(crate) fn awaits_head(&self) -> bool {
        matches!(self.at, At::Start | At::Fields(_))
    }

    /// Returns true while it is undecided whether the protocol changes.
    pub(crate) fn is_undecided(&self) -> bool {
        matches!(self.at, At::Undecided)
    }

    /// The protocol stays: what follows is the next message.
    pub(crate) fn go_on(&mut self) {
        if self.is_undecided() {
            self.at = At::Start;
        }
    }

    /// Returns the rest of the bytes of which the target has a byte that it may not have, with such
    /// bytes encoded, if [`Framing::pass`] has stopped before one. Then they have to pass again.
    pub(crate) fn encoded(&mut self, rest: &[u8]) -> Option<Vec<u8>> {
        if !std::mem::take(&mut self.awaits_encoding) {
            return None;
        }
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b' ' | b'\r' | b'\n'))
            .unwrap_or(rest.len());
        let mut all = Vec::with_capacity(rest.len() + 2 * end);
        for byte in &rest[..end] {
            if is_encoded_for_hyper(*byte) {
                all.extend_from_slice(format!("%{byte:02X}").as_bytes());
            } else {
                all.push(*byte);
            }
        }
        all.extend_from_slice(&rest[end..]);
        Some(all)
    }

    /// Inspects bytes of a client. If they can be read in two ways, replaces one by NUL. Returns
    /// the number of bytes for hyper: up to that one, to the end of a head after which the protocol
    /// may change, or to a byte that has to be encoded ([`Framing::encoded`]).
    pub(crate) fn pass(&mut self, all: &mut [u8]) -> usize {
        let mut passed = 0;
        while passed < all.len() && !self.awaits_encoding {
            let bytes = &mut all[passed..];
            passed += match &mut self.at {
                At::Refused(_) | At::Undecided => return passed,
                At::Skip(left, after) => {
                    let skipped = (*left).min(bytes.len() as u64);
                    *left -= skipped;
                    if *left == 0 {
                        self.at = match after {
                            After::Body => At::Start,
                            After::Chunk => At::Size(0),
                        };
                        self.line = Line {
                            counts: true,
                            ..Line::default()
                        };
                    }
                    skipped as usize
                }
                _ => self.line(bytes),
            };
        }
        passed
    }

    /// After a refusal, returns the bytes for hyper in place of those that the client still sends.
    /// After that, none.
    pub(crate) fn refused(&mut self) -> Option<&'static [u8]> {
        match &mut self.at {
            At::Refused(in_head) => Some(if std::mem::take(in_head) {
                b"\r\n\r\n"
            } else {
                b""
            }),
            _ => None,
        }
    }

    /// Reads a line, or a part of it. Returns the number of bytes, up to a refused one.
    fn line(&mut self, bytes: &mut [u8]) -> usize {
        let end = memchr(b'\n', bytes);
        let length = end.unwrap_or(bytes.len());
        let (text, rest) = bytes.split_at(length);
        if let Some(at) = self.odd_byte_of_target(text) {
            self.line.bytes += at;
            self.awaits_encoding = true;
            return at;
        }
        let doubt = self.text(text);
        self.line.bytes += text.len();
        self.line.ends_in_cr = text
            .last()
            .map_or(self.line.ends_in_cr, |last| *last == b'\r');
        // In the size of a chunk, hyper accepts no bare LF, but perhaps a NUL in what follows the
        // size.
        let is_bare = !self.line.ends_in_cr && !matches!(self.at, At::Size(_));
        let doubt = doubt.or_else(|| (is_bare && !rest.is_empty()).then_some(text.len()));
        if let Some(at) = doubt {
            bytes[at] = 0;
            self.at = At::Refused(self.awaits_head());
            return at + 1;
        }
        if end.is_some() {
            self.end_line();
        }
        length + usize::from(end.is_some())
    }

    /// Returns the position of a byte of a request's target that hyper refuses, though servers
    /// accept it from clients that do not encode it.
    fn odd_byte_of_target(&mut self, text: &[u8]) -> Option<usize> {
        if !matches!(self.at, At::Start) {
            return None;
        }
        for (at, byte) in text.iter().enumerate() {
            self.line.spaces += usize::from(*byte == b' ');
            if self.line.spaces == 1 && is_encoded_for_hyper(*byte) {
                return Some(at);
            }
        }
        None
    }

    /// Reads more of a line. If it declares the length of the body once more, returns the position
    /// of its colon.
    fn text(&mut self, text: &[u8]) -> Option<usize> {
        let before = self.line.bytes;
        match &mut self.at {
            At::Fields(said) => {
                if let Some(free) = self.line.start.get_mut(before..) {
                    for (free, byte) in free.iter_mut().zip(text) {
                        *free = byte.to_ascii_lowercase();
                    }
                }
                let (start, known) = (&self.line.start, before + text.len());
                let is_named = |name: &[u8]| {
                    (before..known).contains(&(name.len() - 1)) && start.starts_with(name)
                };
                self.asks_upgrade |= is_named(UPGRADE);
                self.asked_upgrade |= self.asks_upgrade;
                let mut digits = text;
                for (name, says) in [(LENGTH, Said::Length(0)), (CODING, Said::Chunked)] {
                    if is_named(name) {
                        let colon = name.len() - 1 - before;
                        if said.is_some() {
                            return Some(colon);
                        }
                        *said = Some(says);
                        self.line.counts = name == LENGTH;
                        digits = &text[colon..];
                    }
                }
                if self.line.counts
                    && let Some(Said::Length(length)) = said
                {
                    let digits = digits.iter().filter(|byte| byte.is_ascii_digit());
                    *length = digits.fold(*length, |length, digit| {
                        add(length, 10, u64::from(digit - b'0'))
                    });
                }
            }
            At::Size(size) if self.line.counts => {
                for byte in text {
                    let Some(digit) = char::from(*byte).to_digit(16) else {
                        self.line.counts = false;
                        break;
                    };
                    *size = add(*size, 16, u64::from(digit));
                }
            }
            _ => {}
        }
        None
    }

    fn end_line(&mut self) {
        // Only its CR.
        let is_empty = self.line.bytes == 1;
        self.line = Line::default();
        let ends_head = is_empty && matches!(self.at, At::Fields(_));
        self.heads += u64::from(ends_head);
        let asks_upgrade = ends_head && std::mem::take(&mut self.asks_upgrade);
        self.at = match std::mem::take(&mut self.at) {
            At::Start if !is_empty => At::Fields(None),
            At::Fields(Some(Said::Chunked)) if is_empty => {
                self.line.counts = true;
                At::Size(0)
            }
            At::Fields(Some(Said::Length(length @ 1..))) if is_empty => {
                At::Skip(length, After::Body)
            }
            At::Fields(_) if asks_upgrade => At::Undecided,
            At::Fields(_) if is_empty => At::Start,
            At::Size(0) => At::Trailers,
            At::Size(size) => At::Skip(size.saturating_add(2), After::Chunk),
            At::Trailers if is_empty => At::Start,
            same => same,
        };
    }
}

fn is_encoded_for_hyper(byte: u8) -> bool {
    !byte.is_ascii() || matches!(byte, b'"' | b'<' | b'>' | b'`')
}

/// hyper refuses a number that is too long.
fn add(number: u64, base: u64, digit: u64) -> u64 {
    number.saturating_mul(base).saturating_add(digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes for hyper, for input in pieces of this size.
    fn passed(text: &str, piece: usize) -> String {
        let (mut framing, mut seen) = (Framing::default(), Vec::new());
        for piece in text.as_bytes().chunks(piece) {
            let mut piece = piece.to_vec();
            let passed = framing.pass(&mut piece);
            seen.extend_from_slice(&piece[..passed]);
        }
        assert!(seen.len() == text.len() || framing.refused().is_some());
        String::from_utf8(seen).unwrap()
    }

    /// Returns the position of the first refusal, which does not depend on the pieces.
    fn refused_at(text: &str) -> Option<usize> {
        let all: Vec<_> = (1..=text.len()).map(|piece| passed(text, piece)).collect();
        assert!(
            all.iter().all(|one| *one == all[0]),
            "the pieces matter: {text:?}"
        );
        let changed = || {
            all[0]
                .bytes()
                .zip(text.bytes())
                .filter(|(one, other)| one != other)
        };
        assert!(changed().count() <= 1 && changed().all(|(byte, _)| byte == 0));
        let at = all[0].find('\0');
        assert_eq!(
            all[0].len(),
            at.map_or(text.len(), |at| at + 1),
            "what comes behind is not seen"
        );
        at
    }

    /// Failure: an ambiguous message passes when it comes in pieces, after another request, or with
    /// unusual letter case.
    #[test]
    fn two_lengths_are_refused_wherever_they_stand() {
        let before = [
            "",
            "\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length:  12\r\n\r\nHost: a\r\n\r\nab",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1a;x=9\r\nContent-Length: 5\r\n\r\n\n\nabc\r\n00\r\nX: y\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
        ];
        let heads = [
            (
                "Content-Length: 5\r\nX: y\r\nTransfer-Encoding",
                ": chunked\r\n\r\n",
            ),
            (
                "Transfer-Encoding: chunked\r\nCONTENT-LENGTH",
                ": 5\r\n\r\n",
            ),
            ("content-length:5\r\ncontent-length", ":5\r\n\r\n"),
            (
                "transfer-encoding:chunked\r\ntransfer-encodinG",
                ":chunked\r\n\r\n",
            ),
            ("X: y\r", "\n\n"),
        ];
        for before in before {
            for (doubted, rest) in heads {
                let head = format!("{before}POST / HTTP/1.1\r\nHost: a\r\n{doubted}");
                let expected = head.len() + usize::from(doubted.ends_with('\r'));
                assert_eq!(
                    refused_at(&format!("{head}{rest}")),
                    Some(expected),
                    "{head}{rest}"
                );
            }
            assert_eq!(
                refused_at(&format!("{before}GET / HTTP/1.1\n")),
                Some(before.len() + 14)
            );
        }
    }

    /// Failure: the bytes for hyper after a refusal make an incomplete message complete.
    #[test]
    fn only_a_head_gets_its_end() {
        let upload = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
        let head = "GET / HTTP/1.1\r\nX: y";
        for (before, refused, end) in [
            ("", "GET / HTTP/1.1\n", "\r\n\r\n"),
            (head, "\n", "\r\n\r\n"),
            (upload, "X: y\n", ""),
            (upload, "\n", ""),
        ] {
            let mut framing = Framing::default();
            assert_eq!(framing.pass(&mut before.as_bytes().to_vec()), before.len());
            assert_eq!(framing.refused(), None);
            framing.pass(&mut refused.as_bytes().to_vec());
            assert_eq!(framing.refused(), Some(end.as_bytes()), "{before}{refused}");
            assert_eq!(framing.refused(), Some(&b""[..]));
        }
    }

    /// Failure: an upload with lines like those of a head is taken for one.
    #[test]
    fn bodies_and_other_fields_pass_as_they_are() {
        let lines = "Content-Length: 5\r\nTransfer-Encoding: chunked\n\nContent-Length: 5\n";
        let length = lines.len();
        for text in [
            format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{lines}GET / HTTP/1.1\r\n\r\n"),
            format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{length:X} ;a\r\n{lines}\r\n0\r\nContent-Length: 1\r\n\r\n"),
            "GET /Content-Length: HTTP/1.1\r\nX-Content-Length: 1\r\nContent-Lengt: 5\r\nContent-Length-X: 1\r\nTE: x\r\nX: content-length:\r\n\r\n"
                .repeat(2),
        ] {
            assert_eq!(refused_at(&text), None, "{text}");
        }
    }

    /// Failure: what follows an accepted upgrade is changed, or what follows a refused one is not
    /// inspected.
    #[test]
    fn nothing_passes_while_the_protocol_is_undecided() {
        let head = "GET / HTTP/1.1\r\nupGrade: x\r\nHost: a\r\n\r\n";
        for piece in 1..=head.len() {
            let mut framing = Framing::default();
            for piece in head.as_bytes().chunks(piece) {
                assert!(!framing.is_undecided());
                assert_eq!(framing.pass(&mut piece.to_vec()), piece.len());
            }
            assert!(framing.is_undecided());
            let mut rest = *b"\n\0\n";
            assert_eq!((framing.pass(&mut rest), rest), (0, *b"\n\0\n"));
            framing.go_on();
            assert_eq!(
                (framing.pass(&mut rest), rest),
                (1, [0, 0, b'\n']),
                "a bare LF"
            );
        }
        for other in [
            "GET / HTTP/1.1\r\nX-Upgrade: x\r\n\r\n",
            "POST / HTTP/1.1\r\nupgrade: x\r\ncontent-length: 1\r\n\r\n",
        ] {
            let mut framing = Framing::default();
            assert_eq!(
                framing.pass(&mut other.repeat(2).into_bytes()),
                other.len() * 2
            );
            assert!(!framing.is_undecided());
        }
    }

    /// Failure: an encoded target depends on the pieces in which it comes, or other bytes change.
    #[test]
    fn a_target_is_encoded_in_part() {
        let text = b"GET /a\xe9\"b\xff HTTP/1.1\r\nX: \"\xe9\r\n\r\nGET \xe9 HTTP/1.1\r\n\r\n";
        let expected = b"GET /a%E9%22b%FF HTTP/1.1\r\nX: \"\xe9\r\n\r\nGET %E9 HTTP/1.1\r\n\r\n";
        for size in 1..=text.len() {
            let (mut framing, mut seen) = (Framing::default(), Vec::new());
            for piece in text.chunks(size) {
                let mut rest = piece.to_vec();
                loop {
                    let passed = framing.pass(&mut rest);
                    seen.extend(rest.drain(..passed));
                    match framing.encoded(&rest) {
                        Some(encoded) => rest = encoded,
                        None => break,
                    }
                }
                assert_eq!(rest, b"");
            }
            assert_eq!(
                String::from_utf8_lossy(&seen),
                String::from_utf8_lossy(expected),
                "{size}"
            );
            assert_eq!(framing.heads(), 2);
        }
    }

    proptest::proptest! {
        /// Failure: the bytes of one client stop the thread that serves ten thousand others.
        #[test]
        fn anything_passes_without_a_panic(pieces in proptest::collection::vec(proptest::string::string_regex(
            "((POST|content-length|transfer-encoding|[0-9a-f]{1,20}|:|;| |\r\n|\n|chunked|\r){0,12})").unwrap(), 0..8)) {
            let mut framing = Framing::default();
            for piece in pieces {
                framing.pass(&mut piece.into_bytes());
            }
        }
    }
}
