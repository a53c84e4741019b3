"""origin.py PORT: an origin of which some responses may not be stored, and whose fields are hostile text."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOSTILE = "<img src=x onerror=alert(1)>"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b"x" * (1000 + 500 * (sum(map(ord, self.path)) % 40))
        self.send_response(200)
        if "private" in self.path:
            self.send_header("Set-Cookie", "session=1")
        else:
            self.send_header("Cache-Control", "max-age=600")
        self.send_header("ETag", f'"{HOSTILE}"')
        self.send_header("Surrogate-Key", "page")
        if "/kind/" in self.path:
            self.send_header("Vary", "User-Agent")
        self.send_header("Content-Type", f"text/html; {HOSTILE}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
