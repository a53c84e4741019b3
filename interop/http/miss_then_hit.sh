#!/usr/bin/env bash
# curl asks twice: a miss that is stored, then a hit with Age; HEAD and a conditional request are answered from the store.
. "$(dirname "$0")/../nodes.sh"

configure node
start node
url=http://127.0.0.1:$(port node http)/64KiB/interop

curl -sS -D "$work/first.headers" -o "$work/first" "$url"
sleep 1.1 # so that the age is not zero
curl -sS -D "$work/second.headers" -o "$work/second" "$url"
cat "$work"/*.headers
[ "$(stat -c %s "$work/first")" = 65536 ] || fail "64KiB came with $(stat -c %s "$work/first") bytes"
cmp "$work/first" "$work/second" || fail "the hit differs from the miss"
grep -qi '^cache-status: *larder; *fwd=\(uri-\)\?miss.*stored' "$work/first.headers" || fail "the first is no stored miss"
grep -qi '^cache-status: *larder; *hit' "$work/second.headers" || fail "the second is no hit"
age=$(tr -d '\r' <"$work/second.headers" | awk 'tolower($1) == "age:" { print $2 }')
((age >= 1)) || fail "Age of the hit is '$age'"

curl -sS -I "$url" | tee "$work/head.headers"
grep -qi '^cache-status: *larder; *hit' "$work/head.headers" || fail "HEAD is not answered from the stored GET"
etag=$(tr -d '\r' <"$work/second.headers" | awk 'tolower($1) == "etag:" { print $2 }')
code=$(curl -sS -o /dev/null -w '%{http_code}' -H "If-None-Match: $etag" "$url")
[ "$code" = 304 ] || fail "If-None-Match with the stored ETag is answered $code, not 304"
