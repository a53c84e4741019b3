//! A client and an origin of HTTP/2 without TLS whose frames are made by hand (RFC 9113), because
//! libraries refuse to send what these tests send.

use super::Node;
use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const NO_ERROR: u32 = 0;
pub const PROTOCOL_ERROR: u32 = 1;
pub const INTERNAL_ERROR: u32 = 2;
pub const REFUSED_STREAM: u32 = 7;
pub const CANCEL: u32 = 8;
pub const ENHANCE_YOUR_CALM: u32 = 11;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Settings, by number and value.
pub fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = values
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// Returns a block of fields: literals without indexing (RFC 7541 §6.2.2), without Huffman.
pub fn block<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name.as_ref(), value.as_ref()] {
            integer(&mut block, text.len());
            block.extend_from_slice(text);
        }
    }
    block
}

/// RFC 7541 §5.1, with a prefix of 7 bits.
fn integer(block: &mut Vec<u8>, value: usize) {
    if value < 127 {
        return block.push(value as u8);
    }
    block.push(127);
    let mut rest = value - 127;
    while rest >= 128 {
        block.push((rest % 128 + 128) as u8);
        rest /= 128;
    }
    block.push(rest as u8);
}

/// The pseudo-fields of a request without TLS.
pub fn pseudo<'a>(method: &'a str, path: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        (":method", method),
        (":scheme", "http"),
        (":authority", "example.test"),
        (":path", path),
    ]
}

/// What has come for one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The statuses of informational responses.
    pub interims: Vec<u16>,
    pub status: Option<u16>,
    pub body: Vec<u8>,
    /// The server has ended the stream.
    pub is_complete: bool,
    /// The code of its RST_STREAM.
    pub reset: Option<u32>,
}

impl Answer {
    /// Returns true if the request was refused as malformed: with 400, or by a reset (RFC 9113
    /// §8.1.1).
    pub fn is_refused(&self) -> bool {
        self.status == Some(400) || (self.status.is_none() && self.reset == Some(PROTOCOL_ERROR))
    }
}

pub struct Http2 {
    stream: BufReader<TcpStream>,
    next: u32,
    answers: HashMap<u32, Answer>,
    /// The code of the first GOAWAY.
    goaway: Option<u32>,
    is_closed: bool,
}

impl Http2 {
    /// Begins with the preface and default settings. The server's table for header compression
    /// stays empty, so that its statuses can be read.
    pub fn new(node: &Node) -> Http2 {
        Http2::with(node, &[])
    }

    /// Also with these settings.
    pub fn with(node: &Node, values: &[(u16, u32)]) -> Http2 {
        Http2::on(TcpStream::connect(node.address).unwrap(), values)
    }

    /// On a connection that is open already.
    pub fn on(stream: TcpStream, values: &[(u16, u32)]) -> Http2 {
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let (stream, next, answers) = (BufReader::new(stream), 1, HashMap::new());
        let mut client = Http2 {
            stream,
            next,
            answers,
            goaway: None,
            is_closed: false,
        };
        const HEADER_TABLE_SIZE: u16 = 1;
        let values = [&[(HEADER_TABLE_SIZE, 0)], values].concat();
        assert!(client.send(PREFACE) && client.send(&settings(&values)));
        client
    }

    /// Returns false if the server has closed the connection.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// Returns the socket, for other threads.
    pub fn socket(&self) -> TcpStream {
        self.stream.get_ref().try_clone().unwrap()
    }

    /// Returns the number of the next stream.
    pub fn stream(&mut self) -> u32 {
        self.next += 2;
        self.next - 2
    }

    /// Sends a request, or its head. Returns the number of its stream.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        is_whole: bool,
    ) -> u32 {
        let all = [pseudo(method, path), fields.to_vec()].concat();
        self.head(&all, is_whole)
    }

    /// Sends a head of exactly these fields.
    pub fn head<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        fields: &[(N, V)],
        is_whole: bool,
    ) -> u32 {
        let stream = self.stream();
        self.send(&head_frames(stream, fields, is_whole));
        stream
    }

    pub fn data(&mut self, stream: u32, bytes: &[u8], is_last: bool) -> bool {
        self.send(&frame(
            DATA,
            if is_last { END_STREAM } else { 0 },
            stream,
            bytes,
        ))
    }

    pub fn trailers(&mut self, stream: u32, fields: &[(&str, &str)]) -> bool {
        self.send(&frame(
            HEADERS,
            END_STREAM | END_HEADERS,
            stream,
            &block(fields),
        ))
    }

    pub fn reset(&mut self, stream: u32, code: u32) -> bool {
        self.send(&frame(RST_STREAM, 0, stream, &code.to_be_bytes()))
    }

    pub fn window(&mut self, stream: u32, bytes: u32) -> bool {
        self.send(&frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()))
    }

    /// Reads until the stream has ended, or the connection has.
    pub fn answer(&mut self, stream: u32) -> Answer {
        self.read_until(|client| {
            client
                .answers
                .get(&stream)
                .is_some_and(|answer| answer.is_complete || answer.reset.is_some())
        });
        self.answers.remove(&stream).unwrap_or_default()
    }

    /// Reads until the status of a response has come.
    pub fn status(&mut self, stream: u32) -> Option<u16> {
        let status = move |client: &Http2| client.answers.get(&stream)?.status;
        self.read_until(|client| status(client).is_some());
        status(self)
    }

    /// Returns what has come of the stream's body.
    pub fn body(&self, stream: u32) -> &[u8] {
        self.answers.get(&stream).map_or(&[], |answer| &answer.body)
    }

    /// Reads until so many bytes of the stream's body have come. Returns false if they never do.
    pub fn read_body(&mut self, stream: u32, bytes: usize) -> bool {
        let has = move |client: &Http2| {
            client
                .answers
                .get(&stream)
                .map_or(0, |answer| answer.body.len())
                >= bytes
        };
        self.read_until(has);
        has(self)
    }

    /// Reads until the server closes the connection. Returns the code of its GOAWAY.
    pub fn end(&mut self) -> Option<u32> {
        self.read_until(|_| false);
        self.goaway
    }

    fn read_until(&mut self, done: impl Fn(&Http2) -> bool) {
        while !self.is_closed && !done(self) {
            self.is_closed = self.read_frame().is_none();
        }
    }

    fn read_frame(&mut self) -> Option<()> {
        let mut head = [0; 9];
        self.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.read_exact(&mut payload)?;
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let number = |from: usize| {
            payload[from..from + 4]
                .try_into()
                .map(u32::from_be_bytes)
                .unwrap()
        };
        match kind {
            HEADERS | DATA => {
                let answer = self.answers.entry(stream).or_default();
                answer.is_complete = flags & END_STREAM != 0;
                match kind {
                    DATA => answer.body.extend_from_slice(&payload),
                    // Trailers have none.
                    _ if answer.status.is_some() => {}
                    _ => match status(&payload) {
                        interim @ 100..200 => answer.interims.push(interim),
                        last => answer.status = Some(last),
                    },
                }
            }
            RST_STREAM => self.answers.entry(stream).or_default().reset = Some(number(0)),
            PING if flags & ACK == 0 => drop(self.send(&frame(PING, ACK, 0, &payload))),
            SETTINGS if flags & ACK == 0 => drop(self.send(&frame(SETTINGS, ACK, 0, &[]))),
            GOAWAY => self.goaway = self.goaway.or(Some(number(4))),
            _ => {}
        }
        Some(())
    }

    /// Fails the test if the server is silent for long.
    fn read_exact(&mut self, bytes: &mut [u8]) -> Option<()> {
        match self.stream.read_exact(bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the server is silent")
            }
            read => read.ok(),
        }
    }
}

/// An origin that answers each request with the frames that `answer` makes for its number, from 0,
/// and its stream. Returns its address, and the number of requests so far.
pub fn origin(
    answer: impl Fn(usize, u32) -> Vec<u8> + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, requests) = (
        listener.local_addr().unwrap(),
        Arc::new(AtomicUsize::new(0)),
    );
    let (counter, answer) = (Arc::clone(&requests), Arc::new(answer));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (counter, answer) = (Arc::clone(&counter), Arc::clone(&answer));
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream.unwrap());
                stream.read_exact(&mut [0; PREFACE.len()]).unwrap();
                stream.get_mut().write_all(&settings(&[])).unwrap();
                let mut head = [0; 9];
                while stream.read_exact(&mut head).is_ok() {
                    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                    let mut payload = vec![0; length as usize];
                    stream.read_exact(&mut payload).unwrap();
                    let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                    let frames = match head[3] {
                        HEADERS => answer(counter.fetch_add(1, Ordering::SeqCst), number),
                        SETTINGS if head[4] & ACK == 0 => frame(SETTINGS, ACK, 0, &[]),
                        _ => Vec::new(),
                    };
                    if stream.get_mut().write_all(&frames).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, requests)
}

/// Returns the frames of a response head, in as many as it needs.
pub fn head_frames<N: AsRef<[u8]>, V: AsRef<[u8]>>(
    stream: u32,
    fields: &[(N, V)],
    is_whole: bool,
) -> Vec<u8> {
    let block = block(fields);
    let pieces: Vec<_> = block.chunks(16_384).collect();
    let mut frames = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let (kind, end) = if number == 0 {
            (HEADERS, u8::from(is_whole) * END_STREAM)
        } else {
            (CONTINUATION, 0)
        };
        let last = if number + 1 == pieces.len() {
            END_HEADERS
        } else {
            0
        };
        frames.extend(frame(kind, end | last, stream, piece));
    }
    frames
}

/// Returns the status of a response without a compression table.
fn status(block: &[u8]) -> u16 {
    // A change of the table's size may stand first.
    let start = block
        .iter()
        .position(|byte| byte & 0b1110_0000 != 0b0010_0000)
        .unwrap();
    match block[start..] {
        [indexed @ 0x88..=0x8e, ..] => {
            [200, 204, 206, 304, 400, 404, 500][usize::from(indexed - 0x88)]
        }
        // A literal with the name of entry 8, and a value of three digits, perhaps in Huffman's
        // code.
        [0x08 | 0x18 | 0x48, 3, a, b, c, ..] => [a, b, c]
            .iter()
            .fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')),
        [0x08 | 0x18 | 0x48, length @ 0x82..=0x83, ..] => {
            digits(&block[start + 2..][..usize::from(length - 0x80)])
        }
        _ => panic!("no status: {block:x?}"),
    }
}

/// Decodes three digits (RFC 7541, appendix B): 0 to 2 have the codes 0 to 2 in five bits, 3 to 9
/// the codes 25 to 31 in six.
fn digits(bytes: &[u8]) -> u16 {
    let bits: Vec<u16> = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| u16::from(byte >> bit & 1)))
        .collect();
    let code = |bits: &[u16]| bits.iter().fold(0, |code, bit| code * 2 + bit);
    let (mut at, mut number) = (0, 0);
    for _ in 0..3 {
        let short = code(&bits[at..at + 5]);
        let (digit, length) = if short < 3 {
            (short, 5)
        } else {
            (code(&bits[at..at + 6]) - 25 + 3, 6)
        };
        (number, at) = (number * 10 + digit, at + length);
    }
    number
}
