//! The files of Unix sockets that this process has bound.

use crate::listen_address::{ListenAddress, ListenConfig};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file of a Unix socket. It is removed when it is dropped, if it is still the same file.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    /// Sets its permissions.
    pub fn set_mode(&self, mode: u32) {
        let mode_now =
            std::fs::metadata(&self.path).map(|found| found.permissions().mode() & 0o7777);
        if mode_now.ok() != Some(mode)
            && let Err(error) =
                std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(mode))
        {
            tracing::error!(path = %self.path.display(), %error, "the permissions of the socket file stay as they were");
        }
    }

    /// Returns the file of a listener that was just bound; `None` for TCP.
    pub fn of(config: &ListenConfig) -> Option<SocketFile> {
        let ListenAddress::Unix(path) = &config.address else {
            return None;
        };
        Some(SocketFile {
            path: path.clone(),
            identity: identity(path)?,
        })
    }

    /// Leaves the file in place: another process listens on its socket.
    pub fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path) == Some(self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path)
        .ok()
        .map(|found| (found.dev(), found.ino()))
}
