#!/usr/bin/env bash
# After SIGKILL the socket file stays behind; the next start takes its place and serves on it.
. "$(dirname "$0")/../nodes.sh"

configure node
start node
stop node KILL
((stopped == 137)) || fail "exit status $stopped after SIGKILL"
[ -S "$work/node.sock" ] || fail "expected the socket file to be left behind: this check shows nothing without it"
start node
# Nobody serves this name: a Nack shows that the node answers on its socket.
NDN_CLIENT_TRANSPORT=$(uri node unix) "$LARDER" ping -c 1 /interop/nobody >"$work/ping.log" 2>&1 </dev/null || true
cat "$work/ping.log"
grep -q '^nack from .*NoRoute' "$work/ping.log" || fail "the restarted node does not serve its socket"
