#!/usr/bin/env bash
# A bad configuration is one line with the place, and exit status 2; a misspelt key or policy gets a suggestion.
. "$(dirname "$0")/../nodes.sh"

# refused WHAT SED_SCRIPT PATTERN: the default test configuration, edited so, must be refused with a line matching PATTERN.
refused() {
    configure node
    sed -i "$2" "$work/node.toml"
    local status=0
    timeout 10 "$LARDER" run "$work/node.toml" >"$work/out" 2>"$work/err" </dev/null || status=$?
    echo "$1: exit $status: $(cat "$work/err")"
    ((status == 2)) || fail "$1: exit status $status, not 2"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "$1: not one line"
    grep -qE "$3" "$work/err" || fail "$1: the line does not match $3"
}

refused "unknown key" 's/^content_store/content_stroe/' 'content_stroe.*content_store'
refused "unknown table" 's/^\[admin\]/[amdin]/' 'amdin.*admin'
refused "bad size" 's/^content_store = .*/content_store = "64 melons"/' 'content_store.*64 melons|64 melons'
refused "unknown policy" 's/^policy = "fifo"/policy = "fifi"/' 'fifi.*fifo'
refused "bad address" 's/^tcp = .*/tcp = "localhorst"/' 'tcp.*localhorst|localhorst'
refused "not TOML" 's/^\[http\]/[http/' 'node.toml'

status=0
"$LARDER" run "$work/absent.toml" >"$work/out" 2>"$work/err" </dev/null || status=$?
((status == 2)) || fail "a missing file: exit status $status, not 2"
grep -qF "absent.toml" "$work/err" || fail "a missing file: $(cat "$work/err")"
