"""Frames of HTTP/2 (RFC 9113) by hand: a library would refuse to send most of what the table has."""

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 1, 1, 4, 8, 32
# The static table of HPACK has these statuses (RFC 7541, appendix A); others are literals with name 8.
STATUSES = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
DIGITS = {"00000": "0", "00001": "1", "00010": "2", "011001": "3", "011010": "4", "011011": "5", "011100": "6", "011101": "7", "011110": "8", "011111": "9"}


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def integer(value, bits):
    limit = (1 << bits) - 1
    if value < limit:
        return bytes((value,))
    out, value = [limit], value - limit
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes((*out, value))


def block(fields):
    """The fields as literals without Huffman coding."""
    return b"".join(b"\0" + integer(len(name), 7) + name + integer(len(value), 7) + value for name, value in fields)


def request(fields, data, trailers):
    """A connection's bytes: the preface with the head of one request, and its rest."""
    ends = data is None and not trailers
    out = PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), 1, block(fields))
    body = b""
    if data is not None:
        body += frame(DATA, 0 if trailers else END_STREAM, 1, data)
    if trailers:
        body += frame(HEADERS, END_HEADERS | END_STREAM, 1, block(trailers))
    return out, body


def status(payload):
    """The status at the start of a block of fields."""
    while payload and payload[0] & 0xE0 == 0x20:  # another size of the table
        payload = payload[1:]
    if not payload:
        return "?"
    index = payload[0] & 0x7F
    if payload[0] & 0x80:
        return str(STATUSES.get(index, "?"))
    if payload[0] & 0x3F not in (8, *range(9, 15)):
        return "?"
    length, text = payload[1] & 0x7F, payload[2 : 2 + (payload[1] & 0x7F)]
    if not payload[1] & 0x80:
        return text.decode("latin-1")
    bits, digits = "".join(f"{byte:08b}" for byte in payload[2 : 2 + length]), ""
    while len(digits) < 3:
        code = next((code for code in DIGITS if bits.startswith(code)), None)
        if code is None:
            return "?"
        digits, bits = digits + DIGITS[code], bits[len(code) :]
    return digits


class Reply:
    """What comes back on a connection, while it comes."""

    def __init__(self):
        self.buffer, self.status, self.ended = b"", None, None

    def read(self, received):
        """Returns what has to be sent. `ended` says how stream 1 ended."""
        self.buffer += received
        answer = b""
        while len(self.buffer) >= 9:
            length = int.from_bytes(self.buffer[:3], "big")
            if len(self.buffer) < 9 + length:
                break
            kind, flags = self.buffer[3], self.buffer[4]
            payload, self.buffer = self.buffer[9 : 9 + length], self.buffer[9 + length :]
            if kind == SETTINGS and not flags & ACK:
                answer += frame(SETTINGS, ACK, 0)
            elif kind == HEADERS:
                skipped = (1 if flags & PADDED else 0) + (5 if flags & PRIORITY else 0)
                found = status(payload[skipped:])
                if self.status is None or self.status.startswith("1"):
                    self.status = found
            elif kind == RST_STREAM:
                self.ended = "reset"
            elif kind == GOAWAY:
                self.ended = self.ended or "goaway"
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                self.ended = "end"
        return answer
