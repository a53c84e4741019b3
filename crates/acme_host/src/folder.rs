//! The folder with certificates, keys, the account and open challenges.

use crate::error::Error;
use crate::limits;
use larder_host::entropy;
use rustix::fs::{Access, access};
use rustix::process::geteuid;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The folder of open challenges, in the folder.
const CHALLENGES: &str = "challenges";

/// A folder for secrets: only its owner reads its files.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

/// A file's time of change and its size.
pub(crate) type Stamp = (SystemTime, u64);

impl Folder {
    /// Opens the folder. Creates it, and the folder of challenges, with mode 0700.
    ///
    /// # Errors
    /// The folder cannot be created, or no file can be created in it.
    pub(crate) fn open(path: &Path) -> Result<Folder, Error> {
        let folder = Folder(path.to_owned());
        let challenges = folder.challenges();
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&challenges.0);
        made.and_then(|()| challenges.write("probe.tmp", b""))
            .and_then(|()| challenges.remove("probe.tmp"))
            .map_err(|error| Error::Folder(path.to_owned(), error))?;
        Ok(folder)
    }

    /// Tries what [`Folder::open`] needs, and creates nothing: a folder that root creates in a try
    /// would be refused to the user of the service. So root does not judge the folder of another
    /// owner either.
    ///
    /// # Errors
    /// The folder cannot be written, or cannot be created in the nearest folder above it.
    pub(crate) fn check(path: &Path) -> Result<(), Error> {
        let challenges = path.join(CHALLENGES);
        check_nearest(&challenges).map_err(|error| Error::Folder(path.to_owned(), error))
    }

    /// Returns the folder of open challenges.
    pub(crate) fn challenges(&self) -> Folder {
        Folder(self.0.join(CHALLENGES))
    }

    /// Returns the content of a file; `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.read_most(name, limits::FILE_BYTES)
    }

    fn read_most(&self, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(self.0.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut content = Vec::new();
        file.take(most).read_to_end(&mut content)?;
        Ok(Some(content))
    }

    /// Returns the text of a file; `None` if it cannot be read, or is no text of at most so many
    /// bytes.
    pub(crate) fn read_short(&self, name: &str, most: usize) -> Option<String> {
        let content = self.read_most(name, most as u64 + 1).ok()??;
        String::from_utf8(content)
            .ok()
            .filter(|text| text.len() <= most)
    }

    /// Returns the names of at most so many files that are wanted.
    pub(crate) fn names(
        &self,
        most: usize,
        is_wanted: impl Fn(&str) -> bool,
    ) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let name = entry?.file_name().into_string();
            names.extend(name.ok().filter(|name| is_wanted(name)));
            if names.len() == most {
                break;
            }
        }
        Ok(names)
    }

    /// Writes a file for its owner alone. A reader, and a machine that loses power, has the former
    /// file or this one.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        // Other processes and machines may write the same file at the same time.
        let [number] = entropy::words();
        let other_name = self.0.join(format!(".{name}.{number:016x}"));
        let written = self.write_and_rename(&other_name, &self.0.join(name), content);
        if written.is_err() {
            // What is left of it: the disk may be full.
            let _ = std::fs::remove_file(&other_name);
        }
        written
    }

    fn write_and_rename(&self, from: &Path, to: &Path, content: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(from)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(from, to)?;
        File::open(&self.0)?.sync_all()
    }

    /// Removes a file, if there is one.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns when a file was changed, and its size; `None` if there is none.
    pub(crate) fn stamp(&self, name: &str) -> Option<Stamp> {
        let found = std::fs::metadata(self.0.join(name)).ok()?;
        Some((found.modified().ok()?, found.len()))
    }

    /// Locks a file until the result is dropped, or the process ends. `None` if another process has
    /// locked it.
    pub(crate) fn lock(&self, name: &str) -> io::Result<Option<File>> {
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(self.0.join(name))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Removes the files that were not changed for a while: of challenges whose process was killed.
    pub(crate) fn remove_old(&self) {
        let is_old = |entry: &std::fs::DirEntry| {
            let changed = entry.metadata().and_then(|found| found.modified()).ok();
            let age = changed.and_then(|changed| changed.elapsed().ok());
            age.is_some_and(|age| age > limits::CHALLENGE_AGE)
        };
        let entries = std::fs::read_dir(&self.0);
        for entry in entries.into_iter().flatten().flatten().filter(is_old) {
            if let Err(error) = std::fs::remove_file(entry.path()) {
                tracing::debug!(path = %entry.path().display(), %error, "an old challenge stays");
            }
        }
    }
}

/// Tries the nearest folder above a path, or that path, that there is.
fn check_nearest(path: &Path) -> io::Result<()> {
    for path in path.ancestors() {
        // Above the first part of a relative path.
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let found = match std::fs::metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
            Err(error) => return Err(error),
        };
        if !found.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        if geteuid().is_root() && found.uid() != 0 {
            return Ok(());
        }
        return Ok(access(path, Access::WRITE_OK | Access::EXEC_OK)?);
    }
    Err(io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// Failure: other users read a private key, or a half-written file is seen.
    #[test]
    fn another_user_reads_a_key_or_a_part_of_a_file_stays() {
        let site = tempfile::tempdir().unwrap();
        let path = site.path().join("state/acme");
        let folder = Folder::open(&path).unwrap();
        folder.write("a.pem", b"one").unwrap();
        folder.write("a.pem", b"two").unwrap();
        assert_eq!(folder.read("a.pem").unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(folder.read("b.pem").unwrap(), None);
        assert_eq!((mode(&path), mode(&path.join("a.pem"))), (0o700, 0o600));
        let names: Vec<_> = std::fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        folder.remove("a.pem").unwrap();
        folder.remove("a.pem").unwrap();
        assert_eq!(folder.read("a.pem").unwrap(), None);
    }

    /// Failure: two processes order for one host at the same time.
    #[test]
    fn two_processes_hold_one_lock() {
        let site = tempfile::tempdir().unwrap();
        let folder = Folder::open(site.path()).unwrap();
        let first = folder.lock("a.lock").unwrap();
        assert!(first.is_some());
        assert!(folder.lock("a.lock").unwrap().is_none());
        drop(first);
        assert!(folder.lock("a.lock").unwrap().is_some());
    }

    /// Failure: a folder that cannot be written is found when the first certificate is lost.
    #[test]
    fn a_folder_that_cannot_be_written_is_used() {
        let site = tempfile::tempdir().unwrap();
        let file = site.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [file.clone(), file.join("acme")] {
            for tried in [Folder::open(&path).map(|_| ()), Folder::check(&path)] {
                let refused = tried.unwrap_err().to_string();
                assert!(refused.starts_with("[http.tls.acme] folder: "), "{refused}");
            }
        }
    }

    /// Failure: a try of the configuration by root creates the folder, which the service's own user
    /// cannot write then.
    #[test]
    fn a_try_creates_the_folder() {
        let site = tempfile::tempdir().unwrap();
        Folder::check(&site.path().join("state/acme")).unwrap();
        Folder::check(Path::new("no_such_folder")).unwrap();
        assert_eq!(std::fs::read_dir(site.path()).unwrap().count(), 0);
        Folder::open(site.path()).unwrap();
        Folder::check(site.path()).unwrap();
        if geteuid().is_root() {
            // As an owner who may not write, and whom root does not judge.
            let challenges = site.path().join(CHALLENGES);
            std::os::unix::fs::chown(&challenges, Some(1), None).unwrap();
            Folder::check(site.path()).unwrap();
        }
        assert_eq!(std::fs::read_dir(site.path()).unwrap().count(), 1);
    }
}
