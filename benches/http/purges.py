"""Counts the hits of URLs while other things are purged.

    benches/http/purges.py --larder target/dist/larder

60 URLs are requested twice, one after another, from an origin that takes 30 ms, while the admin
server is asked to purge tags, prefixes and URLs that no response has. The table has the hits of the
second round: by what is purged, by the rate of purges, without and with a disk tier. The last rows
are the hits from the disk after 1,200 purges of prefixes of another host, or of the same host, and
a restart. Ends with exit status 1 if a hit is missing.
"""

import argparse
import http.client
import http.server
import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TOKEN = "0123456789abcdef"
URLS = 60
KINDS = ["tag", "prefix", "url"]

CONFIGURATION = """
[admin]
listen = "127.0.0.1:{admin}"
token = "{token}"
[http]
listen = "127.0.0.1:{http}"
origin = "http://127.0.0.1:{origin}"
cache = "64MiB"
{disk}
[ndn]
enabled = false
"""

DISK = """
[http.disk]
path = "{folder}/tier"
capacity = "64MiB"
"""


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        time.sleep(0.03)
        self.send_response(200)
        for name, value in [("cache-control", "max-age=600"), ("surrogate-key", "page"), ("content-length", "4")]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"page")

    def log_message(self, *_):
        pass


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Node:
    def __init__(self, larder, folder, origin, disk):
        self.admin, self.http = free_port(), free_port()
        text = CONFIGURATION.format(
            admin=self.admin,
            http=self.http,
            origin=origin,
            token=TOKEN,
            disk=DISK.format(folder=folder) if disk else "",
        )
        path = f"{folder}/larder.toml"
        with open(path, "w") as file:
            file.write(text)
        self.process = subprocess.Popen([larder, "run", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", self.http)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.02)
        raise SystemExit("the node does not listen")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def hits(self):
        client = http.client.HTTPConnection("127.0.0.1", self.http)
        hits = 0
        for number in range(URLS):
            client.request("GET", f"/{number}", headers={"host": "example.test"})
            answer = client.getresponse()
            answer.read()
            hits += answer.getheader("cache-status", "").startswith("larder; hit")
        return hits


def order(kind, number):
    if kind == "tag":
        return {"tag": f"other-{number}"}
    if kind == "prefix":
        return {"prefix": f"http://other.test/{number}/"}
    if kind == "prefix of the same host":
        return {"prefix": f"http://example.test/other-{number}/"}
    return {"url": f"http://example.test/other-{number}"}


class Purges:
    """Purges at a rate, over eight connections."""

    def __init__(self, node, kind, rate, most=None):
        self.node, self.kind, self.rate, self.most = node, kind, rate, most
        self.done, self.is_ended, self.lock = 0, False, threading.Lock()
        self.begun = time.monotonic()
        self.threads = [threading.Thread(target=self.run) for _ in range(8 if rate else 0)]
        for thread in self.threads:
            thread.start()

    def next(self):
        with self.lock:
            if self.is_ended or self.done == self.most:
                return None
            self.done += 1
            return self.done

    def run(self):
        client = http.client.HTTPConnection("127.0.0.1", self.node.admin)
        headers = {"authorization": f"Bearer {TOKEN}"}
        while (number := self.next()) is not None:
            wait = self.begun + number / self.rate - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            client.request("POST", "/purge", json.dumps(order(self.kind, number)), headers)
            answer = client.getresponse()
            answer.read()
            if answer.status != 200:
                raise SystemExit(f"a purge is answered with {answer.status}")

    def wait(self):
        for thread in self.threads:
            thread.join()

    def end(self):
        self.is_ended = True
        self.wait()
        return self.done / (time.monotonic() - self.begun)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--larder", required=True, help="the binary")
    parser.add_argument("--rates", type=int, nargs="+", default=[0, 10, 50, 1000], help="purges a second")
    arguments = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin, missing = server.server_address[1], 0
    print(f"{'purged':26} {'a second':>9} {'reached':>9} {'memory':>7} {'disk':>7}   hits of {URLS}")
    for kind in KINDS:
        for rate in arguments.rates:
            found, reached = [], []
            for disk in [False, True]:
                with tempfile.TemporaryDirectory() as folder:
                    node = Node(arguments.larder, folder, origin, disk)
                    purges = Purges(node, kind, rate)
                    node.hits()
                    found.append(node.hits())
                    reached.append(purges.end())
                    node.stop()
            missing += 2 * URLS - sum(found)
            print(f"{kind:26} {rate:9} {min(reached):9.0f} {found[0]:7} {found[1]:7}", flush=True)
    for kind in ["prefix", "prefix of the same host"]:
        with tempfile.TemporaryDirectory() as folder:
            node = Node(arguments.larder, folder, origin, True)
            node.hits()
            Purges(node, kind, 10**6, most=1200).wait()
            node.stop()
            node = Node(arguments.larder, folder, 1, True)
            found = node.hits()
            node.stop()
        missing += URLS - found
        print(f"{kind:26} {'1,200 and a restart':>27} {found:7}", flush=True)
    server.shutdown()
    sys.exit(1 if missing else 0)


main()
