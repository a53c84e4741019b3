#!/usr/bin/env python3
"""fetch.py CLIENT PORT: fetches a miss, a hit, a large body, a POST, a HEAD and a 404 by HTTP/3, with the library CLIENT:
curl_cffi (libcurl over ngtcp2), niquests (qh3) or aioquic. "slow" fetches one
response that takes four seconds, with aioquic."""

import asyncio
import ssl
import sys
import time

LARGE = bytes(range(256)) * 12000


def by_curl(port):
    from curl_cffi import CurlHttpVersion, requests

    session = requests.Session()

    def ask(method, path, body=None):
        answer = session.request(method, f"https://localhost:{port}{path}", data=body, http_version=CurlHttpVersion.V3ONLY, verify=False, timeout=30)
        assert answer.http_version in (3, 30, CurlHttpVersion.V3ONLY), answer.http_version
        return answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.content

    return ask


def by_niquests(port):
    import niquests

    session = niquests.Session()
    session.quic_cache_layer.add_domain("localhost", port)

    def ask(method, path, body=None):
        answer = session.request(method, f"https://localhost:{port}{path}", data=body, verify=False, timeout=30)
        assert answer.http_version == 30, answer.http_version
        return answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.content

    return ask


def by_aioquic(port):
    from aioquic.asyncio.client import connect
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.h3.connection import H3_ALPN, H3Connection
    from aioquic.h3.events import DataReceived, HeadersReceived
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.events import ConnectionTerminated

    class Client(QuicConnectionProtocol):
        def __init__(self, *arguments, **named):
            super().__init__(*arguments, **named)
            self.http, self.open = H3Connection(self._quic), {}
            self.lost = asyncio.get_running_loop().create_future()

        def quic_event_received(self, event):
            if isinstance(event, ConnectionTerminated) and not self.lost.done():
                self.lost.set_result(event)
            for event in self.http.handle_event(event):
                headers, body, done = self.open[event.stream_id]
                if isinstance(event, HeadersReceived):
                    headers += event.headers
                elif isinstance(event, DataReceived):
                    body += event.data
                if event.stream_ended and not done.done():
                    done.set_result(None)

        async def ask(self, method, path, body):
            stream = self._quic.get_next_available_stream_id()
            self.open[stream] = ([], bytearray(), asyncio.get_running_loop().create_future())
            fields = [(":method", method), (":scheme", "https"), (":authority", f"localhost:{port}"), (":path", path)]
            if body is not None:
                fields.append(("content-length", str(len(body))))
            self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in fields], end_stream=body is None)
            if body is not None:
                self.http.send_data(stream, body, end_stream=True)
            self.transmit()
            headers, answer, done = self.open[stream]
            await asyncio.wait_for(asyncio.wait((done, self.lost), return_when=asyncio.FIRST_COMPLETED), 30)
            assert done.done(), f"the connection ended before the response: {self.lost.result()}"
            named = {name.decode(): value.decode() for name, value in headers}
            return int(named[":status"]), named, bytes(answer)

    def ask(method, path, body=None):
        async def once():
            configuration = QuicConfiguration(alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE, server_name="localhost")
            async with connect("127.0.0.1", port, configuration=configuration, create_protocol=Client) as client:
                return await client.ask(method, path, body)

        return asyncio.run(once())

    return ask


def main():
    client, port = sys.argv[1], int(sys.argv[2])
    if client == "slow":
        status, _, body = by_aioquic(port)("GET", "/slow")
        assert (status, len(body)) == (200, 200000), (status, len(body))
        return
    ask = {"curl_cffi": by_curl, "niquests": by_niquests, "aioquic": by_aioquic}[client](port)
    page = f"/page/{client}/{time.time_ns()}"
    status, head, body = ask("GET", page)
    assert (status, body) == (200, b"page " + page.encode()), (status, body)
    assert "fwd=uri-miss" in head["cache-status"], head
    status, head, again = ask("GET", page)
    assert (status, again) == (200, body) and "hit" in head["cache-status"], head
    for _ in range(2):
        status, _, large = ask("GET", f"/large/{client}")
        assert status == 200 and large == LARGE, (status, len(large))
    status, _, answer = ask("POST", "/form", b"hello" * 50000)
    assert (status, answer) == (200, b"250000 hello"), (status, answer)
    # aioquic 1.7.2 compares the length of an answer to HEAD with that of its body.
    if client != "aioquic":
        status, head, nothing = ask("HEAD", page)
        assert (status, nothing) == (200, b"") and head["content-length"] == str(len(body)), head
    status, _, answer = ask("GET", "/nothing")
    assert (status, answer) == (404, b"nothing\n"), (status, answer)


main()
