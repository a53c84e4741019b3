//! Where lines go: a file, standard output, or a datagram socket. Only the writer's thread uses it.

use larder_units::{ByteSize, system_message};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::base::limits;

/// `[http.access_log] path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// A file, to which lines are appended.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// A Unix socket that receives one datagram per line.
    Socket(PathBuf),
}

impl FromStr for LogTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<LogTarget, String> {
        match text.strip_prefix("unix:") {
            _ if text.is_empty() => {
                Err("expected a file, \"stdout\", or \"unix:/PATH\"".to_owned())
            }
            Some("") => Err("expected a path after unix:".to_owned()),
            Some(path) => Ok(LogTarget::Socket(PathBuf::from(path))),
            None if text == "stdout" => Ok(LogTarget::Stdout),
            None => Ok(LogTarget::File(PathBuf::from(text))),
        }
    }
}

/// When a file is renamed, and how many older ones stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The size at which the file is renamed to `PATH.1`, and that to `PATH.2`.
    pub max_size: ByteSize,
    /// The number of renamed files.
    pub keep: u32,
}

/// An open destination.
pub(super) enum Destination {
    File {
        path: PathBuf,
        file: File,
        rotation: Option<Rotation>,
    },
    Stdout,
    Socket {
        path: PathBuf,
        socket: Option<UnixDatagram>,
        retry_at: Instant,
    },
}

impl Destination {
    /// Opens it. A socket need not exist yet.
    ///
    /// # Errors
    /// The system's, for a file.
    pub fn open(target: &LogTarget, rotation: Option<Rotation>) -> io::Result<Destination> {
        Ok(match target {
            LogTarget::File(path) => Destination::File {
                path: path.clone(),
                file: open(path)?,
                rotation,
            },
            LogTarget::Stdout => Destination::Stdout,
            LogTarget::Socket(path) => Destination::Socket {
                path: path.clone(),
                socket: connect(path).ok(),
                retry_at: Instant::now(),
            },
        })
    }

    /// Returns its name for messages.
    pub fn name(&self) -> String {
        match self {
            Destination::File { path, .. } => path.display().to_string(),
            Destination::Stdout => "stdout".to_owned(),
            Destination::Socket { path, .. } => format!("unix:{}", path.display()),
        }
    }

    /// Opens the file again, after another program has renamed it. Keeps the old one if that fails.
    pub fn reopen(&mut self) -> io::Result<()> {
        if let Destination::File { path, file, .. } = self {
            *file = open(path)?;
        }
        Ok(())
    }

    /// Writes whole lines. Returns the number of lines that were not written, and the error if
    /// there are such.
    pub fn write(&mut self, lines: &[u8]) -> (u64, Option<io::Error>) {
        match self {
            Destination::File {
                path,
                file,
                rotation,
            } => {
                let rotated =
                    rotation.map_or(Ok(()), |rotation| rotate(path, file, rotation, lines.len()));
                let (lost, error) = append(file, lines);
                (lost, error.or(rotated.err()))
            }
            Destination::Stdout => {
                let mut out = io::stdout().lock();
                match out.write_all(lines).and_then(|()| out.flush()) {
                    Ok(()) => (0, None),
                    Err(error) => (count(lines), Some(error)),
                }
            }
            Destination::Socket {
                path,
                socket,
                retry_at,
            } => send(path, socket, retry_at, lines),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().append(true).create(true), path)
}

/// Opens a file without waiting: a FIFO that no program reads would hold up the start.
fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    match options
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)
    {
        Ok(file) => {
            // The writer's thread waits for a slow reader.
            fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
            Ok(file)
        }
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            Err(io::Error::other(
                "it is a FIFO or a socket that no program reads; name a file, \"stdout\", or a socket as unix:/PATH",
            ))
        }
        Err(error) => Err(error),
    }
}

fn count(lines: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', lines).count() as u64
}

/// Appends lines. If the disk is full in the middle of one, its beginning is cut off again.
fn append(file: &mut File, lines: &[u8]) -> (u64, Option<io::Error>) {
    let mut rest = lines;
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return torn(file, lines, rest, io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return torn(file, lines, rest, error),
        }
    }
    (0, None)
}

fn torn(file: &File, lines: &[u8], rest: &[u8], error: io::Error) -> (u64, Option<io::Error>) {
    let written = &lines[..lines.len() - rest.len()];
    let part = written.len() - memchr::memrchr(b'\n', written).map_or(0, |at| at + 1);
    if part > 0
        && let Ok(length) = file.metadata().map(|data| data.len())
    {
        // The next line would continue the torn one. Only a regular file can be cut.
        let _ = file.set_len(length.saturating_sub(part as u64));
    }
    (count(lines) - count(written), Some(error))
}

/// Renames the file if the lines would make it too large.
fn rotate(path: &Path, file: &mut File, rotation: Rotation, more: usize) -> io::Result<()> {
    let size = file.metadata()?.len();
    if size == 0 || size + more as u64 <= rotation.max_size.bytes() {
        return Ok(());
    }
    // Another writer would rotate it at the same moment. A file system without locks does without.
    let locked = file.try_clone()?;
    let _ = locked.lock();
    let rotated = rename(path, file, rotation);
    let _ = locked.unlock();
    rotated
}

/// Renames the file, unless another writer has done so, and opens the new one.
fn rename(path: &Path, file: &mut File, rotation: Rotation) -> io::Result<()> {
    if is_another(path, file)? {
        *file = open(path)?;
        return Ok(());
    }
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    for number in (1..rotation.keep).rev() {
        match std::fs::rename(numbered(number), numbered(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    std::fs::rename(path, numbered(1))?;
    *file = open(path)?;
    Ok(())
}

/// Returns true if another file than the open one has this path now: another writer has rotated it,
/// which serves the connections from before a reload, or from before an upgrade.
fn is_another(path: &Path, file: &File) -> io::Result<bool> {
    let identity = |data: Metadata| (data.dev(), data.ino());
    match std::fs::metadata(path) {
        Ok(now) => Ok(identity(now) != identity(file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn connect(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    // A receiver that reads nothing holds up the writer's thread for so long per line.
    socket.set_write_timeout(Some(limits::LOG_SEND))?;
    socket.connect(path)?;
    Ok(socket)
}

/// Sends a datagram per line. After an error, the rest of the lines is lost; the next lines try
/// again, with a new connection at most once a second.
fn send(
    path: &Path,
    socket: &mut Option<UnixDatagram>,
    retry_at: &mut Instant,
    lines: &[u8],
) -> (u64, Option<io::Error>) {
    if socket.is_none() {
        if Instant::now() < *retry_at {
            return (count(lines), Some(io::ErrorKind::NotConnected.into()));
        }
        *retry_at = Instant::now() + Duration::from_secs(1);
        match connect(path) {
            Ok(connected) => *socket = Some(connected),
            Err(error) => return (count(lines), Some(error)),
        }
    }
    let Some(connected) = socket else {
        return (count(lines), None);
    };
    let all = count(lines);
    for (sent, line) in lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .enumerate()
    {
        if let Err(error) = connected.send(line) {
            let is_slow = matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            );
            if !is_slow {
                *socket = None;
            }
            return (all - sent as u64, Some(error));
        }
    }
    (0, None)
}

/// Tries to open the destination of a configuration that is only checked. A file that does not
/// exist is not created.
pub(super) fn check(target: &LogTarget) -> io::Result<()> {
    let LogTarget::File(path) = target else {
        return Ok(());
    };
    match open_with(OpenOptions::new().append(true), path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            if std::fs::metadata(folder)?.is_dir() {
                Ok(())
            } else {
                Err(io::ErrorKind::NotADirectory.into())
            }
        }
        opened => opened.map(drop),
    }
}

/// Logs the first of several failures, and their end.
pub(super) struct Health {
    /// Lines lost since the first failure, if the last writing failed.
    failing: Option<u64>,
}

impl Health {
    pub fn new() -> Health {
        Health { failing: None }
    }

    /// Records the result of a writing.
    pub fn note(&mut self, destination: &Destination, lost: u64, error: Option<&io::Error>) {
        let path = destination.name();
        match (error, &mut self.failing) {
            (Some(_), Some(sum)) => *sum += lost,
            (Some(error), None) => {
                self.failing = Some(lost);
                let error = system_message(error);
                tracing::error!(
                    path,
                    error,
                    "[http.access_log] cannot be written; lines are dropped until it can"
                );
            }
            (None, Some(sum)) => {
                tracing::info!(
                    path,
                    lost_lines = *sum,
                    "[http.access_log] is written again"
                );
                self.failing = None;
            }
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_rotation_loses_lines_or_keeps_files_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let rotation = Some(Rotation {
            max_size: ByteSize::from_bytes(8),
            keep: 2,
        });
        let mut destination = Destination::open(&LogTarget::File(path.clone()), rotation).unwrap();
        for line in [
            "one\n",
            "two\n",
            "three\n",
            "four\n",
            "a line that is longer than the limit\n",
            "six\n",
        ] {
            assert_eq!(destination.write(line.as_bytes()).0, 0);
        }
        assert_eq!(read(&path), "six\n");
        assert_eq!(
            read(&folder.path().join("log.1")),
            "a line that is longer than the limit\n"
        );
        assert_eq!(read(&folder.path().join("log.2")), "four\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn two_writers_of_one_file_rotate_it_by_turns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let rotation = Some(Rotation {
            max_size: ByteSize::from_bytes(8),
            keep: 3,
        });
        let open = || Destination::open(&LogTarget::File(path.clone()), rotation).unwrap();
        let (mut former, mut current) = (open(), open());
        former.write(b"before\n");
        current.write(b"one\n");
        former.write(b"two\n");
        current.write(b"3\n");
        former.write(b"4\n");
        assert_eq!(
            (
                read(&path).as_str(),
                read(&folder.path().join("log.1")).as_str()
            ),
            ("3\n4\n", "one\ntwo\n")
        );
        drop(former);
        current.write(b"5\n");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            3,
            "one more rotation"
        );
        // An operator has removed the file.
        std::fs::remove_file(&path).unwrap();
        assert!(current.write(b"a line that is longer\n").1.is_none());
        assert!(current.write(b"6\n").1.is_none());
        assert_eq!(read(&path), "6\n");
    }

    #[test]
    fn a_reopened_log_goes_on_in_the_renamed_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("log"), folder.path().join("old"));
        let mut destination = Destination::open(&LogTarget::File(path.clone()), None).unwrap();
        destination.write(b"one\n");
        std::fs::rename(&path, &old).unwrap();
        destination.write(b"two\n");
        destination.reopen().unwrap();
        destination.write(b"three\n");
        assert_eq!(
            (read(&old).as_str(), read(&path).as_str()),
            ("one\ntwo\n", "three\n")
        );
        // A folder in its place: the old file stays in use.
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(destination.reopen().is_err());
        assert_eq!(destination.write(b"four\n").0, 0);
    }

    #[test]
    fn a_full_disk_is_not_noticed_or_not_counted() {
        let mut destination =
            Destination::open(&LogTarget::File("/dev/full".into()), None).unwrap();
        let (lost, error) = destination.write(b"one\ntwo\n");
        assert_eq!(
            (lost, error.map(|error| error.kind())),
            (2, Some(io::ErrorKind::StorageFull))
        );
    }

    #[test]
    fn a_torn_line_stays_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "zero\none\ntw").unwrap();
        let lines = b"one\ntwo\nthree\n";
        let (lost, _) = torn(
            &open(&path).unwrap(),
            lines,
            &lines[6..],
            io::ErrorKind::StorageFull.into(),
        );
        assert_eq!((lost, read(&path).as_str()), (2, "zero\none\n"));
    }

    #[test]
    fn a_datagram_has_half_a_line_or_several() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut destination = Destination::open(&LogTarget::Socket(path.clone()), None).unwrap();
        let (lost, error) = destination.write(b"one\n");
        assert!(lost == 1 && error.is_some(), "nothing listens");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let mut again = Destination::open(&LogTarget::Socket(path), None).unwrap();
        assert_eq!(again.write(b"two\nthree\n").0, 0);
        let mut buffer = [0; 100];
        let mut receive = || {
            let read = receiver.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..read]).into_owned()
        };
        assert_eq!((receive().as_str(), receive().as_str()), ("two", "three"));
    }

    #[test]
    fn a_target_is_taken_for_another_kind() {
        let socket = LogTarget::Socket("/run/log".into());
        for (text, target) in [
            ("unix:/run/log", Ok(socket)),
            ("stdout", Ok(LogTarget::Stdout)),
            ("/var/log/a", Ok(LogTarget::File("/var/log/a".into()))),
        ] {
            assert_eq!(text.parse(), target);
        }
        assert!("".parse::<LogTarget>().is_err() && "unix:".parse::<LogTarget>().is_err());
    }
}
