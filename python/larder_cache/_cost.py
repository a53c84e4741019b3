"""What hits are worth: models of cost and latency over the rows of a replay."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def with_cost(
    table: pa.Table,
    *,
    per_miss: float = 0.0,
    per_missed_byte: float = 0.0,
    per_cached_byte: float = 0.0,
) -> pa.Table:
    """Appends ``cost``: of the misses, of their bytes, and of the cache itself.

    >>> from larder_cache import replay
    >>> table = replay({"id": [1, 2, 1], "size": [10, 30, 10]}, "lru", 100)
    >>> with_cost(table, per_miss=1.0, per_missed_byte=0.1)["cost"].to_pylist()
    [6.0]
    """

    def cost(row: dict[str, Any]) -> float:
        missed: int = row["bytes"] - row["hit_bytes"]
        misses: int = row["requests"] - row["hits"]
        return per_miss * misses + per_missed_byte * missed + per_cached_byte * int(row["capacity"])

    return _append(table, "cost", cost)


def with_latency(
    table: pa.Table, *, hit: float, miss: float, seconds_per_missed_byte: float = 0.0
) -> pa.Table:
    """Appends ``mean_latency`` in seconds: of a hit, of a miss, and of the bytes of a miss.

    >>> from larder_cache import replay
    >>> table = replay([1, 2, 1, 1], "lru", 2)
    >>> with_latency(table, hit=0.001, miss=0.1)["mean_latency"].to_pylist()
    [0.0505]
    """

    def latency(row: dict[str, Any]) -> float | None:
        if not row["requests"]:
            return None
        missed: int = row["bytes"] - row["hit_bytes"]
        misses: int = row["requests"] - row["hits"]
        total = hit * int(row["hits"]) + miss * misses + seconds_per_missed_byte * missed
        return total / float(row["requests"])

    return _append(table, "mean_latency", latency)


def _append(table: pa.Table, name: str, value: Any) -> pa.Table:
    names = ["requests", "hits", "bytes", "hit_bytes", "capacity"]
    values = [value(row) for row in table.select(names).to_pylist()]
    return table.append_column(name, pa.array(values, pa.float64()))
