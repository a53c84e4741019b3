from __future__ import annotations

import os
import signal
import threading
from collections import deque
from typing import Any

import numpy as np
import pytest

import larder_cache as lc


def ids(requests: int, objects: int = 100_000) -> Any:
    return np.random.default_rng(1).integers(0, objects, requests)


class Fifo(lc.Policy):
    def __init__(self, capacity: int, seed: int) -> None:
        self.queue: deque[int] = deque()

    def insert(self, id: int, size: int) -> None:
        self.queue.append(id)

    def evict(self) -> int:
        return self.queue.popleft()


class Slow(Fifo):
    """Takes hours."""

    def hit(self, id: int) -> None:
        sum(range(100_000))


def test_finished_rows_come_back() -> None:
    cores = len(os.sched_getaffinity(0))

    def make(capacity: int, seed: int) -> object:
        # Each core has one row at a time, so one is finished by now: the first, which is quick.
        if seed == cores + 1:
            os.kill(os.getpid(), signal.SIGINT)
        return Fifo(capacity, seed) if seed == 1 else Slow(capacity, seed)

    with pytest.warns(lc.Interrupted, match=f"1 of {cores + 10} rows are finished"):
        table = lc.replay(ids(200_000, 1000), make, 900, seeds=range(1, cores + 11))
    assert table.select(["seed", "requests"]).to_pylist() == [{"seed": 1, "requests": 200_000}]


def test_a_file_is_left(tmp_path: Any) -> None:
    path = tmp_path / "t.bin"
    ids(4_000_000).astype(">u4").tofile(path)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.warns(lc.Interrupted):
        table = lc.replay(
            lc.Trace(path, format="numbers"), ["lhd", "agd"], [10_000], seeds=range(50)
        )
    assert table.num_rows == 0


def test_an_exception_of_progress_or_handler_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def handler(number: int, frame: object) -> None:
        raise ZeroDivisionError("from the handler")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(ZeroDivisionError, match="from the handler"):
            lc.replay(ids(3_000_000), "lhd", 10_000, seeds=range(100))
    finally:
        signal.signal(signal.SIGUSR1, before)
