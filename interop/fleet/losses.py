"""Checks of a log that loses what it had, and of a server that is too old."""

import json
import socket
import subprocess
import time

from programs import LAG, STREAM, Nats, Node, free_ports, url, wait_for


def rolled_back(world):
    """the log is rolled back to an older copy: all nodes notice it and validate, and a lost purge is published again"""
    publisher, behind = world.nodes[1], world.nodes[2]
    path, witness = "/same/lost/1", "/same/lost-witness/1"
    world.warm([path, witness])
    behind.wait_on_disk()
    world.wait_position(publisher.purged(tag="nothing"))
    time.sleep(0.5)
    for server in world.servers:
        server.stop()
    world.copy_stores("older")
    for server in world.servers:
        server.resume()
    world.wait_following()
    # This node never sees the purge before it is lost.
    behind.kill()
    version = world.origin.bump(path)
    lost = publisher.purged(tag="tag-lost")
    world.wait_position(lost, world.nodes[:2])
    world.warm([path], world.nodes[:2])
    counted = [node.fleet()["rolled_back"] for node in world.nodes[:2]]
    validated = world.origin.count(witness, 304)
    for server in world.servers:
        server.kill()
    world.restore_stores("older")
    for server in world.servers:
        server.start()
    restored = time.monotonic()
    for node, before in zip(world.nodes[:2], counted):
        wait_for(f"{node.name} notices", lambda: node.fleet()["rolled_back"] > before)
    noticed = time.monotonic() - restored
    world.wait_following(world.nodes[:2])
    for node in world.nodes[:2]:
        answer = node.get(witness)
        assert answer.is_validated, f"{node.name}: {answer}"
    assert world.origin.count(witness, 304) == validated + 2
    behind.start()
    wait_for(f"the lost purge at {behind.name}", lambda: behind.get(path).version == version)
    world.wait_following()
    for node in world.nodes:
        assert node.get(path).version == version
    for node in world.nodes[:2]:
        assert "the log has lost entries" in node.log(), f"{node.name}: no line of its log tells it"
    world.remove_copies("older")
    again = sum(b'"tag-lost"' in body for body in world.entries())
    return f"noticed {noticed:.1f} s after the servers' start; the lost purge is {again} times in the log now"


def made_anew(world):
    """the log is deleted and made anew: nodes lag, notice another identity, validate, and follow"""
    path = "/v/anew/1"
    world.warm([path])
    before = world.nodes[0].fleet()["log"]
    counted = [node.fleet()["rolled_back"] for node in world.nodes]

    def delete():
        deleted = world.api("STREAM.DELETE." + STREAM)
        return deleted.get("success") or deleted["error"].get("code") == 404

    # The cluster may have no leader yet.
    wait_for("the deletion", delete)
    for node in world.nodes:
        wait_for(f"{node.name} lags", lambda: node.fleet()["state"] == "lagging")
    time.sleep(LAG)
    for node in world.nodes:
        assert node.get(path).is_validated, node.name
    identity = world.make_log()
    assert identity != before
    made = time.monotonic()
    for node, rolled_back_before in zip(world.nodes, counted):
        wait_for(f"{node.name} notices", lambda: node.fleet()["log"] == identity)
        assert node.fleet()["rolled_back"] == rolled_back_before + 1, node.fleet()
    world.wait_following()
    following = time.monotonic() - made
    for node in world.nodes:
        assert node.get(path).is_validated, node.name
    # And purges come as before.
    for node in world.nodes:
        world.warm([path])
        version = world.origin.bump(path)
        world.wait_position(node.purged(url=url(path)))
        for other in world.nodes:
            assert other.get(path).version == version
    status, output = world.init_fleet()
    assert status == 0 and json.loads(output)["existed"], output
    return f"following {following:.1f} s after"


def old_server(world):
    """a server before 2.11: init refuses it by its version; a node says so, and serves what it validates"""
    server = Nats(world, "old-nats", world.old_nats, free_ports(1)[0])
    server.start()
    wait_for("the old server", lambda: socket.create_connection(("127.0.0.1", server.port)).close() or True)
    version = subprocess.run([world.old_nats, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1].lstrip("v")
    node = Node(world, "old-node", [server])
    status, output = world.init_fleet(node.file, "1")
    assert status != 0 and version in output and "2.11" in output, f"{status} {output}"
    node.start()
    wait_for("the line about the version", lambda: f"nats-server {version}" in node.log())
    path = "/v/old/1"
    assert node.get(path).version == 1 and node.get(path).is_hit
    time.sleep(LAG + 0.1)
    for _ in range(2):
        fleet = node.fleet()
        assert fleet["state"] == "lagging" and version in (fleet["problem"] or ""), fleet
        answer = node.get(path)
        assert answer.is_validated, answer
        time.sleep(LAG + 0.1)
    node.kill()
    server.kill()
    return output.strip()
