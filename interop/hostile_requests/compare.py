#!/usr/bin/env python3
"""Sends hostile and odd requests to Larder, nginx and Varnish, each in front of an origin that records bytes, and compares what passes.

  compare.py                    fails if Larder lets more through than both others, and expected.json has no reason for it
  compare.py --update           writes expected.json anew: keeps the reasons of what is still found; new findings stand below an empty one
  compare.py --table FILE       also writes the whole table: what each lets through to its origin, and what it answers
  compare.py --only TEXT        only the requests whose names contain TEXT, with all the bytes that passed

Each request has a connection of its own to each system, and each system its own origin. observe.py makes observations of what the
origin got. An observation that only Larder's origin gives is a finding; expected.json has them by their reasons. A finding without a
reason fails, and so does one that is expected and not found."""

import argparse
import concurrent.futures
import importlib.util
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import http2
import observe

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "expected.json"
LARDER = os.environ.get("LARDER", "target/debug/larder")
SYSTEMS = ("larder", "nginx", "varnish")
START_LIMIT = 20.0
# Seconds without a byte after which a system is taken to wait for more of the request. An answer takes a few milliseconds.
QUIET = 0.6
# Seconds that a system has to pass on the head of a request before the body comes: some wait for the body, and would refuse both.
HEAD_FIRST = 0.15
# Seconds in which an answer has to be complete.
PATIENCE = 5.0
RESPONSE = b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
NO_REASON = ""


class Origin:
    """Answers every request with a short page, and records all bytes of each connection."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.lock, self.open, self.heads, self.connections = threading.Condition(), 0, 0, []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            with self.lock:
                self.open += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        received = b""
        try:
            with connection:
                connection.settimeout(PATIENCE)
                answered = False
                while True:
                    try:
                        part = connection.recv(65536)
                    except TimeoutError:
                        part = b""
                    if not part:
                        if received and not answered:
                            connection.sendall(RESPONSE)
                        break
                    received += part
                    message = observe.Message(received)
                    if message.is_complete:
                        with self.lock:
                            self.heads += 1
                            self.lock.notify_all()
                    if not answered and message.is_complete and message.has_body_whole:
                        answered = True
                        connection.sendall(RESPONSE)
                        connection.shutdown(socket.SHUT_WR)
                    elif not answered and message.is_complete and message.values(b"expect"):
                        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        except OSError:
            pass
        with self.lock:
            self.open -= 1
            if received:
                self.connections.append(received)
            self.lock.notify_all()

    def take(self):
        """Returns what has come since the last call, when no connection is open."""
        with self.lock:
            self.lock.wait_for(lambda: self.open == 0, PATIENCE)
            taken, self.connections, self.heads = self.connections, [], 0
            return taken

    def await_head(self, connection):
        """Waits until a head has come, an answer on this connection to the client if it is given, or the time is over."""
        until = time.monotonic() + HEAD_FIRST
        while time.monotonic() < until:
            with self.lock:
                if self.heads or self.lock.wait_for(lambda: self.heads, 0.005):
                    return
            if connection is not None and select.select([connection], [], [], 0)[0]:
                return


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class System:
    """A running proxy, with its origin."""

    def __init__(self, name, work, is_behind):
        self.name, self.is_behind, self.origin, self.port, self.http2_port = name, is_behind, Origin(), free_port(), free_port()
        if name != "nginx":
            self.http2_port = self.port
        work = work / f"{name}{'_behind' if is_behind else ''}"
        work.mkdir(mode=0o755)
        file = {"larder": "larder.toml", "nginx": "nginx.conf", "varnish": "default.vcl"}[name]
        text = (HERE / file).read_text()
        if is_behind:
            text = text.replace("# BEHIND ", "")
        for place, port in (("HTTP_PORT", self.port), ("HTTP2_PORT", self.http2_port), ("ORIGIN_PORT", self.origin.port)):
            text = text.replace(place, str(port))
        if name == "nginx":
            kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
            paths = "".join(f"{kind}_temp_path {work}/{kind};\n" for kind in kinds)
            text = f"pid {work}/pid;\n" + ("user root;\n" if os.getuid() == 0 else "") + text.replace("http {\n", "http {\n" + paths, 1)
        (work / file).write_text(text)
        command = {
            "larder": [LARDER, "run", str(work / file)],
            "nginx": ["nginx", "-e", str(work / "error.log"), "-p", str(work), "-c", str(work / file)],
            "varnish": ["varnishd", "-F", "-n", str(work / "run"), "-a", f"127.0.0.1:{self.port}", "-f", str(work / file), "-s", "default,64m", "-p", "feature=+http2"],
        }[name]
        self.log = work / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=work)
        limit = time.monotonic() + START_LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
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

    def send(self, request):
        """Returns the answer in a word, and what its origin got."""
        try:
            with socket.create_connection(("127.0.0.1", self.http2_port if request.fields else self.port), PATIENCE) as connection:
                answer = self.ask_http2(connection, request) if request.fields else self.ask(connection, request)
        except OSError as error:
            answer = f"reset ({error.strerror})"
        return answer, self.origin.take()

    def ask(self, connection, request):
        received = b""
        head, end, body = request.wire.partition(b"\r\n\r\n")
        if not re.search(rb"(?i)content.length|transfer.encoding", head):
            head, end, body = request.wire, b"", b""
        try:
            connection.sendall(head + end)
            if body:
                self.origin.await_head(connection)
                connection.sendall(body)
        except OSError:
            pass  # The system may have answered before it has read all.
        connection.settimeout(QUIET)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                part = connection.recv(65536)
            except TimeoutError:
                break
            except OSError:
                part = b""
            if not part:
                return statuses(received) or "closed"
            received += part
        return statuses(received) or "waits"

    def ask_http2(self, connection, request):
        reply = http2.Reply()
        head, body = http2.request(request.fields, request.data, request.trailers)
        connection.sendall(head)
        if body:
            self.origin.await_head(None)
            try:
                connection.sendall(body)
            except OSError:
                pass
        connection.settimeout(QUIET)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and reply.ended is None:
            try:
                part = connection.recv(65536)
            except TimeoutError:
                return reply.status or "waits"
            if not part:
                return reply.status or "closed"
            if answer := reply.read(part):
                try:
                    connection.sendall(answer)
                except OSError:
                    pass
        return reply.status or reply.ended or "waits"


def statuses(received):
    """The statuses of the answers on a connection; of HTTP/0.9, that it is one."""
    found, rest = [], received
    while rest.startswith(b"HTTP/1."):
        found.append(rest[9:12].decode("latin-1"))
        head, _, rest = rest.partition(b"\r\n\r\n")
        length = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if found[-1] not in ("204", "304") and not found[-1].startswith("1"):
            rest = rest[int(length[0]) if length and length[0].strip().isdigit() else 0 :]
            at = rest.find(b"HTTP/1.")  # Chunks, or the body that HEAD has not.
            rest = rest[at:] if at >= 0 else b""
    return " ".join(found) or ("0.9" if received else "")


def load_requests():
    spec = importlib.util.spec_from_file_location("table", HERE / "table.py")
    table = importlib.util.module_from_spec(spec)
    sys.modules["table"] = table
    spec.loader.exec_module(table)
    return table.REQUESTS


def run(requests):
    """Returns for each system the answers and what passed, request by request."""
    work = Path(tempfile.mkdtemp(prefix="larder-hostile."))
    work.chmod(0o755)  # Varnish reads its configuration as another user.
    systems = []
    try:
        for name in SYSTEMS:
            systems += [System(name, work, is_behind) for is_behind in (False, True)]
        with concurrent.futures.ThreadPoolExecutor(len(systems)) as pool:
            parts = pool.map(lambda system: [system.send(one) for one in requests if one.is_behind == system.is_behind], systems)
            results = {name: {False: [], True: []} for name in SYSTEMS}
            for system, part in zip(systems, parts):
                results[system.name][system.is_behind] = iter(part)
        for system in systems:
            if system.process.poll() is not None:
                raise SystemExit(f"{system.name} has ended:\n{system.log.read_text()}")
        return {name: [next(results[name][request.is_behind]) for request in requests] for name in SYSTEMS}
    finally:
        for system in systems:
            system.stop()
        shutil.rmtree(work, ignore_errors=True)


def write_table(path, requests, results, seen):
    """Writes what each system answered, and the observations at its origin."""
    lines = []
    for at, request in enumerate(requests):
        lines.append(request.name)
        for name in SYSTEMS:
            lines.append(f"    {name:8} {results[name][at][0]:12} {'; '.join(sorted(seen[name][at])) or '-'}")
    passes = {name: ["reaches the origin" in one for one in seen[name]] for name in SYSTEMS}
    refused = [request.name for at, request in enumerate(requests) if not passes["larder"][at] and passes["nginx"][at] and passes["varnish"][at]]
    lines += ["", "Larder alone refuses:", *(f"    {name}" for name in refused)]
    for one, other in (("nginx", "varnish"), ("varnish", "nginx")):
        lines += ["", f"Larder and {one} let through, and {other} does not:"]
        for at, request in enumerate(requests):
            shared = (seen["larder"][at] & seen[one][at]) - seen[other][at]
            if shared - {"reaches the origin"}:
                lines.append(f"    {request.name}: {'; '.join(sorted(shared))}")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("\n".join(lines) + "\n")


def judge(findings, update, is_whole):
    """Compares the findings with expected.json. Returns the problems."""
    by_reason = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    expected = {finding: reason for reason, found in by_reason.items() for finding in found}
    if update:
        expected = {finding: expected.get(finding, NO_REASON) for finding in sorted(findings)}
        by_reason = {reason: [finding for finding in expected if expected[finding] == reason] for reason in sorted(set(expected.values()))}
        EXPECTED.write_text(json.dumps(by_reason, indent=2, ensure_ascii=False) + "\n")
    problems = [f"Larder alone: {finding}" for finding in findings if finding not in expected]
    problems += [f"no reason in expected.json: {finding}" for finding in findings if expected.get(finding) == NO_REASON]
    if is_whole:
        problems += [f"expected, and not found: {finding}" for finding in expected if finding not in findings]
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--table")
    parser.add_argument("--only")
    arguments = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin:/usr/local/sbin"
    requests = [request for request in load_requests() if arguments.only is None or arguments.only in request.name]
    results = run(requests)
    seen = {name: [observe.observations(passed, request) for request, (_, passed) in zip(requests, results[name])] for name in SYSTEMS}
    findings = []
    for at, request in enumerate(requests):
        alone = seen["larder"][at] - seen["nginx"][at] - seen["varnish"][at]
        findings.extend(f"{request.name}: {observation}" for observation in sorted(alone))
    if arguments.table:
        write_table(arguments.table, requests, results, seen)
    if arguments.only is not None:
        for at, request in enumerate(requests):
            print(f"{request.name}: {request.wire or request.fields}")
            for name in SYSTEMS:
                print(f"    {name}: {results[name][at]}")
    problems = judge(findings, arguments.update, arguments.only is None)
    for problem in problems:
        print(problem)
    reached = {name: sum("reaches the origin" in one for one in seen[name]) for name in SYSTEMS}
    passed = ", ".join(f"{count} by {name}" for name, count in reached.items())
    print(f"{len(requests)} requests; let through: {passed}; {len(findings)} findings of Larder alone, {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    LARDER = str(Path(LARDER).resolve())
    main()
