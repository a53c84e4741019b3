"""The bytes of NDN packets, of WebSocket frames, of IP datagrams with any source, and of HTTP/2 frames."""

import os
import socket
import struct


def tlv(kind, value):
    """One element: its type, its length and its value."""
    return _number(kind) + _number(len(value)) + value


def _number(value):
    if value < 253:
        return bytes([value])
    if value < 65536:
        return b"\xfd" + struct.pack(">H", value)
    return b"\xfe" + struct.pack(">I", value)


def name(*components):
    """A name element of generic components."""
    return tlv(7, b"".join(tlv(8, component) for component in components))


def interest(encoded_name, lifetime_ms=2000):
    nonce = tlv(10, os.urandom(4))
    return tlv(5, encoded_name + nonce + tlv(12, struct.pack(">H", lifetime_ms)))


def read_number(data, at):
    """A TLV number at `at`: its value and the place behind it; None where it is not all there."""
    if at >= len(data):
        return None
    first = data[at]
    if first < 253:
        return first, at + 1
    size = {253: 2, 254: 4, 255: 8}[first]
    if at + 1 + size > len(data):
        return None
    return int.from_bytes(data[at + 1:at + 1 + size], "big"), at + 1 + size


def read_element(data, at=0):
    """The element at `at`: type, value, and the place behind it; None where it is not all there."""
    kind = read_number(data, at)
    length = kind and read_number(data, kind[1])
    if not length or length[1] + length[0] > len(data):
        return None
    return kind[0], data[length[1]:length[1] + length[0]], length[1] + length[0]


def answered_name(packet):
    """The name element of a Data packet, with or without a link header; None for anything else."""
    found = read_element(packet)
    if found and found[0] == 100:
        at, inner = 0, found[1]
        while (field := read_element(inner, at)) is not None:
            if field[0] == 80:
                return answered_name(field[1])
            at = field[2]
        return None
    if not found or found[0] != 6:
        return None
    inside = read_element(found[1])
    return found[1][:inside[2]] if inside and inside[0] == 7 else None


def fragment(sequence, index, count, payload):
    """An NDNLPv2 fragment."""
    header = tlv(81, struct.pack(">Q", sequence)) + tlv(82, bytes([index])) + tlv(83, bytes([count]))
    return tlv(100, header + tlv(80, payload))


def websocket_request(host):
    return (f"GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n").encode()


def websocket_frame(payload, announced=None):
    """A binary message, masked with zeros; `announced` is the length that its header claims."""
    length = len(payload) if announced is None else announced
    if length < 126:
        head = bytes([0x82, 0x80 | length])
    elif length < 65536:
        head = bytes([0x82, 0xFE]) + struct.pack(">H", length)
    else:
        head = bytes([0x82, 0xFF]) + struct.pack(">Q", length)
    return head + bytes(4) + payload


def udp_datagram(source, source_port, target, target_port, payload):
    """An IPv4 datagram with any source address, for a raw socket."""
    total = 28 + len(payload)
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, total, 0, 0x4000, 64, 17, 0,
                       socket.inet_aton(source), socket.inet_aton(target))
    return head + struct.pack(">HHHH", source_port, target_port, 8 + len(payload), 0) + payload


def http2_frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload
