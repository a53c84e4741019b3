//! UDP sockets, and the handshakes of new connections.

use crate::connection::{Connection, Ended};
use crate::limits;
use crate::shared::Settings;
use quinn::crypto::rustls::{HandshakeData, QuicServerConfig};
use quinn::{EndpointConfig, IdleTimeout, TokioRuntime, TransportConfig, VarInt};
use rustls::pki_types::CertificateDer;
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// The name of HTTP/3 in the handshake (ALPN).
const H3: &[u8] = b"h3";

/// Binds so many UDP sockets to one address. The kernel chooses one of them by the addresses of a
/// datagram. They must all be read, or closed together: the choice depends on their number.
///
/// # Errors
/// The system's, also if another program has the address.
pub fn bind(address: SocketAddr, count: usize) -> io::Result<Vec<UdpSocket>> {
    // Without SO_REUSEPORT, this fails if any other socket has the address. Port 0 becomes a port.
    let first = socket(address)?;
    first.bind(&address.into())?;
    let address = first.local_addr()?.as_socket().unwrap_or(address);
    drop(first);
    let one = |_| {
        let socket = socket(address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        Ok(socket.into())
    };
    (0..count).map(one).collect()
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    socket.set_nonblocking(true)?;
    // The system may allow less.
    let _ = socket.set_recv_buffer_size(limits::RECEIVE_BUFFER_BYTES);
    Ok(socket)
}

/// The limits of QUIC for one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Streams of requests at once.
    pub streams: u32,
    /// Bytes of one request's body that are received and not read.
    pub stream_window: u32,
    /// The same of all requests of a connection.
    pub connection_window: u32,
    /// A connection is lost after so long without a datagram of its client.
    pub silence: Duration,
}

/// How the server shows itself to new connections, and the limits that they get.
#[derive(Clone)]
pub struct Identity(Arc<quinn::ServerConfig>);

impl Identity {
    /// Returns the identity of a TLS server: its certificates, its tickets, and its demand for
    /// certificates of clients. Only TLS 1.3 is used.
    ///
    /// # Errors
    /// The configuration has no TLS 1.3.
    pub fn new(tls: &rustls::ServerConfig, transport: &Transport) -> Result<Identity, io::Error> {
        let mut tls = tls.clone();
        tls.alpn_protocols = vec![H3.to_vec()];
        tls.max_early_data_size = 0;
        let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        config
            .incoming_buffer_size(limits::INCOMING_BYTES)
            .incoming_buffer_size_total(limits::INCOMING_ALL_BYTES);
        let mut parameters = TransportConfig::default();
        parameters
            .max_concurrent_bidi_streams(transport.streams.into())
            .max_concurrent_uni_streams(limits::UNI_STREAMS.into())
            .stream_receive_window(transport.stream_window.into())
            .receive_window(transport.connection_window.into())
            .send_window(limits::SEND_WINDOW_BYTES)
            .datagram_receive_buffer_size(None)
            .max_idle_timeout(Some(idle(transport.silence)));
        config.transport_config(Arc::new(parameters));
        Ok(Identity(Arc::new(config)))
    }
}

/// Returns the time in QUIC's form. Any time that is too long for it is as good as the longest.
fn idle(silence: Duration) -> IdleTimeout {
    let longest = IdleTimeout::from(VarInt::from_u32(u32::MAX));
    IdleTimeout::try_from(silence).unwrap_or(longest)
}

/// The end of all connections of one socket.
pub struct Endpoint(quinn::Endpoint);

impl Endpoint {
    /// Begins to read a socket, on the runtime of the caller.
    ///
    /// # Errors
    /// The system's.
    pub fn new(socket: UdpSocket, identity: &Identity) -> io::Result<Endpoint> {
        let config = (*identity.0).clone();
        let runtime = Arc::new(TokioRuntime);
        quinn::Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime).map(Endpoint)
    }

    /// Waits for the next handshake.
    pub async fn accept(&self) -> Option<Handshake> {
        self.0.accept().await.map(Handshake)
    }

    /// Waits until all connections have ended, and their last datagrams have left.
    pub async fn idle(&self) {
        self.0.wait_idle().await;
    }
}

/// The begin of a connection. It costs the server little until it is accepted.
pub struct Handshake(quinn::Incoming);

/// A handshake that has failed.
#[derive(Debug)]
pub struct HandshakeError(quinn::ConnectionError);

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for HandshakeError {}

impl Handshake {
    /// Returns the address of the client, which it may have forged.
    pub fn peer(&self) -> SocketAddr {
        self.0.remote_address()
    }

    /// Returns true if the client has shown that it receives what is sent to its address.
    pub fn is_validated(&self) -> bool {
        self.0.remote_address_validated()
    }

    /// Asks the client to show its address: a datagram, and nothing is kept (RFC 9000 §8.1.2).
    pub fn retry(self) {
        // It fails only for a client that has shown it.
        let _ = self.0.retry();
    }

    /// Refuses the connection: a datagram, and nothing is kept.
    pub fn refuse(self) {
        self.0.refuse();
    }

    /// Drops the datagram.
    pub fn ignore(self) {
        self.0.ignore();
    }

    /// Ends the handshake.
    ///
    /// # Errors
    /// The client leaves, or they agree on nothing.
    pub async fn accept(self, identity: &Identity) -> Result<Established, HandshakeError> {
        let connecting = self.0.accept_with(Arc::clone(&identity.0));
        let connection = connecting.map_err(HandshakeError)?.await;
        connection.map(Established).map_err(HandshakeError)
    }
}

/// A connection whose handshake has ended.
pub struct Established(quinn::Connection);

impl Established {
    /// Returns the verified certificates of the client, its own first.
    pub fn certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        let identity = self.0.peer_identity()?;
        identity.downcast().ok().map(|certificates| *certificates)
    }

    /// Returns the host that the client names.
    pub fn server_name(&self) -> Option<String> {
        let data = self.0.handshake_data()?;
        data.downcast::<HandshakeData>().ok()?.server_name
    }

    /// Begins HTTP/3.
    ///
    /// # Errors
    /// The client does not allow it, or has left.
    pub async fn begin(self, settings: Settings) -> Result<Connection, Ended> {
        Connection::begin(self.0, settings).await
    }
}
