#!/usr/bin/env python3
"""Larder's compression beside nginx and Caddy: the same files to each, alternately; see `compression`.

For each file and coding: the bytes of the coded body, and the microseconds of the server's CPU a request. Larder has two rows: "first" are
requests that are all misses, coded while they are sent; "stored" are hits with the form that the node has made meanwhile. nginx and Caddy
code each response anew. The files lie in /dev/shm; all have one worker and no access log.
"""

import argparse
import gzip
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request

from compare import Server, free_ports

# Requirements of the project: a stored form costs no more than this share of nginx' gzip of the same file.
BAR = 0.5
PACKAGES = {
    "react-dom@18.3.1": ("umd/react-dom.development.js", "react-dom.js"),
    "d3@7.9.0": ("dist/d3.min.js", "d3.min.js"),
    "bootstrap@5.3.3": ("dist/css/bootstrap.min.css", "bootstrap.css"),
}
HERE = os.path.dirname(os.path.abspath(__file__))
# Each request a URL that nobody has asked for.
MISSES = """
local salt, count = os.getenv("SALT"), 0
request = function()
    count = count + 1
    return wrk.format("GET", os.getenv("TARGET") .. "?" .. salt .. "-" .. count)
end
"""


def corpus(folder):
    """The files, as they are published."""
    for package, (path, name) in PACKAGES.items():
        said = subprocess.run(["npm", "pack", "--silent", package], cwd=folder, capture_output=True, text=True)
        if said.returncode != 0:
            print(f"npm pack {package}: {said.stderr}", file=sys.stderr)
            raise SystemExit(2)
        archive = f"{folder}/{said.stdout.split()[-1]}"
        with tarfile.open(archive) as packed:
            open(f"{folder}/www/{name}", "wb").write(packed.extractfile(f"package/{path}").read())
        os.remove(archive)
    text = open(f"{HERE}/../../docs/guides/rules.md").read() + open(f"{HERE}/../../docs/guides/running.md").read()
    lines = "".join(f"<p>{line}</p>\n" for line in text.splitlines())
    open(f"{folder}/www/page.html", "w").write(f"<!doctype html><html><body>\n{lines}</body></html>\n")
    shutil.copy(f"{HERE}/../../deploy/grafana/larder.json", f"{folder}/www/data.json")
    return sorted(os.listdir(f"{folder}/www"))


def larder(arguments, work, port):
    path = f"{work}/larder.toml"
    open(path, "w").write(f"""
[ndn]
enabled = false
[http]
listen = "127.0.0.1:{port}"
origin = "file://{work}/www"
threads = 1
cache = "1GiB"
[http.compression]
codings = ["br", "zstd", "gzip"]
[admin]
listen = ""
[log]
level = "warn"
""")
    return [arguments.larder, "run", path]


def nginx(work, port):
    own = f"{work}/nginx"
    os.makedirs(own)
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
    types {{ text/html html; text/css css; application/javascript js; application/json json; }}
    gzip on;
    gzip_comp_level 6;
    gzip_types text/css application/javascript application/json;
    keepalive_requests 1000000000;
    open_file_cache max=1000;
    {temporary}
    server {{ listen 127.0.0.1:{port} backlog=4096; root {work}/www; }}
}}
""")
    return ["nginx", "-p", own, "-c", f"{own}/nginx.conf"]


def caddy(arguments, work, port):
    path = f"{work}/Caddyfile"
    open(path, "w").write(
        f"{{\n\tadmin off\n\tauto_https off\n}}\nhttp://127.0.0.1:{port} {{\n\troot * {work}/www\n\tencode zstd gzip\n\tfile_server\n}}\n")
    return [arguments.caddy, "run", "--config", path, "--adapter", "caddyfile"]


def fetch(server, target, coding):
    """One response: its coding, and its coded bytes."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{target}", headers={"Accept-Encoding": coding})
    with urllib.request.urlopen(request) as answer:
        body = answer.read()
        return answer.headers.get("Content-Encoding", ""), body


def drive(server, target, coding, seconds, work, misses, salt):
    """One run of wrk: requests, and the server's CPU-seconds meanwhile."""
    command = ["wrk", "-t", "1", "-c", "10", "-d", f"{seconds}s", "-H", f"Accept-Encoding: {coding}"]
    if misses:
        command += ["-s", f"{work}/misses.lua"]
    before = server.cpu_seconds()
    said = subprocess.run(command + [f"http://127.0.0.1:{server.port}{target}"], capture_output=True, text=True,
                          env=dict(os.environ, SALT=str(salt), TARGET=target))
    spent = server.cpu_seconds() - before
    found = re.search(r"(\d+) requests in", said.stdout)
    if not found or re.search(r"Non-2xx|Socket errors", said.stdout):
        raise SystemExit(f"{server.name}: {said.stdout + said.stderr}")
    return int(found.group(1)), spent


def main():
    parser = argparse.ArgumentParser(description="Larder's compression beside nginx and Caddy; see benches/http/compression")
    parser.add_argument("--larder", required=True)
    parser.add_argument("--caddy", default=shutil.which("caddy"))
    parser.add_argument("--quick", action="store_true", help="one round of two seconds")
    parser.add_argument("--json", help="writes every cell to this file")
    arguments = parser.parse_args()
    rounds, seconds = (1, 2) if arguments.quick else (5, 2)
    work = tempfile.mkdtemp(prefix="larder-compression-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    os.chmod(work, 0o755)
    os.mkdir(f"{work}/www")
    servers, cells = {}, []
    with open(f"{work}/log", "w+") as log:
        try:
            files = corpus(work)
            open(f"{work}/misses.lua", "w").write(MISSES)
            commands = {"larder": lambda port: larder(arguments, work, port), "nginx": lambda port: nginx(work, port)}
            if arguments.caddy:
                commands["caddy"] = lambda port: caddy(arguments, work, port)
            # One core for Caddy, too.
            os.environ["GOMAXPROCS"] = "1"
            for (name, command), port in zip(commands.items(), free_ports(len(commands))):
                servers[name] = Server(name, port, command(port), log)
            for name in files:
                cells += measure(servers, work, name, rounds, seconds)
        finally:
            for server in servers.values():
                server.stop()
            sys.stderr.write("".join(open(f"{work}/log").readlines()[-20:]) if not cells else "")
            shutil.rmtree(work, ignore_errors=True)
    if arguments.json:
        json.dump(cells, open(arguments.json, "w"), indent=1)
    sys.exit(show(cells))


def measure(servers, work, name, rounds, seconds):
    """The cells of one file."""
    size = os.path.getsize(f"{work}/www/{name}")
    rows = [("larder", "first", coding) for coding in ("br", "zstd", "gzip")]
    rows += [("larder", "stored", coding) for coding in ("br", "zstd", "gzip")] + [("larder", "plain", "identity")]
    rows += [("nginx", "each", "gzip")] + [("caddy", "each", coding) for coding in ("zstd", "gzip") if "caddy" in servers]
    sent, runs = {}, {row: [] for row in rows}
    for row in rows:
        server, kind, coding = row
        target = f"/{name}" + ("?probe-" + coding if kind == "first" else "")
        said, body = fetch(servers[server], target, coding)
        if kind == "stored":
            sent[row] = stored_form(servers[server], target, coding, size)
        else:
            sent[row] = len(body)
        assert said == ("" if coding == "identity" else coding), f"{row}: {name} came as {said!r}"
        if coding == "gzip":
            assert gzip.decompress(body) == open(f"{work}/www/{name}", "rb").read(), f"{row}: {name} comes as another file"
    for number in range(rounds):
        for row in rows if number % 2 == 0 else reversed(rows):
            server, kind, coding = row
            if kind == "stored":
                # Others may have taken its room.
                stored_form(servers[server], f"/{name}", coding, size)
            runs[row].append(drive(servers[server], f"/{name}", coding, seconds, work, kind == "first", f"{number}-{coding}"))
    found = []
    for row in rows:
        each = [spent / requests * 1e6 for requests, spent in runs[row]]
        found.append({"file": name, "bytes": size, "server": row[0], "kind": row[1], "coding": row[2], "sent": sent[row],
                      "microseconds": statistics.median(each), "least": min(each), "most": max(each)})
    return found


def stored_form(server, target, coding, size):
    """Asks until the node has stored the form; its bytes."""
    for _ in range(200):
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}{target}", headers={"Accept-Encoding": coding})
        with urllib.request.urlopen(request) as answer:
            body = answer.read()
            # While it is coded as it is sent, its length is not known.
            if answer.headers.get("Content-Length"):
                return len(body)
        time.sleep(0.05)
    raise SystemExit(f"{server.name}: no form of {target} in {coding} after ten seconds ({size} bytes)")


def show(cells):
    """Prints the table and the ratios; returns 1 if a bar is missed."""
    print(f"{'file':14}{'server':8}{'':8}{'coding':10}{'bytes':>9}{'ratio':>7}{'us a request: median (least to most)':>40}")
    for cell in cells:
        range_of = f"{cell['microseconds']:,.0f} ({cell['least']:,.0f} to {cell['most']:,.0f})"
        print(f"{cell['file']:14}{cell['server']:8}{cell['kind']:8}{cell['coding']:10}{cell['sent']:>9,}"
              f"{cell['bytes'] / cell['sent']:>7.2f}{range_of:>40}")
    missed = 0
    for name in dict.fromkeys(cell["file"] for cell in cells):
        of = {(cell["server"], cell["kind"], cell["coding"]): cell["microseconds"] for cell in cells if cell["file"] == name}
        share = of["larder", "stored", "gzip"] / of["nginx", "each", "gzip"]
        missed |= share > BAR
        print(f"{name}: a stored form takes {share:.3f} of nginx' CPU, at most {BAR}{' MISSED' if share > BAR else ''}")
    return missed


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin"
    main()
