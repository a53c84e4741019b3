"""Sweeps on Ray: many traces, policies, sizes and seeds on many machines.

:func:`sweep` is :func:`larder_cache.replay` for more than one machine. It needs the extra ``ray``.

A task reads a trace once and replays its rows one after another, and sends each as it finishes.
The caller's process keeps the rows, so a worker that dies costs the rows that it had not finished:
only these are given to another task. With ``results``, rows are kept in Parquet files, and a later
call with the same files computes the missing rows only.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import time
import urllib.parse
import uuid
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
import ray

from . import __version__, _core, _url
from ._replay import (
    METRICS,
    SCHEMA,
    PolicyLike,
    SizeLike,
    chosen_metrics,
    listed,
    policy_argument,
    replay_rows,
    size_text,
    window_argument,
)
from ._trace import Trace

#: What a row depends on, beside the columns of a replay.
_KEY = [
    ("path", pa.string()),
    ("size", pa.string()),
    ("warmup", pa.uint64()),
    ("metrics", pa.string()),
    ("window", pa.string()),
    ("format", pa.string()),
    ("file_bytes", pa.int64()),
    ("file_modified", pa.int64()),
    ("version", pa.string()),
]
#: The columns of the files in ``results``.
_STORED = pa.schema([*SCHEMA, *METRICS.items(), *_KEY])

#: Requests times rows of a task, at least: one to two seconds, a thousand times what a task costs.
_LEAST_WORK = 30_000_000
#: Tasks for each core: the last ones to finish are then a small part of the whole.
_TASKS_PER_CORE = 8
#: Rows for each reading of a trace, if no core is without work then. A reading costs as much as one
#: to three rows of a quick policy.
_ROWS_PER_READING = 8
#: Requests times rows of one call, at most: a tenth of a second of quick policies, a few hundred
#: times what a call costs.
_QUICK_WORK = 1_000_000
#: Quick rows are sent together, this often.
_SEND_SECONDS = 0.5
#: Memory of a worker without a trace.
_BASE_MEMORY = 200 << 20
#: Endings of files that are compressed, or compressed inside.
_COMPRESSED = (".zst", ".gz", ".xz", ".parquet", ".pq")


@dataclasses.dataclass(frozen=True)
class _File:
    """A trace, and the state of its file."""

    path: str
    format: str | None
    length: int
    modified: int

    @property
    def requests(self) -> int:
        """An estimate: a request takes 4 bytes in a compressed file, and 16 in another."""
        return self.length // (4 if _split(self.path)[0].endswith(_COMPRESSED) else 16) + 1

    @property
    def memory(self) -> int:
        """An estimate: 24 bytes for each request, and as much for the cache."""
        return _BASE_MEMORY + 48 * self.requests


@dataclasses.dataclass(frozen=True)
class _Cell:
    """One row to compute."""

    policy: str
    size: str
    seed: int


#: The work of a task: cells of several traces.
_Job = list[tuple[_File, list[_Cell]]]


def sweep(
    traces: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    policies: PolicyLike | Iterable[PolicyLike],
    sizes: SizeLike | Iterable[SizeLike],
    seeds: int | Iterable[int] = 1,
    *,
    warmup: int = 0,
    fill: bool = True,
    metrics: str | Iterable[str] = (),
    window: int | str | None = None,
    format: str | None = None,
    results: str | os.PathLike[str] | None = None,
    address: str | None = None,
    memory: int | None = None,
    load: bool = True,
    retries: int = 3,
) -> Any:
    """Replays every policy at every size with every seed over every trace, on a Ray cluster.

    The rows are those of ``larder replay`` with the same arguments, in the same order. Example::

        rows = sweep(
            "s3://traces/*.oracleGeneral.zst",
            ["lru", "s3fifo", "agd"],
            [0.001, 0.01, 0.1],
            results="s3://results/first",
            address="auto",
        )
        rows.groupby("policy").mean("object_hit_ratio").show()

    Args:
        traces: Paths or URLs (``s3://``, ``gs://``) of trace files that all machines can read. A
            ``*`` in the last part stands for any text.
        policies: Specs, such as ``"lru"`` and ``"filter(theta=2)+fifo"``.
        sizes: Capacities, as :func:`larder_cache.replay` takes them.
        seeds: Seeds of all random choices, one row for each.
        warmup: The number of first requests that no figure counts.
        fill: Store without asking the admission policy until the first object has to leave.
        metrics: Further columns, as :func:`larder_cache.replay` has them: ``"windows"``,
            ``"size_classes"``, ``"evictions"``.
        window: The length of a window, in requests or as a time. None: a hundredth of the trace.
        format: The format of the files, as ``larder replay --format`` takes it.
        results: A directory or URL for finished rows, which are not computed again. A row belongs
            to a file with its length and time, and to this version of the package.
        address: The cluster; ``"auto"`` is the one that this program runs in. None: the one that
            is connected already, else a new one on this machine.
        memory: Bytes of memory that a task needs. None: an estimate by the length of the file.
        load: Read a trace into memory once for all its rows. False reads it for each row, for
            traces that are larger than a machine's memory.
        retries: How often a row is tried again after the end of its worker.

    Returns:
        A ``ray.data.Dataset`` with the columns of :func:`larder_cache.replay`, and ``path`` and
        ``size`` as they were given, without the user and the password of a URL.

    Raises:
        ValueError: A spec, a size or a trace that cannot be used, with the remedy.
        ray.exceptions.RayError: Workers ended more than ``retries`` times. Finished rows are kept.

    """
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    specs = [_spec(policy) for policy in listed(policies, "policies", str)]
    texts = [size_text(size) for size in listed(sizes, "sizes", str | int | float)]
    numbers = [int(seed) for seed in listed(seeds, "seeds", int)]
    cells = [_Cell(*each) for each in itertools.product(specs, texts, numbers)]
    files = _files(traces, format)
    wanted = chosen_metrics(metrics)
    if "windows" in wanted:
        # Refuses what a task would refuse. A trace that is loaded has a known length.
        window_argument(window, 1 if load else None)
    common = {
        "warmup": warmup,
        "fill": fill,
        "metrics": ",".join(sorted(wanted)),
        "window": str(window) if "windows" in wanted and window is not None else "",
    }
    store = None if results is None else _Store(os.fspath(results))
    finished = _Finished(common, store)
    if store is not None:
        finished.add(store.read(), keep=False)
    missing: _Job = [
        (file, [cell for cell in cells if (file, cell) not in finished]) for file in files
    ]
    jobs = _jobs([(file, left) for file, left in missing if left], _cores())
    _run(jobs, finished, common, memory, load, retries)
    rows = finished.rows(itertools.product(files, cells))
    columns = [*SCHEMA.names, *wanted, "path", "size"]
    return ray.data.from_arrow(pa.Table.from_pylist(rows, _STORED).select(columns))


def _spec(policy: Any) -> str:
    spec = policy_argument(policy)
    if not isinstance(spec, str):
        raise TypeError(f"policies: {policy!r} is in Python; larder_cache.replay runs it")
    # As the rows have it: they are found by it.
    return _core.canonical_spec(spec)


def _cores() -> int:
    # Ray's function has no types.
    resources: Any = ray.cluster_resources
    return max(1, int(resources().get("CPU", 1)))


def _files(traces: Any, format: str | None) -> list[_File]:
    paths = [os.fspath(path) for path in listed(traces, "traces", str | os.PathLike)]
    files = []
    for path in paths:
        filesystem, inner = _filesystem(path)
        directory, _, name = inner.rpartition("/")
        if "*" in name:
            before, after = name.split("*", 1)
            found = [
                info
                for info in filesystem.get_file_info(fs.FileSelector(directory or "."))
                if info.is_file
                and info.base_name.startswith(before)
                and info.base_name.endswith(after)
            ]
            found.sort(key=lambda info: info.base_name)
            if not found:
                raise ValueError(f"{_url.shown(path)}: no file has such a name")
        else:
            found = [filesystem.get_file_info(inner)]
            if not found[0].is_file:
                raise ValueError(f"{_url.shown(path)}: no such file")
        for info in found:
            one = _sibling(path, info.base_name) if "*" in name else path
            files.append(_File(one, format, info.size, info.mtime_ns or 0))
    return files


def _split(path: str) -> tuple[str, str]:
    """Returns a path or URL without its query, and the query."""
    match = re.search(r"[?#]", path) if "://" in path else None
    end = match.start() if match else len(path)
    return path[:end], path[end:]


def _sibling(path: str, name: str) -> str:
    """Returns the path or URL of a file in the same directory."""
    place, query = _split(path)
    directory, slash, _ = place.rpartition("/")
    return directory + slash + (urllib.parse.quote(name) if "://" in path else name) + query


def _filesystem(path: str) -> tuple[fs.FileSystem, str]:
    if _url.is_web(path):
        raise ValueError(f"{_url.shown(path)}: a sweep reads no https://; download the file")
    filesystem, inner = _url.located(path, None)
    return (filesystem, inner) if filesystem else (fs.LocalFileSystem(), os.path.abspath(inner))


class _Store:
    """Finished rows in Parquet files in a directory of any file system."""

    def __init__(self, place: str) -> None:
        self._filesystem, self._directory = _filesystem(place)
        self._filesystem.create_dir(self._directory, recursive=True)

    def read(self) -> list[dict[str, Any]]:
        """Returns the rows of all files. Those of another version have other columns."""
        rows: list[dict[str, Any]] = []
        for info in self._filesystem.get_file_info(fs.FileSelector(self._directory)):
            if info.base_name.startswith("rows-") and info.base_name.endswith(".parquet"):
                table = pq.read_table(info.path, filesystem=self._filesystem, partitioning=None)
                rows.extend(table.to_pylist() if table.schema.equals(_STORED) else [])
        return rows

    def write(self, rows: list[dict[str, Any]]) -> None:
        """Adds a file, which has its name only when it is whole."""
        name = f"rows-{uuid.uuid4().hex}.parquet"
        part = f"{self._directory}/.{name}"
        table = pa.Table.from_pylist(rows, _STORED)
        pq.write_table(table, part, filesystem=self._filesystem)
        self._filesystem.move(part, f"{self._directory}/{name}")


class _Finished:
    """The finished rows by what they depend on."""

    def __init__(self, common: dict[str, Any], store: _Store | None) -> None:
        self._common = common
        self._store = store
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}

    def _key(self, file: _File, cell: _Cell) -> tuple[Any, ...]:
        place = _url.without_user(file.path)
        state = (place, file.format, file.length, file.modified)
        return (*state, *dataclasses.astuple(cell), *self._common.values())

    def __contains__(self, pair: tuple[_File, _Cell]) -> bool:
        return self._key(*pair) in self._rows

    def add(self, rows: list[dict[str, Any]], keep: bool = True) -> None:
        """Adds rows, and writes them into the store if they do not come from it."""
        for row in rows:
            file = _File(row["path"], row["format"], row["file_bytes"], row["file_modified"])
            cell = _Cell(row["policy"], row["size"], row["seed"])
            is_same = all(row[name] == value for name, value in self._common.items())
            if is_same and row["version"] == __version__:
                self._rows[self._key(file, cell)] = row
        if keep and self._store is not None and rows:
            self._store.write(rows)

    def rows(self, pairs: Iterable[tuple[_File, _Cell]]) -> list[dict[str, Any]]:
        """Returns the rows in this order."""
        return [self._rows[self._key(*pair)] for pair in pairs]


def _jobs(missing: _Job, cores: int) -> list[_Job]:
    """Splits traces with much work, and gathers those with little."""
    work = sum(file.requests * len(cells) for file, cells in missing)
    most = max(min(_LEAST_WORK, work // cores), work // (cores * _TASKS_PER_CORE)) + 1
    cells_of_core = -(-sum(len(cells) for _, cells in missing) // cores)
    least_rows = min(_ROWS_PER_READING, cells_of_core)
    jobs: list[_Job] = []
    gathered: _Job = []
    amount = 0
    for file, cells in missing:
        rows = max(least_rows, min(most // file.requests, cells_of_core))
        for start in range(0, len(cells), rows):
            part = cells[start : start + rows]
            gathered.append((file, part))
            amount += file.requests * len(part)
            if amount >= most or len(missing) < cores:
                jobs.append(gathered)
                gathered, amount = [], 0
    if gathered:
        jobs.append(gathered)
    return jobs


def _run(
    jobs: list[_Job],
    finished: _Finished,
    common: dict[str, Any],
    memory: int | None,
    load: bool,
    retries: int,
) -> None:
    """Runs all jobs. What is left of a job whose worker ended is a job again."""
    task = ray.remote(_replay_job)
    running: dict[Any, tuple[_Job, int]] = {}

    def start(job: _Job, tries: int) -> None:
        needed = memory or (max(file.memory for file, _ in job) if load else _BASE_MEMORY)
        options = task.options(
            num_cpus=1, memory=needed, num_returns="streaming", max_retries=0, name="larder sweep"
        )
        running[options.remote(job, common, load)] = (job, tries)

    if load and memory is None:
        _check_memory(jobs)
    for job in jobs:
        start(job, 0)
    try:
        while running:
            ready, _ = ray.wait(list(running), num_returns=1)
            stream: Any = ready[0]
            try:
                finished.add(ray.get(next(stream)))
            except StopIteration:
                del running[stream]
            except ray.exceptions.RayTaskError as error:
                # A mistake in the arguments or in a file, which another try would meet too.
                del running[stream]
                raise (error.cause or error) from None
            except ray.exceptions.RayError as error:
                job, tries = running.pop(stream)
                left = [
                    (file, [c for c in cells if (file, c) not in finished]) for file, cells in job
                ]
                left = [(file, cells) for file, cells in left if cells]
                if tries == retries:
                    raise
                warnings.warn(f"a worker ended, its rows are tried again: {error}", stacklevel=3)
                if left:
                    start(left, tries + 1)
    finally:
        for stream in running:
            # Ray 2.60 aborts this process if a task is cancelled in the moment in which its end
            # arrives ("Tried to complete task that was not pending"). This makes it rare.
            if not _has_ended(stream):
                ray.cancel(stream, force=True)


def _has_ended(stream: Any) -> bool:
    """Reads what the stream has, and returns whether it ends with that."""
    while ray.wait([stream], timeout=0)[0]:
        try:
            ray.get(next(stream))
        except (StopIteration, ray.exceptions.RayError):
            return True
    return False


def _check_memory(jobs: list[_Job]) -> None:
    """Refuses a task that no machine could run, which would wait for ever."""
    # Ray's function has no types.
    nodes: Any = ray.nodes
    memory = (node["Resources"].get("memory", 0) for node in nodes() if node["Alive"])
    largest = max(memory, default=0)
    for file, _ in itertools.chain.from_iterable(jobs):
        if file.memory > largest:
            raise ValueError(
                f"{_url.shown(file.path)}: needs about {file.memory >> 20} MiB in memory, the"
                f" largest machine has {int(largest) >> 20} MiB; give load=False, or the true need"
                " as memory=…"
            )


def _parts(file: _File, cells: list[_Cell]) -> list[list[tuple[str, str, int]]]:
    """Splits cells into those of one call each: all, if they are quick and a whole product."""
    each = [dataclasses.astuple(cell) for cell in cells]
    product = list(
        itertools.product(*(dict.fromkeys(values) for values in zip(*each, strict=True)))
    )
    is_quick = file.requests * len(cells) <= _QUICK_WORK
    return [each] if is_quick and each == product else [[cell] for cell in each]


def _replay_job(job: _Job, common: dict[str, Any], load: bool) -> Iterator[list[dict[str, Any]]]:
    """Computes the rows of a job in a worker, and yields them as they finish."""
    rows: list[dict[str, Any]] = []
    sent = time.monotonic()
    window: str = common["window"]
    for file, cells in job:
        trace = Trace(file.path, format=file.format)
        trace = trace.load() if load else trace
        for part in _parts(file, cells):
            found, _ = replay_rows(
                trace,
                *(list(dict.fromkeys(values)) for values in zip(*part, strict=True)),
                warmup=common["warmup"],
                fill=common["fill"],
                metrics=common["metrics"].split(",") if common["metrics"] else (),
                window=int(window) if window.isdigit() else window or None,
                threads=1,
            )
            rows.extend(
                {
                    **row,
                    **common,
                    # Rows are kept and shown to others, a password is not.
                    "path": _url.without_user(file.path),
                    "size": size,
                    "format": file.format,
                    "file_bytes": file.length,
                    "file_modified": file.modified,
                    "version": __version__,
                }
                for row, (_, size, _) in zip(found, part, strict=True)
            )
            if time.monotonic() - sent >= _SEND_SECONDS:
                yield rows
                rows, sent = [], time.monotonic()
    if rows:
        yield rows


__all__: Sequence[str] = ["sweep"]
