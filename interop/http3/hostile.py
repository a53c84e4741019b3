#!/usr/bin/env python3
"""hostile.py PORT PID: sends a node what no library sends, with aioquic, and watches the memory of its process: a head of a
gigabyte, a frame of an unknown type without end, the same on the control stream, references to a dynamic table, and
transport parameters that are malformed. After each, another client is served."""

import asyncio
import ssl
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import Buffer, encode_uint_var
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived
from aioquic.quic import connection as quic_connection
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StopSendingReceived

PORT, PID = int(sys.argv[1]), int(sys.argv[2])
SENT = 24 << 20
ALLOWED = 12 << 20
# The head of GET / with the static table only.
HEAD = bytes([0, 0, 0xD1, 0xD7, 0x50, 9]) + b"localhost" + bytes([0xC1])


def memory():
    with open(f"/proc/{PID}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


def frame(kind, payload):
    return encode_uint_var(kind) + encode_uint_var(len(payload)) + payload


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.closed, self.stopped, self.data = None, set(), {}
        self.http = None

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.closed = event.error_code
        if isinstance(event, StopSendingReceived):
            self.stopped.add(event.stream_id)
        if self.http is not None:
            for event in self.http.handle_event(event):
                if isinstance(event, DataReceived):
                    self.data[event.stream_id] = event.stream_ended

    async def flood(self, stream, start):
        """Sends without end, as the server allows it."""
        self._quic.send_stream_data(stream, start)
        sent = 0

        def is_over():
            # A stream that has ended in both directions is forgotten.
            return self.closed is not None or stream in self.stopped or stream not in self._quic._streams

        while sent < SENT and not is_over():
            self._quic.send_stream_data(stream, bytes(65536))
            sent += 65536
            self.transmit()
            for _ in range(1000):
                if is_over() or len(self._quic._streams[stream].sender._buffer) <= 1 << 18:
                    break
                await asyncio.sleep(0.002)
        return sent


def configuration():
    return QuicConfiguration(alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE, server_name="localhost", idle_timeout=20)


def client():
    return connect("127.0.0.1", PORT, configuration=configuration(), create_protocol=Client)


async def served():
    async with client() as one:
        one.http = H3Connection(one._quic)
        stream = one._quic.get_next_available_stream_id()
        one.http.send_headers(stream, [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", b"/page/x")], end_stream=True)
        one.transmit()
        for _ in range(500):
            if one.data.get(stream):
                return
            await asyncio.sleep(0.02)
        raise AssertionError("another client is not served")


async def bomb(what, start, is_uni=False):
    before = memory()
    async with client() as one:
        stream = one._quic.get_next_available_stream_id(is_unidirectional=is_uni)
        sent = await one.flood(stream, start)
        grown = memory() - before
        print(f"{what}: {sent >> 20} MiB sent, memory {grown >> 10:+} KiB, closed by {one.closed}, stopped {bool(one.stopped)}")
        assert grown < ALLOWED, what
    await served()


async def malformed(what, stream_bytes, code, is_uni=False):
    async with client() as one:
        stream = one._quic.get_next_available_stream_id(is_unidirectional=is_uni)
        one._quic.send_stream_data(stream, stream_bytes, end_stream=not is_uni)
        one.transmit()
        for _ in range(500):
            if one.closed is not None:
                break
            await asyncio.sleep(0.02)
        print(f"{what}: closed by {one.closed}")
        assert one.closed == code, what
    await served()


async def transport_parameters():
    """A handshake whose parameters name one twice, or are cut."""
    original = quic_connection.push_quic_transport_parameters
    for what, change in (("twice", lambda raw: raw + raw), ("cut", lambda raw: raw[:-1]), ("noise", lambda raw: b"\x40" * 40)):
        def push(buffer, parameters, change=change):
            own = Buffer(capacity=4096)
            original(own, parameters)
            buffer.push_bytes(change(own.data))

        quic_connection.push_quic_transport_parameters = push
        try:
            async with asyncio.timeout(10):
                async with client():
                    raise AssertionError(f"transport parameters {what} are accepted")
        except (ConnectionError, TimeoutError) as error:
            print(f"transport parameters {what}: {error!r}")
        finally:
            quic_connection.push_quic_transport_parameters = original
        await served()


async def main():
    await served()
    gigabyte = encode_uint_var(1 << 30)
    settings = bytes([0]) + frame(4, b"")
    await bomb("head of a gigabyte", encode_uint_var(1) + gigabyte)
    await bomb("unknown frame", encode_uint_var(0x21) + gigabyte)
    await bomb("unknown frame behind a head", frame(1, HEAD) + encode_uint_var(0x21) + gigabyte)
    await bomb("unknown frame on the control stream", settings + encode_uint_var(0x21) + gigabyte, is_uni=True)
    await bomb("settings of a gigabyte", bytes([0]) + encode_uint_var(4) + gigabyte, is_uni=True)
    await malformed("dynamic table in a head", frame(1, b"\x02\x00\x80"), 0x200)
    await malformed("entry 99 of the static table", frame(1, b"\x00\x00\xff\x24"), 0x200)
    await malformed("insertion by the encoder", bytes([2]) + b"\xc1\x01x", 0x201, is_uni=True)
    await malformed("acknowledgement by the decoder", bytes([3]) + b"\x80", 0x202, is_uni=True)
    await malformed("data before the head", frame(0, b"x"), 0x105)
    await transport_parameters()


asyncio.run(main())
