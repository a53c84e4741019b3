//! Opens connections to servers: over TCP or a Unix socket, with TLS if the server uses it.

use crate::base::limits;
use ::http::uri::{Authority, PathAndQuery, Scheme, Uri};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The protocol of connections to servers.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum OriginProtocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2: by ALPN with TLS, by prior knowledge without it.
    Http2,
    /// With TLS what the server chooses, HTTP/1.1 without it.
    Auto,
}

/// The address of a server, as the configuration names it: `http://HOST[:PORT][/PATH]`, `https://`,
/// or `unix://localhost/SOCKET[:/PATH]`.
#[derive(Clone)]
pub(crate) struct Address {
    /// Its name in logs, in metrics, and for the choice of a server.
    pub(crate) name: String,
    /// Host and port; `localhost` for a Unix socket.
    pub(crate) authority: Authority,
    /// The prefix of all paths; empty, or a path without `/` at its end.
    pub(crate) prefix: String,
    target: Target,
    tls: Option<Tls>,
}

#[derive(Clone, PartialEq, Eq)]
enum Target {
    /// A name, or an address without brackets; and the port.
    Tcp(String, u16),
    Unix(PathBuf),
}

#[derive(Clone)]
struct Tls {
    name: ServerName<'static>,
    /// Offers HTTP/1.1 alone, by offering nothing.
    http1: TlsConnector,
    /// Offers what the protocol of the server allows.
    negotiating: TlsConnector,
}

/// A connection of any kind.
pub(crate) trait Connected: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connected for S {}

impl Address {
    /// Reads a URI. `None` if it names no server, or needs a `trust` that is missing.
    pub(crate) fn new(uri: &Uri, trust: Option<&Arc<ClientConfig>>) -> Option<Address> {
        let authority = uri
            .authority()
            .filter(|authority| !authority.as_str().contains('@'))?
            .clone();
        if uri.query().is_some() {
            return None;
        }
        let host = authority.host();
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
            .to_owned();
        let scheme = uri.scheme()?;
        let (target, path) = if scheme.as_str() == "unix" {
            let (socket, path) = uri.path().split_once(":/").unwrap_or((uri.path(), ""));
            (Target::Unix(PathBuf::from(socket)), path)
        } else {
            let port = if scheme == &Scheme::HTTPS { 443 } else { 80 };
            (
                Target::Tcp(host.clone(), authority.port_u16().unwrap_or(port)),
                uri.path(),
            )
        };
        let path = path.trim_matches('/');
        let prefix = if path.is_empty() {
            String::new()
        } else {
            format!("/{path}")
        };
        let name = match &target {
            Target::Unix(socket) if prefix.is_empty() => format!("unix:{}", socket.display()),
            Target::Unix(socket) => format!("unix:{}:{prefix}", socket.display()),
            Target::Tcp(..) => format!("{authority}{prefix}"),
        };
        let tls = match scheme {
            scheme if scheme == &Scheme::HTTPS => {
                let connector = TlsConnector::from(Arc::clone(trust?));
                Some(Tls {
                    name: ServerName::try_from(host).ok()?,
                    http1: connector.clone(),
                    negotiating: connector,
                })
            }
            scheme if scheme == &Scheme::HTTP || scheme.as_str() == "unix" => None,
            _ => return None,
        };
        Some(Address {
            name,
            authority,
            prefix,
            target,
            tls,
        })
    }

    /// Sets what TLS offers besides HTTP/1.1.
    pub(crate) fn set_protocol(&mut self, protocol: OriginProtocol) {
        let offers: &[&[u8]] = match protocol {
            OriginProtocol::Http1 => return,
            OriginProtocol::Http2 => &[b"h2"],
            OriginProtocol::Auto => &[b"h2", b"http/1.1"],
        };
        if let Some(tls) = &mut self.tls {
            let mut config = ClientConfig::clone(tls.http1.config());
            config.alpn_protocols = offers.iter().map(|name| name.to_vec()).collect();
            tls.negotiating = TlsConnector::from(Arc::new(config));
        }
    }

    /// Returns the target at the server: with its prefix.
    pub(crate) fn target(&self, target: &PathAndQuery) -> PathAndQuery {
        // The `*` of OPTIONS is no path.
        if self.prefix.is_empty() || !target.as_str().starts_with('/') {
            return target.clone();
        }
        PathAndQuery::try_from(format!("{}{target}", self.prefix))
            .unwrap_or_else(|_| target.clone())
    }

    /// Returns true if connections use TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns true if both lead to the same server.
    pub(crate) fn is_same(&self, other: &Address) -> bool {
        (&self.name, &self.authority, &self.target, self.is_secure())
            == (
                &other.name,
                &other.authority,
                &other.target,
                other.is_secure(),
            )
    }

    /// Returns the name that has to be resolved for a connection: none for an address or a socket.
    pub(crate) fn host(&self) -> Option<&str> {
        match &self.target {
            Target::Tcp(host, _) if host.parse::<IpAddr>().is_err() => Some(host),
            Target::Tcp(..) | Target::Unix(_) => None,
        }
    }

    /// Returns the host, an address without brackets, and the port; `None` for a socket.
    pub(crate) fn tcp(&self) -> Option<(&str, u16)> {
        match &self.target {
            Target::Tcp(host, port) => Some((host, *port)),
            Target::Unix(_) => None,
        }
    }

    /// Returns the same server at one address of its name. TLS verifies the name.
    pub(crate) fn at(&self, address: IpAddr) -> Address {
        let Target::Tcp(_, port) = self.target else {
            return self.clone();
        };
        let name = format!("{}{}", SocketAddr::new(address, port), self.prefix);
        Address {
            name,
            target: Target::Tcp(address.to_string(), port),
            ..self.clone()
        }
    }

    /// Opens a connection, before TLS.
    pub(crate) async fn open(&self, time: Duration) -> io::Result<Box<dyn Connected>> {
        match &self.target {
            Target::Unix(socket) => Ok(Box::new(UnixStream::connect(socket).await?)),
            Target::Tcp(host, port) => {
                let addresses: Vec<_> = tokio::net::lookup_host((host.as_str(), *port))
                    .await?
                    .collect();
                let stream = first_of(&addresses, time).await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
        }
    }

    /// Runs the handshake of TLS, if the server uses it. Also returns the negotiated protocol.
    pub(crate) async fn secure(
        &self,
        stream: impl Connected + 'static,
        may_negotiate: bool,
    ) -> io::Result<(Box<dyn Connected>, Option<Vec<u8>>)> {
        let Some(tls) = &self.tls else {
            return Ok((Box::new(stream), None));
        };
        let connector = if may_negotiate {
            &tls.negotiating
        } else {
            &tls.http1
        };
        let stream = connector.connect(tls.name.clone(), stream).await?;
        let negotiated = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        Ok((Box::new(stream), negotiated))
    }
}

/// Connects to the first address that answers (RFC 8305, "happy eyeballs"). Each address is tried
/// [`limits::CONNECT_STAGGER`] after the one before, or as soon as that one fails; earlier attempts
/// continue. The order is that of the system, sorted by RFC 6724.
pub(crate) async fn first_of(addresses: &[SocketAddr], time: Duration) -> io::Result<TcpStream> {
    let pause = time / u32::try_from(addresses.len() + 1).unwrap_or(u32::MAX);
    let pause = pause.min(limits::CONNECT_STAGGER);
    let mut attempts = JoinSet::new();
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut left = addresses.iter();
    loop {
        let next = left.next();
        if let Some(address) = next {
            attempts.spawn(TcpStream::connect(*address));
        }
        // The last address has the rest of the time, which the caller bounds.
        let attempt_time = if next.is_some() && left.len() > 0 {
            pause
        } else {
            time
        };
        match timeout(attempt_time, attempts.join_next()).await {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            Ok(Some(Ok(Err(error)))) => failed = error,
            Ok(Some(Err(error))) => failed = io::Error::other(error),
            Ok(None) => return Err(failed),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Socket, Type};

    /// Failure: a server with one address of each kind, one of them unreachable, costs every client
    /// a time-out.
    #[tokio::test]
    async fn an_address_that_does_not_answer_costs_a_moment() {
        let silent = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        silent
            .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
            .unwrap();
        silent.listen(0).unwrap();
        let nowhere = silent.local_addr().unwrap().as_socket().unwrap();
        let waiting = [(); 8].map(|()| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap());
        for socket in &waiting {
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&nowhere.into());
        }
        let refusing = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        for addresses in [
            &[nowhere, good][..],
            &[refusing, good],
            &[nowhere, refusing, good],
            &[good, nowhere],
        ] {
            let found = first_of(addresses, limits::CONNECT)
                .await
                .unwrap()
                .peer_addr()
                .unwrap();
            assert_eq!(found, good, "{addresses:?}");
        }
        let error = first_of(&[refusing, refusing], limits::CONNECT)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(
            first_of(&[], limits::CONNECT).await.unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
