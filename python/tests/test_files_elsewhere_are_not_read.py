from __future__ import annotations

import gzip
import http.server
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest

import larder_cache as lc
from larder_cache import _url

CSV = b"time,id,size\n1,7,10\n2,8,20\n3,7,10\n"
JSON = b"".join(
    b'{"time": 0, "id": %d, "size": %d}\n' % each for each in ((7, 10), (8, 20), (7, 10))
)
ROWS = {"id": [7, 8, 7], "size": [10, 20, 10]}
SHORT = b"1,7,10\n"
#: Places that a file is moved to, and that no trace is read from.
MOVED = {
    "/moved": "/t.csv",
    "/to-s3": "s3://b/x?X-Amz-Signature=SECRET",
    "/to-file": "file:///t.csv?token=SECRET",
    "/to-ftp": "ftp://user:SECRET@127.0.0.1/t.csv",
    "/in-a-circle": "/in-a-circle?token=SECRET",
    "/to-a-user": "http://user:SECRET@127.0.0.1/t.csv",
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with files, redirections, errors, and answers that end too early or never."""

    files: dict[str, bytes]
    goes_on: threading.Event

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/status/"):
            self.send_error(int(path.rpartition("/")[2]))
        elif path in MOVED:
            self.send_response(302)
            self.send_header("Location", MOVED[path])
            self.end_headers()
        elif path == "/huge.csv":
            self.send_response(200)
            self.send_header("Content-Length", str(_url.MAX_BYTES + 1))
            self.end_headers()
            self.goes_on.wait(60)
        elif path in ("/early.csv", "/silent.csv"):
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(SHORT)
            if path == "/silent.csv":
                self.goes_on.wait(60)
        elif path in self.files:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.files[path])
        else:
            self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    # A proxy of this machine is not asked for the server on it.
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    # Where copies are made.
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    table = pa.table({"key": ROWS["id"], "bytes": ROWS["size"], "note": ["a", "b", "c"]})
    pq.write_table(table, tmp_path / "t")
    Handler.files = {
        "/t.csv": CSV,
        "/t.csv.gz": gzip.compress(CSV),
        "/a%20b.jsonl": JSON,
        "/wrong.csv": b"1,2,3\n1,2,x\n",
        "/wrong.parquet": b"PAR1",
        "/" + "%E4%B8%AD" * 200 + ".csv": CSV,
        "/download": (tmp_path / "t").read_bytes(),
        "/t.parquet": (tmp_path / "t").read_bytes(),
    }
    Handler.goes_on = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    Handler.goes_on.set()
    server.shutdown()
    thread.join()
    server.server_close()


def rows(trace: lc.Trace) -> Any:
    return trace.to_arrow().select(["id", "size"]).to_pydict()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/t.csv", "t.csv"),
        ("/t.csv.gz?signature=1%2F2", "t.csv.gz"),
        ("/a b.jsonl", "a b.jsonl"),
        ("/moved", "moved"),
        # File systems take names of 255 bytes.
        ("/" + "中" * 200 + ".csv", "中" * 200 + ".csv"),
        ("/t.parquet", "t.parquet"),
        # Parquet is known by its first bytes.
        ("/download", "download"),
    ],
)
def test_a_file_of_the_web_is_not_read(server: str, tmp_path: Path, path: str, name: str) -> None:
    trace = lc.Trace(server + path)
    assert (trace.name, rows(trace)) == (name, ROWS)
    # A file is read again by each call.
    assert lc.replay(trace, "lru", 100)["hits"].to_pylist() == [1]
    del trace
    assert os.listdir(tmp_path / "copies") == []


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        ("/none.csv?token=secret", FileNotFoundError, "status 404 Not Found; check the address"),
        ("/status/403", PermissionError, "status 403 Forbidden; it wants a login"),
        ("/status/503", OSError, "status 503 Service Unavailable; try again later"),
        ("/early.csv", OSError, "after 7 of 100 bytes: the connection ended; try again"),
        ("/wrong.csv", ValueError, "wrong.csv, line 2: `x` is not a size in bytes"),
        ("/wrong.parquet", ValueError, "wrong.parquet: Parquet"),
        ("/to-s3", ValueError, "status 302 Found leads in a circle, or to no address of http"),
        ("/to-file", ValueError, "status 302 Found leads in a circle, or to no address of http"),
        ("/to-ftp", ValueError, "status 302 Found leads in a circle, or to no address of http"),
        ("/in-a-circle", ValueError, "leads in a circle"),
        ("/to-a-user", OSError, "the address, or the server's answer, is not of HTTP"),
        ("/huge.csv", ValueError, "more than 64 GiB; download it"),
    ],
)
def test_an_answer_that_is_no_trace_is_not_explained(
    server: str, tmp_path: Path, path: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as caught:
        lc.Trace(server + path, max_bad=0).info()
    message = str(caught.value)
    assert words in message
    assert "secret" not in message.lower()
    assert message.startswith(server + path.partition("?")[0])
    del caught
    assert os.listdir(tmp_path / "copies") == []


@pytest.mark.parametrize(
    "call",
    [
        lambda trace: lc.replay(trace, "lru", 10),
        lambda trace: lc.curve(trace, "lru", 10),
        lambda trace: lc.predict(trace, 10),
        lambda trace: lc.advise(trace, "lru", 10),
        lambda trace: trace.load(),
    ],
)
def test_an_error_names_the_copy(server: str, call: Any) -> None:
    with pytest.raises(ValueError, match="line 2") as caught:
        call(lc.Trace(f"{server}/wrong.csv?token=secret", max_bad=0))
    assert str(caught.value).startswith(f"{server}/wrong.csv, line 2")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_deletes_the_copy(server: str) -> None:
    trace = lc.Trace(f"{server}/t.csv")
    child = os.fork()
    if child == 0:
        del trace
        os._exit(0)
    os.waitpid(child, 0)
    assert rows(trace) == ROWS


def started(tmp_path: Path, program: str) -> subprocess.Popen[str]:
    """Starts a program, and returns when it has printed a line."""
    environment = {**os.environ, "TMPDIR": str(tmp_path / "copies")}
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
        # The shell may have it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def test_a_copy_outlives_its_process(server: str, tmp_path: Path) -> None:
    process = started(
        tmp_path,
        f"""
import larder_cache, signal
trace = larder_cache.Trace("{server}/t.csv")
assert len(trace.load()) == 3
print("begun", flush=True)
signal.pause()
""",
    )
    copies = tmp_path / "copies"
    (link,) = copies.glob("*/t.csv")
    assert link.is_symlink()
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    # No bytes are left.
    left = [path for path in copies.rglob("*") if not path.is_dir()]
    assert [path for path in left if path.is_file() or not path.is_symlink()] == []


@pytest.mark.skipif(not hasattr(fs, "GcsFileSystem"), reason="pyarrow without gs://")
@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_ctrl_c_waits_for_a_server_that_is_not_there(tmp_path: Path, name: str) -> None:
    (tmp_path / "copies").mkdir()
    process = started(
        tmp_path,
        f"""
import larder_cache
print("begun", flush=True)
try:
    # Without an interruption, it is given up after more than a minute, with an OSError.
    larder_cache.Trace("gs://anonymous@bucket/{name}?scheme=http&endpoint_override=127.0.0.1:1")
except KeyboardInterrupt:
    print("interrupted")
""",
    )
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    try:
        assert process.communicate(timeout=60)[0] == "interrupted\n"
    finally:
        process.kill()
    assert process.returncode == 0


def test_a_file_that_is_too_large_fills_the_disk(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_url, "MAX_BYTES", len(CSV) - 1)
    with pytest.raises(ValueError, match="more than 0 GiB; download it"):
        lc.Trace(f"{server}/t.csv")
    assert os.listdir(tmp_path / "copies") == []


def test_ctrl_c_does_not_end_a_download(server: str, tmp_path: Path) -> None:
    interrupter = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    start = time.monotonic()
    interrupter.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            lc.Trace(f"{server}/silent.csv")
    finally:
        interrupter.cancel()
    # The server waits for 60 seconds, and nothing else has ended the download.
    assert time.monotonic() - start < 20
    assert os.listdir(tmp_path / "copies") == []


def test_no_server_and_wrong_addresses_are_not_explained(server: str) -> None:
    for source, kind, words in (
        ("http://127.0.0.1:1/t.csv", OSError, "refused; check the address and the connection"),
        ("http://user:word@127.0.0.1:1/t.csv", ValueError, "http://127.0.0.1:1/t.csv: a user"),
        ("http://user:word@127.0.0.1/t.csv", ValueError, "http://127.0.0.1/t.csv: a user"),
        ("https://user:wo/rd@127.0.0.1/t.csv", ValueError, "https://127.0.0.1/t.csv: a user"),
        ("http://127.0.0.1:word/t.csv?word", OSError, "is not of HTTP; check the address"),
        ("s3://KEYID:word%zz@bucket/t.csv", ValueError, "s3://bucket/t.csv: pyarrow reads no"),
        ("s3://KEYID:wo/rd@bucket/t.csv", ValueError, "s3://bucket/t.csv: pyarrow reads no"),
        ("s3://KEYID:wo?rd@bucket/t.csv", ValueError, "s3://bucket/t.csv: pyarrow reads no"),
        ("s3://bucket/t.csv?token=word", ValueError, "s3://bucket/t.csv: pyarrow reads no"),
        ("ftp://host/t.csv", ValueError, "a URL starts with https://, s3://, gs:// or file:///"),
        ("file://t.csv", ValueError, "a URL starts with"),
    ):
        with pytest.raises(kind) as caught:
            lc.Trace(source)
        assert words in str(caught.value)
        for secret in ("KEYID", "word@", "word%", "rd@", "wo/", "wo?", "token"):
            assert secret not in str(caught.value), source


def test_a_file_at_a_local_url_or_another_file_system_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a b.csv"
    path.write_bytes(CSV)
    assert rows(lc.Trace(path.as_uri())) == ROWS
    local = fs.LocalFileSystem()
    assert rows(lc.Trace(str(path), filesystem=local)) == ROWS
    # Like S3, a file system that is not this machine's.
    other = fs.SubTreeFileSystem(str(tmp_path), local)
    trace = lc.Trace("a b.csv", filesystem=other)
    path.unlink()
    assert (trace.name, rows(trace)) == ("a b.csv", ROWS)
    pq.write_table(pa.table(ROWS), tmp_path / "t.parquet")
    assert rows(lc.Trace("t.parquet", filesystem=other)) == ROWS
    for name in ("none.csv", "none.parquet"):
        with pytest.raises(FileNotFoundError, match=name):
            lc.Trace(name, filesystem=other)
    with pytest.raises(TypeError, match=r"str is none of pyarrow\.fs"):
        lc.Trace("t.csv", filesystem="s3")
