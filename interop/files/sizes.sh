#!/usr/bin/env bash
# Files of awkward sizes come back as they were: none, one byte, exactly one segment, one byte over. A name that nobody serves
# is an error that says the name, and leaves no file.
. "$(dirname "$0")/../nodes.sh"
. "$(dirname "$0")/put.sh"

configure node
start node
NDN_CLIENT_TRANSPORT=$(uri node unix)
export NDN_CLIENT_TRANSPORT

for size in 0 1 7999 8000 8001 16000 100000; do
    head -c "$size" /dev/urandom >"$work/sent"
    put "/interop/size/$size" "$work/sent"
    fetch "/interop/size/$size" "$work/got"
    [ "$(stat -c %s "$work/got")" = "$size" ] || fail "$size bytes became $(stat -c %s "$work/got")"
    end_put
    ((stopped == 0 || stopped == 130)) || fail "larder put ended with $stopped after SIGINT"
done

status=0
"$LARDER" get /interop/absent -o "$work/absent" >"$work/absent.log" 2>&1 </dev/null || status=$?
cat "$work/absent.log"
((status == 1)) || fail "fetching an absent name ended with $status, not 1"
grep -q /interop/absent "$work/absent.log" || fail "the error does not say the name"
[ -z "$(find "$work" -name 'absent*' ! -name absent.log)" ] || fail "it left a file behind"
