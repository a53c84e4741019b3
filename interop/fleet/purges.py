"""Checks of purges while all runs: from each node, by other programs, and that wait for all nodes."""

import json
import time
import uuid

from programs import FLEET, percentiles, url, wait_for


def purges(world):
    """purges by URL, prefix and tag, hard and soft, from each node: all three execute them"""
    orders = [{"url": url("/same/a/1")}, {"prefix": url("/same/a/")}, {"tag": "tag-a"}]
    return send_orders(world, orders + [{**order, "soft": True} for order in orders])


def everything(world):
    """purges of everything, hard and soft, from each node: all three execute them"""
    return send_orders(world, [{"everything": True}, {"everything": True, "soft": True}])


def send_orders(world, orders):
    """Sends each order at each node, and compares what all nodes serve then."""
    path, witness, before = "/same/a/1", "/same/b/1", 0
    for node in world.nodes:
        for order in orders:
            world.warm([path, witness])
            version = world.origin.bump(path)
            asked = world.origin.count(path, 304)
            # Half of them by the command.
            send = node.purged_by_ctl if node is world.nodes[2] else node.purged
            position = send(**order)
            assert position > before, f"position {position} after {before}"
            before = position
            world.wait_position(position)
            for other in world.nodes:
                what = f"{order} at {node.name}: {other.name}"
                answer = other.get(path)
                if order.get("soft"):
                    # The ETag is the same: the origin confirms what is stored.
                    assert answer.is_validated and answer.version < version, f"{what}: {answer}"
                else:
                    assert answer.version == version and not answer.is_hit and not answer.is_validated, f"{what}: {answer}"
                assert other.get(path).is_hit, what
                answer = other.get(witness)
                assert answer.is_hit != ("everything" in order), f"{what}: {witness}: {answer}"
            assert world.origin.count(path, 304) - asked == (3 if order.get("soft") else 0), "validations"
            # The old body, which was confirmed, leaves all nodes.
            if order.get("soft"):
                world.wait_position(node.purged(url=url(path)))
    return f"{len(orders) * 3} purges"


def latency(world):
    """200 purges: from POST to the last node"""
    answers, reached = [], []
    for number in range(200):
        node = world.nodes[number % 3]
        begun = time.monotonic()
        position = node.purged(tag=f"none-{number}")
        answered = time.monotonic()
        left = list(world.nodes)
        while left:
            left = [one for one in left if one.fleet()["position"] < position]
            assert time.monotonic() - begun < 10, f"{[one.name for one in left]} have not applied {position} after 10 s"
        answers.append(answered - begun)
        reached.append(time.monotonic() - begun)
    # Without the outbox of a node: what another program publishes.
    published = []
    with world.raw() as client:
        for number in range(200):
            body = {"v": 1, "id": str(uuid.uuid4()), "tags": [f"none-{number}"]}
            begun = time.monotonic()
            acknowledged = client.request(f"larder.{FLEET}.purge", json.dumps(body).encode(), {"Nats-Msg-Id": body["id"]})
            position = json.loads(acknowledged[1])["seq"]
            left = list(world.nodes)
            while left:
                left = [one for one in left if one.fleet()["position"] < position]
                assert time.monotonic() - begun < 10, f"{[one.name for one in left]} have not applied {position} after 10 s"
            published.append(time.monotonic() - begun)
    return (
        f"POST answered: {percentiles(answers)}; all nodes (seen by /status): {percentiles(reached)}; "
        f"published to NATS until all nodes: {percentiles(published)}"
    )


def foreign(world):
    """a message of another program purges; one that is unreadable makes all stale, and is counted"""
    path, other = "/same/foreign/1", "/same/foreign-other/1"
    world.warm([path, other])
    version = world.origin.bump(path)
    with world.raw() as client:
        body = {"v": 1, "id": str(uuid.uuid4()), "from": "cms", "urls": [url(path)], "unknown": [1]}
        publish = lambda payload, name: json.loads(client.request(f"larder.{FLEET}.purge", payload, {"Nats-Msg-Id": name})[1])
        done = publish(json.dumps(body).encode(), body["id"])
        world.wait_position(done["seq"])
        for node in world.nodes:
            assert node.get(path).version == version and node.get(other).is_hit, node.name
        assert publish(json.dumps(body).encode(), body["id"]).get("duplicate"), "a repetition is not known"
        for number, payload in enumerate([b"hello", json.dumps({"v": 2, "id": "x"}).encode()]):
            world.warm([path, other])
            counted = [node.fleet()["unreadable"] for node in world.nodes]
            done = publish(payload, f"unreadable-{number}-{uuid.uuid4()}")
            world.wait_position(done["seq"])
            for node, before in zip(world.nodes, counted):
                assert node.fleet()["unreadable"] == before + 1, node.name
                for one in (path, other):
                    answer = node.get(one)
                    assert answer.is_validated, f"{node.name} {one}: {answer}"


def waits(world):
    """purges with wait = all, by POST and by larder ctl: at the answer, all three nodes have executed them"""
    path, seconds = "/same/waits/1", []
    for node in world.nodes:
        wait_for(f"{node.name} hears three nodes", lambda: node.fleet()["members"] == 3)
    for number in range(60):
        node, order = world.nodes[number % 3], {"url": url(path)} if number % 2 else {"tag": "tag-waits"}
        world.warm([path])
        version = world.origin.bump(path)
        begun = time.monotonic()
        fleet = node.purged_by_all(by_ctl=number % 10 == 0, **order)
        if number % 10:
            seconds.append(time.monotonic() - begun)
        assert (fleet["members"], fleet["applied"], fleet["lost"]) == (3, 3, []), fleet
        for other in world.nodes:
            answer = other.get(path)
            assert answer.version == version, f"{order} at {node.name}: {other.name}: {answer}"
            assert other.fleet()["position"] >= fleet["position"], other.name
    status, told = world.nodes[0].purge(tag="tag-waits", wait="some")
    assert status == 400, f"{status} {told}"
    return f"POST answered: {percentiles(seconds)}"


def unsafe(world):
    """a POST through one node removes its URL from all of them, and nothing else"""
    path, witness = "/same/unsafe/1", "/same/unsafe/2"
    for number, node in enumerate(world.nodes):
        world.warm([path, witness])
        before = node.fleet()["invalidations"]
        node.change(path)
        for other in world.nodes:
            wait_for(f"the change at {other.name}", lambda: other.get(path).version == number + 2, 5)
            assert other.get(witness).is_hit, other.name
        assert node.fleet()["invalidations"] == before + 1, node.fleet()
    assert all(node.fleet()["invalidations_dropped"] == 0 for node in world.nodes)
