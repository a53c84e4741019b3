"""Runs `larder replay` and libCacheSim's `cachesim` in turns over the same oracleGeneral traces, and compares what they need.

Requests a second are those of the trace by all the processor time of the process, user and system, reading included. Memory an object is the
peak resident set, less that of the same run with a cache of one object, by the objects that the cache holds.
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


def main():
    arguments = parse()
    os.makedirs(arguments.env, exist_ok=True)
    traces = [trace for trace in make_traces(arguments) if not arguments.trace or trace["name"] in arguments.trace]
    failures = 0
    for trace in traces:
        failures += compare(arguments, trace)
    print(f"{failures} bars missed" if failures else "all bars met")
    sys.exit(1 if failures else 0)


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


def compare(arguments, trace):
    print(f"\n{trace['name']}: {trace['requests']} requests, capacity {trace['capacity']}, up to {arguments.rounds} rounds; million requests "
          "a CPU-second, bytes an object")
    print(f"{'policy':16}{'larder':>8}{'theirs':>8}{'ratio':>7}{'bar':>5}  {'miss':>7}{'theirs':>8}  {'memory':>7}{'theirs':>8}")
    # One object: what is left is the program, and their mapped trace.
    ours_empty = larder(arguments, trace, "fifo", 1)["memory"]
    theirs_empty = cachesim(arguments, trace, ["fifo"], 1)["memory"]
    failures = 0
    speeds = {}
    for spec, eviction, bar in POLICIES:
        if arguments.only and spec not in arguments.only:
            continue
        ours, theirs = [], []
        # What takes long is far from its bar, or so even that fewer rounds say it.
        while len(ours) < arguments.rounds and sum(run["seconds"] for run in ours + theirs) < arguments.seconds:
            ours.append(larder(arguments, trace, spec, trace["capacity"]))
            if eviction:
                theirs.append(cachesim(arguments, trace, eviction, trace["capacity"]))
        objects = trace["capacity"] if trace["unit"] else None
        our = summary(ours, ours_empty, objects)
        speeds[spec] = our["speed"]
        if not eviction:
            print(f"{spec:16}{our['speed']:8.2f}{'':20}  {our['miss']:7.4f}{'':8}  {our['memory']}")
            continue
        their = summary(theirs, theirs_empty, objects)
        ratio = our["speed"] / their["speed"]
        slow = ratio < bar
        # Below a million objects the buffers of either side's reader are most of what is measured.
        fat = trace["capacity"] >= 10**6 and objects and our["bytes"] > their["bytes"] > 0
        failures += slow + bool(fat)
        notes = " SLOW" * slow + " FAT" * bool(fat)
        print(f"{spec:16}{our['speed']:8.2f}{their['speed']:8.2f}{ratio:7.2f}{bar:5}  {our['miss']:7.4f}{their['miss']:8.4f}"
              f"  {our['memory']:>7}{their['memory']:>8}{notes}", flush=True)
    if "agd" in speeds and "s3fifo" in speeds and speeds["agd"] < speeds["s3fifo"]:
        failures += 1
        print(f"agd is slower than s3fifo: {speeds['agd'] / speeds['s3fifo']:.2f} of its speed SLOW")
    return failures


def summary(runs, empty, objects):
    """Medians. Without sizes the cache holds as many objects as bytes; else the peak is shown as it is."""
    memory = statistics.median(run["memory"] for run in runs) - empty
    return {
        "speed": statistics.median(run["requests"] / run["seconds"] / 1e6 for run in runs),
        "miss": statistics.median(run["miss"] for run in runs),
        "bytes": memory / objects if objects else None,
        "memory": f"{memory / objects:.0f} B" if objects else f"{memory / 2**20:.1f} MB",
    }


def larder(arguments, trace, spec, capacity):
    limit = [] if not arguments.quick else ["--limit", trace["requests"]]
    output, usage = run([arguments.larder, "replay", trace["path"], "--policy", spec, "--size", capacity, "--json", *limit])
    row = json.loads(output)
    return {**usage, "requests": row["requests"], "miss": 1 - row["object_hit_ratio"]}


def cachesim(arguments, trace, eviction, capacity):
    with tempfile.TemporaryDirectory() as directory:
        output, usage = run([os.path.join(arguments.env, "cachesim"), trace["path"], "oracleGeneral", eviction[0], capacity,
                             "--ignore-obj-size", int(trace["unit"]), "--num-req", trace["requests"], "--report-interval", 10**8,
                             *eviction[1:]], cwd=directory)
    found = re.search(r"(\d+) req, miss ratio ([0-9.]+)", output)
    if not found:
        sys.exit(f"cachesim {eviction[0]} on {trace['path']} printed no miss ratio: {output[-500:]}")
    return {**usage, "requests": int(found[1]), "miss": float(found[2])}


def run(command, cwd=None):
    """The standard output of the command, its processor time in seconds and its peak memory in bytes."""
    command = [str(word) for word in command]
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=cwd)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {child.returncode}: {text[-500:]}")
    return text, {"seconds": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss * 1024}


if __name__ == "__main__":
    main()
