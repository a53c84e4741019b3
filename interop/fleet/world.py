"""The servers, the origin and the nodes of a fleet, and what its checks compare."""

import contextlib
import http.client
import json
import math
import shutil
import subprocess
import threading
import time
import uuid
from pathlib import Path

from programs import LAG, LARDER, SECONDS, STREAM, Answer, Nats, Node, Origin, RawNats, Relay, free_ports, wait_for


class World:
    """The servers, the origin and the nodes."""

    def __init__(self, work, nats, old_nats=None, nodes=3, shares=False, relayed=False):
        """shares: the nodes share their responses. relayed: each can be cut off from the servers."""
        self.work, self.programs, self.old_nats = Path(work), [], old_nats
        origin_port, *ports = free_ports(7)
        self.origin = Origin(origin_port)
        clients, routes = ports[:3], ports[3:]
        self.servers = [Nats(self, f"nats{i + 1}", nats, clients[i], routes[i], routes, relayed) for i in range(3)]
        names = [f"n{i + 1}" for i in range(nodes)]
        self.certificates = self.make_certificates("certificates", names) if shares else None
        self.nodes = []
        for name in names:
            servers = [Relay(server) for server in self.servers] if relayed else self.servers
            self.nodes.append(Node(self, name, servers, self.certificates))
        self.floors, self.floors_lock, self.losing_since = {}, threading.Lock(), math.inf

    def make_certificates(self, folder, names):
        subprocess.run([LARDER, "fleet", "certificates", "--folder", self.work / folder, *names], check=True, stdout=subprocess.DEVNULL)
        return self.work / folder

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

    @contextlib.contextmanager
    def losing_entries(self, since):
        """The log loses the entries from this time on: what was purged from then to the end counts as purged at the end, when all nodes
        have had the time to publish it again. What was purged before holds meanwhile."""
        with self.floors_lock:
            self.losing_since = since
        try:
            yield
        finally:
            with self.floors_lock:
                for floors in self.floors.values():
                    floors[:] = [(time.monotonic() if at >= since else at, version) for at, version in floors]
                self.losing_since = math.inf

    def judge(self, node, path, answer, asked_at):
        """Compares a response with the purges that were acknowledged LAG before it was asked for."""
        with self.floors_lock:
            floors = [version for at, version in self.floors.get(path, []) if at + LAG <= asked_at and at < self.losing_since]
        least = max(floors, default=0)
        assert answer.version >= least, f"{node.name} {path}: a purged response: {answer}, and {least} was the least"

    @contextlib.contextmanager
    def traffic(self, paths, nodes=None, grows=True):
        """Asks the nodes for these paths meanwhile, judges each response, and sees that positions grow, unless nodes are killed: what
        they have applied a moment before is applied again."""
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
                    if grows and log == fleet["log"]:
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

    def remove_copies(self, suffix):
        for server in self.servers:
            shutil.rmtree(f"{server.store}.{suffix}")
