#!/usr/bin/env python3
"""Sends 1,500 requests with a body to an nginx that ends each HTTP/2 connection after 20 requests.

nginx sends GOAWAY while further requests are on their way. It has not processed them, so they are sent again on another
connection (RFC 9113, section 8.7): each gets nginx' answer, and nginx processes each once."""

import concurrent.futures
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

REQUESTS, CLIENTS, BODY = 1500, 16, b"x" * 2000

NGINX = """
{user}pid {work}/nginx.pid;
daemon off;
worker_processes 1;
events {{}}
http {{
    log_format line "$request_uri $status";
    access_log {work}/access.log line;
    client_body_temp_path {work}/body; proxy_temp_path {work}/proxy; fastcgi_temp_path {work}/fastcgi;
    uwsgi_temp_path {work}/uwsgi; scgi_temp_path {work}/scgi;
    server {{ listen 127.0.0.1:{inner}; location / {{ return 200 "ok"; access_log off; }} }}
    server {{
        listen 127.0.0.1:{origin} http2;
        keepalive_requests 20;
        # Answers when the whole body is there.
        location / {{ proxy_pass http://127.0.0.1:{inner}; }}
    }}
}}
"""

LARDER = """
[admin]
listen = ""
[http]
listen = "127.0.0.1:{port}"
origin = "http://127.0.0.1:{origin}"
origin_protocol = "http2"
[ndn]
enabled = false
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def start(command, port, work):
    process = subprocess.Popen(command, cwd=work, stdin=subprocess.DEVNULL)
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process
        except ConnectionRefusedError:
            time.sleep(0.02)
    sys.exit(f"{command[0]} does not listen")


def upload(port, numbers):
    client, wrong = http.client.HTTPConnection("127.0.0.1", port, timeout=30), []
    for number in numbers:
        client.request("POST", f"/{number}", BODY)
        answer = client.getresponse()
        body = answer.read()
        if (answer.status, body) != (200, b"ok"):
            wrong.append((number, answer.status, body[:80]))
    return wrong


def main():
    port, origin, inner = free_port(), free_port(), free_port()
    with tempfile.TemporaryDirectory() as work:
        values = {"port": port, "origin": origin, "inner": inner, "work": work, "user": "user root;\n" if os.getuid() == 0 else ""}
        for name, text in [("nginx.conf", NGINX), ("larder.toml", LARDER)]:
            with open(f"{work}/{name}", "w") as file:
                file.write(text.format(**values))
        nginx = start(["nginx", "-e", f"{work}/error.log", "-p", work, "-c", f"{work}/nginx.conf"], origin, work)
        node = start([os.path.realpath(os.environ["LARDER"]), "run", f"{work}/larder.toml"], port, work)
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            parts = [pool.submit(upload, port, range(first, REQUESTS, CLIENTS)) for first in range(CLIENTS)]
            wrong = [one for part in parts for one in part.result()]
        for process in (node, nginx):
            process.send_signal(signal.SIGTERM)
            process.wait()
        with open(f"{work}/access.log") as log:
            served = [line.split()[0] for line in log if line.split()[1] == "200"]
    print(f"{len(wrong)} of {REQUESTS} uploads failed; nginx processed {len(served)}, {len(set(served))} different ones")
    for one in wrong[:10]:
        print(*one)
    sys.exit(1 if wrong or len(served) != len(set(served)) or len(set(served)) != REQUESTS else 0)


main()
