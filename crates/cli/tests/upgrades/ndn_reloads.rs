//! Failure: a listener of NDN needs a restart, a reload takes faces or stored Data away, or a
//! refused one changes a listener.

use super::{Node, PATIENCE};
use crate::vacant::vacant;
use larder_packet::{DataBuilder, DigestSigner, InterestBuilder, Name};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// An application over a connection, and the neighbour that has the Data.
struct Application {
    stream: TcpStream,
    neighbour: UdpSocket,
}

const CONTENT: &[u8] = b"the content";

impl Application {
    fn new(ndn: SocketAddr, neighbour: UdpSocket) -> Application {
        let stream = TcpStream::connect(ndn).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        neighbour.set_read_timeout(Some(PATIENCE)).unwrap();
        Application { stream, neighbour }
    }

    fn ask(&mut self, text: &str) {
        static NONCE: AtomicU32 = AtomicU32::new(1);
        let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
        self.stream
            .write_all(
                &InterestBuilder::new(name(text))
                    .nonce(nonce)
                    .lifetime(PATIENCE)
                    .build(),
            )
            .unwrap();
    }

    /// Reads the Data.
    fn await_data(&mut self) {
        let (mut bytes, mut piece) = (Vec::new(), [0; 1024]);
        while !bytes.windows(CONTENT.len()).any(|window| window == CONTENT) {
            let read = self.stream.read(&mut piece).unwrap();
            assert!(read > 0, "the connection has ended");
            bytes.extend_from_slice(&piece[..read]);
        }
    }

    /// Fetches Data from the neighbour. Returns the address that the Interest came from.
    fn fetch(&mut self, text: &str) -> SocketAddr {
        self.ask(text);
        let wanted = name(text);
        let mut datagram = [0; 2048];
        let from = loop {
            let (length, from) = self.neighbour.recv_from(&mut datagram).unwrap();
            if datagram[..length]
                .windows(wanted.as_bytes().len())
                .any(|window| window == wanted.as_bytes())
            {
                break from;
            }
        };
        let data = DataBuilder::new(wanted.as_name())
            .content(CONTENT)
            .build(&DigestSigner)
            .unwrap();
        self.neighbour.send_to(&data, from).unwrap();
        self.await_data();
        from
    }
}

/// Returns the status of a WebSocket handshake of a page.
fn handshake(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Origin: https://app.example\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    String::from_utf8_lossy(&status[9..]).into_owned()
}

fn vacant_udp() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// The keys of the listeners.
fn keys([tcp, udp, websocket]: [SocketAddr; 3], unix: &str) -> String {
    format!(
        "unix = \"FOLDER/{unix}\"\ntcp = \"{tcp}\"\nudp = \"{udp}\"\nwebsocket = \"{websocket}\"\n"
    )
}

#[test]
fn a_listener_of_ndn_needs_a_restart() {
    replace_listeners(1, 3);
}

/// Failure: the sockets of several threads are not replaced together, or an upgrade to another
/// number of threads leaves some peers with a socket that nobody reads.
#[test]
fn a_listener_of_several_threads_needs_a_restart() {
    replace_listeners(3, 2);
    replace_listeners(2, 1);
}

fn replace_listeners(threads: usize, threads_after: usize) {
    let neighbour = UdpSocket::bind("127.0.0.1:0").unwrap();
    let route = format!(
        "[[ndn.route]]\nprefix = \"/\"\nto = \"udp://{}\"\n",
        neighbour.local_addr().unwrap()
    );
    let (old, new) = (
        [vacant(), vacant_udp(), vacant()],
        [vacant(), vacant_udp(), vacant()],
    );
    let mut node = Node::start(&format!(
        "[ndn]\nshards = {threads}\n{}policy = \"lru\"\n{route}",
        keys(old, "old.sock")
    ));
    let folder = node.folder.path().to_str().unwrap().to_owned();
    let keys = |addresses, unix: &str| keys(addresses, unix).replace("FOLDER", &folder);
    let mut application = Application::new(old[0], neighbour);
    let local = UnixStream::connect(node.path("old.sock")).unwrap();
    assert_eq!(application.fetch("/stored"), old[1]);

    node.reloaded(&[(&keys(old, "old.sock"), &keys(new, "new.sock"))]);
    // Faces stay, and so does the store.
    application.ask("/stored");
    application.await_data();
    local.set_nonblocking(true).unwrap();
    assert_eq!(
        (&local).read(&mut [0]).unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );
    // The route is connected again at once, by the new socket.
    assert_eq!(application.fetch("/fetched"), new[1]);
    assert!(UdpSocket::bind(old[1]).is_ok(), "the old socket is open");
    for address in [old[0], old[2]] {
        assert!(TcpStream::connect(address).is_err(), "{address} is served");
    }
    assert!(!node.path("old.sock").exists() && UnixStream::connect(node.path("new.sock")).is_ok());
    let mut other = Application::new(new[0], application.neighbour.try_clone().unwrap());
    other.ask("/stored");
    other.await_data();

    assert_eq!(handshake(new[2]), "403");
    node.reloaded(&[(
        "policy = \"lru\"\n",
        "policy = \"lru\"\nwebsocket_origins = [\"https://app.example\"]\n",
    )]);
    assert_eq!(handshake(new[2]), "101");

    // An address that overlaps the running one.
    let [tcp, udp, websocket] = new;
    let wide = |address: SocketAddr| SocketAddr::from(([0, 0, 0, 0], address.port()));
    let changed = keys([wide(tcp), wide(udp), wide(websocket)], "new.sock");
    node.reloaded(&[(&keys(new, "new.sock"), &changed)]);
    assert_eq!(application.fetch("/wide"), udp);
    other.ask("/wide");
    other.await_data();
    assert_eq!(
        Application::new(tcp, application.neighbour.try_clone().unwrap()).fetch("/wider"),
        udp
    );
    assert_eq!(handshake(websocket), "101");

    answers_all_peers(udp, "/wide");

    // The new process gets these sockets.
    node.edit(&[(
        &format!("shards = {threads}\n"),
        &format!("shards = {threads_after}\n"),
    )]);
    node.upgrade();
    let mut after = Application::new(new[0], application.neighbour.try_clone().unwrap());
    assert_eq!(after.fetch("/after"), new[1]);
    answers_all_peers(udp, "/after");
    node.stop();
    assert!(!node.path("new.sock").exists());
}

/// Asks for stored Data from so many addresses that each thread gets some.
fn answers_all_peers(node: SocketAddr, text: &str) {
    for nonce in 0..20 {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.connect(node).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        peer.send(&InterestBuilder::new(name(text)).nonce(1000 + nonce).build())
            .unwrap();
        let mut datagram = [0; 2048];
        let length = peer.recv(&mut datagram).expect("Data");
        assert!(
            datagram[..length]
                .windows(CONTENT.len())
                .any(|window| window == CONTENT)
        );
    }
}

#[test]
fn a_refused_reload_changes_a_listener_of_ndn() {
    let neighbour = UdpSocket::bind("127.0.0.1:0").unwrap();
    let route = format!(
        "[[ndn.route]]\nprefix = \"/\"\nto = \"udp://{}\"\n",
        neighbour.local_addr().unwrap()
    );
    let [tcp, udp, websocket] = [vacant(), vacant_udp(), vacant()];
    let all = keys([tcp, udp, websocket], "ndn.sock");
    let mut node = Node::start(&format!("[ndn]\n{all}policy = \"lru\"\n{route}"));
    let mut application = Application::new(tcp, neighbour);
    assert_eq!(application.fetch("/stored"), udp);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let occupied = taken.local_addr().unwrap().to_string();
    let (tcp_key, udp_key) = (format!("tcp = \"{tcp}\""), format!("udp = \"{udp}\""));
    let websocket = websocket.to_string();
    // Texts of the file and what replaces them, and parts of the reason.
    type Case<'a> = (&'a [(&'a str, &'a str)], [&'a str; 2]);
    let cases: [Case<'_>; 2] = [
        (
            &[
                ("ndn.sock", "other.sock"),
                (&udp_key, "udp = \"127.0.0.1:0\""),
                (&websocket, &occupied),
            ],
            ["websocket", &occupied],
        ),
        (
            &[
                ("ndn.sock", "other.sock"),
                (&tcp_key, "tcp = \"\""),
                (&udp_key, "udp = \"\""),
            ],
            ["[ndn] udp is off", "[[ndn.route]]"],
        ),
    ];
    for (changes, parts) in cases {
        let log = node.reload(changes, "not reloaded");
        assert!(parts.iter().all(|part| log.contains(part)), "{log}");
        assert!(
            !node.path("other.sock").exists() && UnixStream::connect(node.path("ndn.sock")).is_ok()
        );
        let mut other = Application::new(tcp, application.neighbour.try_clone().unwrap());
        other.ask("/stored");
        other.await_data();
        let back: Vec<_> = changes.iter().map(|(from, to)| (*to, *from)).collect();
        node.edit(&back);
    }
    assert_eq!(application.fetch("/fetched"), udp);
    node.stop();
}

#[test]
fn an_incomplete_packet_may_take_as_long_as_at_the_start() {
    let ndn = vacant();
    let more = format!(
        "[ndn]\nunix = \"\"\ntcp = \"{ndn}\"\nudp = \"\"\nwebsocket = \"\"\npartial_timeout = \"1d\"\n"
    );
    let node = Node::start(&more);
    let mut slow = TcpStream::connect(ndn).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    slow.write_all(&[5, 100, 7]).unwrap();
    node.reloaded(&[("\"1d\"", "\"1s\"")]);
    assert_eq!(slow.read(&mut [0]).unwrap(), 0);
}
