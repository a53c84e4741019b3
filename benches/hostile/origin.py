"""An HTTP origin: GET /BYTES/anything is an object of that size that may be cached; a POST is read and answered.

GET /never/anything has no answer.
"""

import asyncio

#: A pool of two servers: of a pool, those that fail are left out.
PORTS = (8000, 8001)
FILLER = bytes(range(256)) * 256


async def _serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.split("\r\n")
            method, target, _ = lines[0].split(" ", 2)
            fields = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:])}
            await _read_body(reader, fields)
            if target.startswith("/never/"):
                await reader.read()
                return
            if method == "GET":
                await _object(writer, target)
            else:
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncache-control: no-store\r\n\r\nok")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        pass
    finally:
        writer.close()


async def _read_body(reader, fields):
    if "chunked" in fields.get("transfer-encoding", ""):
        while (size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)) > 0:
            await reader.readexactly(size + 2)
        await reader.readuntil(b"\r\n")
    else:
        left = int(fields.get("content-length", "0"))
        while left > 0:
            piece = await reader.readexactly(min(left, 65536))
            left -= len(piece)


async def _object(writer, target):
    size = int(target.split("/")[1])
    writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\ncache-control: max-age=86400\r\netag: \"{size}\"\r\n\r\n".encode())
    while size > 0:
        piece = FILLER[:min(size, len(FILLER))]
        writer.write(piece)
        size -= len(piece)
        await writer.drain()


async def _run(address):
    servers = [await asyncio.start_server(_serve, address, port, limit=1 << 17, backlog=4096) for port in PORTS]
    await asyncio.gather(*(server.serve_forever() for server in servers))


def run(address):
    asyncio.run(_run(address))
