//! The requests to servers that one exchange causes, for its record in the access log.

use crate::access_log::Attempt;
use crate::message::body::BodyError;
use crate::origin::origin_body::OriginBody;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// An extension of a request, if the log names servers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerRequests(Arc<Mutex<Vec<ServerRequest>>>);

#[derive(Debug)]
struct ServerRequest {
    server: String,
    begun: Instant,
    status: Option<u16>,
    head: Option<Duration>,
    end: Option<Duration>,
}

/// One of them, in progress. Dropped, it has ended.
pub(crate) struct OpenRequest {
    all: ServerRequests,
    number: usize,
}

impl ServerRequests {
    fn lock(&self) -> MutexGuard<'_, Vec<ServerRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request to this server.
    pub(crate) fn begin(&self, server: &str) -> OpenRequest {
        let mut all = self.lock();
        all.push(ServerRequest {
            server: server.to_owned(),
            begun: Instant::now(),
            status: None,
            head: None,
            end: None,
        });
        OpenRequest {
            all: self.clone(),
            number: all.len() - 1,
        }
    }

    /// Returns all of them, in order.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        let attempt = |request: &ServerRequest| Attempt {
            server: request.server.clone(),
            status: request.status,
            head: request.head,
            total: request.end.unwrap_or_else(|| request.begun.elapsed()),
        };
        self.lock().iter().map(attempt).collect()
    }
}

impl OpenRequest {
    fn change(&self, change: impl FnOnce(&mut ServerRequest)) {
        if let Some(request) = self.all.lock().get_mut(self.number) {
            change(request);
        }
    }

    /// Records the head of the response.
    pub(crate) fn answered(&self, status: u16) {
        self.change(|request| {
            (request.status, request.head) = (Some(status), Some(request.begun.elapsed()))
        });
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.change(|request| {
            let elapsed = request.begun.elapsed();
            request.head.get_or_insert(elapsed);
            request.end.get_or_insert(elapsed);
        });
    }
}

/// A body whose end is recorded.
struct Recorded {
    body: OriginBody,
    request: Option<OpenRequest>,
}

/// Returns the body of a request that ends with it.
pub(crate) fn recorded(body: OriginBody, request: OpenRequest) -> OriginBody {
    let request = Some(request).filter(|_| !body.is_end_stream());
    OriginBody::new(Recorded { body, request })
}

impl Body for Recorded {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.request = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
