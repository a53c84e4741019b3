"""Replays of traces through cache policies."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from . import _core, _url
from ._progress import Bar
from ._trace import Trace, several

PolicyLike: TypeAlias = "str | Callable[[int, int], object]"
SizeLike: TypeAlias = "int | float | str"

#: The columns of :func:`replay`.
SCHEMA = pa.schema(
    [
        ("trace", pa.string()),
        ("policy", pa.string()),
        ("capacity", pa.uint64()),
        ("unit", pa.string()),
        ("seed", pa.uint64()),
        ("fill", pa.bool_()),
        ("requests", pa.uint64()),
        ("hits", pa.uint64()),
        ("object_hit_ratio", pa.float64()),
        ("byte_hit_ratio", pa.float64()),
        ("insertion_ratio", pa.float64()),
        ("requests_per_second", pa.float64()),
        ("insertions", pa.uint64()),
        ("bytes", pa.uint64()),
        ("hit_bytes", pa.uint64()),
    ]
)

_PART = pa.struct(
    [
        (name, pa.uint64())
        for name in ("start", "requests", "hits", "insertions", "bytes", "hit_bytes")
    ]
)
#: The columns of further figures.
METRICS = {
    "windows": pa.list_(_PART),
    "size_classes": pa.list_(_PART),
    "evictions": pa.struct(
        [
            ("evictions", pa.uint64()),
            ("without_hit", pa.uint64()),
            ("mean_age", pa.float64()),
            ("ages", pa.list_(pa.uint64())),
        ]
    ),
}


class Interrupted(UserWarning):
    """Ctrl-C ended a call early: the table has the rows that were finished."""


def policies() -> pa.Table:
    """Returns the policies that a spec can name, one row each.

    >>> "s3fifo" in policies().column("name").to_pylist()
    True
    """
    return pa.Table.from_pylist([json.loads(policy) for policy in _core.policies()])


def replay(
    trace: Any,
    policies: PolicyLike | Iterable[PolicyLike],
    sizes: SizeLike | Iterable[SizeLike],
    *,
    warmup: int = 0,
    seeds: int | Iterable[int] = 1,
    fill: bool = True,
    metrics: str | Iterable[str] = (),
    window: int | str | None = None,
    progress: bool | None = None,
) -> pa.Table:
    """Replays every policy at every size with every seed, on all cores.

    The rows are those of ``larder replay`` with the same arguments. The interpreter's lock is
    released. Ctrl-C stops within a tenth of a second, and the table has the rows that are finished
    (with a warning, :class:`Interrupted`): of a trace in memory each row as it is done, of a file
    all of them at its end. A call of a policy in Python that does not return is waited for.

    >>> trace = Trace({"id": [1, 2, 1, 3, 1, 2], "size": [4, 5, 4, 3, 4, 5]})
    >>> table = replay(trace, ["lru", "fifo"], [8, "100%"])
    >>> table.select(["policy", "capacity", "hits"]).to_pydict()
    {'policy': ['lru', 'lru', 'fifo', 'fifo'], 'capacity': [8, 12, 8, 12], 'hits': [1, 3, 1, 3]}

    Args:
        trace: A trace, anything that :class:`Trace` accepts, or a list of paths and traces. A list
            of texts is a list of paths, as in :func:`advise`: for a list of ids, make a
            :class:`Trace` of it.
        policies: Specs, as :func:`policies` lists them (``"lru"``, ``"filter(theta=2)+fifo"``), or
            policies in Python: see :class:`Policy`.
        sizes: Capacities: bytes, or objects if they have no sizes, as numbers (1000) or with a
            unit ("64MiB"); or shares of the bytes of all objects, as fractions (0.1) or "10%".
        warmup: The number of first requests that no figure counts.
        seeds: Seeds of all random choices, one row for each.
        fill: Store without asking the admission policy until the first object has to leave, as
            the node's caches do. False asks for every object, as the papers do.
        metrics: Further columns: ``"windows"``, the counts over time; ``"size_classes"``, the
            counts by the power of ten of the size; ``"evictions"``, a histogram of the ages of
            evicted objects in requests, where place n counts ages below 2 ** n. :func:`explode`
            makes a table of one of them.
        window: The length of a window: a number of requests, or a time such as ``"1h"`` (ns, us,
            ms, s, m, h, d). None: a hundredth of the trace in memory.
        progress: Show a progress bar. None: in terminals and notebooks.

    Returns:
        One row for each trace, policy, size and seed, in this order. ``requests_per_second`` counts
        processor time of the replay alone.

    Raises:
        ValueError: A spec, a size or a trace that cannot be used, with the remedy.
        TypeError: An argument of another type, or a list of object ids, which is taken for a list
            of paths; make a Trace of it.

    """
    traces = several(trace)
    specs = [policy_argument(policy) for policy in listed(policies, "policies", str | Callable)]
    capacities = [size_text(size) for size in listed(sizes, "sizes", str | int | float | np.number)]
    numbers = _seeds(seeds)
    if warmup < 0:
        raise ValueError(f"warmup {warmup}: it is a number of requests")
    wanted = chosen_metrics(metrics)
    rows: list[dict[str, Any]] = []
    for each in traces:
        each = each if isinstance(each, Trace) else Trace(each)
        count = len(each) if each.in_memory else None
        cells = len(specs) * len(capacities) * len(numbers)
        with contextlib.closing(Bar(count and count * cells, "requests", progress)) as bar:
            found, is_whole = replay_rows(
                each,
                specs,
                capacities,
                numbers,
                warmup=warmup,
                fill=fill,
                metrics=wanted,
                window=window,
                progress=bar,
            )
        rows.extend(found)
        if not is_whole:
            whole = cells * len(traces)
            message = f"interrupted: {len(rows)} of {whole} rows are finished"
            warnings.warn(message, Interrupted, stacklevel=2)
            break
    return pa.Table.from_pylist(rows, pa.schema([*SCHEMA, *((m, METRICS[m]) for m in wanted)]))


def replay_rows(
    trace: Trace,
    specs: list[Any],
    sizes: list[str],
    seeds: list[int],
    *,
    warmup: int,
    fill: bool,
    metrics: Sequence[str],
    window: int | str | None,
    progress: Callable[[int], object] | None = None,
    threads: int | None = None,
) -> tuple[list[dict[str, Any]], bool]:
    """Returns the rows of a trace that are finished, and whether all are; on so many threads."""
    count = len(trace) if trace.in_memory else None
    if count is not None and warmup >= count:
        raise ValueError(f"warmup {warmup}: the trace has only {count} requests")
    with _url.named_copies():
        found, is_whole = _core.replay(
            trace._source,
            specs,
            sizes,
            seeds=seeds,
            warmup=warmup,
            fill=fill,
            windows=window_argument(window, count) if "windows" in metrics else None,
            size_classes="size_classes" in metrics,
            evictions="evictions" in metrics,
            progress=progress,
            threads=threads,
        )
    return [json.loads(row) for row in found], is_whole


def chosen_metrics(metrics: str | Iterable[str]) -> list[str]:
    wanted = [metrics] if isinstance(metrics, str) else list(dict.fromkeys(metrics))
    for metric in wanted:
        if metric not in METRICS:
            raise ValueError(f"metrics: {metric!r} is none of {', '.join(METRICS)}")
    return wanted


#: Nanoseconds of each unit of a window.
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86_400 * 10**9,
}


def window_argument(window: int | str | None, requests: int | None) -> tuple[str, int]:
    if window is None:
        if requests is None:
            raise ValueError("window: the length of a file is unknown; give a number or a time")
        return ("requests", max(1, requests // 100))
    if isinstance(window, str):
        digits = window.rstrip("nusmhd")
        unit = _UNITS.get(window[len(digits) :])
        try:
            nanoseconds = round(float(digits) * unit) if unit else 0
        except (ValueError, OverflowError):
            nanoseconds = 0
        if not 0 < nanoseconds < 2**64:
            raise ValueError(f"window: {window!r} is no time such as '10s' or '1h'")
        return ("ns", nanoseconds)
    if not isinstance(window, int) or window < 1:
        raise ValueError(f"window: {window!r} is no number of requests, from 1")
    return ("requests", window)


def explode(table: pa.Table, metric: str) -> pa.Table:
    """Returns one row for each window, or each size class, of the rows of :func:`replay`.

    >>> trace = Trace({"id": [1, 2, 1, 3], "size": [5, 50, 5, 7]})
    >>> table = replay(trace, "lru", 100, metrics="size_classes")
    >>> explode(table, "size_classes").select(["policy", "start", "requests", "hits"]).to_pydict()
    {'policy': ['lru', 'lru'], 'start': [1, 10], 'requests': [3, 1], 'hits': [1, 0]}
    """
    if metric not in table.column_names or not pa.types.is_list(table.schema.field(metric).type):
        raise ValueError(f"{metric!r} is no column of windows or size classes of this table")
    keys = ["trace", "policy", "capacity", "unit", "seed"]
    rows = [
        {**{key: row[key] for key in keys}, **part}
        for row in table.select([*keys, metric]).to_pylist()
        for part in row[metric] or []
    ]
    fields = [SCHEMA.field(key) for key in keys] + list(_PART)
    exploded = pa.Table.from_pylist(rows, pa.schema(fields))
    ratios = [row["hits"] / row["requests"] if row["requests"] else None for row in rows]
    return exploded.append_column("object_hit_ratio", pa.array(ratios, pa.float64()))


def listed(argument: Any, name: str, single: Any) -> list[Any]:
    """Returns a list of one or several arguments."""
    if isinstance(argument, single):
        return [argument]
    try:
        listed = list(argument)
    except TypeError:
        raise TypeError(f"{name}: {argument!r} is a {type(argument).__name__}") from None
    if not listed:
        raise ValueError(f"{name}: give at least one")
    return listed


def _seeds(seeds: int | Iterable[int]) -> list[int]:
    numbers = listed(seeds, "seeds", int | np.integer | str)
    for seed in numbers:
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise ValueError(f"seeds: {seed!r} is no whole number from 0")
    return [int(seed) for seed in numbers]


def policy_argument(policy: Any) -> Any:
    if isinstance(policy, str):
        return policy
    if not callable(policy):
        kind = type(policy).__name__
        raise TypeError(
            f"policies: {policy!r} is a {kind}; give a spec such as 'lru', or a class of a policy"
        )
    return (_policy_name(policy), policy)


def _policy_name(policy: Any) -> str:
    if isinstance(policy, functools.partial):
        arguments = [*map(repr, policy.args), *(f"{k}={v!r}" for k, v in policy.keywords.items())]
        return f"{_policy_name(policy.func)}({','.join(arguments)})"
    return str(getattr(policy, "__name__", type(policy).__name__))


def size_text(size: Any) -> str:
    if isinstance(size, str):
        return size
    if isinstance(size, bool) or not isinstance(size, int | float | np.number):
        raise TypeError(f"sizes: {size!r} is a {type(size).__name__}; give a number or a text")
    number = size.item() if isinstance(size, np.number) else size
    if not isinstance(number, float) or not math.isfinite(number):
        return str(number)
    # A whole number of bytes, such as 1e9. 1.0 may be meant as a share, and is refused.
    return str(int(number)) if number > 1 and number.is_integer() else f"{Decimal(repr(number)):f}"
