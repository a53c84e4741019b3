//! The folder: the outbox and the position.

use crate::error::Error;
use crate::limits;
use larder_fleet::{JournalAction, JournalKey, Journaled, Kept, Message};
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
    live: Live,
}

/// The files of a folder, and their numbers.
const NAMES: [&str; 2] = ["outbox.jsonl", "position.json"];
const OUTBOX: usize = 0;
const POSITION: usize = 1;

/// The purges of an outbox.
type Live = BTreeMap<JournalKey, Journaled>;

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Absent if the file may have a part of a line, or could not be written: it is written anew.
    outbox: Option<File>,
    /// Lines of purges that are not in the outbox any more.
    dead: usize,
    keeps_position: bool,
    /// Whether the outbox, and the position, could not be written the last time.
    fails: [bool; 2],
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

/// A line of the outbox that says where a purge is in the log; without an entry, that it may not be
/// there any more. Earlier versions leave it out, and publish the purge again.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryLine {
    key: u64,
    entry: Option<Position>,
}

/// The file of the position, and an entry of the log in the outbox.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    log: String,
    applied: u64,
    id: String,
}

impl From<Position> for Kept {
    fn from(position: Position) -> Kept {
        Kept {
            identity: position.log,
            applied: position.applied,
            id: position.id.into(),
        }
    }
}

impl From<Kept> for Position {
    fn from(kept: Kept) -> Position {
        Position {
            log: kept.identity,
            applied: kept.applied,
            id: kept.id.to_string(),
        }
    }
}

impl Files {
    /// Opens the folder, and makes it if it is not there. Returns the kept position, if stored
    /// responses outlive the process (`keeps_position`). The disk may be full: purges are refused
    /// then, and the node serves. Whatever else cannot be read or written is an error.
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
            read_position(&path.join(NAMES[POSITION]))?
        } else {
            KeptPosition::None
        };
        let live = read_outbox(&path.join(NAMES[OUTBOX]))?;
        let mut folder = Folder {
            path: path.to_owned(),
            outbox: None,
            dead: 0,
            keeps_position,
            fails: [false; 2],
            _lock: lock,
        };
        let written = folder.append(&[], false, &live);
        folder.tell(&written, OUTBOX, "no purge is taken");
        if let Err(error) = written
            && !is_full(&error)
        {
            return Err(failed(error));
        }
        let files = Files {
            folder: Some(folder),
            live,
        };
        Ok((files, kept))
    }

    /// Returns the purges of the outbox.
    pub(crate) fn outbox(&self) -> Vec<Journaled> {
        self.live.values().cloned().collect()
    }

    /// Makes changes, and waits until those of the outbox are on disk. It may take long. Returns
    /// the keys of the purges that were written, and whether they outlive a crash now.
    pub(crate) fn change(&mut self, changes: Vec<Change>) -> (Vec<JournalKey>, bool) {
        let (mut keys, mut text, mut kept) = (Vec::new(), Vec::new(), None);
        let (mut dead, mut is_synced) = (0, false);
        for change in changes {
            match change {
                Change::Journal(JournalAction::Write { key, message }) => {
                    keys.push(key);
                    is_synced = true;
                    push_purge(&mut text, key, Some(&message));
                    let purge = Journaled {
                        key,
                        message,
                        entry: None,
                    };
                    dead += usize::from(self.live.insert(key, purge).is_some());
                }
                Change::Journal(JournalAction::Acknowledged { key, entry }) => {
                    if let Some(purge) = self.live.get_mut(&key) {
                        dead += usize::from(purge.entry.is_some());
                        is_synced |= entry.is_none();
                        purge.entry.clone_from(&entry);
                        push_entry(&mut text, key, entry);
                    }
                }
                Change::Journal(JournalAction::Remove { key }) => {
                    let lines = |purge: Journaled| 2 + usize::from(purge.entry.is_some());
                    dead += self.live.remove(&key).map_or(0, lines);
                    push_purge(&mut text, key, None);
                }
                Change::Keep(position) => kept = Some(position),
            }
        }
        let Some(folder) = &mut self.folder else {
            return (keys, true);
        };
        folder.dead += dead;
        let written = folder.append(&text, is_synced, &self.live);
        folder.tell(&written, OUTBOX, "no purge is taken");
        if written.is_err() {
            // They are refused, so they must not be sent after a restart.
            for key in &keys {
                self.live.remove(key);
            }
        }
        if let Some(kept) = kept {
            let written = folder.keep(kept);
            folder.tell(
                &written,
                POSITION,
                "a restart reads the log from an earlier entry on",
            );
        }
        (keys, written.is_ok())
    }
}

impl Folder {
    fn append(&mut self, text: &[u8], is_synced: bool, live: &Live) -> io::Result<()> {
        // A line that was written in part, on a full disk, would hide those after it: after an
        // error, the file is written anew.
        let outbox = self.outbox.take();
        if self.dead < limits::DEAD_LINES.max(live.len())
            && let Some(mut file) = outbox
        {
            file.write_all(text)?;
            if is_synced {
                file.sync_data()?;
            }
            self.outbox = Some(file);
            return Ok(());
        }
        self.outbox = Some(write_outbox(&self.path, live)?);
        self.dead = 0;
        Ok(())
    }

    /// Tells in the log that a file cannot be written, and that it can again: once for each.
    fn tell(&mut self, written: &io::Result<()>, file: usize, so: &str) {
        let failed = std::mem::replace(&mut self.fails[file], written.is_err());
        let path = self.path.join(NAMES[file]);
        let path = path.display();
        match written {
            Err(error) if !failed => {
                let until = if is_full(error) {
                    ", until there is room"
                } else {
                    ""
                };
                let error = system_message(error);
                tracing::error!("[fleet] folder: {path}: {error}: {so}{until}");
            }
            Ok(()) if failed => tracing::info!("[fleet] folder: {path} is written again"),
            _ => {}
        }
    }

    fn keep(&self, kept: Kept) -> io::Result<()> {
        if !self.keeps_position {
            return Ok(());
        }
        let position = Position::from(kept);
        replace(&self.path, NAMES[POSITION], |file| {
            serde_json::to_writer(&mut *file, &position)?;
            file.write_all(b"\n")
        })?;
        Ok(())
    }
}

/// Returns whether an error says that there is no room.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
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

/// Replaces a file by another one, so that a reader after a crash finds the one or the other. What
/// could not be written takes no room.
fn replace(
    folder: &Path,
    name: &str,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<File> {
    let (path, new) = (folder.join(name), folder.join(format!("{name}.new")));
    let replaced = write_new(&new, write).and_then(|file| {
        std::fs::rename(&new, path)?;
        File::open(folder)?.sync_all()?;
        Ok(file)
    });
    if replaced.is_err() {
        // The first error matters.
        let _ = std::fs::remove_file(&new);
    }
    replaced
}

fn write_new(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<File> {
    let file = private().truncate(true).open(path)?;
    let mut writer = BufWriter::new(&file);
    write(&mut writer)?;
    writer.flush()?;
    drop(writer);
    file.sync_data()?;
    Ok(file)
}

fn write_outbox(folder: &Path, live: &Live) -> io::Result<File> {
    replace(folder, NAMES[OUTBOX], |file| {
        let mut text = Vec::new();
        for Journaled {
            key,
            message,
            entry,
        } in live.values()
        {
            text.clear();
            push_purge(&mut text, *key, Some(message));
            if entry.is_some() {
                push_entry(&mut text, *key, entry.clone());
            }
            file.write_all(&text)?;
        }
        Ok(())
    })
}

/// Adds the line of a purge that enters the outbox, or leaves it.
fn push_purge(text: &mut Vec<u8>, key: JournalKey, message: Option<&Message>) {
    push_line(
        text,
        &Line {
            key: key.0,
            message,
        },
    );
}

/// Adds the line of a purge's entry in the log.
fn push_entry(text: &mut Vec<u8>, key: JournalKey, entry: Option<Kept>) {
    let entry = entry.map(Position::from);
    push_line(text, &EntryLine { key: key.0, entry });
}

fn push_line(text: &mut Vec<u8>, line: &impl Serialize) {
    // Into memory, and texts and numbers only: it does not fail.
    if serde_json::to_writer(&mut *text, line).is_ok() {
        text.push(b'\n');
    }
}

/// Reads the outbox. The last line may be cut, by a crash before its purge was accepted.
fn read_outbox(path: &Path) -> Result<Live, Error> {
    let mut live = Live::new();
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
        if let Ok(found) = serde_json::from_slice::<EntryLine>(&line) {
            if let Some(purge) = live.get_mut(&JournalKey(found.key)) {
                purge.entry = found.entry.map(Kept::from);
            }
            continue;
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
            Some(message) => {
                let message = Arc::new(message);
                let purge = Journaled {
                    key,
                    message,
                    entry: None,
                };
                live.insert(key, purge)
            }
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
    Ok(KeptPosition::At(position.into()))
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
        let found: Vec<(u64, &str)> = found.iter().map(|of| (of.key.0, &*of.message.id)).collect();
        assert_eq!(found, [(2, "again"), (3, "c")]);
        drop(files);
        // Without a disk tier, the position says nothing about what is stored.
        let (_files, position) = Files::open(Some(&path), false).unwrap();
        assert_eq!(position, KeptPosition::None);
    }

    /// Failure: after a restart, it is not known that the log has a purge; or it is believed, and
    /// the log has lost it.
    #[test]
    fn the_entry_of_a_purge_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Files::open(Some(folder.path()), true).unwrap().0;
        let note = |key: u64, entry: Option<Kept>| {
            let key = JournalKey(key);
            Change::Journal(JournalAction::Acknowledged { key, entry })
        };
        let entries = |files: &Files| -> Vec<(u64, Option<Kept>)> {
            let outbox = files.outbox();
            outbox.into_iter().map(|of| (of.key.0, of.entry)).collect()
        };
        let mut files = open();
        files.change(vec![write(1, "a"), write(2, "b"), write(3, "c")]);
        files.change(vec![note(1, Some(kept(7))), note(2, Some(kept(8)))]);
        files.change(vec![note(1, None), note(9, Some(kept(9))), remove(3)]);
        let expected = [(1, None), (2, Some(kept(8)))];
        assert_eq!(entries(&files), expected);
        drop(files);
        // What is read is written anew, and read again.
        for _ in 0..2 {
            assert_eq!(entries(&open()), expected);
        }
    }

    /// Failure: the file grows for ever.
    #[test]
    fn the_outbox_grows_with_each_purge() {
        let folder = tempfile::tempdir().unwrap();
        let (mut files, _) = Files::open(Some(folder.path()), true).unwrap();
        for round in 0..4 * limits::DEAD_LINES as u64 {
            files.change(vec![remove(round)]);
            let key = JournalKey(round + 1);
            let purge = Journaled {
                key,
                message: message("a"),
                entry: None,
            };
            files.live.insert(key, purge);
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
        inner.outbox = Some(File::open(&name).unwrap());
        let is_at = std::mem::replace(&mut inner.path, folder.path().join("none"));
        let (keys, is_durable) = files.change(vec![write(2, "b")]);
        assert_eq!((keys, is_durable), (vec![JournalKey(2)], false));
        assert!(!files.change(vec![write(3, "c")]).1);
        // There is room again.
        files.folder.as_mut().unwrap().path = is_at;
        assert!(files.change(vec![write(4, "d")]).1);
        drop(files);
        let (files, _) = Files::open(Some(folder.path()), true).unwrap();
        let found: Vec<u64> = files.outbox().iter().map(|of| of.key.0).collect();
        assert_eq!(found, [1, 4]);
    }

    /// Failure: a node whose disk is full does not start, or forgets the purges of its outbox; or
    /// one starts that may not write, and takes no purge.
    #[test]
    fn a_full_disk_prevents_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let (mut files, _) = Files::open(Some(folder.path()), true).unwrap();
        files.change(vec![write(1, "a"), Change::Keep(kept(7))]);
        drop(files);
        // What is written into new files finds no room.
        let names = ["outbox.jsonl.new", "position.json.new"].map(|name| folder.path().join(name));
        let fill = || {
            for name in &names {
                std::os::unix::fs::symlink("/dev/full", name).unwrap();
            }
        };
        fill();
        let (mut files, position) = Files::open(Some(folder.path()), true).unwrap();
        assert_eq!(position, KeptPosition::At(kept(7)));
        assert!(!names[0].exists(), "it takes room");
        std::fs::remove_file(&names[1]).unwrap();
        fill();
        assert!(!files.change(vec![write(2, "b"), Change::Keep(kept(8))]).1);
        assert!(names.iter().all(|name| !name.exists()));
        // There is room again.
        assert!(files.change(vec![write(3, "c"), Change::Keep(kept(9))]).1);
        drop(files);
        let (files, position) = Files::open(Some(folder.path()), true).unwrap();
        assert_eq!(position, KeptPosition::At(kept(9)));
        let found: Vec<u64> = files.outbox().iter().map(|of| of.key.0).collect();
        assert_eq!(found, [1, 3]);
        drop(files);
        std::fs::create_dir(&names[0]).unwrap();
        let error = Files::open(Some(folder.path()), true).unwrap_err();
        assert!(error.to_string().contains("folder"), "{error}");
    }

    /// Failure: two processes of a node use its folder at once.
    #[test]
    fn two_processes_write_one_outbox() {
        let folder = tempfile::tempdir().unwrap();
        let first = Files::open(Some(folder.path()), true).unwrap();
        let path = folder.path().to_owned();
        let second = std::thread::spawn(move || Files::open(Some(&path), true).is_ok());
        std::thread::sleep(Duration::from_millis(200));
        assert!(!second.is_finished());
        drop(first);
        assert!(second.join().unwrap());
    }
}
