#!/usr/bin/env python3
"""The effect of losses on packets in fragments, without a network: the source of the band of the
claim `loss-fragments-160-1`.

    crates/netsim/tests/lossy_fragments.py [--seconds N] [--runs N] [--frames N] [--loss P]
        [--frequency F]

A content climbs three links. It passes a link if all its frames do (0.99 to the 109th: one in
three), and each node that it reaches keeps it. An Interest passes a link as one frame. A consumer
sends F Interests per second: the first timed-out content if there is one, else the next content
of a Zipf–Mandelbrot catalogue of 2000 (q = s = 0.7). Its timeouts are those of ndnSIM's
consumers: mean plus four deviations, doubled by each timeout up to 64 times, until an answer to
an Interest that was sent once. Links are as fast as the dumbbell's, queues are empty, and caches
admit everything. Prints Data per Interest over runs of two consumers: mean, standard deviation,
least, most.
"""

import argparse
import heapq
import random
import statistics

CONTENTS, Q, S = 2000, 0.7, 0.7
HOPS, HOP_SECONDS = 3, 0.010 + 0.010 + 0.032
SCAN, FIRST_RTT, LEAST_RTO, MOST_RTO, MOST_BACKOFF = 0.05, 1.0, 0.2, 200.0, 64


class TimeOut:
    """ndnSIM's estimate."""

    def __init__(self):
        self.mean, self.deviation, self.backoff, self.is_new = FIRST_RTT, 0.0, 1, True

    def seconds(self):
        return min(self.backoff * max(self.mean + 4 * self.deviation, LEAST_RTO), MOST_RTO)

    def sample(self, rtt):
        error = rtt - self.mean
        self.mean, self.deviation = (
            (rtt, rtt / 2) if self.is_new else (self.mean + error / 8, self.deviation + (abs(error) - self.deviation) / 4)
        )
        self.backoff, self.is_new = 1, False


def consumer(args, chance):
    """Returns Data per Interest of one consumer."""
    passes = (1 - args.loss) ** args.frames
    weights = [1 / (rank + Q) ** S for rank in range(1, CONTENTS + 1)]
    fresh = iter(chance.choices(range(CONTENTS), weights, k=int(args.seconds * args.frequency) + 1))
    time_out, came, first, sends, watched = TimeOut(), {}, {}, {}, {}
    watch, again, arrivals = [], set(), []
    asked, data, send_at, scan_at = 0, 0, 0.0, SCAN
    while True:
        now = min(send_at, scan_at, arrivals[0][0] if arrivals else scan_at)
        if now > args.seconds:
            return data / asked
        if arrivals and arrivals[0][0] == now:
            content = heapq.heappop(arrivals)[1]
            came[content] = HOPS
            again.discard(content)
            if content in first:
                if sends.pop(content) == 1:
                    time_out.sample(now - first[content])
                del first[content], watched[content]
                data += 1
        elif scan_at == now:
            scan_at += SCAN
            while watch:
                since, content = watch[0]
                if watched.get(content) == since:
                    if since + time_out.seconds() > now:
                        break
                    watched[content] = None
                    again.add(content)
                    time_out.backoff = min(2 * time_out.backoff, MOST_BACKOFF)
                watch.pop(0)
        else:
            send_at += 1 / args.frequency
            asked += 1
            content = min(again) if again else next(fresh)
            again.discard(content)
            first.setdefault(content, now)
            sends[content] = sends.get(content, 0) + 1
            if watched.get(content) is None:
                watched[content] = now
                watch.append((now, content))
            hops = HOPS - came.get(content, 0)
            if chance.random() < (1 - args.loss) ** hops:
                far = next((link for link in range(hops) if chance.random() >= passes), hops)
                if far == hops:
                    heapq.heappush(arrivals, (now + hops * HOP_SECONDS, content))
                else:
                    came[content] = HOPS - hops + far


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--frames", type=int, default=109)
    parser.add_argument("--loss", type=float, default=0.01)
    parser.add_argument("--frequency", type=float, default=28.125)
    args = parser.parse_args()
    chance = random.Random(1)
    runs = [(consumer(args, chance) + consumer(args, chance)) / 2 for _ in range(args.runs)]
    print(" ".join(f"{figure:.3f}" for figure in [statistics.mean(runs), statistics.stdev(runs), min(runs), max(runs)]))


if __name__ == "__main__":
    main()
