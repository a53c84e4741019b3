"""origin.py ADDRESS PORT: an origin that counts. GET /SIZE/ID is a page of SIZE bytes that begins with its path; it has a strong entity
tag, is fresh for an hour, and may be asked for from a byte on. GET /-/counts is what it has answered so far, as JSON."""

import asyncio
import json
import sys

BLOCK = bytes(range(32, 127)) * 50_000
COUNTS = {"pages": 0, "confirmed": 0, "bytes": 0}


def page(path, size):
    """The body of a page."""
    head = path.encode() + b"\n"
    return head[:size] + BLOCK[: max(0, size - len(head))]


def answer(head):
    lines = head.decode("latin-1").split("\r\n")
    path = lines[0].split(" ")[1]
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if path == "/-/counts":
        body = json.dumps(COUNTS).encode()
        return b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    try:
        size, name = path[1:].split("/", 1)
        body = page(path, min(int(size), len(BLOCK)))
    except ValueError:
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    etag = f'"{size}-{name}"'
    common = f"ETag: {etag}\r\nCache-Control: max-age=3600\r\nSurrogate-Key: page-{name}\r\n"
    if fields.get("if-none-match") == etag:
        COUNTS["confirmed"] += 1
        return f"HTTP/1.1 304 Not Modified\r\n{common}\r\n".encode()
    status, first = "200 OK", 0
    asked = fields.get("range", "")
    if asked.startswith("bytes=") and asked.endswith("-") and fields.get("if-range", etag) == etag and 0 < int(asked[6:-1]) < len(body):
        first = int(asked[6:-1])
        status, common = "206 Partial Content", common + f"Content-Range: bytes {first}-{len(body) - 1}/{len(body)}\r\n"
    COUNTS["pages"] += 1
    COUNTS["bytes"] += len(body) - first
    return f"HTTP/1.1 {status}\r\n{common}Content-Length: {len(body) - first}\r\n\r\n".encode() + body[first:]


class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.received = transport, b""

    def data_received(self, data):
        self.received += data
        while (end := self.received.find(b"\r\n\r\n")) >= 0:
            head, self.received = self.received[:end], self.received[end + 4 :]
            self.transport.write(answer(head))


async def main():
    server = await asyncio.get_running_loop().create_server(Connection, sys.argv[1], int(sys.argv[2]), backlog=512)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
