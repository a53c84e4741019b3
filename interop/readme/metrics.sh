#!/usr/bin/env bash
# Compares docs/reference/metrics.md with the metrics of a node that has everything: disk tiers, TLS, ACME, a pool, files.
#
#   interop/readme/metrics.sh            exit status 1 if the page is out of date
#   interop/readme/metrics.sh --write    writes the page
#
# LARDER is the program.

. "$(dirname "$0")/../nodes.sh"
here=$(cd "$(dirname "$0")" && pwd)

read -r origin https peers < <(free_ports 3)
"$LARDER" origin --listen "127.0.0.1:$origin" >"$work/origin.log" 2>&1 </dev/null &
pids[origin]=$!
"$LARDER" fleet certificates --folder "$work/fleet" n1 >"$work/fleet.log"
printf 'aws_access_key_id = a\naws_secret_access_key = b\n' >"$work/s3-credentials"
mkdir "$work/www"
echo hello >"$work/www/hello.txt"
configure node s3fifo <<TOML
[ndn.disk]
path = "$work/ndn.disk"
capacity = "64MiB"

[http.disk]
path = "$work/http.disk"
capacity = "64MiB"

[http.compression]
codings = ["gzip"]

[http.access_log]
path = "$work/access.log"

$(tls_listener "$https")

# A store that is away: the node has the metrics of objects.
[http.object_store]
url = "s3://bucket"
endpoint = "http://127.0.0.1:1"
credentials = "$work/s3-credentials"

# Servers of a log that are away: the node has the metrics of a fleet.
[fleet]
name = "test"
node = "n1"
nats = ["nats://127.0.0.1:1"]
invalidate = true

[fleet.peers]
listen = "127.0.0.1:$peers"
ca = "$work/fleet/fleet-ca.pem"
certificate = "$work/fleet/n1.pem"
key = "$work/fleet/n1.key"

# An authority that is away: the node has the metrics of certificates.
[http.tls.acme]
hosts = ["larder.test"]
folder = "$work/acme"
directory = "https://127.0.0.1:1/directory"
directory_ca = "$work/certificate.pem"

[[http.origins]]
path = "/www/"
origin = "file://$work/www"

[[http.origins]]
path = "/pool/"
servers = ["http://127.0.0.1:$origin", "http://127.0.0.1:1"]
TOML
# agd reports figures of its own, as policies do.
sed -i -e "s|^origin = \"generated\"|origin = \"http://127.0.0.1:$origin\"|" -e 's|^policy = "lru"|policy = "agd"|' "$work/node.toml"
start node
# Data in the Content Store, for the analysis of NDN.
NDN_CLIENT_TRANSPORT=$(uri node unix)
export NDN_CLIENT_TRANSPORT
"$LARDER" put /metrics/file "$here/metrics.py" >"$work/put.log" 2>&1 </dev/null &
pids[put]=$!
for _ in 1 2 3 4 5 6; do
    "$LARDER" get /metrics/file -o "$work/copy" >/dev/null 2>&1 && break
    sleep 0.5
done
python3 "$here/metrics.py" "http://127.0.0.1:$(port node http)" "http://127.0.0.1:$(port node admin)" "$@"
