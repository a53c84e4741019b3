#!/usr/bin/env python3
"""acme.py PEBBLE CHALLTESTSRV FOLDER SCENARIO: drives a node against Pebble, the test authority of Let's Encrypt.

PEBBLE and CHALLTESTSRV are the programs, FOLDER has Pebble's test/certs. Each scenario starts an authority, its DNS server and one or
two nodes on free ports, and ends them. Prints what it found; ends with an assertion where the node does something else.
"""

import base64
import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

PEBBLE, CHALLTESTSRV, CERTS = sys.argv[1:4]
LARDER = os.environ["LARDER"]
SECONDS = 30
ANY = ssl.create_default_context()
ANY.check_hostname, ANY.verify_mode = False, ssl.CERT_NONE


def free_ports(count):
    """Ports below the range from which the kernel serves outgoing connections, free for TCP and UDP."""
    ports = set()
    while len(ports) < count:
        port = random.randrange(20000, 32768)
        with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            try:
                tcp.bind(("127.0.0.1", port))
                udp.bind(("127.0.0.1", port))
                ports.add(port)
            except OSError:
                pass
    return list(ports)


def wait_for(what, condition, seconds=SECONDS):
    """Returns what the condition returns, as soon as it is true."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if found := condition():
                return found
        except (OSError, http.client.HTTPException):
            pass
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)


class World:
    """What a scenario has started."""

    def __init__(self, work):
        self.work, self.processes = Path(work), []
        (self.pebble_port, self.management, self.dns, self.dns_management, *self.ports) = free_ports(20)
        self.pebble = None

    def start(self, name, command, **environment):
        log = open(self.work / f"{name}.log", "ab")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **environment})
        self.processes.append(process)
        return process

    def end(self, process, number=signal.SIGTERM):
        process.send_signal(number)
        return process.wait(timeout=20)

    def log(self, name):
        return (self.work / f"{name}.log").read_text(errors="replace")

    def start_dns(self):
        addresses = ["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""]
        unused = ["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]
        listen = ["-dnsserver", f"127.0.0.1:{self.dns}", "-management", f"127.0.0.1:{self.dns_management}"]
        self.start("dns", [CHALLTESTSRV, *addresses, *unused, *listen])
        wait_for("the DNS server", lambda: socket.create_connection(("127.0.0.1", self.dns_management)))

    def set_address(self, host, address):
        body = json.dumps({"host": host, "addresses": [address]}).encode()
        urllib.request.urlopen(f"http://127.0.0.1:{self.dns_management}/add-a", body).close()

    def start_pebble(self, http_port, tls_port, keys=None, seconds=False, **environment):
        config = {
            "listenAddress": f"127.0.0.1:{self.pebble_port}",
            "managementListenAddress": f"127.0.0.1:{self.management}",
            "certificate": f"{CERTS}/localhost/cert.pem",
            "privateKey": f"{CERTS}/localhost/key.pem",
            "httpPort": http_port,
            "tlsPort": tls_port,
            "externalAccountBindingRequired": keys is not None,
            "externalAccountMACKeys": keys or {},
            "retryAfter": {"authz": 1, "order": 1},
            "profiles": {
                "default": {"description": "90 days", "validityPeriod": 7776000},
                "shortlived": {"description": "6 days", "validityPeriod": 518400},
            },
        }
        # Pebble draws one of its profiles for an order that names none.
        if seconds:
            config["profiles"] = {"seconds": {"description": "20 seconds", "validityPeriod": 20}}
        path = self.work / "pebble.json"
        path.write_text(json.dumps({"pebble": config}))
        environment = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0", **environment}
        command = [PEBBLE, "-config", str(path), "-strict", "-dnsserver", f"127.0.0.1:{self.dns}"]
        self.pebble = self.start("pebble", command, **environment)
        wait_for("Pebble", lambda: self.ask_pebble("roots/0"))

    def ask_pebble(self, path, body=None):
        url = f"https://localhost:{self.management}/{path}"
        with urllib.request.urlopen(url, body, context=ANY, timeout=10) as response:
            return response.read().decode()

    def root(self):
        return self.ask_pebble("roots/0")


class Node:
    """A node in front of a generated origin, with ports of its own."""

    def __init__(self, world, name, hosts, folder=None, start=True, **keys):
        self.world, self.name, self.hosts = world, name, hosts
        self.http, self.https, self.admin = world.ports.pop(), world.ports.pop(), world.ports.pop()
        self.folder = folder or world.work / f"{name}.acme"
        # In the place of the file.
        self.arguments, self.process = None, None
        self.configure(**keys)
        if start:
            self.start()

    def configure(self, **keys):
        keys = {
            "hosts": self.hosts,
            "folder": str(self.folder),
            "directory": f"https://localhost:{self.world.pebble_port}/dir",
            "directory_ca": f"{CERTS}/pebble.minica.pem",
            **keys,
        }
        eab = keys.pop("eab", None)
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        if eab:
            lines.append(f'eab = {{ key_id = "{eab[0]}", hmac_file = "{eab[1]}" }}')
        self.file = self.world.work / f"{self.name}.toml"
        self.file.write_text(
            f"""[ndn]
enabled = false
[http]
listen = "127.0.0.1:{self.http}"
redirect_to_https = true
[http.tls]
listen = "127.0.0.1:{self.https}"
[admin]
listen = "127.0.0.1:{self.admin}"
[http.tls.acme]
"""
            + "\n".join(lines)
            + "\n"
        )

    def start(self, **environment):
        command = [LARDER, "run", *(self.arguments or [str(self.file)])]
        self.process = self.world.start(self.name, command, **environment)
        wait_for(f"node {self.name}", self.status)

    def stop(self):
        self.world.end(self.process)

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def status(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/status", timeout=5) as response:
            return json.load(response)

    def certificates(self):
        return {one["host"]: one for one in self.status()["http"]["certificates"]}

    def issued(self):
        return [host for host, one in self.certificates().items() if one["is_issued"]]

    def wait_issued(self, hosts=None, seconds=SECONDS):
        hosts = set(hosts or self.hosts)
        wait_for(f"certificates of {self.name}", lambda: hosts <= set(self.issued()), seconds)

    def connect(self, host, context):
        stream = socket.create_connection(("127.0.0.1", self.https), timeout=5)
        return context.wrap_socket(stream, server_hostname=host)

    def shown(self, host):
        """The certificate that a client of this host gets, in DER."""
        with self.connect(host, ANY) as stream:
            return stream.getpeercert(binary_form=True)

    def get(self, host, context=ANY):
        """Gets a page by HTTPS; verifies the certificate if the context does."""
        with self.connect(host, context) as stream:
            stream.sendall(f"GET /10/a HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
            return http_response(stream)

    def get_plain(self, path, host):
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=5)
        connection.request("GET", path, headers={"host": host})
        response = connection.getresponse()
        return response.status, response.read()

    def serves(self, hosts=None):
        """Asserts that all hosts are served, with whatever certificate."""
        for host in hosts or self.hosts:
            assert self.get(host) == 200, f"{host} is not served by HTTPS"
        assert self.get_plain("/10/a", self.hosts[0])[0] == 308, "HTTP is not redirected"

    def is_believed(self, hosts=None):
        """Asserts that a client which believes the authority alone accepts the certificates."""
        context = ssl.create_default_context(cadata=self.world.root())
        for host in hosts or self.hosts:
            assert self.get(host, context) == 200, host


def http_response(stream):
    response = http.client.HTTPResponse(stream)
    response.begin()
    response.read()
    return response.status


def serial(der):
    """The serial number, as openssl prints it."""
    text = ssl.DER_cert_to_PEM_cert(der)
    return subprocess.run(["openssl", "x509", "-noout", "-serial"], input=text, capture_output=True, text=True, check=True).stdout


def first(world):
    """First certificate by http-01, files, other tokens, a restart without an order, an upgrade, revocation and ARI."""
    node = Node(world, "node", ["a.test", "b.test"], start=False)
    # The authority takes its time to check a host.
    world.start_pebble(node.http, node.https, PEBBLE_VA_NOSLEEP="0", PEBBLE_VA_SLEEPTIME="2")
    node.start()
    node.wait_issued()
    node.is_believed()
    node.serves()
    assert node.get_plain("/.well-known/acme-challenge/other", "a.test")[0] == 404, "the token of the origin's own client does not pass"
    modes = {path.name: path.stat().st_mode & 0o777 for path in node.folder.rglob("*") if path.is_file()}
    assert set(modes.values()) == {0o600} and node.folder.stat().st_mode & 0o777 == 0o700, modes
    assert not list((node.folder / "challenges").iterdir()), "an open challenge is left"
    before = node.shown("a.test")
    node.stop()
    node.start()
    assert node.shown("a.test") == before, "a restart lost the certificate"

    # ARI: the authority asks for a renewal now.
    pem = (node.folder / "a.test.pem").read_text()
    leaf = pem[pem.index("-----BEGIN CERTIFICATE") :].split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"
    window = {"suggestedWindow": {"start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z"}}
    world.ask_pebble("set-renewal-info/", json.dumps({"certificate": leaf, "ariResponse": json.dumps(window)}).encode())
    other = node.shown("b.test")
    node.reload()
    wait_for("a renewal by ARI", lambda: node.shown("a.test") != before)
    assert node.shown("b.test") == other, "a certificate whose window is later was renewed too"

    # Revocation, with the key of the certificate.
    revoke(world, (node.folder / "b.test.pem").read_text())
    node.reload()
    wait_for("a renewal after the revocation", lambda: node.shown("b.test") != other)
    node.is_believed()

    # An upgrade: the new process has the certificates, and renews.
    shown, old = node.shown("a.test"), node.process
    old.send_signal(signal.SIGUSR2)
    wait_for("the end of the old process", lambda: old.poll() is not None)
    assert node.shown("a.test") == shown, "the upgrade lost the certificate"
    pid = node.status()["node"]["pid"]
    os.kill(pid, signal.SIGTERM)
    wait_for("the end of the new process", lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2])


def revoke(world, pem):
    """Revokes a certificate by a request that its own key signs (RFC 8555, 7.6)."""
    key, leaf = world.work / "revoked.key", world.work / "revoked.pem"
    key.write_text(pem[: pem.index("-----BEGIN CERTIFICATE")])
    leaf.write_text(pem[pem.index("-----BEGIN CERTIFICATE") :])
    openssl = lambda *arguments, data=b"": subprocess.run(["openssl", *arguments], input=data, capture_output=True, check=True).stdout
    encode = lambda data: base64.urlsafe_b64encode(data).rstrip(b"=").decode()
    point = openssl("pkey", "-in", str(key), "-pubout", "-outform", "DER")[-64:]
    directory = json.load(urllib.request.urlopen(f"https://localhost:{world.pebble_port}/dir", context=ANY))
    nonce = urllib.request.urlopen(urllib.request.Request(directory["newNonce"], method="HEAD"), context=ANY).headers["Replay-Nonce"]
    jwk = {"kty": "EC", "crv": "P-256", "x": encode(point[:32]), "y": encode(point[32:])}
    protected = encode(json.dumps({"alg": "ES256", "jwk": jwk, "nonce": nonce, "url": directory["revokeCert"]}).encode())
    payload = encode(json.dumps({"certificate": encode(openssl("x509", "-in", str(leaf), "-outform", "DER"))}).encode())
    der = openssl("dgst", "-sha256", "-sign", str(key), data=f"{protected}.{payload}".encode())
    numbers, at = [], 2
    for _ in range(2):
        length = der[at + 1]
        numbers.append(int.from_bytes(der[at + 2 : at + 2 + length], "big").to_bytes(32, "big"))
        at += 2 + length
    body = json.dumps({"protected": protected, "payload": payload, "signature": encode(b"".join(numbers))}).encode()
    request = urllib.request.Request(directory["revokeCert"], body, {"content-type": "application/jose+json"})
    urllib.request.urlopen(request, context=ANY).close()


def alpn(world):
    """tls-alpn-01 alone, for a name and an address; then http-01 for an address; an unknown profile is told."""
    hosts = ["a.test", "127.0.0.1"]
    node = Node(world, "node", hosts, start=False, challenges=["tls-alpn-01"])
    world.start_pebble(1, node.https)
    node.start()
    node.wait_issued()
    node.is_believed(["a.test"])
    other = Node(world, "other", ["127.0.0.1"], start=False, challenges=["http-01"], profile="nonsense")
    world.end(world.pebble)
    world.start_pebble(other.http, 1)
    other.start()
    told = wait_for("the reason", lambda: other.certificates()["127.0.0.1"]["last_error"])
    assert "invalidProfile" in told, told
    other.serves(["a.test"])
    other.configure(challenges=["http-01"], profile="shortlived")
    other.reload()
    other.wait_issued()
    one = other.certificates()["127.0.0.1"]
    days = (one["not_after"] - one["not_before"]) / 86400
    assert 5.9 < days < 6.1, days
    # Two thirds, or the authority's window: never "30 days before".
    assert one["renewal"] > one["not_before"] + 86400, one


def nonces(world):
    """The authority rejects half of the nonces."""
    hosts = [f"h{number}.test" for number in range(8)]
    node = Node(world, "node", hosts, start=False)
    world.start_pebble(node.http, node.https, PEBBLE_WFE_NONCEREJECT="50")
    node.start()
    # A pause after a failed order would take a minute: the order itself begins again.
    node.wait_issued(seconds=50)
    print(sum(one["failures"] for one in node.certificates().values()), "of", len(hosts), "orders failed at first")
    node.serves(hosts[:2])


def accounts(world):
    """External account binding: with the right key, and with none."""
    key = base64.urlsafe_b64encode(b"a key of thirty-two bytes, right").rstrip(b"=").decode()
    (world.work / "hmac").write_text(key + "\n")
    node = Node(world, "node", ["a.test"], start=False, email="admin@example.com")
    world.start_pebble(node.http, node.https, keys={"kid-1": key})
    node.start()
    told = wait_for("the reason", lambda: node.certificates()["a.test"]["last_error"])
    assert "externalAccountRequired" in told, told
    node.serves()
    node.configure(eab=("kid-1", world.work / "hmac"), email="admin@example.com")
    node.reload()
    node.wait_issued()
    node.is_believed()


def away(world):
    """The authority is away at the start and at a renewal, and comes back without its memory."""
    node = Node(world, "node", ["a.test"], profile="seconds")
    self_signed = node.shown("a.test")
    wait_for("the failure", lambda: node.certificates()["a.test"]["failures"])
    node.serves()
    world.start_pebble(node.http, node.https, seconds=True)
    node.reload()
    node.wait_issued()
    first = node.shown("a.test")
    assert first != self_signed
    world.end(world.pebble)
    failures = node.certificates()["a.test"]["failures"]
    # The certificate has 20 seconds, and two orders have a minute between them.
    wait_for("a failed renewal", lambda: node.certificates()["a.test"]["failures"] > failures, 90)
    node.serves()
    assert node.shown("a.test") == first, "a failed renewal took the certificate away"
    # Another process of the authority does not know the account.
    world.start_pebble(node.http, node.https, seconds=True)
    node.reload()
    wait_for("the renewal", lambda: node.shown("a.test") != first)
    node.serves()


def wrong_address(world):
    """A host whose name leads elsewhere: the others have certificates, and all are served."""
    node = Node(world, "node", ["wrong.test", "a.test", "b.test"], start=False)
    world.set_address("wrong.test", "127.0.0.9")
    world.start_pebble(node.http, node.https)
    node.start()
    node.wait_issued(["a.test", "b.test"])
    told = wait_for("the reason", lambda: node.certificates()["wrong.test"]["last_error"])
    assert "connection" in told and "127.0.0.9" in told, told
    node.serves()
    assert "wrong.test" not in node.issued()
    # Repaired: a reload orders at once.
    world.set_address("wrong.test", "127.0.0.1")
    urllib.request.urlopen(f"http://127.0.0.1:{world.dns_management}/clear-a", json.dumps({"host": "wrong.test"}).encode()).close()
    node.reload()
    node.wait_issued()
    node.is_believed()


def hundred(world):
    """A hundred hosts, one certificate each."""
    hosts = [f"h{number}.test" for number in range(100)]
    node = Node(world, "node", hosts, start=False)
    world.start_pebble(node.http, node.https)
    begun = time.monotonic()
    node.start()
    # Four at a time, each with three seconds for other nodes to read its challenge.
    node.wait_issued(seconds=180)
    print(f"{len(hosts)} certificates in {time.monotonic() - begun:.0f} s")
    node.is_believed()
    assert len({serial(node.shown(host)) for host in hosts[:20]}) == 20


def two_nodes(world):
    """Two nodes share the folder; the authority asks the second one, whichever of them orders."""
    hosts, folder = [f"h{number}.test" for number in range(12)], world.work / "shared"
    one = Node(world, "one", hosts, folder, start=False)
    two = Node(world, "two", hosts, folder, start=False)
    for node in [one, two]:
        node.start()
    # The pause after a failure is that of both nodes.
    wait_for("failures", lambda: all(any(node.certificates()[host]["failures"] for node in [one, two]) for host in hosts))
    world.start_pebble(two.http, two.https)
    for node in [one, two]:
        node.reload()
    for node in [one, two]:
        node.wait_issued(seconds=45)
        node.is_believed()
    for host in hosts:
        assert one.shown(host) == two.shown(host), f"{host}: two certificates"
    orders = [sum(one["orders"] for one in node.certificates().values()) for node in [one, two]]
    print("orders of the nodes:", orders)
    assert sum(orders) == len(hosts) and orders[0] > 0, orders
    # The first one alone, by the other way.
    fresh = Node(world, "fresh", ["alone.test"], folder, start=False, challenges=["tls-alpn-01"])
    two.stop()
    answering = Node(world, "answering", ["alone.test"], folder, start=False, directory="https://localhost:1/dir")
    world.end(world.pebble)
    world.start_pebble(1, answering.https)
    answering.start()
    wait_for("the failure of the other node", lambda: answering.certificates()["alone.test"]["failures"])
    fresh.start()
    # The pause after the failure is that of both nodes, and a reload ends it.
    fresh.reload()
    fresh.wait_issued()
    assert fresh.certificates()["alone.test"]["orders"] == 1


def clock(world):
    """The clock moves on to the renewal, by libfaketime."""
    library = next(Path("/usr/lib").rglob("libfaketime.so.1"))
    moved = world.work / "clock"
    moved.write_text("+0\n")
    # By the moved clock, a certificate of six days has expired when it is issued, and is refused.
    node = Node(world, "node", ["a.test"], start=False, profile="default")
    world.start_pebble(node.http, node.https)
    environment = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(moved),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    node.start(**environment)
    node.wait_issued()
    before = node.shown("a.test")
    moved.write_text("+75d\n")
    wait_for("the renewal", lambda: node.shown("a.test") != before)
    node.serves()
    # By this clock the new certificate is due, too: there is no end of orders for it.
    time.sleep(3)
    orders = node.certificates()["a.test"]["orders"]
    assert orders <= 3, orders


def site(world):
    """The short command: sites in the place of a file. The ports and the authority are those of this test."""
    node = Node(world, "node", ["a.test", "b.test"], start=False)
    state = world.work / "state"
    settings = {
        "http.listen": f"127.0.0.1:{node.http}",
        "http.tls.listen": f"127.0.0.1:{node.https}",
        "http.tls.acme.directory": f"https://localhost:{world.pebble_port}/dir",
        "http.tls.acme.directory_ca": f"{CERTS}/pebble.minica.pem",
        "ndn.enabled": "false",
    }
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    node.arguments = ["https://a.test", "https://b.test", "--origin", "generated", "--admin", f"127.0.0.1:{node.admin}", *flags]
    world.start_pebble(node.http, node.https)
    node.start(STATE_DIRECTORY=str(state))
    node.wait_issued()
    node.is_believed()
    node.serves()
    assert (state / "acme/a.test.pem").exists(), "the certificate is not in the state directory"


def readme(world):
    """README's lines from nothing to HTTPS, word for word. In namespaces of their own: they name ports, a folder and a host."""
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    block = text[text.index("\nlarder init edge ") :].partition("```")[0]
    init, doctor, run, curl, purge = (line.partition("  #")[0].strip() for line in block.strip().splitlines())
    site = world.work / "site"
    site.mkdir()
    page = b"<!doctype html><p>" + b"A page that text makes. " * 1000
    (site / "index.html").write_bytes(page)
    os.utime(site / "index.html", (0, 0))
    world.start("origin", [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(site), "3000"])
    hosts = world.work / "hosts"
    hosts.write_text("127.0.0.1 localhost www.example.com\n")
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/var/lib"], check=True)
    world.start_pebble(80, 443)
    root = world.work / "root.pem"
    root.write_text(world.root())
    folder = world.work / "folder"
    folder.mkdir()
    programs = world.work / "programs"
    programs.mkdir()
    (programs / "larder").symlink_to(os.path.realpath(LARDER))
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "CURL_CA_BUNDLE": str(root),
        "LARDER_HTTP_TLS_ACME_DIRECTORY": f"https://localhost:{world.pebble_port}/dir",
        "LARDER_HTTP_TLS_ACME_DIRECTORY_CA": f"{CERTS}/pebble.minica.pem",
    }

    def typed(line, **keys):
        return subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, **keys)

    assert typed(init).returncode == 0
    assert "larder.toml" in os.listdir(folder)
    diagnosis = typed(doctor)
    # What it warns of is this machine's; an error would be the configuration's.
    assert diagnosis.returncode == 0, diagnosis.stdout + diagnosis.stderr
    assert run.endswith(" &"), run
    log = open(world.work / "node.log", "ab")
    world.processes.append(subprocess.Popen(["bash", "-c", "exec " + run.removesuffix(" &")], cwd=folder, env=environment, stdout=log, stderr=log))
    wait_for("a certificate that curl believes", lambda: typed(curl).returncode == 0)
    assert (folder / "page").read_bytes() == page
    shown = typed("curl -s --compressed -o /dev/null -D - --http2 https://www.example.com/").stdout.lower()
    for field in ["http/2 200", "alt-svc: h3=", "content-encoding: ", "cache-status: larder; hit"]:
        assert field in shown, f"no {field!r} in {shown}"
    plain = typed("curl -s -o /dev/null -D - http://www.example.com/").stdout.lower()
    assert " 308" in plain and "location: https://www.example.com/" in plain, plain
    purged = typed(purge)
    assert purged.returncode == 0 and purged.stdout.startswith("1 "), purged.stdout + purged.stderr
    shown = typed("curl -s -o /dev/null -D - https://www.example.com/").stdout.lower()
    assert "fwd=uri-miss" in shown, shown
    lines = wait_for("four lines of the log", lambda: (found := (folder / "access.log").read_text().splitlines())[3:] and found)
    assert any('"GET / HTTP/2.0" 200 ' in line for line in lines), lines


SCENARIOS = [site, readme, first, alpn, nonces, accounts, away, wrong_address, hundred, two_nodes, clock]


def main():
    scenario = {one.__name__: one for one in SCENARIOS}[sys.argv[4]]
    work = tempfile.mkdtemp(prefix="larder-acme.")
    if scenario is readme:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    world = World(work)
    ended = False
    try:
        world.start_dns()
        scenario(world)
        ended = True
    finally:
        for process in reversed(world.processes):
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in world.processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
        if not ended:
            for path in sorted(Path(work).glob("*.log")):
                print(f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-25:], sep="\n")
        shutil.rmtree(work, ignore_errors=True)


main()
