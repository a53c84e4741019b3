#!/usr/bin/env bash
# advise.sh DIRECTORY: makes the page of `larder advise` for a generated log of nginx' format, and opens it in Chromium (advise.mjs), which
# writes its pictures into DIRECTORY. The node accepts the configuration that comes with it.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

log="$work/<img src=x onerror=alert(1)>.log"
"$LARDER" trace generate web --objects 3000 --requests 60000 --requests-per-second 5 --seed 3 --to text -o "$work/trace.txt" >/dev/null
awk '{ t = int($1); printf "192.0.2.%d - - [26/Nov/2026:%02d:%02d:%02d +0000] \"GET /files/%d HTTP/1.1\" 200 %d \"-\" \"-\"\n",
    $2 % 200, int(t / 3600), int(t / 60) % 60, t % 60, $2, 500 + $2 * 7919 % 90000 }' "$work/trace.txt" >"$log"
"$LARDER" advise "$log" --egress 0.05/GB --memory 3/GiB-month --html "$work/advise.html" --config "$work/advised.toml" >/dev/null
node "$here/advise.mjs" "$work/advise.html" "$1"
"$LARDER" run "$work/advised.toml" --print-effective-config | grep -F 'advised.toml' | grep -q 'policy'
