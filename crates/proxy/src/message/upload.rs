//! Bodies of requests to an origin.

use crate::base::limits;
use crate::message::body::{BodyError, Timed, TooLarge, UploadEnd};
use crate::message::buffered_upload::{BufferedUpload, Room};
use crate::message::client_body::ClientBody;
use crate::message::field_names::without_forbidden_trailers;
use ::http::HeaderMap;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use larder_http::UpstreamFailure;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::oneshot;

/// A request's body on its way to the origin.
pub enum Upload {
    /// A body that the client is sending.
    Coming(SharedUpload),
    /// A body that is complete. `None` if it is empty, or has been sent.
    Whole(Option<Bytes>),
    /// A body that was received whole before it is sent.
    Buffered(Box<BufferedUpload>),
}

/// A body that the client sends, for one sending of its request. If the origin has not processed
/// the request, the next sending takes the body over.
pub struct SharedUpload {
    coming: Arc<Mutex<Coming>>,
    /// The number of the sending, from 0.
    sending: u32,
}

impl SharedUpload {
    fn lock(&self) -> MutexGuard<'_, Coming> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The start of an upload that may have to be sent again.
pub(crate) enum UploadStart {
    /// A body that the client is sending.
    Coming(UnprocessedUpload),
    /// A body that was received whole.
    Buffered(BufferedUpload),
}

/// A body that the client is sending, whose start is kept.
pub(crate) struct UnprocessedUpload(Arc<Mutex<Coming>>);

impl UploadStart {
    /// Returns the body from its start on, for another sending; `None` if that is not known any
    /// more.
    pub(crate) fn again(self) -> Option<Upload> {
        match self {
            UploadStart::Coming(coming) => coming.again(),
            UploadStart::Buffered(buffered) => Some(Upload::Buffered(Box::new(buffered))),
        }
    }
}

impl UnprocessedUpload {
    fn again(self) -> Option<Upload> {
        let mut coming = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !coming.keeps {
            return None;
        }
        coming.sending += 1;
        let sent = Bytes::from(std::mem::take(&mut coming.kept));
        if !sent.is_empty() {
            coming.replay.push_front(sent);
        }
        let sending = coming.sending;
        drop(coming);
        Some(Upload::Coming(SharedUpload {
            coming: self.0,
            sending,
        }))
    }
}

/// The state of a body that the client sends.
struct Coming {
    body: Timed<ClientBody>,
    /// True if the client waits for `100 Continue`.
    expects: bool,
    /// True after the client was asked for the body.
    asked: Arc<AtomicBool>,
    /// The wait until the origin asks for the body, or until the time for that is over.
    held: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Informed when the body has ended.
    end: Option<oneshot::Sender<UploadEnd>>,
    /// True after the head of the response has arrived.
    answered: Arc<AtomicBool>,
    /// The longest silence after that; `None` once it counts.
    later: Option<Duration>,
    /// Bytes that may still come.
    room: u64,
    /// The last bytes of the announced length, until the body ends there.
    last: Option<Bytes>,
    /// The trailers after them.
    trailers: Option<Box<HeaderMap>>,
    /// The number of the sending that reads it.
    sending: u32,
    /// True after some of it was sent.
    was_sent: bool,
    /// True while `kept` has all data that was sent.
    keeps: bool,
    kept: Vec<u8>,
    /// Data to be sent again.
    replay: VecDeque<Bytes>,
}

impl Upload {
    /// A body of up to `most` bytes, whose client may be silent for this long; after the head of
    /// the response, for as long as `later`, as both sides of a conversation may be (gRPC).
    pub(crate) fn new(
        body: ClientBody,
        expects: bool,
        most: u64,
        (silence, later): (Duration, Duration),
    ) -> Upload {
        let coming = Coming {
            body: Timed::new(body, silence),
            expects,
            asked: Arc::default(),
            held: None,
            end: None,
            answered: Arc::default(),
            later: Some(later),
            room: most,
            last: None,
            trailers: None,
            sending: 0,
            was_sent: false,
            keeps: false,
            kept: Vec::new(),
            replay: VecDeque::new(),
        };
        Upload::Coming(SharedUpload {
            coming: Arc::new(Mutex::new(coming)),
            sending: 0,
        })
    }

    /// Reads and drops the rest, whatever its size: the client may have to send it before it reads
    /// the answer.
    pub(crate) fn give_up(self) {
        if let Upload::Coming(shared) = &self {
            shared.lock().room = u64::MAX;
        }
        linger(self);
    }

    /// Receives the whole body, before it is sent.
    ///
    /// # Errors
    /// The body breaks off, is too large or silent, or there is no room for it.
    pub(crate) async fn buffered(
        mut self,
        client: IpAddr,
        room: &Arc<Room>,
    ) -> Result<Upload, UpstreamFailure> {
        self.release();
        match BufferedUpload::receive(&mut self, client, room).await {
            Ok(buffered) => Ok(Upload::Buffered(Box::new(buffered))),
            Err(failure) => {
                self.give_up();
                Err(failure)
            }
        }
    }

    /// Waits for the first bytes of the body, or for its end.
    ///
    /// # Errors
    /// The failure of a body that breaks off, is too large, or is silent for too long.
    pub(crate) async fn begin(&mut self) -> Result<(), UpstreamFailure> {
        let Upload::Coming(shared) = self else {
            return Ok(());
        };
        let frame = poll_fn(|cx| shared.lock().poll_frame(cx)).await;
        let Some(frame) = frame.transpose().map_err(|error| error.failure())? else {
            return Ok(());
        };
        let mut coming = shared.lock();
        match frame.into_data() {
            Ok(data) => coming.replay.push_back(data),
            Err(frame) => coming.trailers = frame.into_trailers().ok().map(Box::new),
        }
        Ok(())
    }

    /// Keeps the start of the body, for a server that may say that it has not processed the
    /// request. `None` if the body is complete.
    pub(crate) fn keep_start(&self) -> Option<UploadStart> {
        let shared = match self {
            Upload::Coming(shared) => shared,
            Upload::Buffered(buffered) => return Some(UploadStart::Buffered(buffered.again())),
            Upload::Whole(_) => return None,
        };
        let mut coming = shared.lock();
        // What was sent before is known only if it was kept.
        coming.keeps |= !coming.was_sent;
        Some(UploadStart::Coming(UnprocessedUpload(Arc::clone(
            &shared.coming,
        ))))
    }

    /// Returns a receiver that learns how the body has ended, or gets an error if the body is
    /// dropped before. `None` if the body is complete.
    pub(crate) fn watch_end(&mut self) -> Option<oneshot::Receiver<UploadEnd>> {
        let shared = match self {
            Upload::Coming(shared) => shared,
            Upload::Buffered(buffered) => return Some(buffered.watch_end()),
            Upload::Whole(_) => return None,
        };
        let (end, ended) = oneshot::channel();
        shared.lock().end = Some(end);
        Some(ended)
    }

    /// Waits for the end of a body that has no bytes according to its `Content-Length`. It comes
    /// after the head in HTTP/2. Bytes in it make the request malformed, and a malformed request
    /// is not forwarded (RFC 9113 §8.1.1).
    ///
    /// # Errors
    /// The failure of a body that has bytes, breaks off, or does not end in time.
    pub(crate) async fn check_emptiness(&mut self) -> Result<(), UpstreamFailure> {
        if self.is_end_stream() || self.size_hint().exact() != Some(0) {
            return Ok(());
        }
        let mut trailers = None;
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx)).await {
            trailers = frame.map_err(|error| error.failure())?.into_trailers().ok();
        }
        match (trailers, &mut *self) {
            (Some(trailers), Upload::Coming(shared)) => {
                shared.lock().trailers = Some(Box::new(trailers))
            }
            (..) => *self = Upload::empty(),
        }
        Ok(())
    }

    /// Returns a flag to set when the head of the response has arrived. `None` if the body is
    /// complete.
    pub(crate) fn answered(&self) -> Option<Arc<AtomicBool>> {
        match self {
            Upload::Coming(shared) => Some(Arc::clone(&shared.lock().answered)),
            Upload::Whole(_) | Upload::Buffered(_) => None,
        }
    }

    /// Holds the body back no longer.
    pub(crate) fn release(&mut self) {
        if let Upload::Coming(shared) = self {
            shared.lock().held = None;
        }
    }

    /// Returns whether the client has been asked for its body, if it waits for that.
    pub(crate) fn asked(&self) -> Option<Arc<AtomicBool>> {
        let Upload::Coming(shared) = self else {
            return None;
        };
        let coming = shared.lock();
        coming.expects.then(|| Arc::clone(&coming.asked))
    }

    /// Returns an empty body.
    pub fn empty() -> Upload {
        Upload::Whole(None)
    }

    /// Returns a body that is complete.
    pub fn whole(bytes: Bytes) -> Upload {
        Upload::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    /// If the client waits for `100 Continue` (RFC 9110 §10.1.1): holds the body back until the
    /// gate is opened, or until [`limits::CONTINUE`] is over.
    pub(crate) fn gate(&mut self) -> Option<Gate> {
        let Upload::Coming(shared) = self else {
            return None;
        };
        let mut coming = shared.lock();
        if !coming.expects {
            return None;
        }
        let (open, opened) = oneshot::channel();
        coming.held = Some(Box::pin(async {
            let asked = async {
                if opened.await.is_err() {
                    // The response has arrived, and does not need the body.
                    std::future::pending().await
                }
            };
            let _ = tokio::time::timeout(limits::CONTINUE, asked).await;
        }));
        Some(Gate(Mutex::new(Some(open))))
    }

    /// Returns true if it waits behind a gate.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, Upload::Coming(shared) if shared.lock().held.is_some())
    }

    /// Reads a small body that no server takes. Without this, the connection would be closed on a
    /// client that is still sending, and the reset could destroy the answer (RFC 9112, section
    /// 9.6).
    pub(crate) async fn take_rest(&mut self) {
        let small = |left: u64| left <= limits::UNWANTED_UPLOAD_BYTES;
        let Upload::Coming(shared) = self else { return };
        let is_wanted =
            |coming: &Coming| coming.expects || !coming.body.size_hint().upper().is_none_or(small);
        if is_wanted(&shared.lock()) {
            return;
        }
        let all = async {
            let mut left = limits::UNWANTED_UPLOAD_BYTES;
            while let Some(Ok(frame)) =
                poll_fn(|cx| Pin::new(&mut shared.lock().body).poll_frame(cx)).await
            {
                let taken = frame.data_ref().map_or(0, |piece| piece.len() as u64);
                left = match left.checked_sub(taken) {
                    Some(left) => left,
                    None => return,
                };
            }
        };
        // The answer leaves in any case.
        let _ = tokio::time::timeout(limits::UNWANTED_UPLOAD, all).await;
    }
}

impl Coming {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(data) = self.replay.pop_front() {
            self.keep(&data);
            self.report_end();
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if let Some(wait) = &mut self.held {
            ready!(wait.as_mut().poll(cx));
            self.held = None;
        }
        if self.expects {
            self.asked.store(true, Ordering::Relaxed);
        }
        if self.answered.load(Ordering::Relaxed)
            && let Some(silence) = self.later.take()
        {
            self.body.extend(silence);
        }
        let frame = match ready!(self.poll_announced(cx)) {
            Some(Ok(frame)) if !self.has_room_for(&frame) => Some(Err(BodyError::new(TooLarge))),
            frame => frame,
        };
        match &frame {
            Some(Ok(frame)) => {
                match frame.data_ref() {
                    Some(data) => self.keep(data),
                    None => self.keep_no_more(),
                }
                self.report_end();
            }
            Some(Err(error)) => {
                self.keep_no_more();
                self.send_end(UploadEnd::Failed(error.failure()));
            }
            None => self.send_end(UploadEnd::Whole),
        }
        Poll::Ready(frame)
    }

    /// Reports the end after the last frame: hyper may drop the body without another poll.
    fn report_end(&mut self) {
        if self.is_end_stream() {
            self.send_end(UploadEnd::Whole);
        }
    }

    fn send_end(&mut self, ended: UploadEnd) {
        if let Some(end) = self.end.take() {
            // The request may have been given up.
            let _ = end.send(ended);
        }
    }

    /// Keeps data that is sent, until the server has answered.
    fn keep(&mut self, data: &Bytes) {
        if !self.keeps {
            return;
        }
        let is_too_much = self.kept.len() + data.len() > limits::KEPT_UPLOAD_BYTES;
        if is_too_much || self.answered.load(Ordering::Relaxed) {
            return self.keep_no_more();
        }
        // A copy: small pieces would hold the buffers that they came in.
        self.kept.extend_from_slice(data);
    }

    fn keep_no_more(&mut self) {
        self.keeps = false;
        self.kept = Vec::new();
    }

    fn size_hint(&self) -> SizeHint {
        let again: u64 = self.replay.iter().map(|data| data.len() as u64).sum();
        let coming = match &self.last {
            Some(last) => SizeHint::with_exact(last.len() as u64),
            None => self.body.size_hint(),
        };
        match coming.exact() {
            Some(exact) => SizeHint::with_exact(exact + again),
            None => coming,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.replay.is_empty()
            && self.last.is_none()
            && self.trailers.is_none()
            && self.body.is_end_stream()
    }

    /// Returns the next frame. The last bytes of the announced length wait for the end of the body:
    /// with them, a server would have a whole request, which more bytes make malformed (RFC 9113
    /// §8.1.1).
    fn poll_announced(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(trailers) = self.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(*trailers))));
        }
        while let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            let is_last = self.last.is_none() && self.body.size_hint().exact() == Some(0);
            match frame?.into_data() {
                Ok(data) if is_last && !self.body.is_end_stream() => self.last = Some(data),
                // More bytes would have been an error: it is empty.
                Ok(_) if self.last.is_some() => {}
                Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Err(frame) => {
                    let Some(last) = self.last.take() else {
                        return Poll::Ready(Some(Ok(frame)));
                    };
                    self.trailers = frame.into_trailers().ok().map(Box::new);
                    return Poll::Ready(Some(Ok(Frame::data(last))));
                }
            }
        }
        Poll::Ready(self.last.take().map(|last| Ok(Frame::data(last))))
    }

    fn has_room_for(&mut self, frame: &Frame<Bytes>) -> bool {
        let left = self
            .room
            .checked_sub(frame.data_ref().map_or(0, |piece| piece.len() as u64));
        self.room = left.unwrap_or(0);
        left.is_some()
    }
}

/// Reads and drops the rest of a body that got an answer before, for [`limits::LINGER`].
pub(crate) fn linger(mut body: impl Body<Data = Bytes> + Send + Unpin + 'static) {
    tokio::spawn(async move {
        let rest = async {
            while let Some(Ok(_)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {}
        };
        // Otherwise the end of the connection has the rest.
        let _ = tokio::time::timeout(limits::LINGER, rest).await;
    });
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = match this {
            Upload::Coming(shared) => {
                let mut coming = shared.lock();
                if coming.sending != shared.sending {
                    return Poll::Ready(Some(Err(BodyError::new("the request is sent again"))));
                }
                let frame = ready!(coming.poll_frame(cx));
                coming.was_sent = true;
                frame
            }
            Upload::Whole(bytes) => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))));
            }
            Upload::Buffered(buffered) => return buffered.poll_frame(cx),
        };
        if matches!(&frame, Some(Err(error)) if error.is_too_large()) {
            std::mem::replace(this, Upload::empty()).give_up();
        }
        Poll::Ready(frame.map(|frame| frame.map(without_forbidden_trailers)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Upload::Coming(shared) => shared.lock().is_end_stream(),
            Upload::Whole(bytes) => bytes.is_none(),
            Upload::Buffered(buffered) => buffered.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Upload::Coming(shared) => shared.lock().size_hint(),
            Upload::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Upload::Buffered(buffered) => buffered.size_hint(),
        }
    }
}

/// A gate that holds the body of a request back.
pub(crate) struct Gate(Mutex<Option<oneshot::Sender<()>>>);

impl Gate {
    /// Opens the gate: the origin asks for the body.
    pub(crate) fn open(&self) {
        if let Some(open) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The body may have gone.
            let _ = open.send(());
        }
    }
}
