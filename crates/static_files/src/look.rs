//! What the file system says of a path.

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::io;

/// What identifies the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The number of the file in its file system.
    pub inode: u64,
    /// Its bytes.
    pub size: u64,
    /// The time of its last modification, in nanoseconds since 1970.
    pub modified_nanos: i128,
    /// The time of the last change of content or metadata, which no program can set.
    pub changed_nanos: i128,
}

impl Meta {
    pub(crate) fn of(stat: &Stat) -> Meta {
        let nanos =
            |seconds: i64, nanos: u64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Meta {
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified_nanos: nanos(stat.st_mtime, stat.st_mtime_nsec),
            changed_nanos: nanos(stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Returns the time of its last modification in seconds since 1970.
    pub fn modified_seconds(&self) -> u64 {
        u64::try_from(self.modified_nanos / 1_000_000_000).unwrap_or(0)
    }
}

/// The kind of what a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    /// A FIFO, a device or a socket.
    Other,
}

impl Kind {
    pub(crate) fn of(stat: &Stat) -> Kind {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            _ => Kind::Other,
        }
    }
}

/// The reason why a path leads to nothing.
#[derive(Debug)]
pub(crate) enum Miss {
    /// There is nothing.
    Nothing,
    /// It leaves the root, or the node may not read it.
    Forbidden(&'static str),
    /// The system's error.
    Failed(io::Error),
}

impl From<Errno> for Miss {
    fn from(error: Errno) -> Miss {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => Miss::Nothing,
            Errno::ACCESS | Errno::PERM => Miss::Forbidden("the node may not read it"),
            Errno::XDEV => Miss::Forbidden("a symbolic link leaves the root"),
            Errno::LOOP => Miss::Forbidden("a symbolic link that is not followed"),
            Errno::NXIO | Errno::NODEV => Miss::Forbidden("it is no regular file"),
            other => Miss::Failed(other.into()),
        }
    }
}

/// Looks at paths below a root.
pub(crate) trait Look {
    /// Returns the kind and the metadata of what a path names.
    fn look(&mut self, path: &[u8]) -> Result<(Kind, Meta), Miss>;
}
