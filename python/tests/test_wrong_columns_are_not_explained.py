from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import larder_cache as lc

IDS = [1, 2, 3]

WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"id": IDS, "size": [1.0, float("nan"), 2.0]}, ValueError, "'size', row 1: NaN is no number"),
    ({"id": IDS, "size": [1, 2, -3]}, ValueError, "'size', row 2: -3 is negative"),
    ({"id": IDS, "size": [1.0, 2.5, 3.0]}, ValueError, "row 1: 2.5 is no whole number of bytes"),
    ({"id": IDS, "size": [1, None, 3]}, ValueError, "'size', row 1: the value is missing"),
    ({"id": IDS, "size": ["1", "2", "3"]}, TypeError, "'size' has type string"),
    ({"id": IDS, "size": np.array([1.0, 2.0, 2.0**64])}, ValueError, "row 2: 1.8"),
    ({"id": [1.0, 2.0, 3.0]}, TypeError, "'id' has type double"),
    ({"id": np.array([1.0, np.nan])}, ValueError, "'id', row 1: NaN"),
    ({"id": [1, 2, 2**64]}, ValueError, "'id', row 2: 18446744073709551616 does not fit"),
    ({"id": [1, "a", 2]}, TypeError, "'id', row 1: 'a' is a str, the rows before are int"),
    ({"id": ["a", None]}, ValueError, "'id', row 1: the value is missing"),
    ({"id": [True, False]}, TypeError, "'id' has type bool"),
    ({"id": [datetime.date(2026, 1, 1)]}, TypeError, "'id' has type date32"),
    ({"id": IDS, "time": [3, 1, 2]}, ValueError, "'time', row 1: 1 is earlier than the row before"),
    ({"id": IDS, "time": [-1, 1, 2]}, ValueError, "'time', row 0: -1 is negative"),
    ({"id": IDS, "time": [0, 1, 10**13]}, ValueError, "row 2: 10000000000000 is later than"),
    ({"id": IDS, "time": ["a", "b", "c"]}, TypeError, "'time' has type string"),
    ({"id": IDS, "key": IDS}, ValueError, "the columns ['id', 'key'] could all be it; give id=…"),
    ({"id": IDS, "size": [1, 2]}, ValueError, "different lengths: {'id': 3, 'size': 2}"),
    ({"id": []}, TypeError, "'id' has type null"),
    ({"id": np.array([], dtype=np.int64)}, ValueError, "the trace has no rows"),
    ({"name": IDS}, ValueError, "give id=…, the columns are 'name'"),
    ({}, ValueError, "no column of ids"),
    ({"id": np.ones((2, 2), dtype=np.int64)}, ValueError, "'id' has 2 dimensions"),
]


@pytest.mark.parametrize(("frame", "kind", "words"), WRONG, ids=[words for _, _, words in WRONG])
def test_a_wrong_frame(frame: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        lc.Trace(frame)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_values_of_pandas_and_polars() -> None:
    for frame in (
        pd.DataFrame({"id": IDS, "size": [1.0, np.nan, 2.0]}),
        pd.DataFrame({"id": IDS, "size": pd.array([1, None, 2], dtype="Int64")}),
        pl.DataFrame({"id": IDS, "size": [1, None, 2]}),
    ):
        with pytest.raises(ValueError, match="'size', row 1: "):
            lc.Trace(frame)


def test_files_and_columns_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        lc.Trace(tmp_path / "nothing.csv")
    with pytest.raises(ValueError, match="size='bits': the columns are 'id'"):
        lc.Trace({"id": IDS}, size="bits")
    path = tmp_path / "t.csv"
    path.write_text("time,id,size\n1,2,3\n1,2,x\n")
    with pytest.raises(ValueError, match=r"t\.csv, line 3"):
        lc.replay(lc.Trace(path, max_bad=0), "lru", 10)
    with pytest.raises(TypeError, match="in memory"):
        lc.Trace(IDS, format="columns")


def test_names_of_all_types_are_the_same_objects() -> None:
    names = ["a", "b", "a", "ccc"]
    expected = lc.Trace(names).to_arrow().column("id")
    many = pa.array(["x", *names])
    for ids in (
        [name.encode() for name in names],
        pd.Series(names),
        pd.Series(names, dtype="category"),
        pl.Series(names),
        pl.Series(names, dtype=pl.Categorical),
        pa.array(names, pa.large_string()),
        pa.chunked_array([names[:2], names[2:]]),
        pa.chunked_array([pa.array(names[:2]), pa.array(names[2:])]).dictionary_encode(),
        many[1:],
        np.array(names),
        np.array(names, dtype=object),
    ):
        assert lc.Trace(ids).to_arrow().column("id") == expected, type(ids)


def test_numbers_of_all_types_are_the_same_objects() -> None:
    expected = lc.Trace([1, 2, 255]).to_arrow().column("id")
    for dtype in (np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
        numbers = np.array([1, 2, 255], dtype=dtype)
        assert lc.Trace(numbers).to_arrow().column("id") == expected
        assert lc.Trace(pl.Series(numbers)).to_arrow().column("id") == expected
        assert lc.Trace(pd.Series(numbers)).to_arrow().column("id") == expected
    largest = lc.Trace([2**64 - 1, 1]).to_arrow().column("id").to_pylist()
    assert largest == [2**64 - 1, 1]
    assert lc.Trace(np.array([1, 0, 2, 0])[::2]).to_arrow().column("id").to_pylist() == [1, 2]


def test_times_of_all_types_are_the_same_times() -> None:
    expected = lc.Trace({"id": [1, 2], "time": [1, 2]}).to_arrow()
    moments = [datetime.datetime(1970, 1, 1, 0, 0, second) for second in (1, 2)]
    for times in (
        [1.0, 2.0],
        moments,
        np.array(moments, dtype="datetime64[s]"),
        np.array(moments, dtype="datetime64[ms]"),
        pd.Series(moments),
        pl.Series(moments),
        pd.to_timedelta([1, 2], unit="s"),
    ):
        assert lc.Trace({"id": [1, 2], "time": times}).to_arrow() == expected, times
    # 2^53 nanoseconds are no more than 104 days.
    late = lc.Trace({"id": [1], "time": [1_700_000_000.25]}).to_arrow().column("time")
    assert late.cast(pa.int64()).to_pylist() == [1_700_000_000_250_000_000]


def test_arrays_of_64_bits_are_copied() -> None:
    for dtype in (np.int64, np.uint64):
        ids = np.arange(10, dtype=dtype)
        trace = lc.Trace({"id": ids, "size": ids})
        ids[0] = 77
        assert trace.head(1).select(["id", "size"]).to_pylist() == [{"id": 77, "size": 77}]


def test_parquet_and_structured_arrays(tmp_path: Path) -> None:
    table = lc.Trace({"id": IDS, "size": [4, 5, 6], "time": [1, 2, 3]}).to_arrow()
    pq.write_table(table, tmp_path / "t.parquet")
    assert lc.Trace(tmp_path / "t.parquet").to_arrow() == table
    assert lc.Trace((tmp_path / "t.parquet").as_uri()).to_arrow() == table
    records = np.array([(1, 4), (2, 5)], dtype=[("key", "u4"), ("obj_size", "u8")])
    assert lc.Trace(records).to_arrow().column("size").to_pylist() == [4, 5]


def test_wrong_arguments() -> None:
    trace = lc.Trace(IDS)
    calls: list[tuple[Any, Any, dict[str, Any], type[Exception], str]] = [
        ("lur", 1, {}, ValueError, "did you mean `lru`"),
        ("lru", 1.5, {}, ValueError, "1.5 is ambiguous"),
        ("lru", 0, {}, ValueError, "size 0"),
        ("lru", -1, {}, ValueError, "size"),
        ("lru", float("nan"), {}, ValueError, "size"),
        ("lru", "64MiB", {}, ValueError, "its objects have no sizes"),
        ("lru", 0.01, {}, ValueError, "less than one byte"),
        ("lru", None, {}, TypeError, "sizes: None is a NoneType"),
        ("lru", [True], {}, TypeError, "sizes: True is a bool"),
        ([], 1, {}, ValueError, "policies: give at least one"),
        ([7], 1, {}, TypeError, "policies: 7 is a int"),
        ("lru", 1, {"warmup": 3}, ValueError, "warmup 3: the trace has only 3 requests"),
        ("lru", 1, {"seeds": range(20_000)}, ValueError, "20000 rows, more than"),
    ]
    for policies, sizes, others, kind, words in calls:
        with pytest.raises(kind) as caught:
            lc.replay(trace, policies, sizes, **others)
        assert words in str(caught.value)


def test_numbers_of_sizes_are_read_as_others() -> None:
    table = lc.replay(list(range(1000)), "lru", [1e2, 100, np.int32(100), np.float64(0.1), 1e-2])
    assert table.column("capacity").to_pylist() == [100, 100, 100, 100, 10]


def test_sizes_under_a_name_in_capitals_are_dropped() -> None:
    assert lc.Trace({"ID": IDS, "Size": [4, 5, 6]}).to_arrow()["size"].to_pylist() == [4, 5, 6]


def test_numbers_of_another_byte_order_are_refused() -> None:
    trace = lc.Trace({"id": np.array(IDS, dtype=">i8"), "size": np.array([4, 5, 6], dtype=">u4")})
    assert trace.to_arrow()["id"].to_pylist() == IDS
    assert trace.to_arrow()["size"].to_pylist() == [4, 5, 6]


def test_times_of_16_bits_lose_their_fraction() -> None:
    trace = lc.Trace({"id": [1, 2], "time": np.array([0.25, 0.5], dtype=np.float16)})
    times = trace.to_arrow()["time"].cast(pa.int64()).to_pylist()
    assert times == [250_000_000, 500_000_000]


def test_arguments_that_a_parquet_file_does_not_take(tmp_path: Path) -> None:
    path = tmp_path / "trace.PARQUET"
    pq.write_table(pa.table({"key": IDS, "bytes": [4, 5, 6], "note": ["a", "b", "c"]}), path)
    assert lc.Trace(path).to_arrow()["size"].to_pylist() == [4, 5, 6]
    with pytest.raises(ValueError, match="name its columns by id="):
        lc.Trace(path, columns="id=key")
    with pytest.raises(ValueError, match="id='x': the columns are 'key', 'bytes', 'note'"):
        lc.Trace(path, id="x")


def test_numbers_that_are_no_seed_limit_or_warmup() -> None:
    for named in ({"seeds": "12"}, {"seeds": [1.7]}, {"seeds": -1}, {"warmup": -1}):
        with pytest.raises(ValueError, match=next(iter(named))):
            lc.replay(IDS, "lru", 2, **named)


def test_many_seeds_have_the_normal_interval() -> None:
    table = lc.replay(lc.Trace.generate(500, objects=100), "random", 20, seeds=range(40))
    found = lc.over_seeds(table)["object_error"][0].as_py()
    ratios = np.array(table["object_hit_ratio"])
    assert found == pytest.approx(2.0227 * ratios.std(ddof=1) / 40**0.5, rel=1e-4)
