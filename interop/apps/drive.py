#!/usr/bin/env python3
"""Uses an application (flask/app.py or express/app.mjs) through Larder, as browsers and programs do, and checks what comes.

  drive.py URL CHECK...        sessions, caching, events, upload, websocket
  --events 50 --every 0.2      how many server-sent events, and the seconds between them
  --upload 4 --rate 4          MB, and MB each second"""

import argparse
import hashlib
import http.client
import http.cookies
import json
import os
import random
import threading
import time
import urllib.parse
import uuid

CHUNK = 1 << 16


class Client:
    """A client with cookies, on one connection."""

    def __init__(self, base):
        self.host = urllib.parse.urlsplit(base).netloc
        self.connection = http.client.HTTPConnection(self.host, timeout=60)
        self.cookies = {}

    def cookie(self):
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    def ask(self, method, target, body=None, **fields):
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        if self.cookies:
            fields["Cookie"] = self.cookie()
        self.connection.request(method, target, body, fields)
        response = self.connection.getresponse()
        content = response.read()
        for line in response.headers.get_all("Set-Cookie", []):
            for name, morsel in http.cookies.SimpleCookie(line).items():
                self.cookies[name] = morsel.value
        return response, content

    def text(self, method, target, body=None, **fields):
        response, content = self.ask(method, target, body, **fields)
        return response.status, content.decode()


def is_hit(response):
    return response.headers.get("Cache-Status", "").startswith("larder; hit")


def same(seen, expected):
    assert seen == expected, f"expected {expected!r}, not {seen!r}"


def sessions(base, _):
    """Two people log in; each sees only the own page, with a count that shows that each request reached the application."""
    people = {name: Client(base) for name in ("ada", "grace")}
    nobody = Client(base)
    for name, client in people.items():
        response, _ = client.ask("POST", "/login", f"name={name}", Content_Type="application/x-www-form-urlencoded")
        same((response.status, response.headers["Location"]), (303, "/me"))
        assert client.cookies, "no session cookie came"
    for visit in range(1, 4):
        for name, client in people.items():
            same(client.text("GET", "/me"), (200, f"{name} {visit}"))
        same(nobody.text("GET", "/me"), (401, "nobody"))
    same(people["ada"].text("POST", "/logout")[0], 204)
    same(people["ada"].text("GET", "/me"), (401, "nobody"))
    same(people["grace"].text("GET", "/me"), (200, "grace 4"))


def caching(base, _):
    """What the application allows to be stored is stored for all, and a file is served in parts and by validators."""
    first, second = Client(base), Client(base)
    same(first.text("GET", "/public"), (200, "page 1"))
    response, content = second.ask("GET", "/public")
    same((content, is_hit(response)), (b"page 1", True))
    first.ask("GET", "/static/page.js")
    response, whole = second.ask("GET", "/static/page.js")
    assert is_hit(response), response.headers["Cache-Status"]
    response, part = second.ask("GET", "/static/page.js", Range="bytes=3-9")
    same((response.status, part, is_hit(response)), (206, whole[3:10], True))
    tag = response.headers["ETag"]
    response, content = second.ask("GET", "/static/page.js", If_None_Match=tag)
    same((response.status, content, is_hit(response)), (304, b"", True))


def events(base, options):
    """Server-sent events. The application sends the next event when this client has acknowledged the last one."""
    listener, teller, name = Client(base), Client(base), uuid.uuid4().hex
    listener.connection.request("GET", f"/events/{name}?count={options.events}&every={options.every}", headers={"Accept": "text/event-stream"})
    response = listener.connection.getresponse()
    same((response.status, response.headers["Content-Type"].split(";")[0]), (200, "text/event-stream"))
    for number in range(options.events):
        lines = [response.readline() for _ in range(3)]
        same(lines, [f"id: {number}\n".encode(), f"data: event {number}\n".encode(), b"\n"])
        same(teller.ask("POST", f"/acknowledge/{name}/{number}")[0].status, 204)
    same(response.read(), b"")


def upload(base, options):
    """A body that comes slowly. Half of it has reached the application before the second half is sent."""
    client = Client(base)
    content = random.Random(7).randbytes(1 << 20) * options.upload
    for framed in ("length", "chunked"):
        name = uuid.uuid4().hex
        begun = time.monotonic()

        def body():
            for place in range(0, len(content), CHUNK):
                yield content[place : place + CHUNK]
                if place == len(content) // 2 // CHUNK * CHUNK:
                    while int(Client(base).text("GET", f"/uploaded/{name}")[1]) < place // 2:
                        time.sleep(0.05)
                time.sleep(max(0, begun + place / (options.rate * 1e6) - time.monotonic()))

        fields = {"Content-Type": "application/octet-stream"}
        if framed == "length":
            fields["Content-Length"] = str(len(content))
        client.connection.request("POST", f"/upload/{name}", body(), fields, encode_chunked=framed == "chunked")
        response = client.connection.getresponse()
        same((response.status, json.loads(response.read())), (200, {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}))


def websocket(base, options):
    """Messages of all lengths on 20 connections at once, some with a session; and the end of a connection from both sides."""
    from websockets.sync.client import connect

    person = Client(base)
    person.ask("POST", "/login", "name=ada", Content_Type="application/x-www-form-urlencoded")
    problems = []

    def talk(number):
        try:
            fields = {"Cookie": person.cookie()} if number % 2 else {}
            draw = random.Random(number)
            with connect(base.replace("http", "ws", 1) + "/echo", additional_headers=fields, max_size=None, compression=None) as ws:
                same(ws.recv(20), "hello ada" if number % 2 else "hello nobody")
                for length in (0, 1, 125, 126, 65535, 65536, 300_000):
                    message = draw.randbytes(length)
                    ws.send(message)
                    same(ws.recv(20) == message, True)
                ws.send("text äöü")
                same(ws.recv(20), "text äöü")
                assert ws.ping().wait(20), "no pong"
        except Exception as error:
            problems.append(f"connection {number}: {error!r}")

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(20)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not problems, problems


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("checks", nargs="+", choices=["sessions", "caching", "events", "upload", "websocket"])
    parser.add_argument("--events", type=int, default=50)
    parser.add_argument("--every", type=float, default=0.2)
    parser.add_argument("--upload", type=int, default=4)
    parser.add_argument("--rate", type=float, default=4)
    options = parser.parse_args()
    for check in options.checks:
        begun = time.monotonic()
        globals()[check](options.base, options)
        print(f"{check}: passed in {time.monotonic() - begun:.1f} s")
