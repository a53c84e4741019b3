#!/usr/bin/env bash
# application.sh flask|express CHECK... [OPTION...]: runs the application behind a node, and uses it through the node (drive.py).
# By hand, the whole forms: LARDER=target/release/larder interop/apps/application.sh flask events --events 450
#                           LARDER=target/release/larder interop/apps/application.sh express upload --upload 90 --rate 1
. "$(dirname "$0")/../nodes.sh"

here=$(cd "$(dirname "$0")" && pwd)
kind=$1
shift
python=$here/../.env/apps/bin/python
export STATIC=$here/static
read -r origin < <(free_ports 1)
case $kind in
    flask) (cd "$here/flask" && exec "$python" -m gunicorn --no-control-socket --threads 64 --timeout 0 --bind "127.0.0.1:$origin" app:app) >"$work/application.log" 2>&1 & ;;
    express) node "$here/express/app.mjs" "$origin" >"$work/application.log" 2>&1 & ;;
esac
pids[application]=$!
for ((i = 0; i < 200; i++)); do
    curl -fs -o /dev/null "http://127.0.0.1:$origin/static/dot.svg" && break
    sleep 0.05
done

configure node </dev/null
sed -i "s|^origin = .*|origin = \"http://127.0.0.1:$origin\"|" "$work/node.toml"
start node
"$python" "$here/drive.py" "http://127.0.0.1:$(port node http)" "$@" || { tail -n 20 "$work/application.log" "$work/node.log"; exit 1; }
