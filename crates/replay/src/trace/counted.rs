//! How far a file is read: a progress bar cannot know how many requests there are, but how many
//! bytes.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts the bytes that are read, for whoever shares the count.
pub(super) struct Counted<R> {
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
