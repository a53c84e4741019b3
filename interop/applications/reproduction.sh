#!/usr/bin/env bash
# Files from each application to each, at the quick scale, through Larder's nodes, and through forwarders that `--forwarder` starts.
# Exit status 1 of `larder reproduce` is a claim about the speed, which depends on the machine; it must have been measured, unless
# the machine was too busy in all attempts to emulate the links in time: then this ends with 77, and counts as skipped. (The claim
# about consumers needs the full scale.)
. "$(dirname "$0")/../nodes.sh"

# A forwarder as any other: it gets a socket and an upstream, and nothing else of Larder's configuration. It is a node here.
cat >"$work/forwarder" <<'SH'
#!/bin/sh
config=$(mktemp "$work/forwarder.XXXXXX.toml")
{
    printf '[ndn]\nunix = "%s"\ntcp = "0.0.0.0:6363"\nudp = ""\nwebsocket = ""\n' "$FORWARDER_SOCKET"
    [ -z "$FORWARDER_UPSTREAM" ] || printf '[[ndn.route]]\nprefix = "/"\nto = "%s"\n' "$FORWARDER_UPSTREAM"
    printf '[http]\nlisten = ""\n[admin]\nlisten = ""\n'
} >"$config"
exec "$LARDER" run "$config"
SH
chmod +x "$work/forwarder"
export work LARDER

late=0
# reproduce OPTIONS: the experiment with these; each of its claims must have been measured.
reproduce() {
    local status=0 verdict=0 log="$work/reproduce.log" is_disturbed=0
    "$LARDER" reproduce ndn-vs-http --only applications --applications "$(dirname "$0")" --out "$work/out" "$@" 2>&1 | tee "$log" || status=$?
    # Other programs took more of the processors than the claim allows.
    if ((status == 2)) && grep -q "claims about times fail beside other load" "$log"; then
        is_disturbed=1
    fi
    ((status <= 1 || is_disturbed)) || exit "$status"
    python3 - "$work/out/claims.json" "$log" <<'PYTHON' || verdict=$?
import collections, json, sys
claims = [claim for experiment in json.load(open(sys.argv[1]))["experiments"] for claim in experiment["claims"]]
if len(claims) != 1 or claims[0]["measured"] is not None and claims[0]["measured"] <= 0:
    sys.exit(f"other claims than one that was measured: {claims}")
if claims[0]["measured"] is None:
    # Three attempts of one pair of applications, each of which was late.
    pairs = [line.split(": the links were late")[0] for line in open(sys.argv[2]) if ": the links were late" in line]
    attempts = max(collections.Counter(pairs).values(), default=0)
    sys.exit(77 if attempts >= 3 else "a claim was not measured, although the links were in time")
PYTHON
    case $verdict in
        0) ((is_disturbed == 0)) || late=1 ;;
        77) late=1 ;;
        *) exit "$verdict" ;;
    esac
}

reproduce
reproduce --forwarder "$work/forwarder"
# A transfer has three nodes: at the server, at the top and at the edge.
started=("$work"/forwarder.*.toml)
((${#started[@]} >= 3)) || { echo "--forwarder started ${#started[@]} forwarders in place of three or more"; exit 1; }
((late == 0)) || {
    echo "the machine was too busy to emulate the links in time: no claim about the speed was judged"
    exit 77
}
