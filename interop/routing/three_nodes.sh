#!/usr/bin/env bash
# three_nodes.sh ndnd|stand-in: nodes a, b and c in a line, each in a network namespace with a routing daemon beside it. An application
# registers a prefix at a. Within 5 s it is reachable from c; when it ends, c has no route to it any more. The same again after a's
# daemon has been killed and started again.
#
# ndnd: `ndnd dv`. stand-in: stand_in.py, which floods prefixes and is the same to its node.
. "$(dirname "$0")/../nodes.sh"
here=$(cd "$(dirname "$0")" && pwd)
daemon=$1
nodes=(a b c)
declare -A address=([a]="10.91.1.1" [b]="10.91.1.2 10.91.2.1" [c]="10.91.2.2")
declare -A neighbours=([a]="10.91.1.2" [b]="10.91.1.1 10.91.2.2" [c]="10.91.2.1")

space() { echo "larder-routing-$$-$1"; }
inside() { ip netns exec "$(space "$1")" "${@:2}"; }
at() { NDN_CLIENT_TRANSPORT=unix://$work/$1.sock inside "$1" "${@:2}"; }

# run_at KEY NODE COMMAND...: in the background. Its process is ${pids[KEY]}, its output $work/KEY.log.
run_at() {
    NDN_CLIENT_TRANSPORT=unix://$work/$2.sock ip netns exec "$(space "$2")" "${@:3}" >>"$work/$1.log" 2>&1 </dev/null &
    pids[$1]=$!
}

# end KEY: as a crash does.
end() {
    kill -KILL "${pids[$1]}" 2>/dev/null || true
    wait "${pids[$1]}" 2>/dev/null || true
    unset "pids[$1]"
}

take_down() {
    local status=$? key
    # All is taken down, also if nobody reads the output any more.
    set +e
    ((status == 0)) || tail -n 15 "$work"/*.log
    for key in "${!pids[@]}"; do end "$key"; done
    for key in "${nodes[@]}"; do ip netns delete "$(space "$key")" 2>/dev/null; done
    (exit "$status")
    clear_up
}
trap take_down EXIT

connect() {
    local one=$1 other=$2 one_address=$3 other_address=$4
    ip link add "to-$other" netns "$(space "$one")" type veth peer name "to-$one" netns "$(space "$other")"
    inside "$one" ip address add "$one_address/30" dev "to-$other"
    inside "$other" ip address add "$other_address/30" dev "to-$one"
    inside "$one" ip link set "to-$other" up
    inside "$other" ip link set "to-$one" up
}

start_daemon() {
    local node=$1
    case $daemon in
        ndnd)
            {
                echo "dv:"
                echo "  network: /routed"
                echo "  router: /routed/$node"
                echo "  keychain: insecure"
                echo "  prefix_insertion_schema: insecure"
                echo "  prefix_insertion_keychain: insecure"
                echo "  neighbors:"
                local neighbour
                for neighbour in ${neighbours[$node]}; do echo "    - uri: udp4://$neighbour:6363"; done
            } >"$work/$node.yml"
            run_at "$node-daemon" "$node" "$NDND" dv run "$work/$node.yml"
            ;;
        stand-in) run_at "$node-daemon" "$node" "$PYTHON" "$here/stand_in.py" "$LARDER" ${neighbours[$node]} ;;
    esac
}

reachable() { at c "$LARDER" ping -c 1 --lifetime 500ms "$1" >/dev/null 2>&1; }
known() { at c "$LARDER" ctl route list | grep -qF "$1 "; }

# wait_for SECONDS WHAT COMMAND...: until COMMAND says yes.
wait_for() {
    local seconds=$1 what=$2 begun=$EPOCHREALTIME
    shift 2
    until "$@"; do
        awk "BEGIN { exit !($EPOCHREALTIME - $begun < $seconds) }" || fail "$what: not within $seconds s"
        sleep 0.1
    done
    awk "BEGIN { printf \"%s: %.1f s\n\", \"$what\", $EPOCHREALTIME - $begun }"
}
gone() { ! known "$1" && ! reachable "$1"; }

# One application: reachable within 5 s, and gone with it.
application_comes_and_goes() {
    run_at server a "$LARDER" ping-server "$1"
    wait_for 5 "$1 is reachable from c" reachable "$1"
    end server
    wait_for 10 "$1 is gone at c" gone "$1"
}

for node in "${nodes[@]}"; do
    ip netns add "$(space "$node")"
    inside "$node" ip link set lo up
done
connect a b 10.91.1.1 10.91.1.2
connect b c 10.91.2.1 10.91.2.2
for node in "${nodes[@]}"; do
    cat >"$work/$node.toml" <<TOML
[ndn]
unix = "$work/$node.sock"
udp = "0.0.0.0:6363"
readvertise = "nlsr"
[http]
enabled = false
[admin]
listen = ""
TOML
    run_at "$node" "$node" "$LARDER" run "$work/$node.toml"
    wait_for 10 "node $node answers" eval "at $node '$LARDER' ctl status >/dev/null 2>&1"
    start_daemon "$node"
done

# An application that is there from the start tells when the daemons have converged. ndnd takes two intervals of 5 s.
run_at always a "$LARDER" ping-server /always
wait_for 60 "the daemons have converged" reachable /always
application_comes_and_goes /app/one
application_comes_and_goes /app/two
# What an application registers while a's daemon is down, the next one learns when it starts.
end a-daemon
run_at between a "$LARDER" ping-server /between
wait_for 5 "/between is registered at a" eval 'at a "$LARDER" ctl route list | grep -qF "/between "'
start_daemon a
wait_for 60 "a's next daemon has learned the prefixes" eval 'reachable /between && reachable /always'
application_comes_and_goes /app/three
