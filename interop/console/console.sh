#!/usr/bin/env bash
# console.sh DIRECTORY: starts a node in front of an origin with hostile names, puts load on it, and opens its console in Chromium
# (console.mjs), which writes pictures into DIRECTORY.

set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/nodes.sh"
# Prefixes from names of clients; a small cache, so that there are evictions.
read -r origin_port < <(free_ports 1)
python3 "$here/console/origin.py" "$origin_port" &
pids[origin]=$!
configure console agd <<TOML
[[ndn.strategy]]
prefix = "/video"
strategy = "asf"
[[http.rules]]
path = "/kind/*"
response_headers = { set = { X-Note = "<img src=x onerror=alert('rule')>" } }
[[http.rules]]
path = "/passed/*"
pass = true
response_headers = { set = { X-Note = "<script>alert('passed')</script>" } }
TOML
sed -i -e "s|^origin = .*|origin = \"http://127.0.0.1:$origin_port\"|; s|^cache = .*|cache = \"8MiB\"|; s|^policy = \"lru\"|policy = \"agd\"|" \
    -e '/^\[admin\]/a token = "0123456789abcdef"' -e '/^\[ndn\]/a count_by = 2' "$work/console.toml"
start console
node "$here/console/console.mjs" "http://127.0.0.1:${ports[console.admin]}/" \
    "http://127.0.0.1:${ports[console.http]}" 0123456789abcdef "$1" "$(uri console unix)"
stop console
