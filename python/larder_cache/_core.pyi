"""The part in Rust. Its functions are private; the package's other modules check arguments."""

from collections.abc import Callable, Sequence
from os import PathLike

import numpy as np
from numpy.typing import NDArray

__version__: str

class Source:
    """The requests of a trace: arrays in memory, or a file that is read as a stream."""

    @staticmethod
    def columns(
        name: str,
        ids: NDArray[np.uint64],
        sizes: NDArray[np.uint64] | None,
        times: NDArray[np.uint64] | None,
    ) -> Source: ...
    @staticmethod
    def file(
        name: str,
        path: str | PathLike[str],
        format: str | None,
        columns: str | None,
        limit: int | None,
    ) -> Source: ...
    @property
    def name(self) -> str: ...
    def info(self) -> str: ...
    def read(
        self, most: int | None
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]: ...

def hash_names(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> NDArray[np.uint64]: ...
def policies() -> list[str]: ...
def replay(
    source: Source,
    policies: Sequence[str | tuple[str, Callable[[int, int], object]]],
    sizes: Sequence[str],
    *,
    seeds: Sequence[int],
    warmup: int,
    fill: bool,
    progress: Callable[[int], object] | None,
) -> tuple[list[str], bool]: ...
