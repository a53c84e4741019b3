"""The programs of the fleet: servers of NATS, an origin, an S3 server, nodes; and their clients."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from network import LIBC, Trouble, last_line
from origin import page

HERE = Path(__file__).resolve().parent
FLEET, HOST, TOKEN = "show", "site.test", "0123456789abcdef"
HTTP, ADMIN, PEER, NATS, STORE, ORIGIN = 8080, 8081, 7443, 4222, 9000, 8000


def dies_with_parent():
    """In the child: if this program is killed, so is the child."""
    LIBC.prctl(1, signal.SIGKILL)


def wait_for(what, condition, seconds=30, program=None):
    """Returns what the condition returns, as soon as it is true."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError):
            if found := condition():
                return found
        ended = program is not None and not program.is_alive()
        if ended or time.monotonic() > deadline:
            said = f"; it said: {program.log()}" if program else ""
            raise Trouble(f"{what}: {'it has ended' if ended else f'not within {seconds} s'}{said}")
        time.sleep(0.05)


class Program:
    """A process in a namespace of its own."""

    number = 10

    def __init__(self, fleet, name):
        Program.number += 1
        self.fleet, self.name, self.process = fleet, name, None
        self.space, self.address = fleet.network.host(name, Program.number, fleet.delay)
        fleet.programs.append(self)

    def launch(self, *words):
        with open(self.fleet.work / f"{self.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.space, *map(str, words)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.fleet.work, start_new_session=True, preexec_fn=dies_with_parent,
            )  # fmt: skip

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self, how=signal.SIGKILL):
        if self.is_alive():
            self.process.send_signal(how)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(20)

    def log(self):
        path = self.fleet.work / f"{self.name}.log"
        return " | ".join(path.read_text(errors="replace").splitlines()[-3:]) if path.exists() else ""


class Nats(Program):
    def start(self):
        routes = ", ".join(f'"nats://{server.address}:6222"' for server in self.fleet.servers)
        file = self.fleet.work / f"{self.name}.conf"
        file.write_text(
            f'server_name: {self.name}\nlisten: "{self.address}:{NATS}"\njetstream {{ store_dir: "{self.fleet.work}/{self.name}" }}\n'
            f'cluster {{ name: {FLEET}, listen: "{self.address}:6222", routes: [{routes}] }}\n'
        )
        self.launch(self.fleet.nats_server, "-c", file)


class Store(Program):
    def start(self):
        self.launch(self.fleet.gofakes3, "-host", f"{self.address}:{STORE}", "-backend", "memory", "-initialbucket", "cache", "-quiet")


class Origin(Program):
    def start(self):
        self.launch(sys.executable, "-B", HERE / "origin.py", self.address, ORIGIN)
        wait_for("the origin", self.counts, program=self)

    def counts(self):
        return json.loads(get(self.address, ORIGIN, "/-/counts")[1])


def get(address, port, path, seconds=5):
    with contextlib.closing(http.client.HTTPConnection(address, port, timeout=seconds)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()


class Node(Program):
    """A node of Larder without a disk tier."""

    def start(self):
        fleet = self.fleet
        servers = ", ".join(f'"nats://{server.address}:{NATS}"' for server in fleet.servers)
        self.file = fleet.work / f"{self.name}.toml"
        self.file.write_text(f"""[ndn]
enabled = false
[http]
listen = "{self.address}:{HTTP}"
origin = "http://{fleet.origin.address}:{ORIGIN}"
cache = "{fleet.size.cache}"
threads = 1
[http.object_store]
url = "s3://cache/site"
endpoint = "http://{fleet.store.address}:{STORE}"
credentials = "{fleet.work}/credentials"
[admin]
listen = "{self.address}:{ADMIN}"
token = "{TOKEN}"
[fleet]
name = "{FLEET}"
node = "{self.name}"
nats = [{servers}]
invalidate = true
[fleet.peers]
listen = "{self.address}:{PEER}"
ca = "{fleet.work}/certificates/fleet-ca.pem"
certificate = "{fleet.work}/certificates/{self.name}.pem"
key = "{fleet.work}/certificates/{self.name}.key"
""")
        self.launch(fleet.larder, "run", self.file)

    def status(self):
        status, body = get(self.address, ADMIN, "/status")
        if status != 200:
            raise ConnectionError(f"/status of {self.name}: {status}")
        return json.loads(body)

    def is_joined(self, others):
        """It follows the log, and asks this many other nodes."""
        fleet = self.status()["fleet"]
        return fleet["state"] == "following" and fleet["peers"] == others


class Client:
    """Asks a node on one connection, and compares what it gets."""

    def __init__(self, node):
        self.connection = http.client.HTTPConnection(node.address, HTTP, timeout=30)

    def get(self, path):
        """Returns where the page came from: memory, other node, store or origin."""
        self.connection.request("GET", path, headers={"Host": HOST})
        response = self.connection.getresponse()
        body = response.read()
        if response.status != 200 or body != page(path, int(path.split("/")[1])):
            raise Trouble(f"{path}: a wrong response: {response.status}, {len(body)} bytes")
        # A member for each node: the owner before the one that was asked.
        members = ", ".join(response.headers.get_all("Cache-Status", [])).split(", ")
        if "hit" in members[-1].split("; "):
            return "memory"
        if any("detail=object-store" in member for member in members):
            return "store"
        return "other node" if any("hit" in member.split("; ") for member in members) else "origin"


def ask_all(work):
    """`work` is pairs of a node and its paths, for a thread each. Returns for each node how many pages came from where."""
    counts, faults, threads = {}, [], []

    def ask(node, paths, own):
        try:
            client = Client(node)
            for path in paths:
                source = client.get(path)
                own[source] = own.get(source, 0) + 1
        except (OSError, http.client.HTTPException, Trouble) as fault:
            faults.append(f"{node.name}: {fault}")

    for node, paths in work:
        own = {}
        counts.setdefault(node.name, []).append(own)
        threads.append(threading.Thread(target=ask, args=(node, paths, own), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise Trouble(f"requests failed: {'; '.join(faults)}")
    sources = ("memory", "other node", "store", "origin")
    return {name: {source: sum(own.get(source, 0) for own in some) for source in sources} for name, some in counts.items()}


def programs():
    """Larder, nats-server and gofakes3: from the environment, PATH or, for the last two, Go."""
    root = HERE.parents[1]
    larder = os.environ.get("LARDER") or str(root / "target/release/larder")
    if not os.access(larder, os.X_OK):
        raise Trouble(f"{larder} is no program: cargo build --release --package larder-cli, or LARDER=/path/to/larder")
    return [
        os.path.abspath(larder),
        installed("nats-server", "NATS_SERVER", "github.com/nats-io/nats-server/v2@latest"),
        installed("gofakes3", "GOFAKES3", "github.com/johannesboyne/gofakes3/cmd/gofakes3@latest"),
    ]


def which(name, *folders):
    for folder in [*os.environ.get("PATH", "").split(":"), *folders]:
        if folder and os.access(f"{folder}/{name}", os.X_OK):
            return os.path.abspath(f"{folder}/{name}")
    return None


def installed(name, variable, module):
    if given := os.environ.get(variable):
        if not os.access(given, os.X_OK):
            raise Trouble(f"{variable}={given} is no program")
        return os.path.abspath(given)
    folder = HERE / ".programs"
    if found := which(name, folder):
        return found
    go = which("go", "/usr/local/go/bin")
    if go is None:
        raise Trouble(f"{name} is not there: put it into PATH, name it by {variable}=/path, or install Go, which installs it")
    print(f"go install {module}, into {folder} (some minutes, once)", file=sys.stderr, flush=True)
    done = subprocess.run([go, "install", module], env={**os.environ, "GOBIN": str(folder)}, capture_output=True, text=True)
    if done.returncode:
        raise Trouble(f"go install {module}: {last_line(done.stderr)}; or {variable}=/path")
    return str(folder / name)
