//! The HTTP client of the store: HTTP/1.1 over TLS or, for a store at an `http://` URL, without.
//! Connections are kept.

use crate::config::{ObjectStoreConfig, read_credentials};
use crate::error::Error;
use crate::limits;
use bytes::Bytes;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Uri};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientOptions, RetryConfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant as Deadline, Sleep, sleep, timeout};
use tokio_rustls::TlsConnector;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Sender = SendRequest<HttpRequestBody>;

/// Idle connections that are kept, to one address.
const IDLE: usize = 64;

/// Returns the client of a bucket.
pub(crate) fn store(config: &ObjectStoreConfig) -> Result<AmazonS3, Error> {
    // A file has all that counts: a token of the environment is of another key.
    let builder = match &config.credentials {
        Some(path) => {
            let read = read_credentials(path)?;
            let builder = AmazonS3Builder::new()
                .with_access_key_id(read.key)
                .with_secret_access_key(read.secret);
            match read.token {
                Some(token) => builder.with_token(token),
                None => builder,
            }
        }
        None => AmazonS3Builder::from_env(),
    };
    let mut builder = builder
        .with_bucket_name(&config.url.bucket)
        .with_http_connector(Connector(tls(config.ca.as_deref())?))
        // The origin can be asked, and it can be written later.
        .with_retry(RetryConfig {
            max_retries: 1,
            retry_timeout: Duration::from_secs(10),
            ..RetryConfig::default()
        });
    if let Some(endpoint) = &config.endpoint {
        let is_plain = endpoint.starts_with("http://");
        builder = builder.with_endpoint(endpoint).with_allow_http(is_plain);
    }
    if let Some(region) = &config.region {
        builder = builder.with_region(region);
    }
    builder.build().map_err(Error::Store)
}

fn tls(ca: Option<&Path>) -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            let file = |error| Error::File {
                setting: "ca",
                path: path.to_owned(),
                error,
            };
            let pem = std::fs::read(path).map_err(file)?;
            let read = CertificateDer::pem_slice_iter(&pem).flatten();
            let (good, _) = roots.add_parsable_certificates(read);
            if good == 0 {
                return Err(Error::NoCertificate(path.to_owned()));
            }
        }
        None => {
            let system = rustls_native_certs::load_native_certs().certs;
            roots.add_parsable_certificates(system);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

struct Connector(TlsConnector);

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service {
            tls: self.0.clone(),
            idle: Mutex::default(),
        }))
    }
}

struct Service {
    tls: TlsConnector,
    /// By scheme and authority.
    idle: Mutex<HashMap<String, Vec<(Instant, Sender)>>>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Service")
    }
}

impl HttpService for Service {
    // As `async_trait` writes it.
    fn call<'life0, 'async_trait>(
        &'life0 self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(self.send(request))
    }
}

impl Service {
    async fn send(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let uri = request.uri().clone();
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let place = format!("{}://{authority}", uri.scheme_str().unwrap_or("http"));
        let mut sender = match self.idle(&place) {
            Some(sender) => sender,
            None => timeout(limits::CONNECT, self.connect(&uri))
                .await
                .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
                .map_err(|error| HttpError::new_boxed(HttpErrorKind::Connect, error))?,
        };
        let target = uri.path_and_query().cloned();
        *request.uri_mut() = Uri::from(target.unwrap_or(PathAndQuery::from_static("/")));
        if let Ok(host) = HeaderValue::try_from(authority) {
            request.headers_mut().entry(HOST).or_insert(host);
        }
        let body = request.body().content_length() as u64;
        let within = limits::RESPONSE + Duration::from_secs(body / limits::SLOWEST);
        let sent = timeout(within, sender.send_request(request)).await;
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(HttpError::new(HttpErrorKind::Interrupted, error)),
            Err(elapsed) => return Err(HttpError::new(HttpErrorKind::Timeout, elapsed)),
        };
        self.keep(place, sender);
        Ok(response.map(|body| HttpResponseBody::new(Timed::new(body))))
    }

    /// Returns a connection that has ended its last exchange.
    fn idle(&self, place: &str) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(place)?;
        kept.retain(|(since, sender)| !sender.is_closed() && since.elapsed() < limits::IDLE);
        let at = kept.iter().rposition(|(_, sender)| sender.is_ready())?;
        Some(kept.swap_remove(at).1)
    }

    /// Keeps a connection. Its last response may still be read: it is ready afterwards.
    fn keep(&self, place: String, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.entry(place).or_default();
        if kept.len() < IDLE {
            kept.push((Instant::now(), sender));
        }
    }

    async fn connect(&self, uri: &Uri) -> Result<Sender, BoxError> {
        let is_secure = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        if !is_secure {
            return serve(stream).await;
        }
        let name = ServerName::try_from(host.to_owned())?;
        serve(self.tls.connect(name, stream).await?).await
    }
}

/// A body whose next piece comes within [`limits::PIECE`].
struct Timed {
    body: Incoming,
    silence: Pin<Box<Sleep>>,
    /// False while nobody waits.
    is_awaited: bool,
}

impl Timed {
    fn new(body: Incoming) -> Timed {
        Timed {
            body,
            silence: Box::pin(sleep(limits::PIECE)),
            is_awaited: false,
        }
    }
}

impl Body for Timed {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.is_awaited = false;
            let broken = |error| HttpError::new(HttpErrorKind::Interrupted, error);
            return Poll::Ready(frame.map(|frame| frame.map_err(broken)));
        }
        if !std::mem::replace(&mut this.is_awaited, true) {
            this.silence.as_mut().reset(Deadline::now() + limits::PIECE);
        }
        ready!(this.silence.as_mut().poll(cx));
        let error = io::Error::new(io::ErrorKind::TimedOut, "the rest does not come");
        Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Timeout, error))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<Sender, BoxError> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the object store has ended");
        }
    });
    Ok(sender)
}
