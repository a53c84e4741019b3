#!/usr/bin/env python3
"""Larder beside nginx, HAProxy and Varnish: the same requests to each, alternately; see `run`.

The measure is requests a CPU-second of the server, its children's included, from /proc: the machine's other work moves it far less than it
moves requests a second. Every figure is the median of the rounds; the ratios stand last.

Each server caches in memory with one worker: nginx' proxy_cache lies in /dev/shm and is sent by sendfile, Varnish has malloc storage,
HAProxy its own cache. None writes an access log or has rules, except in the cells `log` and `rules`: there Larder and nginx run once
more, each with its log in the combined format, and Larder with 20 rules of which none matches. The origin is `larder origin`; the
client is wrk with 50 connections that stay open, for HTTP/2 (over TLS, so without Varnish) h2load with as many, ten requests at once
on each.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

# What is asked for, and the least ratio to (nginx, Varnish): requirements of the project, see ../README.md. HAProxy has no bar.
CELLS = {
    "hit-1k": ("1 KB hits", "/1000/a", (1.5, 2.3)),
    "many": ("1 KB hits, 50,000 keys", "many", (1.5, 2.3)),
    "hit-10k": ("10 KB hits", "/10000/a", (1.35, 2.1)),
    "hit-100k": ("100 KB hits", "/100000/a", (1.25, 1.15)),
    "tls": ("1 KB hits, TLS", "/1000/a", (None, None)),
    "h2": ("1 KB hits, HTTP/2", "/1000/a", (1.2, None)),
    "log": ("1 KB hits, access log", "/1000/a", (1.4, None)),
    "rules": ("1 KB hits, 20 rules", "/1000/a", (None, None)),
    "miss": ("1 KB misses, stored", None, (1.5, None)),
}
# Larder with the 20 rules beside Larder without: the least ratio.
RULES_BAR = 0.98
CONNECTIONS = 50
TICK = os.sysconf("SC_CLK_TCK")

# Every request another object: the wrk process has one thread, so that a counter does. `salt` tells the runs apart.
MISSES = """
local salt, count = os.getenv("SALT"), 0
request = function()
    count = count + 1
    return wrk.format("GET", "/1000/" .. salt .. "-" .. count)
end
"""


# Each request one of 50,000 objects, in random order.
MANY = """
request = function()
    return wrk.format("GET", "/1000/many-" .. math.random(50000))
end
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Server:
    """A process, its children, and the processor time that they take."""

    def __init__(self, name, port, command, log):
        self.name, self.port = name, port
        self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        for _ in range(200):
            if self.process.poll() is not None:
                break
            try:
                return socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise SystemExit(f"{name} does not serve; see {log.name}")

    def members(self):
        parents = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
                parents[int(pid)] = int(fields[1])
            except (FileNotFoundError, ProcessLookupError):
                pass
        found = [self.process.pid]
        for pid in found:
            found.extend(child for child, parent in parents.items() if parent == pid)
        return found

    def cpu_seconds(self):
        total = 0.0
        for pid in self.members():
            try:
                # In nanoseconds where the kernel has it, thread by thread; else in ticks.
                for thread in os.listdir(f"/proc/{pid}/task"):
                    total += int(open(f"/proc/{pid}/task/{thread}/schedstat").read().split()[0]) / 1e9
            except (FileNotFoundError, ProcessLookupError):
                fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
                total += (int(fields[11]) + int(fields[12])) / TICK
        return total

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


# Conditions of every kind, of hosts, paths and methods; none holds for a request of the benchmark.
RULES = "".join(
    f"[[http.rules]]\n{condition}\nresponse_headers = {{ set = {{ X-Rule = \"{number}\" }} }}\n"
    for number, condition in enumerate(
        [f'host = "www{number}.example.com"' for number in range(4)]
        + ['host = "*.example.org"']
        + [f'path = "/{name}/*"' for name in ("admin", "api", "images", "100", "wp-admin", "user")]
        + [f'path = "*.{name}"' for name in ("php", "jpg", "css", "js")]
        + ['path = "/1000/b"', 'path = "/a/*/b"', 'method = "POST"', 'host = "a.example"\npath = "/1000/*"', 'scheme = "https"\npath = "/1*"']
    )
)


def larder(arguments, work, port, origin, name="larder", log=None, rules=""):
    is_plain = not log and not rules
    admin, tls = (*free_ports(1), arguments.tls[name]) if is_plain else free_ports(2)
    if is_plain:
        arguments.admin[name] = admin
    access_log = f'[http.access_log]\npath = "{log}"' if log else ""
    configuration = f"""
[ndn]
unix = ""
tcp = ""
udp = ""
websocket = ""
[http]
listen = "127.0.0.1:{port}"
origin = "http://127.0.0.1:{origin}"
cache = "{arguments.memory}MiB"
threads = {arguments.threads}
policy = "agd(optimise=balanced)"
[http.tls]
listen = "127.0.0.1:{tls}"
certificate = "{work}/certificate.pem"
key = "{work}/key.pem"
{access_log}
{rules}
[admin]
listen = "127.0.0.1:{admin}"
[log]
level = "warn"
"""
    path = f"{work}/larder{port}.toml"
    open(path, "w").write(configuration)
    return [arguments.larder if name == "larder" else arguments.before, "run", path]


def before(arguments, work, port, origin, log=None):
    """Another build of Larder."""
    return larder(arguments, work, port, origin, "before", log)


def nginx(arguments, work, port, origin, log=None):
    own, tls = (f"{work}/nginx-log", *free_ports(1)) if log else (f"{work}/nginx", arguments.tls["nginx"])
    os.makedirs(own, exist_ok=True)
    configuration = f"""
daemon off;
worker_processes {arguments.threads};
pid {own}/pid;
error_log {own}/error.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log {f"{log} combined" if log else "off"};
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    keepalive_requests 1000000000;
    client_body_temp_path {own}/body;
    proxy_temp_path {own}/temp;
    fastcgi_temp_path {own}/fastcgi;
    uwsgi_temp_path {own}/uwsgi;
    scgi_temp_path {own}/scgi;
    open_file_cache max=10000 inactive=60s;
    proxy_cache_path {own}/cache levels=1:2 keys_zone=all:64m max_size={arguments.memory}m inactive=1h use_temp_path=off;
    upstream origin {{ server 127.0.0.1:{origin}; keepalive 128; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        listen 127.0.0.1:{tls} ssl http2 backlog=4096;
        ssl_certificate {work}/certificate.pem;
        ssl_certificate_key {work}/key.pem;
        location / {{
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_cache all;
            proxy_cache_valid 200 1h;
        }}
    }}
}}
"""
    path = f"{own}/nginx.conf"
    open(path, "w").write(configuration)
    return ["nginx", "-p", own, "-c", path]


# Varnish logs no request, as nginx and Larder log none outside the cell `log`. The testbed of `larder reproduce adaptsize` has the same list, and what the
# log in shared memory costs (crates/reproduce/src/adaptsize/testbed/servers.rs).
UNLOGGED = "vsl_mask=" + ",".join(f"-{tag}" for tag in """ReqMethod ReqURL ReqProtocol ReqHeader ReqUnset ReqStart ReqAcct RespProtocol RespStatus RespReason
    RespHeader RespUnset BereqMethod BereqURL BereqProtocol BereqHeader BereqUnset BereqAcct BerespProtocol BerespStatus BerespReason BerespHeader BerespUnset
    VCL_call VCL_return VCL_use Hit Timestamp Begin End Link SessOpen SessClose BackendOpen BackendReuse BackendClose BackendStart Fetch_Body Storage TTL
    Filters Length""".split())


def varnish(arguments, work, port, origin):
    path = f"{work}/varnish.vcl"
    open(path, "w").write(f'vcl 4.1;\nbackend default {{ .host = "127.0.0.1"; .port = "{origin}"; }}\n')
    return ["varnishd", "-F", "-f", path, "-a", f"127.0.0.1:{port}", "-s", f"malloc,{arguments.memory}m", "-n", f"{work}/varnish",
            "-p", "thread_pools=1", "-p", "thread_pool_min=60", "-p", UNLOGGED]


def haproxy(arguments, work, port, origin):
    path = f"{work}/haproxy.cfg"
    pem = f"{work}/haproxy.pem"
    open(pem, "w").write(open(f"{work}/certificate.pem").read() + open(f"{work}/key.pem").read())
    configuration = f"""
global
    nbthread {arguments.threads}
    maxconn 4096
    tune.bufsize 16384
defaults
    mode http
    timeout client 60s
    timeout server 60s
    timeout connect 5s
    http-reuse always
cache all
    total-max-size {arguments.memory}
    max-object-size 200000
    max-age 3600
frontend clients
    bind 127.0.0.1:{port}
    bind 127.0.0.1:{arguments.tls["haproxy"]} ssl crt {pem} alpn h2,http/1.1
    http-request cache-use all
    http-response cache-store all
    default_backend origin
backend origin
    server one 127.0.0.1:{origin}
"""
    open(path, "w").write(configuration)
    return ["haproxy", "-f", path]


def drive_h2(server, target, seconds, tls_port):
    """One run of h2load: requests, and the server's CPU-seconds meanwhile."""
    before = server.cpu_seconds()
    said = subprocess.run(["h2load", "-c", str(CONNECTIONS), "-m", "10", "-D", str(seconds), f"https://127.0.0.1:{tls_port}{target}"],
                          capture_output=True, text=True)
    spent = server.cpu_seconds() - before
    found = re.search(r"requests: .*?(\d+) done, (\d+) succeeded, (\d+) failed", said.stdout)
    if not found or found.group(1) != found.group(2) or "Application protocol: h2" not in said.stdout:
        raise SystemExit(f"{server.name}: {said.stdout + said.stderr}")
    return int(found.group(1)), spent


def drive(server, target, seconds, work, salt, tls_port=None):
    """One run of wrk: requests, and the server's CPU-seconds meanwhile; over TLS where there is a port of it."""
    command = ["wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", f"{seconds}s"]
    environment = dict(os.environ, SALT=str(salt))
    script = {None: "misses", "many": "many"}.get(target)
    if script:
        command += ["-s", f"{work}/{script}.lua"]
        target = None
    before = server.cpu_seconds()
    base = f"https://127.0.0.1:{tls_port}" if tls_port else f"http://127.0.0.1:{server.port}"
    said = subprocess.run(command + [f"{base}{target or '/'}"], capture_output=True, text=True, env=environment)
    spent = server.cpu_seconds() - before
    found = re.search(r"(\d+) requests in", said.stdout)
    broken = re.search(r"Non-2xx or 3xx responses: \d+|Socket errors: .*", said.stdout)
    if not found or broken:
        raise SystemExit(f"{server.name}: {broken.group(0) if broken else said.stdout + said.stderr}")
    return int(found.group(1)), spent


def check(server, target):
    """Twice the same: the second must be a hit, the body whole. A benchmark of errors would be fast."""
    url = f"http://127.0.0.1:{server.port}{target}"
    bodies = [urllib.request.urlopen(url).read() for _ in range(2)]
    if bodies[0] != bodies[1] or len(bodies[0]) != int(target.split("/")[1]):
        raise SystemExit(f"{server.name}: {target} comes as {len(bodies[0])} bytes")


def main():
    parser = argparse.ArgumentParser(description="Larder's HTTP cache beside nginx and Varnish; see benches/http/run")
    parser.add_argument("--larder", required=True)
    parser.add_argument("--quick", action="store_true", help="three rounds of two seconds")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--memory", type=int, default=256, help="MiB of each cache")
    parser.add_argument("--only", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--servers", nargs="+", choices=["larder", "nginx", "haproxy", "varnish"],
                        default=["larder", "nginx", "haproxy", "varnish"])
    parser.add_argument("--before", help="another build of Larder, measured in the same rounds")
    parser.add_argument("--threads", type=int, default=1, help="request threads of Larder and workers of nginx")
    parser.add_argument("--json", help="writes every single run to this file")
    arguments = parser.parse_args()
    arguments.admin = {}
    if arguments.before:
        arguments.servers.append("before")
    rounds = arguments.rounds or (3 if arguments.quick else 5)
    seconds = arguments.seconds or (2 if arguments.quick else 5)

    work = tempfile.mkdtemp(prefix="larder-bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    os.chmod(work, 0o755)
    servers, runs = [], []
    with open(f"{work}/log", "w+") as log:
        try:
            open(f"{work}/misses.lua", "w").write(MISSES)
            open(f"{work}/many.lua", "w").write(MANY)
            openssl = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
            subprocess.run([*openssl.split(), "-keyout", f"{work}/key.pem", "-out", f"{work}/certificate.pem"], check=True, stderr=log)
            origin_port, *ports = free_ports(10)
            arguments.tls = dict(zip(("larder", "nginx", "before", "haproxy"), ports[5:]))
            origin = Server("origin", origin_port, [arguments.larder, "origin", "--listen", f"127.0.0.1:{origin_port}"], log)
            servers.append(origin)
            makers = {"larder": larder, "nginx": nginx, "haproxy": haproxy, "varnish": varnish, "before": before}
            caches = []
            for name, port in zip(arguments.servers, ports):
                caches.append(Server(name, port, makers[name](arguments, work, port, origin_port), log))
                servers.append(caches[-1])
            logged, ruled = [], []
            # An earlier build may have no access log.
            for name in (name for name in arguments.servers if "log" in arguments.only and name in ("larder", "nginx")):
                port, path = *free_ports(1), f"{work}/{name}-access.log"
                logged.append(Server(name, port, makers[name](arguments, work, port, origin_port, log=path), log))
                servers.append(logged[-1])
            if "rules" in arguments.only:
                port = free_ports(1)[0]
                ruled = [Server("rules", port, larder(arguments, work, port, origin_port, rules=RULES), log)]
                servers += ruled
                ruled += [server for server in caches if server.name == "larder"]
            runs = measure(arguments, (caches, logged, ruled), origin, rounds, seconds, work)
        finally:
            for server in servers:
                server.stop()
            sys.stderr.write("".join(open(f"{work}/log").readlines()[-20:]) if not runs else "")
            shutil.rmtree(work, ignore_errors=True)
    if arguments.json:
        json.dump(runs, open(arguments.json, "w"), indent=1)
    sys.exit(1 if show(arguments, runs) else 0)


def stored(arguments, name):
    return json.load(urllib.request.urlopen(f"http://127.0.0.1:{arguments.admin[name]}/status"))["http"]["stored"]


def truncate_logs(work, logged):
    """Empties the logs, which lie in memory. The servers append to them."""
    for server in logged:
        path = f"{work}/{server.name}-access.log"
        if os.path.getsize(path) == 0:
            raise SystemExit(f"{server.name} has logged nothing")
        os.truncate(path, 0)


def measure(arguments, caches_logged_and_ruled, origin, rounds, seconds, work):
    caches, logged, ruled = caches_logged_and_ruled
    runs = []
    for cell in arguments.only:
        _, target, _ = CELLS[cell]
        asked = [server for server in caches if cell not in ("h2", "tls") or server.name in arguments.tls]
        asked = {"log": logged, "rules": ruled}.get(cell, asked)

        def once(server, seconds, salt):
            if cell == "h2":
                return drive_h2(server, target, seconds, arguments.tls[server.name])
            return drive(server, target, seconds, work, salt, arguments.tls[server.name] if cell == "tls" else None)

        for server in asked:
            check(server, target if target and target != "many" else "/1000/check")
            once(server, 8 if target == "many" else 1, f"warm-{cell}-{server.name}")
        for number in range(rounds):
            for server in asked if number % 2 == 0 else reversed(asked):
                before = origin.cpu_seconds()
                kept = stored(arguments, server.name) if server.name in arguments.admin else 0
                requests, cpu = once(server, seconds, f"{cell}-{number}-{server.name}")
                fetching = origin.cpu_seconds() - before
                if cell == "log":
                    time.sleep(0.3)
                    truncate_logs(work, [server])
                if target and fetching > 0.1 * cpu and (target != "many" or number > 0):
                    raise SystemExit(f"{server.name}: hits reach the origin, which takes {fetching:.2f} CPU-seconds")
                if server.name in arguments.admin and target is None:
                    more = stored(arguments, server.name) - kept
                    if more < 0.99 * requests:
                        raise SystemExit(f"{server.name}: of {requests} misses only {more} were stored")
                runs.append({"cell": cell, "server": server.name, "round": number, "requests": requests, "cpu_seconds": cpu,
                             "requests_per_second": requests / seconds})
    return runs


def show(arguments, runs):
    """Prints the table and the ratios; how many bars are missed."""
    def each(cell, name):
        return [run["requests"] / run["cpu_seconds"] for run in runs if (run["cell"], run["server"]) == (cell, name)]

    print(f"thousand requests a CPU-second: median (least to most) of {max(run['round'] for run in runs) + 1} rounds, {CONNECTIONS} connections")
    columns = arguments.servers + ["rules"] * ("rules" in arguments.only)
    print(f"{'':22}" + "".join(f"{'larder, 20 rules' if name == 'rules' else name:>24}" for name in columns))
    for cell in arguments.only:
        values = [each(cell, name) for name in columns]
        cells = ("" if not v else f"{statistics.median(v) / 1e3:8.1f} ({min(v) / 1e3:.1f} to {max(v) / 1e3:.1f})" for v in values)
        print(f"{CELLS[cell][0]:22}" + "".join(f"{text:>24}" for text in cells))
    missed = 0
    print("\nratios")
    for cell in arguments.only:
        title, _, bars = CELLS[cell]
        for rival, bar in zip(("nginx", "varnish", "haproxy", "before"), (*bars, None, None)):
            if not each(cell, "larder") or not each(cell, rival):
                continue
            ratio = statistics.median(each(cell, "larder")) / statistics.median(each(cell, rival))
            verdict = "" if bar is None else f"bar {bar:.2f} {'met' if ratio >= bar else 'MISSED'}"
            missed += bar is not None and ratio < bar
            print(f"{title:22} {ratio:5.2f} x {rival:8} {verdict}")
        if each(cell, "rules") and each(cell, "larder"):
            # Round by round: the two run one after the other.
            ratio = statistics.median(ruled / plain for ruled, plain in zip(each(cell, "rules"), each(cell, "larder")))
            missed += ratio < RULES_BAR
            print(f"{title:22} {ratio:5.3f} x without  bar {RULES_BAR} {'met' if ratio >= RULES_BAR else 'MISSED'}")
    return missed


if __name__ == "__main__":
    main()
