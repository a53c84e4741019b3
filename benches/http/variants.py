"""Times requests for different variants of one URL, through Larder, nginx and Varnish.

    benches/http/variants.py --larder target/dist/larder

An origin takes one second to the first byte of a response with `Vary: Cookie`. First ten visitors
with ten cookies ask at once; then 80 visitors with 80 cookies ask, 20 a second; then one visitor asks
for what is stored by then, while a stranger asks with a new cookie 20 times a second. Each cache has
a new URL for each part. The table has the mean and the longest time in seconds, and the requests
that the origin got. nginx and Varnish stand in the table if they are installed. Ends with exit
status 1 if a request of Larder waits for more than the first response.
"""

import argparse
import http.client
import http.server
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ORIGIN_SECONDS = 1.0
# Larder learns from the first response that there are variants: requests that come before it wait
# for it, and then ask the origin, all at once. None waits for a third response.
MOST_SECONDS = 2.5 * ORIGIN_SECONDS

LARDER = """
[admin]
listen = ""
[http]
listen = "127.0.0.1:{port}"
origin = "http://127.0.0.1:{origin}"
[ndn]
enabled = false
"""

NGINX = """
{user}pid {work}/nginx.pid;
daemon off;
worker_processes 1;
events {{}}
http {{
    access_log off;
    client_body_temp_path {work}/body; proxy_temp_path {work}/proxy; fastcgi_temp_path {work}/fastcgi;
    uwsgi_temp_path {work}/uwsgi; scgi_temp_path {work}/scgi;
    proxy_cache_path {work}/cache keys_zone=pages:10m;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_cache pages; proxy_pass http://127.0.0.1:{origin}; }}
    }}
}}
"""

# Without this, Varnish passes every request with a cookie.
VARNISH = """
vcl 4.1;
backend default {{ .host = "127.0.0.1"; .port = "{origin}"; }}
sub vcl_recv {{ return (hash); }}
"""


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests, lock = 0, threading.Lock()

    def do_GET(self):
        with Page.lock:
            Page.requests += 1
        time.sleep(ORIGIN_SECONDS)
        self.send_response(200)
        for name, value in [("cache-control", "public, max-age=60"), ("vary", "Cookie"), ("content-length", "4")]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"page")

    def log_message(self, *_):
        pass


class Origin(http.server.ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Cache:
    def __init__(self, name, command, port, work):
        self.name, self.port, self.log = name, port, f"{work}/{name}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, cwd=work, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.02)
        raise SystemExit(f"{name} does not listen: {open(self.log).read()}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def ask(self, target, cookie):
        """Returns the seconds that a request takes."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        begun = time.monotonic()
        client.request("GET", target, headers={"host": "example.test", "cookie": f"visitor={cookie}"})
        answer = client.getresponse()
        body, took = answer.read(), time.monotonic() - begun
        client.close()
        if (answer.status, body) != (200, b"page"):
            raise SystemExit(f"{self.name} answers with {answer.status}: {body!r}")
        return took

    def ask_at(self, times, target, cookies):
        """Sends a request with each cookie at its time. Returns what each took."""
        took, begun = [0.0] * len(times), time.monotonic()

        def one(number):
            time.sleep(max(0.0, begun + times[number] - time.monotonic()))
            took[number] = self.ask(target, cookies[number])

        threads = [threading.Thread(target=one, args=(number,)) for number in range(len(times))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return took


def start(name, larder, work, origin):
    port = free_port()

    def file(path, text):
        with open(f"{work}/{path}", "w") as out:
            out.write(text.format(port=port, origin=origin, work=work, user="user root;\n" if os.getuid() == 0 else ""))
        return f"{work}/{path}"

    if name == "larder":
        return Cache(name, [larder, "run", file("larder.toml", LARDER)], port, work)
    if name == "nginx":
        return Cache(name, ["nginx", "-e", f"{work}/error.log", "-p", work, "-c", file("nginx.conf", NGINX)], port, work)
    folder, vcl = f"{work}/varnish", file("site.vcl", VARNISH)
    return Cache(name, ["varnishd", "-F", "-n", folder, "-a", f"127.0.0.1:{port}", "-f", vcl, "-s", "default,64m"], port, work)


def parts(cache):
    """Yields each part's name and what its requests took."""
    yield "10 at once", cache.ask_at([0.0] * 10, "/at-once", range(10))
    yield "80, 20 a second", cache.ask_at([number / 20 for number in range(80)], "/in-turn", range(80))
    cache.ask("/stored", "visitor")
    stranger = threading.Thread(
        target=cache.ask_at, args=([number / 20 for number in range(60)], "/stored", [f"random-{number}" for number in range(60)])
    )
    stranger.start()
    yield "stored, beside a stranger", cache.ask_at([0.5 + number / 20 for number in range(40)], "/stored", ["visitor"] * 40)
    stranger.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--larder", required=True, help="the binary")
    parser.add_argument("--before", help="another binary, for comparison")
    arguments = parser.parse_args()
    server = Origin(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    caches = [("larder", arguments.larder)] + [("larder", arguments.before)] * bool(arguments.before)
    caches += [(name, name) for name, program in [("nginx", "nginx"), ("varnish", "varnishd")] if shutil.which(program)]
    waited = False
    print(f"{'':30} {'requests':26} {'mean':>7} {'longest':>8} {'origin':>7}")
    for name, program in caches:
        Page.requests = 0
        with tempfile.TemporaryDirectory() as work:
            # Varnish reads its configuration as a user of its own.
            os.chmod(work, 0o755)
            cache = start(name, program, work, server.server_address[1])
            for part, took in parts(cache):
                got, Page.requests = Page.requests, 0
                print(f"{program[-30:]:30} {part:26} {statistics.mean(took):7.2f} {max(took):8.2f} {got:7}", flush=True)
                waited |= program == arguments.larder and max(took) > MOST_SECONDS
            cache.stop()
    server.shutdown()
    sys.exit(1 if waited else 0)


main()
