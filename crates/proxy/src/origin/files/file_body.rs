//! The body of a file: read in blocks by the threads for blocking work, one block ahead of its
//! reader.

use crate::message::body::BodyError;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use larder_http::SelectedPiece;
use larder_static_files::Meta;
use std::collections::VecDeque;
use std::fs::File;
use std::future::Future;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// The bytes of a file that are read at once. A body has two blocks in memory at most.
const BLOCK_BYTES: u64 = 256 << 10;

/// An open file, with what it was when its head was made.
pub(super) struct Reader {
    file: Arc<File>,
    meta: Meta,
}

impl Reader {
    pub(super) fn new(file: File, meta: Meta) -> Reader {
        Reader {
            file: Arc::new(file),
            meta,
        }
    }
}

/// Reads a block. Fails if the file is no longer the one of the head: what was sent has another
/// content then, and the rest would not fit.
fn read(file: &File, meta: &Meta, start: u64, length: u64) -> Result<Bytes, BodyError> {
    // It is at most the length of a block.
    let mut block = vec![0; length as usize];
    file.read_exact_at(&mut block, start)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => BodyError::new("the file has become shorter"),
            _ => BodyError::new(error),
        })?;
    let found = file.metadata().map_err(BodyError::new)?;
    let nanos = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    if (found.size(), nanos) != (meta.size, meta.modified_nanos) {
        return Err(BodyError::new("the file has changed while it was sent"));
    }
    Ok(block.into())
}

/// Parts of a file, with lines between them.
pub(super) struct FileBody {
    /// `None` if there are only lines.
    reader: Option<Reader>,
    /// What is not being read yet.
    pieces: VecDeque<SelectedPiece>,
    /// Bytes that the reader has not got yet.
    left: u64,
    next: Next,
    operations: Option<Arc<Semaphore>>,
}

/// The next block.
enum Next {
    /// It is not being read.
    Idle,
    Ready(Result<Bytes, BodyError>),
    Reading(JoinHandle<Result<Bytes, BodyError>>),
}

impl FileBody {
    pub(super) fn new(
        reader: Reader,
        pieces: Vec<SelectedPiece>,
        operations: Arc<Semaphore>,
    ) -> FileBody {
        let length = |piece: &SelectedPiece| match piece {
            SelectedPiece::Lines(lines) => lines.len() as u64,
            SelectedPiece::Part(part) => part.end - part.start,
        };
        FileBody {
            left: pieces.iter().map(length).sum(),
            reader: Some(reader),
            pieces: pieces.into(),
            next: Next::Idle,
            operations: Some(operations),
        }
    }

    /// Returns the body of a response without a file.
    pub(super) fn text(text: &'static str) -> FileBody {
        let lines = SelectedPiece::Lines(Bytes::from_static(text.as_bytes()));
        FileBody {
            left: text.len() as u64,
            reader: None,
            pieces: VecDeque::from([lines]),
            next: Next::Idle,
            operations: None,
        }
    }

    /// Reads the first block. It blocks.
    pub(super) fn read_first(&mut self) {
        if let Some((start, length)) = self.take_block()
            && let Some(reader) = &self.reader
        {
            let block = read(&reader.file, &reader.meta, start, length);
            self.next = Next::Ready(block);
        }
    }

    /// Takes the position and the length of the next block; `None` if lines come first.
    fn take_block(&mut self) -> Option<(u64, u64)> {
        loop {
            match self.pieces.front_mut() {
                Some(SelectedPiece::Part(part)) if part.is_empty() => {
                    self.pieces.pop_front();
                }
                Some(SelectedPiece::Part(part)) => {
                    let (start, length) = (part.start, BLOCK_BYTES.min(part.end - part.start));
                    part.start += length;
                    return Some((start, length));
                }
                _ => return None,
            }
        }
    }

    /// Starts to read the next block, if there is one.
    fn read_ahead(&mut self) {
        let Some((start, length)) = self.take_block() else {
            return;
        };
        let (Some(reader), Some(operations)) = (&self.reader, &self.operations) else {
            return;
        };
        let (file, meta) = (Arc::clone(&reader.file), reader.meta);
        let operations = Arc::clone(operations);
        self.next = Next::Reading(tokio::spawn(async move {
            let permit = operations.acquire_owned().await.ok();
            let work = move || {
                let _permit = permit;
                read(&file, &meta, start, length)
            };
            match Handle::current().spawn_blocking(work).await {
                Ok(block) => block,
                Err(error) => Err(BodyError::new(error)),
            }
        }));
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        loop {
            let block = match &mut this.next {
                Next::Reading(reading) => match ready!(Pin::new(reading).poll(cx)) {
                    Ok(block) => block,
                    Err(error) => Err(BodyError::new(error)),
                },
                Next::Ready(_) => match std::mem::replace(&mut this.next, Next::Idle) {
                    Next::Ready(block) => block,
                    _ => continue,
                },
                Next::Idle => {
                    this.read_ahead();
                    if matches!(this.next, Next::Reading(_)) {
                        continue;
                    }
                    let Some(SelectedPiece::Lines(lines)) = this.pieces.pop_front() else {
                        return Poll::Ready(None);
                    };
                    Ok(lines)
                }
            };
            this.next = Next::Idle;
            match &block {
                Ok(bytes) => {
                    this.left = this.left.saturating_sub(bytes.len() as u64);
                    this.read_ahead();
                }
                Err(error) => {
                    tracing::debug!(%error, "a file broke off");
                    this.pieces.clear();
                }
            }
            return Poll::Ready(Some(block.map(Frame::data)));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

impl Drop for FileBody {
    fn drop(&mut self) {
        if let Next::Reading(reading) = &self.next {
            reading.abort();
        }
    }
}
