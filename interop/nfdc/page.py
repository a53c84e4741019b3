#!/usr/bin/env python3
"""What docs/coming-from/nfd.md tells an operator of NFD to type works: its configuration is taken, and each `ctl ...` of its tables
runs against the node in NDN_CLIENT_TRANSPORT. Face 260 of the page is the one that its own `face create` makes."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

LARDER = os.environ["LARDER"]
page = (Path(__file__).resolve().parents[2] / "docs/coming-from/nfd.md").read_text()


def larder(*words: str) -> str:
    done = subprocess.run([LARDER, *words], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"larder {' '.join(words)}: exit status {done.returncode}: {done.stderr}"
    return done.stdout


blocks = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
assert blocks, "no configuration in the page"
for block in blocks:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(block)
        file.flush()
        larder("run", "--check", file.name)

commands = [code.split() for code in re.findall(r"`(ctl [^`]+)`", page)]
assert len(commands) > 15, f"only {len(commands)} commands found: has the page's form changed?"
create = next(words for words in commands if words[1:3] == ["face", "create"])
face = re.search(r"face (\d+)", larder(*create))[1]
destroy = [words for words in commands if words[1:3] == ["face", "destroy"]]
for words in [words for words in commands if words not in destroy and words != create] + destroy:
    larder(*(face if word == "260" else word for word in words))
print(f"{len(commands)} commands")
