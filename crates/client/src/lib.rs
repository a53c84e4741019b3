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
//! Over UDP to another machine, the link is [reliable](larder_packet::Reliability) if the node
//! takes part: both ends repeat lost frames.
//!
//! [`transport`] decides where to connect: first by the rules of ndn-cxx's applications, then by
//! Larder's own default.
//!
//! If the node ends, restarts or is replaced, [`Client::receive`] connects again and repeats
//! registrations ([`Client::wait_out`] says for how long it tries). Over UDP and TCP it repeats
//! them in any case, because nothing else tells that a node has forgotten them.
//!
//! Missing: a host name is resolved once.

#![forbid(unsafe_code)]

pub mod command_key;
mod commands;
pub mod entropy;
mod error;
pub mod gso;
mod input;
pub mod limits;
mod management;
#[cfg(test)]
mod outage_tests;
mod output;
mod socket;
mod spin;
#[cfg(test)]
mod tests;
pub mod transport;
mod unix_socket;
mod upkeep;

use larder_packet::limits::LARGEST_PACKET_BYTES;
use larder_packet::{
    Data, DigestSigner, Interest, LpPacket, NackReason, PitToken, Reassembled, Reassembler,
    SharedMemory, Signer,
};
use larder_units::{Stream, Streams, Time};
pub use output::Output;
use socket::Socket;
pub use spin::Spin;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};
pub use transport::{Endpoint, Transport, default_socket_paths, is_safe};
use upkeep::Upkeep;

pub use command_key::{CommandKey, CommandKeyError};
pub use error::ClientError;
use input::Input;

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
    /// Signs commands.
    signer: Box<dyn Signer>,
    upkeep: Upkeep,
    /// True if the transport is one of [`default_socket_paths`], whose owner is checked.
    is_default: bool,
    /// True after a forwarder has proved to be there.
    has_heard: bool,
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

impl Client {
    /// Connects as `$NDN_CLIENT_TRANSPORT`, client.conf or Larder's defaults say, in this order.
    /// Commands are signed with the key of the environment, if it names one ([`command_key`]).
    ///
    /// # Errors
    /// None is usable, or the key is not.
    pub fn connect() -> Result<Client, ClientError> {
        Client::connect_over(|transport| transport)
    }

    /// Connects as [`Client::connect`], over what `adapt` makes of the transport.
    ///
    /// # Errors
    /// None is usable.
    pub fn connect_over(adapt: fn(Transport) -> Transport) -> Result<Client, ClientError> {
        let mut client = match transport::configured().map_err(ClientError::Transport)? {
            Some(transport) => Client::connect_to(adapt(transport))?,
            None => Client::connect_to_first(adapt)?,
        };
        client.sign_as_configured()?;
        Ok(client)
    }

    /// Signs commands with the key that the environment names, if it names one.
    ///
    /// # Errors
    /// The key is not usable.
    pub fn sign_as_configured(&mut self) -> Result<(), ClientError> {
        let Some(key) = CommandKey::configured().map_err(ClientError::CommandKey)? else {
            return Ok(());
        };
        self.sign_commands(key.read().map_err(ClientError::CommandKey)?);
        Ok(())
    }

    /// Connects to this transport. Commands are signed by a digest, until
    /// [`Client::sign_commands`].
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
                Ok(client) => {
                    return Ok(Client {
                        is_default: true,
                        ..client
                    });
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        let looked_at = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        Err(first_error.unwrap_or(ClientError::NoNode { looked_at }))
    }

    fn over(transport: Transport, socket: Socket) -> Client {
        Client {
            transport,
            start: Instant::now(),
            input: Input::of(&socket),
            output: Output::of(&socket),
            reassembler: reassembler(),
            malformed: 0,
            kept: VecDeque::new(),
            signer: Box::new(DigestSigner),
            upkeep: Upkeep::new(),
            is_default: false,
            has_heard: socket.mtu().is_none(),
            socket,
        }
    }

    /// Signs commands with this key from now on. Without one, a digest takes the place of the
    /// signature, which a node accepts if it lets every application on this machine command it.
    pub fn sign_commands(&mut self, signer: Box<dyn Signer>) {
        self.signer = signer;
    }

    /// Sets the longest outage of the node before it is an error: zero if the end of the connection
    /// is one, [`Duration::MAX`] for a server that waits for ever. The default is
    /// [`limits::OUTAGE`].
    pub fn wait_out(&mut self, outage: Duration) {
        self.upkeep.patience = outage;
    }

    /// Returns true while there is a connection: packets to send are discarded otherwise.
    pub fn is_connected(&self) -> bool {
        !self.upkeep.is_cut_off()
    }

    /// Returns the reason of the present outage: from the end of the connection until the node has
    /// answered the registrations again.
    pub fn outage(&self) -> Option<&ClientError> {
        self.upkeep.outage.as_ref().map(|outage| &outage.error)
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
            self.socket
                .wait(Some(deadline.saturating_duration_since(Instant::now())))?;
        }
        Ok(())
    }

    /// Sends the waiting packets, then waits until a packet comes, `deadline` passes, a signal
    /// arrives, an [outage](Client::outage) begins or ends, or the [`Client::waker`] is called.
    /// Passes every packet of a read to `handle`, with the means to answer.
    ///
    /// # Errors
    /// The connection is gone for longer than [`Client::wait_out`] allows, the node refuses a
    /// registration that is repeated, or it sends what is not NDN.
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
        let had_outage = self.upkeep.outage.is_some();
        loop {
            self.keep_up()?;
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
            if room && more && self.fill()? {
                reads += 1;
                continue;
            }
            // A caller whose deadline has already passed must get waiting packets too: only a look
            // at the socket tells.
            let has_changed = self.upkeep.outage.is_some() != had_outage;
            if handed > 0
                || has_changed
                || self.socket.take_woken()
                || (looked && late)
                || self.interrupted()
            {
                return Ok(());
            }
            let next = [
                deadline,
                self.output.next_timeout(),
                self.upkeep.next_timeout(),
            ]
            .into_iter()
            .flatten()
            .min();
            self.socket.wait(next.map(|next| next.since(now)))?;
            looked = true;
        }
    }

    /// Connects again if that is due, and repeats commands.
    fn keep_up(&mut self) -> Result<(), ClientError> {
        let now = self.now();
        if let Some(refusal) = self.upkeep.take_refusal() {
            return Err(refusal);
        }
        if let Some(error) = self.upkeep.give_up(now) {
            return Err(error);
        }
        if self.upkeep.is_cut_off() {
            if self.upkeep.next_timeout().is_some_and(|next| next <= now) {
                self.connect_again();
            }
            if self.upkeep.is_cut_off() {
                return Ok(());
            }
        }
        let Client {
            upkeep,
            output,
            signer,
            socket,
            ..
        } = self;
        output.now = now;
        let unanswered = upkeep.send_due(now, |command, parameters| {
            let (name, wire) =
                commands::signed_command(signer.as_ref(), socket.is_local(), command, parameters)?;
            output.send(None, |out| out.extend_from_slice(&wire));
            Ok(name)
        });
        match unanswered {
            Ok(()) => Ok(()),
            Err(error) => self.lose(error),
        }
    }

    /// Begins an outage, if this client outlives one.
    ///
    /// # Errors
    /// The error, otherwise.
    fn lose(&mut self, error: ClientError) -> Result<(), ClientError> {
        // A process that has never been there is not waited for.
        if self.upkeep.patience.is_zero() || !self.has_heard {
            return Err(error);
        }
        self.socket.close();
        self.start_over();
        self.upkeep.lose(self.now(), error);
        Ok(())
    }

    fn connect_again(&mut self) {
        let now = self.now();
        let is_theirs = match &self.transport.endpoint {
            Endpoint::Unix(path) => self.is_default && !transport::is_ours(path),
            Endpoint::Tcp(_) | Endpoint::Udp(_) => false,
        };
        if is_theirs || self.socket.connect_again(&self.transport).is_err() {
            self.upkeep.failed(now);
            return;
        }
        self.start_over();
        self.upkeep.connected(now, self.socket.mtu().is_none());
    }

    /// Forgets what belongs to the connection before.
    fn start_over(&mut self) {
        self.input = Input::of(&self.socket);
        self.output = Output::of(&self.socket);
        self.reassembler = reassembler();
    }

    /// Reads. Returns false if there is nothing.
    fn fill(&mut self) -> Result<bool, ClientError> {
        match self.input.fill(&mut self.socket) {
            Ok(has_read) => Ok(has_read),
            Err(error) => self.lose(self.broken(error)).map(|()| false),
        }
    }

    /// Writes. Returns true if nothing is left.
    fn write(&mut self) -> Result<bool, ClientError> {
        if self.upkeep.is_cut_off() {
            self.output.discard();
            return Ok(true);
        }
        match self.output.flush(&mut self.socket) {
            Ok(is_all) => Ok(is_all),
            Err(error) => self.lose(self.broken(error)).map(|()| true),
        }
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
            let Some(frame) = self.kept.pop_front() else {
                break;
            };
            packets += 1;
            let Client {
                output,
                reassembler,
                ..
            } = self;
            dispatch(now, &frame, reassembler, |received| {
                handle(now, received, output)
            });
        }
        while packets < most && self.output.waiting_bytes() < limits::OUTPUT_BYTES {
            let Some(range) = self.input.next_frame().map_err(ClientError::Garbage)? else {
                break;
            };
            let next_refresh = self.next_refresh(now);
            let Client {
                input,
                output,
                reassembler,
                socket,
                upkeep,
                ..
            } = self;
            let frame = &input.buffer[range];
            if let Some(step) = SharedMemory::of(frame) {
                socket.on_shared_memory(step);
                continue;
            }
            packets += 1;
            if !output.hears(now, frame) {
                continue;
            }
            let delivered = dispatch(now, frame, reassembler, |received| {
                let is_of_upkeep = match &received {
                    Received::Data { data, .. } => upkeep.on_data(data, next_refresh),
                    Received::Nack { interest, .. } => upkeep.on_nack(now, interest),
                    Received::Interest { .. } => false,
                };
                if !is_of_upkeep {
                    handle(now, received, output);
                }
            });
            upkeep.heard();
            self.has_heard = true;
            if delivered.is_none() {
                self.malformed += 1;
            }
            if self.output.waiting_bytes() >= limits::WRITE_BYTES {
                self.write()?;
            }
        }
        Ok(packets)
    }
}

/// There is only one neighbour: to wait longer on a link that is not reliable costs little.
fn reassembler() -> Reassembler {
    Reassembler::for_packets_of(LARGEST_PACKET_BYTES).of_reliable_link()
}

/// Decodes a frame and delivers its packet; `None` if it is malformed.
fn dispatch(
    now: Time,
    frame: &[u8],
    reassembler: &mut Reassembler,
    handle: impl FnOnce(Received<'_>),
) -> Option<()> {
    let lp = LpPacket::decode(frame).ok()?;
    let Some(fragment) = lp.fragment else {
        return Some(());
    };
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
        handle(Received::Data {
            data: Data::decode(packet).ok()?,
            marked,
            granted_rate: header.interest_rate,
        });
        return Some(());
    }
    let interest = Interest::decode(packet).ok()?;
    handle(match header.nack {
        Some(reason) => Received::Nack { interest, reason },
        None => Received::Interest {
            interest,
            token: header.pit_token,
            incoming_face: header.incoming_face,
        },
    });
    Some(())
}
