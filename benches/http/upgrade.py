"""Counts the requests that fail while a node is upgraded and reloaded and its certificates change.

wrk and h2load send requests over HTTP/1.1, with and without TLS, and the example http2_load of
larder-cli over HTTP/2, each on 1,000 connections. During each load the node is upgraded twice,
reloaded twice (with another size of the cache, and two or four threads) and given new certificate
files twice, at equal intervals. Ends with exit status 1 if
one request fails, or if a load has fewer than 100,000 requests.

Over HTTP/3, the client of http3_load has a tenth of the connections, with ten requests at once on each. As browsers do, it uses HTTP/2
for a request that the node rejects, or while it accepts no connection of HTTP/3; these count as answered, and their number is printed.

h2load cannot count over HTTP/2: at a GOAWAY it closes its connection itself, with requests in
progress, opens no other one, and counts these requests and those that it has not sent as failed.
"""

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

CONFIGURATION = """
[admin]
listen = "127.0.0.1:{admin}"
[http]
listen = "127.0.0.1:{http}"
cache = "{cache}"
threads = {threads}
[http.tls]
listen = "127.0.0.1:{tls}"
certificate = "{folder}/cert.pem"
key = "{folder}/cert.key"
[http.timeouts]
shutdown = "10s"
[ndn]
enabled = false
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Node:
    """The node, and the operations on it."""

    def __init__(self, larder, folder):
        self.folder = folder
        self.ports = {name: free_port() for name in ("admin", "http", "tls")}
        self.cache, self.threads = 64, 4
        self.renew()
        self.configure()
        self.log = open(f"{folder}/log", "w+")
        self.process = subprocess.Popen([larder, "run", f"{folder}/larder.toml"], stdout=self.log, stderr=self.log)
        self.wait(lambda: self.pid() is not None, "start")

    def configure(self):
        text = CONFIGURATION.format(folder=self.folder, cache=f"{self.cache}MiB", threads=self.threads, **self.ports)
        with open(f"{self.folder}/larder.toml", "w") as file:
            file.write(text)

    def pid(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['admin']}/status", timeout=10) as page:
                return int(re.search(rb'"pid": (\d+)', page.read()).group(1))
        except OSError:
            return None

    def wait(self, done, what):
        end = time.monotonic() + 60
        while not done():
            if time.monotonic() > end:
                sys.exit(f"no {what} within a minute:\n{self.text()}")
            time.sleep(0.02)

    def text(self):
        with open(f"{self.folder}/log") as file:
            return file.read()

    def renew(self):
        """New certificate files, as an ACME client writes them."""
        key, certificate = f"{self.folder}/new.key", f"{self.folder}/new.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        os.rename(key, f"{self.folder}/cert.key")
        os.rename(certificate, f"{self.folder}/cert.pem")

    def change_certificates(self):
        changes = self.text().count("have changed")
        self.renew()
        self.wait(lambda: self.text().count("have changed") > changes, "new certificate")

    def reload(self):
        reloads = self.text().count("reloaded applied")
        self.cache += 1
        self.threads = 6 - self.threads
        self.configure()
        os.kill(self.pid(), signal.SIGHUP)
        self.wait(lambda: self.text().count("reloaded applied") > reloads, "reload")

    def upgrade(self):
        old = self.pid()
        os.kill(old, signal.SIGUSR2)
        self.wait(lambda: self.pid() not in (None, old), "upgrade")
        if old == self.process.pid:
            self.process.wait(60)
        else:
            self.wait(lambda: not os.path.exists(f"/proc/{old}/exe"), "end of the old process")

    def stop(self):
        pid = self.pid()
        if pid:
            os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def wrk(output):
    """Returns requests and failures. wrk does not count a connection that the server closes after a
    whole answer."""
    requests = int(re.search(r"(\d+) requests in", output).group(1))
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    failures = dict(zip(("connect", "read", "write", "timeout"), map(int, errors.groups()))) if errors else {}
    other = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    if other:
        failures["status"] = int(other.group(1))
    return requests, failures


def h2load(output):
    """Returns requests and failures."""
    fields = re.search(
        r"requests: (\d+) total, (\d+) started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout",
        output,
    )
    _, started, done, succeeded, failed, errored, timeout = map(int, fields.groups())
    failures = {"failed": failed, "errored": errored, "timeout": timeout}
    return succeeded, {name: count for name, count in failures.items() if count}


def http2_load(output):
    """Returns requests and failures."""
    requests, failed = map(int, re.search(r"(\d+) requests, (\d+) failed", output).groups())
    return requests, {"failed": failed} if failed else {}


def http3_load(output):
    """Returns requests and failures."""
    requests, _, failed = map(int, re.search(r"(\d+) requests, (\d+) over HTTP/2, (\d+) failed", output).groups())
    print("  " + output.strip().replace("\n", "\n  "))
    return requests, {"failed": failed} if failed else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--larder", required=True)
    parser.add_argument("--http2-load", required=True)
    parser.add_argument("--http3-load", help="the client of benches/http/http3_load; without it, no load over HTTP/3")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=30, help="of each load")
    parser.add_argument("--least", type=int, default=100_000, help="requests of each load")
    parser.add_argument("--only", help="the name of one load")
    arguments = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        node = Node(arguments.larder, folder)
        try:
            http, tls = f"http://127.0.0.1:{node.ports['http']}/1KiB/a", f"https://localhost:{node.ports['tls']}/1KiB/a"
            seconds, connections = str(arguments.seconds), str(arguments.connections)
            wrk_command = ["wrk", "-t", "2", "-c", connections, "-d", f"{seconds}s", "--timeout", "20s"]
            h2load_command = ["h2load", "--h1", "-t", "2", "-c", connections, "-D", seconds]
            loads = [
                ("HTTP/1.1", wrk, wrk_command + [http]),
                ("HTTP/1.1 with TLS", wrk, wrk_command + [tls]),
                ("HTTP/1.1 by h2load", h2load, h2load_command + [http]),
                ("HTTP/1.1 with TLS by h2load", h2load, h2load_command + [tls]),
                ("HTTP/2", http2_load, [arguments.http2_load, http, connections, seconds]),
            ]
            if arguments.http3_load:
                few = str(max(1, arguments.connections // 10))
                loads.append(("HTTP/3", http3_load, [arguments.http3_load, "3+2", few, "10", seconds, tls]))
            for name, read, command in loads:
                if arguments.only in (None, name):
                    missed |= not run(node, name, read, command, arguments)
        finally:
            node.stop()
    sys.exit(1 if missed else 0)


def run(node, name, read, command, arguments):
    load = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    begun, pause = time.monotonic(), arguments.seconds / 8
    operations = [node.upgrade, node.reload, node.change_certificates] * 2
    for number, operation in enumerate(operations, 1):
        time.sleep(max(0, begun + number * pause - time.monotonic()))
        operation()
    took = time.monotonic() - begun
    output = load.communicate()[0]
    requests, failures = read(output)
    good = not failures and requests >= arguments.least and took < arguments.seconds
    said = ", ".join(f"{count} {what}" for what, count in failures.items()) or "0 failures"
    print(f"{name}: {said} in {requests} requests; the operations took {took:.0f} s of {arguments.seconds}", flush=True)
    if not good:
        print(output)
    return good


if __name__ == "__main__":
    main()
