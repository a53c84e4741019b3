//! Requests to the authority: HTTP/1.1 over TLS, one connection that is kept while an order runs.

use crate::limits;
use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

type BoxError = Box<dyn Error + Send + Sync>;
type Body = BodyWrapper<Bytes>;

/// The last connection, and where it leads.
type Idle = Mutex<Option<(String, SendRequest<Body>)>>;

/// The client of one authority.
pub(crate) struct AuthorityClient {
    tls: TlsConnector,
    idle: Arc<Idle>,
}

impl AuthorityClient {
    pub(crate) fn new(tls: Arc<ClientConfig>) -> AuthorityClient {
        AuthorityClient {
            tls: TlsConnector::from(tls),
            idle: Arc::default(),
        }
    }
}

impl HttpClient for AuthorityClient {
    fn request(
        &self,
        request: Request<Body>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let (tls, idle) = (self.tls.clone(), Arc::clone(&self.idle));
        let sent = async move { send(&tls, &idle, request).await };
        Box::pin(async move {
            let sent = tokio::time::timeout(limits::REQUEST, sent).await;
            let response = sent.unwrap_or_else(|_| Err("the authority does not answer".into()));
            response
                .map(BytesResponse::from)
                .map_err(instant_acme::Error::Other)
        })
    }
}

async fn send(
    tls: &TlsConnector,
    idle: &Idle,
    mut request: Request<Body>,
) -> Result<Response<Full<Bytes>>, BoxError> {
    let uri = request.uri().clone();
    let authority = uri
        .authority()
        .ok_or("a URL without a host")?
        .as_str()
        .to_owned();
    let kept = idle.lock().await.take().filter(|(to, _)| *to == authority);
    let mut sender = match kept {
        Some((_, sender)) if !sender.is_closed() => sender,
        _ => connect(tls, &uri).await?,
    };
    if sender.ready().await.is_err() {
        sender = connect(tls, &uri).await?;
    }
    let target = uri.path_and_query().cloned();
    *request.uri_mut() = Uri::from(target.unwrap_or(PathAndQuery::from_static("/")));
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::try_from(authority.as_str())?);
    let name = concat!("larder/", env!("CARGO_PKG_VERSION"));
    headers.insert(USER_AGENT, HeaderValue::from_static(name));
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, limits::RESPONSE_BYTES).collect().await?;
    *idle.lock().await = Some((authority, sender));
    Ok(Response::from_parts(parts, Full::new(body.to_bytes())))
}

async fn connect(tls: &TlsConnector, uri: &Uri) -> Result<SendRequest<Body>, BoxError> {
    if uri.scheme_str() != Some("https") {
        return Err(format!("{uri}: the authority names a URL without TLS").into());
    }
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(443);
    let unreachable = |error| BoxError::from(format!("cannot reach {host}:{port}: {error}"));
    let stream = TcpStream::connect((host, port))
        .await
        .map_err(unreachable)?;
    let name = ServerName::try_from(host.to_owned())?;
    let stream = tls.connect(name, stream).await.map_err(unreachable)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to the authority has ended");
        }
    });
    Ok(sender)
}
