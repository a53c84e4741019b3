#!/usr/bin/env bash
# grpc.sh: calls of a gRPC client (grpc/echo.py) to a gRPC service through a node, over HTTP/2 without TLS, and over TLS.
. "$(dirname "$0")/../nodes.sh"

here=$(cd "$(dirname "$0")" && pwd)
echo=("$here/../.env/apps/bin/python" "$here/grpc/echo.py")
read -r origin https < <(free_ports 2)
"${echo[@]}" serve "$origin" >"$work/service.log" 2>&1 &
pids[service]=$!
for ((i = 0; i < 200; i++)); do
    (: <>"/dev/tcp/127.0.0.1/$origin") 2>/dev/null && break
    sleep 0.05
done

configure node < <(tls_listener "$https")
sed -i "s|^origin = .*|origin = \"http://127.0.0.1:$origin\"\norigin_protocol = \"http2\"|" "$work/node.toml"
start node
"${echo[@]}" call "127.0.0.1:$(port node http)" || { tail -n 20 "$work/service.log" "$work/node.log"; exit 1; }
"${echo[@]}" call "localhost:$https" --ca "$work/certificate.pem" || { tail -n 20 "$work/service.log" "$work/node.log"; exit 1; }
