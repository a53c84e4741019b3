#!/usr/bin/env bash
# An occupied port or socket is one line that names the setting, and a failure: for every listener of the configuration.
. "$(dirname "$0")/../nodes.sh"

configure first
start first
for setting in ndn.tcp ndn.udp ndn.websocket ndn.unix http.listen admin.listen; do
    configure second
    key=${setting#*.}
    case $setting in
        http.listen) taken=$(port first http) own=$(port second http) ;;
        admin.listen) taken=$(port first admin) own=$(port second admin) ;;
        ndn.unix) taken=$work/first.sock own=$work/second.sock ;;
        *) taken=$(port first "$key") own=$(port second "$key") ;;
    esac
    sed -i "s|$own|$taken|" "$work/second.toml"
    status=0
    timeout 10 "$LARDER" run "$work/second.toml" >"$work/second.out" 2>"$work/second.err" </dev/null || status=$?
    grep -E 'ERROR|error|larder:' "$work/second.out" "$work/second.err" | sed 's/^[^:]*://' >"$work/complaint" || true
    echo "$setting: exit $status: $(cat "$work/complaint")"
    ((status == 1 || status == 2)) || fail "$setting occupied: exit status $status"
    [ "$(wc -l <"$work/complaint")" = 1 ] || fail "$setting occupied: not one line but $(cat "$work/second.out" "$work/second.err")"
    grep -qE "${setting%.*}\]? ?\.?$key" "$work/complaint" || fail "the line does not name $setting"
    grep -qF "$taken" "$work/complaint" || fail "the line does not name $taken"
    [ ! -e "$work/second.sock" ] || fail "$setting occupied: the failed node left its socket behind"
done
curl -fs -o /dev/null "http://127.0.0.1:$(port first admin)/status" || fail "the first node was harmed"
[ -S "$work/first.sock" ] || fail "the first node's socket was taken away"
