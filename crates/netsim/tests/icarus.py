#!/usr/bin/env python3
"""A network of caches with Icarus' semantics, for the comparison in `docs/guides/simulation.md`.

    crates/netsim/tests/icarus.py docs/scenarios/geant.txt lcd [--requests N] [--seed N]

Icarus (Saino, Psaras and Pavlou, SIMUTools 2014) has no packets. One request after another walks
the shortest path to its source. The first cache that has the content answers, and the content
leaves copies on its way back. Delays are sums of the links' delays. This program is written from
the descriptions of Icarus' strategies and shares no code with Larder. It keeps what Larder does
differently: ProbCache counts the cache that answered, and of equal centralities the cache nearest
to the consumer keeps the copy. Each node of the file has a consumer and an LRU cache of 50; three
sources are 34 ms behind pop-ny, pop-il and pop-ie; there are 10,000 contents of Zipf 0.8. As many
requests precede those that count. Prints the hit ratio and the mean delay in milliseconds as
JSON.
"""

import argparse
import bisect
import heapq
import itertools
import json
import random
from collections import OrderedDict, deque

CONTENTS, ALPHA, CACHED = 10_000, 0.8, 50
SOURCES = {"source-1": "pop-ny", "source-2": "pop-il", "source-3": "pop-ie"}
SOURCE_DELAY = 34.0
SCHEMES = ["lce", "lcd", "probcache-power", "probcache", "betweenness", "hash", "edge"]
PROBCACHE_WINDOW = 10


class Network:
    def __init__(self, file):
        """Reads the links of an annotated file, and adds the sources. All links have metric 1."""
        lines = (line.split() for line in open(file, encoding="utf-8"))
        links = [words for words in itertools.dropwhile(lambda words: words != ["link"], lines) if words and words[0] not in ("#", "link")]
        self.delay, self.neighbours = {}, {}
        for a, b, delay in [(words[0], words[1], float(words[4].removesuffix("ms"))) for words in links] + [
            (source, at, SOURCE_DELAY) for source, at in SOURCES.items()
        ]:
            self.delay[a, b] = self.delay[b, a] = delay
            self.neighbours.setdefault(a, []).append(b)
            self.neighbours.setdefault(b, []).append(a)
        self.caches = sorted(node for node in self.neighbours if node not in SOURCES)
        self.paths = {}

    def path(self, start, end):
        """Returns the shortest path; of equal ones the first by name."""
        if (start, end) not in self.paths:
            reached, seen = [(0, [start])], set()
            while reached:
                hops, path = heapq.heappop(reached)
                if path[-1] in seen:
                    continue
                seen.add(path[-1])
                self.paths.setdefault((start, path[-1]), path)
                for peer in self.neighbours[path[-1]]:
                    heapq.heappush(reached, (hops + 1, path + [peer]))
        return self.paths[start, end]

    def length(self, path):
        return sum(self.delay[link] for link in itertools.pairwise(path))

    def betweenness(self):
        """Brandes' algorithm (2001)."""
        found = dict.fromkeys(self.neighbours, 0.0)
        for start in self.neighbours:
            order, before, ways, far = [], {node: [] for node in found}, dict.fromkeys(found, 0), {start: 0}
            ways[start], queue = 1, deque([start])
            while queue:
                node = queue.popleft()
                order.append(node)
                for peer in self.neighbours[node]:
                    if peer not in far:
                        far[peer] = far[node] + 1
                        queue.append(peer)
                    if far[peer] == far[node] + 1:
                        ways[peer] += ways[node]
                        before[peer].append(node)
            share = dict.fromkeys(found, 0.0)
            for node in reversed(order):
                for earlier in before[node]:
                    share[earlier] += ways[earlier] / ways[node] * (1 + share[node])
                if node != start:
                    found[node] += share[node]
        return found


class Lru:
    def __init__(self):
        self.stored = OrderedDict()

    def has(self, content):
        if content in self.stored:
            self.stored.move_to_end(content)
            return True
        return False

    def put(self, content):
        self.stored[content] = None
        self.stored.move_to_end(content)
        if len(self.stored) > CACHED:
            self.stored.popitem(last=False)


def simulate(network, scheme, requests, seed):
    draw = random.Random(seed)
    cumulative = list(itertools.accumulate(rank**-ALPHA for rank in range(1, CONTENTS + 1)))
    caches = {node: Lru() for node in network.caches}
    centrality = network.betweenness()
    sources = sorted(SOURCES)
    hits, delay = 0, 0.0
    for number in range(2 * requests):
        consumer = draw.choice(network.caches)
        content = bisect.bisect_left(cumulative, (1 - draw.random()) * cumulative[-1])
        source = sources[content % len(sources)]
        if scheme == "hash":
            custodian = network.caches[content // len(sources) % len(network.caches)]
            is_hit, way = caches[custodian].has(content), network.path(consumer, custodian)
            if not is_hit:
                way = way + network.path(custodian, source)[1:]
                caches[custodian].put(content)
        else:
            way = network.path(consumer, source)
            asked = way[:1] if scheme == "edge" else way[:-1]
            server = next((place for place, node in enumerate(asked) if caches[node].has(content)), None)
            is_hit = server is not None
            if is_hit:
                way = way[: server + 1]
            for node in copies(scheme, way[::-1], caches, centrality, draw):
                caches[node].put(content)
        if number >= requests:
            hits += is_hit
            delay += 2 * network.length(way)
    return hits / requests, delay / requests


def copies(scheme, back, caches, centrality, draw):
    """The caches that keep a copy of what comes back this way, whose first node answered."""
    passed = back[1:]
    if scheme == "lce":
        return passed
    if scheme == "lcd":
        return passed[:1]
    if scheme == "edge":
        return passed[-1:]
    if scheme == "betweenness":
        return [max(reversed(passed), key=centrality.get)] if passed else []
    counted = sum(node in caches for node in back)
    kept = []
    for place, node in enumerate(passed, 1):
        room = sum(other in caches for other in back[place - 1 :])
        weight = place / counted
        chance = room / PROBCACHE_WINDOW * (weight**counted if scheme == "probcache-power" else weight)
        if draw.random() < chance:
            kept.append(node)
    return kept


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("topology")
    arguments.add_argument("scheme", choices=SCHEMES)
    arguments.add_argument("--requests", type=int, default=44_000)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    hit_ratio, delay = simulate(Network(given.topology), given.scheme, given.requests, given.seed)
    print(json.dumps({"hit_ratio": round(hit_ratio, 4), "delay_ms": round(delay, 2)}))


if __name__ == "__main__":
    main()
