#!/usr/bin/env python3
"""An origin for fetch.py: pages that may be stored, a large one, and one that says what it got by POST."""

import http.server
import sys
import time

LARGE = bytes(range(256)) * 12000


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body, lifetime="max-age=600"):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", lifetime)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        if self.path.startswith("/page"):
            self.answer(200, b"page " + self.path.encode())
        elif self.path.startswith("/large"):
            self.answer(200, LARGE)
        elif self.path.startswith("/slow"):
            self.send_response(200)
            self.send_header("Content-Length", "200000")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            for _ in range(20):
                self.wfile.write(bytes(10000))
                time.sleep(0.2)
        else:
            self.answer(404, b"nothing\n", "no-store")

    do_HEAD = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(200, b"%d " % len(body) + body[:5], "no-store")

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Origin).serve_forever()
