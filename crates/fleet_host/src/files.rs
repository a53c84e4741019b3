//! The folder: the outbox and the position.

use crate::error::Error;
use crate::limits;
use larder_fleet::{JournalAction, JournalKey, Kept, Message};
use larder_units::system_message;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A change of the files.
#[derive(Debug)]
pub(crate) enum Change {
    Journal(JournalAction),
    Keep(Kept),
}

/// The last entry of the log whose purges are on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeptPosition {
    At(Kept),
    /// The node has not followed the log with what it has stored.
    None,
    /// It has, up to an entry that is not known any more.
    Lost,
}

/// The files of a member, or memory in their place.
#[derive(Debug)]
pub(crate) struct Files {
    folder: Option<Folder>,
    /// The purges in the outbox.
    live: BTreeMap<JournalKey, Arc<Message>>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    outbox: File,
    /// Lines of purges that are not in the outbox any more.
    dead: usize,
    /// True if the file may have a part of a line, or another one has its name: it is written anew.
    is_damaged: bool,
    keeps_position: bool,
    /// Locked while the process uses the folder.
    _lock: File,
}

/// A line of the outbox. `M` is a [`Message`], or a reference to one.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<M> {
    key: u64,
    /// `None` if it has left the outbox.
    message: Option<M>,
}

/// The file of the position.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    log: String,
    applied: u64,
    id: String,
}

impl Files {
    /// Opens the folder, and makes it if it is not there. Returns the kept position, if stored
    /// responses outlive the process (`keeps_position`).
    pub(crate) fn open(
        folder: Option<&Path>,
        keeps_position: bool,
    ) -> Result<(Files, KeptPosition), Error> {
        let Some(path) = folder else {
            let files = Files {
                folder: None,
                live: BTreeMap::new(),
            };
            return Ok((files, KeptPosition::None));
        };
        let failed = |error| Error::Folder(path.to_owned(), error);
        std::fs::create_dir_all(path).map_err(failed)?;
        let lock = private().open(path.join("lock")).map_err(failed)?;
        lock_in_time(&lock).map_err(|_| Error::InUse(path.to_owned()))?;
        let kept = if keeps_position {
            read_position(&path.join("position.json"))?
        } else {
            KeptPosition::None
        };
        let outbox = path.join("outbox.jsonl");
        let live = read_outbox(&outbox)?;
        let file = write_outbox(path, &live).map_err(failed)?;
        let folder = Folder {
            path: path.to_owned(),
            outbox: file,
            dead: 0,
            is_damaged: false,
            keeps_position,
            _lock: lock,
        };
        let files = Files {
            folder: Some(folder),
            live,
        };
        Ok((files, kept))
    }

    /// Returns the purges of the outbox.
    pub(crate) fn outbox(&self) -> Vec<(JournalKey, Arc<Message>)> {
        let entries = self.live.iter();
        entries
            .map(|(key, message)| (*key, Arc::clone(message)))
            .collect()
    }

    /// Makes changes, and waits until those of the outbox are on disk. It may take long. Returns
    /// the keys of the purges that were written, and whether they outlive a crash now.
    pub(crate) fn change(&mut self, changes: Vec<Change>) -> (Vec<JournalKey>, bool) {
        let (mut keys, mut lines, mut kept) = (Vec::new(), Vec::new(), None);
        for change in changes {
            match change {
                Change::Journal(JournalAction::Write { key, message }) => {
                    keys.push(key);
                    let dead = self.live.insert(key, Arc::clone(&message)).is_some();
                    lines.push((key, Some(message), usize::from(dead)));
                }
                Change::Journal(JournalAction::Remove { key }) => {
                    let dead = self.live.remove(&key).map_or(0, |_| 2);
                    lines.push((key, None, dead));
                }
                Change::Keep(position) => kept = Some(position),
            }
        }
        let Some(folder) = &mut self.folder else {
            return (keys, true);
        };
        let written = folder.append(lines, !keys.is_empty(), &self.live);
        if let Err(error) = &written {
            tracing::error!(
                "[fleet] folder: {}: {}",
                folder.path.display(),
                system_message(error)
            );
            // They are refused, so they must not be sent after a restart.
            for key in &keys {
                self.live.remove(key);
            }
        }
        if let Some(kept) = kept
            && let Err(error) = folder.keep(kept)
        {
            tracing::warn!(
                "[fleet] folder: the position is not kept, and a restart makes what is stored stale: {}",
                system_message(&error)
            );
        }
        (keys, written.is_ok())
    }
}

impl Folder {
    fn append(
        &mut self,
        lines: Vec<(JournalKey, Option<Arc<Message>>, usize)>,
        is_synced: bool,
        live: &BTreeMap<JournalKey, Arc<Message>>,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        for (key, message, dead) in lines {
            let line = Line {
                key: key.0,
                message: message.as_deref(),
            };
            serde_json::to_writer(&mut text, &line)?;
            text.push(b'\n');
            self.dead += dead;
        }
        if !self.is_damaged && self.dead < limits::DEAD_LINES.max(live.len()) {
            // A line that was written in part, on a full disk, would hide those after it.
            self.is_damaged = true;
            self.outbox.write_all(&text)?;
            if is_synced {
                self.outbox.sync_data()?;
            }
            self.is_damaged = false;
            return Ok(());
        }
        self.is_damaged = true;
        self.outbox = write_outbox(&self.path, live)?;
        (self.is_damaged, self.dead) = (false, 0);
        Ok(())
    }

    fn keep(&self, kept: Kept) -> io::Result<()> {
        if !self.keeps_position {
            return Ok(());
        }
        let position = Position {
            log: kept.identity,
            applied: kept.applied,
            id: kept.id.to_string(),
        };
        replace(&self.path, "position.json", |file| {
            serde_json::to_writer(&mut *file, &position)?;
            file.write_all(b"\n")
        })?;
        Ok(())
    }
}

/// Locks a file. A process that this one replaces may still hold it.
fn lock_in_time(lock: &File) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(_) if begun.elapsed() < limits::STOP => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    options
}

/// Replaces a file by another one, so that a reader after a crash finds the one or the other.
fn replace(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<File> {
    let (path, new) = (folder.join(name), folder.join(format!("{name}.new")));
    let file = private().truncate(true).open(&new)?;
    let mut writer = BufWriter::new(&file);
    write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    file.sync_data()?;
    std::fs::rename(new, path)?;
    File::open(folder)?.sync_all()?;
    Ok(file)
}

fn write_outbox(folder: &Path, live: &BTreeMap<JournalKey, Arc<Message>>) -> io::Result<File> {
    replace(folder, "outbox.jsonl", |file| {
        for (key, message) in live {
            let line = Line {
                key: key.0,
                message: Some(&**message),
            };
            serde_json::to_writer(&mut *file, &line)?;
            file.write_all(b"\n")?;
        }
        Ok(())
    })
}

/// Reads the outbox. The last line may be cut, by a crash before its purge was accepted.
fn read_outbox(path: &Path) -> Result<BTreeMap<JournalKey, Arc<Message>>, Error> {
    let mut live = BTreeMap::new();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(live),
        Err(error) => return Err(Error::Folder(path.to_owned(), error)),
    };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        read.map_err(|error| Error::Folder(path.to_owned(), error))?;
        if line.last() != Some(&b'\n') {
            return Ok(live);
        }
        let Ok(found) = serde_json::from_slice::<Line<Message>>(&line) else {
            tracing::error!(
                "[fleet] folder: {}: a line is not readable, and left out",
                path.display()
            );
            continue;
        };
        let key = JournalKey(found.key);
        match found.message {
            Some(message) => live.insert(key, Arc::new(message)),
            None => live.remove(&key),
        };
    }
}

fn read_position(path: &Path) -> Result<KeptPosition, Error> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(KeptPosition::None),
        Err(error) => return Err(Error::Folder(path.to_owned(), error)),
    };
    let Ok(position) = serde_json::from_slice::<Position>(&text) else {
        tracing::warn!("[fleet] folder: {} is not readable", path.display());
        return Ok(KeptPosition::Lost);
    };
    Ok(KeptPosition::At(Kept {
        identity: position.log,
        applied: position.applied,
        id: position.id.into(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str) -> Arc<Message> {
        Arc::new(Message::new(id.into(), "fra-1"))
    }

    fn write(key: u64, id: &str) -> Change {
        Change::Journal(JournalAction::Write {
            key: JournalKey(key),
            message: message(id),
        })
    }

    fn remove(key: u64) -> Change {
        let key = JournalKey(key);
        Change::Journal(JournalAction::Remove { key })
    }

    fn kept(applied: u64) -> Kept {
        Kept {
            identity: "log".to_owned(),
            applied,
            id: "last".into(),
        }
    }

    /// Failure: a purge that was accepted is forgotten at a restart, or one that has left the
    /// outbox comes back; or a line that a crash has cut prevents the start.
    #[test]
    fn an_accepted_purge_does_not_outlive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet");
        let (mut files, position) = Files::open(Some(&path), true).unwrap();
        assert!(position == KeptPosition::None && files.outbox().is_empty());
        let changes = vec![write(1, "a"), write(2, "b"), Change::Keep(kept(7))];
        let (keys, is_durable) = files.change(changes);
        assert_eq!(
            (keys, is_durable),
            (vec![JournalKey(1), JournalKey(2)], true)
        );
        files.change(vec![remove(1), write(3, "c"), write(2, "again")]);
        drop(files);
        let outbox = path.join("outbox.jsonl");
        let mut text = std::fs::read(&outbox).unwrap();
        text.extend_from_slice(b"{\"key\":4,\"mess");
        std::fs::write(&outbox, text).unwrap();
        let (files, position) = Files::open(Some(&path), true).unwrap();
        assert_eq!(position, KeptPosition::At(kept(7)));
        let found: Vec<_> = files.outbox();
        let found: Vec<(u64, &str)> = found.iter().map(|(key, it)| (key.0, &*it.id)).collect();
        assert_eq!(found, [(2, "again"), (3, "c")]);
        drop(files);
        // Without a disk tier, the position says nothing about what is stored.
        let (_files, position) = Files::open(Some(&path), false).unwrap();
        assert_eq!(position, KeptPosition::None);
    }

    /// Failure: the file grows for ever.
    #[test]
    fn the_outbox_grows_with_each_purge() {
        let folder = tempfile::tempdir().unwrap();
        let (mut files, _) = Files::open(Some(folder.path()), true).unwrap();
        for round in 0..4 * limits::DEAD_LINES as u64 {
            files.change(vec![remove(round)]);
            files.live.insert(JournalKey(round + 1), message("a"));
        }
        let bytes = std::fs::metadata(folder.path().join("outbox.jsonl")).unwrap();
        assert!(bytes.len() < 64 * limits::DEAD_LINES as u64, "{bytes:?}");
    }

    /// Failure: other content of the folder is taken for a position or an outbox.
    #[test]
    fn foreign_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("position.json"), "{}").unwrap();
        let (files, position) = Files::open(Some(folder.path()), true).unwrap();
        assert_eq!(position, KeptPosition::Lost);
        drop(files);
        let outbox = folder.path().join("outbox.jsonl");
        std::fs::write(&outbox, "hello\n{\"key\":3,\"message\":null}\n").unwrap();
        let (mut files, _) = Files::open(Some(folder.path()), true).unwrap();
        assert!(files.outbox().is_empty());
        files.change(vec![write(4, "a")]);
        assert!(
            !std::fs::read_to_string(&outbox).unwrap().contains("hello"),
            "it is written anew"
        );
    }

    /// Failure: a purge that could not be written is refused, and sent after a restart; or a part
    /// of its line hides those that come after it.
    #[test]
    fn a_purge_that_is_refused_is_sent_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let (mut files, _) = Files::open(Some(folder.path()), true).unwrap();
        files.change(vec![write(1, "a")]);
        // A file that cannot be written, in a folder where none can be made.
        let name = folder.path().join("outbox.jsonl");
        let inner = files.folder.as_mut().unwrap();
        inner.outbox = File::open(&name).unwrap();
        let is_at = std::mem::replace(&mut inner.path, folder.path().join("none"));
        let (keys, is_durable) = files.change(vec![write(2, "b")]);
        assert_eq!((keys, is_durable), (vec![JournalKey(2)], false));
        assert!(!files.change(vec![write(3, "c")]).1);
        // There is room again.
        files.folder.as_mut().unwrap().path = is_at;
        assert!(files.change(vec![write(4, "d")]).1);
        drop(files);
        let (files, _) = Files::open(Some(folder.path()), true).unwrap();
        let found: Vec<u64> = files.outbox().iter().map(|(key, _)| key.0).collect();
        assert_eq!(found, [1, 4]);
    }
}
