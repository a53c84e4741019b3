//! Requests that are received whole before their origin gets them (`buffer_requests`): for servers
//! that understand only `Content-Length`, and for those that have a thread for each request, which
//! a slow client would hold.
//!
//! A small body stays in memory, within a bound for all of them together. A larger one goes to a
//! file without a name, in the folder for temporary files.

use super::body::{BodyError, UploadEnd};
use super::limits;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use larder_http::UpstreamFailure;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::collections::VecDeque;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};

/// Room for bytes of several requests.
pub(super) struct Room {
    most: u64,
    taken: AtomicU64,
}

/// Room in memory for all requests.
static MEMORY: Room = Room::new(limits::BUFFERED_MEMORY_BYTES);

impl Room {
    pub(super) const fn new(most: u64) -> Room {
        Room { most, taken: AtomicU64::new(0) }
    }

    /// Takes room. Returns false if there is not as much.
    fn take(&self, bytes: u64) -> bool {
        let more = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A body that was received whole.
pub struct BufferedUpload {
    memory: VecDeque<Bytes>,
    in_memory: u64,
    file: Option<Arc<File>>,
    in_file: u64,
    /// Room on disk.
    room: Arc<Room>,
    /// The bytes of the file that were sent.
    at: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    end: Option<oneshot::Sender<UploadEnd>>,
}

impl BufferedUpload {
    /// Receives a body.
    ///
    /// # Errors
    /// The body breaks off, is too large or silent, or there is no room on disk.
    pub(super) async fn receive(
        body: &mut (impl Body<Data = Bytes, Error = BodyError> + Unpin),
        room: &Arc<Room>,
    ) -> Result<BufferedUpload, UpstreamFailure> {
        let mut buffered = BufferedUpload {
            memory: VecDeque::new(),
            in_memory: 0,
            file: None,
            in_file: 0,
            room: Arc::clone(room),
            at: 0,
            reading: None,
            end: None,
        };
        let mut chunk = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            let frame = frame.map_err(|error| error.failure())?;
            // Trailers would need a chunked body.
            let Ok(data) = frame.into_data() else { continue };
            let bytes = data.len() as u64;
            let is_small = buffered.in_memory + bytes <= limits::BUFFERED_BYTES;
            if buffered.file.is_none() && chunk.is_empty() && is_small && MEMORY.take(bytes) {
                buffered.in_memory += bytes;
                buffered.memory.push_back(data);
                continue;
            }
            chunk.extend_from_slice(&data);
            if chunk.len() as u64 >= limits::BUFFERED_BYTES {
                buffered.write(std::mem::take(&mut chunk)).await?;
            }
        }
        if !chunk.is_empty() {
            buffered.write(chunk).await?;
        }
        Ok(buffered)
    }

    /// Appends bytes to the file.
    async fn write(&mut self, bytes: Vec<u8>) -> Result<(), UpstreamFailure> {
        let length = bytes.len() as u64;
        if !self.room.take(length) {
            tracing::warn!(most = self.room.most, "buffer_requests: no room for another body: it gets 503");
            return Err(NO_ROOM);
        }
        let (at, file) = (self.in_file, self.file.clone());
        self.in_file += length;
        let written = spawn_blocking(move || {
            let file = file.map_or_else(|| nameless_file().map(Arc::new), Ok)?;
            file.write_all_at(&bytes, at)?;
            Ok::<_, io::Error>(file)
        });
        match written.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(file) => self.file = Some(file),
            Err(error) => {
                tracing::warn!(%error, "buffer_requests: a body cannot be written to the folder for temporary files");
                return Err(NO_ROOM);
            }
        }
        Ok(())
    }

    /// Returns a receiver that learns when the body has been sent.
    pub(super) fn watch_end(&mut self) -> oneshot::Receiver<UploadEnd> {
        let (end, ended) = oneshot::channel();
        self.end = Some(end);
        ended
    }

    fn left(&self) -> u64 {
        let in_memory: u64 = self.memory.iter().map(|data| data.len() as u64).sum();
        in_memory + (self.in_file - self.at)
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let data = match self.memory.pop_front() {
            Some(data) => data,
            None => match ready!(self.poll_file(cx)) {
                Ok(data) => data,
                Err(error) => return Poll::Ready(Some(Err(BodyError::new(error)))),
            },
        };
        if self.is_end_stream()
            && let Some(end) = self.end.take()
        {
            // The request may have been given up.
            let _ = end.send(UploadEnd::Whole);
        }
        Poll::Ready((!data.is_empty()).then(|| Ok(Frame::data(data))))
    }

    /// Reads the next bytes of the file; none at its end.
    fn poll_file(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let Some(file) = self.file.as_ref().filter(|_| self.at < self.in_file) else {
            return Poll::Ready(Ok(Bytes::new()));
        };
        let (at, length) = (self.at, (self.in_file - self.at).min(limits::BUFFERED_BYTES));
        let reading = self.reading.get_or_insert_with(|| {
            let file = Arc::clone(file);
            spawn_blocking(move || {
                let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
                file.read_exact_at(&mut bytes, at).map(|()| Bytes::from(bytes))
            })
        });
        let read = ready!(Pin::new(reading).poll(cx)).unwrap_or_else(|error| Err(io::Error::other(error)));
        self.reading = None;
        self.at += read.as_ref().map_or(0, |bytes| bytes.len() as u64);
        Poll::Ready(read)
    }
}

impl Drop for BufferedUpload {
    fn drop(&mut self) {
        MEMORY.give_back(self.in_memory);
        self.room.give_back(self.in_file);
    }
}

const NO_ROOM: UpstreamFailure = UpstreamFailure::Unavailable { retry_after: 10 };

/// Creates a file without a name, which ends with its last descriptor.
fn nameless_file() -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(CWD, std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR)?;
    Ok(File::from(file))
}

#[cfg(test)]
mod tests {
    use super::super::upload::Upload;
    use super::*;

    /// Failure: room is lost, or bytes of the file are sent twice or in another order.
    #[tokio::test]
    async fn a_buffered_body_is_another() {
        let room = Arc::new(Room::new(1 << 20));
        for length in [0, 1, 60_000, 65_536, 65_537, 500_000] {
            let body: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
            let mut upload = Upload::whole(Bytes::from(body.clone()));
            let mut buffered = BufferedUpload::receive(&mut upload, &room).await.unwrap();
            assert_eq!(buffered.size_hint().exact(), Some(u64::from(length)));
            let mut sent = Vec::new();
            while let Some(frame) = poll_fn(|cx| buffered.poll_frame(cx)).await {
                sent.extend_from_slice(&frame.unwrap().into_data().unwrap());
            }
            assert!(sent == body && buffered.is_end_stream(), "{length}");
        }
        assert_eq!(room.taken.load(Ordering::Relaxed), 0);
        let mut large = Upload::whole(Bytes::from(vec![0; 2 << 20]));
        assert_eq!(BufferedUpload::receive(&mut large, &room).await.err(), Some(NO_ROOM));
        assert_eq!(room.taken.load(Ordering::Relaxed), 0);
    }
}
