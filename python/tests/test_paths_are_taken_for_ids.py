"""A list of paths is several traces, and a log is read as the command line reads it."""

import os
import threading
from pathlib import Path

import pytest

import larder_cache as lc

LINE = '192.0.2.7 - - [10/Oct/2025:13:55:0{} +0000] "{} {} HTTP/1.1" {} 100 "-" "-"\n'


def _log(folder: Path, name: str, lines: list[str]) -> str:
    path = folder / name
    path.write_text("".join(lines))
    return str(path)


def test_paths_are_ids(tmp_path: Path) -> None:
    """Failure: two paths are two objects that are asked for once."""
    lines = [LINE.format(second, "GET", "/a", 200) for second in range(4)]
    one, two = _log(tmp_path, "one.log", lines), _log(tmp_path, "two.log", lines[:2])
    table = lc.replay([one, two], "lru", [1000])
    assert table["requests"].to_pylist() == [4, 2]
    assert table["hits"].to_pylist() == [3, 1]
    assert lc.curve([one, two], "lru", [1000])["requests"].to_pylist() == [4, 2]
    assert len(lc.Trace(["/a", "/b", "/a"])) == 3
    missing = str(tmp_path / "missing.log")
    for call in (lc.replay, lc.curve):
        with pytest.raises(FileNotFoundError, match=r"missing\.log.*make a Trace of the list"):
            call([missing, one], "lru", [1000])


def test_ids_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failure: a list of URLs, which are the ids of objects, is downloaded one by one."""

    def fetched(*arguments: object) -> None:
        raise AssertionError("an id is fetched")

    monkeypatch.setattr("larder_cache._url.Copy", fetched)
    urls = [f"https://shop.example/{number}" for number in range(2000)]
    for ids in ([urls[0], urls[1], urls[0]], urls):
        for call in (lc.replay, lc.curve):
            with pytest.raises(TypeError, match="make a Trace of the list"):
                call(ids, "lru", [1000])
        assert len(lc.Trace(ids)) == len(ids)


def test_an_id_names_a_file(tmp_path: Path) -> None:
    """Failure: one id that names a file by chance makes a list of ids one of paths."""
    path = _log(tmp_path, "one.log", [LINE.format(1, "GET", "/a", 200)])
    assert len(lc.Trace(["/a", path, "/a"])) == 3
    with pytest.raises(TypeError, match="make a Trace of each"):
        lc.Trace([path, path])


def test_logs_of_two_servers_follow_each_other(tmp_path: Path) -> None:
    """Failure: logs of the same minute are read one after the other."""
    old = LINE.format(9, "GET", "/b", 200).replace("13:55", "13:54")
    first = [LINE.format(second, "GET", "/a", 200) for second in (0, 2)]
    second = [LINE.format(second, "GET", f"/{second}", 200) for second in (1, 3)]
    names = zip(("one", "two", "old"), (first, second, [old]), strict=True)
    logs = [_log(tmp_path, f"{name}.log", lines) for name, lines in names]
    # /b, /a, /1, /a, /3: a cache of one object hits nothing, in whatever order the files are given.
    for order in (logs, logs[::-1]):
        advice = lc.advise(order, "lru", "700")
        assert advice.recommended.object_hit_ratio == 0
    assert lc.advise(logs[0], "lru", "700").recommended.object_hit_ratio == 0.5


def test_a_look_empties_the_pipes(tmp_path: Path) -> None:
    """Failure: a pipe is opened again after a look at its first request, and nobody writes."""
    pipes = [str(tmp_path / name) for name in ("one.log", "two.log")]
    for first, pipe in enumerate(pipes):
        os.mkfifo(pipe)
        seconds = range(first, 10, 2)
        text = "".join(LINE.format(second, "GET", "/a", 200) for second in seconds)
        threading.Thread(target=Path(pipe).write_text, args=(text,), daemon=True).start()
    assert lc.advise(pipes, "lru", "700").traffic["requests"] == 10


def test_a_bad_line_ends_the_work(tmp_path: Path) -> None:
    """Failure: a line that is cut is an error, or an error names flags of the command line."""
    lines = [LINE.format(second, "GET", "/a", 200) for second in range(4)]
    path = _log(tmp_path, "cut.log", [*lines, "192.0.2.7 - - [10/Oct/2025:13:5"])
    assert len(lc.Trace(path).load()) == 4
    with pytest.raises(ValueError, match="line 5"):
        lc.Trace(path, max_bad=0).load()
    with pytest.raises(ValueError, match="log_format: `x` is no log format"):
        lc.Trace(path, log_format="x")
