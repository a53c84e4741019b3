from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa

import larder_cache as lc

POLICIES = ["lru", "s3fifo", "w-tinylfu", "filter(theta=2)+fifo", "random", "agd", "belady-size"]
SIZES = ["1MiB", "5%"]
COLUMNS = ["trace", "policy", "capacity", "unit", "seed", "fill", "requests", "hits"]
RATIOS = ["object_hit_ratio", "byte_hit_ratio", "insertion_ratio"]


def printed(larder: Path, trace: Path, *flags: str) -> list[dict[str, Any]]:
    arguments = ["-p", ",".join(POLICIES), "-s", ",".join(SIZES), "--seeds", "1..2", "--json"]
    command = [str(larder), "replay", str(trace), *arguments, *flags]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def computed(trace: lc.Trace, **arguments: Any) -> pa.Table:
    return lc.replay(trace, POLICIES, SIZES, seeds=[1, 2], **arguments)


def assert_same(table: pa.Table, rows: list[dict[str, Any]]) -> None:
    names = COLUMNS + RATIOS
    assert table.select(names).to_pylist() == [{name: row[name] for name in names} for row in rows]


def test_rows_of_a_file(larder: Path, nasa: Path) -> None:
    rows = printed(larder, nasa)
    assert len(rows) == len(POLICIES) * len(SIZES) * 2
    assert_same(computed(lc.Trace(nasa)), rows)


def test_rows_of_a_file_in_memory(larder: Path, nasa: Path) -> None:
    loaded = lc.Trace(nasa).load()
    assert_same(computed(loaded), printed(larder, nasa))
    assert_same(computed(loaded, fill=False), printed(larder, nasa, "--no-fill"))


def test_rows_of_a_frame(larder: Path, nasa: Path, tmp_path: Path) -> None:
    # Names become the same numbers, and fractions of seconds the same times.
    urls, sizes, times = ["/a", "/b", "/ä", "/a", "/b"], [10, 20, 30, 10, 20], [0, 1.5, 2, 2.25, 9]
    path = tmp_path / "frame"
    lines = [f"{time},{url},{size}" for time, url, size in zip(times, urls, sizes, strict=True)]
    path.write_text("time,id,size\n" + "\n".join(lines))
    frame = {"id": urls, "size": sizes, "time": [float(time) for time in times]}
    assert lc.Trace(frame).to_arrow() == lc.Trace(path, columns="time=1,id=2,size=3").to_arrow()
    again = lc.Trace(lc.Trace(nasa).to_arrow(), name=nasa.name)
    assert_same(computed(again), printed(larder, nasa))


def test_warm_up_is_counted(nasa: Path) -> None:
    trace = lc.Trace(nasa).load()
    whole = lc.replay(trace, "lru", "1MiB").to_pylist()[0]
    first = lc.replay(lc.Trace(nasa, limit=10_000), "lru", "1MiB").to_pylist()[0]
    for each in (trace, lc.Trace(nasa)):
        rest = lc.replay(each, "lru", "1MiB", warmup=10_000).to_pylist()[0]
        for count in ("requests", "hits", "bytes", "hit_bytes", "insertions"):
            assert rest[count] == whole[count] - first[count], count
