//! Connections of the load: plain, or with TLS, where the server chooses HTTP/2 or HTTP/1.1 (ALPN,
//! RFC 7301).

use crate::failure::Failure;
use bytes::Bytes;
use clap::Args;
use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use larder_proxy::Trust;
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How an `https://` server is verified.
#[derive(Args, Clone, Debug, Default)]
pub struct TlsArgs {
    /// PEM file of the certificates that verify an https:// server [default: the system's]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,

    /// Accept any certificate of an https:// server
    #[arg(long)]
    pub insecure: bool,

    /// Use HTTP/1.1 although an https:// server offers HTTP/2
    #[arg(long)]
    pub http1: bool,
}

/// Opens connections to one server.
#[derive(Clone)]
pub(super) struct Dialer {
    authority: String,
    address: SocketAddr,
    /// Whether the address is that of the name.
    is_by_name: bool,
    host: HeaderValue,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// An open connection.
pub(super) enum Sender {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

impl Dialer {
    /// Resolves the server of a URL. With `connect`, it is at that address instead.
    ///
    /// # Errors
    /// It is no URL of a server, its name has no address, or certificates cannot be read.
    pub(super) fn new(
        url: &Uri,
        connect: Option<SocketAddr>,
        args: &TlsArgs,
    ) -> Result<Dialer, Failure> {
        let (authority, is_secure) = match (url.scheme_str(), url.authority()) {
            (Some("http"), Some(authority)) => (authority, false),
            (Some("https"), Some(authority)) => (authority, true),
            _ => {
                return Err(Failure::usage(format!(
                    "{url}: expected a URL such as http://127.0.0.1:8080 or https://localhost:8443"
                )));
            }
        };
        let port = authority
            .port_u16()
            .unwrap_or(if is_secure { 443 } else { 80 });
        let host = authority.host().trim_matches(['[', ']']);
        let address = match connect {
            Some(address) => address,
            None => resolve(host, port, authority)?,
        };
        let tls = if is_secure {
            let name = ServerName::try_from(host.to_owned())
                .map_err(|error| Failure::usage(format!("{authority}: {error}")))?;
            Some((TlsConnector::from(Arc::new(args.config()?)), name))
        } else {
            None
        };
        let host = HeaderValue::from_str(authority.as_str())
            .map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Dialer {
            authority: authority.to_string(),
            address,
            is_by_name: connect.is_none(),
            host,
            tls,
        })
    }

    /// Returns the server as the URL names it, and where it is if that is not by its name.
    pub(super) fn server(&self) -> String {
        let (authority, address) = (&self.authority, self.address);
        if self.is_by_name {
            authority.clone()
        } else {
            format!("{authority} at {address}")
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// One line.
    pub(super) async fn open(&self) -> Result<Sender, String> {
        let stream = TcpStream::connect(self.address)
            .await
            .map_err(|error| larder_units::system_message(&error))?;
        let _ = stream.set_nodelay(true);
        let Some((connector, name)) = &self.tls else {
            return by_http1(stream).await;
        };
        let stream = connector.connect(name.clone(), stream).await.map_err(|error| {
            format!("{error}; --ca names the certificates that verify it, and --insecure accepts any")
        })?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            by_http2(stream).await
        } else {
            by_http1(stream).await
        }
    }
}

fn resolve(host: &str, port: u16, authority: &Authority) -> Result<SocketAddr, Failure> {
    let mut addresses = (host, port).to_socket_addrs().map_err(|error| {
        let error = larder_units::system_message(&error);
        Failure::runtime(format!("cannot reach {authority}: {error}"))
    })?;
    let address = addresses.next();
    address.ok_or_else(|| Failure::runtime(format!("{authority} has no address")))
}

async fn by_http1(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<Sender, String> {
    let made = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = made.map_err(|error| error.to_string())?;
    // The sender of the request gets its errors.
    tokio::task::spawn_local(async move { drop(connection.await) });
    Ok(Sender::Http1(sender))
}

async fn by_http2(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<Sender, String> {
    let made = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = made.map_err(|error| error.to_string())?;
    tokio::task::spawn_local(async move { drop(connection.await) });
    Ok(Sender::Http2(sender))
}

impl Sender {
    /// Waits until another request can be sent. Returns false if the connection has ended.
    pub(super) async fn is_usable(&mut self) -> bool {
        match self {
            Sender::Http1(sender) => sender.ready().await.is_ok(),
            Sender::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    /// Requests a target.
    ///
    /// # Errors
    /// One line.
    pub(super) async fn get(
        &mut self,
        dialer: &Dialer,
        target: Uri,
    ) -> Result<Response<Incoming>, String> {
        let mut request = Request::new(Empty::new());
        let response = match self {
            Sender::Http1(sender) => {
                *request.uri_mut() = target;
                request.headers_mut().insert(HOST, dialer.host.clone());
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                // The pseudo-header fields come from a whole URI (RFC 9113 §8.3.1).
                let mut whole = target.into_parts();
                whole.scheme = Some(Scheme::HTTPS);
                whole.authority = dialer.authority.parse().ok();
                *request.uri_mut() = Uri::from_parts(whole).map_err(|error| error.to_string())?;
                sender.send_request(request).await
            }
        };
        response.map_err(|error| error.to_string())
    }
}

impl TlsArgs {
    fn config(&self) -> Result<ClientConfig, Failure> {
        let mut config = if self.insecure {
            let provider = Arc::new(ring::default_provider());
            let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
            let builder = builder.with_safe_default_protocol_versions();
            builder
                .map_err(Failure::refused)?
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
                .with_no_client_auth()
        } else {
            let trust = Trust::read_for("--ca", self.ca.as_deref()).map_err(Failure::refused)?;
            ClientConfig::clone(&trust.config)
        };
        let offers: &[&[u8]] = if self.http1 {
            &[b"http/1.1"]
        } else {
            &[b"h2", b"http/1.1"]
        };
        config.alpn_protocols = offers.iter().map(|name| name.to_vec()).collect();
        Ok(config)
    }
}

/// Accepts every certificate: the server may be anybody.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, server, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, server, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: an IPv6 address of a URL is looked up with its brackets, and has no address.
    #[test]
    fn an_address_in_brackets_is_no_server() {
        for (url, address) in [
            ("http://[::1]:8080/a", "[::1]:8080"),
            ("http://[::1]/", "[::1]:80"),
            ("http://127.0.0.1:81", "127.0.0.1:81"),
        ] {
            let dialer = Dialer::new(&url.parse().unwrap(), None, &TlsArgs::default());
            let dialer = dialer.unwrap_or_else(|failure| panic!("{url}: {}", failure.message));
            assert_eq!(dialer.address.to_string(), address);
        }
    }
}
