"""A site of videos and images: ranges in slices, long lifetimes, CORS."""

import random

NAME, HOST = "media", "media.example.com"
ORIGIN_FIELDS = ["Range", "Host", "Cookie"]
MIB = 1 << 20
FILES = {
    "/video.mp4": ("video/mp4", random.Random(1).randbytes(5 * MIB + 12345)),
    "/film.mp4": ("video/mp4", random.Random(2).randbytes(3 * MIB)),
    "/poster.jpg": ("image/jpeg", random.Random(3).randbytes(70_000)),
}
# The origin allows a second, and counts its visitors: the caches keep the files for 30 days, without that cookie.
FIELDS = [("Cache-Control", "max-age=1"), ("Set-Cookie", "visitor=1; path=/")]


def application():
    return answer


def answer(method, target, headers, body):
    path = target.split("?")[0]
    if path not in FILES:
        # Squid counts whole seconds: of one, nothing may be left at once.
        return 404, [("Content-Type", "text/plain"), ("Cache-Control", "max-age=2")], b"no such file\n"
    kind, content = FILES[path]
    fields = [("Content-Type", kind), ("ETag", f'"{len(content):x}"'), ("Last-Modified", "Mon, 06 Jan 2025 10:00:00 GMT"), *FIELDS]
    fields.append(("Accept-Ranges", "bytes"))
    asked = headers.get("Range", "")
    if not asked.startswith("bytes="):
        return 200, fields, content
    first, _, last = asked.removeprefix("bytes=").partition("-")
    begin = int(first) if first else len(content) - int(last)
    end = min(int(last) + 1 if first and last else len(content), len(content))
    if begin >= len(content):
        return 416, [("Content-Range", f"bytes */{len(content)}")], b""
    return 206, [*fields, ("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")], content[begin:end]


def part(label, target, text, **more):
    return Step(label, target, fields=[("Range", f"bytes={text}")], **more)


STEPS = [
    part("first bytes", "/video.mp4", "0-99"),
    part("first bytes again", "/video.mp4", "0-99"),
    part("within the same slice", "/video.mp4", "500000-500099"),
    part("over two slices", "/video.mp4", "1048000-1049000"),
    part("the end", "/video.mp4", "-100"),
    part("behind the end", "/video.mp4", "99999999-"),
    part("the rest from the middle", "/video.mp4", "3000000-"),
    Step("whole, with most slices stored", "/video.mp4"),
    Step("whole again", "/video.mp4"),
    Step("whole first", "/film.mp4"),
    part("a part of it", "/film.mp4", "2000000-2000099"),
    Step("an image", "/poster.jpg"),
    Step("an image again, with a cookie", "/poster.jpg", fields=[("Cookie", "visitor=1")]),
    Step("HEAD", "/poster.jpg", method="HEAD"),
    Step("another query is another file", "/poster.jpg?w=100"),
    Step("conditional, the same", "/poster.jpg", fields=[("If-None-Match", '"11170"')]),
    Step("conditional, by date", "/poster.jpg", fields=[("If-Modified-Since", "Mon, 06 Jan 2025 10:00:00 GMT")]),
    Step("conditional, another", "/poster.jpg", fields=[("If-None-Match", '"other"')]),
    Step("If-Range, the same", "/video.mp4", fields=[("Range", "bytes=0-9"), ("If-Range", '"503039"')]),
    Step("If-Range, another", "/video.mp4", fields=[("Range", "bytes=0-9"), ("If-Range", '"other"')]),
    Step("absent", "/absent.mp4"),
    Step("absent again", "/absent.mp4"),
    part("three seconds later", "/video.mp4", "0-99", after=3.1),
    Step("an image three seconds later", "/poster.jpg"),
    Step("absent three seconds later", "/absent.mp4"),
    Step("stored, and the origin fails", "/poster.jpg", origin="down"),
    part("a stored part, and the origin fails", "/video.mp4", "0-99"),
    Step("not stored, and the origin fails", "/new.jpg"),
]

ALLOWED = {
    "nginx": [
        (r"field accept-ranges: nginx \[\]", "nginx with `slice` leaves `Accept-Ranges` out of a 206"),
        (r"the end: requests at the origin", "Larder knows the length from earlier slices: it asks for the last slice up to the last byte"),
        (r"behind the end: requests at the origin: .* Larder \[\]", "and it answers a range behind the end itself"),
        (
            r"^(whole first|an image|another query is another file|absent|not stored, and the origin fails): requests at the origin",
            "a request without `Range` is one request without `Range` at Larder's origin; nginx makes one for each slice",
        ),
    ],
    "squid": [
        (
            r"^(first bytes|over two slices|the end|the rest from the middle): requests at the origin",
            "Squid fetches the whole file for the first range; Larder fetches the slices that the client reads",
        ),
        (r"^behind the end: ", "Squid answers a range behind the end with the whole file; Larder with 416"),
        (
            r"^absent three seconds later: (field age|requests at the origin)",
            "`negative_ttl` is not for responses that state a lifetime, as this 404 does",
        ),
    ],
    "varnish": [
        (
            r"^conditional.*field (accept-ranges|content-type|server): varnish .*, Larder \[\]",
            "Larder's 304 has the fields that RFC 9110 lists for a 304, and no others",
        ),
        (
            r"^(first bytes|over two slices|the end|the rest from the middle): requests at the origin",
            "Varnish fetches the whole file for the first range; Larder fetches the slices that the client reads",
        ),
        (r"behind the end: field", "Larder's 416 has no fields of the file"),
    ],
}
