#!/usr/bin/env bash
# Files from each application to each, at the quick scale, through Larder's nodes, and through forwarders that `--forwarder` starts.
# Exit status 1 of `larder reproduce` is a claim about the speed, which depends on the machine; it must have been measured. (The
# claim about consumers needs the full scale.)
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

# reproduce OPTIONS: the experiment with these; each of its claims must have been measured.
reproduce() {
    local status=0
    "$LARDER" reproduce ndn-vs-http --only applications --applications "$(dirname "$0")" --out "$work/out" "$@" || status=$?
    ((status <= 1)) || exit "$status"
    python3 - "$work/out/claims.json" <<'PYTHON'
import json, sys
claims = [claim for experiment in json.load(open(sys.argv[1]))["experiments"] for claim in experiment["claims"]]
assert [claim["measured"] > 0 for claim in claims] == [True], claims
PYTHON
}

reproduce
reproduce --forwarder "$work/forwarder"
# A transfer has three nodes: at the server, at the top and at the edge.
started=("$work"/forwarder.*.toml)
((${#started[@]} >= 3)) || { echo "--forwarder started ${#started[@]} forwarders in place of three or more"; exit 1; }
