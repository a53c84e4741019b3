//! The applications' side of a face: connects to a forwarder, sends, receives, registers a prefix.
//!
//! For the `larder` command's own applications (put, get, ping, ctl). One thread, one connection:
//! [`Output::send`] gathers packets, [`Client::receive`] writes them out in large pieces, waits,
//! and hands over every packet of a large read. Interests to a producer that cannot get its Data
//! written stay unread, so that what waits is bounded. A signal (SIGINT, SIGTERM) ends the waiting:
//! see [`Client::interrupted`].
//!
//! Over UDP to another machine the link is [reliable](Reliability) where the node takes part: what
//! is lost is sent again at both ends.
//!
//! Where to connect to is in [`transport`]: the rules of ndn-cxx's applications, then Larder's own
//! default.
//!
//! Missing: no reconnection, and a prefix is not registered again where the node restarts.

mod limits;
mod management;
mod socket;
#[cfg(test)]
mod tests;
pub mod transport;

use crate::entropy;
use crate::gso;
use crate::system_message::system_message;
use larder_packet::limits::LARGEST_PACKET_BYTES;
use larder_packet::{
    ControlParameters, Data, Fragmenter, Interest, LpHeader, LpPacket, NackReason, Name, PitToken, Reassembled,
    Reassembler, Reliability, encode_lp, tlv,
};
use larder_units::{Stream, Streams, Time};
use socket::Socket;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};
pub(crate) use transport::is_safe;
pub use transport::{Transport, default_socket_paths};

/// A connection to a forwarder.
pub struct Client {
    transport: Transport,
    socket: Socket,
    start: Instant,
    input: Input,
    output: Output,
    reassembler: Reassembler,
    malformed: u64,
}

/// A packet from the forwarder.
#[derive(Clone, Copy, Debug)]
pub enum Received<'a> {
    /// An Interest for a prefix that we registered.
    Interest {
        /// The Interest.
        interest: Interest<'a>,
        /// To be handed to [`Output::send`] with the Data.
        token: Option<PitToken>,
    },
    /// A Data.
    Data {
        /// The Data.
        data: Data<'a>,
        /// Whether a queue on its way was long.
        marked: bool,
        /// Interests a second that its way can take, where it says.
        granted_rate: Option<u64>,
    },
    /// The forwarder could not bring an Interest on its way.
    Nack {
        /// The Interest.
        interest: Interest<'a>,
        /// Why.
        reason: NackReason,
    },
}

/// Why a client cannot go on. One line, with what to do about it where that is known.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The transport's text is none.
    Transport(transport::TransportError),
    /// There is no forwarder.
    Connect {
        /// Where it should be.
        transport: Transport,
        /// What the system says.
        error: io::Error,
    },
    /// No socket of a node exists.
    NoNode {
        /// Where one was looked for.
        looked_at: Vec<String>,
    },
    /// The forwarder closed the connection.
    Closed(Transport),
    /// The forwarder sends what is not NDN.
    Garbage(tlv::FrameError),
    /// The connection broke.
    Io(io::Error),
    /// The forwarder did not answer a command, or a question about its state.
    ManagementUnanswered {
        /// Which.
        what: String,
    },
    /// The forwarder refused it.
    ManagementRefused {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Transport(error) => error.fmt(f),
            ClientError::Connect { transport, error } => {
                write!(f, "cannot connect to {transport}: {}; start a node with `larder run`", system_message(error))
            }
            ClientError::NoNode { looked_at } => write!(
                f,
                "no node is running here (no socket at {}); start one with `larder run`, or name one in NDN_CLIENT_TRANSPORT",
                looked_at.join(", ")
            ),
            ClientError::Closed(transport) => write!(f, "the node at {transport} closed the connection"),
            ClientError::Garbage(error) => write!(f, "the node sends what is not NDN: {error}"),
            ClientError::Io(error) => write!(f, "the connection to the node broke: {}", system_message(error)),
            ClientError::ManagementUnanswered { what } => write!(f, "the node did not answer the {what}"),
            ClientError::ManagementRefused { what, reason } => write!(f, "the node refused the {what}: {reason}"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        ClientError::Io(error)
    }
}

impl Client {
    /// Connects as `$NDN_CLIENT_TRANSPORT`, client.conf and Larder's defaults say, in this order.
    ///
    /// # Errors
    /// Where none is usable.
    pub fn connect() -> Result<Client, ClientError> {
        match transport::configured().map_err(ClientError::Transport)? {
            Some(transport) => Client::connect_to(transport),
            None => Client::connect_to_default(),
        }
    }

    /// Connects to this transport.
    ///
    /// # Errors
    /// Where nobody listens there.
    pub fn connect_to(transport: Transport) -> Result<Client, ClientError> {
        match Socket::connect(&transport) {
            Ok(socket) => Ok(Client::over(transport, socket)),
            Err(error) => Err(ClientError::Connect { transport, error }),
        }
    }

    /// Connects to the first of the default sockets at which a node listens.
    ///
    /// # Errors
    /// Where no node listens at any.
    pub fn connect_to_default() -> Result<Client, ClientError> {
        let paths = default_socket_paths();
        let mut first_error = None;
        for path in paths.iter().filter(|path| transport::is_ours(path)) {
            match Client::connect_to(Transport::unix(path.clone())) {
                Ok(client) => return Ok(client),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        let looked_at = paths.iter().map(|path| path.display().to_string()).collect();
        Err(first_error.unwrap_or(ClientError::NoNode { looked_at }))
    }

    fn over(transport: Transport, socket: Socket) -> Client {
        let [sequence] = entropy::words();
        let output = match socket.mtu() {
            None => Output::stream(),
            Some(mtu) => Output::datagrams(mtu, sequence),
        };
        Client {
            transport,
            start: Instant::now(),
            input: Input { datagram: socket.mtu(), ..Input::default() },
            output,
            // There is one neighbour only: to wait longer where the link is none of these costs
            // little.
            reassembler: Reassembler::for_packets_of(LARGEST_PACKET_BYTES).of_reliable_link(),
            malformed: 0,
            socket,
        }
    }

    /// The process at the other end, where it listens at a Unix socket.
    pub fn peer_process(&self) -> Option<u32> {
        self.socket.peer_process()
    }

    /// Where this client is connected to.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Time since the connection was made.
    pub fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// A random stream that no other run draws again: for nonces, not for secrets.
    pub fn random_stream(&self, name: &str) -> Stream {
        let [seed] = entropy::words();
        Streams::new(seed).stream(name)
    }

    /// Packets from the forwarder that could not be decoded and were dropped.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Whether a signal asked to stop, since [`Client::stop_on_signals`].
    pub fn interrupted(&self) -> bool {
        self.socket.interrupted()
    }

    /// From now on SIGINT and SIGTERM do not end the process, but end [`Client::receive`].
    ///
    /// # Errors
    /// Where the system refuses a signal handler.
    pub fn stop_on_signals(&mut self) -> Result<(), ClientError> {
        Ok(self.socket.stop_on_signals()?)
    }

    /// What ends the waiting of [`Client::receive`] from another thread; wake-ups before it are
    /// remembered. There is one.
    ///
    /// # Errors
    /// Where the system has no descriptor left.
    pub fn waker(&mut self) -> Result<mio::Waker, ClientError> {
        Ok(self.socket.waker()?)
    }

    /// Packets to be sent by the next [`Client::receive`].
    pub fn output(&mut self) -> &mut Output {
        self.output.now = self.now();
        &mut self.output
    }

    /// Sends what waits, and gives up what the forwarder does not take within `patience`.
    ///
    /// # Errors
    /// Where the connection broke.
    pub fn flush(&mut self, patience: Duration) -> Result<(), ClientError> {
        let deadline = Instant::now() + patience;
        while !self.write()? && Instant::now() < deadline && !self.interrupted() {
            self.socket.wait(Some(deadline.saturating_duration_since(Instant::now())))?;
        }
        Ok(())
    }

    /// Sends what waits, then waits until a packet comes, `deadline` passes, a signal arrives or
    /// the [`Client::waker`] is called. Hands every packet that came at once to `handle`, with the
    /// means to answer.
    ///
    /// # Errors
    /// Where the connection broke or was closed.
    pub fn receive(
        &mut self,
        deadline: Option<Time>,
        handle: impl FnMut(Time, Received<'_>, &mut Output),
    ) -> Result<(), ClientError> {
        self.receive_at_most(usize::MAX, deadline, handle)
    }

    /// As [`Client::receive`], and leaves what comes behind the first `most` packets to the next
    /// call.
    fn receive_at_most(
        &mut self,
        most: usize,
        deadline: Option<Time>,
        mut handle: impl FnMut(Time, Received<'_>, &mut Output),
    ) -> Result<(), ClientError> {
        let (mut looked, mut handed, mut reads) = (false, 0, 0);
        loop {
            self.write()?;
            let room = self.output.waiting_bytes() < limits::OUTPUT_BYTES;
            if room {
                handed += self.deliver(most - handed, &mut handle)?;
            }
            let now = self.now();
            // Behind what has come: there may be Acks in it.
            self.output.keep_reliable(now);
            self.write()?;
            let late = deadline.is_some_and(|deadline| deadline <= now);
            // Who has had no processor for a while must not take for late what waits here: he
            // learns of all of it first.
            let more = handed == 0 || (late && handed < most && reads < limits::READS_BEHIND_TIME);
            if room && more && self.input.fill(&mut self.socket).map_err(|error| self.broken(error))? {
                reads += 1;
                continue;
            }
            // Whoever comes with a deadline that has passed already must learn of what came, too:
            // only a look at the socket tells.
            if handed > 0 || self.socket.take_woken() || (looked && late) || self.interrupted() {
                return Ok(());
            }
            let next = deadline.into_iter().chain(self.output.next_timeout()).min();
            self.socket.wait(next.map(|next| next.since(now)))?;
            looked = true;
        }
    }

    fn write(&mut self) -> Result<bool, ClientError> {
        self.output.flush(&mut self.socket).map_err(|error| self.broken(error))
    }

    fn broken(&self, error: io::Error) -> ClientError {
        use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
        let transport = self.transport.clone();
        match error.kind() {
            UnexpectedEof | ConnectionReset | BrokenPipe => ClientError::Closed(transport),
            // UDP learns only now that nobody is there.
            ConnectionRefused => ClientError::Connect { transport, error },
            _ => ClientError::Io(error),
        }
    }

    /// Hands over what was read, as long as there is room for answers; returns how many packets.
    fn deliver(
        &mut self,
        most: usize,
        handle: &mut impl FnMut(Time, Received<'_>, &mut Output),
    ) -> Result<usize, ClientError> {
        let mut packets = 0;
        // The clock is read once for all that was read at once: it came at the same time as far as
        // anybody here can tell.
        let now = self.now();
        self.output.now = now;
        while packets < most && self.output.waiting_bytes() < limits::OUTPUT_BYTES {
            let Some(range) = self.input.next_frame().map_err(ClientError::Garbage)? else { break };
            packets += 1;
            let Client { input, output, reassembler, .. } = self;
            let frame = &input.buffer[range];
            if !output.hears(now, frame) {
                continue;
            }
            if dispatch(now, frame, reassembler, |received| handle(now, received, output)).is_none() {
                self.malformed += 1;
            }
            if self.output.waiting_bytes() >= limits::WRITE_BYTES {
                self.write()?;
            }
        }
        Ok(packets)
    }

    /// Asks the forwarder to send us Interests under `prefix` (`rib/register`). Packets that arrive
    /// meanwhile are dropped: register before anything else.
    ///
    /// # Errors
    /// Where it refuses, does not answer, or the connection breaks.
    pub fn register(&mut self, prefix: &Name) -> Result<(), ClientError> {
        let parameters = ControlParameters {
            name: Some(prefix.clone()),
            origin: Some(0),
            cost: Some(0),
            flags: Some(1), // CHILD_INHERIT
            ..ControlParameters::default()
        };
        let what = format!("registration of {prefix}");
        let response = self.command("rib/register", &parameters).map_err(|error| match error {
            ClientError::ManagementUnanswered { .. } => ClientError::ManagementUnanswered { what: what.clone() },
            ClientError::ManagementRefused { reason, .. } => {
                ClientError::ManagementRefused { what: what.clone(), reason }
            }
            other => other,
        })?;
        match response.status_code {
            200 => Ok(()),
            code => Err(ClientError::ManagementRefused { what, reason: format!("{code} {}", response.status_text) }),
        }
    }
}

/// Decodes a frame and hands over the packet in it; `None` where it is malformed.
fn dispatch(now: Time, frame: &[u8], reassembler: &mut Reassembler, handle: impl FnOnce(Received<'_>)) -> Option<()> {
    let lp = LpPacket::decode(frame).ok()?;
    let Some(fragment) = lp.fragment else { return Some(()) };
    let whole;
    let (header, packet) = match reassembler.accept(now, &lp.header, fragment) {
        Reassembled::Whole(packet) => (lp.header, packet),
        Reassembled::Done(packet, header) => {
            whole = packet;
            (header, &whole[..])
        }
        Reassembled::Partial => return Some(()),
        Reassembled::Dropped(_) => return None,
    };
    if packet.first() == Some(&(larder_packet::types::DATA as u8)) {
        let marked = header.congestion_mark.is_some_and(|mark| mark > 0);
        handle(Received::Data { data: Data::decode(packet).ok()?, marked, granted_rate: header.interest_rate });
        return Some(());
    }
    let interest = Interest::decode(packet).ok()?;
    handle(match header.nack {
        Some(reason) => Received::Nack { interest, reason },
        None => Received::Interest { interest, token: header.pit_token },
    });
    Some(())
}

/// Bytes read and not yet handed over: part of a stream, or one datagram.
#[derive(Default)]
struct Input {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes of each datagram that was read but the last, which may be shorter; nothing for a
    /// stream.
    datagram: Option<usize>,
}

impl Input {
    /// Reads as much as there is room for; false where nothing is there.
    fn fill(&mut self, socket: &mut Socket) -> io::Result<bool> {
        self.buffer.resize(limits::READ_BYTES, 0);
        // What is left is less than a packet: moving it costs nothing beside the read.
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        match socket.read(&mut self.buffer[self.end..])? {
            Some(read) => {
                self.end += read.bytes;
                self.datagram = self.datagram.map(|_| read.datagram);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Where the next whole frame is.
    fn next_frame(&mut self) -> Result<Option<std::ops::Range<usize>>, tlv::FrameError> {
        let bytes = &self.buffer[self.start..self.end];
        let length = match self.datagram {
            Some(datagram) => Some(bytes.len().min(datagram)).filter(|length| *length > 0),
            None => tlv::frame(bytes, limits::FRAME_BYTES)?,
        };
        let Some(length) = length else { return Ok(None) };
        let range = self.start..self.start + length;
        self.start = range.end;
        Ok(Some(range))
    }
}

/// Packets that are to be sent.
pub struct Output {
    bytes: Vec<u8>,
    start: usize,
    datagrams: Option<Datagrams>,
    /// The packet that gets a header.
    packet: Vec<u8>,
    /// When datagrams are sent.
    now: Time,
}

/// What datagrams need beyond a stream: where they end, and pieces of at most the MTU, sent again
/// where they are not acknowledged.
struct Datagrams {
    lengths: VecDeque<usize>,
    mtu: usize,
    link: Link,
}

enum Link {
    /// Within this machine nothing is lost.
    Plain(Fragmenter),
    Reliable(Box<Reliability>),
}

impl Output {
    fn stream() -> Self {
        Output { bytes: Vec::new(), start: 0, datagrams: None, packet: Vec::new(), now: Time::ZERO }
    }

    fn datagrams(mtu: usize, sequence: u64) -> Self {
        let link = match mtu {
            limits::UDP_MTU => Link::Reliable(Box::new(Reliability::new(sequence))),
            _ => Link::Plain(Fragmenter::new(sequence)),
        };
        Output { datagrams: Some(Datagrams { lengths: VecDeque::new(), mtu, link }), ..Output::stream() }
    }

    /// Takes the packet that `write` appends (none where it appends nothing), to be sent with the
    /// token of the Interest that it answers. Returns what `write` returns.
    pub fn send<R>(&mut self, token: Option<PitToken>, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.send_with(&LpHeader { pit_token: token, ..LpHeader::default() }, write)
    }

    /// The same with a link header of the caller's.
    pub fn send_with<R>(&mut self, header: &LpHeader, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let Output { bytes, packet, now, .. } = self;
        match &mut self.datagrams {
            None if header.is_empty() => write(bytes),
            None => {
                packet.clear();
                let result = write(packet);
                if !packet.is_empty() {
                    encode_lp(header, packet, bytes);
                }
                result
            }
            Some(Datagrams { lengths, mtu, link }) => {
                packet.clear();
                let result = write(packet);
                let frame = |wire: &[u8]| {
                    bytes.extend_from_slice(wire);
                    lengths.push_back(wire.len());
                };
                if !packet.is_empty() {
                    // An MTU too small for a header is not one that this module chooses.
                    let _ = match link {
                        Link::Plain(fragmenter) => fragmenter.fragment(header, packet, *mtu, frame),
                        Link::Reliable(link) => link.send(*now, header, packet, *mtu, frame),
                    };
                }
                result
            }
        }
    }

    /// Bytes that were not written yet.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Takes in what a frame says of the link; false where it came before.
    fn hears(&mut self, now: Time, frame: &[u8]) -> bool {
        match &mut self.datagrams {
            Some(Datagrams { link: Link::Reliable(link), .. }) => link.receive(now, frame),
            _ => true,
        }
    }

    /// Takes up what is to be sent again, and Acks.
    fn keep_reliable(&mut self, now: Time) {
        let Output { bytes, datagrams: Some(Datagrams { lengths, mtu, link: Link::Reliable(link) }), .. } = self else {
            return;
        };
        if link.next_timeout().is_some_and(|at| at <= now) {
            link.on_timeout(now, *mtu, |wire| {
                bytes.extend_from_slice(wire);
                lengths.push_back(wire.len());
            });
        }
    }

    /// When [`Output::keep_reliable`] is to be called next.
    fn next_timeout(&self) -> Option<Time> {
        match &self.datagrams {
            Some(Datagrams { link: Link::Reliable(link), .. }) => link.next_timeout(),
            _ => None,
        }
    }

    /// Writes what the socket takes; true where nothing is left.
    fn flush(&mut self, socket: &mut Socket) -> io::Result<bool> {
        while self.waiting_bytes() > 0 {
            let (count, bytes) = match &self.datagrams {
                None => (1, self.waiting_bytes()),
                Some(datagrams) => gso::run(datagrams.lengths.iter().copied(), socket.most_datagrams()),
            };
            let first = self.datagrams.as_ref().and_then(|datagrams| datagrams.lengths.front().copied());
            let next = &self.bytes[self.start..self.start + bytes];
            let Some(written) = socket.write(next, first.unwrap_or(bytes))? else { return Ok(false) };
            self.start += written;
            if self.start >= limits::OUTPUT_BYTES {
                self.bytes.drain(..self.start);
                self.start = 0;
            }
            if let Some(datagrams) = &mut self.datagrams {
                datagrams.lengths.drain(..count);
            }
        }
        self.bytes.clear();
        self.start = 0;
        Ok(true)
    }
}
