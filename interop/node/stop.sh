#!/usr/bin/env bash
# SIGINT and SIGTERM end a node cleanly, with connections open: exit 0, its socket file removed, nothing in the log of a panic.
. "$(dirname "$0")/../nodes.sh"

for signal in INT TERM; do
    configure node
    start node
    curl -fs -o /dev/null "http://127.0.0.1:$(port node http)/1KiB/interop"
    [ -S "$work/node.sock" ] || fail "no socket at the configured path"
    # An open HTTP connection and an open face must not hold the node up: stop kills it after a while, and the status shows that.
    exec 3<>"/dev/tcp/127.0.0.1/$(port node http)" 4<>"/dev/tcp/127.0.0.1/$(port node tcp)"
    stop node "$signal"
    exec 3>&- 4>&-
    ((stopped == 0)) || fail "exit status $stopped after SIG$signal: $(cat "$work/node.log")"
    [ ! -e "$work/node.sock" ] || fail "the socket file outlived SIG$signal"
    ! grep -i panic "$work/node.log" || fail "it panicked"
done
