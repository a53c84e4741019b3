from __future__ import annotations

import json
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest

import larder_cache as lc


def test_points_differ_from_the_command_line(larder: Path, nasa: Path) -> None:
    flags = ["-p", "lru,s3fifo", "--points", "5", "--sample", "0.2", "--json"]
    command = [str(larder), "curve", str(nasa), *flags]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    printed = [json.loads(line) for line in run.stdout.splitlines()]
    for trace in (lc.Trace(nasa), lc.Trace(nasa).load()):
        table = lc.curve(trace, ["lru", "s3fifo"], points=5, sample=0.2)
        names = table.column_names
        assert table.to_pylist() == [{name: row[name] for name in names} for row in printed]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"theta": 3, "window": 500, "table": 2048, "admit": "64KiB"},
        {"theta": 2000, "table": 2048, "admit": 10_000},
    ],
)
def test_predictions_differ_from_the_command_line(
    larder: Path, nasa: Path, arguments: dict[str, Any]
) -> None:
    flags = [text for name, value in arguments.items() for text in (f"--{name}", str(value))]
    command = [str(larder), "predict", str(nasa), "-s", "1MiB,5%", "--json", *flags]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    printed = [json.loads(line) for line in run.stdout.splitlines()]
    for row in printed:
        del row["replayed"]
        row.update(row.pop("predicted"), trace=nasa.name)
    # Fewer than 2,000 objects fit, so the window is longer than the sizes ask for: both say so.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = lc.predict(nasa, ["1MiB", "5%"], **arguments).to_pylist()
    assert rows == printed
    assert len(rows) == (16 if "admit" in arguments else 12)
    notes = [
        line.partition("Filter's")[2] for line in run.stderr.splitlines() if "Filter's" in line
    ]
    assert [str(warning.message).partition("Filter's")[2] for warning in caught] == notes
    assert len(notes) == (2 if arguments.get("theta") == 2000 else 0)


def test_a_curve_is_not_the_replay() -> None:
    trace = lc.Trace.generate(20_000, objects=2000)
    for policy in ("lru", "s3fifo"):
        replayed = lc.replay(trace, policy, [50, 500], progress=False)
        drawn = lc.curve(trace, policy, [50, 500])
        hits = [round(ratio * 20_000) for ratio in drawn["object_hit_ratio"].to_pylist()]
        assert hits == replayed["hits"].to_pylist()


def test_parts_are_not_the_whole(nasa: Path) -> None:
    trace = lc.Trace(nasa).load()
    metrics = ["windows", "size_classes", "evictions"]
    for window in (1000, "1h", None):
        table = lc.replay(trace, ["lru", "agd"], "1MiB", metrics=metrics, window=window)
        for row in table.to_pylist():
            for parts in ("windows", "size_classes"):
                for count in ("requests", "hits", "insertions", "bytes", "hit_bytes"):
                    assert sum(part[count] for part in row[parts]) == row[count], (parts, count)
            evictions = row["evictions"]
            assert 0 < evictions["evictions"] == sum(evictions["ages"]) < row["insertions"]
    hours = lc.explode(lc.replay(trace, "lru", "1MiB", metrics="windows", window="1h"), "windows")
    assert hours.num_rows == 13
    plain = lc.replay(trace, "lru", "1MiB").drop_columns("requests_per_second")
    broken = lc.replay(trace, "lru", "1MiB", metrics=metrics)
    assert broken.select(plain.column_names) == plain


def test_wrong_arguments() -> None:
    trace = lc.Trace([1, 2, 3])
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: lc.curve(trace, sample=0), ValueError, "sample 0: a share above 0"),
        (lambda: lc.curve(trace, sample=float("nan")), ValueError, "sample NaN"),
        (lambda: lc.curve(trace, points=0), ValueError, "points: 0 sizes"),
        (lambda: lc.curve(trace, "belady"), ValueError, "knows the trace in advance"),
        (lambda: lc.curve(trace, [lc.Policy]), TypeError, "curves take specs"),  # type: ignore[list-item]
        (lambda: lc.predict(trace, []), ValueError, "sizes: give at least one"),
        (lambda: lc.predict(trace, 2, theta=0), ValueError, "theta=0: give 1 to 65535"),
        (lambda: lc.predict(trace, 2, theta=9, window=5), ValueError, "theta=9: a history of 5"),
        (lambda: lc.predict(trace, 2, window=2000, table=1024), ValueError, "window=2000: longer"),
        (lambda: lc.predict(trace, 2, window=-1), ValueError, "window=-1: give 1 to"),
        (lambda: lc.predict(trace, 2, table=3), ValueError, "table=3: "),
        (lambda: lc.predict(trace, 2, table=8.5), TypeError, "table=8.5 is a float"),  # type: ignore
        (lambda: lc.predict(trace, 2, admit=0), ValueError, "admit=0: give 1 to"),
        (lambda: lc.predict(trace, 2, admit="10%"), ValueError, "admit=10%: "),
        (lambda: lc.replay(trace, "lru", 1, metrics="x"), ValueError, "metrics: 'x' is none of"),
        (lambda: lc.replay(trace, "lru", 1, metrics="windows", window=0), ValueError, "window: 0"),
        (
            lambda: lc.replay(trace, "lru", 1, metrics="windows", window="1 y"),
            ValueError,
            "window: '1 y' is no time",
        ),
        (lambda: trace.sample(2), ValueError, "rate 2: a share above 0"),
        (lambda: trace.filter([True]), ValueError, "mask: 1 values, the trace has 3"),
        (lambda: trace.filter([1, 0, 1]), TypeError, "mask: an array of booleans"),
        (lambda: lc.Trace.generate(10, objects=0), ValueError, "objects"),
        (lambda: lc.explode(lc.replay(trace, "lru", 1), "windows"), ValueError, "'windows' is no"),
    ]
    for call, kind, words in calls:
        with pytest.raises(kind) as caught:
            call()
        assert words in str(caught.value)


def test_intervals_leave_the_mean_out() -> None:
    trace = lc.Trace.generate(5000, objects=1000)
    few = lc.over_seeds(lc.replay(trace, "random", 100, seeds=range(5))).to_pylist()[0]
    many = lc.over_seeds(lc.replay(trace, "random", 100, seeds=range(100, 200))).to_pylist()[0]
    assert 0 < many["object_error"] < few["object_error"]
    assert abs(few["object_hit_ratio"] - many["object_hit_ratio"]) < 2 * few["object_error"]
    one = lc.over_seeds(lc.replay(trace, "random", 100)).to_pylist()[0]
    assert one["object_error"] is None


def test_samples_and_filters_keep_other_objects() -> None:
    trace = lc.Trace.generate(20_000, objects=2000)
    ids = trace.to_arrow()["id"].to_numpy()
    sampled = trace.sample(0.1).to_arrow()["id"].to_numpy()
    kept = set(sampled.tolist())
    assert 100 < len(kept) < 300
    assert sampled.tolist() == [id for id in ids.tolist() if id in kept]
    assert len(trace.filter(ids < 10)) == (ids < 10).sum()


def test_figures(nasa: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from larder_cache import plot

    trace = lc.Trace(nasa).load()
    table = lc.replay(trace, ["lru", "belady"], [0.01, 0.1], seeds=[1, 2], metrics="windows")
    ax = plot.hit_ratio(table)
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert list(lines) == ["lru", "belady (no bound: sizes differ)"]
    assert lines["lru"].get_color() == plot.style("lru")["color"]
    assert ax.get_xlabel() == "cache, bytes"
    hours = lc.replay(trace, "lru", "1MiB", metrics="windows", window="1h")
    assert len(plot.windows(hours, by_time=True).get_lines()[0].get_xdata()) == 13
    plot.hit_ratio(lc.curve(trace, ["lru", "fifo"], points=4, sample=0.3), bytes=True)
