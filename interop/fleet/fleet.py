#!/usr/bin/env python3
"""fleet.py [--quick] NATS_SERVER [OLD_NATS_SERVER]: drives three nodes of a fleet over a cluster of three real servers of NATS.

Starts the servers, an origin that counts its requests, and the nodes ($LARDER) on free ports of 127.0.0.1, and ends all of them. Servers
and nodes are killed, stopped and rolled back meanwhile. One line for each check; exit status 1 if any failed. --quick leaves out what
rolls back or remakes the log. OLD_NATS_SERVER is one before 2.11, which has to be refused.
"""

import concurrent.futures
import contextlib
import http.client
import http.server
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

LARDER = os.environ["LARDER"]
QUICK = "--quick" in sys.argv
NATS, OLD_NATS = ([one for one in sys.argv[1:] if one != "--quick"] + [None, None])[:2]
FLEET, TOKEN, HOST = "interop", "0123456789abcdef", "site.test"
STREAM = f"LARDER_{FLEET}"
LAG = 3.0
SECONDS = 30


def free_ports(count):
    """Ports below the range from which the kernel serves outgoing connections, free for TCP and UDP."""
    ports = set()
    while len(ports) < count:
        port = random.randrange(20000, 32768)
        with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            try:
                tcp.bind(("127.0.0.1", port))
                udp.bind(("127.0.0.1", port))
                ports.add(port)
            except OSError:
                pass
    return list(ports)


def wait_for(what, condition, seconds=SECONDS):
    """Returns what the condition returns, as soon as it is true."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if found := condition():
                return found
        except (OSError, http.client.HTTPException):
            pass
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)


def percentiles(seconds):
    """p50, p99 and the maximum, in milliseconds."""
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"p50 {statistics.median(ordered) * 1e3:.1f}, p99 {p99 * 1e3:.1f}, max {ordered[-1] * 1e3:.1f} ms"


class Origin:
    """Serves /KIND/TAG/NAME: the version of the path as the body, with the tag. The ETag is that of the version, except below /same/,
    where it never changes: a validation keeps an old body there, and only a purge removes it."""

    def __init__(self, port):
        self.port, self.lock, self.server = port, threading.Lock(), None
        self.versions, self.requests = {}, {}
        self.up()

    def up(self):
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self):
                if origin.server is None:
                    self.close_connection = True
                    return
                with origin.lock:
                    version = origin.versions.setdefault(self.path, 1)
                kind, tag = self.path.split("/")[1:3]
                etag = '"same"' if kind == "same" else f'"{version}"'
                confirmed = self.headers.get("If-None-Match") == etag
                with origin.lock:
                    key = (self.path, 304 if confirmed else 200)
                    origin.requests[key] = origin.requests.get(key, 0) + 1
                self.send_response(304 if confirmed else 200)
                body = b"" if confirmed else str(version).encode()
                fields = {"ETag": etag, "Cache-Control": "max-age=3600", "Surrogate-Key": f"tag-{tag}"}
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

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def down(self):
        server, self.server = self.server, None
        server.shutdown()
        server.server_close()

    def bump(self, path):
        with self.lock:
            self.versions[path] = self.versions.get(path, 1) + 1
            return self.versions[path]

    def count(self, path, status):
        with self.lock:
            return self.requests.get((path, status), 0)


class Program:
    """A process that is started, stopped and killed."""

    def __init__(self, world, name):
        self.world, self.name, self.process, self.is_stopped = world, name, None, False
        world.programs.append(self)

    def launch(self, command, **environment):
        assert not self.is_alive(), self.name
        with open(self.world.work / f"{self.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **environment}
            )

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.is_alive():
            self.process.kill()
            self.process.wait(20)
        self.is_stopped = False

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        self.is_stopped = True

    def resume(self):
        self.process.send_signal(signal.SIGCONT)
        self.is_stopped = False

    def log(self):
        path = self.world.work / f"{self.name}.log"
        return path.read_text(errors="replace") if path.exists() else ""


class Nats(Program):
    """A server of NATS; one of a cluster, if there are routes."""

    def __init__(self, world, name, program, port, cluster_port=None, routes=()):
        super().__init__(world, name)
        self.program, self.port, self.store = program, port, world.work / f"{name}.store"
        self.file = world.work / f"{name}.conf"
        text = f'server_name: {name}\nlisten: "127.0.0.1:{port}"\njetstream {{ store_dir: "{self.store}" }}\n'
        if routes:
            urls = ", ".join(f'"nats://127.0.0.1:{route}"' for route in routes)
            text += f'cluster {{ name: interop, listen: "127.0.0.1:{cluster_port}", routes: [{urls}] }}\n'
        self.file.write_text(text)

    def start(self):
        self.launch([self.program, "-c", str(self.file)])


class RawNats:
    """A client of NATS for single requests."""

    def __init__(self, port, seconds=5):
        self.stream = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self.file, self.inbox, self.last = self.stream.makefile("rb"), f"_INBOX.{uuid.uuid4().hex}", 0
        assert self.file.readline().startswith(b"INFO ")
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "name": "interop"}
        self.stream.sendall(b"CONNECT %s\r\nSUB %s.* 1\r\n" % (json.dumps(options).encode(), self.inbox.encode()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.stream.close()

    def request(self, subject, payload=b"", headers=None):
        """Returns the header and the payload of the answer."""
        self.last += 1
        reply = f"{self.inbox}.{self.last}"
        head = b""
        if headers:
            head = b"NATS/1.0\r\n" + b"".join(f"{name}: {value}\r\n".encode() for name, value in headers.items()) + b"\r\n"
            line = f"HPUB {subject} {reply} {len(head)} {len(head) + len(payload)}"
        else:
            line = f"PUB {subject} {reply} {len(payload)}"
        self.stream.sendall(line.encode() + b"\r\n" + head + payload + b"\r\n")
        while True:
            words = self.file.readline().decode().split()
            if not words:
                raise ConnectionError("the server closed the connection")
            if words[0] == "PING":
                self.stream.sendall(b"PONG\r\n")
            elif words[0] in ("MSG", "HMSG"):
                header_bytes = int(words[-2]) if words[0] == "HMSG" else 0
                body = self.file.read(int(words[-1]) + 2)[:-2]
                if words[1] == reply:
                    return body[:header_bytes].decode(), body[header_bytes:]
            elif words[0] == "-ERR":
                raise ConnectionError(" ".join(words))


class Answer:
    """A response of a node."""

    def __init__(self, response):
        self.status, self.body = response.status, response.read().decode(errors="replace")
        self.cache = response.headers.get("Cache-Status", "")
        self.is_hit = "; hit" in self.cache
        self.is_validated = "fwd=stale" in self.cache and "fwd-status=304" in self.cache

    @property
    def version(self):
        assert self.status == 200, self
        return int(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:100]!r} [{self.cache}]"


class Node(Program):
    """A node with ports and a disk tier of its own."""

    def __init__(self, world, name, servers):
        super().__init__(world, name)
        self.http, self.admin = free_ports(2)
        self.file, self.local = world.work / f"{name}.toml", threading.local()
        self.folder = world.work / f"{name}.disk.fleet"
        urls = ", ".join(f'"nats://127.0.0.1:{server.port}"' for server in servers)
        self.file.write_text(f"""[ndn]
enabled = false
[http]
listen = "127.0.0.1:{self.http}"
origin = "http://127.0.0.1:{world.origin.port}"
[http.disk]
path = "{world.work}/{name}.disk"
capacity = "64MiB"
[admin]
listen = "127.0.0.1:{self.admin}"
token = "{TOKEN}"
[fleet]
name = "{FLEET}"
node = "{name}"
nats = [{urls}]
max_lag = "{LAG:.0f}s"
""")

    def start(self):
        self.launch([LARDER, "run", str(self.file)])
        wait_for(f"node {self.name}", lambda: self.fleet())

    def exchange(self, port, *request, seconds=15, **options):
        """On a connection that this thread keeps."""
        connections = self.local.__dict__.setdefault("connections", {})
        while True:
            is_new = port not in connections
            connection = connections.setdefault(port, http.client.HTTPConnection("127.0.0.1", port, timeout=seconds))
            connection.timeout = seconds
            try:
                if is_new:
                    connection.connect()
                    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.request(*request, **options)
                return connection.getresponse()
            except (OSError, http.client.HTTPException):
                connections.pop(port).close()
                if is_new:
                    raise

    def get(self, path):
        return Answer(self.exchange(self.http, "GET", path, headers={"Host": HOST}))

    def status(self):
        response = self.exchange(self.admin, "GET", "/status", seconds=5)
        text = response.read()
        if response.status != 200:
            # It is starting.
            raise ConnectionError(f"/status: {response.status} {text[:200]!r}")
        return json.loads(text)

    def fleet(self):
        return self.status()["fleet"]

    def purge(self, **order):
        """Returns the status and the answer: an object, or what a client is told."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        response = self.exchange(self.admin, "POST", "/purge", body=json.dumps(order), headers=headers)
        text = response.read().decode()
        return response.status, json.loads(text) if response.status == 200 else text.strip()

    def purged(self, **order):
        """A purge that has to be in the log. Returns its position."""
        status, answer = self.purge(**order)
        assert status == 200, f"{self.name}: {status} {answer}"
        return answer["fleet"]["position"]

    def purged_by_ctl(self, **order):
        words = []
        for key, value in order.items():
            words += [f"--{key}"] + ([] if value is True else [value])
        command = [LARDER, "ctl", "--json", "purge", "--admin", f"127.0.0.1:{self.admin}", *words]
        done = subprocess.run(command, env={**os.environ, "LARDER_TOKEN": TOKEN}, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["fleet"]["position"]

    def wait_on_disk(self):
        """What is stored is written to the disk tier."""
        wait_for(f"the disk tier of {self.name}", lambda: self.status()["http"]["disk"]["queued_bytes"] == 0)
        time.sleep(0.3)


class World:
    """The servers, the origin and the nodes."""

    def __init__(self, work):
        self.work, self.programs = Path(work), []
        origin_port, *ports = free_ports(7)
        self.origin = Origin(origin_port)
        clients, routes = ports[:3], ports[3:]
        self.servers = [Nats(self, f"nats{i + 1}", NATS, clients[i], routes[i], routes) for i in range(3)]
        self.nodes = [Node(self, f"n{i + 1}", self.servers) for i in range(3)]
        self.floors, self.floors_lock = {}, threading.Lock()

    def end(self):
        for program in self.programs:
            program.kill()

    def heal(self):
        """All runs again, and all nodes follow."""
        for program in [*self.servers, *self.nodes]:
            if program.is_stopped:
                program.resume()
            if not program.is_alive():
                program.start()
        if self.origin.server is None:
            self.origin_returns()
        self.wait_following()

    def origin_returns(self):
        """The nodes have left it out, and try it by single requests."""
        self.origin.up()
        for node in self.nodes:
            wait_for(f"the origin at {node.name}", lambda: node.get(f"/v/return/{uuid.uuid4()}").status == 200)

    def raw(self):
        """A client of the first server that runs."""
        server = next(server for server in self.servers if server.is_alive() and not server.is_stopped)
        return RawNats(server.port)

    def api(self, command, **body):
        with self.raw() as client:
            header, payload = client.request(f"$JS.API.{command}", json.dumps(body).encode() if body else b"")
        return json.loads(payload) if payload else {"error": {"description": header.strip()}}

    def entries(self):
        """The payloads of the log."""
        last = self.api("STREAM.INFO." + STREAM)["state"]["last_seq"]
        with self.raw() as client:
            for sequence in range(1, last + 1):
                _, body = client.request(f"$JS.API.DIRECT.GET.{STREAM}", json.dumps({"seq": sequence}).encode())
                yield body

    def init_fleet(self, config=None, replicas="3"):
        command = [LARDER, "fleet", "init", "--config", str(config or self.nodes[0].file), "--replicas", replicas, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        return done.returncode, done.stdout + done.stderr

    def make_log(self):
        """As soon as the servers have found each other."""
        wait_for("JetStream", lambda: self.api("STREAM.INFO." + STREAM).get("error", {}).get("code") == 404)
        refused = []

        def init():
            status, output = self.init_fleet()
            if status != 0:
                refused.append(output.strip())
                return None
            return json.loads(output)

        made = wait_for("larder fleet init", init)
        for line in sorted(set(refused)):
            print(f"      larder fleet init, until the servers have found each other: {line}")
        assert not made["existed"], made
        return made["log"]

    def wait_following(self, nodes=None, seconds=SECONDS):
        for node in nodes or self.nodes:
            wait_for(f"{node.name} follows", lambda: node.fleet()["state"] == "following", seconds)

    def wait_position(self, position, nodes=None, seconds=10):
        for node in nodes or self.nodes:
            wait_for(f"{node.name} at {position}", lambda: node.fleet()["position"] >= position, seconds)

    def warm(self, paths, nodes=None):
        """All nodes have these responses, and serve them."""
        for node in nodes or self.nodes:
            for path in paths:
                node.get(path)
                answer = node.get(path)
                assert answer.is_hit, f"{node.name} {path}: {answer}"

    def note_purge(self, paths):
        """The purge of these paths is acknowledged: from LAG after now on, no older version is served."""
        with self.floors_lock, self.origin.lock:
            for path in paths:
                self.floors.setdefault(path, []).append((time.monotonic(), self.origin.versions[path]))

    def judge(self, node, path, answer, asked_at):
        """Compares a response with the purges that were acknowledged LAG before it was asked for."""
        with self.floors_lock:
            floors = [version for at, version in self.floors.get(path, []) if at + LAG <= asked_at]
        least = max(floors, default=0)
        assert answer.version >= least, f"{node.name} {path}: a purged response: {answer}, and {least} was the least"

    @contextlib.contextmanager
    def traffic(self, paths, nodes=None):
        """Asks the nodes for these paths meanwhile, judges each response, and sees that positions grow."""
        ended, faults, counts = threading.Event(), [], {"responses": 0}

        def ask(node):
            position, log = 0, None
            while not ended.is_set():
                try:
                    for path in paths:
                        asked_at = time.monotonic()
                        answer = node.get(path)
                        # Not while the origin is down.
                        if answer.status == 200:
                            self.judge(node, path, answer, asked_at)
                            counts["responses"] += 1
                    fleet = node.fleet()
                    if log == fleet["log"]:
                        assert fleet["position"] >= position, f"{node.name} went from {position} to {fleet['position']}"
                    position, log = fleet["position"], fleet["log"]
                except AssertionError as fault:
                    faults.append(str(fault))
                    return
                except (OSError, http.client.HTTPException, KeyError, ValueError):
                    pass
                ended.wait(0.03)

        threads = [threading.Thread(target=ask, args=(node,), daemon=True) for node in nodes or self.nodes]
        for thread in threads:
            thread.start()
        try:
            yield counts
        finally:
            ended.set()
            for thread in threads:
                thread.join(20)
        assert not faults, "; ".join(faults)

    def copy_stores(self, suffix):
        for server in self.servers:
            shutil.copytree(server.store, f"{server.store}.{suffix}")

    def restore_stores(self, suffix):
        for server in self.servers:
            shutil.rmtree(server.store)
            shutil.copytree(f"{server.store}.{suffix}", server.store)


def url(path):
    return f"http://{HOST}{path}"


def purges(world):
    """purges by URL, prefix and tag, hard and soft, from each node: all three execute them"""
    orders = [{"url": url("/same/a/1")}, {"prefix": url("/same/a/")}, {"tag": "tag-a"}]
    return send_orders(world, orders + [{**order, "soft": True} for order in orders])


def everything(world):
    """purges of everything, hard and soft, from each node: all three execute them"""
    return send_orders(world, [{"everything": True}, {"everything": True, "soft": True}])


def send_orders(world, orders):
    """Sends each order at each node, and compares what all nodes serve then."""
    path, witness, before = "/same/a/1", "/same/b/1", 0
    for node in world.nodes:
        for order in orders:
            world.warm([path, witness])
            version = world.origin.bump(path)
            asked = world.origin.count(path, 304)
            # Half of them by the command.
            send = node.purged_by_ctl if node is world.nodes[2] else node.purged
            position = send(**order)
            assert position > before, f"position {position} after {before}"
            before = position
            world.wait_position(position)
            for other in world.nodes:
                what = f"{order} at {node.name}: {other.name}"
                answer = other.get(path)
                if order.get("soft"):
                    # The ETag is the same: the origin confirms what is stored.
                    assert answer.is_validated and answer.version < version, f"{what}: {answer}"
                else:
                    assert answer.version == version and not answer.is_hit and not answer.is_validated, f"{what}: {answer}"
                assert other.get(path).is_hit, what
                answer = other.get(witness)
                assert answer.is_hit != ("everything" in order), f"{what}: {witness}: {answer}"
            assert world.origin.count(path, 304) - asked == (3 if order.get("soft") else 0), "validations"
            # The old body, which was confirmed, leaves all nodes.
            if order.get("soft"):
                world.wait_position(node.purged(url=url(path)))
    return f"{len(orders) * 3} purges"


def latency(world):
    """200 purges: from POST to the last node"""
    answers, reached = [], []
    for number in range(200):
        node = world.nodes[number % 3]
        begun = time.monotonic()
        position = node.purged(tag=f"none-{number}")
        answered = time.monotonic()
        left = list(world.nodes)
        while left:
            left = [one for one in left if one.fleet()["position"] < position]
            assert time.monotonic() - begun < 10, f"{[one.name for one in left]} have not applied {position} after 10 s"
        answers.append(answered - begun)
        reached.append(time.monotonic() - begun)
    # Without the outbox of a node: what another program publishes.
    published = []
    with world.raw() as client:
        for number in range(200):
            body = {"v": 1, "id": str(uuid.uuid4()), "tags": [f"none-{number}"]}
            begun = time.monotonic()
            acknowledged = client.request(f"larder.{FLEET}.purge", json.dumps(body).encode(), {"Nats-Msg-Id": body["id"]})
            position = json.loads(acknowledged[1])["seq"]
            left = list(world.nodes)
            while left:
                left = [one for one in left if one.fleet()["position"] < position]
                assert time.monotonic() - begun < 10, f"{[one.name for one in left]} have not applied {position} after 10 s"
            published.append(time.monotonic() - begun)
    return (
        f"POST answered: {percentiles(answers)}; all nodes (seen by /status): {percentiles(reached)}; "
        f"published to NATS until all nodes: {percentiles(published)}"
    )


def foreign(world):
    """a message of another program purges; one that is unreadable makes all stale, and is counted"""
    path, other = "/same/foreign/1", "/same/foreign-other/1"
    world.warm([path, other])
    version = world.origin.bump(path)
    with world.raw() as client:
        body = {"v": 1, "id": str(uuid.uuid4()), "from": "cms", "urls": [url(path)], "unknown": [1]}
        publish = lambda payload, name: json.loads(client.request(f"larder.{FLEET}.purge", payload, {"Nats-Msg-Id": name})[1])
        done = publish(json.dumps(body).encode(), body["id"])
        world.wait_position(done["seq"])
        for node in world.nodes:
            assert node.get(path).version == version and node.get(other).is_hit, node.name
        assert publish(json.dumps(body).encode(), body["id"]).get("duplicate"), "a repetition is not known"
        for number, payload in enumerate([b"hello", json.dumps({"v": 2, "id": "x"}).encode()]):
            world.warm([path, other])
            counted = [node.fleet()["unreadable"] for node in world.nodes]
            done = publish(payload, f"unreadable-{number}-{uuid.uuid4()}")
            world.wait_position(done["seq"])
            for node, before in zip(world.nodes, counted):
                assert node.fleet()["unreadable"] == before + 1, node.name
                for one in (path, other):
                    answer = node.get(one)
                    assert answer.is_validated, f"{node.name} {one}: {answer}"


def node_stopped(world):
    """a node is stopped for 5 s: from its first answer on, nothing that was purged max_lag before is served unvalidated"""
    node, others = world.nodes[1], [world.nodes[0], world.nodes[2]]
    paths = [f"/v/stopped-{number}/1" for number in range(10)]
    world.warm(paths)
    # Connections that are there before, so that the requests wait in the node's sockets.
    connections = []
    for path in paths:
        connection = http.client.HTTPConnection("127.0.0.1", node.http, timeout=10)
        connection.request("GET", path, headers={"Host": HOST})
        assert Answer(connection.getresponse()).version == 1
        connections.append(connection)
    stopped = time.monotonic()
    node.stop()
    for number, path in enumerate(paths):
        world.origin.bump(path)
        others[number % 2].purged(url=url(path))
        world.note_purge([path])
        time.sleep(max(0, stopped + 0.5 * (number + 1) - time.monotonic()))
    for connection, path in zip(connections, paths):
        connection.request("GET", path, headers={"Host": HOST})
    continued = time.monotonic()
    node.resume()
    old = 0
    for connection, path in zip(connections, paths):
        answer = Answer(connection.getresponse())
        world.judge(node, path, answer, continued)
        old += answer.version == 1
        connection.close()
    with world.traffic(paths) as counts:
        world.wait_following()
        time.sleep(0.5)
    for path in paths:
        assert node.get(path).version == 2, path
    return f"{old} of {len(paths)} first answers were old; {counts['responses']} responses judged"


def node_outbox(node):
    """The purges in the outbox of a node that does not run."""
    lines = [json.loads(line) for line in (node.folder / "outbox.jsonl").read_text().splitlines()]
    live = {line["key"]: line["message"] for line in lines}
    return sum(message is not None for message in live.values())


def node_killed(world):
    """a node is killed, and starts with its disk tier after purges: none of them is served from its disk, the rest is"""
    node, other = world.nodes[2], world.nodes[0]
    same = [f"/same/{tag}/{number}" for tag in ("killed-url", "killed-prefix", "killed-tag") for number in range(3)]
    changing = [path.replace("/same/", "/v/") for path in same]
    witness = [f"/same/witness/{number}" for number in range(5)]
    world.warm(same + changing + witness, [node])
    node.wait_on_disk()
    world.wait_position(other.purged(tag="nothing"))
    time.sleep(0.5)  # The position is kept every 100 ms.
    node.kill()
    for path in same + changing:
        world.origin.bump(path)
    for path in same[:3] + changing[:3]:
        other.purged(url=url(path))
    other.purged(prefix=url("/same/killed-prefix/"))
    other.purged(prefix=url("/v/killed-prefix/"))
    last = other.purged(tag="tag-killed-tag")
    world.note_purge(same + changing)
    asked = [world.origin.count(path, status) for path in witness for status in (200, 304)]
    repeated = node_outbox(node)
    node.start()
    # From the first answer on, in whatever state it is.
    for path in changing:
        answer = node.get(path)
        assert answer.version == 2, f"{path}: {answer}"
    world.wait_following([node])
    world.wait_position(last, [node], 1)
    for path in same:
        answer = node.get(path)
        assert answer.version == 2, f"{path}: {answer}"
    for path in witness:
        answer = node.get(path)
        assert answer.is_hit, f"{path}: {answer}"
    assert asked == [world.origin.count(path, status) for path in witness for status in (200, 304)], "the disk tier serves nothing"
    assert node.fleet()["missed"] == 0 == node.fleet()["rolled_back"], node.fleet()
    return f"{repeated} purges of its outbox came again"


def publisher_killed(world):
    """a node is killed between a purge's arrival and its acknowledgement: its outbox publishes it after its restart"""
    publisher, others = world.nodes[0], world.nodes[1:]
    path = "/same/outbox/1"
    world.warm([path])
    before = publisher.fleet()["outbox"]
    version = world.origin.bump(path)
    for server in world.servers:
        server.stop()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        sent = pool.submit(publisher.purge, tag="tag-outbox")
        wait_for("the outbox", lambda: publisher.fleet()["outbox"] == before + 1)
        wait_for("its file", lambda: "tag-outbox" in (publisher.folder / "outbox.jsonl").read_text())
        publisher.kill()
        assert isinstance(sent.exception(20), (OSError, http.client.HTTPException)), "the purge was answered"
    # What the publisher has written to its socket is lost with the server: only the outbox has the purge.
    for server in world.servers:
        server.kill()
        server.start()
    world.wait_following(others)
    for node in others:
        node.purged(tag="nothing")
        answer = node.get(path)
        # Validated after the servers were away: its ETag is the same.
        assert answer.version < version, f"{node.name}: the purge has arrived already: {answer}"
    publisher.start()
    for node in world.nodes:
        wait_for(f"the purge at {node.name}", lambda: node.get(path).version == version, 20)
    world.wait_following()


def servers_stopped(world):
    """all servers are stopped for longer than max_lag: each hit is validated once per max_lag, or 504 without the origin"""
    paths, later = [f"/v/away/{number}" for number in range(3)], "/same/later/1"
    world.warm([*paths, later])
    for server in world.servers:
        server.stop()
    stopped = time.monotonic()
    # It waits for its answer while the rest is looked at.
    pool = concurrent.futures.ThreadPoolExecutor(1)
    sent = pool.submit(world.nodes[0].purge, tag="tag-later")
    for node in world.nodes:
        wait_for(f"{node.name} lags", lambda: node.fleet()["state"] == "lagging", LAG + 2)
    assert time.monotonic() - stopped < LAG + 1
    time.sleep(max(0, stopped + LAG + 0.1 - time.monotonic()))
    for turn in range(2):
        validated_at = time.monotonic()
        for node in world.nodes:
            for path in paths:
                answer = node.get(path)
                assert answer.is_validated, f"{node.name} {path}, turn {turn}: {answer}"
        # Not again within max_lag.
        asked = [world.origin.count(path, 304) for path in paths]
        while time.monotonic() < validated_at + LAG - 0.5:
            for node in world.nodes:
                for path in paths:
                    answer = node.get(path)
                    assert answer.is_hit, f"{node.name} {path}, turn {turn}: {answer}"
            time.sleep(0.1)
        assert asked == [world.origin.count(path, 304) for path in paths], "more validations"
        time.sleep(1)
    world.origin.down()
    for node in world.nodes:
        for path in paths:
            answer = node.get(path)
            assert answer.status == 504, f"{node.name} {path}: {answer}"
    status, told = sent.result(LAG + 10)
    assert status == 503 and "sent again" in told, f"{status} {told}"
    world.origin_returns()
    version = world.origin.bump(later)
    continued = time.monotonic()
    for server in world.servers:
        server.resume()
    world.wait_following()
    following = time.monotonic() - continued
    # The purge that was answered with 503 reaches all.
    for node in world.nodes:
        wait_for(f"the purge at {node.name}", lambda: node.get(later).version == version, 10)
        for path in paths:
            assert node.get(path).is_hit, f"{node.name} {path}"
    return f"following {following:.1f} s after"


def no_problem(world):
    """after servers were killed and stopped: a problem that is over is not told any more"""
    world.wait_following()
    told = {node.name: node.fleet()["problem"] for node in world.nodes}
    assert not any(told.values()), told


def leader_killed(world):
    """the leader of the log is killed while purges come: each is answered with 200, or 503 "sent again", and all are executed"""
    numbers = range(30)
    same = [f"/same/leader-{number}/1" for number in numbers]
    changing = [f"/v/leader-{number}/1" for number in numbers]
    world.warm(same + changing)
    leader_name = world.api("STREAM.INFO." + STREAM)["cluster"]["leader"]
    leader = next(server for server in world.servers if server.name == leader_name)
    answers = []

    def send(number):
        for path in (same[number], changing[number]):
            world.origin.bump(path)
        begun = time.monotonic()
        status, answer = world.nodes[number % 3].purge(tag=f"tag-leader-{number}")
        ended = time.monotonic()
        if status == 200:
            world.note_purge([changing[number]])
        answers.append((begun, ended, status, answer))

    with world.traffic(changing[:6]) as counts, concurrent.futures.ThreadPoolExecutor(len(numbers)) as pool:
        sent = []
        for number in numbers:
            if number == 3:
                killed = time.monotonic()
                leader.kill()
            sent.append(pool.submit(send, number))
            time.sleep(0.3)
        for one in sent:
            one.result(30)
        silent = max((ended for begun, ended, status, _ in answers if status == 200 and begun < killed + 5), default=killed) - killed
        leader.start()
        world.wait_following()
        for node in world.nodes:
            for path in same:
                wait_for(f"{path} at {node.name}", lambda: node.get(path).version == 2, 20)
    for begun, ended, status, answer in answers:
        assert status == 200 or status == 503 and "sent again" in answer, f"{status} {answer}"
    acknowledged = [(begun, ended, answer["fleet"]["position"]) for begun, ended, status, answer in answers if status == 200]
    assert acknowledged
    for _, ended, position in acknowledged:
        for begun, _, later in acknowledged:
            assert begun <= ended or later > position, f"position {later} after {position}"
    world.wait_position(max(position for *_, position in acknowledged))
    for node in world.nodes:
        for path in changing:
            assert node.get(path).version == 2, f"{node.name} {path}"
        assert node.fleet()["rolled_back"] == 0 == node.fleet()["missed"], node.fleet()
    return (
        f"{len(acknowledged)} of {len(answers)} answered with 200; the log was silent for about {silent:.1f} s; "
        f"{counts['responses']} responses judged"
    )


def rolled_back(world):
    """the log is rolled back to an older copy: all nodes notice it and validate, and a lost purge is published again"""
    publisher, behind = world.nodes[1], world.nodes[2]
    path, witness = "/same/lost/1", "/same/lost-witness/1"
    world.warm([path, witness])
    behind.wait_on_disk()
    world.wait_position(publisher.purged(tag="nothing"))
    time.sleep(0.5)
    for server in world.servers:
        server.stop()
    world.copy_stores("older")
    for server in world.servers:
        server.resume()
    world.wait_following()
    # This node never sees the purge before it is lost.
    behind.kill()
    version = world.origin.bump(path)
    lost = publisher.purged(tag="tag-lost")
    world.wait_position(lost, world.nodes[:2])
    world.warm([path], world.nodes[:2])
    counted = [node.fleet()["rolled_back"] for node in world.nodes[:2]]
    validated = world.origin.count(witness, 304)
    for server in world.servers:
        server.kill()
    world.restore_stores("older")
    for server in world.servers:
        server.start()
    restored = time.monotonic()
    for node, before in zip(world.nodes[:2], counted):
        wait_for(f"{node.name} notices", lambda: node.fleet()["rolled_back"] > before)
    noticed = time.monotonic() - restored
    world.wait_following(world.nodes[:2])
    for node in world.nodes[:2]:
        answer = node.get(witness)
        assert answer.is_validated, f"{node.name}: {answer}"
    assert world.origin.count(witness, 304) == validated + 2
    behind.start()
    wait_for(f"the lost purge at {behind.name}", lambda: behind.get(path).version == version)
    world.wait_following()
    for node in world.nodes:
        assert node.get(path).version == version
    for node in world.nodes[:2]:
        assert "the log has lost entries" in node.log(), f"{node.name}: no line of its log tells it"
    for server in world.servers:
        shutil.rmtree(f"{server.store}.older")
    again = sum(b'"tag-lost"' in body for body in world.entries())
    return f"noticed {noticed:.1f} s after the servers' start; the lost purge is {again} times in the log now"


def made_anew(world):
    """the log is deleted and made anew: nodes lag, notice another identity, validate, and follow"""
    path = "/v/anew/1"
    world.warm([path])
    before = world.nodes[0].fleet()["log"]
    counted = [node.fleet()["rolled_back"] for node in world.nodes]

    def delete():
        deleted = world.api("STREAM.DELETE." + STREAM)
        return deleted.get("success") or deleted["error"].get("code") == 404

    # The cluster may have no leader yet.
    wait_for("the deletion", delete)
    for node in world.nodes:
        wait_for(f"{node.name} lags", lambda: node.fleet()["state"] == "lagging")
    time.sleep(LAG)
    for node in world.nodes:
        assert node.get(path).is_validated, node.name
    identity = world.make_log()
    assert identity != before
    made = time.monotonic()
    for node, rolled_back_before in zip(world.nodes, counted):
        wait_for(f"{node.name} notices", lambda: node.fleet()["log"] == identity)
        assert node.fleet()["rolled_back"] == rolled_back_before + 1, node.fleet()
    world.wait_following()
    following = time.monotonic() - made
    for node in world.nodes:
        assert node.get(path).is_validated, node.name
    # And purges come as before.
    for node in world.nodes:
        world.warm([path])
        version = world.origin.bump(path)
        world.wait_position(node.purged(url=url(path)))
        for other in world.nodes:
            assert other.get(path).version == version
    status, output = world.init_fleet()
    assert status == 0 and json.loads(output)["existed"], output
    return f"following {following:.1f} s after"


def old_server(world):
    """a server before 2.11: init refuses it by its version; a node says so, and serves what it validates"""
    server = Nats(world, "old-nats", OLD_NATS, free_ports(1)[0])
    server.start()
    wait_for("the old server", lambda: socket.create_connection(("127.0.0.1", server.port)).close() or True)
    version = subprocess.run([OLD_NATS, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1].lstrip("v")
    node = Node(world, "old-node", [server])
    status, output = world.init_fleet(node.file, "1")
    assert status != 0 and version in output and "2.11" in output, f"{status} {output}"
    node.start()
    wait_for("the line about the version", lambda: f"nats-server {version}" in node.log())
    path = "/v/old/1"
    assert node.get(path).version == 1 and node.get(path).is_hit
    time.sleep(LAG + 0.1)
    for _ in range(2):
        fleet = node.fleet()
        assert fleet["state"] == "lagging" and version in (fleet["problem"] or ""), fleet
        answer = node.get(path)
        assert answer.is_validated, answer
        time.sleep(LAG + 0.1)
    node.kill()
    server.kill()
    return output.strip()


def check(world, scenario):
    """Runs it, prints a line, and returns whether it passed."""
    begun = time.monotonic()
    what = scenario.__doc__
    try:
        figures = scenario(world)
    except Exception as fault:
        if not isinstance(fault, AssertionError):
            fault = f"{type(fault).__name__}: {fault}"
        print(f"FAIL  {what} ({time.monotonic() - begun:.1f} s): {fault}", flush=True)
        for node in world.nodes:
            try:
                print(f"      {node.name}: {json.dumps(node.fleet())}")
            except (OSError, http.client.HTTPException) as error:
                print(f"      {node.name}: {error!r}")
            for line in node.log().splitlines()[-5:]:
                print(f"      | {line}")
        return False
    print(f"ok    {what} ({time.monotonic() - begun:.1f} s)" + (f": {figures}" if figures else ""), flush=True)
    return True


def main():
    scenarios = [purges, foreign, node_stopped, node_killed, publisher_killed, servers_stopped, no_problem, leader_killed]
    if not QUICK:
        scenarios += [rolled_back, made_anew]
    # An outbox is published again at a restart and after a loss. The others would find nothing stored after a purge of everything, and
    # these purges would come again for each of them.
    scenarios += [everything, latency]
    if only := os.environ.get("ONLY"):
        scenarios = [one for one in scenarios if one.__name__ in only.split(",")]
    begun, failed = time.monotonic(), []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="larder-fleet.") as work:
        world = World(work)
        try:
            for server in world.servers:
                server.start()
            world.make_log()
            for node in world.nodes:
                node.start()
            world.wait_following()
            print(f"      three servers and three nodes follow after {time.monotonic() - begun:.1f} s", flush=True)
            for scenario in scenarios:
                if not check(world, scenario):
                    failed.append(scenario.__name__)
                    # Further checks need nodes that follow.
                    world.heal()
            if OLD_NATS and not QUICK:
                if not check(world, old_server):
                    failed.append(old_server.__name__)
            elif not QUICK:
                print("!!!   SKIPPED: a server before 2.11, for want of Debian's nats-server")
        finally:
            world.end()
            if keep := os.environ.get("KEEP_LOGS"):
                for program in filter(lambda one: one.process, world.programs):
                    shutil.copy(Path(work) / f"{program.name}.log", keep)
    print(f"      {time.monotonic() - begun:.0f} s in all" + (f"; failed: {', '.join(failed)}" if failed else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
