//! Gives up the privileges of root: `[process] user`. The rights to files end before the first file
//! is opened ([`crate::user_files`]), the others after the listeners are bound.
//!
//! `no_new_privs` belongs to each thread, and threads inherit it. So [`Account::find`] sets it
//! before there are others. The change of the user is glibc's, which applies it to all threads; it
//! clears their capabilities.

use crate::config::Config;
use crate::inherited::Inherited;
use crate::user_files::{CreateError, Owner};
use larder_proxy::access_log::LogTarget;
use larder_proxy::static_files::{RootError, Site};
use larder_tier_host::DiskConfig;
use nix::unistd::{Gid, Group, Uid, User, initgroups, setgid, setuid};
use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{error, fmt, io};

/// The error of opening a FIFO without a reader.
const ENXIO: i32 = rustix::io::Errno::NXIO.raw_os_error();

/// The user and the group that the node runs as.
pub(crate) struct Account {
    user: User,
    group: Gid,
    /// The sockets that root has bound for the user.
    sockets: Vec<PathBuf>,
}

/// The reason why the node cannot run as another user: one line.
#[derive(Debug)]
#[non_exhaustive]
pub enum PrivilegeError {
    /// There is no such user or group.
    Unknown {
        /// The key: `user` or `group`.
        key: &'static str,
        /// Its name.
        name: String,
    },
    /// The node was not started by root.
    NotRoot {
        /// The configured user.
        user: String,
    },
    /// The user cannot use a file that the node needs again later.
    File {
        /// The setting that names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The user.
        user: String,
        /// The system's error.
        error: io::Error,
    },
    /// A file cannot be created for the user.
    Create(CreateError),
    /// The system refuses.
    System(&'static str, io::Error),
}

impl PrivilegeError {
    /// Returns the file that it is about, if it is about one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            PrivilegeError::File { path, .. }
            | PrivilegeError::Create(CreateError::File(path, _) | CreateError::Socket(path, _)) => {
                Some(path)
            }
            _ => None,
        }
    }
}

impl fmt::Display for PrivilegeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrivilegeError::Unknown { key, name } => {
                write!(
                    f,
                    "[process] {key} = {name:?}: this system has no such {key}; `useradd --system` makes a user"
                )
            }
            PrivilegeError::NotRoot { user } => {
                write!(
                    f,
                    "[process] user = {user:?}: only root can start a node as another user; leave it out"
                )
            }
            PrivilegeError::File {
                setting,
                path,
                user,
                error,
            } => {
                let error = larder_units::system_message(error);
                write!(
                    f,
                    "{setting} {path:?}: the user {user:?} of [process] needs it later: {error}; change its owner or mode"
                )
            }
            PrivilegeError::Create(error) => write!(f, "[process] user: {error}"),
            PrivilegeError::System(what, error) => {
                write!(f, "[process] user: cannot {what}: {error}")
            }
        }
    }
}

impl error::Error for PrivilegeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            PrivilegeError::File { error, .. } | PrivilegeError::System(_, error) => Some(error),
            PrivilegeError::Create(error) => Some(error),
            PrivilegeError::Unknown { .. } | PrivilegeError::NotRoot { .. } => None,
        }
    }
}

impl Account {
    /// Returns the account of the configuration; `None` if the node stays what it is. Call it
    /// before the first thread starts: from then on, no program that the process executes gets
    /// privileges.
    ///
    /// # Errors
    /// [`PrivilegeError`] if there is no such user or group, or the process is not root's. A
    /// process of this very user has nothing to give up.
    pub(crate) fn find(config: &Config) -> Result<Option<Account>, PrivilegeError> {
        let Some(name) = config.process.user.as_deref() else {
            return Ok(None);
        };
        let system = |what| move |error: nix::Error| PrivilegeError::System(what, error.into());
        let unknown = |key, name: &str| PrivilegeError::Unknown {
            key,
            name: name.to_owned(),
        };
        let user = User::from_name(name).map_err(system("look the user up"))?;
        let user = user.ok_or_else(|| unknown("user", name))?;
        let group = match config.process.group.as_deref() {
            None => user.gid,
            Some(name) => {
                let group = Group::from_name(name).map_err(system("look the group up"))?;
                group.ok_or_else(|| unknown("group", name))?.gid
            }
        };
        if !Uid::effective().is_root() && Uid::effective() != user.uid {
            return Err(PrivilegeError::NotRoot {
                user: name.to_owned(),
            });
        }
        rustix::thread::set_no_new_privs(true)
            .map_err(|error| PrivilegeError::System("give up new privileges", error.into()))?;
        Ok(Uid::effective().is_root().then_some(Account {
            user,
            group,
            sockets: Vec::new(),
        }))
    }

    /// Gives up root's rights to files, for this thread and those that it starts. Before, creates
    /// the files that the user cannot create; sockets go to `inherited`. Checks that the user can
    /// use the files that exist.
    ///
    /// # Errors
    /// [`PrivilegeError`].
    pub(crate) fn assume_file_rights(
        &mut self,
        config: &Config,
        inherited: &mut Inherited,
    ) -> Result<(), PrivilegeError> {
        self.sockets = self
            .owner()
            .create(config, inherited)
            .map_err(PrivilegeError::Create)?;
        self.try_file_rights(config)
    }

    /// Gives up root's rights to files, and checks that the user can use the files that exist.
    ///
    /// # Errors
    /// [`PrivilegeError`].
    pub(crate) fn try_file_rights(&self, config: &Config) -> Result<(), PrivilegeError> {
        let name = std::ffi::CString::new(self.user.name.as_str());
        let name = name.map_err(|error| PrivilegeError::System("use its name", error.into()))?;
        initgroups(&name, self.group)
            .map_err(|error| PrivilegeError::System("set its groups", error.into()))?;
        self.owner()
            .assume_file_rights()
            .map_err(|error| PrivilegeError::System("give up rights to files", error))?;
        self.check(config)
    }

    fn owner(&self) -> Owner {
        Owner {
            user: self.user.uid,
            group: self.group,
        }
    }

    /// Removes what was created for a start that fails.
    pub(crate) fn remove_sockets(&self) {
        self.owner().remove_sockets(&self.sockets);
    }

    /// Becomes this user, and checks that it can write to the folder of the access log.
    ///
    /// # Errors
    /// [`PrivilegeError`].
    pub(crate) fn assume(&self, config: &Config) -> Result<(), PrivilegeError> {
        let system = |what| move |error: nix::Error| PrivilegeError::System(what, error.into());
        setgid(self.group).map_err(system("set its group"))?;
        setuid(self.user.uid).map_err(system("set the user"))?;
        // A log that is rotated gets a new file in its folder.
        if let Some(path) = log_file(config) {
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).map_err(|error| {
                self.file("[http.access_log] path: the folder", folder, error.into())
            })?;
        }
        Ok(())
    }

    /// Returns the error for a file that the user cannot use.
    fn file(&self, setting: &'static str, path: &Path, error: io::Error) -> PrivilegeError {
        PrivilegeError::File {
            setting,
            path: path.to_owned(),
            user: self.user.name.clone(),
            error,
        }
    }

    /// Opens the files that a reload reads, and those that the start opens, if they exist.
    fn check(&self, config: &Config) -> Result<(), PrivilegeError> {
        let open = |setting, path: &Path, is_written: bool| {
            let mut options = OpenOptions::new();
            // A FIFO does not hold up the start.
            options
                .read(!is_written)
                .append(is_written)
                .custom_flags(OFlags::NONBLOCK.bits() as i32);
            options
                .open(path)
                .map(drop)
                .map_err(|error| self.file(setting, path, error))
        };
        if let Some(path) = &config.source {
            open("the configuration", path, false)?;
        }
        for (setting, path) in config.files_read_again() {
            open(setting, path, false)?;
        }
        for (setting, files) in config.http.folders() {
            match Site::open(files.clone()) {
                Err(RootError::Open(_, error)) => {
                    return Err(self.file(setting, &files.root, error));
                }
                // The start says what is wrong.
                Ok(_) | Err(RootError::NotAFolder(_) | RootError::OldSystem) => {}
            }
        }
        let disk = |disk: &Option<DiskConfig>| disk.as_ref().map(|disk| disk.path.clone());
        let written = [
            ("[http.disk] path", disk(&config.http.proxy.disk)),
            ("[ndn.disk] path", disk(&config.ndn.disk)),
            ("[http.access_log] path", log_file(config)),
        ];
        for (setting, path) in written {
            let Some(path) = path else { continue };
            match open(setting, &path, true) {
                // The start creates it, or says why it cannot, as for a FIFO without a reader.
                Err(PrivilegeError::File { error, .. })
                    if error.kind() == io::ErrorKind::NotFound
                        || error.raw_os_error() == Some(ENXIO) => {}
                opened => opened?,
            }
        }
        Ok(())
    }
}

fn log_file(config: &Config) -> Option<PathBuf> {
    match &config.http.proxy.access_log.as_ref()?.target {
        LogTarget::File(path) => Some(path.clone()),
        LogTarget::Stdout | LogTarget::Socket(_) => None,
    }
}
