#!/usr/bin/env bash
# Bare `larder`, as the README's first command runs it: serves on the default ports within a second, and prints the line to
# copy for NDN clients; curl shows a miss, then a hit.
#
# It runs in a network and mount namespace of its own where that is allowed (as root it is), so that the default ports and
# /run/nfd/nfd.sock collide with nothing; elsewhere only if the ports are free.
if [ -z "${ISOLATED:-}" ]; then
    if unshare --net --mount true 2>/dev/null; then
        exec env ISOLATED=1 unshare --net --mount "$0"
    elif unshare --map-root-user --net --mount true 2>/dev/null; then
        exec env ISOLATED=1 unshare --map-root-user --net --mount "$0"
    fi
else
    mount -t tmpfs tmpfs /run && python3 -c '
import fcntl, socket, struct
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
fcntl.ioctl(socket.socket(), SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))'
fi
. "$(dirname "$0")/../nodes.sh"
unset NDN_CLIENT_TRANSPORT
if [ -z "${ISOLATED:-}" ] && curl -s -o /dev/null http://127.0.0.1:8081/; then
    fail "no namespaces here, and something already serves 127.0.0.1:8081: stop it first"
fi

cd "$work" # the default configuration needs nothing of the place where it is started
begun=${EPOCHREALTIME/./}
"$LARDER" >"$work/log" 2>&1 </dev/null &
pids[default]=$!
until curl -fs -o /dev/null http://127.0.0.1:8081/status; do
    kill -0 "${pids[default]}" 2>/dev/null || fail "it ended: $(cat "$work/log")"
    ((${EPOCHREALTIME/./} - begun < 5000000)) || fail "not up after 5 s: $(cat "$work/log")"
    sleep 0.02
done
took=$((${EPOCHREALTIME/./} - begun))
cat "$work/log"
((took < 1000000)) || fail "it took $took µs to serve, over a second"

# A 1 KiB object is admitted by AdaptSize's chance at nearly every first request; a few names make "nearly" certain.
hit=
for i in 1 2 3 4 5; do
    curl -sS -D "$work/first" -o /dev/null "http://127.0.0.1:8080/1KiB/$i"
    curl -sS -D "$work/second" -o /dev/null "http://127.0.0.1:8080/1KiB/$i"
    grep -qi '^cache-status: *larder; *fwd=' "$work/first" || fail "the first request is no miss: $(cat "$work/first")"
    if grep -qi '^cache-status: *larder; *hit' "$work/second" && grep -qi '^age:' "$work/second"; then hit=$i && break; fi
done
cat "$work/first" "$work/second"
[ -n "$hit" ] || fail "no second request was a hit with Age"

line=$(grep -oE 'NDN_CLIENT_TRANSPORT=[^ "]+' "$work/log" | head -1)
[ -n "$line" ] || fail "no NDN_CLIENT_TRANSPORT line to copy"
# Both with the printed line and without it (the client's own search order) the node must be found.
env "$line" "$LARDER" ping-server /interop/default >"$work/ping-server" 2>&1 </dev/null &
pids[ping]=$!
for i in $(seq 50); do
    if "$LARDER" ping -c 1 /interop/default >"$work/ping" 2>&1 </dev/null; then break; fi
    sleep 0.1
done
cat "$work/ping"
"$LARDER" ping -c 3 -i 100ms /interop/default </dev/null
stop default
((stopped == 0)) || fail "exit status $stopped after SIGTERM"
