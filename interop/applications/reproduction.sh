#!/usr/bin/env bash
# Files from each application to each, at the quick scale. Exit status 1 of `larder reproduce` is a claim about the speed, which
# depends on the machine; it must have been measured. (The claim about consumers needs the full scale.)
. "$(dirname "$0")/../nodes.sh"
status=0
"$LARDER" reproduce ndn-vs-http --only applications --applications "$(dirname "$0")" --out "$work/out" || status=$?
((status <= 1)) || exit "$status"
python3 - "$work/out/claims.json" <<'PYTHON'
import json, sys
claims = [claim for experiment in json.load(open(sys.argv[1]))["experiments"] for claim in experiment["claims"]]
assert [claim["measured"] > 0 for claim in claims] == [True], claims
PYTHON
