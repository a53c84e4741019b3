#!/usr/bin/env python3
"""Runs the tutorials of docs/start: each command, in order, in a network and a file system of their own.

    interop/readme/tutorials.py [PAGE...]        LARDER is the program

- `sh` blocks are one script of bash, which ends at the first command that fails.
- A `toml FILE` block is written to FILE.
- The lines of a `text` block stand in the output of the `sh` block before it, in their order; `...` is any text.
- Blocks of another kind are not run.

The script runs in a folder with links to all that a clone has, so files that it writes are gone at the end. It runs as root of
namespaces of its own (unshare), so it may use the ports that the page shows.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START = ROOT / "docs/start"
LARDER = Path(os.environ["LARDER"]).resolve()
SECONDS = 240


def blocks(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page: kind and text."""
    return re.findall(r"^```([^\n]*)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def script(of: list[tuple[str, str]]) -> str:
    """A script of bash for the blocks of a page, with a line `=== NUMBER` before the output of each."""
    lines = ["set -euo pipefail"]
    for number, (kind, text) in enumerate(of):
        if kind == "sh":
            lines += [f"echo '=== {number}'", "set -x"]
            for line in text.splitlines():
                lines.append(line)
            lines.append("{ set +x; } 2>/dev/null")
        elif match := re.fullmatch(r"toml (\S+)", kind):
            lines.append(f"cat >{match[1]} <<'END OF FILE'\n{text}END OF FILE")
    return "\n".join(lines) + "\n"


def check(page: Path):
    of = blocks(page)
    assert any(kind == "sh" for kind, _ in of), f"{page.name} has no command"
    with tempfile.TemporaryDirectory(prefix="larder-tutorial.", dir="/var/tmp") as work:
        folder = Path(work) / "clone"
        folder.mkdir()
        for entry in ROOT.iterdir():
            if entry.name not in {"target", ".git"}:
                (folder / entry.name).symlink_to(entry)
        (Path(work) / "bin").mkdir()
        shutil.copy(LARDER, f"{work}/bin/larder")
        text = f"mount -t tmpfs none /run && mount -t tmpfs none /tmp && ip link set lo up\nexport PATH={work}/bin:$PATH\ncd {folder}\n{script(of)}"
        (Path(work) / "script").write_text(text)
        environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower() and name != "NDN_CLIENT_TRANSPORT"}
        done = subprocess.run(
            ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "bash", f"{work}/script"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
    outputs = dict(re.findall(r"^=== (\d+)\n(.*?)(?=^=== \d|\Z)", done.stdout, re.MULTILINE | re.DOTALL))
    assert done.returncode == 0, f"{page.name}: exit status {done.returncode}\n{done.stdout}"
    for number, (kind, expected) in enumerate(of):
        if kind != "text" or of[number - 1][0] != "sh":
            continue
        pattern = ".*".join(line_pattern(line) for line in expected.splitlines() if line.strip())
        # Without the commands themselves, which `set -x` prints.
        output = re.sub(r"^\++ .*\n", "", outputs[str(number - 1)], flags=re.MULTILINE)
        assert re.search(pattern, output, re.DOTALL), f"{page.name} shows\n{expected}\nand the output is\n{output}"
    print(f"{page.name}: {sum(kind == 'sh' for kind, _ in of)} blocks of commands")


def line_pattern(line: str) -> str:
    """A pattern for a line: any width of blanks, and any text for `...`."""
    parts = [r"\s+".join(re.escape(word) for word in part.split()) for part in line.split("...")]
    return "[^\n]*".join(parts)


for name in sys.argv[1:] or sorted(path.name for path in START.glob("*.md")):
    check(START / name)
