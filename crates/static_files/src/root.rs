//! The folder below which all files are.

use crate::look::{Kind, Look, Meta, Miss};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, fstat, open, openat2, statat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{error, fmt, io};

/// The reason why a folder cannot be a root: one line, with a remedy.
#[derive(Debug)]
pub enum RootError {
    /// It cannot be opened.
    Open(PathBuf, io::Error),
    /// It is no folder.
    NotAFolder(PathBuf),
    /// The system cannot resolve paths below a folder.
    OldSystem,
}

impl fmt::Display for RootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RootError::Open(path, error) => {
                let remedy = match error.kind() {
                    io::ErrorKind::NotFound => "create it, or name the folder of the files",
                    io::ErrorKind::PermissionDenied => {
                        "let the node's user search it and the folders on the way (chmod o+x)"
                    }
                    _ => "name the folder of the files",
                };
                let kind = match error.kind() {
                    io::ErrorKind::NotFound => "it does not exist".to_owned(),
                    io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
                    _ => error.to_string(),
                };
                write!(f, "{path:?}: {kind}: {remedy}")
            }
            RootError::NotAFolder(path) => {
                write!(f, "{path:?}: it is no folder: name the folder of the files")
            }
            RootError::OldSystem => f.write_str(
                "this system has no openat2, which keeps files within their folder: serving files needs Linux 5.6, \
                 and a container that allows this call",
            ),
        }
    }
}

impl error::Error for RootError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            RootError::Open(_, error) => Some(error),
            RootError::NotAFolder(_) | RootError::OldSystem => None,
        }
    }
}

/// The open root.
pub(crate) struct Root {
    path: PathBuf,
    resolve: ResolveFlags,
    handle: Mutex<Arc<Handle>>,
}

/// The descriptor of a root, and which folder it is.
pub(crate) struct Handle {
    descriptor: OwnedFd,
    device: u64,
    inode: u64,
    resolve: ResolveFlags,
}

/// Bytes behind the path of a request, such as an index.
const PATH_RESERVE: usize = 32;

/// Repetitions of a call that a renaming disturbs (`openat2(2)`, EAGAIN).
const REPETITIONS: usize = 1000;

impl Root {
    /// Opens a folder. `links`: symbolic links within it are followed.
    ///
    /// # Errors
    /// [`RootError`].
    pub(crate) fn open(path: &Path, links: bool) -> Result<Root, RootError> {
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if !links {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        let handle = Handle::open(path, resolve)?;
        Ok(Root {
            path: path.to_owned(),
            resolve,
            handle: Mutex::new(Arc::new(handle)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Handle>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the descriptor of the folder that the path names now. If it names none, the former
    /// one, with the error.
    pub(crate) fn current(&self) -> (Arc<Handle>, Option<RootError>) {
        let known = Arc::clone(&self.lock());
        let named = match statat(CWD, &self.path, AtFlags::empty()) {
            Ok(named) => named,
            Err(error) => {
                return (
                    known,
                    Some(RootError::Open(self.path.clone(), error.into())),
                );
            }
        };
        if (named.st_dev, named.st_ino) == (known.device, known.inode) {
            return (known, None);
        }
        match Handle::open(&self.path, self.resolve) {
            Ok(handle) => {
                let handle = Arc::new(handle);
                *self.lock() = Arc::clone(&handle);
                (handle, None)
            }
            Err(error) => (known, Some(error)),
        }
    }

    /// Returns a look at paths of about this length that opens nothing.
    pub(crate) fn by_path(&self, length: usize) -> ByPath {
        let root = self.path.as_os_str().as_bytes();
        let mut path = Vec::with_capacity(root.len() + length + PATH_RESERVE);
        path.extend_from_slice(root);
        path.push(b'/');
        ByPath {
            root: path.len(),
            path,
        }
    }
}

impl Handle {
    fn open(path: &Path, resolve: ResolveFlags) -> Result<Handle, RootError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let failed = |error: Errno| match error {
            Errno::NOTDIR => RootError::NotAFolder(path.to_owned()),
            error => RootError::Open(path.to_owned(), error.into()),
        };
        let descriptor = open(path, flags, Mode::empty()).map_err(failed)?;
        let stat = fstat(&descriptor).map_err(failed)?;
        let handle = Handle {
            descriptor,
            device: stat.st_dev,
            inode: stat.st_ino,
            resolve,
        };
        match handle.open_beneath(b".", OFlags::PATH | OFlags::CLOEXEC) {
            Ok(_) => Ok(handle),
            // A filter of system calls answers EPERM.
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => Err(RootError::OldSystem),
            Err(error) => Err(failed(error)),
        }
    }

    fn open_beneath(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        let mut last = Errno::AGAIN;
        for _ in 0..REPETITIONS {
            match openat2(
                &self.descriptor,
                OsStr::from_bytes(path),
                flags,
                Mode::empty(),
                self.resolve,
            ) {
                Err(error @ (Errno::AGAIN | Errno::INTR)) => last = error,
                other => return other,
            }
        }
        Err(last)
    }

    /// Opens a regular file for reading.
    pub(crate) fn read(&self, path: &[u8]) -> Result<(std::fs::File, Meta), Miss> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = self.open_beneath(path, flags)?;
        let stat = fstat(file.as_fd())?;
        match Kind::of(&stat) {
            Kind::File => Ok((file.into(), Meta::of(&stat))),
            Kind::Folder => Err(Miss::Nothing),
            Kind::Other => Err(Miss::Forbidden("it is no regular file")),
        }
    }
}

/// Looks at paths below the root's descriptor.
impl Look for &Handle {
    fn look(&mut self, path: &[u8]) -> Result<(Kind, Meta), Miss> {
        // O_PATH opens nothing: no FIFO waits, and no device does anything.
        let found = self.open_beneath(path, OFlags::PATH | OFlags::CLOEXEC)?;
        let stat = fstat(found.as_fd())?;
        Ok((Kind::of(&stat), Meta::of(&stat)))
    }
}

/// Looks at paths by their names. It may look outside of the root, so nothing is served because of
/// it, but what was opened below the root.
pub(crate) struct ByPath {
    path: Vec<u8>,
    /// The length of the root with its slash.
    root: usize,
}

impl Look for ByPath {
    fn look(&mut self, path: &[u8]) -> Result<(Kind, Meta), Miss> {
        self.path.truncate(self.root);
        self.path.extend_from_slice(path);
        let stat = statat(CWD, OsStr::from_bytes(&self.path), AtFlags::empty())?;
        Ok((Kind::of(&stat), Meta::of(&stat)))
    }
}
