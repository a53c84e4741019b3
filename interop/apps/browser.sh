#!/usr/bin/env bash
# browser.sh http|https: headless Chromium loads a page with a style sheet, an image and a script through a node, which gets it from
# Express: over HTTP/1.1, or over HTTP/2. A second Chromium, with an empty cache of its own, gets all of it from the node's cache.
. "$(dirname "$0")/../nodes.sh"

here=$(cd "$(dirname "$0")" && pwd)
scheme=$1
export STATIC=$here/static
read -r origin https < <(free_ports 2)
node "$here/express/app.mjs" "$origin" >"$work/application.log" 2>&1 &
pids[application]=$!
for ((i = 0; i < 200; i++)); do
    curl -fs -o /dev/null "http://127.0.0.1:$origin/static/dot.svg" && break
    sleep 0.05
done

configure node < <(tls_listener "$https")
sed -i "s|^origin = .*|origin = \"http://127.0.0.1:$origin\"|" "$work/node.toml"
start node
case $scheme in
    http) url=http://localhost:$(port node http)/ protocol=http/1.1 ;;
    https) url=https://localhost:$https/ protocol=h2 ;;
esac

hits() { curl -fsS "http://127.0.0.1:$(port node admin)/metrics" | awk '$1 == "larder_http_hits_total" { print $2 }'; }

load() {
    timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking --no-first-run \
        --ignore-certificate-errors --user-data-dir="$work/profile$1" --virtual-time-budget=10000 --dump-dom "$url" 2>"$work/chromium.log" >"$work/page$1.html" ||
        { tail -n 20 "$work/chromium.log"; fail "Chromium ended with an error"; }
    grep -o '<p id="out">[^<]*' "$work/page$1.html" || { cat "$work/page$1.html"; fail "no page"; }
    grep -q "color rgb(1, 2, 3), image 7, protocol $protocol<" "$work/page$1.html" || fail "load $1: the page does not show what it needs"
}

load 1
before=$(hits)
load 2
# The page, the style, the image and the script; Chromium may ask for an icon too, which Express does not have.
((($(hits) - before) >= 4)) || fail "the second load was no hit: $before hits, then $(hits)"
