//! Requests that are received whole before their origin gets them (`buffer_requests`): for servers
//! that understand only `Content-Length`, and for those that have a thread for each request, which
//! a slow client would hold.
//!
//! A small body stays in memory, within a bound for all of them together. A larger one goes to a
//! file without a name, in the folder for temporary files.

use crate::base::client_shares::subscriber;
use crate::base::limits;
use crate::message::body::{BodyError, UploadEnd};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use larder_http::UpstreamFailure;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::collections::BTreeMap;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};

/// Room for bytes of several requests. A client has at most as much as is free.
pub(crate) struct Room {
    most: u64,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: u64,
    clients: BTreeMap<IpAddr, u64>,
}

/// Room in memory for all requests.
static MEMORY: Room = Room::new(limits::BUFFERED_MEMORY_BYTES);

impl Room {
    pub(crate) const fn new(most: u64) -> Room {
        Room {
            most,
            taken: Mutex::new(Taken {
                all: 0,
                clients: BTreeMap::new(),
            }),
        }
    }

    /// Takes room for a client. Returns false if there is not as much.
    fn take(&self, client: IpAddr, bytes: u64) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = taken.clients.get(&client).copied().unwrap_or_default() + bytes;
        let all = taken.all + bytes;
        if all > self.most || of_client > self.most - all {
            return false;
        }
        taken.all = all;
        taken.clients.insert(client, of_client);
        true
    }

    fn give_back(&self, client: IpAddr, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(bytes);
        if let Some(of_client) = taken.clients.get_mut(&client) {
            *of_client = of_client.saturating_sub(bytes);
            if *of_client == 0 {
                taken.clients.remove(&client);
            }
        }
    }
}

/// A body that was received whole, and is sent from its start, perhaps several times.
pub struct BufferedUpload {
    body: Arc<Buffered>,
    /// The bytes that were sent.
    at: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    end: Option<oneshot::Sender<UploadEnd>>,
}

/// The bytes of a body: those of the file, and then those in memory.
struct Buffered {
    client: IpAddr,
    file: Option<Arc<File>>,
    in_file: u64,
    memory: Bytes,
    /// Room in memory that is taken.
    in_memory: u64,
    /// Room on disk.
    room: Arc<Room>,
}

impl BufferedUpload {
    /// Receives the body of a client.
    ///
    /// # Errors
    /// The body breaks off, is too large or silent, or there is no room on disk.
    pub(crate) async fn receive(
        body: &mut (impl Body<Data = Bytes, Error = BodyError> + Unpin),
        client: IpAddr,
        room: &Arc<Room>,
    ) -> Result<BufferedUpload, UpstreamFailure> {
        let (client, memory, room) = (subscriber(client), Bytes::new(), Arc::clone(room));
        let mut buffered = Buffered {
            client,
            file: None,
            in_file: 0,
            memory,
            in_memory: 0,
            room,
        };
        let mut chunk = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            let frame = frame.map_err(|error| error.failure())?;
            // Trailers would need a chunked body.
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let bytes = data.len() as u64;
            let fits = chunk.len() as u64 + bytes <= limits::BUFFERED_BYTES;
            if fits && MEMORY.take(client, bytes) {
                buffered.in_memory += bytes;
                // A copy: small pieces would hold the buffers that they came in.
                chunk.extend_from_slice(&data);
                continue;
            }
            if !chunk.is_empty() {
                buffered.write(std::mem::take(&mut chunk)).await?;
                MEMORY.give_back(client, std::mem::take(&mut buffered.in_memory));
            }
            buffered.write(data.to_vec()).await?;
        }
        buffered.memory = Bytes::from(chunk);
        Ok(BufferedUpload::of(Arc::new(buffered)))
    }

    fn of(body: Arc<Buffered>) -> BufferedUpload {
        BufferedUpload {
            body,
            at: 0,
            reading: None,
            end: None,
        }
    }

    /// Returns the same body from its start.
    pub(crate) fn again(&self) -> BufferedUpload {
        BufferedUpload::of(Arc::clone(&self.body))
    }

    /// Returns a receiver that learns when the body has been sent.
    pub(crate) fn watch_end(&mut self) -> oneshot::Receiver<UploadEnd> {
        let (end, ended) = oneshot::channel();
        self.end = Some(end);
        ended
    }

    fn left(&self) -> u64 {
        self.body.in_file + self.body.memory.len() as u64 - self.at
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let data = if self.at < self.body.in_file {
            match ready!(self.poll_file(cx)) {
                Ok(data) => data,
                Err(error) => return Poll::Ready(Some(Err(BodyError::new(error)))),
            }
        } else if self.is_end_stream() {
            return Poll::Ready(None);
        } else {
            self.body.memory.clone()
        };
        self.at += data.len() as u64;
        if self.is_end_stream()
            && let Some(end) = self.end.take()
        {
            // The request may have been given up.
            let _ = end.send(UploadEnd::Whole);
        }
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    /// Reads the next bytes of the file.
    fn poll_file(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let Some(file) = &self.body.file else {
            return Poll::Ready(Ok(Bytes::new()));
        };
        let (at, length) = (
            self.at,
            (self.body.in_file - self.at).min(limits::BUFFERED_BYTES),
        );
        let reading = self.reading.get_or_insert_with(|| {
            let file = Arc::clone(file);
            spawn_blocking(move || {
                let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
                file.read_exact_at(&mut bytes, at)
                    .map(|()| Bytes::from(bytes))
            })
        });
        let read =
            ready!(Pin::new(reading).poll(cx)).unwrap_or_else(|error| Err(io::Error::other(error)));
        self.reading = None;
        Poll::Ready(read)
    }
}

impl Buffered {
    /// Appends bytes to the file.
    async fn write(&mut self, bytes: Vec<u8>) -> Result<(), UpstreamFailure> {
        let length = bytes.len() as u64;
        if !self.room.take(self.client, length) {
            let (client, most) = (self.client, self.room.most);
            tracing::warn!(%client, most, "buffer_requests: no room for another body of this client: it gets 503");
            return Err(NO_ROOM);
        }
        let (at, file) = (self.in_file, self.file.clone());
        self.in_file += length;
        let written = spawn_blocking(move || {
            let file = file.map_or_else(|| nameless_file().map(Arc::new), Ok)?;
            file.write_all_at(&bytes, at)?;
            Ok::<_, io::Error>(file)
        });
        match written
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
        {
            Ok(file) => self.file = Some(file),
            Err(error) => {
                tracing::warn!(%error, "buffer_requests: a body cannot be written to the folder for temporary files");
                return Err(NO_ROOM);
            }
        }
        Ok(())
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        MEMORY.give_back(self.client, self.in_memory);
        self.room.give_back(self.client, self.in_file);
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
    use super::*;
    use crate::message::upload::Upload;

    fn client(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    async fn receive(
        length: usize,
        from: u8,
        room: &Arc<Room>,
    ) -> Result<BufferedUpload, UpstreamFailure> {
        let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        BufferedUpload::receive(&mut Upload::whole(Bytes::from(body)), client(from), room).await
    }

    /// Failure: room is lost, or bytes of the file are sent twice or in another order.
    #[tokio::test]
    async fn a_buffered_body_is_another() {
        let room = Arc::new(Room::new(1 << 20));
        for length in [0, 1, 60_000, 65_536, 65_537, 400_000_usize] {
            let first = receive(length, 1, &room).await.unwrap();
            for mut buffered in [first.again(), first] {
                assert_eq!(buffered.size_hint().exact(), Some(length as u64));
                let mut sent = Vec::new();
                while let Some(frame) = poll_fn(|cx| buffered.poll_frame(cx)).await {
                    sent.extend_from_slice(&frame.unwrap().into_data().unwrap());
                }
                assert!(
                    sent.iter()
                        .enumerate()
                        .all(|(at, byte)| *byte == (at % 251) as u8),
                    "{length}"
                );
                assert!(sent.len() == length && buffered.is_end_stream(), "{length}");
            }
        }
        assert!(
            receive(700_000, 1, &room).await.err() == Some(NO_ROOM),
            "more than half"
        );
        let held = receive(400_000, 1, &room).await.unwrap();
        assert!(
            receive(400_000, 1, &room).await.is_err() && receive(300_000, 2, &room).await.is_ok()
        );
        drop(held);
        // The addresses of one network of IPv6 are one client.
        let addresses = ["2001:db8::1", "2001:db8::2"].map(|address| address.parse().unwrap());
        let long = || Upload::whole(Bytes::from(vec![0; 400_000]));
        let held = BufferedUpload::receive(&mut long(), addresses[0], &room)
            .await
            .unwrap();
        assert!(
            BufferedUpload::receive(&mut long(), addresses[1], &room)
                .await
                .is_err()
        );
        drop(held);
        let taken = room.taken.lock().unwrap();
        assert!(taken.all == 0 && taken.clients.is_empty());
    }
}
