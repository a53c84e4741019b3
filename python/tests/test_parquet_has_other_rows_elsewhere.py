"""Failure: a Parquet file has other rows in Python, for the command line, pyarrow or Polars."""

from __future__ import annotations

import datetime
import json
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import larder_cache as lc

IDS = [5, 300, 5, 70_000]
NAMES = ["/a", "", "/ü", "/a"]
SIZES = [10, 20, 10, 4_000_000_000]
SECONDS = [0, 1, 1, 1_700_000_000]


def command(larder: Path, *arguments: Any) -> str:
    done = subprocess.run([larder, "trace", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(larder: Path, path: Path, expected: lc.Trace) -> None:
    """Compares what Python and the command line read with the trace."""
    table = expected.to_arrow()
    assert lc.Trace(path).to_arrow() == table
    converted = path.with_suffix(".csv")
    # The command line wants all three columns, or to know which there are.
    names = [name for name in ("time", "id", "size") if name in pq.read_schema(path).names]
    columns = "--columns", ",".join(f"{name}={name}" for name in names)
    command(larder, "convert", path, converted, *columns)
    assert lc.Trace(converted).to_arrow() == table
    found = json.loads(command(larder, "info", path, "--json", *columns))
    mine = expected.info()
    for figure in ("requests", "objects", "requested_bytes", "unique_bytes"):
        assert found[figure] == mine[figure]


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_compression(larder: Path, tmp_path: Path, compression: str, version: str) -> None:
    frame = {"time": SECONDS, "id": NAMES, "size": SIZES}
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table(frame), path, compression=compression, data_page_version=version, row_group_size=3
    )
    check(larder, path, lc.Trace(frame))


def test_brotli_is_not_explained(larder: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = {"time": SECONDS, "id": IDS, "size": SIZES}
    pq.write_table(pa.table(frame), path, compression="brotli")
    assert lc.Trace(path).to_arrow() == lc.Trace(frame).to_arrow()
    done = subprocess.run([larder, "trace", "info", path], capture_output=True, text=True)
    assert done.returncode != 0
    assert "its compression is brotli; write the file with zstd, snappy, gzip or lz4" in done.stderr


ID_TYPES = [
    *(pa.array(IDS, kind) for kind in (pa.int32(), pa.uint32(), pa.int64(), pa.uint64())),
    pa.array([5, 7, 5, 250], pa.uint8()),
    pa.array([5, -7, 5, 100], pa.int8()),
    pa.array([5, 300, 5, 65_535], pa.uint16()),
    pa.array([5, -(2**63), 5, 2**63 - 1], pa.int64()),
    pa.array([5, 2**64 - 1, 5, 2**63], pa.uint64()),
    pa.array(NAMES),
    pa.array(NAMES, pa.large_string()),
    pa.array([name.encode() for name in NAMES]),
    pa.array([b"abcd", b"\0\xff\0\xff", b"    ", b"abcd"], pa.binary(4)),
    pa.array(NAMES).dictionary_encode(),
    pa.array([b"\xff\n,", b"", b"\0", b"\xff\n,"]).dictionary_encode(),
]


@pytest.mark.parametrize("ids", ID_TYPES, ids=lambda ids: str(ids.type))
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_type_of_ids(larder: Path, tmp_path: Path, ids: Any, use_dictionary: bool) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": ids}), path, use_dictionary=use_dictionary)
    check(larder, path, lc.Trace({"id": ids}))


TIME_TYPES = [
    *(pa.array(SECONDS, pa.int64()).cast(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    pa.array([second * 1_000_003 for second in SECONDS], pa.timestamp("us", tz="UTC")),
    pa.array([second * 1_000_000_007 for second in SECONDS], pa.timestamp("ns")),
    pa.array(SECONDS, pa.int64()),
    pa.array(SECONDS, pa.uint32()),
    pa.array([0.0, 0.25, 1.5, 1_700_000_000.125]),
    pa.array([0.0, 0.25, 1.5, 65_536.0], pa.float32()),
    pa.array([datetime.date(2026, 1, day) for day in (1, 1, 2, 31)]),
    *(pa.array(SECONDS, pa.int64()).cast(pa.duration(unit)) for unit in ("s", "ms", "us", "ns")),
]


@pytest.mark.parametrize("times", TIME_TYPES, ids=lambda times: str(times.type))
def test_a_type_of_times(larder: Path, tmp_path: Path, times: Any) -> None:
    path = tmp_path / "t.parquet"
    frame = pa.table({"id": IDS, "time": times})
    pq.write_table(frame, path)
    check(larder, path, lc.Trace(frame))


SIZE_TYPES = [
    *(pa.array(SIZES, kind) for kind in (pa.int64(), pa.uint32(), pa.uint64(), pa.float64())),
    pa.array([1, 0, 1, 100], pa.int8()),
    pa.array([1.0, 0.0, 1.0, 16_777_216.0], pa.float32()),
]


@pytest.mark.parametrize("sizes", SIZE_TYPES, ids=lambda sizes: str(sizes.type))
def test_a_type_of_sizes(larder: Path, tmp_path: Path, sizes: Any) -> None:
    path = tmp_path / "t.parquet"
    frame = pa.table({"id": IDS, "size": sizes})
    pq.write_table(frame, path)
    check(larder, path, lc.Trace(frame))


@pytest.mark.parametrize("column", ["id", "size", "time"])
def test_a_missing_value_is_read(larder: Path, tmp_path: Path, column: str) -> None:
    frame = {"id": IDS, "size": SIZES, "time": SECONDS}
    frame[column] = [*frame[column][:2], None, 7]  # type: ignore[list-item]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(frame), path)
    with pytest.raises(ValueError, match=f"'{column}', row 2: the value is missing"):
        lc.Trace(path)
    done = subprocess.run([larder, "trace", "info", path], capture_output=True, text=True)
    assert done.returncode != 0
    assert f"t.parquet, row 3: column `{column}`: the value is missing" in done.stderr


def test_durations_of_polars_are_numbers(larder: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    times = [datetime.timedelta(milliseconds=count) for count in (0, 7, 7, 90_061_001)]
    frame = pl.DataFrame({"note": NAMES, "id": IDS, "time": times})
    frame.write_parquet(path)
    check(larder, path, lc.Trace(frame))


def test_times_out_of_order_are_read(larder: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = {"time": [1, 7, 6, 8], "id": IDS, "size": SIZES}
    pq.write_table(pa.table(frame), path)
    with pytest.raises(ValueError, match="column 'time', row 2: 6 is earlier than the row before"):
        lc.Trace(path)
    done = subprocess.run([larder, "trace", "info", path], capture_output=True, text=True)
    assert done.returncode != 0
    assert "row 3: column `time`: the time is earlier than that of the row before" in done.stderr


def test_a_file_of_the_command_line_is_another_elsewhere(larder: Path, tmp_path: Path) -> None:
    trace = lc.Trace.generate(3_000, objects=500, size=7)
    source, path = tmp_path / "t.csv", tmp_path / "t.parquet"
    command(
        larder,
        "generate",
        "zipf-mandelbrot",
        "-n",
        "3000",
        "--objects",
        "500",
        "-o",
        path,
        *("--exponent", "0.8", "--shift", "0", "--requests-per-second", "1000"),
        *("--object-bytes", "7"),
    )
    expected = trace.to_arrow()
    assert lc.Trace(path).to_arrow() == expected
    command(larder, "convert", path, source)
    assert lc.Trace(source).to_arrow() == expected
    for frame in (pq.read_table(path), pl.read_parquet(path), pl.scan_parquet(path)):
        assert lc.Trace(frame).to_arrow() == expected


def test_a_parquet_file_needs_its_suffix(larder: Path, tmp_path: Path) -> None:
    path = tmp_path / "part-0000"
    pq.write_table(pa.table({"id": IDS, "size": SIZES}), path)
    check(larder, path, lc.Trace({"id": IDS, "size": SIZES}))
    path = tmp_path / "t.parquet"
    path.write_text("1,2,3\n")
    with pytest.raises(ValueError, match=r"t\.parquet: .*Parquet"):
        lc.Trace(path)


def test_a_byte_order_mark_belongs_to_the_first_line(larder: Path, tmp_path: Path) -> None:
    lines = '{"id": 7, "size": 10, "time": 0}\n{"id": 8, "size": 20, "time": 0}\n'
    for name, text in (
        ("t.jsonl", lines),
        ("t.csv", "id,size,time\n7,10,0\n8,20,0\n"),
        ("t.data", lines),
    ):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8-sig")
        assert lc.Trace(path).to_arrow()["id"].to_pylist() == [7, 8]
        assert json.loads(command(larder, "info", path, "--json"))["unique_bytes"] == 30
