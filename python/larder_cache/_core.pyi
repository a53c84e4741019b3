"""The part in Rust. Its functions are private; the package's other modules check arguments."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

__version__: str

Arrays: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]

class Source:
    """The requests of a trace: arrays in memory, or a file that is read as a stream."""

    @staticmethod
    def columns(
        name: str,
        ids: NDArray[np.uint64],
        sizes: NDArray[np.uint64] | None,
        times: NDArray[np.uint64] | None,
        is_log: bool,
    ) -> Source: ...
    @staticmethod
    def file(
        name: str,
        path: str | PathLike[str],
        options: object,
        limit: int | None,
    ) -> Source: ...
    @staticmethod
    def generate(
        requests: int,
        *,
        objects: int,
        exponent: float,
        shift: float,
        size: int,
        requests_per_second: float,
        locality: float | None,
        seed: int,
    ) -> Arrays: ...
    @property
    def name(self) -> str: ...
    def info(self) -> str: ...
    def read(self, most: int | None, rate: float, seed: int) -> tuple[Arrays, bool]: ...

class Queue:
    """Ids in an order, each of them once: pushed to its end, popped from its start."""

    def __init__(self) -> None: ...
    def push(self, id: int, *others: object) -> None: ...
    def move_to_end(self, id: int) -> None: ...
    def pop(self) -> int: ...
    def remove(self, id: int) -> None: ...
    @property
    def first(self) -> int | None: ...
    def after(self, id: int) -> int | None: ...
    def __len__(self) -> int: ...
    def __contains__(self, id: int) -> bool: ...

class Counts:
    """A number for each id, 0 until it is counted."""

    def __init__(self) -> None: ...
    def add(self, id: int) -> None: ...
    def pop(self, id: int) -> int: ...
    def __getitem__(self, id: int) -> int: ...
    def __setitem__(self, id: int, count: int) -> None: ...
    def __len__(self) -> int: ...

def hash_names(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> NDArray[np.uint64]: ...
def policies() -> list[str]: ...
def canonical_spec(spec: str) -> str: ...
def replay(
    source: Source,
    policies: Sequence[str | tuple[str, Callable[[int, int], object]]],
    sizes: Sequence[str],
    *,
    seeds: Sequence[int],
    warmup: int,
    fill: bool,
    windows: tuple[str, int] | None,
    size_classes: bool,
    evictions: bool,
    progress: Callable[[int], object] | None,
    threads: int | None,
) -> tuple[list[str], bool]: ...
def curve(
    source: Source,
    policies: Sequence[str],
    sizes: Sequence[str],
    *,
    points: int,
    sample: float,
    seed: int,
    fill: bool,
    progress: Callable[[int], object] | None,
) -> tuple[list[str], bool]: ...
def predict(
    source: Source,
    sizes: Sequence[str],
    *,
    theta: int,
    window: int | None,
    table: int,
    admit: str | None,
) -> tuple[list[str], list[str]]: ...

class Advice(TypedDict):
    json: str
    sentences: list[str]
    text: str
    page: str
    config: str | None

def advise(
    sources: Sequence[Source],
    policies: Sequence[str],
    sizes: Sequence[str],
    *,
    goal: str,
    egress: str | None,
    memory: str | None,
    overhead: int | None,
    keep: int,
    seed: int,
    progress: Callable[[int], object] | None,
) -> Advice: ...
