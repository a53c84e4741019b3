//! The application side of a face: connects to a forwarder, sends, receives, registers a prefix.
//!
//! It is for the `larder` command's own applications (put, get, ping, ctl). One thread has one
//! connection: [`Output::send`] collects packets; [`Client::receive`] writes them in large pieces,
//! waits, and delivers every packet of a large read. While a producer's Data cannot be written,
//! further Interests stay unread, so that the waiting bytes are bounded. A signal (SIGINT, SIGTERM)
//! ends the wait: see [`Client::interrupted`].
//!
//! Over a Unix socket, packets go through shared memory if the node offers it
//! ([`SharedMemory`]).
//!
//! Over UDP to another machine, the link is [reliable](Reliability) if the node takes part: both
//! ends repeat lost frames.
//!
//! [`transport`] decides where to connect: first by the rules of ndn-cxx's applications, then by
//! Larder's own default.
//!
//! Missing: reconnection, and a new registration after the node has restarted.

#![forbid(unsafe_code)]

pub mod entropy;
pub mod gso;
pub mod limits;
mod management;
mod socket;
mod spin;
#[cfg(test)]
mod tests;
pub mod transport;
mod unix_socket;

use larder_packet::limits::LARGEST_PACKET_BYTES;
use larder_packet::{
    ControlParameters, Data, Fragmenter, Interest, LpHeader, LpPacket, NackReason, Name, PitToken, Reassembled,
    Reassembler, Reliability, SharedMemory, encode_lp, tlv,
};
use larder_units::{Stream, Streams, Time, system_message};
use socket::Socket;
pub use spin::Spin;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};
pub use transport::{Transport, default_socket_paths, is_safe};

/// A connection to a forwarder.
pub struct Client {
    transport: Transport,
    socket: Socket,
    start: Instant,
    input: Input,
    output: Output,
    reassembler: Reassembler,
    malformed: u64,
    /// Packets that arrived during a request to management, for the next [`Client::receive`].
    kept: VecDeque<Vec<u8>>,
}

/// A packet from the forwarder.
#[derive(Clone, Copy, Debug)]
pub enum Received<'a> {
    /// An Interest for a registered prefix.
    Interest {
        /// The Interest.
        interest: Interest<'a>,
        /// The token to pass to [`Output::send`] with the Data.
        token: Option<PitToken>,
        /// The forwarder's number of the face by which it came, after
        /// [`Client::learn_incoming_faces`].
        incoming_face: Option<u64>,
    },
    /// A Data.
    Data {
        /// The Data.
        data: Data<'a>,
        /// True if a queue on its path was long.
        marked: bool,
        /// The Interests per second that its path can take, if it reports that.
        granted_rate: Option<u64>,
    },
    /// The forwarder could not forward an Interest.
    Nack {
        /// The Interest.
        interest: Interest<'a>,
        /// The reason.
        reason: NackReason,
    },
}

/// The reason why a client cannot continue. One line, with the remedy if it is known.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The text is no transport.
    Transport(transport::TransportError),
    /// There is no forwarder.
    Connect {
        /// The address.
        transport: Transport,
        /// The system's error.
        error: io::Error,
    },
    /// No socket of a node exists.
    NoNode {
        /// The paths that were tried.
        looked_at: Vec<String>,
    },
    /// The forwarder closed the connection.
    Closed(Transport),
    /// The forwarder sends invalid NDN.
    Garbage(tlv::FrameError),
    /// The connection broke.
    Io(io::Error),
    /// The forwarder did not answer a command or a dataset request.
    ManagementUnanswered {
        /// The name of it.
        what: String,
    },
    /// The forwarder refused it.
    ManagementRefused {
        /// The name of it.
        what: String,
        /// The reason.
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
    /// Connects as `$NDN_CLIENT_TRANSPORT`, client.conf or Larder's defaults say, in this order.
    ///
    /// # Errors
    /// None is usable.
    pub fn connect() -> Result<Client, ClientError> {
        Client::connect_over(|transport| transport)
    }

    /// Connects as [`Client::connect`], over what `adapt` makes of the transport.
    ///
    /// # Errors
    /// None is usable.
    pub fn connect_over(adapt: fn(Transport) -> Transport) -> Result<Client, ClientError> {
        match transport::configured().map_err(ClientError::Transport)? {
            Some(transport) => Client::connect_to(adapt(transport)),
            None => Client::connect_to_first(adapt),
        }
    }

    /// Connects to this transport.
    ///
    /// # Errors
    /// No forwarder listens there.
    pub fn connect_to(transport: Transport) -> Result<Client, ClientError> {
        match Socket::connect(&transport) {
            Ok(socket) => Ok(Client::over(transport, socket)),
            Err(error) => Err(ClientError::Connect { transport, error }),
        }
    }

    /// Connects to the first of the default sockets at which a node listens.
    ///
    /// # Errors
    /// No node listens at any.
    pub fn connect_to_default() -> Result<Client, ClientError> {
        Client::connect_to_first(|transport| transport)
    }

    fn connect_to_first(adapt: fn(Transport) -> Transport) -> Result<Client, ClientError> {
        let paths = default_socket_paths();
        let mut first_error = None;
        for path in paths.iter().filter(|path| transport::is_ours(path)) {
            match Client::connect_to(adapt(Transport::unix(path.clone()))) {
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
            // There is only one neighbour: to wait longer on a link that is not reliable costs
            // little.
            reassembler: Reassembler::for_packets_of(LARGEST_PACKET_BYTES).of_reliable_link(),
            malformed: 0,
            kept: VecDeque::new(),
            socket,
        }
    }

    /// Returns the process at the other end, if it listens at a Unix socket.
    pub fn peer_process(&self) -> Option<u32> {
        self.socket.peer_process()
    }

    /// Returns the transport of this connection.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Returns the time since the connection was made.
    pub fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// Returns a random stream that differs in every run: for nonces, not for secrets.
    pub fn random_stream(&self, name: &str) -> Stream {
        let [seed] = entropy::words();
        Streams::new(seed).stream(name)
    }

    /// Returns the number of dropped packets that could not be decoded.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Returns true after a signal has asked to stop, since [`Client::stop_on_signals`].
    pub fn interrupted(&self) -> bool {
        self.socket.interrupted()
    }

    /// After this call, SIGINT and SIGTERM do not end the process, but end [`Client::receive`].
    ///
    /// # Errors
    /// The system refuses a signal handler.
    pub fn stop_on_signals(&mut self) -> Result<(), ClientError> {
        Ok(self.socket.stop_on_signals()?)
    }

    /// Returns a waker that ends the wait of [`Client::receive`] from another thread; earlier
    /// wake-ups are remembered. There is one.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn waker(&mut self) -> Result<mio::Waker, ClientError> {
        Ok(self.socket.waker()?)
    }

    /// Returns the packets for the next [`Client::receive`].
    pub fn output(&mut self) -> &mut Output {
        self.output.now = self.now();
        &mut self.output
    }

    /// Sends the waiting packets, and drops those that the forwarder does not take within
    /// `patience`.
    ///
    /// # Errors
    /// The connection broke.
    pub fn flush(&mut self, patience: Duration) -> Result<(), ClientError> {
        let deadline = Instant::now() + patience;
        while !self.write()? && Instant::now() < deadline && !self.interrupted() {
            self.socket.wait(Some(deadline.saturating_duration_since(Instant::now())))?;
        }
        Ok(())
    }

    /// Sends the waiting packets, then waits until a packet comes, `deadline` passes, a signal
    /// arrives, or the [`Client::waker`] is called. Passes every packet of a read to `handle`, with
    /// the means to answer.
    ///
    /// # Errors
    /// The connection broke or was closed.
    pub fn receive(
        &mut self,
        deadline: Option<Time>,
        handle: impl FnMut(Time, Received<'_>, &mut Output),
    ) -> Result<(), ClientError> {
        self.receive_at_most(usize::MAX, deadline, handle)
    }

    /// As [`Client::receive`], but leaves the packets after the first `most` to the next call.
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
            // After the packets, which may contain Acks.
            self.output.keep_reliable(now);
            self.write()?;
            let late = deadline.is_some_and(|deadline| deadline <= now);
            // A process that had no processor for a while must not time out on packets that wait
            // here: it gets all of them first.
            let more = handed == 0 || (late && handed < most && reads < limits::READS_BEHIND_TIME);
            if room && more && self.input.fill(&mut self.socket).map_err(|error| self.broken(error))? {
                reads += 1;
                continue;
            }
            // A caller whose deadline has already passed must get waiting packets too: only a look
            // at the socket tells.
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
            // UDP learns only now that no process listens.
            ConnectionRefused => ClientError::Connect { transport, error },
            _ => ClientError::Io(error),
        }
    }

    /// Delivers the packets of a read, as long as there is room for answers. Returns their number.
    fn deliver(
        &mut self,
        most: usize,
        handle: &mut impl FnMut(Time, Received<'_>, &mut Output),
    ) -> Result<usize, ClientError> {
        let mut packets = 0;
        // The clock is read once per read: the packets cannot be distinguished in time.
        let now = self.now();
        self.output.now = now;
        while packets < most && self.output.waiting_bytes() < limits::OUTPUT_BYTES {
            let Some(frame) = self.kept.pop_front() else { break };
            packets += 1;
            let Client { output, reassembler, .. } = self;
            dispatch(now, &frame, reassembler, |received| handle(now, received, output));
        }
        while packets < most && self.output.waiting_bytes() < limits::OUTPUT_BYTES {
            let Some(range) = self.input.next_frame().map_err(ClientError::Garbage)? else { break };
            let Client { input, output, reassembler, socket, .. } = self;
            let frame = &input.buffer[range];
            if let Some(step) = SharedMemory::of(frame) {
                socket.on_shared_memory(step);
                continue;
            }
            packets += 1;
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

    /// Asks the forwarder for Interests under `prefix` (`rib/register`). Packets that arrive
    /// meanwhile are kept for the next [`Client::receive`], up to 1 MiB.
    ///
    /// # Errors
    /// The forwarder refuses, does not answer, or the connection breaks.
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

    /// Asks the forwarder to name the face of each Interest (NDNLPv2 IncomingFaceId;
    /// `faces/update`).
    ///
    /// # Errors
    /// The forwarder refuses, does not answer, or the connection breaks.
    pub fn learn_incoming_faces(&mut self) -> Result<(), ClientError> {
        let flags = Some(larder_packet::types::nfd::FLAG_LOCAL_FIELDS);
        let parameters = ControlParameters { flags, mask: flags, ..ControlParameters::default() };
        let response = self.command("faces/update", &parameters)?;
        match response.status_code {
            200 => Ok(()),
            code => {
                let reason = format!("{code} {}", response.status_text);
                Err(ClientError::ManagementRefused { what: "faces/update".to_owned(), reason })
            }
        }
    }
}

/// Decodes a frame and delivers its packet; `None` if it is malformed.
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
        None => Received::Interest { interest, token: header.pit_token, incoming_face: header.incoming_face },
    });
    Some(())
}

/// Bytes that were read and not delivered: a part of a stream, or one datagram.
#[derive(Default)]
struct Input {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes of each datagram that was read except the last, which may be shorter; `None` for a
    /// stream.
    datagram: Option<usize>,
}

impl Input {
    /// Reads as much as there is room for. Returns false if there is nothing.
    fn fill(&mut self, socket: &mut Socket) -> io::Result<bool> {
        self.buffer.resize(limits::READ_BYTES, 0);
        // The rest is less than a packet: moving it costs little compared with the read.
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

    /// Returns the position of the next whole frame.
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

/// Packets to send.
pub struct Output {
    bytes: Vec<u8>,
    start: usize,
    datagrams: Option<Datagrams>,
    /// The packet that gets a header.
    packet: Vec<u8>,
    /// The time for datagrams.
    now: Time,
}

/// The additions of datagrams to a stream: their boundaries, and pieces of at most the MTU, which
/// are repeated if they are not acknowledged.
struct Datagrams {
    lengths: VecDeque<usize>,
    mtu: usize,
    link: Link,
}

enum Link {
    /// Nothing is lost within this machine.
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

    /// Queues the packet that `write` appends (none if it appends nothing), with the token of the
    /// Interest that it answers. Returns the result of `write`.
    pub fn send<R>(&mut self, token: Option<PitToken>, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.send_with(&LpHeader { pit_token: token, ..LpHeader::default() }, write)
    }

    /// As [`Output::send`], with a link header of the caller.
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
                    // This module never chooses an MTU that is too small for a header.
                    let _ = match link {
                        Link::Plain(fragmenter) => fragmenter.fragment(header, packet, *mtu, frame),
                        Link::Reliable(link) => link.send(*now, header, packet, *mtu, frame),
                    };
                }
                result
            }
        }
    }

    /// Returns the bytes that were not written yet.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Processes the link header of a frame. Returns false for a duplicate.
    fn hears(&mut self, now: Time, frame: &[u8]) -> bool {
        match &mut self.datagrams {
            Some(Datagrams { link: Link::Reliable(link), .. }) => link.receive(now, frame),
            _ => true,
        }
    }

    /// Queues retransmissions, and Acks.
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

    /// Returns the time at which [`Output::keep_reliable`] has to be called next.
    fn next_timeout(&self) -> Option<Time> {
        match &self.datagrams {
            Some(Datagrams { link: Link::Reliable(link), .. }) => link.next_timeout(),
            _ => None,
        }
    }

    /// Writes what the socket accepts. Returns true if nothing is left.
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
        socket.between_packets()?;
        Ok(true)
    }
}
