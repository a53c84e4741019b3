//! The files of a node that root starts for another user.
//!
//! The node opens every file with the rights of that user, which Linux keeps apart from the
//! privilege for ports (`setfsuid(2)`). So a symbolic link, a hard link or a folder in the place of
//! a file leads to nothing that the user cannot open itself. It does not matter who put it there.
//!
//! The user cannot create a socket in `/run`. So root creates such files before, if only root can
//! change the folder and the way to it. Nothing else changes its owner.

use crate::config::{Config, UnixSetting};
use crate::inherited::{Inherited, Role};
use crate::limits::SYMBOLIC_LINKS;
use crate::ndn::{SocketError, bind_unix_socket};
use larder_client::default_socket_paths;
use larder_host::ListenAddress;
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown, lchown};
use std::path::{Component, Path, PathBuf};
use std::{error, fmt};

/// The reason why a file cannot be created for the user: one line.
#[derive(Debug)]
#[non_exhaustive]
pub enum CreateError {
    /// The system's error for this file.
    File(PathBuf, io::Error),
    /// A socket cannot be bound.
    Socket(PathBuf, SocketError),
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateError::File(path, error) => {
                write!(
                    f,
                    "cannot create {path:?} for the user: {}",
                    larder_units::system_message(error)
                )
            }
            CreateError::Socket(path, error) => write!(f, "{path:?}: {error}"),
        }
    }
}

impl error::Error for CreateError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            CreateError::File(_, error) => Some(error),
            CreateError::Socket(_, error) => Some(error),
        }
    }
}

/// The user and the group that get files.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) user: Uid,
    pub(crate) group: Gid,
}

impl Owner {
    /// Creates the files that the user cannot create itself: empty disk tiers, and sockets, which
    /// go to `inherited`. Returns the paths of the sockets.
    ///
    /// # Errors
    /// The system's, with the path.
    pub(crate) fn create(
        self,
        config: &Config,
        inherited: &mut Inherited,
    ) -> Result<Vec<PathBuf>, CreateError> {
        for disk in [&config.http.proxy.disk, &config.ndn.disk]
            .into_iter()
            .flatten()
        {
            if is_root_alone_in(folder_of(&disk.path)) {
                self.create_file(&disk.path)
                    .map_err(|error| CreateError::File(disk.path.clone(), error))?;
            }
        }
        let mut sockets = Vec::new();
        for (role, path, mode) in unix_listeners(config) {
            if inherited.has(role, &ListenAddress::Unix(path.clone()))
                || !has_folder_of_root(role, &path)
            {
                continue;
            }
            let listener = bind_unix_socket(&path, mode)
                .map_err(|error| CreateError::Socket(path.clone(), error))?;
            let create = |error| CreateError::File(path.clone(), error);
            sockets.push(path.clone());
            lchown(&path, Some(self.user.as_raw()), Some(self.group.as_raw())).map_err(create)?;
            inherited
                .add(listener.into(), Some(role), true)
                .map_err(create)?;
        }
        Ok(sockets)
    }

    /// Creates an empty file for the user. Leaves one that exists as it is.
    fn create_file(self, path: &Path) -> io::Result<()> {
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
        {
            Ok(file) => fchown(&file, Some(self.user.as_raw()), Some(self.group.as_raw())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives this thread, and those that it starts, the user's rights to files. The groups of the
    /// process must be the user's already.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn assume_file_rights(self) -> io::Result<()> {
        // These calls report no errors, but the ids before.
        setfsgid(self.group);
        setfsuid(self.user);
        if setfsgid(self.group) == self.group && setfsuid(self.user) == self.user {
            Ok(())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    /// Removes sockets that [`Owner::create`] has created, with root's rights to files.
    pub(crate) fn remove_sockets(self, paths: &[PathBuf]) {
        let rights = setfsuid(Uid::from_raw(0));
        for path in paths {
            if let Err(error) = std::fs::remove_file(path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::debug!(path = %path.display(), %error, "the file of a socket stays");
            }
        }
        setfsuid(rights);
    }
}

/// Returns a configuration without the files that root creates at a start ([`Owner::create`]).
pub(crate) fn without_files_of_root(config: &Config) -> Config {
    let mut rest = config.clone();
    let is_roots = |path: &Path| is_root_alone_in(folder_of(path));
    for disk in [&mut rest.http.proxy.disk, &mut rest.ndn.disk] {
        disk.take_if(|disk| !disk.path.exists() && is_roots(&disk.path));
    }
    let proxy = &mut rest.http.proxy;
    let secure = proxy.tls.iter_mut().flat_map(|tls| &mut tls.listen);
    let listeners = proxy.listen.iter_mut().chain(secure);
    for listen in listeners {
        if matches!(&listen.address, ListenAddress::Unix(path) if is_roots(path)) {
            listen.address = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        }
    }
    rest.ndn.unix.take_if(|unix| match unix {
        UnixSetting::Path(path) => is_roots(path),
        UnixSetting::Default => true,
    });
    rest
}

/// Returns the Unix sockets of a configuration, each with its role and mode.
fn unix_listeners(config: &Config) -> Vec<(Role, PathBuf, u32)> {
    let mut sockets = Vec::new();
    let proxy = &config.http.proxy;
    let plain = proxy.listen.iter().map(|listen| (Role::Http, listen));
    let secure = proxy.tls.iter().flat_map(|tls| &tls.listen);
    for (role, listen) in plain.chain(secure.map(|listen| (Role::Https, listen))) {
        if let ListenAddress::Unix(path) = &listen.address
            && config.http.enabled
        {
            sockets.push((role, path.clone(), listen.mode));
        }
    }
    let ndn = match &config.ndn.unix {
        Some(UnixSetting::Path(path)) => Some(path.clone()),
        Some(UnixSetting::Default) => default_socket_paths().into_iter().next(),
        None => None,
    };
    if let Some(path) = ndn.filter(|_| config.ndn.enabled) {
        sockets.push((Role::NdnUnix, path, crate::ndn::SOCKET_MODE));
    }
    sockets
}

/// Returns true if only root can change the folder of a socket. Creates the folder of the NDN side.
fn has_folder_of_root(role: Role, path: &Path) -> bool {
    let folder = folder_of(path);
    if role == Role::NdnUnix
        && let Some(existing) = folder.ancestors().find(|ancestor| ancestor.exists())
        && existing != folder
        && is_root_alone_in(existing)
    {
        // A failure shows when the socket is bound.
        let _ = DirBuilder::new().recursive(true).mode(0o755).create(folder);
    }
    is_root_alone_in(folder)
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Returns true if only root can change the entries of this folder, and what its path means: every
/// folder and symbolic link on the way is root's.
fn is_root_alone_in(folder: &Path) -> bool {
    walk(folder).unwrap_or(false)
}

fn walk(folder: &Path) -> io::Result<bool> {
    let mut rest: Vec<PathBuf> = parts(&std::path::absolute(folder)?);
    let (mut here, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = rest.pop() {
        let next = if part.is_absolute() {
            PathBuf::from("/")
        } else {
            here.join(&part)
        };
        let found = std::fs::symlink_metadata(&next)?;
        if found.uid() != 0
            || !(is_closed(&std::fs::metadata(&here)?) || is_sticky(&std::fs::metadata(&here)?))
        {
            return Ok(false);
        }
        if found.file_type().is_symlink() {
            links += 1;
            if links > SYMBOLIC_LINKS {
                return Ok(false);
            }
            rest.extend(parts(&std::fs::read_link(&next)?));
        } else {
            here = next.canonicalize()?;
        }
    }
    let found = std::fs::metadata(&here)?;
    Ok(found.is_dir() && found.uid() == 0 && is_closed(&found))
}

/// Returns the parts of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    let mut parts: Vec<PathBuf> = parts.map(|part| PathBuf::from(part.as_os_str())).collect();
    parts.reverse();
    parts
}

/// Returns true if only the owner can change the folder's entries.
fn is_closed(folder: &Metadata) -> bool {
    folder.mode() & 0o022 == 0
}

/// Returns true if everybody can add entries, and only their owner can change them.
fn is_sticky(folder: &Metadata) -> bool {
    folder.mode() & 0o1000 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn folder(path: &Path, mode: u32, owner: u32) -> PathBuf {
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        chown(path, Some(owner), None).unwrap();
        path.to_owned()
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn root_creates_files_where_others_can_lead_it() {
        if !Uid::effective().is_root() {
            return eprintln!("skipped: only root can give folders to others");
        }
        let site = tempfile::tempdir().unwrap();
        let at = |name: &str| site.path().join(name);
        fs::set_permissions(site.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (closed, theirs) = (
            folder(&at("closed"), 0o755, 0),
            folder(&at("theirs"), 0o755, 65_534),
        );
        assert!(is_root_alone_in(&closed), "/tmp is sticky");
        assert!(!is_root_alone_in(&theirs));
        assert!(!is_root_alone_in(&folder(&at("open"), 0o777, 0)));
        assert!(!is_root_alone_in(&folder(&at("group"), 0o775, 0)));
        assert!(!is_root_alone_in(&folder(&at("sticky"), 0o1777, 0)));
        assert!(
            !is_root_alone_in(&folder(&theirs.join("ours"), 0o755, 0)),
            "its owner can replace it"
        );
        assert!(!is_root_alone_in(&at("none")));
        // Links of root lead on, as /var/run does. A way through a folder of others does not.
        symlink("closed", at("link")).unwrap();
        assert!(is_root_alone_in(&at("link")));
        assert!(is_root_alone_in(&at("link/../link")));
        symlink(&closed, theirs.join("link")).unwrap();
        assert!(
            !is_root_alone_in(&theirs.join("link")),
            "a link in a folder of others"
        );
        symlink(theirs.join("link"), at("chain")).unwrap();
        assert!(!is_root_alone_in(&at("chain")), "a link to it");
        symlink("../closed", theirs.join("up")).unwrap();
        assert!(
            !is_root_alone_in(&theirs.join("../closed")),
            "the owner can replace the first folder"
        );
        symlink("loop", at("loop")).unwrap();
        assert!(!is_root_alone_in(&at("loop")));
    }
}
