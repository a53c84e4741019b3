"""metrics.py NODE ADMIN [--write]: compares docs/reference/metrics.md with the metrics of a running node, or writes the page.

Meaning and type of a metric are what the node says of it. The alerts are those of deploy/prometheus/alerts.yml that ask for it.
"""

import re
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/metrics.md"
SECONDS = 20

HEAD = """# Metrics

This page lists all metrics of a node, with their meanings and the alerts that use them.

`[admin] listen` serves them at `/metrics`, for Prometheus.
[monitoring.md](../guides/monitoring.md#prometheus-and-grafana) has the job, the alerts and the
dashboard. Some exist only where their part does: a disk tier, certificates, or
[Named Data Networking](https://named-data.net/) (NDN). The page is made of a running node:
`interop/readme/metrics.sh --write` writes it.
"""
SECTIONS = [
    ("HTTP", "larder_http_"),
    ("NDN", "larder_ndn_"),
    ("What-if analysis of the HTTP cache", "larder_whatif"),
    ("The process", ""),
]


def get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.read().decode(errors="replace")


def families(text: str) -> dict[str, dict]:
    """The metrics of an exposition: type, help and labels of each."""
    found = {}
    for line in text.splitlines():
        if described := re.match(r"# (HELP|TYPE) (\S+) (.*)", line):
            kind, name, rest = described.groups()
            found.setdefault(name, {"labels": []})[kind] = rest
        elif sample := re.match(r"([a-zA-Z_:]+)(?:\{(.*)\})? ", line):
            name, labels = sample.groups()
            name = next((n for n in (name, re.sub(r"_(bucket|sum|count|total|info)$", "", name)) if n in found), None)
            for label in re.findall(r'(\w+)="', labels or ""):
                if name and label != "le" and label not in found[name]["labels"]:
                    found[name]["labels"].append(label)
    return found


def alerts() -> dict[str, str]:
    """The expressions of the alerts, by their names."""
    text = (ROOT / "deploy/prometheus/alerts.yml").read_text()
    return {name: rest for name, rest in re.findall(r"- alert: (\w+)\n(.*?)(?=\n +- alert:|\Z)", text, re.DOTALL)}


def page(found: dict[str, dict]) -> str:
    text, left = HEAD, dict(found)
    rules = {name: rest.split("annotations:")[0] for name, rest in alerts().items()}
    for title, prefix in SECTIONS:
        rows = []
        for name in sorted(n for n in left if n.startswith(prefix)):
            family = left.pop(name)
            asked = [rule for rule, query in rules.items() if re.search(rf"\b{name}(_total|_bucket|_sum|_count)?\b", query)]
            meaning = family["HELP"].rstrip(".").replace("|", "\\|").replace("<", "\\<")
            labels = ", ".join(f"`{label}`" for label in family["labels"])
            rows.append(f"| `{name}` | {family['TYPE']} | {labels} | {meaning} | {', '.join(asked)} |")
        text += f"\n## {title}\n\n| metric | type | labels | meaning | alert |\n| --- | --- | --- | --- | --- |\n"
        text += "\n".join(rows) + "\n"
    return text


def main():
    node, admin, *rest = sys.argv[1:]
    for number in range(30):
        for path in (f"/1000/{number}?max-age=600", "/www/hello.txt", "/www/none", f"/pool/1000/{number}?max-age=600"):
            get(node + path)
    made, deadline = "", time.monotonic() + SECONDS
    # Some metrics appear a second after the first requests.
    while True:
        made = page(families(get(f"{admin}/metrics")))
        if rest == ["--write"] and time.monotonic() > deadline - SECONDS + 8:
            PAGE.write_text(made)
            return
        if PAGE.exists() and made == PAGE.read_text():
            return
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    old = set(PAGE.read_text().splitlines()) if PAGE.exists() else set()
    lines = made.splitlines()
    different = [f"+ {line}" for line in lines if line not in old] + [f"- {line}" for line in old - set(lines)]
    sys.exit("docs/reference/metrics.md is out of date; interop/readme/metrics.sh --write writes it:\n" + "\n".join(different))


main()
