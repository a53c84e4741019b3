"""Shows a fleet of five nodes of Larder on one machine, each in a network namespace of its own: three servers of NATS, an origin and an
S3 server are started, requests and purges are sent, a node is killed, and tables say what came of it. It ends all that it has started.

Needs root, iproute2, and nats-server and gofakes3, which it installs if Go is there. LARDER, NATS_SERVER and GOFAKES3 name other
programs than target/release/larder and those of PATH. It asserts no times.
"""

import argparse
import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import uuid
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "interop/fleet"))
os.environ.setdefault("LARDER", "")  # The module below wants it.

from network import Network, Trouble, last_line  # noqa: E402
from nodes import ADMIN, FLEET, HOST, HTTP, NATS, STORE, TOKEN, Client, Nats, Node, Origin, Store  # noqa: E402
from nodes import ask_all, dies_with_parent, programs, wait_for  # noqa: E402
from programs import RawNats  # noqa: E402

PUT, GET, GIGABYTE = 5e-6, 4e-7, 0.05
PAGE = 256 * 1024


class Quick:
    pages, requests, cache, purging, killing = 400, 300, "6MiB", 6, 8


class Full:
    pages, requests, cache, purging, killing = 2000, 2000, "32MiB", 30, 30


class Ended(BaseException):
    """By a signal."""


class Fleet:
    def __init__(self, work, size, delay):
        self.work, self.size, self.delay, self.programs, self.network, self.tables = Path(work), size, delay, [], Network(), {}
        self.is_kept = False

    def start(self):
        self.larder, self.nats_server, self.gofakes3 = programs()
        self.network.up()
        self.servers = [Nats(self, f"nats{number}") for number in (1, 2, 3)]
        self.origin, self.store = Origin(self, "origin"), Store(self, "s3")
        self.nodes = [Node(self, f"n{number}") for number in (1, 2, 3, 4, 5)]
        self.call("fleet", "certificates", "--folder", self.work / "certificates", *(node.name for node in self.nodes))
        (self.work / "credentials").write_text("[default]\naws_access_key_id = key\naws_secret_access_key = secret\n")
        for program in [*self.servers, self.origin, self.store]:
            program.start()
        wait_for("the S3 server", lambda: socket.create_connection((self.store.address, STORE), 1), program=self.store)
        self.nodes[0].start()
        init = ("fleet", "init", "--config", self.nodes[0].file, "--replicas", "3")
        wait_for("larder fleet init, as soon as the servers have found each other", lambda: self.call(*init, must=False) is not None)
        for node in self.nodes[1:]:
            node.start()
        self.wait_joined()

    def wait_joined(self):
        for node in self.nodes:
            wait_for(f"{node.name} follows the log and asks the other nodes", lambda: node.is_joined(len(self.nodes) - 1), 60, node)

    def end(self):
        for program in reversed(self.programs):
            program.kill()
        self.network.down()

    def call(self, *words, must=True):
        """Returns what a command of larder prints."""
        done = subprocess.run([self.larder, *map(str, words)], capture_output=True, text=True, timeout=60, start_new_session=True)
        if done.returncode == 0:
            return done.stdout
        if must:
            raise Trouble(f"larder {words[0]}: {last_line(done.stderr)}")
        return None

    def table(self, key, sentence, rows):
        """Prints rows, of which the first has the names of the columns."""
        self.tables[key] = [dict(zip(rows[0], row)) for row in rows[1:]]
        texts = [[text(cell) for cell in row] for row in rows]
        widths = [max(len(row[column]) for row in texts) for column in range(len(rows[0]))]
        print("\n" + textwrap.fill(sentence, 100))
        for row in texts:
            print("  " + "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]).rstrip())
        sys.stdout.flush()


def text(cell):
    if isinstance(cell, float):
        return f"{cell:.6f}" if 0 < cell < 0.1 else f"{cell:.1f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def members(fleet):
    node = fleet.nodes[0]

    def heard():
        """The nodes, as soon as the first has heard from all."""
        page = json.loads(fleet.call("fleet", "status", "--json", "--admin", f"{node.address}:{ADMIN}", must=False) or "{}")
        nodes = page["nodes"]
        return nodes if len(nodes) == len(fleet.nodes) and all(one["state"] == "following" for one in nodes) else None

    rows = [["node", "address", "state", "owns, %"]]
    nodes = wait_for("all nodes are heard", heard)
    capacity = sum(one["capacity_bytes"] for one in nodes)
    for one in sorted(nodes, key=lambda one: one["node"]):
        rows.append([one["node"], one["address"], one["state"], one["capacity_bytes"] / capacity * 100])
    sentence = "Members: each page has an owner, which the others ask before the origin; its share follows from its capacity."
    fleet.table("members", sentence, rows)


def sharing(fleet):
    """Returns the pages that were asked for."""
    chance, size = random.Random(1), fleet.size
    weights = [1 / rank**0.9 for rank in range(1, size.pages + 1)]
    work, asked, alone = [], set(), 0
    for node in fleet.nodes:
        paths = [f"/{PAGE}/{number}" for number in chance.choices(range(size.pages), weights, k=size.requests)]
        work += [(node, paths[::2]), (node, paths[1::2])]
        asked |= set(paths)
        alone += len(set(paths))
    before = fleet.origin.counts()
    begun = time.monotonic()
    counts = ask_all(work)
    took, after = time.monotonic() - begun, fleet.origin.counts()
    rows = [["node", "requests", "its memory", "memory of another", "object store", "origin"]]
    for name, own in counts.items():
        rows.append([name, sum(own.values()), *own.values()])
    rows.append(["all", *(sum(row[column] for row in rows[1:]) for column in range(1, 6))])
    fleet.table(
        "sharing",
        f"Sharing: clients ask five nodes of {size.cache} for {len(asked)} pages of {PAGE >> 10} KiB (Zipf .9). Where each came from, by "
        f"Cache-Status; those that waited for the same fetch count each. It took {took:.1f} s.",
        rows,
    )
    rows = [["", "requests"], ["to the origin, as it counted", after["pages"] + after["confirmed"] - before["pages"] - before["confirmed"]]]
    rows.append(["to the object store that it answered, as the nodes counted", objects(fleet, "fresh") + objects(fleet, "confirmed")])
    rows.append(["to the origin, if one node had memory for all", len(asked)])
    rows.append(["to the origin, if five nodes had memory for all and did not share", alone])
    fleet.table("origin", "The origin's requests for that, beside the numbers of distinct pages.", rows)
    return sorted(asked)


def objects(fleet, name):
    """A figure of the object store, of all nodes."""
    return sum(node.status()["http"]["object_store"][name] for node in fleet.nodes)


def reads(fleet):
    """All GET of objects: those that came, those that were not there, and those that came too late."""
    return sum(objects(fleet, name) for name in ("read", "missing", "late"))


def emptied(fleet, asked):
    wait_for("the objects are written", lambda: objects(fleet, "waiting_bytes") == 0)
    written, read = objects(fleet, "written"), reads(fleet)
    for node in fleet.nodes:
        node.process.terminate()
    for node in fleet.nodes:
        node.kill(signal.SIGTERM)
        node.start()
    fleet.wait_joined()
    before = fleet.origin.counts()
    width = len(fleet.nodes)
    ask_all([(node, asked[number::width]) for number, node in enumerate(fleet.nodes)])
    after = fleet.origin.counts()
    wait_for("the objects are written", lambda: objects(fleet, "waiting_bytes") == 0)
    puts, gets = written + objects(fleet, "written"), read + reads(fleet)
    confirmed = after["confirmed"] - before["confirmed"]
    from_store = objects(fleet, "fresh") + objects(fleet, "confirmed")
    sent, total = after["bytes"] - before["bytes"], len(asked) * PAGE
    rows = [["", "pages", "origin's bytes", "their price", "store's price", "in all"]]
    paid = puts * PUT + gets * GET
    origin = sent / 1e9 * GIGABYTE
    rows.append([f"with the object store ({from_store} from it)", len(asked), sent, origin, paid, origin + paid])
    rows.append(["without it", len(asked), total, total / 1e9 * GIGABYTE, 0, total / 1e9 * GIGABYTE])
    fleet.table(
        "emptied",
        "All caches emptied: the nodes restart without disks, and each page is asked for once. Pages that had been requested twice are in "
        f"the object store. Its price is that of {puts:,} PUT at {PUT:.0e} and {gets:,} GET at {GET:.0e} since the start; that of the origin is "
        f"{GIGABYTE} a gigabyte. Storage and filters are not in it. The origin confirmed {confirmed:,} pages without sending their bodies.",
        rows,
    )


class Log(RawNats):
    """A client of a server that is not at 127.0.0.1."""

    def __init__(self, address):
        self.stream = socket.create_connection((address, NATS), timeout=30)
        self.file, self.inbox, self.last = self.stream.makefile("rb"), f"_INBOX.{uuid.uuid4().hex}", 0
        self.file.readline()
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "name": "show"}
        self.stream.sendall(b"CONNECT %s\r\nSUB %s.* 1\r\n" % (json.dumps(options).encode(), self.inbox.encode()))


def publish(fleet, rate, seconds):
    """Publishes purges of names that no node has. Returns when each was sent, when the log had it and where, and the
    rate that was reached."""
    run, total, answers, fault, sent = uuid.uuid4().hex[:8], int(rate * seconds), {}, [], []
    with Log(fleet.servers[0].address) as log:

        def acknowledgements():
            try:
                while len(answers) < total:
                    subject, (_, body) = log.answer()
                    answers[int(subject.rsplit(".", 1)[1])] = (time.monotonic(), json.loads(body).get("seq", 0))
            except (OSError, ValueError) as error:
                fault.append(error)

        reader = threading.Thread(target=acknowledgements, daemon=True)
        reader.start()
        begun = time.monotonic()
        for number in range(total):
            time.sleep(max(0, begun + number / rate - time.monotonic()))
            kind, name = number % 20, f"{run}-{number}"
            purge = {"v": 1, "id": name, "from": "show"}
            if kind < 12:
                purge["urls"] = [f"http://{HOST}/none/{name}"]
            elif kind < 19:
                purge["tags"] = [name]
            else:
                purge["prefixes"] = [f"http://{HOST}/none/{name}/"]
            sent.append(time.monotonic())
            log.send(f"larder.{FLEET}.purge", json.dumps(purge).encode(), {"Nats-Msg-Id": name})
        reached = total / (time.monotonic() - begun)
        reader.join(60)
    acknowledged = sum(position > 0 for _, position in answers.values())
    if fault or acknowledged < total:
        raise Trouble(f"{acknowledged} of {total} purges were acknowledged {fault or ''}")
    return sent, [answers[number] for number in range(1, total + 1)], reached


class Reader:
    """Reads the position of a node in the log, again and again."""

    def __init__(self, node):
        self.node, self.seen, self.ended = node, [], threading.Event()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while not self.ended.wait(0.005):
            with contextlib.suppress(OSError, http.client.HTTPException):
                position = self.node.status()["fleet"]["position"]
                self.seen.append((time.monotonic(), position))

    def when(self, position):
        """When it was at this position at the latest."""
        low, high = 0, len(self.seen) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.seen[middle][1] >= position else (middle + 1, high)
        return self.seen[low][0]


def timed(fleet, rate, seconds):
    """Returns the times until the log had each purge and until the last node had it, in order and in milliseconds; the rate that was
    reached; and the time between two pages of a node."""
    readers = [Reader(node) for node in fleet.nodes]
    try:
        sent, answers, reached = publish(fleet, rate, seconds)
        last = max(position for _, position in answers)
        for reader in readers:
            wait_for(f"{reader.node.name} has applied all", lambda: reader.seen and reader.seen[-1][1] >= last, 60)
    finally:
        for reader in readers:
            reader.ended.set()
    for reader in readers:
        reader.thread.join(10)
    logged = sorted((at - begun) * 1e3 for begun, (at, _) in zip(sent, answers))
    applied = sorted((max(reader.when(position) for reader in readers) - at) * 1e3 for at, (_, position) in zip(sent, answers))
    pause = sum(reader.seen[-1][0] - reader.seen[0][0] for reader in readers) / sum(len(reader.seen) for reader in readers) * 1e3
    return logged, applied, reached, pause


def purges(fleet):
    rate, is_borne = 1000, False
    while not is_borne:
        # First for a short time, then for the time that counts.
        for seconds in (2, fleet.size.purging):
            logged, applied, reached, pause = timed(fleet, rate, seconds)
            is_borne = rate < 50 or (reached > 0.95 * rate and applied[len(applied) * 99 // 100] < 1000)
            if not is_borne:
                rate //= 2
                break
    rows = [["", "purges", "a second", "p50, ms", "p99, ms", "max, ms"]]
    for name, times in (("until the log has it", logged), ("until the last node shows it", applied)):
        rows.append([name, len(times), round(reached), times[len(times) // 2], times[len(times) * 99 // 100], times[-1]])
    fleet.table(
        "purges",
        "Purges: 60 % of a URL, 35 % of a tag, 5 % of a prefix, from publish until the last of five nodes shows it in /status. The rate is "
        "the highest of 1000, 500, 250, ... at which 99 % take less than a second here. Pages of a node come every "
        f"{pause:.0f} ms, which is in the times.",
        rows,
    )


def killed(fleet):
    seconds, victim, others = fleet.size.killing, fleet.nodes[-1], fleet.nodes[:-1]
    chance, count = random.Random(2), 5000
    numbers = chance.choices(range(count), [1 / rank**0.9 for rank in range(1, count + 1)], k=20_000 * seconds)
    trace = fleet.work / "load.csv"
    trace.write_text("time,id,size\n" + "".join(f"{at},{10_000_000 + number},16384\n" for at, number in enumerate(numbers)))
    loads = []
    for node in others:
        words = [fleet.larder, "load", f"http://{HOST}", "--connect", f"{node.address}:{HTTP}", "--trace", str(trace)]
        words += ["--columns", "time=time,id=id,size=size", "-c", "2", "-d", f"{seconds}s", "--json"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        loads.append(subprocess.Popen(words, **pipes, start_new_session=True, preexec_fn=dies_with_parent))
    try:
        time.sleep(seconds / 3)
        victim.kill()
        rows = [["node", "requests", "failed", "p50, ms", "p99, ms", "slowest, ms"]]
        for node, load in zip(others, loads):
            output, error = load.communicate(timeout=seconds + 60)
            if load.returncode:
                raise Trouble(f"larder load: {last_line(error.decode())}")
            told = json.loads(output)
            failed = told["errors"] + sum(many for status, many in told["statuses"].items() if status != "200")
            rows.append([node.name, told["requests"], failed, *(float(told["latency_ms"][name]) for name in ("p50", "p99", "max"))])
    finally:
        for load in loads:
            if load.poll() is None:
                load.kill()
                load.wait()
    when = f"after {seconds / 3:.1f} of {seconds} s"
    sentence = f"A node killed: {victim.name} ends by SIGKILL {when}, while clients ask the other four."
    fleet.table("killed", sentence, rows)
    victim.start()
    fleet.wait_joined()


def keep(fleet):
    """Some requests go on, so that the consoles have something to show."""
    print(f"\nThe fleet goes on until Ctrl-C. The consoles of the nodes, with the token {TOKEN}:")
    for node in fleet.nodes:
        print(f"  {node.name}  http://127.0.0.1:{fleet.network.publish(node.address, ADMIN)}/")
    sys.stdout.flush()
    fleet.is_kept, chance = True, random.Random()
    clients = [Client(node) for node in fleet.nodes]
    while True:
        for number, node in enumerate(fleet.nodes):
            try:
                clients[number].get(f"/16384/{min(int(chance.paretovariate(0.5)), 10**6)}")
            except Exception:  # The next one may succeed.
                clients[number] = Client(node)
        time.sleep(0.02)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def arguments():
    parser = Parser(prog="run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--quick", action="store_true", help="about a minute, instead of some minutes")
    parser.add_argument("--delay", metavar="TIME", help="delay what each node and server sends, such as 2ms (tc netem)")
    parser.add_argument("--keep", action="store_true", help="go on after the tables until Ctrl-C, and print the URLs of the consoles")
    parser.add_argument("--json", metavar="FILE", help="write the tables to this file, too")
    found = parser.parse_args()
    if found.delay and not re.fullmatch(r"\d+(\.\d+)?(us|ms|s)", found.delay):
        parser.error(f"--delay {found.delay}: a time such as 2ms is needed")
    if found.json:
        try:
            open(found.json, "a").close()
        except OSError as error:
            parser.error(f"--json {found.json}: {error.strerror}")
    return found


def show(fleet, args):
    begun = time.monotonic()
    fleet.start()
    what = "Five nodes, three servers of NATS, an origin and an S3 server"
    print(f"{what} run after {time.monotonic() - begun:.1f} s, on {os.cpu_count()} processors.")
    print(f"Each has a network namespace. {f'What each sends is {fleet.delay} late.' if fleet.delay else 'No link has a delay.'}", flush=True)
    members(fleet)
    asked = sharing(fleet)
    emptied(fleet, asked)
    purges(fleet)
    killed(fleet)
    print(f"\n{time.monotonic() - begun:.0f} s in all.", flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(fleet.tables, indent=2) + "\n")
    if args.keep:
        keep(fleet)


def main():
    args = arguments()
    if os.geteuid() != 0:
        sys.exit("run: network namespaces need root: sudo deploy/fleet/run")
    if not shutil.which("ip"):
        sys.exit("run: the program ip is not there: install iproute2")
    ending = []

    def ended(number, _):
        """Once: what comes while all is being ended is not heard."""
        if not ending:
            ending.append(number)
            raise Ended

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ended)
    work, fleet, status = None, None, 0
    try:
        work = tempfile.mkdtemp(prefix="larder-fleet-")
        fleet = Fleet(work, Quick if args.quick else Full, args.delay)
        show(fleet, args)
    except Ended:
        # Ctrl-C is the planned end of a fleet that is kept.
        status = 0 if fleet and fleet.is_kept else 128 + ending[0]
        print("\nended", file=sys.stderr)
    except (Trouble, OSError, http.client.HTTPException, subprocess.SubprocessError) as trouble:
        ending.append(0)
        status = 1
        print(f"run: {trouble}", file=sys.stderr)
    finally:
        ending.append(0)
        try:
            if fleet:
                fleet.end()
        finally:
            if work:
                shutil.rmtree(work, ignore_errors=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
