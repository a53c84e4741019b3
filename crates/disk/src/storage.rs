//! The storage of a log: bytes at positions, and a sync.

use std::io;
use std::sync::{Mutex, PoisonError};

/// A file, or its replacement in a test. Between two syncs, writes may reach the disk in any order
/// and in part.
pub trait Storage {
    /// Reads exactly `into.len()` bytes at `at`; bytes that were never written read as zeros.
    ///
    /// # Errors
    /// The error of the system.
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes` at `at`.
    ///
    /// # Errors
    /// The error of the system. Any part of the bytes may have been written.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns when all earlier writes are durable.
    ///
    /// # Errors
    /// The error of the system. It is then unknown which writes are durable.
    fn sync(&self) -> io::Result<()>;
}

/// A disk in memory without faults, for examples and tests.
#[derive(Debug, Default)]
pub struct MemoryStorage(Mutex<Vec<u8>>);

impl Storage for MemoryStorage {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(at).map_or(bytes.len(), |at| bytes.len().min(at));
        let end = bytes.len().min(start + into.len());
        into[..end - start].copy_from_slice(&bytes[start..end]);
        into[end - start..].fill(0);
        Ok(())
    }

    fn write(&self, at: u64, new: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(at).map_err(io::Error::other)?;
        let end = start + new.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(new);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
