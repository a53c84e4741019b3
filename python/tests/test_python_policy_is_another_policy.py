from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import larder_cache as lc


class Lru(lc.Policy):
    def __init__(self, capacity: int, seed: int) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def hit(self, id: int) -> None:
        self.order.move_to_end(id)

    def insert(self, id: int, size: int) -> None:
        self.order[id] = None

    def evict(self) -> int:
        return self.order.popitem(last=False)[0]


class Fifo(Lru):
    hit = None  # type: ignore[assignment]


class FastLru:
    def __init__(self, capacity: int, seed: int) -> None:
        self.queue = lc.Queue()
        self.hit = self.queue.move_to_end
        self.insert = self.queue.push
        self.evict = self.queue.pop


class BoundLru:
    """The methods are those of Python's dictionary."""

    def __init__(self, capacity: int, seed: int) -> None:
        self.order: OrderedDict[int, int] = OrderedDict()
        self.hit = self.order.move_to_end
        self.insert = self.order.__setitem__

    def evict(self) -> int:
        return self.order.popitem(last=False)[0]


class MixedLru(Lru):
    """Some calls are of the interpreter, and some are not."""

    def __init__(self, capacity: int, seed: int) -> None:
        self.queue = lc.Queue()
        self.hit = self.queue.move_to_end  # type: ignore[method-assign]

    def insert(self, id: int, size: int) -> None:
        self.queue.push(id)

    def evict(self) -> int:
        first = self.queue.first
        assert first is not None
        self.queue.remove(first)
        return first


def traffic(seed: int, requests: int = 20_000) -> lc.Trace:
    rng = np.random.default_rng(seed)
    ids = rng.zipf(1.2, requests) % 1000
    return lc.Trace({"id": ids, "size": ids * 7 % 50 + 1})


@pytest.mark.parametrize("seed", range(5))
def test_lru_and_fifo_are_others(seed: int) -> None:
    policies: list[Any] = ["lru", Lru, FastLru, MixedLru, BoundLru, "fifo", Fifo]
    table = lc.replay(traffic(seed), policies, [60, 500, 5000], seeds=[seed], metrics="evictions")
    names = ["lru", "Lru", "FastLru", "MixedLru", "BoundLru", "fifo", "Fifo"]
    assert table.column("policy").to_pylist()[::3] == names
    rows = table.drop_columns(["policy", "requests_per_second"]).to_pylist()
    # The ages of all evicted objects are equal, not only the hits.
    for nth in (1, 2, 3, 4):
        assert rows[:3] == rows[3 * nth : 3 * nth + 3], names[nth]
    assert rows[15:18] == rows[18:]
    assert rows[0] != rows[15]


class Sequence:
    """Writes down what leaves, in order."""

    def __init__(self, capacity: int, seed: int, made: Any, victims: list[int]) -> None:
        self.policy = made(capacity, seed)
        self.victims = victims
        self.hit, self.insert = self.policy.hit, self.policy.insert

    def evict(self) -> int:
        self.victims.append(self.policy.evict())
        return self.victims[-1]


@pytest.mark.parametrize("seed", range(5))
def test_calls_without_the_interpreter_evict_in_another_order(seed: int) -> None:
    order: dict[Any, list[int]] = {Lru: [], FastLru: [], MixedLru: []}
    for made, victims in order.items():
        lc.replay(traffic(seed), functools.partial(Sequence, made=made, victims=victims), 500)
    assert len(order[Lru]) > 1000
    assert order[Lru] == order[FastLru] == order[MixedLru]


def test_a_queue_is_another_queue() -> None:
    rng = np.random.default_rng(7)
    queue, model, counts = lc.Queue(), OrderedDict[int, None](), lc.Counts()
    for id in rng.integers(0, 50, 20_000).tolist():
        if id in model:
            assert id in queue
            if id % 3:
                model.move_to_end(id)
                queue.move_to_end(id)
                counts.add(id)
            else:
                del model[id]
                queue.remove(id)
                counts.pop(id)
        else:
            model[id] = None
            queue.push(id)
        assert len(queue) == len(model)
        assert queue.first == next(iter(model), None)
        if id % 7 == 0 and model:
            assert queue.pop() == model.popitem(last=False)[0]
    listed, id = [], queue.first
    while id is not None:
        listed.append(id)
        id = queue.after(id)
    assert listed == list(model)
    for method in ("move_to_end", "remove", "after"):
        with pytest.raises(KeyError):
            getattr(queue, method)(77)
    with pytest.raises(ValueError, match="in the queue already"):
        queue.push(listed[0])
    with pytest.raises(IndexError, match="empty queue"):
        lc.Queue().pop()
    counts[5] = 3
    assert (counts[5], counts[77], counts.pop(5), counts[5]) == (3, 0, 3, 0)


def test_a_collection_of_another_order_is_an_error() -> None:
    class Wrong(FastLru):
        def __init__(self, capacity: int, seed: int) -> None:
            super().__init__(capacity, seed)
            self.evict = lc.Queue().pop

    with pytest.raises(IndexError, match="empty queue"):
        lc.replay(traffic(1), Wrong, 500)


class Recorder(Fifo):
    def __init__(self, capacity: int, seed: int, calls: list[Any]) -> None:
        super().__init__(capacity, seed)
        self.calls = calls
        calls.append((capacity, seed))

    def hit(self, id: int) -> None:  # type: ignore[override]
        self.calls.append(f"hit {id}")

    def miss(self, id: int) -> None:
        self.calls.append(f"miss {id}")

    def admit(self, id: int, size: int) -> bool:
        self.calls.append(f"admit {id} {size}")
        return id != 9

    def insert(self, id: int, size: int) -> None:
        self.calls.append(f"insert {id} {size}")
        super().insert(id, size)

    def evict(self) -> int:
        id = super().evict()
        self.calls.append(f"evict {id}")
        return id


def test_calls_come_in_another_order() -> None:
    calls: list[Any] = []
    trace = lc.Trace({"id": [1, 1, 9, 2], "size": [3, 3, 3, 4]})
    lc.replay(trace, functools.partial(Recorder, calls=calls), 5, seeds=7, fill=False)
    expected = (
        "miss 1,admit 1 3,insert 1 3,hit 1,miss 9,admit 9 3,miss 2,admit 2 4,evict 1,insert 2 4"
    )
    assert calls == [(5, 7), *expected.split(",")]


def failing(method: str, error: Any) -> Any:
    def fail(self: Any, *arguments: Any) -> Any:
        if isinstance(error, Exception):
            raise error
        return error

    return type("Failing", (Lru,), {method: fail})


@pytest.mark.parametrize("method", ["__init__", "hit", "miss", "admit", "insert", "evict"])
def test_exceptions_are_lost(method: str) -> None:
    with pytest.raises(ZeroDivisionError, match="of the policy"):
        lc.replay(traffic(1), failing(method, ZeroDivisionError("of the policy")), 500)


def test_impossible_victims() -> None:
    for victim, kind, words in [
        (12345, ValueError, "12345, which is not stored"),
        (None, TypeError, "None, which is no id"),
        (-1, TypeError, "-1, which is no id"),
        ("a", TypeError, "'a', which is no id"),
    ]:
        with pytest.raises(kind, match=words):
            lc.replay(traffic(1), failing("evict", victim), 500)
    with pytest.raises(TypeError, match=r"int has no method evict\(\)"):
        lc.replay(traffic(1), lambda capacity, seed: 7, 500)
    with pytest.raises(NotImplementedError, match=r"Policy\.evict"):
        lc.replay(traffic(1), lc.Policy, 500)


def test_names_of_policies() -> None:
    def made(capacity: int, seed: int) -> Lru:
        return Lru(capacity, seed)

    names = lc.replay([1, 2], [made, functools.partial(Recorder, calls=[])], 1).column("policy")
    assert names.to_pylist() == ["made", "Recorder(calls=[])"]


def test_a_method_for_another_purpose_is_called_without_the_interpreter() -> None:
    class Wrong:
        def __init__(self, capacity: int, seed: int) -> None:
            self.queue = lc.Queue()
            self.insert = self.evict = self.queue.push

    with pytest.raises(TypeError, match="argument"):
        lc.replay([1, 2, 3], Wrong, 2)
