#!/usr/bin/env bash
# what_if.sh: sends a generated trace through a node, and compares the what-if panel of its console in Chromium with `larder replay` of
# the same requests (what_if.mjs), as `larder ctl capture` has recorded them: with the sizes that objects take in the cache. The cells of a
# panel share a sample and leave their errors together, so three panels are judged as one.

set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/nodes.sh"
requests=100000
"$LARDER" trace generate web --objects 30000 --exponent 0.9 --object-bytes 32768 --requests $requests --windows 0.02 --seed 7 \
    -o "$work/sent.oracleGeneral"

panels=3
# Errors are those of 95 % of the cells.
covered=0.8
# A node that has no time for some observations begins its estimates again, so another one has another chance. An idle node looks for a
# capture once a second.
done=0
for attempt in 1 2 3 4 5; do
    configure "node$attempt" <<<""
    sed -i 's|^cache = .*|cache = "64MiB"|; s|^policy = "lru"|policy = "agd"|' "$work/node$attempt.toml"
    start "node$attempt"
    captured=$work/captured$attempt.oracleGeneral
    "$LARDER" ctl capture --for 5m --json --admin "127.0.0.1:${ports[node$attempt.admin]}" -o "$captured" >"$work/capture.json" &
    pids[capture]=$!
    sleep 2
    # One connection, so that no request waits for the response to another one.
    "$LARDER" load "http://127.0.0.1:${ports[node$attempt.http]}/" --trace "$work/sent.oracleGeneral" --connections 1 --json >"$work/load.json"
    sleep 1
    kill -INT "${pids[capture]}"
    wait "${pids[capture]}"
    unset "pids[capture]"
    recorded=$(python3 -c 'import json, sys; page = json.load(open(sys.argv[1])); print(page["requests"], page["lost"])' "$work/capture.json")
    if [ "$recorded" = "$requests 0" ]; then
        node "$here/console/what_if.mjs" "http://127.0.0.1:${ports[node$attempt.admin]}/" "$captured" $requests "$work/cells"
        done=$((done + 1))
    fi
    stop "node$attempt"
    ((done < panels)) || break
done
((done == panels)) || fail "panels after captures without a loss: $done of $panels; the last recorded and lost: $recorded of $requests"
awk -v bar=$covered '{ within += $1; all += $2 } END { print within " of " all " hit ratios are within their errors of the replay"; exit within < bar * all }' \
    "$work/cells"
