//! The last hour and the last day, in two rings, and in a small file beside a disk tier.

use super::reading::{Point, Reading, names};
use crate::limits;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError, TryLockError, mpsc};
use std::time::Duration;

/// The points of one resolution.
#[derive(Debug)]
struct Ring {
    points: VecDeque<Point>,
    /// The seconds between two points.
    step: u64,
    most: usize,
    last: Option<(u64, Reading)>,
}

impl Ring {
    fn new(step: u64, most: usize) -> Ring {
        Ring {
            points: VecDeque::new(),
            step,
            most,
            last: None,
        }
    }

    /// Adds a point, if one is due, and returns it.
    fn add(&mut self, reading: &Reading, unix_seconds: u64) -> Option<Point> {
        let point = match &self.last {
            // A clock that was set back starts anew.
            Some((at, _)) if (*at..at + self.step).contains(&unix_seconds) => return None,
            Some((_, before)) => Some(reading.since(before, unix_seconds)),
            None => None,
        };
        self.last = Some((unix_seconds, reading.clone()));
        for point in point.iter().cloned() {
            self.push(point);
        }
        point
    }

    fn push(&mut self, point: Point) {
        // The times of a ring grow, whatever the clock does.
        while self
            .points
            .back()
            .is_some_and(|last| last.unix_seconds >= point.unix_seconds)
        {
            self.points.pop_back();
        }
        if self.points.len() == self.most {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    fn to_json(&self) -> Value {
        json!({ "step": self.step, "points": self.points.iter().map(Point::to_json).collect::<Vec<_>>() })
    }

    /// Puts points of an earlier process in front, which are not older than the ring is long.
    fn restore(&mut self, ring: &Value, known: &[String], now: u64) {
        let length = self.step * self.most as u64;
        let before = self
            .points
            .front()
            .map_or(now + 1, |first| first.unix_seconds);
        let points = ring
            .get("points")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let points = points.filter_map(|point| Point::of_json(point, known));
        let points =
            points.filter(|point| point.unix_seconds < before && point.unix_seconds + length > now);
        let own = std::mem::take(&mut self.points);
        for point in points.chain(own) {
            self.push(point);
        }
    }
}

/// The rings.
#[derive(Debug)]
pub(super) struct History {
    hour: Ring,
    day: Ring,
}

impl Default for History {
    fn default() -> History {
        let (hour, day) = (limits::HISTORY_HOUR, limits::HISTORY_DAY);
        History {
            hour: Ring::new(hour.0, hour.1),
            day: Ring::new(day.0, day.1),
        }
    }
}

impl History {
    /// Adds a reading, taken at this time since 1970. Returns the points that this makes, with the
    /// names of their rings.
    pub(super) fn add(
        &mut self,
        reading: &Reading,
        unix_seconds: u64,
    ) -> Vec<(&'static str, Point)> {
        let hour = self
            .hour
            .add(reading, unix_seconds)
            .map(|point| ("hour", point));
        let day = self
            .day
            .add(reading, unix_seconds)
            .map(|point| ("day", point));
        hour.into_iter().chain(day).collect()
    }

    /// Returns both rings, and the names of the figures of each point.
    pub(super) fn to_json(&self) -> Value {
        json!({ "figures": names().collect::<Vec<_>>(), "hour": self.hour.to_json(), "day": self.day.to_json() })
    }

    /// Reads the file of an earlier process, and removes what others have left beside it.
    ///
    /// # Errors
    /// The system's; a file that does not exist is none.
    pub(super) fn restore(&mut self, path: &Path, now: u64) -> io::Result<()> {
        remove_leftovers(path);
        let file = match fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        let mut text = Vec::new();
        file.take(limits::HISTORY_FILE_BYTES)
            .read_to_end(&mut text)?;
        let page: Value = serde_json::from_slice(&text)?;
        let known = page
            .get("figures")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let known: Vec<String> = known
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect();
        self.hour.restore(&page["hour"], &known, now);
        self.day.restore(&page["day"], &known, now);
        Ok(())
    }
}

/// The writer of the file of the history. It writes on threads of its own, so that a disk that
/// hangs delays nothing else.
#[derive(Default)]
pub(super) struct HistoryWriter {
    /// True while another process has the file.
    is_left: AtomicBool,
    /// Held while a thread writes: true after the file could not be written, which is logged once.
    has_failed: Mutex<bool>,
}

impl HistoryWriter {
    /// Writes the file, unless an earlier write still hangs.
    pub(super) fn write_apart(self: &Arc<Self>, path: PathBuf, history: String) {
        if matches!(self.has_failed.try_lock(), Err(TryLockError::WouldBlock)) {
            return;
        }
        // Without a thread, the next minute has another chance.
        let _ = self.start(path, history);
    }

    /// Writes the file a last time. Gives up if the disk takes longer than `patience`.
    pub(super) fn leave(self: &Arc<Self>, path: &Path, history: String, patience: Duration) {
        if !self.is_left.load(Ordering::Acquire) {
            let file = path.display();
            match self
                .start(path.to_owned(), history)
                .map(|end| end.recv_timeout(patience))
            {
                Ok(Ok(())) => {}
                Ok(Err(RecvTimeoutError::Timeout)) => {
                    tracing::warn!(%file, ?patience, "the console's last minute is not kept, because the disk took longer");
                }
                Ok(Err(RecvTimeoutError::Disconnected)) => {
                    tracing::warn!(%file, "the console's last minute is not kept, because its thread has panicked");
                }
                Err(error) => {
                    tracing::warn!(%file, %error, "the console's last minute is not kept, because no thread starts");
                }
            }
        }
        self.is_left.store(true, Ordering::Release);
    }

    /// Takes the file back.
    pub(super) fn take_back(&self) {
        self.is_left.store(false, Ordering::Release);
    }

    /// Starts a thread that writes. Returns a receiver of its end.
    fn start(self: &Arc<Self>, path: PathBuf, history: String) -> io::Result<mpsc::Receiver<()>> {
        let (sender, end) = mpsc::sync_channel(1);
        let writer = Arc::clone(self);
        std::thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || {
                writer.write(&path, &history);
                // Fails if nobody waits any more.
                let _ = sender.send(());
            })?;
        Ok(end)
    }

    fn write(&self, path: &Path, history: &str) {
        let mut has_failed = self
            .has_failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let may_write = || !self.is_left.load(Ordering::Acquire);
        if let Err(error) = replace(path, history, may_write)
            && !std::mem::replace(&mut has_failed, true)
        {
            tracing::warn!(
                file = %path.display(), %error,
                "the console's history will not survive a restart: let the node's user write to that folder"
            );
        }
    }
}

/// Replaces the file, if it may at the end: a disk that hung may go on when another process has the
/// file. A reader finds the former or the new one, whole.
fn replace(path: &Path, content: &str, may_write: impl Fn() -> bool) -> io::Result<()> {
    if !may_write() {
        return Ok(());
    }
    let beside = beside(path);
    // A process that was killed may have had the same number. What still writes to that file does
    // not write to the new one.
    let _ = fs::remove_file(&beside);
    let is_replaced = write_new(&beside, content).and_then(|()| {
        if may_write() {
            fs::rename(&beside, path).map(|()| true)
        } else {
            Ok(false)
        }
    });
    if !matches!(is_replaced, Ok(true)) {
        let _ = fs::remove_file(&beside);
    }
    is_replaced.map(drop)
}

fn write_new(path: &Path, content: &str) -> io::Result<()> {
    let mut file = fs::File::create_new(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_data()
}

/// Returns the file that this process writes before it replaces the history: `PATH.PID.new`. No two
/// processes share it.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    beside.into()
}

/// Removes what processes that were killed have left beside the history.
fn remove_leftovers(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str))
    else {
        return;
    };
    let is_leftover = |file: &str| {
        let number = file
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".new"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    // A folder that cannot be read is noticed when the history is written.
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        if file.file_name().to_str().is_some_and(is_leftover) {
            let _ = fs::remove_file(file.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(requests: u64, seconds: u64) -> Reading {
        Reading::new(&json!({ "http": { "requests": requests } }), seconds as f64)
    }

    fn times(history: &Value, ring: &str) -> Vec<u64> {
        history[ring]["points"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| point[0].as_u64().unwrap())
            .collect()
    }

    /// Failure: the history grows for as long as the node runs, or has gaps at the end of the hour.
    #[test]
    fn a_ring_grows_without_end() {
        let mut history = History::default();
        let (start, length) = (1_800_000_000, 25 * 3600);
        for second in (0..=length).step_by(10) {
            drop(history.add(&reading(5 * second, second), start + second));
        }
        let page = history.to_json();
        let (hour, day) = (times(&page, "hour"), times(&page, "day"));
        assert_eq!(
            (hour.len(), day.len()),
            (limits::HISTORY_HOUR.1, limits::HISTORY_DAY.1)
        );
        assert_eq!(
            (hour[0], day[0]),
            (start + length - 3600 + 10, start + length - 24 * 3600 + 300)
        );
        assert_eq!(
            (hour.last(), day.last()),
            (Some(&(start + length)), Some(&(start + length)))
        );
        assert!(
            page["day"]["points"]
                .as_array()
                .unwrap()
                .iter()
                .all(|point| point[1] == 5.0),
            "{page}"
        );
        assert!(page.to_string().len() < limits::HISTORY_FILE_BYTES as usize / 2);
    }

    /// Failure: a restart loses the last day, or shows points of last week, or of a file that is no
    /// history.
    #[test]
    fn a_restart_loses_the_last_day() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let mut first = History::default();
        let start = 1_800_000_000;
        for second in 0..=600 {
            drop(first.add(&reading(second, second), start + second));
        }
        replace(&path, &first.to_json().to_string(), || true).unwrap();
        let mut second = History::default();
        for now in 610..=640 {
            drop(second.add(&reading(now, now), start + now));
        }
        second.restore(&path, start + 640).unwrap();
        let page = second.to_json();
        assert_eq!(times(&page, "hour").len(), 60 + 3);
        assert_eq!(times(&page, "day"), [start + 300, start + 600]);
        let mut late = History::default();
        late.restore(&path, start + 7 * 24 * 3600).unwrap();
        assert_eq!(times(&late.to_json(), "day"), [0; 0]);
        for text in [
            "",
            "[]",
            "{\"hour\": 3, \"day\": {\"points\": [[], 1, [1, 2, 3]]}, \"figures\": [1]}",
        ] {
            fs::write(&path, text).unwrap();
            let mut third = History::default();
            let _ = third.restore(&path, start);
            assert_eq!(times(&third.to_json(), "hour"), [0; 0], "{text}");
        }
        late.restore(&folder.path().join("none"), start).unwrap();
    }

    /// Failure: a clock that is set back stops the history, or makes its times go back.
    #[test]
    fn a_clock_set_back_stops_the_history() {
        let mut history = History::default();
        let start = 1_800_000_000;
        for second in 0..100 {
            drop(history.add(&reading(second, second), start + second));
        }
        for second in 100..200 {
            drop(history.add(&reading(second, second), start + second - 50));
        }
        let hour = times(&history.to_json(), "hour");
        assert!(
            hour.is_sorted() && hour.last().unwrap() > &(start + 130),
            "{hour:?}"
        );
    }

    /// Failure: a write that hung in the old process goes on in the file of the new one, or what a
    /// killed process has left stays for ever.
    #[test]
    fn a_write_that_hung_ends_up_in_the_new_history() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tier.history");
        let names = || {
            let files = fs::read_dir(folder.path()).unwrap().flatten();
            let mut names: Vec<String> = files
                .map(|file| file.file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let asked = std::cell::Cell::new(0);
        // The old process hangs before it replaces the file, and the new one writes meanwhile.
        let may_write = || {
            asked.set(asked.get() + 1);
            if asked.get() == 2 {
                let name = names()
                    .into_iter()
                    .find(|name| name.ends_with(".new"))
                    .unwrap();
                let mut hangs = fs::File::options()
                    .write(true)
                    .open(folder.path().join(name))
                    .unwrap();
                replace(&path, "new", || true).unwrap();
                hangs.write_all(b"old").unwrap();
            }
            asked.get() < 2
        };
        replace(&path, "old, and longer", may_write).unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap().as_str(), names()),
            ("new", vec!["tier.history".to_owned()])
        );
        for name in [
            "tier.history.4711.new",
            "tier.history.mine.new",
            "other.4711.new",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        // That file is no history.
        let _ = History::default().restore(&path, 1_800_000_000);
        assert_eq!(
            names(),
            ["other.4711.new", "tier.history", "tier.history.mine.new"]
        );
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Failure: the file is written while another process has it, or never again after that; or a
    /// disk that hangs delays the readings, or a stop.
    #[test]
    fn a_file_that_was_left_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tier.history");
        let read = || fs::read_to_string(&path).unwrap();
        let writer = Arc::new(HistoryWriter::default());
        let write_all = |text: &str| {
            writer.write_apart(path.clone(), text.to_owned());
            // It waits for the thread, if that has begun, and comes after it.
            while Arc::strong_count(&writer) > 1 {
                std::thread::yield_now();
            }
        };
        writer.leave(&path, "left".to_owned(), PATIENCE);
        write_all("late");
        assert_eq!(read(), "left");
        writer.take_back();
        write_all("back");
        assert_eq!(read(), "back");
        // The disk hangs.
        let hangs = writer.has_failed.lock().unwrap();
        writer.write_apart(path.clone(), "meanwhile".to_owned());
        assert_eq!(Arc::strong_count(&writer), 1);
        writer.leave(&path, "hangs".to_owned(), Duration::from_millis(10));
        drop(hangs);
        write_all("later");
        // What hung goes on too late.
        assert_eq!(read(), "back");
        writer.take_back();
        write_all("later");
        assert_eq!(read(), "later");
    }
}
