//! Where fetched bytes go: standard output, a device or a pipe as they come; a regular file only when it is whole.
//!
//! A file is written under a temporary name beside it and renamed at the end, so that a half of it never bears its name, and two transfers to one
//! name do not mix. Whatever ends the transfer early removes it.

use crate::failure::Failure;
use crate::output::end_if_unread;
use larder_node::system_message;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Bytes gathered before they are written: 32 segments.
const BUFFER_BYTES: usize = 256 << 10;

/// Writes a file, which is whole when it appears.
///
/// # Errors
/// Where it cannot be written.
pub fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let mut destination = Destination::open(Some(path))?;
    destination.write(text.as_bytes());
    destination.finish().map(drop)
}

/// Whether a file can be made at `path`, before the work whose result goes there; nothing is left of the trial.
///
/// # Errors
/// Where it cannot.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    match fs::metadata(path) {
        // To open a pipe and close it again would tell its reader that this was all.
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Ok(()),
        _ => Destination::open(Some(path)).map(drop),
    }
}

/// Takes bytes in order.
pub struct Destination {
    name: String,
    out: Out,
    failed: Option<io::Error>,
}

enum Out {
    Stdout(BufWriter<io::Stdout>),
    /// A device or a pipe: nothing to rename there.
    Special(BufWriter<File>),
    File {
        part: BufWriter<NamedTempFile>,
        path: PathBuf,
    },
}

impl Destination {
    /// Opens a file, or standard output.
    pub fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            let out = Out::Stdout(BufWriter::with_capacity(BUFFER_BYTES, io::stdout()));
            return Ok(Destination { name: "standard output".to_owned(), out, failed: None });
        };
        let name = path.display().to_string();
        match open(path) {
            Ok(out) => Ok(Destination { name, out, failed: None }),
            Err(error) => Err(Failure::usage(format!("cannot write {name}: {}", system_message(&error)))),
        }
    }

    /// Whether the bytes go to standard output.
    pub fn is_standard_output(&self) -> bool {
        matches!(self.out, Out::Stdout(_))
    }

    /// Takes the next bytes; [`Destination::check`] tells whether they could be written.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let result = match &mut self.out {
            Out::Stdout(out) => out.write_all(bytes),
            Out::Special(out) => out.write_all(bytes),
            Out::File { part, .. } => part.write_all(bytes),
        };
        self.failed = result.err();
        if let (Out::Stdout(_), Some(error)) = (&self.out, &self.failed) {
            end_if_unread(error);
        }
    }

    /// Whether everything could be written so far.
    pub fn check(&mut self) -> Result<(), Failure> {
        match self.take_error() {
            Some(error) => Err(self.failure(&error)),
            None => Ok(()),
        }
    }

    /// Why not everything could be written so far, for who says it in words of his own.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// Everything is there: writes what is left, and gives the file its name, which is returned.
    pub fn finish(mut self) -> Result<Option<PathBuf>, Failure> {
        self.check()?;
        let name = self.name;
        let failure = |error: io::Error| Failure::runtime(format!("cannot write {name}: {}", system_message(&error)));
        match self.out {
            Out::Stdout(mut out) => out.flush().inspect_err(end_if_unread).map(|()| None).map_err(failure),
            Out::Special(mut out) => out.flush().map(|()| None).map_err(failure),
            Out::File { part, path } => {
                let part = part.into_inner().map_err(|error| failure(error.into_error()))?;
                part.persist(&path).map_err(|error| failure(error.error))?;
                Ok(Some(path))
            }
        }
    }

    fn failure(&self, error: &io::Error) -> Failure {
        Failure::runtime(format!("cannot write {}: {}", self.name, system_message(error)))
    }
}

fn open(path: &Path) -> io::Result<Out> {
    // Through a symbolic link, the file that it points to is replaced, and not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if !metadata.is_file() => {
            let file = OpenOptions::new().write(true).open(&path)?;
            return Ok(Out::Special(BufWriter::with_capacity(BUFFER_BYTES, file)));
        }
        _ => {}
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(path.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
    prefix.push(".");
    let part = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".part")
        // As any new file: the umask takes its share.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    Ok(Out::File { part: BufWriter::with_capacity(BUFFER_BYTES, part), path })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn half_a_file_never_bears_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        fs::write(&path, "old").unwrap();
        let mut destination = Destination::open(Some(&path)).unwrap();
        destination.write(&vec![7; 2 * BUFFER_BYTES]);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(destination);
        assert_eq!(files(directory.path()), ["out"], "what was given up is removed");

        let mut destination = Destination::open(Some(&path)).unwrap();
        destination.write(b"new");
        destination.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(files(directory.path()), ["out"]);
    }

    #[test]
    fn two_transfers_to_one_name_do_not_mix() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut both = [b"first", b"other"].map(|bytes| {
            let mut destination = Destination::open(Some(&path)).unwrap();
            destination.write(&bytes[..3]);
            (destination, bytes)
        });
        for (destination, bytes) in &mut both {
            destination.write(&bytes[3..]);
        }
        for (destination, bytes) in both {
            destination.finish().unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
    }

    #[test]
    fn devices_are_written_to_and_not_replaced() {
        let mut destination = Destination::open(Some(Path::new("/dev/null"))).unwrap();
        destination.write(b"x");
        destination.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let full = Path::new("/dev/full");
        if full.exists() {
            let mut destination = Destination::open(Some(full)).unwrap();
            destination.write(b"x");
            assert!(destination.finish().unwrap_err().message.starts_with("cannot write /dev/full: No space left"));
        }
    }

    #[test]
    fn a_directory_or_a_missing_one_is_said_at_once() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().to_owned(), directory.path().join("missing/out")] {
            assert_eq!(Destination::open(Some(&path)).err().unwrap().code, 2);
        }
    }
}
