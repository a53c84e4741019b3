#!/usr/bin/env python3
"""fleet.py [--quick | --peers | --storm] NATS_SERVER [OLD_NATS_SERVER]: drives three nodes of a fleet over a cluster of three real servers of NATS.

Starts the servers, an origin that counts its requests, and the nodes ($LARDER) on free ports of 127.0.0.1, and ends all of them. Servers
and nodes are killed, stopped and rolled back meanwhile. One line for each check; exit status 1 if any failed. --quick leaves out what
rolls back or remakes the log. --peers checks nodes that share their responses, too, and nothing else. --storm
lets faults come to such nodes at random, for STORM seconds (20) and from the number SEED on: with full disks for root, and with clocks
that jump if libfaketime is installed. FAULTS names the functions of the only faults, with commas. OLD_NATS_SERVER is one before 2.11, which
has to be refused.
"""

import http.client
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import faults
import losses
import peers
import purges
import storm
from world import World

QUICK, STORM = "--quick" in sys.argv, "--storm" in sys.argv
PEERS = STORM or "--peers" in sys.argv
NATS, OLD_NATS = ([one for one in sys.argv[1:] if not one.startswith("--")] + [None, None])[:2]


def check(world, scenario):
    """Runs it, prints a line, and returns whether it passed."""
    begun = time.monotonic()
    what = scenario.__doc__
    try:
        figures = scenario(world)
    except Exception as fault:
        if not isinstance(fault, AssertionError):
            fault = f"{type(fault).__name__}: {fault}"
        print(f"FAIL  {what} ({time.monotonic() - begun:.1f} s): {fault}", flush=True)
        for node in world.nodes:
            try:
                print(f"      {node.name}: {json.dumps(node.fleet())}")
            except (OSError, http.client.HTTPException) as error:
                print(f"      {node.name}: {error!r}")
            for line in node.log().splitlines()[-12:]:
                print(f"      | {line}")
        return False
    print(f"ok    {what} ({time.monotonic() - begun:.1f} s)" + (f": {figures}" if figures else ""), flush=True)
    return True


def main():
    scenarios = [purges.purges, purges.foreign, purges.waits, purges.unsafe, faults.member_lost, faults.node_stopped, faults.node_killed, faults.restarted]
    scenarios += [faults.publisher_killed, faults.servers_stopped, faults.no_problem, faults.leader_killed]
    if not QUICK:
        scenarios += [losses.rolled_back, losses.made_anew]
    # An outbox is published again at a restart and after a loss. The others would find nothing stored after a purge of everything, and
    # these purges would come again for each of them.
    scenarios += [purges.everything, purges.latency]
    if PEERS:
        scenarios = [storm.storm] if STORM else [purges.unsafe, faults.node_stopped, *peers.SCENARIOS]
    if only := os.environ.get("ONLY"):
        scenarios = [one for one in scenarios if one.__name__ in only.split(",")]
    begun, failed = time.monotonic(), []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="larder-fleet.") as work:
        world = World(work, NATS, OLD_NATS, shares=PEERS, relayed=STORM)
        try:
            for server in world.servers:
                server.start()
            world.make_log()
            for node in world.nodes:
                node.start()
            world.wait_following()
            if PEERS:
                peers.wait_for_peers(world)
            print(f"      three servers and three nodes follow after {time.monotonic() - begun:.1f} s", flush=True)
            for scenario in scenarios:
                if not check(world, scenario):
                    failed.append(scenario.__name__)
                    # Further checks need nodes that follow.
                    world.heal()
            if PEERS:
                pass
            elif OLD_NATS and not QUICK:
                if not check(world, losses.old_server):
                    failed.append(losses.old_server.__name__)
            elif not QUICK:
                print("!!!   SKIPPED: a server before 2.11, for want of Debian's nats-server")
        finally:
            world.end()
            if keep := os.environ.get("KEEP_LOGS"):
                for program in filter(lambda one: one.process, world.programs):
                    shutil.copy(Path(work) / f"{program.name}.log", keep)
    print(f"      {time.monotonic() - begun:.0f} s in all" + (f"; failed: {', '.join(failed)}" if failed else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
