#!/usr/bin/env bash
# Malformed packets over Unix, TCP and UDP are dropped and counted, and cost the sender's face nothing else.
. "$(dirname "$0")/../nodes.sh"

configure node
start node
python3 "$(dirname "$0")/hostile_packets.py" "$work/node.sock" "$(port node tcp)" "$(port node udp)" "$(port node admin)"
stop node
((stopped == 0)) || fail "exit status $stopped afterwards"
