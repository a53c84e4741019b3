"""rules.py PROMETHEUS NODE ADMIN DASHBOARD ORIGIN_PID: asks a running Prometheus the queries of all alerts and panels.

Each metric of a query has to be one of the node's. Each query has to be understood, and has to have a result: for an alert, the side that is
compared with the threshold. EMPTY lists those without a result on a healthy node, with reasons. Then the origin ends, and an alert fires.
"""

import itertools
import json
import os
import re
import signal
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

prometheus, node, admin, dashboard, origin = sys.argv[1:]
SECONDS = 30

# Alerts (by name) and queries of panels (by "panel: legend") that have no result here, and why.
EMPTY = {
    "LarderHitRatioFell": "there is no yesterday",
    "LarderCertificateExpires": "no authority has issued one",
    "Not stored, by reason: {{reason}}": "everything is stored",
    "Drops, by reason: {{reason}}": "no packet is dropped",
}
ALERT = "LarderOriginFailing"


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError:
        return ""


def api(path, **arguments):
    text = get(f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(arguments)}")
    return json.loads(text) if text.startswith("{") else {"status": "error", "error": text or "no answer"}


def wait_for(what, condition):
    """Returns what the condition returns, as soon as it is true."""
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        if time.monotonic() > deadline:
            sys.exit(f"{what}: not within {SECONDS} s")
        time.sleep(0.2)
    return found


def load(numbers):
    for number in numbers:
        for _ in range(2):
            get(f"{node}/1000/{number}?max-age=600")


def compared(alert):
    """Returns the side of an alert's query that is compared with the threshold: the text before the last comparison outside brackets."""
    depth, end = 0, None
    for at, letter in enumerate(alert):
        depth += (letter in "({[") - (letter in ")}]")
        if depth == 0 and alert[at : at + 3] in (" > ", " < "):
            end = at
    return alert[:end] if end else sys.exit(f"no comparison with a threshold in: {alert}")


def names(query):
    """Returns the metrics of a query, as patterns."""
    by_name = re.findall(r'__name__=~"([^"]*)"', query)
    without_strings = re.sub(r'"[^"]*"', "", query)
    return set(re.findall(r"\b(?:larder|process)_[a-z_]+\b", without_strings)) | set(by_name)


def result_of(query):
    """Returns the number of rows of a query; ends with its error if Prometheus does not understand it."""
    answer = api("query", query=query)
    if answer["status"] != "success":
        sys.exit(f"{answer['error']}\nin: {query}")
    return len(answer["data"]["result"])


def targets_up():
    answer = api("targets")
    targets = answer.get("data", {}).get("activeTargets", [])
    return bool(targets) and all(target["health"] == "up" for target in targets)


wait_for("target up", targets_up)
groups = wait_for("rules loaded", lambda: api("rules").get("data", {}).get("groups"))
alerts = {rule["name"]: rule for group in groups for rule in group["rules"]}
for name, rule in alerts.items():
    missing = {"summary", "description", "action"} - rule["annotations"].keys()
    assert not missing, f"{name} has no {missing}"

queries = {name: compared(rule["query"]) for name, rule in alerts.items()}
with open(dashboard, encoding="utf-8") as file:
    panels = [panel for panel in json.load(file)["panels"] if panel["type"] != "row"]
for panel in panels:
    for target in panel["targets"]:
        query = target["expr"].replace("$__rate_interval", "30s").replace("$instance", ".*")
        key = f"{panel['title']}: {target['legendFormat']}"
        assert key not in queries, f"two queries are called {key}"
        queries[key] = query
unknown = EMPTY.keys() - queries.keys()
assert not unknown, f"EMPTY lists what is gone: {unknown}"

load(range(100))


def missing_metrics():
    """Returns the metrics of queries that the node does not have. Some appear a second after the first requests."""
    metrics = set(re.findall(r"^([a-z_]+)", get(f"{admin}/metrics"), re.MULTILINE))
    return {
        f"{key}: the node has no metric {name}"
        for key, query in queries.items()
        for name in names(query)
        if not any(re.fullmatch(name, metric) for metric in metrics)
    }


deadline = time.monotonic() + SECONDS
while (missing := missing_metrics()) and time.monotonic() < deadline:
    time.sleep(0.5)
assert not missing, "\n".join(sorted(missing))

fresh = itertools.count(1_000)


def without_result():
    load([next(fresh)])
    return {key for key, query in queries.items() if key not in EMPTY and not result_of(query)}


deadline = time.monotonic() + SECONDS
while (lacking := without_result()) and time.monotonic() < deadline:
    time.sleep(0.5)
assert not lacking, "no result:\n" + "\n".join(f"{key}: {queries[key]}" for key in sorted(lacking))
for key, reason in EMPTY.items():
    assert not result_of(queries[key]), f"{key} has a result, although {reason}: take it out of EMPTY"


def firing():
    load([next(fresh)])
    alerts = api("alerts").get("data", {}).get("alerts", [])
    return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


assert ALERT not in firing(), f"{ALERT} fires while the origin answers"
os.kill(int(origin), signal.SIGTERM)
wait_for(f"{ALERT} fires after the end of the origin", lambda: ALERT in firing())
print(f"{len(alerts)} alerts, {len(queries) - len(alerts)} queries of {len(panels)} panels; firing: {', '.join(sorted(firing()))}")
