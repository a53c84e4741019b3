//! Binding the NDN side's sockets, with errors that name the setting.

use crate::client::default_socket_paths;
use mio::net::{TcpListener, UnixListener, UnixStream};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Binds the socket for local applications: the configured path, else the first of the default paths that can be made.
pub(super) fn unix(configured: Option<&Path>) -> Result<(UnixListener, PathBuf), String> {
    if let Some(path) = configured {
        let bound = bind_unix(path).map_err(|why| format!("[ndn] unix: cannot listen on {}: {why}", path.display()))?;
        return Ok((bound, path.to_owned()));
    }
    let mut errors = Vec::new();
    for path in default_socket_paths() {
        match bind_unix(&path) {
            Ok(listener) => return Ok((listener, path)),
            Err(why) => errors.push(format!("{}: {why}", path.display())),
        }
    }
    Err(format!("[ndn] unix: no default path can be used ({}); set [ndn] unix to a path of yours", errors.join("; ")))
}

fn bind_unix(path: &Path) -> Result<UnixListener, String> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|error| format!("cannot create its directory: {error}"))?;
    }
    if path.exists() {
        match UnixStream::connect(path) {
            Ok(_) => return Err("another forwarder answers there; stop it, or set another path".to_owned()),
            // Nobody listens: the file was left behind by one that was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(|error| format!("cannot remove the stale socket: {error}"))?;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    let listener = UnixListener::bind(path).map_err(|error| error.to_string())?;
    // Every local user's applications may connect, as with NFD.
    let open = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(path, open).map_err(|error| error.to_string())?;
    Ok(listener)
}

/// Binds a TCP listener for the setting `[ndn] <key>`; an IPv6 wildcard takes IPv4 too.
pub(super) fn tcp(key: &str, address: SocketAddr) -> Result<TcpListener, String> {
    let bind = || -> io::Result<TcpListener> {
        let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(1024)?;
        socket.set_nonblocking(true)?;
        Ok(TcpListener::from_std(socket.into()))
    };
    bind().map_err(|error| occupied(key, address, &error))
}

/// The line for an address that cannot be bound.
pub(super) fn occupied(key: &str, address: SocketAddr, error: &io::Error) -> String {
    let way_out = match error.kind() {
        io::ErrorKind::AddrInUse => "another program has it: stop that, or set another address, or \"\" for none",
        io::ErrorKind::PermissionDenied => "ports below 1024 need privileges: set a higher one",
        _ => "set an address of this machine, or \"\" for none",
    };
    format!("[ndn] {key}: cannot listen on {address}: {error}; {way_out}")
}
