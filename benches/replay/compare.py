"""Runs `larder replay` and libCacheSim's `cachesim` in turns over the same oracleGeneral traces, and compares what they need.

Requests a second are those of the trace by all the processor time of the process, user and system, reading included. Memory an object is the
peak resident set, less that of the same run with a cache of one object, by the objects that the cache holds. What was compared stands in a table at the end,
and below it each bar that is missed.
"""

import argparse
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

# Ours, theirs (eviction and further arguments), and how many times as fast ours has to be.
POLICIES = [
    ("fifo", ["fifo"], 2),
    ("lru", ["lru"], 2),
    ("lfu", ["lfu"], 2),
    ("arc", ["arc"], 2),
    ("s3fifo", ["s3fifo"], 2),
    ("sieve", ["sieve"], 2),
    ("2q", ["twoq"], 2),
    ("w-tinylfu", ["wtinylfu"], 2),
    ("lhd", ["lhd"], 2),
    ("gdsf", ["gdsf"], 5),
    ("lru-k", ["lru-k"], 5),
    ("adaptsize+lru", ["lru", "--admission=adaptsize"], 10),
    ("random", ["random"], 1),
    ("clock", ["clock"], 1),
    ("s4lru", ["slru", "--eviction-params=n-seg=4"], 1),
    ("lirs", ["lirs"], 1),
    ("car", ["CAR"], 1),
    ("hyperbolic", ["hyperbolic"], 1),
    # Ours alone: its bar is our S3-FIFO.
    ("agd", None, 0),
]


# The same algorithm on both sides, without chance: miss ratios have to agree to three digits.
SAME = {"fifo", "lru", "lfu", "arc", "s3fifo", "sieve", "2q", "gdsf", "clock"}
# Of them, those that are published for equal sizes, and are extended otherwise.
EXTENDED = {"arc"}

# Objects from which memory is compared: below, the buffers of either side's reader are most of what is measured.
WEIGHED_OBJECTS = 10**6

# Sizes that one pass over the trace takes together, as shares of the trace's own capacity, under this policy: less than a pass each.
PASSES = ("sieve", [1, 1 / 2, 1 / 4, 1 / 8])


def main():
    arguments = parse()
    os.makedirs(arguments.env, exist_ok=True)
    traces = [trace for trace in make_traces(arguments) if not arguments.trace or trace["name"] in arguments.trace]
    if not traces:
        print("none of the traces is there", file=sys.stderr)
        sys.exit(2)
    missed = []
    ratios = {trace["name"]: compare(arguments, trace, missed) for trace in traces}
    summarize(ratios)
    print("\n".join(["", *missed, f"{len(missed)} bars missed"] if missed else ["", "all bars met"]))
    sys.exit(1 if missed else 0)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--larder", required=True)
    parser.add_argument("--env", required=True, help="where cachesim and the traces are")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, help="runs of each, of which the median counts")
    parser.add_argument("--seconds", type=float, default=30, help="of processor time after which a policy gets no further round")
    parser.add_argument("--only", type=lambda text: re.split(r",(?![^(]*\))", text), help="policies, by our names")
    parser.add_argument("--trace", action="append", help="zipf1.0, zipf0.8 or twitter")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    # cachesim runs in a directory of its own, since it leaves files.
    arguments.env = os.path.abspath(arguments.env)
    return arguments


def make_traces(arguments):
    """The traces, made where they are missing. Capacities: a tenth of the catalogue; a real cache's few megabytes."""
    scale = 10 if arguments.quick else 1
    traces = []
    for exponent, objects in [("1.0", 1_000_000), ("0.8", 10_000_000)]:
        objects, requests = objects // scale, 20_000_000 // scale
        path = os.path.join(arguments.env, f"zipf{exponent}-{objects}-{requests}.oracleGeneral")
        if not os.path.exists(path):
            run([arguments.larder, "trace", "generate", "web", "--objects", objects, "--exponent", exponent,
                 "--object-bytes", 1, "--requests", requests, "--output", path])
        traces.append({"name": f"zipf{exponent}", "path": path, "requests": requests, "capacity": objects // 10, "unit": True})
    source = glob.glob(os.path.join(arguments.env, "libcachesim-*", "**", "twitter_cluster52_10m.csv.zst"), recursive=True)
    path = os.path.join(arguments.env, "twitter.oracleGeneral")
    if not os.path.exists(path) and source:
        run([arguments.larder, "trace", "convert", source[0], path])
    if os.path.exists(path):
        requests = 2_000_000 if arguments.quick else os.path.getsize(path) // 24
        traces.append({"name": "twitter", "path": path, "requests": requests, "capacity": 5 << 20, "unit": False})
    else:
        print("twitter: no trace in", arguments.env, file=sys.stderr)
    return traces


def compare(arguments, trace, missed):
    """Prints what was measured, adds the bars that it misses to `missed`, and returns (ratio, bar) of each comparison by its name."""
    print(f"\n{trace['name']}: {trace['requests']} requests, capacity {trace['capacity']}, up to {arguments.rounds} rounds; million requests "
          "a CPU-second, bytes an object")
    print(f"{'policy':16}{'larder':>8}{'theirs':>8}{'ratio':>7}{'bar':>5}  {'miss':>7}{'theirs':>8}  {'memory':>7}{'theirs':>8}")
    # One object: what is left is the program, and their mapped trace.
    ours_empty = larder(arguments, trace, "fifo", [1])["memory"]
    theirs_empty = cachesim(arguments, trace, ["fifo"], 1)["memory"]
    ratios = {}
    speeds = {}

    def miss(problem):
        missed.append(f"{trace['name']}: {problem}")

    def judge(name, ratio, bar, problem):
        ratios[name] = (ratio, bar)
        if ratio < bar:
            miss(f"{problem} {ratio:.2f}, bar {bar}")

    for spec, eviction, bar in POLICIES:
        if arguments.only and spec not in arguments.only:
            continue
        ours, theirs = [], []
        # What takes long is far from its bar, or so even that fewer rounds say it.
        while len(ours) < arguments.rounds and sum(run["seconds"] for run in ours + theirs) < arguments.seconds:
            ours.append(larder(arguments, trace, spec, [trace["capacity"]]))
            if eviction:
                try:
                    theirs.append(cachesim(arguments, trace, eviction, trace["capacity"]))
                except Killed as killed:
                    # Now and then its Random does, on a trace with sizes.
                    print(f"{spec:16} cachesim ended by signal {killed.args[0]}; its other runs count", file=sys.stderr)
        our = summary(ours, ours_empty, trace)
        speeds[spec] = our["speed"]
        if not theirs:
            print(f"{spec:16}{our['speed']:8.2f}{'':20}  {our['miss']:7.4f}{'':8}  {our['shown']:>7}")
            continue
        their = summary(theirs, theirs_empty, trace)
        ratio = our["speed"] / their["speed"]
        print(f"{spec:16}{our['speed']:8.2f}{their['speed']:8.2f}{ratio:7.2f}{bar:5}  {our['miss']:7.4f}{their['miss']:8.4f}"
              f"  {our['shown']:>7}{their['shown']:>8}", flush=True)
        judge(spec, ratio, bar, f"{spec}'s speed to theirs is")
        if trace["unit"] and trace["capacity"] >= WEIGHED_OBJECTS and our["memory"] > their["memory"] > 0:
            miss(f"{spec} takes {our['shown']} an object, theirs {their['shown']}")
        # Theirs is printed with four digits.
        if spec in SAME - (set() if trace["unit"] else EXTENDED) and abs(our["miss"] - their["miss"]) > 0.00055:
            miss(f"{spec} misses {our['miss']:.4f}, theirs {their['miss']:.4f}")
    if "agd" in speeds and "s3fifo" in speeds:
        judge("agd to s3fifo", speeds["agd"] / speeds["s3fifo"], 1, "agd's speed to our s3fifo's is")
    if not arguments.only or PASSES[0] in arguments.only:
        judge("one pass of 4", passes(arguments, trace), 1, f"{PASSES[0]} at {len(PASSES[1])} sizes, a pass each to one pass for all, is")
    return ratios


def passes(arguments, trace):
    """The processor time of a pass for each size, by that of one pass for all of them; all on one core, since two threads that wait for one memory take more
    processor time for the same work."""
    policy, shares = PASSES
    sizes = [int(trace["capacity"] * share) for share in shares]
    rounds = range(arguments.rounds)
    each = [sum(larder(arguments, trace, policy, [size], one_core=True)["seconds"] for size in sizes) for _ in rounds]
    together = [larder(arguments, trace, policy, sizes, one_core=True)["seconds"] for _ in rounds]
    return statistics.median(each) / statistics.median(together)


def summarize(ratios):
    """All ratios, a column a trace; a star where the bar is missed."""
    print(f"\nhow many times as fast\n{'':16}{'bar':>5}" + "".join(f"{name:>10}" for name in ratios))
    for name, bar in {name: bar for trace in ratios.values() for name, (_, bar) in trace.items()}.items():
        cells = [trace.get(name) for trace in ratios.values()]
        texts = [f"{cell[0]:.2f}{'*' if cell[0] < bar else ' '}" if cell else "" for cell in cells]
        print(f"{name:16}{bar:>5}" + "".join(f"{text:>10}" for text in texts))


def summary(runs, empty, trace):
    """Medians. Without sizes the cache holds as many objects as bytes; else the peak is shown as it is."""
    memory = statistics.median(run["memory"] for run in runs) - empty
    unit = trace["unit"]
    an_object = memory / trace["capacity"]
    weighed = f"{an_object:.0f} B" if trace["capacity"] >= WEIGHED_OBJECTS else ""
    return {
        "speed": statistics.median(run["requests"] / run["seconds"] / 1e6 for run in runs),
        "miss": statistics.median(run["miss"] for run in runs),
        "memory": an_object,
        "shown": weighed if unit else f"{memory / 2**20:.1f} MB",
    }


def warm(path):
    """Reads the file once: after a pause a virtual machine's first read of its page cache may take a second of processor time, whoever it is."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def larder(arguments, trace, spec, capacities, one_core=False):
    warm(trace["path"])
    limit = ["--limit", trace["requests"]] if arguments.quick else []
    output, usage = run([arguments.larder, "replay", trace["path"], "--policy", spec, "--size", ",".join(capacities), "--no-fill", "--json", *limit],
                        one_core=one_core)
    row = json.loads(output.splitlines()[0])
    return {**usage, "requests": row["requests"], "miss": 1 - row["object_hit_ratio"]}


def cachesim(arguments, trace, eviction, capacity):
    warm(trace["path"])
    with tempfile.TemporaryDirectory() as directory:
        output, usage = run([os.path.join(arguments.env, "cachesim"), trace["path"], "oracleGeneral", eviction[0], capacity,
                             "--ignore-obj-size", int(trace["unit"]), "--num-req", trace["requests"], "--report-interval", 10**8,
                             *eviction[1:]], cwd=directory)
    found = re.search(r"(\d+) req, miss ratio ([0-9.]+)", output)
    if not found:
        sys.exit(f"cachesim {eviction[0]} on {trace['path']} printed no miss ratio: {output[-500:]}")
    return {**usage, "requests": int(found[1]), "miss": float(found[2])}


class Killed(Exception):
    """A signal ended the program: which."""


def run(command, cwd=None, one_core=False):
    """The standard output of the command, its processor time in seconds and its peak memory in bytes."""
    pin = (lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})) if one_core else None
    command = [str(word) for word in command]
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=cwd, preexec_fn=pin)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if child.returncode < 0 and command[0].endswith("cachesim"):
        raise Killed(-child.returncode)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {child.returncode}: {text[-500:]}")
    return text, {"seconds": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss * 1024}


if __name__ == "__main__":
    main()
