#!/usr/bin/env bash
# 100 MB from `larder put` to `larder get` through one node over its Unix socket; then again from the Content Store alone.
#
# The node runs `fifo` over a store larger than the file: what passed once is stored. (Under
# `filter(theta=2)+fifo` the second fetch admits and the third would be served.)
. "$(dirname "$0")/../nodes.sh"
. "$(dirname "$0")/put.sh"

configure node fifo 256MiB
start node
NDN_CLIENT_TRANSPORT=$(uri node unix)
export NDN_CLIENT_TRANSPORT

head -c 100000000 /dev/urandom >"$work/sent"
put /interop/file "$work/sent"
fetch /interop/file "$work/first"

before=$(store_hits node)
fetch /interop/file "$work/second"
hits=$(($(store_hits node) - before))
# 100 MB are 12,500 segments of 8000 bytes.
((hits >= 12500)) || fail "the second fetch had $hits hits in the Content Store, fewer than its segments"

end_put
fetch "$versioned" "$work/third"
echo "the store served $hits packets of the second fetch, and all of the third with the producer gone"
