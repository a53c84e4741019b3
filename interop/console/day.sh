#!/usr/bin/env bash
# day.sh: opens the console of a node in Chromium, and sends its page the readings of a day (day.mjs).

set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/nodes.sh"
configure day agd <<<""
start day
for page in 1 2 3; do curl -fs -o /dev/null "http://127.0.0.1:${ports[day.http]}/1KiB/$page"; done
node "$here/console/day.mjs" "http://127.0.0.1:${ports[day.admin]}/"
stop day
