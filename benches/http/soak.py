#!/usr/bin/env python3
"""A day's churn in minutes: does the process stay within 1.15 times what was configured, and 64 MB?

Objects of 1 B to 1 GB, most of them small, come and go through a cache that holds a hundredth of them or less; what is resident, and was at most, is
read from /proc. The largest pass by the store, past `max_object`; some clients are slow, so that bodies stay under way.

  benches/http/soak                     64 GB through 256 MiB: some minutes
  benches/http/soak --quick             6 GB
  benches/http/soak --disk 4GiB         with a disk tier; the same bar
Exit status: 0 within the bar, 1 not, 2 something is missing.
"""

import argparse
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

MIB = 1 << 20


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def churn(path, volume, seed):
    """A trace: sizes by decades from 1 B to 1 GB, each a third as frequent as the one below; of each decade, few are popular."""
    chance = random.Random(seed)
    weights = [3.0 ** -decade for decade in range(9)]
    total, requests = 0, 0
    sizes = {}
    with open(path, "w") as trace:
        trace.write("time,id,size\n")
        while total < volume:
            decade = chance.choices(range(9), weights)[0]
            # Zipf by inversion over objects whose bytes are, in each decade, many times the cache's.
            number = int(1e6 ** chance.random())
            name = decade * 10**7 + number
            size = sizes.setdefault(name, int(10 ** (decade + chance.random())))
            trace.write(f"{requests},{name},{size}\n")
            total += size
            requests += 1
        # Surely one of the largest kind.
        trace.write(f"{requests},99999999,{10**9}\n")
    return total + 10**9, requests + 1


def slow_reader(port, stop):
    """Asks for a large object and reads 64 KiB of it ten times a second, again and again."""
    number = 0
    while not stop.is_set():
        number += 1
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.settimeout(30)
            connection.sendall(f"GET /30000000/slow-{port}-{id(stop)}-{number} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
            for _ in range(50):
                if stop.is_set() or not connection.recv(65536):
                    break
                time.sleep(0.1)


def resident(pid, which="RSS"):
    return int(re.search(rf"Vm{which}:\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1)) * 1024


def figures(admin):
    """What the node itself says it holds."""
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics") as page:
        lines = (line.rsplit(" ", 1) for line in page.read().decode().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in lines}


def wait_for(port):
    for _ in range(200):
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
    raise SystemExit("a server does not serve")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--larder", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gigabytes", type=float)
    parser.add_argument("--cache", type=int, default=256, help="MiB")
    parser.add_argument("--disk", help="capacity of a disk tier, such as 4GiB")
    parser.add_argument("--policy", default="agd")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    volume = (arguments.gigabytes or (6 if arguments.quick else 64)) * 1e9

    work = tempfile.mkdtemp(prefix="larder-soak-")
    port, origin, admin = free_ports(3)
    disk = f'[http.disk]\npath = "{work}/tier"\ncapacity = "{arguments.disk}"\n' if arguments.disk else ""
    open(f"{work}/larder.toml", "w").write(f"""
[ndn]
unix = ""
tcp = ""
udp = ""
websocket = ""
[http]
listen = "127.0.0.1:{port}"
origin = "http://127.0.0.1:{origin}"
cache = "{arguments.cache}MiB"
policy = "{arguments.policy}"
{disk}
[admin]
listen = "127.0.0.1:{admin}"
[log]
level = "warn"
""")
    servers, stop = [], threading.Event()
    try:
        total, requests = churn(f"{work}/trace.csv", volume, arguments.seed)
        servers.append(subprocess.Popen([arguments.larder, "origin", "--listen", f"127.0.0.1:{origin}"], stdout=subprocess.DEVNULL))
        servers.append(subprocess.Popen([arguments.larder, "run", f"{work}/larder.toml"]))
        wait_for(port)
        wait_for(origin)
        wait_for(admin)
        node = servers[1].pid
        idle = resident(node)
        readers = [threading.Thread(target=slow_reader, args=(port, stop), daemon=True) for _ in range(4)]
        for reader in readers:
            reader.start()
        load = subprocess.Popen([arguments.larder, "load", "--json", "--trace", f"{work}/trace.csv", "-c", str(arguments.connections),
                                 "--columns", "time=time,id=id,size=size", f"http://127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True)
        samples, said_at_most = [], {}
        while load.poll() is None:
            samples.append(resident(node))
            if samples[-1] == max(samples):
                said_at_most = figures(admin)
            time.sleep(0.05)
        said = load.stdout.read()
        stop.set()
        for reader in readers:
            reader.join(5)
        time.sleep(2)
        # The kernel's own record: what is looked at twenty times a second misses the peaks.
        after, peak = resident(node), resident(node, "HWM")
    finally:
        stop.set()
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait(20)
        shutil.rmtree(work, ignore_errors=True)
    if load.returncode != 0 or not samples:
        raise SystemExit(f"larder load: {said}")
    configured = arguments.cache * MIB
    bar = configured * 1.15 + 64e6
    samples.sort()
    print(f"{requests} requests for {total / 1e9:.1f} GB through {arguments.cache} MiB, {arguments.policy}")
    print(f"resident: {idle / MIB:.0f} MiB idle, {samples[len(samples) // 2] / MIB:.0f} median, {peak / MIB:.0f} at most, {after / MIB:.0f} after")
    held = (("stored", "used"), ("under way", "filling"), ("waiting for the disk", "disk_queued"))
    held = ((words, said_at_most.get(f"larder_http_{name}_bytes")) for words, name in held)
    print("of the largest sample: " + ", ".join(f"{value / MIB:.0f} MiB {words}" for words, value in held if value is not None))
    print(f"bar {bar / MIB:.0f} MiB: {'met' if peak <= bar else 'MISSED'}")
    sys.exit(0 if peak <= bar else 1)


if __name__ == "__main__":
    main()
