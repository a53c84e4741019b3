//! Gives up the privileges of root after the listeners are bound: `[process] user`.
//!
//! `no_new_privs` belongs to each thread, and threads inherit it. So [`Account::find`] sets it
//! before there are others. The change of the user is glibc's, which applies it to all threads; it
//! clears their capabilities.

use crate::config::Config;
use larder_proxy::ListenAddress;
use larder_proxy::access_log::LogTarget;
use nix::unistd::{Gid, Group, Uid, User, initgroups, setgid, setuid};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::{error, fmt, io};

/// The user and the group that the node runs as.
pub(crate) struct Account {
    user: User,
    group: Gid,
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
    /// The system refuses.
    System(&'static str, io::Error),
}

impl fmt::Display for PrivilegeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrivilegeError::Unknown { key, name } => {
                write!(f, "[process] {key} = {name:?}: this system has no such {key}; `useradd --system` makes a user")
            }
            PrivilegeError::NotRoot { user } => {
                write!(f, "[process] user = {user:?}: only root can start a node as another user; leave it out")
            }
            PrivilegeError::File { setting, path, user, error } => {
                let error = larder_units::system_message(error);
                write!(
                    f,
                    "{setting} {path:?}: the user {user:?} of [process] needs it later: {error}; change its owner or mode"
                )
            }
            PrivilegeError::System(what, error) => write!(f, "[process] user: cannot {what}: {error}"),
        }
    }
}

impl error::Error for PrivilegeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            PrivilegeError::File { error, .. } | PrivilegeError::System(_, error) => Some(error),
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
        let Some(name) = config.process.user.as_deref() else { return Ok(None) };
        let system = |what| move |error: nix::Error| PrivilegeError::System(what, error.into());
        let unknown = |key, name: &str| PrivilegeError::Unknown { key, name: name.to_owned() };
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
            return Err(PrivilegeError::NotRoot { user: name.to_owned() });
        }
        rustix::thread::set_no_new_privs(true)
            .map_err(|error| PrivilegeError::System("give up new privileges", error.into()))?;
        Ok(Uid::effective().is_root().then_some(Account { user, group }))
    }

    /// Becomes this user, and checks that it can use the files that the node opens again later.
    ///
    /// # Errors
    /// [`PrivilegeError`].
    pub(crate) fn assume(&self, config: &Config) -> Result<(), PrivilegeError> {
        let system = |what| move |error: nix::Error| PrivilegeError::System(what, error.into());
        let Account { user, group } = self;
        // The node has just created them, as root.
        for (what, path) in created_files(config) {
            std::os::unix::fs::chown(path, Some(user.uid.as_raw()), Some(group.as_raw()))
                .map_err(|error| PrivilegeError::System(what, error))?;
        }
        let name = std::ffi::CString::new(user.name.as_str());
        let name = name.map_err(|error| PrivilegeError::System("use its name", error.into()))?;
        initgroups(&name, *group).map_err(system("set its groups"))?;
        setgid(*group).map_err(system("set its group"))?;
        setuid(user.uid).map_err(system("set the user"))?;
        self.check(config)
    }

    /// Opens the files that a reload reads, and those that another start opens.
    fn check(&self, config: &Config) -> Result<(), PrivilegeError> {
        let open = |setting, path: &Path, is_written| {
            let opened = OpenOptions::new().read(true).write(is_written).open(path);
            let (user, path) = (self.user.name.clone(), path.to_owned());
            opened.map(drop).map_err(|error| PrivilegeError::File { setting, path, user, error })
        };
        if let Some(path) = &config.source {
            open("the configuration", path, false)?;
        }
        for (setting, path) in config.files_read_again() {
            open(setting, path, false)?;
        }
        for (setting, disk) in [("[http.disk] path", &config.http.disk), ("[ndn.disk] path", &config.ndn.disk)] {
            disk.iter().try_for_each(|disk| open(setting, &disk.path, true))?;
        }
        // A log that is rotated gets a new file in its folder.
        if let Some(path) = log_file(config) {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).map_err(|error| PrivilegeError::File {
                setting: "[http.access_log] path: the folder",
                path: folder.to_owned(),
                user: self.user.name.clone(),
                error: error.into(),
            })?;
        }
        Ok(())
    }
}

/// Returns the files that a start creates and that the user has to change later, each with what is
/// done with it.
fn created_files(config: &Config) -> Vec<(&'static str, PathBuf)> {
    let disks = [&config.http.disk, &config.ndn.disk].into_iter().flatten();
    let disks = disks.map(|disk| ("give the disk tier to the user", disk.path.clone()));
    let listeners = config.http.listen.iter().chain(config.http.tls.iter().flat_map(|tls| &tls.listen));
    let sockets = listeners.filter_map(|listen| match &listen.address {
        ListenAddress::Unix(path) => Some(("give the socket to the user", path.clone())),
        ListenAddress::Tcp(_) => None,
    });
    let log = log_file(config).map(|path| ("give the access log to the user", path));
    disks.chain(sockets).chain(log).collect()
}

fn log_file(config: &Config) -> Option<PathBuf> {
    match config.http.access_log.as_ref()?.config().target {
        LogTarget::File(path) => Some(path),
        LogTarget::Stdout | LogTarget::Socket(_) => None,
    }
}
