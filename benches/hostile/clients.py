"""The other clients: they ask at a fixed rate all the time, and count what was answered within their patience.

Each class has two counters that other processes read: requests that began, and requests that were answered.
"""

import asyncio
import itertools
import os
import random
import socket
import time

import wire

#: What an NDN client or a browser's user waits for.
PATIENCE_S = 2.0

#: Requests per second of each class. Hits, in memory and on disk, count only if the node did not fetch the object again.
RATES = {
    "http-hit": 200,
    "http-disk": 10,
    "http-miss": 40,
    "http-upload": 5,
    "ndn-unix": 100,
    "ndn-tcp": 100,
    "ndn-udp": 100,
    "ndn-websocket": 50,
    "ndn-newcomer": 4,
    "ndn-returning": 2,
    "ndn-new-tcp": 4,
    "ndn-new-websocket": 4,
}

#: Objects that the disk tier holds and memory does not.
DISK_OBJECTS = 400
DISK_BYTES = 200_000

#: Neighbours that were heard and are silent for so long before they ask again.
SILENCE_S = 12


class Counters:
    def __init__(self, context):
        self.asked = {kind: context.Value("Q", 0) for kind in RATES}
        self.answered = {kind: context.Value("Q", 0) for kind in RATES}

    def read(self):
        return {kind: (self.asked[kind].value, self.answered[kind].value) for kind in RATES}


async def _paced(kind, counters, ask):
    """Calls `ask` at the rate of its class; one that is late or fails does not hold back the next."""
    period, due = 1 / RATES[kind], time.monotonic()
    tasks = set()

    async def one(number):
        try:
            async with asyncio.timeout(PATIENCE_S):
                if await ask(number):
                    counters.answered[kind].value += 1
        except (TimeoutError, OSError, asyncio.IncompleteReadError, ValueError):
            pass

    for number in itertools.count():
        due += period
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        counters.asked[kind].value += 1
        task = asyncio.create_task(one(number))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


class HttpPool:
    """Connections that are kept; one that was used when its request failed is closed."""

    def __init__(self, address, port):
        self.address, self.port, self.idle = address, port, []

    async def exchange(self, request):
        """Sends a request; returns the status and the bytes of the body."""
        again = bool(self.idle)
        connection = self.idle.pop() if self.idle else await asyncio.open_connection(self.address, self.port)
        try:
            return await self._exchange(connection, request)
        except (ConnectionError, asyncio.IncompleteReadError):
            connection[1].close()
            if not again:
                raise
        # The server may close an idle connection at any time.
        return await self._exchange(await asyncio.open_connection(self.address, self.port), request)

    async def _exchange(self, connection, request):
        reader, writer = connection
        done = False
        try:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.split("content-length:")[1].split("\r\n")[0])
            left = length
            while left > 0:
                piece = await reader.read(min(left, 1 << 16))
                if not piece:
                    raise asyncio.IncompleteReadError(b"", left)
                left -= len(piece)
            done = "connection: close" not in head
            return int(head.split(" ", 2)[1]), length, "larder; hit" in head
        finally:
            if done:
                self.idle.append(connection)
            else:
                writer.close()


def get(target, *fields):
    lines = "".join(f"{field}\r\n" for field in fields)
    return f"GET {target} HTTP/1.1\r\nhost: example.test\r\n{lines}\r\n".encode()


def disk_target(number):
    return f"/{DISK_BYTES}/disk-{number % DISK_OBJECTS}"


async def _http(address, port, counters):
    pool = HttpPool(address, port)
    run = os.getpid()
    body = b"u" * 20_000
    post = f"POST /upload HTTP/1.1\r\nhost: example.test\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    order = random.Random(1)

    def asks(target, size, hit=True):
        async def ask(number):
            return await pool.exchange(get(target(number))) == (200, size, hit)
        return ask

    async def upload(_):
        return (await pool.exchange(post))[0] == 200

    await asyncio.gather(
        _paced("http-hit", counters, asks(lambda number: f"/10000/hit-{number % 20}", 10_000)),
        _paced("http-miss", counters, asks(lambda number: f"/1000/miss-{run}-{number}", 1000, hit=False)),
        _paced("http-disk", counters, asks(lambda _: disk_target(order.randrange(DISK_OBJECTS)), DISK_BYTES)),
        _paced("http-upload", counters, upload),
    )


class Stream:
    """An NDN application on a stream, which connects again when its connection is gone."""

    def __init__(self, connect, websocket=False):
        self.connect, self.websocket = connect, websocket
        self.pending, self.writer, self.connecting = {}, None, asyncio.Lock()

    async def ask(self, name):
        async with self.connecting:
            if self.writer is None or self.writer.is_closing():
                reader, self.writer = await self.connect()
                asyncio.create_task(self._read(reader, self.writer))
        answer = asyncio.get_running_loop().create_future()
        self.pending[name] = answer
        packet = wire.interest(name)
        try:
            self.writer.write(wire.websocket_frame(packet) if self.websocket else packet)
            return await answer
        finally:
            self.pending.pop(name, None)

    async def _read(self, reader, writer):
        data = b""
        try:
            while piece := await reader.read(1 << 16):
                data += piece
                while (found := self._packet(data)) is not None:
                    packet, data = found
                    answer = self.pending.get(wire.answered_name(packet))
                    if answer and not answer.done():
                        answer.set_result(True)
        except ConnectionError:
            pass
        finally:
            writer.close()

    def _packet(self, data):
        if not self.websocket:
            found = wire.read_element(data)
            return found and (data[:found[2]], data[found[2]:])
        if len(data) < 4:
            return None
        length, at = data[1] & 127, 2
        if length == 126:
            length, at = int.from_bytes(data[2:4], "big"), 4
        return (data[at:at + length], data[at + length:]) if len(data) >= at + length else None


class Datagrams(asyncio.DatagramProtocol):
    """An NDN application on a UDP socket."""

    def __init__(self):
        self.pending = {}

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, _):
        answer = self.pending.get(wire.answered_name(data))
        if answer and not answer.done():
            answer.set_result(True)

    def error_received(self, _):
        pass

    async def ask(self, name, tries=1):
        answer = asyncio.get_running_loop().create_future()
        self.pending[name] = answer
        try:
            for _ in range(tries):
                self.transport.sendto(wire.interest(name))
                try:
                    return await asyncio.wait_for(asyncio.shield(answer), PATIENCE_S / tries * 0.9)
                except TimeoutError:
                    pass
            return False
        finally:
            self.pending.pop(name, None)


async def datagrams(target, source=None):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.bind((source or "0.0.0.0", 0))
    sock.connect(target)
    _, protocol = await asyncio.get_running_loop().create_datagram_endpoint(Datagrams, sock=sock)
    return protocol


async def _ndn(node, counters):
    ping = itertools.count()

    def fresh():
        return wire.name(b"victim", b"ping", f"{os.getpid()}-{next(ping)}".encode())

    async def tcp():
        return await asyncio.open_connection(node["address"], node["tcp"])

    async def unix():
        return await asyncio.open_unix_connection(node["unix"])

    async def websocket():
        reader, writer = await asyncio.open_connection(node["address"], node["websocket"])
        writer.write(wire.websocket_request(f"{node['address']}:{node['websocket']}"))
        await reader.readuntil(b"\r\n\r\n")
        return reader, writer

    udp = (node["address"], node["udp"])
    neighbour = await datagrams(udp)

    async def newcomer(number):
        """A peer from a network that was never heard sends twice or thrice, as applications do."""
        peer = await datagrams(udp, f"10.96.{number % 250}.{1 + number // 250 % 250}")
        try:
            return await peer.ask(fresh(), tries=3)
        finally:
            peer.transport.close()

    # Neighbours that exchange something, are silent, and come back, one after the other.
    returning = [await datagrams(udp, f"10.97.{number}.1") for number in range(RATES["ndn-returning"] * SILENCE_S)]

    async def returns(number):
        return await returning[number % len(returning)].ask(fresh(), tries=2)

    def new_connection(websocket):
        """A client from a network that was never heard connects, asks once and leaves."""
        async def ask(number):
            source = f"10.97.{number % 250}.{101 + number // 250 % 100}"

            async def connect():
                port = node["websocket" if websocket else "tcp"]
                reader, writer = await asyncio.open_connection(node["address"], port, local_addr=(source, 0))
                if websocket:
                    writer.write(wire.websocket_request(f"{node['address']}:{port}"))
                    await reader.readuntil(b"\r\n\r\n")
                return reader, writer

            stream = Stream(connect, websocket)
            try:
                return await stream.ask(fresh())
            finally:
                if stream.writer:
                    stream.writer.close()
        return ask

    def over(stream):
        async def ask(_):
            return await stream.ask(fresh())
        return ask

    async def over_udp(_):
        return await neighbour.ask(fresh())

    await asyncio.gather(
        _paced("ndn-unix", counters, over(Stream(unix))),
        _paced("ndn-tcp", counters, over(Stream(tcp))),
        _paced("ndn-websocket", counters, over(Stream(websocket, websocket=True))),
        _paced("ndn-udp", counters, over_udp),
        _paced("ndn-newcomer", counters, newcomer),
        _paced("ndn-returning", counters, returns),
        _paced("ndn-new-tcp", counters, new_connection(False)),
        _paced("ndn-new-websocket", counters, new_connection(True)),
    )


def run_http(node, counters):
    asyncio.run(_http(node["address"], node["http"], counters))


def run_ndn(node, counters):
    asyncio.run(_ndn(node, counters))
