"""Hit ratios over the size of the cache: curves, models, intervals over seeds."""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from . import _core, _url
from ._progress import Bar
from ._replay import Interrupted, SizeLike, listed, size_text
from ._trace import Trace, several

_CURVE = pa.schema(
    [
        ("trace", pa.string()),
        ("policy", pa.string()),
        ("capacity", pa.uint64()),
        ("unit", pa.string()),
        ("object_hit_ratio", pa.float64()),
        ("object_error", pa.float64()),
        ("byte_hit_ratio", pa.float64()),
        ("byte_error", pa.float64()),
        ("error_is_least", pa.bool_()),
        ("size_changes", pa.uint64()),
        ("sample", pa.float64()),
        ("requests", pa.uint64()),
    ]
)

_PREDICTION = pa.schema(
    [
        ("trace", pa.string()),
        ("policy", pa.string()),
        ("model", pa.string()),
        ("capacity", pa.uint64()),
        ("unit", pa.string()),
        ("object_hit_ratio", pa.float64()),
        ("byte_hit_ratio", pa.float64()),
        ("insertion_ratio", pa.float64()),
    ]
)


def curve(
    trace: Any,
    policies: str | Sequence[str] = "lru",
    sizes: SizeLike | Iterable[SizeLike] | None = None,
    *,
    points: int = 16,
    sample: float = 1.0,
    seed: int = 1,
    fill: bool = True,
    progress: bool | None = None,
) -> pa.Table:
    """Returns the hit ratio of policies over the size of the cache, exactly or from a sample.

    The points are those of ``larder curve``. LRU's curve is computed at all sizes at once. Other
    policies run a cache for each size. With ``sample``, they follow a share of the objects, chosen
    by a hash, in a cache of that share of the size (SHARDS, miniature simulation), and state the
    error with 95 % confidence: ``object_error`` and ``byte_error``, 0 where nothing was left out.

    >>> table = curve(Trace.generate(5000, objects=1000), ["lru", "s3fifo"], [100, 400])
    >>> table.num_rows, table["object_error"].to_pylist()
    (4, [0.0, 0.0, 0.0, 0.0])

    Args:
        trace: A trace, anything that :class:`Trace` accepts, or a list of paths and traces, whose
            curves follow each other. A list of texts is a list of paths, as in :func:`replay`.
        policies: Specs, as :func:`policies` lists them.
        sizes: Capacities, as in :func:`replay`. None: ``points`` sizes.
        points: The number of sizes, from a thousandth of the bytes of all objects up to all.
        sample: The share of the objects to follow, such as 0.01.
        seed: The seed of the sample and of all random choices.
        fill: As in :func:`replay`.
        progress: As in :func:`replay`.
    """
    traces = several(trace)
    if len(traces) > 1:
        tables = [
            curve(
                each,
                policies,
                sizes,
                points=points,
                sample=sample,
                seed=seed,
                fill=fill,
                progress=progress,
            )
            for each in traces
        ]
        return pa.concat_tables(tables)
    source = traces[0]
    specs = listed(policies, "policies", str)
    texts = size_texts(sizes)
    if not 0 < points <= 1000:
        raise ValueError(f"points: {points} sizes, give 1 to 1000")
    for spec in specs:
        if not isinstance(spec, str):
            kind = type(spec).__name__
            raise TypeError(f"policies: {spec!r} is a {kind}, curves take specs; see replay()")
    bar = Bar(None, "requests", progress)
    with contextlib.closing(bar), _url.named_copies():
        rows, is_whole = _core.curve(
            source._source,
            specs,
            texts,
            points=points,
            sample=sample,
            seed=seed,
            fill=fill,
            progress=bar,
        )
    if not is_whole:
        warnings.warn(f"interrupted: {len(rows)} points are finished", Interrupted, stacklevel=2)
    return pa.Table.from_pylist([json.loads(row) for row in rows], _CURVE)


def predict(
    trace: Any,
    sizes: SizeLike | Iterable[SizeLike],
    *,
    theta: int = 2,
    window: int | None = None,
    table: int = 1 << 24,
    admit: int | str | None = None,
) -> pa.Table:
    """Returns what the models of the literature predict from the popularity of the objects.

    They assume independent requests: FIFO and Random by Gelenbe, LRU by Che's approximation, FIFO
    behind the Filter by equations (3) to (7) of its paper, LFU by the most requested objects, and
    LRU behind AdaptSize's two admissions by size. The row without a policy bounds every policy that
    stores a fixed set. A replay tells how much the order of the requests matters beside their
    popularity. The rows are those of ``larder predict``.

    >>> table = predict(Trace.generate(5000, objects=1000), 100)
    >>> table["policy"].to_pylist()[:3], table["policy"].to_pylist()[4:]
    (['fifo', 'random', 'lru'], ['lfu', None])
    >>> table["policy"][3].as_py()
    'filter(theta=2,window=100,table=16777216)+fifo'

    Args:
        trace: A trace, or anything that :class:`Trace` accepts.
        sizes: Capacities, as in :func:`replay`.
        theta: Filter: requests in the history that admit an object, the current one included.
        window: Filter: requests in the history. None: as many as objects that fit into the cache,
            at least ``theta``, at most 2**24 and the slots of the table; a warning says if it is
            changed to these limits.
        table: Filter: slots of the counter table, a power of two.
        admit: Also predict ``threshold(c=admit)+lru`` and ``expsize(c=admit)+lru``: bytes, or a
            text such as "64KiB".
    """
    source = trace if isinstance(trace, Trace) else Trace(trace)
    texts = size_texts(sizes)
    _check_whole("theta", theta, 65_535)
    _check_whole("window", window, 1 << 63)
    _check_whole("table", table, 1 << 63)
    _check_whole("admit", None if isinstance(admit, str) else admit, 1 << 63)
    with _url.named_copies():
        rows, notes = _core.predict(
            source._source,
            texts,
            theta=theta,
            window=window,
            table=table,
            admit=None if admit is None else str(admit),
        )
    for note in notes:
        warnings.warn(note, stacklevel=2)
    return pa.Table.from_pylist([json.loads(row) for row in rows], _PREDICTION)


def _check_whole(name: str, value: Any, most: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; give a whole number")
    if not 1 <= value <= most:
        raise ValueError(f"{name}={value}: give 1 to {most}")


def size_texts(sizes: SizeLike | Iterable[SizeLike] | None) -> list[str]:
    if sizes is None:
        return []
    return [size_text(size) for size in listed(sizes, "sizes", str | int | float | np.number)]


#: Student's t for 95 % and 1 to 30 degrees of freedom.
_STUDENT = [
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
]


def over_seeds(table: pa.Table) -> pa.Table:
    """Returns the means over the seeds of :func:`replay`, with 95 % confidence intervals.

    The true mean over all seeds is within ``object_error`` of ``object_hit_ratio`` (Student's t),
    and likewise for bytes. The error is null where there is one seed.

    >>> from larder_cache import replay
    >>> table = replay(Trace.generate(2000, objects=500), "random", 50, seeds=range(5))
    >>> over_seeds(table).select(["policy", "seeds"]).to_pylist()
    [{'policy': 'random', 'seeds': 5}]
    """
    keys = ("trace", "policy", "capacity", "unit", "fill")
    ratios = {"object": "object_hit_ratio", "byte": "byte_hit_ratio"}
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in table.select([*keys, *ratios.values()]).to_pylist():
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    means = []
    for group, rows in groups.items():
        mean = {**dict(zip(keys, group, strict=True)), "seeds": len(rows)}
        for short, ratio in ratios.items():
            values = [row[ratio] for row in rows]
            mean[ratio] = statistics.fmean(values)
            mean[f"{short}_error"] = _half_width(values)
        means.append(mean)
    numbers = [("object_hit_ratio", "object_error"), ("byte_hit_ratio", "byte_error")]
    fields = [table.schema.field(key) for key in keys] + [pa.field("seeds", pa.uint64())]
    fields += [pa.field(name, pa.float64()) for pair in numbers for name in pair]
    return pa.Table.from_pylist(means, pa.schema(fields))


def _half_width(values: list[float]) -> float | None:
    if len(values) < 2:
        return None
    freedom = len(values) - 1
    # Beyond the table, by its expansion around the normal quantile, within .0001.
    far = 1.95996 + 2.3723 / freedom + 2.8225 / freedom**2
    student = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else far
    return student * statistics.stdev(values) / math.sqrt(len(values))
