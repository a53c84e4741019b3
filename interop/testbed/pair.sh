#!/usr/bin/env bash
# A testbed of two hosts and a router: packets take the delay that the links say, a file crosses it by TCP, and nothing is left of it:
# not after it was interrupted, and not after it was killed and `down` was typed.
. "$(dirname "$0")/../nodes.sh"

name=interop$$
cat >"$work/pair.toml" <<TOML
name = "$name"
routers = ["middle"]
[[link]]
between = ["client", "middle"]
rate = "100Mbps"
[[link]]
between = ["middle", "server"]
delay = "20ms"
TOML
left() { ip netns list | grep -c "^larder-$name-" || true; }
# What a host of the testbed needs a server for: Python's, as it is everywhere here.
inside() { "$LARDER" testbed run "$name" "$@"; }

"$LARDER" testbed up "$work/pair.toml" >"$work/up.log" 2>&1 &
pids[bed]=$!
for _ in $(seq 100); do grep -q "10.77.0.3" "$work/up.log" && break; sleep 0.1; done
cat "$work/up.log"
head -c 1000000 /dev/urandom >"$work/file"
inside server python3 -m http.server --directory "$work" 8000 >/dev/null 2>&1 &
for _ in $(seq 50); do inside server bash -c 'exec 3<>/dev/tcp/127.0.0.1/8000' 2>/dev/null && break; sleep 0.1; done
took=$(inside client curl -fs -o "$work/copy" -w '%{time_connect}' http://10.77.0.3:8000/file)
cmp "$work/file" "$work/copy"
# A connection takes one way there and one back: never less than 40 ms; how much more is the machine's.
awk "BEGIN { exit !($took >= 0.04) }" || fail "a connection over 20 ms each way took $took s"
kill -INT "${pids[bed]}"
wait "${pids[bed]}" || true # late links are said by its exit status
unset "pids[bed]"
grep -q "frames, late by" "$work/up.log" || fail "no report of lateness: $(cat "$work/up.log")"
(($(left) == 0)) || fail "namespaces are left after SIGINT"

"$LARDER" testbed up "$work/pair.toml" >"$work/up.log" 2>&1 &
pids[bed]=$!
for _ in $(seq 100); do grep -q "10.77.0.3" "$work/up.log" && break; sleep 0.1; done
inside client sleep 300 &
kill -KILL "${pids[bed]}"
wait "${pids[bed]}" || true
unset "pids[bed]"
(($(left) == 2)) || fail "$(left) namespaces after SIGKILL"
"$LARDER" testbed up "$work/pair.toml" && fail "built over what is left"
"$LARDER" testbed down "$name"
(($(left) == 0)) || fail "namespaces are left after down"
"$LARDER" testbed down "$name"
