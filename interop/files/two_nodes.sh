#!/usr/bin/env bash
# 100 MB from `larder put` on one node to `larder get` on another, over UDP and a static route; then again from the Content
# Store of the second, with the first node gone.
. "$(dirname "$0")/../nodes.sh"
. "$(dirname "$0")/put.sh"

configure far fifo 256MiB
start far
configure near fifo 256MiB <<TOML
[[ndn.route]]
prefix = "/interop"
to = "$(uri far udp)"
cost = 10
TOML
start near

head -c 100000000 /dev/urandom >"$work/sent"
NDN_CLIENT_TRANSPORT=$(uri far unix) put /interop/file "$work/sent"
NDN_CLIENT_TRANSPORT=$(uri near unix) fetch /interop/file "$work/first"

end_put
stop far
before=$(store_hits near)
NDN_CLIENT_TRANSPORT=$(uri near unix) fetch "$versioned" "$work/second"
hits=$(($(store_hits near) - before))
((hits >= 12500)) || fail "the second fetch had $hits hits in the Content Store, fewer than its segments"
echo "the near node's store served $hits packets of the second fetch, with the far node gone"
