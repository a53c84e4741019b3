"""Measures the round trips of a download over a full link. See ../README.md."""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

BAR_MS = 5.0
# Segments of one cell: about two seconds of the link.
SECONDS = 2


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


class Link:
    """Two network namespaces and a link of this rate between them, with a node in each."""

    def __init__(self, larder, rate_mbit, queue, transport, congestion):
        self.larder, self.folder = larder, tempfile.mkdtemp(dir="/dev/shm")
        self.names = [f"larder-{os.getpid()}-{end}" for end in "ab"]
        self.processes = []
        consumer, producer = self.names
        for name in self.names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", "eth0", "netns", consumer, "type", "veth", "peer", "name", "eth0", "netns", producer)
        for number, name in enumerate(self.names, 1):
            run("ip", "-n", name, "addr", "add", f"10.9.0.{number}/24", "dev", "eth0")
            for device in ["lo", "eth0"]:
                run("ip", "-n", name, "link", "set", device, "up")
            bucket = ["tbf", "rate", f"{rate_mbit}mbit", "burst", "64kb", "limit", queue]
            self.inside(name, "tc", "qdisc", "add", "dev", "eth0", "root", *bucket)
            if congestion:
                self.inside(name, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={congestion}")
        self.start_node(producer, "10.9.0.2", "")
        route = f'[[ndn.route]]\nprefix = "/file"\nto = "{transport}://10.9.0.2:6363"\n'
        self.start_node(consumer, "10.9.0.1", route)

    def inside(self, name, *command):
        return run("ip", "netns", "exec", name, *command)

    def socket(self, name):
        return f"{self.folder}/{name}.sock"

    def start(self, name, *arguments, **more):
        environment = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.socket(name)}"}
        command = ["ip", "netns", "exec", name, self.larder, *arguments]
        return subprocess.Popen(command, env=environment, text=True, **more)

    def start_node(self, name, address, route):
        config = pathlib.Path(f"{self.folder}/{name}.toml")
        config.write_text(
            f'[ndn]\nunix = "{self.socket(name)}"\ntcp = "{address}:6363"\nudp = "{address}:6363"\n'
            f'websocket = ""\ncontent_store = "16MiB"\n{route}[http]\nenabled = false\n[admin]\nlisten = ""\n'
        )
        log = open(f"{self.folder}/{name}.log", "w")
        self.processes.append(self.start(name, "run", str(config), stdout=log, stderr=log))
        while not os.path.exists(self.socket(name)):
            if self.processes[-1].poll() is not None:
                sys.exit(f"a node has ended: {open(log.name).read()}")
            time.sleep(0.02)

    def backlog(self):
        """Bytes in the queue of the producer's interface."""
        shown = self.inside(self.names[1], "tc", "-s", "qdisc", "show", "dev", "eth0")
        number, unit = re.search(r"backlog (\d+)(K?)b", shown).groups()
        return int(number) * (1024 if unit else 1)

    def download(self, size):
        consumer, producer = self.names
        file = pathlib.Path(f"{self.folder}/file")
        with open("/dev/urandom", "rb") as random:
            file.write_bytes(random.read(size))
        put = self.start(producer, "put", "/file/x", str(file), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.processes.append(put)
        # Its first line comes when the name is registered.
        put.stdout.readline()
        threading.Thread(target=put.stdout.read, daemon=True).start()
        get = self.start(consumer, "get", "/file/x", "-o", "/dev/null", "--json", stdout=subprocess.PIPE)
        waiting = []
        while get.poll() is None:
            waiting.append(self.backlog())
            time.sleep(0.05)
        return json.loads(get.stdout.read()), waiting

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()
        for name in self.names:
            run("ip", "netns", "del", name)
        shutil.rmtree(self.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("larder", help="the program, built by `cargo build --profile dist`")
    parser.add_argument("--rates", type=int, nargs="+", default=[1000], help="Mb/s of the link")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    missed = False
    for rate in arguments.rates:
        for transport, congestion in [("tcp", "cubic"), ("tcp", "bbr"), ("udp", None)]:
            for queue in ["100kb", "10mb"]:
                rtts, rates, queues = [], [], []
                for _ in range(arguments.rounds):
                    link = Link(arguments.larder, rate, queue, transport, congestion)
                    try:
                        got, waiting = link.download(rate * 125_000 * SECONDS)
                    finally:
                        link.close()
                    rtts.append(got["mean_rtt_ms"])
                    rates.append(got["megabits_per_second"])
                    queues.append(statistics.mean(waiting) / 1000)
                show = lambda values, digits: ", ".join(f"{value:.{digits}f}" for value in values)
                print(
                    f"{rate} Mb/s, {transport} {congestion or ''}, queue of {queue}: mean RTT {show(rtts, 1)} ms, "
                    f"{show(rates, 0)} Mb/s, {show(queues, 0)} kB in the interface's queue",
                    flush=True,
                )
                # The bar is for a full link of 1 Gb/s.
                missed |= rate == 1000 and statistics.median(rtts) > BAR_MS
    sys.exit(missed)


main()
