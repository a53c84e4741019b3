#!/usr/bin/env bash
# What README.md tells a newcomer to type exists: its two commands are those that .ci/run calls or tries, every `larder ...`
# line names a subcommand and options that --help knows, and every subcommand has a help text.
: "${LARDER:?the binary under test; interop/run sets it}"
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "$*" && exit 1; }

# The lines of README's fenced code blocks, without prompts, comments, and `cargo run --release --`.
typed() { awk '/^```/ { inside = !inside; next } inside' README.md | sed 's/^\$ *//; s/ *#.*//; s/^cargo run --release -- /larder /'; }

for command in "cargo run --release" "cargo test"; do
    typed | grep -qxF "$command" || fail "README.md does not show '$command' on a line of its own in a code block"
done
grep -qE '^step [^#]*\bcargo test$' .ci/run || fail ".ci/run does not call README's 'cargo test' as it stands there"
grep -qF 'interop/run' .ci/run || fail ".ci/run does not run the interop tests, which start README's 'larder'"

subcommands=$("$LARDER" --help | awk '/^Commands:/ { inside = 1; next } /^$/ { inside = 0 } inside && /^  [a-z]/ { print $1 }')
for wanted in run put get ping ping-server replay policies; do
    grep -qx "$wanted" <<<"$subcommands" || fail "larder --help does not list '$wanted'"
done
for subcommand in $subcommands; do
    [ "$subcommand" = help ] && continue
    text=$("$LARDER" "$subcommand" --help) || fail "larder $subcommand --help failed"
    grep -q 'Usage:' <<<"$text" || fail "larder $subcommand --help shows no usage"
    # clap leaves the column beside an argument empty where nobody documented it.
    bare=$(awk '/^(Arguments|Options):/ { inside = 1; next } /^[A-Z]/ { inside = 0 }
        inside && /^ +(-|<|\[)/ { if (held != "") print held; held = ($0 ~ /^ +[^ ].*(  +|>|\])[ ]+[A-Za-z]/) ? "" : $0; next }
        inside && /[A-Za-z]/ { held = "" }
        END { if (held != "") print held }' <<<"$text")
    [ -z "$bare" ] || fail "larder $subcommand --help has an argument without a text: $bare"
done

typed | grep -E '^larder( |$)' | while read -r line; do
    read -r _ subcommand rest <<<"$line" || true
    [ -z "${subcommand:-}" ] && continue
    case $subcommand in --*) text=$("$LARDER" --help) rest="$subcommand $rest" ;; *)
        grep -qx -- "$subcommand" <<<"$subcommands" || fail "README: '$line': no such subcommand"
        text=$("$LARDER" "$subcommand" --help) ;;
    esac
    for word in $rest; do
        case $word in -*) grep -qE -- "(^|[ ,])${word%%=*}([ ,=]|$)" <<<"$text" || fail "README: '$line': no option $word" ;; esac
    done
    echo "known: $line"
done

"$LARDER" --version | grep -qE '^larder [0-9]+\.[0-9]+\.[0-9]+' || fail "larder --version: $("$LARDER" --version)"
status=0
"$LARDER" fetsch /x >/dev/null 2>&1 </dev/null || status=$?
((status == 2)) || fail "an unknown subcommand ended with $status, not 2"
