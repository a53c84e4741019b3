#!/usr/bin/env bash
# The public survey of HTTP caches (http-cache-tests 0.4.5, unmodified) against a node, with its own origin behind it. Ends with 1 where a
# behaviour fails that expected.json does not list. Its 250 tests pause for seconds each, all at once.
#
#   survey.sh DIRECTORY    DIRECTORY holds node_modules with the survey; interop/run gives it
. "$(dirname "$0")/../nodes.sh"

survey=$1/node_modules/http-cache-tests
read -r origin < <(free_ports 1)
configure survey
# Its tests of Set-Cookie expect what RFC 9111 §7.3 has: Cache-Control alone decides.
sed -i "s|^origin = .*|origin = \"http://127.0.0.1:$origin\"\nshare_cookies = true|" "$work/survey.toml"
(cd "$survey" && npm_config_protocol=http npm_config_port=$origin npm_config_pidfile="$work/origin.pid" exec node server/server.mjs) >"$work/origin.log" 2>&1 &
pids[origin]=$!
start survey
(cd "$survey" && npm_config_base=http://127.0.0.1:$(port survey http) npm_package_config_id='' node --no-warnings cli.mjs) >"$work/results.json"
node "$(dirname "$0")/judge.mjs" "$survey" "$work/results.json"
