//! The reader: the columns of time, object and size, row group by row group.

use crate::arrow_schema;
use crate::column::{Column, Quantity, Wrong, damage};
use crate::limits::BATCH_ROWS;
use larder_replay::{
    Access, ColumnNames, ColumnPlaces, FormatEntry, Open, Place, ReadError, Requests, TraceProblem,
    TraceReader,
};
use larder_units::Time;
use parquet::column::reader::ColumnReader;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Parquet files with the columns of time, object and size, by the names that text traces have, or
/// by those that the caller gives.
///
/// A time is a timestamp or a duration of any unit, or a number of seconds, and not earlier than
/// that of the row before: unlike a log, which is written when requests end, a file that is not
/// sorted has its requests in a wrong order. An object is an integer (its 64 bits)
/// or a name (its hash). Compression with zstd, snappy, gzip and lz4 is supported.
pub const ENTRY: FormatEntry = FormatEntry {
    name: "parquet",
    summary: "Parquet files with columns `time`, `object` and `size`",
    suffixes: &[".parquet"],
    detect: |_, start| start.starts_with(b"PAR1"),
    open: Open::File(open),
};

fn open(file: File, asked: Option<ColumnNames>) -> Result<TraceReader, ReadError> {
    let failed = |problem: TraceProblem| ReadError::new(Place::File, problem);
    let opened = caught(|| SerializedFileReader::new(file)).ok_or_else(|| failed(panicked()))?;
    let file = opened.map_err(|error| failed(damage(error)))?;
    let schema = file.metadata().file_metadata().schema_descr();
    let names: Vec<String> = schema
        .columns()
        .iter()
        .map(|column| column.path().string())
        .collect();
    let bytes: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let places = ColumnPlaces::find(asked.as_ref(), &bytes).map_err(failed)?;
    let metadata = file.metadata().file_metadata().key_value_metadata();
    let arrow = metadata.and_then(|pairs| {
        pairs
            .iter()
            .find(|pair| pair.key == arrow_schema::KEY)?
            .value
            .as_deref()
    });
    let durations = arrow.map(arrow_schema::durations).unwrap_or_default();
    let column = |place: usize, quantity| match schema.columns().get(place) {
        Some(descriptor) => {
            let duration = durations.get(&names[place]).copied();
            Column::new(place, descriptor, quantity, duration).map_err(failed)
        }
        None => {
            let (column, line) = ((place + 1).to_string(), names.join(","));
            Err(failed(TraceProblem::NoColumnCalled { column, line }))
        }
    };
    let time = places
        .time
        .map(|place| column(place, Quantity::Time))
        .transpose()?;
    let size = places
        .size
        .map(|place| column(place, Quantity::Size))
        .transpose()?;
    let object = column(places.object, Quantity::Object)?;
    let rows = file
        .metadata()
        .row_groups()
        .iter()
        .map(|group| u64::try_from(group.num_rows()).unwrap_or(0))
        .sum();
    let columns = [time, Some(object), size];
    Ok(Box::new(ParquetReader {
        file,
        columns,
        groups: 0,
        group: None,
        batch: Batch::default(),
        row: 0,
        rows,
        latest: 0,
    }))
}

/// Returns the result of `decode`, or `None` if it panicked: the library does so on some damaged
/// pages. The panic's message is printed.
fn caught<T>(decode: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(decode)).ok()
}

fn panicked() -> TraceProblem {
    "the Parquet data is damaged: the library that reads it panicked"
        .to_owned()
        .into()
}

struct ParquetReader {
    file: SerializedFileReader<File>,
    /// Time, object and size.
    columns: [Option<Column>; 3],
    /// The number of row groups that were begun.
    groups: usize,
    group: Option<Group>,
    batch: Batch,
    /// The number of rows that were decoded, and of all rows.
    row: u64,
    rows: u64,
    /// The time of the last row that was decoded, in nanoseconds.
    latest: u64,
}

/// The rest of a row group.
struct Group {
    readers: [Option<ColumnReader>; 3],
    rows: usize,
}

/// Decoded rows.
#[derive(Default)]
struct Batch {
    /// Nanoseconds, objects and bytes. A column that is not read has none.
    numbers: [Vec<u64>; 3],
    rows: usize,
    returned: usize,
    /// The error after the last row.
    error: Option<ReadError>,
}

impl Requests for ParquetReader {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        while self.batch.returned == self.batch.rows {
            if let Some(error) = self.batch.error.take() {
                return Err(error);
            }
            let decoded = caught(|| self.decode()).unwrap_or_else(|| {
                self.end();
                Err(ReadError::new(Place::Row(self.row + 1), panicked()))
            });
            if !decoded? {
                return Ok(None);
            }
        }
        let at = self.batch.returned;
        self.batch.returned += 1;
        let [times, objects, sizes] = &self.batch.numbers;
        Ok(Some(Access {
            now: Time::from_nanos(times.get(at).copied().unwrap_or(0)),
            id: objects[at],
            size: sizes.get(at).copied().unwrap_or(1),
        }))
    }

    fn progress(&self) -> Option<f64> {
        Some(self.row as f64 / self.rows.max(1) as f64)
    }
}

impl ParquetReader {
    /// Reads no further.
    fn end(&mut self) {
        self.groups = self.file.num_row_groups();
        self.group = None;
        (self.batch.rows, self.batch.returned) = (0, 0);
    }

    /// Decodes the next batch; returns false at the end of the file.
    fn decode(&mut self) -> Result<bool, ReadError> {
        let group = match &mut self.group {
            Some(group) if group.rows > 0 => group,
            _ => match self.next_group()? {
                Some(group) => self.group.insert(group),
                None => return Ok(false),
            },
        };
        let most = group.rows.min(BATCH_ROWS);
        let mut first_wrong: Option<Wrong> = None;
        for ((column, reader), numbers) in self
            .columns
            .iter()
            .zip(&mut group.readers)
            .zip(&mut self.batch.numbers)
        {
            numbers.clear();
            if let (Some(column), Some(reader)) = (column, reader)
                && let Err(wrong) = column.read(reader, numbers, most)
                && first_wrong.as_ref().is_none_or(|(row, _)| wrong.0 < *row)
            {
                first_wrong = Some(wrong);
            }
        }
        if let Some(column) = &self.columns[0] {
            let times = &self.batch.numbers[0];
            let before = std::iter::once(&self.latest).chain(times);
            if let Some(row) = times
                .iter()
                .zip(before)
                .position(|(time, before)| time < before)
                && first_wrong.as_ref().is_none_or(|(first, _)| row < *first)
            {
                let problem =
                    "the time is earlier than that of the row before; sort the rows by it";
                first_wrong = Some((row, column.problem(problem.to_owned())));
            }
            self.latest = times.last().copied().unwrap_or(self.latest);
        }
        group.rows -= most;
        self.batch.returned = 0;
        self.batch.rows = first_wrong.as_ref().map_or(most, |(row, _)| *row);
        let start = self.row;
        self.batch.error = first_wrong
            .map(|(row, problem)| ReadError::new(Place::Row(start + row as u64 + 1), problem));
        self.row += most as u64;
        Ok(true)
    }

    fn next_group(&mut self) -> Result<Option<Group>, ReadError> {
        let failed = |problem: TraceProblem| ReadError::new(Place::Row(self.row + 1), problem);
        if self.groups == self.file.num_row_groups() {
            return Ok(None);
        }
        let group = self
            .file
            .get_row_group(self.groups)
            .map_err(|error| failed(damage(error)))?;
        self.groups += 1;
        let mut readers = [None, None, None];
        for (reader, column) in readers.iter_mut().zip(&self.columns) {
            if let Some(column) = column {
                let opened = group.get_column_reader(column.place);
                *reader = Some(opened.map_err(|error| failed(column.problem(damage(error))))?);
            }
        }
        Ok(Some(Group {
            readers,
            rows: usize::try_from(group.metadata().num_rows()).unwrap_or(0),
        }))
    }
}
