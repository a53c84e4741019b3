"""Advice for a site: which cache to run, from its access logs or traces."""

from __future__ import annotations

import contextlib
import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from . import _core, _url
from ._curve import size_texts
from ._progress import Bar
from ._replay import SizeLike, listed
from ._trace import several

_TABLE = pa.schema(
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
        ("exact", pa.bool_()),
        ("sample", pa.float64()),
        ("requests", pa.uint64()),
    ]
)


@dataclass(frozen=True)
class Candidate:
    """A policy at a size, and what it would hit."""

    #: The spec.
    policy: str
    #: Bytes, or objects if they have no sizes.
    capacity: int
    #: The share of the requests that hit.
    object_hit_ratio: float
    #: Its error with 95 % confidence; 0 if it is exact.
    object_error: float
    #: The share of the bytes that hit; without sizes, every object has one byte.
    byte_hit_ratio: float
    #: Its error with 95 % confidence; 0 if it is exact.
    byte_error: float
    #: True if the policy behaves otherwise in a small cache than in a large one: then the true
    #: errors are larger than those stated.
    error_is_least: bool


@dataclass(frozen=True, repr=False)
class Advice:
    """What :func:`advise` found. ``print`` shows the text of ``larder advise``, a notebook a page.

    >>> from larder_cache import Trace
    >>> advice = advise(Trace.generate(5000, objects=1000), ["lru", "s3fifo"], [100, 200])
    >>> advice
    <Advice: s3fifo with 200 objects>
    """

    #: All policies at all sizes: hit ratios and their errors. ``exact`` is true, and the errors are
    #: 0, if no request was left out; ``sample`` is the share of the objects that was looked at.
    #: :func:`larder_cache.plot.hit_ratio` draws it.
    table: pa.Table
    #: What is recommended and why.
    sentences: tuple[str, ...]
    #: The policy and the size, and what they hit.
    recommended: Candidate
    #: LRU at the same size, if it was compared and something else is recommended.
    lru: Candidate | None
    #: Why this size is recommended.
    reason: str
    #: Memory and egress for a month, in the currency of the prices. None without prices.
    cost_per_month: float | None
    #: Egress for a month without a cache. None without prices.
    cost_without_cache: float | None
    #: What is known of the requests, as in the JSON of ``larder advise``.
    traffic: dict[str, Any]
    #: A configuration of the node. None if the objects have no sizes.
    config: str | None
    #: An HTML document with figures, which needs no other file.
    page: str
    #: The text of ``larder advise``.
    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        unit = self.traffic["unit"]
        return f"<Advice: {self.recommended.policy} with {self.recommended.capacity} {unit}>"

    def _repr_html_(self) -> str:
        # In a frame, the page's style does not change the notebook's.
        document = html.escape(self.page, quote=True)
        return f'<iframe srcdoc="{document}" style="width:100%;height:40rem;border:0"></iframe>'


def advise(
    source: Any,
    policies: str | Sequence[str] | None = None,
    sizes: SizeLike | Iterable[SizeLike] | None = None,
    *,
    goal: Literal["requests", "bytes"] = "requests",
    egress: str | None = None,
    memory: str | None = None,
    overhead: int | None = None,
    keep: int = 4_000_000,
    seed: int = 1,
    progress: bool | None = None,
) -> Advice:
    """Returns which cache to run: the policy, the size, and what they save.

    The advice is that of ``larder advise``. The requests are read once. If there are more than
    ``keep``, those for a share of the objects are looked at, and errors are stated with 95 %
    confidence. Every policy runs at every size, on all cores. Ctrl-C raises KeyboardInterrupt.

    >>> from larder_cache import Trace
    >>> advice = advise(Trace.generate(5000, objects=1000), ["lru", "s3fifo"], [100, 200])
    >>> advice.recommended.policy, advice.recommended.capacity, advice.recommended.object_error
    ('s3fifo', 200, 0.0)
    >>> advice.table.num_rows
    4

    Args:
        source: A path of an access log (nginx, Apache, Varnish, Squid, Caddy, Larder) or of a
            trace, anything else that :class:`Trace` accepts, or a list of paths and traces, whose
            requests are merged by time.
        policies: Specs, as :func:`policies` lists them. None: seven good ones.
        sizes: Capacities, as in :func:`replay`. None: all objects, and half of that nine times.
        goal: What the cache should save: requests to the origin, or bytes from it. With prices it
            is bytes.
        egress: The price of bytes from the origin, such as ``"0.05/GB"``, in any currency. Together
            with ``memory``, the cheapest cache is recommended.
        memory: The price of the cache's memory, such as ``"3/GiB-month"``.
        overhead: Bytes that the cache needs beside the body of each object. None: 512 for a web
            server's log, 0 for other traces.
        keep: The most requests to keep in memory, 100 bytes each with all caches.
        seed: The seed of the sample and of all random choices.
        progress: As in :func:`replay`.
    """
    traces = several(source)
    specs = [] if policies is None else listed(policies, "policies", str)
    for spec in specs:
        if not isinstance(spec, str):
            kind = type(spec).__name__
            raise TypeError(f"policies: {spec!r} is a {kind}, advise() takes specs; see replay()")
    texts = size_texts(sizes)
    for name, number in (("overhead", overhead or 0), ("keep", keep), ("seed", seed)):
        if not 0 <= number < 2**64:
            raise ValueError(f"{name} {number}: give a whole number from 0, below 2**64")
    bar = Bar(None, "requests", progress)
    with contextlib.closing(bar), _url.named_copies():
        found = _core.advise(
            [trace._source for trace in traces],
            specs,
            texts,
            goal=goal,
            egress=egress,
            memory=memory,
            overhead=overhead,
            keep=keep,
            seed=seed,
            progress=bar,
        )
    return _advice(found)


def _advice(found: _core.Advice) -> Advice:
    parsed = json.loads(found["json"])
    traffic, choice = parsed["traffic"], parsed["choice"]
    common = {
        "trace": ", ".join(traffic["files"]),
        "unit": traffic["unit"],
        "exact": traffic["sample"] == 1.0,
        "sample": traffic["sample"],
        "requests": traffic["requests"],
    }
    lru = choice["lru"]
    return Advice(
        table=pa.Table.from_pylist([{**common, **row} for row in parsed["candidates"]], _TABLE),
        sentences=tuple(found["sentences"]),
        recommended=Candidate(**choice["chosen"]),
        lru=None if lru is None else Candidate(**lru),
        reason=choice["reason"],
        cost_per_month=choice["cost_per_month"],
        cost_without_cache=choice["cost_without_cache"],
        traffic=traffic,
        config=found["config"],
        page=found["page"],
        text=found["text"],
    )
