"""The table of requests: hostile and odd ones, made systematically.

Each has a name, and the bytes that a client sends on a connection of its own. `mark` is what must not reach an origin as it is, as a
regular expression over the bytes there. `body` is the body that the client means; None if its framing leaves that open. Requests over
HTTP/2 are lists of fields, which http2.py turns into frames."""

from dataclasses import dataclass, field


@dataclass
class Request:
    name: str
    wire: bytes = b""
    mark: bytes | None = None
    body: bytes | None = b""
    # HTTP/2: the fields, the body (None: the stream ends with the fields), and the trailers.
    fields: list | None = None
    data: bytes | None = None
    trailers: list = field(default_factory=list)
    # True if the client is a proxy that the system trusts.
    is_behind: bool = False


REQUESTS = []
HOST = b"example.test"


def escaped(raw):
    import re

    return re.escape(raw)


def add(name, wire, mark=None, body=b""):
    REQUESTS.append(Request(name, wire, mark, body))


def head(target=b"/x", method=b"GET", host=HOST, fields=(), version=b"HTTP/1.1", close=True):
    lines = [b" ".join((method, target, version))]
    if host is not None:
        lines.append(b"Host: " + host)
    lines.extend(fields)
    if close:
        lines.append(b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"


def shown(raw):
    text = raw.decode("latin-1")
    return "".join(char if " " < char < "\x7f" else f"\\x{ord(char):02x}" for char in text) if len(text) < 60 else f"{text[:20]}...({len(text)})"


def targets():
    """Paths, in all the spellings of a way up, and targets of other forms. A rule denies /admin."""
    ups = [b"..", b"%2e%2e", b".%2E", b"..;", b"%252e%252e", b"%c0%ae%c0%ae"]
    slashes = [b"/", b"%2f", b"%5c", b"\\", b"//", b"/./"]
    for up in ups:
        for slash in slashes:
            if up in (b"..;", b"%252e%252e", b"%c0%ae%c0%ae") and slash not in (b"/", b"%2f"):
                continue
            for template in (b"/a%s%s%sadmin/x" % (slash, up, slash), b"/admin/a%s%s%s%s%sx" % (slash, up, slash, up, slash)):
                add(f"target {shown(template)}", head(template))
    for raw in (
        b"/a?x=/../b", b"/?", b"/a?", b"/a#b", b"/a?b#c", b"/#", b"#", b"?x=1", b"*", b"a", b"//", b"//secret.test/x", b"///admin/x", b"/admin",
        b"/admin/", b"/admin/x", b"/%61dmin/x", b"/%61%64%6d%69%6e/x", b"/ADMIN/x", b"/admin%00", b"/admin;x=1", b"/admin%2fx", b"/admin%3fx",
        b"/./admin/x", b"/admin/.", b"/admin/..", b"/..", b"/.", b"/../../../admin/x", b"/admin#", b"/admin?x", b"/x/../admin/x", b"/admin\\x",
        b"/\\admin/x", b"\\admin\\x", b"/admin%20", b"/admin%09/x", b"/a b", b"/a\tb", b"/a%20b", b"/a%zz", b"/a%", b"/a%4", b"/a%u002e", b"/a%0d%0aX:y",
        b"/%2e/admin/x", b"/%2F/admin/x",
    ):
        add(f"target {shown(raw)}", head(raw))
    for byte in b"\"<>`{}|^\\[]'()!*,;$@\x00\x01\x0b\x1f\x7f\x80\xe9\xff":
        for raw in (b"/a%cb" % byte, b"/a?%c" % byte):
            add(f"target {shown(raw)}", head(raw))
    for raw in ("/é".encode(), "/a?é".encode(), b"/%e9", b"/%C3%A9", b"/" + b"a" * 9000, b"/a?" + b"b" * 9000):
        add(f"target {shown(raw)}", head(raw))


def absolute_targets():
    for raw in (
        b"http://example.test/x", b"http://example.test", b"http://example.test?x=1", b"http://example.test#", b"http://example.test/#a",
        b"http://example.test?x#y", b"HTTP://example.test/x", b"http://EXAMPLE.test/x", b"https://example.test/x", b"ftp://example.test/x",
        b"javascript:x", b"http://user@example.test/x", b"http://user:word@secret.test/x", b"http://secret.test/x", b"http://SECRET.test/x",
        b"http://secret.test./x", b"http://secret.test..", b"http://secret.test:80/x", b"http://secret.test:8080/x", b"http://secret.test:/x",
        b"http://secret.test\\x", b"http://secret.test,example.test/x", b"http://[secret.test]/x", b"http:///x", b"http://", b"http:/x", b"http:x",
        b"http://:80/x", b"http://?x", b"http://[::1]/x", b"http://example.test:99999/x", b"http://example.test\\@secret.test/x",
        b"http://example.test/admin/x", b"http://example.test//admin/x", b"http://example.test/../admin/x", b"http://example.test?/admin/x",
        b"http://example.test/x y", b"example.test:80", b"//example.test/x",
    ):
        add(f"absolute {shown(raw)}", head(raw))
    add("absolute example.test, Host secret.test", head(b"http://example.test/x", host=b"secret.test"))
    add("absolute without Host", head(b"http://example.test/x", host=None))
    add("absolute secret.test without Host", head(b"http://secret.test/x", host=None))


def methods():
    """A rule denies all methods but GET and HEAD at /readonly."""
    for method in (
        b"get", b"Get", b"post", b"POST", b"pOST", b"PUT", b"DELETE", b"PATCH", b"HEAD", b"head", b"OPTIONS", b"TRACE", b"trace", b"TRACK", b"DEBUG",
        b"PRI", b"PURGE", b"BAN", b"PROPFIND", b"M-SEARCH", b"X", b"G\xcbT", b"!#$%", b"GE:T", b"GE(T", b"GET\x00", b"M" * 1000,
    ):
        add(f"method {shown(method)}", head(b"/readonly/x", method=method))
    for target in (b"example.test:80", b"secret.test:443", b"/x", b"example.test", b"http://example.test/x"):
        add(f"CONNECT {shown(target)}", head(target, method=b"CONNECT"))
    add("OPTIONS *", head(b"*", method=b"OPTIONS"))
    add("TRACE, Max-Forwards: 0", head(method=b"TRACE", fields=[b"Max-Forwards: 0"]))
    for name in (b"X-HTTP-Method-Override", b"X-HTTP-Method", b"X-Method-Override"):
        add(f"method by {name.decode()}", head(b"/readonly/x", fields=[name + b": DELETE"]), mark=b"(?i)" + name)


def request_lines():
    for line in (
        b"GET /x", b"GET /x HTTP/1.0", b"GET /x HTTP/0.9", b"GET /x HTTP/1.2", b"GET /x HTTP/1.10", b"GET /x HTTP/2.0", b"GET /x HTTP/9.9", b"GET /x http/1.1",
        b"GET /x HTTP/1.1 ", b"GET /x HTTP/1.1 x", b"GET  /x HTTP/1.1", b"GET /x  HTTP/1.1", b"GET\t/x\tHTTP/1.1", b" GET /x HTTP/1.1", b"GET /x /admin/x HTTP/1.1",
        b"GET/x HTTP/1.1", b"GET /xHTTP/1.1", b"GET /x HTTP/1", b"GET /x HTTP/1.", b"GET /x HTTP/+1.1", b"GET /x ICAP/1.0", b"GET", b"GET HTTP/1.1", b"GET  HTTP/1.1", b"",
        b"\x16\x03\x01", b"PRI * HTTP/2.0", b"GET /x\x0bHTTP/1.1", b"GET /x\rHTTP/1.1",
    ):
        add(f"line {shown(line)}", line + b"\r\nHost: example.test\r\nConnection: close\r\n\r\n")
    add("line after an empty line", b"\r\n" + head())
    add("line after ten empty lines", b"\r\n" * 10 + head())
    add("line after a bare LF", b"\n" + head())


def hosts():
    """A rule denies secret.test."""
    for host in (
        b"", b"secret.test", b"SECRET.test", b"secret.test.", b"secret.test..", b"secret.test:80", b"secret.test:8080", b"secret.test:", b"secret.test:abc",
        b"secret.test:99999", b"secret.test:080", b"secret.test.:80", b"secret.test:80:80", b"user@secret.test", b"secret.test@example.test", b"[secret.test]", b"[secret.test]:80", b"[::1]",
        b"[::1]:80", b"[::1", b"::1", b"[::ffff:127.0.0.1]", b"secret.test,example.test", b"example.test,secret.test", b"secret.test, example.test", b"secret.test example.test",
        b"secret.test\texample.test", b" secret.test", b"secret.test ", b"secret.test\t", b"secret.test/x", b"secret.test/../x", b"secret.test#", b"secret.test?", b"secret.test\\x",
        b"secret%2etest", b"secret.test%00", b"secret.test\x00", b"secret.test\x00.example.test", b"s\xe9cret.test", b"*.test", b"-", b".", b"..", b"secret..test", b".secret.test", b"a" * 300,
        b"a." * 200, b"127.0.0.1", b"0x7f.1", b"example.test:0", b"http://secret.test", b"secret_test", b"secret.test;x", b"(secret.test)", b"{secret.test}", b"'secret.test'", b'"secret.test"',
        b"secret.test|x", b"$secret.test", b"~secret.test", b"secret.test=", b"secret.test&x",
    ):
        add(f"host {shown(host)}", head(host=host))
    add("host missing", head(host=None))
    add("host missing, HTTP/1.0", head(host=None, version=b"HTTP/1.0"))
    add("host twice, equal", head(fields=[b"Host: example.test"]))
    add("host twice, secret.test second", head(fields=[b"Host: secret.test"]))
    add("host twice, secret.test first", head(host=b"secret.test", fields=[b"Host: example.test"]))
    add("host with a blank before the colon", head(host=None, fields=[b"Host : secret.test"]))
    add("host and host with a blank before the colon", head(fields=[b"Host : secret.test"]))
    add("host folded", head(host=b"example.test\r\n secret.test"))
    add("host folded before its value", head(host=b"\r\n secret.test"))
    add("host in the folded line before", head(host=None, fields=[b"X: y\r\n Host: secret.test", b"Host: example.test"]))


# From these, programs take a target, a host, a scheme, a method or a client other than those of the request.
UNKEYED = """Forwarded X-Forwarded X-Forwarded-Host X-Forwarded-Proto X-Forwarded-Protocol X-Forwarded-Scheme X-Forwarded-Port X-Forwarded-Prefix X-Forwarded-Server
X-Forwarded-Ssl X-Forwarded-Uri X-Forwarded-Path X-Forwarded-By X-Forwarded-User X-Original-URL X-Original-URI X-Original-Host X-Original-Forwarded-For X-Rewrite-URL X-Host
X-Scheme X-Url-Scheme X-Proto Front-End-Https X-Https X-Real-IP X-Client-IP True-Client-IP Client-IP CF-Connecting-IP X-Cluster-Client-IP X-Remote-User Proxy X-Script-Name
X-Accel-Redirect X-Sendfile-Type X-Middleware-Subrequest X-Wap-Profile Surrogate-Capability CDN-Loop Via Max-Forwards Range If-Range Early-Data
Sec-Websocket-Key Content-Encoding""".split()

# In these spellings, CGI, WSGI and PHP take them for the fields with dashes.
SPELLINGS = """X_Forwarded_Host X_Forwarded_For X_Forwarded_Proto X.Forwarded.Host X.Forwarded.For X-Forwarded_Host X_Original_URL X.Original.URL Content_Length Content.Length
Transfer_Encoding Transfer.Encoding Content_Type Host_ X_HTTP_Method_Override Cookie_ Authorization_ Proxy_""".split()


def fields():
    for name in UNKEYED:
        add(f"field {name}", head(fields=[name.encode() + b": hostile"]), mark=b"(?im)^" + escaped(name.encode()) + b":.*hostile")
    for name in SPELLINGS:
        value = b"chunked" if name.startswith("Transfer") else b"7"
        add(f"field {name}", head(fields=[name.encode() + b": " + value]), mark=b"(?im)^" + escaped(name.encode()) + b":")
    for what, line in (
        ("a blank before the colon", b"X-A : hostile"), ("a tab before the colon", b"X-A\t: hostile"), ("an empty name", b": hostile"), ("no colon", b"hostile"),
        ("a blank in the name", b"X A: hostile"), ("a NUL in the value", b"X-A: a\x00hostile"), ("a NUL in the name", b"X\x00A: hostile"), ("a CR in the value", b"X-A: a\rX-B: hostile"),
        ("a LF in the value", b"X-A: a\nX-B: hostile"), ("a CR at the end", b"X-A: hostile\r"), ("a fold", b"X-A: a\r\n hostile"), ("a fold by a tab", b"X-A: a\r\n\thostile"),
        ("an empty fold", b"X-A: a\r\n \r\n hostile"), ("Latin-1 in the value", b"X-A: hostile\xe9"), ("Latin-1 in the name", b"X-\xe9: hostile"), ("a bell in the value", b"X-A: hostile\x07"),
        ("a DEL in the value", b"X-A: hostile\x7f"), ("a vertical tab before the value", b"X-A:\x0bhostile"), ("a slash in the name", b"X/A: hostile"), ("a quote in the name", b'X"A: hostile'),
        ("brackets in the name", b"X[A]: hostile"), ("a colon first", b":authority: hostile"), ("an empty value", b"X-A:"), ("two colons", b"X-A:: hostile"),
        ("9,000 bytes", b"X-A: hostile" + b"a" * 9000), ("70,000 bytes", b"X-A: hostile" + b"a" * 70_000),
    ):
        name = line.split(b"hostile")[0].split(b"\r")[0].split(b"\n")[0]
        mark = None if what in ("an empty value", "a fold", "a fold by a tab", "9,000 bytes", "70,000 bytes") else escaped(name) + b".{0,6}hostile"
        add(f"field with {what}", head(fields=[line]), mark=mark)
    add("200 fields", head(fields=[b"X-%d: a" % number for number in range(200)]))
    add("a blank line before the fields", b"GET /x HTTP/1.1\r\n \r\nHost: example.test\r\nConnection: close\r\n\r\n")
    add("a blank before the first field", b"GET /x HTTP/1.1\r\n X-A: hostile\r\nHost: example.test\r\nConnection: close\r\n\r\n")
    for what, value in (
        ("session.a", b"session.a=1"), ("session_a", b"session_a=1"), ("Latin-1", b"a=\xe9"), ("a NUL", b"a=\x00"), ("a quote", b'a="b; c=d"'), ("no equals sign", b"session"),
        ("a bracket", b"session[a]=1"), ("a blank in the name", b"session a=1"),
    ):
        add(f"cookie with {what}", head(fields=[b"Cookie: " + value]))
    add("cookies on two lines", head(fields=[b"Cookie: a=1", b"Cookie: b=2"]))


def connection_fields():
    """What Connection names is removed, but not what the proxy sets itself."""
    named = """X-Real-IP X-Forwarded-For X-Forwarded-Proto X-Forwarded-Host Host Content-Length Transfer-Encoding Cookie Authorization Via CDN-Loop Cache-Control Range X-Tenant
    Upgrade TE Trailer Expect Date Accept-Encoding User-Agent""".split()
    for name in named:
        add(f"Connection: {name}", head(fields=[b"Connection: " + name.encode(), b"Cookie: a=1", b"Authorization: Basic eDp5", b"X-Tenant: a"]))
    for name in ("X-Hop", "X_Hop"):
        line = f"{name}: hostile".encode()
        add(f"Connection names {name}", head(fields=[f"Connection: {name}".encode(), line], close=False), mark=b"(?i)" + line)
    for value in (b"close, X-Hop", b"X-Hop, close", b"keep-alive,X-Hop", b'"X-Hop"', b"X-Hop;a", b",,X-Hop,,", b"\xe9, X-Hop", b"close\r\nConnection: X-Hop", b"X-Hop\r\nConnection: close", b"a b, X-Hop"):
        add(f"Connection: {shown(value)}", head(fields=[b"Connection: " + value, b"X-Hop: hostile"], close=False), mark=b"(?i)x-hop: hostile" if value not in (b'"X-Hop"', b"X-Hop;a") else None)
    for name in ("Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "TE", "Trailer", "Upgrade", "HTTP2-Settings"):
        add(f"hop-by-hop field {name}", head(fields=[f"{name}: hostile".encode()]), mark=f"(?im)^{name}: hostile".encode())


def clients():
    """Fields that name the client."""
    for value in (
        b"127.0.0.1", b"10.0.0.1, 127.0.0.1", b",", b"", b"unknown", b"_hidden", b"\xff", b"127.0.0.1\xff", b"1.2.3.4:99", b"[::1]", b"[::1]:99", b'"1.2.3.4"', b"1.2.3.4;", b"1.2.3.4 5.6.7.8",
        b"a" * 3000, b"1.2.3.4,\t5.6.7.8", b"1.2.3.4\r\nX-Forwarded-For: 5.6.7.8",
    ):
        add(f"X-Forwarded-For: {shown(value)}", head(fields=[b"X-Forwarded-For: " + value]))
    for value in (b"for=127.0.0.1", b'for="[::1]"', b"for=1.2.3.4;;;", b"for=\xff", b'for="unclosed', b"host=secret.test", b"proto=https", b"for=a,for=b", b"for=1.2.3.4;host=secret.test;proto=https"):
        add(f"Forwarded: {shown(value)}", head(fields=[b"Forwarded: " + value]), mark=b"(?im)^forwarded:.*" + escaped(value))


def behind_a_proxy():
    """As an ordinary proxy in front sends them: it appends the address of its client, 5.6.7.8, to what the client sent."""

    def behind(name, lines):
        REQUESTS.append(Request(f"behind a proxy, {name}", head(fields=lines), is_behind=True))

    for value in (
        b"", b"1.2.3.4, ", b"127.0.0.1, ", b"unknown, ", b"\xff, ", b",,, ", b"1.2.3.4:99, ", b"[::1], ", b'"1.2.3.4", ', b"a" * 3000 + b", ", b"1.2.3.4\r\nX-Forwarded-For: ", b"\xff\r\nX-Forwarded-For: ",
    ):
        behind(f"X-Forwarded-For: {shown(value)}5.6.7.8", [b"X-Forwarded-For: " + value + b"5.6.7.8"])
    for value in (b"", b"\xff", b"unknown", b"5.6.7.8, \xff", b"5.6.7.8,", b"5.6.7.8:99", b"5.6.7.8 ", b'"5.6.7.8"'):
        behind(f"X-Forwarded-For at its end: {shown(value)}", [b"X-Forwarded-For: " + value])
    for name in ("X-Forwarded-Host", "X-Forwarded-Server", "X-Host", "X-Original-Host", "Forwarded", "X_Forwarded_Host"):
        value = "for=5.6.7.8;host=other.test" if name == "Forwarded" else "other.test"
        line = f"{name}: {value}".encode()
        behind(f"{name}: {value}", [b"X-Forwarded-For: 5.6.7.8", line])
        behind(f"{name}: {value} alone", [line])
    for value in (b"https", b"HTTPS", b"https, http", b"javascript", b"http\r\nX-Forwarded-Proto: https"):
        behind(f"X-Forwarded-Proto: {shown(value)}", [b"X-Forwarded-For: 5.6.7.8", b"X-Forwarded-Proto: " + value])


def lengths():
    """Content-Length, in all spellings. The body is 5 bytes; what follows would be a second request."""
    second = head(b"/second")
    for value in (
        b"5", b"+5", b"-1", b"-0", b"0x5", b"5 ", b" 5", b"5,5", b"5, 5", b"5,6", b"5;", b"", b"5.0", b"1e1", b"00005", b"9" * 30, b"18446744073709551621", b"5\x00", b"5\x0b", b"\xd9\xa5", b"5 5",
        b"five", b'"5"', b"0", b"3", b"5\r\nContent-Length: 5", b"5\r\nContent-Length: 6", b"6\r\nContent-Length: 5", b"0\r\nContent-Length: 0", b"5\r\n 5",
    ):
        wire = head(method=b"POST", fields=[b"Content-Length: " + value], close=False)
        add(f"Content-Length: {shown(value)}", wire + b"hello" + second, body=None)
    for name in (b"Content-Length ", b"Content_Length", b"content-lengtH", b"\x0bContent-Length", b"Content-Length\x00"):
        add(f"length by {shown(name)}", head(method=b"POST", fields=[name + b": 5"], close=False) + b"hello" + second, body=None)
    add("GET with a body", head(fields=[b"Content-Length: 5"]) + b"hello", body=None)
    add("HEAD with a body", head(method=b"HEAD", fields=[b"Content-Length: 5"]) + b"hello", body=None)
    add("a body that is cut short", head(method=b"POST", fields=[b"Content-Length: 50"]) + b"hello", body=None)
    add("a body without a length", head(method=b"POST") + b"hello", body=None)
    add("Expect: 100-continue", head(method=b"POST", fields=[b"Content-Length: 5", b"Expect: 100-continue"]) + b"hello", body=b"hello")
    add("Expect: something", head(method=b"POST", fields=[b"Content-Length: 5", b"Expect: something"]) + b"hello", body=b"hello")


def codings():
    """Transfer-Encoding, in all spellings. Behind the chunks, or behind 5 bytes, a second request would follow."""
    chunks = b"5\r\nhello\r\n0\r\n\r\n"
    second = head(b"/second")
    for value in (
        b"chunked", b"Chunked", b"CHUNKED", b"chunked ", b"\tchunked", b"xchunked", b"chunkedx", b"chunked, identity", b"identity, chunked", b"gzip, chunked", b"chunked, gzip", b"chunked, chunked",
        b"chunked\x0b", b"\x0bchunked", b"chunked\x00", b'"chunked"', b"chunked;a=b", b"identity", b"gzip", b"", b",chunked", b"chunked,", b"chunked\r\nTransfer-Encoding: x", b"x\r\nTransfer-Encoding: chunked",
        b"\r\n chunked", b"chun\r\n ked", b"ch\xfcnked",
    ):
        for length in ([], [b"Content-Length: 5"]):
            wire = head(method=b"POST", fields=[b"Transfer-Encoding: " + value, *length], close=False)
            add(f"Transfer-Encoding: {shown(value)}{' and Content-Length' if length else ''}", wire + chunks + second, body=None)
    for name in (b"Transfer-Encoding ", b"Transfer_Encoding", b"Transfer-Encoding\x00", b" Transfer-Encoding", b"X: y\nTransfer-Encoding", b"X: y\rTransfer-Encoding"):
        wire = head(method=b"POST", fields=[b"Content-Length: 5", name + b": chunked"], close=False)
        add(f"coding by {shown(name)}", wire + chunks + second, body=None)
    add("chunks in HTTP/1.0", head(method=b"POST", fields=[b"Transfer-Encoding: chunked"], version=b"HTTP/1.0") + chunks, body=None)
    add("chunks in GET", head(fields=[b"Transfer-Encoding: chunked"]) + chunks, body=None)


def chunks():
    post = head(method=b"POST", fields=[b"Transfer-Encoding: chunked"])
    for what, wire in (
        ("an extension", b"5;a=b\r\nhello\r\n0\r\n\r\n"), ("an extension with a LF", b"5;a\nb\r\nhello\r\n0\r\n\r\n"), ("an extension with a CR", b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
        ("an extension in quotes with CRLF", b'5;a="\r\nhello\r\n0\r\n\r\n'), ("the size 0x5", b"0x5\r\nhello\r\n0\r\n\r\n"), ("the size +5", b"+5\r\nhello\r\n0\r\n\r\n"), ("the size -5", b"-5\r\nhello\r\n0\r\n\r\n"),
        ("a blank before the size", b" 5\r\nhello\r\n0\r\n\r\n"), ("a blank behind the size", b"5 \r\nhello\r\n0\r\n\r\n"), ("a tab behind the size", b"5\t\r\nhello\r\n0\r\n\r\n"), ("zeros before the size", b"0000000005\r\nhello\r\n0\r\n\r\n"),
        ("40 zeros before the size", b"0" * 40 + b"5\r\nhello\r\n0\r\n\r\n"), ("a size of 2^64 and 5", b"10000000000000005\r\nhello\r\n0\r\n\r\n"), ("the size 5g", b"5g\r\nhello\r\n0\r\n\r\n"), ("no size", b"\r\nhello\r\n0\r\n\r\n"),
        ("bare LF", b"5\nhello\n0\n\n"), ("a LF behind the size", b"5\nhello\r\n0\r\n\r\n"), ("a LF behind the data", b"5\r\nhello\n0\r\n\r\n"), ("nothing behind the data", b"5\r\nhello0\r\n\r\n"),
        ("two bytes more", b"5\r\nhelloXX\r\n0\r\n\r\n"), ("a CR behind the size", b"5\rhello\r\n0\r\n\r\n"), ("the end 00", b"5\r\nhello\r\n00\r\n\r\n"), ("the end 0;a=b", b"5\r\nhello\r\n0;a=b\r\n\r\n"), ("no end", b"5\r\nhello\r\n"),
        ("an end without CRLF", b"5\r\nhello\r\n0\r\n"), ("a LF as the end", b"5\r\nhello\r\n0\r\n\n"),
    ):
        add(f"chunks with {what}", post + wire + head(b"/second"), body=None)
    for name in ("Content-Length", "Transfer-Encoding", "Host", "X-Forwarded-For", "Connection", "Authorization", "Cookie", "X-Trailer", "Trailer", "Te", "Cache-Control", "X_Trailer"):
        line = f"{name}: 1".encode()
        for declared in ([], [f"Trailer: {name}".encode()]):
            wire = head(method=b"POST", fields=[b"Transfer-Encoding: chunked", *declared])
            add(f"trailer {name}{', declared' if declared else ''}", wire + b"5\r\nhello\r\n0\r\n" + line + b"\r\n\r\n", body=b"hello")
    for what, line in (("no colon", b"hostile"), ("a fold", b"X: y\r\n hostile"), ("a LF", b"X: y\nX: hostile"), ("a NUL", b"X: hostile\x00"), ("a blank before the colon", b"X : hostile")):
        add(f"trailer with {what}", post + b"5\r\nhello\r\n0\r\n" + line + b"\r\n\r\n", mark=escaped(line), body=None)


def line_ends():
    plain = head()
    add("bare LF at every line", plain.replace(b"\r\n", b"\n"))
    add("bare LF at the end", plain[:-2] + b"\n")
    add("bare LF before the end", plain[:-4] + b"\n\r\n")
    add("bare CR at every line", plain.replace(b"\r\n", b"\r"), body=None)
    add("CR CR LF", plain.replace(b"\r\n", b"\r\r\n"), body=None)
    add("LF CR", plain.replace(b"\r\n", b"\n\r"), body=None)
    add("a blank at the end", plain[:-2] + b" \r\n\r\n", body=None)
    add("two requests at once", head(close=False) + head(b"/second"))
    add("a second request behind bare LF", head(close=False)[:-2] + b"\n" + head(b"/second"))
    add("bytes behind the request", plain + b"hostile")


def upgrades():
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    settings = [b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__"]
    marks = b"(?i)http2-settings"
    add("h2c", head(fields=[b"Connection: Upgrade, HTTP2-Settings", *settings], close=False) + preface, mark=marks, body=None)
    add("h2c, settings not named", head(fields=[b"Connection: Upgrade", *settings], close=False) + preface, mark=marks, body=None)
    add("h2c, not named", head(fields=settings), mark=marks, body=None)
    add("h2c to /admin/x", head(b"/admin/x", fields=[b"Connection: Upgrade, HTTP2-Settings", *settings], close=False), mark=marks, body=None)
    add("h2c in POST", head(method=b"POST", fields=[b"Connection: Upgrade, HTTP2-Settings", b"Content-Length: 5", *settings], close=False) + b"hello", mark=marks, body=None)
    key = [b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Version: 13"]
    add("WebSocket that is refused, and a second request", head(fields=[b"Connection: Upgrade", b"Upgrade: websocket", *key], close=False) + head(b"/second"), body=None)
    add("WebSocket of a wrong version", head(fields=[b"Connection: Upgrade", b"Upgrade: websocket", key[0], b"Sec-WebSocket-Version: 777"], close=False) + head(b"/admin/x"), body=None)
    add("Upgrade: TLS/1.0", head(fields=[b"Connection: Upgrade", b"Upgrade: TLS/1.0"], close=False), mark=b"(?i)upgrade: *tls", body=None)
    add("HTTP/2 by prior knowledge, without frames", preface, body=None)


def stream(name, fields, mark=None, body=b"", data=None, trailers=()):
    REQUESTS.append(Request(f"HTTP/2 {name}", mark=mark, body=body, fields=fields, data=data, trailers=list(trailers)))


def pseudo(path=b"/x", method=b"GET", scheme=b"http", authority=HOST):
    named = [(b":method", method), (b":scheme", scheme), (b":path", path), (b":authority", authority)]
    return [(name, value) for name, value in named if value is not None]


def http2_targets():
    for path in (
        b"", b"?x=1", b"#", b"/#a", b"*", b"a", b"http://secret.test/x", b"//secret.test/x", b"/a b", b"/a HTTP/1.1\r\nX-B: hostile", b"/a\nX-B: hostile", b"/a\x00b", b"/a\tb", b"/../admin/x", b"/a/..%2fadmin/x",
        b"/admin/a/../../x", b"/admin/a/%2e%2e/%2e%2e/x", b"/a\\..\\admin\\x", b"//admin/x", b"/%61dmin/x", b"/a\xe9", b'/a"b', b"/a<b", b"/a?\xe9", b"/a%", None,
    ):
        stream(f"path {shown(path) if path is not None else 'missing'}", pseudo(path))
    for method in (b"", b"get", b"post", b"POST", b"GET /admin/x HTTP/1.1", b"GET\r\nX-B: hostile", b"TRACE", b"PURGE", b"G T", b"G:T", None):
        stream(f"method {shown(method) if method is not None else 'missing'}", pseudo(b"/readonly/x", method))
    stream("CONNECT", [(b":method", b"CONNECT"), (b":authority", b"secret.test:80")])
    stream("CONNECT with a path", pseudo(method=b"CONNECT"))
    for scheme in (b"https", b"ftp", b"", b"http://secret.test/admin/x?", b"http\r\nX-B: hostile", b"javascript", None):
        stream(f"scheme {shown(scheme) if scheme is not None else 'missing'}", pseudo(scheme=scheme))


def http2_hosts():
    for authority in (
        b"secret.test", b"SECRET.test", b"secret.test..", b"secret.test.", b"[secret.test]", b"secret.test,example.test", b"user@secret.test", b"secret.test:", b"secret.test:99999", b"secret.test/x", b"secret.test\r\nX-B: hostile",
        b"secret.test\x00", b" secret.test", b"", b"s\xe9cret.test", b"secret.test example.test", b"secret.test\\x", None,
    ):
        stream(f"authority {shown(authority) if authority is not None else 'missing'}", pseudo(authority=authority))
    stream("Host secret.test beside :authority", pseudo() + [(b"host", b"secret.test")])
    stream("Host example.test beside :authority secret.test", pseudo(authority=b"secret.test") + [(b"host", b"example.test")])
    stream("Host secret.test alone", pseudo(authority=None) + [(b"host", b"secret.test")])
    stream("Host twice", pseudo(authority=None) + [(b"host", b"example.test"), (b"host", b"secret.test")])
    stream(":authority twice", pseudo() + [(b":authority", b"secret.test")])
    stream(":path twice", pseudo() + [(b":path", b"/admin/x")])
    stream(":method twice", pseudo() + [(b":method", b"POST")])


def http2_fields():
    for name, value in (
        (b"X-Upper", b"hostile"), (b"connection", b"close"), (b"connection", b"x-hop"), (b"keep-alive", b"hostile"), (b"proxy-connection", b"hostile"), (b"transfer-encoding", b"chunked"), (b"upgrade", b"h2c"), (b"te", b"hostile"),
        (b"te", b"trailers"), (b"http2-settings", b"AAMAAABkAAQAAP__"), (b"x-forwarded-host", b"hostile"), (b"x_forwarded_host", b"hostile"), (b"x-original-url", b"/hostile"), (b"x-a", b"a\r\nx-b: hostile"), (b"x-a", b"a\nx-b: hostile"),
        (b"x-a", b"a\rx-b: hostile"), (b"x-a", b"a\x00hostile"), (b"x-a", b" hostile"), (b"x-a", b"hostile "), (b"x-a", b"hostile\xe9"), (b"x-a", b"hostile\x07"), (b"x a", b"hostile"), (b"x:a", b"hostile"), (b"", b"hostile"), (b"x\r\nx-b", b"hostile"),
        (b"x\x00a", b"hostile"), (b"x\xe9", b"hostile"), (b"x-a: hostile\r\nx", b"y"), (b":status", b"200"), (b":protocol", b"websocket"), (b":unknown", b"hostile"), (b"cookie", b"a=1; b=2"), (b"expect", b"100-continue"), (b"trailer", b"hostile"),
        (b"forwarded", b"for=hostile"), (b"x-forwarded-for", b"hostile"), (b"content_length", b"5"),
    ):
        harmless = (name, value) in ((b"te", b"trailers"), (b"cookie", b"a=1; b=2"), (b"x-forwarded-for", b"hostile"), (b"expect", b"100-continue"), (b"connection", b"close"))
        mark = None if harmless else b"(?i)" + escaped(name) + b": *" + escaped(value.strip())
        stream(f"field {shown(name)}: {shown(value)}", pseudo() + [(name, value)], mark=mark)
    stream("a pseudo field behind another field", [(b"x-a", b"b")] + pseudo())
    stream("cookies on two lines", pseudo() + [(b"cookie", b"a=1"), (b"cookie", b"b=2")])
    for lengths in ([b"0"], [b"0", b"0"], [b"5"], [b"5", b"5"], [b"5", b"6"], [b"5, 5"], [b"+5"], [b"3"], [b"7"], [b""]):
        fields = [(b"content-length", length) for length in lengths]
        stream(f"GET with content-length {shown(b' and '.join(lengths))}", pseudo() + fields, body=None)
        stream(f"POST with content-length {shown(b' and '.join(lengths))}", pseudo(method=b"POST") + fields, data=b"hello", body=None)
    stream("GET with a body", pseudo(), data=b"hello", body=None)
    stream("HEAD with a body", pseudo(method=b"HEAD"), data=b"hello", body=None)
    second = b"GET /second HTTP/1.1\r\nHost: secret.test\r\n\r\n"
    stream("a body that is a request", pseudo(method=b"POST") + [(b"content-length", b"0")], data=second, body=None)
    stream("a body that is a request, with chunks", pseudo(method=b"POST") + [(b"transfer-encoding", b"chunked")], data=b"0\r\n\r\n" + second, body=None)
    for name, value in ((b"content-length", b"1"), (b"transfer-encoding", b"chunked"), (b"host", b"secret.test"), (b":path", b"/admin/x"), (b"x-trailer", b"a"), (b"x-forwarded-for", b"hostile"), (b"x", b"a\r\nb: hostile")):
        stream(f"trailer {shown(name)}", pseudo(method=b"POST"), data=b"hello", trailers=[(name, value)], body=None)


for group in (
    targets, absolute_targets, methods, request_lines, hosts, fields, connection_fields, clients, behind_a_proxy, lengths, codings, chunks, line_ends, upgrades, http2_targets, http2_hosts, http2_fields,
):
    group()
names = [request.name for request in REQUESTS]
assert len(set(names)) == len(names), [name for name in names if names.count(name) > 1]
