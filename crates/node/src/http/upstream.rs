//! The way to the origin: hyper's client with its pool, or the generated origin.

use super::body::{BodyError, OriginBody, Upload};
use super::{Upstream, limits, origin};
use ::http::uri::{Authority, PathAndQuery, Scheme, Uri};
use ::http::{HeaderMap, Method, Request, Response, Version};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use larder_http::UpstreamFailure;
use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) enum Origin {
    Generated,
    Http { client: Box<Client<HttpConnector, Upload>>, authority: Authority, failures: AtomicU64 },
}

impl Origin {
    /// # Errors
    /// One line where the URI is not `http://HOST[:PORT]`.
    pub(super) fn new(upstream: &Upstream) -> Result<Origin, String> {
        let uri = match upstream {
            Upstream::Generated => return Ok(Origin::Generated),
            Upstream::Http(uri) => uri,
        };
        let plain = uri.scheme() == Some(&Scheme::HTTP) && matches!(uri.path(), "" | "/") && uri.query().is_none();
        let authority = uri.authority().filter(|authority| plain && !authority.as_str().contains('@'));
        let authority =
            authority.ok_or_else(|| format!("[http] origin: expected http://HOST:PORT, not {uri}"))?.clone();
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(limits::CONNECT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits::ORIGIN_IDLE)
            .pool_max_idle_per_host(limits::ORIGIN_IDLE_CONNECTIONS)
            .http1_max_buf_size(limits::BUFFER_BYTES)
            .set_host(false)
            .build(connector);
        Ok(Origin::Http { client: Box::new(client), authority, failures: AtomicU64::new(0) })
    }

    /// What a request without `Host` (HTTP/1.0) is for.
    pub(super) fn authority(&self) -> &str {
        match self {
            Origin::Generated => "localhost",
            Origin::Http { authority, .. } => authority.as_str(),
        }
    }

    /// Asks. The fields are complete, `Host` among them.
    pub(super) async fn ask(
        &self,
        method: Method,
        target: PathAndQuery,
        headers: HeaderMap,
        body: Upload,
    ) -> Result<Response<OriginBody>, UpstreamFailure> {
        match self {
            Origin::Generated => Ok(origin::respond(&method, &target, &headers).await.map(OriginBody::Generated)),
            Origin::Http { client, authority, failures } => {
                let asked = ask_http(client, authority, method, target, headers, body).await;
                // A client that breaks off its upload says nothing of the origin.
                if !matches!(&asked, Err((UpstreamFailure::Upload, _))) {
                    report(authority, failures, asked.as_ref().err());
                }
                asked.map_err(|(failure, _)| failure)
            }
        }
    }
}

type Failed = (UpstreamFailure, String);

async fn ask_http(
    client: &Client<HttpConnector, Upload>,
    authority: &Authority,
    method: Method,
    target: PathAndQuery,
    headers: HeaderMap,
    body: Upload,
) -> Result<Response<OriginBody>, Failed> {
    let uri = Uri::builder().scheme(Scheme::HTTP).authority(authority.clone()).path_and_query(target).build();
    let uri = uri.map_err(|error| (UpstreamFailure::Malformed, error.to_string()))?;
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = headers;
    let response = tokio::time::timeout(limits::RESPONSE, client.request(request)).await;
    match response {
        Ok(Ok(response)) => Ok(response.map(OriginBody::Received)),
        Ok(Err(error)) => Err(classify(&error)),
        Err(_) => Err((UpstreamFailure::TimedOut, format!("no response within {:?}", limits::RESPONSE))),
    }
}

fn classify(error: &(dyn Error + 'static)) -> Failed {
    let causes = || std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source());
    let text = causes().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let timed_out = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    };
    let malformed =
        |cause: &(dyn Error + 'static)| cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
    // Before the head of the response, only the request's body can break off: the client did, the origin did nothing wrong.
    let failure = if causes().any(|cause| cause.is::<BodyError>()) {
        UpstreamFailure::Upload
    } else if causes().any(timed_out) {
        UpstreamFailure::TimedOut
    } else if causes().any(malformed) {
        UpstreamFailure::Malformed
    } else {
        UpstreamFailure::Unreachable
    };
    (failure, text)
}

/// One line when the origin stops answering, one when it answers again: not one a request.
fn report(authority: &Authority, failures: &AtomicU64, failed: Option<&Failed>) {
    match failed {
        Some((_, reason)) => {
            if failures.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::warn!(origin = %authority, %reason, "[http] origin does not answer; clients get 502 or 504");
            }
        }
        None => {
            let failed = failures.load(Ordering::Relaxed);
            if failed > 0 {
                failures.store(0, Ordering::Relaxed);
                tracing::info!(origin = %authority, failed_requests = failed, "[http] origin answers again");
            }
        }
    }
}
