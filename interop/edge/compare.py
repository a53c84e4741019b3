#!/usr/bin/env python3
"""Sends the same requests to an original (nginx, Varnish, Caddy or Squid) and to Larder, and compares the responses and what the origins get.

  compare.py nginx|varnish|caddy|squid SITE      SITE is a folder beside this file with site.py and the configurations

Each program has an origin of its own, which answers as site.py says. Compared are status, fields and body of each response, and the
requests at the origin. A difference fails unless ALLOWED, or the site's list, has a pattern for it; each pattern has a reason. A
pattern that nothing needs fails too, so the lists stay true."""

import gzip
import http.client
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).resolve().parent
LARDER = os.environ.get("LARDER", "target/debug/larder")
TOKEN = "0123456789abcdef"
FOLDER = "/srv/www"
START_LIMIT = 20.0
# A refresh in the background belongs to the request that caused it: so many seconds after a response, and longer where the step waited
# until something was stale.
QUIET, QUIET_WHEN_STALE = 0.03, 0.5

# Fields of one connection, and fields that carry the clock.
NOT_COMPARED = {"connection", "keep-alive", "transfer-encoding", "date"}

ALLOWED = {
    "nginx": [
        (r"field server:", "Larder passes the origin's `Server` on; nginx replaces it by its own"),
        (r"field via:", "Larder adds `Via`, as RFC 9110 demands of a proxy; nginx does not"),
        (r"field cache-status:", "Larder names what it did in `Cache-Status` (RFC 9211)"),
        (r"field age:", "Larder sends `Age`, as RFC 9111 demands of a cache; nginx does not"),
    ],
    "varnish": [
        (r"field via:", "both add `Via`, with different names"),
        (r"field x-varnish:", "Varnish sends its transaction ids in `X-Varnish`"),
        (r"field cache-status:", "Larder names what it did in `Cache-Status` (RFC 9211)"),
        (r"field age: varnish \['0'\], Larder \[\]", "Varnish sends `Age: 0` with a response from the origin; Larder sends `Age` with stored responses"),
    ],
    "caddy": [
        (r"field via:", "both add `Via`; Caddy only to what an origin answers"),
        (r"field server:", "Caddy sends `Server: Caddy`; Larder none of its own"),
        (r"field cache-status:", "Larder names what it did in `Cache-Status` (RFC 9211)"),
    ],
    "squid": [
        (r"field via:", "both add `Via`, with different names"),
        (r"field cache-status:", "Larder names what it did in `Cache-Status` (RFC 9211)"),
        (r"field x-cache(-lookup)?:", "and Squid in `X-Cache` and `X-Cache-Lookup`"),
        (r"field warning: squid .*, Larder \[\]", "Squid sends `Warning`, which RFC 9111 has removed from HTTP"),
        (
            r"^(conditional|a style, validated).*field (content-type: squid .*, Larder \[\]|etag: squid \[\], Larder)",
            "Larder's 304 has the fields that RFC 9110 lists for a 304; Squid's has `Content-Type`, and no `ETag`",
        ),
    ],
}


class Origin:
    """An origin that answers as the site says, and records what it gets."""

    def __init__(self, answer):
        self.requests, self.pending, self.lock, self.is_down = [], 0, threading.Lock(), False
        origin = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def version_string(self):
                return "origin"

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except (ConnectionError, BrokenPipeError):
                    self.close_connection = True

            def respond(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with origin.lock:
                    origin.requests.append((self.command, self.path, self.headers, body))
                    origin.pending += 1
                try:
                    status, fields, content = answer(self.command, self.path, self.headers, body) if not origin.is_down else (503, [], b"down")
                    self.send_response(status)
                    for name, value in fields:
                        self.send_header(name, value)
                    if status >= 200 and status not in (204, 304):
                        self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    if self.command != "HEAD" and status not in (204, 304):
                        self.wfile.write(content)
                finally:
                    with origin.lock:
                        origin.pending -= 1

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = do_PURGE = respond

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self):
        """Returns the requests since the last call, when none is in progress."""
        while True:
            with self.lock:
                if self.pending == 0:
                    taken, self.requests = self.requests, []
                    return taken
            time.sleep(0.01)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def replaced(text, work, *pairs):
    """The configuration with the addresses and paths of this test. Each text has to stand in it: the file is what the page shows. A site
    of files has a folder in the place of an origin and of a cache on disk."""
    if FOLDER in text:
        pairs = [(old, new) for old, new in pairs if old in text or "listen" in old or "0.0.0.0" in old] + [(FOLDER, str(work / "www"))]
    for old, new in pairs:
        assert old in text, f"the configuration lacks {old!r}, which the test replaces"
        text = text.replace(old, new)
    return text


class Program:
    """A running proxy."""

    def __init__(self, name, command, port, work, environment=None):
        self.name, self.port, self.log = name, port, work / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=work, env=environment)
        limit = time.monotonic() + START_LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > limit:
                    self.stop()
                    raise SystemExit(f"{name} does not start:\n{self.log.read_text()}")
                time.sleep(0.05)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def send(self, method, target, fields, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in fields:
                connection.putheader(name, value)
            if body:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            response = connection.getresponse()
            return response.status, [(name.lower(), value) for name, value in response.getheaders()], response.read()
        finally:
            connection.close()


def start_nginx(folder, work, origin):
    port = free_port()
    site = replaced(
        (folder / "nginx.conf").read_text(),
        work,
        ("listen 80;", f"listen 127.0.0.1:{port};"),
        ("127.0.0.1:8000", f"127.0.0.1:{origin}"),
        ("/var/cache/nginx", str(work / "nginx_cache")),
    )
    temporary = "".join(f"{kind}_temp_path {work}/{kind}_temp;\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;\n" if os.getuid() == 0 else ""
    (work / "nginx.conf").write_text(
        f"{user}pid {work}/nginx.pid;\nworker_processes 1;\ndaemon off;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{site}}}\n"
    )
    command = ["nginx", "-e", str(work / "nginx_error.log"), "-p", str(work), "-c", str(work / "nginx.conf")]
    return Program("nginx", command, port, work)


def start_varnish(folder, work, origin):
    port = free_port()
    vcl = replaced((folder / "varnish.vcl").read_text(), work, ('.port = "8000"', f'.port = "{origin}"'))
    (work / "site.vcl").write_text(vcl)
    command = ["varnishd", "-F", "-n", str(work / "varnish"), "-a", f"127.0.0.1:{port}", "-f", str(work / "site.vcl"), "-s", "default,64m"]
    return Program("varnish", command, port, work)


def start_larder(folder, work, origin):
    port, admin = free_port(), free_port()
    toml = replaced(
        (folder / "larder.toml").read_text(),
        work,
        ('"0.0.0.0:80"', f'"127.0.0.1:{port}"'),
        ("127.0.0.1:8000", f"127.0.0.1:{origin}"),
        ('"127.0.0.1:8081"', f'"127.0.0.1:{admin}"'),
    )
    (work / "larder.toml").write_text(toml.replace("/etc/larder/", f"{folder}/"))
    program = Program("larder", [LARDER, "run", str(work / "larder.toml")], port, work)
    program.admin = admin
    return program


def start_caddy(folder, work, origin):
    port = free_port()
    site = replaced(
        (folder / "Caddyfile").read_text(),
        work,
        ("http://app.example.com {", f"http://app.example.com:{port} {{\n\tbind 127.0.0.1"),
        ("127.0.0.1:8000", f"127.0.0.1:{origin}"),
    )
    (work / "Caddyfile").write_text(f"{{\n\tadmin off\n\tauto_https off\n\tpersist_config off\n\tstorage file_system {work}/caddy\n}}\n{site}")
    command = ["caddy", "run", "--config", str(work / "Caddyfile"), "--adapter", "caddyfile"]
    return Program("caddy", command, port, work, {**os.environ, "HOME": str(work)})


def start_squid(folder, work, origin):
    port = free_port()
    site = replaced(
        (folder / "squid.conf").read_text(),
        work,
        ("http_port 80 ", f"http_port 127.0.0.1:{port} "),
        ("127.0.0.1 parent 8000 ", f"127.0.0.1 parent {origin} "),
    )
    # Started by root, it becomes this user, and writes its log here.
    if os.getuid() == 0:
        shutil.chown(work, "proxy")
    (work / "squid.conf").write_text(
        f"{site}cache_effective_user proxy\npid_filename {work}/squid.pid\ncache_log {work}/cache.log\naccess_log none\ncoredump_dir {work}\nshutdown_lifetime 0 seconds\n"
    )
    return Program("squid", ["squid", "-N", "-n", f"edge{port}", "-f", str(work / "squid.conf")], port, work)


STARTS = {"nginx": start_nginx, "varnish": start_varnish, "caddy": start_caddy, "squid": start_squid, "larder": start_larder}


class Step:
    """One request; `host` stands in it as clients send it. With `after`, it is sent so many seconds after the one before. With `origin`
    the origin's state changes first: "down" or "up". A step with `purge` is what the operator does to remove the URL. `only` names the
    original whose configuration has what the step shows."""

    def __init__(self, label, target, method="GET", fields=(), body=b"", after=0.0, origin=None, purge=False, only=None):
        self.label, self.target, self.method, self.fields, self.body = label, target, method, list(fields), body
        self.after, self.origin, self.purge, self.only = after, origin, purge, only


class Comparison:
    """Both programs, with their origins, and the differences so far."""

    def __init__(self, original, site, work):
        self.original, self.site = original, site
        self.origins = {name: Origin(site.application()) for name in (original, "larder")}
        self.allowed = [(re.compile(pattern), reason) for pattern, reason in ALLOWED[original] + site.ALLOWED.get(original, [])]
        self.used, self.problems, self.compared = set(), [], 0
        self.programs = {}
        for name in (original, "larder"):
            (work / name).mkdir()
            if hasattr(site, "make"):
                site.make(work / name / "www")
            self.programs[name] = STARTS[name](HERE / site.NAME, work / name, self.origins[name].port)

    def stop(self):
        for program in self.programs.values():
            program.stop()

    def purge(self, name, step):
        """What the operator does to remove a URL: each program has its own way."""
        program = self.programs[name]
        if name == "nginx":
            return program.send("GET", step.target, [("Host", self.site.HOST), ("X-Refresh", "1")], b"")[0]
        if name in ("varnish", "squid"):
            return program.send("PURGE", step.target, [("Host", self.site.HOST)], b"")[0]
        url = f"http://{self.site.HOST}{step.target}"
        done = subprocess.run(
            [LARDER, "ctl", "purge", "--admin", f"127.0.0.1:{program.admin}", "--url", url],
            env={**os.environ, "LARDER_TOKEN": TOKEN}, capture_output=True, text=True, timeout=20,
        )
        assert done.returncode == 0, f"larder ctl purge: {done.stderr}"
        return 200

    def run(self, step):
        time.sleep(step.after)
        responses = {}
        for name, program in self.programs.items():
            if step.origin:
                self.origins[name].is_down = step.origin == "down"
            if step.purge:
                responses[name] = (self.purge(name, step), [], b"")
            else:
                responses[name] = program.send(step.method, step.target, [("Host", self.site.HOST), *step.fields], step.body)
        time.sleep(QUIET_WHEN_STALE if step.after else QUIET)
        requests = {name: origin.take() for name, origin in self.origins.items()}
        self.compare(step.label, *((responses[name], requests[name]) for name in (self.original, "larder")))

    def compare(self, label, theirs, ours):
        (their_status, their_fields, their_body), their_requests = theirs
        (our_status, our_fields, our_body), our_requests = ours
        self.one(label, "status", their_status, our_status)
        self.one(label, "body", shown(their_body, their_fields), shown(our_body, our_fields))
        names = {name for name, _ in their_fields + our_fields} - NOT_COMPARED
        for name in sorted(names):
            values = [sorted(value for other, value in fields if other == name) for fields in (their_fields, our_fields)]
            self.one(label, f"field {name}", *values)
        self.one(label, "requests at the origin", self.at_origin(their_requests), self.at_origin(our_requests))

    def at_origin(self, requests):
        fields = lambda headers: {name: headers[name] for name in self.site.ORIGIN_FIELDS if name in headers}
        # Larder fetches slices ahead, over several connections: they have no order.
        return sorted(((method, target, fields(headers)) for method, target, headers, _ in requests), key=repr)

    def one(self, label, what, theirs, ours):
        self.compared += 1
        if theirs == ours or what == "field age" and is_same_age(theirs, ours):
            return
        difference = f"{label}: {what}: {self.original} {theirs!r}, Larder {ours!r}"
        matching = [place for place, (pattern, _) in enumerate(self.allowed) if pattern.search(difference)]
        self.used.update(matching)
        if not matching:
            self.problems.append(difference)


def is_same_age(theirs, ours):
    """The programs are asked one after another, and round seconds in their own ways."""
    return len(theirs) == len(ours) == 1 and abs(int(theirs[0]) - int(ours[0])) <= 2


def shown(body, fields):
    # Two programs compress in different ways.
    body = gzip.decompress(body) if body and ("content-encoding", "gzip") in fields else body
    return body if len(body) <= 200 else (len(body), hash(body))


def load(name):
    spec = importlib.util.spec_from_file_location(name, HERE / name / "site.py")
    site = importlib.util.module_from_spec(spec)
    site.Step = Step
    spec.loader.exec_module(site)
    return site


def main(original, name):
    os.environ["PATH"] += f":/usr/sbin:/usr/local/sbin:{Path.home()}/go/bin"
    site = load(name)
    work = Path(tempfile.mkdtemp(prefix="larder-edge."))
    work.chmod(0o755)  # Varnish reads its configuration as another user.
    comparison = None
    try:
        comparison = Comparison(original, site, work)
        steps = [step for step in site.STEPS if step.only in (None, original)]
        for step in steps:
            comparison.run(step)
    finally:
        if comparison:
            comparison.stop()
        if "KEEP" in os.environ:
            print(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    for problem in comparison.problems:
        print(problem)
    unused = [pattern.pattern for place, (pattern, _) in enumerate(comparison.allowed) if place not in comparison.used]
    for pattern in unused:
        print(f"allowed, and no request shows it: {pattern}")
    print(f"{len(steps)} requests, {comparison.compared} comparisons, {len(comparison.problems)} differences that nothing allows")
    sys.exit(bool(comparison.problems or unused))


if __name__ == "__main__":
    LARDER = str(Path(LARDER).resolve())
    main(*sys.argv[1:])
