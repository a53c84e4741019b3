# Sourced by the checks: starts Larder nodes on ports and sockets of their own, and stops what it started.
#
#   configure NAME [POLICY [STORE]]   writes $work/NAME.toml; further TOML (routes, say) comes on standard input if given
#   start NAME                        runs it and waits until it answers; fails with its log where it does not
#   stop NAME [SIGNAL]                ends it; $stopped is its exit status
#   port NAME tcp|udp|websocket|http|admin, uri NAME unix|tcp|udp|ws
#
# $LARDER is the binary under test. Everything lives in $work, a directory in /tmp that is removed at the end.

set -euo pipefail
: "${LARDER:?the binary under test; interop/run sets it}"
work=$(mktemp -d /tmp/larder-interop.XXXXXX)
declare -A pids=() ports=()
trap clear_up EXIT
trap 'exit 143' TERM INT # so that EXIT's trap also runs when timeout(1) ends a check

configure() {
    local name=$1 policy=${2:-fifo} store=${3:-64MiB} extra=""
    [ -t 0 ] || extra=$(cat)
    read -r "ports[$name.tcp]" "ports[$name.udp]" "ports[$name.websocket]" "ports[$name.http]" "ports[$name.admin]" < <(free_ports 5)
    cat >"$work/$name.toml" <<TOML
[ndn]
unix = "$work/$name.sock"
tcp = "127.0.0.1:${ports[$name.tcp]}"
udp = "127.0.0.1:${ports[$name.udp]}"
websocket = "127.0.0.1:${ports[$name.websocket]}"
content_store = "$store"
policy = "$policy"

[http]
listen = "127.0.0.1:${ports[$name.http]}"
origin = "generated"
cache = "64MiB"
policy = "lru"

[admin]
listen = "127.0.0.1:${ports[$name.admin]}"

[log]
level = "info"
$extra
TOML
}

# tls_listener PORT: a listener for HTTPS on this port, as TOML, with a new certificate of localhost: $work/certificate.pem.
tls_listener() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
        -keyout "$work/key.pem" -out "$work/certificate.pem" 2>/dev/null
    cat <<TOML
[http.tls]
listen = "127.0.0.1:$1"
certificate = "$work/certificate.pem"
key = "$work/key.pem"
TOML
}

# free_ports COUNT: ports that nobody holds now for TCP nor UDP, on one line. They are drawn from below the range from which
# the kernel serves outgoing connections (32768 and up): one of those could take a port before the node does.
free_ports() {
    python3 - "$1" <<'PYTHON'
import random, socket, sys
ports = set()
while len(ports) < int(sys.argv[1]):
    port = random.randrange(20000, 32768)
    with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        try:
            tcp.bind(("127.0.0.1", port))
            udp.bind(("127.0.0.1", port))
            ports.add(port)
        except OSError:
            pass
print(*ports)
PYTHON
}

start() {
    local name=$1 i
    "$LARDER" run "$work/$name.toml" >>"$work/$name.log" 2>&1 </dev/null &
    pids[$name]=$!
    for ((i = 0; i < 100; i++)); do
        if curl -fs -o /dev/null "http://127.0.0.1:${ports[$name.admin]}/status"; then return 0; fi
        kill -0 "${pids[$name]}" 2>/dev/null || break
        sleep 0.05
    done
    echo "node $name did not come up; its log:"
    cat "$work/$name.log"
    return 1
}

stop() {
    local name=$1 signal=${2:-TERM} i
    kill -s "$signal" "${pids[$name]}"
    for ((i = 0; i < 200; i++)); do
        kill -0 "${pids[$name]}" 2>/dev/null || break
        sleep 0.05
    done
    if ((i == 200)); then
        echo "node $name still ran 10 s after SIG$signal"
        kill -KILL "${pids[$name]}"
    fi
    stopped=0
    wait "${pids[$name]}" || stopped=$?
    unset "pids[$name]"
}

port() { echo "${ports[$1.$2]}"; }

uri() {
    case $2 in
        unix) echo "unix://$work/$1.sock" ;;
        tcp | udp) echo "$2://127.0.0.1:${ports[$1.$2]}" ;;
        ws) echo "ws://127.0.0.1:${ports[$1.websocket]}/" ;;
    esac
}

fail() {
    echo "$*"
    exit 1
}

# Ends every process of this check (nodes, and what was put in $pids by hand) and removes its directory.
clear_up() {
    local status=$? pid
    for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do
        timeout 10 tail --pid="$pid" -f /dev/null || kill -KILL "$pid" 2>/dev/null || true
    done
    if ((status != 0)) && [ -n "${KEEP:-}" ]; then
        echo "kept: $work"
    else
        rm -rf "$work"
    fi
    exit "$status"
}
