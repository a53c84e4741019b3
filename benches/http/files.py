#!/usr/bin/env python3
"""Larder as a server of files beside nginx and Caddy: the same requests to each, alternately; see `files`.

The measure is that of compare.py: requests a CPU-second of the server. Larder runs twice: as it comes, with a look at the file at each
hit, and with check = "1s". nginx runs twice, with and without open_file_cache, and with sendfile. All have one worker and no access
log. The files lie in /dev/shm."""

import argparse
import json
import os
import shutil
import sys
import tempfile
import urllib.request

import compare
from compare import Server, drive, free_ports

SIZES = {"1 KB": 1000, "100 KB": 100_000, "10 MB": 10_000_000}
# The least ratio of "larder" to these: requirements of the project.
BARS = {"1 KB": (1.3, 0.95), "100 KB": (1.3, 0.95), "10 MB": (0.9, 0.9)}
RIVALS = ("nginx", "nginx-cached")


def larder(arguments, work, port, check):
    path = f"{work}/larder-{port}.toml"
    open(path, "w").write(f"""
[ndn]
enabled = false
[http]
listen = "127.0.0.1:{port}"
origin = "file://{work}/www"
threads = 1
[http.files]
check = "{check}"
[admin]
listen = ""
[log]
level = "warn"
""")
    return [arguments.larder, "run", path]


def nginx(work, port, cached):
    own = f"{work}/nginx-{port}"
    os.makedirs(own)
    cache = "open_file_cache max=10000 inactive=60s; open_file_cache_valid 60s;" if cached else ""
    user = "user root;" if os.getuid() == 0 else ""
    temporary = "".join(f"{kind}_temp_path {own}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    open(f"{own}/nginx.conf", "w").write(f"""
{user}
daemon off;
worker_processes 1;
pid {own}/pid;
error_log {own}/error.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    keepalive_requests 1000000000;
    {temporary}
    {cache}
    server {{ listen 127.0.0.1:{port} backlog=4096; root {work}/www; }}
}}
""")
    return ["nginx", "-p", own, "-c", f"{own}/nginx.conf"]


def caddy(arguments, work, port):
    path = f"{work}/Caddyfile"
    open(path, "w").write(f"{{\n\tadmin off\n\tauto_https off\n}}\nhttp://127.0.0.1:{port} {{\n\troot * {work}/www\n\tfile_server\n}}\n")
    os.environ["GOMAXPROCS"] = "1"
    return [arguments.caddy, "run", "--config", path, "--adapter", "caddyfile"]


def check(server, target, size):
    """Twice the whole file: a benchmark of errors would be fast."""
    for _ in range(2):
        body = urllib.request.urlopen(f"http://127.0.0.1:{server.port}{target}").read()
        assert body == b"x" * size, f"{server.name}: {target} comes as {len(body)} bytes"


def main():
    parser = argparse.ArgumentParser(description="Larder as a server of files beside nginx and Caddy; see benches/http/files")
    parser.add_argument("--larder", required=True)
    parser.add_argument("--caddy", default=shutil.which("caddy"))
    parser.add_argument("--quick", action="store_true", help="three rounds of two seconds")
    parser.add_argument("--only", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--json", help="writes every single run to this file")
    arguments = parser.parse_args()
    rounds, seconds = (3, 2) if arguments.quick else (5, 5)
    work = tempfile.mkdtemp(prefix="larder-files-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    os.chmod(work, 0o755)
    os.mkdir(f"{work}/www")
    for size in SIZES.values():
        open(f"{work}/www/{size}.bin", "wb").write(b"x" * size)
    servers, runs = [], []
    with open(f"{work}/log", "w+") as log:
        try:
            commands = {
                "larder": lambda port: larder(arguments, work, port, "0s"),
                "larder-1s": lambda port: larder(arguments, work, port, "1s"),
                "nginx": lambda port: nginx(work, port, False),
                "nginx-cached": lambda port: nginx(work, port, True),
            }
            if arguments.caddy:
                commands["caddy"] = lambda port: caddy(arguments, work, port)
            for (name, command), port in zip(commands.items(), free_ports(len(commands))):
                servers.append(Server(name, port, command(port), log))
            for label in arguments.only:
                target = f"/{SIZES[label]}.bin"
                for server in servers:
                    check(server, target, SIZES[label])
                    drive(server, target, 1, work, "warm")
                for number in range(rounds):
                    for server in servers if number % 2 == 0 else reversed(servers):
                        requests, cpu = drive(server, target, seconds, work, "run")
                        runs.append({"cell": label, "server": server.name, "round": number, "requests": requests, "cpu_seconds": cpu})
        finally:
            for server in servers:
                server.stop()
            sys.stderr.write("".join(open(f"{work}/log").readlines()[-20:]) if not runs else "")
            shutil.rmtree(work, ignore_errors=True)
    if arguments.json:
        json.dump(runs, open(arguments.json, "w"), indent=1)
    sys.exit(show(arguments, [server.name for server in servers], runs, rounds))


def show(arguments, names, runs, rounds):
    """Prints the table and the ratios; returns 1 if a bar is missed."""
    def each(cell, name):
        return [run["requests"] / run["cpu_seconds"] for run in runs if (run["cell"], run["server"]) == (cell, name)]

    median = compare.statistics.median
    print(f"requests a CPU-second: median (least to most) of {rounds} rounds, {compare.CONNECTIONS} connections")
    print(f"{'':8}" + "".join(f"{name:>28}" for name in names))
    missed = 0
    for cell in arguments.only:
        shown = [f"{median(each(cell, name)):,.0f} ({min(each(cell, name)):,.0f} to {max(each(cell, name)):,.0f})" for name in names]
        print(f"{cell:8}" + "".join(f"{text:>28}" for text in shown))
    for cell in arguments.only:
        for rival, bar in zip(RIVALS, BARS[cell]):
            ratio = median(each(cell, "larder")) / median(each(cell, rival))
            missed |= ratio < bar
            print(f"{cell}: {ratio:.2f} times {rival}, at least {bar}{' MISSED' if ratio < bar else ''}")
    return missed


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin"
    main()
