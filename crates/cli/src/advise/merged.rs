//! Several files as one trace in the order of time, whatever the order of the arguments. Files of
//! the same time, such as those of two servers, are merged. A file is open only while its time is.

use crate::failure::Failure;
use crate::layout::Layout;
use crate::replay::progress::Progress;
use crate::trace_file;
use larder_replay::{Access, Format, Trace, TraceReport};
use larder_units::Time;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The requests read at a time, 24 bytes each.
const CHUNK_REQUESTS: usize = 1 << 16;

/// The first requests of a file, by which another file is known to have them too: so many equal
/// requests in a row are no chance.
const COMPARED_REQUESTS: usize = 8;

/// A file, in the order of their first requests.
pub struct File<'a> {
    path: &'a Path,
    pub name: String,
    pub format: Format,
    first: Vec<Access>,
    /// The trace, while it is read.
    trace: Option<Trace>,
    chunk: Vec<Access>,
    next: usize,
    report: TraceReport,
    is_begun: bool,
    /// The number of requests that equal the start of another file, by its place: so far, in a row.
    matches: HashMap<usize, usize>,
    /// The files whose start this one has too.
    overlaps: Vec<usize>,
}

/// The requests of all files.
pub struct Merged<'a> {
    files: Vec<File<'a>>,
    layout: &'a Layout,
    /// The file of the requests that were returned last.
    last: usize,
    /// The files that begin with this object at this time.
    starts: HashMap<(u64, Time), Vec<usize>>,
}

impl<'a> Merged<'a> {
    /// Opens the files, and sorts them by their first requests.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn open(paths: &'a [PathBuf], layout: &'a Layout) -> Result<Merged<'a>, Failure> {
        let mut files = Vec::new();
        for path in paths {
            files.push(File::open(path, layout)?);
        }
        files.sort_by_key(|file| file.first.first().map_or(Time::ZERO, |first| first.now));
        let mut starts: HashMap<(u64, Time), Vec<usize>> = HashMap::new();
        for (place, file) in files.iter().enumerate() {
            // Traces without times cannot be compared.
            let is_long = file.first.len() == COMPARED_REQUESTS;
            if let Some(first) = file
                .first
                .first()
                .filter(|first| is_long && first.now > Time::ZERO)
            {
                starts.entry((first.id, first.now)).or_default().push(place);
            }
        }
        Ok(Merged {
            files,
            layout,
            last: 0,
            starts,
        })
    }

    pub fn files(&self) -> &[File<'a>] {
        &self.files
    }

    /// Returns the next requests, all of one file; `None` at the end.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn next(&mut self) -> Result<Option<&[Access]>, Failure> {
        let Some(place) = self.earliest()? else {
            return Ok(None);
        };
        let limit = self.limit(place);
        let file = &mut self.files[place];
        let rest = &file.chunk[file.next..];
        let until = rest.partition_point(|access| limit.admits(access.now));
        let start = file.next;
        file.next += until.max(1);
        self.last = place;
        self.compare(place, start);
        let file = &self.files[place];
        Ok(Some(&file.chunk[start..file.next]))
    }

    /// Returns the file with the earliest request, of those of the same time the first.
    fn earliest(&mut self) -> Result<Option<usize>, Failure> {
        let mut best: Option<(usize, Time)> = None;
        for place in 0..self.files.len() {
            let file = &mut self.files[place];
            // Files that begin later need not be opened.
            let first = file.first.first().map_or(Time::ZERO, |first| first.now);
            if !file.is_begun && best.is_some_and(|(_, now)| now <= first) {
                break;
            }
            let Some(now) = file.head(self.layout)? else {
                continue;
            };
            if best.is_none_or(|(_, earliest)| now < earliest) {
                best = Some((place, now));
            }
        }
        Ok(best.map(|(place, _)| place))
    }

    /// Returns up to which time the requests of the file at `place` come before those of the
    /// others.
    fn limit(&self, place: usize) -> Limit {
        let mut limit = Limit {
            time: Time::MAX,
            is_included: true,
        };
        for (other, file) in self.files.iter().enumerate() {
            let head = if file.is_begun {
                file.chunk.get(file.next).map(|access| access.now)
            } else {
                file.first.first().map(|access| access.now)
            };
            if let Some(time) = head.filter(|time| other != place && *time < limit.time) {
                limit = Limit {
                    time,
                    is_included: place < other,
                };
            }
        }
        limit
    }

    /// Notes whether the requests of a file from `start` on are the start of another file.
    fn compare(&mut self, place: usize, start: usize) {
        if self.files.len() < 2 || self.starts.is_empty() {
            return;
        }
        let accesses = self.files[place].chunk[start..self.files[place].next].to_vec();
        for access in &accesses {
            let mut matches = std::mem::take(&mut self.files[place].matches);
            matches.retain(|other, count| {
                let expected = self.files[*other].first.get(*count);
                let is_same = expected
                    .is_some_and(|expected| expected.id == access.id && expected.now == access.now);
                *count += 1;
                if is_same && *count == COMPARED_REQUESTS {
                    self.files[place].overlaps.push(*other);
                }
                is_same && *count < COMPARED_REQUESTS
            });
            for other in self
                .starts
                .get(&(access.id, access.now))
                .into_iter()
                .flatten()
            {
                if *other != place {
                    matches.insert(*other, 1);
                }
            }
            self.files[place].matches = matches;
        }
    }

    /// Shows the progress.
    pub fn show(&self, progress: &Progress, taken: u64) {
        let read: f64 = self.files.iter().map(File::units_read).sum();
        progress.at(
            "reading",
            &self.files[self.last].name,
            taken,
            Some(1.0),
            read,
        );
    }

    /// Returns what was read of each file.
    pub fn reports(&self) -> impl Iterator<Item = (&str, &TraceReport)> {
        self.files
            .iter()
            .map(|file| (file.name.as_str(), &file.report))
    }

    /// Returns a remark on each pair of files of which one begins within the other.
    pub fn overlaps(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for file in &self.files {
            for other in &file.overlaps {
                remarks.push(format!(
                    "{} has the first requests of {} too: if one is a copy of the other, its requests count twice",
                    file.name, self.files[*other].name
                ));
            }
        }
        remarks
    }
}

/// The time up to which requests may be taken.
struct Limit {
    time: Time,
    is_included: bool,
}

impl Limit {
    fn admits(&self, now: Time) -> bool {
        now < self.time || self.is_included && now == self.time
    }
}

impl<'a> File<'a> {
    /// Opens a file, and reads its first requests.
    fn open(path: &'a Path, layout: &Layout) -> Result<File<'a>, Failure> {
        let mut trace = layout.open_once(path)?;
        let mut chunk = Vec::new();
        let is_file = trace_file::is_file(path);
        let most = if is_file {
            COMPARED_REQUESTS
        } else {
            CHUNK_REQUESTS
        };
        read_many(&mut trace, &mut chunk, most)?;
        let first = chunk[..chunk.len().min(COMPARED_REQUESTS)].to_vec();
        let mut file = File {
            path,
            name: trace_file::name(path),
            format: trace.format(),
            first,
            trace: None,
            chunk: Vec::new(),
            next: 0,
            report: trace.report(),
            is_begun: false,
            matches: HashMap::new(),
            overlaps: Vec::new(),
        };
        // A pipe is read once, so it stays open.
        if !is_file {
            file.is_begun = true;
            file.chunk = chunk;
            file.trace = Some(trace);
        }
        Ok(file)
    }

    /// Returns the time of the next request; `None` at the end. Opens the file if it is not open,
    /// and closes it at its end.
    fn head(&mut self, layout: &Layout) -> Result<Option<Time>, Failure> {
        if !self.is_begun {
            self.is_begun = true;
            self.trace = Some(layout.open_once(self.path)?);
        }
        if self.next == self.chunk.len()
            && let Some(trace) = &mut self.trace
        {
            self.next = 0;
            read_many(trace, &mut self.chunk, CHUNK_REQUESTS)?;
            self.report = trace.report();
            if self.chunk.is_empty() {
                self.trace = None;
            }
        }
        Ok(self.chunk.get(self.next).map(|access| access.now))
    }

    /// Returns how much of the file was read, in the units of the progress.
    fn units_read(&self) -> f64 {
        let share = match &self.trace {
            Some(trace) => trace.progress().unwrap_or(0.0),
            None => f64::from(u8::from(self.is_begun)),
        };
        share * trace_file::units(self.path)
    }
}

fn read_many(trace: &mut Trace, chunk: &mut Vec<Access>, most: usize) -> Result<(), Failure> {
    trace
        .read_many(chunk, most)
        .map_err(|error| Failure::usage(error.to_string()))
}
