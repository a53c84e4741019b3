//! A count of the bytes read from a file. A progress bar knows how many bytes a file has, but not
//! how many requests.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts the bytes that are read. The owner of the progress bar shares the count.
pub(in crate::trace) struct Counted<R> {
    pub bytes: R,
    pub read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.bytes.read(buffer)?;
        self.read.fetch_add(got as u64, Relaxed);
        Ok(got)
    }
}
