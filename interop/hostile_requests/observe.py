"""What an origin has got, as observations that two proxies can be compared by: each is one thing that could harm some origin."""

import re
from urllib.parse import unquote_to_bytes

TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
TARGET = re.compile(rb"[!$%&'()*+,./0-9:;=?@A-Z\[\]_a-z~-]*")
HOST = re.compile(rb"([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
HOP_BY_HOP = {b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer", b"upgrade", b"http2-settings"}
SECRET, ADMIN = b"secret.test", b"/admin"


class Message:
    """A request as the origin reads it: leniently, so that it finds what is there."""

    def __init__(self, raw):
        self.raw = raw
        end = re.search(rb"\r?\n\r?\n", raw)
        self.is_complete = end is not None
        self.head, rest = (raw[: end.start()], raw[end.end() :]) if end else (raw, b"")
        lines = self.head.split(b"\n")
        self.line = lines[0].rstrip(b"\r")
        self.lines = [line.removesuffix(b"\r") for line in lines[1:]]
        pairs = [line.partition(b":") for line in self.lines]
        self.fields = [(name.strip().lower(), value.strip()) for name, colon, value in pairs if colon]
        self.body, self.rest = b"", rest
        self.has_body_whole = True
        if self.is_complete:
            self.split_body(rest)

    def values(self, name):
        return [value for other, value in self.fields if other == name]

    def split_body(self, rest):
        if any(b"chunked" in value.lower() for value in self.values(b"transfer-encoding")):
            body = b""
            while True:
                line, newline, after = rest.partition(b"\n")
                size = re.match(rb"\s*([0-9a-fA-F]+)", line)
                if not newline or not size:
                    self.has_body_whole = bool(newline)
                    break
                size = int(size.group(1), 16)
                if size == 0:
                    end = re.search(rb"^\r?\n|\n\r?\n", after)
                    self.has_body_whole = end is not None
                    rest = after[end.end() :] if end else b""
                    break
                if len(after) < size:
                    self.has_body_whole = False
                    break
                body, rest = body + after[:size], after[size:].lstrip(b"\r").removeprefix(b"\n")
            self.body, self.rest = body, rest
        else:
            lengths = [int(value) for value in self.values(b"content-length") if value.isdigit()]
            length = lengths[0] if lengths else 0
            self.body, self.rest = rest[:length], rest[length:]
            self.has_body_whole = len(rest) >= length


def messages(raw):
    """The requests on a connection to the origin, one behind the other."""
    found = []
    while raw:
        message = Message(raw)
        found.append(message)
        if message.rest == raw or not message.is_complete:
            break
        raw = message.rest
    return found


def normal_path(target):
    """A path as servers that decode and resolve it see it."""
    path = unquote_to_bytes(target.split(b"?")[0].split(b"#")[0]).replace(b"\\", b"/")
    kept = []
    for segment in path.split(b"/"):
        segment = segment.split(b";")[0] if segment.startswith(b"..;") else segment
        if segment == b"..":
            kept = kept[:-1]
        elif segment not in (b"", b"."):
            kept.append(segment)
    return b"/" + b"/".join(kept)


def normal_host(host):
    host = host.strip().lower().split(b",")[0].strip().split(b"@")[-1]
    host = re.sub(rb":[^:\]]*$", b"", host).rstrip(b".").strip(b"[]")
    return host


def of_target(message):
    seen = set()
    words = message.line.split(b" ")
    if len(words) != 3 or not re.fullmatch(rb"HTTP/1\.[01]", words[2]):
        return {"request line malformed"}
    method, target = words[0], words[1]
    if not TOKEN.fullmatch(method) or method != method.upper():
        seen.add("method not in capitals")
    if method in (b"CONNECT", b"TRACE", b"TRACK", b"PURGE", b"BAN", b"PRI"):
        seen.add(f"method {method.decode()}")
    if not target.startswith(b"/"):
        seen.add("target is no path")
    if b"#" in target:
        seen.add("fragment")
    if not TARGET.fullmatch(target):
        seen.add("target with bytes that no URI has")
    if re.search(rb"%(?![0-9A-Fa-f]{2})", target):
        seen.add("percent sign without digits")
    path = target.split(b"?")[0]
    if any(segment in (b".", b"..") for segment in path.split(b"/")):
        seen.add("dot segments")
    if re.search(rb"(?i)(%2f|%5c|\\|/)(\.|%2e){1,2}(%2f|%5c|\\|/|$)", path) and "dot segments" not in seen:
        seen.add("encoded dot segments")
    if path.startswith(ADMIN):
        seen.add("rule for /admin evaded, path as sent")
    if normal_path(path).startswith(ADMIN):
        seen.add("rule for /admin evaded, path decoded")
    if path.startswith(b"/readonly") and method.upper() not in (b"GET", b"HEAD"):
        seen.add("rule for methods evaded")
    if b"/second" in target:
        seen.add("smuggled request")
    return seen


def of_fields(message, is_behind):
    seen = set()
    head = message.raw[: message.raw.find(b"\n\n") + 1] if b"\n\n" in message.raw else message.head + b"\r\n"
    if re.search(rb"(?<!\r)\n", head):
        seen.add("bare LF")
    if re.search(rb"\r(?!\n)", head):
        seen.add("bare CR")
    if b"\0" in head:
        seen.add("NUL")
    for line in message.lines:
        name, colon, value = line.partition(b":")
        if line[:1] in (b" ", b"\t"):
            seen.add("folded line")
        elif not colon or not TOKEN.fullmatch(name):
            seen.add("field name malformed")
        if re.search(rb"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]", value):
            seen.add("control character in a value")
    names = [name for name, _ in message.fields]
    for name in sorted(HOP_BY_HOP & set(names)):
        if name == b"te" and message.values(name) == [b"trailers"] or name == b"upgrade" and b"websocket" in message.values(name):
            continue
        seen.add(f"hop-by-hop {name.decode()}")
    for value in message.values(b"connection"):
        if not re.fullmatch(rb"(?i)(close|keep-alive|upgrade|te)?", value):
            seen.add("Connection names fields")
    hosts = message.values(b"host")
    if len(hosts) > 1:
        seen.add("two Hosts")
    if not hosts and message.line.endswith(b"1.1"):
        seen.add("no Host")
    for host in hosts:
        if not HOST.fullmatch(host.lower()) or int(re.sub(rb".*:(?=\d+$)|.*", b"", host) or b"0") > 65535:
            seen.add("host malformed")
        if normal_host(host) == SECRET:
            seen.add("rule for secret.test evaded")
    if not message.values(b"x-forwarded-for"):
        seen.add("no X-Forwarded-For")
    client = message.values(b"x-real-ip")
    if not is_behind and client != [b"127.0.0.1"]:
        seen.add("X-Real-IP is not the proxy's")
    if is_behind and client == [b"127.0.0.1"]:
        seen.add("client taken for the proxy in front")
    if is_behind and any(normal_host(host) != b"example.test" for host in hosts):
        seen.add("field chooses the host")
    if is_behind and any(value.startswith(b"1.2.3.4") for value in client):
        seen.add("client chooses its address")
    if not re.fullmatch(rb"https?", b"".join(message.values(b"x-forwarded-proto")) or b"http"):
        seen.add("scheme malformed")
    return seen


def of_framing(message):
    seen = set()
    lengths, codings = message.values(b"content-length"), message.values(b"transfer-encoding")
    if lengths and codings:
        seen.add("length beside coding")
    if len(lengths) > 1:
        seen.add("two lengths")
    if any(not value.isdigit() for value in lengths):
        seen.add("length malformed")
    if len(codings) > 1 or any(value.lower() != b"chunked" for value in codings):
        seen.add("coding other than chunked")
    if not message.has_body_whole:
        seen.add("body without its end")
    return seen


def observations(connections, request):
    """The observations on all connections that an origin got for a request."""
    seen = set()
    whole = [[message for message in messages(raw)] for raw in connections]
    count = sum(len(found) for found in whole)
    if count:
        seen.add("reaches the origin")
    if any(len(found) > 1 for found in whole):
        seen.add("more than one request on a connection")
    for message in (message for found in whole for message in found):
        seen |= of_target(message) | of_fields(message, request.is_behind) | of_framing(message)
    if request.mark and any(re.search(request.mark, raw) for raw in connections):
        seen.add("the mark passes")
    if request.body is not None and count == 1 and whole[0][0].body != request.body:
        seen.add("another body")
    return seen
