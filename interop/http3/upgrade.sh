#!/usr/bin/env bash
# upgrade.sh PYTHON: an upgrade (SIGUSR2) while a response of HTTP/3 is on its way. The response is whole, and the new process
# serves HTTP/3 from the same port after that.
. "$(dirname "$0")/../nodes.sh"

here=$(dirname "$0")
read -r origin secure < <(free_ports 2)
python3 "$here/origin.py" "$origin" &
pids[origin]=$!
configure node <<<"$(tls_listener "$secure")"
sed -i "s|^origin = .*|origin = \"http://127.0.0.1:$origin\"|" "$work/node.toml"
start node
# The node may be there before its origin.
curl -fsS --retry 50 --retry-delay 1 --retry-connrefused -o /dev/null "http://127.0.0.1:$origin/page/first"
old=${pids[node]}
"$1" "$here/fetch.py" slow "$secure" >"$work/slow" 2>&1 &
slow=$!
sleep 1
kill -s USR2 "$old"
wait "$slow" || fail "the response on its way: $(cat "$work/slow")"
timeout 60 tail --pid="$old" -f /dev/null || fail "the old process does not end"
pids[node]=$(grep -o 'pid=[0-9]*' "$work/node.log" | head -n 1 | cut -d= -f2)
for ((i = 0; i < 100; i++)); do
    "$1" "$here/fetch.py" aioquic "$secure" >"$work/again" 2>&1 && break
    sleep 0.1
done
((i < 100)) || fail "the new process serves no HTTP/3: $(cat "$work/again")"
[ -d "/proc/${pids[node]}" ] || fail "there is no new process"
