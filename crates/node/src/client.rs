//! Connecting to a forwarder as an application.

use std::path::PathBuf;

/// Where a forwarder's Unix socket is looked for, and made: NFD's place first, else the user's runtime directory.
pub fn default_socket_paths() -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from("/run/nfd/nfd.sock")];
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(directory) => paths.push(PathBuf::from(directory).join("larder/nfd.sock")),
        None => paths.push(std::env::temp_dir().join("larder/nfd.sock")),
    }
    paths
}
