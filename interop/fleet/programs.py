"""The programs of the checks of a fleet: servers of NATS, nodes, an origin, and their clients."""

import http.client
import http.server
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import threading
import time
import uuid

LARDER = os.environ["LARDER"]
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
    where it never changes: a validation keeps an old body there, and only a purge removes it. What is below /swr/ may be served stale
    while it is validated, /busy/ is answered with 503, and /big/ has BIG digits, which take a second."""

    BIG = 400_000

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
                if kind in ("busy", "big"):
                    return self.busy() if kind == "busy" else self.big(str(version % 10), etag)
                with origin.lock:
                    key = (self.path, 304 if confirmed else 200)
                    origin.requests[key] = origin.requests.get(key, 0) + 1
                self.send_response(304 if confirmed else 200)
                body = b"" if confirmed else str(version).encode()
                fields = {"ETag": etag, "Cache-Control": "max-age=3600", "Surrogate-Key": f"tag-{tag}"}
                if kind == "swr":
                    fields["Cache-Control"] += ", stale-while-revalidate=60"
                if not confirmed:
                    fields["Content-Length"] = str(len(body))
                for name, value in fields.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def note(self, status):
                with origin.lock:
                    origin.requests[(self.path, status)] = origin.requests.get((self.path, status), 0) + 1

            def busy(self):
                self.note(503)
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def big(self, digit, etag):
                asked = self.headers.get("Range", "")
                first = int(asked.removeprefix("bytes=").split("-")[0]) if asked.startswith("bytes=") else 0
                if self.headers.get("If-Range", etag) != etag:
                    first = 0
                self.note(206 if first else 200)
                self.send_response(206 if first else 200)
                fields = {"ETag": etag, "Cache-Control": "max-age=3600", "Content-Length": str(origin.BIG - first)}
                if first:
                    fields["Content-Range"] = f"bytes {first}-{origin.BIG - 1}/{origin.BIG}"
                for name, value in fields.items():
                    self.send_header(name, value)
                self.end_headers()
                for start in range(first, origin.BIG, 20_000):
                    self.wfile.write((digit * min(20_000, origin.BIG - start)).encode())
                    time.sleep(0.05)

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                origin.bump(self.path)
                self.send_response(204)
                self.end_headers()

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

    def terminate(self):
        """A planned end."""
        self.process.terminate()
        self.process.wait(20)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        self.is_stopped = True

    def resume(self):
        self.process.send_signal(signal.SIGCONT)
        self.is_stopped = False

    def log(self):
        path = self.world.work / f"{self.name}.log"
        return path.read_text(errors="replace") if path.exists() else ""


class Relay:
    """Passes the connections of one node to one server. While it is cut, nothing passes, and neither of both learns of it."""

    def __init__(self, server):
        self.server, self.passes = server, threading.Event()
        self.passes.set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.server.port), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    def carry(self, one, other):
        try:
            while data := one.recv(65536):
                self.passes.wait()
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            end.close()


class Nats(Program):
    """A server of NATS; one of a cluster, if there are routes. Clients learn of the others, unless they are to use relays only."""

    def __init__(self, world, name, program, port, cluster_port=None, routes=(), relayed=False):
        super().__init__(world, name)
        self.program, self.port, self.store = program, port, world.work / f"{name}.store"
        self.file = world.work / f"{name}.conf"
        text = f'server_name: {name}\nlisten: "127.0.0.1:{port}"\njetstream {{ store_dir: "{self.store}" }}\n'
        if routes:
            urls = ", ".join(f'"nats://127.0.0.1:{route}"' for route in routes)
            advertised = ", no_advertise: true" if relayed else ""
            text += f'cluster {{ name: interop, listen: "127.0.0.1:{cluster_port}", routes: [{urls}]{advertised} }}\n'
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
        reply = self.send(subject, payload, headers)
        while True:
            to, answer = self.answer()
            if to == reply:
                return answer

    def send(self, subject, payload=b"", headers=None):
        """Sends a request, and returns where its answer comes."""
        self.last += 1
        reply = f"{self.inbox}.{self.last}"
        head = b""
        if headers:
            head = b"NATS/1.0\r\n" + b"".join(f"{name}: {value}\r\n".encode() for name, value in headers.items()) + b"\r\n"
            line = f"HPUB {subject} {reply} {len(head)} {len(head) + len(payload)}"
        else:
            line = f"PUB {subject} {reply} {len(payload)}"
        self.stream.sendall(line.encode() + b"\r\n" + head + payload + b"\r\n")
        return reply

    def answer(self):
        """Returns the next answer: where it comes, and its header and payload."""
        while True:
            words = self.file.readline().decode().split()
            if not words:
                raise ConnectionError("the server closed the connection")
            if words[0] == "PING":
                self.stream.sendall(b"PONG\r\n")
            elif words[0] in ("MSG", "HMSG"):
                header_bytes = int(words[-2]) if words[0] == "HMSG" else 0
                body = self.file.read(int(words[-1]) + 2)[:-2]
                return words[1], (body[:header_bytes].decode(), body[header_bytes:])
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

    def __init__(self, world, name, servers, certificates=None):
        """servers: they, or relays to them."""
        super().__init__(world, name)
        self.servers, self.environment = servers, {}
        self.http, self.admin, self.peer = free_ports(3)
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
invalidate = true
""")
        if certificates:
            with open(self.file, "a") as file:
                file.write(f"""[fleet.peers]
listen = "127.0.0.1:{self.peer}"
ca = "{certificates}/fleet-ca.pem"
certificate = "{certificates}/{name}.pem"
key = "{certificates}/{name}.key"
""")

    def start(self):
        self.launch([LARDER, "run", str(self.file)], **self.environment)
        wait_for(f"node {self.name}", lambda: self.fleet())

    def exchange(self, port, *request, seconds=25, **options):
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

    def change(self, path):
        """An unsafe request, which changes the version at the origin."""
        answer = Answer(self.exchange(self.http, "POST", path, body=b"x", headers={"Host": HOST}))
        assert answer.status == 204, answer

    def readiness(self):
        response = self.exchange(self.admin, "GET", "/readyz", seconds=5)
        return response.status, response.read().decode()

    def status(self):
        response = self.exchange(self.admin, "GET", "/status", seconds=5)
        text = response.read()
        if response.status != 200:
            # It is starting.
            raise ConnectionError(f"/status: {response.status} {text[:200]!r}")
        return json.loads(text)

    def fleet(self):
        return self.status()["fleet"]

    def overview(self, *words):
        """Returns the exit status of `larder fleet WORDS` about this node, its page and its errors."""
        command = [LARDER, "fleet", *words, "--json", "--admin", f"127.0.0.1:{self.admin}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr

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

    def purged_by_all(self, by_ctl=False, **order):
        """A purge that waits for all nodes. Returns what the fleet answers."""
        if by_ctl:
            return self.ctl(wait=True, **order)
        status, answer = self.purge(wait="all", **order)
        assert status == 200, f"{self.name}: {status} {answer}"
        return answer["fleet"]

    def purged_by_ctl(self, **order):
        return self.ctl(**order)["position"]

    def ctl(self, **order):
        words = []
        for key, value in order.items():
            words += [f"--{key}"] + ([] if value is True else [value])
        command = [LARDER, "ctl", "--json", "purge", "--admin", f"127.0.0.1:{self.admin}", *words]
        done = subprocess.run(command, env={**os.environ, "LARDER_TOKEN": TOKEN}, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["fleet"]

    def upgrade(self):
        """Starts the program again, and returns the new process's id. The old one ends by itself."""
        command = [LARDER, "ctl", "--json", "upgrade", "--admin", f"127.0.0.1:{self.admin}"]
        done = subprocess.run(command, env={**os.environ, "LARDER_TOKEN": TOKEN}, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["pid"]

    def wait_on_disk(self):
        """What is stored is written to the disk tier."""
        wait_for(f"the disk tier of {self.name}", lambda: self.status()["http"]["disk"]["queued_bytes"] == 0)
        time.sleep(0.3)


def url(path):
    return f"http://{HOST}{path}"
