from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import larder_cache as lc
from larder_cache import _advise, _progress


def printed(larder: Path, *arguments: str | Path) -> str:
    command = [str(larder), "advise", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        ([], {}),
        (
            [
                "-p",
                "lru,agd",
                "-s",
                "1MiB,10%",
                "--goal",
                "bytes",
                "--keep",
                "24000",
                "--seed",
                "3",
            ],
            {
                **{"policies": ["lru", "agd"], "sizes": ["1MiB", 0.1]},
                **{"goal": "bytes", "keep": 24_000, "seed": 3},
            },
        ),
        (
            [
                "-p",
                "lru,gdsf",
                "--egress",
                "0.05/GB",
                "--memory",
                "3/GiB-month",
                "--overhead",
                "99",
            ],
            {
                **{"policies": ["lru", "gdsf"], "egress": "0.05/GB"},
                **{"memory": "3/GiB-month", "overhead": 99},
            },
        ),
    ],
)
def test_advice_differs_from_the_command_line(
    flags: list[str], arguments: dict[str, Any], larder: Path, nasa: Path, tmp_path: Path
) -> None:
    files = {"--html": tmp_path / "page", "--config": tmp_path / "config"}
    expected = json.loads(printed(larder, nasa, *flags, "--json"))
    text = printed(larder, nasa, *flags, *(word for pair in files.items() for word in pair))
    advice = lc.advise(nasa, **arguments)
    assert advice.traffic == expected["traffic"]
    rows = advice.table.to_pylist()
    assert [{name: row[name] for name in expected["candidates"][0]} for row in rows] == expected[
        "candidates"
    ]
    assert all(
        row["exact"] == (row["object_error"] == 0) == ("keep" not in arguments) for row in rows
    )
    choice = expected["choice"]
    assert vars(advice.recommended) == choice["chosen"]
    assert (vars(advice.lru) if advice.lru else None) == choice["lru"]
    assert (advice.reason, advice.cost_per_month) == (choice["reason"], choice["cost_per_month"])
    assert str(advice) + "\n" == text
    assert all(sentence in text for sentence in advice.sentences)
    assert len(advice.sentences) >= 2
    assert advice.page == files["--html"].read_text()
    assert advice.config == files["--config"].read_text()


def log(path: Path, seconds: range) -> Path:
    line = '192.0.2.1 - - [26/Nov/2026:10:{:02}:{:02} +0000] "GET /{} HTTP/1.1" 200 {} "-" "-"\n'
    numbers = ((second // 60, second % 60, second % 7, 1000 + second % 3) for second in seconds)
    path.write_text("".join(line.format(*each) for each in numbers))
    return path


def test_logs_are_read_as_other_traces(larder: Path, tmp_path: Path) -> None:
    logs = [log(tmp_path / "a.log", range(900)), log(tmp_path / "b.log", range(900, 1800))]
    advice = lc.advise(logs, "lru", "5KiB")
    assert json.loads(printed(larder, *logs, "-p", "lru", "-s", "5KiB", "--json")) == {
        "traffic": advice.traffic,
        "candidates": [vars(advice.recommended)],
        "choice": {
            **{"goal": "requests", "chosen": vars(advice.recommended), "lru": None},
            **{"reason": advice.reason, "cost_per_month": None, "cost_without_cache": None},
        },
    }
    assert (advice.traffic["overhead"], advice.traffic["requests"]) == (512, 1800)
    # A part of a file.
    assert lc.advise(lc.Trace(logs[0], limit=300), "lru", "5KiB").traffic["requests"] == 300


def test_a_trace_in_memory_gets_other_advice(nasa: Path) -> None:
    expected = lc.advise(nasa, ["lru", "agd"], "1MiB")
    assert expected.traffic["overhead"] == 512
    loaded = lc.Trace(nasa).load()
    for trace in (loaded, loaded.filter(np.ones(len(loaded), dtype=bool)), loaded.sample(1)):
        in_memory = lc.advise(trace, ["lru", "agd"], "1MiB")
        columns = ["policy", "capacity", "object_hit_ratio", "byte_hit_ratio"]
        assert in_memory.table.select(columns) == expected.table.select(columns)
        assert in_memory.traffic["overhead"] == 512
    without_sizes = lc.advise([1, 2, 1, 3, 1], ["lru", "fifo"])
    assert (without_sizes.config, without_sizes.table["unit"][0].as_py()) == (None, "objects")
    assert "objects" in repr(without_sizes)
    names = lc.advise({"url": ["/a", "/b", "/a"]}, "lru", 2)
    assert names.recommended.object_hit_ratio == pytest.approx(1 / 3)


def test_texts_name_flags_of_another_program(nasa: Path) -> None:
    advice = lc.advise(nasa, ["lru", "agd"], ["1MiB"], keep=24_000)
    assert "(`keep`)" in str(advice)
    assert "(`overhead`)" in str(advice)
    # The configuration's comments are for those who run the node.
    text = str(advice).replace("larder run --print-config", "")
    assert "--" not in text.replace("-----", "")
    assert not any("--" in sentence for sentence in advice.sentences)


def test_the_notebook_s_page_is_not_the_page(nasa: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from larder_cache import plot

    advice = lc.advise(nasa, ["lru", "agd"], ["1MiB", "2MiB"])

    class Frames(HTMLParser):
        pages: tuple[Any, ...] = ()

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.pages += (tag, dict(attrs)["srcdoc"])

    frames = Frames()
    frames.feed(advice._repr_html_())
    assert frames.pages == ("iframe", advice.page)
    assert [line.get_label() for line in plot.hit_ratio(advice.table).get_lines()] == ["lru", "agd"]


def test_mistakes_are_not_explained(nasa: Path, tmp_path: Path) -> None:
    ids = lc.Trace([1, 2, 1])
    empty = tmp_path / "empty.csv"
    empty.write_text("# time, object, size\n")
    calls: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (tmp_path / "none.log", {}, FileNotFoundError, "none.log"),
        (empty, {}, ValueError, "empty.csv: no request was read"),
        (ids, {"policies": "belady"}, ValueError, "knows the future"),
        (ids, {"policies": "lur"}, ValueError, "did you mean `lru`?"),
        (ids, {"policies": []}, ValueError, "policies: give at least one"),
        (ids, {"policies": [lc.Policy]}, TypeError, "advise() takes specs"),
        (ids, {"sizes": "1MiB"}, ValueError, "a cache of 1MiB has no meaning"),
        (ids, {"goal": "money"}, ValueError, 'goal "money": give "requests" or "bytes"'),
        (ids, {"egress": "1/GB"}, ValueError, "egress and memory: give both prices, or none"),
        (ids, {"egress": "1/GB", "memory": "1"}, ValueError, 'memory: "1" is no price'),
        (ids, {"egress": "1/GB", "memory": "1/GB-month"}, ValueError, "there is no costs"),
        (nasa, {"keep": 500}, ValueError, "keep 500: only"),
        (nasa, {"keep": -1}, ValueError, "keep -1: give a whole number"),
        (nasa, {"overhead": -1}, ValueError, "overhead -1: give a whole number"),
        (nasa, {"progress": True, "seed": 2**64}, ValueError, "seed 18446744073709551616"),
    ]
    for source, arguments, kind, words in calls:
        with pytest.raises(kind) as caught:
            lc.advise(source, **arguments)
        assert words in str(caught.value), arguments


def test_an_interruption_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = 2_000_000
    ids = np.random.default_rng(1).integers(0, 100_000, requests)
    done: list[int] = []
    interrupted: list[float] = []

    class Watched(_progress.Bar):
        def __call__(self, units: int) -> None:
            done.append(units)
            # The first caches run.
            if units > requests and not interrupted:
                interrupted.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(_advise, "Bar", Watched)
    # It would take minutes.
    with pytest.raises(KeyboardInterrupt):
        lc.advise(ids, ["lhd", "agd"], [10_000 + size for size in range(100)])
    assert time.monotonic() - interrupted[0] < 20
    assert done[-1] < 50 * requests


def test_an_exception_of_a_handler_is_lost() -> None:
    def handler(number: int, frame: object) -> None:
        raise ZeroDivisionError("from the handler")

    ids = np.random.default_rng(1).integers(0, 100_000, 1_000_000)
    before = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        timer.start()
        with pytest.raises(ZeroDivisionError, match="from the handler"):
            lc.advise(ids, ["lhd", "agd"], [10_000 + size for size in range(100)])
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR1, before)
