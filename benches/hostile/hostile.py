"""Starts a node, the other clients and one attack after the other, and prints what the clients lost. See `run`."""

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import attacks
import clients
import network
import origin

MIB = 1 << 20

#: What each class of clients keeps of the requests that it completed before the attack.
LEAST_SHARE = 0.9

#: Memory of the node: the HTTP cache, the Content Store and partial input as configured or by default (64 MiB each), and
#: 160 MiB for code, tables, the index of the disk tier and the state of some thousands of connections.
MEMORY_BAR_MIB = 64 + 64 + 64 + 160

#: Without it nothing can be fetched or uploaded.
NEEDS_ORIGIN = ("http-miss", "http-upload")
WITHOUT_ORIGIN = "slow-downloads-without-origin"

CONFIG = """
[ndn]
unix = "{home}/nfd.sock"
tcp = "{address}:6363"
udp = "{address}:6363"
websocket = "{address}:9696"
content_store = "64MiB"
[[ndn.route]]
prefix = "/blackhole"
to = "udp://{peers}:6399"
[http]
listen = "{address}:8080"
cache = "64MiB"
[[http.origins]]
servers = ["http://{peers}:{origin[0]}", "http://{peers}:{origin[1]}"]
[http.tls]
listen = "{address}:8443"
certificate = "{keys}/localhost.pem"
key = "{keys}/localhost.key"
[http.disk]
path = "{home}/tier"
capacity = "1GiB"
[admin]
listen = "{address}:8081"
[log]
level = "error"
"""


class Stage:
    """The node and everybody around it."""

    def __init__(self, options, home, space):
        self.context = multiprocessing.get_context("fork")
        self.space, self.processes = space, []
        self.node = {"address": network.NODE, "tcp": 6363, "udp": 6363, "websocket": 9696, "http": 8080, "https": 8443,
                     "unix": f"{home}/nfd.sock"}
        keys = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../crates/proxy/tests/data")
        config = f"{home}/larder.toml"
        with open(config, "w") as file:
            file.write(CONFIG.format(home=home, address=network.NODE, peers=network.PEERS, origin=origin.PORTS,
                                     keys=os.path.abspath(keys)))
        self.origin = self.fork(origin.run, network.PEERS)
        self.fork(attacks.source_of_black_hole)
        self.larder = self.spawn(["ip", "netns", "exec", space.node, options.larder, "run", config],
                                 log=open(f"{home}/log", "w"))
        self.await_port(self.node["http"])
        environment = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{home}/nfd.sock"}
        for words in (["/victim"], ["/large", "--size", "8000"]):
            self.spawn([options.tools, "ping-server", *words], environment)
        self.fill()
        self.counters = clients.Counters(self.context)
        for run in (clients.run_http, clients.run_ndn):
            self.fork(run, self.node, self.counters)

    def fork(self, function, *arguments):
        process = self.context.Process(target=function, args=arguments, daemon=True)
        process.start()
        return process

    def spawn(self, command, environment=None, log=subprocess.DEVNULL):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=log)
        self.processes.append(process)
        return process

    def await_port(self, port):
        for _ in range(400):
            if self.larder.poll() is not None:
                sys.exit("the node has ended at its start; its log says why")
            try:
                return socket.create_connection((network.NODE, port), 1).close()
            except OSError:
                time.sleep(0.05)
        sys.exit("the node does not listen")

    def fill(self):
        """Puts into the disk tier what clients and attacks ask of it."""
        targets = [attacks.stored_large(number) for number in range(40)]
        targets += [clients.disk_target(number) for number in range(clients.DISK_OBJECTS)]
        for target in targets:
            with urllib.request.urlopen(self.get(target)) as answer:
                answer.read()

    def get(self, target):
        return urllib.request.Request(f"http://{network.NODE}:8080{target}", headers={"Host": "example.test"})

    def resident_mib(self):
        # `ip netns exec` becomes the node.
        with open(f"/proc/{self.larder.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024

    def is_alive(self):
        return self.larder.poll() is None

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
        for process in multiprocessing.active_children():
            process.kill()


def watch(stage, seconds):
    """Share of the requests that each class had answered in this time, and the node's memory by the second."""
    before, memory = stage.counters.read(), []
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        memory.append(round(stage.resident_mib(), 1))
        time.sleep(min(1.0, left))
    after = stage.counters.read()
    answered = {kind: (after[kind][1] - before[kind][1]) / seconds for kind in after}
    return answered, memory


def under_attack(stage, name, seconds):
    _, function = attacks.ATTACKS[name]
    before, quiet = watch(stage, min(10, seconds))
    if name == WITHOUT_ORIGIN:
        stage.origin.kill()
    attacker = stage.fork(function, stage.node)
    during, memory = watch(stage, seconds)
    failed = attacker.exitcode
    attacker.kill()
    attacker.join()
    _, after = watch(stage, 5)
    classes = [kind for kind in clients.RATES if name != WITHOUT_ORIGIN or kind not in NEEDS_ORIGIN]
    kept = {kind: round(during[kind] / before[kind], 3) if before[kind] else 0.0 for kind in classes}
    return {"attack": name, "kept": kept, "before_per_s": before, "during_per_s": during, "attacker_failed": failed,
            "memory_mib": {"before": quiet, "during": memory, "after": after}}


def show(row):
    kept, memory = row["kept"], row["memory_mib"]
    worst = min(kept, key=kept.get)
    lost = [f"{kind} {100 * (1 - share):.0f} %" for kind, share in kept.items() if share < LEAST_SHARE]
    verdict = "lost: " + ", ".join(lost) if lost else f"none below the bar; least: {worst} {100 * kept[worst]:.0f} %"
    series = " ".join(f"{value:.0f}" for value in memory["during"][::max(1, len(memory["during"]) // 8)])
    note = "  ATTACKER ENDED" if row["attacker_failed"] is not None else ""
    print(f"{row['attack']:<31} MiB {max(memory['before']):.0f} | {series} | {memory['after'][-1]:.0f}   {verdict}{note}", flush=True)


def judge(rows):
    """The bars, one line each; whether all are met."""
    lost = [row["attack"] for row in rows if min(row["kept"].values()) < LEAST_SHARE]
    peak = max(max(row["memory_mib"]["during"]) for row in rows)
    failed = [row["attack"] for row in rows if row["attacker_failed"] is not None]
    print(f"\nclients keep {LEAST_SHARE:.0%}: {'with every attack' if not lost else 'not with ' + ', '.join(lost)}")
    print(f"memory: {peak:.0f} MiB at most, bar {MEMORY_BAR_MIB} MiB: {'met' if peak <= MEMORY_BAR_MIB else 'missed'}")
    if failed:
        print(f"these attacks ended early and count for nothing: {', '.join(failed)}")
    return not lost and not failed and peak <= MEMORY_BAR_MIB


def main(options):
    seconds = 12 if options.quick else 75
    names = options.only or list(attacks.ATTACKS)
    # The origin does not come back: this one is the last.
    names.sort(key=lambda name: name == WITHOUT_ORIGIN)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    home = tempfile.mkdtemp(prefix="larder-hostile-", dir="/dev/shm")
    rows, stage = [], None
    with network.Network() as space:
        fd = os.open(f"/run/netns/{space.peers}", os.O_RDONLY)
        set_namespace(fd)
        try:
            stage = Stage(options, home, space)
            # Every neighbour has been heard once, and is silent for its time.
            watch(stage, clients.SILENCE_S + 3)
            for name in names:
                row = under_attack(stage, name, seconds)
                rows.append(row)
                show(row)
                if not stage.is_alive():
                    print(f"the node has ended: {open(home + '/log').read()[-2000:]}")
                    break
        finally:
            if stage:
                stage.stop()
            if options.json:
                with open(options.json, "w") as file:
                    json.dump(rows, file, indent=1)
            shutil.rmtree(home)
    return 0 if rows and judge(rows) and len(rows) == len(names) else 1


def set_namespace(fd):
    import ctypes
    if ctypes.CDLL(None, use_errno=True).setns(fd, 0x40000000):
        raise OSError(ctypes.get_errno(), "cannot enter the namespace")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--larder", required=True, help="the node's program")
    parser.add_argument("--tools", required=True, help="the program whose ping-server answers")
    parser.add_argument("--quick", action="store_true", help="12 s an attack instead of 75 s")
    parser.add_argument("--only", action="append", choices=list(attacks.ATTACKS), metavar="ATTACK")
    parser.add_argument("--json", metavar="FILE", help="writes every figure there")
    parser.add_argument("--list", action="store_true", help="lists the attacks")
    arguments = parser.parse_args()
    if arguments.list:
        for title, (words, _) in attacks.ATTACKS.items():
            print(f"{title:<31} {words}")
        sys.exit(0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main(arguments))
