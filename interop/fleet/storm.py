"""Faults at random, with an oracle that knows versions and purges."""

import http.client
import os
import random
import threading
import time

from programs import LAG, url

SECONDS = float(os.environ.get("STORM", "20"))


def storm(world):
    """nodes and servers are killed and stopped at random while purges and requests come: nothing that was purged max_lag before is served"""
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    chance = random.Random(seed)
    # Not below /same/: while a node is without the log, a 304 keeps a body there that a purge would remove.
    paths = [f"/v/storm-{tag}/{number}" for tag in range(4) for number in range(6)]
    ended, counts = threading.Event(), {"purges": 0, "unknown": 0, "faults": 0}

    def purge():
        own = random.Random(seed + 1)
        while not ended.is_set():
            node, path = own.choice(world.nodes), own.choice(paths)
            tag = path.split("/")[2]
            named = [path] if own.random() < 0.6 else [one for one in paths if one.split("/")[2] == tag]
            for one in named:
                world.origin.bump(one)
            try:
                status, _ = node.purge(**({"url": url(path)} if named == [path] else {"tag": f"tag-{tag}"}))
            except (OSError, http.client.HTTPException):
                status = 0
            if status == 200:
                world.note_purge(named)
            counts["purges" if status == 200 else "unknown"] += 1
            ended.wait(own.random() * 0.1)

    def faults(until):
        while time.monotonic() < until:
            counts["faults"] += 1
            kind, some = chance.choice(["node", "node", "server", "servers"]), []
            some = world.servers if kind == "servers" else [chance.choice(world.nodes if kind == "node" else world.servers)]
            if chance.random() < 0.5 and kind != "servers":
                some[0].kill()
                time.sleep(chance.random() * 2)
                some[0].start()
            else:
                for one in some:
                    one.stop()
                time.sleep(chance.random() * 2 * LAG)
                for one in some:
                    one.resume()
            # Some recover before the next fault, others do not.
            time.sleep(chance.random() * 3)

    begun = time.monotonic()
    purging = threading.Thread(target=purge, daemon=True)
    with world.traffic(paths, grows=False) as traffic:
        purging.start()
        try:
            faults(begun + SECONDS)
        finally:
            ended.set()
        purging.join(30)
        world.heal()
        # Each purge of the end has reached all.
        time.sleep(LAG + 1)
    for node in world.nodes:
        for path in paths:
            asked_at = time.monotonic()
            world.judge(node, path, node.get(path), asked_at)
    assert counts["purges"] > 0 and traffic["responses"] > 0, (counts, traffic)
    return (
        f"seed {seed}: {counts['faults']} faults, {counts['purges']} purges acknowledged and {counts['unknown']} not,"
        f" {traffic['responses']} responses judged"
    )
