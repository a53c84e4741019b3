from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
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
    try:
        with pytest.warns(lc.Interrupted):
            table = lc.replay(
                lc.Trace(path, format="numbers"), ["lhd", "agd"], [10_000], seeds=range(50)
            )
    finally:
        timer.cancel()
    assert table.num_rows == 0


def test_an_exception_of_progress_or_handler_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def handler(number: int, frame: object) -> None:
        raise ZeroDivisionError("from the handler")

    before = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        timer.start()
        with pytest.raises(ZeroDivisionError, match="from the handler"):
            lc.replay(ids(3_000_000), "lhd", 10_000, seeds=range(100))
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR1, before)


class Waiting(Fifo):
    """Waits without using the processor, and interrupts the replay itself."""

    calls = 0

    def hit(self, id: int) -> None:
        Waiting.calls += 1
        if Waiting.calls == 1_100:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.002)


def test_a_policy_that_waits_is_waited_for() -> None:
    # Steps by the processor's time would double: from 1,008 requests on to 2,032.
    with pytest.warns(lc.Interrupted):
        lc.replay(np.zeros(200_000, dtype=np.int64), Waiting, 900)
    assert Waiting.calls < 1_700


@pytest.mark.parametrize(
    "work",
    ["Trace.generate(10**9)", "predict(trace, [10])", "trace.load()", "trace.load().info()"],
)
def test_an_interruption_is_a_panic(work: str, tmp_path: Any) -> None:
    path = tmp_path / "t.bin"
    ids(30_000_000).astype(">u4").tofile(path)
    program = f"""
import larder_cache
from larder_cache import *
trace = Trace({str(path)!r}, format="numbers")
print("begun", flush=True)
try:
    {work}
except KeyboardInterrupt:
    print("interrupted")
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    try:
        assert process.communicate(timeout=60)[0] == "interrupted\n"
    finally:
        process.kill()
