#!/usr/bin/env python3
"""The hit ratios and the figure of README.md, by `larder replay` of a trace of the repository.

    interop/readme/hit_ratios.py            compares README.md and docs/figures/hit-ratio.svg with a replay
    interop/readme/hit_ratios.py --write    draws the figure again, and prints the ratios

LARDER is the program.
"""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACE = "crates/replay/tests/data/nasa_19950801.tsv.zst"
FIGURE = ROOT / "docs/figures/hit-ratio.svg"
SIZES = "1MiB,2MiB,4MiB,8MiB,16MiB,32MiB"
NAMES = {
    "agd(optimise=balanced)": "default",
    "agd": "`agd`",
    "gdsf": "GDSF",
    "adaptsize+lru": "AdaptSize",
    "s3fifo": "S3-FIFO",
    "lru": "LRU",
}


def main():
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder) / "hit-ratio.svg"
        command = [os.environ["LARDER"], "replay", TRACE, "--policy", ",".join(NAMES), "--size", SIZES, "--svg", str(drawn), "--json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        svg = drawn.read_text()
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    at = {(row["policy"], row["capacity"]): row for row in rows}
    if sys.argv[1:] == ["--write"]:
        FIGURE.write_text(svg)
        print("object hits:", *shown(at, "object_hit_ratio"), sep="\n")
        print("byte hits:", *shown(at, "byte_hit_ratio"), sep="\n")
        return
    figures = tomllib.loads((ROOT / "docs/results/measured.toml").read_text())["figure"]
    for work, key in [("object hits", "object_hit_ratio"), ("byte hits", "byte_hit_ratio")]:
        figure = next(figure for figure in figures if figure["work"].startswith(work))
        text = f"{figure['larder']}, {figure['others']}".replace("*", "")
        for expected in shown(at, key):
            assert expected in text, f"docs/results/measured.toml, {figure['work']}: a replay has {expected}"
    assert svg == FIGURE.read_text(), "docs/figures/hit-ratio.svg: interop/readme/hit_ratios.py --write draws it again"


def shown(at, key):
    """The ratios of each policy in 1 and in 8 MiB, as the pages show them."""
    for policy, name in NAMES.items():
        ratios = ", ".join(f"{at[policy, size << 20][key]:.3f}" for size in (1, 8))
        yield f"{ratios} ({name})" if policy.startswith("agd") else f"{name} {ratios}"


main()
