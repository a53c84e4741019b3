#!/usr/bin/env python3
"""The pages of nginx, Varnish, Caddy and Squid in docs/coming-from show what the comparisons run: each configuration, letter by letter, and each
difference that they allow. Every key of Larder in their tables exists in `larder run --print-config`, or in docs/guides/rules.md."""

import os
import re
import subprocess
from pathlib import Path

import compare

ROOT = compare.HERE.parents[1]
SITES = {"nginx": ["wordpress", "media", "api", "files"], "varnish": ["wordpress", "media", "api"], "caddy": ["application"], "squid": ["wordpress", "media"]}
FILES = {"nginx": "nginx.conf", "varnish": "varnish.vcl", "caddy": "Caddyfile", "squid": "squid.conf"}

shown = subprocess.run([os.environ["LARDER"], "run", "--print-config"], capture_output=True, text=True, check=True, timeout=20).stdout
keys = set(re.findall(r"\b([a-z][a-z_]+) = ", shown)) | set(re.findall(r"`([a-z][a-z_]+)`", (ROOT / "docs/guides/rules.md").read_text()))
tables = set(re.findall(r"\[+[a-z_.]+\]+", shown))
words = lambda text: " ".join(text.split()).casefold()
for original, name in FILES.items():
    page = (ROOT / f"docs/coming-from/{original}.md").read_text()
    blocks = re.findall(r"^```\w+\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for site in SITES[original]:
        for file in (name, "larder.toml"):
            assert (compare.HERE / site / file).read_text() in blocks, f"the page of {original} does not show {site}/{file} as it is"
        for _, reason in compare.ALLOWED[original] + compare.load(site).ALLOWED[original]:
            assert words(reason) in words(page), f"the page of {original} lacks an allowed difference of {site}: {reason}"
    rows = [line.split(" | ")[-1] for line in page.splitlines() if line.startswith("| ")]
    spans = [span for row in rows for span in re.findall(r"`([^`]+)`", row)]
    named = [(span, key) for span in spans for key in re.findall(r"(?:^|[{\]] ?|, )([a-z][a-z_]+) = ", span)]
    assert len(named) > 30, f"only {len(named)} keys found in the tables of {original}: has their form changed?"
    # Fields in `set = { X-Frame-Options = ... }` begin with a capital.
    for span, key in named:
        assert key in keys, f"the page of {original} names a key that does not exist: {span}"
    for table in {table for span in spans for table in re.findall(r"\[+(?:http|admin|log|process)[a-z_.]*\]+", span)}:
        assert table in tables, f"the page of {original} names a table that does not exist: {table}"
    print(f"{original}: {len(named)} keys")
