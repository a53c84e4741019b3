//! The destination of fetched bytes. Standard output, a device or a pipe receives them as they
//! arrive; if standard output is a terminal, characters that control it are shown by their numbers.
//! A regular file appears only when it is complete.
//!
//! A file is written under a temporary name in the same directory and renamed at the end. So an
//! incomplete file never has its name, and two transfers to one name do not mix. If the transfer
//! ends early in any way, the temporary file is removed.

use crate::failure::Failure;
use crate::output::{end_if_unread, printable};
use larder_units::system_message;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use tempfile::NamedTempFile;

/// The size of a buffer, in bytes: 32 segments.
const BUFFER_BYTES: usize = 256 << 10;

/// The most full buffers that wait for a slow disk or reader: 2 MB, a few milliseconds at 5 Gb/s.
const WAITING_BUFFERS: usize = 8;

/// Writes a file, which appears only when it is complete.
///
/// # Errors
/// If it cannot be written.
pub fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let mut destination = Destination::open(Some(path))?;
    destination.write(text.as_bytes());
    destination.finish().map(drop)
}

/// Checks that an SVG figure can be created at `path`, before the work that produces it.
///
/// # Errors
/// If its name says that it is another kind of picture, or if it cannot be created.
pub fn check_figure(path: &Path) -> Result<(), Failure> {
    let extension = path
        .extension()
        .unwrap_or_default()
        .to_string_lossy()
        .to_ascii_lowercase();
    if ["png", "jpg", "jpeg", "pdf", "gif", "webp", "eps", "ps"].contains(&extension.as_str()) {
        let name = path.display();
        let svg = path.with_extension("svg");
        return Err(Failure::usage(format!(
            "{name}: figures are SVG files; give {}, and convert it with rsvg-convert or Inkscape",
            svg.display()
        )));
    }
    check_writable(path)
}

/// Checks that a file can be created at `path`, before the work that produces it. Leaves nothing
/// behind.
///
/// # Errors
/// If it cannot be created.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    match fs::metadata(path) {
        // Opening and closing a pipe would signal the end of the data to its reader.
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Ok(()),
        _ => Destination::open(Some(path)).map(drop),
    }
}

/// Writes bytes in order. A thread writes what exceeds [`BUFFER_BYTES`], because a file system
/// takes as long to accept bytes as a network takes to deliver them.
pub struct Destination {
    name: String,
    /// Bytes that are neither written nor handed to the thread.
    buffer: Vec<u8>,
    /// `None` after it has failed.
    end: Option<End>,
    is_standard_output: bool,
    failed: Option<io::Error>,
}

/// The file or stream that is written to.
enum End {
    Here(Out),
    Thread(Writer),
}

enum Out {
    Stdout(io::Stdout),
    /// A device or a pipe, which is not renamed.
    Special(File),
    File {
        part: NamedTempFile,
        path: PathBuf,
    },
}

impl Destination {
    /// Opens a file, or standard output.
    pub fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            return Ok(Destination::to(
                "standard output".to_owned(),
                Out::Stdout(io::stdout()),
            ));
        };
        let name = path.display().to_string();
        match open(path) {
            Ok(out) => Ok(Destination::to(name, out)),
            Err(error) => Err(Failure::usage(format!(
                "cannot write {name}: {}",
                system_message(&error)
            ))),
        }
    }

    fn to(name: String, out: Out) -> Self {
        let is_standard_output = matches!(out, Out::Stdout(_));
        Destination {
            name,
            buffer: Vec::new(),
            end: Some(End::Here(out)),
            is_standard_output,
            failed: None,
        }
    }

    /// Returns true if the bytes go to standard output.
    pub fn is_standard_output(&self) -> bool {
        self.is_standard_output
    }

    /// Returns the path of the temporary file, until the destination is written to. A signal
    /// handler removes it.
    pub fn part(&self) -> Option<PathBuf> {
        match &self.end {
            Some(End::Here(Out::File { part, .. })) => Some(part.path().to_owned()),
            _ => None,
        }
    }

    /// Appends bytes. [`Destination::check`] tells whether they could be written.
    pub fn write(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.hand_over();
        }
    }

    /// Hands the gathered bytes to the thread.
    fn hand_over(&mut self) {
        let writer = match self.end.take() {
            Some(End::Here(out)) => Writer::start(out),
            Some(End::Thread(writer)) => Ok(writer),
            None => return self.buffer.clear(),
        };
        match writer.and_then(|writer| writer.hand_over(&mut self.buffer)) {
            Ok(writer) => self.end = Some(End::Thread(writer)),
            Err(error) => self.failed = Some(error),
        }
    }

    /// Returns an error if a write is known to have failed.
    pub fn check(&mut self) -> Result<(), Failure> {
        match self.take_error() {
            Some(error) => Err(failure(&self.name, &error)),
            None => Ok(()),
        }
    }

    /// Returns the I/O error of a failed write, for a caller with its own message.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// Writes the rest, gives the file its name, and returns that name.
    pub fn finish(mut self) -> Result<Option<PathBuf>, Failure> {
        self.check()?;
        let name = std::mem::take(&mut self.name);
        self.write_rest().map_err(|error| failure(&name, &error))
    }

    fn write_rest(mut self) -> io::Result<Option<PathBuf>> {
        let mut out = match self.end.take() {
            Some(End::Here(out)) => out,
            Some(End::Thread(writer)) => writer.join()?,
            None => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        out.write(&self.buffer)?;
        match out {
            Out::Stdout(_) | Out::Special(_) => Ok(None),
            Out::File { part, path } => {
                part.persist(&path).map_err(|error| error.error)?;
                Ok(Some(path))
            }
        }
    }
}

impl Drop for Destination {
    /// The owner removes the temporary file, so the thread must have ended before the process does.
    fn drop(&mut self) {
        if let Some(End::Thread(writer)) = self.end.take()
            && writer.has_temporary
        {
            let _ = writer.join();
        }
    }
}

fn failure(name: &str, error: &io::Error) -> Failure {
    Failure::runtime(format!("cannot write {name}: {}", system_message(error)))
}

impl Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Out::Stdout(out) => {
                // A terminal obeys bytes; it shows a character that two buffers have parts of as
                // two.
                let shown = out
                    .is_terminal()
                    .then(|| printable(&String::from_utf8_lossy(bytes)).into_owned());
                let bytes = shown.as_ref().map_or(bytes, String::as_bytes);
                let written = out.write_all(bytes).and_then(|()| out.flush());
                written.inspect_err(end_if_unread)
            }
            Out::Special(out) => out.write_all(bytes),
            Out::File { part, .. } => part.write_all(bytes),
        }
    }
}

/// A thread that writes buffers in order, and returns them for reuse.
struct Writer {
    full: SyncSender<Vec<u8>>,
    written: Receiver<Vec<u8>>,
    thread: JoinHandle<io::Result<Out>>,
    has_temporary: bool,
}

impl Writer {
    fn start(mut out: Out) -> io::Result<Writer> {
        let has_temporary = matches!(out, Out::File { .. });
        let (full, to_write) = sync_channel::<Vec<u8>>(WAITING_BUFFERS);
        let (give_back, written) = sync_channel(WAITING_BUFFERS);
        let write_all = move || {
            for mut buffer in to_write {
                out.write(&buffer)?;
                buffer.clear();
                // A surplus buffer is dropped.
                let _ = give_back.try_send(buffer);
            }
            Ok(out)
        };
        let thread = std::thread::Builder::new()
            .name("destination".to_owned())
            .spawn(write_all)?;
        Ok(Writer {
            full,
            written,
            thread,
            has_temporary,
        })
    }

    /// Hands the buffer to the thread, and replaces it by an empty one. Waits if the thread is far
    /// behind.
    fn hand_over(self, buffer: &mut Vec<u8>) -> io::Result<Writer> {
        let empty = self.written.try_recv().unwrap_or_default();
        match self.full.send(std::mem::replace(buffer, empty)) {
            Ok(()) => Ok(self),
            // The thread has ended, so a write has failed.
            Err(_) => Err(self
                .join()
                .err()
                .unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Waits until everything is written.
    fn join(self) -> io::Result<Out> {
        drop(self.full);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the writing thread panicked")))
    }
}

fn open(path: &Path) -> io::Result<Out> {
    // If the path is a symbolic link, the file that it points to is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if !metadata.is_file() => {
            let file = OpenOptions::new().write(true).open(&path)?;
            return Ok(Out::Special(file));
        }
        _ => {}
    }
    let directory = path
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(path.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
    prefix.push(".");
    let part = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".part")
        // The umask applies, as for any new file.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    Ok(Out::File { part, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
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
        assert_eq!(
            files(directory.path()),
            ["out"],
            "what was given up is removed"
        );

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
            assert!(
                destination
                    .finish()
                    .unwrap_err()
                    .message
                    .starts_with("cannot write /dev/full: No space left")
            );
        }
    }

    #[test]
    fn a_directory_or_a_missing_one_is_said_at_once() {
        let directory = tempfile::tempdir().unwrap();
        for path in [
            directory.path().to_owned(),
            directory.path().join("missing/out"),
        ] {
            assert_eq!(Destination::open(Some(&path)).err().unwrap().code, 2);
        }
    }
}
