#!/usr/bin/env python3
"""Nodes over an object store with the protocol of S3: what was requested twice is written, comes back after a restart and at another
node without its body from the origin, and is never what was purged or has changed; requests do without a store that is down or slow.

  LARDER=... object_store.py SERVER          SERVER: a gofakes3
"""

import contextlib
import hashlib
import http.client
import http.server
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

LARDER, TOKEN, HOST = os.environ["LARDER"], "0123456789abcdef", "site.test"
BODY = 100_000


def free_port():
    """A port below the range from which the kernel serves outgoing connections."""
    while True:
        port = random.randrange(20000, 32768)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def wait_for(what, condition, seconds=20):
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            if found := condition():
                return found
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)


def body_of(path, version, language=""):
    """Pseudo-random bytes of this version."""
    seed = hashlib.sha256(f"{path} {version} {language}".encode()).digest()
    return (seed * (BODY // len(seed) + 1))[:BODY]


class Origin:
    """Serves /TAG/NAME with a strong tag for a minute; below /vary/ by language. Counts requests by status, and bytes of bodies."""

    def __init__(self):
        self.port, self.lock = free_port(), threading.Lock()
        self.versions, self.requests, self.bytes = {}, {}, 0
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

            def do_GET(self):
                with origin.lock:
                    version = origin.versions.get(self.path, 1)
                tag = self.path.split("/")[1]
                language = self.headers.get("Accept-Language", "") if tag == "vary" else ""
                etag = f'"{version}{language}"'
                confirmed = self.headers.get("If-None-Match") == etag
                body = b"" if confirmed else body_of(self.path, version, language)
                with origin.lock:
                    status = 304 if confirmed else 200
                    origin.requests[status] = origin.requests.get(status, 0) + 1
                    origin.bytes += len(body)
                self.send_response(status)
                fields = {"ETag": etag, "Cache-Control": "max-age=60", "Surrogate-Key": tag}
                if tag == "vary":
                    fields["Vary"] = "Accept-Language"
                if not confirmed:
                    fields["Content-Length"] = str(len(body))
                for name, value in fields.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads, allow_reuse_address, request_queue_size = True, True, 128

        threading.Thread(target=Server(("127.0.0.1", self.port), Handler).serve_forever, daemon=True).start()

    @contextlib.contextmanager
    def counted(self):
        """Gives a function for the requests by status and the bytes since."""
        with self.lock:
            requests, sent = dict(self.requests), self.bytes

        def since():
            with self.lock:
                by_status = {status: count - requests.get(status, 0) for status, count in self.requests.items()}
                return {status: count for status, count in by_status.items() if count}, self.bytes - sent

        yield since


class Program:
    def __init__(self, world):
        self.process = None
        world.programs.append(self)

    def run(self, command, log, environment=None):
        self.process = subprocess.Popen(command, stdout=open(log, "ab"), stderr=subprocess.STDOUT, env=environment)

    def stop(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(how)
            self.process.wait(30)


class Store(Program):
    def __init__(self, world, server):
        super().__init__(world)
        self.server, self.port, self.log = server, free_port(), world.work / "store.log"
        self.start()

    def start(self):
        # On disk, so that it survives a restart.
        bolt = self.log.with_suffix(".bolt")
        self.run([self.server, "-host", f"127.0.0.1:{self.port}", "-backend", "bolt", "-bolt.db", bolt, "-initialbucket", "cache"], self.log)
        wait_for("the store", lambda: socket.create_connection(("127.0.0.1", self.port), 1))


class Node(Program):
    def __init__(self, world, name, store=True, cache="4MiB"):
        super().__init__(world)
        self.name, self.world = name, world
        self.http, self.admin = free_port(), free_port()
        self.file, self.log = world.work / f"{name}.toml", world.work / f"{name}.log"
        credentials = world.work / "credentials"
        credentials.write_text("[default]\naws_access_key_id = AK\naws_secret_access_key = SK\n")
        text = f"""
[ndn]
enabled = false
[http]
listen = "127.0.0.1:{self.http}"
origin = "http://127.0.0.1:{world.origin.port}"
cache = "{cache}"
policy = "lru"
threads = 2
[admin]
listen = "127.0.0.1:{self.admin}"
token = "{TOKEN}"
"""
        if store:
            text += f"""
[http.object_store]
url = "s3://cache/site"
endpoint = "http://127.0.0.1:{world.store.port}"
credentials = "{credentials}"
"""
        self.file.write_text(text)
        self.start()

    def start(self):
        self.run([LARDER, "run", self.file], self.log)
        wait_for(f"node {self.name}", lambda: socket.create_connection(("127.0.0.1", self.http), 1))
        wait_for(f"the figures of {self.name}", self.figures)

    def get(self, path, **fields):
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=20)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Host": HOST, **{name.replace("_", "-"): value for name, value in fields.items()}})
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    def good(self, path, version=1, language=""):
        """Asks, and compares the body to the byte."""
        fields = {"Accept_Language": language} if language else {}
        status, headers, body = self.get(path, **fields)
        assert status == 200 and body == body_of(path, version, language), (self.name, path, status, len(body))
        assert headers["Content-Length"] == str(BODY)
        return headers

    def figures(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", "/status", headers={"Authorization": f"Bearer {TOKEN}"})
            page = connection.getresponse().read()
            return json.loads(page)["http"]

    def objects(self):
        return self.figures()["object_store"]

    def is_written(self):
        wait_for("nothing waits", lambda: self.objects()["waiting_bytes"] == 0)

    def written(self, count):
        wait_for(f"{count} objects of {self.name}", lambda: self.objects()["written"] >= count)
        assert self.objects()["written"] == count, self.objects()

    def purge(self, **scope):
        command = [LARDER, "ctl", "purge", "--admin", f"127.0.0.1:{self.admin}"]
        for name, value in scope.items():
            command += [f"--{name}", value]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LARDER_TOKEN": TOKEN}, timeout=20)
        assert done.returncode == 0, done.stderr


class World:
    def __init__(self, work, server):
        self.work, self.programs, self.server = Path(work), [], server
        self.origin = Origin()
        self.store = Store(self, server)

    def end(self):
        for program in self.programs:
            program.stop(signal.SIGKILL)


PATHS = [f"/page/{number}" for number in range(100)]


def second_requests_are_written(world):
    """What was requested once is not written, and a node with a small cache fetches what it has written from the store."""
    node = world.node = Node(world, "n1")
    for path in PATHS:
        node.good(path)
    assert node.objects()["written"] == 0, node.objects()
    for number, path in enumerate(PATHS):
        # Memory has room for a third of them: the others are fetched again.
        node.good(path)
        if number % 5 == 4:
            # The queue of a small cache is small.
            node.is_written()
    node.written(len(PATHS))
    with world.origin.counted() as since:
        ages = [int(node.good(path)["Age"] or 0) for path in PATHS]
        assert since() == ({}, 0), since()
    assert max(ages) <= 60, ages
    figures = node.objects()
    return f"{figures['fresh']} of {len(PATHS)} from the store, none from the origin, {figures['written']} written"


def restart(world):
    """After a restart without a disk, the origin confirms: it sends no bodies."""
    bodies = {}
    for store in [True, False]:
        node = world.node if store else Node(world, "without", store=False)
        node.stop()
        node.start()
        with world.origin.counted() as since:
            for path in PATHS:
                node.good(path)
            requests, sent = since()
        bodies[store] = sent
        assert requests == {304 if store else 200: len(PATHS)}, requests
        if store:
            assert node.objects()["confirmed"] == len(PATHS) and node.objects()["written"] == 0, node.objects()
        else:
            node.stop()
    put, get, gigabyte = 5e-6, 4e-7, 0.05
    paid = {True: len(PATHS) * (put + get), False: bodies[False] / 1e9 * gigabyte}
    return (
        f"bytes from the origin for {len(PATHS)} pages: {bodies[True]} with the store, {bodies[False]} without; "
        f"{paid[True]:.6f} for writes and reads, {paid[False]:.6f} for bytes of the origin"
    )


def other_node(world):
    """Another node with the same bucket uses what the first has written."""
    node = world.other = Node(world, "n2")
    with world.origin.counted() as since:
        for path in PATHS[:50]:
            node.good(path)
        assert since() == ({304: 50}, 0), since()
    return "50 pages confirmed at another node"


def changed(world):
    """What has changed at the origin comes from there."""
    for path in PATHS[:10]:
        world.origin.versions[path] = 2
    world.node.stop()
    world.node.start()
    with world.origin.counted() as since:
        for path in PATHS[:20]:
            world.node.good(path, 2 if path in PATHS[:10] else 1)
        assert since() == ({200: 10, 304: 10}, 10 * BODY), since()
    assert world.node.objects()["outdated"] == 10


def purged(world):
    """A purged object is not used, not even after its confirmation; by URL it is removed."""
    node = world.node
    path = PATHS[50]
    node.good(path)
    node.purge(url=f"http://{HOST}{path}")
    wait_for("the removal", lambda: node.objects()["removed"] == 1)
    with world.origin.counted() as since:
        node.good(path)
        assert since() == ({200: 1}, BODY), since()
    node.purge(tag="page")
    with world.origin.counted() as since:
        for path in PATHS[60:80]:
            node.good(path)
        assert since() == ({200: 20}, 20 * BODY), since()
    # What was written since is used.
    for path in PATHS[60:80]:
        node.good(path)
    wait_for("20 objects", lambda: node.objects()["written"] >= 20)
    return f"{node.objects()['written']} written anew"


def variants(world):
    """Each language is an object, which a restart finds."""
    node, languages = world.node, ["de", "fr", "it"]
    before = node.objects()["written"]
    for _ in range(2):
        for language in languages:
            node.good("/vary/a", language=language)
    # A note says by which field they vary.
    node.written(before + len(languages) + 1)
    node.stop()
    node.start()
    with world.origin.counted() as since:
        for language in languages:
            node.good("/vary/a", language=language)
        assert since() == ({304: 3}, 0), since()
        node.good("/vary/a", language="pl")
        assert since()[0] == {304: 3, 200: 1}, since()


def parallel(world):
    """20 clients of one object: one request to the origin."""
    node = world.other
    path, answers = PATHS[90], []
    threads = [threading.Thread(target=lambda: answers.append(node.get(path)[2])) for _ in range(20)]
    with world.origin.counted() as since:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert since() == ({304: 1}, 0), since()
    assert answers == [body_of(path, 1)] * 20


def down_and_slow(world):
    """Requests do without a store that has stopped or is gone, and use it again when it is back."""
    node = world.node
    node.stop()
    node.start()
    world.store.process.send_signal(signal.SIGSTOP)
    slowest = 0.0
    for how in ["stopped", "gone"]:
        if how == "gone":
            world.store.stop(signal.SIGKILL)
        for path in PATHS[30:50]:
            begun = time.monotonic()
            node.good(path)
            slowest = max(slowest, time.monotonic() - begun)
    assert node.objects()["left_alone"] == 1, node.objects()
    world.store.start()

    def is_back():
        path = f"/back/{random.random()}"
        node.good(path)
        node.good(path)
        return node.objects()["left_alone"] == 0

    wait_for("the store is asked again", is_back, 60)
    return f"slowest request {slowest * 1e3:.0f} ms"


def doctor(world):
    """larder doctor tries the bucket, and names what is wrong with it."""

    def examined(file):
        done = subprocess.run([LARDER, "doctor", "--json", "--config", file], capture_output=True, text=True, timeout=60)
        findings = json.loads(done.stdout)["findings"]
        return next(finding for finding in findings if "object_store" in finding["place"])

    good = examined(world.node.file)
    assert good["level"] == "ok" and "written, read, listed and emptied" in good["text"], good
    wrong = world.work / "wrong.toml"
    wrong.write_text(world.node.file.read_text().replace("s3://cache/", "s3://nothing/"))
    bad = examined(wrong)
    assert bad["level"] == "warning" and "it cannot be written" in bad["text"] and "NoSuchBucket" in bad["text"], bad
    return bad["text"][:150]


def killed(world):
    """What a killed node had written before its last minute is known to the next one; the rest is fetched and written again."""
    node = world.node
    new = [f"/late/{number}" for number in range(5)]
    before = node.objects()["written"]
    for path in new * 2:
        node.good(path)
    node.written(before + len(new))
    node.stop(signal.SIGKILL)
    node.start()
    wait_for("the filters", lambda: node.objects()["known"] > 0)
    with world.origin.counted() as since:
        for path in new:
            node.good(path)
        assert since() == ({200: len(new)}, len(new) * BODY), since()
        for path in new:
            node.good(path)
        node.written(len(new))
        for path in PATHS[10:20]:
            node.good(path)
        assert since() == ({200: len(new), 304: 10}, len(new) * BODY), since()


CHECKS = [second_requests_are_written, restart, other_node, changed, purged, variants, parallel, down_and_slow, doctor, killed]


def main():
    with tempfile.TemporaryDirectory(prefix="larder-objects-") as work:
        world = World(work, sys.argv[1])
        try:
            for check in CHECKS:
                begun = time.monotonic()
                said = check(world)
                print(f"ok    {check.__doc__.splitlines()[0]} ({time.monotonic() - begun:.1f} s)" + (f": {said}" if said else ""), flush=True)
        except BaseException:
            for log in sorted(world.work.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text()[-3000:]}")
            raise
        finally:
            world.end()


if __name__ == "__main__":
    main()
