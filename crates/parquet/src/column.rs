//! One column of a row group as numbers: nanoseconds, objects or bytes.

use larder_replay::{TraceProblem, name_hash};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;
use std::time::Duration;

/// What a column says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    Time,
    Object,
    Size,
}

/// A column of the file.
pub struct Column {
    /// The place among the columns of the file.
    pub place: usize,
    name: String,
    kind: Kind,
    /// True if the numbers have no sign.
    is_unsigned: bool,
    /// The definition level of a value that is there.
    level: i16,
}

/// The way in which values become numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Seconds, whole or not.
    Seconds,
    /// Whole units of this many nanoseconds.
    Units(u64),
    /// The object's number, or the hash of its name.
    Object,
    /// Bytes.
    Bytes,
}

/// The first wrong value of a batch, and the number of values before it.
pub type Wrong = (usize, TraceProblem);

impl Column {
    /// Returns the column, if its type suits the quantity. `duration` is the unit of a column of
    /// durations in nanoseconds, which Parquet does not know.
    pub fn new(
        place: usize,
        descriptor: &ColumnDescriptor,
        quantity: Quantity,
        duration: Option<u64>,
    ) -> Result<Column, TraceProblem> {
        let name = descriptor.path().string();
        let physical = descriptor.physical_type();
        let wrong = |expected: &str| {
            let logical = descriptor
                .logical_type_ref()
                .map(|logical| format!(" ({logical:?})"))
                .unwrap_or_default();
            Err(
                TraceProblem::from(format!("its type is {physical}{logical}, not {expected}"))
                    .in_column(&name),
            )
        };
        if descriptor.max_rep_level() > 0 {
            return Err(
                TraceProblem::from("it has lists, not one value in each row").in_column(&name),
            );
        }
        let is_number = matches!(
            physical,
            Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE
        );
        let is_decimal = matches!(descriptor.logical_type_ref(), Some(LogicalType::Decimal(_)))
            || descriptor.converted_type() == ConvertedType::DECIMAL;
        let unit = unit(descriptor).or_else(|| duration.filter(|_| physical == Type::INT64));
        let kind = match quantity {
            Quantity::Time => match unit {
                Some(nanos) => Kind::Units(nanos),
                None if is_number && !is_decimal => Kind::Seconds,
                None => return wrong("a timestamp or a number of seconds; cast it to one"),
            },
            Quantity::Size if is_number && !is_decimal && unit.is_none() => Kind::Bytes,
            Quantity::Size => return wrong("a whole number of bytes; cast it to int64"),
            Quantity::Object if matches!(physical, Type::FLOAT | Type::DOUBLE) => {
                return wrong("an integer or a name; cast it to int64 or to strings");
            }
            Quantity::Object => Kind::Object,
        };
        let is_unsigned = is_unsigned(descriptor);
        Ok(Column {
            place,
            name,
            kind,
            is_unsigned,
            level: descriptor.max_def_level(),
        })
    }

    /// Returns a problem of this column.
    pub fn problem(&self, problem: impl Into<TraceProblem>) -> TraceProblem {
        problem.into().in_column(&self.name)
    }

    /// Appends the numbers of the next values to `numbers`, `most` of them. Stops before the first
    /// wrong one.
    pub fn read(
        &self,
        reader: &mut ColumnReader,
        numbers: &mut Vec<u64>,
        most: usize,
    ) -> Result<(), Wrong> {
        let kind = self.kind;
        let is_unsigned = self.is_unsigned;
        let signed = |value: i64| whole(kind, value, is_unsigned);
        let short = |value: i32| {
            if is_unsigned {
                value.cast_unsigned().into()
            } else {
                value.into()
            }
        };
        match reader {
            ColumnReader::BoolColumnReader(reader) => {
                self.values(reader, numbers, most, |value| signed((*value).into()))
            }
            ColumnReader::Int32ColumnReader(reader) => {
                self.values(reader, numbers, most, |value| signed(short(*value)))
            }
            ColumnReader::Int64ColumnReader(reader) => {
                self.values(reader, numbers, most, |value| signed(*value))
            }
            ColumnReader::Int96ColumnReader(reader) => {
                self.values(reader, numbers, most, |value| signed(value.to_nanos()))
            }
            ColumnReader::FloatColumnReader(reader) => {
                self.values(reader, numbers, most, |value| {
                    decimal(kind, f64::from(*value))
                })
            }
            ColumnReader::DoubleColumnReader(reader) => {
                self.values(reader, numbers, most, |value| decimal(kind, *value))
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                self.values(reader, numbers, most, |value| Ok(name_hash(value.data())))
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                self.values(reader, numbers, most, |value| Ok(name_hash(value.data())))
            }
        }
    }

    fn values<T: DataType>(
        &self,
        reader: &mut ColumnReaderImpl<T>,
        numbers: &mut Vec<u64>,
        most: usize,
        number: impl Fn(&T::T) -> Result<u64, TraceProblem>,
    ) -> Result<(), Wrong> {
        let (mut levels, mut values) = (Vec::new(), Vec::with_capacity(most));
        let read = reader.read_records(most, Some(&mut levels), None, &mut values);
        let wrong = |row: usize, problem: TraceProblem| (row, problem.in_column(&self.name));
        let (rows, ..) = read.map_err(|error| wrong(0, damage(error)))?;
        let missing = levels.iter().position(|level| *level < self.level);
        for (row, value) in values.iter().enumerate().take(missing.unwrap_or(most)) {
            numbers.push(number(value).map_err(|problem| wrong(row, problem))?);
        }
        match missing {
            Some(row) => Err(wrong(row, "the value is missing".into())),
            None if rows < most => Err(wrong(
                rows,
                "the column ends before the other columns".into(),
            )),
            None => Ok(()),
        }
    }
}

fn is_unsigned(descriptor: &ColumnDescriptor) -> bool {
    use ConvertedType::{UINT_8, UINT_16, UINT_32, UINT_64};
    match descriptor.logical_type_ref() {
        Some(LogicalType::Integer(integer)) => !integer.is_signed,
        _ => matches!(
            descriptor.converted_type(),
            UINT_8 | UINT_16 | UINT_32 | UINT_64
        ),
    }
}

/// Returns the unit of a timestamp in nanoseconds; `None` for another type.
fn unit(descriptor: &ColumnDescriptor) -> Option<u64> {
    const DAY: u64 = 86_400_000_000_000;
    if descriptor.physical_type() == Type::INT96 {
        return Some(1);
    }
    let of_unit = |unit: &TimeUnit| match unit {
        TimeUnit::MILLIS => 1_000_000,
        TimeUnit::MICROS => 1_000,
        TimeUnit::NANOS => 1,
    };
    match (descriptor.logical_type_ref(), descriptor.converted_type()) {
        (Some(LogicalType::Timestamp(time)), _) => Some(of_unit(&time.unit)),
        (Some(LogicalType::Time(time)), _) => Some(of_unit(&time.unit)),
        (Some(LogicalType::Date), _) | (None, ConvertedType::DATE) => Some(DAY),
        (None, ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIME_MILLIS) => Some(1_000_000),
        (None, ConvertedType::TIMESTAMP_MICROS | ConvertedType::TIME_MICROS) => Some(1_000),
        _ => None,
    }
}

/// Returns the number of a whole value; `is_unsigned` says that its highest bit is no sign. The 64
/// bits of an object are its number, signed or not.
fn whole(kind: Kind, value: i64, is_unsigned: bool) -> Result<u64, TraceProblem> {
    let nanos = match kind {
        Kind::Object => return Ok(value.cast_unsigned()),
        Kind::Bytes if is_unsigned => return Ok(value.cast_unsigned()),
        Kind::Bytes => {
            return u64::try_from(value)
                .map_err(|_| format!("{value} is not a size in bytes").into());
        }
        Kind::Seconds => 1_000_000_000,
        Kind::Units(nanos) => nanos,
    };
    let units = u64::try_from(value)
        .map_err(|_| TraceProblem::from(format!("{value} is a time before 1970")))?;
    units.checked_mul(nanos).ok_or_else(|| late(value))
}

/// Returns the number of a value with a fraction.
fn decimal(kind: Kind, value: f64) -> Result<u64, TraceProblem> {
    if kind == Kind::Seconds {
        return match Duration::try_from_secs_f64(value).map(|time| u64::try_from(time.as_nanos())) {
            Ok(Ok(nanos)) => Ok(nanos),
            _ if value > 0.0 => Err(late(value)),
            _ => Err(format!("{value} is not a time in seconds").into()),
        };
    }
    // From 2^53 on, a double no longer tells neighbours apart.
    if value >= 0.0 && value.fract() == 0.0 && value < 9_007_199_254_740_992.0 {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole and in range"
        )]
        return Ok(value as u64);
    }
    Err(format!("{value} is not a size in bytes").into())
}

fn late(value: impl std::fmt::Display) -> TraceProblem {
    TraceProblem::LateTime(value.to_string())
}

/// Returns the problem of bytes that the crate `parquet` refuses.
pub fn damage(error: ParquetError) -> TraceProblem {
    let text = error.to_string();
    if let Some((_, compression)) = text.split_once("Disabled feature at compile time: ") {
        return format!(
            "its compression is {compression}; write the file with zstd, snappy, gzip or lz4"
        )
        .into();
    }
    format!(
        "the Parquet data is damaged or unsupported ({})",
        text.strip_prefix("Parquet error: ").unwrap_or(&text)
    )
    .into()
}
