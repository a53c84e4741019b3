#!/usr/bin/env bash
# `larder reproduce adaptsize --testbed` that is interrupted, or killed: its servers end, and its directories in memory are removed.
. "$(dirname "$0")/../nodes.sh"

# Directories of sites that were made since, and processes that have one in their command line, and the origin, which has none.
before=$(ls -d /dev/shm/larder-testbed-* 2>/dev/null || true)
ours() { comm -13 <(echo "$before") <(ls -d /dev/shm/larder-testbed-* 2>/dev/null || true) | grep . || true; }
servers() { local site; for site in $(ours); do pgrep -f "$site" || true; done; }

# A shell has its background programs ignore SIGINT, so SIGTERM stands for Ctrl-C: neither is caught.
for signal in TERM KILL; do
    "$LARDER" reproduce adaptsize --testbed --quick --only testbed-throughput --out "$work/out" >"$work/log" 2>&1 &
    pids[reproduce]=$!
    # The four caches and the shell that watches: then it is at work.
    for _ in $(seq 300); do (($(servers | wc -l) >= 5)) && break; sleep 0.1; done
    (($(servers | wc -l) >= 5)) || fail "no servers after 30 s: $(cat "$work/log")"
    origin=$(pgrep -P "${pids[reproduce]}" -f " origin --listen ") || fail "no origin"
    started="$(servers) $origin"
    kill -"$signal" "${pids[reproduce]}"
    wait "${pids[reproduce]}" || true
    unset "pids[reproduce]"
    for _ in $(seq 100); do [ -z "$(ours)" ] && break; sleep 0.1; done
    [ -z "$(ours)" ] || fail "after SIG$signal there is left: $(ours)"
    # What has ended, and is waited for by nobody yet, has no command line any more.
    for pid in $started; do
        line=$(cat "/proc/$pid/cmdline" 2>/dev/null | tr "\0" " " || true)
        [ -z "$line" ] || fail "after SIG$signal there runs: $line"
    done
done
