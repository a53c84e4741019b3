#!/usr/bin/env bash
# Loads the alert rules and the queries of the dashboard in deploy/ into a real Prometheus that scrapes a node under load. rules.py
# asks every query; then the origin ends, and an alert has to fire. A copy of the rules has no waiting times (`for: 0s`).

. "$(dirname "$0")/../nodes.sh"
here=$(cd "$(dirname "$0")" && pwd)
deploy=$here/../../deploy

promtool check rules "$deploy/prometheus/alerts.yml"

read -r origin prometheus https peers < <(free_ports 4)
"$LARDER" origin --listen "127.0.0.1:$origin" >"$work/origin.log" 2>&1 </dev/null &
pids[origin]=$!
"$LARDER" fleet certificates --folder "$work/fleet" n1 >"$work/fleet.log"
printf 'aws_access_key_id = a\naws_secret_access_key = b\n' >"$work/s3-credentials"
mkdir "$work/www"
configure node lru <<TOML
[http.disk]
path = "$work/http.disk"
capacity = "64MiB"

[http.access_log]
path = "$work/access.log"

$(tls_listener "$https")

# A store that is away: the node has the metrics of objects.
[http.object_store]
url = "s3://bucket"
endpoint = "http://127.0.0.1:1"
credentials = "$work/s3-credentials"

# An authority that is away: the node has the metrics of certificates.
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

[http.tls.acme]
hosts = ["larder.test"]
folder = "$work/acme"
directory = "https://127.0.0.1:1/directory"
directory_ca = "$work/certificate.pem"

# The metrics of files.
[[http.origins]]
path = "/files/"
origin = "file://$work/www"
TOML
sed -i "0,/^origin = /s|^origin = .*|origin = \"http://127.0.0.1:$origin\"|" "$work/node.toml"
start node

sed 's/for: [0-9a-z]*$/for: 0s/' "$deploy/prometheus/alerts.yml" >"$work/alerts.yml"
cat >"$work/prometheus.yml" <<YAML
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: larder
    static_configs: [{targets: ["127.0.0.1:$(port node admin)"]}]
YAML
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" --web.listen-address="127.0.0.1:$prometheus" \
    >"$work/prometheus.log" 2>&1 </dev/null &
pids[prometheus]=$!

if ! python3 "$here/rules.py" "http://127.0.0.1:$prometheus" "http://127.0.0.1:$(port node http)" \
    "http://127.0.0.1:$(port node admin)" "$deploy/grafana/larder.json" "${pids[origin]}"; then
    tail -n 5 "$work/prometheus.log"
    fail "the rules or the dashboard do not fit the node"
fi
