#!/usr/bin/env bash
# reports.sh DIRECTORY: makes two short reports of `larder reproduce`, and opens them in Chromium (browse.mjs), which writes its pictures
# into DIRECTORY. Whether the claims hold is the affair of check-quick.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$LARDER" reproduce clock --quick --only linear --out "$work/clock" >/dev/null || [ -s "$work/clock/report.html" ]
"$LARDER" reproduce adaptsize --quick --only production --out "$work/adaptsize" >/dev/null || [ -s "$work/adaptsize/report.html" ]
for paper in clock adaptsize; do
    node "$here/browse.mjs" "$work/$paper/report.html" "$1"
done
