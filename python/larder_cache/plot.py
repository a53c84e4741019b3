"""Figures on the axes of matplotlib, one colour for each policy.

The colours are those of the figures of the command line: Okabe's and Ito's, which readers with any
colour vision tell apart, then four of Tol's. A policy keeps its colour in all figures of a process.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ._curve import over_seeds
from ._replay import explode

COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#9A6A00"),
    *("#566B8C", "#882255", "#332288", "#7A7A1E", "#2A9DB5"),
)

_places: dict[str, int] = {}


def style(policy: str) -> dict[str, Any]:
    """Returns the colour of a policy, and the dashes that tell more than ten policies apart.

    >>> style("lru") == style("lru"), style("lru") == style("fifo")
    (True, False)
    """
    place = _places.setdefault(policy, len(_places))
    dashes = ("-", "--", ":", "-.")[place // len(COLOURS) % 4]
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": dashes}


def hit_ratio(table: pa.Table, ax: Any = None, *, bytes: bool = False) -> Any:
    """Draws the hit ratio over the size: of :func:`~larder_cache.replay`, or of a curve.

    Several seeds are drawn as their mean, and errors as bands. A bound is dotted: Belady's policies
    know the trace in advance, and ``belady`` is no bound where objects differ in size, which its
    label says.
    """
    ax = ax or _axes()
    kind = "byte" if bytes else "object"
    ratio, error = f"{kind}_hit_ratio", f"{kind}_error"
    means = over_seeds(table) if "seed" in table.column_names else table
    lines: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in means.to_pylist():
        lines.setdefault((row["trace"], row["policy"]), []).append(row)
    has_traces = len({trace for trace, _ in lines}) > 1
    units = {row["unit"] for rows in lines.values() for row in rows}
    for (trace, policy), rows in lines.items():
        rows.sort(key=lambda row: row["capacity"])
        sizes = [row["capacity"] for row in rows]
        ratios = [row[ratio] for row in rows]
        errors = [row[error] or 0.0 for row in rows]
        look = style(policy)
        name = policy.split("+")[-1]
        if name.startswith("belady"):
            look["linestyle"] = ":"
        label = f"{trace}: {policy}" if has_traces else policy
        if name == "belady" and "bytes" in units:
            label += " (no bound: sizes differ)"
        ax.plot(sizes, ratios, marker=".", label=label, **look)
        if any(errors):
            low = [value - width for value, width in zip(ratios, errors, strict=True)]
            high = [value + width for value, width in zip(ratios, errors, strict=True)]
            ax.fill_between(sizes, low, high, color=look["color"], alpha=0.2, linewidth=0)
    ax.set_xscale("log")
    ax.set_xlabel("cache, objects" if units == {"objects"} else "cache, bytes")
    ax.set_ylabel(f"{kind} hit ratio")
    _title(ax, [trace for trace, _ in lines])
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def windows(table: pa.Table, ax: Any = None, *, by_time: bool = False) -> Any:
    """Draws the hit ratio of each window of :func:`~larder_cache.replay` with ``"windows"``.

    ``by_time`` says that the windows are times; their axis is in hours then.
    """
    ax = ax or _axes()
    lines: dict[tuple[str, str, int, int], list[dict[str, Any]]] = {}
    for row in explode(table, "windows").to_pylist():
        if row["requests"]:
            line = (row["trace"], row["policy"], row["capacity"], row["seed"])
            lines.setdefault(line, []).append(row)
    has_sizes = len({capacity for _, _, capacity, _ in lines}) > 1
    has_traces = len({trace for trace, *_ in lines}) > 1
    for (trace, policy, capacity, _), rows in lines.items():
        first = rows[0]["start"]
        starts = [(row["start"] - first) / 3.6e12 if by_time else row["start"] for row in rows]
        label = f"{policy}, {capacity}" if has_sizes else policy
        label = f"{trace}: {label}" if has_traces else label
        ax.plot(starts, [row["object_hit_ratio"] for row in rows], label=label, **style(policy))
    ax.set_xlabel("hours" if by_time else "request")
    ax.set_ylabel("object hit ratio")
    _title(ax, [trace for trace, *_ in lines])
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def _title(ax: Any, traces: list[str]) -> None:
    """Names the traces of a figure: all, if they fit into a line."""
    names = list(dict.fromkeys(traces))
    listed = ", ".join(names)
    ax.set_title(listed if len(listed) <= 60 else f"{len(names)} traces")


def _axes() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("matplotlib is missing: pip install matplotlib") from None
    return plt.subplots(figsize=(7, 4.5), layout="constrained")[1]
