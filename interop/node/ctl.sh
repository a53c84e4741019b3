#!/usr/bin/env bash
# larder ctl: one node gets a face, a route and a strategy to another, and what is served there is fetched through them.
. "$(dirname "$0")/../nodes.sh"

configure near fifo </dev/null
configure far fifo </dev/null
start near
start far
ctl() { NDN_CLIENT_TRANSPORT=$(uri near unix) "$LARDER" ctl "$@"; }
# field JSON EXPRESSION: a value out of it
field() { python3 -c 'import json, sys; j = json.loads(sys.argv[1]); print(eval(sys.argv[2]))' "$1" "$2"; }

ctl status | grep -q 'version .*larder-' || fail "no status"
ctl channel | grep -q "unix://$work/near.sock" || fail "the listeners are not listed"
made=$(ctl route add /far "$(uri far tcp)" --cost 5 --json)
id=$(field "$made" 'j["face"]')
[ "$(field "$(ctl face --json)" "[f['persistency'] for f in j if f['face'] == $id][0]")" = persistent ] || fail "the face is not listed"
ctl route | grep -Eq "^/far +$id +255 +5 +true +false" || { ctl route; fail "the route is not listed"; }
ctl fib | grep -Eq "^/far +$id +5" || fail "the next hop is not listed"

head -c 100000 /dev/urandom >"$work/file"
NDN_CLIENT_TRANSPORT=$(uri far unix) "$LARDER" put /far/file "$work/file" >"$work/put.log" 2>&1 &
pids[put]=$!
for ((i = 0; i < 50; i++)); do
    NDN_CLIENT_TRANSPORT=$(uri near unix) "$LARDER" get /far/file -o "$work/copy" 2>"$work/get.log" && break
    sleep 0.1
done
cmp "$work/file" "$work/copy" || { cat "$work/get.log"; fail "the file came back changed"; }

ctl strategy set /far multicast | grep -q '/localhost/nfd/strategy/multicast/v=5' || fail "the strategy is not set"
ctl strategy | grep -q '^/far .*multicast' || fail "the strategy is not listed"
ctl strategy unset /far
! ctl strategy | grep -q '^/far' || fail "the strategy is still set"
[ "$(field "$(ctl cs --json)" 'j["entries"]')" -gt 10 ] || fail "nothing was cached"
ctl cs list /far | grep -Eq '^/far/file.* 0$' || fail "what is cached is not listed"
[ "$(field "$(ctl cs config --policy lru --json)" '(j["policy"], j["entries"] > 10)')" = "('lru', True)" ] || fail "another policy lost the cache"
[ "$(field "$(ctl cs erase /far --json)" 'j["erased"]')" -gt 10 ] || fail "nothing was erased"
[ "$(field "$(ctl cs config --capacity 1MiB --admit off --json)" '(j["capacity_bytes"], j["admits"], j["entries"])')" = "(1048576, False, 0)" ] || fail "the store is not configured"
ctl route remove /far "$id"
ctl face destroy "$id"
! ctl face | grep -q "^$id " || fail "the face is still there"

# What goes wrong is one line.
said=$(ctl face create tcp://127.0.0.1:1 2>&1) && fail "a face to nobody"
grep -q '504' <<<"$said" && [ "$(wc -l <<<"$said")" = 1 ] || fail "$said"
said=$(ctl face destroy 99999 2>&1) && fail "no such face"
[ "$(wc -l <<<"$said")" = 1 ] || fail "$said"
said=$(ctl strategy set / no-such 2>&1) && fail "no such strategy"
grep -q 'best-route' <<<"$said" || fail "$said"
