//! The HTTP side of a node on free ports, a plain client over a socket, and an origin that follows
//! a script.

#![allow(dead_code)]

pub mod http2;

use larder_admin::StatusSource;
use larder_proxy::{Admin, Http, HttpConfig, Upstream};
use larder_units::ByteSize;
use socket2::{Domain, Socket, Type};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub fn config(upstream: Upstream) -> HttpConfig {
    HttpConfig {
        listen: vec![std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()],
        // The failures are the same for every number of threads, and more occur with several.
        threads: 3,
        upstream,
        cache: larder_http::Config {
            capacity: ByteSize::from_mib(64),
            policy: "lru".parse().unwrap(),
            max_object: ByteSize::from_mib(8),
            ..larder_http::Config::default()
        },
        ..HttpConfig::default()
    }
}

pub struct Node {
    pub http: Option<Http>,
    pub address: SocketAddr,
    source: Arc<dyn StatusSource>,
}

impl Node {
    pub fn generated() -> Node {
        Node::with(&config(Upstream::Generated))
    }

    pub fn of(origin: SocketAddr) -> Node {
        Node::with(&config(Upstream::Http(
            format!("http://{origin}").parse().unwrap(),
        )))
    }

    pub fn with(config: &HttpConfig) -> Node {
        Node::started(config).unwrap()
    }

    pub fn started(config: &HttpConfig) -> Result<Node, larder_proxy::Error> {
        let http = Http::start(config, || ())?;
        Ok(Node {
            address: http.local_addr().unwrap(),
            source: http.source(),
            http: Some(http),
        })
    }

    /// Purges as an operator does.
    pub fn purge(&self, order: &str) {
        const TOKEN: &str = "0123456789abcdef";
        let http = self.http.as_ref().unwrap();
        let admin = Admin::start(
            ([127, 0, 0, 1], 0).into(),
            vec![http.source()],
            Some(http.purging(Some(TOKEN))),
        )
        .unwrap();
        let bearer = format!("Bearer {TOKEN}");
        let seen = Client::to(admin.local_addr()).send(
            "POST",
            "/purge",
            &[("authorization", &bearer)],
            order.as_bytes(),
        );
        assert_eq!(seen.status, 200, "{}", seen.text());
        admin.stop();
    }

    pub fn status(&self) -> serde_json::Value {
        self.source.status()
    }

    /// Waits until a figure of the status page has this value: what a client has read may be
    /// counted a moment later.
    pub fn await_figure(&self, name: &str, value: u64) {
        for _ in 0..500 {
            if self.status()[name] == value {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{name} is {} and not {value}", self.status()[name]);
    }
}

impl Node {
    /// Waits until a figure of the status page is above 0.
    pub fn await_some(&self, name: &str) {
        for _ in 0..500 {
            if self.status()[name].as_u64() > Some(0) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{name} is {}", self.status()[name]);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(http) = self.http.take() {
            http.stop();
        }
    }
}

#[derive(Debug)]
pub struct Seen {
    pub status: u16,
    pub head: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The body ended before its declared length.
    pub cut: bool,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        self.head
            .iter()
            .find(|(n, _)| n == name)
            .map_or("", |(_, value)| value)
    }

    pub fn is_hit(&self) -> bool {
        self.header("cache-status").starts_with("larder; hit")
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// One connection, requests one after another; it opens another where the server closed.
pub struct Client {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
    pub host: String,
}

impl Client {
    pub fn new(node: &Node) -> Client {
        Client::to(node.address)
    }

    pub fn to(address: SocketAddr) -> Client {
        Client {
            address,
            connection: None,
            host: "example.test".into(),
        }
    }

    pub fn get(&mut self, target: &str) -> Seen {
        self.send("GET", target, &[], b"")
    }

    pub fn send(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Seen {
        let mut request = format!("{method} {target} HTTP/1.1\r\nhost: {}\r\n", self.host);
        for (name, value) in fields {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            request.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        let connection = self.connection.get_or_insert_with(|| connect(self.address));
        connection.get_mut().write_all(request.as_bytes()).unwrap();
        connection.get_mut().write_all(body).unwrap();
        let seen = loop {
            let seen = read_response(connection, method == "HEAD");
            // What comes before the response has tests of its own.
            if seen.status >= 200 {
                break seen;
            }
        };
        if seen.cut || seen.header("connection") == "close" {
            self.connection = None;
        }
        seen
    }
}

fn connect(address: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    BufReader::new(stream)
}

pub fn read_response(from: &mut impl BufRead, head_only: bool) -> Seen {
    let (line, head) = read_head(from);
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("{line:?}"));
    let mut seen = Seen {
        status,
        head,
        body: Vec::new(),
        cut: false,
    };
    if head_only || matches!(status, 100..200 | 204 | 304) {
        return seen;
    }
    if seen.header("transfer-encoding") == "chunked" {
        seen.cut = read_chunks(from, &mut seen.body).is_none();
    } else {
        let length: u64 = seen.header("content-length").parse().expect("a length");
        let read = from.take(length).read_to_end(&mut seen.body);
        seen.cut = read.is_err() || (seen.body.len() as u64) < length;
    }
    seen
}

fn read_head(from: &mut impl BufRead) -> (String, Vec<(String, String)>) {
    let mut lines = Vec::new();
    loop {
        // Some tests send bytes that are no UTF-8.
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line).unwrap();
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        lines.push(line.to_owned());
    }
    let mut lines = lines.into_iter();
    let first = lines.next().unwrap_or_default();
    let fields = lines.map(|line| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    });
    (first, fields.collect())
}

fn read_chunks(from: &mut impl BufRead, body: &mut Vec<u8>) -> Option<()> {
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        let size = u64::from_str_radix(line.trim_end(), 16).ok()?;
        let start = body.len();
        from.take(size).read_to_end(body).ok()?;
        from.read_line(&mut line).ok()?;
        if (body.len() - start) as u64 != size {
            return None;
        }
        if size == 0 {
            return Some(());
        }
    }
}

/// An address that refuses connections, and that nobody else gets: the port stays bound until the
/// process ends.
pub fn dead() -> SocketAddr {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    std::mem::forget(socket);
    address
}

/// Sends bytes and reads whatever comes back within two seconds or until the end.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        answer.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// As [`raw`], with the bytes in pieces of this size.
pub fn raw_in_pieces(address: SocketAddr, bytes: &[u8], size: usize) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    for piece in bytes.chunks(size) {
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends bytes, reads so many, and leaves.
pub fn raw_bytes(address: SocketAddr, bytes: &[u8], count: u64) -> Vec<u8> {
    let mut stream = connect(address);
    stream.get_mut().write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.take(count).read_to_end(&mut answer).unwrap();
    answer
}

/// A request that the scripted origin got.
#[derive(Clone, Debug)]
pub struct Asked {
    pub line: String,
    pub head: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}

/// An origin on a free port: `script` gets each whole request and the connection to write on, and
/// says whether the connection stays open.
pub struct Origin {
    pub address: SocketAddr,
    pub requests: Arc<AtomicUsize>,
}

impl Origin {
    pub fn new(script: impl Fn(&Asked, &mut TcpStream) -> bool + Send + Sync + 'static) -> Origin {
        Origin::on(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    pub fn on(
        listener: TcpListener,
        script: impl Fn(&Asked, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> Origin {
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let (counter, script) = (Arc::clone(&requests), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (counter, script, Ok(stream)) =
                    (Arc::clone(&counter), Arc::clone(&script), stream)
                else {
                    return;
                };
                std::thread::spawn(move || converse(stream, &counter, &*script));
            }
        });
        Origin { address, requests }
    }

    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn converse(
    stream: TcpStream,
    counter: &AtomicUsize,
    script: &dyn Fn(&Asked, &mut TcpStream) -> bool,
) {
    let mut reader = BufReader::new(stream);
    loop {
        let (line, head) = read_head(&mut reader);
        if line.is_empty() {
            return;
        }
        let mut asked = Asked {
            line,
            head,
            body: Vec::new(),
        };
        if asked.header("transfer-encoding").is_some() {
            if read_chunks(&mut reader, &mut asked.body).is_none() {
                return;
            }
        } else if let Some(length) = asked
            .header("content-length")
            .map(|length| length.parse().unwrap())
        {
            let read = (&mut reader).take(length).read_to_end(&mut asked.body);
            if !read.is_ok_and(|read| read as u64 == length) {
                return;
            }
        }
        counter.fetch_add(1, Ordering::SeqCst);
        if !script(&asked, reader.get_mut()) {
            return;
        }
    }
}

/// Writes; a peer that has gone is its own affair.
pub fn say(stream: &mut TcpStream, text: &str) -> bool {
    stream.write_all(text.as_bytes()).is_ok()
}

/// Writes, and closes.
pub fn say_last(stream: &mut TcpStream, text: &str) -> bool {
    say(stream, text);
    false
}
