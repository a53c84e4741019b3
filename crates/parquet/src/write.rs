//! The writer: timestamps in nanoseconds, objects and sizes, compressed with zstd.

use crate::limits::ROW_GROUP_ROWS;
use larder_replay::Access;
use parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as PhysicalType, ZstdLevel,
};
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};
use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

/// The names of the columns, as in a CSV trace.
const COLUMNS: [&str; 3] = ["time", "object", "size"];

/// A Parquet trace that is being written. It keeps a row group in memory, and needs a buffered
/// writer.
pub struct ParquetWriter<W: Write + Send> {
    out: SerializedFileWriter<W>,
    /// Times, objects and sizes of the row group.
    columns: [Vec<i64>; 3],
    requests: u64,
}

/// A request that could not be written.
#[derive(Debug)]
pub enum WriteError {
    /// The writer failed.
    Io(io::Error),
    /// A time is later than a Parquet timestamp can be, in the year 2262.
    Late {
        /// The number of the request, from 1.
        request: u64,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Io(error) => error.fmt(f),
            WriteError::Late { request } => {
                write!(
                    f,
                    "request {request}: a Parquet timestamp ends after 2^63 nanoseconds, 292 years; write csv instead"
                )
            }
        }
    }
}

impl std::error::Error for WriteError {}

impl From<ParquetError> for WriteError {
    fn from(error: ParquetError) -> Self {
        WriteError::Io(match error {
            ParquetError::External(cause) => match cause.downcast::<io::Error>() {
                Ok(error) => *error,
                Err(cause) => io::Error::other(cause),
            },
            error => io::Error::other(error),
        })
    }
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Returns a writer. The file's first bytes are written at once.
    ///
    /// # Errors
    /// [`WriteError::Io`] if `out` fails.
    pub fn new(out: W) -> Result<ParquetWriter<W>, WriteError> {
        let logical = |name| match name {
            "time" => LogicalType::timestamp(true, TimeUnit::NANOS),
            _ => LogicalType::integer(64, false),
        };
        let field = |name| {
            let builder = Type::primitive_type_builder(name, PhysicalType::INT64);
            builder
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(Some(logical(name)))
                .build()
                .map(Arc::new)
        };
        let fields = COLUMNS.into_iter().map(field).collect::<Result<_, _>>()?;
        let schema = Type::group_type_builder("trace")
            .with_fields(fields)
            .build()?;
        // Times differ by little from one to the next.
        let time = ColumnPath::from(COLUMNS[0]);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_column_dictionary_enabled(time.clone(), false)
            .set_column_encoding(time, Encoding::DELTA_BINARY_PACKED);
        let out = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))?;
        Ok(ParquetWriter {
            out,
            columns: Default::default(),
            requests: 0,
        })
    }

    /// Writes one request.
    ///
    /// # Errors
    /// [`WriteError`] if `out` fails, or the time is too late for its field.
    pub fn write(&mut self, access: &Access) -> Result<(), WriteError> {
        self.requests += 1;
        let time = i64::try_from(access.now.nanos()).map_err(|_| WriteError::Late {
            request: self.requests,
        })?;
        let values = [time, access.id.cast_signed(), access.size.cast_signed()];
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(value);
        }
        if self.columns[0].len() == ROW_GROUP_ROWS {
            self.write_group()
        } else {
            Ok(())
        }
    }

    fn write_group(&mut self) -> Result<(), WriteError> {
        let mut group = self.out.next_row_group()?;
        for values in &mut self.columns {
            if let Some(mut column) = group.next_column()? {
                column
                    .typed::<Int64Type>()
                    .write_batch(values, None, None)?;
                column.close()?;
            }
            values.clear();
        }
        group.close()?;
        Ok(())
    }

    /// Returns the number of requests written.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Writes the rest and the index, and returns the writer that was passed to
    /// [`ParquetWriter::new`].
    ///
    /// # Errors
    /// [`WriteError::Io`] if `out` fails.
    pub fn finish(mut self) -> Result<W, WriteError> {
        if !self.columns[0].is_empty() {
            self.write_group()?;
        }
        Ok(self.out.into_inner()?)
    }
}

impl<W: Write + Send> fmt::Debug for ParquetWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParquetWriter")
            .field("requests", &self.requests)
            .finish_non_exhaustive()
    }
}
