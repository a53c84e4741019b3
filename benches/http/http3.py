#!/usr/bin/env python3
"""Hits over HTTP/3 beside Caddy and Larder's own HTTP/2; see `http3`.

Each server has one thread, no access log, and two objects of 1,000 and 100,000 bytes: Larder's are hits of its memory, Caddy's are
`respond` (1,000 bytes) and a file of /dev/shm (100,000 bytes), which are its fastest ways.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from compare import Server, free_ports

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = f"{HERE}/../../crates/proxy/tests/data"
CONNECTIONS, STREAMS = 4, 8
SIZES = (1000, 100_000)
# (Row, row, size, least ratio): what the project requires.
BARS = [
    (("larder", 3, "go"), ("caddy", 3, "go"), 1000, 3.0),
    (("larder", 3, "quinn"), ("caddy", 3, "quinn"), 1000, 3.0),
    (("larder", 3, "go"), ("larder", 2, "go"), 1000, 0.8),
    (("larder", 3, "go"), ("caddy", 3, "go"), 100_000, 1.8),
    (("larder", 3, "quinn"), ("caddy", 3, "quinn"), 100_000, 1.8),
    (("larder", 3, "go"), ("larder", 2, "go"), 100_000, 0.4),
    (("larder", 3, "quinn"), ("larder", 2, "go"), 100_000, 0.65),
]
ROWS = [("larder", 3, "go"), ("caddy", 3, "go"), ("larder", 3, "quinn"), ("caddy", 3, "quinn"), ("larder", 2, "go")]


def larder(binary, work, port):
    path = f"{work}/larder.toml"
    open(path, "w").write(f"""
[ndn]
enabled = false
[http]
listen = ""
origin = "file://{work}/www"
threads = 1
cache = "64MiB"
[http.files]
check = "1h"
[http.tls]
listen = "127.0.0.1:{port}"
certificate = "{DATA}/localhost.pem"
key = "{DATA}/localhost.key"
[admin]
listen = ""
[log]
level = "warn"
""")
    return [binary, "run", path]


def caddy(binary, work, port):
    path = f"{work}/Caddyfile"
    open(path, "w").write(f"""{{
	admin off
	auto_https off
	storage file_system {work}/caddy
}}
https://localhost:{port} {{
	bind 127.0.0.1
	tls {DATA}/localhost.pem {DATA}/localhost.key
	respond /1000 "{'x' * 1000}"
	root * {work}/www
	file_server
}}
""")
    return [binary, "run", "--config", path, "--adapter", "caddyfile"]


def drive(arguments, server, row, size, seconds):
    """One run of a client: requests a CPU-second of the server."""
    _, version, client = row
    command = [arguments.go, str(version)] if client == "go" else [arguments.quinn]
    url = f"https://localhost:{server.port}/{size}"
    before = server.cpu_seconds()
    environment = {name: value for name, value in os.environ.items() if name != "GOMAXPROCS"}
    said = subprocess.run(command + [str(CONNECTIONS), str(STREAMS), str(seconds), url], capture_output=True, text=True, env=environment)
    spent = server.cpu_seconds() - before
    if said.returncode != 0:
        raise SystemExit(f"{row}: {said.stdout}{said.stderr}")
    responses, bodies = map(int, said.stdout.split())
    assert bodies == responses * size, f"{row}: {bodies} bytes of {responses} responses of {size} bytes"
    return responses / spent


def main():
    parser = argparse.ArgumentParser(description="Larder's HTTP/3 beside Caddy's; see benches/http/http3")
    parser.add_argument("--larder", required=True)
    parser.add_argument("--before", help="another build of Larder, measured beside this one")
    parser.add_argument("--caddy", default=shutil.which("caddy"))
    parser.add_argument("--go", required=True, help="the client of http3_load")
    parser.add_argument("--quinn", required=True, help="the client of crates/http3/examples/load.rs")
    parser.add_argument("--quick", action="store_true", help="one round of two seconds")
    parser.add_argument("--json", help="writes every cell to this file")
    arguments = parser.parse_args()
    rounds, seconds = (1, 2) if arguments.quick else (5, 3)
    work = tempfile.mkdtemp(prefix="larder-http3-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    os.mkdir(f"{work}/www")
    for size in SIZES:
        open(f"{work}/www/{size}", "w").write("x" * size)
    rows = ROWS + ([("before", version, client) for version, client in ((3, "go"), (3, "quinn"), (2, "go"))] if arguments.before else [])
    servers, cells = {}, {}
    os.environ["GOMAXPROCS"] = "1"
    with open(f"{work}/log", "w+") as log:
        try:
            commands = {"larder": lambda port: larder(arguments.larder, work, port), "caddy": lambda port: caddy(arguments.caddy, work, port)}
            if arguments.before:
                commands["before"] = lambda port: larder(arguments.before, work, port)
            for (name, command), port in zip(commands.items(), free_ports(len(commands))):
                servers[name] = Server(name, port, command(port), log)
            for size in SIZES:
                for row in rows:
                    drive(arguments, servers[row[0]], row, size, 1)
                runs = {row: [] for row in rows}
                for number in range(rounds):
                    for row in rows if number % 2 == 0 else reversed(rows):
                        runs[row].append(drive(arguments, servers[row[0]], row, size, seconds))
                cells |= {(row, size): each for row, each in runs.items()}
        finally:
            for server in servers.values():
                server.stop()
            sys.stderr.write("".join(open(f"{work}/log").readlines()[-20:]) if not cells else "")
            shutil.rmtree(work, ignore_errors=True)
    if arguments.json:
        listed = [{"server": row[0], "http": row[1], "client": row[2], "bytes": size, "runs": runs} for (row, size), runs in cells.items()]
        json.dump(listed, open(arguments.json, "w"), indent=1)
    sys.exit(show(cells))


def show(cells):
    """Prints the table and the ratios; returns 1 if a bar is missed."""
    print(f"{'bytes':>9}  {'server':8}{'HTTP/':6}{'client':8}{'requests a CPU-second: median (least to most)':>50}")
    for (row, size), runs in cells.items():
        said = f"{statistics.median(runs):,.0f} ({min(runs):,.0f} to {max(runs):,.0f})"
        print(f"{size:>9,}  {row[0]:8}{row[1]:<6}{row[2]:8}{said:>50}")
    missed = 0
    for one, other, size, least in BARS:
        ratio = statistics.median(cells[one, size]) / statistics.median(cells[other, size])
        missed |= ratio < least
        named = " over ".join(f"{server} HTTP/{version} ({client})" for server, version, client in (one, other))
        print(f"{size:,} bytes: {named}: {ratio:.2f}, at least {least}{' MISSED' if ratio < least else ''}")
    return missed


if __name__ == "__main__":
    main()
