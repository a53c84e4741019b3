//! One file as a log's storage.

use larder_disk::{Storage, is_superblock};
use larder_units::ByteSize;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The first write of a new log: its superblock.
const FIRST_WRITE_BYTES: usize = 4096;

pub(super) struct DiskFile(File);

impl DiskFile {
    /// Opens the file, or creates an empty one that only this user can read, because it holds
    /// clients' responses. Locks it against other nodes.
    pub(super) fn open(path: &Path) -> io::Result<DiskFile> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let file = DiskFile(file);
        file.lock()?;
        if is_foreign(&file.0)? {
            Err(io::Error::other(
                "it holds something else, which begins with zeros; name a new file, or remove this one",
            ))
        } else {
            Ok(file)
        }
    }

    /// Locks the file against other nodes, if it is not locked yet. Does not wait.
    pub(super) fn lock(&self) -> io::Result<()> {
        match self.0.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "another process uses it",
            )),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Reserves `bytes` of blocks, so that a full disk cannot cause errors later.
    pub(super) fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)?;
        match fallocate(&self.0, FallocateFlags::empty(), 0, bytes) {
            // Some file systems cannot reserve; then a full disk shows at a write.
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the lock against other nodes.
    pub(super) fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }

    /// Removes all content, unless another process has the lock.
    pub(super) fn empty(&self) -> io::Result<()> {
        self.lock()?;
        self.0.set_len(0)?;
        self.0.sync_all()
    }
}

/// Checks whether a log of so many bytes can be at `path`. The check leaves nothing behind.
pub(super) fn check(path: &Path, bytes: u64) -> io::Result<()> {
    let is_there = path.exists();
    let opened = DiskFile::open(path);
    if !is_there && opened.is_ok() {
        std::fs::remove_file(path)?;
    }
    let file = opened?;
    let taken = file.0.metadata()?.blocks() * 512;
    let system = rustix::fs::fstatvfs(&file.0)?;
    let free = system.f_bavail * system.f_frsize;
    if bytes.saturating_sub(taken) > free {
        Err(io::Error::other(format!(
            "its file system has {} free for {}; set a smaller capacity, or name a file elsewhere",
            ByteSize::from_bytes(free),
            ByteSize::from_bytes(bytes)
        )))
    } else {
        Ok(())
    }
}

/// Returns true if the file is longer than a log's first write and begins with zeros, as a disk
/// image. A log gets its length only after that write is synced. If its first block is lost or
/// unreadable, the copy at its end identifies it.
fn is_foreign(file: &File) -> io::Result<bool> {
    let bytes = file.metadata()?.len();
    let Some(end_at) = bytes
        .checked_sub(FIRST_WRITE_BYTES as u64)
        .filter(|at| *at > 0)
    else {
        return Ok(false);
    };
    let mut block = [0; FIRST_WRITE_BYTES];
    match file.read_exact_at(&mut block, 0) {
        // The log reports the error, unless the copy is enough.
        Err(error) if error.raw_os_error().is_some() => return Ok(false),
        result => result?,
    }
    if block.iter().any(|byte| *byte != 0) {
        return Ok(false);
    }
    file.read_exact_at(&mut block, end_at)?;
    Ok(!is_superblock(&block))
}

impl Storage for DiskFile {
    fn read(&self, mut at: u64, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            match self.0.read_at(into, at) {
                // Past the end: the file does not have its full length yet.
                Ok(0) => {
                    into = {
                        into.fill(0);
                        &mut []
                    }
                }
                Ok(read) => {
                    into = &mut into[read..];
                    at += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Failure: `path` names a disk image, and a cache is written over it.
    #[test]
    fn a_file_that_begins_with_zeros_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let mut image = vec![0; 40_000];
        image[32_769] = b'C';
        fs::write(&path, &image).unwrap();
        let error = DiskFile::open(&path)
            .err()
            .expect("somebody else's")
            .to_string();
        assert!(error.contains("something else"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), image);
        // The possible result of a crash in the first write.
        for ours in [0, 100, FIRST_WRITE_BYTES] {
            fs::write(&path, vec![0; ours]).unwrap();
            assert!(DiskFile::open(&path).is_ok(), "{ours} bytes");
        }
    }
}
