#!/usr/bin/env bash
# http3.sh CLIENT COMMAND...: a node with HTTP/3 before an origin; CLIENT is "hostile", or runs COMMAND with the port.
. "$(dirname "$0")/../nodes.sh"

read -r origin secure < <(free_ports 2)
python3 "$(dirname "$0")/origin.py" "$origin" &
pids[origin]=$!
configure node <<<"$(tls_listener "$secure")"
sed -i "s|^origin = .*|origin = \"http://127.0.0.1:$origin\"|" "$work/node.toml"
start node
# The node may be there before its origin.
curl -fsS --retry 50 --retry-delay 1 --retry-connrefused -o /dev/null "http://127.0.0.1:$origin/page/first"
client=$1
shift
case $client in
    hostile) "$@" "$secure" "${pids[node]}" ;;
    *) "$@" "$secure" ;;
esac
curl -fsS "http://127.0.0.1:$(port node admin)/metrics" >"$work/metrics"
grep -q 'larder_http_request_seconds_count{.*protocol="HTTP/3.0"' "$work/metrics" || fail "no request of HTTP/3 is in the metrics"
