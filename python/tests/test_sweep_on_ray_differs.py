"""Failure: a sweep on Ray has other rows than the command line, or loses finished ones."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import larder_cache as lc

ray = pytest.importorskip("ray")
# Ray's own warnings are not ours.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Any]:
    """Starts two machines with a core each, as processes of this one."""
    from ray.cluster_utils import Cluster

    machine: Any = {"num_cpus": 1, "memory": 4 << 30, "object_store_memory": 128 << 20}
    cluster: Any = Cluster(
        initialize_head=True, head_node_args={"include_dashboard": False, **machine}
    )
    cluster.add_node(**machine)
    ray.init(address=cluster.address, log_to_driver=False, namespace="test")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def sweep(*arguments: Any, **named: Any) -> list[dict[str, Any]]:
    from larder_cache.ray import sweep

    tables = ray.get(sweep(*arguments, **named).to_arrow_refs())
    rows: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist()
    return rows


def figures(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("trace", "policy", "capacity", "seed", "requests", "hits")
    ratios = ("object_hit_ratio", "byte_hit_ratio", "insertion_ratio")
    return (*(str(row[name]) for name in names), *(float(row[name]) for name in ratios))


def write(directory: Path, name: str, seed: int, requests: int = 20_000) -> Path:
    random = np.random.default_rng(seed)
    ids = random.zipf(1.1, requests).astype(np.int64)
    path = directory / name
    pq.write_table(pa.table({"id": ids, "size": ids % 100 + 1}), path)
    return path


def test_rows_differ_from_the_command_line(larder: Path, nasa: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("".join(f"{n},{n * n % 97},{n % 7 + 1}\n" for n in range(2_000)))
    rows = sweep([nasa, other], ["lru", "random", "filter(theta=2)+s3fifo"], [0.1, "64KiB"], [1, 2])
    command: list[Any] = [larder, "replay", nasa, other, "-p", "lru,random,filter(theta=2)+s3fifo"]
    command += ["-s", "10%,64KiB", "--seeds", "1,2", "--csv"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    expected = list(csv.DictReader(output.splitlines()))
    assert len(rows) == 24
    assert list(map(figures, rows)) == list(map(figures, expected))
    assert (rows[0]["path"], rows[0]["size"], rows[-1]["size"]) == (str(nasa), "0.1", "64KiB")


def test_a_file_at_a_url_has_other_rows(nasa: Path) -> None:
    url, local = (sweep(each, "lru", 0.1) for each in (nasa.as_uri(), nasa))
    assert list(map(figures, url)) == list(map(figures, local))


def test_a_url_with_a_space_or_a_query_has_no_file(tmp_path: Path) -> None:
    for name in ("a b 1.csv", "a b 2.csv", "c.csv"):
        (tmp_path / name).write_text("1,2,1\n" * 10)
    url = tmp_path.as_uri()
    spaces = ["a b 1.csv", "a b 2.csv"]
    for traces, names, paths in (
        (f"{url}/a%20b%201.csv", spaces[:1], [f"{url}/a%20b%201.csv"]),
        (f"{url}/a%20b*.csv", spaces, [f"{url}/a%20b%20{n}.csv" for n in (1, 2)]),
        (f"{url}/c.csv?x=/y", ["c.csv"], [f"{url}/c.csv?x=/y"]),
        (f"{url}/c*.csv?x=/y", ["c.csv"], [f"{url}/c.csv?x=/y"]),
        (f"{tmp_path}/a b*.csv", spaces, [f"{tmp_path}/{name}" for name in spaces]),
        (f"{tmp_path}/a b 1.csv", spaces[:1], [f"{tmp_path}/a b 1.csv"]),
    ):
        found = sweep(traces, "lru", 1)
        assert [row["trace"] for row in found] == names
        assert [row["path"] for row in found] == paths


@pytest.mark.parametrize(
    "url",
    [
        "s3://KEYID:secret%zz@bucket/t.csv",
        "s3://KEYID:sec/ret@bucket/t.csv",
        "https://user:secret@host/t.csv",
        "file:///none.csv?token=secret",
        "file:///none*.csv?token=secret",
    ],
)
def test_an_error_has_a_password(url: str) -> None:
    with pytest.raises(ValueError, match=r"t\.csv: |none\*?\.csv: no") as caught:
        sweep(url, "lru", 1)
    for secret in ("KEYID", "secret", "sec/ret", "token"):
        assert secret not in str(caught.value)


def test_rows_have_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    from larder_cache import ray as sweeps

    monkeypatch.setattr(sweeps, "Trace", lambda path, format: lc.Trace([1, 2, 1]))
    file = sweeps._File("s3://KEYID:secret@bucket/t.csv?region=x", None, 10, 20)
    cell = sweeps._Cell("lru", "2", 1)
    common = {"warmup": 0, "fill": True, "metrics": "", "window": ""}
    (rows,) = sweeps._replay_job([(file, [cell])], common, True)
    assert [row["path"] for row in rows] == ["s3://bucket/t.csv?region=x"]
    # The row is found by a later call, also with another password.
    finished = sweeps._Finished(common, None)
    finished.add(rows)
    for user in ("KEYID:secret@", "KEYID:other@", ""):
        later = sweeps._File(f"s3://{user}bucket/t.csv?region=x", None, 10, 20)
        assert (later, cell) in finished


def test_a_spec_in_other_words_has_no_row(nasa: Path) -> None:
    rows = sweep(nasa, ["S3-FIFO", "LRU", "filter( theta=2 )+lru"], 0.1)
    assert [row["policy"] for row in rows] == ["s3fifo", "lru", "filter(theta=2)+lru"]


def test_further_figures_differ_from_those_of_replay(tmp_path: Path) -> None:
    path = write(tmp_path, "t.parquet", 1)
    cells: Any = (["lru", "s3fifo"], [100, 1000])
    named: Any = {"metrics": ["evictions", "windows", "size_classes"], "window": 5_000}
    results = tmp_path / "results"
    for metrics in ({}, {"metrics": "windows"}, named, named):
        rows = sweep(path, *cells, results=results, **metrics)
        expected = lc.replay(path, *cells, **metrics)
        names = [name for name in expected.column_names if name != "requests_per_second"]
        found = pa.Table.from_pylist(rows, expected.schema).select(names)
        assert found == expected.select(names)
        assert list(rows[0]) == [*expected.column_names, "path", "size"]
    # Rows with other figures are other rows, and the last sweep had none to compute.
    stored = pa.concat_tables(pq.read_table(file) for file in results.glob("rows-*.parquet"))
    assert stored.num_rows == 12
    for wrong, words in (
        ({"metrics": "window"}, "'window' is none of windows, size_classes, evictions"),
        ({"metrics": "windows", "load": False}, "the length of a file is unknown"),
        ({"metrics": "windows", "window": "1x"}, "'1x' is no time"),
    ):
        with pytest.raises(ValueError, match=words):
            sweep(path, "lru", 100, **wrong)


def test_finished_rows_are_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import larder_cache.ray as module

    for seed in range(3):
        write(tmp_path, f"t{seed}.parquet", seed)
    results = tmp_path / "results"
    pattern = f"{tmp_path}/t*.parquet"
    submitted: list[int] = []
    run = module._run

    def watched(jobs: Any, *rest: Any) -> None:
        submitted.append(sum(len(cells) for job in jobs for _, cells in job))
        run(jobs, *rest)

    monkeypatch.setattr(module, "_run", watched)
    first = sweep(pattern, ["lru"], [100, 1000], results=results)
    more = sweep(pattern, ["lru", "fifo"], [100, 1000], results=results)
    again = sweep(pattern, ["lru", "fifo"], [100, 1000], results=results)
    write(tmp_path, "t1.parquet", 9)
    changed = sweep(pattern, ["lru", "fifo"], [100, 1000], results=results)
    # Rows with another warm-up are other rows.
    sweep(pattern, ["lru"], [100], results=results, warmup=10)
    assert submitted == [6, 6, 0, 4, 3]
    assert again == more
    assert [row for row in more if row["policy"] == "lru"] == first
    assert [row["trace"] for row in changed if row not in more] == ["t1.parquet"] * 4


def test_a_killed_worker_costs_finished_rows(tmp_path: Path) -> None:
    path = write(tmp_path, "t.parquet", 1, 120_000)
    cells: Any = ("lhd", [2_000, 20_000], range(1, 17))
    results = tmp_path / "results"

    def worker() -> int | None:
        for process in Path("/proc").iterdir():
            try:
                title = (process / "cmdline").read_bytes()
            except OSError:
                continue
            # Ray names the process by the task.
            if process.name.isdigit() and title.startswith(b"ray::larder sweep"):
                return int(process.name)
        return None

    finished_at_kill: list[int] = []

    def kill() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            files = list(results.glob("rows-*.parquet"))
            process = worker()
            if files and process is not None:
                os.kill(process, signal.SIGKILL)
                finished_at_kill.append(sum(pq.read_metadata(file).num_rows for file in files))
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.warns(UserWarning, match="a worker ended"):
        rows = sweep(path, *cells, results=results)
    killer.join()
    expected = lc.replay(lc.Trace(path), cells[0], cells[1], seeds=cells[2]).to_pylist()
    assert list(map(figures, rows)) == list(map(figures, expected))
    stored = pa.concat_tables(pq.read_table(file) for file in results.glob("rows-*.parquet"))
    keys = stored.select(["policy", "size", "seed"]).to_pylist()
    assert finished_at_kill[0] > 0
    assert len(keys) == 32 == len({tuple(key.values()) for key in keys}), "a row was computed twice"


@pytest.mark.parametrize(
    ("traces", "policies", "sizes", "words"),
    [
        ("t.csv", "lur", 10, "did you mean `lru`"),
        ("t.csv", "lru", "1.5", "ambiguous"),
        ("t.csv", "lru", "10MiB", "no sizes"),
        ("none.csv", "lru", 10, "none.csv: no such file"),
        ("none*.csv", "lru", 10, r"none\*.csv: no file has such a name"),
        ("wrong.csv", "lru", 10, "line 1: `x` is not a size in bytes"),
    ],
)
def test_a_mistake_is_not_explained(
    tmp_path: Path, traces: str, policies: str, sizes: Any, words: str
) -> None:
    (tmp_path / "t.csv").write_text("1,2,1\n" * 10)
    (tmp_path / "wrong.csv").write_text("1,2,x\n1,2,y\n")
    with pytest.raises(ValueError, match=words):
        sweep(f"{tmp_path}/{traces}", policies, sizes)


def test_a_task_that_has_failed_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ray ends the whole program if a task is cancelled while its end arrives.
    import larder_cache.ray as module

    cancelled: list[Any] = []
    original: Any = ray.wait

    def wait(streams: list[Any], *, num_returns: int = 1, timeout: float | None = None) -> Any:
        # All tasks fail before the first error is read.
        original(streams, num_returns=len(streams), timeout=timeout)
        return original(streams, num_returns=num_returns, timeout=timeout)

    monkeypatch.setattr(ray, "wait", wait)
    monkeypatch.setattr(ray, "cancel", lambda stream, force: cancelled.append(stream))
    monkeypatch.setattr(module, "_LEAST_WORK", 1)
    for number in range(4):
        (tmp_path / f"t{number}.csv").write_text("1,2,1\n" * 10)
    with pytest.raises(ValueError, match="no sizes"):
        sweep(f"{tmp_path}/t*.csv", "lru", "10MiB")
    assert not cancelled


def test_a_task_that_runs_has_ended() -> None:
    from larder_cache.ray import _has_ended

    def yields(ending: str) -> Iterator[int]:
        yield 1
        yield 2
        if ending == "fails":
            raise ValueError
        while ending == "runs":
            time.sleep(0.01)

    task: Any = ray.remote(yields).options(num_returns="streaming")
    for ending in ("ends", "fails"):
        stream = task.remote(ending)
        deadline = time.monotonic() + 60
        while not _has_ended(stream):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    stream = task.remote("runs")
    assert ray.get(next(stream)) == 1
    assert not _has_ended(stream)
    ray.cancel(stream, force=True)


def test_a_task_that_no_machine_can_run_waits_for_ever(tmp_path: Path) -> None:
    from larder_cache.ray import _Cell, _check_memory, _File

    huge = _File("huge.zst", None, 1 << 40, 0)
    with pytest.raises(ValueError, match="give load=False"):
        _check_memory([[(huge, [_Cell("lru", "10", 1)])]])
    path = write(tmp_path, "t.parquet", 1)
    loaded, streamed = (sweep(path, "lru", 1000, load=load) for load in (True, False))
    assert figures(loaded[0]) == figures(streamed[0])
