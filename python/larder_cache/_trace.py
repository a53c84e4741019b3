"""Traces: from arrays, frames, tables and files."""

from __future__ import annotations

import json
import os
import stat
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from . import _columns, _core, _url

#: Names of columns that need not be given, in any case: those of the command line, and ``url``.
_USUAL = {
    "id": ("id", "object", "obj", "obj_id", "object_id", "key", "url"),
    "size": ("size", "obj_size", "object_size", "bytes"),
    "time": ("time", "timestamp", "ts"),
}

#: A list of texts is one of paths if so many at its start are. A list of ids may be long.
_LOOKED_AT = 4
#: The longest list of texts that is taken for one of paths and URLs.
_MAX_PATHS = 1000
_IDS_REMEDY = "for object ids, make a Trace of the list"


@dataclass(frozen=True)
class FileOptions:
    """How a file is read, as the flags of ``larder replay`` say it."""

    format: str | None
    columns: str | None
    log_format: str | None
    host: str | None
    time_unit: str | None
    uncacheable: list[str]
    ttl: float | None
    writes: bool
    max_bad: float


_Arrays: TypeAlias = "tuple[_columns.U64, _columns.U64 | None, _columns.U64 | None]"


class Trace:
    """The requests that caches are replayed with.

    A trace is made from

    * a **path** or URL (``https://``, ``s3://``, ``gs://``, ``file://``): a file of any format that
      ``larder replay`` reads, which is read as a stream by every call that needs it; :meth:`load`
      reads it into memory once. A file of another machine is first copied into a temporary
      directory, up to 64 GiB, and deleted with the trace. A Parquet file is read into memory at
      once, of ``s3://`` and ``gs://`` the columns of the trace only;
    * a **frame**: pandas, Polars (a LazyFrame is collected), an Arrow table or record batch, a
      NumPy structured array, or a mapping of arrays;
    * an **array** of ids: NumPy, a pandas or Polars series, an Arrow array, or a list.

    Columns are found by their usual names (``id``, ``size``, ``time``, and others), or given by
    name. Without sizes, every object counts as one, and cache sizes are numbers of objects. Numbers
    of 64 bits are used in place, without a copy, so do not change the array during a call.

    >>> import numpy as np
    >>> trace = Trace(np.array([1, 2, 1, 3, 1]))
    >>> len(trace)
    5
    >>> Trace({"url": ["/a", "/b", "/a"], "bytes": [10, 20, 10]}).head(2).column_names
    ['id', 'size', 'time']

    An error names the column and the row:

    >>> Trace({"id": [1, 2], "size": [10, -1]})
    Traceback (most recent call last):
    ...
    ValueError: column 'size', row 1: -1 is negative

    Args:
        source: The path, URL, frame or array.
        id: The column of ids: integers, strings or bytes.
        size: The column of sizes in bytes. None: the usual names, if there is one.
        time: The column of times: timestamps, or seconds. None: the usual names, if there is one.
        name: The name in results.
        format: The format of a file, as ``larder replay --format`` takes it.
        columns: The columns of a text file, such as ``"time=1,id=key,size=3"``.
        limit: Keep at most this many requests.
        log_format: The format of a log's lines: a name that ``larder replay --help`` lists, or a
            pattern in the notation of nginx, Apache or goaccess.
        host: The host of a log's requests whose lines name none.
        time_unit: The unit of times that are numbers: s, ms, us or ns.
        uncacheable: URLs whose responses no cache stores, such as ``["/api/*"]``.
        ttl: Seconds for which a copy of an object is fresh.
        writes: Count the writes of block traces too.
        max_bad: The largest share of bad lines, which are skipped. 0: the first one is an error.
        filesystem: The file system of pyarrow in which the path is, such as an ``S3FileSystem`` of
            one's own server. None: this machine, or the one that the URL names.

    """

    def __init__(
        self,
        source: Any,
        *,
        id: str | None = None,
        size: str | None = None,
        time: str | None = None,
        name: str | None = None,
        format: str | None = None,
        columns: str | None = None,
        limit: int | None = None,
        log_format: str | None = None,
        host: str | None = None,
        time_unit: str | None = None,
        uncacheable: Iterable[str] = (),
        ttl: float | None = None,
        writes: bool = False,
        max_bad: float = 0.01,
        filesystem: Any = None,
    ) -> None:
        self._length: int | None = None
        if limit is not None and limit < 1:
            raise ValueError(f"limit {limit}: keep at least one request")
        given = {"id": id, "size": size, "time": time}
        patterns = [uncacheable] if isinstance(uncacheable, str) else list(uncacheable)
        options = FileOptions(
            format, columns, log_format, host, time_unit, patterns, ttl, writes, max_bad
        )
        if _is_several(source) and all(map(_is_file, source[:_LOOKED_AT])):
            raise TypeError("a list of paths is several traces: make a Trace of each")
        if isinstance(source, str | os.PathLike):
            filesystem, path = _url.located(os.fspath(source), filesystem)
            name = name or _url.name_of(path)
            may_be_parquet = format in (None, "parquet")
            is_here = filesystem is None and not _url.is_web(path)
            if not is_here and not (filesystem and may_be_parquet and _has_suffix(path)):
                copy = _url.Copy(path, filesystem)
                weakref.finalize(self, copy.remove)
                filesystem, path = None, copy.path
            if not may_be_parquet or not _is_parquet(path, filesystem):
                self._source = _core.Source.file(name, path, options, limit)
                return
            if columns is not None:
                shown = _url.shown(os.fspath(source))
                raise ValueError(
                    f"{shown} is a Parquet file: name its columns by id=, size=, time="
                )
            with _url.named_copies():
                source = _parquet(path, given, filesystem)
        elif format is not None or columns is not None or filesystem is not None:
            raise TypeError(
                "format, columns and filesystem describe files, this trace is in memory"
            )
        frame = _frame(source, given)
        if frame is None:
            self._keep((_columns.ids(source, id or "id"), None, None), name, limit)
        else:
            self._keep(_arrays(frame, given), name, limit)

    def _keep(
        self, arrays: _Arrays, name: str | None, limit: int | None = None, is_log: bool = False
    ) -> None:
        ids, sizes, times = (None if array is None else array[:limit] for array in arrays)
        assert ids is not None
        if len(ids) == 0:
            raise ValueError("the trace has no rows")
        self._length = len(ids)
        self._source = _core.Source.columns(name or "trace", ids, sizes, times, is_log)

    def _read(
        self, most: int | None = None, rate: float = 1.0, seed: int = 0
    ) -> tuple[_core.Arrays, bool]:
        """Returns requests, and whether they come from a web server's log."""
        with _url.named_copies():
            return self._source.read(most, rate, seed)

    @property
    def name(self) -> str:
        """The name in results."""
        return self._source.name

    @property
    def in_memory(self) -> bool:
        """True if the requests are in memory, false if a file is read."""
        return self._length is not None

    def __len__(self) -> int:
        """Returns the number of requests, which is known of a trace in memory."""
        if self._length is None:
            raise TypeError(f"{self.name} is a file, its length is unknown; load() it")
        return self._length

    def __repr__(self) -> str:
        requests = "a file" if self._length is None else f"{self._length} requests"
        return f"<Trace {self.name}: {requests}>"

    def load(self) -> Trace:
        """Returns the trace in memory, 24 bytes for each request.

        Calls over a trace in memory do not read and decompress the file again, and a call that is
        interrupted returns the rows that are finished.
        """
        if self.in_memory:
            return self
        arrays, is_log = self._read()
        return Trace._of(arrays, self.name, is_log)

    @staticmethod
    def _of(arrays: _Arrays, name: str, is_log: bool = False) -> Trace:
        trace = Trace.__new__(Trace)
        trace._length = None
        trace._keep(arrays, name, is_log=is_log)
        return trace

    @staticmethod
    def generate(
        requests: int,
        *,
        objects: int = 1_000_000,
        exponent: float = 0.8,
        shift: float = 0.0,
        size: int = 1,
        requests_per_second: float = 1000.0,
        locality: float | None = None,
        seed: int = 1,
        name: str | None = None,
    ) -> Trace:
        """Generates independent requests by popularity, at the times of a Poisson process.

        The requests are those of ``larder trace generate zipf-mandelbrot`` with these arguments.

        >>> trace = Trace.generate(1000, objects=100, exponent=1.0)
        >>> len(trace), trace.info()["objects"] <= 100
        (1000, True)

        Args:
            requests: The number of requests.
            objects: The number of objects of the catalogue.
            exponent: The rank k has a probability proportional to 1 / (k + shift) ** exponent.
            shift: Flattens the most popular ranks; 0 is Zipf's law.
            size: The size of every object in bytes.
            requests_per_second: The mean rate.
            locality: Each object's requests fall into a window of the trace, whose length is
                log-uniform between this share (0.01) and all of it.
            seed: The seed of all random choices.
            name: The name in results.
        """
        arrays = _core.Source.generate(
            requests,
            objects=objects,
            exponent=exponent,
            shift=shift,
            size=size,
            requests_per_second=requests_per_second,
            locality=locality,
            seed=seed,
        )
        return Trace._of(arrays, name or f"zipf({exponent:g})")

    def sample(self, rate: float, *, seed: int = 1) -> Trace:
        """Returns the requests for a share of the objects, in memory.

        A hash chooses the objects, so all requests for one are kept or none (SHARDS). A cache of
        ``rate`` times the size has about the hit ratio of the whole one. :func:`curve` does that,
        and states the error.
        """
        arrays, is_log = self._read(None, rate, seed)
        return Trace._of(arrays, f"{self.name} sampled {rate:g}", is_log)

    def filter(self, mask: Any) -> Trace:
        """Returns the requests at which a mask is true, in memory.

        >>> trace = Trace({"id": [1, 2, 3], "size": [10, 2_000_000, 30]})
        >>> import pyarrow.compute as pc
        >>> len(trace.filter(pc.less(trace.to_arrow()["size"], 1_000_000)))
        2
        """
        kept = np.asarray(mask)
        if kept.dtype != bool or kept.ndim != 1:
            raise TypeError(f"mask: an array of booleans, this one is of {kept.dtype}")
        (ids, sizes, times), is_log = self._read()
        if len(kept) != len(ids):
            raise ValueError(f"mask: {len(kept)} values, the trace has {len(ids)} requests")
        return Trace._of((ids[kept], sizes[kept], times[kept]), self.name, is_log)

    def info(self) -> dict[str, Any]:
        """Returns what the trace holds: requests, objects, bytes, sizes and popularity.

        >>> Trace({"id": [1, 2, 1], "size": [10, 20, 10]}).info()["unique_bytes"]
        30
        """
        with _url.named_copies():
            return cast("dict[str, Any]", json.loads(self._source.info()))

    def head(self, requests: int = 5) -> pa.Table:
        """Returns the first requests: ids, sizes in bytes, times since the trace's start of time.

        The times are whole microseconds, as those of Python; :meth:`to_arrow` has nanoseconds.

        >>> Trace([7, 8]).head().select(["id", "size"]).to_pydict()
        {'id': [7, 8], 'size': [1, 1]}
        """
        table = _table(self._read(requests)[0])
        times = table["time"].cast(pa.duration("us"), safe=False)
        return table.set_column(2, "time", times)

    def to_arrow(self) -> pa.Table:
        """Returns all requests: ids, sizes in bytes, times in ns. The table is a trace again."""
        return _table(self._read()[0])


def _is_file(source: Any) -> bool:
    is_name = isinstance(source, str) and os.path.isfile(source)
    return is_name or isinstance(source, os.PathLike | Trace)


def _is_several(source: Any) -> bool:
    """Returns true for a list of paths, URLs and traces."""
    is_list = isinstance(source, list | tuple) and len(source) > 0
    return is_list and all(isinstance(each, str | os.PathLike | Trace) for each in source)


def several(source: Any) -> list[Trace]:
    """Returns the traces of a list of paths, URLs and traces, or the one of anything else."""
    if not _is_several(source):
        return [source if isinstance(source, Trace) else Trace(source)]
    _refuse_ids(source)
    try:
        return [each if isinstance(each, Trace) else Trace(each) for each in source]
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}; {_IDS_REMEDY}") from None


def _refuse_ids(sources: Any) -> None:
    """Raises TypeError if a list of texts is one of object ids, before a URL of it is fetched."""
    texts = [each for each in sources if isinstance(each, str)]
    if len(texts) > _MAX_PATHS and not all(map(_is_file, texts[:_LOOKED_AT])):
        raise TypeError(f"{len(texts)} texts are taken for paths and URLs; {_IDS_REMEDY}")
    seen: set[str] = set()
    for text in texts:
        if text in seen and not _is_file(text):
            shown = _url.shown(text)
            raise TypeError(f"{shown!r} is in the list of paths and URLs twice; {_IDS_REMEDY}")
        seen.add(text)


def _table(arrays: _core.Arrays) -> pa.Table:
    ids, sizes, times = arrays
    return pa.table({"id": ids, "size": sizes, "time": times.view("m8[ns]")})


def _has_suffix(path: str) -> bool:
    return path.lower().endswith((".parquet", ".pq"))


def _is_parquet(path: str, filesystem: Any) -> bool:
    """Returns true if a Parquet file has such a name or such first bytes."""
    if filesystem is not None:
        return True
    # Raises FileNotFoundError and its like, which name the path.
    if not stat.S_ISREG(os.stat(path).st_mode) or _has_suffix(path):
        return _has_suffix(path)
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _parquet(path: str, given: dict[str, str | None], filesystem: Any) -> pa.Table:
    """Reads the columns that the trace has."""
    import pyarrow.fs as fs
    import pyarrow.parquet as pq

    filesystem = filesystem or fs.LocalFileSystem(use_mmap=True)

    def read() -> pa.Table:
        names = pq.read_schema(path, filesystem=filesystem).names
        chosen = [name for name in _chosen(names, given).values() if name is not None]
        return pq.read_table(path, columns=chosen, filesystem=filesystem)

    try:
        return _url.unless_interrupted(read)
    except pa.ArrowException as error:
        raise ValueError(f"{path}: {error}") from None


def _frame(source: Any, given: dict[str, str | None]) -> Mapping[str, Any] | None:
    """Returns the columns of a frame by name, or None if it is a single column."""
    if hasattr(source, "collect_schema") and hasattr(source, "collect"):
        # A LazyFrame of Polars: the columns of the trace only.
        chosen = _chosen(source.collect_schema().names(), given).values()
        source = source.select([name for name in chosen if name is not None]).collect()
    if isinstance(source, Mapping):
        return source
    if isinstance(source, np.ndarray):
        names = source.dtype.names
        return None if names is None else {name: source[name] for name in names}
    if isinstance(source, pa.Table | pa.RecordBatch):
        return {name: source.column(name) for name in source.column_names}
    # A frame of pandas or Polars; a series has no columns.
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        return {str(name): source[name] for name in source.columns}
    return None


def _chosen(columns: Iterable[Any], given: dict[str, str | None]) -> dict[str, str | None]:
    """Returns the column of each role: the one that is given, or has a usual name."""
    columns = list(columns)
    shown = ", ".join(map(repr, columns)) or "none"
    chosen: dict[str, str | None] = {}
    for role, name in given.items():
        if name is not None and name not in columns:
            raise ValueError(f"{role}={name!r}: the columns are {shown}")
        usual = [] if name else [each for each in columns if str(each).lower() in _USUAL[role]]
        if len(usual) > 1:
            raise ValueError(f"{role}: the columns {usual} could all be it; give {role}=…")
        chosen[role] = name or next(iter(usual), None)
    if chosen["id"] is None:
        raise ValueError(f"no column of ids: give id=…, the columns are {shown}")
    return chosen


def _arrays(frame: Mapping[str, Any], given: dict[str, str | None]) -> _Arrays:
    chosen = _chosen(frame, given)
    id, size, time = chosen["id"], chosen["size"], chosen["time"]
    assert id is not None
    lengths = {name: len(frame[name]) for name in (id, size, time) if name is not None}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns have different lengths: {lengths}")
    return (
        _columns.ids(frame[id], id),
        None if size is None else _columns.sizes(frame[size], size),
        None if time is None else _columns.times(frame[time], time),
    )
