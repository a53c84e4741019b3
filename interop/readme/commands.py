#!/usr/bin/env python3
"""What README.md and the pages of docs tell a reader to type exists.

README's two commands stand in it and are what `.ci/run` calls; every `larder ...` line of the code blocks of README and docs
names subcommands and options that --help knows; the configurations of docs are ones that the node takes; every argument of every
subcommand has a help text. tutorials.py runs the commands of docs/start.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LARDER = os.environ["LARDER"]
SUBCOMMANDS = {"run", "put", "get", "ping", "ping-server", "ctl", "replay", "curve", "predict", "trace", "reproduce", "policies"}


def main():
    typed = commands_in((ROOT / "README.md").read_text())
    for command in ["cargo run --release", "cargo test"]:
        assert command in typed, f"README.md does not show '{command}' on a line of its own in a code block"
    calls = [line.strip() for line in (ROOT / ".ci/run").read_text().splitlines()]
    assert "step cargo test" in calls, ".ci/run does not call 'cargo test' as README.md shows it"
    assert "step interop/run" in calls, ".ci/run does not call interop/run, where README's bare `larder` is started"

    texts = {name: larder(name, "--help") for name in listed(larder("--help")) - {"help"}}
    assert SUBCOMMANDS <= texts.keys(), f"larder --help does not list {sorted(SUBCOMMANDS - texts.keys())}"
    arguments = 0
    for name, text in texts.items():
        assert "Usage:" in text, f"larder {name} --help shows no usage"
        for argument, explanation in arguments_of(text):
            arguments += 1
            assert explanation, f"larder {name} --help says nothing of {argument}"
    assert arguments > len(texts), f"only {arguments} arguments found: has the layout of --help changed?"

    of_all = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        lines = [re.sub(r"^cargo run --release -- ", "larder ", line) for line in commands_in(page.read_text())]
        lines = [line for line in lines if re.match(r"larder( |$)", line) and "[OPTIONS]" not in line and not is_usage(line)]
        of_all[page.relative_to(ROOT)] = lines
        for line in lines:
            exists(str(page.relative_to(ROOT)), line, texts)
    lines = of_all[Path("README.md")]
    assert lines, "README.md shows no command"
    configurations = 0
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block in re.findall(r"^```toml\n(\[.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            configurations += 1
            wrong = problems(block)
            assert not wrong, f"{page.relative_to(ROOT)} shows a configuration that is refused: {wrong}\n{block}"
    assert configurations > 10, f"only {configurations} configurations found in docs"
    assert problems("[http]\ncahce = 1\n"), "no configuration is refused"
    assert re.match(r"larder \d+\.\d+\.\d+", larder("--version"))
    assert larder("fetsch", "/x", code=2) == ""
    everywhere = sum(map(len, of_all.values()))
    print(f"{len(texts)} subcommands, {arguments} arguments, {everywhere} lines of docs, and of README.md:", *lines, sep="\n")


def problems(configuration: str) -> list[str]:
    """What `larder run --check` says of it, but for files and folders that this machine has not, and occupied addresses."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(configuration)
        file.flush()
        done = subprocess.run([LARDER, "run", "--check", file.name], capture_output=True, text=True, timeout=60)
    not_here = ("No such file or directory", "it does not exist", "is in use")
    return [line for line in done.stderr.splitlines() if done.returncode and not any(words in line for words in not_here)]


def commands_in(markdown: str) -> list[str]:
    """The lines of fenced code blocks and indented ones, without prompts and comments."""
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", markdown, re.MULTILINE | re.DOTALL)
    blocks += re.findall(r"^    larder .*$", re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    lines = [re.sub(r"^\$ ", "", re.sub(r"(^|\s+)#.*", "", line)) for block in blocks for line in block.splitlines()]
    return [line.strip() for line in lines if line.strip()]


def larder(*arguments: str, code: int = 0) -> str:
    """What `larder` prints on standard output; it must end with `code`."""
    done = subprocess.run([LARDER, *arguments], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    assert done.returncode == code, f"larder {' '.join(arguments)}: exit status {done.returncode}: {done.stderr}"
    return done.stdout


def listed(text: str) -> set[str]:
    """The subcommands of a --help."""
    block = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
    assert block, f"no commands in:\n{text}"
    return set(re.findall(r"^  ([a-z-]+)", block[1], re.MULTILINE))


def arguments_of(text: str) -> list[tuple[str, str]]:
    """The arguments and options of a --help, each with its explanation: behind it, or on the further indented lines below."""
    found = []
    for line in text[text.index("Usage:") :].splitlines():
        if re.match(r" {2,6}[-<\[]", line):
            argument, _, explanation = line.strip().partition("  ")
            found.append([argument, explanation.strip()])
        elif found and re.match(r" {7,}\S", line):
            found[-1][1] += " " + line.strip()
    return [tuple(each) for each in found]


def is_usage(line: str) -> bool:
    """Whether a line is a usage, as docs/reference/command-line.md has them."""
    return re.search(r"<[A-Z]", line) is not None or re.search(r"\[[A-Z]", line) is not None


def exists(page: str, line: str, texts: dict[str, str]):
    """Whether the subcommands and the options of a `larder` line are known."""
    line = re.split(r" [|&>]| \|\|", line)[0]
    _, *words = line.split()
    name = words[0] if words and not words[0].startswith("-") else None
    assert name is None or name in texts, f"{page}: '{line}': there is no such subcommand"
    text = texts[name] if name else larder("--help")
    # `ctl route add`: a word that the command lists is a command below it.
    path = [name]
    for word in words[1:]:
        if "\nCommands:" not in text or word not in listed(text):
            break
        path.append(word)
        if " ".join(path) not in texts:
            texts[" ".join(path)] = larder(*path, "--help")
        text = texts[" ".join(path)]
    for option in (word.split("=")[0] for word in words if word.startswith("-") and word != "-"):
        assert re.search(rf"(^|[ ,]){re.escape(option)}([ ,=]|$)", text, re.MULTILINE), f"{page}: '{line}': no {option}"


main()
