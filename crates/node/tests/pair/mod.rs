//! Failures of HTTP over NDN: nodes as edge and far node, with a real origin and real clients, over
//! sockets on loopback.

mod broken_bodies;
mod forged_answers;
mod forged_requests;
mod lost_packets;
mod pages_given_to_others;
mod what_passes;

use crate::wire::{Client, Origin};
use larder_client::{Received, Transport};
use larder_node::{Config, Node};
use larder_packet::Name;
use larder_transfer::{CongestionSpec, FetchOptions, Fetcher, PathFeedback, Progress};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

/// A node of the pair, or one between.
pub(crate) struct Place {
    node: Option<Node>,
    directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new(ndn: &str, http: &str) -> Place {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nfd.sock");
        let text = format!(
            "[ndn]\nunix = {socket:?}\ntcp = \"127.0.0.1:0\"\nudp = \"127.0.0.1:0\"\nwebsocket = \"\"\n{ndn}\n\
             [http]\n{http}\n[admin]\nlisten = \"127.0.0.1:0\"\n"
        );
        let config = Config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        let node = Node::start(&config).unwrap_or_else(|error| panic!("{error}"));
        Place {
            node: Some(node),
            directory,
        }
    }

    /// In front of an origin.
    pub(crate) fn far(origin: SocketAddr, more: &str) -> Place {
        let gateway =
            format!("[ndn.gateway]\nprefix = \"/far\"\norigin = \"http://{origin}\"\n{more}");
        Place::new(&gateway, "listen = \"\"")
    }

    /// Only forwards, to another.
    pub(crate) fn between(to: &Place) -> Place {
        Place::new(&route(&to.tcp()), "listen = \"\"")
    }

    /// In front of clients.
    pub(crate) fn edge(to: &str, more: &str) -> Place {
        let http = format!(
            "listen = \"127.0.0.1:0\"\npolicy = \"lru\"\n[http.upstream]\nndn = \"/far\"\n{more}"
        );
        Place::new(&route(to), &http)
    }

    fn node(&self) -> &Node {
        self.node.as_ref().unwrap()
    }

    fn listening(&self, scheme: &str) -> String {
        let found = self
            .node()
            .ndn_listening()
            .iter()
            .find(|uri| uri.starts_with(scheme));
        found.expect("a listener").clone()
    }

    /// The same over a link that mends what it loses.
    pub(crate) fn reliable_edge(to: &str, more: &str) -> Place {
        let http = format!(
            "listen = \"127.0.0.1:0\"\npolicy = \"lru\"\n[http.upstream]\nndn = \"/far\"\n{more}"
        );
        Place::new(&format!("{}\nreliable = true", route(to)), &http)
    }

    pub(crate) fn tcp(&self) -> String {
        self.listening("tcp")
    }

    pub(crate) fn udp(&self) -> String {
        self.listening("udp")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("nfd.sock")
    }

    pub(crate) fn http(&self) -> SocketAddr {
        let greeting = self.node().greeting();
        let line = greeting
            .lines()
            .find(|line| line.starts_with("HTTP   http://"))
            .expect("HTTP");
        line["HTTP   http://".len()..]
            .split('/')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::to(self.http())
    }

    /// A value of `/status`, by its path.
    pub(crate) fn figure(&self, pointer: &str) -> u64 {
        let mut stream = TcpStream::connect(self.node().admin_address().unwrap()).unwrap();
        stream
            .write_all(b"GET /status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let page: Value = serde_json::from_str(body).unwrap();
        page.pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("no {pointer} in {page}"))
    }

    pub(crate) fn stop(mut self) {
        self.node.take().unwrap().stop();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            node.stop();
        }
    }
}

pub(crate) fn route(to: &str) -> String {
    format!("[[ndn.route]]\nprefix = \"/far\"\nto = \"{to}\"")
}

/// An edge and a far node in front of an origin.
pub(crate) fn pair(origin: &Origin) -> (Place, Place) {
    let far = Place::far(origin.address, "");
    let edge = Place::edge(&far.tcp(), "");
    (edge, far)
}

/// Bytes in which no part is like another.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut stream = larder_units::Streams::new(7).stream("noise");
    std::iter::repeat_with(|| stream.bits().to_le_bytes())
        .flatten()
        .take(length)
        .collect()
}

/// What `larder get` does. Returns the bytes, and the name with their version.
pub(crate) fn fetch_by_name(node: &Place, name: &str) -> Result<(Vec<u8>, Name), String> {
    let mut client = larder_client::Client::connect_to(Transport::unix(node.socket())).unwrap();
    let name: Name = name.parse().unwrap();
    let nonces = client.random_stream("nonces");
    let mut fetcher = Fetcher::new(
        name,
        FetchOptions::default(),
        CongestionSpec::default().build(),
        None,
        nonces,
    );
    let mut bytes = Vec::new();
    loop {
        let now = client.now();
        fetcher.on_timeout(now);
        while client.output().send(None, |out| fetcher.poll(now, out)) {}
        match fetcher.progress() {
            Progress::Running => {}
            Progress::Done => return Ok((bytes, fetcher.versioned_name().unwrap().clone())),
            Progress::Failed(error) => return Err(error.to_string()),
        }
        let received = client.receive(fetcher.next_timeout(), |now, received, _| match received {
            Received::Data { data, .. } => {
                fetcher.on_data(now, &data, PathFeedback::default(), |piece| {
                    bytes.extend_from_slice(piece)
                })
            }
            Received::Nack { interest, reason } => fetcher.on_nack(now, interest.name, reason),
            Received::Interest { .. } => {}
        });
        received.unwrap();
    }
}
