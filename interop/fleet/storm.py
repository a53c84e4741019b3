"""Faults at random, with an oracle that knows versions and purges."""

import contextlib
import http.client
import os
import random
import subprocess
import threading
import time
from pathlib import Path

from programs import LAG, STREAM, url, wait_for

SECONDS = float(os.environ.get("STORM", "20"))
FOLDER_BYTES = 8 << 20
FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


def storm(world):
    """nodes and servers are killed, stopped and cut off, disks fill, clocks jump, the log loses its end or is made anew, at random: nothing that was purged max_lag before is served"""
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    # Not below /same/: while a node is without the log, a 304 keeps a body there that a purge would remove.
    paths = [f"/v/storm-{tag}/{number}" for tag in range(4) for number in range(6)]
    purger, faults = Purger(world, paths, seed + 1), Faults(world, seed)
    try:
        faults.prepare()
        with world.traffic(paths, grows=False) as traffic:
            until = time.monotonic() + SECONDS
            purger.thread.start()
            try:
                while time.monotonic() < until:
                    faults.next()
            finally:
                purger.ended.set()
            purger.thread.join(30)
            faults.over()
            # Each purge of the end has reached all.
            time.sleep(LAG + 1)
        # What nodes have in memory, not after a restart.
        for node in world.nodes:
            for path in paths:
                asked_at = time.monotonic()
                world.judge(node, path, node.get(path), asked_at)
    finally:
        faults.clean()
    faults.over()
    assert purger.acknowledged > 0 and traffic["responses"] > 0, (purger.acknowledged, traffic)
    return (
        f"seed {seed}: {faults.report()}; {purger.acknowledged} purges acknowledged and {purger.unknown} not,"
        f" {traffic['responses']} responses judged"
    )


class Purger:
    """Purges at random, in a thread."""

    def __init__(self, world, paths, seed):
        self.world, self.paths, self.chance = world, paths, random.Random(seed)
        self.ended, self.acknowledged, self.unknown = threading.Event(), 0, 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.ended.wait(self.chance.random() * 0.1):
            node, path = self.chance.choice(self.world.nodes), self.chance.choice(self.paths)
            tag = path.split("/")[2]
            is_url = self.chance.random() < 0.6
            named = [path] if is_url else [one for one in self.paths if one.split("/")[2] == tag]
            for one in named:
                self.world.origin.bump(one)
            try:
                status, _ = node.purge(**({"url": url(path)} if is_url else {"tag": f"tag-{tag}"}))
            except (OSError, http.client.HTTPException):
                status = 0
            if status == 200:
                self.world.note_purge(named)
                self.acknowledged += 1
            else:
                self.unknown += 1


class Faults:
    """Faults at random, one after the other. Some are over before the next one, others are not."""

    def __init__(self, world, seed):
        self.world, self.chance, self.counts, self.mounts = world, random.Random(seed), {}, []
        self.clocks = {node.name: world.work / f"{node.name}.clock" for node in world.nodes} if FAKETIME else {}
        self.kinds = [self.kill_node, self.stop_node, self.cut_off, self.kill_server, self.stop_server, self.stop_servers] * 4
        self.kinds += [self.lose_end, self.make_anew]
        if os.geteuid() == 0:
            self.kinds += [self.fill_disk] * 2
        if self.clocks:
            self.kinds += [self.jump] * 2
        if only := os.environ.get("FAULTS"):
            self.kinds = [kind for kind in self.kinds if kind.__name__ in only.split(",")]

    def prepare(self):
        """The nodes have small disks and clocks of their own."""
        if os.geteuid() == 0:
            self.mount()
        if self.clocks:
            self.fake_clocks()

    def next(self):
        fault = self.chance.choice(self.kinds)
        self.counts[fault.__name__] = self.counts.get(fault.__name__, 0) + 1
        fault()
        time.sleep(self.chance.random() * LAG)

    def report(self):
        return ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))

    def wait(self):
        time.sleep(self.chance.random() * 2 * LAG)

    def kill_node(self):
        self.kill(self.chance.choice(self.world.nodes))

    def kill_server(self):
        self.kill(self.chance.choice(self.world.servers))

    def kill(self, one):
        one.kill()
        time.sleep(self.chance.random() * 2)
        one.start()

    def stop_node(self):
        self.stop([self.chance.choice(self.world.nodes)])

    def stop_server(self):
        self.stop([self.chance.choice(self.world.servers)])

    def stop_servers(self):
        self.stop(self.world.servers)

    def stop(self, some):
        for one in some:
            one.stop()
        self.wait()
        for one in some:
            one.resume()

    def cut_off(self):
        """A node goes on without the servers of the log."""
        relays = self.chance.choice(self.world.nodes).servers
        for relay in relays:
            relay.passes.clear()
        self.wait()
        for relay in relays:
            relay.passes.set()

    def lose_end(self):
        """The log goes back to what it was seconds ago."""
        world = self.world
        self.over()
        # What was purged a while before the copy stays purged.
        with world.losing_entries(time.monotonic() - 1):
            for server in world.servers:
                server.stop()
            world.copy_stores("older")
            for server in world.servers:
                server.resume()
            self.wait()
            for server in world.servers:
                server.kill()
            world.restore_stores("older")
            world.remove_copies("older")
            self.over()
            # Nodes publish again what the log has lost. From LAG later on, all of it holds.
            time.sleep(LAG)

    def make_anew(self):
        """The log is deleted, and made anew."""
        world = self.world
        self.over()
        with world.losing_entries(0):
            # The cluster may have no leader for a moment.
            wait_for("the deletion", lambda: world.api("STREAM.DELETE." + STREAM).get("success"))
            self.wait()
            world.make_log()
            self.over()
            # Nodes publish again what the log has lost. From LAG later on, all of it holds.
            time.sleep(LAG)

    def fill_disk(self):
        """The disk with a node's outbox is full, and the node may be killed meanwhile."""
        node = self.chance.choice(self.world.nodes)
        filler = node.folder / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass
        self.wait()
        if self.chance.random() < 0.5:
            self.kill(node)
            self.wait()
        filler.unlink()

    def jump(self):
        """The wall clock of a node jumps by up to ten minutes."""
        name, clock = self.chance.choice(list(self.clocks.items()))
        write_clock(clock, self.chance.uniform(-600, 600))

    def over(self):
        """All runs again."""
        self.world.heal()

    def mount(self):
        """Each node's outbox has a small disk of its own."""
        for node in self.world.nodes:
            node.kill()
            node.folder.mkdir(exist_ok=True)
            options = ["-t", "tmpfs", "-o", f"size={FOLDER_BYTES}"]
            subprocess.run(["mount", *options, "larder-interop", node.folder], check=True)
            self.mounts.append(node.folder)
        self.over()

    def fake_clocks(self):
        """Each node has a wall clock of its own."""
        for node in self.world.nodes:
            clock = self.clocks[node.name]
            write_clock(clock, 0)
            node.environment = {
                "LD_PRELOAD": str(FAKETIME[0]),
                "FAKETIME_TIMESTAMP_FILE": str(clock),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
            node.kill()
        self.over()

    def clean(self):
        for node in self.world.nodes:
            node.kill()
            node.environment = {}
        left = [mount for mount in self.mounts if subprocess.run(["umount", mount], check=False).returncode != 0]
        self.mounts = []
        assert not left, f"mounted still: {left}"


def write_clock(path, seconds):
    """Writes it in one step: the node reads it at any time."""
    new = path.with_suffix(".new")
    new.write_text(f"{seconds:+.3f}\n")
    new.rename(path)
