# Sourced by the checks of files, after nodes.sh: `larder put` in the background, `larder get` with its output compared.

# put NAME FILE: serves until end_put; $versioned is the name that it printed.
put() {
    "$LARDER" put "$1" "$2" >"$work/put.log" 2>&1 </dev/null &
    pids[put]=$!
    local i
    for ((i = 0; i < 200; i++)); do
        versioned=$(grep -o -m 1 "$1/v=[0-9]*" "$work/put.log") && return 0
        kill -0 "${pids[put]}" 2>/dev/null || break
        sleep 0.05
    done
    echo "larder put did not announce a version of $1:"
    cat "$work/put.log"
    return 1
}

# A producer that is interrupted says so and ends; a hang shows as a time-out here.
end_put() {
    stop put INT
    cat "$work/put.log"
}

# fetch NAME FILE: `larder get` into FILE, which must equal what was sent.
fetch() {
    local begun=$EPOCHREALTIME
    "$LARDER" get "$1" -o "$2" </dev/null
    echo "$1 in $(awk "BEGIN { printf \"%.2f\", $EPOCHREALTIME - $begun }") s"
    [ "$(sha256sum <"$work/sent")" = "$(sha256sum <"$2")" ] || fail "$1: SHA-256 differs from what was sent"
}

# store_hits NAME: how many Interests the node's Content Store has answered.
store_hits() {
    curl -fs "http://127.0.0.1:$(port "$1" admin)/metrics" | awk '/^larder_ndn_content_store_hits_total/ { n += $2 } END { print n + 0 }'
}
