"""Checks of what stops or is killed: nodes, and servers of the log."""

import concurrent.futures
import http.client
import json
import time

from programs import HOST, LAG, STREAM, Answer, url, wait_for


def node_stopped(world):
    """a node is stopped for 5 s: from its first answer on, nothing that was purged max_lag before is served unvalidated"""
    node, others = world.nodes[1], [world.nodes[0], world.nodes[2]]
    paths = [f"/v/stopped-{number}/1" for number in range(10)]
    world.warm(paths)
    # Connections that are there before, so that the requests wait in the node's sockets.
    connections = []
    for path in paths:
        connection = http.client.HTTPConnection("127.0.0.1", node.http, timeout=10)
        connection.request("GET", path, headers={"Host": HOST})
        assert Answer(connection.getresponse()).version == 1
        connections.append(connection)
    stopped = time.monotonic()
    node.stop()
    for number, path in enumerate(paths):
        world.origin.bump(path)
        others[number % 2].purged(url=url(path))
        world.note_purge([path])
        time.sleep(max(0, stopped + 0.5 * (number + 1) - time.monotonic()))
    for connection, path in zip(connections, paths):
        connection.request("GET", path, headers={"Host": HOST})
    continued = time.monotonic()
    node.resume()
    old = 0
    for connection, path in zip(connections, paths):
        answer = Answer(connection.getresponse())
        world.judge(node, path, answer, continued)
        old += answer.version == 1
        connection.close()
    with world.traffic(paths) as counts:
        world.wait_following()
        time.sleep(0.5)
    for path in paths:
        assert node.get(path).version == 2, path
    return f"{old} of {len(paths)} first answers were old; {counts['responses']} responses judged"


def member_lost(world):
    """purges with wait = all: a node that has stopped by itself is no member, one that hangs is named, and both return"""
    left, hanging, node = world.nodes[2], world.nodes[1], world.nodes[0]
    for one in world.nodes:
        wait_for(f"{one.name} hears three nodes", lambda: one.fleet()["members"] == 3)
    left.terminate()
    fleet = node.purged_by_all(tag="nothing")
    assert (fleet["members"], fleet["applied"], fleet["lost"]) == (2, 2, []), fleet
    left.start()
    wait_for("the node that returns", lambda: node.fleet()["members"] == 3)
    world.wait_following()
    hanging.stop()
    begun = time.monotonic()
    fleet = node.purged_by_all(tag="nothing")
    ended = time.monotonic()
    assert (fleet["members"], fleet["applied"], fleet["lost"]) == (2, 2, [hanging.name]), fleet
    assert node.fleet()["lost"] == [hanging.name]
    code, page, error = node.overview("status")
    assert (code, page["lost"], len(page["nodes"])) == (3, [hanging.name], 2) and hanging.name in error, (code, page, error)
    again = time.monotonic()
    fleet = node.purged_by_all(tag="nothing")
    at_once = time.monotonic() - again
    assert (fleet["members"], fleet["lost"]) == (2, [hanging.name]), fleet
    hanging.resume()
    wait_for("the node that hung", lambda: node.fleet()["members"] == 3)
    fleet = node.purged_by_all(tag="nothing")
    assert (fleet["members"], fleet["applied"], fleet["lost"]) == (3, 3, []), fleet
    world.wait_following()
    return f"it is named after {ended - begun:.1f} s, and then after {at_once * 1e3:.0f} ms"


def node_outbox(node):
    """The purges in the outbox of a node that does not run."""
    lines = [json.loads(line) for line in (node.folder / "outbox.jsonl").read_text().splitlines()]
    live = {line["key"]: line["message"] for line in lines if "message" in line}
    return sum(message is not None for message in live.values())


def node_killed(world):
    """a node is killed, and starts with its disk tier after purges: none of them is served from its disk, the rest is"""
    node, other = world.nodes[2], world.nodes[0]
    same = [f"/same/{tag}/{number}" for tag in ("killed-url", "killed-prefix", "killed-tag") for number in range(3)]
    changing = [path.replace("/same/", "/v/") for path in same]
    witness = [f"/same/witness/{number}" for number in range(5)]
    world.warm(same + changing + witness, [node])
    node.wait_on_disk()
    world.wait_position(other.purged(tag="nothing"))
    time.sleep(0.5)  # The position is kept every 100 ms.
    node.kill()
    for path in same + changing:
        world.origin.bump(path)
    for path in same[:3] + changing[:3]:
        other.purged(url=url(path))
    other.purged(prefix=url("/same/killed-prefix/"))
    other.purged(prefix=url("/v/killed-prefix/"))
    last = other.purged(tag="tag-killed-tag")
    world.note_purge(same + changing)
    asked = [world.origin.count(path, status) for path in witness for status in (200, 304)]
    kept = node_outbox(node)
    node.start()
    # From the first answer on, in whatever state it is.
    for path in changing:
        answer = node.get(path)
        assert answer.version == 2, f"{path}: {answer}"
    world.wait_following([node])
    world.wait_position(last, [node], 1)
    for path in same:
        answer = node.get(path)
        assert answer.version == 2, f"{path}: {answer}"
    for path in witness:
        answer = node.get(path)
        assert answer.is_hit, f"{path}: {answer}"
    assert asked == [world.origin.count(path, status) for path in witness for status in (200, 304)], "the disk tier serves nothing"
    assert node.fleet()["missed"] == 0 == node.fleet()["rolled_back"], node.fleet()
    return f"{kept} purges were in its outbox"


def node_noted(node, text):
    """The purges in the outbox of which it notes that the log has them. The last line may be half written."""
    lines = (node.folder / "outbox.jsonl").read_text().split("\n")[:-1]
    lines = [json.loads(line) for line in lines]
    keys = {line["key"] for line in lines if text in json.dumps(line.get("message"))}
    return sum(line["key"] in keys and line.get("entry") is not None for line in lines)


def restarted(world):
    """a node is killed and starts again: the log has its purges, so it does not send them again"""
    node = world.nodes[1]
    for number in range(20):
        last = node.purged(tag=f"tag-restarted-{number}")
    outbox = node.fleet()["outbox"]
    # The note that the log has a purge is written after the answer.
    wait_for("the notes of the outbox", lambda: node_noted(node, "tag-restarted-") == 20)
    node.kill()
    node.start()
    world.wait_following([node])
    assert node.fleet()["outbox"] == outbox, node.fleet()
    world.wait_position(node.purged(tag="nothing"))
    bodies = [body for body in world.entries() if b"tag-restarted-" in body]
    assert len(bodies) == 20 and node.fleet()["position"] > last, f"{len(bodies)} of 20"


def publisher_killed(world):
    """a node is killed between a purge's arrival and its acknowledgement: its outbox publishes it after its restart"""
    publisher, others = world.nodes[0], world.nodes[1:]
    path = "/same/outbox/1"
    world.warm([path])
    before = publisher.fleet()["outbox"]
    version = world.origin.bump(path)
    for server in world.servers:
        server.stop()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        sent = pool.submit(publisher.purge, tag="tag-outbox")
        wait_for("the outbox", lambda: publisher.fleet()["outbox"] == before + 1)
        wait_for("its file", lambda: "tag-outbox" in (publisher.folder / "outbox.jsonl").read_text())
        publisher.kill()
        assert isinstance(sent.exception(20), (OSError, http.client.HTTPException)), "the purge was answered"
    # What the publisher has written to its socket is lost with the server: only the outbox has the purge.
    for server in world.servers:
        server.kill()
        server.start()
    world.wait_following(others)
    for node in others:
        node.purged(tag="nothing")
        answer = node.get(path)
        # Validated after the servers were away: its ETag is the same.
        assert answer.version < version, f"{node.name}: the purge has arrived already: {answer}"
    publisher.start()
    for node in world.nodes:
        wait_for(f"the purge at {node.name}", lambda: node.get(path).version == version, 20)
    world.wait_following()


def servers_stopped(world):
    """all servers are stopped for longer than max_lag: each hit is validated once per max_lag, or 504 without the origin"""
    paths, later = [f"/v/away/{number}" for number in range(3)], "/same/later/1"
    world.warm([*paths, later])
    for node in world.nodes:
        wait_for(f"{node.name} hears three nodes", lambda: node.fleet()["members"] == 3)
    for server in world.servers:
        server.stop()
    stopped = time.monotonic()
    # It waits for its answer while the rest is looked at.
    pool = concurrent.futures.ThreadPoolExecutor(1)
    sent = pool.submit(world.nodes[0].purge, tag="tag-later")
    for node in world.nodes:
        wait_for(f"{node.name} lags", lambda: node.fleet()["state"] == "lagging", LAG + 2)
        assert node.readiness() == (200, "ready\nfleet: lagging\n"), node.readiness()
        assert node.fleet()["members"] == 3, "the list of nodes stays"
    assert time.monotonic() - stopped < LAG + 1
    time.sleep(max(0, stopped + LAG + 0.1 - time.monotonic()))
    for turn in range(2):
        validated_at = time.monotonic()
        for node in world.nodes:
            for path in paths:
                answer = node.get(path)
                assert answer.is_validated, f"{node.name} {path}, turn {turn}: {answer}"
                assert answer.cache.endswith("; detail=purges-unknown"), answer
        # Not again within max_lag.
        asked = [world.origin.count(path, 304) for path in paths]
        while time.monotonic() < validated_at + LAG - 0.5:
            for node in world.nodes:
                for path in paths:
                    answer = node.get(path)
                    assert answer.is_hit, f"{node.name} {path}, turn {turn}: {answer}"
            time.sleep(0.1)
        assert asked == [world.origin.count(path, 304) for path in paths], "more validations"
        time.sleep(1)
    world.origin.down()
    for node in world.nodes:
        for path in paths:
            answer = node.get(path)
            assert answer.status == 504, f"{node.name} {path}: {answer}"
    status, told = sent.result(LAG + 10)
    assert status == 503 and "sent again" in told, f"{status} {told}"
    world.origin_returns()
    version = world.origin.bump(later)
    continued = time.monotonic()
    for server in world.servers:
        server.resume()
    world.wait_following()
    following = time.monotonic() - continued
    assert world.nodes[0].readiness() == (200, "ready\n")
    # The purge that was answered with 503 reaches all.
    for node in world.nodes:
        wait_for(f"the purge at {node.name}", lambda: node.get(later).version == version, 10)
        for path in paths:
            assert node.get(path).is_hit, f"{node.name} {path}"
    return f"following {following:.1f} s after"


def no_problem(world):
    """after servers were killed and stopped: a problem that is over is not told any more"""
    world.wait_following()
    told = {node.name: node.fleet()["problem"] for node in world.nodes}
    assert not any(told.values()), told


def leader_killed(world):
    """the leader of the log is killed while purges come: each is answered with 200, or 503 "sent again", and all are executed"""
    numbers = range(30)
    same = [f"/same/leader-{number}/1" for number in numbers]
    changing = [f"/v/leader-{number}/1" for number in numbers]
    world.warm(same + changing)
    leader_name = world.api("STREAM.INFO." + STREAM)["cluster"]["leader"]
    leader = next(server for server in world.servers if server.name == leader_name)
    answers = []

    def send(number):
        for path in (same[number], changing[number]):
            world.origin.bump(path)
        begun = time.monotonic()
        status, answer = world.nodes[number % 3].purge(tag=f"tag-leader-{number}")
        ended = time.monotonic()
        if status == 200:
            world.note_purge([changing[number]])
        answers.append((begun, ended, status, answer))

    with world.traffic(changing[:6]) as counts, concurrent.futures.ThreadPoolExecutor(len(numbers)) as pool:
        sent = []
        for number in numbers:
            if number == 3:
                killed = time.monotonic()
                leader.kill()
            sent.append(pool.submit(send, number))
            time.sleep(0.3)
        for one in sent:
            one.result(30)
        silent = max((ended for begun, ended, status, _ in answers if status == 200 and begun < killed + 5), default=killed) - killed
        leader.start()
        world.wait_following()
        for node in world.nodes:
            for path in same:
                wait_for(f"{path} at {node.name}", lambda: node.get(path).version == 2, 20)
    for begun, ended, status, answer in answers:
        assert status == 200 or status == 503 and "sent again" in answer, f"{status} {answer}"
    acknowledged = [(begun, ended, answer["fleet"]["position"]) for begun, ended, status, answer in answers if status == 200]
    assert acknowledged
    for _, ended, position in acknowledged:
        for begun, _, later in acknowledged:
            assert begun <= ended or later > position, f"position {later} after {position}"
    world.wait_position(max(position for *_, position in acknowledged))
    for node in world.nodes:
        for path in changing:
            assert node.get(path).version == 2, f"{node.name} {path}"
        assert node.fleet()["rolled_back"] == 0 == node.fleet()["missed"], node.fleet()
    return (
        f"{len(acknowledged)} of {len(answers)} answered with 200; the log was silent for about {silent:.1f} s; "
        f"{counts['responses']} responses judged"
    )
