"""An API: a rate limit by key with 429, a catalogue with short lifetimes that differs by tenant, errors in JSON."""

import json

NAME, HOST = "api", "api.example.com"
ORIGIN_FIELDS = ["Host", "X-Tenant", "X-Api-Key", "X-Real-IP", "Authorization"]
JSON = ("Content-Type", "application/json")


def application():
    """One API; each answer counts how often it was made."""
    made = {}

    def answer(method, target, headers, body):
        made[target] = made.get(target, 0) + 1
        page = {"made": made[target], "target": target}
        if target.startswith("/v1/catalogue/"):
            page["tenant"] = headers.get("X-Tenant", "")
            return 200, [JSON, ("Vary", "X-Tenant")], json.dumps(page).encode()
        if target == "/v1/orders" and method == "POST":
            return 201, [JSON, ("Location", "/v1/orders/7")], json.dumps({"bytes": len(body)}).encode()
        if target == "/v1/me":
            status = 200 if headers.get("Authorization") == "Bearer ada" else 401
            return status, [JSON, ("Cache-Control", "no-store")], json.dumps(page).encode()
        if target == "/v1/broken":
            return 500, [JSON], b'{"error":"from the application"}'
        return 200, [JSON, ("Cache-Control", "no-store")], json.dumps(page).encode()

    return answer


def tenant(label, target, name, **more):
    return Step(label, target, fields=[("X-Tenant", name)], **more)


def search(label, key):
    return Step(label, "/v1/search?q=a", fields=[("X-Api-Key", key)])


STEPS = [
    tenant("the catalogue of a tenant", "/v1/catalogue/1", "red"),
    tenant("the catalogue again", "/v1/catalogue/1", "red"),
    tenant("the catalogue of another tenant", "/v1/catalogue/1", "blue"),
    tenant("the first tenant again", "/v1/catalogue/1", "red"),
    Step("without a tenant", "/v1/catalogue/1"),
    Step("an order", "/v1/orders", method="POST", fields=[JSON], body=b'{"item":1}'),
    Step("a person", "/v1/me", fields=[("Authorization", "Bearer ada")]),
    Step("a person again", "/v1/me", fields=[("Authorization", "Bearer ada")]),
    Step("nobody", "/v1/me"),
    Step("an error of the application", "/v1/broken"),
    *[search(f"search {number}", "k1") for number in range(1, 6)],
    search("search 6: over the limit", "k1"),
    search("search 7: over the limit", "k1"),
    search("another key", "k2"),
    Step("no limit elsewhere", "/v1/me", fields=[("X-Api-Key", "k1")]),
    Step("forbidden", "/internal/state"),
    tenant("an old catalogue, and the origin fails", "/v1/catalogue/1", "red", after=2.5, origin="down"),
    Step("the origin fails", "/v1/me"),
    tenant("the catalogue when it is back", "/v1/catalogue/2", "red", origin="up"),
]

ALLOWED = {
    "nginx": [],
    "varnish": [
        (r"field accept-ranges: varnish \['bytes'\], Larder \[\]", "Varnish adds `Accept-Ranges` to what it may store; Larder passes the origin's on"),
        (r"(over the limit|forbidden): field server", "the text of an error that the program makes itself, and its fields, are its own"),
    ],
}
