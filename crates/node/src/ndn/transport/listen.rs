//! Binds the sockets of the NDN side, with errors that name the setting.

use crate::config::NdnConfig;
use crate::inherited::Inherited;
use crate::ndn::address::{canonical, with_ipv4_fallback};
use crate::ndn::error::{NdnError, SocketError};
use larder_client::{default_socket_paths, is_safe};
use larder_host::bind_beside;
use mio::net::{TcpListener, UnixListener, UnixStream};
use rustix::fs::{FileType, Mode, OFlags};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The permissions of the NDN socket: applications of every local user may connect, as with NFD.
pub(crate) const SOCKET_MODE: u32 = 0o666;

/// Returns the socket for local applications, and its path: an inherited one, or one that is bound
/// at the configured path, else at the first default path that works.
pub(crate) fn unix(
    configured: Option<&Path>,
    inherited: &mut Inherited,
) -> Result<(UnixListener, PathBuf), NdnError> {
    let mut paths = configured
        .map_or_else(default_socket_paths, |path| vec![path.to_owned()])
        .into_iter();
    if let Some(found) = paths.find_map(|path| Some((inherited.unix(&path)?, path))) {
        return Ok((UnixListener::from_std(found.0), found.1));
    }
    if let Some(path) = configured {
        let bound = bind_unix(path).map_err(|error| NdnError::Unix(path.to_owned(), error))?;
        return Ok((bound, path.to_owned()));
    }
    let mut errors = Vec::new();
    for path in default_socket_paths() {
        match own_directory(&path).and_then(|()| bind_unix(&path)) {
            Ok(listener) => return Ok((listener, path)),
            // Applications look there first, and would find the other one.
            Err(error @ SocketError::InUse) => return Err(NdnError::Unix(path, error)),
            Err(error) => errors.push((path, error)),
        }
    }
    Err(NdnError::NoDefaultPath(errors))
}

/// A directory under /tmp must belong to this user alone. Its owner could replace our socket.
pub(crate) fn own_directory(path: &Path) -> Result<(), SocketError> {
    let Some(directory) = path
        .parent()
        .filter(|directory| directory.starts_with("/tmp"))
    else {
        return Ok(());
    };
    // A new directory belongs to this user; an existing one is examined.
    let _ = std::fs::DirBuilder::new().mode(0o755).create(directory);
    if is_safe(path) {
        Ok(())
    } else {
        Err(SocketError::ForeignDirectory)
    }
}

fn bind_unix(path: &Path) -> Result<UnixListener, SocketError> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(SocketError::Directory)?;
    }
    bind_unix_socket(path, SOCKET_MODE).map(UnixListener::from_std)
}

/// Returns the folders that a start would create for its socket, the innermost first.
pub(crate) fn socket_folders(config: &NdnConfig) -> Vec<PathBuf> {
    let Some(setting) = config.unix.as_ref().filter(|_| config.enabled) else {
        return Vec::new();
    };
    let configured = setting.path().map(|path| vec![path.to_owned()]);
    let paths = configured.unwrap_or_else(default_socket_paths);
    let missing = |path: &PathBuf| {
        let folders = path.ancestors().skip(1).map(Path::to_owned);
        let missing = folders.take_while(|folder| {
            !folder.as_os_str().is_empty() && std::fs::symlink_metadata(folder).is_err()
        });
        missing.collect::<Vec<_>>()
    };
    paths.iter().flat_map(missing).collect()
}

/// Removes those of these folders that are empty: what a start that failed has made.
pub(crate) fn remove_empty(folders: &[PathBuf]) {
    for folder in folders {
        // One with something in it stays.
        let _ = std::fs::remove_dir(folder);
    }
}

/// Binds a Unix socket with these permissions.
pub(crate) fn bind_unix_socket(
    path: &Path,
    mode: u32,
) -> Result<std::os::unix::net::UnixListener, SocketError> {
    remove_stale(path)?;
    let listener = std::os::unix::net::UnixListener::bind(path).map_err(SocketError::System)?;
    listener
        .set_nonblocking(true)
        .map_err(SocketError::System)?;
    set_mode(path, mode).map_err(SocketError::System)?;
    Ok(listener)
}

/// Sets the permissions of a socket file. Another program that may change the folder can put a link
/// in its place meanwhile, so the path is opened without following one, and what was opened is
/// checked and changed.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let file = rustix::fs::open(
        path,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let found = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if found != FileType::Socket {
        return Err(io::Error::other(
            "another file is in the place of the socket; name a folder that others cannot change",
        ));
    }
    // A descriptor of this kind cannot be changed itself, but its link in /proc leads to the file.
    let same = format!("/proc/self/fd/{}", file.as_raw_fd());
    if std::fs::exists(&same)? {
        std::fs::set_permissions(same, std::fs::Permissions::from_mode(mode))
    } else {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
    }
}

/// Removes the socket file of a killed forwarder. Any other file stays and is an error.
pub(crate) fn remove_stale(path: &Path) -> Result<(), SocketError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketError::System(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(SocketError::NoSocket);
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        // No process listens.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(SocketError::Stale)
        }
        // Its queue of connections is full: a process listens, but is busy.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(SocketError::InUse),
        Err(error) => Err(SocketError::System(error)),
        Ok(_) => Err(SocketError::InUse),
    }
}

/// Returns the TCP listener for the setting `[ndn] <key>`: an inherited one, or one that is bound.
/// An IPv6 wildcard accepts IPv4 too. The address may overlap those of sockets that are about to
/// close.
pub(crate) fn tcp(
    key: &'static str,
    address: SocketAddr,
    inherited: Option<std::net::TcpListener>,
    closing: &[BorrowedFd<'_>],
) -> Result<TcpListener, NdnError> {
    match inherited {
        Some(listener) => Ok(TcpListener::from_std(listener)),
        None => try_tcp(address, closing).map_err(|error| NdnError::Listen {
            key,
            address,
            error,
        }),
    }
}

pub(crate) fn try_tcp(address: SocketAddr, closing: &[BorrowedFd<'_>]) -> io::Result<TcpListener> {
    let bind = |address: SocketAddr, shares_port| -> io::Result<TcpListener> {
        let socket = socket2::Socket::new(
            socket2::Domain::for_address(address),
            socket2::Type::STREAM,
            None,
        )?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(shares_port)?;
        socket.bind(&address.into())?;
        socket.listen(1024)?;
        socket.set_nonblocking(true)?;
        Ok(TcpListener::from_std(socket.into()))
    };
    with_ipv4_fallback(address, |address| {
        bind_beside(closing, |shares_port| bind(address, shares_port))
    })
}

/// Returns the FaceUri of an address: `tcp4://127.0.0.1:6363`, `udp6://[::1]:6363`. A mapped IPv4
/// address is shown as IPv4.
pub(crate) fn face_uri(scheme: &str, address: SocketAddr) -> String {
    let address = canonical(address);
    format!(
        "{scheme}{}://{address}",
        if address.is_ipv4() { 4 } else { 6 }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_socket_opens_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let (secret, link, socket) = (
            folder.path().join("secret"),
            folder.path().join("link"),
            folder.path().join("s"),
        );
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        std::fs::write(&secret, "").unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        let hard = folder.path().join("hard");
        std::fs::hard_link(&secret, &hard).unwrap();
        assert!(set_mode(&link, 0o666).is_err() && set_mode(&hard, 0o666).is_err());
        assert_eq!(mode(&secret), 0o600);
        let _listener = bind_unix_socket(&socket, 0o660).unwrap();
        assert_eq!(mode(&socket), 0o660);
    }

    #[test]
    fn a_machine_without_ipv6_serves_on_ipv4() {
        let no_ipv6 = |address: SocketAddr| {
            if address.is_ipv6() {
                Err(io::Error::from_raw_os_error(
                    crate::ndn::address::EAFNOSUPPORT,
                ))
            } else {
                Ok(address)
            }
        };
        let bound = |text: &str| {
            with_ipv4_fallback(text.parse().unwrap(), no_ipv6)
                .ok()
                .map(|bound| bound.to_string())
        };
        assert_eq!(bound("[::]:6363").as_deref(), Some("0.0.0.0:6363"));
        assert_eq!(bound("[::1]:6363"), None, "that one was meant");
        assert_eq!(bound("127.0.0.1:6363").as_deref(), Some("127.0.0.1:6363"));
    }
}
