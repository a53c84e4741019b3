//! Failures of the NDN side of a node, over real sockets on loopback.

mod bad_peers;
mod bad_starts;
mod bursts_marked;
mod connections_leak;
mod console_figures;
mod crowds_shut_out_newcomers;
mod default_route_hides_applications;
mod disk_tier;
mod foreign_pages;
mod forged_senders;
mod large_packets;
mod lost_frames;
mod neighbours_unheard;
mod nfd_options_refused;
mod partial_packets_fill_memory;
mod prefixes_do_not_spread;
mod shards_disagree;
mod shared_memory;
mod slow_reader;
mod udp_threads;

use larder_node::{Config, Node};
use larder_packet::mgmt::{Element, FaceStatus};
use larder_packet::tlv::TlvReader;
use larder_packet::{
    ControlParameters, ControlResponse, Data, DataBuilder, DigestSigner, Interest, InterestBuilder,
    LpPacket, NackReason, Name,
};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A node on ports and a socket of its own.
pub(crate) struct Stage {
    pub(crate) node: Node,
    pub(crate) directory: tempfile::TempDir,
}

/// These tests are compiled twice: for a node of one thread, and for one of two
/// (`tests/ndn_shards`).
pub(crate) fn shards() -> usize {
    if env!("CARGO_CRATE_NAME") == "ndn_shards" {
        2
    } else {
        1
    }
}

pub(crate) fn config(socket: &Path, more: &str) -> Config {
    config_of(shards(), socket, more)
}

fn config_of(shards: usize, socket: &Path, more: &str) -> Config {
    let text = format!(
        "[ndn]\nunix = {socket:?}\ntcp = \"127.0.0.1:0\"\nudp = \"127.0.0.1:0\"\nwebsocket = \"127.0.0.1:0\"\npolicy = \"fifo\"\n\
         shards = {shards}\n{more}\n\
         [http]\nlisten = \"\"\n[admin]\nlisten = \"127.0.0.1:0\"\n"
    );
    Config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"))
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage::with("")
    }

    /// With more settings of `[ndn]`.
    pub(crate) fn with(more: &str) -> Stage {
        Stage::of_with(shards(), more)
    }

    /// With so many threads.
    pub(crate) fn of(shards: usize) -> Stage {
        Stage::of_with(shards, "")
    }

    pub(crate) fn of_with(shards: usize, more: &str) -> Stage {
        let directory = tempfile::tempdir().unwrap();
        let node =
            Node::start(&config_of(shards, &directory.path().join("nfd.sock"), more)).unwrap();
        Stage { node, directory }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("nfd.sock")
    }

    fn address(&self, scheme: &str) -> String {
        let found = self
            .node
            .ndn_listening()
            .iter()
            .find_map(|uri| uri.strip_prefix(scheme));
        found
            .expect("a listener")
            .trim_start_matches("://")
            .to_owned()
    }

    pub(crate) fn unix(&self) -> App<UnixStream> {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        App {
            stream,
            received: Vec::new(),
        }
    }

    pub(crate) fn tcp(&self) -> App<TcpStream> {
        App::on(TcpStream::connect(self.address("tcp")).unwrap())
    }

    /// A WebSocket; `more` are further lines of its handshake.
    pub(crate) fn websocket(&self, more: &str) -> WebSocket {
        self.websocket_on(TcpStream::connect(self.address("ws")).unwrap(), more)
    }

    fn websocket_on(&self, mut stream: TcpStream, more: &str) -> WebSocket {
        let address = self.address("ws");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let handshake = format!(
            "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
        );
        stream.write_all(handshake.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => break,
            }
        }
        WebSocket {
            app: App {
                stream,
                received: Vec::new(),
            },
            head: String::from_utf8(head).unwrap(),
        }
    }

    /// Waits until a figure of the status page is as it should be.
    pub(crate) fn await_figure(&self, pointer: &str, is_right: impl Fn(u64) -> bool) {
        let deadline = std::time::Instant::now() + PATIENCE;
        while !is_right(self.figure(pointer)) {
            assert!(
                std::time::Instant::now() < deadline,
                "{pointer} is {}",
                self.figure(pointer)
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn udp(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.address("udp")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// A counter or level of `/status`, by its path.
    pub(crate) fn figure(&self, pointer: &str) -> u64 {
        let status = self.status();
        status
            .pointer(pointer)
            .and_then(serde_json::Value::as_u64)
            .unwrap_or_else(|| panic!("no {pointer} in {status}"))
    }

    fn status(&self) -> serde_json::Value {
        let mut stream = TcpStream::connect(self.node.admin_address().unwrap()).unwrap();
        stream
            .write_all(b"GET /status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        serde_json::from_str(page.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Its faces, as `/status` lists them.
    pub(crate) fn all_faces(&self) -> Vec<serde_json::Value> {
        self.status()
            .pointer("/ndn/faces")
            .and_then(serde_json::Value::as_array)
            .unwrap()
            .clone()
    }
}

/// An application on a WebSocket.
pub(crate) struct WebSocket {
    app: App<TcpStream>,
    /// The answer to its handshake.
    pub(crate) head: String,
}

impl WebSocket {
    /// Sends a frame, or the beginning of one that announces `length` bytes.
    pub(crate) fn send_frame(&mut self, first: u8, payload: &[u8], length: usize) {
        let mut frame = vec![first, 0x80 | 127];
        frame.extend((length as u64).to_be_bytes());
        frame.extend([0; 4]);
        frame.extend_from_slice(payload);
        self.app.send(&frame);
    }

    pub(crate) fn send(&mut self, packet: &[u8]) {
        self.send_frame(0x82, packet, packet.len());
    }

    /// The next message; `None` where the node has closed the connection.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        let mut read = |count: usize| {
            let mut bytes = vec![0; count];
            self.app.stream.read_exact(&mut bytes).ok().map(|()| bytes)
        };
        let head = read(2)?;
        let length = match head[1] {
            126 => read(2)?
                .into_iter()
                .fold(0, |length, byte| length << 8 | usize::from(byte)),
            127 => panic!("no packet is that large"),
            short => usize::from(short),
        };
        read(length)
    }

    pub(crate) fn is_answered(&mut self, nonce: u32) -> bool {
        self.send(&interest("/no/route", nonce));
        self.receive().is_some_and(|frame| is_refusal(&frame))
    }
}

/// Nothing here takes that long; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// An application on a stream.
pub(crate) struct App<S> {
    pub(crate) stream: S,
    received: Vec<u8>,
}

impl App<TcpStream> {
    fn on(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        App {
            stream,
            received: Vec::new(),
        }
    }
}

impl<S: Read + Write> App<S> {
    pub(crate) fn send(&mut self, packet: &[u8]) {
        self.stream.write_all(packet).unwrap();
    }

    /// The next frame; `None` where the node has closed the connection.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(length) = larder_packet::tlv::frame(&self.received, 70_000).unwrap() {
                return Some(self.received.drain(..length).collect());
            }
            let mut buffer = [0; 65_536];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(read) => self.received.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// Whether the node still answers here: a name without a route is refused.
    pub(crate) fn is_answered(&mut self, nonce: u32) -> bool {
        self.send(&interest("/no/route", nonce));
        self.receive().is_some_and(|frame| is_refusal(&frame))
    }

    /// Registers a prefix.
    pub(crate) fn register(&mut self, prefix: &str) {
        self.obeyed(
            "rib/register",
            &ControlParameters {
                name: Some(prefix.parse().unwrap()),
                ..Default::default()
            },
        );
    }

    /// What the response of a command says, which must be 200.
    pub(crate) fn obeyed(
        &mut self,
        verb: &str,
        parameters: &ControlParameters,
    ) -> ControlParameters {
        let response = self.command(verb, parameters);
        assert_eq!(response.status_code, 200, "{}", response.status_text);
        response.body.unwrap()
    }

    pub(crate) fn command(
        &mut self,
        verb: &str,
        parameters: &ControlParameters,
    ) -> ControlResponse {
        self.send(&command(verb, parameters));
        let frame = self.receive().unwrap();
        ControlResponse::decode(Data::decode(&frame).unwrap().content).unwrap()
    }

    /// Every face, as the node lists them.
    pub(crate) fn faces(&mut self) -> Vec<FaceStatus> {
        self.send(
            &InterestBuilder::new("/localhost/nfd/faces/list".parse::<Name>().unwrap())
                .can_be_prefix(true)
                .must_be_fresh(true)
                .nonce(2)
                .build(),
        );
        let frame = self.receive().unwrap();
        TlvReader::new(Data::decode(&frame).unwrap().content)
            .map(|face| FaceStatus::decode(face.unwrap().wire).unwrap())
            .collect()
    }

    /// Whether the node has a face to this address.
    pub(crate) fn has_face_to(&mut self, uri: &str) -> bool {
        self.faces().iter().any(|face| face.uri == uri)
    }

    /// Answers one Interest with `bytes` bytes of content. Returns its name.
    pub(crate) fn produce(&mut self, bytes: usize) -> Name {
        let frame = self.receive().unwrap();
        let interest = LpPacket::decode(&frame).unwrap().fragment.unwrap().to_vec();
        let name = Interest::decode(&interest).unwrap().name.to_name();
        self.send(&data(&name, bytes));
        name
    }
}

/// A command of NFD's management protocol without a key.
pub(crate) fn command(verb: &str, parameters: &ControlParameters) -> Vec<u8> {
    let mut name: Name = format!("/localhost/nfd/{verb}").parse().unwrap();
    name.push_generic(&parameters.encode());
    InterestBuilder::new(name)
        .nonce(1)
        .sign(&DigestSigner, Default::default())
        .unwrap()
}

pub(crate) fn interest(name: &str, nonce: u32) -> Vec<u8> {
    InterestBuilder::new(name.parse::<Name>().unwrap())
        .nonce(nonce)
        .build()
}

pub(crate) fn data(name: &Name, bytes: usize) -> Vec<u8> {
    DataBuilder::new(name.as_name())
        .content(&vec![7; bytes])
        .build(&DigestSigner)
        .unwrap()
}

pub(crate) fn is_refusal(frame: &[u8]) -> bool {
    LpPacket::decode(frame).unwrap().header.nack == Some(NackReason::NoRoute)
}
