"""A site of files: pages, an application of one page, assets with a lifetime, compressed files."""

import gzip
import os

NAME, HOST = "files", "www.example.com"
ORIGIN_FIELDS = []
MODIFIED = 1_736_157_600  # Mon, 06 Jan 2025 10:00:00 GMT
SCRIPT = b"console.log('hello');\n" * 200
FILES = {
    "index.html": b"<h1>home</h1>\n",
    "404.html": b"<h1>nothing here</h1>\n",
    "about/index.html": b"<h1>about</h1>\n",
    "empty/nothing.txt": b"",
    "notes.txt": b"0123456789" * 100,
    "assets/app.css": b"body { margin: 0 }\n" * 50,
    "assets/app.css.gz": gzip.compress(b"body { margin: 0 }\n" * 50, mtime=0),
    "assets/photo.png": bytes(range(256)) * 20,
    "app/index.html": b"<div id=app></div>\n",
    "app/app.js": SCRIPT,
    "app/app.js.gz": gzip.compress(SCRIPT, mtime=0),
    "data": b"\0\1\2",
    ".env": b"SECRET=1\n",
    "with space.txt": b"space\n",
}


def application():
    return lambda *_: (500, [], b"no request comes here\n")


def make(folder):
    """Writes the files, and links to others."""
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (MODIFIED, MODIFIED))
    (folder / "latest.txt").symlink_to("notes.txt")


def accepting(label, target, codings, **more):
    return Step(label, target, fields=[("Accept-Encoding", codings)], **more)


STEPS = [
    Step("home", "/"),
    Step("home again", "/"),
    Step("a file", "/notes.txt"),
    Step("a file again", "/notes.txt"),
    Step("HEAD", "/notes.txt", method="HEAD"),
    Step("a query", "/notes.txt?x=1"),
    Step("a link within the folder", "/latest.txt"),
    Step("a space", "/with%20space.txt"),
    Step("no ending", "/data"),
    Step("a folder", "/about/"),
    Step("a folder without its slash", "/about"),
    Step("a folder without its slash, with a query", "/about?x=1"),
    Step("absent", "/absent"),
    Step("absent again", "/absent"),
    Step("absent, HEAD", "/absent", method="HEAD"),
    Step("a dot file", "/.env"),
    Step("a file as a folder", "/notes.txt/"),
    Step("above the root", "/../etc/passwd"),
    Step("above the root, encoded", "/%2e%2e/%2e%2e/etc/passwd"),
    Step("a path of the application", "/app/users/7"),
    Step("a path of the application again", "/app/users/7"),
    Step("the application", "/app/"),
    Step("its script", "/app/app.js"),
    accepting("its script, compressed", "/app/app.js", "gzip, deflate, br"),
    accepting("its script, compressed again", "/app/app.js", "gzip"),
    accepting("its script, not compressed", "/app/app.js", "identity"),
    accepting("no compressed file", "/notes.txt", "gzip"),
    Step("an asset", "/assets/app.css"),
    accepting("an asset, compressed", "/assets/app.css", "gzip"),
    Step("an image", "/assets/photo.png"),
    Step("an absent asset", "/assets/absent.png"),
    Step("a range", "/notes.txt", fields=[("Range", "bytes=10-19")]),
    Step("the end", "/notes.txt", fields=[("Range", "bytes=-5")]),
    Step("behind the end", "/notes.txt", fields=[("Range", "bytes=5000-")]),
    Step("conditional, by date", "/notes.txt", fields=[("If-Modified-Since", "Mon, 06 Jan 2025 10:00:00 GMT")]),
    Step("conditional, another", "/notes.txt", fields=[("If-None-Match", '"other"')]),
    Step("a precondition that fails", "/notes.txt", fields=[("If-Match", '"other"')]),
    Step("If-Range, another", "/notes.txt", fields=[("Range", "bytes=0-9"), ("If-Range", '"other"')]),
    Step("POST", "/notes.txt", method="POST", body=b"x"),
]

ALLOWED = {
    "nginx": [
        (r"field etag: nginx \['", "`ETag` is made of inode, size and times in nanoseconds; nginx's of seconds and size"),
        (r"field etag: nginx \[\], Larder|field last-modified: nginx \[\], Larder", "a 412 names the present validators"),
        (r"^a folder without its slash.*: (status|body|field (content-length|content-type|location))", "a folder without its slash is redirected with 308 and a relative `Location`; by nginx with 301"),
        (r"^above the root.*: (status|body|field content-length)", "Larder resolves `..` in the path, and nginx refuses those that leave the root with 400"),
        (r"^a path of the application.*: field cache-control", "the file that answers for many paths has `Cache-Control: no-cache`"),
        (r"field content-type: nginx \['(application/javascript|text/css)", "scripts are `text/javascript` (RFC 9239), and all text has the charset; nginx's `charset_types` are a few"),
        (r"field accept-ranges: nginx \[\]", "`Accept-Ranges` is also in a 206 and in compressed files, which have ranges"),
        (r"field expires: nginx", "`expires 30d;` also sends `Expires`, which says the same"),
        (
            r"^(behind the end|a precondition that fails|POST|conditional, by date): (body|field (content-length|content-type|x-content-type-options|allow))",
            "errors have a short body or none, and a 405 names the methods in `Allow`",
        ),
    ]
}
