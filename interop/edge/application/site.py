"""An application of one page with its interface: files, redirects, a closed area, an API behind a prefix, uploads."""

import gzip
import os

NAME, HOST = "application", "app.example.com"
ORIGIN_FIELDS = ["X-Real-IP", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Host", "Content-Length"]
MODIFIED = 1_736_157_600  # Mon, 06 Jan 2025 10:00:00 GMT
SCRIPT = b"console.log('hello');\n" * 200
FILES = {
    "index.html": b"<div id=app></div>\n",
    "assets/app.js": SCRIPT,
    "assets/app.js.gz": gzip.compress(SCRIPT, mtime=0),
    "assets/app.css": b"body { margin: 0 }\n" * 100,
    "assets/photo.png": bytes(range(256)) * 20,
    "robots.txt": b"User-agent: *\n",
}


def application():
    def answer(method, target, headers, body):
        if method == "POST":
            return 201, [("Content-Type", "application/json")], b'{"bytes": %d}' % len(body)
        if target.startswith("/absent"):
            return 404, [("Content-Type", "text/plain")], b"not here\n"
        if target.startswith("/table"):
            return 200, [("Content-Type", "application/json"), ("Cache-Control", "no-store")], b'{"row": 1}\n' * 300
        return 200, [("Content-Type", "application/json"), ("Cache-Control", "no-store"), ("Set-Cookie", "session=1")], b'{"users": []}\n'

    return answer


def make(folder):
    """Writes the files."""
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (MODIFIED, MODIFIED))


def accepting(label, target, codings, **more):
    return Step(label, target, fields=[("Accept-Encoding", codings)], **more)


STEPS = [
    Step("home", "/"),
    Step("home again", "/"),
    Step("HEAD", "/robots.txt", method="HEAD"),
    Step("a path of the application", "/users/7"),
    Step("a path of the application again", "/users/7?tab=2"),
    Step("an asset", "/assets/app.js"),
    accepting("an asset with a compressed file", "/assets/app.js", "gzip, deflate, br"),
    accepting("an asset that is compressed", "/assets/app.css", "gzip"),
    accepting("an image", "/assets/photo.png", "gzip"),
    Step("a range", "/assets/photo.png", fields=[("Range", "bytes=10-19")]),
    Step("conditional, by date", "/robots.txt", fields=[("If-Modified-Since", "Mon, 06 Jan 2025 10:00:00 GMT")]),
    Step("conditional, another", "/robots.txt", fields=[("If-None-Match", '"other"')]),
    Step("moved", "/old"),
    Step("moved to another site", "/docs/a/b?c=d"),
    Step("the closed area", "/admin/users"),
    Step("the closed area by another way", "/users/../admin/users"),
    Step("the interface", "/api/users?page=2"),
    Step("the interface again", "/api/users?page=2"),
    Step("the interface, absent", "/api/absent"),
    accepting("the interface, compressed", "/api/table", "gzip"),
    Step("the interface, POST", "/api/users", method="POST", body=b'{"name": "a"}'),
    Step("an upload", "/uploads/a", method="POST", body=b"x" * 1000),
    Step("an upload that is too large", "/uploads/a", method="POST", body=b"x" * 2000),
]

ALLOWED = {
    "caddy": [
        (r"field etag: caddy", "`ETag` is made of inode, size and times; Caddy's of size and time"),
        (r"field vary: caddy \['Accept-Encoding'\], Larder \[\]", "Caddy sends `Vary: Accept-Encoding` with all files; Larder where there are several forms"),
        (r"field age: caddy \[\]", "`Age` comes with stored responses"),
        (r"^(home|a path of the application).*: field cache-control", "the file that answers for many paths has `Cache-Control: no-cache`"),
        (r"^(the closed area|an upload that is too large).*: (body|field content-length)", "errors have a line of text"),
        (r"^(an asset that is compressed|the interface, compressed): field content-length", "a form that is made while it is sent has no length; the stored one has"),
        (r"^conditional, by date: field last-modified", "a 304 names both validators"),
    ]
}
