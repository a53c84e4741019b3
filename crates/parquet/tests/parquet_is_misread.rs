//! Failure: a Parquet trace is another trace, an error names no column and row, or bytes panic.

use larder_parquet::limits::{BATCH_ROWS, ROW_GROUP_ROWS};
use larder_parquet::{ENTRY, ParquetWriter, WriteError};
use larder_replay::{Access, ColumnNames, Format, FormatRegistry, Trace, TraceError, name_hash};
use larder_units::Time;
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type, Int96, Int96Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use std::io::Write;
use std::sync::{Arc, Once};
use tempfile::NamedTempFile;

/// Returns the format, which is one of the process.
fn format() -> Format {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        FormatRegistry::builtin()
            .register(&ENTRY)
            .unwrap()
            .install()
            .unwrap()
    });
    "parquet".parse().unwrap()
}

fn file(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn read(bytes: &[u8]) -> Result<Vec<Access>, TraceError> {
    Trace::open(file(bytes).path(), Some(format()))?.collect()
}

/// The error after the file's name.
fn error(bytes: &[u8]) -> String {
    let message = read(bytes).unwrap_err().to_string();
    message.split_once([':', ',']).unwrap().1.trim().to_owned()
}

fn written(accesses: &[Access]) -> Vec<u8> {
    let mut writer = ParquetWriter::new(Vec::new()).unwrap();
    for access in accesses {
        writer.write(access).unwrap();
    }
    assert_eq!(writer.requests(), accesses.len() as u64);
    writer.finish().unwrap()
}

/// Writes one row group with these columns.
fn table(schema: &str, columns: impl FnOnce(&mut Columns<'_, '_>)) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(&format!("message m {{ {schema} }}")).unwrap());
    let mut writer =
        SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::new())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    columns(&mut Columns(&mut group));
    group.close().unwrap();
    writer.into_inner().unwrap()
}

struct Columns<'a, 'b>(&'a mut SerializedRowGroupWriter<'b, Vec<u8>>);

impl Columns<'_, '_> {
    fn add<T: DataType>(&mut self, values: &[T::T]) -> &mut Self {
        self.nullable::<T>(values, None)
    }

    fn nullable<T: DataType>(&mut self, values: &[T::T], levels: Option<&[i16]>) -> &mut Self {
        let mut column = self.0.next_column().unwrap().unwrap();
        column
            .typed::<T>()
            .write_batch(values, levels, None)
            .unwrap();
        column.close().unwrap();
        self
    }
}

fn at(nanos: u64, id: u64, size: u64) -> Access {
    Access {
        id,
        size,
        now: Time::from_nanos(nanos),
    }
}

#[test]
fn rows_are_lost_between_batches_and_row_groups() {
    let rows = (ROW_GROUP_ROWS + BATCH_ROWS + 3) as u64;
    let accesses: Vec<Access> = (0..rows)
        .map(|row| at(row * 1_000_003, row % 977, row / 5))
        .collect();
    let file = file(&written(&accesses));
    let mut trace = Trace::open(file.path(), Some(format())).unwrap();
    assert_eq!(trace.progress(), Some(0.0));
    let mut chunk = Vec::new();
    for part in accesses.chunks(300_007) {
        trace.read_many(&mut chunk, 300_007).unwrap();
        assert!(chunk == part, "other requests");
    }
    assert_eq!(
        (trace.progress(), trace.next().is_none()),
        (Some(1.0), true)
    );
}

#[test]
fn a_value_of_another_type_is_another_one() {
    let expected = [at(1_500_000_000, 7, 9), at(2_000_000_000, u64::MAX, 10)];
    let text = |text: &str| ByteArray::from(text);
    for (kind, times) in [
        ("int64 time (timestamp(millis,true))", [1_500, 2_000]),
        (
            "int64 time (timestamp(micros,false))",
            [1_500_000, 2_000_000],
        ),
        (
            "int64 time (timestamp(nanos,true))",
            [1_500_000_000, 2_000_000_000],
        ),
        ("int64 time (timestamp_millis)", [1_500, 2_000]),
    ] {
        let bytes = table(
            &format!("required {kind}; required int64 key; optional int32 bytes;"),
            |columns| {
                columns
                    .add::<Int64Type>(&times)
                    .add::<Int64Type>(&[7, -1])
                    .nullable::<Int32Type>(&[9, 10], Some(&[1, 1]));
            },
        );
        assert_eq!(read(&bytes).unwrap(), expected, "{kind}");
    }
    let bytes = table(
        "required double time; required binary id (string); required double size;",
        |columns| {
            columns
                .add::<DoubleType>(&[1.5, 2.0])
                .add::<ByteArrayType>(&[text("/a"), text("7")]);
            columns.add::<DoubleType>(&[9.0, 10.0]);
        },
    );
    let names = [name_hash(b"/a"), name_hash(b"7")];
    assert_eq!(
        read(&bytes).unwrap(),
        [
            at(1_500_000_000, names[0], 9),
            at(2_000_000_000, names[1], 10)
        ]
    );

    let mut noon = Int96::new();
    noon.set_data(1_500_000_000, 0, 2_440_588);
    let bytes = table(
        "required int96 time; required int32 id (uint_32); required int32 size;",
        |columns| {
            columns
                .add::<Int96Type>(&[noon])
                .add::<Int32Type>(&[-1])
                .add::<Int32Type>(&[9]);
        },
    );
    assert_eq!(
        read(&bytes).unwrap(),
        [at(1_500_000_000, u64::from(u32::MAX), 9)]
    );
    let bytes = table(
        "required int32 time (date); required boolean x; required int32 id; required int32 size;",
        |columns| {
            columns
                .add::<Int32Type>(&[1])
                .add::<parquet::data_type::BoolType>(&[true]);
            columns.add::<Int32Type>(&[7]).add::<Int32Type>(&[9]);
        },
    );
    assert_eq!(read(&bytes).unwrap(), [at(86_400_000_000_000, 7, 9)]);
}

#[test]
fn columns_of_other_names_are_not_found() {
    let bytes = table(
        "required int64 at; required int64 n; required int64 len;",
        |columns| {
            columns
                .add::<Int64Type>(&[5])
                .add::<Int64Type>(&[7])
                .add::<Int64Type>(&[9]);
        },
    );
    let read = |names: &str| -> Result<Vec<Access>, TraceError> {
        let names: ColumnNames = names.parse().unwrap();
        format();
        // The first bytes tell the format too.
        Trace::open_columns(file(&bytes).path(), names)?.collect()
    };
    assert_eq!(
        read("time=at,id=N,size=len").unwrap(),
        [at(5_000_000_000, 7, 9)]
    );
    assert_eq!(read("id=2").unwrap(), [at(0, 7, 1)]);
    for (names, words) in [
        ("id=b", "no column is called `b` in `at,n,len`"),
        ("id=4", "`4` in `at,n,len`"),
    ] {
        let message = read(names).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
    assert!(
        error(&bytes)
            .starts_with("no columns are called `time`, `object` and `size` in `at,n,len`")
    );
}

#[test]
fn an_error_names_no_column_or_row() {
    let wrong = |schema: &str, add: fn(&mut Columns<'_, '_>)| {
        error(&table(schema, |columns| {
            columns
                .add::<Int64Type>(&[1, 2, 3])
                .add::<Int64Type>(&[1, 2, 3]);
            add(columns);
        }))
    };
    let start = "required int64 time; required int64 id;";
    let schema = |last: &str| format!("{start} {last};");
    for (last, add, expected) in [
        (
            "required int64 size",
            (|columns| _ = columns.add::<Int64Type>(&[1, 2, -5])) as fn(&mut Columns<'_, '_>),
            "row 3: column `size`: -5 is not a size in bytes",
        ),
        (
            "optional int64 size",
            |columns| _ = columns.nullable::<Int64Type>(&[1, 3], Some(&[1, 0, 1])),
            "row 2: column `size`: the value is missing",
        ),
        (
            "required double size",
            |columns| _ = columns.add::<DoubleType>(&[1.0, f64::NAN, 2.5]),
            "row 2: column `size`: NaN is not a size in bytes",
        ),
        (
            "required double size",
            |columns| _ = columns.add::<DoubleType>(&[1.0, 1e17, 2.5]),
            "row 2: column `size`: 100000000000000000 is not a size in bytes",
        ),
        (
            "required binary size (string)",
            |columns| _ = columns.add::<ByteArrayType>(&["1", "2", "3"].map(ByteArray::from)),
            "column `size`: its type is BYTE_ARRAY (String), not a whole number of bytes; cast it to int64",
        ),
        (
            "required int64 size (timestamp(nanos,true))",
            |columns| _ = columns.add::<Int64Type>(&[1, 2, 3]),
            "column `size`: its type is INT64 (Timestamp(",
        ),
    ] {
        let message = wrong(&schema(last), add);
        assert!(message.starts_with(expected), "{message}");
    }
    let first = |kind: &str, time: i64| {
        error(&table(
            &format!("required int64 time {kind}; required int64 id; required int64 size;"),
            |columns| {
                columns
                    .add::<Int64Type>(&[time])
                    .add::<Int64Type>(&[1])
                    .add::<Int64Type>(&[1]);
            },
        ))
    };
    assert_eq!(
        first("", -1),
        "row 1: column `time`: -1 is a time before 1970"
    );
    assert!(
        first("", i64::MAX)
            .starts_with("row 1: column `time`: `9223372036854775807` is not a time in seconds")
    );
    let floats = table(
        "required int64 time; required double id; required int64 size;",
        |columns| {
            columns
                .add::<Int64Type>(&[1])
                .add::<DoubleType>(&[1.0])
                .add::<Int64Type>(&[1]);
        },
    );
    assert!(
        error(&floats)
            .starts_with("column `id`: its type is DOUBLE, not an integer or a name; cast it")
    );
    let lists = table(
        "required int64 time; repeated int64 id; required int64 size;",
        |columns| {
            columns.add::<Int64Type>(&[1]);
            let mut column = columns.0.next_column().unwrap().unwrap();
            column
                .typed::<Int64Type>()
                .write_batch(&[1], Some(&[1]), Some(&[0]))
                .unwrap();
            column.close().unwrap();
            columns.add::<Int64Type>(&[1]);
        },
    );
    assert_eq!(
        error(&lists),
        "column `id`: it has lists, not one value in each row"
    );
}

/// The library slices beyond a page of this file, which a mutation of a good one gave.
#[test]
fn a_page_on_which_the_library_panics_ends_the_program() {
    let message = error(include_bytes!("data/damaged_pages.parquet"));
    assert!(message.contains("damaged"), "{message}");
}

#[test]
fn rows_before_a_wrong_one_are_lost() {
    let bytes = table(
        "required int64 time; required int64 id; required int64 size;",
        |columns| {
            columns
                .add::<Int64Type>(&[1, 2, -3])
                .add::<Int64Type>(&[1, 2, 3])
                .add::<Int64Type>(&[1, -2, 3]);
        },
    );
    let items: Vec<_> = Trace::open(file(&bytes).path(), Some(format()))
        .unwrap()
        .collect();
    assert_eq!(items.len(), 2);
    assert!(
        items[0].is_ok()
            && items[1]
                .as_ref()
                .unwrap_err()
                .to_string()
                .contains("row 2: column `size`: -2 ")
    );
}

#[test]
fn rows_out_of_order_are_read() {
    let bytes = table(
        "required int64 time; required int64 id; required int64 size;",
        |columns| {
            columns
                .add::<Int64Type>(&[1, 1, 7, 6])
                .add::<Int64Type>(&[1, 2, 3, 4])
                .add::<Int64Type>(&[1, 2, 3, 4]);
        },
    );
    let expected = "row 4: column `time`: the time is earlier than that of the row before; sort the rows by it";
    assert_eq!(error(&bytes), expected);
    // The rows are in two batches.
    let rows = BATCH_ROWS as u64;
    let mut accesses: Vec<_> = (0..=rows).map(|row| at(row + 10, row, 1)).collect();
    accesses[rows as usize].now = Time::from_nanos(9);
    assert!(
        error(&written(&accesses))
            .starts_with(&format!("row {}: column `time`: the time", rows + 1))
    );
}

#[test]
fn a_stream_is_not_refused() {
    let bytes = written(&[at(1, 2, 3)]);
    let streamed = Trace::read(std::io::Cursor::new(bytes), "x.parquet", Some(format()))
        .err()
        .unwrap();
    assert_eq!(
        streamed.to_string(),
        "x.parquet: parquet is read in any order, so it must be an uncompressed file, and no pipe"
    );
}

#[test]
fn a_time_that_has_no_place_is_written() {
    let mut writer = ParquetWriter::new(Vec::new()).unwrap();
    writer.write(&at(i64::MAX as u64, 1, 1)).unwrap();
    let error = writer.write(&at(1 << 63, 1, 1)).unwrap_err();
    assert!(matches!(error, WriteError::Late { request: 2 }), "{error}");
    assert!(read(&written(&[])).unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_written_trace_reads_as_another(rows in proptest::collection::vec((0..1_u64 << 63, any::<u64>(), any::<u64>()), 0..50)) {
        let mut accesses: Vec<Access> = rows.into_iter().map(|(now, id, size)| at(now, id, size)).collect();
        accesses.sort_by_key(|access| access.now);
        prop_assert_eq!(read(&written(&accesses)).unwrap(), accesses);
    }

    #[test]
    fn damaged_bytes_panic(places in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4), cut in any::<proptest::sample::Index>()) {
        let accesses: Vec<Access> = (0..2_000).map(|row| at(row << 20, row % 77, row * 3)).collect();
        let mut bytes = written(&accesses);
        for (place, byte) in places {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let _ = read(&bytes);
        let _ = read(&bytes[..cut.index(bytes.len())]);
    }
}
