#!/usr/bin/env bash
# larder ctl purge takes out what was stored; SIGHUP changes the origin and the token, and names what waits for an upgrade.
. "$(dirname "$0")/../nodes.sh"

configure node </dev/null
sed -i '/^\[admin\]/a token = "0123456789abcdef"' "$work/node.toml"
start node
url=http://127.0.0.1:$(port node http)
purge() { "$LARDER" ctl purge --config "$work/node.toml" "$@"; }
status() { curl -sS -o /dev/null -w '%header{cache-status}' "$url$1"; }

for path in /1KiB/a /1KiB/b; do
    status $path >/dev/null
    [[ $(status $path) == "larder; hit"* ]] || fail "$path is not stored"
done
[ "$(purge --url "$url/1KiB/a")" = "1 response purged" ] || fail "the purge by URL took something else"
[[ $(status /1KiB/a) == *"fwd="* && $(status /1KiB/b) == "larder; hit"* ]] || fail "the purge took the wrong one"
[ "$(purge --everything --json)" = '{"purged":2}' ] || fail "the purge of everything left something"
refusal() { env "$@" "$LARDER" ctl purge --everything --admin "127.0.0.1:$(port node admin)" 2>&1 || true; }
[[ $(refusal -u LARDER_TOKEN) == *LARDER_TOKEN* ]] || fail "no token is no error"

# Another origin, which is nobody: 502 tells that it is asked; a capacity and threads, which change at once; shards, which wait.
sed -i 's/^origin = .*/origin = "http:\/\/127.0.0.1:9"/; s/^cache = .*/cache = "32MiB"\nthreads = 3/; s/^token = .*/token = "fedcba9876543210"/; s/^content_store = .*/&\nshards = 2/' "$work/node.toml"
kill -HUP "${pids[node]}"
for ((i = 0; i < 100; i++)); do
    grep -q 'reloaded' "$work/node.log" && break
    sleep 0.05
done
grep -q 'needs_an_upgrade=\["ndn.shards"\]' "$work/node.log" || { cat "$work/node.log"; fail "the log does not name what waits"; }
[ "$(curl -sS -o /dev/null -w '%{http_code}' "$url/1KiB/c")" = 502 ] || fail "the origin is still the old one"
[[ $(refusal LARDER_TOKEN=0123456789abcdef) == *401* ]] || fail "the old token still opens"
purge --everything --soft >/dev/null || fail "the new token does not open"

echo 'no TOML' >"$work/node.toml"
kill -HUP "${pids[node]}"
for ((i = 0; i < 100; i++)); do
    grep -q 'not reloaded' "$work/node.log" && break
    sleep 0.05
done
grep 'not reloaded' "$work/node.log" | grep -q 'node.toml:1' || fail "a broken file is not named with its line"
